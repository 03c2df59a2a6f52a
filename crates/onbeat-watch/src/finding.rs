//! What is wrong with the program itself, in the words of its users: what was seen, and what mends
//! it.

use onbeat::cause::{Cause, CauseKind};
use onbeat_figures::units::listed;

use crate::choose::SeenSeries;
use crate::class::Class;
use crate::event::TimerClock;
use crate::measure::{Watched, WatchedLoop};
use crate::process::{Policy, ThreadCounters};
use crate::survey::Survey;
use crate::waits::Source;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Another thread kept the holder of its lock off its CPU.
    PriorityInversion,
    /// It waited for locks without priority inheritance.
    PlainLock,
    /// It prints, or writes files.
    Writes,
    /// The thread that wakes it has a lower priority.
    FeederBelow,
    /// Interrupt threads have its priority or a higher one.
    InterruptsAbove,
    /// Its cgroup has no budget for real-time threads.
    NoBudget,
    /// Its user may not set real-time policies.
    NoRights,
    /// Its memory is not locked.
    NotLocked,
    /// Each cycle's errors stay.
    Drifts,
    /// Releases by a clock that is set.
    WallClock,
    /// The kernel may wake it later than asked.
    TimerSlack,
    /// An ordinary thread.
    Ordinary,
    /// Page faults while it was measured.
    Faults,
    /// It waits inside its cycles.
    WaitsInside,
    /// Another thread of the process shares its only CPU.
    SharesCpu,
    /// The measurement itself made cycles late.
    Disturbed,
    /// Cycles whose latency is not known.
    NotSeen,
}

/// A finding about the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// What was seen, a sentence without its full stop.
    pub what: String,
    /// What mends it.
    pub remedy: String,
}

/// Slack of this size is worth a word, in nanoseconds.
const LEAST_SLACK_NS: u64 = 1_000;
/// Page faults per second that are worth a word.
const LEAST_FAULTS_PER_S: f64 = 0.5;

/// Returns what was found about a program, the most harmful first.
#[must_use]
pub fn of_program(survey: &Survey, watched: &WatchedLoop, result: &Watched) -> Vec<Finding> {
    let thread = &watched.thread;
    let name = format!("{} [{}]", thread.name, thread.tid());
    let series = survey
        .threads
        .iter()
        .find(|seen| seen.facts.tid() == thread.tid())
        .and_then(|seen| seen.series.iter().find(|series| series.source == watched.source));
    let is_ordinary = !thread.policy.is_real_time();
    let refused = no_budget(&name, result).or_else(|| no_rights(&name, result));
    let refused = refused.filter(|_| is_ordinary);
    let (slack_of_its_own, slack) = match slack(&name, watched, series) {
        Some((slack, true)) => (Some(slack), None),
        Some((slack, false)) => (None, Some(slack)),
        None => (None, None),
    };
    let locks = locks(&name, result);
    let writes = writes(&name, result);
    let waits = waits_inside(&name, watched, result).filter(|_| locks.is_none());
    let waits = waits.filter(|_| writes.is_none());
    [
        locks,
        writes,
        drifts(&name, watched, series),
        wall_clock(&name, watched),
        slack_of_its_own,
        refused,
        ordinary(&name, watched),
        shares_cpu(&name, survey, watched),
        feeder_below(&name, watched, result),
        interrupts_above(&name, result),
        waits,
        faults(&name, result),
        not_locked(&name, result).filter(|_| !is_ordinary),
        slack,
        disturbed(&name, result),
        not_seen(&name, result),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A lock without inheritance that made cycles late, and who kept its holder off.
fn locks(name: &str, result: &Watched) -> Option<Finding> {
    let remedy = "Give the mutex PTHREAD_PRIO_INHERIT (pthread_mutexattr_setprotocol), hold it for microseconds, or exchange the data without a lock.";
    let of = |kind, by: &str, (cycles, longest): &(u64, Cause)| Finding {
        kind,
        what: format!(
            "{name} had {cycles} {} late by {by}; the longest: {}",
            plural(*cycles, "cycle"),
            longest.evidence
        ),
        remedy: remedy.to_owned(),
    };
    if let Some(late) = result.causes.get(&CauseKind::PriorityInversion) {
        return Some(of(FindingKind::PriorityInversion, "priority inversion", late));
    }
    let late = result.causes.get(&CauseKind::LockWait)?;
    let is_plain = late.1.evidence.contains("without priority inheritance");
    is_plain.then(|| of(FindingKind::PlainLock, "a lock", late))
}

fn plural(count: u64, one: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{one}s") }
}

/// Cycles of a hundred that write are worth a word.
const LEAST_WRITING: f64 = 0.01;
/// Devices that are listed.
const MOST_BUSES: usize = 4;
/// An eventfd is written eight bytes at a time, and wakes another thread.
const EVENT_BYTES: u64 = 8;

fn writes(name: &str, result: &Watched) -> Option<Finding> {
    let ThreadCounters { writes, written, .. } = result.counters;
    let cycles = result.inner.cycles.max(1);
    let is_text = written > 0 && written != writes * EVENT_BYTES;
    if !is_text || (writes as f64) < LEAST_WRITING * cycles as f64 {
        return None;
    }

    let waited = result.causes.get(&CauseKind::OutputWait).map(|(cycles, longest)| {
        format!(
            "; {cycles} {} late by it, the longest: {}",
            plural(*cycles, "cycle"),
            longest.evidence
        )
    });
    let output = result.standing.output.as_ref();
    let output = output.map(|output| format!("; its standard output is {output}"));
    // The kernel counts calls and bytes, and not what they are written to: SocketCAN and serial
    // lines take their frames by write() as well.
    let mut buses = result.standing.buses.clone();
    buses.truncate(MOST_BUSES);
    let (may_be, frames) = match buses.is_empty() {
        true => (String::new(), ""),
        false => (
            format!(
                "; it also has {} open, and which of them it writes to is not recorded",
                listed(&buses)
            ),
            " Frames for a bus remain in the cycle.",
        ),
    };
    Some(Finding {
        kind: FindingKind::Writes,
        what: format!(
            "{name} prints or writes in its cycles: {writes} {} of {written} bytes in {cycles} cycles{}{may_be}{}",
            plural(writes, "call"),
            output.unwrap_or_default(),
            waited.unwrap_or_default()
        ),
        remedy: format!(
            "Pass text and data to an ordinary thread by a wait-free queue; print and write files there.{frames}"
        ),
    })
}

/// Of the cycles of a loop that one thread wakes.
const MOSTLY: f64 = 0.5;

fn feeder_below(name: &str, watched: &WatchedLoop, result: &Watched) -> Option<Finding> {
    let (feeder, woken) = result.feeder.as_ref()?;
    let (own, others) = (watched.thread.policy, feeder.policy);
    let is_mostly = *woken as f64 >= MOSTLY * result.inner.cycles.max(1) as f64;
    if !own.is_real_time() || others.priority() >= own.priority() || !is_mostly {
        return None;
    }

    let what = if feeder.name.starts_with("irq/") { "interrupt thread" } else { "thread" };
    Some(Finding {
        kind: FindingKind::FeederBelow,
        what: format!(
            "{name} ({}) is above the {what} that wakes it, {} [{}] ({}): every thread between the two delays its data",
            own.words(),
            feeder.name,
            feeder.tid(),
            others.words()
        ),
        remedy: match (own.priority(), watched.thread.tid(), feeder.tid()) {
            (99, own, feeder) => {
                format!("sudo chrt -f -p 98 {own} and sudo chrt -f -p 99 {feeder} put it above.")
            }
            (priority @ 0..99, _, feeder) => {
                format!("sudo chrt -f -p {} {feeder} puts it above.", priority + 1)
            }
            (_, _, feeder) => {
                format!("sudo chrt -f -p 99 {feeder} leaves only SCHED_DEADLINE before it.")
            }
        },
    })
}

fn interrupts_above(name: &str, result: &Watched) -> Option<Finding> {
    let above = &result.standing.interrupts_above;
    (!above.is_empty()).then(|| Finding {
        kind: FindingKind::InterruptsAbove,
        what: format!(
            "{name} has no higher priority than {} interrupt {} on its CPUs: {}",
            above.len(),
            plural(above.len() as u64, "thread"),
            above.iter().take(4).cloned().collect::<Vec<_>>().join(", ")
        ),
        remedy: "Take a priority above theirs, 50 by default, or move these interrupts to other CPUs; the thread of the card that feeds the loop stays above it.".to_owned(),
    })
}

fn no_budget(name: &str, result: &Watched) -> Option<Finding> {
    let group = result.standing.without_budget.as_ref()?;
    Some(Finding {
        kind: FindingKind::NoBudget,
        what: format!(
            "{name} is in the cgroup {group}, whose budget for real-time threads is 0: the kernel refuses it a real-time policy (EPERM), whatever its rights"
        ),
        remedy: format!(
            "echo 950000 | sudo tee /sys/fs/cgroup/cpu{group}/cpu.rt_runtime_us, and the same for the groups above; for docker --cpu-rt-runtime=950000; or boot with rt_group_sched=0."
        ),
    })
}

fn no_rights(name: &str, result: &Watched) -> Option<Finding> {
    let standing = &result.standing;
    let is_refused = standing.rtprio_limit == Some(0) && !standing.has_sys_nice;
    is_refused.then(|| Finding {
        kind: FindingKind::NoRights,
        what: format!(
            "{name} is an ordinary thread and may not become another: its limit of real-time priorities (RLIMIT_RTPRIO) is 0"
        ),
        remedy: "For its user: `@realtime - rtprio 95` and `@realtime - memlock unlimited` in /etc/security/limits.d/90-realtime.conf; in a systemd unit LimitRTPRIO=95 and LimitMEMLOCK=infinity; for docker --ulimit rtprio=95 --ulimit memlock=-1 --cap-add=SYS_NICE.".to_owned(),
    })
}

fn not_locked(name: &str, result: &Watched) -> Option<Finding> {
    (result.standing.locked_kib == Some(0)).then(|| Finding {
        kind: FindingKind::NotLocked,
        what: format!("the memory of {name} is not locked: pages of its program and libraries may be dropped, and read again from the disk inside a cycle"),
        remedy: "Call mlockall(MCL_CURRENT | MCL_FUTURE) before the loop (LimitMEMLOCK=infinity, or CAP_IPC_LOCK).".to_owned(),
    })
}

/// Returns a round time near what the program asked for: the kernel sees the timer a little after
/// the program's own clock reading.
fn round_up_ns(ns: u64) -> u64 {
    let unit = [1_000_000, 100_000, 10_000, 1_000].into_iter().find(|unit| {
        let up = ns.div_ceil(*unit) * unit;
        ns > 0 && up - ns <= ns / 200
    });
    unit.map_or(ns, |unit| ns.div_ceil(unit) * unit)
}

fn time(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{:.1} us", ns as f64 / 1e3)
    } else {
        format!("{:.3} ms", ns as f64 / 1e6)
    }
}

fn drifts(name: &str, watched: &WatchedLoop, series: Option<&SeenSeries>) -> Option<Finding> {
    let Class::Drifting { mean_ns } = watched.class else { return None };
    let asked_ns = series
        .and_then(|series| series.asked_ns)
        .filter(|_| matches!(watched.source, Source::Sleep { .. }));
    let what = match asked_ns.map(round_up_ns).filter(|asked| *asked < mean_ns) {
        Some(asked_ns) => format!(
            "{name} drifts by {} a cycle: it waits for {} after each cycle, and its period is {}",
            time(mean_ns - asked_ns),
            time(asked_ns),
            time(mean_ns)
        ),
        None => format!(
            "{name} drifts: its errors add up instead of being made good, at a mean period of {}",
            time(mean_ns)
        ),
    };
    let remedy = "Sleep until an absolute time that grows by the period: clock_nanosleep with TIMER_ABSTIME, std::this_thread::sleep_until, a timerfd, or rclcpp::WallRate".to_owned();
    Some(Finding { kind: FindingKind::Drifts, what, remedy: format!("{remedy}.") })
}

fn wall_clock(name: &str, watched: &WatchedLoop) -> Option<Finding> {
    let Source::Sleep { clock: clock @ (TimerClock::Realtime | TimerClock::Tai), .. } =
        watched.source
    else {
        return None;
    };
    let clock = if clock == TimerClock::Tai { "CLOCK_TAI" } else { "CLOCK_REALTIME" };
    Some(Finding {
        kind: FindingKind::WallClock,
        what: format!(
            "{name} sleeps by {clock}: when the clock is set (NTP, PTP, by hand), its releases move or stop"
        ),
        remedy: "Use CLOCK_MONOTONIC; in C++ std::chrono::steady_clock.".to_owned(),
    })
}

fn ordinary(name: &str, watched: &WatchedLoop) -> Option<Finding> {
    let Policy::Ordinary { .. } = watched.thread.policy else { return None };
    let tid = watched.thread.tid();
    Some(Finding {
        kind: FindingKind::Ordinary,
        what: format!(
            "{name} is an ordinary thread ({}): any other thread may run before it",
            watched.thread.policy.words()
        ),
        remedy: format!(
            "sudo chrt -f -p 80 {tid} tries it out; for good: CPUSchedulingPolicy=fifo and CPUSchedulingPriority=80 in a systemd unit, `user - rtprio 95` in /etc/security/limits.d, --cap-add=SYS_NICE --ulimit rtprio=95 for docker."
        ),
    })
}

/// The slack of a thread that did not ask for another, in nanoseconds.
const USUAL_SLACK_NS: u64 = 50_000;

/// Returns the finding, and whether it is larger than every ordinary thread's.
fn slack(
    name: &str,
    watched: &WatchedLoop,
    series: Option<&SeenSeries>,
) -> Option<(Finding, bool)> {
    let slack_ns = series?.slack_ns;
    let is_ordinary = !watched.thread.policy.is_real_time();
    let finding = (slack_ns >= LEAST_SLACK_NS && is_ordinary).then(|| Finding {
        kind: FindingKind::TimerSlack,
        what: format!(
            "the kernel may wake {name} {} us later than asked (timer slack), to wake several threads at once",
            slack_ns / 1_000
        ),
        remedy: "Real-time threads have none; an ordinary one calls prctl(PR_SET_TIMERSLACK, 1).".to_owned(),
    })?;
    Some((finding, slack_ns > USUAL_SLACK_NS))
}

/// Shares of cycles and of the period from which waits inside cycles are worth a word.
const LEAST_WAITING: f64 = 0.01;
const LEAST_OF_PERIOD: f64 = 0.02;

fn waits_inside(name: &str, watched: &WatchedLoop, result: &Watched) -> Option<Finding> {
    // Where another thread wakes it, such a wait cannot be told from the end of a cycle.
    let inner = result.inner;
    let share = inner.waiting as f64 / inner.cycles.max(1) as f64;
    let of_period = inner.longest_ns as f64 / watched.class.period_ns().max(1) as f64;
    if !watched.source.is_timer() || share < LEAST_WAITING || of_period < LEAST_OF_PERIOD {
        return None;
    }

    let main = result.calls.iter().max_by_key(|(_, found)| **found).map(|(call, _)| call);
    let others: Vec<&str> =
        result.calls.keys().filter(|call| Some(*call) != main).map(String::as_str).collect();
    let found = if others.is_empty() {
        String::new()
    } else {
        format!("; it was found in {}", others.join(", "))
    };
    let writes =
        others.iter().any(|call| matches!(*call, "write" | "writev" | "fsync" | "fdatasync"));
    let remedy = if writes {
        "Pass text and data to an ordinary thread by a wait-free queue; print and write files there."
    } else if others.iter().any(|call| call.starts_with("futex")) {
        "Use PTHREAD_PRIO_INHERIT for locks that the loop takes, hold them for microseconds, or exchange data without locks."
    } else {
        "The causes of late cycles name what it waited for: a lock, a file, a terminal, another thread."
    };
    Some(Finding {
        kind: FindingKind::WaitsInside,
        what: format!(
            "{name} waits inside {:.0} % of its cycles for something else than its timer, at most {}{found}",
            share * 100.0,
            time(inner.longest_ns)
        ),
        remedy: remedy.to_owned(),
    })
}

fn faults(name: &str, result: &Watched) -> Option<Finding> {
    let seconds = result.watched_ns as f64 / 1e9;
    let faults = result.counters.faults;
    (faults as f64 > LEAST_FAULTS_PER_S * seconds.max(1.0)).then(|| Finding {
        kind: FindingKind::Faults,
        what: format!("{name} had {faults} page {} in {seconds:.1} s: it touches memory that is not there yet", plural(faults, "fault")),
        remedy: "Call mlockall(MCL_CURRENT | MCL_FUTURE) before the loop, touch stack and buffers once, and set mallopt(M_TRIM_THRESHOLD, -1) and mallopt(M_MMAP_MAX, 0).".to_owned(),
    })
}

fn shares_cpu(name: &str, survey: &Survey, watched: &WatchedLoop) -> Option<Finding> {
    let cpu = watched.thread.bound_cpu()?;
    let mut others: Vec<String> = survey
        .threads
        .iter()
        .filter(|other| other.facts.tid() != watched.thread.tid() && other.counters.cpu_ns > 0)
        .filter(|other| other.facts.bound_cpu() == Some(cpu))
        .filter(|other| {
            !other.facts.policy.is_real_time()
                || other.facts.policy.priority() >= watched.thread.policy.priority()
        })
        .map(|other| format!("{} [{}]", other.facts.name, other.facts.tid()))
        .collect();
    others.truncate(4);
    (!others.is_empty()).then(|| Finding {
        kind: FindingKind::SharesCpu,
        what: format!("{name} shares its only CPU {cpu} with {} of its own process", others.join(", ")),
        remedy: format!("Bind them to other CPUs: taskset -cp, pthread_setaffinity_np, CPUAffinity= in the unit; keep CPU {cpu} for the loop."),
    })
}

/// The share of spikes from which those that the measurement made are worth a word.
const LEAST_DISTURBED: f64 = 0.1;

fn disturbed(name: &str, result: &Watched) -> Option<Finding> {
    let spikes: u64 = result.causes.values().map(|(spikes, _)| *spikes).sum();
    let disturbed = result.disturbed;
    (disturbed > 0 && disturbed as f64 >= LEAST_DISTURBED * spikes as f64).then(|| Finding {
        kind: FindingKind::Disturbed,
        what: format!("onbeat itself made {disturbed} of {spikes} spikes of {name}: it ran on the CPU that the loop waited for"),
        remedy: "These are the measurement's and not the program's. Measure with --no-causes, start onbeat on other CPUs (taskset), or give the loop a real-time priority, which onbeat does not have.".to_owned(),
    })
}

fn not_seen(name: &str, result: &Watched) -> Option<Finding> {
    let cycles = plural(result.not_seen, "cycle");
    (result.not_seen > 0).then(|| Finding {
        kind: FindingKind::NotSeen,
        what: format!(
            "the latency of {} {cycles} of {name} is not known: the kernel recorded no event of the wake-up ({} lost in its buffers)",
            result.not_seen, result.lost_events
        ),
        remedy: "They count against either outcome of a verdict.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onbeat_tune::tasks::TaskId;

    use super::*;
    use crate::measure::InnerWaits;
    use crate::process::ThreadFacts;
    use crate::standing::Standing;

    fn watched(source: Source, class: Class, policy: Policy) -> WatchedLoop {
        let thread = ThreadFacts {
            id: TaskId { tid: 9, start_ticks: 1 },
            pid: 9,
            name: "loop".to_owned(),
            policy,
            cpus: "0-3".to_owned(),
            is_kernel: false,
            counters: ThreadCounters::default(),
        };
        WatchedLoop {
            thread,
            pool: Vec::new(),
            source,
            class,
            timer: 0,
            known: Vec::new(),
            worked_ns: 0,
        }
    }

    fn result() -> Watched {
        Watched {
            not_seen: 0,
            lost_events: 0,
            account: None,
            reason: onbeat::record::EndReason::Complete,
            has_ended: false,
            own_cpu_ns: 0,
            counters: ThreadCounters::default(),
            watched_ns: 10_000_000_000,
            inner: InnerWaits::default(),
            calls: BTreeMap::new(),
            causes: BTreeMap::new(),
            disturbed: 0,
            feeder: None,
            standing: Standing { locked_kib: Some(4), has_sys_nice: true, ..Standing::default() },
        }
    }

    fn kinds(watched: &WatchedLoop, result: &Watched) -> Vec<FindingKind> {
        let found = of_program(&Survey::default(), watched, result);
        found.into_iter().map(|finding| finding.kind).collect()
    }

    fn sleep(relative: bool, clock: TimerClock) -> Source {
        Source::Sleep { relative, clock }
    }

    /// A loop that sleeps until each release of an exact grid.
    fn exact(policy: Policy) -> WatchedLoop {
        let class = Class::Exact { period_ns: 1_000_000, waits: 1 };
        watched(sleep(false, TimerClock::Monotonic), class, policy)
    }

    #[test]
    fn a_loop_without_defects_has_no_findings() {
        let good = exact(Policy::Fifo(80));
        assert_eq!(kinds(&good, &result()), []);
    }

    #[test]
    fn a_relative_sleep_on_a_grid_does_not_drift() {
        let source = sleep(true, TimerClock::Monotonic);
        let locked = watched(source, Class::Locked { period_ns: 1_000_000 }, Policy::Fifo(70));
        assert_eq!(kinds(&locked, &result()), []);
        let drifting = watched(source, Class::Drifting { mean_ns: 1_057_000 }, Policy::Fifo(70));
        assert_eq!(kinds(&drifting, &result()), [FindingKind::Drifts]);
    }

    #[test]
    fn the_drift_is_told_per_cycle() {
        let source = sleep(true, TimerClock::Monotonic);
        let drifting = watched(source, Class::Drifting { mean_ns: 1_057_000 }, Policy::Fifo(70));
        let series = SeenSeries { asked_ns: Some(999_400), ..SeenSeries::new(source) };
        let found = drifts("loop [9]", &drifting, Some(&series)).unwrap();
        assert!(found.what.contains("drifts by 57.0 us a cycle"), "{}", found.what);
    }

    #[test]
    fn the_wall_clock_an_ordinary_policy_and_faults_are_found() {
        let source = sleep(false, TimerClock::Realtime);
        let class = Class::Exact { period_ns: 1_000_000, waits: 1 };
        let bad = watched(source, class, Policy::Ordinary { nice: 0 });
        let faulting = Watched {
            counters: ThreadCounters { faults: 400, ..ThreadCounters::default() },
            ..result()
        };
        assert_eq!(
            kinds(&bad, &faulting),
            [FindingKind::WallClock, FindingKind::Ordinary, FindingKind::Faults]
        );
        let few = Watched {
            counters: ThreadCounters { faults: 4, ..ThreadCounters::default() },
            ..result()
        };
        assert!(!kinds(&bad, &few).contains(&FindingKind::Faults));
    }

    #[test]
    fn waits_inside_cycles_are_told_with_the_calls_that_were_found() {
        let good = exact(Policy::Fifo(80));
        let inner = InnerWaits { cycles: 1_000, waiting: 400, longest_ns: 700_000 };
        let call = |name: &str, found| (name.to_owned(), found);
        let calls = BTreeMap::from([call("clock_nanosleep", 300), call("write", 20)]);
        let result = Watched { inner, calls, ..result() };
        let found = of_program(&Survey::default(), &good, &result);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].what.contains("40 % of its cycles") && found[0].what.ends_with("in write")
        );
        assert!(found[0].remedy.contains("queue"));

        let rare = InnerWaits { waiting: 4, ..inner };
        assert_eq!(kinds(&good, &Watched { inner: rare, ..result }), []);
    }

    #[test]
    fn a_default_slack_is_less_harmful_than_the_policy_and_a_larger_one_more() {
        let ordinary = exact(Policy::Ordinary { nice: 0 });
        let with = |slack_ns| {
            let series = SeenSeries { slack_ns, ..SeenSeries::new(ordinary.source) };
            slack("loop [9]", &ordinary, Some(&series)).map(|(_, is_larger)| is_larger)
        };
        assert_eq!([with(0), with(50_000), with(500_000)], [None, Some(false), Some(true)]);
    }

    #[test]
    fn what_the_process_may_not_and_has_not_is_found_before_what_follows_from_it() {
        let ordinary = exact(Policy::Ordinary { nice: 0 });
        let with = |standing| Watched { standing, ..result() };
        let group = Some("/robot".to_owned());
        let no_budget = with(Standing { without_budget: group, ..Standing::default() });
        let expected = [FindingKind::NoBudget, FindingKind::Ordinary];
        assert_eq!(kinds(&ordinary, &no_budget), expected);
        let refused = with(Standing { rtprio_limit: Some(0), ..Standing::default() });
        assert_eq!(kinds(&ordinary, &refused)[0], FindingKind::NoRights);

        let fifo = exact(Policy::Fifo(40));
        assert_eq!(kinds(&fifo, &with(Standing::default())), [], "nothing could be read");
        let unlocked = with(Standing { locked_kib: Some(0), ..Standing::default() });
        assert_eq!(kinds(&fifo, &unlocked), [FindingKind::NotLocked]);
        let above = vec!["irq/24-eth0 [77] FIFO 50".to_owned()];
        let below =
            with(Standing { interrupts_above: above, locked_kib: Some(4), ..Standing::default() });
        assert_eq!(kinds(&fifo, &below), [FindingKind::InterruptsAbove]);
    }

    #[test]
    fn a_feeder_below_the_loop_is_found_and_one_above_it_is_not() {
        let class = Class::Locked { period_ns: 1_000_000 };
        let fifo = watched(Source::Event, class, Policy::Fifo(80));
        let fed_by = |policy| {
            let feeder = ThreadFacts { policy, ..fifo.thread.clone() };
            let inner = InnerWaits { cycles: 100, ..InnerWaits::default() };
            Watched { feeder: Some((feeder, 99)), inner, ..result() }
        };
        assert_eq!(kinds(&fifo, &fed_by(Policy::Fifo(50))), [FindingKind::FeederBelow]);
        assert_eq!(kinds(&fifo, &fed_by(Policy::Fifo(90))), []);
        let remedy = |policy| {
            let highest = WatchedLoop {
                thread: ThreadFacts { policy, ..fifo.thread.clone() },
                ..fifo.clone()
            };
            of_program(&Survey::default(), &highest, &fed_by(Policy::Fifo(50))).remove(0).remedy
        };
        assert_eq!(remedy(Policy::Fifo(80)), "sudo chrt -f -p 81 9 puts it above.");
        let highest = "sudo chrt -f -p 98 9 and sudo chrt -f -p 99 9 put it above.";
        assert_eq!(remedy(Policy::Fifo(99)), highest);
    }

    #[test]
    fn writing_is_found_by_its_counts_and_waking_another_thread_is_not_writing() {
        let fifo = exact(Policy::Fifo(80));
        let with = |writes, written| Watched {
            counters: ThreadCounters { writes, written, ..ThreadCounters::default() },
            inner: InnerWaits { cycles: 1_000, ..InnerWaits::default() },
            ..result()
        };
        assert_eq!(kinds(&fifo, &with(1_000, 64_000)), [FindingKind::Writes]);
        assert_eq!(kinds(&fifo, &with(1_000, 8_000)), [], "an eventfd");
        assert_eq!(kinds(&fifo, &with(2, 300)), [], "rarely");

        // Frames for SocketCAN, or lines that are printed.
        let mut frames = with(1_000, 16_000);
        assert!(!writes("loop", &frames).unwrap().remedy.contains("bus"));
        frames.standing.buses = vec!["a socket".to_owned()];
        let found = writes("loop", &frames).unwrap();
        assert!(found.what.ends_with(
            "; it also has a socket open, and which of them it writes to is not recorded"
        ));
        assert!(found.remedy.ends_with("Frames for a bus remain in the cycle."));
    }

    #[test]
    fn cycles_that_were_not_seen_are_told() {
        let good = exact(Policy::Fifo(80));
        assert_eq!(kinds(&good, &Watched { not_seen: 3, ..result() }), [FindingKind::NotSeen]);
    }

    #[test]
    fn spikes_that_the_measurement_made_are_told_unless_they_are_rare() {
        let preempted = Cause {
            kind: CauseKind::Preempted,
            ns: 3_000_000,
            evidence: "onbeat ran".to_owned(),
            culprit: None,
        };
        let causes = BTreeMap::from([(CauseKind::Preempted, (177, preempted))]);
        let with = |disturbed| Watched { causes: causes.clone(), disturbed, ..result() };
        let good = exact(Policy::Fifo(80));
        assert_eq!(kinds(&good, &with(155)), [FindingKind::Disturbed]);
        assert_eq!(kinds(&good, &with(3)), []);
    }
}
