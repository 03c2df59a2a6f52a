//! A robot from its file to a run: what `onbeat robot run` does, for any program.
//!
//! [`RobotFile`] reads the file, [`Session::bring_up`] configures the devices, [`Session::run`]
//! moves the joints until the robot is asked to stop or its time is over. A [`SessionObserver`]
//! receives views and events in the meantime, on the caller's thread; what it does cannot delay the
//! loop.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use onbeat::probe::{self, Destination, Interruptions, Origin, Run, Setting};
//! use onbeat_ethercat::event::Event;
//! use onbeat_robot::bus::{InProcess, ExchangeMode, BusOptions};
//! use onbeat_robot::motion::{MotionController, RobotView, Trajectory};
//! use onbeat_robot::session::{RobotFile, Session, SessionObserver, SessionPlan};
//! use onbeat_rt::sys::Monotonic;
//! use onbeat_segment::Link;
//!
//! struct Quiet;
//! impl SessionObserver for Quiet {
//!     fn view(&mut self, _: &RobotView) {}
//!     fn event(&mut self, event: &Event, device: &str) {
//!         eprintln!("{device}: {event:?}");
//!     }
//! }
//!
//! let file = RobotFile::read(Path::new("humanoid"), 1_000_000)?;
//! let controller = MotionController::new(&file.robot, Trajectory::gait(&file.robot)?);
//! let wire = InProcess::on_clock(Link::from_description(&file.description)?, Monotonic);
//! let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns: 1_000_000, follow_clock: true };
//! let session = Session::bring_up(wire, "the simulated segment", &file, options)?;
//!
//! let origin = Origin::now();
//! let header = probe::header(&["my-program".into()], "robot", &[], origin.unix_s);
//! let path = Path::new("robot.onbeat.hlog");
//! let run = Run::open(Destination { path, header, origin: origin.at }, Setting::new(1_000_000))?;
//! let plan = SessionPlan { controller, trajectory: "gait", image: None, messages: None, work_ns: 0, load: None, view_every_ns: 100_000_000, duration_ns: 10_000_000_000 };
//! let outcome = session.run(run, plan, &Interruptions::default(), &mut Quiet)?;
//! assert!(outcome.ended_in_order());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assembly;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use onbeat::bench::background_load::BackgroundLoad;
use onbeat::cause::{Cause, Explanation};
use onbeat::load::Load;
use onbeat::probe::description::Body;
use onbeat::probe::{BlockPlan, Interruptions, Run, RunError};
use onbeat::record::{MotionNote, Note, Recorder, Remark, RobotNote, SpikeNote};
use onbeat_control::BusSide;
use onbeat_ethercat::event::{Event, EventKind, NO_DEVICE};
use onbeat_ethercat::layout::Layout;
use onbeat_host::foreign;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{
    Clock, Consumer, Instant, Outcome, Plan, Producer, Sample, Slot, Task, cycle, split,
};
use onbeat_segment::{Description, Segment};

use crate::bus::{Bus, BusError, BusOptions, Wire};
use crate::cycle_messages::CycleMessages;
use crate::image_service::{BackgroundService, CycleService, serve};
use crate::motion::{
    DeviceAlarms, LoopView, MotionAccount, MotionController, Outlets, Robot, RobotCommands,
    RobotError, RobotPhase, RobotSnapshot, RobotTask, RobotView, SpikeView, WindowRecorder,
    devices_before, devices_note, robot_note, window_channel,
};

pub use assembly::{AssemblyError, SharedRobot, TrajectoryWord, UnknownTrajectory};

/// The name of the robot that ships with onbeat.
pub const HUMANOID: &str = "humanoid";
/// Views between the loop and the observer.
// Views are for people. If nobody has time to read them, older ones are of no use.
const VIEWS_IN_RING: usize = 8;
/// Events between the loop and the observer; further ones are counted as lost.
const EVENTS_IN_RING: usize = 1024;

/// The state of bus and devices is written this often, in ns: what kill -9 can lose of it.
const DEVICES_EVERY_NS: u64 = 10_000_000_000;

/// A robot could not be read from its file.
#[derive(Debug, thiserror::Error)]
pub enum RobotFileError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}{}", hint(source))]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Its devices are not valid.
    #[error(transparent)]
    Description(#[from] onbeat_segment::DescriptionError),
    /// Its joints are not valid.
    #[error(transparent)]
    Robot(#[from] RobotError),
}

/// Who types a name may have meant the robot that needs no file.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "; the robot that ships with onbeat is named humanoid",
        _ => "",
    }
}

/// A robot file: devices, their process image, joints.
#[derive(Debug)]
pub struct RobotFile {
    /// The devices, whose types may come from ESI files beside the file.
    pub description: Description,
    /// Their places in the process image.
    pub layout: Layout,
    /// The joints with their limits.
    pub robot: Robot,
    /// Joints and devices for run files and for the live view.
    pub note: RobotNote,
}

impl RobotFile {
    /// Reads a file, or the robot that ships with onbeat ([`HUMANOID`]), for a loop with this
    /// period in nanoseconds.
    ///
    /// # Errors
    /// [`RobotFileError`].
    pub fn read(path: &Path, period_ns: u64) -> Result<Self, RobotFileError> {
        let (text, description) = if path == Path::new(HUMANOID) {
            (Segment::HUMANOID.to_owned(), Description::from_toml(Segment::HUMANOID)?)
        } else if Description::esi_choice(path).is_some() {
            // The devices alone: joints with their defaults.
            (String::new(), Description::from_file(path)?)
        } else {
            let failed = |source| RobotFileError::Read { path: path.to_owned(), source };
            let text = foreign::text(path, foreign::MOST_BYTES_BY_HAND).map_err(failed)?;
            (text, Description::from_file(path)?)
        };

        let layout = Layout::from_description(&description)?;
        let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
        let read = |name: &str| foreign::text(&beside(name), foreign::MOST_BYTES_BY_HAND);
        let mut robot = Robot::from_toml_with(&text, &layout, period_ns, read)?;
        // Files that a file refers to are beside it, wherever the program was started.
        let samples = robot.settings.trajectory.strip_prefix("csv:").map(beside);
        if let Some(samples) = samples.filter(|path| path.exists())
            && let Some(samples) = samples.to_str()
        {
            robot.settings.trajectory = format!("csv:{samples}");
        }
        let note = robot_note(&robot, &layout, &devices_before(&description)?);
        Ok(Self { description, layout, robot, note })
    }
}

/// Receives what happens to a robot, on the thread that runs the session.
pub trait SessionObserver {
    /// Shows the state of the robot, as often as the plan says.
    fn view(&mut self, view: &RobotView);
    /// Shows an event of the bus, or of a joint; `device` is its name, empty for the whole bus.
    fn event(&mut self, event: &Event, device: &str);
    /// Shows what happened to the load, in words.
    fn load(&mut self, words: &str) {
        let _ = words;
    }
    /// Shows that other processes receive no more cycles, in words.
    fn ring(&mut self, words: &str) {
        let _ = words;
    }
}

/// How a session runs.
pub struct SessionPlan<'p> {
    /// Moves the joints.
    pub controller: MotionController,
    /// The trajectory as typed, for the run file.
    pub trajectory: &'p str,
    /// The process image for other processes, where they share it.
    pub image: Option<BusSide>,
    /// Ring on which every cycle is published; it needs an image.
    pub messages: Option<CycleMessages>,
    /// Busy time per cycle, in nanoseconds.
    pub work_ns: u64,
    /// The load beside the robot, whose events are noted in the run file.
    pub load: Option<BackgroundLoad>,
    /// Time between two views, in nanoseconds.
    pub view_every_ns: u64,
    /// Time until the robot is asked to stop, in nanoseconds; `u64::MAX` for no end.
    pub duration_ns: u64,
}

/// A robot whose devices are configured.
pub struct Session<'r, W, C = Monotonic> {
    bus: Bus<W>,
    file: &'r RobotFile,
    period_ns: u64,
    clock: C,
}

/// A task on the grid of any clock.
struct OnClock<'c, T, C> {
    task: T,
    clock: &'c C,
}

impl<T: Task + Send, C: Clock + Sync> Body for OnClock<'_, T, C> {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        // The same function as every loop's: the robot has no timing of its own.
        cycle::run(self.clock, plan, &mut self.task, hot, stop)
    }

    fn has_ports(&self) -> bool {
        true
    }
}

/// How a session ended.
#[derive(Clone, Debug)]
pub struct SessionOutcome {
    /// The last view; `None` when no cycle was shown.
    pub view: Option<RobotView>,
    /// Whether a joint was without power for a fault at any time.
    pub was_down: bool,
    /// What the joints did.
    pub motion: MotionNote,
}

impl SessionOutcome {
    /// Returns whether the robot came to rest without a safe stop and without a joint that was
    /// down.
    #[must_use]
    pub fn ended_in_order(&self) -> bool {
        // Counted: a reset does not undo a safe stop.
        let was_stopped = self.motion.safe_stops > 0;
        let is_at_rest = |view: &RobotView| view.phase == RobotPhase::AtRest;
        !self.was_down && !was_stopped && self.view.as_ref().is_some_and(is_at_rest)
    }
}

impl<'r, W: Wire + Send> Session<'r, W> {
    /// Configures the devices of a file on a wire; `on` names the wire in errors.
    ///
    /// # Errors
    /// [`BusError`].
    pub fn bring_up(
        wire: W,
        on: &str,
        file: &'r RobotFile,
        options: BusOptions,
    ) -> Result<Self, BusError> {
        let period_ns = options.period_ns;
        let bus = Bus::bring_up(wire, Some(&file.layout), options, on)?;
        Ok(Self { bus, file, period_ns, clock: Monotonic })
    }

    /// Runs the loop on another clock, such as a virtual one: that of the wire. The recorder keeps
    /// looking into the ring every 20 ms of this machine's time.
    #[must_use]
    pub fn on_clock<C: Clock + Sync>(self, clock: C) -> Session<'r, W, C> {
        let Self { bus, file, period_ns, .. } = self;
        Session { bus, file, period_ns, clock }
    }
}

impl<W: Wire + Send, C: Clock + Sync> Session<'_, W, C> {
    /// Moves the robot until the interruptions ask it to stop or its time is over, takes the bus
    /// down, and closes the run. [`Interruptions::summary`] resets a safe stop.
    ///
    /// # Errors
    /// [`RunError`]; the bus is down then too.
    pub fn run(
        self,
        mut run: Run,
        plan: SessionPlan<'_>,
        interruptions: &Interruptions,
        observer: &mut dyn SessionObserver,
    ) -> Result<SessionOutcome, RunError> {
        let Self { bus, file, period_ns, clock } = self;
        let mut seen_slots = slots::<RobotSnapshot>(VIEWS_IN_RING);
        let mut robot_slots = slots::<Event>(EVENTS_IN_RING);
        let mut bus_slots = slots::<Event>(EVENTS_IN_RING);
        let mut seen_ring = ring(&mut seen_slots);
        let mut robot_ring = ring(&mut robot_slots);
        let mut bus_ring = ring(&mut bus_slots);
        let (seen_in, seen) = split(&mut seen_ring);
        let (robot_in, robot_events) = split(&mut robot_ring);
        let (bus_in, bus_events) = split(&mut bus_ring);
        // Three rings, so that a flood of bus events cannot push out the robot's own.
        let outlets = Outlets { seen: seen_in, robot: robot_in, bus: bus_in };

        let orders = RobotCommands::default();
        let (serving, mut attending) = plan.image.map(|it| served(it, plan.messages)).unzip();
        let show_every = plan.view_every_ns / period_ns.max(1);
        let (windows_in, windows) = window_channel(file.note.clone());
        let mut task = RobotTask::new(bus, plan.controller, &orders, outlets, show_every);
        task.account = Some(MotionAccount::new(&file.robot, plan.trajectory, Some(windows_in)));
        (task.work_ns, task.serving) = (plan.work_ns, serving);

        let began = clock.now();
        let mut follower = SessionFollower {
            file,
            seen,
            robot_events,
            bus_events,
            windows,
            alarms: vec![DeviceAlarms::default(); file.layout.devices.len()],
            noted: began,
            events_lost: 0,
            view: None,
            was_down: false,
        };
        let mut load = plan.load;
        let name =
            load.as_ref().map_or_else(|| Load::IDLE.to_string(), |load| load.load.to_string());
        // The run must not end at the first Ctrl-C: the robot has to come to rest before, which
        // takes cycles. The task ends it.
        let inner = Interruptions::default();
        let mut body = OnClock { task, clock: &clock };
        let block = BlockPlan { index: 0, load: &name, releases: u64::MAX };
        let ran = run.begin_body(&mut body).block(&block, &inner, &mut |recorder| {
            inner
                .continued
                .store(interruptions.continued.load(Ordering::Relaxed), Ordering::Relaxed);
            let now = clock.now();
            // The time of a session is the robot's; coming to rest is added to it.
            let is_over = now.ns_since(began) >= plan.duration_ns;
            if interruptions.stop.load(Ordering::Relaxed) || is_over {
                orders.stop();
            }
            // Once per signal: a reset that was refused is not tried again by itself.
            if interruptions.summary.swap(false, Ordering::Relaxed) {
                orders.reset();
            }

            attending.iter_mut().for_each(BackgroundService::run_once);
            if let Some(sentence) = attending.as_mut().and_then(BackgroundService::ring_fault) {
                observer.ring(&sentence);
                let _ = recorder.writer().note(&Note::Remark(Remark { sentence }));
            }
            if let Some(load) = &mut load {
                load.note_events(recorder, &mut |words| observer.load(&words));
            }
            follower.look(now, recorder, observer);
        });

        if let Some(load) = &mut load {
            load.stop(run.recorder(), &mut |words| observer.load(&words));
        }
        body.task.publish_rest();
        follower.look(clock.now(), run.recorder(), observer);
        // Taken from the task, which has ended: the ring may have been full.
        if let Some(end) = body.task.snapshot() {
            follower.show_end(&end, run.recorder(), observer);
        }
        let motion = body.task.take_note().unwrap_or_default();
        follower.windows.end_block(run.recorder());
        follower.note_devices(clock.now(), run.recorder());
        follower.show_spikes(run.recorder());
        // Before any error is returned: whatever failed, devices go to INIT in order.
        body.task.into_bus().take_down();
        ran?;
        run.recorder().writer().note(&Note::Motion(Box::new(motion.clone())))?;
        run.close()?;
        Ok(SessionOutcome { view: follower.view, was_down: follower.was_down, motion })
    }
}

/// The two ends of an image: in the loop, and beside it.
fn served(image: BusSide, messages: Option<CycleMessages>) -> (CycleService, BackgroundService) {
    let (_, serving, attending) = serve(image, None, messages);
    (serving, attending)
}

fn slots<T>(count: usize) -> Vec<Slot<T>> {
    (0..count).map(|_| Slot::empty()).collect()
}

#[allow(clippy::expect_used)] // The lengths of all rings here are powers of two.
fn ring<T: Copy + Send>(slots: &mut [Slot<T>]) -> Ring<'_, T> {
    Ring::over(slots).expect("a power of two")
}

/// The cold side of a session: takes views and events out of the rings, records the events, and
/// hands both to the observer.
struct SessionFollower<'s> {
    file: &'s RobotFile,
    /// The cold ends of the rings.
    seen: Consumer<'s, RobotSnapshot>,
    robot_events: Consumer<'s, Event>,
    bus_events: Consumer<'s, Event>,
    windows: WindowRecorder,
    /// Of each device, by position.
    alarms: Vec<DeviceAlarms>,
    /// When the devices were noted last.
    noted: Instant,
    /// Events that the two rings have lost so far.
    events_lost: u64,
    view: Option<RobotView>,
    was_down: bool,
}

impl SessionFollower<'_> {
    fn look(&mut self, now: Instant, recorder: &mut Recorder, observer: &mut dyn SessionObserver) {
        let RobotFile { layout, .. } = self.file;
        let name_of =
            |device: u16| layout.devices.get(usize::from(device)).map_or("", |found| &found.name);
        self.windows.record(recorder);
        while let Some(event) = self.robot_events.pop() {
            // A joint has the name of its drive, and its events are no alarms of that device.
            let of_joint = Event { device: NO_DEVICE, ..event };
            record(&of_joint, name_of(event.device), recorder, observer);
        }

        while let Some(event) = self.bus_events.pop() {
            record(&event, name_of(event.device), recorder, observer);
            if let Some(alarms) = self.alarms.get_mut(usize::from(event.device)) {
                alarms.add(&event);
            }
        }

        // The rings count what they could not take. An account of events without them would look
        // whole.
        let lost = self.robot_events.lost() + self.bus_events.lost();
        recorder.lose_events(lost - std::mem::replace(&mut self.events_lost, lost));
        // The newest of those that waited: a slow terminal skips, it does not lag.
        let Some(seen) = std::iter::from_fn(|| self.seen.pop()).last() else { return };
        self.show(&seen, recorder, observer);
        if now.ns_since(self.noted) >= DEVICES_EVERY_NS {
            self.note_devices(now, recorder);
        }
    }

    fn show(
        &mut self,
        seen: &RobotSnapshot,
        recorder: &Recorder,
        observer: &mut dyn SessionObserver,
    ) {
        // Counted, not looked at: a joint that came back between two views still was down, and the
        // exit status says so.
        self.was_down = seen.status.counts.joints_down > 0;
        let view = self.view_of(seen, recorder);
        observer.view(&view);
        self.view = Some(view);
    }

    /// Shows the end, unless it was the last view: the ring does not take it while it is full of
    /// views that nobody had time to read.
    fn show_end(
        &mut self,
        end: &RobotSnapshot,
        recorder: &Recorder,
        observer: &mut dyn SessionObserver,
    ) {
        let is_shown = |view: &RobotView| view.counts.cycles == end.status.counts.cycles;
        if !self.view.as_ref().is_some_and(is_shown) {
            self.show(end, recorder, observer);
        }
    }

    /// Writes the state of bus and devices. A run file that cannot be written ends the run by
    /// itself.
    fn note_devices(&mut self, now: Instant, recorder: &mut Recorder) {
        self.noted = now;
        let Some(view) = &self.view else { return };
        let note = devices_note(view, &self.alarms);
        let _ = recorder.writer().note(&Note::Devices(Box::new(note)));
    }

    fn view_of(&self, seen: &RobotSnapshot, recorder: &Recorder) -> RobotView {
        let progress = recorder.progress();
        let mut view = RobotView::new(&self.file.robot, &self.file.layout, seen);
        view.of_loop = LoopView {
            worst_ns: progress.worst_ns,
            deadline_misses: progress.deadline_misses,
            skipped: progress.skipped,
            spikes: progress.spikes,
        };
        view.spikes = spike_views(recorder);

        view
    }

    /// Brings the spikes of the last view up to date: those of the last interval were not written
    /// when it was made.
    fn show_spikes(&mut self, recorder: &Recorder) {
        if let Some(view) = &mut self.view {
            view.spikes = spike_views(recorder);
        }
    }
}

/// Records an event and shows it. A run file that cannot be written ends the run by itself.
fn record(
    event: &Event,
    device: &str,
    recorder: &mut Recorder,
    observer: &mut dyn SessionObserver,
) {
    // Who watches has read the alarm of all of them.
    if event.kind != EventKind::LeftOpWithOthers {
        observer.event(event, device);
    }
    let _ = recorder.event(event, device);
}

/// The latest spikes of a run in progress. They come from memory: the run file grows with the run,
/// and reading it again at each spike would take memory and time that grow with it.
fn spike_views(recorder: &Recorder) -> Vec<SpikeView> {
    let view_of = |spike: &SpikeNote| {
        let explanation = Explanation::from_causes(spike.causes.clone());
        let cause =
            explanation.main().map_or_else(|| "cause not looked for".to_owned(), Cause::words);
        SpikeView { t: spike.t, late_ns: spike.wakeup_latency_ns, cause }
    };
    recorder.latest_spikes().map(view_of).collect()
}
