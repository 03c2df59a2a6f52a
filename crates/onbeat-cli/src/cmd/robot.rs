//! `onbeat robot run`: moves a robot and shows it in the terminal.

use std::io::{BufRead, IsTerminal, stdin, stdout};
use std::path::Path;
use std::thread;

use onbeat::bench::background_load::BackgroundLoad;
use onbeat::bench::run_tuning::{RunTuning, TunedHost};
use onbeat::probe::{self, Destination, Origin, Run};
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};
use onbeat::record::{Header, Series};
use onbeat::thread::Grant;
use onbeat_control::{BusSide, Image, ImageSettings, group_id};
use onbeat_ethercat::event::Event;
use onbeat_host::foreign;
use onbeat_robot::bus::{BusOptions, ExchangeMode, InProcess, Packets, Wire};
use onbeat_robot::cycle_messages::CycleMessages;
use onbeat_robot::live_view::LiveView;
use onbeat_robot::motion::{
    CommanderGoals, GoalSlot, MotionController, Robot as Joints, RobotView, Trajectory,
};
use onbeat_robot::session::{RobotFile, Session, SessionObserver, SessionOutcome, SessionPlan};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::SECOND_NS;
use onbeat_rt::{Clock, Instant};
use onbeat_segment::Link;
use serde_json::json;

use super::carrier::carrier;
use super::failure::robot::RobotFailure;
use super::log;
use super::robot_view;
use super::run_tuning::{self, TunedLoop};
use super::{
    ExitVerdict, Failure, ThreadChoice, check_cpu, limit, most_alarms, repair_first, runs, setting,
    show, typed, verdict,
};
use crate::cli_robot::{Robot, RobotRunOptions, TrajectoryWord};
use crate::cmd::Common;
use crate::signals::{self, EndOf, OnUsr1};
use crate::term::{Live, Tone, advise, columns, robot as words, wrapped};

/// Rows of devices in the live table.
const ROWS: usize = 8;
/// The live table is drawn this often, and lines of a log are written this often, in ns.
const DRAW_EVERY_NS: u64 = 250_000_000;
const LINE_EVERY_NS: u64 = SECOND_NS;
/// Longest period, in ns: a robot is stopped by its cycles, and the next one must come soon.
const LONGEST_PERIOD_NS: u64 = SECOND_NS;
/// A reply of the same cycle may take at most this fraction of the period.
const REPLY_WITHIN: u64 = 2;

pub(crate) fn run(command: &Robot) -> Result<ExitVerdict, Failure> {
    match command {
        Robot::Run(options) => run_robot(options),
        Robot::Goal(options) => super::robot_goal::give(options),
    }
}

fn run_robot(options: &RobotRunOptions) -> Result<ExitVerdict, Failure> {
    check_cpu(options.cpu)?;
    super::load::look_at_place(
        std::slice::from_ref(&options.load),
        options.load_dir.as_deref(),
        "--load-dir",
    )?;
    if options.looping.period > LONGEST_PERIOD_NS {
        return Err(
            RobotFailure::LongPeriod { period_s: options.looping.period as f64 / 1e9 }.into()
        );
    }

    let file = RobotFile::read(&options.file, options.looping.period)?;
    for warning in file.description.warnings() {
        advise(Tone::Careful, &wrapped(&warning, 80));
    }
    let word = word_of(options, &file.robot)?;
    let name = robot_view::shared_name(options);
    let image = image(name.as_deref(), options, &file, &word)?;
    let tuning = run_tuning::resolved(&TunedLoop {
        tuning: options.tuning.as_ref(),
        cpu: options.cpu,
        priority: options.priority,
        period_ns: options.looping.period,
    })?;
    let typed = word.to_string();
    let controller =
        MotionController::new(&file.robot, trajectory(word, &file.robot, image.as_ref())?);
    let messages = messages(name.as_deref(), &file, options.looping.period)?;
    let live_view = robot_view::open(options, &file, name.as_deref())?;
    repair_first()?;
    let log = match (&options.log, &options.name) {
        (Some(path), Some(name)) => {
            // Signals are not watched yet: they end the process.
            let never = std::sync::atomic::AtomicBool::new(false);
            Some((path, log::of_robot(path, name, &never)?))
        }
        _ => None,
    };

    let ran = move_joints(
        options,
        &file,
        Motion { controller, trajectory: typed, image, messages, live_view, tuning, wire: None },
    );
    // The channel has ended with the run, whatever its outcome, and with it the log.
    let Some((path, gateway)) = log else { return ran };
    let account = gateway.finish();

    // A run that failed is reported before a log that did.
    let verdict = ran?;
    advise(Tone::Plain, &log::sentence(path, &account?));
    Ok(verdict)
}

/// Moves the joints, simulated or behind a network interface.
fn move_joints(
    options: &RobotRunOptions,
    file: &RobotFile,
    motion: Motion,
) -> Result<ExitVerdict, Failure> {
    match &options.interface {
        Some(name) => {
            let packets = Packets::open_by(name, options.wire.unwrap_or_default())?;
            let over = Grant::given("wire", packets.words());
            if packets.is_fallback() {
                let words = format!("frames on {name} pass {}", packets.words());
                advise(Tone::Careful, &wrapped(&words, columns()));
            }

            run_on(packets, name, options, file, Motion { wire: Some(over), ..motion })
        }
        None => {
            let wire = InProcess::on_clock(Link::from_description(&file.description)?, Monotonic);
            run_on(wire, "the simulated segment", options, file, motion)
        }
    }
}

/// What moves the robot, the image that other processes see of it, and what is made on the host.
struct Motion {
    controller: MotionController,
    /// As typed.
    trajectory: String,
    image: Option<BusSide>,
    messages: Option<CycleMessages>,
    live_view: Option<LiveView>,
    tuning: Option<RunTuning>,
    /// How frames pass.
    wire: Option<Grant>,
}

fn word_of(options: &RobotRunOptions, joints: &Joints) -> Result<TrajectoryWord, RobotFailure> {
    let of_file = || joints.settings.trajectory.parse().map_err(RobotFailure::Trajectory);
    options.trajectory.clone().map_or_else(of_file, Ok)
}

/// Creates the process image for other processes, under the name that was given. The outputs are
/// the robot's. Joints are in it where they are commanded through it.
fn image(
    name: Option<&str>,
    options: &RobotRunOptions,
    file: &RobotFile,
    word: &TrajectoryWord,
) -> Result<Option<BusSide>, Failure> {
    let Some(name) = name else { return Ok(None) };
    let robot = &file.robot;
    let joints = if *word == TrajectoryWord::Commander { robot.commanded() } else { Vec::new() };
    let settings = ImageSettings {
        joints,
        goal_age_ns: robot.settings.goal_age_ns,
        group: options.group.as_deref().map(group_id).transpose()?,
        ..ImageSettings::default()
    };
    let mut image = Image::create(name, &file.layout, settings)?;
    image.keep_outputs()?;
    Ok(Some(image))
}

/// Creates the ring of cycles for other processes, under the same name.
fn messages(
    name: Option<&str>,
    file: &RobotFile,
    period_ns: u64,
) -> Result<Option<CycleMessages>, Failure> {
    let Some(name) = name else { return Ok(None) };
    Ok(Some(CycleMessages::create(name, &file.layout, &file.robot.commanded(), period_ns)?))
}

pub(super) fn trajectory(
    word: TrajectoryWord,
    joints: &Joints,
    image: Option<&BusSide>,
) -> Result<Trajectory, Failure> {
    Ok(match word {
        TrajectoryWord::Hold => Trajectory::hold(),
        TrajectoryWord::Sine => Trajectory::sine(joints)?,
        TrajectoryWord::Gait => Trajectory::gait(joints)?,
        TrajectoryWord::Csv(path) => {
            let failed = |source| Common::File { what: "read", path: path.clone(), source };
            let text = foreign::text(&path, foreign::MOST_BYTES_BY_HAND).map_err(failed)?;
            Trajectory::csv(&text, joints)
                .map_err(|source| RobotFailure::Played { path, source })?
        }
        TrajectoryWord::Goal => {
            let place = GoalSlot::default();
            let names: Vec<String> = joints.joints.iter().map(|joint| joint.name.clone()).collect();
            let commanded = place.clone();
            let following = thread::Builder::new().name("onbeat-goals".to_owned());
            let started = following.spawn(move || follow_lines(&names, commanded));
            started
                .map_err(|source| Common::Thread { what: "goals from standard input", source })?;

            Trajectory::goal(Box::new(place), joints)
        }
        TrajectoryWord::Commander => {
            let goals = image.and_then(BusSide::goals).ok_or(RobotFailure::NoImageName)?;
            Trajectory::goal(Box::new(CommanderGoals::new(goals)), joints)
        }
    })
}

/// Follows goals in lines of standard input: `NAME=RAD, NAME=RAD`. Joints without a goal stay where
/// they are.
fn follow_lines(names: &[String], mut place: GoalSlot) {
    let mut wanted = vec![None; names.len()];
    for line in stdin().lock().lines().map_while(Result::ok) {
        for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let pair = part
                .split_once('=')
                .map(|(name, number)| (name.trim(), number.trim().parse::<f64>()));
            let joint =
                pair.as_ref().and_then(|(name, _)| names.iter().position(|known| known == name));

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

/// Brings up the bus, runs the robot, and shows how it ended.
fn run_on<W: Wire + Send>(
    wire: W,
    on: &str,
    options: &RobotRunOptions,
    file: &RobotFile,
    motion: Motion,
) -> Result<ExitVerdict, Failure> {
    let period_ns = options.looping.period;
    let mode = match options.same_cycle {
        true => ExchangeMode::SameCycle { reply_within_ns: period_ns / REPLY_WITHIN },
        false => ExchangeMode::Pipelined,
    };

    let interruptions = signals::watch(OnUsr1::Summary)?;
    // Before the devices are brought up: from then on the cycles must not wait for anything.
    let carrier = carrier(&options.load, options.load_dir.as_deref())?;
    let load = BackgroundLoad::start(&options.load, carrier)?;
    let tuned = motion.tuning.as_ref().map(RunTuning::make).transpose()?;
    for words in tuned.iter().flat_map(TunedHost::words) {
        advise(Tone::Careful, &wrapped(words, columns()));
    }

    let _stopping = EndOf::orderly("the robot's stop");
    let session =
        Session::bring_up(wire, on, file, BusOptions { mode, period_ns, follow_clock: true })?;

    let dir = NewRunDir::create(&options.output.out)?;
    let path = dir.path().join(format!("robot{RUN_FILE_ENDING}"));
    let origin = Origin::now();
    let thread = ThreadChoice {
        cpu: options.cpu,
        priority: options.priority,
        lock_memory: true,
        wait: options.wait,
        causes: !options.no_causes,
    };

    let duration_ns = if options.duration == 0 { u64::MAX } else { options.duration };

    let mut setting = setting(&options.looping, thread, duration_ns);
    let mut header = header(options, origin);
    header.grants.extend(motion.wire);
    if let (Some(tuning), Some(tuned)) = (&motion.tuning, &tuned) {
        setting = tuning.tuned(&setting);
        header.grants.extend_from_slice(tuned.grants());
    }

    let destination = Destination { path: &path, header, origin: origin.at };
    let opened = Run::open(destination, setting).map_err(Failure::from);
    let run = runs::keep_if_begun(&dir, opened)?;

    let plan = SessionPlan {
        controller: motion.controller,
        trajectory: &motion.trajectory,
        image: motion.image,
        messages: motion.messages,
        work_ns: options.looping.work,
        load: Some(load),
        view_every_ns: DRAW_EVERY_NS / 2,
        duration_ns,
    };

    let live = Live::new(stdout().is_terminal() && !options.output.json);
    let live_view = motion.live_view;
    let mut screen = Screen { drawn: origin.at, live, is_quiet: options.output.json, live_view };
    let ran = session.run(run, plan, &interruptions, &mut screen);
    screen.live.clear();
    screen.live_view.into_iter().for_each(robot_view::finish);
    let undone = tuned.map_or(Ok(()), TunedHost::undo);
    let outcome = ran?;
    undone?;
    conclude(options, &path, &outcome)
}

fn header(options: &RobotRunOptions, origin: Origin) -> Header {
    Header {
        series: vec![Series::ReleaseLatency],
        limit: limit(&options.limit, Series::ReleaseLatency),
        most_alarms: most_alarms(&options.limit),
        ..probe::header(&typed(), "robot", &[], origin.unix_s)
    }
}

/// The terminal while a robot runs: a live table, or lines of a log.
struct Screen {
    drawn: Instant,
    live: Live,
    /// Standard output is for one JSON object alone.
    is_quiet: bool,
    live_view: Option<LiveView>,
}

impl Screen {
    fn line(&mut self, line: &str) {
        if self.is_quiet {
            advise(Tone::Faint, line);
        } else {
            self.live.above(line);
        }
    }
}

impl SessionObserver for Screen {
    fn view(&mut self, view: &RobotView) {
        self.live_view.iter().for_each(|browsers| browsers.show(view));
        let notices = self.live_view.iter().flat_map(LiveView::take_notices).collect::<Vec<_>>();
        for notice in notices {
            self.line(&notice.to_string());
        }
        let every_ns = if self.live.is_on() { DRAW_EVERY_NS } else { LINE_EVERY_NS };
        let now = Monotonic.now();
        if now.ns_since(self.drawn) < every_ns {
            return;
        }

        self.drawn = now;
        if self.live.is_on() {
            self.live.draw(&words::table(view, ROWS, show::letters()));
        } else {
            self.line(&words::line(view, show::letters()));
        }
    }

    fn event(&mut self, event: &Event, device: &str) {
        self.live_view.iter().for_each(|browsers| browsers.add(event, device));
        self.line(&words::event(event, device));
    }

    fn load(&mut self, words: &str) {
        self.line(words);
    }

    fn ring(&mut self, words: &str) {
        self.line(words);
    }
}

/// Shows the last view and the figures of the loop, and returns the verdict.
fn conclude(
    options: &RobotRunOptions,
    path: &Path,
    outcome: &SessionOutcome,
) -> Result<ExitVerdict, Failure> {
    let reported = runs::reported(path, None, None)?;
    let Some(view) = &outcome.view else { return Ok(ExitVerdict::CouldNot) };

    if options.output.json {
        let all = json!({ "schema": "onbeat.robot/1", "robot": view, "run": reported.summary });
        crate::term::say(Tone::Plain, &serde_json::to_string(&all)?);
    } else {
        for (tone, line) in words::table(view, ROWS, show::letters()) {
            crate::term::say(tone, &line);
        }
        crate::term::say(Tone::Plain, "");
        for (tone, line) in crate::term::motion::ending(&outcome.motion) {
            crate::term::say(tone, &line);
        }
        crate::term::say(Tone::Plain, "");
        show::summary(&reported, show::SummaryExtent::default(), None)?;
    }

    Ok(if outcome.ended_in_order() {
        verdict(reported.summary.outcome())
    } else {
        ExitVerdict::Broken
    })
}
