//! The ACPI timer of a guest: a counter of its virtual time that both sides read, the guest at its
//! port, this machine by QEMU's monitor while the guest stands still. Its clock and this machine's
//! need not be joined then.
//!
//! ```text
//! this machine   stop, read ─ command ─ cont
//! virtual time   ───────────┃ stands    ┃──────────────▶
//! guest                                    edge, read
//! ```
//!
//! 24 bits at 3.579545 MHz (ACPI specification 6.5, sections 4.8.2.1 and 4.8.3.3): a tick takes
//! 279 ns, and the counter goes round in 4.68 s.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

use serde_json::json;

use super::VmError;
use super::qmp::MonitorSocket;

/// A second control socket: QEMU serves one program at each.
const SOCKET: &str = "hold";
const FREQUENCY_HZ: u64 = 3_579_545;
/// What the counter counts to.
const MASK: u32 = 0xff_ffff;
/// Error bound of the time between two readings: each is rounded down to a tick.
pub(crate) const ROUNDED_NS: u64 = 2 * (1_000_000_000 / FREQUENCY_HZ + 1);
/// A whole round of the counter.
pub(crate) const ROUND_NS: u64 = (MASK as u64 + 1) * 1_000_000_000 / FREQUENCY_HZ;

/// Nanoseconds between two readings, the later one second.
pub(crate) const fn ns_between(from: u32, to: u32) -> u64 {
    (to.wrapping_sub(from) & MASK) as u64 * 1_000_000_000 / FREQUENCY_HZ
}

/// The timer of this machine, read at its port, by the thread that has opened it.
#[derive(Debug)]
pub(crate) struct PmTimer {
    /// Its number, by which the host reads the same timer.
    pub(crate) port: u16,
    /// The permission is the thread's.
    _of_this_thread: PhantomData<*const ()>,
}

impl PmTimer {
    /// Opens the timer that the kernel has found.
    ///
    /// # Errors
    /// `NotFound` without one, and the kernel's answer when its port may not be read (root, no
    /// lockdown, `CONFIG_X86_IOPL_IOPERM`).
    pub(crate) fn of_this_guest() -> io::Result<Self> {
        let ports = fs::read_to_string("/proc/ioports")?;
        let port = port_of(&ports).ok_or(io::ErrorKind::NotFound)?;
        permit(port)?;
        Ok(Self { port, _of_this_thread: PhantomData })
    }

    /// Reads the counter.
    pub(crate) fn read(&self) -> u32 {
        read_port(self.port) & MASK
    }
}

/// Lets this thread use the four bytes of a port. Only a PC has ports.
#[cfg(target_arch = "x86_64")]
fn permit(port: u16) -> io::Result<()> {
    // SAFETY: the call changes which ports this thread may use, and touches no memory.
    match unsafe { libc::ioperm(port.into(), 4, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn permit(_: u16) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// All four bytes at once: `/dev/port` reads one at a time, each of another instant.
#[cfg(target_arch = "x86_64")]
fn read_port(port: u16) -> u32 {
    let value: u32;
    // SAFETY: a `PmTimer` exists only where this thread may read the port; reading changes nothing.
    unsafe {
        std::arch::asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags));
    }
    value
}

#[cfg(not(target_arch = "x86_64"))]
fn read_port(_: u16) -> u32 {
    0
}

/// The timer's port in `/proc/ioports`.
fn port_of(ports: &str) -> Option<u16> {
    let line = ports.lines().find(|line| line.ends_with(": ACPI PM_TMR"))?;
    let (first, _) = line.trim_start().split_once('-')?;
    u16::from_str_radix(first, 16).ok().filter(|port| *port != 0)
}

/// The monitor of a guest that is stopped for a moment.
#[derive(Debug)]
pub(crate) struct HeldGuest(MonitorSocket);

impl HeldGuest {
    /// Arguments of QEMU for the socket.
    pub(crate) fn arguments() -> [String; 2] {
        ["-qmp".to_owned(), format!("unix:{SOCKET},server=on,wait=off")]
    }

    /// Connects to a guest in its directory; nothing where it has no such socket.
    pub(crate) fn connect(directory: &Path) -> Result<Option<Self>, VmError> {
        Ok(MonitorSocket::connect(directory, SOCKET)?.map(Self))
    }

    /// Stops the guest, reads its timer, does `what`, and lets the guest go on, whatever came of it.
    /// Returns the reading: the instant of `what` in virtual time.
    ///
    /// # Errors
    /// QEMU's, and those of `what`.
    pub(crate) fn at_standstill(
        &mut self,
        port: u16,
        what: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<u32> {
        self.execute("stop")?;
        let done = self.timer(port).and_then(|reading| what().map(|()| reading));
        // QEMU's main loop takes what was written before it has answered the second question.
        for _ in 0..2 {
            self.execute("query-status")?;
        }
        self.execute("cont")?;
        done
    }

    fn timer(&mut self, port: u16) -> io::Result<u32> {
        let line = json!({ "command-line": format!("i /w {port:#x}") });
        let answer = self.0.execute_with("human-monitor-command", &line);
        let answer = answer.map_err(io::Error::other)?;
        let said = answer.as_str().unwrap_or_default();
        reading_of(said).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("QEMU's ACPI timer reads {said:?}"))
        })
    }

    fn execute(&mut self, command: &str) -> io::Result<()> {
        self.0.execute(command).map(|_| ()).map_err(io::Error::other)
    }
}

/// `portl[0x0608] = 0x0012abcd`, as QEMU's monitor says it.
fn reading_of(said: &str) -> Option<u32> {
    let (_, value) = said.trim().rsplit_once("= 0x")?;
    u32::from_str_radix(value, 16).ok().map(|value| value & MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_counter_also_past_its_end() {
        assert_eq!(ns_between(0, 3_579_545), 1_000_000_000);
        assert_eq!(ns_between(MASK, 0), 279);
        assert_eq!(ns_between(7, 7), 0);
    }

    #[test]
    fn the_port_is_the_one_that_the_kernel_names() {
        let ports = "0000-0cf7 : PCI Bus 0000:00\n  0600-067f : 0000:00:1f.0\n    0608-060b : ACPI PM_TMR\n";
        assert_eq!(port_of(ports), Some(0x608));
        assert_eq!(port_of("  0000-0000 : ACPI PM_TMR\n"), None, "no rights");
        assert_eq!(reading_of("portl[0x0608] = 0x01abcdef\r\n"), Some(0xab_cdef));
        assert_eq!(reading_of("unknown command: 'i'"), None);
    }
}
