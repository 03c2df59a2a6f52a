//! `interrupts_off`, `timer_interrupt`, `slow_softirq`, `slow_ipi`: kernel code that delays the
//! loop's CPU.
//!
//! A BPF program at a trace point polls the clock until the injection ends, and records when it
//! began and ended. The trace point determines the context in which it runs:
//!
//! | fault | trace point | the program runs |
//! |---|---|---|
//! | `interrupts_off` | `sched_waking` of a thread that the injector wakes | under that thread's lock, interrupts off |
//! | `timer_interrupt` | `hrtimer_expire_entry` of the loop's timer | in the timer's interrupt, before the loop is woken |
//! | `slow_softirq` | `softirq_entry` of `NET_RX` | in the softirq of a packet that the injector sends |
//! | `slow_ipi` | `call_function_single_entry` | in the handler of an interrupt that another CPU sends |
//!
//! The program acts once each time it is armed, on the loop's CPU only, and is detached when its
//! descriptor is closed. The log has the times that the program recorded.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::gettid;

use super::actor::{Disturb, below_the_loop, busy_until, other_cpu, shortest_ns, sleep_until};
use super::error::Error;
use super::fault::Fault;
use super::in_loop_waits::{signal, wait};
use super::injector_thread::{InjectorThread, off_the_loops_cpu};
use super::interrupts::Receiver;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use aya::maps::{Array, MapData};
use onbeat_cause::programs::{DELAY, LoadedObject, ObjectError, ObjectSetting};
use onbeat_host::thread::ThreadRequest;

/// Time from the start of the delay to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 50_000;
/// Maximum number of clock readings: the kernel's verifier follows each of them, and accepts a
/// million instructions.
const MOST_READINGS: u64 = 60_000;
/// A reading in the kernel takes at least this part of one by `clock_gettime`.
const READING_PART: u64 = 4;
/// Record shared by program and injector, `struct control` of `delay.bpf.c`: start of the time in
/// which it may act (0: disarmed), end of the delay, timer or thread concerned, actual begin and
/// end.
type Control = [u64; 5];
const DISARMED: Control = [0; 5];

/// The BPF program that delays its trace point.
struct KernelDelay {
    control: Array<MapData, Control>,
    _program: LoadedObject,
}

impl KernelDelay {
    fn open(plan: &InjectionPlan) -> Result<Self, Error> {
        let most = readings(plan.for_ns + AHEAD_NS);
        Self::load(plan.fault, plan.target.cpu, most).map_err(|why| {
            plan.impossible(format!(
                "{why}; it takes root (or CAP_BPF and CAP_PERFMON), Linux 5.6 and CONFIG_DEBUG_INFO_BTF"
            ))
        })
    }

    fn load(fault: Fault, cpu: u32, readings: u32) -> Result<Self, ObjectError> {
        let constants = [("loop_cpu", cpu), ("most_readings", readings)];
        let setting = ObjectSetting { constants: &constants, ..ObjectSetting::default() };
        let mut object = LoadedObject::load(DELAY, &setting)?;
        let (program, point) = program_of(fault);
        object.attach_raw(program, point)?;
        Ok(Self { control: object.array("control")?, _program: object })
    }

    /// Arms the program to act once, at `from` or later, and to delay until `until`.
    fn arm(&mut self, from: Instant, until: Instant, key: u64) -> bool {
        self.control.set(0, [from.as_ns(), until.as_ns(), key, 0, 0], 0).is_ok()
    }

    /// Disarms the program and returns begin and end of its delay, if it acted.
    fn disarm(&mut self) -> Option<(Instant, Instant)> {
        let [_, _, _, began, ended] = self.control.get(&0, 0).ok()?;
        let _ = self.control.set(0, DISARMED, 0);
        (began > 0 && ended > began).then_some((Instant::from_ns(began), Instant::from_ns(ended)))
    }
}

/// Returns the program of `delay.bpf.c` for a fault, and its trace point.
const fn program_of(fault: Fault) -> (&'static str, &'static str) {
    match fault {
        Fault::TimerInterrupt => ("timer_interrupt", "hrtimer_expire_entry"),
        Fault::InterruptsOff => ("interrupts_off", "sched_waking"),
        Fault::SlowSoftirq => ("slow_softirq", "softirq_entry"),
        _ => ("slow_ipi", "call_function_single_entry"),
    }
}

/// Returns the number of clock readings that last for `ns` nanoseconds. The verifier takes its time
/// for each of them: on an emulated processor, minutes for the most.
fn readings(ns: u64) -> u32 {
    const TRIED: u64 = 1_000;
    let tried_ns = shortest_ns(3, || {
        (0..TRIED).for_each(|_| {
            let _ = Monotonic.now();
        });
    });
    let wanted = ns.saturating_mul(TRIED * READING_PART) / tried_ns.max(1);
    wanted.clamp(TRIED, MOST_READINGS) as u32
}

/// What makes the kernel reach the trace point on the loop's CPU.
enum Trigger {
    /// The loop's own timer.
    None,
    /// Waking a thread that waits for an event.
    Wake { event: Arc<OwnedFd>, tid: Arc<AtomicU32>, sleeper: InjectorThread },
    /// A packet sent to its own socket.
    Packet(UdpSocket),
    /// An interrupt from another CPU to a thread on the loop's CPU.
    Interrupt(Receiver),
}

/// The disturber.
pub(super) struct InKernel {
    fault: Fault,
    delay: Option<KernelDelay>,
    trigger: Trigger,
}

impl InKernel {
    pub(super) const fn new(fault: Fault) -> Self {
        Self { fault, delay: None, trigger: Trigger::None }
    }

    /// Triggers the trace point, from the injector's thread.
    fn trigger(&self) {
        match &self.trigger {
            Trigger::None => {}
            Trigger::Wake { event, .. } => signal(event),
            Trigger::Packet(socket) => {
                let _ = socket.send(&[0]);
                let _ = socket.recv(&mut [0; 1]);
            }
            Trigger::Interrupt(_) => Receiver::interrupt(),
        }
    }
}

impl Disturb for InKernel {
    fn request(&self, plan: &InjectionPlan) -> ThreadRequest {
        match self.fault {
            Fault::TimerInterrupt | Fault::SlowIpi => {
                ThreadRequest { cpu: other_cpu(plan.target.cpu), ..ThreadRequest::default() }
            }
            _ => below_the_loop(plan),
        }
    }

    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        self.trigger = match self.fault {
            Fault::InterruptsOff => {
                let event = eventfd(0, EventfdFlags::CLOEXEC).map(Arc::new);
                let event = event.map_err(|why| plan.impossible(format!("no eventfd: {why}")))?;
                let tid = Arc::new(AtomicU32::new(0));
                let awaited = event.clone();
                let own_tid = tid.clone();
                let body = move |over: &AtomicBool| {
                    own_tid.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::SeqCst);
                    while wait(&awaited) && !over.load(Ordering::SeqCst) {}
                };

                Trigger::Wake {
                    event,
                    tid,
                    sleeper: InjectorThread::start(off_the_loops_cpu(plan), body)?,
                }
            }
            Fault::SlowSoftirq => {
                let socket = UdpSocket::bind("127.0.0.1:0");
                let socket = socket.and_then(|socket| {
                    socket.connect(socket.local_addr()?)?;
                    socket.set_nonblocking(true)?;
                    Ok(socket)
                });

                Trigger::Packet(
                    socket.map_err(|why| {
                        plan.impossible(format!("no socket on the loopback: {why}"))
                    })?,
                )
            }
            Fault::SlowIpi => {
                let mut receiver = Receiver::default();
                receiver.prepare(plan)?;
                Trigger::Interrupt(receiver)
            }
            _ => Trigger::None,
        };

        self.delay = Some(KernelDelay::open(plan)?);
        Ok(())
    }

    fn disturb(&mut self, plan: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        let begin = aim.wake_up.minus_ns(AHEAD_NS);
        if let Trigger::Interrupt(receiver) = &self.trigger {
            receiver.be_busy_until(aim.until);
        }

        let key = match &self.trigger {
            Trigger::Wake { tid, .. } => u64::from(tid.load(Ordering::SeqCst)),
            _ => aim.wake_up.as_ns(),
        };

        let delay = self.delay.as_mut()?;
        if !delay.arm(begin, aim.until, key) {
            return None;
        }

        if self.fault == Fault::TimerInterrupt {
            sleep_until(aim.until.plus_ns(plan.lead_ns() / 2));
        } else if busy_until(begin) < aim.wake_up {
            self.trigger();
        }

        let (began, ended) = self.delay.as_mut()?.disarm()?;
        let meets =
            self.fault == Fault::TimerInterrupt || (began < aim.wake_up && ended > aim.wake_up);
        meets.then_some(DisturbanceRecord {
            at: began,
            ns: ended.ns_since(began),
            figures: [began.ns_since(aim.wake_up), 0],
        })
    }
}

impl Drop for InKernel {
    fn drop(&mut self) {
        if let Trigger::Wake { event, sleeper, .. } = &self.trigger {
            sleeper.ask_to_end();
            signal(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_not_armed_has_not_acted() {
        let target = super::super::InjectionTarget { pid: 0, tid: 0, cpu: 0, priority: 0 };
        let grid = super::super::ReleaseGrid {
            first_release: Instant::from_ns(0),
            period_ns: 1_000_000,
            spin_ns: 0,
        };
        for fault in
            [Fault::InterruptsOff, Fault::TimerInterrupt, Fault::SlowSoftirq, Fault::SlowIpi]
        {
            let plan = InjectionPlan {
                fault,
                every_ns: 100_000_000,
                for_ns: 300_000,
                count: 1,
                target,
                grid,
            };
            match KernelDelay::open(&plan) {
                Ok(mut delay) => assert_eq!(delay.disarm(), None, "{fault}"),
                Err(why) => println!("skipped: {why}"),
            }
        }
    }
}
