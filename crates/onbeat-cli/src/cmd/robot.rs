//! `onbeat robot`: a robot moves, and is seen.

use std::io::{BufRead, IsTerminal, stdin, stdout};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

use onbeat::cause::{Cause, Explanation};
use onbeat::probe::description::OnGrid;
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Run};
use onbeat::record::{Account, Header, Recorder, RunFile, Series};
use onbeat_control::{BusSide, Image, ImageSettings as Settings};
use onbeat_ethercat::event::Event;
use onbeat_ethercat::input;
use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, BusOptions as Options, ExchangeMode as Mode, InProcess, Packets, Wire};
use onbeat_robot::motion::{
    CommanderGoals, DownReason as Reason, GoalSlot, LoopView, MotionController, Outlets, Robot as Joints,
    RobotCommands, RobotEvent, RobotPhase as Phase, RobotSnapshot, RobotTask, RobotView, Rung, SpikeView, Trajectory,
};
use onbeat_robot::image_service::{BackgroundService, CycleService, serve};
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Consumer, Instant, Slot, split};
use onbeat_segment::{Description, Link, Segment};
use serde_json::json;

use super::measure::Zero;
use super::{
    Failure, ThreadChoice, Verdict, check_cpu, limit, most_alarms, repair_first, runs, setting, show, typed, verdict,
};
use crate::cli_robot::{Robot, RobotRunOptions, TrajectoryWord};
use crate::signals::{self, OnUsr1};
use crate::term::{Live, Tone, advise, robot as words};

/// Rows of devices in the live table.
const ROWS: usize = 8;
/// The live table is drawn this often, and lines of a log are written this often, in ns.
const DRAW_EVERY_NS: u64 = 250_000_000;
const LINE_EVERY_NS: u64 = 1_000_000_000;
/// Spikes in the live table.
const SPIKES: usize = 3;
/// A cycle is what stops a robot in order, so nobody may have to wait long for one.
const LONGEST_PERIOD_NS: u64 = 1_000_000_000;
/// A reply of the same cycle is waited for at most this part of the period.
const REPLY_WITHIN: u64 = 2;

pub(crate) fn run(command: &Robot) -> Result<Verdict, Failure> {
    match command {
        Robot::Run(options) => run_robot(options),
        Robot::Goal(options) => super::robot_goal::give(options),
    }
}

fn run_robot(options: &RobotRunOptions) -> Result<Verdict, Failure> {
    check_cpu(options.cpu)?;
    if options.looping.period > LONGEST_PERIOD_NS {
        return Err(Failure::LongPeriod { period_s: options.looping.period as f64 / 1e9 });
    }

    let (text, description) = described(&options.file)?;
    let layout = Layout::of(&description)?;
    let joints = Joints::from_toml(&text, &layout, options.looping.period)?;
    let word = word_of(options, &joints)?;
    let image = image(options, (&layout, &joints), &word)?;
    let controller = MotionController::new(&joints, trajectory(word, &joints, image.as_ref())?);
    repair_first()?;

    match &options.interface {
        Some(name) => run_on(Packets::open(name)?, name, options, (layout, joints), (controller, image)),
        None => {
            let wire = InProcess::on_clock(Link::of(&description)?, Monotonic);
            run_on(wire, "the simulated segment", options, (layout, joints), (controller, image))
        }
    }
}

/// The file's text, for the robot, and its devices, whose types may come from ESI files beside it.
fn described(file: &Path) -> Result<(String, Description), Failure> {
    if file == Path::new("humanoid") {
        return Ok((Segment::HUMANOID.to_owned(), Description::from_toml(Segment::HUMANOID)?));
    }
    let failed = |source| Failure::File { what: "read", path: file.to_owned(), source };
    let text = input::text(file, input::MOST_BYTES_BY_HAND).map_err(failed)?;
    Ok((text, Description::from_file(file)?))
}

fn word_of(options: &RobotRunOptions, joints: &Joints) -> Result<TrajectoryWord, Failure> {
    let of_file = || joints.settings.trajectory.parse().map_err(Failure::Trajectory);
    options.trajectory.clone().map_or_else(of_file, Ok)
}

/// What other processes see of the bus, under the name that was given. The outputs are the robot's; its joints are told where they are
/// commanded through it.
fn image(
    options: &RobotRunOptions,
    (layout, joints): (&Layout, &Joints),
    word: &TrajectoryWord,
) -> Result<Option<BusSide>, Failure> {
    let Some(name) = &options.name else { return Ok(None) };
    let joints_told = if *word == TrajectoryWord::Commander { joints.commanded() } else { Vec::new() };
    let goal_age_ns = joints.settings.goal_age_ns;
    let mut image = Image::create(name, layout, Settings { joints: joints_told, goal_age_ns, ..Settings::default() })?;
    image.keep_outputs()?;
    Ok(Some(image))
}

fn trajectory(word: TrajectoryWord, joints: &Joints, image: Option<&BusSide>) -> Result<Trajectory, Failure> {
    Ok(match word {
        TrajectoryWord::Hold => Trajectory::hold(),
        TrajectoryWord::Sine => Trajectory::sine(joints)?,
        TrajectoryWord::Gait => Trajectory::gait(joints)?,
        TrajectoryWord::Csv(path) => {
            let failed = |source| Failure::File { what: "read", path: path.clone(), source };
            let text = input::text(&path, input::MOST_BYTES_BY_HAND).map_err(failed)?;
            Trajectory::csv(&text, joints).map_err(|source| Failure::Played { path, source })?
        }
        TrajectoryWord::Goal => {
            let place = GoalSlot::default();
            let names: Vec<String> = joints.joints.iter().map(|joint| joint.name.clone()).collect();
            let commanded = place.clone();
            let following = thread::Builder::new().name("onbeat-goals".to_owned());
            let started = following.spawn(move || follow_lines(&names, commanded));
            started.map_err(|source| Failure::Thread { what: "goals from standard input", source })?;

            Trajectory::goal(Box::new(place), joints)
        }
        TrajectoryWord::Commander => {
            let goals = image.and_then(BusSide::goals).ok_or(Failure::NoImageName)?;
            Trajectory::goal(Box::new(CommanderGoals::new(goals)), joints)
        }
    })
}

/// Each line of standard input is a goal: `NAME=RAD, NAME=RAD`. Joints that no line has named yet stay where they are.
fn follow_lines(names: &[String], mut place: GoalSlot) {
    let mut wanted = vec![None; names.len()];
    for line in stdin().lock().lines().map_while(Result::ok) {
        for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let pair = part.split_once('=').map(|(name, number)| (name.trim(), number.trim().parse::<f64>()));
            let joint = pair.as_ref().and_then(|(name, _)| names.iter().position(|known| known == name));
            match (joint, pair) {
                (Some(joint), Some((_, Ok(position)))) => wanted[joint] = Some(position),
                _ => advise(
                    Tone::Careful,
                    &format!("\"{part}\" is not a goal; write NAME=RAD, with the name of a joint"),
                ),
            }
        }
        place.put(Monotonic.now().as_ns(), &wanted);
    }
}

/// Makes everything ready, runs, and tells how it came out.
fn run_on<W: Wire + Send>(
    wire: W,
    on: &str,
    options: &RobotRunOptions,
    (layout, joints): (Layout, Joints),
    (controller, image): (MotionController, Option<BusSide>),
) -> Result<Verdict, Failure> {
    let period_ns = options.looping.period;
    let mode = match options.same_cycle {
        true => Mode::SameCycle { reply_within_ns: period_ns / REPLY_WITHIN },
        false => Mode::Pipelined,
    };

    let interruptions = signals::watch(OnUsr1::Summary)?;
    let bus = Bus::bring_up(wire, Some(&layout), Options { mode, period_ns, follow_clock: true }, on)?;
    let place = runs::create(&options.output.out)?;
    let path = place.dir.join(format!("robot{}", runs::RUN_FILE));
    let zero = Zero::now();
    let thread = ThreadChoice {
        cpu: options.cpu,
        priority: options.priority,
        lock_memory: true,
        wait: options.wait,
        causes: !options.no_causes,
    };

    let duration_ns = if options.duration == 0 { u64::MAX } else { options.duration };
    let destination = Destination { path: &path, header: header(options, zero), origin: zero.at };
    let opened = Run::open(destination, setting(&options.looping, thread, duration_ns)).map_err(Failure::from);
    let mut run = place.kept_if_begun(opened)?;
    let (mut seen, mut robot, mut of_bus) = (slots::<RobotSnapshot>(8), slots::<RobotEvent>(1024), slots::<Event>(1024));
    let (mut seen, mut robot, mut of_bus) = (over(&mut seen), over(&mut robot), over(&mut of_bus));
    let ((seen_in, seen_out), (robot_in, robot_out)) = (split(&mut seen), split(&mut robot));
    let (bus_in, bus_out) = split(&mut of_bus);
    let orders = RobotCommands::default();
    let outlets = Outlets { seen: seen_in, robot: robot_in, bus: bus_in };
    let (serving, mut attending) = image.map(served).unzip();
    let task = RobotTask::new(bus, controller, &orders, outlets, DRAW_EVERY_NS / period_ns.max(1) / 2)
        .working(options.looping.work)
        .serving(serving);
    let mut screen = Screen {
        layout: &layout,
        joints: &joints,
        run_file: &path,
        seen: seen_out,
        robot: robot_out,
        bus: bus_out,
        events_lost: 0,
        view: None,
        was_down: false,
        spikes: Vec::new(),
        drawn: zero.at,
        live: Live::new(stdout().is_terminal() && !options.output.json),
        is_quiet: options.output.json,
    };

    let inner = Interruptions::default();
    let mut body = OnGrid { task, has_ports: true };
    let block = BlockPlan { index: 0, load: "idle", releases: u64::MAX };
    let ran = run.block(&block, &mut body, &inner, &mut |recorder| {
        inner.continued.store(interruptions.continued.load(Ordering::Relaxed), Ordering::Relaxed);
        let is_over = Monotonic.now().ns_since(zero.at) >= duration_ns;
        if interruptions.stop.load(Ordering::Relaxed) || is_over {
            orders.stop();
        }
        if interruptions.summary.swap(false, Ordering::Relaxed) {
            orders.reset();
        }

        attending.iter_mut().for_each(BackgroundService::run_once);
        screen.look(recorder);
    });

    screen.look(run.recorder());
    screen.end();
    body.task.into_bus().take_down();
    ran?;
    let _: Account = run.close()?;
    screen.conclude(options)
}

fn header(options: &RobotRunOptions, zero: Zero) -> Header {
    Header {
        series: vec![Series::ReleaseLatency],
        limit: limit(&options.limit, Series::ReleaseLatency),
        most_alarms: most_alarms(&options.limit),
        ..probe::header(&typed(), "robot", &[], zero.unix_s)
    }
}

/// The two ends of an image: in the loop, and beside it.
fn served(image: BusSide) -> (CycleService, BackgroundService) {
    let (_, serving, attending) = serve(image, None);
    (serving, attending)
}

fn slots<T>(count: usize) -> Vec<Slot<T>> {
    (0..count).map(|_| Slot::empty()).collect()
}

#[allow(clippy::expect_used)] // The numbers of slots above are powers of two.
fn over<T: Copy + Send>(slots: &mut [Slot<T>]) -> Ring<'_, T> {
    Ring::over(slots).expect("a power of two")
}

/// What people see while a robot runs.
struct Screen<'s> {
    layout: &'s Layout,
    joints: &'s Joints,
    run_file: &'s Path,
    seen: Consumer<'s, RobotSnapshot>,
    robot: Consumer<'s, RobotEvent>,
    bus: Consumer<'s, Event>,
    /// Events that found no room in the two rings so far.
    events_lost: u64,
    view: Option<RobotView>,
    was_down: bool,
    spikes: Vec<SpikeView>,
    drawn: Instant,
    live: Live,
    /// Nothing but one object is wanted on standard output.
    is_quiet: bool,
}

impl Screen<'_> {
    /// Takes in what has come out of the loop, and shows it when it is time.
    fn look(&mut self, recorder: &mut Recorder) {
        while let Some(event) = self.robot.pop() {
            let joint = self.joints.joints.get(usize::from(event.joint)).map_or("", |joint| &joint.name);
            self.happened(&event.on_bus(&[]), joint, recorder);
        }

        while let Some(event) = self.bus.pop() {
            let device = self.layout.devices.get(usize::from(event.device)).map_or("", |device| &device.name);
            self.happened(&event, device, recorder);
        }

        let lost = self.robot.lost() + self.bus.lost();
        recorder.lose_events(lost - std::mem::replace(&mut self.events_lost, lost));
        let Some(seen) = std::iter::from_fn(|| self.seen.pop()).last() else { return };
        let progress = recorder.progress();
        self.was_down |= seen.status.joints().iter().any(|joint| joint.reason != Reason::None);
        if progress.spikes > self.view.as_ref().map_or(0, |view| view.of_loop.spikes) {
            self.spikes = latest_spikes(self.run_file);
        }

        let mut view = RobotView::new(self.joints, self.layout, &seen);
        view.of_loop = LoopView {
            worst_ns: progress.worst_ns,
            deadline_misses: progress.deadline_misses,
            skipped: progress.skipped,
            spikes: progress.spikes,
        };

        view.spikes.clone_from(&self.spikes);
        self.draw(&view);
        self.view = Some(view);
    }

    fn draw(&mut self, view: &RobotView) {
        let every_ns = if self.live.is_on() { DRAW_EVERY_NS } else { LINE_EVERY_NS };
        let now = Monotonic.now();
        if now.ns_since(self.drawn) < every_ns {
            return;
        }

        self.drawn = now;
        if self.live.is_on() {
            self.live.draw(&words::table(view, ROWS, show::letters()));
        } else {
            self.tell(&words::line(view, show::letters()));
        }
    }

    fn tell(&mut self, line: &str) {
        if self.is_quiet {
            advise(Tone::Faint, line);
        } else {
            self.live.above(line);
        }
    }

    /// On the screen, and in the run file; one that cannot be written ends the run by itself.
    fn happened(&mut self, event: &Event, device: &str, recorder: &mut Recorder) {
        self.tell(&words::event(event, device));
        let _ = recorder.event(event, device);
    }

    fn end(&mut self) {
        self.live.clear();
    }

    /// How everything was at the end, the loop's figures, and the exit status.
    fn conclude(self, options: &RobotRunOptions) -> Result<Verdict, Failure> {
        let kept = runs::read(self.run_file, None)?;
        let Some(mut view) = self.view else { return Ok(Verdict::CannotTell) };
        view.spikes = latest_spikes(self.run_file);
        if options.output.json {
            let all = json!({ "schema": "onbeat.robot/1", "robot": view, "run": kept.summary });
            crate::term::say(Tone::Plain, &serde_json::to_string(&all)?);
        } else {
            for (tone, line) in words::table(&view, ROWS, show::letters()) {
                crate::term::say(tone, &line);
            }
            crate::term::say(Tone::Plain, "");
            show::summary(&kept, show::Extent::default(), None)?;
        }

        let in_order = view.phase == Phase::AtRest && view.rung != Rung::SafeStop && !self.was_down;
        Ok(if in_order { verdict(kept.summary.verdict.outcome) } else { Verdict::Broken })
    }
}

/// The latest spikes in a run file that is being written; none when it cannot be read now.
fn latest_spikes(path: &Path) -> Vec<SpikeView> {
    let Ok(file) = RunFile::read(path) else { return Vec::new() };
    let latest = file.spikes.iter().rev().take(SPIKES);
    latest
        .map(|spike| {
            let explanation = Explanation::of_causes(spike.causes.clone());
            let cause = explanation.main().map_or_else(|| "cause not looked for".to_owned(), Cause::words);
            SpikeView { t: spike.t, late_ns: spike.wakeup_latency_ns, cause }
        })
        .collect()
}
