//! One file per command: turns options into library calls, and results into words.

pub(crate) mod bench;
pub(crate) mod bus;
mod bus_scan;
pub(crate) mod cell;
pub(crate) mod compare;
pub(crate) mod export;
mod export_formats;
mod failure;
pub(crate) mod gate;
pub(crate) mod generate;
mod host_settings;
pub(crate) mod import;
pub(crate) mod inject;
pub(crate) mod load;
mod loads;
pub(crate) mod measure;
mod measure_tuning;
mod queue;
pub(crate) mod repair;
pub(crate) mod report;
mod resume;
mod resume_bench;
pub(crate) mod robot;
mod robot_goal;
pub(crate) mod runs;
mod seconds;
pub(crate) mod segment;
mod segment_orders;
mod show;
mod so_far;
mod spike;
pub(crate) mod tune;
pub(crate) mod vm;
mod vm_lab;
mod vm_list;
mod vm_run;
mod whole;

use onbeat::host;
use onbeat::probe::Setting;
use onbeat::record::{LimitNote, Series, SpikeLimit, interval_ns_for};
use onbeat::report::{JudgeBy, Outcome};
use onbeat::thread::ThreadRequest;
use onbeat_rt::Wait;

pub(crate) use failure::Failure;

use crate::options::{LimitOn, LimitOptions, LoopOptions};

/// The outcome of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    Broken,
    CannotTell,
}

<<<<<<< HEAD
=======
/// Why a command could not run: one sentence, exit status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("CPU {cpu} does not exist or is offline; this machine has CPUs {online}")]
    NoSuchCpu { cpu: u32, online: String },
    #[error("cannot watch process {pid}: {source}; --beside takes the number of one that runs")]
    NoProcess { pid: i32, source: io::Error },
    #[error("cannot {what} {path}: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "cannot write {path}: {source}; `onbeat report` writes the page elsewhere by --html FILE, and none by --brief"
    )]
    Page { path: PathBuf, source: io::Error },
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error("{run} has no such cell; it has {cells}")]
    NoCell { run: String, cells: String },
    #[error(
        "{path} was measured under one load; `compare` takes two runs, or one with several loads (`measure PROBE --loads idle,paper`)"
    )]
    OneLoad { path: PathBuf },
    #[error("none of the runs has the series {series}; they have {has}")]
    NoSeries { series: &'static str, has: String },
    #[error("{path} exists and is not empty; choose another place with -o")]
    Taken { path: PathBuf },
    #[error("cannot import {path}: {source}")]
    Import { path: PathBuf, source: onbeat::import::Error },
    #[error("cannot watch for Ctrl-C: {0}")]
    Signals(io::Error),
    #[error(
        "cannot start a thread for {what}: {source}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread { what: &'static str, source: io::Error },
    #[error("cannot write to standard output: {0}; the result is incomplete")]
    Output(io::Error),
    #[error("cannot find the program file of onbeat: {0}; it starts itself for cells and loads")]
    Myself(io::Error),
    #[error("cannot print the result: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    #[error("load {load}: {source}")]
    Load { load: Load, source: RunningError },
    #[error(transparent)]
    Measurement(#[from] MeasurementError),
    #[error("a load cannot write in {path}: {source}; name another directory by {option}")]
    LoadPlace { path: PathBuf, option: &'static str, source: io::Error },
    #[error(transparent)]
    Supervise(#[from] onbeat::load::Error),
    #[error(transparent)]
    CellStart(#[from] CellStartError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error("{0}, or add --wait to start then")]
    Occupied(TuneError),
    #[error(
        "{dir} was begun {then} and cannot be resumed with {now}; leave out {option} to resume it, or start a new bench without --resume"
    )]
    ResumedOption { dir: PathBuf, option: String, then: String, now: String },
    #[error(
        "{dir} cannot be resumed: this version of onbeat does not accept its command `{command}`; start a new bench without --resume"
    )]
    ResumedCommand { dir: PathBuf, command: String },
    #[error(transparent)]
    Turns(#[from] TurnsError),
    #[error("the load {load} is listed twice; list each load once in --loads")]
    LoadTwice { load: Load },
    #[error(
        "--allowed-jitter judges a sweep of the CPUs' share (0..100/10); of other sweeps the table shows the jitter"
    )]
    JitterOfGroups,
    #[error(transparent)]
    MadePage(#[from] PageError),
    #[error(transparent)]
    Inject(#[from] onbeat::inject::Error),
    #[error(transparent)]
    Disturb(#[from] DisturbError),
    #[error("cannot start onbeat again: {0}; it is stopped in a process of its own")]
    Again(io::Error),
    #[error(transparent)]
    Tune(#[from] TuneError),
    #[error(transparent)]
    TuneCommand(#[from] tune::TuneFailure),
    #[error(transparent)]
    Vm(#[from] vm::VmFailure),
    #[error(transparent)]
    Spike(#[from] spike::NoSpike),
    #[error(transparent)]
    Segment(#[from] onbeat_segment::DescriptionError),
    #[error(transparent)]
    Carrier(#[from] onbeat_ethercat::carrier::CarrierError),
    #[error(transparent)]
    Control(#[from] onbeat_control::ControlError),
    #[error(transparent)]
    Bus(#[from] bus::BusFailure),
    #[error(transparent)]
    BringUp(#[from] onbeat_robot::bus::BusError),
    #[error(transparent)]
    Robot(#[from] onbeat_robot::motion::RobotError),
    #[error(transparent)]
    RobotFile(#[from] onbeat_robot::session::RobotFileError),
    #[error("the robot file's trajectory: {0}")]
    Trajectory(String),
    #[error(transparent)]
    CannotPlay(#[from] onbeat_robot::motion::TrajectoryError),
    #[error("{path}: {source}")]
    Played { path: PathBuf, source: onbeat_robot::motion::TrajectoryError },
    #[error("--trajectory commander follows goals through the image; add --name NAME")]
    NoImageName,
    #[error("\"{0}\" is not a goal; write JOINT=RAD, such as \"left knee=0.3\"")]
    NoGoal(String),
    #[error(
        "`{what}` has no bus whose events could be counted; leave --limit-on events=N out, or {instead}"
    )]
    NoEvents { what: String, instead: &'static str },
    #[error("a period of {period_s} s is too long to stop a robot in time; use at most 1s")]
    LongPeriod { period_s: f64 },
    #[error("the robot refused the goal: it is outside the travel of a joint")]
    GoalRefused,
    #[error(
        "{name} is in a safe stop: {why}; once the cause is gone, `kill -USR1 {pid}` resets it"
    )]
    SafelyStopped { name: String, why: String, pid: u32 },
    #[error(
        "the robot did not accept the goal within {within_s} s: it is not running, or in a safe stop; `onbeat robot run` shows which"
    )]
    GoalNotSeen { within_s: u64 },
    #[error("--device chooses among the devices of an ESI file (.xml), which {path} is not")]
    NoEsi { path: PathBuf },
    #[error(
        "the segment is a ring; name the interface at its far end by --second, or create both by --veth"
    )]
    NoSecond,
    #[error(
        "the segment is not a ring and has no far end; leave --second out, or set `ring = true` in its file"
    )]
    NoRing,
    #[error("no segment is running{on}; `onbeat segment run` starts one (looked for in {place})")]
    NoSegment { on: String, place: PathBuf },
    #[error("several segments are running, on {0}; choose one by --on")]
    SeveralSegments(String),
    #[error("cannot reach the segment on {on}: {source}")]
    NotAsked { on: String, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Setting(#[from] onbeat::bench::host_settings::SettingRefusal),
    #[error(transparent)]
    Worth(#[from] onbeat::report::worth::NoWorth),
    #[error("\"{name}\" is too long for a pair of interfaces; use at most {most} letters")]
    LongName { name: String, most: usize },
    #[error("cannot run `{line}`: {source}. It is part of iproute2; --interface does not need it")]
    Program { line: String, source: io::Error },
    #[error("`{line}` failed: {why}")]
    ProgramSays { line: String, why: String },
}

impl From<onbeat::record::WriteError> for Failure {
    fn from(why: onbeat::record::WriteError) -> Self {
        Self::Run(why.into())
    }
}

>>>>>>> lab
/// Returns the verdict of a judged limit; a run without a limit passes.
pub(crate) fn verdict(outcome: Option<Outcome>) -> Verdict {
    match outcome.map_or(0, Outcome::exit_status) {
        0 => Verdict::Holds,
        1 => Verdict::Broken,
        _ => Verdict::CannotTell,
    }
}

/// Returns the command as typed, for the run file.
pub(crate) fn typed() -> Vec<String> {
    let program = std::iter::once("onbeat".to_owned());
    program
        .chain(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
        .collect()
}

/// Returns the requested limit; `main` is the primary series of the run.
pub(crate) fn limit(options: &LimitOptions, main: Series) -> Option<LimitNote> {
    let series = |on: &LimitOn| match on {
        LimitOn::Main => Some(main),
        LimitOn::Release => Some(Series::ReleaseLatency),
        LimitOn::Period => Some(Series::ObservedPeriod),
        LimitOn::Response => Some(Series::ResponseTime),
        LimitOn::Events(_) => None,
    };

    let on = options.limit_on.iter().rev().find_map(series).unwrap_or(main);
    options.limit.map(|limit_ns| LimitNote { limit_ns, at: options.at, on })
}

/// Returns the allowed alarms of bus and robot, when they were limited.
pub(crate) fn most_alarms(options: &LimitOptions) -> Option<u64> {
    let most = |on: &LimitOn| if let LimitOn::Events(most) = on { Some(*most) } else { None };
    options.limit_on.iter().rev().find_map(most)
}

/// Returns both limits, for a run that is read again.
pub(crate) fn asked(options: &LimitOptions, main: Series) -> JudgeBy {
    JudgeBy { limit: limit(options, main), most_alarms: most_alarms(options) }
}

pub(crate) fn check_cpu(cpu: Option<u32>) -> Result<(), Failure> {
    let online = host::online_cpus();
    match cpu {
        Some(cpu) if !online.contains(&cpu) => {
            let online = online.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            Err(Failure::NoSuchCpu { cpu, online })
        }
        _ => Ok(()),
    }
}

/// The options of the loop's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadChoice {
    pub(crate) cpu: Option<u32>,
    pub(crate) priority: u32,
    pub(crate) lock_memory: bool,
    pub(crate) wait: Wait,
    pub(crate) causes: bool,
}

pub(crate) fn setting(options: &LoopOptions, thread: ThreadChoice, duration_ns: u64) -> Setting {
    let dma_latency_us = options.dma_latency.map(|ns| i32::try_from(ns / 1000).unwrap_or(i32::MAX));

    Setting {
        period_ns: options.period,
        deadline_ns: options.deadline.unwrap_or(options.period),
        work_ns: options.work,
        delay_ns: 0,
        wait: thread.wait,
        on_overrun: options.on_overrun,
        phase: options.phase,
        thread: ThreadRequest {
            fifo: (thread.priority > 0).then_some(thread.priority),
            cpu: thread.cpu,
            lock_memory: thread.lock_memory,
            dma_latency_us,
        },
        warmup: WARMUP_CYCLES,
        interval_ns: interval_ns_for(duration_ns),
        spike_limit: options.spikes_over.map_or(SpikeLimit::TenTimesMedian, SpikeLimit::Above),
        causes: thread.causes,
        lockdown: options.lockdown,
    }
}

/// The first cycles of a block run with cold caches, and are in no series.
const WARMUP_CYCLES: u64 = 10;

/// Undoes the changes of an interrupted onbeat before anything else.
pub(crate) fn repair_first() -> Result<(), Failure> {
    for sentence in repair::put_back(onbeat_tune::UndoMode::Careful)?.0 {
        crate::term::advise(crate::term::Tone::Careful, &sentence);
    }
    Ok(())
}
