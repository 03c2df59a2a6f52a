//! `threaded_interrupt`: the thread of a network card's interrupt runs on the loop's CPU.
//!
//! With PREEMPT_RT, and on other kernels with `threadirqs`, interrupts are handled by threads of
//! `SCHED_FIFO` 50. A loop of lower priority waits for them. One frame is sent from an interface to
//! another one of the same machine, and many sockets receive it, which the receiving card's thread
//! does for each of them.
//!
//! The frame has the type of EtherCAT and a header of mailbox data, which no SubDevice processes.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use onbeat_ethercat::carrier::Interface;
use onbeat_host::process::{self, StatLine};
use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use super::actor::{Disturb, DisturbanceTimer, busy_until};
use super::error::Error;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};

/// Time from sending the frame to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 60_000;
/// Sockets of the two calibrations, and maximum number of sockets.
const FEW: usize = 8;
const MANY: usize = 40;
const MOST: usize = 1_000;
/// How long a frame may take from one card to the other.
const ARRIVES_WITHIN: Duration = Duration::from_millis(20);
/// `ARPHRD_ETHER`.
const ETHERNET: &str = "1";

/// The disturber.
#[derive(Default)]
pub(super) struct InterruptThread {
    path: Option<FramePath>,
    calibrated_ns: u64,
}

/// A card's interrupt thread.
struct CardThread {
    tid: u32,
    priority: u32,
    interface: String,
}

/// The way of a frame from one card to another.
struct FramePath {
    sender: Interface,
    frame: Vec<u8>,
    receiver: CardThread,
    sockets: Vec<Interface>,
}

impl FramePath {
    /// Finds two interfaces of which the second receives what the first one sends, in a thread on
    /// the loop's CPU.
    fn find(plan: &InjectionPlan) -> Result<Self, Error> {
        for receiver in card_threads(plan.target.cpu) {
            for name in ethernet_interfaces().iter().filter(|name| **name != receiver.interface) {
                let Ok(sender) = Interface::open(name) else { continue };
                let Some(frame) = frame_to(&receiver.interface) else { continue };
                let before = received(&receiver.interface);
                sender.send(&frame);
                thread::sleep(ARRIVES_WITHIN);
                if received(&receiver.interface) > before {
                    return Ok(Self { sender, frame, receiver, sockets: Vec::new() });
                }
            }
        }

        Err(plan.impossible(format!(
            "no network card whose interrupt is a thread on CPU {} receives what another one of this machine sends; it takes \
             root, PREEMPT_RT or threadirqs, and two cards with a cable between them",
            plan.target.cpu
        )))
    }

    fn grow_to(&mut self, sockets: usize, plan: &InjectionPlan) -> Result<(), Error> {
        while self.sockets.len() < sockets {
            let socket = Interface::open(&self.receiver.interface)
                .map_err(|why| plan.impossible(format!("a socket for frames: {why}")))?;
            self.sockets.push(socket);
        }
        Ok(())
    }

    /// Sends a frame and returns what its reception took the thread, in nanoseconds.
    fn reception_ns(&self) -> u64 {
        let before = run_time_ns(self.receiver.tid);
        self.sender.send(&self.frame);
        thread::sleep(ARRIVES_WITHIN);
        run_time_ns(self.receiver.tid).saturating_sub(before)
    }

    fn shortest_reception_ns(&self) -> u64 {
        (0..5).map(|_| self.reception_ns()).min().unwrap_or(0)
    }
}

impl Disturb for InterruptThread {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        let mut path = FramePath::find(plan)?;
        let CardThread { priority, interface, .. } = &path.receiver;
        if plan.target.priority >= *priority {
            return Err(plan.impossible(format!(
                "the loop's priority {} is not below {priority}, that of the thread of {interface}'s interrupt, which never \
                 keeps it waiting",
                plan.target.priority
            )));
        }

        path.grow_to(FEW, plan)?;
        let few_ns = path.shortest_reception_ns();
        path.grow_to(MANY, plan)?;
        let each_ns =
            (path.shortest_reception_ns().saturating_sub(few_ns) / (MANY - FEW) as u64).max(1);

        let wanted = (plan.for_ns + AHEAD_NS).saturating_sub(few_ns) / each_ns;
        path.grow_to(usize::try_from(wanted).unwrap_or(MOST).clamp(MANY, MOST), plan)?;
        self.calibrated_ns = path.shortest_reception_ns();
        self.path = Some(path);
        Ok(())
    }

    fn disturb(&mut self, _: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let path = self.path.as_ref()?;
        let before = run_time_ns(path.receiver.tid);
        if busy_until(aim.wake_up.minus_ns(AHEAD_NS)) >= aim.wake_up {
            return None;
        }

        let timer = DisturbanceTimer::begin();
        path.sender.send(&path.frame);
        let (at, ns) = timer.end(self.calibrated_ns);
        let took_ns = run_time_ns(path.receiver.tid).saturating_sub(before);
        // Otherwise nothing was received, or it was received elsewhere.
        (took_ns > 0 && at < aim.wake_up).then_some(DisturbanceRecord {
            at,
            ns,
            figures: [path.sockets.len() as u64, 1],
        })
    }
}

/// Returns the interrupt threads of network cards that may run on this CPU alone, or are there now.
fn card_threads(cpu: u32) -> Vec<CardThread> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter_map(|tid| card_thread(tid, cpu)).collect()
}

fn card_thread(tid: u32, cpu: u32) -> Option<CardThread> {
    let name = process::name(tid);
    let (_, interface) = name.strip_prefix("irq/")?.split_once('-')?;
    if !Path::new("/sys/class/net").join(interface).exists() {
        return None;
    }

    let stat = process::text(tid, "stat").ok()?;
    let stat = StatLine::parse(&stat)?;
    let (last_cpu, priority): (u32, _) = (stat.number(39)?, stat.number(40)?);
    let allowed = sched_getaffinity(Pid::from_raw(tid.cast_signed())).ok()?;
    let stays = last_cpu == cpu && allowed.is_set(cpu as usize);
    stays.then(|| CardThread { tid, priority, interface: interface.to_owned() })
}

fn ethernet_interfaces() -> Vec<String> {
    let all = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    let mut ethernet: Vec<String> =
        names.filter(|name| setting(name, "type").as_deref() == Some(ETHERNET)).collect();
    ethernet.sort_unstable();
    ethernet
}

fn setting(interface: &str, file: &str) -> Option<String> {
    let path = Path::new("/sys/class/net").join(interface).join(file);
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn received(interface: &str) -> u64 {
    setting(interface, "statistics/rx_packets").and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// A frame to the card of an interface: both addresses are its own, EtherCAT with a header of type
/// 5, and zeros up to the shortest length.
fn frame_to(interface: &str) -> Option<Vec<u8>> {
    let address = setting(interface, "address")?;
    let bytes = address.split(':').map(|byte| u8::from_str_radix(byte, 16));
    let bytes = bytes.collect::<Result<Vec<u8>, _>>().ok()?;
    let mut frame = [&bytes[..], &bytes[..], &[0x88, 0xa4, 0x00, 0x50]].concat();
    frame.resize(60, 0);
    Some(frame)
}

/// Returns the time for which a thread has run (`/proc/PID/schedstat`), in nanoseconds.
fn run_time_ns(tid: u32) -> u64 {
    let text = process::text(tid, "schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
