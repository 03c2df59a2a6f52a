//! Hand-written event sequences, in microseconds.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use onbeat::cause::counters::{CounterReading, CounterSource, Counters, ReadingTrigger};
use onbeat::cause::event::{
    KernelEvent, Label, LostEvents, Softirq, Thread, ThreadState, TraceEvent, Vector,
};
use onbeat::cause::kind::{CauseKind, Explanation};
use onbeat::cause::window::{CpuWindow, Window};
use onbeat::cause::{SpikeFacts, explain};
use onbeat_rt::Instant;

pub const LOOP: u32 = 100;
pub const TIMER: u64 = 0xabc;
pub const WAKE_UP: u64 = 1;
pub const TICK: u64 = 2;
pub const RT_PERIOD: u64 = 3;
pub const DL_TASK: u64 = 4;
pub const WORK: u64 = 5;
/// FIFO 90.
pub const PRIO: i32 = 9;

pub fn us(us: u64) -> Instant {
    Instant::from_ns(us * 1000)
}

pub fn looper() -> Thread {
    Thread { tid: LOOP, prio: PRIO, name: Label::from("onbeat-loop") }
}

pub fn idle() -> Thread {
    Thread { tid: 0, prio: 120, name: Label::from("swapper/1") }
}

pub fn thread(tid: u32, prio: i32, name: &str) -> Thread {
    Thread { tid, prio, name: Label::from(name) }
}

/// An ordinary thread.
pub fn dd() -> Thread {
    thread(7, 120, "dd")
}

/// The detail of a cause that has none.
pub fn none() -> String {
    String::new()
}

/// A loop with a period of 1 ms that should wake up at 1000 µs on CPU 1, with the events around it.
pub struct World {
    pub window: Window,
    pub facts: SpikeFacts,
    pub counters: Counters,
}

impl World {
    /// Makes a world in which the loop set its timer at 100 µs and switched to `running`.
    pub fn asleep_beside(running: Thread) -> Self {
        let functions = [
            (WAKE_UP, "hrtimer_wakeup"),
            (TICK, "tick_nohz_handler"),
            (RT_PERIOD, "sched_rt_period_timer"),
            (DL_TASK, "dl_task_timer"),
            (WORK, "wb_workfn"),
        ];
        let functions =
            functions.into_iter().map(|(address, name)| (address, name.to_owned())).collect();
        let cpus = (0..2).map(|cpu| CpuWindow { cpu, events: Vec::new() }).collect();
        let window = Window { from: us(0), to: us(200_000), cpus, functions, ..Window::default() };
        let facts = SpikeFacts {
            release: us(1000),
            expiry: us(1000),
            entered_sleep: Some(us(99)),
            tid: LOOP,
            cpu: Some(1),
            prio: PRIO,
            ..SpikeFacts::default()
        };

        let mut world = Self { window, facts, counters: Counters::default() };
        world.timer_set(100, 1000);
        world.switch(101, looper(), 1, running);
        world
    }

    pub fn on(&mut self, cpu: u32, at_us: u64, tid: u32, what: KernelEvent) -> &mut Self {
        let events = &mut self.window.cpus[cpu as usize].events;
        let place = events.partition_point(|event| event.at <= us(at_us));
        events.insert(place, TraceEvent { at: us(at_us), cpu, tid, what });
        self
    }

    pub fn timer_set(&mut self, at_us: u64, expires_us: u64) -> &mut Self {
        let expires = us(expires_us);
        self.on(
            1,
            at_us,
            LOOP,
            KernelEvent::TimerStart {
                timer: TIMER,
                function: WAKE_UP,
                expires,
                softexpires: expires,
            },
        )
    }

    pub fn switch(&mut self, at_us: u64, prev: Thread, state: u32, next: Thread) -> &mut Self {
        self.on(
            1,
            at_us,
            prev.tid,
            KernelEvent::Switch { prev, prev_state: ThreadState(state), next },
        )
    }

    /// Adds the timer's interrupt, which enters at `at_us`, wakes the loop 2 µs later and leaves
    /// after `length_us`.
    pub fn timer_interrupt(&mut self, at_us: u64, length_us: u64) -> &mut Self {
        self.on(1, at_us, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
        let now = us(at_us + 1);
        self.on(
            1,
            at_us + 1,
            0,
            KernelEvent::TimerExpireEntry { timer: TIMER, function: WAKE_UP, now },
        );
        self.on(1, at_us + 2, 0, KernelEvent::Waking { thread: looper(), target_cpu: 1 });
        self.on(1, at_us + length_us, 0, KernelEvent::VectorExit(Vector::LocalTimer))
    }

    pub fn timer_function(&mut self, at_us: u64, function: u64, cpu: u32) -> &mut Self {
        let (timer, now) = (function + 0x1000, us(at_us));
        self.on(cpu, at_us, 0, KernelEvent::VectorEntry(Vector::LocalTimer));
        self.on(cpu, at_us, 0, KernelEvent::TimerExpireEntry { timer, function, now });
        self.on(cpu, at_us + 1, 0, KernelEvent::VectorExit(Vector::LocalTimer))
    }

    /// Adds the switch from `prev` to the loop, which runs its first instruction 2 µs later.
    pub fn loop_runs(&mut self, at_us: u64, prev: Thread) -> &mut Self {
        self.switch(at_us, prev, 0, looper());
        self.started(at_us + 2)
    }

    pub fn started(&mut self, at_us: u64) -> &mut Self {
        self.facts.start = us(at_us);
        self.facts.end = us(at_us + 1);
        self
    }

    /// Sets planned and actual work of the cycle.
    pub fn worked(&mut self, planned_us: u64, actual_us: u64) -> &mut Self {
        self.facts.planned_work_ns = planned_us * 1000;
        self.facts.end = self.facts.start.plus_ns(actual_us * 1000);
        self
    }

    pub fn softirq(&mut self, from_us: u64, to_us: u64, number: u8) -> &mut Self {
        self.on(1, from_us, 0, KernelEvent::SoftirqEntry(Softirq(number)));
        self.on(1, to_us, 0, KernelEvent::SoftirqExit(Softirq(number)))
    }

    pub fn device(&mut self, from_us: u64, to_us: u64, name: &str) -> &mut Self {
        self.on(1, from_us, 0, KernelEvent::IrqEntry { irq: 36, name: Label::from(name) });
        self.on(1, to_us, 0, KernelEvent::IrqExit { irq: 36 })
    }

    pub fn reading(&mut self, at_us: u64, steal_us: u64) -> &mut CounterReading {
        self.counters.source = CounterSource::Bpf;
        self.counters.is_guest = true;
        let reading = CounterReading {
            at: us(at_us),
            cpu: 1,
            steal_ns: Some(steal_us * 1000),
            ..CounterReading::default()
        };
        self.counters.readings.push(reading);
        self.counters.readings.last_mut().unwrap()
    }

    /// Adds a reading of where the loop's wake-up found `prev`: in a system call, in user code, or
    /// otherwise in a kernel thread.
    pub fn wake_up_found(
        &mut self,
        at_us: u64,
        prev: u32,
        syscall: Option<i64>,
        in_user: bool,
    ) -> &mut Self {
        let reading = self.reading(at_us, 0);
        (reading.moment, reading.prev, reading.next) = (ReadingTrigger::Waking, prev, LOOP);
        (reading.prev_syscall, reading.prev_in_user) = (syscall, in_user);
        self
    }

    /// Adds a reading of a wake-up of the loop by `waker`, with whether the freezer had the loop.
    pub fn woken_frozen(&mut self, at_us: u64, waker: u32, frozen: Option<bool>) -> &mut Self {
        let reading = self.reading(at_us, 0);
        (reading.moment, reading.prev, reading.next) = (ReadingTrigger::Waking, waker, LOOP);
        (reading.prev_syscall, reading.frozen) = (Some(libc::SYS_write), frozen);
        self
    }

    /// Adds a reading of the switch from `prev`, which was in a system call, to the loop.
    pub fn left_in_call(&mut self, at_us: u64, prev: u32, syscall: i64) -> &mut Self {
        let reading = self.reading(at_us, 0);
        (reading.prev, reading.next, reading.prev_syscall) = (prev, LOOP, Some(syscall));
        self
    }

    pub fn lost(&mut self, from_us: u64, to_us: u64) -> &mut Self {
        self.window.lost.push(LostEvents { cpu: 1, from: us(from_us), to: us(to_us), count: None });
        self
    }

    /// Returns the explanation, after checking that its causes add up.
    pub fn explained(&self) -> Explanation {
        let explanation = explain(&self.facts, &self.seen(), &self.counters);
        let sum: u64 = explanation.causes.iter().map(|cause| cause.ns).sum();
        assert_eq!(sum, explanation.lateness_ns, "the causes add up");
        let unexplained = us_of(&explanation, CauseKind::Unexplained) * 1000;
        assert!(explanation.accounted_ns + unexplained <= explanation.lateness_ns + 999);
        explanation
    }

    /// Returns the window with the interrupted threads filled in, which the methods above leave
    /// out.
    pub fn seen(&self) -> Window {
        let mut window = self.window.clone();
        for cpu in &mut window.cpus {
            let mut running = cpu.running_at_first().map_or(0, |thread| thread.tid);
            for event in &mut cpu.events {
                match event.what {
                    KernelEvent::Switch { next, .. } => running = next.tid,
                    _ if event.tid == 0 => event.tid = running,
                    _ => {}
                }
            }
        }

        window
    }

    pub fn late_us(&self) -> u64 {
        self.facts.start.ns_since(self.facts.expiry) / 1000
    }
}

/// Returns the time that a kind accounts for, in microseconds.
pub fn us_of(explanation: &Explanation, kind: CauseKind) -> u64 {
    explanation.causes.iter().filter(|cause| cause.kind == kind).map(|cause| cause.ns).sum::<u64>()
        / 1000
}

/// Returns the main cause and the name of its culprit.
pub fn main_of(explanation: &Explanation) -> (CauseKind, String) {
    let main = explanation.main().unwrap();
    (main.kind, main.culprit.as_ref().map(|culprit| culprit.name.clone()).unwrap_or_default())
}
