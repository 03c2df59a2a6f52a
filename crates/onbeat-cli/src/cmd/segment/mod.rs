//! `onbeat segment`: simulated devices for any MainDevice.

mod check;
pub(crate) mod options;
mod orders;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use onbeat::probe::Interruptions;
use onbeat::thread::ThreadRequest;
use onbeat_ethercat::al;
use onbeat_ethercat::carrier::{CarrierError, Interface, Role};
use onbeat_host::foreign;
use onbeat_report::units;
use onbeat_segment::serving::{LOG_QUEUE, Pcap, ServeOptions, serve};
use onbeat_segment::{Description, FaultChange, FaultLog, FaultLogEntry, Link, Segment as Devices};
use onbeat_tune::interfaces::MadeInterface;
use onbeat_tune::{Intent, Journal, Key, LiveHost, Purpose, UndoMode};

use super::repair::repair_first;
use super::{Common, ExitVerdict, Failure, typed};
use crate::signals::{self, EndOf, OnUsr1};
use crate::state::journal_directory;
use crate::term::{Tone, advise, counted, say, wrapped};
use options::{Segment, SegmentRunOptions};

/// Interval and number of looks at a new interface.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const MOST_LOOKS: u32 = 300;
/// Longest name of a network interface.
const LONGEST_NAME: usize = 15;

/// Why a segment cannot run.
#[derive(Debug, thiserror::Error)]
enum SegmentFailure {
    #[error("--device chooses among the devices of an ESI file (.xml), which {path} is not")]
    NoEsi { path: PathBuf },
    #[error(
        "the segment is a ring; name the interface at its far end by --second, or create both by --veth"
    )]
    NoSecond,
    #[error(
        "the segment is not a ring and has no far end; leave --second out, or set `ring = true` in its file"
    )]
    NoRing,
    #[error("\"{name}\" is too long for a pair of interfaces; use at most {most} letters")]
    LongName { name: String, most: usize },
    #[error("cannot run `{line}`: {source}. It is part of iproute2; --interface does not need it")]
    Program { line: String, source: io::Error },
    #[error("`{line}` failed: {why}")]
    ProgramSays { line: String, why: String },
}

pub(crate) fn run(command: &Segment) -> Result<ExitVerdict, Failure> {
    match command {
        Segment::Run(options) => run_segment(options),
        Segment::Check(options) => check::run(options),
        Segment::Fault(options) => orders::fault(options),
        Segment::Heal(options) => orders::heal(options),
        Segment::Status(options) => orders::status(options),
    }
}

fn run_segment(options: &SegmentRunOptions) -> Result<ExitVerdict, Failure> {
    let mut link = link_of(options)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let place = SegmentWire::prepare(options, link.segment().is_ring())?;
    // Unlike a run file, a log of faults and a capture lose what has not been written.
    let _end = EndOf::orderly("the end of its files and the removal of its interfaces");
    let (report, mut capture) = match outlets(options, &link, &interruptions) {
        Ok(outlets) => outlets,
        Err(why) => {
            place.remove();
            return Err(why);
        }
    };

    let (control, orders) = orders::open(&place.ends[0]).unzip();
    be_prompt(options.priority);
    advise(Tone::Plain, &wrapped(&place.description(&link), 80));
    let beside = ServeOptions {
        capture: capture.as_mut(),
        commands: orders,
        log: Some(report.lines.clone()),
    };
    let served = serve(&place.interfaces, &mut link, beside, &interruptions.stop);
    drop(control);
    let ended = capture.map_or(Ok(()), Pcap::end);
    place.remove();
    let written = report.end();
    let unlogged = served?;
    let none = Path::new("");
    ended.map_err(Common::file("write", options.pcap.as_deref().unwrap_or(none)))?;
    written.map_err(Common::file("write", options.log.as_deref().unwrap_or(none)))?;

    if unlogged > 0 {
        let sentence =
            format!("{unlogged} faults took place and are not in the fault log (buffer full)");
        advise(Tone::Careful, &wrapped(&sentence, 80));
    }

    say(Tone::Plain, &summed_up(&link));
    Ok(ExitVerdict::Pass)
}

type Capture = Pcap<BufWriter<File>>;

/// Opens the outputs of a segment's faults and frames, and starts the thread that ends it.
fn outlets(
    options: &SegmentRunOptions,
    link: &Link,
    interruptions: &Arc<Interruptions>,
) -> Result<(FaultReport, Option<Capture>), Failure> {
    let capture = match &options.pcap {
        Some(path) => {
            let failed = Common::file("write", path);
            Some(Pcap::begin(BufWriter::new(File::create(path).map_err(failed)?)).map_err(failed)?)
        }
        None => None,
    };

    if options.duration > 0 {
        let over = Arc::clone(interruptions);
        let duration = Duration::from_nanos(options.duration);
        let end = move || {
            std::thread::sleep(duration);
            over.stop.store(true, Ordering::Relaxed);
        };

        let started = std::thread::Builder::new().name("onbeat-for".to_owned()).spawn(end);
        started.map_err(|source| Common::Thread { what: "the end of the segment", source })?;
    }

    Ok((FaultReport::begin(options, link)?, capture))
}

/// The thread that reports faults, to a file and in the terminal. Frames do not wait for it.
struct FaultReport {
    lines: SyncSender<FaultLogEntry>,
    thread: JoinHandle<io::Result<()>>,
}

impl FaultReport {
    fn begin(options: &SegmentRunOptions, link: &Link) -> Result<Self, Failure> {
        let to: Box<dyn Write + Send> = match &options.log {
            Some(path) => {
                let file = File::create(path).map_err(Common::file("write", path))?;
                Box::new(BufWriter::new(file))
            }
            None => Box::new(io::sink()),
        };

        let mut log = FaultLog::new(link.segment(), to);
        let (lines, waiting) = sync_channel::<FaultLogEntry>(LOG_QUEUE);
        let write = move || {
            while let Ok(first) = waiting.recv() {
                for line in std::iter::once(first).chain(waiting.try_iter()) {
                    log.record(&line)?;
                    // Faults of single frames would be too many lines.
                    if line.what != FaultChange::Affects {
                        advise(Tone::Plain, &log.sentence(&line));
                    }
                }
                log.flush()?;
            }
            Ok(())
        };

        let started = std::thread::Builder::new().name("onbeat-faults".to_owned()).spawn(write);
        let thread =
            started.map_err(|source| Common::Thread { what: "the log of faults", source })?;
        Ok(Self { lines, thread })
    }

    fn end(self) -> io::Result<()> {
        drop(self.lines);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes it failed")))
    }
}

/// Requests the priority of the devices, and reports the cost of a refusal.
fn be_prompt(priority: u32) {
    let fifo = (priority > 0).then_some(priority);
    let wanted = ThreadRequest { fifo, cpu: None, lock_memory: false, dma_latency_us: None };
    for grant in wanted.prepare_thread().iter().filter(|grant| !grant.granted) {
        let why = grant.why_not.as_deref().unwrap_or_default();
        let sentence = format!(
            "the devices have no real-time priority: {why}. On a busy machine they answer late"
        );
        advise(Tone::Careful, &wrapped(&sentence, 80));
    }
}

fn link_of(options: &SegmentRunOptions) -> Result<Link, Failure> {
    let file = &options.file;
    let is_esi = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml"));
    if !options.device.is_empty() && !is_esi {
        return Err(SegmentFailure::NoEsi { path: file.clone() }.into());
    }

    let description = if file == Path::new("humanoid") {
        Description::from_toml(Devices::HUMANOID)?
    } else if is_esi {
        let bytes =
            foreign::read(file, foreign::MOST_BYTES_BY_HAND).map_err(Common::file("read", file))?;
        Description::from_esi(&bytes, &file.display().to_string(), &options.device)?
    } else {
        Description::from_file(file)?
    };

    for warning in description.warnings() {
        advise(Tone::Careful, &wrapped(&warning, 80));
    }
    Ok(Link::from_description(&description)?)
}

/// What the segment did, in one line.
fn summed_up(link: &Link) -> String {
    let counts = link.counts();
    let segment = link.segment();
    let in_state = |state: u8| {
        let all = (0..segment.len()).filter_map(|device| segment.status(device));
        let count = all.filter(|status| status.al_state == state).count();
        let word = al::state_name(state)?;
        (count > 0).then(|| format!("{count} in {word}"))
    };
    let states = [al::INIT, al::PREOP, al::SAFEOP, al::OP].into_iter().filter_map(in_state);
    let states: Vec<String> = states.collect();
    let lost = counts.lost + counts.swallowed + counts.no_room;
    let sent = units::counted(counts.sent, "frame");
    format!("{sent}, {lost} of them lost; devices: {}", states.join(", "))
}

/// The interfaces of a segment, and those that are removed at its end.
struct SegmentWire {
    /// One interface, or two for the ends of a ring.
    interfaces: Vec<Interface>,
    /// The interface for the MainDevice, which the segment's socket is named after, and for a ring a
    /// second one.
    ends: Vec<String>,
    made: Option<MadePairs>,
}

impl SegmentWire {
    fn prepare(options: &SegmentRunOptions, is_ring: bool) -> Result<Self, Failure> {
        let names = |name: &String| {
            let second = is_ring.then(|| format!("{name}b"));
            std::iter::once(name.clone()).chain(second).collect::<Vec<_>>()
        };

        if let Some(name) = &options.tap {
            let ends = names(name);
            let mut interfaces = Vec::new();
            for end in &ends {
                interfaces.push(Interface::make_tap(end)?);
                ip(&["link", "set", end, "up"])?;
            }

            return Ok(Self { interfaces, ends, made: None });
        }

        if let Some(name) = &options.veth {
            let ends = names(name);
            let longest = ends.iter().map(String::len).max().unwrap_or_default() + "-seg".len();
            if longest > LONGEST_NAME {
                let most = LONGEST_NAME + name.len() - longest;
                return Err(SegmentFailure::LongName { name: name.clone(), most }.into());
            }

            let mut pairs = MadePairs::begin()?;
            let opened: Result<Vec<_>, _> = ends.iter().map(|end| pairs.make(end)).collect();
            return match opened {
                Ok(interfaces) => Ok(Self { interfaces, ends, made: Some(pairs) }),
                Err(why) => {
                    pairs.remove();
                    Err(why)
                }
            };
        }

        let first = options.interface.clone().unwrap_or_default();
        let ends = match (&options.second, is_ring) {
            (Some(second), true) => vec![first, second.clone()],
            (None, false) => vec![first],
            (None, true) => return Err(SegmentFailure::NoSecond.into()),
            (Some(_), false) => return Err(SegmentFailure::NoRing.into()),
        };

        let opened = ends.iter().map(|end| Interface::open_as(end, Role::Devices));
        let interfaces = opened.collect::<Result<_, _>>()?;
        Ok(Self { interfaces, ends, made: None })
    }

    fn description(&self, link: &Link) -> String {
        let devices = link.segment().len();
        let name = link.segment().name();
        let ends = match self.ends.as_slice() {
            [first, second] => format!("{first} and {second}, the two ends of a ring"),
            ends => ends.concat(),
        };
        let answer = if devices == 1 { "answers" } else { "answer" };
        let devices = counted(devices, "device");
        format!("{devices} of \"{name}\" {answer} on {ends}; Ctrl-C ends them")
    }

    fn remove(self) {
        drop(self.interfaces);
        if let Some(made) = self.made {
            made.remove();
        }
    }
}

/// Pairs of interfaces that this segment makes, on record before they are made: if it is killed, its
/// guard removes them.
struct MadePairs {
    host: LiveHost,
    journal: Journal,
}

impl MadePairs {
    fn begin() -> Result<Self, Failure> {
        repair_first()?;
        let host = LiveHost::new();
        let purpose = Purpose::new("segment", typed().join(" "));
        let journal = Journal::begin_beside(&journal_directory(), &host, &purpose)?;
        Ok(Self { host, journal })
    }

    /// Makes a pair of interfaces, and opens the devices' end. A pair that exists and that no other
    /// segment uses is used, and stays: it belongs to its maker.
    fn make(&mut self, name: &str) -> Result<Interface, Failure> {
        let far = format!("{name}-seg");
        let Ok(there) = Interface::open(&far) else {
            self.add(name, &far)?;
            return open_far_end(name, &far);
        };

        if let Some(user) = there.user(Role::Devices) {
            let (role, name) = (Role::Devices.words(), name.to_owned());
            return Err(CarrierError::InUse { role, name, user }.into());
        }
        let opened = open_far_end(name, &far)?;
        let sentence =
            format!("uses {name} and {far}, which exist already; they stay when it ends");
        advise(Tone::Careful, &wrapped(&sentence, 80));
        Ok(opened)
    }

    fn add(&mut self, name: &str, far: &str) -> Result<(), Failure> {
        let kind = "veth";
        let made =
            MadeInterface::fresh(name, kind).map_err(Common::file("read", Path::new("/proc")))?;
        let address = made.address.clone();
        let key = Key::Interface(made);
        self.journal.intend(Intent::new("segment.interface", key, "absent", "present"))?;
        ip(&["link", "add", "name", name, "address", &address, "type", kind, "peer", "name", far])?;
        Ok(())
    }

    /// Removes the pairs; one that stays is reported, and stays on record.
    fn remove(mut self) {
        let undone = self.journal.undo_all(&self.host, UndoMode::Careful).map(drop);
        if let Err(why) = undone.and_then(|()| self.journal.close()) {
            advise(Tone::Careful, &why.to_string());
        }
    }
}

fn open_far_end(name: &str, far: &str) -> Result<Interface, Failure> {
    for end in [name, far] {
        ip(&["link", "set", end, "up"])?;
    }
    wait_until_up(name)?;
    Ok(Interface::open_as(far, Role::Devices)?)
}

/// A new interface drops what is sent before the kernel has noticed its carrier, a moment after
/// `up`.
fn wait_until_up(name: &str) -> Result<(), Failure> {
    for _ in 0..MOST_LOOKS {
        if ip(&["-o", "link", "show", name])?.contains("state UP") {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Runs `ip` of iproute2.
fn ip(words: &[&str]) -> Result<String, Failure> {
    let line = format!("ip {}", words.join(" "));
    let done = Command::new("ip")
        .args(words)
        .output()
        .map_err(|source| SegmentFailure::Program { line: line.clone(), source })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }

    let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(SegmentFailure::ProgramSays { line, why }.into())
}
