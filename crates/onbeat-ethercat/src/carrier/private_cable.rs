//! A private cable: a veth pair in a network namespace that only its sockets keep alive.
//!
//! Nothing else sees the frames, names cannot collide, and nothing needs to be undone: when the
//! sockets are closed, explicitly or by the end of the process, the kernel removes the namespace
//! and its interfaces.
#![allow(unsafe_code)]

use std::io;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{CarrierError, Interface, WireMethod};

/// Names of the interfaces.
const ENDS: [&str; 2] = ["bus", "devices"];
/// New interfaces have a carrier shortly after they are up: polling interval and limit.
const POLL_EVERY: Duration = Duration::from_millis(2);
const MOST_POLLS: u32 = 500;

/// Creates a private cable. Returns the end of the MainDevice, prepared for a method, and the end of
/// the devices.
///
/// # Errors
/// [`CarrierError`] without CAP_SYS_ADMIN, without `ip` of iproute2, or when the kernel has no
/// veth.
pub fn private_cable(method: WireMethod) -> Result<(Interface, Interface), CarrierError> {
    // A network namespace belongs to a thread. This thread ends when the sockets are open; other
    // threads keep their namespace.
    let thread = thread::Builder::new()
        .name("onbeat-cable".to_owned())
        .spawn(move || in_new_namespace(method));
    let thread = thread.map_err(|source| failed("start the thread that creates", source))?;
    thread.join().unwrap_or_else(|_| Err(failed("create", io::Error::other("its thread panicked"))))
}

fn failed(what: &'static str, source: io::Error) -> CarrierError {
    CarrierError::System { what, name: "private cable".to_owned(), source }
}

fn in_new_namespace(method: WireMethod) -> Result<(Interface, Interface), CarrierError> {
    // SAFETY: no memory is passed. The thread leaves only the shared network namespace, and no
    // socket of the process depends on it.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let source = io::Error::last_os_error();
        return Err(match source.kind() {
            io::ErrorKind::PermissionDenied => CarrierError::NotPermitted {
                what: "a network namespace for",
                name: "private cable".to_owned(),
                right: "ADMIN (and CAP_SYS_ADMIN)",
            },
            _ => failed("create a network namespace for", source),
        });
    }

    let [bus, devices] = ENDS;
    ip(&["link", "add", bus, "type", "veth", "peer", "name", devices])?;
    for end in ENDS {
        // Only frames of the bus: no IPv6 neighbour discovery.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        ip(&["link", "set", end, "up"])?;
    }

    for end in ENDS {
        wait_until_up(end)?;
    }

    Ok((Interface::open(bus)?.by(method), Interface::open(devices)?))
}

fn wait_until_up(end: &str) -> Result<(), CarrierError> {
    for _ in 0..MOST_POLLS {
        if ip(&["-o", "link", "show", end])?.contains("state UP") {
            return Ok(());
        }
        thread::sleep(POLL_EVERY);
    }
    Err(failed("wait for the carrier of", io::ErrorKind::TimedOut.into()))
}

/// Runs `ip` of iproute2 in this thread's namespace.
fn ip(words: &[&str]) -> Result<String, CarrierError> {
    let done = Command::new("ip").args(words).output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => failed("run `ip` (Debian package iproute2) for", source),
        _ => failed("run `ip` for", source),
    })?;

    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }

    let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(failed("create", io::Error::other(format!("ip {}: {why}", words.join(" ")))))
}
