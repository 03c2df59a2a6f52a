//! What is in the loop of a bench's cells besides a timer, a robot or round trips: as a description for
//! the cells, as the command that runs it, and as the loop of one cell.

use std::path::Path;

use onbeat::bench::cell_start::{BusCell, CellTask, RoundTripCell};
use onbeat::probe::description::Parts;
use onbeat::probe::{RunError, Setting};
use onbeat::thread::Grant;
use onbeat_ethercat::layout::{DeviceKind, Layout};
use onbeat_net::rtt;
use onbeat_robot::motion::{MotionAccount, MotionController, RobotError, window_channel};
use onbeat_robot::probe::bus::{self, CellMotion};
use onbeat_robot::session::{AssemblyError, HUMANOID, RobotFile, RobotFileError, TrajectoryWord};

use crate::cmd::Failure;
use crate::cmd::bench::options::{BenchOptions, BusExchange, With};
use crate::cmd::failure::robot::RobotFailure;
use crate::cmd::looping::{WITHOUT_TUNING, setting};

/// Real-time priority and period of `onbeat robot run` by default.
const PRIORITY: u32 = 90;
const PERIOD_NS: u64 = 1_000_000;

/// Returns what the loop of a cell does.
pub(in crate::cmd) fn task(options: &BenchOptions) -> CellTask {
    match options.with {
        None => CellTask::Timer,
        Some(With::Bus) => CellTask::Bus(bus_cell(options)),
        Some(With::Chain) => CellTask::Chain(bus_cell(options)),
        Some(With::Rtt) => CellTask::RoundTrip(round_trips(options)),
    }
}

fn round_trips(options: &BenchOptions) -> RoundTripCell {
    RoundTripCell { to: options.to.clone(), devices: options.devices }
}

/// Returns the bus of a bench with one.
fn bus_cell(options: &BenchOptions) -> BusCell {
    BusCell {
        file: options.file.clone().unwrap_or_else(|| HUMANOID.to_owned()),
        interface: options.interface.clone(),
        exchange: options.exchange.word().to_owned(),
        trajectory: options.trajectory.as_ref().map(TrajectoryWord::to_string),
        device_delay_ns: options.device_delay,
        wire: options.wire.map(|wire| wire.name().to_owned()),
    }
}

/// Returns the loop of a cell with its bus and its robot, and a note on the bus.
pub(in crate::cmd) fn parts(setting: &Setting, cell: &BusCell) -> Result<(Parts, Grant), Failure> {
    let motion = motion(cell, setting.period_ns)?;
    Ok(bus::parts_of_cell(setting, cell, motion).map_err(RunError::from)?)
}

/// Refuses what no cell could use, and returns the command that runs the addition of a bench alone,
/// without tuning and load; nothing without one.
pub(in crate::cmd) fn admitted(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let mut words = match options.with {
        None => return Ok(Vec::new()),
        Some(With::Bus) => admitted_bus(options)?,
        Some(With::Chain) => admitted_chain(options)?,
        Some(With::Rtt) => admitted_round_trips(options)?,
    };

    let looping = &options.looping;
    if looping.period != PERIOD_NS {
        words.extend(option("period", us(looping.period)));
    }
    if looping.work > 0 {
        words.extend(option("work", us(looping.work)));
    }
    if options.priority != PRIORITY {
        words.extend(option("priority", options.priority.to_string()));
    }
    words.extend(options.cpu.into_iter().flat_map(|cpu| option("cpu", cpu.to_string())));
    if let (Some(With::Bus), Some(limit_ns)) = (options.with, options.limit.limit) {
        words.extend(option("limit", us(limit_ns)));
        words.extend(option("at", options.limit.at.to_string()));
    }
    Ok(words)
}

/// Refuses files and trajectories that no cell could use; returns the command that runs this robot,
/// or this bus where it has no joints.
fn admitted_bus(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    refuse("bus", &[(options.to.is_some(), "--to")])?;
    let BusCell { file, interface, exchange, trajectory, wire, .. } = bus_cell(options);
    if let (Some(interface), true) = (&interface, options.looping.lockdown) {
        return Err(RobotFailure::LockedInterface { interface: interface.clone() }.into());
    }

    let has_joints = motion(&bus_cell(options), options.looping.period)?.is_some();
    let mut words = owned(&["onbeat", if has_joints { "robot" } else { "bus" }, "run", &file]);
    if has_joints {
        words.extend(trajectory.into_iter().flat_map(|it| option("trajectory", it)));
        if options.exchange == BusExchange::SameCycle {
            words.push("--same-cycle".to_owned());
        }
    }
    let has_wire = !has_joints || interface.is_some();
    words.extend(interface.into_iter().flat_map(|it| option("interface", it)));
    words.extend(wire.filter(|_| has_wire).into_iter().flat_map(|it| option("wire", it)));
    if !has_joints {
        words.extend(owned(&["--", "--exchange", &exchange]));
    }
    Ok(words)
}

/// Refuses devices that no cell could send to, and options of a bus; returns the command that
/// measures these round trips.
fn admitted_round_trips(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let of_bus = [
        (options.file.is_some(), "FILE"),
        (options.interface.is_some(), "--interface"),
        (options.trajectory.is_some(), "--trajectory"),
        (options.device_delay.is_some(), "--device-delay"),
        (options.wire.is_some(), "--wire"),
    ];
    refuse("rtt", &of_bus)?;

    let of_loop = setting(&options.looping, WITHOUT_TUNING, 0);
    rtt::admit_cell(&of_loop, &round_trips(options)).map_err(RunError::from)?;
    let mut words = owned(&["onbeat", "measure", "rtt"]);
    words.extend(options.to.clone().into_iter().flat_map(|to| option("to", to)));
    if options.devices != 1 {
        words.extend(option("devices", options.devices.to_string()));
    }
    Ok(words)
}

/// Refuses options that a chain has no use for; returns the command that measures it.
fn admitted_chain(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let of_others = [
        (options.to.is_some(), "--to"),
        (options.interface.is_some(), "--interface"),
        (options.trajectory.is_some(), "--trajectory"),
    ];
    refuse("chain", &of_others)?;

    let mut words = owned(&["onbeat", "measure", "chain", "--with", "bus"]);
    words.extend(options.file.clone().into_iter().flat_map(|file| option("devices", file)));
    if options.exchange == BusExchange::SameCycle {
        words.extend(option("exchange", options.exchange.word().to_owned()));
    }
    words.extend(options.device_delay.into_iter().flat_map(|ns| option("device-delay", us(ns))));
    Ok(words)
}

/// Refuses the first of these options that is given.
fn refuse(with: &'static str, options: &[(bool, &'static str)]) -> Result<(), Failure> {
    match options.iter().find(|(is_given, _)| *is_given) {
        Some(&(_, option)) => Err(RobotFailure::NotWith { option, with }.into()),
        None => Ok(()),
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn option(name: &str, value: String) -> [String; 2] {
    [format!("--{name}"), value]
}

fn us(ns: u64) -> String {
    format!("{}us", ns as f64 / 1e3)
}

/// Returns the motion controller of a cell; `None` for a segment without drives.
fn motion(cell: &BusCell, period_ns: u64) -> Result<Option<CellMotion>, Failure> {
    let file = match RobotFile::read(Path::new(&cell.file), period_ns) {
        Err(RobotFileError::Robot(RobotError::NoJoints(_))) if !has_drive(cell)? => {
            return Ok(None);
        }
        read => read?,
    };

    let typed = cell.trajectory.as_ref().unwrap_or(&file.robot.settings.trajectory);
    let word: TrajectoryWord = typed.parse().map_err(AssemblyError::Word)?;
    if matches!(word, TrajectoryWord::Goal | TrajectoryWord::Commander) {
        return Err(RobotFailure::NotInBench { trajectory: typed.clone() }.into());
    }

    let (sender, windows) = window_channel(file.note.clone());
    let account = MotionAccount::new(&file.robot, typed, Some(sender));
    let controller = MotionController::new(&file.robot, word.start(&file.robot, None, None)?);
    Ok(Some(CellMotion { controller, account, windows: Some(windows) }))
}

/// Whether a segment has a drive; the humanoid does.
fn has_drive(cell: &BusCell) -> Result<bool, Failure> {
    let layout =
        Layout::from_description(&onbeat_segment::Description::from_file(Path::new(&cell.file))?)?;
    Ok(layout.devices.iter().any(|device| device.kind == DeviceKind::Drive))
}
