//! A user-defined control law on the simulated humanoid: `cargo run --release -p onbeat-robot
//! --example controller`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess};
use onbeat_robot::motion::{MotionController, Robot, Status, Trajectory, run_for};
use onbeat_rt::sys::Monotonic;
use onbeat_segment::{Link, Segment};

/// Returns the targets of both knees in rad, from time in s and their actual positions in rad: knee
/// bends in which each knee corrects half of the difference.
fn squat(time_s: f64, [left, right]: [f64; 2]) -> [f64; 2] {
    let depth = 0.4 * (1.0 - (2.0 * time_s).cos());
    let difference = left - right;
    [depth - 0.5 * difference, depth + 0.5 * difference]
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = Segment::HUMANOID;
    let period_ns = 1_000_000;
    let layout = Layout::from_toml(file)?;
    let robot = Robot::from_toml(file, &layout, period_ns)?;
    let knees = [
        robot.find("left knee").ok_or("no left knee")?,
        robot.find("right knee").ok_or("no right knee")?,
    ];
    let law = move |status: &Status, wanted: &mut [f64]| {
        let targets =
            squat(status.time_ns as f64 * 1e-9, knees.map(|knee| status.all[knee].actual_rad));
        knees.into_iter().zip(targets).for_each(|(knee, target)| wanted[knee] = target);
    };

    let mut controller = MotionController::new(&robot, Trajectory::law(law)); // limits, miss ladder, safe stop
    let wire = InProcess::on_clock(Link::from_toml(file)?, Monotonic); // or Packets::open("eth0")?
    let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns, follow_clock: true };
    let mut bus = Bus::bring_up(wire, Some(&layout), options, "the simulated segment")?;
    run_for(&mut bus, &mut controller, period_ns, Duration::from_secs(5));
    bus.take_down();
    println!(
        "{:?} after {} cycles: {:?}",
        controller.status().phase,
        bus.counts().cycles,
        controller.status().counts
    );

    Ok(())
}
