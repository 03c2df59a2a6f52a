//! A control law of one's own on the simulated humanoid: `cargo run --release -p onbeat-robot --example controller`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use onbeat_ethercat::layout::Layout;
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess};
use onbeat_robot::motion::{MotionController, Robot, Status, Trajectory, run_for};
use onbeat_rt::sys::Monotonic;
use onbeat_segment::{Link, Segment};

/// What the law looks at (time in s, both knees in rad), and where it wants the knees.
struct State(f64, [f64; 2]);
struct Goal([f64; 2]);

/// Knee bends, both knees together: each goes where the other one is on its way to.
fn squat(State(time, [left, right]): &State) -> Goal {
    let depth = 0.4 * (1.0 - (2.0 * time).cos());
    let apart = left - right;
    Goal([depth - 0.5 * apart, depth + 0.5 * apart])
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = Segment::HUMANOID;
    let period_ns = 1_000_000;
    let layout = Layout::from_toml(file)?;
    let robot = Robot::from_toml(file, &layout, period_ns)?;
    let knees = [robot.find("left knee").ok_or("no left knee")?, robot.find("right knee").ok_or("no right knee")?];
    let law = move |status: &Status, wanted: &mut [f64]| {
        let Goal(goal) = squat(&State(status.time_ns as f64 * 1e-9, knees.map(|knee| status.all[knee].actual_rad)));
        knees.into_iter().zip(goal).for_each(|(knee, position)| wanted[knee] = position);
    };

    let mut controller = MotionController::new(&robot, Trajectory::law(law)); // limits, miss ladder, safe stop
    let wire = InProcess::on_clock(Link::from_toml(file)?, Monotonic); // or Packets::open("eth0")?
    let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns, follow_clock: true };
    let mut bus = Bus::bring_up(wire, Some(&layout), options, "the simulated segment")?;
    run_for(&mut bus, &mut controller, period_ns, Duration::from_secs(5));
    bus.take_down();
    println!("{:?} after {} cycles: {:?}", controller.status().phase, bus.counts().cycles, controller.status().counts);

    Ok(())
}
