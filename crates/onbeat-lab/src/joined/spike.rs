//! Spikes of a guest with what the host did meanwhile.

use onbeat::cause::event::{KernelEvent, TraceEvent};
use onbeat::cause::window::CpuWindow;
use onbeat::cause::{Cause, CauseKind, Explanation, SpikeFacts, Window};
use onbeat::record::{RunFile, SpikeNote};
use onbeat_rt::Instant;

use super::error::JoinError;
use super::relation::ClockRelation;
use super::vcpu::{HostShare, OffCpu, VcpuThread};

/// A spike of a guest's loop, on the host's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedSpike {
    /// Its number in the guest's run, from 1.
    pub number: u64,
    /// The guest's facts, with instants of the host's clock.
    pub facts: SpikeFacts,
    /// Error bound of these instants, in nanoseconds.
    pub within_ns: u64,
    /// What the guest itself says, longest first.
    pub guest: Vec<Cause>,
    /// What the host did with the virtual CPU meanwhile.
    pub host: HostShare,
    /// The guest's events around it, on the host's clock.
    pub window: Window,
}

/// Whose cause a spike has.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinedCause {
    /// The host kept the virtual CPU off its CPU, or handled its exits, for most of the lateness.
    Host(Cause),
    /// The virtual CPU was halted for most of it: QEMU had not woken it yet.
    Halted,
    /// The virtual CPU ran: the guest's own cause.
    Guest(Option<Cause>),
}

impl JoinedSpike {
    /// Returns the explained time, in nanoseconds: from the timer's expiry to the start of the cycle,
    /// or to its end where the work was late.
    #[must_use]
    pub fn lateness_ns(&self) -> u64 {
        let (from, to) = span(&self.facts, &self.guest);
        to.ns_since(from)
    }

    /// Returns the cause of the spike: of the host where the host took at least half of the time.
    ///
    /// A virtual CPU also halts when the guest itself keeps its loop from running: a stop, a wait or
    /// a quota that had at least half of the time is the guest's cause.
    #[must_use]
    pub fn cause(&self) -> JoinedCause {
        let half_ns = self.lateness_ns() / 2;
        let by_guest = Explanation::from_causes(self.guest.clone()).main().cloned();
        let is_idle_by_guest = by_guest
            .as_ref()
            .is_some_and(|cause| cause.ns >= half_ns && leaves_cpu_idle(cause.kind));
        let by_host = Explanation::from_causes([&self.host.causes[..], &self.host.exits].concat());
        let host_ns = self.host.taken_ns() + self.host.exits_ns();
        match by_host.main() {
            Some(cause) if host_ns >= half_ns => JoinedCause::Host(cause.clone()),
            _ if self.host.halted_ns > half_ns && !is_idle_by_guest => JoinedCause::Halted,
            _ => JoinedCause::Guest(by_guest),
        }
    }
}

/// Whether a loop delayed by this cause is not runnable, so that its CPU may be idle.
const fn leaves_cpu_idle(kind: CauseKind) -> bool {
    matches!(
        kind,
        CauseKind::Stopped
            | CauseKind::CgroupFreezer
            | CauseKind::CpuQuota
            | CauseKind::RtThrottling
            | CauseKind::LockWait
            | CauseKind::DataWait
            | CauseKind::OutputWait
            | CauseKind::OwnWait
    )
}

/// The time to explain: the wait, or the work where the guest says that the work was late.
fn span(facts: &SpikeFacts, guest: &[Cause]) -> (Instant, Instant) {
    let explained_ns: u64 = guest.iter().map(|cause| cause.ns).sum();
    let from = facts.expiry.min(facts.start);
    let is_in_work = explained_ns > facts.start.ns_since(from) + facts.start.ns_since(from) / 4;
    (from, if is_in_work { facts.end } else { facts.start })
}

/// Joins the spikes of a guest's run whose events are kept.
///
/// # Errors
/// [`JoinError::Events`] when the events of a spike cannot be read.
pub(super) fn join(
    run: &RunFile,
    host: &Window,
    thread: VcpuThread,
    relation: &ClockRelation,
) -> Result<Vec<JoinedSpike>, JoinError> {
    let mut joined = Vec::new();
    for spike in &run.spikes {
        joined.extend(join_one(run, spike, (host, thread), relation)?);
    }
    Ok(joined)
}

fn join_one(
    run: &RunFile,
    spike: &SpikeNote,
    (host, thread): (&Window, VcpuThread),
    relation: &ClockRelation,
) -> Result<Option<JoinedSpike>, JoinError> {
    let number = spike.number;
    let Some(note) = run.window_of(spike) else { return Ok(None) };
    let window = note.unpacked().map_err(|source| JoinError::Events { number, source })?;
    let facts = facts_on_host(&note.facts(), relation);
    let guest = spike.causes.clone();

    let (from, to) = span(&facts, &guest);
    let around = host.between(from.minus_ns(LOOK_AROUND_NS), to.plus_ns(LOOK_AROUND_NS));
    let bounds = relation.interval(note.facts().start);
    Ok(Some(JoinedSpike {
        number,
        facts,
        within_ns: bounds.latest.ns_since(bounds.earliest),
        guest,
        host: HostShare::between(&around, thread, from, to),
        window: window_on_host(&window, relation),
    }))
}

/// Events of the host that are looked at before and after a spike, in nanoseconds: they show which
/// thread ran, and whether the virtual CPU's slept.
pub(super) const LOOK_AROUND_NS: u64 = 60_000_000;

fn facts_on_host(facts: &SpikeFacts, relation: &ClockRelation) -> SpikeFacts {
    SpikeFacts {
        release: relation.to_host(facts.release),
        expiry: relation.to_host(facts.expiry),
        entered_sleep: facts.entered_sleep.map(|at| relation.to_host(at)),
        start: relation.to_host(facts.start),
        end: relation.to_host(facts.end),
        ..*facts
    }
}

/// Returns a window of the guest on the host's clock.
pub(super) fn window_on_host(window: &Window, relation: &ClockRelation) -> Window {
    let mut moved = window.clone();
    moved.from = relation.to_host(window.from);
    moved.to = relation.to_host(window.to);
    let events = moved.cpus.iter_mut().flat_map(|cpu: &mut CpuWindow| &mut cpu.events);
    for event in events {
        *event = TraceEvent {
            at: relation.to_host(event.at),
            what: on_host(event.what, relation),
            ..*event
        };
    }
    for lost in &mut moved.lost {
        lost.from = relation.to_host(lost.from);
        lost.to = relation.to_host(lost.to);
    }
    moved
}

/// Two windows of the guest as one; an event that is in both is once in it.
pub(super) fn merged(first: Window, second: Window) -> Window {
    let mut both = first;
    both.from = both.from.min(second.from);
    both.to = both.to.max(second.to);
    both.functions.extend(second.functions);
    both.lost.extend(second.lost);

    for cpu in second.cpus {
        match both.cpus.iter_mut().find(|known| known.cpu == cpu.cpu) {
            None => both.cpus.push(cpu),
            Some(known) => {
                // Windows that follow one another have nothing in common.
                let begins = cpu.events.first().map_or(second.to, |event| event.at);
                let common = known.events.partition_point(|other| other.at < begins);
                let mut tail = known.events.split_off(common);
                let is_known = |event: &TraceEvent| {
                    let first = tail.partition_point(|other| other.at < event.at);
                    let same = tail[first..].iter();
                    same.take_while(|other| other.at == event.at).any(|other| other == event)
                };
                let new: Vec<TraceEvent> =
                    cpu.events.into_iter().filter(|event| !is_known(event)).collect();
                tail.extend(new);
                tail.sort_by_key(|event| event.at);
                known.events.append(&mut tail);
            }
        }
    }

    both
}

/// An event whose fields hold instants too.
fn on_host(what: KernelEvent, relation: &ClockRelation) -> KernelEvent {
    let moved = |instant| relation.to_host(instant);
    match what {
        KernelEvent::TimerStart { timer, function, expires, softexpires } => {
            let expires = moved(expires);
            let softexpires = moved(softexpires);
            KernelEvent::TimerStart { timer, function, expires, softexpires }
        }
        KernelEvent::TimerExpireEntry { timer, function, now } => {
            KernelEvent::TimerExpireEntry { timer, function, now: moved(now) }
        }
        other => other,
    }
}

/// The guest's events, and those of them that contradict the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCheck {
    /// Events of the guest that were compared, each once.
    pub events: usize,
    /// Of these, events at which the virtual CPU was off the host's CPUs, whatever line of the
    /// relation is taken.
    pub violations: usize,
}

impl EventCheck {
    /// Compares the guest's events, on the host's clock with an error of `within_ns`, with the
    /// stretches in which its virtual CPU did not run.
    #[must_use]
    pub fn new(guest: &[&Window], off: &[OffCpu], within_ns: u64) -> Self {
        let mut instants: Vec<Instant> = Vec::new();
        for window in guest {
            let events = window.cpus.iter().flat_map(|cpu| &cpu.events);
            instants.extend(events.map(|event| event.at));
        }
        // Windows of spikes overlap.
        instants.sort_unstable();
        instants.dedup();

        let contradicts = |at: &&Instant| {
            let next = off.partition_point(|gap| gap.to <= at.plus_ns(within_ns));
            off.get(next).is_some_and(|gap| gap.from < at.minus_ns(within_ns))
        };
        let violations = instants.iter().filter(contradicts).count();
        Self { events: instants.len(), violations }
    }
}

#[cfg(test)]
mod tests {
    use onbeat::cause::Culprit;
    use onbeat::cause::event::KernelEvent;

    use super::*;

    const fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn cause(kind: CauseKind, us: u64) -> Cause {
        let culprit = Some(Culprit { name: "hog".to_owned(), tid: Some(9), ..Culprit::default() });
        Cause { kind, ns: us * 1_000, evidence: String::new(), culprit }
    }

    fn spike(host: HostShare) -> JoinedSpike {
        JoinedSpike {
            number: 1,
            facts: SpikeFacts {
                expiry: at(1_000),
                start: at(3_000),
                end: at(3_010),
                ..SpikeFacts::default()
            },
            within_ns: 3_000,
            guest: vec![cause(CauseKind::LateTimer, 2_000)],
            host,
            window: Window::default(),
        }
    }

    #[test]
    fn who_had_most_of_the_time_names_the_spike() {
        let preempted = || vec![cause(CauseKind::Preempted, 1_200)];
        let by_host = HostShare { ran_ns: 800_000, causes: preempted(), ..HostShare::default() };
        assert!(
            matches!(spike(by_host).cause(), JoinedCause::Host(cause) if cause.kind == CauseKind::Preempted)
        );

        let exits = vec![cause(CauseKind::VmExit, 1_300)];
        let by_exits = HostShare { ran_ns: 700_000, exits, ..HostShare::default() };
        assert!(
            matches!(spike(by_exits).cause(), JoinedCause::Host(cause) if cause.kind == CauseKind::VmExit)
        );

        let halted = HostShare { ran_ns: 100_000, halted_ns: 1_900_000, ..HostShare::default() };
        assert_eq!(spike(halted.clone()).cause(), JoinedCause::Halted);
        let stopped =
            JoinedSpike { guest: vec![cause(CauseKind::Stopped, 1_900)], ..spike(halted) };
        assert!(
            matches!(stopped.cause(), JoinedCause::Guest(Some(cause)) if cause.kind == CauseKind::Stopped)
        );
        let ran = HostShare { ran_ns: 2_000_000, ..HostShare::default() };
        assert!(
            matches!(spike(ran).cause(), JoinedCause::Guest(Some(cause)) if cause.kind == CauseKind::LateTimer)
        );
    }

    #[test]
    fn an_event_while_the_virtual_cpu_did_not_run_is_a_violation() {
        let event = |us| TraceEvent { at: at(us), cpu: 0, tid: 1, what: KernelEvent::IdleExit };
        let mut spike = spike(HostShare::default());
        let events = [900, 1_001, 1_050, 1_099, 1_200].map(event).to_vec();
        spike.window.cpus = vec![CpuWindow { cpu: 0, events }];
        let off = [OffCpu { from: at(1_000), to: at(1_100) }];

        let windows = [&spike.window; 2];
        let check = EventCheck::new(&windows, &off, 3_000);
        assert_eq!(check, EventCheck { events: 5, violations: 1 }, "only that at 1,050 us");
        assert_eq!(EventCheck::new(&windows, &off, 0).violations, 3);
        assert_eq!(EventCheck::new(&windows, &[], 0).violations, 0);
    }
}
