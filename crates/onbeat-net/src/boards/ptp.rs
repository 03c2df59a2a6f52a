//! `ptp4l` beside a run over two boards: started, read and ended here.
//!
//! It compares the wall clocks of both boards by IEEE 1588 with software time stamps and sets
//! neither (`free_running`), so that a machine's clock is the same after the run. Its readings are
//! recorded beside the clock fit, which they neither correct nor replace.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::background::BackgroundThread;
use onbeat::probe::ProbeError;
use onbeat_record::PtpAccount;

/// A reading is older than this only when the time transmitter was lost: there is one in a second.
const FRESH: Duration = Duration::from_secs(3);
/// Beginning of the names of its sockets for management, before the number of our process.
const SOCKET: &str = "onbeat-ptp-";
/// End of the names of those for reading only, and the option that names them.
const READ_ONLY: &str = "ro";
const READ_ONLY_OPTION: &str = "--uds_ro_address";
/// Announcements, four a second, that a transmitter awaits before it begins.
const AWAITED: &str = "2";
/// Those that a receiver may miss, three seconds as [`FRESH`]: a busy machine may hold up either
/// end for more than a second.
const MISSED: &str = "12";
/// Its option "masterOnly".
const TRANSMITTER_ONLY: &str = "--masterOnly";
/// How often a waiting caller looks for the first reading.
const PAUSE: Duration = Duration::from_millis(20);

/// Which end of the protocol a board is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtpRole {
    /// Its clock is the reference.
    Transmitter,
    /// It reads the offset of its clock from the transmitter's.
    Receiver,
}

/// Why `ptp4l` does not run.
#[derive(Debug, thiserror::Error)]
pub enum PtpError {
    /// It cannot be started.
    #[error("cannot start ptp4l: {0}; it is in the Debian package linuxptp")]
    Start(io::Error),
    /// It ended at once.
    #[error("ptp4l ended on interface {interface}: {said}")]
    Ended {
        interface: String,
        /// Its last line with a reason, or its last line.
        said: String,
    },
    /// It runs, and its port does not.
    #[error("ptp4l cannot use interface {interface}: {said}")]
    Faulty {
        interface: String,
        /// Its last line with a reason, or its last line.
        said: String,
    },
}

impl From<PtpError> for ProbeError {
    fn from(why: PtpError) -> Self {
        Self::Own(Box::new(why))
    }
}

/// What the lines of `ptp4l` said.
#[derive(Debug, Default)]
struct PtpLog {
    account: PtpAccount,
    square_sum: f64,
    latest: Option<Instant>,
    last_line: String,
    /// The last line with a reason of the system: the last ones of a start that fails have none.
    failure: String,
    /// Whether its port could not be opened, which is tried again in vain.
    is_faulty: bool,
    is_over: bool,
}

/// A running `ptp4l`, until this is dropped.
#[derive(Debug)]
pub struct PtpMonitor {
    log: Arc<Mutex<PtpLog>>,
    process: Pid,
    thread: Option<BackgroundThread>,
    socket: PathBuf,
}

impl PtpMonitor {
    /// Starts `ptp4l` on a network interface.
    ///
    /// # Errors
    /// [`PtpError::Start`], also where the program is missing.
    pub fn start(interface: &str, role: PtpRole) -> Result<Self, PtpError> {
        remove_stale_sockets();
        let name = format!("{SOCKET}{}-{}", std::process::id(), role as u8);
        let socket = std::env::temp_dir().join(name);
        let mut command = command(interface, role);
        command.arg("--uds_address").arg(&socket);
        let read_only = socket.with_extension(READ_ONLY);
        if has_read_only_socket(&read_only).map_err(PtpError::Start)? {
            command.arg(READ_ONLY_OPTION).arg(&read_only);
        }
        let account = PtpAccount { interface: interface.to_owned(), ..PtpAccount::default() };
        let log = Arc::new(Mutex::new(PtpLog { account, ..PtpLog::default() }));
        let shared = log.clone();
        let (started, outcome) = sync_channel(1);
        // The kernel ends it with the thread that started it, which therefore reads it as well.
        let body = move |_: &AtomicBool| read(command, &shared, &started);
        let thread = BackgroundThread::start("onbeat-ptp", body).map_err(PtpError::Start)?;
        let gone = |_| PtpError::Start(io::Error::from(io::ErrorKind::BrokenPipe));
        let process = outcome.recv().map_err(gone)?.map_err(PtpError::Start)?;
        Ok(Self { log, process, thread: Some(thread), socket })
    }

    /// Waits for a reading of the clocks, up to `at_most`; returns whether there is one.
    ///
    /// # Errors
    /// [`PtpError::Ended`], [`PtpError::Faulty`].
    pub fn await_reading(&self, at_most: Duration) -> Result<bool, PtpError> {
        let until = Instant::now() + at_most;
        loop {
            let log = lock(&self.log);
            if log.is_over {
                let interface = log.account.interface.clone();
                return Err(PtpError::Ended { interface, said: log.reason() });
            }
            if log.is_faulty {
                let interface = log.account.interface.clone();
                return Err(PtpError::Faulty { interface, said: log.reason() });
            }
            if log.account.readings > 0 || Instant::now() >= until {
                return Ok(log.account.readings > 0);
            }
            drop(log);
            thread::sleep(PAUSE);
        }
    }

    /// Returns what was read so far, and whether the clocks are being compared now.
    #[must_use]
    pub fn account(&self) -> PtpAccount {
        let log = lock(&self.log);
        let is_fresh = log.latest.is_some_and(|at| at.elapsed() < FRESH);
        PtpAccount { is_locked: is_fresh && !log.is_over, ..log.account.clone() }
    }
}

impl Drop for PtpMonitor {
    fn drop(&mut self) {
        // It is not reaped before its output has ended, so the number is still its own.
        if !lock(&self.log).is_over {
            let _ = kill_process(self.process, Signal::TERM);
        }
        drop(self.thread.take());
        let _ = std::fs::remove_file(self.socket.with_extension(READ_ONLY));
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Whether `ptp4l` makes a second socket, for reading only, as linuxptp 4 does, and some distributions' 3: by default
/// at the place of the machine's own service, whose socket it would replace. An older one does not know the option.
fn has_read_only_socket(place: &Path) -> io::Result<bool> {
    let mut asked = Command::new("ptp4l");
    asked.arg(READ_ONLY_OPTION).arg(place).arg("-v");
    asked.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(asked.status()?.success())
}

/// Removes the sockets that killed processes have left.
fn remove_stale_sockets() {
    let folder = std::fs::read_dir(std::env::temp_dir());
    for entry in folder.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(SOCKET).and_then(|rest| rest.split_once('-'));
        if pid.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn lock(log: &Mutex<PtpLog>) -> MutexGuard<'_, PtpLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ptp4l` in the foreground with software stamps, eight exchanges and a reading each second.
fn command(interface: &str, role: PtpRole) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "ptp4l", "-i", interface, "-S", "-m", "-q"]);
    command.args(["--logSyncInterval", "-3", "--logMinDelayReqInterval", "-3"]);
    command.args(["--logAnnounceInterval", "-2", "--announceReceiptTimeout"]);
    command.arg(match role {
        PtpRole::Transmitter => AWAITED,
        PtpRole::Receiver => MISSED,
    });
    command.args(["--free_running", "1", "--summary_interval", "-4", "--freq_est_interval", "0"]);
    match role {
        PtpRole::Transmitter => command.args([TRANSMITTER_ONLY, "1"]),
        PtpRole::Receiver => command.arg("-s"),
    };
    command.stdin(Stdio::null());
    command
}

fn read(command: Command, log: &Mutex<PtpLog>, started: &SyncSender<io::Result<Pid>>) {
    let (output, mut child) = match spawned(command) {
        Ok(spawned) => spawned,
        Err(why) => return drop(started.send(Err(why))),
    };
    let _ = started.send(Ok(Pid::from_child(&child)));
    for line in BufReader::new(output).lines() {
        let Ok(line) = line else { break };
        lock(log).take(&line, Instant::now());
    }
    lock(log).is_over = true;
    let _ = child.wait();
}

/// Starts the program; its messages and its errors come from one pipe, which ends with it.
fn spawned(mut command: Command) -> io::Result<(PipeReader, Child)> {
    let (output, input) = io::pipe()?;
    let errors = input.try_clone()?;
    let child = command.stdout(input).stderr(errors).spawn()?;
    Ok((output, child))
}

impl PtpLog {
    /// Takes a line: `ptp4l[12.3]: master offset -64 s0 freq +220 path delay 1687`, or
    /// `ptp4l[12.3]: port 1: LISTENING to UNCALIBRATED on RS_SLAVE`, from linuxptp 4 on `port 1 (eth0): …`.
    fn take(&mut self, line: &str, now: Instant) {
        let said = line.split_once("]: ").map_or(line, |(_, said)| said);
        said.clone_into(&mut self.last_line);
        if said.contains("failed: ") {
            said.clone_into(&mut self.failure);
        }
        let words: Vec<&str> = said.split_whitespace().collect();
        let account = &mut self.account;

        match words[..] {
            ["master", "offset", offset, .., "path", "delay", delay] => {
                let (Ok(offset_ns), Ok(delay_ns)) = (offset.parse::<i64>(), delay.parse::<i64>())
                else {
                    return;
                };
                // The first reading comes before the delay is known.
                if delay_ns == 0 {
                    return;
                }
                account.readings += 1;
                account.offset_ns = offset_ns;
                account.most_offset_ns = account.most_offset_ns.max(offset_ns.unsigned_abs());
                account.path_delay_ns = delay_ns;
                self.square_sum += (offset_ns as f64).powi(2);
                account.rms_ns = (self.square_sum / account.readings as f64).sqrt().round() as u64;
                self.latest = Some(now);
            }
            ["port", "1:", from, "to", to, ..] | ["port", "1", _, from, "to", to, ..] => {
                let was_reading = ["UNCALIBRATED", "SLAVE"].contains(&from);
                if was_reading && !["UNCALIBRATED", "SLAVE"].contains(&to) {
                    account.losses += 1;
                    self.latest = None;
                }
                // A link that is down is a fault later, and passes.
                self.is_faulty = from == "INITIALIZING" && to == "FAULTY";
                to.clone_into(&mut account.state);
            }
            _ => {}
        }
    }

    fn reason(&self) -> String {
        if self.failure.is_empty() { self.last_line.clone() } else { self.failure.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_ptp4l_are_read() {
        let mut log = PtpLog::default();
        for line in [
            "ptp4l[15132.568]: port 1: LISTENING to UNCALIBRATED on RS_SLAVE",
            "ptp4l[15133.572]: master offset          0 s0 freq     +10 path delay         0",
            "ptp4l[15134.573]: master offset        -64 s0 freq    +220 path delay      1687",
            "ptp4l[15135.574]: master offset         48 s0 freq    +749 path delay      2146",
        ] {
            log.take(line, Instant::now());
        }
        let PtpAccount { readings, offset_ns, rms_ns, most_offset_ns, path_delay_ns, .. } =
            log.account;
        assert_eq!((readings, offset_ns, rms_ns, most_offset_ns), (2, 48, 57, 64));
        assert_eq!((path_delay_ns, log.account.state.as_str()), (2146, "UNCALIBRATED"));
        assert!(log.latest.is_some());
        // Of clocks whose rates differ.
        let line = "ptp4l[15136.1]: master offset 1814389063 s0 freq +1000000 path delay -11282235";
        log.take(line, Instant::now());
        assert_eq!(log.account.path_delay_ns, -11_282_235);

        for (losses, port) in [(1, "port 1:"), (2, "port 1 (eth0):")] {
            log.take(
                &format!("ptp4l[15139.1]: {port} LISTENING to SLAVE on RS_SLAVE"),
                Instant::now(),
            );
            assert_eq!(log.account.state, "SLAVE", "{port}");
            let over = "SLAVE to LISTENING on ANNOUNCE_RECEIPT_TIMEOUT_EXPIRES";
            log.take(&format!("ptp4l[15140.1]: {port} {over}"), Instant::now());
            let found = (log.account.losses, log.account.state.as_str());
            assert_eq!(found, (losses, "LISTENING"), "{port}");
            assert!(log.latest.is_none(), "no longer locked");
        }
    }

    #[test]
    fn a_port_that_cannot_be_opened_is_said_with_the_reason_of_the_system() {
        // linuxptp 3.1.1: of a user without rights, and on an interface that is missing.
        let denied = [
            "ptp4l[1109.183]: failed to adjust the clock: Operation not permitted",
            "ptp4l[1109.184]: bind failed: Permission denied",
            "ptp4l[1109.184]: port 1: INITIALIZING to FAULTY on FAULT_DETECTED (FT_UNSPECIFIED)",
            "ptp4l[1109.184]: port 0: INITIALIZING to LISTENING on INIT_COMPLETE",
        ];
        let missing = [
            "ptp4l[1109.171]: ioctl SIOCGIFHWADDR failed: No such device",
            "ptp4l[1109.171]: failed to generate a clock identity",
            "failed to create a clock",
        ];
        let down =
            ["ptp4l[1147.634]: port 1: LISTENING to FAULTY on FAULT_DETECTED (FT_UNSPECIFIED)"];
        for (lines, is_faulty, reason) in [
            (&denied[..], true, "bind failed: Permission denied"),
            (&missing[..], false, "ioctl SIOCGIFHWADDR failed: No such device"),
            (&down[..], false, "port 1: LISTENING to FAULTY on FAULT_DETECTED (FT_UNSPECIFIED)"),
        ] {
            let mut log = PtpLog::default();
            for line in lines {
                log.take(line, Instant::now());
            }
            assert_eq!((log.is_faulty, log.reason().as_str()), (is_faulty, reason));
        }
    }
}
