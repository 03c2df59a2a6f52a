//! Threads and an interface that stand for a loop, a virtual machine and a fieldbus.
//!
//! Each runs in a process of its own, which the test starts from its own program; none of them
//! works.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;

use onbeat_tune::catalogue::LoopSetup;

/// The interface's name and its peer's.
const INTERFACE: [&str; 2] = ["onbeat-tune0", "onbeat-tune1"];
/// The names of the threads of a virtual machine that has two virtual CPUs.
const GUEST_THREADS: [&str; 3] = ["CPU 0/KVM", "CPU 1/KVM", "worker"];

/// A process that is killed when its test ends, in whatever way.
pub struct Actor(pub Child);

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the plans are made for; dropping it ends the processes and removes the interface.
pub struct Stage {
    _guest: Actor,
    control_loop: Actor,
    has_interface: bool,
}

impl Stage {
    /// Starts the processes by `role`, which makes a command for each from its name.
    pub fn open(role: impl Fn(&str) -> Command) -> Self {
        let started = |name: &str| {
            let mut child = role(name).stdout(Stdio::piped()).spawn().unwrap();
            // Its first line says that all its threads run.
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let ready = lines.map_while(Result::ok).find(|line| line.contains("ready"));
            assert!(ready.is_some(), "the process of the {name} ended");
            Actor(child)
        };
        Self {
            _guest: started("guest"),
            control_loop: started("loop"),
            has_interface: add_interface(),
        }
    }

    /// The loop that the plans are for: its thread where `task`, with the interface if there is one.
    pub fn setup(&self, with_task: bool) -> LoopSetup {
        LoopSetup {
            task: with_task.then(|| self.control_loop.0.id().cast_signed()),
            interfaces: self.has_interface.then(|| INTERFACE[0].to_owned()).into_iter().collect(),
            // A loop that polls has the tunings of real-time throttling, a sleeping one its limits.
            polls: !with_task,
            runs_guests: true,
            ..LoopSetup::default()
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.has_interface {
            ip(&["link", "delete", INTERFACE[0]]);
        }
    }
}

/// What the process of a role does: waits for its end, with the threads of the role.
pub fn act(role: &str) {
    let names = if role == "guest" { &GUEST_THREADS[..] } else { &[] };
    // A thread names itself when it starts.
    let named = Arc::new(Barrier::new(names.len() + 1));
    for name in names {
        let named = Arc::clone(&named);
        let wait = move || {
            named.wait();
            thread::park();
        };
        thread::Builder::new().name((*name).to_owned()).spawn(wait).unwrap();
    }
    named.wait();
    println!("ready");
    thread::park();
}

fn add_interface() -> bool {
    let [interface, peer] = INTERFACE;
    // One that a test that was killed has left.
    ip(&["link", "delete", interface]);
    let is_added = ip(&["link", "add", interface, "type", "veth", "peer", "name", peer]);
    if !is_added {
        println!("without an interface: `ip link add {interface} type veth` failed");
    }
    is_added
}

fn ip(arguments: &[&str]) -> bool {
    let quiet = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    quiet.is_ok_and(|output| output.status.success())
}
