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

use std::ffi::CStr;
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
use super::interrupts::Receiver;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};
use super::wait_companion::{WaitCompanion, off_the_loops_cpu};
use onbeat_cause::assembler::{
    Assembler, FRAME, KernelCall, R0, R1, R2, R3, R6, R7, R8, R9, Width,
};
use onbeat_cause::bpf::{AttachPoint, AttachedProgram, BpfArray};
use onbeat_cause::btf::Btf;
use onbeat_host::thread::ThreadRequest;

/// Time from the start of the delay to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 50_000;
/// Maximum number of clock readings: the kernel's verifier follows each of them, and accepts a
/// million instructions.
const MOST_READINGS: u64 = 60_000;
/// A reading in the kernel takes at least this part of one by `clock_gettime`.
const READING_PART: u64 = 4;
/// The softirq of received packets (`include/linux/interrupt.h`).
const NET_RX: i32 = 3;

/// Record shared by program and injector: start of the time in which it may act (0: disarmed), end
/// of the delay, timer or thread concerned, actual begin and end.
const CONTROL: usize = 40;
const FROM: i16 = 0;
const UNTIL: i16 = 8;
const KEY: i16 = 16;
const BEGAN: i16 = 24;
const ENDED: i16 = 32;

/// The BPF program that delays its trace point.
struct KernelDelay {
    control: BpfArray,
    _program: AttachedProgram,
}

impl KernelDelay {
    fn open(plan: &InjectionPlan) -> Result<Self, Error> {
        let refused = |why: String| {
            plan.impossible(format!(
                "{why}; it takes root (or CAP_BPF and CAP_PERFMON), Linux 5.6 and CONFIG_DEBUG_INFO_BTF"
            ))
        };

        let control =
            BpfArray::create(CONTROL, 1).map_err(|why| refused(format!("no BPF map: {why}")))?;
        let key = match plan.fault {
            Fault::TimerInterrupt => Some(("hrtimer", "_softexpires")),
            Fault::InterruptsOff => Some(("task_struct", "pid")),
            _ => None,
        };

        let key = key.map(|(structure, field)| {
            let bytes = std::fs::read("/sys/kernel/btf/vmlinux")
                .map_err(|why| refused(format!("no BTF: {why}")))?;
            let offset = Btf::parse(bytes).and_then(|btf| btf.offset(structure, field));
            offset.map_err(|why| refused(why.to_string()))
        });

        let key = key.transpose()?;
        let wanted = DelayProgram {
            fault: plan.fault,
            cpu: plan.target.cpu,
            map: control.number(),
            key: key.unwrap_or(0),
            readings: readings(plan.for_ns + AHEAD_NS),
        };
        let (code, name) = wanted.assemble();
        let attached = AttachedProgram::load(&code, AttachPoint::Raw(name));
        let program = attached
            .map_err(|why| refused(format!("the kernel refuses the BPF program: {why}")))?;
        Ok(Self { control, _program: program })
    }

    /// Arms the program to act once, at `from` or later, and to delay until `until`.
    fn arm(&self, from: Instant, until: Instant, key: u64) -> bool {
        let mut control = [0; CONTROL];
        for (at, value) in [(FROM, from.as_ns()), (UNTIL, until.as_ns()), (KEY, key)] {
            control[at as usize..at as usize + 8].copy_from_slice(&value.to_ne_bytes());
        }
        self.control.write(0, &control).is_ok()
    }

    /// Disarms the program and returns begin and end of its delay, if it acted.
    fn disarm(&self) -> Option<(Instant, Instant)> {
        let mut control = Vec::new();
        self.control.read(&mut control).ok()?;
        let word = |at: i16| {
            Some(u64::from_ne_bytes(control.get(at as usize..at as usize + 8)?.try_into().ok()?))
        };
        let began = word(BEGAN)?;
        let ended = word(ENDED)?;
        self.arm(Instant::from_ns(0), Instant::from_ns(0), 0);
        (began > 0 && ended > began).then_some((Instant::from_ns(began), Instant::from_ns(ended)))
    }
}

/// Returns the number of clock readings that last for `ns` nanoseconds. The verifier takes its time
/// for each of them: on an emulated processor, minutes for the most.
fn readings(ns: u64) -> i32 {
    const TRIED: u64 = 1_000;
    let tried_ns = shortest_ns(3, || {
        (0..TRIED).for_each(|_| {
            let _ = Monotonic.now();
        });
    });
    let wanted = ns.saturating_mul(TRIED * READING_PART) / tried_ns.max(1);
    wanted.clamp(TRIED, MOST_READINGS) as i32
}

/// What a program delays.
#[derive(Clone, Copy)]
struct DelayProgram {
    fault: Fault,
    cpu: u32,
    /// Number of the map with the control record.
    map: i32,
    /// Offset of a timer's expiry, or of a thread's number.
    key: u32,
    /// Maximum number of clock readings.
    readings: i32,
}

impl DelayProgram {
    /// Returns the program's instructions and its trace point.
    fn assemble(self) -> (Vec<u64>, &'static CStr) {
        let Self { fault, cpu, map, key, readings } = self;
        let mut code = Assembler::default();
        let end = code.new_target();
        let mine = code.new_target();
        let out = code.new_target();
        let again = code.new_target();
        let turn = code.new_target();
        code.copy(R6, R1);
        code.call(KernelCall::ProcessorId);
        code.jump_if_not(R0, cpu.cast_signed(), end);
        code.store_zero(Width::Word, FRAME, -4);
        code.copy(R2, FRAME);
        code.add(R2, -4);
        code.map(R1, map);
        code.call(KernelCall::MapLookup);
        code.jump_if_zero(R0, end);
        code.copy(R7, R0);
        code.load(Width::Double, R8, R7, FROM);
        code.jump_if_zero(R8, end);
        let name = match fault {
            Fault::TimerInterrupt | Fault::InterruptsOff => {
                code.load(Width::Double, R3, R6, 0);
                code.add(R3, key.cast_signed());
                code.set(R2, 8);
                code.copy(R1, FRAME);
                code.add(R1, -16);
                code.store_zero(Width::Double, FRAME, -16);
                code.call(KernelCall::ProbeReadKernel);
                code.load(Width::Double, R1, FRAME, -16);
                code.load(Width::Double, R2, R7, KEY);
                code.jump_if_equal(R1, R2, mine);
                code.jump(end);

                if fault == Fault::TimerInterrupt {
                    c"hrtimer_expire_entry"
                } else {
                    c"sched_waking"
                }
            }
            Fault::SlowSoftirq => {
                code.load(Width::Double, R1, R6, 0);
                code.jump_if_not(R1, NET_RX, end);
                c"softirq_entry"
            }
            _ => c"call_function_single_entry",
        };

        code.bind(mine);
        code.call(KernelCall::KtimeNs);
        code.jump_if_less(R0, R8, end);
        code.load(Width::Double, R9, R7, UNTIL);
        code.jump_if_less(R9, R0, end);
        code.store_zero(Width::Double, R7, FROM);
        code.store(Width::Double, R7, BEGAN, R0);
        code.set(R8, readings);
        code.bind(turn);
        code.call(KernelCall::KtimeNs);
        // In this order the verifier follows the exit first and needs to remember only one other
        // branch.
        code.jump_if_less(R0, R9, again);
        code.jump(out);
        code.bind(again);
        code.add(R8, -1);
        code.jump_if_not(R8, 0, turn);
        code.bind(out);
        code.store(Width::Double, R7, ENDED, R0);
        code.bind(end);
        code.exit();

        (code.finish(), name)
    }
}

/// What makes the kernel reach the trace point on the loop's CPU.
enum Trigger {
    /// The loop's own timer.
    None,
    /// Waking a thread that waits for an event.
    Wake { event: Arc<OwnedFd>, tid: Arc<AtomicU32>, sleeper: WaitCompanion },
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
                    sleeper: WaitCompanion::start(off_the_loops_cpu(plan), body)?,
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
        let delay = self.delay.as_ref()?;
        let begin = aim.wake_up.minus_ns(AHEAD_NS);
        if let Trigger::Interrupt(receiver) = &self.trigger {
            receiver.be_busy_until(aim.until);
        }

        let key = match &self.trigger {
            Trigger::Wake { tid, .. } => u64::from(tid.load(Ordering::SeqCst)),
            _ => aim.wake_up.as_ns(),
        };

        if !delay.arm(begin, aim.until, key) {
            return None;
        }

        if self.fault == Fault::TimerInterrupt {
            sleep_until(aim.until.plus_ns(plan.lead_ns() / 2));
        } else if busy_until(begin) < aim.wake_up {
            self.trigger();
        }

        let (began, ended) = delay.disarm()?;
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
            sleeper.end();
            signal(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_trace_point() {
        let faults =
            [Fault::InterruptsOff, Fault::TimerInterrupt, Fault::SlowSoftirq, Fault::SlowIpi];
        let names = faults.map(|fault| {
            DelayProgram { fault, cpu: 1, map: 3, key: 24, readings: 1_000 }.assemble().1
        });
        assert_eq!(
            names,
            [
                c"sched_waking",
                c"hrtimer_expire_entry",
                c"softirq_entry",
                c"call_function_single_entry"
            ]
        );
    }

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
                Ok(delay) => assert_eq!(delay.disarm(), None, "{fault}"),
                Err(why) => println!("skipped: {why}"),
            }
        }
    }
}
