//! What the host did with the thread of a virtual CPU, from the host's events.

use onbeat::cause::counters::Counters;
use onbeat::cause::event::KernelEvent;
use onbeat::cause::{Cause, CauseKind, SpikeFacts, Window, explain};
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
    /// Its thread slept, in nanoseconds: the guest had halted it, or it waited for QEMU.
    pub halted_ns: u64,
    /// What kept it off its CPU, longest first.
    pub causes: Vec<Cause>,
}

impl HostShare {
    /// Returns the time for which the host kept the virtual CPU off its CPU, in nanoseconds.
    #[must_use]
    pub fn taken_ns(&self) -> u64 {
        self.causes.iter().map(|cause| cause.ns).sum()
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

        share
    }
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

/// A stretch of time in which a virtual CPU had no CPU of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// Its thread left a CPU.
    pub from: Instant,
    /// It got one again.
    pub to: Instant,
}

/// Returns the stretches in which the thread was certainly off the CPU, in order: between a switch
/// away from it and the next one to it, without lost events in between.
#[must_use]
pub fn off_cpu(host: &Window, tid: u32) -> Vec<OffCpu> {
    let mut left = None;
    let mut found = Vec::new();
    for event in host.in_order() {
        match event.what {
            KernelEvent::Switch { prev, .. } if prev.tid == tid => left = Some(event.at),
            KernelEvent::Switch { next, .. } if next.tid == tid => {
                let gap = left.take().map(|from| OffCpu { from, to: event.at });
                found.extend(gap.filter(|gap| host.lost_between(gap.from, gap.to).is_none()));
            }
            _ => {}
        }
    }
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
