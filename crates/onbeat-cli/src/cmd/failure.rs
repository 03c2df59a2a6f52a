//! Why a command could not run. What only one command can meet is an enum of its own.

mod bus;
mod clock;
mod compare;
mod gateway;
mod import;
mod loads;
mod measure_tuning;
mod message;
mod net;
mod robot;
mod robot_goal;
mod segment;
mod segment_orders;
mod spike;
mod study;
mod tune;
mod vm;
mod watch;

use std::io;
use std::path::PathBuf;

use onbeat::bench::background_load::BackgroundLoadError;
use onbeat::bench::cell_start::CellStartError;
use onbeat::bench::conduct::BenchError;
use onbeat::bench::measurement::MeasurementError;
use onbeat::bench::run_tuning::RunTuningError;
use onbeat::bench::turns::TurnsError;
use onbeat::load::{Load, RunningError};
use onbeat::probe::RunError;
use onbeat::probe::disturbed::DisturbError;
use onbeat::record::RunFileError;
use onbeat::record::run_dir::RunDirError;
use onbeat::report::page::PageError;
use onbeat_tune::TuneError;

use crate::signals::SignalError;

pub(crate) use bus::BusFailure;
pub(crate) use clock::ClockFailure;
pub(crate) use compare::CompareFailure;
pub(crate) use gateway::{GatewayFailure, PROGRAM};
pub(crate) use import::ImportFailure;
pub(crate) use loads::LoadsFailure;
pub(crate) use measure_tuning::MeasureTuningFailure;
pub(crate) use message::MessageFailure;
pub(crate) use net::NetFailure;
pub(crate) use robot::RobotFailure;
pub(crate) use robot_goal::GoalFailure;
pub(crate) use segment::SegmentFailure;
pub(crate) use segment_orders::SegmentOrderFailure;
pub(crate) use spike::{NoSpike, pasted};
pub(crate) use study::StudyFailure;
pub(crate) use tune::TuneFailure;
pub(crate) use vm::VmFailure;
pub(crate) use watch::WatchFailure;

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
    #[error("no run is named")]
    NoRunNamed,
    #[error(
        "{runs} runs are one side against --baseline; a limit judges one run, so that none hides behind the others: name one"
    )]
    LimitOfSide { runs: usize },
    #[error(transparent)]
    Signals(#[from] SignalError),
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
    #[error(transparent)]
    BackgroundLoad(#[from] BackgroundLoadError),
    #[error(transparent)]
    RunTuning(#[from] RunTuningError),
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
    TuneCommand(#[from] TuneFailure),
    #[error(transparent)]
    Vm(#[from] VmFailure),
    #[error(transparent)]
    RunClock(#[from] ClockFailure),
    #[error(transparent)]
    Study(#[from] StudyFailure),
    #[error(transparent)]
    Place(#[from] onbeat_lab::vm::PlaceError),
    #[error(transparent)]
    Spike(#[from] NoSpike),
    #[error(transparent)]
    Segment(#[from] onbeat_segment::DescriptionError),
    #[error(transparent)]
    Carrier(#[from] onbeat_ethercat::carrier::CarrierError),
    #[error(transparent)]
    Control(#[from] onbeat_control::ControlError),
    #[error(transparent)]
    Ring(#[from] onbeat_control::RingError),
    #[error(transparent)]
    Message(#[from] MessageFailure),
    #[error(transparent)]
    Gateway(#[from] GatewayFailure),
    #[error(transparent)]
    Bus(#[from] BusFailure),
    #[error(transparent)]
    BringUp(#[from] onbeat_robot::bus::BusError),
    #[error(transparent)]
    Robot(#[from] onbeat_robot::motion::RobotError),
    #[error(transparent)]
    RobotFile(#[from] onbeat_robot::session::RobotFileError),
    #[error(transparent)]
    CannotPlay(#[from] onbeat_robot::motion::TrajectoryError),
    #[error(
        "`{what}` has no bus whose events could be counted; leave --limit-on events=N out, or {instead}"
    )]
    NoEvents { what: String, instead: &'static str },
    #[error(transparent)]
    MeasureTuning(#[from] MeasureTuningFailure),
    #[error(transparent)]
    Setting(#[from] onbeat::bench::host_settings::SettingRefusal),
    #[error(transparent)]
    Worth(#[from] onbeat::report::worth::NoWorth),
    #[error(transparent)]
    RobotRun(#[from] RobotFailure),
    #[error(transparent)]
    Goal(#[from] GoalFailure),
    #[error(transparent)]
    SegmentRun(#[from] SegmentFailure),
    #[error(transparent)]
    SegmentOrder(#[from] SegmentOrderFailure),
    #[error(transparent)]
    Compare(#[from] CompareFailure),
    #[error(transparent)]
    Loads(#[from] LoadsFailure),
    #[error(transparent)]
    Net(#[from] NetFailure),
    #[error(transparent)]
    Import(#[from] ImportFailure),
    #[error(transparent)]
    Watch(#[from] WatchFailure),
}

impl From<onbeat::record::WriteError> for Failure {
    fn from(why: onbeat::record::WriteError) -> Self {
        Self::Run(why.into())
    }
}
