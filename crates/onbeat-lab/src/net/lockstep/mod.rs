//! Firmware at the ends of a plan's network, in lockstep: the frames of emulated boards and the model
//! of the wire in one virtual time.
//!
//! Each board is `firmware/board_lockstep.c` in QEMU, whose time is counted in instructions and
//! stands still while the board waits for an answer of [`Lockstep`]. The conductor always lets the
//! earliest event happen: one in the network, or a board's next instant, frame or edge. At most one
//! board runs at a time. So a board sends nothing before what was already let happen, and the same
//! firmware gives the same bytes in every run, whatever else the host does.
//!
//! Absent on purpose: the card's driver, which is part of a board, and any clock of the host.

mod account;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::iter;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use object::LittleEndian;
use object::elf::{ELFMAG, EM_ARM, FileHeader32};
use object::read::elf::FileHeader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use onbeat_net::plan::{CarriedTo, NetPlanError, Network, SteppedNetwork};

use crate::vm::process;

pub use account::{CarriedPackets, CarriedTimes, LockstepAccount};

/// Kinds of messages, as in `board_lockstep.c`.
const HELLO: u32 = 1;
const FRAME: u32 = 2;
const WAIT: u32 = 3;
const INSTANT: u32 = 4;
const LEVEL: u32 = 5;
const END: u32 = 6;
/// Longest frame of a board, without its check sequence, in bytes.
const MOST_FRAME: usize = 1518;
/// Shortest frame on the wire, without its check sequence.
const LEAST_FRAME: usize = 60;
/// Preamble and check sequence.
const AROUND_FRAME: usize = 12;
/// Frames that are kept until they arrive; switches may have dropped older ones.
const MOST_FRAMES: usize = 4096;
/// Nice value of the boards, which never wait for time to pass.
const NICENESS: i32 = 5;
const PROGRAM: &str = "qemu-system-arm";
/// Of a 32-bit ELF file, in bytes.
const HEADER: u64 = 52;
/// How long a board may say nothing, in time of the host. Between two messages it computes for some
/// microseconds of its own time; on a loaded host that took less than a second.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a board that was asked to end may take, before it is killed.
const TO_END: Duration = Duration::from_secs(2);

/// Why firmware cannot be run in lockstep.
#[derive(Debug, thiserror::Error)]
pub enum LockstepError {
    /// The emulator cannot be started.
    #[error("cannot start {PROGRAM} (package qemu-system-arm): {0}")]
    Start(io::Error),
    /// The firmware cannot be read.
    #[error("cannot read the firmware {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is no program for the board's processor.
    #[error(
        "{} is not firmware for the board in lockstep: {found}, where a 32-bit ELF program for Arm is expected; build one with BOARD=lockstep (firmware/README.md)",
        path.display()
    )]
    Image { path: PathBuf, found: String },
    /// A board has ended, or does not read.
    #[error("the firmware at end {end} has ended by itself at {at_ns} ns of virtual time: {why}")]
    Ended {
        /// Which one: 0 at the controller, N + 1 at device N.
        end: usize,
        /// The last instant that it gave.
        at_ns: u64,
        /// The emulator's first line, or how it ended.
        why: String,
    },
    /// A board runs and says nothing, such as firmware for another board.
    #[error(
        "the firmware at end {end} has said nothing for {} s; {PROGRAM} runs it, but it is not built for the board in lockstep (BOARD=lockstep, see firmware/README.md), or it hangs",
        patience.as_secs_f64()
    )]
    Silent { end: usize, patience: Duration },
    /// A board does not speak the protocol.
    #[error(
        "the firmware at end {end} sent kind {kind} with {bytes} bytes, which is not a message of a board in lockstep"
    )]
    Message { end: usize, kind: u32, bytes: u32 },
    /// More firmware than ends.
    #[error("{firmware} firmware images for a plan with {ends} ends")]
    TooMany { firmware: usize, ends: usize },
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] NetPlanError),
}

/// What happened at an end of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockstepEvent<'f> {
    /// Its board sent a frame.
    Sent(&'f [u8]),
    /// A frame arrived there.
    Arrived(&'f [u8]),
    /// The level of its board's input changed.
    Input(bool),
    /// Its board wrote its output.
    Output(bool),
}

/// A board that is conducted: what it reads and what it writes.
pub struct ConductedBoard {
    from: Box<dyn Read>,
    to: Box<dyn Write>,
    patience: Duration,
    /// QEMU, ended with this.
    qemu: Option<Child>,
    now_ns: u64,
    until_ns: u64,
    frames: VecDeque<(u64, Vec<u8>)>,
    /// The next edge of its input, and those after it.
    edge: Option<(u64, bool)>,
    edges: Box<dyn Iterator<Item = (u64, bool)>>,
}

impl ConductedBoard {
    /// Starts firmware in QEMU (`-M mps2-an385`), 32 ns for each instruction.
    ///
    /// # Errors
    /// [`LockstepError::Read`] and [`LockstepError::Image`], before anything is started;
    /// [`LockstepError::Start`].
    pub fn start(firmware: &Path) -> Result<Self, LockstepError> {
        check_image(firmware)?;
        let mut command = Command::new(PROGRAM);
        command.args(["-M", "mps2-an385", "-icount", "shift=5,sleep=off", "-nic", "none"]);
        command.args(["-display", "none", "-monitor", "none", "-serial", "none"]);
        command.args(["-semihosting-config", "enable=on,target=native", "-kernel"]).arg(firmware);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut qemu = process::spawn(&mut command, NICENESS).map_err(LockstepError::Start)?;
        let (Some(to), Some(from)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(LockstepError::Start(io::ErrorKind::BrokenPipe.into()));
        };
        let mut board = Self::new(from, to, PATIENCE);
        board.qemu = Some(qemu);
        Ok(board)
    }

    /// Returns a board that speaks through a reader and a writer, and has failed when it says
    /// nothing for `patience`.
    pub fn new(
        from: impl Read + AsFd + 'static,
        to: impl Write + 'static,
        patience: Duration,
    ) -> Self {
        Self {
            from: Box::new(BufReader::new(Awaited { from, patience })),
            to: Box::new(to),
            patience,
            qemu: None,
            now_ns: 0,
            until_ns: 0,
            frames: VecDeque::new(),
            edge: None,
            edges: Box::new(iter::empty()),
        }
    }

    /// Changes the level of the board's input at these instants, which ascend.
    pub fn set_edges(&mut self, edges: impl IntoIterator<Item = (u64, bool), IntoIter: 'static>) {
        let mut edges = edges.into_iter();
        self.edge = edges.next();
        self.edges = Box::new(edges);
    }

    /// Takes the next edge, if it has come by this instant.
    fn take_edge(&mut self, by_ns: u64) -> Option<(u64, bool)> {
        let edge = self.edge.filter(|(at_ns, _)| *at_ns <= by_ns)?;
        self.edge = self.edges.next();
        Some(edge)
    }

    /// When it next runs: at its instant, or as soon as it has something to take.
    fn acts_ns(&self) -> u64 {
        let frame = self.frames.front().map(|(at_ns, _)| *at_ns);
        let edge = self.edge.map(|(at_ns, _)| at_ns);
        let given = [frame, edge].into_iter().flatten().min();
        self.until_ns.min(given.unwrap_or(u64::MAX)).max(self.now_ns)
    }

    /// Ends the board for an error in what it reads or writes.
    fn ended(&mut self, end: usize, source: &io::Error) -> LockstepError {
        let mut printed = String::new();
        let mut status = None;
        if let Some(qemu) = &mut self.qemu {
            // What cannot be read or ended is not there.
            status = qemu.kill().and_then(|()| qemu.wait()).ok();
            if let Some(stderr) = &mut qemu.stderr {
                let _ = stderr.read_to_string(&mut printed);
            }
        }
        if source.kind() == io::ErrorKind::TimedOut {
            return LockstepError::Silent { end, patience: self.patience };
        }
        // The registers, which QEMU prints below its first line, say nothing to most readers.
        let first = printed.lines().map(str::trim).find(|line| !line.is_empty());
        let why = first.map(str::to_owned).or_else(|| status.map(|status| status.to_string()));
        let why = why.unwrap_or_else(|| source.to_string());
        LockstepError::Ended { end, at_ns: self.now_ns, why }
    }

    fn hear(&mut self) -> io::Result<Message> {
        let mut head = [0; 24];
        self.from.read_exact(&mut head)?;
        let word = |place: usize| u64::from_le_bytes(head.as_chunks::<8>().0[place]);
        let (kind, length) = (word(2) as u32, (word(2) >> 32) as u32);
        let mut bytes = vec![0; (length as usize).min(MOST_FRAME + 1)];
        self.from.read_exact(&mut bytes)?;
        Ok(Message { at_ns: word(0), value: word(1), kind, bytes })
    }

    fn say(&mut self, message: &Message) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(24 + message.bytes.len());
        bytes.extend_from_slice(&message.at_ns.to_le_bytes());
        bytes.extend_from_slice(&message.value.to_le_bytes());
        bytes.extend_from_slice(&message.kind.to_le_bytes());
        bytes.extend_from_slice(&(message.bytes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&message.bytes);
        self.to.write_all(&bytes)?;
        self.to.flush()
    }
}

impl Drop for ConductedBoard {
    fn drop(&mut self) {
        if let Some(mut qemu) = self.qemu.take() {
            // Asked to end, it exits by itself; in every other case it is killed.
            if self.say(&Message::of(END, self.now_ns)).is_ok() {
                wait_for_end(&mut qemu);
            }
            let _ = qemu.kill().and_then(|()| qemu.wait());
        }
    }
}

/// Whether a file is a program for the processor of the board, a Cortex-M3, by its ELF header.
fn check_image(firmware: &Path) -> Result<(), LockstepError> {
    let mut head = Vec::new();
    let read = File::open(firmware).and_then(|file| file.take(HEADER).read_to_end(&mut head));
    read.map_err(|source| LockstepError::Read { path: firmware.to_owned(), source })?;

    let found = match FileHeader32::<LittleEndian>::parse(&*head) {
        Ok(header) if header.is_big_endian() => "a program in big-endian byte order".to_owned(),
        Ok(header) if header.e_machine.get(LittleEndian) == EM_ARM => return Ok(()),
        Ok(header) => format!("a program for ELF machine {}", header.e_machine.get(LittleEndian)),
        Err(_) if head.starts_with(&ELFMAG) => "an ELF file of another word size".to_owned(),
        Err(_) if head.is_empty() => "an empty file".to_owned(),
        Err(_) => "not an ELF file".to_owned(),
    };
    Err(LockstepError::Image { path: firmware.to_owned(), found })
}

fn wait_for_end(qemu: &mut Child) {
    let until = Instant::now() + TO_END;
    while matches!(qemu.try_wait(), Ok(None)) && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
    }
}

/// A reader that gives up when nothing comes for a time.
struct Awaited<R> {
    from: R,
    patience: Duration,
}

impl<R: Read + AsFd> Read for Awaited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = Timespec::try_from(self.patience).map_err(io::Error::other)?;
        let mut ends = [PollFd::new(&self.from, PollFlags::IN)];
        if poll(&mut ends, Some(&limit))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.from.read(buffer)
    }
}

struct Message {
    at_ns: u64,
    value: u64,
    kind: u32,
    bytes: Vec<u8>,
}

impl Message {
    const fn of(kind: u32, at_ns: u64) -> Self {
        Self { at_ns, value: 0, kind, bytes: Vec::new() }
    }
}

/// Boards at the ends of a network. End 0 is the plan's controller, end N + 1 its device N.
///
/// ```no_run
/// use onbeat_lab::net::lockstep::{ConductedBoard, Lockstep};
/// use onbeat_net::plan::Network;
///
/// let network = Network::read("docs/plans/two-boards.toml".as_ref())?;
/// let boards = ["sender/sender.elf", "echo/device.elf"].map(|path| ConductedBoard::start(path.as_ref()));
/// let boards = boards.into_iter().collect::<Result<_, _>>()?;
/// let mut lockstep = Lockstep::new(&network, boards)?;
/// let mut frames = 0;
/// lockstep.run(1_000_000_000, &mut |_, _, _| frames += 1)?;
/// # Ok::<(), onbeat_lab::net::lockstep::LockstepError>(())
/// ```
pub struct Lockstep<'n> {
    network: SteppedNetwork<'n>,
    boards: Vec<ConductedBoard>,
    /// Those on their way.
    frames: BTreeMap<u32, Vec<u8>>,
    are_greeted: bool,
}

/// Called for each event: when, at which end, what.
pub type LockstepLog<'l> = dyn FnMut(u64, usize, LockstepEvent<'_>) + 'l;

impl<'n> Lockstep<'n> {
    /// Returns the network of a plan with a board at each of its first ends. At ends without one,
    /// frames arrive, and questions for their address are answered.
    ///
    /// # Errors
    /// [`LockstepError`].
    pub fn new(network: &'n Network, boards: Vec<ConductedBoard>) -> Result<Self, LockstepError> {
        let network = SteppedNetwork::new(network)?;
        if boards.len() > network.ends() {
            let (firmware, ends) = (boards.len(), network.ends());
            return Err(LockstepError::TooMany { firmware, ends });
        }
        Ok(Self { network, boards, frames: BTreeMap::new(), are_greeted: false })
    }

    /// Runs boards and network until an instant of virtual time.
    ///
    /// # Errors
    /// [`LockstepError`].
    pub fn run(&mut self, until_ns: u64, log: &mut LockstepLog<'_>) -> Result<(), LockstepError> {
        if !self.are_greeted {
            self.are_greeted = true;
            for end in 0..self.boards.len() {
                self.greet(end, log)?;
            }
        }
        loop {
            let acts = self.boards.iter().enumerate().map(|(end, board)| (board.acts_ns(), end));
            let (acts_ns, end) = acts.min().unwrap_or((u64::MAX, 0));
            let network_ns = self.network.next_ns().unwrap_or(u64::MAX);
            if acts_ns.min(network_ns) > until_ns {
                return Ok(());
            }

            if network_ns <= acts_ns {
                self.step_network(log);
            } else {
                self.resume(end, log)?;
                self.listen(end, log)?;
            }
        }
    }

    /// A board says that it is there, and gets its MAC address.
    fn greet(&mut self, end: usize, log: &mut LockstepLog<'_>) -> Result<(), LockstepError> {
        let board = &mut self.boards[end];
        let hello = board.hear().map_err(|source| board.ended(end, &source))?;
        if hello.kind != HELLO {
            let (kind, bytes) = (hello.kind, hello.bytes.len() as u32);
            return Err(LockstepError::Message { end, kind, bytes });
        }
        let answer = Message { bytes: mac(end).to_vec(), ..Message::of(HELLO, hello.at_ns) };
        board.say(&answer).map_err(|source| board.ended(end, &source))?;
        self.listen(end, log)
    }

    fn step_network(&mut self, log: &mut LockstepLog<'_>) {
        let Some(arrival) = self.network.step() else { return };
        let Some(frame) = self.frames.get(&arrival.frame).cloned() else { return };
        log(arrival.at_ns, arrival.end, LockstepEvent::Arrived(&frame));
        if let Some(board) = self.boards.get_mut(arrival.end) {
            board.frames.push_back((arrival.at_ns, frame));
        } else if let Some(answer) = arp_answer(&frame, arrival.end) {
            self.send(arrival.at_ns, arrival.end, answer);
        }
    }

    /// Lets a board run on: with its next edge, its next frame, or because its instant has come.
    fn resume(&mut self, end: usize, log: &mut LockstepLog<'_>) -> Result<(), LockstepError> {
        let board = &mut self.boards[end];
        let at_ns = board.acts_ns();
        let message = if let Some((edge_ns, level)) = board.take_edge(at_ns) {
            log(edge_ns, end, LockstepEvent::Input(level));
            Message { value: u64::from(level), ..Message::of(LEVEL, at_ns) }
        } else if let Some((_, bytes)) = taken(&mut board.frames, at_ns) {
            Message { bytes, ..Message::of(FRAME, at_ns) }
        } else {
            Message::of(INSTANT, at_ns)
        };
        board.say(&message).map_err(|source| board.ended(end, &source))
    }

    /// Takes what a board says until it waits again.
    fn listen(&mut self, end: usize, log: &mut LockstepLog<'_>) -> Result<(), LockstepError> {
        loop {
            let board = &mut self.boards[end];
            let heard = board.hear().map_err(|source| board.ended(end, &source))?;
            match (heard.kind, heard.bytes.len()) {
                (WAIT, 0) => {
                    self.boards[end].now_ns = heard.at_ns;
                    self.boards[end].until_ns = heard.value;
                    return Ok(());
                }
                (FRAME, 14..=MOST_FRAME) => {
                    log(heard.at_ns, end, LockstepEvent::Sent(&heard.bytes));
                    self.send(heard.at_ns, end, heard.bytes);
                }
                (LEVEL, 0) => log(heard.at_ns, end, LockstepEvent::Output(heard.value != 0)),
                (kind, bytes) => {
                    return Err(LockstepError::Message { end, kind, bytes: bytes as u32 });
                }
            }
        }
    }

    fn send(&mut self, at_ns: u64, from: usize, frame: Vec<u8>) {
        let target = (0..self.network.ends()).find(|end| frame[..6] == mac(*end));
        // A switch floods what it does not know.
        let to = target.map_or(CarriedTo::All, CarriedTo::End);
        let bytes = frame.len().max(LEAST_FRAME) + AROUND_FRAME;
        let number = self.network.send(at_ns, from, to, bytes as u32);
        self.frames.insert(number, frame);
        if self.frames.len() > MOST_FRAMES {
            self.frames.pop_first();
        }
    }
}

/// The oldest that was there by an instant.
fn taken<T>(queue: &mut VecDeque<(u64, T)>, by_ns: u64) -> Option<(u64, T)> {
    queue.front().is_some_and(|(at_ns, _)| *at_ns <= by_ns).then(|| queue.pop_front()).flatten()
}

/// Locally administered, its last byte as in the address 192.168.7.(end + 1).
const fn mac(end: usize) -> [u8; 6] {
    let number = end + 1;
    [2, 0, 0, 0, (number >> 8) as u8, number as u8]
}

/// Answers an ARP request for the address of an end, whose last byte is its number from 1.
fn arp_answer(frame: &[u8], end: usize) -> Option<Vec<u8>> {
    const ARP_REQUEST: [u8; 10] = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    if frame.len() < 42 || frame[12..22] != ARP_REQUEST || usize::from(frame[41]) != end + 1 {
        return None;
    }
    let (asker_mac, asker_ip) = (&frame[22..28], &frame[28..32]);
    let own_mac = &mac(end)[..];
    let head = &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2][..];
    let answer = [asker_mac, own_mac, head, own_mac, &frame[38..42], asker_mac, asker_ip].concat();
    Some(answer)
}
