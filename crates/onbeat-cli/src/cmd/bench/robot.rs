//! What is in the loop of a bench's cells besides a timer, a robot or round trips: as a description for
//! the cells, as the command that runs it, and as the loop of one cell.

use std::path::Path;

use onbeat::bench::cell_start::{BusCell, CellTask, RoundTripCell};
use onbeat::probe::description::Parts;
use onbeat::probe::{RunError, Setting};
use onbeat::record::Series;
use onbeat::thread::Grant;
use onbeat_ethercat::layout::{DeviceKind, Layout};
use onbeat_net::rtt;
use onbeat_robot::motion::{MotionAccount, MotionController, RobotError, window_channel};
use onbeat_robot::probe::bus::{self, CellMotion};
use onbeat_robot::session::{AssemblyError, HUMANOID, RobotFile, RobotFileError, TrajectoryWord};

use crate::cmd::Failure;
use crate::cmd::bench::options::{BenchOptions, BusExchange, With};
use crate::cmd::failure::robot::RobotFailure;
use crate::cmd::looping::{WITHOUT_TUNING, limit, most_alarms, setting};
use crate::options::{LimitOn, LimitOptions};

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
    let Some(with) = options.with else { return Ok(Vec::new()) };
    refuse_options_of_others(with, options)?;
    let mut words = match with {
        With::Bus => admitted_bus(options)?,
        With::Chain => chain(options),
        With::Rtt => admitted_round_trips(options)?,
    };

    let (period, work) = (options.looping.period, options.looping.work);
    words.extend(typed([
        ("period", (period != PERIOD_NS).then(|| us(period))),
        ("work", (work > 0).then(|| us(work))),
        ("priority", (options.priority != PRIORITY).then(|| options.priority.to_string())),
        ("cpu", options.cpu.map(|cpu| cpu.to_string())),
    ]));
    let is_robot = words.get(1).is_some_and(|word| word == "robot");
    words.extend(limit_words(&options.limit, is_robot));
    Ok(words)
}

/// The limit of a bench, for the command. By itself it is on release latency, as a robot's is;
/// other commands limit what they measure.
fn limit_words(options: &LimitOptions, is_robot: bool) -> Vec<String> {
    let limited = limit(options, Series::ReleaseLatency);
    let series = limited.map(|limit| limit.on);
    let series = series.filter(|on| !is_robot || *on != Series::ReleaseLatency);
    let words = typed([
        ("limit", limited.map(|limit| us(limit.limit_ns))),
        ("at", limited.map(|limit| limit.at.to_string())),
        ("limit-on", series.map(|on| LimitOn::Series(on).to_string())),
        ("limit-on", most_alarms(options).map(|most| LimitOn::Events(most).to_string())),
    ]);
    words.collect()
}

/// Refuses files and trajectories that no cell could use; returns the command that runs this robot,
/// or this bus where it has no joints.
fn admitted_bus(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let BusCell { file, interface, exchange, trajectory, wire, .. } = bus_cell(options);
    if let (Some(interface), true) = (&interface, options.looping.lockdown) {
        return Err(RobotFailure::LockedInterface { interface: interface.clone() }.into());
    }

    let has_joints = motion(&bus_cell(options), options.looping.period)?.is_some();
    let mut words = owned(&["onbeat", if has_joints { "robot" } else { "bus" }, "run", &file]);
    words.extend(typed([("trajectory", trajectory.filter(|_| has_joints))]));
    if has_joints && options.exchange == BusExchange::SameCycle {
        words.push("--same-cycle".to_owned());
    }
    let wire = wire.filter(|_| !has_joints || interface.is_some());
    words.extend(typed([("interface", interface), ("wire", wire)]));
    if !has_joints {
        words.extend(owned(&["--", "--exchange", &exchange]));
    }
    Ok(words)
}

/// Refuses devices that no cell could send to; returns the command that measures these round trips.
fn admitted_round_trips(options: &BenchOptions) -> Result<Vec<String>, Failure> {
    let of_loop = setting(&options.looping, WITHOUT_TUNING, 0);
    rtt::admit_cell(&of_loop, &round_trips(options)).map_err(RunError::from)?;
    let mut words = owned(&["onbeat", "measure", "rtt"]);
    let devices = (options.devices != 1).then(|| options.devices.to_string());
    words.extend(typed([("to", options.to.clone()), ("devices", devices)]));
    Ok(words)
}

/// Returns the command that measures this chain.
fn chain(options: &BenchOptions) -> Vec<String> {
    let mut words = owned(&["onbeat", "measure", "chain", "--with", "bus"]);
    let exchange = Some(options.exchange).filter(|exchange| *exchange == BusExchange::SameCycle);
    words.extend(typed([
        ("devices", options.file.clone()),
        ("exchange", exchange.map(|exchange| exchange.word().to_owned())),
        ("device-delay", options.device_delay.map(us)),
    ]));
    words
}

/// Refuses the first option that is given and that this addition has no use for.
fn refuse_options_of_others(with: With, options: &BenchOptions) -> Result<(), Failure> {
    let given = [
        ("--to", options.to.is_some()),
        ("FILE", options.file.is_some()),
        ("--interface", options.interface.is_some()),
        ("--trajectory", options.trajectory.is_some()),
        ("--device-delay", options.device_delay.is_some()),
        ("--wire", options.wire.is_some()),
    ];
    let (with, useless): (_, &[&str]) = match with {
        With::Bus => ("bus", &["--to"]),
        With::Chain => ("chain", &["--to", "--interface", "--trajectory"]),
        With::Rtt => ("rtt", &["FILE", "--interface", "--trajectory", "--device-delay", "--wire"]),
    };
    match given.into_iter().find(|(option, is_given)| *is_given && useless.contains(option)) {
        Some((option, _)) => Err(RobotFailure::NotWith { option, with }.into()),
        None => Ok(()),
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The words of those options that have a value.
fn typed<const N: usize>(options: [(&str, Option<String>); N]) -> impl Iterator<Item = String> {
    let words = |(name, value): (&str, Option<String>)| Some([format!("--{name}"), value?]);
    options.into_iter().filter_map(words).flatten()
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        options: BenchOptions,
    }

    #[test]
    fn the_command_of_the_last_line_limits_what_the_bench_limited() {
        let all = [
            ("rtt", "", "measure rtt", " --limit-on release"),
            ("chain", " --limit-on response", "measure chain --with bus", " --limit-on response"),
            ("bus", "", "robot run humanoid", ""),
            ("bus", " --limit-on events=2", "robot run humanoid", " --limit-on events=2"),
        ];
        for (with, typed, command, on) in all {
            let typed = format!("bench --with {with} --limit 300us --at 99{typed}");
            let options = Typed::parse_from(typed.split(' ')).options;
            let words = admitted(&options).unwrap_or_default().join(" ");
            let limit = "--limit 300us --at 99";
            assert_eq!(words, format!("onbeat {command} --priority 98 {limit}{on}"));
        }
    }
}
