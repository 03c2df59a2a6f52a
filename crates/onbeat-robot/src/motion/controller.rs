//! Control of all joints, cycle by cycle.
//!
//! ```text
//!  Waiting ──▶ Enabling ──▶ Running ──▶ Stopping ──▶ Disabling ──▶ AtRest
//!   all in OP   in groups    soft start   fade, brake   quick stop
//!
//!  T = 1 ms, thresholds by default, a joint at p(t); cycles 2,000 and 2,001 bring no new inputs:
//!
//!  cycle    1,999     2,000      2,001      2,002                           2,052
//!  misses   0         1          1          0                               0
//!  bucket   0         1          2          2                               1 (50 good cycles)
//!  rung     Run       Hold       Hold       Run
//!  target   p(1.999)  p(1.999)   p(1.999)   p(2.002), at the pace of
//!                                           (p(2.002) - p(1.999)) / 3 ms
//! ```
//!
//! In a missed cycle the target of the last good one is kept: the drives have it already, and whatever
//! a trajectory computes from old inputs may be wrong. Its time goes on, so that the robot does not
//! fall behind. A third miss in the bucket would degrade, a tenth stop the robot.

mod resume;

use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};
use onbeat_ethercat::step::{BusCycle, Controller, RobotState};

use super::event::{NO_JOINT, RobotEvents};
use super::file::{OnFault, Robot, RobotSettings};
use super::goal::{GoalOutcome, GoalReport};
use super::joint::{JointDrive, JointStage, QUICK_STOP_NS};
use super::ladder::{Ladder, Rung};
use super::power::JointState;
use super::status::{DownReason, RobotPhase, SafeStopReason, Status};
use super::trajectory::Trajectory;
use crate::bus::EventRateLimit;

/// Time in which the speed of trajectory time changes by 1, in s.
// A jump of the pace is a jump of every joint's velocity. Half a second is within the acceleration
// of any robot that stands.
const SPEED_RAMP_S: f64 = 0.5;

/// Moves the joints of a robot along a trajectory.
///
/// It enables drives in groups from any state, follows the trajectory within the limits of each
/// joint, and brings all joints to rest on request, when cycles are missed, or when drives fail. It
/// does not allocate after construction.
pub struct MotionController {
    settings: RobotSettings,
    joints: Vec<JointDrive>,
    trajectory: Trajectory,
    ladder: Ladder,
    events: RobotEvents,
    status: Box<Status>,
    /// Start positions, around which trajectories oscillate, in rad.
    homes: Vec<f64>,
    /// Positions of the trajectory, and positions to follow, in rad.
    played: Vec<f64>,
    wanted: Vec<f64>,
    /// Sum of all dt, in ns.
    now_ns: u64,
    /// Time since the trajectory was last evaluated, in s.
    unasked_s: f64,
    next_group_ns: u64,
    /// Fraction of the trajectory left during fade-out.
    fade: f64,
    braking: bool,
    stop_asked: bool,
    reset_asked: bool,
    goal_is_old: Option<bool>,
    refusals: EventRateLimit,
    /// The trajectory began before a break, and goes on after it.
    resumes: bool,
}

/// Time and misses of a cycle.
#[derive(Clone, Copy)]
struct CycleInput {
    passed_ns: u64,
    passed_s: f64,
    misses: u32,
    is_fresh: bool,
    /// Every device is in OP.
    is_up: bool,
}

impl MotionController {
    /// Creates a controller for this robot; nothing moves before the first cycle with inputs.
    #[must_use]
    pub fn new(robot: &Robot, trajectory: Trajectory) -> Self {
        let count = robot.joints.len();
        let period_s = robot.settings.period_ns as f64 * 1e-9;

        let mut status = Box::<Status>::default();
        status.count = count as u32;
        let devices =
            robot.joints.iter().map(|joint| u16::try_from(joint.device).unwrap_or(NO_DEVICE));

        Self {
            joints: robot.joints.iter().map(|joint| JointDrive::new(joint, period_s)).collect(),
            ladder: Ladder::new(robot.settings.thresholds),
            settings: robot.settings.clone(),
            trajectory,
            events: RobotEvents::new(devices.collect()),
            status,
            homes: vec![0.0; count],
            played: vec![0.0; count],
            wanted: vec![0.0; count],
            now_ns: 0,
            unasked_s: 0.0,
            next_group_ns: 0,
            fade: 1.0,
            braking: false,
            stop_asked: false,
            reset_asked: false,
            goal_is_old: None,
            refusals: EventRateLimit::default(),
            resumes: false,
        }
    }

    /// Returns the status as of the last cycle.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Requests a reset: of a safe stop if the robot is at rest and cycles are good again,
    /// otherwise of joints that are down. It is done or refused in the next cycle, which an event
    /// reports.
    pub fn reset(&mut self) {
        self.reset_asked = true;
    }

    fn cycle(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        let now = self.begin(cycle);
        for (joint, status) in self.joints.iter_mut().zip(&mut self.status.all) {
            joint.read(inputs, status);
        }

        self.look(now);
        self.reset_if_asked(now);
        self.advance_phase(now);
        self.play(now);
        // From the first cycle on: a drive must never have 0 for a limit.
        self.joints.iter().for_each(|joint| joint.keep(outputs));
        if self.status.phase != RobotPhase::Waiting {
            for (joint, status) in self.joints.iter_mut().zip(&mut self.status.all) {
                joint.write(outputs, status);
            }
        }

        self.status.misses = self.ladder.misses();
        self.status.counts.events_lost = self.events.lost;
    }

    /// Updates time and misses, and the rung that follows.
    fn begin(&mut self, cycle: &BusCycle) -> CycleInput {
        let period_ns = self.settings.period_ns;
        // Rounded: a cycle that started 20 µs late has passed one period, not none and not two.
        let periods = (cycle.dt_ns + period_ns / 2) / period_ns;
        // A wrong working counter means that some device did not take part. Which one is not known
        // from the frame, so that no input of the cycle is taken for new.
        let is_fresh =
            cycle.fresh && (cycle.expected == 0 || cycle.working_counter == cycle.expected);
        let skipped = periods.saturating_sub(1);
        let is_waiting = self.status.phase == RobotPhase::Waiting;
        // Devices that come up answer one after the other: misses begin with the first enabled
        // joint.
        let misses = if is_waiting { 0 } else { skipped.saturating_add(u64::from(!is_fresh)) };
        let misses = u32::try_from(misses).unwrap_or(u32::MAX);
        let passed_ns = periods.saturating_mul(period_ns);
        // Time on the grid, not of the clock: a late start does not move a trajectory.
        self.now_ns = self.now_ns.saturating_add(passed_ns);
        (self.events.at_ns, self.events.cycle) = (cycle.release_ns, cycle.cycle);
        (self.status.release_ns, self.status.cycle) = (cycle.release_ns, cycle.cycle);
        let counts = &mut self.status.counts;
        counts.cycles += 1;

        if !is_waiting {
            counts.skipped += skipped;
            counts.stale += u64::from(!is_fresh);
            self.ladder.take(misses);
        }

        self.report_rung(SafeStopReason::Misses, NO_JOINT);
        CycleInput {
            passed_ns,
            passed_s: passed_ns as f64 * 1e-9,
            misses,
            is_fresh,
            // All devices, also those without a joint: an input that a law reads may be on any of
            // them.
            is_up: cycle.in_op >= cycle.devices,
        }
    }

    /// Reports a change of rung; `why` and `joint` belong to a safe stop.
    fn report_rung(&mut self, why: SafeStopReason, joint: u16) {
        let old = self.status.rung;
        let new = self.ladder.rung();
        let misses = self.ladder.misses();
        if old == new {
            return;
        }

        self.status.rung = new;
        if new != Rung::SafeStop {
            (self.status.stopped_by, self.status.stopped_joint) = (SafeStopReason::None, NO_JOINT);
            self.events.add(
                EventKind::RungChanged,
                NO_JOINT,
                EventValues::from_change(old as u16, new as u16).with_code(misses),
            );
            return;
        }

        (self.status.stopped_by, self.status.stopped_joint) = (why, joint);
        self.status.counts.safe_stops += 1;
        let of_joint =
            self.status.joints().get(usize::from(joint)).map(|joint| joint.reason as u32);
        self.events.add(
            EventKind::SafeStop,
            joint,
            EventValues::from_change(old as u16, why as u16).with_code(of_joint.unwrap_or(misses)),
        );
    }

    /// Enters the safe stop immediately.
    fn stop_safely(&mut self, why: SafeStopReason, joint: u16) {
        self.ladder.stop();
        self.report_rung(why, joint);
    }

    fn enter(&mut self, phase: RobotPhase) {
        let old = std::mem::replace(&mut self.status.phase, phase);
        self.events.add(
            EventKind::PhaseChanged,
            NO_JOINT,
            EventValues::from_change(old as u16, phase as u16),
        );
    }

    /// Evaluates the inputs of each joint, if they are new.
    fn look(&mut self, now: CycleInput) {
        for number in 0..self.joints.len() {
            let joint = &mut self.joints[number];
            let status = &mut self.status.all[number];
            joint.leave(status.state, now.is_fresh, self.now_ns);
            // In skipped cycles no drive received a controlword.
            // A drive's time for its steps of CiA 402 counts cycles that it has seen.
            joint.extend_enabling(now.passed_ns.saturating_sub(self.settings.period_ns));
            if !now.is_fresh {
                continue;
            }

            // Between the joint's own look and the event: the look moves the stage on.
            let was_enabling = matches!(joint.stage, JointStage::Enabling { .. });
            let why = joint.look(status, self.now_ns, now.passed_ns, self.settings.following_ns);
            if was_enabling && joint.stage == JointStage::Enabled {
                // Where the drive was enabled, and not where the trajectory was when the joint went
                // down.
                self.wanted[number] = joint.set_point.position();
                if joint.ramp == 0.0 {
                    // It begins anew: the target from before it went down may be far and old.
                    self.played[number] = self.wanted[number];
                }
                if self.status.phase == RobotPhase::Running {
                    self.events.add(EventKind::JointBack, number as u16, EventValues::NONE);
                }
            }

            if let Some(why) = why {
                self.take_down(number, why);
            }
        }
    }

    fn take_down(&mut self, number: usize, why: DownReason) {
        let joint = &mut self.joints[number];
        let status = &mut self.status.all[number];
        // The drive itself is well and can brake, or does so already: without voltage it would
        // coast. One with a fault has switched off by itself, and asking for a quick stop would not
        // be heard.
        let brakes = matches!(why, DownReason::FollowingError | DownReason::OtherMode)
            || status.state == JointState::QuickStopActive;
        joint.stage = if brakes {
            JointStage::Leaving { until_ns: self.now_ns + QUICK_STOP_NS, why }
        } else {
            JointStage::Down
        };

        let error_code = joint.error_code(status.state);
        status.reason = why;
        self.status.counts.joints_down += 1;
        self.events.add(
            EventKind::JointDown,
            number as u16,
            EventValues::from_change(error_code, status.statusword).with_code(why as u32),
        );
        // By default one joint stops the robot: a leg that stands still while the others walk falls
        // over.
        if self.settings.on_fault == OnFault::Robot {
            self.stop_safely(SafeStopReason::JointDown, number as u16);
        }
    }

    fn reset_if_asked(&mut self, now: CycleInput) {
        if !std::mem::take(&mut self.reset_asked) {
            return;
        }

        // A reset is for what is down. It does not switch on what was never asked for.
        let is_down = |joint: &JointDrive| joint.stage == JointStage::Down;
        let done = match self.status.phase {
            RobotPhase::AtRest if self.status.rung == Rung::SafeStop && !self.stop_asked => {
                // Only with inputs of now: a reset on old ones would enable drives in a state that
                // nobody has seen.
                now.is_fresh && self.ladder.reset()
            }
            RobotPhase::Enabling | RobotPhase::Running => self.joints.iter().any(is_down),
            _ => false,
        };

        if !done {
            self.events.add(
                EventKind::ResetRefused,
                NO_JOINT,
                EventValues::from_code(self.ladder.misses()),
            );
            return;
        }

        let is_whole = self.status.phase == RobotPhase::AtRest;
        for (joint, status) in self.joints.iter_mut().zip(&mut self.status.all) {
            if is_whole || is_down(joint) {
                (joint.stage, status.reason) = (JointStage::Idle, DownReason::None);
            }
        }

        self.events.add(EventKind::ResetDone, NO_JOINT, EventValues::NONE);
        self.report_rung(SafeStopReason::None, NO_JOINT);
        if is_whole {
            self.enter(RobotPhase::Enabling);
        }
    }

    /// Advances to the next phase when its condition holds.
    fn advance_phase(&mut self, now: CycleInput) {
        match self.status.phase {
            // Nothing was enabled, so that nothing has to come to rest.
            RobotPhase::Waiting if self.stop_asked => self.enter(RobotPhase::AtRest),
            RobotPhase::Waiting if now.is_fresh && now.is_up => {
                self.enter(RobotPhase::Enabling);
                self.enable_some();
            }
            RobotPhase::Enabling | RobotPhase::Running
                if self.stop_asked || self.status.rung == Rung::SafeStop =>
            {
                self.begin_stop();
            }
            RobotPhase::Enabling => {
                self.enable_some();
                let is_busy = |joint: &JointDrive| {
                    matches!(joint.stage, JointStage::Idle | JointStage::Enabling { .. })
                };
                if !self.joints.iter().any(is_busy) {
                    self.begin_to_play();
                }
            }
            RobotPhase::Running => self.enable_some(),
            RobotPhase::Stopping => {
                self.fade = (self.fade - self.share_of_soft_start(now)).max(0.0);
                // A trajectory that fades ends in its home positions by itself. What still moves
                // then, and everything in a safe stop, brakes at the limit.
                self.braking |= self.fade == 0.0 || self.status.rung == Rung::SafeStop;
                let moves = |joint: &JointDrive| {
                    joint.stage == JointStage::Enabled && !joint.set_point.stands()
                };
                if self.braking && !self.joints.iter().any(moves) {
                    self.disable();
                }
            }
            RobotPhase::Disabling
                if !self
                    .joints
                    .iter()
                    .any(|joint| matches!(joint.stage, JointStage::Leaving { .. })) =>
            {
                self.enter(RobotPhase::AtRest);
            }
            _ => {}
        }
    }

    /// Enables the next group after the previous one.
    fn enable_some(&mut self) {
        let is_enabling = |joint: &JointDrive| matches!(joint.stage, JointStage::Enabling { .. });
        // In groups: switching on 48 power stages in one cycle is a step of the supply's current.
        let is_time = self.now_ns >= self.next_group_ns && !self.joints.iter().any(is_enabling);
        let mut room = if is_time { self.settings.enable_at_once } else { 0 };
        let until_ns = self.now_ns.saturating_add(self.settings.enable_within_ns);
        for (joint, status) in self.joints.iter_mut().zip(&self.status.all) {
            if joint.stage != JointStage::Idle {
                continue;
            }

            // A drive that holds its joint must keep holding it while others are enabled.
            let holds = status.state == JointState::OperationEnabled;
            if room > 0 || holds {
                room -= usize::from(room > 0);
                // A drive that does not come up in time goes down for its own reason, and the
                // others are not kept waiting for ever.
                joint.begin(until_ns);
                self.next_group_ns = self.now_ns.saturating_add(self.settings.enable_every_ns);
            }
        }
    }

    fn begin_to_play(&mut self) {
        (self.status.speed, self.unasked_s) = (1.0, 0.0);
        (self.fade, self.braking) = (1.0, false);
        // After a break of the loop the joints go on from where their drives hold them; starting
        // anew would be a jump to the trajectory's start.
        if std::mem::take(&mut self.resumes) {
            return self.enter(RobotPhase::Running);
        }

        for (number, joint) in self.joints.iter_mut().enumerate() {
            let stands = if joint.stage == JointStage::Enabled {
                joint.start
            } else {
                self.status.all[number].actual_rad
            };
            joint.ramp = 0.0;
            (self.homes[number], self.played[number], self.wanted[number]) =
                (stands, stands, stands);
        }

        self.status.time_ns = 0;
        self.trajectory.restart();
        self.enter(RobotPhase::Running);
    }

    fn begin_stop(&mut self) {
        // Only where it plays a function of time with a home. A goal or a table stops where it is.
        let fades = self.trajectory.fades()
            && self.status.phase == RobotPhase::Running
            && self.status.rung < Rung::SafeStop;
        self.braking = !fades;
        for joint in &mut self.joints {
            if matches!(joint.stage, JointStage::Idle | JointStage::Enabling { .. }) {
                joint.stage = JointStage::Off;
            }
        }

        self.enter(RobotPhase::Stopping);
    }

    fn disable(&mut self) {
        let until_ns = self.now_ns.saturating_add(QUICK_STOP_NS);
        for joint in self.joints.iter_mut().filter(|joint| joint.stage == JointStage::Enabled) {
            joint.stage = JointStage::Leaving { until_ns, why: DownReason::None };
        }
        self.enter(RobotPhase::Disabling);
    }

    fn share_of_soft_start(&self, now: CycleInput) -> f64 {
        if self.settings.soft_start_ns == 0 {
            1.0
        } else {
            // In time and not in cycles: skipped cycles count, or a loaded machine would start more
            // slowly.
            now.passed_ns as f64 / self.settings.soft_start_ns as f64
        }
    }

    /// Moves the set-points.
    fn play(&mut self, now: CycleInput) {
        let plays = match self.status.phase {
            RobotPhase::Running => true,
            RobotPhase::Stopping => !self.braking,
            _ => false,
        };

        if plays {
            self.pass_time(now);
        }

        // In a missed cycle the last target is kept; trajectory time continues.
        // With a miss the state may be old: the last target is kept, which the drives have already,
        // and nothing new is asked of the trajectory.
        let asks = plays && now.misses == 0;
        if asks {
            let taken = self.trajectory.at(&self.status, &self.homes, &mut self.played);
            self.take_goal(taken);
        } else {
            // A source of goals learns that time went by, so that a goal grows old also while
            // cycles are missed.
            self.trajectory.skip_cycle(&self.status);
        }

        let fade = smooth(self.fade);
        // A goal has no trajectory time that could run more slowly; degraded, its joints get a
        // share of their velocity instead.
        let share = if self.trajectory.is_timeless() { self.status.speed } else { 1.0 };
        for (number, joint) in self
            .joints
            .iter_mut()
            .enumerate()
            .filter(|(_, joint)| joint.stage == JointStage::Enabled)
        {
            if self.braking {
                joint.set_point.brake();
                continue;
            }

            let before = self.wanted[number];
            let wanted =
                joint.start + smooth(joint.ramp) * fade * (self.played[number] - joint.start);
            let is_asked = asks && wanted.is_finite();
            if is_asked {
                self.wanted[number] = wanted;
            }

            // The trajectory's own velocity, over the time since it was asked last: after missed
            // cycles the difference is of several periods.
            let pace = if is_asked && self.unasked_s > 0.0 {
                (wanted - before) / self.unasked_s
            } else {
                0.0
            };
            joint.set_point.follow(self.wanted[number], pace, share);
        }

        if asks {
            self.unasked_s = 0.0;
        }
    }

    fn pass_time(&mut self, now: CycleInput) {
        let wanted = if self.status.rung >= Rung::Degrade {
            self.settings.thresholds.degraded_speed
        } else {
            1.0
        };
        let change = now.passed_s / SPEED_RAMP_S;
        self.status.speed += (wanted - self.status.speed).clamp(-change, change);
        // Rounded to nanoseconds: at full speed it is exactly the grid.
        self.status.time_ns += (now.passed_ns as f64 * self.status.speed).round() as u64;
        // Kept until the trajectory is asked again.
        self.unasked_s += now.passed_s;
        let grown = self.share_of_soft_start(now);

        for joint in &mut self.joints {
            joint.ramp = (joint.ramp + grown).min(1.0);
        }
    }

    fn take_goal(&mut self, taken: Option<GoalReport>) {
        let Some(GoalReport { is_refused, outcome }) = taken else { return };
        if is_refused {
            self.status.counts.goals_refused += 1;
            let count = u32::try_from(self.status.counts.goals_refused).unwrap_or(u32::MAX);
            // A controller that computes NaN sends it at its own rate.
            if self.refusals.record(self.status.cycle).is_some() {
                self.events.add(EventKind::GoalRefused, NO_JOINT, EventValues::from_code(count));
            }
        }

        let is_old = match outcome {
            GoalOutcome::Followed { new } => {
                self.status.counts.goals += u64::from(new);
                false
            }
            GoalOutcome::TooOld { new } => {
                // The first goal, which came before the robot followed any.
                self.goal_is_old = self.goal_is_old.or(new.then_some(false));
                true
            }
            // A commander that vanished without releasing the joints had something in mind that
            // nobody knows: the robot comes to rest.
            GoalOutcome::Lost => {
                self.events.add(EventKind::CommanderLost, NO_JOINT, EventValues::NONE);
                self.stop_safely(SafeStopReason::CommanderLost, NO_JOINT);
                true
            }
        };

        match (self.goal_is_old, is_old) {
            (Some(false), true) => {
                self.events.add(EventKind::GoalOld, NO_JOINT, EventValues::NONE);
            }
            (Some(true), false) => {
                self.events.add(EventKind::GoalBack, NO_JOINT, EventValues::NONE);
            }
            _ => {}
        }

        // Before the first goal, no goal has become too old.
        if !is_old || self.goal_is_old.is_some() {
            self.goal_is_old = Some(is_old);
        }
    }
}

/// Maps 0 to 1 smoothly, with slope 0 at both ends.
fn smooth(share: f64) -> f64 {
    // Smoothstep: no velocity at both ends.
    share * share * (3.0 - 2.0 * share)
}

impl Controller for MotionController {
    fn step(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        self.cycle(cycle, inputs, outputs);
    }

    fn stop(&mut self, cycle: &BusCycle, inputs: &[u8], outputs: &mut [u8]) -> bool {
        // Kept: the robot needs many cycles to come to rest, and each of them calls this.
        self.stop_asked = true;
        self.cycle(cycle, inputs, outputs);
        self.status.phase == RobotPhase::AtRest
    }

    fn take_event(&mut self) -> Option<Event> {
        self.events.next()
    }

    fn robot(&self) -> Option<RobotState> {
        let Status { phase, rung, stopped_by, stopped_joint, misses, .. } = *self.status;
        Some(RobotState {
            phase: phase as u8,
            rung: rung as u8,
            stopped_by: stopped_by as u8,
            device: self.events.device_of(stopped_joint),
            misses: u16::try_from(misses).unwrap_or(u16::MAX),
        })
    }
}
