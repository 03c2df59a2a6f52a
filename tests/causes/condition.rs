//! Conditions under which faults are injected: the loop's class, the background load, and the
//! faults that fit.

use std::process::Command;
use std::time::Duration;

use onbeat::inject::{Fault, Loops};
use onbeat::load::RunningLoad;
use onbeat::probe::Setting;
use onbeat::thread::ThreadRequest;
use onbeat_rt::cycle::Phase;

use crate::{Failure, MS};

/// Priority of a loop that threads of interrupts preempt.
const BELOW_INTERRUPTS: u32 = 40;

/// The scheduling class of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// `SCHED_FIFO` 90.
    RealTime,
    /// `SCHED_OTHER`.
    Ordinary,
}

/// Background load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Background {
    Idle,
    Paper,
}

impl Class {
    pub(crate) const ALL: [Self; 2] = [Self::RealTime, Self::Ordinary];

    pub(crate) fn from_word(word: &str) -> Result<Self, Failure> {
        match word {
            "rt" => Ok(Self::RealTime),
            "ordinary" => Ok(Self::Ordinary),
            other => Err(Failure::Word("class", other.to_owned(), "rt, ordinary")),
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::Ordinary => "ordinary",
        }
    }

    const fn fifo(self) -> Option<u32> {
        match self {
            Self::RealTime => Some(90),
            Self::Ordinary => None,
        }
    }
}

impl Background {
    pub(crate) const ALL: [Self; 2] = [Self::Idle, Self::Paper];

    pub(crate) fn from_word(word: &str) -> Result<Self, Failure> {
        match word {
            "idle" => Ok(Self::Idle),
            "paper" => Ok(Self::Paper),
            other => Err(Failure::Word("load", other.to_owned(), "idle, paper")),
        }
    }

    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Paper => "paper",
        }
    }
}

/// A class and a background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Condition {
    pub(crate) class: Class,
    pub(crate) load: Background,
}

impl Condition {
    /// Returns the reason why a fault does not fit this condition; `None` if it fits.
    pub(crate) const fn unfit(self, fault: Fault) -> Option<&'static str> {
        match (fault.loops(), self.class) {
            (Loops::RealTime, Class::Ordinary) => return Some("it takes a real-time loop"),
            (Loops::Ordinary, Class::RealTime) => return Some("it takes an ordinary loop"),
            _ => {}
        }
        match (fault, self.class, self.load) {
            (Fault::RtThrottling | Fault::FairServer, _, Background::Paper) => Some(
                "other ordinary threads always want the CPU, so the two rules cannot be distinguished",
            ),
            (Fault::IpiStorm, Class::Ordinary, _) => {
                Some("its own thread on the loop's CPU would preempt an ordinary loop")
            }
            (Fault::KernelSection | Fault::SpinLockSection, Class::Ordinary, Background::Paper) => {
                Some("its thread must be ordinary too, and does not get the CPU in time")
            }
            (Fault::ForcedMigration | Fault::OrdinaryHog, Class::Ordinary, Background::Paper) => {
                Some("the loop waits for other ordinary threads at any time, moved or not")
            }
            _ => None,
        }
    }

    /// Returns the reason why a fault cannot be planted in a guest in virtual time; `None` if it can.
    pub(crate) const fn unfit_in_virtual_time(fault: Fault) -> Option<&'static str> {
        match fault {
            Fault::RtThrottling | Fault::FairServer => Some(
                "in virtual time a program of the class SCHED_IDLE always wants the CPU, so that the fair server's time does \
                 not end with the injection",
            ),
            Fault::CgroupFreezer => Some(
                "in virtual time the state of a cgroup is read too slowly to know when the loop was frozen",
            ),
            _ => None,
        }
    }

    /// Returns the reason why a fault does not make a loop late on a kernel with PREEMPT_RT; `None`
    /// if it does.
    pub(crate) const fn harmless_with_preempt_rt(self, fault: Fault) -> Option<&'static str> {
        match (fault, self.class) {
            (Fault::SoftirqFlood | Fault::SlowSoftirq, Class::RealTime) => {
                Some("with PREEMPT_RT softirqs run in threads, which a real-time loop preempts")
            }
            (Fault::InterruptLoad, _) => {
                Some("with PREEMPT_RT timers of timerfds expire in a thread, not in the interrupt")
            }
            (Fault::KernelSection | Fault::SpinLockSection, _) => {
                Some("with PREEMPT_RT a wake-up preempts system calls, also under spin locks")
            }
            _ => None,
        }
    }

    pub(crate) fn words(self) -> String {
        format!("{}, {}", self.class.words(), self.load.words())
    }

    /// Returns the loop of `onbeat measure timer`, on one CPU. Threads of interrupts have the
    /// priority 50, so they disturb a loop below it.
    pub(crate) fn setting(self, fault: Fault, cpu: u32, phase: Phase) -> Setting {
        let below_interrupts = (fault == Fault::ThreadedInterrupt).then_some(BELOW_INTERRUPTS);
        let thread = ThreadRequest {
            fifo: self.class.fifo().map(|fifo| below_interrupts.unwrap_or(fifo)),
            cpu: Some(cpu),
            lock_memory: true,
            dma_latency_us: None,
        };
        Setting { phase, thread, warmup: 0, causes: true, ..Setting::new(MS) }
    }

    /// Returns the length of each injection, in nanoseconds. An ordinary loop under load waits for
    /// milliseconds by itself.
    pub(crate) fn dose_ns(self, fault: Fault) -> u64 {
        let dose_ns = match fault {
            Fault::StopSignal | Fault::PtraceStop | Fault::CgroupFreezer => 5 * MS,
            Fault::RtThrottling => 50 * MS,
            Fault::FairServer => 10 * MS,
            Fault::CpuQuota => 20 * MS,
            Fault::PageFaults
            | Fault::CopyOnWrite
            | Fault::MajorFaults
            | Fault::OwnOverrun
            | Fault::ForcedMigration => MS / 2,
            _ => 3 * MS / 10,
        };
        match self {
            Self { class: Class::Ordinary, load: Background::Paper } => {
                dose_ns.max(20 * MS).min(fault.longest_ns())
            }
            _ => dose_ns,
        }
    }
}

/// A background load, which ends on drop.
pub(crate) struct BackgroundLoad(Option<RunningLoad>);

impl BackgroundLoad {
    pub(crate) fn start(load: Background) -> Result<Self, Failure> {
        if load == Background::Idle {
            return Ok(Self(None));
        }

        let mut carrier = Command::new(option_env!("CARGO_BIN_EXE_onbeat").unwrap_or("onbeat"));
        carrier.args(["load", "--supervised", load.words()]);
        let running = RunningLoad::start(carrier)?;
        // Its parts start one after the other.
        std::thread::sleep(Duration::from_secs(2));
        Ok(Self(Some(running)))
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            // Its report is not needed, and the kernel ends it with this process in any case.
            let _ = running.stop();
        }
    }
}
