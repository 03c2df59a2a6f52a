//! A network namespace for tests that make interfaces.
#![allow(unsafe_code)]

use std::process::Command;
use std::thread;

/// Does the work in a network namespace of its own, with all processes that it starts.
pub(crate) fn in_a_namespace(work: impl FnOnce() + Send + 'static) {
    let done = thread::spawn(move || {
        // SAFETY: only this thread's network changes, and it has no socket yet.
        let made = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
        let veth = Command::new("ip").args(["link", "add", "name", "a", "type", "veth"]).output();
        if made.is_err() || !veth.is_ok_and(|output| output.status.success()) {
            println!(
                "skipped: no network namespace with a veth pair can be made here; it takes root and ip"
            );
            return;
        }

        work();
    });
    done.join().unwrap();
}
