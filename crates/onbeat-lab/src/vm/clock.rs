//! The three clocks of a guest. They are types, so that figures of different clocks do not compile
//! into one table.
//!
//! | clock | how the guest runs | what its figures say |
//! |---|---|---|
//! | [`Real`] | KVM | latency of this machine |
//! | [`Virtual`] | software emulation that counts instructions | which kernel or code is slower; exact and repeatable, predicts no hardware |
//! | [`Free`] | software emulation | nothing: only that something works |

use std::fmt::Debug;

use super::qemu::split;

/// The clock of a guest.
pub trait VmClock: sealed::Sealed + Clone + Debug + Send + Sync {
    /// The clock's name in reports: `real`, `virtual` or `free`.
    const NAME: &'static str;

    /// Arguments for QEMU: accelerator, processor and sources of time.
    fn qemu_arguments(&self) -> Vec<String>;

    /// Arguments for the guest's kernel.
    fn kernel_arguments(&self) -> &'static [&'static str];

    /// The clock of a guest that is booted, saved, and restored for each job; none where a
    /// restored guest would differ from a booted one.
    fn of_saved(&self) -> Option<Self> {
        None
    }

    /// Largest number of CPUs, when the clock limits it.
    fn cpu_limit(&self) -> Option<u32> {
        None
    }
}

/// A clock whose times are results. [`Free`] does not implement it, so guests that run by it have
/// no figures.
pub trait Measures: VmClock {
    /// Unit of times by this clock, in tables.
    const UNIT: &'static str;

    /// What a table of its figures must say below them.
    const LEGEND: &'static [&'static str];
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Real {}
    impl Sealed for super::Virtual {}
    impl Sealed for super::Free {}
}

/// The machine's own time: guests run under KVM.
///
/// Only [`choose_accelerator`](super::choose_accelerator) returns one, after a guest has run under
/// KVM: an existing `/dev/kvm` does not prove that a guest runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    _found: (),
}

impl Real {
    /// For the canary guest, and for the caller after it has run.
    pub(super) const fn assume() -> Self {
        Self { _found: () }
    }
}

impl VmClock for Real {
    const NAME: &'static str = "real";

    fn qemu_arguments(&self) -> Vec<String> {
        split("-accel kvm -cpu host -rtc base=utc")
    }

    fn kernel_arguments(&self) -> &'static [&'static str] {
        &[]
    }
}

impl Measures for Real {
    const UNIT: &'static str = "us";
    const LEGEND: &'static [&'static str] = &[];
}

/// Virtual time: one instruction takes 2^`shift` nanoseconds, on one CPU.
///
/// The same guest with the same job gives the same bytes, whatever else the host does. What would
/// let the host in, each left out of an otherwise complete guest (QEMU 7.2, Debian's 6.1 with
/// PREEMPT_RT, three runs of a latency test):
///
/// | left out | different results of 3 | how the host gets in |
/// |---|---|---|
/// | `-seed` | 3 | random numbers |
/// | `-rtc base=` | 3 | the date |
/// | `-rtc clock=vm` | 2 | the real-time clock runs at the host's pace |
/// | `sleep=off` | 3 | timers of a waiting guest follow the host's clock |
/// | `idle=poll` | 2 with an idle guest, 1 under load | QEMU jumps over idle time in a thread of its own |
/// | `ioeventfd=off` of the serial port | 3 | the device answers in a thread of its own |
///
/// So the guest polls when idle, and its date begins at a fixed instant. Its memory layout is not
/// randomised either, so that other seeds change no more than they have to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Virtual {
    /// Binary logarithm of the nanoseconds per instruction: 3 stands for 8 ns, a processor of 125
    /// million instructions a second.
    pub shift: u8,
    /// Seed of QEMU's random numbers.
    pub seed: u32,
}

/// Memory for translated code in MiB. QEMU would use up to an eighth of the host's memory.
const TRANSLATIONS_MIB: u32 = 64;

impl Default for Virtual {
    fn default() -> Self {
        Self { shift: 3, seed: 1 }
    }
}

impl VmClock for Virtual {
    const NAME: &'static str = "virtual";

    fn qemu_arguments(&self) -> Vec<String> {
        let Self { shift, seed } = self;
        split(&format!(
            "-accel tcg,thread=single,tb-size={TRANSLATIONS_MIB} -icount shift={shift},sleep=off -cpu max -rtc base=2026-01-01T00:00:00,clock=vm -seed {seed}"
        ))
    }

    fn kernel_arguments(&self) -> &'static [&'static str] {
        // The time stamp counter counts instructions and needs no watchdog.
        &["idle=poll", "nokaslr", "norandmaps", "tsc=reliable", "mitigations=off"]
    }

    fn of_saved(&self) -> Option<Self> {
        // The seed counts from the restored guest's first instruction on.
        Some(Self { seed: 1, ..*self })
    }

    fn cpu_limit(&self) -> Option<u32> {
        // With several, they take turns in slices of milliseconds, and some kernels do not start
        // them.
        Some(1)
    }
}

impl Measures for Virtual {
    const UNIT: &'static str = "virtual us";
    const LEGEND: &'static [&'static str] =
        &["Counted instructions: repeatable, ranks kernels and settings, predicts no hardware."];
}

/// Time of a software emulation that runs as fast as the host allows. Every kernel then shows the
/// emulator's latency, tens of milliseconds: such a guest tests whether something works, never how
/// fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free;

impl VmClock for Free {
    const NAME: &'static str = "free";

    fn qemu_arguments(&self) -> Vec<String> {
        // One thread for all CPUs: with several, a CPU may run into code that another one is
        // patching, which no kernel expects.
        split("-accel tcg,thread=single -cpu max -rtc base=utc")
    }

    fn kernel_arguments(&self) -> &'static [&'static str] {
        // On a busy host the kernel may take the time stamp counter for many times slower than it
        // is.
        &["no_timer_check", "tsc=unstable", "mitigations=off"]
    }
}
