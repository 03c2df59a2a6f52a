//! Events of the kernel's trace points: one [`TraceEvent`] per record, on `CLOCK_MONOTONIC`.
//!
//! Names and numbers are the kernel's own (`include/trace/events/*.h`); nothing is interpreted
//! here.

use std::borrow::Cow;
use std::fmt;

use onbeat_host::foreign::printable;
use onbeat_rt::Instant;

use super::kvm::ExitReason;

/// A short kernel name: of a thread (at most 15 bytes) or of an interrupt, truncated to 24 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    bytes: [u8; 24],
    length: u8,
}

impl Label {
    /// Returns the label of the bytes up to the first NUL.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        let mut label = Self::default();
        let ended = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let length = ended.min(label.bytes.len());
        label.bytes[..length].copy_from_slice(&name[..length]);
        label.length = length as u8;
        label
    }

    /// Returns the name, printable; bytes that are not UTF-8 become `�`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let text = String::from_utf8_lossy(&self.bytes[..usize::from(self.length)]);
        if text.contains(char::is_control) { Cow::Owned(printable(&text)) } else { text }
    }
}

impl From<&str> for Label {
    fn from(name: &str) -> Self {
        Self::new(name.as_bytes())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.text())
    }
}

/// A thread as recorded in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Thread number; 0 is the idle thread of a CPU.
    pub tid: u32,
    /// Kernel priority: −1 for `SCHED_DEADLINE`, 99 − p for `SCHED_FIFO` p, 120 + nice for an
    /// ordinary thread.
    pub prio: i32,
    /// Name at the time of the event.
    pub name: Label,
}

impl Thread {
    /// Whether this is a CPU's idle thread.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.tid == 0
    }

    /// Whether the thread has a real-time or deadline policy.
    #[must_use]
    pub const fn is_real_time(&self) -> bool {
        self.tid != 0 && self.prio < 100
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} [{}]", self.name, self.tid)?;
        match self.prio {
            ..0 => out.write_str(" SCHED_DEADLINE"),
            prio @ 0..100 => write!(out, " FIFO/RR {}", 99 - prio),
            120 => Ok(()),
            prio => write!(out, " nice {}", prio - 120),
        }
    }
}

/// State of a thread that leaves its CPU: the bits of `prev_state` in `sched_switch`, as of Linux
/// 4.14.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadState(pub u32);

impl ThreadState {
    const LETTERS: [(u32, char); 8] = [
        (1, 'S'),
        (2, 'D'),
        (4, 'T'),
        (8, 't'),
        (0x10, 'X'),
        (0x20, 'Z'),
        (0x40, 'P'),
        (0x80, 'I'),
    ];
    /// Preempted inside the kernel, not on the way back to user space.
    const PREEMPTED: u32 = 0x100;
    /// State of a switch without a record, inferred from later events. Above the kernel's own bits.
    pub(super) const NOT_SEEN: Self = Self(0x8000_0000);

    /// Whether the state was recorded, not inferred.
    #[must_use]
    pub const fn was_seen(self) -> bool {
        self.0 != Self::NOT_SEEN.0
    }

    /// Whether the thread was runnable.
    #[must_use]
    pub const fn is_runnable(self) -> bool {
        self.0 & 0xff == 0
    }

    /// Whether a signal or a debugger stopped the thread.
    #[must_use]
    pub const fn is_stopped(self) -> bool {
        self.0 & 0xc != 0
    }

    /// Whether the thread waits for a device or a lock and cannot be interrupted by a signal.
    #[must_use]
    pub const fn is_uninterruptible(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether the thread was preempted inside the kernel.
    #[must_use]
    pub const fn was_preempted(self) -> bool {
        self.0 & Self::PREEMPTED != 0
    }

    /// Parses the kernel's letters, such as `S`, `R+` or `D|K`; unknown letters are ignored.
    #[must_use]
    pub fn from_letters(text: &str) -> Self {
        let bit = |letter| {
            Self::LETTERS.iter().find(|(_, known)| *known == letter).map_or(0, |(bit, _)| *bit)
        };
        let bits =
            text.chars().map(|letter| if letter == '+' { Self::PREEMPTED } else { bit(letter) });
        Self(bits.fold(0, |sum, bit| sum | bit))
    }
}

impl fmt::Display for ThreadState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (_, letter) in Self::LETTERS.iter().filter(|(bit, _)| self.0 & bit != 0) {
            if !first {
                out.write_str("|")?;
            }
            first = false;
            write!(out, "{letter}")?;
        }

        if first {
            out.write_str("R")?;
        }

        if self.was_preempted() { out.write_str("+") } else { Ok(()) }
    }
}

/// An interrupt that does not belong to a device: the vectors of `irq_vectors` (x86) and
/// inter-processor interrupts of other architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vector {
    /// Local timer of the CPU.
    LocalTimer,
    /// Another CPU requests a reschedule.
    Reschedule,
    /// Another CPU requests a function call.
    CallFunction,
    /// The same, for this CPU only.
    CallFunctionSingle,
    /// Deferred interrupt work (`irq_work`).
    IrqWork,
    /// Thermal event of the CPU.
    Thermal,
    /// An inter-processor interrupt of another architecture.
    Ipi,
}

impl Vector {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::LocalTimer,
        Self::Reschedule,
        Self::CallFunction,
        Self::CallFunctionSingle,
        Self::IrqWork,
        Self::Thermal,
        Self::Ipi,
    ];

    /// Returns the kernel's name, without `_entry` and `_exit`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalTimer => "local_timer",
            Self::Reschedule => "reschedule",
            Self::CallFunction => "call_function",
            Self::CallFunctionSingle => "call_function_single",
            Self::IrqWork => "irq_work",
            Self::Thermal => "thermal_apic",
            Self::Ipi => "ipi",
        }
    }

    /// Returns the number on x86 (`arch/x86/include/asm/irq_vectors.h`); 0 if it has no vector
    /// there.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::LocalTimer => 0xec,
            Self::Reschedule => 0xfd,
            Self::CallFunction => 0xfc,
            Self::CallFunctionSingle => 0xfb,
            Self::IrqWork => 0xf6,
            Self::Thermal => 0xfa,
            Self::Ipi => 0,
        }
    }
}

/// A softirq, identified by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Softirq(pub u8);

impl Softirq {
    const NAMES: [&'static str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];

    /// Returns the kernel's name (`include/linux/interrupt.h`).
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }

    /// Returns the softirq with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|number| Self(number as u8))
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// `sched_switch`: the CPU went from one thread to another.
    Switch {
        /// The thread that left.
        prev: Thread,
        /// The state in which it left.
        prev_state: ThreadState,
        /// The thread that runs now.
        next: Thread,
    },
    /// `sched_waking`: a thread is being woken; from here on it is runnable.
    Waking {
        thread: Thread,
        /// The CPU on which it will be queued, as known at this point.
        target_cpu: u32,
    },
    /// `sched_wakeup`: the thread is queued on its CPU.
    Wakeup {
        thread: Thread,
        /// The CPU on which it is queued.
        target_cpu: u32,
    },
    /// `sched_migrate_task`: the thread moves to another CPU.
    Migrate {
        thread: Thread,
        /// The old CPU.
        from_cpu: u32,
        /// The new CPU.
        to_cpu: u32,
    },
    /// `irq_handler_entry`: a device's handler begins.
    IrqEntry {
        /// Line number, as in `/proc/interrupts`.
        irq: u32,
        /// The handler's name.
        name: Label,
    },
    /// `irq_handler_exit`.
    IrqExit {
        /// Line number.
        irq: u32,
    },
    /// Entry of an interrupt that does not belong to a device.
    VectorEntry(Vector),
    /// Exit of such an interrupt.
    VectorExit(Vector),
    /// `softirq_entry`.
    SoftirqEntry(Softirq),
    /// `softirq_exit`.
    SoftirqExit(Softirq),
    /// `hrtimer_start`: a timer was set.
    TimerStart {
        /// The timer's address.
        timer: u64,
        /// Address of its function.
        function: u64,
        /// Latest expiry: the requested instant plus the thread's timer slack.
        expires: Instant,
        /// The requested instant.
        softexpires: Instant,
    },
    /// `hrtimer_expire_entry`: a timer's function begins.
    TimerExpireEntry {
        /// The timer's address.
        timer: u64,
        /// Address of the function.
        function: u64,
        /// The instant that the expiry was compared with.
        now: Instant,
    },
    /// `hrtimer_expire_exit`.
    TimerExpireExit {
        /// The timer's address.
        timer: u64,
    },
    /// `hrtimer_cancel`.
    TimerCancel {
        /// The timer's address.
        timer: u64,
    },
    /// `cpu_idle` with a state: the CPU enters idle.
    IdleEntry {
        /// Driver-specific number of the idle state.
        state: u32,
    },
    /// `cpu_idle` without a state: the CPU leaves idle.
    IdleExit,
    /// `cpu_frequency`.
    Frequency {
        /// The CPU whose frequency changes.
        cpu: u32,
        /// The new frequency, in kHz.
        khz: u32,
    },
    /// `page_fault_user` and `page_fault_kernel`.
    PageFault {
        /// The accessed address.
        address: u64,
        /// Whether user code accessed it.
        user: bool,
    },
    /// `sys_enter`.
    SyscallEnter {
        /// The call's number on this architecture.
        number: i64,
    },
    /// `sys_exit`.
    SyscallExit {
        /// The call's number.
        number: i64,
        /// Return value.
        result: i64,
    },
    /// `signal_generate`: the thread in [`TraceEvent::tid`] sent a signal.
    SignalGenerate {
        /// Signal number.
        signal: i32,
        /// Target thread.
        target: u32,
        name: Label,
    },
    /// `signal_deliver`: the thread in [`TraceEvent::tid`] takes a signal.
    SignalDeliver {
        /// Signal number.
        signal: i32,
    },
    /// `tick_stop`: whether the CPU's tick could be stopped.
    TickStop {
        /// Whether it was stopped.
        success: bool,
    },
    /// `workqueue_execute_start`: the kernel thread in [`TraceEvent::tid`] begins a work item.
    WorkStart {
        /// Address of the work item.
        work: u64,
        /// Address of its function.
        function: u64,
    },
    /// `workqueue_execute_end`.
    WorkEnd {
        /// Address of the work item.
        work: u64,
        /// Address of its function; 0 before Linux 5.6, which does not record it.
        function: u64,
    },
    /// `kvm_entry`: the virtual CPU of the thread in [`TraceEvent::tid`] enters the guest.
    VmEntry {
        /// Number of the virtual CPU; arm64 does not record it.
        vcpu: Option<u32>,
        /// The guest's next instruction.
        pc: u64,
    },
    /// `kvm_exit`: it leaves the guest.
    VmExit {
        /// Number of the virtual CPU; arm64 and kernels before 5.10 do not record it.
        vcpu: Option<u32>,
        reason: ExitReason,
        /// The guest's instruction.
        pc: u64,
        /// First word of information, as the CPU defines it for the reason; 0 on arm64.
        info: u64,
    },
    /// `kvm_inj_virq`: an interrupt is injected at the next entry.
    VmInterrupt {
        /// The guest's vector.
        vector: u32,
    },
    /// `kvm_msi_set_irq`: the thread in [`TraceEvent::tid`] raises a message-signalled interrupt of
    /// a guest.
    VmMessage {
        /// Address of the message: destination and mode.
        address: u64,
        /// Data of the message: vector and trigger.
        data: u64,
    },
    /// `kvm_halt_poll_ns`: the host changes for how long it polls when the virtual CPU halts.
    VmHaltPoll {
        vcpu: u32,
        /// The old time, in nanoseconds.
        from_ns: u32,
        /// The new time, in nanoseconds.
        to_ns: u32,
    },
}

/// Names of the interrupts of a CPU's timer where it has no vector of its own: on arm64, arm, RISC-V, and
/// a PC without local timers.
const TIMER_INTERRUPTS: [&str; 5] = ["arch_timer", "twd", "gt", "riscv-timer", "timer"];

/// Whether an interrupt with a number is that of a CPU's timer.
pub(crate) fn is_of_timer(name: &Label) -> bool {
    TIMER_INTERRUPTS.iter().any(|known| name.text() == *known)
}

impl KernelEvent {
    /// Whether the interrupt of the CPU's timer begins: a vector on x86, elsewhere an interrupt with a
    /// number.
    #[must_use]
    pub fn begins_timer_interrupt(&self) -> bool {
        match self {
            Self::VectorEntry(vector) => *vector == Vector::LocalTimer,
            Self::IrqEntry { name, .. } => is_of_timer(name),
            _ => false,
        }
    }
}

/// One record of one CPU's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Time, on `CLOCK_MONOTONIC`.
    pub at: Instant,
    pub cpu: u32,
    /// The thread that ran on the CPU at that time.
    pub tid: u32,
    /// What happened.
    pub what: KernelEvent,
}

/// Events that were lost, with the time they cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEvents {
    pub cpu: u32,
    /// Time of the last event before the gap.
    pub from: Instant,
    /// Time of the first event after the gap.
    pub to: Instant,
    /// Number of lost events, if counted.
    pub count: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_shown_with_its_number_and_its_priority() {
        let thread = |prio| Thread { tid: 7, prio, name: Label::from("dd") };
        assert_eq!(thread(1).to_string(), "dd [7] FIFO/RR 98");
        assert_eq!(thread(120).to_string(), "dd [7]");
        assert_eq!(thread(139).to_string(), "dd [7] nice 19");
        assert_eq!(thread(-1).to_string(), "dd [7] SCHED_DEADLINE");
    }

    #[test]
    fn states_are_shown_as_the_kernel_shows_them_and_read_back() {
        for (bits, letters) in
            [(0, "R"), (0x100, "R+"), (1, "S"), (2, "D"), (4, "T"), (0x41, "S|P")]
        {
            assert_eq!(ThreadState(bits).to_string(), letters);
            assert_eq!(ThreadState::from_letters(letters), ThreadState(bits));
        }
        assert!(
            ThreadState(4).is_stopped()
                && !ThreadState(4).is_runnable()
                && ThreadState(0x100).is_runnable()
        );
    }

    #[test]
    fn a_name_ends_at_its_first_nul_and_never_overflows() {
        assert_eq!(Label::new(b"swapper/0\0rest").text(), "swapper/0");
        assert_eq!(Label::new(&[b'x'; 100]).text().len(), 24);
        assert_eq!(Label::new(b"dd\x1b[2J\n\xc3").text(), "dd?[2J?\u{fffd}");
    }
}
