//! `onbeat robot run`: from options to a session.

use std::sync::atomic::AtomicBool;

use onbeat::bench::background_load::BackgroundLoad;
use onbeat::bench::run_tuning::{RunTuning, TunedHost};
use onbeat::probe::{self, Destination, Origin, Run};
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};
use onbeat::record::{Header, Series};
use onbeat::thread::Grant;
use onbeat_control::group_id;
use onbeat_robot::bus::{BusOptions, ExchangeMode, InProcess, Packets, Wire};
use onbeat_robot::live_view::LiveView;
use onbeat_robot::motion::MotionController;
use onbeat_robot::session::{
    AssemblyError, RobotFile, Session, SessionPlan, SharedRobot, TrajectoryWord,
};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::SECOND_NS;
use onbeat_segment::Link;

use super::options::RobotRunOptions;
use super::screen::{self, DRAW_EVERY_NS, Screen};
use super::{typed_goals, view};
use crate::cmd::carrier::carrier;
use crate::cmd::failure::robot::RobotFailure;
use crate::cmd::looping::{ThreadChoice, check_cpu, limit, most_alarms, setting};
use crate::cmd::message::log;
use crate::cmd::repair::repair_first;
use crate::cmd::run_tuning::{self, TunedLoop};
use crate::cmd::{ExitVerdict, Failure, load, runs, typed};
use crate::signals::{self, EndOf, OnUsr1};
use crate::term::{Tone, advise, columns, wrapped};

/// Longest period, in ns: a robot is stopped by its cycles, and the next one must come soon.
const LONGEST_PERIOD_NS: u64 = SECOND_NS;
/// A reply of the same cycle may take at most this fraction of the period.
const REPLY_WITHIN: u64 = 2;

pub(super) fn run(options: &RobotRunOptions) -> Result<ExitVerdict, Failure> {
    check_cpu(options.cpu)?;
    let loads = std::slice::from_ref(&options.load);
    load::check_load_directory(loads, options.load_dir.as_deref(), "--load-dir")?;
    let period_ns = options.looping.period;
    if period_ns > LONGEST_PERIOD_NS {
        return Err(RobotFailure::LongPeriod { period_s: period_ns as f64 / 1e9 }.into());
    }

    let file = RobotFile::read(&options.file, period_ns)?;
    let of_period = file.layout.at_period(period_ns).other_interpolation(period_ns);
    let of_files = file.description.warnings().into_iter();
    warn(of_files.chain(of_period).chain(file.robot.far_travel()));
    let of_file = || TrajectoryWord::of_robot(&file.robot).map_err(AssemblyError::Word);
    let word = options.trajectory.clone().map_or_else(of_file, Ok)?;
    let name = view::shared_name(options);
    let group = options.group.as_deref().map(group_id).transpose()?;
    let shared = SharedRobot::create(name.as_deref(), &file, &word, group, period_ns)?;
    let tuning = run_tuning::resolved(&TunedLoop {
        tuning: options.tuning.as_ref(),
        cpu: options.cpu,
        priority: options.priority,
        period_ns,
    })?;
    let typed = word.to_string();
    let goals = (word == TrajectoryWord::Goal).then(|| typed_goals::follow(&file.robot));
    let trajectory = word.start(&file.robot, shared.image.as_ref(), goals.transpose()?)?;
    let controller = MotionController::new(&file.robot, trajectory);
    let live_view = view::open(options, &file, name.as_deref())?;
    repair_first()?;
    let log = match (&options.log, &options.name) {
        (Some(path), Some(name)) => {
            // Signals are not watched yet: they end the process.
            let never = AtomicBool::new(false);
            Some((path, log::of_robot(path, name, &never)?))
        }
        _ => None,
    };

    let ran = move_joints(
        options,
        &file,
        Motion { controller, trajectory: typed, shared, live_view, tuning, wire: None },
    );
    // The channel has ended with the run, whatever its outcome, and with it the log.
    let Some((path, gateway)) = log else { return ran };
    let account = gateway.finish();

    // A run that failed is reported before a log that did.
    let verdict = ran?;
    advise(Tone::Plain, &log::sentence(path, &account?));
    Ok(verdict)
}

fn warn(sentences: impl Iterator<Item = String>) {
    for sentence in sentences {
        advise(Tone::Careful, &wrapped(&sentence, 80));
    }
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
            // What simulated drives have of themselves, and real ones may not.
            let increments = file.description.assumed_increments();
            let of_layout =
                file.layout.without_mode().into_iter().chain(file.layout.alike_drives());
            let of_robot = file.robot.default_limits();
            warn(increments.into_iter().chain(of_layout).chain(of_robot));
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

/// What moves the robot, the view that other processes have of it, and what is made on the host.
struct Motion {
    controller: MotionController,
    /// As typed.
    trajectory: String,
    shared: SharedRobot,
    live_view: Option<LiveView>,
    tuning: Option<RunTuning>,
    /// How frames pass.
    wire: Option<Grant>,
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
    let carrier = carrier(options.load_dir.as_deref())?;
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
        header.grants.extend_from_slice(&tuned.grants);
    }

    let destination = Destination { path: &path, header, origin: origin.at };
    let opened = Run::open(destination, setting).map_err(Failure::from);
    let run = runs::keep_if_begun(&dir, opened)?;

    let plan = SessionPlan {
        controller: motion.controller,
        trajectory: &motion.trajectory,
        image: motion.shared.image,
        messages: motion.shared.messages,
        work_ns: options.looping.work,
        load: Some(load),
        view_every_ns: DRAW_EVERY_NS / 2,
        duration_ns,
    };

    let mut screen = Screen::new(origin.at, options.output.json, motion.live_view);
    let ran = session.run(run, plan, &interruptions, &mut screen);
    screen.finish();
    let undone = tuned.map_or(Ok(()), TunedHost::undo);
    let outcome = ran?;
    undone?;
    screen::conclude(options, &path, &outcome)
}

fn header(options: &RobotRunOptions, origin: Origin) -> Header {
    Header {
        series: vec![Series::ReleaseLatency],
        limit: limit(&options.limit, Series::ReleaseLatency),
        most_alarms: most_alarms(&options.limit),
        ..probe::header(&typed(), "robot", &[], origin.unix_s)
    }
}
