//! The agent's files on their way into a guest, by the first of four that it has a driver for:
//!
//! 1. the disk, which is the archive itself;
//! 2. a directory shared by 9p, for guests with such directories of their own;
//! 3. a virtio-serial port, to which the archive is written;
//! 4. the console: base64 of the archive by gzip, in parts that the guest asks for one by one. A serial port has no flow control, and
//!    what the kernel has no room for is lost; a part fits. A guest that has `onbeat-guest` of this version in its PATH gets the rest.
//!
//! ```text
//! guest   onbeat: by console      onbeat: go             onbeat+
//! host                     3 ──▶            16,384 bytes ──▶   16,384 bytes ──▶ ...
//! ```

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::super::archive::gzipped;
use super::super::super::error::last_line;
use super::super::super::qmp::connect_in;
use super::{AGENT_THERE, DISK, GuestConsole, LoginError, READ_FOR, REST, closed};

/// The socket of the port in the guest's directory, and the port's name in the guest.
pub(super) const SOCKET: &str = "files";
pub(super) const PORT: &str = "onbeat-agent";

/// What an agent of this version says of itself.
const THIS_AGENT: &str = concat!("onbeat-guest ", env!("CARGO_PKG_VERSION"));
/// What the guest says. In [`START`] the words are torn apart, since a console repeats what is typed.
const BY_PORT: &str = "onbeat: by port";
const BY_CONSOLE: &str = "onbeat: by console";
const NOT_THERE: &str = "onbeat: not there";
const GO: &str = "onbeat: go";
const GOT: &str = "onbeat+";
/// Letters of a part: a terminal of Linux keeps 64 KiB for a slow reader.
const PART: usize = 16 << 10;

/// Unpacks the files and starts the agent; the first bytes of an archive are the name of its first file, and its last one is the job. In two lines, since the shell of
/// busybox reads 1,023 letters of one.
const START: &str = "stty -echo; lacks() { ! test -e /run/onbeat/onbeat/root/job; }; \
    by_console() { stty raw -echo; echo onbeat: 'go'; \
    while [ $n -gt 0 ]; do head -c 16384; echo onbeat'+' >&2; n=$((n-1)); done | \
    base64 -d | gzip -d | tar -x -f - -C /run/onbeat; stty sane -echo; }\n\
    mkdir -p /run/onbeat && mount -t tmpfs -o mode=0700 onbeat /run/onbeat; \
    for d in /dev/vd? /dev/sd? /dev/hd?; do dd if=$d bs=7 count=1 2>/dev/null | grep -q onbeat/ && \
    tar -x -f $d -C /run/onbeat && break; done; \
    lacks && mkdir /run/onbeat/share && mount -t 9p -o trans=virtio,ro onbeat-agent /run/onbeat/share 2>/dev/null && \
    tar -x -f /run/onbeat/share/agent.tar -C /run/onbeat; \
    lacks && modprobe virtio_console 2>/dev/null && sleep 1; \
    for n in /sys/class/virtio-ports/*/name; do lacks && grep -qsx onbeat-agent $n && n=${n%/name} && \
    echo onbeat: 'by port' && head -c LENGTH /dev/${n##*/} | tar -x -f - -C /run/onbeat; done; \
    if lacks; then echo onbeat: 'by console' $(onbeat-guest --version 2>/dev/null); read n; by_console; \
    r=/run/onbeat/onbeat/root/bin; test -e $r/onbeat || cp $(command -v onbeat-guest) $r/onbeat; fi; \
    if lacks; then echo onbeat: 'not there'; else sh /run/onbeat/onbeat/login; fi\n";

impl GuestConsole<'_> {
    /// Has the shell of root fetch the agent's files and start the agent.
    pub(super) fn deliver(&mut self) -> Result<(), LoginError> {
        let archive = fs::read(self.directory.join(DISK)).map_err(closed)?;
        // A port that nobody has opened is at its end for the guest.
        let port = connect_in(&self.directory, SOCKET).map_err(closed)?;
        self.send(&START.replace("LENGTH", &archive.len().to_string()))?;
        let mut since = Instant::now();
        while !self.seen.contains(AGENT_THERE) {
            if self.has_said(BY_PORT) {
                self.send_by_port(port.as_ref(), &archive)?;
                since = Instant::now();
            }
            if self.has_said(BY_CONSOLE) {
                let has = self.rest_of_line()?;
                let rest = fs::read(self.directory.join(REST)).ok().filter(|_| has == THIS_AGENT);
                self.send_by_console(rest.as_deref().unwrap_or(&archive))?;
                since = Instant::now();
            }
            if self.seen.contains(NOT_THERE) {
                return Err(LoginError::NoAgent { last_line: self.said_before(NOT_THERE) });
            }
            self.check_patience(since)?;
            self.read()?;
        }
        Ok(())
    }

    fn send_by_port(
        &mut self,
        port: Option<&UnixStream>,
        archive: &[u8],
    ) -> Result<(), LoginError> {
        let missing = || closed(io::ErrorKind::NotFound.into());
        let mut port = port.ok_or_else(missing)?;
        port.set_write_timeout(Some(READ_FOR)).map_err(closed)?;
        let mut rest = archive;
        let mut since = Instant::now();
        while !rest.is_empty() {
            match port.write(rest) {
                Ok(written) => {
                    rest = &rest[written..];
                    since = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.check_patience(since)?;
                }
                Err(error) => return Err(closed(error)),
            }
            // It reads whether the guest is to be ended, too.
            self.read()?;
        }
        Ok(())
    }

    fn send_by_console(&mut self, archive: &[u8]) -> Result<(), LoginError> {
        let mut text = STANDARD.encode(gzipped(archive));
        // base64 passes over the ends of lines.
        let padded = text.len().next_multiple_of(PART);
        text.extend(std::iter::repeat_n('\n', padded - text.len()));
        self.write(&format!("{}\n", padded / PART))?;
        self.wait_for(GO)?;
        let mut rest = text.as_str();
        while let Some((part, behind)) = rest.split_at_checked(PART) {
            self.write(part)?;
            self.wait_for(GOT)?;
            rest = behind;
        }
        Ok(())
    }

    /// What stands behind a word that was said.
    fn rest_of_line(&mut self) -> Result<String, LoginError> {
        self.read_until(|console| Some(console.seen.split_once('\n')?.0.trim().to_owned()))
    }

    fn wait_for(&mut self, word: &str) -> Result<(), LoginError> {
        self.read_until(|console| console.has_said(word).then_some(()))
    }

    fn read_until<T>(&mut self, found: impl Fn(&mut Self) -> Option<T>) -> Result<T, LoginError> {
        let since = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            self.check_patience(since)?;
            self.read()?;
        }
    }

    /// Whether the guest has said it; what came before is done with then.
    fn has_said(&mut self, word: &str) -> bool {
        let behind = self.seen.find(word).map(|at| at + word.len());
        behind.into_iter().for_each(|behind| drop(self.seen.drain(..behind)));
        behind.is_some()
    }

    /// The line before a word: what a failed command has said.
    fn said_before(&self, word: &str) -> String {
        let before = self.seen.split(word).next().unwrap_or_default();
        last_line(before.as_bytes())
    }

    fn check_patience(&self, since: Instant) -> Result<(), LoginError> {
        if since.elapsed() > self.patience.answers_within {
            return Err(LoginError::NoAgent { last_line: self.last_line() });
        }
        Ok(())
    }
}
