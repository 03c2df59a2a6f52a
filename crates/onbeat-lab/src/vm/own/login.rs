//! The agent in a guest that boots from its own disk: a login at its serial console starts it.
//!
//! ```text
//! guest   ... login:          Password:          # _
//! host               user ──▶          ****** ──▶   echo onbeat-$(id -u)-$((40+2)) ──▶
//! guest   onbeat-0-42                                  a shell, of root
//! host                mount, tar, sh login ──▶         the agent is on a disk of its own, a tar archive
//! guest   onbeat: agent
//! ```
//!
//! Nothing of the guest's own is used but its shell, `mount`, `tar`, `dd`, `grep` and `mkdir`. A shell that is there
//! without a login is taken as it is. A guest without a driver for that disk gets the files by a port ([`delivery`]).

mod delivery;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onbeat_net::background::BackgroundThread;

use super::super::VmError;
use super::super::archive::Archive;
use super::super::error::last_line;
use super::super::guest::CONSOLE;
use super::super::qemu::split;
use super::super::qmp::connect_in;

/// The console's socket and the agent's disk in the guest's directory.
pub(in crate::vm) const CONSOLE_SOCKET: &str = "console";
const DISK: &str = "agent.tar";
/// The same without the agent's program, for a guest that has that.
const REST: &str = "rest.tar";
/// The directory that a guest with shared directories sees.
const SHARE: &str = "share";
/// The job among the agent's files.
const JOB: &str = "onbeat/root/job";
const AGENT_THERE: &str = "onbeat: agent";
/// A shell that answers this is one, and says whose.
const WHOSE_SHELL: &str = "echo onbeat-$(id -u)-$((40+2))\n";
const SHELL_SAYS: [&str; 2] = ["onbeat-", "-42"];

/// Begins the last words of a kernel; kernel/panic.c.
const PANIC: &str = "Kernel panic - not syncing";

/// Of the console, in bytes.
const MOST_SEEN: usize = 64 << 10;
const READ_FOR: Duration = Duration::from_millis(100);

/// How long a guest is waited for.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// A console without a new byte for so long asks, or is a shell.
    quiet: Duration,
    /// How long a console that shows no prompt is left alone before a newline asks for one.
    ask_after: Duration,
    /// How long an answer of the guest may take; an emulated one is slow.
    answers_within: Duration,
}

impl Patience {
    const USUAL: Self = Self {
        quiet: Duration::from_secs(1),
        ask_after: Duration::from_secs(15),
        answers_within: Duration::from_secs(120),
    };
}

/// Why nobody could log in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// No prompt came.
    #[error(
        "no login prompt on the guest's first serial port in {within:?} (its last line: {last_line:?}): the guest needs console=ttyS0 and a getty there"
    )]
    NoPrompt {
        within: Duration,
        /// The last line of the console.
        last_line: String,
    },
    /// The guest's kernel has stopped.
    #[error("the guest's kernel has stopped before the agent had started: {line}")]
    Panicked {
        /// What it said.
        line: String,
    },
    /// A password is needed, and none was given.
    #[error(
        "the guest asks for a password of {user}; put it into a file and name that by --password-file"
    )]
    PasswordAsked { user: String },
    /// The guest does not know the user, or the password is another one.
    #[error("the guest refused the login of {user}: {line:?}")]
    Refused {
        user: String,
        /// What the guest said.
        line: String,
    },
    /// No shell answered.
    #[error("no shell answered after the login of {user} (the last line: {last_line:?})")]
    NoShell {
        user: String,
        /// The last line of the console.
        last_line: String,
    },
    /// A shell of another user cannot mount, nor be real-time.
    #[error("{user} has the user number {uid} in the guest, and the agent needs root, number 0")]
    NotRoot { user: String, uid: String },
    /// The agent did not start.
    #[error("the agent did not start in the guest's shell (the last line: {last_line:?})")]
    NoAgent {
        /// The last line of the console.
        last_line: String,
    },
    /// The console closed.
    #[error("the guest's console closed before the agent had started: {reason}")]
    Closed { reason: io::ErrorKind },
}

/// Who logs in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct GuestUser {
    /// A user of the guest with the rights of root.
    pub(super) name: String,
    /// Without one, a guest that asks for it is an error.
    pub(super) password: Option<String>,
}

impl std::fmt::Debug for GuestUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A password is nobody else's.
        write!(f, "GuestUser({:?})", self.name)
    }
}

/// How the agent comes into a guest that boots from its own disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnLogin {
    pub(super) user: GuestUser,
    /// The archive with the agent.
    pub(in crate::vm) agent: PathBuf,
    /// The archive without its program, where that is the agent alone.
    pub(super) rest: Option<PathBuf>,
    /// Kernel and initrd of the script, where it names them.
    pub(in crate::vm) kernel: Option<PathBuf>,
    pub(in crate::vm) initrd: Option<PathBuf>,
}

/// The agent's files as a tar archive, to which the job of each guest is appended.
pub(super) fn agent_files(archive: &Archive) -> Result<Vec<u8>, VmError> {
    archive.to_tar().map_err(VmError::writing(Path::new(DISK)))
}

impl OwnLogin {
    /// What tells it from another one, for the key of a result: an archive is named after its content.
    pub(super) fn identity(&self) -> String {
        format!(
            " login {:?} {:?} {:?} {:?}",
            self.user,
            self.agent.file_name(),
            self.kernel,
            self.initrd
        )
    }

    /// Writes the agent's disk with a job into the directory of its guest: an archive without a file
    /// system.
    pub(in crate::vm) fn write_disk(&self, directory: &Path, job: &str) -> Result<(), VmError> {
        let share = directory.join(SHARE);
        let shared = std::fs::create_dir(&share);
        shared.map_err(VmError::writing(&share))?;
        let path = directory.join(DISK);
        Self::write_archive(&self.agent, &path, job)?;
        let link = share.join(DISK);
        std::fs::hard_link(&path, &link).map_err(VmError::writing(&link))?;
        self.rest.iter().try_for_each(|rest| Self::write_archive(rest, &directory.join(REST), job))
    }

    /// Copies an archive and appends the job.
    fn write_archive(archive: &Path, path: &Path, job: &str) -> Result<(), VmError> {
        let mut with_job = Archive::new();
        with_job.file(JOB, job.as_bytes().to_vec());
        let write = || {
            std::fs::copy(archive, path)?;
            let mut file = File::options().append(true).open(path)?;
            file.write_all(&with_job.to_tar()?)?;
            // Two empty blocks end an archive, and a disk has whole sectors, of 4 KiB at most.
            let length = file.metadata()?.len() + 1024;
            file.set_len(length.next_multiple_of(4096))
        };
        write().map_err(VmError::writing(path))
    }

    /// QEMU's words for that disk and for a port that takes results, beside those of a guest's own.
    pub(in crate::vm) fn words(&self, own: &[String]) -> Vec<String> {
        // The guest's disks keep their names: this one is behind them on their bus. One that boots from a
        // virtio disk has the driver; any PC has that of AHCI or IDE, whose disks cannot be read-only: -snapshot
        // keeps the file as it is.
        let has = |word: &str| own.iter().any(|known| known.contains(word));
        let device = match (has("virtio"), has("q35")) {
            (true, _) => "virtio-blk-pci,addr=0x18",
            (false, true) => "ide-hd,bus=ide.5",
            (false, false) => "ide-hd,bus=ide.1,unit=1",
        };
        let read_only = if has("virtio") { "on" } else { "off" };
        let line = format!(
            "-drive if=none,id=onbeat-agent,format=raw,readonly={read_only},file={DISK} -device {device},drive=onbeat-agent \
             -chardev file,id=onbeat-stream,path=stream -device virtio-serial-pci,addr=0x19,ioeventfd=off,id=onbeat-ports \
             -device virtserialport,bus=onbeat-ports.0,chardev=onbeat-stream,name=onbeat \
             -chardev socket,id=onbeat-files,path={},server=on,wait=off \
             -device virtserialport,bus=onbeat-ports.0,chardev=onbeat-files,name={}",
            delivery::SOCKET,
            delivery::PORT
        );
        // This QEMU has 9p where the guest's own line has it.
        let has_shares = own.iter().any(|word| ["-fsdev", "-virtfs"].contains(&word.as_str()));
        let share = format!(
            " -fsdev local,id=onbeat-share,path={SHARE},security_model=none,readonly=on \
             -device virtio-9p-pci,addr=0x1a,fsdev=onbeat-share,mount_tag=onbeat-agent"
        );
        split(&if has_shares { line + &share } else { line })
    }
}

/// A login that goes on beside the guest.
#[derive(Debug)]
pub(in crate::vm) struct LoginThread {
    // Ends within one read of the console.
    thread: Option<BackgroundThread<Result<(), LoginError>>>,
    failure: Option<LoginError>,
}

impl LoginThread {
    /// Begins to log in at the guest whose directory this is; it has `within` until its prompt.
    pub(in crate::vm) fn start(directory: &Path, login: &OwnLogin, within: Duration) -> Self {
        let (directory, login) = (directory.to_owned(), login.clone());
        let started = BackgroundThread::start("onbeat-login", move |stop| {
            let mut console = GuestConsole::open(&directory, stop)?;
            console.log_in(&login.user.name, login.user.password.as_deref(), within)
        });
        match started {
            Ok(thread) => Self { thread: Some(thread), failure: None },
            Err(error) => Self { thread: None, failure: Some(closed(error)) },
        }
    }

    /// Why it failed, once it has.
    pub(in crate::vm) fn failure(&mut self) -> Option<&LoginError> {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            self.failure = thread.finish().and_then(Result::err);
        }
        self.failure.as_ref()
    }
}

/// The guest's first serial port.
struct GuestConsole<'s> {
    /// The guest's directory, with the agent's files.
    directory: PathBuf,
    stream: UnixStream,
    patience: Patience,
    /// What came since the last prompt.
    seen: String,
    changed: Instant,
    stop: &'s AtomicBool,
}

impl<'s> GuestConsole<'s> {
    fn open(directory: &Path, stop: &'s AtomicBool) -> Result<Self, LoginError> {
        let stream = connect_in(directory, CONSOLE_SOCKET).map_err(closed)?;
        let stream = stream.ok_or_else(|| closed(io::ErrorKind::NotFound.into()))?;
        stream.set_read_timeout(Some(READ_FOR)).map_err(closed)?;
        let (patience, changed) = (Patience::USUAL, Instant::now());
        let directory = directory.to_owned();
        let mut this = Self { directory, stream, patience, seen: String::new(), changed, stop };
        // What came before the connection is in the file only.
        if let Ok(mut file) = File::open(this.directory.join(CONSOLE)) {
            let mut before = Vec::new();
            let _ = file.read_to_end(&mut before);
            this.take(&before);
        }
        Ok(this)
    }

    fn log_in(
        &mut self,
        user: &str,
        password: Option<&str>,
        within: Duration,
    ) -> Result<(), LoginError> {
        if self.prompt(within)? == Prompt::Login {
            self.send(&format!("{user}\n"))?;
            self.answer_password(user, password)?;
        }
        let uid = self.whose_shell(user)?;
        if uid != "0" {
            return Err(LoginError::NotRoot { user: user.to_owned(), uid });
        }

        self.deliver()
    }

    /// Waits until somebody may log in, or a shell is there.
    fn prompt(&mut self, within: Duration) -> Result<Prompt, LoginError> {
        let begun = Instant::now();
        let mut asked = Instant::now();
        loop {
            let prompt = Prompt::at_end_of(&self.seen);
            if let Some(prompt) = prompt.filter(|_| self.changed.elapsed() > self.patience.quiet) {
                return Ok(prompt);
            }
            if begun.elapsed() > within {
                return Err(LoginError::NoPrompt { within, last_line: self.last_line() });
            }
            // A prompt that messages of the kernel have followed is written again for a newline.
            let is_quiet = self.changed.elapsed() > self.patience.ask_after
                && asked.elapsed() > self.patience.ask_after;
            if is_quiet && !self.seen.trim().is_empty() {
                asked = Instant::now();
                self.write("\n")?;
            }
            self.read()?;
        }
    }

    /// Sends the password if it is asked for; returns when something else came.
    fn answer_password(&mut self, user: &str, password: Option<&str>) -> Result<(), LoginError> {
        let begun = Instant::now();
        let is_over = |console: &Self| {
            begun.elapsed() > console.patience.answers_within
                || Prompt::at_end_of(&console.seen) == Some(Prompt::Shell)
        };
        while !is_over(self) {
            self.read()?;
            if self.seen.trim_end().to_lowercase().ends_with("password:") {
                let asked = || LoginError::PasswordAsked { user: user.to_owned() };
                let password = password.ok_or_else(asked)?.to_owned();
                return self.send(&format!("{password}\n"));
            }
            self.check_refusal(user)?;
        }
        Ok(())
    }

    fn check_refusal(&self, user: &str) -> Result<(), LoginError> {
        let is_refusal = |line: &&str| {
            let line = line.to_lowercase();
            line.contains("login incorrect") || line.contains("authentication failure")
        };
        let refusal = self.seen.lines().find(is_refusal);
        refusal.map_or(Ok(()), |line| {
            Err(LoginError::Refused { user: user.to_owned(), line: line.trim().to_owned() })
        })
    }

    /// Asks until a shell answers with its user's number.
    fn whose_shell(&mut self, user: &str) -> Result<String, LoginError> {
        let begun = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            let [before, behind] = SHELL_SAYS;
            // The echo of the question has a `$` there.
            let answers =
                self.seen.split(before).skip(1).filter_map(|rest| rest.split_once(behind));
            let number = |(uid, _): (&str, &str)| {
                let is_number = !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then(|| uid.to_owned())
            };
            if let Some(uid) = answers.filter_map(number).next() {
                return Ok(uid);
            }
            self.check_refusal(user)?;
            if begun.elapsed() > self.patience.answers_within {
                let last_line = self.last_line();
                return Err(LoginError::NoShell { user: user.to_owned(), last_line });
            }
            if self.changed.elapsed() > self.patience.quiet
                && asked.is_none_or(|at| at.elapsed() > self.patience.ask_after)
            {
                asked = Some(Instant::now());
                self.write(WHOSE_SHELL)?;
            }
            self.read()?;
        }
    }

    /// Sends a line, whose answer is what comes from now on.
    fn send(&mut self, line: &str) -> Result<(), LoginError> {
        self.seen.clear();
        self.write(line)
    }

    fn write(&mut self, text: &str) -> Result<(), LoginError> {
        self.stream.write_all(text.as_bytes()).map_err(closed)
    }

    /// Reads what has come, for a tenth of a second at most.
    fn read(&mut self) -> Result<(), LoginError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(closed(io::ErrorKind::Interrupted.into()));
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(closed(io::ErrorKind::UnexpectedEof.into())),
            Ok(length) => {
                self.take(&bytes[..length]);
                self.check_kernel()
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(closed(error)),
            },
        }
    }

    /// Fails once the kernel has stopped: no prompt will come.
    fn check_kernel(&self) -> Result<(), LoginError> {
        let at = self.seen.find(PANIC).map(|at| &self.seen[at..]);
        // Its whole line.
        let line =
            at.and_then(|said| said.split_once('\n')).map(|(line, _)| line.trim().to_owned());
        line.map_or(Ok(()), |line| Err(LoginError::Panicked { line }))
    }

    fn take(&mut self, bytes: &[u8]) {
        self.seen.push_str(&String::from_utf8_lossy(bytes));
        // A guest may write for ever, and prompts are at the end.
        let surplus = self.seen.len().saturating_sub(MOST_SEEN);
        let from = (surplus..).find(|at| self.seen.is_char_boundary(*at)).unwrap_or(surplus);
        self.seen.drain(..from);
        self.changed = Instant::now();
    }

    fn last_line(&self) -> String {
        last_line(self.seen.as_bytes())
    }
}

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn closed(error: io::Error) -> LoginError {
    LoginError::Closed { reason: error.kind() }
}

/// What a console waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    Login,
    Shell,
}

impl Prompt {
    fn at_end_of(seen: &str) -> Option<Self> {
        let line = without_sequences(seen.rsplit('\n').next().unwrap_or_default());
        let plain = line.trim_end();
        if plain.to_lowercase().ends_with("login:") {
            return Some(Self::Login);
        }
        (plain.ends_with('#') || plain.ends_with('$')).then_some(Self::Shell)
    }
}

/// A line without the sequences that set colours (`ESC [ 0 m`), ask for the cursor (`ESC [ 6 n`) or set a
/// title (`ESC ] ... BEL`); ECMA-48, 5.4.
fn without_sequences(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('\x1b') {
        plain.push_str(before);
        let is_end = |letter: char| match behind.chars().next() {
            Some(']') => letter == '\x07',
            _ => ('@'..='~').contains(&letter) && letter != '[',
        };
        rest = behind.find(is_end).map_or("", |end| &behind[end + 1..]);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// A guest that is asked for a prompt.
    const NEWLINE: &str = "\n";

    /// A host that waits for a guest on a busy machine, and asks it once.
    const PATIENT: Patience = Patience {
        quiet: Duration::from_millis(20),
        ask_after: Duration::from_secs(120),
        answers_within: Duration::from_secs(60),
    };

    /// A guest that says the first of each pair and then reads a line, which must hold the second.
    fn told(
        script: &[(&'static str, &'static str)],
        password: Option<&str>,
    ) -> Result<(), LoginError> {
        told_by((PATIENT, PATIENT.answers_within), script, password)
    }

    /// The same to a host with another patience, also until the prompt.
    fn told_by(
        (patience, within): (Patience, Duration),
        script: &[(&'static str, &'static str)],
        password: Option<&str>,
    ) -> Result<(), LoginError> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(DISK), "an archive").expect("a file");
        let (stream, guest) = UnixStream::pair().expect("a pair");
        stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        let script = script.to_vec();
        let (tell, has_begun) = std::sync::mpsc::channel();
        let playing = std::thread::spawn(move || {
            let mut writer = guest.try_clone().expect("an end");
            let mut lines = BufReader::new(guest).lines().map_while(Result::ok);
            let asks_again = patience.ask_after < patience.answers_within;
            for (says, hears) in script {
                writer.write_all(says.as_bytes()).expect("a host");
                let _ = tell.send(());
                if hears.is_empty() {
                    continue;
                }
                // A guest that gets no CPU for a moment is asked twice.
                let is_again = |line: &str| {
                    line.is_empty() && hears != NEWLINE || line.contains(ASKS) && hears != ASKS
                };
                let line = lines.find(|line| !(asks_again && is_again(line))).unwrap_or_default();
                let is_as_told = line.contains(hears) || line.is_empty() && hears == NEWLINE;
                assert!(is_as_told, "{line:?} after {says:?}");
            }
            // Until the host has read all of it.
            lines.for_each(drop);
        });
        has_begun.recv().expect("a guest");
        let stop = &AtomicBool::new(false);
        let (seen, changed) = (String::new(), Instant::now());
        let directory = directory.path().to_owned();
        let mut console = GuestConsole { directory, stream, patience, seen, changed, stop };
        let ended = console.log_in("root", password, within);
        drop(console);
        playing.join().expect("the guest heard what it waits for");
        ended
    }

    const ASKS: &str = "echo onbeat-$(id";
    const SHELL: (&str, &str) = ("\r\nWelcome\r\n\x1b[?2004hroot@vm:~# ", ASKS);
    const ROOT: (&str, &str) =
        ("echo onbeat-$(id -u)-$((40+2))\r\nonbeat-0-42\r\n# ", "by_console() {");
    const RUN: (&str, &str) = ("", "sh /run/onbeat/onbeat/login");
    const AGENT: (&str, &str) = ("onbeat: agent\r\n", "");

    #[test]
    fn a_login_with_a_password_and_one_without() {
        let script = &[
            ("Linux\r\nvm login: ", "root"),
            ("root\r\nPassword: ", "se cret"),
            SHELL,
            ROOT,
            RUN,
            AGENT,
        ];
        assert_eq!(told(script, Some("se cret")), Ok(()));
        assert_eq!(told(&[("vm login: ", "root"), SHELL, ROOT, RUN, AGENT], None), Ok(()));
    }

    #[test]
    fn a_shell_that_is_there_already_is_taken() {
        let there = ("Booted\r\n\x1b]0;vm\x07\x1b[1m/ #\x1b[0m \x1b[6n", ASKS);
        assert_eq!(told(&[there, ROOT, RUN, AGENT], None), Ok(()));
    }

    #[test]
    fn files_that_are_on_no_disk_are_sent_by_the_console() {
        // One part of base64, of an archive by gzip, whose first bytes are 1f 8b 08.
        let script = &[
            ("vm login: ", "root"),
            SHELL,
            ROOT,
            RUN,
            ("onbeat: by console\r\n", "1"),
            ("onbeat: go\n", "H4sI"),
            ("onbeat+\n", ""),
            AGENT,
        ];
        assert_eq!(told(script, None), Ok(()));
        let brief = Patience { answers_within: Duration::from_secs(5), ..PATIENT };
        let cut_off = told_by((brief, PATIENT.answers_within), &script[..6], None);
        assert!(matches!(&cut_off, Err(LoginError::NoAgent { .. })), "{cut_off:?}");
    }

    #[test]
    fn a_prompt_under_messages_of_the_kernel_is_asked_for_again() {
        let hidden = ("vm login: \r\n[    9.1] eth0: link up\r\n", NEWLINE);
        let asking = Patience { ask_after: Duration::from_millis(300), ..PATIENT };
        let script = [hidden, ("vm login: ", "root"), SHELL, ROOT, RUN, AGENT];
        assert_eq!(told_by((asking, PATIENT.answers_within), &script, None), Ok(()));

        let silent = [("[    9.2] Freeing memory\r\n", "")];
        let ended = told_by((asking, Duration::from_secs(2)), &silent, None);
        let line = "[    9.2] Freeing memory";
        assert!(
            matches!(&ended, Err(LoginError::NoPrompt { last_line, .. }) if last_line == line),
            "{ended:?}"
        );
    }

    #[test]
    fn why_a_login_failed_is_said() {
        let login = ("vm login: ", "root");
        let asks = ("Password: ", "");
        assert_eq!(
            told(&[login, asks], None),
            Err(LoginError::PasswordAsked { user: "root".to_owned() })
        );
        let refused = &[login, ("Password: ", "wrong"), ("\r\nLogin incorrect\r\nvm login: ", "")];
        let line = "Login incorrect".to_owned();
        assert_eq!(
            told(refused, Some("wrong")),
            Err(LoginError::Refused { user: "root".to_owned(), line })
        );
        let user = &[login, SHELL, ("onbeat-1000-42\r\n$ ", "")];
        let (user_, uid) = ("root".to_owned(), "1000".to_owned());
        assert_eq!(told(user, None), Err(LoginError::NotRoot { user: user_, uid }));
        let panic = ("[ 3.8] Kernel panic - not syncing: Attempted to kill init!\r\n", "");
        let line = "Kernel panic - not syncing: Attempted to kill init!".to_owned();
        assert_eq!(told(&[panic], None), Err(LoginError::Panicked { line }));
        let no_tar =
            &[login, SHELL, ROOT, RUN, ("sh: tar: not found\r\nonbeat: not there\r\n", "")];
        let ended = told(no_tar, None);
        let last_line = "sh: tar: not found".to_owned();
        assert_eq!(ended, Err(LoginError::NoAgent { last_line }));
    }

    #[test]
    fn the_agents_disk_is_an_archive_with_the_job() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut archive = Archive::new();
        archive.file("onbeat/login", b"echo".to_vec());
        let agent = directory.path().join("agent");
        std::fs::write(&agent, agent_files(&archive).expect("an archive")).expect("a file");
        let login = OwnLogin {
            user: GuestUser { name: "root".to_owned(), password: Some("p".to_owned()) },
            rest: Some(agent.clone()),
            agent,
            kernel: None,
            initrd: None,
        };
        assert!(!format!("{login:?}").contains("\"p\""), "{login:?}");
        let guest = directory.path().join("guest");
        std::fs::create_dir(&guest).expect("a directory");
        login.write_disk(&guest, "true\n").expect("a disk");

        let bytes = std::fs::read(guest.join(DISK)).expect("a disk");
        assert!(std::fs::read(guest.join(SHARE).join(DISK)).expect("the same, shared") == bytes);
        assert!(guest.join(REST).exists());
        assert!(bytes.starts_with(b"onbeat/") && bytes.len().is_multiple_of(4096));
        let mut found = tar::Archive::new(&bytes[..]);
        let entries = found.entries().expect("entries").map(|entry| entry.expect("an entry"));
        let paths: Vec<String> =
            entries.map(|entry| entry.path().expect("a path").display().to_string()).collect();
        assert_eq!(paths, ["onbeat/", "onbeat/login", "onbeat/", "onbeat/root/", JOB]);
    }
}
