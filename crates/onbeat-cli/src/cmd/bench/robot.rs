//! What is in the loop of a bench's cells besides a timer, a robot or round trips: as a description for
//! the cells, as the command that runs it, and as the loop of one cell.

use std::path::Path;

use onbeat::bench::cell_start::RoundTripCell;
use onbeat::bench::cell_start::{BusCell, CellTask};
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

/// Real-time priority and period of `onbeat robot run` by default.
const PRIORITY: u32 = 90;
const PERIOD_NS: u64 = 1_000_000;

/// Returns what the loop of a cell does.
pub(in crate::cmd) fn task(options: &BenchOptions) -> CellTask {
    match options.with {
        None => CellTask::Timer,
        Some(With::Bus) => described(options).map_or(CellTask::Timer, CellTask::Bus),
        Some(With::Chain) => described(options).map_or(CellTask::Timer, CellTask::Chain),
        Some(With::Rtt) => CellTask::RoundTrip(round_trips(options)),
    }
}

fn round_trips(options: &BenchOptions) -> RoundTripCell {
    RoundTripCell { to: options.to.clone(), devices: options.devices }
}

/// Returns the bus of a bench; `None` without `--with bus` or `chain`.
pub(in crate::cmd) fn described(options: &BenchOptions) -> Option<BusCell> {
    if !matches!(options.with, Some(With::Bus | With::Chain)) {
        return None;
    }
    Some(BusCell {
        file: options.file.clone().unwrap_or_else(|| HUMANOID.to_owned()),
        interface: options.interface.clone(),
        exchange: options.exchange.word().to_owned(),
        trajectory: options.trajectory.as_ref().map(TrajectoryWord::to_string),
        device_delay_ns: options.device_delay,
        wire: options.wire.map(|wire| wire.name().to_owned()),
    })
}

/// Returns the loop of a cell with its bus and its robot, and a note on the bus.
pub(in crate::cmd) fn parts(setting: &Setting, cell: &BusCell) -> Result<(Parts, Grant), Failure> {
    let motion = motion(cell, setting.period_ns)?;
    Ok(bus::parts_of_cell(setting, cell, motion).map_err(RunError::from)?)
}

/// Refuses files and trajectories that no cell could use, and returns the command that runs this
/// robot alone, without tuning and load.
pub(in crate::cmd) fn admitted(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    if options.with == Some(With::Rtt) {
        return admitted_round_trips(options);
    }
    if options.with == Some(With::Chain) {
        return admitted_chain(options);
    }
    let Some(cell) = described(options) else { return Ok(Vec::new()) };
    if options.to.is_some() {
        return Err(RobotFailure::NotWith { option: "--to", with: "bus" }.into());
    }
    if let (Some(interface), true) = (&cell.interface, options.looping.lockdown) {
        return Err(RobotFailure::LockedInterface { interface: interface.clone() }.into());
    }

    let has_joints = motion(&cell, options.looping.period)?.is_some();
    let word = |word: &str| word.to_owned();
    let time = |ns: u64| format!("{}us", ns as f64 / 1e3);

    let mut words = vec![word("onbeat")];
    if has_joints {
        words.extend([word("robot"), word("run"), cell.file]);
        words.extend(cell.trajectory.into_iter().flat_map(|it| [word("--trajectory"), it]));
        words.extend((options.exchange == BusExchange::SameCycle).then(|| word("--same-cycle")));
        if let Some(interface) = cell.interface {
            words.extend([word("--interface"), interface]);
            words.extend(cell.wire.into_iter().flat_map(|it| [word("--wire"), it]));
        }
    } else {
        words.extend([word("bus"), word("run"), cell.file]);
        words.extend(cell.interface.into_iter().flat_map(|it| [word("--interface"), it]));
        words.extend(cell.wire.into_iter().flat_map(|it| [word("--wire"), it]));
        words.extend([word("--"), word("--exchange"), cell.exchange]);
    }

    let given = |name: &str, value: String| [format!("--{name}"), value];
    let looping = &options.looping;
    if looping.period != PERIOD_NS {
        words.extend(given("period", time(looping.period)));
    }
    if looping.work > 0 {
        words.extend(given("work", time(looping.work)));
    }
    if options.priority != PRIORITY {
        words.extend(given("priority", options.priority.to_string()));
    }
    words.extend(options.cpu.into_iter().flat_map(|cpu| given("cpu", cpu.to_string())));
    if let Some(limit_ns) = options.limit.limit {
        words.extend(given("limit", time(limit_ns)));
        words.extend(given("at", options.limit.at.to_string()));
    }

    Ok(words)
}

/// Refuses devices that no cell could send to, and options of a bus; returns the command that measures
/// these round trips alone, without tuning and load.
fn admitted_round_trips(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let of_bus = [
        (options.file.is_some(), "FILE"),
        (options.interface.is_some(), "--interface"),
        (options.trajectory.is_some(), "--trajectory"),
        (options.device_delay.is_some(), "--device-delay"),
        (options.wire.is_some(), "--wire"),
    ];
    if let Some(&(_, option)) = of_bus.iter().find(|(is_given, _)| *is_given) {
        return Err(RobotFailure::NotWith { option, with: "rtt" }.into());
    }

    let looping = &options.looping;
    let of_loop = crate::cmd::looping::setting(looping, crate::cmd::looping::WITHOUT_TUNING, 0);
    rtt::admit_cell(&of_loop, &round_trips(options)).map_err(RunError::from)?;
    let mut words: Vec<String> = ["onbeat", "measure", "rtt"].map(str::to_owned).into();
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    options.to.clone().into_iter().for_each(|to| option("to", to));
    if options.devices != 1 {
        option("devices", options.devices.to_string());
    }
    if looping.period != PERIOD_NS {
        option("period", format!("{}us", looping.period as f64 / 1e3));
    }
    if options.priority != PRIORITY {
        option("priority", options.priority.to_string());
    }
    options.cpu.into_iter().for_each(|cpu| option("cpu", cpu.to_string()));
    Ok(words)
}

/// Refuses options that a chain has no use for; returns the command that measures it alone, without
/// tuning and load.
fn admitted_chain(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let of_others = [
        (options.to.is_some(), "--to"),
        (options.interface.is_some(), "--interface"),
        (options.trajectory.is_some(), "--trajectory"),
    ];
    if let Some(&(_, option)) = of_others.iter().find(|(is_given, _)| *is_given) {
        return Err(RobotFailure::NotWith { option, with: "chain" }.into());
    }

    let looping = &options.looping;
    let us = |ns: u64| format!("{}us", ns as f64 / 1e3);
    let mut words: Vec<String> =
        ["onbeat", "measure", "chain", "--with", "bus"].map(str::to_owned).into();
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    options.file.clone().into_iter().for_each(|file| option("devices", file));
    if options.exchange == BusExchange::SameCycle {
        option("exchange", options.exchange.word().to_owned());
    }
    options.device_delay.into_iter().for_each(|ns| option("device-delay", us(ns)));
    if looping.period != PERIOD_NS {
        option("period", us(looping.period));
    }
    if options.priority != PRIORITY {
        option("priority", options.priority.to_string());
    }
    options.cpu.into_iter().for_each(|cpu| option("cpu", cpu.to_string()));
    Ok(words)
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
    let account = MotionAccount::new(&file.robot, typed).sending(sender);
    let controller = MotionController::new(&file.robot, word.start(&file.robot, None, None)?);
    Ok(Some(CellMotion { controller, account, windows: Some(windows) }))
}

/// Whether a segment has a drive; the humanoid does.
fn has_drive(cell: &BusCell) -> Result<bool, Failure> {
    let layout =
        Layout::from_description(&onbeat_segment::Description::from_file(Path::new(&cell.file))?)?;
    Ok(layout.devices.iter().any(|device| device.kind == DeviceKind::Drive))
}
