//! The logging server: a socket thread that only receives, and a writer of run files.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::assembly::{AssemblyCounts, RunAssembly};
use super::wire::{self, LogMessage, LogPart, LogReceipt, MOST_LOG_BYTES};
use crate::address::AddressRange;
use crate::hand_over::{HandOverReceiver, HandOverSender, hand_over};
use crate::udp::{BindError, make_room};

/// Datagrams between socket thread and writer, in each of three buffers of 3 MB.
const ROOM: usize = 2048;
/// Bytes of the socket's receive buffer that are asked for.
const BUFFER_BYTES: usize = 8 << 20;
/// How often the socket thread looks at its end, and passes on what it has, without datagrams.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often the writer looks for datagrams.
const WRITE_EVERY: Duration = Duration::from_millis(5);
/// Parts that are missing for this long, while later ones are there, are given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);
/// Runs that are received at the same time; with one more the longest silent one is closed.
const MOST_RUNS: usize = 64;

/// What a server listens to, and where it writes.
#[derive(Clone, Debug)]
pub struct LogServerOptions {
    /// Local address.
    pub bind: IpAddr,
    /// UDP port; 0: any free one.
    pub port: u16,
    /// Whose runs are taken.
    pub allow: Vec<AddressRange>,
    /// The directory for runs.
    pub out: PathBuf,
    /// How long the writer pauses before each of its turns, as a slow disk makes it: for tests.
    pub writer_pause: Duration,
}

/// Why a server cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogServerError {
    /// The port cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The directory for runs cannot be made.
    #[error("cannot create {path}: {source}; choose another place with --out")]
    Out {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The socket thread cannot be started.
    #[error("cannot start the socket's thread: {0}")]
    Thread(io::Error),
}

/// What a server did, all runs together.
#[derive(Debug, Default)]
pub struct LogServerCounts {
    /// Datagrams taken for a run.
    pub received: AtomicU64,
    /// Of these, dropped because the writer was behind.
    pub without_room: AtomicU64,
    /// Datagrams from addresses that are not allowed.
    pub refused: AtomicU64,
    /// Datagrams that are not parts of a run.
    pub invalid: AtomicU64,
}

/// A run that has ended, or was closed.
#[derive(Clone, Debug)]
pub struct ShippedRun {
    /// Its sender.
    pub from: SocketAddr,
    /// The file.
    pub path: PathBuf,
    /// What was received of it.
    pub counts: AssemblyCounts,
    /// Whether its last part was received.
    pub is_complete: bool,
    /// Why it could not be written; the lines before are in the file.
    pub failed: Option<String>,
}

/// An open server.
#[derive(Debug)]
pub struct LogServer {
    socket: UdpSocket,
    options: LogServerOptions,
    /// What the server has done so far.
    pub counts: LogServerCounts,
}

#[derive(Clone, Debug)]
struct ReceivedLogDatagram {
    from: SocketAddr,
    length: u16,
    bytes: [u8; MOST_LOG_BYTES],
}

impl LogServer {
    /// Opens the port, and creates the directory.
    ///
    /// # Errors
    /// [`LogServerError::Bind`], [`LogServerError::Out`].
    pub fn open(options: LogServerOptions) -> Result<Self, LogServerError> {
        let out = |source| LogServerError::Out { path: options.out.clone(), source };
        fs::create_dir_all(&options.out).map_err(out)?;
        let address = SocketAddr::new(options.bind, options.port);
        let timed = |socket: UdpSocket| socket.set_read_timeout(Some(LOOK_EVERY)).map(|()| socket);
        let bound = UdpSocket::bind(address).and_then(timed);
        let socket = bound.map_err(|source| BindError { address, source })?;
        make_room(&socket, BUFFER_BYTES);
        Ok(Self { socket, options, counts: LogServerCounts::default() })
    }

    /// Returns the address and port.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the datagrams that the kernel dropped because the socket's buffer was full; `None`
    /// where it does not say.
    #[must_use]
    pub fn kernel_drops(&self) -> Option<u64> {
        crate::socket_drops::socket_drops(&self.socket)
    }

    /// Receives runs until `stop` is set; `ended` gets each that has ended. Runs that go on are
    /// closed at the end.
    ///
    /// # Errors
    /// [`LogServerError::Thread`].
    pub fn serve(
        &self,
        stop: &AtomicBool,
        ended: &mut dyn FnMut(ShippedRun),
    ) -> Result<(), LogServerError> {
        let (sender, receiver) = hand_over(ROOM);
        let mut writer = ShippedRunWriter { out: &self.options.out, runs: HashMap::new() };
        thread::scope(|threads| {
            let receiving = thread::Builder::new()
                .name("onbeat-log".to_owned())
                .spawn_scoped(threads, || self.receive(sender, stop))
                .map_err(LogServerError::Thread)?;
            self.write(receiver, &mut writer, &|| receiving.is_finished(), ended);
            Ok(())
        })
    }

    /// The socket's thread: it waits for nothing but datagrams.
    fn receive(&self, mut sender: HandOverSender<ReceivedLogDatagram>, stop: &AtomicBool) {
        let mut sessions = Sessions::default();
        let mut message = [0; MOST_LOG_BYTES + 1];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = self.socket.recv_from(&mut message) {
                self.take(&message[..length], from, &mut sender, &mut sessions);
            }
            sender.flush();
        }
        // The writer takes what is left, however slow its disk is: it ends after this thread.
        while !sender.flush() {
            thread::sleep(WRITE_EVERY);
        }
    }

    fn take(
        &self,
        message: &[u8],
        from: SocketAddr,
        sender: &mut HandOverSender<ReceivedLogDatagram>,
        sessions: &mut Sessions,
    ) {
        let add = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
        if !self.options.allow.iter().any(|range| range.contains(from.ip())) {
            add(&self.counts.refused);
            return;
        }
        let Ok(LogMessage::Part(part)) = wire::decode(message) else {
            add(&self.counts.invalid);
            return;
        };

        add(&self.counts.received);
        let mut bytes = [0; MOST_LOG_BYTES];
        bytes[..message.len()].copy_from_slice(message);
        let is_kept =
            sender.put(ReceivedLogDatagram { from, length: message.len() as u16, bytes }).is_ok();
        if !is_kept {
            add(&self.counts.without_room);
        }
        let counts = sessions.count(from, part.session, is_kept);
        if part.wants_receipt && is_kept {
            let SessionCounts { received, without_room, .. } = *counts;
            let receipt =
                LogReceipt { session: part.session, number: part.number, received, without_room };
            let mut answer = Vec::new();
            receipt.write(&mut answer);
            // A receipt that is lost is asked for again.
            let _ = self.socket.send_to(&answer, from);
        }
    }

    fn write(
        &self,
        mut receiver: HandOverReceiver<ReceivedLogDatagram>,
        writer: &mut ShippedRunWriter<'_>,
        is_over: &dyn Fn() -> bool,
        ended: &mut dyn FnMut(ShippedRun),
    ) {
        loop {
            // Looked at before the last datagrams are taken.
            let was_over = is_over();
            thread::sleep(self.options.writer_pause);
            let datagrams = receiver.take();
            let is_empty = datagrams.is_empty();
            for datagram in datagrams {
                let message = &datagram.bytes[..usize::from(datagram.length)];
                if let Ok(LogMessage::Part(part)) = wire::decode(message) {
                    writer.take(datagram.from, &part, ended);
                }
            }

            writer.give_up_old();
            writer.report_failed(ended);
            writer.close(|run| run.assembly.is_over(), ended);
            if was_over && is_empty {
                return writer.close(|_| true, ended);
            }
            if is_empty {
                thread::sleep(WRITE_EVERY);
            }
        }
    }
}

/// Datagrams of a session, counted by the socket's thread for its receipts.
#[derive(Clone, Copy, Debug)]
struct SessionCounts {
    from: SocketAddr,
    session: u32,
    received: u64,
    without_room: u64,
}

/// The latest sessions.
#[derive(Debug, Default)]
struct Sessions(Vec<SessionCounts>);

impl Sessions {
    fn count(&mut self, from: SocketAddr, session: u32, is_kept: bool) -> &SessionCounts {
        let is_own = |one: &SessionCounts| (one.from, one.session) == (from, session);
        let place = self.0.iter().position(is_own).unwrap_or_else(|| {
            if self.0.len() == MOST_RUNS {
                self.0.remove(0);
            }
            self.0.push(SessionCounts { from, session, received: 0, without_room: 0 });
            self.0.len() - 1
        });
        let counts = &mut self.0[place];
        counts.received += 1;
        counts.without_room += u64::from(!is_kept);
        counts
    }
}

/// A run that is received.
#[derive(Debug)]
struct OpenRun {
    from: SocketAddr,
    path: PathBuf,
    /// `None` before its first line.
    file: Option<File>,
    assembly: RunAssembly,
    latest: Instant,
    failed: Option<String>,
    /// Whether a failed one was reported; what still comes of it is counted and not written.
    is_reported: bool,
}

/// The files of all runs that are received. Lines are appended whole, with one system call.
struct ShippedRunWriter<'w> {
    out: &'w Path,
    runs: HashMap<(SocketAddr, u32), OpenRun>,
}

impl ShippedRunWriter<'_> {
    fn take(&mut self, from: SocketAddr, part: &LogPart<'_>, ended: &mut dyn FnMut(ShippedRun)) {
        let key = (from, part.session);
        if !self.runs.contains_key(&key) {
            // The end of a run that was closed: its last part once more.
            if part.number > 0 && part.is_last {
                return;
            }
            if self.runs.len() == MOST_RUNS {
                let oldest = self.runs.values().map(|run| run.latest).min();
                self.close(|run| Some(run.latest) == oldest, ended);
            }
            self.runs.insert(key, OpenRun::new(self.out, from, part));
        }
        let Some(run) = self.runs.get_mut(&key) else { return };
        run.latest = Instant::now();
        run.append(|assembly, out| assembly.take(part, out));
    }

    fn give_up_old(&mut self) {
        let waiting = self.runs.values_mut().filter(|run| run.assembly.is_waiting());
        for run in waiting.filter(|run| run.latest.elapsed() >= GIVE_UP_AFTER) {
            run.append(RunAssembly::give_up);
        }
    }

    /// Reports each run that cannot be written, once and at once. It stays open, so that its later
    /// parts do not begin another one.
    fn report_failed(&mut self, ended: &mut dyn FnMut(ShippedRun)) {
        let failed = self.runs.values_mut().filter(|run| run.failed.is_some() && !run.is_reported);
        for run in failed {
            run.is_reported = true;
            ended(run.shipped());
        }
    }

    fn close(&mut self, which: impl Fn(&OpenRun) -> bool, ended: &mut dyn FnMut(ShippedRun)) {
        for (_, mut run) in self.runs.extract_if(|_, run| which(run)) {
            run.append(RunAssembly::give_up);
            if !run.is_reported {
                ended(run.shipped());
            }
        }
    }
}

impl OpenRun {
    /// Of `OUT/RUN-SESSION/FILE`; the name was checked when the part was decoded.
    fn new(out: &Path, from: SocketAddr, part: &LogPart<'_>) -> Self {
        let (run, file) = part.name.split_once('/').unwrap_or(("run", part.name));
        Self {
            from,
            path: out.join(format!("{run}-{:08x}", part.session)).join(file),
            file: None,
            assembly: RunAssembly::default(),
            latest: Instant::now(),
            failed: None,
            is_reported: false,
        }
    }

    fn shipped(&self) -> ShippedRun {
        ShippedRun {
            from: self.from,
            path: self.path.clone(),
            counts: self.assembly.counts(),
            is_complete: self.assembly.is_over(),
            failed: self.failed.clone(),
        }
    }

    /// Appends what the assembly has completed; the first lines create the file.
    fn append(&mut self, lines: impl FnOnce(&mut RunAssembly, &mut Vec<u8>)) {
        let mut out = Vec::new();
        lines(&mut self.assembly, &mut out);
        if out.is_empty() || self.failed.is_some() {
            return;
        }
        let file = self.file.take().map_or_else(|| created(&self.path), Ok);
        let appended = file.and_then(|mut file| file.write_all(&out).map(|()| file));
        match appended {
            Ok(file) => self.file = Some(file),
            Err(why) => {
                self.failed = Some(format!("cannot append to {}: {why}", self.path.display()));
            }
        }
    }
}

fn created(path: &Path) -> io::Result<File> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().append(true).create_new(true).custom_flags(no_link).open(path)
}
