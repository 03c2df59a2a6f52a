//! Channel for what the joints did, from the loop to the recorder: a window of cycles at a time.
//!
//! Both sides only try the lock, so neither wakes the other. A window that cannot be passed on goes
//! on with the next cycle: it becomes longer, and no cycle is left out.

use std::sync::{Arc, Mutex};

use onbeat::record::{
    CycleSpan, JointSteps, JointTally, JointWindow, Note, Recorder, RobotNote, ValueRange,
};
use onbeat_rt::Instant;

use super::power::JointState;
use super::status::Status;
use crate::cycle_messages::JointSample;

/// Windows between loop and recorder, which reads every 20 ms.
// The recorder looks every 20 ms and a window lasts 50: sixteen of them bridge 0.8 s without a
// look.
const ROOM: usize = 16;
/// Shortest window, in ns: 20 per second, as in the live view.
const WINDOW_NS: u64 = 50_000_000;

/// All joints in a stretch of cycles.
#[derive(Clone, Debug)]
struct MotionWindow {
    /// Number of cycles.
    cycles: u64,
    first: u64,
    last: u64,
    /// Release of the first and of the last cycle, in ns.
    began_ns: u64,
    release_ns: u64,
    joints: Vec<JointWindow>,
}

impl MotionWindow {
    fn new(joints: usize) -> Self {
        let joint = window_of(&JointSample::default(), JointState::default(), 0.0);
        Self {
            cycles: 0,
            first: 0,
            last: 0,
            began_ns: 0,
            release_ns: 0,
            joints: vec![joint; joints],
        }
    }

    fn add(&mut self, status: &Status) {
        for (kept, joint) in self.joints.iter_mut().zip(status.joints()) {
            let now = window_of(&joint.sample(), joint.state, joint.following_rad);
            *kept = if self.cycles == 0 { now } else { kept.followed_by(&now) };
        }

        if self.cycles == 0 {
            self.first = status.cycle;
            self.began_ns = status.release_ns;
        }
        self.last = status.cycle;
        self.release_ns = status.release_ns;
        self.cycles += 1;
    }

    fn lasted_ns(&self) -> u64 {
        self.release_ns.saturating_sub(self.began_ns)
    }
}

/// Returns a joint in one cycle.
pub(crate) fn window_of(
    values: &JointSample,
    state: JointState,
    following_rad: f64,
) -> JointWindow {
    let follows = state == JointState::OperationEnabled;
    JointWindow {
        target: ValueRange::new(values.target_rad),
        actual: ValueRange::new(values.actual_rad),
        following: follows.then_some(ValueRange::new(following_rad)),
        torque: ValueRange::new(f64::from(values.torque_permille)),
        statusword: values.statusword,
        states: 1 << state as u8,
    }
}

/// Windows on their way; the first `filled` of them.
#[derive(Debug)]
struct PassedWindows {
    windows: Vec<MotionWindow>,
    filled: usize,
}

impl PassedWindows {
    fn new(joints: usize) -> Self {
        Self { windows: vec![MotionWindow::new(joints); ROOM], filled: 0 }
    }
}

/// The loop's side. Neither allocates nor makes system calls.
#[derive(Debug)]
pub struct WindowSender {
    between: Arc<Mutex<PassedWindows>>,
    now: MotionWindow,
    /// Period of the loop, in ns.
    period_ns: u64,
}

impl WindowSender {
    /// Adds the last cycle of the controller.
    pub(super) fn add(&mut self, status: &Status) {
        self.now.add(status);
        if self.now.lasted_ns() + self.period_ns >= WINDOW_NS {
            self.flush();
        }
    }

    /// Passes the window on, or keeps it open.
    pub(super) fn flush(&mut self) {
        if self.now.cycles == 0 {
            return;
        }

        // The window goes on and is handed over with the next one: longer, and nothing lost.
        let Ok(mut between) = self.between.try_lock() else { return };
        let PassedWindows { windows, filled } = &mut *between;
        if let Some(free) = windows.get_mut(*filled) {
            // Into memory that is there. Handing over a vector would mean allocating the next one
            // in a cycle.
            free.joints.copy_from_slice(&self.now.joints);
            let MotionWindow { cycles, first, last, began_ns, release_ns, .. } = self.now;
            free.cycles = cycles;
            free.first = first;
            free.last = last;
            free.began_ns = began_ns;
            free.release_ns = release_ns;

            *filled += 1;
            self.now.cycles = 0;
        }
    }

    /// Forgets the window that is open.
    pub(super) fn clear(&mut self) {
        self.now.cycles = 0;
    }
}

/// The recorder's side: writes the joints into the run file, step by step.
#[derive(Debug)]
pub struct WindowRecorder {
    between: Arc<Mutex<PassedWindows>>,
    taken: PassedWindows,
    tally: JointTally,
    /// Written before the first step.
    robot: Option<RobotNote>,
}

/// Creates both sides.
#[must_use]
pub fn window_channel(robot: RobotNote) -> (WindowSender, WindowRecorder) {
    let joints = robot.joints.len();
    let between = Arc::new(Mutex::new(PassedWindows::new(joints)));
    let sender = WindowSender {
        between: Arc::clone(&between),
        now: MotionWindow::new(joints),
        period_ns: robot.period_ns,
    };
    let recorder = WindowRecorder {
        between,
        taken: PassedWindows::new(joints),
        tally: JointTally::default(),
        robot: Some(robot),
    };
    (sender, recorder)
}

impl WindowRecorder {
    /// Records the windows received. A file that cannot be written ends the run by itself.
    pub fn record(&mut self, recorder: &mut Recorder) {
        match self.between.try_lock() {
            // Swapped, and read outside the lock: the loop's side finds it free again after
            // nanoseconds.
            Ok(mut between) => std::mem::swap(&mut *between, &mut self.taken),
            Err(_) => return,
        }

        let filled = std::mem::take(&mut self.taken.filled);
        for place in 0..filled {
            let window = &self.taken.windows[place];
            let t = recorder.seconds(Instant::from_ns(window.release_ns));
            let span = CycleSpan { first: window.first, last: window.last, t };
            let note = self.tally.add(span, &window.joints);
            self.write(note, recorder);
        }
    }

    /// Records the rest of a block whose loop has ended; `passed_on` has been flushed.
    pub fn end_block(&mut self, recorder: &mut Recorder) {
        self.record(recorder);
        let note = self.tally.end_block();
        self.write(note, recorder);
    }

    fn write(&mut self, note: Option<JointSteps>, recorder: &mut Recorder) {
        let Some(steps) = note else { return };
        // Names and limits of the joints stand once, before the first of their steps.
        if let Some(robot) = self.robot.take() {
            let _ = recorder.writer().note(&Note::Robot(Box::new(robot)));
        }
        let _ = recorder.writer().note(&Note::Joints(steps));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::motion::JointStatus;
    use onbeat::record::RobotJoint;

    fn status(cycle: u64, target_rad: f64) -> Status {
        let mut status =
            Status { cycle, release_ns: cycle * 1_000_000, count: 1, ..Status::default() };
        status.all[0] = JointStatus { target_rad, ..JointStatus::default() };
        status
    }

    fn channel() -> (WindowSender, WindowRecorder) {
        let joints = vec![RobotJoint::default()];
        window_channel(RobotNote { period_ns: 1_000_000, joints, ..RobotNote::default() })
    }

    /// The windows that wait for the recorder: first and last cycle, lowest and highest target.
    fn passed(recorder: &WindowRecorder) -> Vec<(u64, u64, f64, f64)> {
        let between = recorder.between.lock().unwrap();
        let windows = between.windows[..between.filled].iter();
        windows
            .map(|window| {
                let target = window.joints[0].target;
                (window.first, window.last, target.low, target.high)
            })
            .collect()
    }

    #[test]
    fn a_window_of_fifty_milliseconds_has_the_extremes_of_its_cycles() {
        let (mut sender, recorder) = channel();
        (1..=120).for_each(|cycle| sender.add(&status(cycle, cycle as f64)));
        assert_eq!(passed(&recorder), [(1, 50, 1.0, 50.0), (51, 100, 51.0, 100.0)]);
        sender.flush();
        assert_eq!(passed(&recorder)[2], (101, 120, 101.0, 120.0));
    }

    #[test]
    fn a_recorder_that_does_not_read_gets_a_longer_window_and_no_cycle_is_left_out() {
        let (mut sender, mut recorder) = channel();
        let cycles = 50 * (ROOM as u64 + 10);
        (1..=cycles).for_each(|cycle| sender.add(&status(cycle, -(cycle as f64))));
        assert_eq!(passed(&recorder).len(), ROOM);
        recorder.taken.filled = 0;
        std::mem::swap(&mut *recorder.between.lock().unwrap(), &mut recorder.taken);
        sender.add(&status(cycles + 1, 0.0));
        let next = 50 * ROOM as u64 + 1;
        assert_eq!(passed(&recorder), [(next, cycles + 1, -(cycles as f64), 0.0)]);
    }

    #[test]
    fn the_loop_does_not_wait_for_a_recorder_that_reads() {
        let (mut sender, recorder) = channel();
        {
            let _held = recorder.between.lock().unwrap();
            (1..=60).for_each(|cycle| sender.add(&status(cycle, 1.0)));
        }
        assert_eq!(passed(&recorder).len(), 0);
        sender.add(&status(61, 1.0));
        assert_eq!(passed(&recorder), [(1, 61, 1.0, 1.0)]);
    }
}
