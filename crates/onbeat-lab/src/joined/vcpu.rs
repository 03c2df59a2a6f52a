//! What the host did with the thread of a virtual CPU, from the host's events.

use onbeat::cause::counters::Counters;
use std::collections::BTreeMap;

use onbeat::cause::event::{KernelEvent, TraceEvent};
use onbeat::cause::kvm::{self, ExitReason, VmExitSpan};
use onbeat::cause::timeline::{LoopState, loop_spans};
use onbeat::cause::{Cause, CauseKind, Culprit, SpikeFacts, Window, explain};
use onbeat_rt::Instant;

/// The thread of a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuThread {
    /// Process number of QEMU.
    pub pid: i32,
    /// Thread number on the host.
    pub tid: u32,
    /// The host's CPU that it is bound to; `None` leaves it to the scheduler.
    pub cpu: Option<u32>,
}

/// What a stretch of the host's time was for a virtual CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostShare {
    /// The virtual CPU ran, in nanoseconds: what was late then is the guest's or the emulator's own.
    pub ran_ns: u64,
    /// The guest had halted it, in nanoseconds, or its thread waited for QEMU.
    pub halted_ns: u64,
    /// What kept it off its CPU, longest first.
    pub causes: Vec<Cause>,
    /// Exits that its thread handled on its CPU, by reason, longest first; under KVM alone.
    pub exits: Vec<Cause>,
    /// The first interrupt injected in that time; under KVM alone.
    pub injected: Option<InjectedInterrupt>,
}

/// An interrupt that the host injected into a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedInterrupt {
    /// When, on the host's clock.
    pub at: Instant,
    /// The guest's vector.
    pub vector: u32,
}

impl HostShare {
    /// Returns the time for which the host kept the virtual CPU off its CPU, in nanoseconds.
    #[must_use]
    pub fn taken_ns(&self) -> u64 {
        self.causes.iter().map(|cause| cause.ns).sum()
    }

    /// Returns the time for which the host handled exits, in nanoseconds.
    #[must_use]
    pub fn exits_ns(&self) -> u64 {
        self.exits.iter().map(|cause| cause.ns).sum()
    }

    /// Divides the time between two instants, by the host's own rules for a thread that is to run.
    #[must_use]
    pub fn between(host: &Window, thread: VcpuThread, from: Instant, to: Instant) -> Self {
        let facts = SpikeFacts {
            release: from,
            expiry: from,
            start: from,
            end: to,
            tid: thread.tid,
            cpu: thread.cpu,
            prio: priority(host, thread.tid),
            ..SpikeFacts::default()
        };

        let mut share = Self::default();
        for cause in explain(&facts, host, &Counters::default()).causes {
            match cause.kind {
                // How long a page fault takes is not in the events.
                CauseKind::OwnOverrun | CauseKind::PageFault => share.ran_ns += cause.ns,
                CauseKind::OwnWait | CauseKind::LockWait => share.halted_ns += cause.ns,
                _ => share.causes.push(cause),
            }
        }

        share.take_exits(host, thread.tid, (from, to));
        share.injected = injected(host, thread.tid, (from, to));
        share
    }

    /// Takes the exits out of the time that the thread ran. A halt that the host polls is a halt.
    fn take_exits(&mut self, host: &Window, tid: u32, (from, to): (Instant, Instant)) {
        let mut by_reason: BTreeMap<ExitReason, HandledExits> = BTreeMap::new();
        let running = loop_spans(host, tid, None);
        let running: Vec<(Instant, Instant)> = running
            .iter()
            .filter(|span| span.state == LoopState::Running)
            .map(|span| (span.from.max(from), span.to.min(to)))
            .collect();
        for exit in kvm::exits(host, tid).iter().filter(|exit| exit.from < to && exit.to > from) {
            by_reason.entry(exit.reason).or_default().add(exit, &running);
        }

        for (reason, handled) in by_reason {
            // What an interrupt's handler took of an exit is a cause of its own already.
            let ns = handled.ns.min(self.ran_ns);
            self.ran_ns -= ns;
            match ns {
                0 => {}
                ns if reason.is_halt() => self.halted_ns += ns,
                ns => self.exits.push(handled.cause(reason, ns)),
            }
        }
        self.exits.sort_by_key(|cause| std::cmp::Reverse(cause.ns));
    }
}

/// Exits of one reason.
#[derive(Default)]
struct HandledExits {
    count: usize,
    /// Time on the CPU.
    ns: u64,
    longest_ns: u64,
    port: Option<u16>,
}

impl HandledExits {
    fn add(&mut self, exit: &VmExitSpan, running: &[(Instant, Instant)]) {
        let overlap =
            |(from, to): &(Instant, Instant)| exit.to.min(*to).ns_since(exit.from.max(*from));
        let ns = running.iter().map(overlap).sum();
        self.count += 1;
        self.ns += ns;
        if ns >= self.longest_ns {
            self.longest_ns = ns;
            self.port = exit.reason.port(exit.info);
        }
    }

    fn cause(&self, reason: ExitReason, ns: u64) -> Cause {
        let port = self.port.map(|port| format!(", port 0x{port:x}")).unwrap_or_default();
        let evidence = format!(
            "exits for {reason}: {}, the longest {} us{port}",
            self.count,
            self.longest_ns / 1_000
        );
        let culprit = Culprit { name: reason.to_string(), ..Culprit::default() };
        Cause { kind: CauseKind::VmExit, ns, evidence, culprit: Some(culprit) }
    }
}

fn injected(host: &Window, tid: u32, (from, to): (Instant, Instant)) -> Option<InjectedInterrupt> {
    let inside = |event: &&TraceEvent| event.tid == tid && event.at >= from && event.at <= to;
    host.in_order().into_iter().filter(inside).find_map(|event| match event.what {
        KernelEvent::VmInterrupt { vector } => Some(InjectedInterrupt { at: event.at, vector }),
        _ => None,
    })
}

/// Returns the kernel's priority of a thread as its switches show it; that of an ordinary thread
/// without one.
fn priority(host: &Window, tid: u32) -> i32 {
    let events = host.cpus.iter().flat_map(|cpu| &cpu.events);
    let mut shown = events.filter_map(|event| match event.what {
        KernelEvent::Switch { prev, .. } if prev.tid == tid => Some(prev.prio),
        KernelEvent::Switch { next, .. } if next.tid == tid => Some(next.prio),
        _ => None,
    });
    shown.next_back().unwrap_or(ORDINARY)
}

/// The kernel's priority of an ordinary thread.
const ORDINARY: i32 = 120;

/// A stretch of time in which no instruction of a guest's CPU was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// Its thread left a CPU of the host, or the guest.
    pub from: Instant,
    /// It got one again, or entered the guest.
    pub to: Instant,
}

/// Returns the stretches in which the guest's CPU certainly stood still, in order: from an exit to the
/// next entry, and between a switch away from its thread and the next one to it, without lost events
/// in between.
#[must_use]
pub fn off_cpu(host: &Window, tid: u32) -> Vec<OffCpu> {
    let mut left = None;
    let exits: Vec<OffCpu> = kvm::exits(host, tid)
        .into_iter()
        .map(|exit| OffCpu { from: exit.from, to: exit.to })
        .collect();
    let mut found = exits.clone();
    let in_exit = |gap: &OffCpu| {
        let next = exits.partition_point(|exit| exit.to < gap.to);
        exits.get(next).is_some_and(|exit| exit.from <= gap.from)
    };
    for event in host.in_order() {
        match event.what {
            KernelEvent::Switch { prev, .. } if prev.tid == tid => left = Some(event.at),
            KernelEvent::Switch { next, .. } if next.tid == tid => {
                let gap = left.take().map(|from| OffCpu { from, to: event.at });
                let is_whole = |gap: &OffCpu| host.lost_between(gap.from, gap.to).is_none();
                found.extend(gap.filter(|gap| is_whole(gap) && !in_exit(gap)));
            }
            _ => {}
        }
    }
    found.sort_by_key(|gap| gap.from);
    found
}

#[cfg(test)]
mod tests {
    use onbeat::cause::event::{Label, Thread, ThreadState, TraceEvent};
    use onbeat::cause::window::CpuWindow;

    use super::*;

    const VCPU: u32 = 70;

    fn thread(tid: u32) -> Thread {
        let name = match tid {
            0 => "swapper/1",
            VCPU => "CPU 0/TCG",
            _ => "hog",
        };
        Thread { tid, prio: 120, name: Label::from(name) }
    }

    fn switch(us: u64, from: (u32, u32), to: u32) -> TraceEvent {
        let (prev, state) = (thread(from.0), ThreadState(from.1));
        let what = KernelEvent::Switch { prev, prev_state: state, next: thread(to) };
        TraceEvent { at: at(us), cpu: 1, tid: prev.tid, what }
    }

    const fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    /// It runs from 0 to 100 us, is preempted until 1,100, runs until 1,300, and sleeps until 1,500.
    fn window() -> Window {
        let waking = TraceEvent {
            at: at(1_495),
            cpu: 0,
            tid: 60,
            what: KernelEvent::Waking { thread: thread(VCPU), target_cpu: 1 },
        };
        let events = vec![
            switch(100, (VCPU, 0), 9),
            switch(1_100, (9, 1), VCPU),
            switch(1_300, (VCPU, 1), 0),
            switch(1_500, (0, 0), VCPU),
        ];
        let cpus = vec![CpuWindow { cpu: 0, events: vec![waking] }, CpuWindow { cpu: 1, events }];
        Window { from: at(0), to: at(2_000), cpus, ..Window::default() }
    }

    #[test]
    fn each_nanosecond_is_the_guests_a_halt_or_the_hosts() {
        let vcpu = VcpuThread { pid: 50, tid: VCPU, cpu: Some(1) };
        let share = HostShare::between(&window(), vcpu, at(50), at(1_600));
        assert_eq!(share.ran_ns + share.halted_ns + share.taken_ns(), 1_550_000, "{share:?}");
        assert!((345_000..=355_000).contains(&share.ran_ns), "{share:?}");
        assert!((190_000..=200_000).contains(&share.halted_ns), "{share:?}");
        let main = &share.causes[0];
        assert_eq!((main.words().as_str(), main.ns), ("preempted by hog", 1_000_000));
        assert_eq!(main.culprit.as_ref().and_then(|culprit| culprit.tid), Some(9));
    }

    #[test]
    fn a_thread_that_was_woken_on_its_way_to_sleep_is_kept_off_and_not_halted() {
        let mut window = window();
        // The other CPU wakes it 5 us before it leaves its CPU, and not again.
        window.cpus[0].events[0].at = at(1_295);
        let vcpu = VcpuThread { pid: 50, tid: VCPU, cpu: Some(1) };
        let share = HostShare::between(&window, vcpu, at(50), at(1_600));
        assert_eq!(share.halted_ns, 0, "{share:?}");
        assert!(share.taken_ns() >= 1_190_000, "{share:?}");

        // A wake-up long before it was another one.
        window.cpus[0].events[0].at = at(1_150);
        let share = HostShare::between(&window, vcpu, at(50), at(1_600));
        assert!(share.halted_ns >= 190_000, "{share:?}");
    }

    /// The same with KVM's events: an exit for a port from 20 to 60 us, one for an interrupt in which
    /// the thread is preempted, and a halt, polled for 30 us, in which it sleeps.
    fn under_kvm() -> Window {
        let vcpu = |us, what| TraceEvent { at: at(us), cpu: 1, tid: VCPU, what };
        let exit =
            |us, reason, info| vcpu(us, KernelEvent::VmExit { vcpu: Some(0), reason, pc: 0, info });
        let entry = |us| vcpu(us, KernelEvent::VmEntry { vcpu: Some(0), pc: 0 });
        let mut window = window();
        window.cpus[1].events.extend([
            exit(20, ExitReason::Vmx(30), 0x80_0000),
            entry(60),
            exit(95, ExitReason::Vmx(1), 0),
            entry(1_105),
            exit(1_270, ExitReason::Vmx(12), 0),
            vcpu(1_502, KernelEvent::VmInterrupt { vector: 0xec }),
            entry(1_504),
        ]);
        window.cpus[1].events.sort_by_key(|event| event.at);
        window
    }

    #[test]
    fn exits_are_named_with_their_reason_and_port_and_a_polled_halt_is_a_halt() {
        let vcpu = VcpuThread { pid: 50, tid: VCPU, cpu: Some(1) };
        let share = HostShare::between(&under_kvm(), vcpu, at(0), at(1_600));
        let named: Vec<(String, u64)> =
            share.exits.iter().map(|cause| (cause.words(), cause.ns)).collect();
        assert_eq!(
            named,
            [
                ("VM exit for IO_INSTRUCTION".to_owned(), 40_000),
                ("VM exit for EXTERNAL_INTERRUPT".to_owned(), 10_000),
            ]
        );
        assert_eq!(
            share.exits[0].evidence,
            "exits for IO_INSTRUCTION: 1, the longest 40 us, port 0x80"
        );
        assert_eq!(share.injected, Some(InjectedInterrupt { at: at(1_502), vector: 0xec }));
        let all = share.ran_ns + share.halted_ns + share.taken_ns() + share.exits_ns();
        assert_eq!(all, 1_600_000, "{share:?}");

        let without = HostShare::between(&window(), vcpu, at(0), at(1_600));
        assert_eq!(share.taken_ns(), without.taken_ns());
        let polled = share.halted_ns - without.halted_ns;
        assert_eq!(polled, 34_000, "30 us before it slept, 4 us after: {share:?}");
    }

    #[test]
    fn a_guest_stands_still_from_an_exit_to_the_next_entry() {
        let stretch = |from, to| OffCpu { from: at(from), to: at(to) };
        let stood = off_cpu(&under_kvm(), VCPU);
        assert_eq!(stood, [stretch(20, 60), stretch(95, 1_105), stretch(1_270, 1_504)]);
    }

    #[test]
    fn stretches_off_the_cpu_end_where_events_are_lost() {
        let mut window = window();
        let stretch = |from, to| OffCpu { from: at(from), to: at(to) };
        assert_eq!(off_cpu(&window, VCPU), [stretch(100, 1_100), stretch(1_300, 1_500)]);
        window.lost.push(onbeat::cause::event::LostEvents {
            cpu: 1,
            from: at(400),
            to: at(500),
            count: None,
        });
        assert_eq!(off_cpu(&window, VCPU), [stretch(1_300, 1_500)]);
    }
}
