//! A cable of one's own: two interfaces in a network namespace that only their sockets hold.
//!
//! Nothing else sees the frames, no name can be taken already, and nothing is to be undone: when the sockets are closed, by order or by
//! the end of the process, kernel and namespace take the interfaces along.
#![allow(unsafe_code)]

use std::io;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{CarrierError, Interface};

/// The ends of the cable.
const ENDS: [&str; 2] = ["bus", "devices"];
/// New interfaces have their carrier a moment after they are up.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const MOST_LOOKS: u32 = 500;

/// Makes a cable: the end for the MainDevice, and the one for the devices.
///
/// # Errors
/// [`CarrierError`] without the right to make namespaces (`CAP_SYS_ADMIN`), without `ip` of iproute2, or when the kernel has no veth.
pub fn private_cable() -> Result<(Interface, Interface), CarrierError> {
    // A namespace is a thread's; this one ends as soon as the sockets are open, and every other thread stays where it is.
    let made = thread::Builder::new().name("onbeat-cable".to_owned()).spawn(in_a_namespace);
    let made = made.map_err(|source| failed("start the thread that makes", source))?;
    made.join().unwrap_or_else(|_| Err(failed("make", io::Error::other("its thread broke down"))))
}

fn failed(what: &'static str, source: io::Error) -> CarrierError {
    CarrierError::System { what, name: "a cable of its own".to_owned(), source }
}

fn in_a_namespace() -> Result<(Interface, Interface), CarrierError> {
    // SAFETY: no memory is passed. Of what this thread shares with others only the network is left behind, and no socket of the
    // process depends on it.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let source = io::Error::last_os_error();
        return Err(match source.kind() {
            io::ErrorKind::PermissionDenied => CarrierError::NotPermitted {
                what: "a network namespace for",
                name: "a cable of its own".to_owned(),
                right: "ADMIN (and CAP_SYS_ADMIN)",
            },
            _ => failed("make a network namespace for", source),
        });
    }

    let [bus, devices] = ENDS;
    ip(&["link", "add", bus, "type", "veth", "peer", "name", devices])?;
    for end in ENDS {
        // Nothing but the bus is to be on it: no neighbour discovery of IPv6.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        ip(&["link", "set", end, "up"])?;
    }

    for end in ENDS {
        wait_until_up(end)?;
    }

    Ok((Interface::open(bus)?, Interface::open(devices)?))
}

fn wait_until_up(end: &str) -> Result<(), CarrierError> {
    for _ in 0..MOST_LOOKS {
        if ip(&["-o", "link", "show", end])?.contains("state UP") {
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(failed("wait for the carrier of", io::ErrorKind::TimedOut.into()))
}

/// Asks iproute2, which starts in this thread's namespace.
fn ip(words: &[&str]) -> Result<String, CarrierError> {
    let done = Command::new("ip").args(words).output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => failed("run `ip` (Debian package iproute2) for", source),
        _ => failed("run `ip` for", source),
    })?;

    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }

    let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(failed("make", io::Error::other(format!("ip {}: {why}", words.join(" ")))))
}
