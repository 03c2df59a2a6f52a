//! The application test: a command leaves the host, the guest answers, the answer is back.
//!
//! In the guest `onbeat vm answer` at real-time priority answers on a virtio-serial port; outside of
//! a guest the same program answers on a socket, on the CPU of the guest. What is measured is the
//! whole way: the host's device, the wake-up in the guest, and back.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onbeat::thread::ThreadRequest;

use super::store::Answers;
use crate::vm::process;

/// Name of the port in the guest, and of the socket in its directory.
pub(super) const PORT: &str = "onbeat.app";
const SOCKET: &str = "app";
/// Priority of the program that answers, and of the thread that sends.
const PRIORITY: u32 = 50;
/// Time between an answer and the next command: long enough for a CPU to become idle.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// What the guest sends when it is ready.
const READY: &[u8] = b"ready\n";
const COMMAND_LENGTH: usize = 8;

/// Arguments of QEMU for the port.
pub(super) fn port_arguments() -> Vec<String> {
    let line = format!(
        "-chardev socket,id=app,path={SOCKET},server=on,wait=off -device virtserialport,chardev=app,name={PORT}"
    );
    line.split(' ').map(str::to_owned).collect()
}

/// The words of `onbeat` in the guest: it answers until the host closes the port.
pub(super) fn answering_words() -> [String; 4] {
    ["vm", "answer", "--port", PORT].map(str::to_owned)
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

/// Says that it is ready, and answers commands, each by itself, until the other side closes. Blocks;
/// the thread gets real-time priority where that is permitted, on `cpu` where one is given.
///
/// # Errors
/// The kernel's.
pub fn answer(port: &mut File, cpu: Option<u32>) -> io::Result<()> {
    let request =
        ThreadRequest { fifo: Some(PRIORITY), cpu, lock_memory: true, ..ThreadRequest::default() };
    // Refused rights are those of the whole study, which says so.
    let _held = request.prepare_process();
    let _ = request.prepare_thread();
    port.write_all(READY)?;

    let mut bytes = [0; COMMAND_LENGTH];
    loop {
        match port.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => port.write_all(&bytes[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the times of a round trip are results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApplicationRoundTrips {
    /// Host and guest have one clock.
    Timed,
    /// Only whether commands are answered counts.
    Counted,
}

/// Connects to a guest's port; nothing while QEMU has not created it yet.
pub(super) fn connect(directory: &Path) -> io::Result<UnixStream> {
    // By way of the directory's descriptor the path is short enough for a socket.
    let opened = File::open(directory)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()))
}

/// Sends commands to a guest as soon as it is ready. What fails is in the result, beside what was
/// answered until then.
pub(super) fn command_guest(
    mut port: UnixStream,
    commands: u32,
    round_trips: ApplicationRoundTrips,
    stop: &AtomicBool,
) -> Answers {
    let mut answers = Answers::default();
    let ended = greeted(&mut port, stop).and_then(|()| {
        // Refused rights are those of the whole study, which says so.
        let _ = ThreadRequest { fifo: Some(PRIORITY), ..ThreadRequest::default() }.prepare_thread();
        send(&mut port, commands, (round_trips, stop), &mut answers)
    });
    answers.failure = ended.err().map(|error| error.to_string());
    answers
}

fn greeted(port: &mut UnixStream, stop: &AtomicBool) -> io::Result<()> {
    let mut greeting = [0; READY.len()];
    read_exactly(port, &mut greeting, None, stop)?;
    if greeting == READY {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "the greeting is missing"))
    }
}

/// The same without a guest: the program answers on `cpu` of this machine.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn command_outside(
    onbeat: &Path,
    cpu: u32,
    commands: u32,
    stop: &AtomicBool,
) -> io::Result<Answers> {
    let (near, far) = UnixStream::pair()?;
    let mut command = Command::new(onbeat);
    command.args(["vm", "answer", "--cpu", &cpu.to_string()]).stdin(OwnedFd::from(far));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = process::spawn(&mut command, 0)?;
    // It holds the other end of the socket.
    drop(command);

    // In a thread of its own, because this one keeps its policy.
    let answers = std::thread::scope(|scope| {
        let sending =
            scope.spawn(|| command_guest(near, commands, ApplicationRoundTrips::Timed, stop));
        sending.join().unwrap_or_default()
    });
    if answers.failure.is_some() {
        // It fails only when the process has ended already.
        let _ = child.kill();
    }
    child.wait()?;
    Ok(answers)
}

/// Sends commands one by one, each after the answer to the one before. The caller closes the port,
/// which ends the program that answers.
fn send(
    port: &mut UnixStream,
    commands: u32,
    (round_trips, stop): (ApplicationRoundTrips, &AtomicBool),
    answers: &mut Answers,
) -> io::Result<()> {
    for number in 0..commands {
        let mut command = [0xA5; COMMAND_LENGTH];
        command[..4].copy_from_slice(&number.to_le_bytes());
        let issued = Instant::now();
        port.write_all(&command)?;
        answers.sent += 1;

        let mut answer = [0; COMMAND_LENGTH];
        read_exactly(port, &mut answer, Some(ANSWER_WITHIN), stop)?;
        let elapsed = issued.elapsed();
        if answer != command {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer is another command"));
        }

        answers.answered += 1;
        if round_trips == ApplicationRoundTrips::Timed {
            answers.round_trips_ns.push(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        }
        std::thread::sleep(PAUSE);
    }

    Ok(())
}

/// Reads a whole buffer; looks for `stop` in between.
fn read_exactly(
    port: &mut UnixStream,
    buffer: &mut [u8],
    within: Option<Duration>,
    stop: &AtomicBool,
) -> io::Result<()> {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
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

    /// A guest that greets and answers as `cat` does, until the port closes.
    fn echo(mut port: UnixStream, greeting: &[u8]) {
        port.write_all(greeting).expect("a greeting");
        let mut bytes = [0; 64];
        while let Ok(read) = port.read(&mut bytes) {
            if read == 0 || port.write_all(&bytes[..read]).is_err() {
                return;
            }
        }
    }

    fn asked(greeting: &'static [u8], round_trips: ApplicationRoundTrips) -> Answers {
        let (near, far) = UnixStream::pair().expect("a pair");
        let guest = std::thread::spawn(move || echo(far, greeting));
        let answers = command_guest(near, 20, round_trips, &AtomicBool::new(false));
        guest.join().expect("the guest");
        answers
    }

    #[test]
    fn each_command_is_answered_and_timed() {
        let answers = asked(READY, ApplicationRoundTrips::Timed);
        assert_eq!((answers.sent, answers.answered, answers.round_trips_ns.len()), (20, 20, 20));
        assert_eq!(answers.failure, None);
    }

    #[test]
    fn where_the_clocks_differ_no_time_is_kept() {
        let answers = asked(READY, ApplicationRoundTrips::Counted);
        assert_eq!((answers.answered, answers.round_trips_ns), (20, vec![]));
    }

    #[test]
    fn what_was_answered_before_a_failure_is_kept() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let guest = std::thread::spawn(move || {
            far.write_all(READY).expect("a greeting");
            let mut command = [0; COMMAND_LENGTH];
            for _ in 0..3 {
                far.read_exact(&mut command).expect("a command");
                far.write_all(&command).expect("an answer");
            }
            far.read_exact(&mut command).expect("the last command");
        });
        let answers =
            command_guest(near, 20, ApplicationRoundTrips::Timed, &AtomicBool::new(false));
        guest.join().expect("the guest");
        assert_eq!((answers.sent, answers.answered), (4, 3));
        assert!(answers.failure.is_some());
    }

    #[test]
    fn a_guest_that_says_something_else_gets_no_command() {
        let answers = asked(b"hello\n", ApplicationRoundTrips::Timed);
        assert_eq!(
            (answers.sent, answers.failure.as_deref()),
            (0, Some("the greeting is missing"))
        );
    }
}
