//! Reads run files back, as far as they go.

use std::io;
use std::path::{Path, PathBuf};

use super::boards::BoardAccount;
use super::chain::ChainNote;
use super::distribution::{Distribution, MOST_SAMPLES};
use super::events::{EventNote, EventsLeftOut};
use super::exclusion::ExclusionNote;
use super::histogram::LONGEST_NS;
use super::imported::Import;
use super::joint_steps::JointSteps;
use super::moments::Moments;
use super::motion::MotionNote;
use super::noise::NoiseAccount;
use super::note::{
    Account, Bench, Block, Header, Interval, LoadEvent, Maxima, Note, Resume, SpikeNote, StepNote,
};
use super::note_numbers::NoteNumbers;
use super::packets::PacketAccount;
use super::payload::Decoder;
use super::robot::{DevicesNote, RobotNote};
use super::seconds::Seconds;
use super::series::Series;
use super::trend::Trend;
use super::window::WindowNote;
use super::writer_lock::is_being_written;
use onbeat_host::idle::PowerUse;

/// Longest run file that is read, in bytes; one of a month at 1 kHz is far shorter.
const MOST_BYTES: u64 = 4 << 30;

/// Longest time of a histogram line, in seconds: 30,000 years.
pub(super) const MOST_SECONDS: f64 = 1e12;

/// A file could not be read as a run file.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It cannot be resumed while another process writes it.
    #[error(
        "{path} is being written by a running measurement; wait for it to end, or start a new run without --resume"
    )]
    BeingWritten {
        /// Which file.
        path: PathBuf,
    },
    /// It is not a run file.
    #[error(
        "{path} is not an onbeat run file: line {line} should be `#[onbeat: {{\"run\":...}}]`, the note every run \
         file begins with (docs/format.md); onbeat import reads files of other tools"
    )]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// The line that shows it, from 1.
        line: usize,
    },
    /// A whole line is not valid.
    #[error("{path}, line {line}: {reason}; {}", whole_lines(*.before))]
    Broken {
        /// Which file.
        path: PathBuf,
        line: usize,
        /// Lines before it.
        before: usize,
        /// What is wrong with it.
        reason: String,
    },
}

fn whole_lines(before: usize) -> String {
    match before {
        0 => "it is the first line".to_owned(),
        1 => "the line before it is whole".to_owned(),
        many => format!(
            "the {many} lines before it are whole, and a file of them alone (head -n {many}) is read"
        ),
    }
}

/// One histogram line.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which series.
    pub series: Series,
    /// Start of the interval, in seconds since the file's start.
    pub t: f64,
    /// Its length in seconds.
    pub length: f64,
    /// The block it belongs to, when blocks are noted.
    pub block: Option<u32>,
    /// What was counted.
    pub counts: Distribution,
}

/// The content of a run file.
///
/// ```no_run
/// use std::path::Path;
/// use onbeat_record::{RunFile, Series};
///
/// let run = RunFile::read(Path::new("onbeat-runs/latest/timer.onbeat.hlog"))?;
/// let latency = run.distribution(Series::ReleaseLatency);
/// println!("{} releases, {} later than 100 µs", latency.count(), latency.count_above(100_000));
/// # Ok::<(), onbeat_record::RunFileError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunFile {
    /// The path it was read from.
    pub path: PathBuf,
    /// What the run is.
    pub header: Header,
    /// What the bench is, when this is a bench's own file.
    pub bench: Option<Bench>,
    /// Where it comes from, when another tool recorded it.
    pub import: Option<Import>,
    /// Stretches of the loop.
    pub blocks: Vec<Block>,
    /// Histogram lines, in order.
    pub entries: Vec<Entry>,
    /// Exact figures per interval.
    pub intervals: Vec<Interval>,
    /// Largest values per second, in long runs.
    pub maxima: Vec<Maxima>,
    /// A few figures per step of time.
    pub trends: Vec<Trend>,
    /// Exact figures second by second, where they were asked for.
    pub seconds: Vec<Seconds>,
    /// Kept spikes.
    pub spikes: Vec<SpikeNote>,
    /// What the CPUs did around some of them.
    pub windows: Vec<WindowNote>,
    /// What happened to loads.
    pub loads: Vec<LoadEvent>,
    /// Loads of a sweep, in a bench's own file.
    pub steps: Vec<StepNote>,
    /// Stretches that are in no series, because something around the loop changed.
    pub exclusions: Vec<ExclusionNote>,
    /// Events of the bus and the robot on it.
    pub events: Vec<EventNote>,
    /// How many events have no note; known when the run has ended.
    pub events_left_out: EventsLeftOut,
    /// The packets, device by device; the last one counts.
    pub packets: Option<PacketAccount>,
    /// The edges between two boards; the last one counts.
    pub boards: Option<BoardAccount>,
    /// What a polling thread saw of its CPU; the last one counts.
    pub noise: Option<NoiseAccount>,
    /// The chain through a bus that the run measures.
    pub chain: Option<ChainNote>,
    /// What a robot did, all blocks together.
    pub motion: Option<MotionNote>,
    pub robot: Option<RobotNote>,
    pub joints: Vec<JointSteps>,
    /// Its bus and devices; the last one counts.
    pub devices: Option<DevicesNote>,
    /// How the CPUs of the loop rested and how fast they ran, all blocks together.
    pub power: Option<PowerUse>,
    /// Remarks, as sentences.
    pub remarks: Vec<String>,
    /// Where the run was resumed.
    pub resumes: Vec<Resume>,
    /// The closing line; `None` if the file is truncated or was extended afterwards.
    pub end: Option<Account>,
    /// Whether its writer was alive when it was read.
    pub goes_on: bool,
    /// The last closing line that something came after, and how many intervals stand before it.
    closed: Option<(Account, usize)>,
    /// Whether the last line was cut in the middle and left out.
    pub cut_line: bool,
}

impl RunFile {
    /// Reads a file from disk.
    ///
    /// # Errors
    /// [`RunFileError`], with path and line. A last line that was cut off in the middle is not an
    /// error.
    pub fn read(path: &Path) -> Result<Self, RunFileError> {
        Self::read_with_bytes(path).map(|(run, _)| run)
    }

    /// Reads a file from disk, and returns its bytes as well.
    ///
    /// # Errors
    /// As [`RunFile::read`].
    pub fn read_with_bytes(path: &Path) -> Result<(Self, Vec<u8>), RunFileError> {
        // Asked before the bytes are read: a writer that ends in between leaves a closed file,
        // which is then simply complete.
        let is_being_written = is_being_written(path);
        let bytes = onbeat_host::foreign::read(path, MOST_BYTES)
            .map_err(|source| RunFileError::Read { path: path.to_owned(), source })?;
        let mut run = Self::parse(path, &bytes)?;
        run.goes_on = is_being_written && !run.is_complete();
        Ok((run, bytes))
    }

    /// Reads a file's bytes; `path` is for messages only.
    ///
    /// # Errors
    /// As [`RunFile::read`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RunFileError> {
        // A crash cuts the last line at any byte. Everything up to the last end of line is as it
        // was written.
        let (whole, rest) = match bytes.iter().rposition(|&b| b == b'\n') {
            Some(last) => bytes.split_at(last + 1),
            None => (&[][..], bytes),
        };

        // An editor of Windows adds a byte order mark.
        let whole = whole.strip_prefix(b"\xef\xbb\xbf").unwrap_or(whole);
        let decoder = Decoder::of_run_files();
        let numbers = NoteNumbers::default();
        let mut parser = Parser { path, run: None, line: 0, samples: 0, numbers, decoder };
        for line in whole.split(|&b| b == b'\n') {
            parser.line += 1;
            if parser.line == 1 && line.starts_with(&[0x1f, 0x8b]) {
                return Err(parser.broken("packed by gzip; unpack it first with gunzip"));
            }
            parser.line(line)?;
        }

        let foreign = RunFileError::Foreign { path: path.to_owned(), line: parser.line.min(2) };
        let mut run = parser.run.ok_or(foreign)?;
        run.cut_line = !rest.is_empty();
        // Files hold either all releases and the skipped ones, or the served and the skipped ones,
        // depending on the version that wrote them. The third of the three follows from the other
        // two, so that readers meet all of them.
        run.derive_latencies();
        Ok(run)
    }

    /// Whether the file is complete: with its closing line, or imported.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.end.is_some() || self.import.as_ref().is_some_and(|import| !import.is_closed_by_a_line)
    }

    /// Returns the account of the run: its closing line, or the sum of its intervals. Cycles of the
    /// warm-up are not known of parts that were cut off.
    #[must_use]
    pub fn account(&self) -> Account {
        if let Some(end) = &self.end {
            return end.clone();
        }

        let (closed, counted) = self.closed.clone().unwrap_or_default();
        let mut since = Account::default();
        // Without a closing line the intervals are the account; what an earlier part closed is in
        // its line and not added twice.
        self.intervals.iter().skip(counted).for_each(|interval| since.add_interval(interval));
        closed.and(&since)
    }

    /// How the samples of one series are distributed, over the whole run.
    #[must_use]
    pub fn distribution(&self, series: Series) -> Distribution {
        Distribution::merged(
            self.entries.iter().filter(|entry| entry.series == series).map(|entry| &entry.counts),
        )
    }

    /// The same for one block.
    #[must_use]
    pub fn distribution_in_block(&self, series: Series, block: u32) -> Distribution {
        let of_block = |entry: &&Entry| entry.series == series && entry.block == Some(block);
        Distribution::merged(self.entries.iter().filter(of_block).map(|entry| &entry.counts))
    }

    /// Whether count, extremes and mean are all that is known of a series, so that its distribution is none.
    #[must_use]
    pub fn is_figures_only(&self, series: Series) -> bool {
        self.import.as_ref().is_some_and(|import| import.figures_only.contains(&series))
    }

    /// What the CPUs did around a spike, when the file keeps it.
    #[must_use]
    pub fn window_of(&self, spike: &SpikeNote) -> Option<&WindowNote> {
        self.windows
            .iter()
            .find(|window| (window.block, window.index) == (spike.block, spike.index))
    }

    /// Exact moments of one series over the whole run. What stands in histograms without an
    /// interval note after them, because the file was cut off there, is not in these.
    #[must_use]
    pub fn moments(&self, series: Series) -> Moments {
        self.intervals
            .iter()
            .fold(Moments::default(), |all, interval| all.merged(interval.moments(series)))
    }

    /// The largest value that a series can have had: its maximum, of another tool's run the end of
    /// its cell where that tool rounded it down. 0 where no maximum is stated, or it is 0.
    #[must_use]
    pub fn most_ns(&self, series: Series) -> u64 {
        let max_ns = self.moments(series).max_ns;
        let resolution = self.import.as_ref().and_then(|import| import.resolution.get(&series));
        resolution.filter(|_| max_ns > 0).map_or(max_ns, |of| of.most_ns(max_ns))
    }

    /// Wake-up latency is what is left of release latency without the skipped releases. Files of
    /// imported runs know no releases, and record wake-up latency itself.
    fn derive_latencies(&mut self) {
        // The other tool's series stand as they are: nothing of theirs is derived.
        if self.import.is_some() {
            return;
        }

        let entries = std::mem::take(&mut self.entries);
        let mut group = Releases::default();
        for entry in entries {
            if group.is_over_before(&entry) {
                self.entries.extend(std::mem::take(&mut group).derived());
            }
            group.take_in(&entry);
            self.entries.push(entry);
        }

        self.entries.extend(group.derived());
    }
}

/// Histogram lines of one interval that count releases.
#[derive(Default)]
struct Releases {
    all: Option<Entry>,
    served: Option<Entry>,
    skipped: Option<Entry>,
}

impl Releases {
    fn place(&mut self, series: Series) -> Option<&mut Option<Entry>> {
        match series {
            Series::ReleaseLatency => Some(&mut self.all),
            Series::WakeupLatency => Some(&mut self.served),
            Series::SkippedLatency => Some(&mut self.skipped),
            _ => None,
        }
    }

    fn any(&self) -> Option<&Entry> {
        self.all.as_ref().or(self.served.as_ref()).or(self.skipped.as_ref())
    }

    /// Whether a line belongs to a later interval, or to another part of this one.
    fn is_over_before(&mut self, entry: &Entry) -> bool {
        // By bits: both come from the same text, and rounding must not join two intervals.
        let is_apart = self
            .any()
            .is_some_and(|any| (any.block, any.t.to_bits()) != (entry.block, entry.t.to_bits()));
        // A part that was written out early repeats its series at another time, or, in files made
        // by hand, at the same one.
        let is_second = self.place(entry.series).is_some_and(|place| place.is_some());
        is_apart || is_second
    }

    fn take_in(&mut self, entry: &Entry) {
        if let Some(place) = self.place(entry.series) {
            *place = Some(entry.clone());
        }
    }

    /// The line that is not in the file, because it follows from the others.
    fn derived(self) -> Option<Entry> {
        let (series, like, counts) = match (self.all, self.served, self.skipped) {
            // Buckets are subtracted, not samples. Both histograms have the same digits, so that a
            // bucket of one is a bucket of the other.
            (Some(all), None, skipped) => {
                let counts = skipped.map_or_else(
                    || all.counts.clone(),
                    |skipped| all.counts.without(&skipped.counts),
                );
                (Series::WakeupLatency, all, counts)
            }
            (None, Some(served), skipped) => {
                let counts = Distribution::merged(
                    [&served.counts].into_iter().chain(skipped.iter().map(|s| &s.counts)),
                );
                (Series::ReleaseLatency, served, counts)
            }
            // Nothing was served in it: every release of the interval was passed over.
            (None, None, Some(skipped)) => {
                (Series::ReleaseLatency, skipped.clone(), skipped.counts)
            }
            _ => return None,
        };
        (counts.count() > 0).then_some(Entry { series, counts, ..like })
    }
}

impl Interval {
    /// Exact moments of one series. Those of all releases are those of served and skipped ones
    /// together.
    #[must_use]
    pub fn moments(&self, series: Series) -> Moments {
        let of = |series: Series| self.series.get(&series).copied().unwrap_or_default();
        match series {
            Series::ReleaseLatency => of(Series::WakeupLatency).merged(of(Series::SkippedLatency)),
            // Each series has its own, but for the one that is the union of two.
            series => of(series),
        }
    }
}

struct Parser<'p> {
    path: &'p Path,
    run: Option<RunFile>,
    line: usize,
    /// Samples of all histograms so far.
    samples: u64,
    numbers: NoteNumbers,
    decoder: Decoder,
}

impl Parser<'_> {
    fn line(&mut self, line: &[u8]) -> Result<(), RunFileError> {
        let Ok(line) = std::str::from_utf8(line) else {
            // Before the first note, it is a picture or an archive.
            self.begun()?;
            return Err(self.broken("not UTF-8 text"));
        };
        let line = line.trim_end_matches('\r');
        if let Some(json) = line.strip_prefix("#[onbeat: ").and_then(|rest| rest.strip_suffix(']'))
        {
            self.note(json)
        } else if line.is_empty() || line.starts_with('#') || line.starts_with('"') {
            Ok(())
        } else {
            self.histogram(line)
        }
    }

    fn note(&mut self, json: &str) -> Result<(), RunFileError> {
        let note: Note = match serde_json::from_str(json) {
            Ok(note) => note,
            Err(_) if is_of_a_later_kind(json) => return Ok(()),
            Err(why) => return Err(self.broken(&format!("a note that cannot be read ({why})"))),
        };

        if let Some(reason) = self.numbers.refusal(&note, json) {
            return Err(self.broken(&reason));
        }

        if let (Note::Run(header), None) = (&note, &self.run) {
            let (schema, own) = (&header.schema, Header::SCHEMA);
            if schema_number(schema) > schema_number(own) {
                let reason = format!("its schema is {schema}, this onbeat reads {own}");
                return Err(self.broken(&reason));
            }
            let (path, header) = (self.path.to_owned(), (**header).clone());
            self.run = Some(RunFile { path, header, ..RunFile::default() });
            return Ok(());
        }

        if let Note::Run(_) = note {
            return Err(self
                .broken("a second header: several run files in one, whose figures would add up"));
        }
        let run = self.begun()?;
        match note {
            Note::Run(_) => {}
            Note::Bench(bench) => run.bench = Some(*bench),
            Note::Import(import) => run.import = Some(*import),
            Note::Block(block) => {
                run.open_again();
                run.blocks.push(block);
            }
            Note::Resume(resume) => {
                run.open_again();
                run.resumes.push(resume);
            }
            Note::Interval(interval) => run.intervals.push(*interval),
            Note::Maxima(maxima) => run.maxima.push(maxima),
            Note::Step(step) => run.steps.push(step),
            Note::Exclusion(exclusion) => run.exclusions.push(exclusion),
            Note::Event(event) => run.events.push(event),
            Note::EventsLeftOut(left_out) => run.events_left_out.add(&left_out),
            Note::Packets(packets) => run.packets = Some(*packets),
            Note::Boards(boards) => run.boards = Some(*boards),
            Note::Noise(noise) => run.noise = Some(*noise),
            Note::Chain(chain) => run.chain = Some(*chain),
            Note::Motion(motion) => {
                run.motion = Some(run.motion.take().unwrap_or_default().and(&motion));
            }
            Note::Robot(robot) => run.robot = Some(*robot),
            Note::Joints(steps) => run.joints.push(steps),
            Note::Devices(devices) => run.devices = Some(*devices),
            Note::Power(power) => {
                let earlier = run.power.take();
                run.power = Some(match earlier {
                    Some(earlier) => earlier.and(&power.used),
                    None => power.used,
                });
            }
            Note::Remark(remark) => run.remarks.push(remark.sentence),
            Note::Seconds(seconds) => run.seconds.push(*seconds),
            Note::Trend(trend) => run.trends.push(*trend),
            Note::Spike(spike) => {
                run.spikes.push(SpikeNote { number: run.spikes.len() as u64 + 1, ..spike });
            }
            Note::Window(window) => run.windows.push(*window),
            Note::Load(event) => run.loads.push(event),
            Note::End(account) => {
                let lost_lines = run.lost_lines(&account);
                run.end = Some(account);
                if let Some(reason) = lost_lines {
                    return Err(self.broken(&reason));
                }
            }
        }

        Ok(())
    }

    fn histogram(&mut self, line: &str) -> Result<(), RunFileError> {
        self.begun()?;
        let (tag, rest) = match line.strip_prefix("Tag=") {
            None => (Series::ReleaseLatency.tag(), line),
            Some(tagged) => tagged
                .split_once(',')
                .ok_or_else(|| self.broken("a histogram line that ends in its tag"))?,
        };

        let Some(series) = Series::from_tag(tag) else { return Ok(()) };
        let mut fields = rest.splitn(4, ',');
        let mut number = || {
            let read = fields.next().and_then(|text| text.parse::<f64>().ok());
            read.filter(|number| number.abs() <= MOST_SECONDS)
        };
        let (Some(t), Some(length), Some(_max)) = (number(), number(), number()) else {
            return Err(self.broken("a histogram line whose times are not numbers in range"));
        };
        if length < 0.0 {
            return Err(
                self.broken("a histogram line whose interval has a negative length, out of range")
            );
        }
        let counts = self.decode(series, fields.next().unwrap_or_default())?;
        self.samples += counts.count();
        if self.samples > MOST_SAMPLES {
            return Err(self.broken("more than 2^53 samples up to here"));
        }
        let run = self.begun()?;
        let resolution = run.import.as_ref().and_then(|import| import.resolution.get(&series));
        let counts = match resolution {
            Some(resolution) => counts.at(resolution),
            None => counts,
        };

        let block = run.blocks.last().map(|block| block.index);
        run.entries.push(Entry { series, t, length, block, counts });
        Ok(())
    }

    fn decode(&mut self, series: Series, base64: &str) -> Result<Distribution, RunFileError> {
        let expected = (1, LONGEST_NS, u32::from(series.digits()));
        let read = self.decoder.decode(base64.as_bytes());
        let read = read.map(|encoded| match encoded.bounds {
            found if found != expected => Err(found),
            _ => Ok(Distribution::from_encoded(&encoded, LONGEST_NS)),
        });
        let reason = match read {
            Ok(Ok(Ok(counts))) => return Ok(counts),
            Ok(Ok(Err(why))) | Err(why) => why.to_string(),
            Ok(Err(found)) => {
                format!("a histogram with bounds {found:?} where {series:?} has {expected:?}")
            }
        };
        Err(self.broken(&reason))
    }

    fn begun(&mut self) -> Result<&mut RunFile, RunFileError> {
        let foreign = RunFileError::Foreign { path: self.path.to_owned(), line: self.line };
        self.run.as_mut().ok_or(foreign)
    }

    fn broken(&self, reason: &str) -> RunFileError {
        RunFileError::Broken {
            path: self.path.to_owned(),
            line: self.line,
            before: self.line - 1,
            reason: reason.to_owned(),
        }
    }
}

/// A schema that old readers cannot pass over has a higher number.
fn schema_number(schema: &str) -> Option<u64> {
    schema.strip_prefix("onbeat.run/")?.parse().ok()
}

/// Only a note whose kind is unknown is passed over: one of a known kind that cannot be read holds
/// figures of the run. Events hold none, and later versions know more kinds of them.
fn is_of_a_later_kind(json: &str) -> bool {
    let note: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(json).ok();
    note.is_some_and(|note| {
        note.keys().all(|kind| kind.starts_with("event") || !Note::KINDS.contains(&kind.as_str()))
    })
}

impl RunFile {
    /// What is wrong where a closing line has more cycles than the intervals before it, apart from
    /// those that no interval has to have.
    fn lost_lines(&self, end: &Account) -> Option<String> {
        let counted = self.intervals.iter().fold(0_u64, |all, of| all.saturating_add(of.cycles));
        let in_none = end.warmup.saturating_add(end.excluded).saturating_add(end.untold);
        let is_lost = self.import.is_none() && end.cycles > counted.saturating_add(in_none);
        is_lost.then(|| {
            let all = end.cycles;
            format!(
                "it closes {all} cycles, the intervals before it have {counted}: lines are lost"
            )
        })
    }

    /// Reopens a run whose closing line is not its last.
    fn open_again(&mut self) {
        if let Some(end) = self.end.take() {
            self.closed = Some((end, self.intervals.len()));
        }
    }
}
