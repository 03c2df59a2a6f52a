//! The application test: a command leaves the host, a servo in the guest gets its edge, the answer is
//! back.
//!
//! In the guest `onbeat agent answer` at real-time priority answers on a virtio-serial port; outside of
//! a guest the same program answers on a socket, on the CPU of the guest. What is measured is the
//! way to the edge: the host's device, the wake-up in the guest, the write. The answer has the
//! instant of the edge by the guest's clock, which is joined with the host's by exchanges before and
//! after, where the guest has the page for them, and by the commands themselves. In virtual time the
//! guest stands still for each command, and both instants are those of its ACPI timer.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onbeat::thread::ThreadRequest;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::measure::StudyBench;
use super::servo::{Pulse, Servo};
use super::store::Answers;
use crate::joined::{self, ClockRelation, ExchangeHost, PageExchange, SharedPage};
use crate::vm::CONSOLE;
use crate::vm::pm_timer::{self, HeldGuest, PmTimer};
use crate::vm::process;

/// Name of the port in the guest, and of the socket in its directory.
pub(super) const PORT: &str = "onbeat.app";
const SOCKET: &str = "app";
/// Priority of the program that answers, and of the thread that sends.
const PRIORITY: u32 = 50;
/// Time between an answer and the next command: long enough for a CPU to become idle.
const PAUSE: Duration = Duration::from_millis(1);
/// How often a guest that is not ready is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// What the guest sends when it is ready: without a clock for both sides, with the page for exchanges,
/// with a timer, whose port follows.
const READY: &[u8; 6] = b"ready\n";
const READY_BY_PAGE: &[u8; 6] = b"clock\n";
const READY_BY_TIMER: &[u8; 6] = b"timer\n";
const COMMAND_LENGTH: usize = 8;
/// The command, the instant of its edge, the pulses so far, the timer, and how long after the edge it
/// was read at the latest.
const ANSWER_LENGTH: usize = COMMAND_LENGTH + 20;
/// The number of a command that has the guest exchange clocks again.
const EXCHANGE: u32 = u32::MAX;
/// Exchanges of clocks before the commands and after them.
const EXCHANGES: u64 = 500;

/// Arguments of QEMU for the port.
pub(super) fn port_arguments() -> Vec<String> {
    let line = format!(
        "-chardev socket,id=app,path={SOCKET},server=on,wait=off -device virtserialport,chardev=app,name={PORT}"
    );
    line.split(' ').map(str::to_owned).collect()
}

/// What the guest's first serial port says when it is about to answer. Until then the host lets the port be: in
/// virtual time nothing that it does may change what was measured before.
const ABOUT_TO_ANSWER: &str = "onbeat: answers";

/// The script of the guest that answers until the host closes the port.
pub(super) fn answering_script(output: Option<&str>, by_timer: bool) -> String {
    let timer = if by_timer { " --timer" } else { "" };
    let output = output.map(|output| format!(" --output {output}")).unwrap_or_default();
    format!(
        "echo '{ABOUT_TO_ANSWER}' > /dev/ttyS0; onbeat agent answer --port {PORT}{timer}{output}"
    )
}

/// Opens a virtio-serial port of this machine by its name.
///
/// # Errors
/// `NotFound` without such a port, and the kernel's answer when it is in use.
pub fn open_port(name: &str) -> io::Result<File> {
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let path = entry?.path();
        let found = fs::read_to_string(path.join("name")).unwrap_or_default();
        if found.trim() == name
            && let Some(device) = path.file_name()
        {
            return File::options().read(true).write(true).open(Path::new("/dev").join(device));
        }
    }

    Err(io::ErrorKind::NotFound.into())
}

/// Where commands are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweringSide {
    /// In a guest; its clock is joined with the host's where it has the page for that.
    Guest,
    /// In a guest in virtual time, which sends its ACPI timer with each answer.
    VirtualGuest,
    /// On this machine, on that CPU where one is given.
    Host(Option<u32>),
}

/// Says that it is ready, and moves the servo for each command until the other side closes. Blocks;
/// the thread gets real-time priority where that is permitted.
///
/// # Errors
/// The kernel's.
pub fn answer(port: &mut File, servo: &mut Servo, side: AnsweringSide) -> io::Result<()> {
    let cpu = if let AnsweringSide::Host(cpu) = side { cpu } else { None };
    // Before the greeting: the first command would wait for it.
    let request =
        ThreadRequest { fifo: Some(PRIORITY), cpu, lock_memory: true, ..ThreadRequest::default() };
    // Refused rights are those of the whole study, which says so.
    let _held = request.prepare_process();
    let _ = request.prepare_thread();

    let page = (side == AnsweringSide::Guest).then(SharedPage::of_this_guest).and_then(Result::ok);
    let timer =
        (side == AnsweringSide::VirtualGuest).then(PmTimer::of_this_guest).and_then(Result::ok);
    match (&page, &timer) {
        (Some(_), _) => port.write_all(READY_BY_PAGE)?,
        (None, Some(timer)) => {
            let now = Monotonic.now().as_ns().to_le_bytes();
            port.write_all(&[&READY_BY_TIMER[..], &timer.port.to_le_bytes(), &now].concat())?;
        }
        (None, None) => port.write_all(READY)?,
    }
    page.iter().for_each(joined::answer_on);
    let mut command = [0; COMMAND_LENGTH];
    loop {
        match port.read_exact(&mut command) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        match (number_of(&command), &page) {
            (EXCHANGE, Some(page)) => joined::answer_on(page),
            (number, _) => {
                let mut pulse = servo.pulse(number);
                pulse.ticks = timer.as_ref().map_or(0, PmTimer::read);
                let after_ns = Monotonic.now().ns_since(pulse.edge);
                pulse.after_ns = u32::try_from(after_ns).unwrap_or(u32::MAX);
                port.write_all(&answer_to(&command, pulse))?;
            }
        }
    }
}

fn number_of(command: &[u8; COMMAND_LENGTH]) -> u32 {
    u32::from_le_bytes([command[0], command[1], command[2], command[3]])
}

fn command_of(number: u32) -> [u8; COMMAND_LENGTH] {
    let mut command = [0xA5; COMMAND_LENGTH];
    command[..4].copy_from_slice(&number.to_le_bytes());
    command
}

fn answer_to(command: &[u8; COMMAND_LENGTH], pulse: Pulse) -> [u8; ANSWER_LENGTH] {
    let mut answer = [0; ANSWER_LENGTH];
    answer[..8].copy_from_slice(command);
    answer[8..16].copy_from_slice(&pulse.edge.as_ns().to_le_bytes());
    answer[16..20].copy_from_slice(&pulse.pulses.to_le_bytes());
    answer[20..24].copy_from_slice(&pulse.ticks.to_le_bytes());
    answer[24..].copy_from_slice(&pulse.after_ns.to_le_bytes());
    answer
}

/// The pulse of an answer; `None` where it is the answer to another command.
fn pulse_of(answer: &[u8; ANSWER_LENGTH], command: &[u8; COMMAND_LENGTH]) -> Option<Pulse> {
    let (head, rest) = answer.split_first_chunk::<COMMAND_LENGTH>()?;
    let (edge, rest) = rest.split_first_chunk::<8>()?;
    let edge = onbeat_rt::Instant::from_ns(u64::from_le_bytes(*edge));
    let mut numbers = rest
        .chunks_exact(4)
        .map(|four| four.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)));
    let mut number = || numbers.next();
    let (pulses, ticks, after_ns) = (number()?, number()?, number()?);
    (head == command).then_some(Pulse { edge, pulses, ticks, after_ns })
}

/// How the clock of the side that answers is related to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnsweringClock {
    /// They are one.
    Same,
    /// They are joined by exchanges.
    Joined,
    /// Both read the guest's timer, which stands still while a command is sent.
    Held,
}

/// Connects to the port of a guest as soon as it is about to answer; `over` ends the wait.
pub(super) fn connect(directory: &Path, over: &AtomicBool) -> io::Result<UnixStream> {
    let console = directory.join(CONSOLE);
    let is_there = || {
        let lines = fs::read(&console).unwrap_or_default();
        lines.windows(ABOUT_TO_ANSWER.len()).any(|some| some == ABOUT_TO_ANSWER.as_bytes())
    };
    while !is_there() {
        if over.load(Ordering::Relaxed) {
            let never = "the guest ended before it was about to answer";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, never));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // By way of the directory's descriptor the path is short enough for a socket.
    let opened = File::open(directory)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()))
}

/// Sends commands to a guest as soon as it is ready; `directory` is that of its QEMU. What fails is in
/// the result, beside what was answered until then.
pub(super) fn command_guest(
    port: UnixStream,
    directory: &Path,
    commands: u32,
    (clock, stop): (AnsweringClock, &AtomicBool),
) -> Answers {
    let mut sender = CommandSender {
        port,
        clock,
        stop,
        held: None,
        exchanges: Vec::new(),
        round_trips: Vec::new(),
        answers: Answers::default(),
    };
    let ended = sender.greeted(directory).and_then(|host| sender.send(commands, host));
    sender.answers.failure = ended.err().map(|error| error.to_string());
    sender.finished()
}

/// What holds a guest for its commands.
struct HeldCommands {
    guest: HeldGuest,
    /// Port of its timer.
    timer: u16,
    /// When it last answered, by its clock.
    answered: onbeat_rt::Instant,
}

impl HeldCommands {
    /// A command came after the answer to the one before: within that time the timer has not gone
    /// round.
    fn check(&mut self, edge: onbeat_rt::Instant) -> io::Result<()> {
        let ns = edge.ns_since(std::mem::replace(&mut self.answered, edge));
        if ns < pm_timer::ROUND_NS {
            return Ok(());
        }
        let said = format!(
            "{ns} virtual ns between two edges, of which the ACPI timer shows {} at most",
            pm_timer::ROUND_NS
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, said))
    }
}

/// The host's side of the application test.
struct CommandSender<'s> {
    port: UnixStream,
    clock: AnsweringClock,
    stop: &'s AtomicBool,
    /// In virtual time.
    held: Option<HeldCommands>,
    /// By the page.
    exchanges: Vec<PageExchange>,
    /// Command, edge, answer.
    round_trips: Vec<PageExchange>,
    answers: Answers,
}

impl CommandSender<'_> {
    /// Waits for the greeting, and exchanges clocks where the guest has the page for it.
    fn greeted(&mut self, directory: &Path) -> io::Result<Option<ExchangeHost>> {
        let mut greeting = [0; READY.len()];
        read_exactly(&mut self.port, &mut greeting, None, self.stop)?;
        if &greeting == READY {
            return Ok(None);
        }
        if &greeting == READY_BY_TIMER && self.clock == AnsweringClock::Held {
            let (mut timer, mut now) = ([0; 2], [0; 8]);
            read_exactly(&mut self.port, &mut timer, Some(ANSWER_WITHIN), self.stop)?;
            read_exactly(&mut self.port, &mut now, Some(ANSWER_WITHIN), self.stop)?;
            let guest = HeldGuest::connect(directory).map_err(io::Error::other)?;
            self.held = guest.map(|guest| HeldCommands {
                guest,
                timer: u16::from_le_bytes(timer),
                answered: onbeat_rt::Instant::from_ns(u64::from_le_bytes(now)),
            });
            return Ok(None);
        }
        if &greeting != READY_BY_PAGE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the greeting is missing"));
        }
        let mut host = ExchangeHost::new(SharedPage::open(&directory.join(joined::PAGE))?);
        self.exchange(&mut host)?;
        Ok(Some(host))
    }

    fn exchange(&mut self, host: &mut ExchangeHost) -> io::Result<()> {
        let begun = Instant::now();
        while !host.is_guest_there() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if begun.elapsed() > ANSWER_WITHIN {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
        self.exchanges.extend(host.exchange(EXCHANGES, self.stop)?);
        Ok(())
    }

    /// Sends commands one by one, each after the answer to the one before. The caller closes the port,
    /// which ends the program that answers.
    fn send(&mut self, commands: u32, host: Option<ExchangeHost>) -> io::Result<()> {
        // Refused rights are those of the whole study, which says so.
        let _ = ThreadRequest { fifo: Some(PRIORITY), ..ThreadRequest::default() }.prepare_thread();
        for number in 0..commands {
            let command = command_of(number);
            let sent = Monotonic.now();
            let (port, held) = (&mut self.port, &mut self.held);
            let from = match held {
                Some(HeldCommands { guest, timer, .. }) => {
                    guest.at_standstill(*timer, || port.write_all(&command))?
                }
                None => port.write_all(&command).map(|()| 0)?,
            };
            self.answers.sent += 1;

            let mut answer = [0; ANSWER_LENGTH];
            read_exactly(&mut self.port, &mut answer, Some(ANSWER_WITHIN), self.stop)?;
            let received = Monotonic.now();
            let pulse = pulse_of(&answer, &command).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "an answer is another command's")
            })?;

            self.answers.answered += 1;
            self.answers.pulses = pulse.pulses;
            if let Some(held) = &mut self.held {
                held.check(pulse.edge)?;
                self.answers.take_edge(from, pulse);
            }
            self.round_trips.push(PageExchange { sent, stamp: pulse.edge, received });
            std::thread::sleep(PAUSE);
        }

        if let Some(mut host) = host {
            self.port.write_all(&command_of(EXCHANGE))?;
            self.exchange(&mut host)?;
        }
        Ok(())
    }

    /// The times of what was answered, as far as the clocks are related.
    fn finished(self) -> Answers {
        let Self { clock, mut exchanges, round_trips, mut answers, .. } = self;
        if clock == AnsweringClock::Held {
            return answers;
        }
        answers.round_trips_ns = round_trips.iter().map(PageExchange::delay_ns).collect();
        if clock == AnsweringClock::Same {
            answers.bound_ns = Some(0);
            answers.edges_ns = round_trips.iter().map(|one| one.stamp.ns_since(one.sent)).collect();
            return answers;
        }

        exchanges.extend(&round_trips);
        exchanges.sort_by_key(|one| one.sent);
        if let Ok(relation) = ClockRelation::fit(&exchanges) {
            let edge_ns = |one: &PageExchange| relation.to_host(one.stamp).ns_since(one.sent);
            answers.bound_ns = Some(relation.width_ns());
            answers.edges_ns = round_trips.iter().map(edge_ns).collect();
        }
        answers
    }
}

impl Answers {
    /// Adds an edge of virtual time: the timer was read after it, at an instant that is known to
    /// within `after_ns`.
    fn take_edge(&mut self, from: u32, pulse: Pulse) {
        let after_ns = u64::from(pulse.after_ns);
        let most_ns = pm_timer::ns_between(from, pulse.ticks);
        self.edges_ns.push(most_ns.saturating_sub(after_ns / 2));
        self.bound_ns = self.bound_ns.max(Some(after_ns + pm_timer::ROUNDED_NS));
    }
}

/// The same without a guest: the program answers on the CPU of the measured loop.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn command_outside(bench: &StudyBench<'_>) -> io::Result<Answers> {
    let (cpu, commands, stop) = (bench.loop_cpu(), bench.study.commands, bench.stop);
    let (near, far) = UnixStream::pair()?;
    let mut command = Command::new(bench.onbeat);
    command.args(["agent", "answer", "--cpu", &cpu.to_string()]).stdin(OwnedFd::from(far));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = process::spawn(&mut command, 0)?;
    // It holds the other end of the socket.
    drop(command);

    // In a thread of its own, because this one keeps its policy.
    let answers = std::thread::scope(|scope| {
        let sending = scope
            .spawn(|| command_guest(near, Path::new(""), commands, (AnsweringClock::Same, stop)));
        sending.join().unwrap_or_default()
    });
    if answers.failure.is_some() {
        // It fails only when the process has ended already.
        let _ = child.kill();
    }
    child.wait()?;
    Ok(answers)
}

/// Reads a whole buffer; looks for `stop` in between.
fn read_exactly(
    port: &mut UnixStream,
    buffer: &mut [u8],
    within: Option<Duration>,
    stop: &AtomicBool,
) -> io::Result<()> {
    port.set_read_timeout(Some(LOOK_EVERY))?;
    let begun = Instant::now();
    let mut filled = 0;
    while filled < buffer.len() {
        match port.read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                if within.is_some_and(|within| begun.elapsed() > within) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side that answers as `onbeat agent answer` does.
    fn answering(port: UnixStream) {
        let mut servo = Servo::open(None).expect("a servo");
        let mut port = File::from(OwnedFd::from(port));
        answer(&mut port, &mut servo, AnsweringSide::Host(None)).expect("an end");
    }

    fn asked(side: fn(UnixStream), clock: AnsweringClock) -> Answers {
        let (near, far) = UnixStream::pair().expect("a pair");
        let guest = std::thread::spawn(move || side(far));
        let no_page = Path::new("");
        let answers = command_guest(near, no_page, 20, (clock, &AtomicBool::new(false)));
        guest.join().expect("the guest");
        answers
    }

    #[test]
    fn each_command_moves_the_servo_once_and_its_edge_is_within_the_round_trip() {
        let answers = asked(answering, AnsweringClock::Same);
        assert_eq!((answers.sent, answers.answered, answers.pulses), (20, 20, 20));
        assert_eq!((answers.failure, answers.bound_ns), (None, Some(0)));
        assert_eq!((answers.edges_ns.len(), answers.round_trips_ns.len()), (20, 20));
        let both = answers.edges_ns.iter().zip(&answers.round_trips_ns);
        assert!(both.clone().all(|(edge, whole)| edge <= whole), "{both:?}");
    }

    #[test]
    fn without_a_page_the_commands_themselves_join_the_clocks() {
        let answers = asked(answering, AnsweringClock::Joined);
        let bound_ns = answers.bound_ns.expect("a relation");
        // The first command bounds the offset at its own time, the last one at the end; each bound
        // is rounded outwards.
        let longest_ns = answers.round_trips_ns.iter().max().expect("round trips");
        assert!(bound_ns > 0 && bound_ns <= longest_ns + 2, "{bound_ns} {longest_ns}");
        assert_eq!(answers.edges_ns.len(), 20);
    }

    #[test]
    fn without_a_timer_no_time_of_virtual_time_is_kept() {
        let answers = asked(answering, AnsweringClock::Held);
        assert_eq!((answers.answered, answers.pulses), (20, 20));
        assert_eq!((answers.round_trips_ns, answers.edges_ns), (vec![], vec![]));
    }

    #[test]
    fn an_edge_of_virtual_time_is_that_of_the_timer_less_its_reading() {
        let mut answers = Answers::default();
        let pulse = Servo::open(None).expect("a servo").pulse(0);
        answers.take_edge(0xff_ff00, Pulse { ticks: 0x00_0100, after_ns: 2_000, ..pulse });
        answers.take_edge(0, Pulse { ticks: 3_580, after_ns: 4_000, ..pulse });
        // 512 ticks past the counter's end, and a millisecond.
        assert_eq!(answers.edges_ns, [143_034 - 1_000, 1_000_127 - 2_000]);
        assert_eq!(answers.bound_ns, Some(4_560));
    }

    #[test]
    fn what_was_answered_before_a_failure_is_kept() {
        fn leaving(mut far: UnixStream) {
            far.write_all(READY).expect("a greeting");
            let mut servo = Servo::open(None).expect("a servo");
            let mut command = [0; COMMAND_LENGTH];
            for number in 0..3 {
                far.read_exact(&mut command).expect("a command");
                far.write_all(&answer_to(&command, servo.pulse(number))).expect("an answer");
            }
            far.read_exact(&mut command).expect("the last command");
        }
        let answers = asked(leaving, AnsweringClock::Same);
        assert_eq!((answers.sent, answers.answered, answers.edges_ns.len()), (4, 3, 3));
        assert!(answers.failure.is_some());
    }

    #[test]
    fn a_guest_that_says_something_else_gets_no_command() {
        fn strange(mut far: UnixStream) {
            far.write_all(b"hello\n").expect("a greeting");
            let _ = far.read(&mut [0; COMMAND_LENGTH]);
        }
        let answers = asked(strange, AnsweringClock::Same);
        assert_eq!(
            (answers.sent, answers.failure.as_deref()),
            (0, Some("the greeting is missing"))
        );
    }
}
