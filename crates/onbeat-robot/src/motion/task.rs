//! A bus and its controller, as the task of a loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat_rt::cycle::{self, Phase};
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::{Monotonic, tick};
use onbeat_rt::time::ns;
use onbeat_rt::{Clock, Cycle, Flow, OnOverrun, Outcome, Plan, Producer, Slot, Task, Wait, split};
use serde::Serialize;

use crate::bus::{Bus, BusCounts, MOST_DEVICES, Wire};
use crate::image_service::{CycleService, CycleTimes};
use onbeat::record::MotionNote;
use onbeat_ethercat::event::Event;
use onbeat_ethercat::step::{BusCycle, Controller};

use super::account::MotionAccount;
use super::controller::MotionController;
use super::status::{JointStatus, RobotPhase, Status};

/// Runs one cycle of the bus; returns whether the robot is at rest. With `is_stopping`, the
/// controller brings it to rest.
pub(crate) fn exchange<W: Wire>(
    bus: &mut Bus<W>,
    controller: &mut dyn Controller,
    cycle: &Cycle,
    is_stopping: bool,
) -> (BusCycle, bool) {
    struct Stopping<'c>(&'c mut dyn Controller, bool);
    impl Controller for Stopping<'_> {
        fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
            self.1 = self.0.stop(cycle, inputs, outputs);
        }
    }
    let (seen, is_at_rest) = if is_stopping {
        let mut stopping = Stopping(controller, false);
        let seen = bus.cycle(cycle.release, cycle.dt_ns(), &mut stopping);
        (seen, stopping.1)
    } else {
        (bus.cycle(cycle.release, cycle.dt_ns(), controller), false)
    };

    // The loop follows the devices' clock: their SYNC0 must not drift through the frame.
    cycle.steer(bus.steering_ns());
    (seen, is_at_rest)
}

/// Commands to a running robot from another thread.
#[derive(Debug, Default)]
pub struct RobotCommands {
    stop: AtomicBool,
    reset: AtomicBool,
}

impl RobotCommands {
    /// Requests an orderly stop; the loop ends at rest.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Requests a reset, see [`MotionController::reset`].
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }
}

/// Round trips since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// Cycles with a reply.
    pub count: u64,
    /// Sum, in ns.
    pub sum_ns: u64,
    /// Longest, in ns.
    pub most_ns: u32,
}

/// State of bus and robot in one cycle: a record of fixed size.
#[derive(Clone, Copy, Debug)]
pub struct RobotSnapshot {
    /// Cycle of the bus.
    pub cycle: BusCycle,
    /// Status of the robot.
    pub status: Status,
    /// Round trips since the start.
    pub round_trips: RoundTrips,
    /// Counters of the bus since the start.
    pub bus: BusCounts,
    /// Time since the last complete reply, in ns; 0 below ten cycles.
    pub no_answer_ns: u64,
    /// AL state and AL status code of each device, by position; state 0: no answer.
    pub al_status: [(u8, u16); MOST_DEVICES],
}

impl Default for RobotSnapshot {
    fn default() -> Self {
        Self {
            cycle: BusCycle::default(),
            status: Status::default(),
            round_trips: RoundTrips::default(),
            bus: BusCounts::default(),
            no_answer_ns: 0,
            al_status: [(0, 0); MOST_DEVICES],
        }
    }
}

/// Rings to which a loop writes its data. A full ring drops entries and counts them.
pub struct Outlets<'r> {
    /// Snapshots, at intervals.
    pub seen: Producer<'r, RobotSnapshot>,
    /// Events of the robot.
    pub robot: Producer<'r, Event>,
    /// Events of the bus.
    pub bus: Producer<'r, Event>,
}

/// A robot on its bus, as the task of a loop. It ends when the robot is at rest after a stop.
pub struct RobotTask<'r, W> {
    bus: Bus<W>,
    controller: MotionController,
    /// Counts what the robot does.
    pub account: Option<MotionAccount>,
    commands: &'r RobotCommands,
    outlets: Outlets<'r>,
    /// Interval of snapshots, in cycles.
    show_every: u64,
    until_shown: u64,
    round_trips: RoundTrips,
    last: Option<BusCycle>,
    /// Busy work: each cycle polls the clock until this time after its start, in ns.
    pub work_ns: u64,
    /// Publishes the process image to other processes.
    pub serving: Option<CycleService>,
}

impl<'r, W: Wire> RobotTask<'r, W> {
    /// Creates a task that writes a snapshot every `show_every` cycles.
    #[must_use]
    pub fn new(
        bus: Bus<W>,
        controller: MotionController,
        commands: &'r RobotCommands,
        outlets: Outlets<'r>,
        show_every: u64,
    ) -> Self {
        let show_every = show_every.max(1);
        Self {
            bus,
            controller,
            account: None,
            commands,
            outlets,
            show_every,
            until_shown: 1,
            round_trips: RoundTrips::default(),
            last: None,
            work_ns: 0,
            serving: None,
        }
    }

    /// Returns what the robot did since the last call, where it is counted.
    pub fn take_note(&mut self) -> Option<MotionNote> {
        self.account.as_mut().map(MotionAccount::take_note)
    }

    /// Returns the state of bus and robot after the last cycle; `None` before the first one. After
    /// the loop has ended, this is its final state, which a full ring may not have taken.
    #[must_use]
    pub fn snapshot(&self) -> Option<RobotSnapshot> {
        self.last.map(|cycle| self.snapshot_of(&cycle))
    }

    fn snapshot_of(&self, cycle: &BusCycle) -> RobotSnapshot {
        let mut snapshot = RobotSnapshot {
            cycle: *cycle,
            status: *self.controller.status(),
            round_trips: self.round_trips,
            bus: self.bus.counts(),
            no_answer_ns: self.bus.silent_ns().unwrap_or_default(),
            ..RobotSnapshot::default()
        };

        let devices = usize::from(cycle.devices).min(MOST_DEVICES);
        for (place, entry) in snapshot.al_status[..devices].iter_mut().enumerate() {
            *entry = self.bus.al_status(place).map_or((0, 0), |(state, code)| (state & 0x0f, code));
        }

        snapshot
    }

    /// Publishes the events that the last cycle has left for another one, after the loop has ended.
    pub fn publish_rest(&mut self) {
        let Self { bus, outlets, serving, .. } = self;
        bus.report_rest();
        // A full ring counts what it drops.
        let keep = |event| {
            outlets.bus.push(event);
        };
        match serving {
            Some(serving) => serving.after_last_cycle(bus, keep),
            None => std::iter::from_fn(|| bus.next_event()).for_each(keep),
        }
    }

    /// Returns the bus, after the loop has ended.
    pub fn into_bus(self) -> Bus<W> {
        self.bus
    }

    fn publish(&mut self, cycle: &BusCycle, times: CycleTimes) {
        self.last = Some(*cycle);
        if cycle.round_trip_ns > 0 {
            self.round_trips.count += 1;
            self.round_trips.sum_ns += u64::from(cycle.round_trip_ns);
            self.round_trips.most_ns = self.round_trips.most_ns.max(cycle.round_trip_ns);
        }

        let Self { bus, controller, outlets, serving, .. } = self;
        while let Some(event) = controller.take_event() {
            // A full ring drops and counts. The cycle never waits for who reads.
            outlets.robot.push(event);
            if let Some(serving) = serving {
                serving.push_event(&event);
            }
        }

        // A full ring counts what it drops.
        let mut keep = |event| {
            outlets.bus.push(event);
        };
        match serving {
            Some(serving) => {
                serving.publish(cycle, (bus.inputs(), bus.outputs()), controller.robot());
                let joints = controller.status().joints().iter().map(JointStatus::sample);
                serving.set_joints(controller.robot(), joints);
                serving.after_cycle(bus, cycle, times, keep);
            }
            None => {
                while let Some(event) = bus.next_event() {
                    keep(event);
                }
            }
        }

        // Counted down and not by modulo: a division by a variable takes longer than all the rest
        // of this function.
        self.until_shown -= 1;
        if self.until_shown == 0 || self.controller.status().phase == RobotPhase::AtRest {
            self.until_shown = self.show_every;
            let snapshot = self.snapshot_of(cycle);
            self.outlets.seen.push(snapshot);
        }
    }
}

impl<W: Wire> Task for RobotTask<'_, W> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        // Relaxed: the command carries no data with it, and one cycle sooner or later is the same.
        if self.commands.reset.swap(false, Ordering::Relaxed) {
            self.controller.reset();
        }

        let is_stopping = self.commands.stop.load(Ordering::Relaxed);
        let (seen, is_at_rest) = exchange(&mut self.bus, &mut self.controller, cycle, is_stopping);
        // By the wire's clock, which is that of the loop in virtual time as well.
        let took_ns = self.bus.wire().now().ns_since(cycle.start);
        let times = CycleTimes {
            wakeup_latency_ns: cycle.start.ns_since(cycle.release),
            execution_time_ns: took_ns,
        };
        self.account.iter_mut().for_each(|account| account.add(&self.controller));
        self.publish(&seen, times);
        let until = cycle.start.plus_ns(self.work_ns);
        // The work of a user's controller, as the clock measures it and not as the CPU counts:
        // preemption is part of a cycle's response time.
        while self.work_ns > 0 && Monotonic.now() < until {
            core::hint::spin_loop();
        }

        if is_at_rest { Flow::Stop } else { Flow::Continue }
    }
}

/// Runs a controller for a time on this thread, then lets it bring the robot to rest.
///
/// Records no samples and sets neither priority nor CPU; for those use `onbeat robot run`.
///
/// ```no_run
/// # use onbeat_ethercat::layout::Layout;
/// use std::time::Duration;
///
/// use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess};
/// use onbeat_robot::motion::{MotionController, Robot, Trajectory, run_for};
/// # use onbeat_rt::sys::Monotonic;
/// # use onbeat_segment::{Link, Segment};
///
/// # let layout = Layout::from_toml(Segment::HUMANOID)?;
/// # let robot = Robot::from_toml(Segment::HUMANOID, &layout, 1_000_000)?;
/// let mut controller = MotionController::new(&robot, Trajectory::gait(&robot)?);
/// let wire = InProcess::on_clock(Link::from_toml(Segment::HUMANOID)?, Monotonic);
/// let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns: 1_000_000, follow_clock: true };
/// let mut bus = Bus::bring_up(wire, Some(&layout), options, "the simulated segment")?;
/// run_for(&mut bus, &mut controller, 1_000_000, Duration::from_secs(5));
/// bus.take_down();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_for<W: Wire>(
    bus: &mut Bus<W>,
    controller: &mut dyn Controller,
    period_ns: u64,
    lasting: Duration,
) -> Outcome {
    let cycles = ns(lasting) / period_ns.max(1);
    let mut task = |cycle: &Cycle| {
        let (_, is_at_rest) = exchange(bus, controller, cycle, cycle.index >= cycles);
        if is_at_rest { Flow::Stop } else { Flow::Continue }
    };

    let plan = Plan {
        period_ns: period_ns.max(1),
        first_release: Phase::AvoidTick.first_release(Monotonic.now(), period_ns.max(1), tick()),
        deadline_ns: period_ns,
        releases: u64::MAX,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    run_unrecorded(&plan, &mut task, &AtomicBool::new(false))
}

/// Runs a loop whose samples nobody reads.
pub(crate) fn run_unrecorded(plan: &Plan, task: &mut impl Task, stop: &AtomicBool) -> Outcome {
    // The smallest ring there is: it fills at once, and each further sample is counted as lost.
    let mut slots = [Slot::empty()];
    let Ok(mut ring) = Ring::over(&mut slots) else { unreachable!("one is a power of two") };
    let (mut hot, _) = split(&mut ring);
    cycle::run(&Monotonic, plan, task, &mut hot, stop)
}
