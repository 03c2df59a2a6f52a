//! QEMU's control socket: a few commands of the QEMU Machine Protocol, one JSON object per line.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use onbeat_host::peer::Peer;
use serde::Deserialize;
use serde_json::{Value, json};

use super::VmError;

/// Longest wait for an answer. QEMU answers in its main loop, which a busy host may keep waiting.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Longest answer in bytes: hundreds of virtual CPUs have less than a tenth of it.
const LONGEST: u64 = 1 << 20;
/// Letters of another program's answer in an error.
const SHOWN: usize = 80;

/// A connection in command mode.
#[derive(Debug)]
pub(super) struct MonitorSocket {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

#[derive(Deserialize)]
struct VirtualCpu {
    #[serde(rename = "thread-id")]
    thread: i32,
}

/// A QEMU of the user's own, as its control socket describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuSocket {
    /// Process number of QEMU.
    pub pid: i32,
    /// Host threads of the virtual CPUs, in order.
    pub vcpus: Vec<i32>,
}

impl QemuSocket {
    /// Asks the control socket at `path` (`-qmp unix:PATH,server=on,wait=off`), and leaves it again:
    /// it serves one program at a time. Blocks for at most 30 seconds.
    ///
    /// # Errors
    /// When nothing answers there, or not as QEMU does.
    pub fn ask(path: &Path) -> Result<Self, VmError> {
        let failed = |error: &dyn fmt::Display| control(&format!("{}: {error}", path.display()));
        let stream = UnixStream::connect(path).map_err(|error| failed(&error))?;
        let owner = Peer::of(&stream).map_err(|error| failed(&error))?;
        if owner.pid == 0 {
            return Err(failed(&"QEMU runs in another PID namespace; run onbeat on its host"));
        }
        let mut socket = MonitorSocket::negotiate(stream)?;
        Ok(Self { pid: owner.pid.cast_signed(), vcpus: socket.cpu_threads()? })
    }
}

/// Connects to socket `name` in `directory`; nothing while QEMU has not created it yet.
pub(super) fn connect_in(directory: &Path, name: &str) -> io::Result<Option<UnixStream>> {
    // A socket's path is limited to 108 bytes. By way of the directory's descriptor it is always
    // short.
    let opened = std::fs::File::open(directory)?;
    match UnixStream::connect(format!("/proc/self/fd/{}/{name}", opened.as_raw_fd())) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(error),
        },
    }
}

impl MonitorSocket {
    /// Connects to socket `name` in `directory`; nothing while QEMU has not created it yet.
    pub(super) fn connect(directory: &Path, name: &str) -> Result<Option<Self>, VmError> {
        let stream = connect_in(directory, name).map_err(|error| control(&error.to_string()))?;
        stream.map(Self::negotiate).transpose()
    }

    fn negotiate(stream: UnixStream) -> Result<Self, VmError> {
        let failed = |error: io::Error| control(&error.to_string());
        stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
        let writer = stream.try_clone().map_err(failed)?;
        let mut this = Self { reader: BufReader::new(stream), writer };
        let greeting = this.message()?;
        if greeting.get("QMP").is_none() {
            return Err(control(&format!("a greeting was expected, {greeting} came")));
        }

        this.execute("qmp_capabilities")?;
        Ok(this)
    }

    /// Executes a command without arguments and returns its answer.
    pub(super) fn execute(&mut self, command: &str) -> Result<Value, VmError> {
        self.execute_with(command, &json!({}))
    }

    /// Executes a command and returns its answer; events in between are passed over.
    pub(super) fn execute_with(
        &mut self,
        command: &str,
        arguments: &Value,
    ) -> Result<Value, VmError> {
        let line = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        self.writer
            .write_all(line.as_bytes())
            .map_err(|error| control(&format!("{command}: {error}")))?;
        loop {
            let mut message = self.message()?;
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = message.get("error") {
                return Err(control(&format!("{command}: {error}")));
            }
        }
    }

    /// Host threads of the virtual CPUs, in order.
    pub(super) fn cpu_threads(&mut self) -> Result<Vec<i32>, VmError> {
        let answer = self.execute("query-cpus-fast")?;
        let cpus: Vec<VirtualCpu> = serde_json::from_value(answer)
            .map_err(|error| control(&format!("query-cpus-fast: {error}")))?;
        Ok(cpus.into_iter().map(|cpu| cpu.thread).collect())
    }

    fn message(&mut self) -> Result<Value, VmError> {
        let mut line = String::new();
        match self.reader.by_ref().take(LONGEST).read_line(&mut line) {
            Ok(0) => Err(control("closed")),
            Ok(_) if line.starts_with("QEMU ") => {
                Err(control("it is the one of -monitor; name that of -qmp"))
            }
            Ok(_) => serde_json::from_str(&line).map_err(|error| {
                let shown: String = line.chars().take(SHOWN).collect();
                control(&format!("{error} in {shown:?}"))
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(control(&format!(
                "no answer within {} s; it answers one program at a time, and libvirt has those of its guests",
                ANSWER_WITHIN.as_secs()
            ))),
            Err(error) => Err(control(&error.to_string())),
        }
    }
}

fn control(message: &str) -> VmError {
    VmError::Control { message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A QEMU that says these lines, whatever it is asked; returns what it was asked.
    fn stand_in(
        lines: &[&str],
    ) -> (Result<MonitorSocket, VmError>, std::thread::JoinHandle<String>) {
        let (client, server) = UnixStream::pair().expect("a pair");
        let lines = lines.join("\n") + "\n";
        let said = std::thread::spawn(move || {
            let mut server = server;
            server.write_all(lines.as_bytes()).expect("lines");
            io::read_to_string(server).expect("commands")
        });

        (MonitorSocket::negotiate(client), said)
    }

    #[test]
    fn threads_of_virtual_cpus_are_read_past_events() {
        let lines = [
            r#"{"QMP": {"version": {}, "capabilities": []}}"#,
            r#"{"return": {}}"#,
            r#"{"event": "RESUME", "timestamp": {}}"#,
            r#"{"return": [{"cpu-index": 0, "thread-id": 17}, {"cpu-index": 1, "thread-id": 18}]}"#,
        ];
        let (socket, said) = stand_in(&lines);
        let threads = socket.expect("a connection").cpu_threads().expect("CPUs");
        assert_eq!(threads, [17, 18]);
        let said = said.join().expect("the other side");
        assert_eq!(
            said,
            "{\"arguments\":{},\"execute\":\"qmp_capabilities\"}\n{\"arguments\":{},\"execute\":\"query-cpus-fast\"}\n"
        );
    }

    #[test]
    fn an_error_and_the_end_of_the_connection_are_reported() {
        let (socket, _said) =
            stand_in(&[r#"{"QMP": {}}"#, r#"{"return": {}}"#, r#"{"error": {"desc": "no"}}"#]);
        let mut socket = socket.expect("a connection");
        let error = socket.execute("stop").expect_err("an error").to_string();
        assert_eq!(error, r#"QEMU's control socket: stop: {"desc":"no"}"#);

        let (socket, _said) = stand_in(&[r#"{"return": {}}"#]);
        assert!(socket.is_err(), "no greeting");

        let wrong = |line: &str| stand_in(&[line]).0.expect_err(line).to_string();
        let monitor = wrong("QEMU 7.2.22 monitor - type 'help' for more information\r");
        assert!(monitor.ends_with("name that of -qmp"), "{monitor}");
        let endless = wrong(&"x".repeat((1 << 20) + 10));
        assert!(endless.len() < 200, "{endless}");
    }

    #[test]
    fn a_socket_that_does_not_exist_yet_is_not_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(MonitorSocket::connect(directory.path(), "qmp").expect("no error").is_none());
    }
}
