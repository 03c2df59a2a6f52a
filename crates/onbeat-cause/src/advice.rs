//! Advice against a cause: a closed list, and the part of it that applies to a run.
//!
//! `docs/advice.md` has a row for each advice, with its known effect; a test checks that both
//! agree. The page mirrors this file (`viewer/src/advice.ts`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::kind::{Cause, CauseKind, Culprit};

/// A fact about a machine or a run that decides whether an advice applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The kernel runs as a guest.
    Guest,
    /// The machine has one CPU: nothing can be moved to another.
    OneCpu,
    /// The kernel is built with PREEMPT_RT.
    PreemptRt,
    /// The kernel was booted with `preempt=full`.
    PreemptFull,
    /// The kernel was booted with `idle=poll`.
    IdlePolls,
    /// RCU callbacks of the loop's CPU run on other CPUs (`rcu_nocbs`).
    RcuElsewhere,
    /// The loop's CPU runs without a tick (`nohz_full`).
    NoTick,
    /// Kernel-managed interrupts avoid isolated CPUs (`isolcpus=managed_irq`).
    ManagedIrqsElsewhere,
    /// Real-time threads may use all of a CPU (`sched_rt_runtime_us` is −1).
    NoRtLimit,
    /// The frequency is fixed (governor `performance`).
    FrequencyFixed,
    /// The loop's memory is locked (tuning M).
    MemoryLocked,
    /// The loop is bound to one CPU.
    Bound,
    /// The loop has a CPU of its own (tuning C).
    Shielded,
    /// The loop polls the clock before a release (tuning S).
    Spins,
    /// Deep idle states are switched off (`/dev/cpu_dma_latency`).
    IdleBound,
    /// The flight recorder or the steal counter was not permitted.
    EvidenceMissing,
    /// The cpuset controller is on a cgroup v1 hierarchy.
    CpusetV1,
    /// The cpuset controller is on the unified hierarchy.
    CpusetV2,
}

/// The situation of a run: the properties of its machine and the tunings in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Situation {
    /// The facts that hold.
    pub facts: BTreeSet<Fact>,
    /// The loop's `SCHED_FIFO` priority; 0 for an ordinary thread.
    pub priority: u32,
    /// Exit latency of the CPU's deepest idle state, in nanoseconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_exit_ns: Option<u64>,
}

impl Situation {
    fn has(&self, fact: Fact) -> bool {
        self.facts.contains(&fact)
    }
}

/// A remedy, or the statement that no tuning helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Each says what it is in its own text.
pub enum Advice {
    PinVcpu,
    BareMetal,
    KeepAwake,
    LeaveTenth,
    NoRtLimit,
    FairServerOff,
    PriorityOverQuota,
    RaiseQuota,
    Frozen,
    RuntimeUser,
    WhoChangedPolicy,
    MoveInterrupt,
    ManagedInterrupt,
    OthersTimers,
    StopTick,
    OwnInterrupts,
    SoftirqTimers,
    RcuElsewhere,
    NoBalancing,
    MoveSoftirq,
    ThreadedSoftirqs,
    OthersOff,
    PreemptRt,
    PreemptFull,
    Priority,
    PriorityOutsideCalls,
    MoveThread,
    PerCpuThread,
    DeadlineElsewhere,
    BoundIdle,
    IdlePoll,
    Spin,
    ShorterWork,
    NoLock,
    AskFirst,
    LockMemory,
    TouchFirst,
    Bind,
    WhoMoves,
    FixFrequency,
    SomebodyStopped,
    Firmware,
    GrantEvidence,
    LookAtEvents,
}

/// An advice: its id, its text, the facts it needs, the facts that exclude it (it is in effect
/// already, or has no effect), and the ids of the catalogue of tunings that put it into effect; a
/// test compares them with the catalogue.
struct AdviceRow(
    Advice,
    &'static str,
    &'static str,
    &'static [Fact],
    &'static [Fact],
    &'static [&'static str],
);

/// Tunings that exist on some machines only. All others apply wherever their advice does.
const TUNING_NEEDS: [(&str, Fact); 2] =
    [("shield.cpuset_v2", Fact::CpusetV2), ("shield.cpuset_v1", Fact::CpusetV1)];

/// Tunings of the rows that `onbeat tune measure` cannot make and undo in turns: they take a reboot,
/// another kernel, the host, a service or a change of the loop's program.
const NOT_IN_TURNS: [&str; 8] = [
    "fw.smi",
    "guest.host_advice",
    "irq.irqbalance",
    "irq.managed",
    "kern.preempt_rt",
    "proc.pi_mutex",
    "proc.prefault",
    "shield.rcu_nocbs",
];

/// In the order of [`Advice`].
#[rustfmt::skip] // A row is a line.
const ROWS: [AdviceRow; 44] = [
    AdviceRow(Advice::PinVcpu, "pin-vcpu", "give the virtual CPU a physical CPU of its own on the host (pinning, isolation)", &[Fact::Guest], &[], &["guest.host_advice"]),
    AdviceRow(Advice::BareMetal, "bare-metal", "run on bare metal", &[Fact::Guest], &[], &[]),
    AdviceRow(Advice::KeepAwake, "keep-awake", "let the vCPU poll before it halts: guest_halt_poll_ns of the module haltpoll, which costs CPU time of the host", &[Fact::Guest], &[Fact::IdlePolls], &["idle.haltpoll"]),
    AdviceRow(Advice::LeaveTenth, "leave-tenth", "leave a tenth of the CPU to others", &[], &[], &[]),
    AdviceRow(Advice::NoRtLimit, "no-rt-limit", "kernel.sched_rt_runtime_us=-1 removes the limit", &[], &[Fact::NoRtLimit], &["sched.rt_runtime"]),
    AdviceRow(Advice::FairServerOff, "fair-server-off", "debugfs sched/fair_server/cpuN/runtime=0 switches the fair server off", &[], &[], &["sched.fair_server"]),
    AdviceRow(Advice::PriorityOverQuota, "priority-over-quota", "give the loop a real-time priority (tuning P), which no quota holds back", &[], &[], &["proc.policy"]),
    AdviceRow(Advice::RaiseQuota, "raise-quota", "raise cpu.max of the loop's cgroup", &[], &[], &[]),
    AdviceRow(Advice::Frozen, "frozen", "nothing to tune: somebody froze the loop's cgroup", &[], &[], &[]),
    AdviceRow(Advice::RuntimeUser, "runtime-user", "that thread used up the runtime that the real-time threads of this CPU share: let it sleep, give it an ordinary policy (chrt --other --pid 0 TID), or move it to another CPU", &[], &[], &[]),
    AdviceRow(Advice::WhoChangedPolicy, "who-changed-policy", "nothing to tune: another program changed the loop's policy or priority: look for chrt, sched_setscheduler and rtkit, and take their right to it", &[], &[], &[]),
    AdviceRow(Advice::MoveInterrupt, "move-interrupt", "move the interrupt to another CPU: /proc/irq/N/smp_affinity_list (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["irq.affinity", "irq.irqbalance"]),
    AdviceRow(Advice::ManagedInterrupt, "managed-interrupt", "boot with isolcpus=managed_irq,CPU: the kernel then keeps the interrupts it manages off that CPU", &[Fact::Shielded], &[Fact::OneCpu, Fact::ManagedIrqsElsewhere], &["irq.managed"]),
    AdviceRow(Advice::OthersTimers, "others-timers", "keep the threads that set this timer off this CPU (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["timer.migration"]),
    AdviceRow(Advice::StopTick, "stop-tick", "keep the releases of a loop that sleeps away from the tick (--phase avoid-tick); only a loop that polls gains from nohz_full=CPU at boot (medium risk: slower system calls)", &[], &[Fact::OneCpu, Fact::NoTick], &[]),
    AdviceRow(Advice::OwnInterrupts, "own-interrupts", "an interrupt of the CPU's own, which cannot be moved: keep other threads off this CPU (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["rcu.normal"]),
    AdviceRow(Advice::SoftirqTimers, "softirq-timers", "timers of other threads expire on this CPU: keep those threads off it (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["timer.migration", "shield.cpuset_v2", "shield.cpuset_v1"]),
    AdviceRow(Advice::RcuElsewhere, "rcu-elsewhere", "boot with rcu_nocbs=CPU to run RCU callbacks elsewhere", &[], &[Fact::OneCpu, Fact::RcuElsewhere], &["shield.rcu_nocbs"]),
    AdviceRow(Advice::NoBalancing, "no-balancing", "the scheduler balances load on this CPU: take it out of balancing (tuning C, or boot with isolcpus=CPU)", &[], &[Fact::OneCpu, Fact::Shielded], &["shield.cpuset_v2", "shield.cpuset_v1"]),
    AdviceRow(Advice::MoveSoftirq, "move-softirq", "move the device's interrupt, and threads that use loopback, to another CPU (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["irq.affinity", "shield.cpuset_v2", "shield.cpuset_v1"]),
    AdviceRow(Advice::ThreadedSoftirqs, "threaded-softirqs", "a PREEMPT_RT kernel runs softirqs in threads", &[], &[Fact::PreemptRt], &["kern.preempt_rt"]),
    AdviceRow(Advice::OthersOff, "others-off", "keep other threads off this CPU (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["shield.cpuset_v2", "shield.cpuset_v1"]),
    AdviceRow(Advice::PreemptRt, "preempt-rt", "a PREEMPT_RT kernel lets go much earlier", &[], &[Fact::PreemptRt], &["kern.preempt_rt"]),
    AdviceRow(Advice::PreemptFull, "preempt-full", "preempt=full on the kernel command line lets go earlier", &[], &[Fact::PreemptRt, Fact::PreemptFull], &["kern.preempt_mode"]),
    AdviceRow(Advice::Priority, "priority", "give the loop a priority above that thread's (tuning P)", &[], &[], &["proc.policy"]),
    AdviceRow(Advice::PriorityOutsideCalls, "priority-outside-calls", "give the loop a priority above that thread's (tuning P): this helps only if the thread soon leaves its system call", &[], &[], &["proc.policy"]),
    AdviceRow(Advice::MoveThread, "move-thread", "move that thread to another CPU (tuning C)", &[], &[Fact::OneCpu], &["shield.cpuset_v2", "shield.cpuset_v1", "shield.threads"]),
    AdviceRow(Advice::PerCpuThread, "per-cpu-thread", "a thread of the kernel for this CPU, which stays here: keep other threads, which give it work, off (tuning C)", &[], &[Fact::OneCpu, Fact::Shielded], &["shield.cpuset_v2", "shield.cpuset_v1"]),
    AdviceRow(Advice::DeadlineElsewhere, "deadline-elsewhere", "a SCHED_DEADLINE thread precedes every priority: move it to another CPU (tuning C)", &[], &[Fact::OneCpu], &["shield.cpuset_v2", "shield.cpuset_v1"]),
    AdviceRow(Advice::BoundIdle, "bound-idle", "bound the idle states: /dev/cpu_dma_latency 0 (--dma-latency 0us)", &[], &[Fact::IdleBound, Fact::IdlePolls], &["idle.pm_qos", "idle.dma_latency"]),
    AdviceRow(Advice::IdlePoll, "idle-poll", "as a last resort boot with idle=poll: no CPU sleeps (high risk: heat, and sibling threads starve)", &[], &[Fact::Guest, Fact::IdlePolls], &[]),
    AdviceRow(Advice::Spin, "spin", "spin for the last part before the release (tuning S, --wait spin=50us)", &[], &[Fact::Spins], &["proc.spin"]),
    AdviceRow(Advice::ShorterWork, "shorter-work", "shorten the work of a cycle or lengthen the period", &[], &[], &[]),
    AdviceRow(Advice::NoLock, "no-lock", "share without a lock, or by a mutex with priority inheritance, and keep its holder short (--sharing wait-free, pi)", &[], &[], &["proc.pi_mutex"]),
    AdviceRow(Advice::AskFirst, "ask-first", "do not wait inside a cycle: ask in one cycle and read in the next (a bus: --exchange pipelined)", &[], &[], &[]),
    AdviceRow(Advice::LockMemory, "lock-memory", "lock and touch all memory beforehand (tuning M: mlockall)", &[], &[Fact::MemoryLocked], &["proc.mlock"]),
    AdviceRow(Advice::TouchFirst, "touch-first", "touch new memory before the loop begins, and do not fork: memory is locked, but these pages were new or shared", &[Fact::MemoryLocked], &[], &["proc.prefault"]),
    AdviceRow(Advice::Bind, "bind", "bind the loop to one CPU (--cpu, tuning C)", &[], &[Fact::OneCpu, Fact::Bound], &["proc.affinity"]),
    AdviceRow(Advice::WhoMoves, "who-moves", "somebody changed the CPUs of a bound loop: look for sched_setaffinity, taskset and changes of its cpuset", &[Fact::Bound], &[Fact::OneCpu], &[]),
    AdviceRow(Advice::FixFrequency, "fix-frequency", "fix the frequency: governor performance", &[], &[Fact::Guest, Fact::FrequencyFixed], &["freq.governor", "freq.fixed"]),
    AdviceRow(Advice::SomebodyStopped, "somebody-stopped", "nothing to tune: somebody stopped the process", &[], &[], &[]),
    AdviceRow(Advice::Firmware, "firmware", "firmware settings: switch off USB legacy emulation, thermal and ECC polling by SMI", &[], &[Fact::Guest], &["fw.smi"]),
    AdviceRow(Advice::GrantEvidence, "grant-evidence", "record again with the missing evidence granted (see what was not permitted)", &[Fact::EvidenceMissing], &[], &[]),
    AdviceRow(Advice::LookAtEvents, "look-at-events", "look at the events around it: onbeat export --spike N --perfetto FILE", &[], &[], &[]),
];

impl Advice {
    /// Returns every advice, in the order of `docs/advice.md`.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.0)
    }

    /// Returns the name used in JSON and in `docs/advice.md`, such as `pin-vcpu`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.row().1
    }

    /// Returns what to do, as a sentence fragment.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.row().2
    }

    /// Returns the facts that must hold for the advice to have an effect.
    #[must_use]
    pub const fn needs(self) -> &'static [Fact] {
        self.row().3
    }

    /// Returns the facts that exclude the advice: it is in effect already, or has no effect.
    #[must_use]
    pub const fn not_with(self) -> &'static [Fact] {
        self.row().4
    }

    /// Returns the tunings of the catalogue that put the advice into effect on the machine of a
    /// run; none where no tuning does.
    #[must_use]
    pub fn tunings(self, situation: &Situation) -> Vec<&'static str> {
        let exists =
            |id: &str| TUNING_NEEDS.iter().all(|(of, fact)| *of != id || situation.has(*fact));
        self.row().5.iter().copied().filter(|id| exists(id)).collect()
    }

    const fn row(self) -> &'static AdviceRow {
        &ROWS[self as usize]
    }

    fn applies(self, situation: &Situation) -> bool {
        self.needs().iter().all(|fact| situation.has(*fact))
            && !self.not_with().iter().any(|fact| situation.has(*fact))
    }
}

/// A wake-up of a halted vCPU takes less than this, in nanoseconds. A longer delay means that the
/// host was busy.
const HALTED_AT_MOST_NS: u64 = 500_000;
/// The highest `SCHED_FIFO` priority.
const HIGHEST: i32 = 99;

impl Cause {
    /// Returns the advice against this cause in `situation`, best first. Leaves out what is in
    /// effect already and what cannot apply.
    #[must_use]
    pub fn advice(&self, situation: &Situation) -> Vec<Advice> {
        let candidates = self.candidates(situation);
        candidates.into_iter().filter(|advice| advice.applies(situation)).collect()
    }

    fn candidates(&self, situation: &Situation) -> Vec<Advice> {
        use Advice as A;
        match self.kind {
            CauseKind::HypervisorSteal | CauseKind::HypervisorPause => {
                vec![A::PinVcpu, A::BareMetal]
            }
            CauseKind::RtThrottling if self.is_of_another_real_time_thread() => {
                vec![A::RuntimeUser, A::NoRtLimit]
            }
            CauseKind::FairServer if self.is_of_another_real_time_thread() => {
                vec![A::RuntimeUser, A::FairServerOff]
            }
            CauseKind::RtThrottling => vec![A::LeaveTenth, A::NoRtLimit],
            CauseKind::PolicyChange => vec![A::WhoChangedPolicy],
            CauseKind::CpuQuota if situation.priority > 0 => vec![A::RaiseQuota],
            CauseKind::CpuQuota => vec![A::PriorityOverQuota, A::RaiseQuota],
            CauseKind::CgroupFreezer => vec![A::Frozen],
            CauseKind::FairServer => vec![A::LeaveTenth, A::OthersOff, A::FairServerOff],
            CauseKind::HardIrq => against_interrupt(self.culprit.as_ref()),
            CauseKind::TimerInterrupt => vec![A::Spin, A::PinVcpu, A::LookAtEvents],
            CauseKind::Softirq => against_softirq(self.culprit.as_ref()),
            CauseKind::InterruptsOff => vec![A::OthersOff, A::PreemptRt],
            CauseKind::KernelSection => vec![A::OthersOff, A::PreemptRt, A::PreemptFull],
            CauseKind::Preempted => against_thread(self.culprit.as_ref(), situation),
            CauseKind::LateIdleExit => against_sleep(situation),
            CauseKind::LateTimer => self.against_late_timer(situation),
            CauseKind::OwnOverrun => vec![A::ShorterWork],
            CauseKind::LockWait => vec![A::NoLock],
            CauseKind::OwnWait => vec![A::AskFirst],
            CauseKind::PageFault => vec![A::LockMemory, A::TouchFirst],
            CauseKind::Migration => vec![A::Bind, A::WhoMoves],
            CauseKind::FrequencyChange => vec![A::FixFrequency],
            CauseKind::Stopped => vec![A::SomebodyStopped],
            CauseKind::Smi => vec![A::Firmware],
            CauseKind::WakeUpPath => vec![A::Spin],
            CauseKind::Unexplained => vec![A::GrantEvidence, A::LookAtEvents],
        }
    }

    /// Whether another real-time thread than the loop used up the runtime.
    fn is_of_another_real_time_thread(&self) -> bool {
        self.culprit.as_ref().is_some_and(Culprit::is_real_time)
    }

    /// A halted vCPU should be kept awake. A longer delay, or one of a running vCPU, means that the
    /// host had no CPU for it.
    fn against_late_timer(&self, situation: &Situation) -> Vec<Advice> {
        let is_halted =
            self.culprit.as_ref().is_some_and(|culprit| culprit.name == Culprit::HALTED);
        match (situation.has(Fact::Guest), is_halted) {
            (true, true) if self.ns < HALTED_AT_MOST_NS => vec![Advice::KeepAwake, Advice::Spin],
            (true, _) => vec![Advice::PinVcpu, Advice::BareMetal],
            (false, _) => vec![Advice::Spin, Advice::Firmware],
        }
    }
}

fn against_interrupt(culprit: Option<&Culprit>) -> Vec<Advice> {
    match culprit.map(|culprit| culprit.name.as_str()) {
        Some("timer tick_nohz_handler" | "timer tick_sched_timer") => vec![Advice::StopTick],
        Some(name) if name.starts_with("timer ") => vec![Advice::OthersTimers],
        Some(name) if !name.contains("(irq ") => vec![Advice::OwnInterrupts],
        _ => vec![Advice::MoveInterrupt, Advice::ManagedInterrupt],
    }
}

fn against_softirq(culprit: Option<&Culprit>) -> Vec<Advice> {
    match culprit.map(|culprit| culprit.name.as_str()) {
        Some("TIMER" | "HRTIMER") => vec![Advice::SoftirqTimers],
        Some("RCU") => vec![Advice::RcuElsewhere, Advice::OthersOff],
        Some("SCHED") => vec![Advice::NoBalancing],
        _ => vec![Advice::MoveSoftirq, Advice::ThreadedSoftirqs],
    }
}

fn against_thread(culprit: Option<&Culprit>, situation: &Situation) -> Vec<Advice> {
    let stays = culprit.is_some_and(is_bound_to_its_cpu);
    let elsewhere = if stays { Advice::PerCpuThread } else { Advice::MoveThread };
    match culprit.and_then(|culprit| culprit.prio).map(|prio| HIGHEST - prio) {
        Some(priority) if priority > HIGHEST => vec![Advice::DeadlineElsewhere],
        // No priority is above the highest, and raising a priority that is higher already does not
        // help.
        Some(priority)
            if priority == HIGHEST
                || i64::from(situation.priority) > i64::from(priority.max(0)) =>
        {
            vec![elsewhere]
        }
        // Kernel work for that thread delays a real-time loop as well.
        _ if culprit.is_some_and(|culprit| culprit.woken_in.is_some()) => {
            vec![elsewhere, Advice::PriorityOutsideCalls]
        }
        _ => vec![Advice::Priority, elsewhere],
    }
}

/// Whether the culprit is a per-CPU kernel thread such as `ksoftirqd/1`; `kworker/u8:3` is not
/// bound to a CPU.
fn is_bound_to_its_cpu(culprit: &Culprit) -> bool {
    const NAMES: [&str; 7] =
        ["migration", "ksoftirqd", "cpuhp", "rcuc", "ktimers", "irq_work", "kworker"];
    let parts = culprit.tid.and(culprit.name.split_once('/'));
    parts.is_some_and(|(name, cpu)| {
        NAMES.contains(&name) && cpu.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// A guest without deep idle states sleeps in those of its host, which it cannot limit.
/// `idle=poll` comes last: the catalogue calls its risk high.
fn against_sleep(situation: &Situation) -> Vec<Advice> {
    match situation.has(Fact::Guest) {
        true if situation.idle_exit_ns.unwrap_or(0) < SHALLOW_NS => {
            vec![Advice::KeepAwake, Advice::Spin]
        }
        true => vec![Advice::KeepAwake, Advice::BoundIdle, Advice::Spin],
        false => vec![Advice::BoundIdle, Advice::Spin, Advice::IdlePoll],
    }
}

/// Idle states with a lower exit latency are not deep, in nanoseconds.
const SHALLOW_NS: u64 = 10_000;

/// Joins the texts of `advices`; `None` if the list is empty.
#[must_use]
pub fn in_words(advices: &[Advice]) -> Option<String> {
    let texts: Vec<&str> = advices.iter().map(|advice| advice.text()).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Returns the tunings of the catalogue that put any of `advices` into effect, each once.
#[must_use]
pub fn tunings(advices: &[Advice], situation: &Situation) -> Vec<&'static str> {
    let mut all = Vec::new();
    for id in advices.iter().flat_map(|advice| advice.tunings(situation)) {
        if !all.contains(&id) {
            all.push(id);
        }
    }
    all
}

/// Returns the command that shows tunings in full; `None` without any.
#[must_use]
pub fn tuning_command(tunings: &[&str]) -> Option<String> {
    (!tunings.is_empty()).then(|| format!("onbeat tune check {}", tunings.join(" ")))
}

/// Returns the command that measures what the first of `tunings` is worth that can be measured in
/// turns; `None` if none can.
#[must_use]
pub fn measure_command(tunings: &[&str]) -> Option<String> {
    let in_turns = tunings.iter().find(|id| !NOT_IN_TURNS.contains(id));
    in_turns.map(|id| format!("onbeat tune measure {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum_and_have_unique_ids() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!(row.0 as usize, place, "{}", row.1);
        }
        let ids: BTreeSet<&str> = Advice::all().map(Advice::id).collect();
        assert_eq!(ids.len(), ROWS.len());
    }
}
