//! A controller in Rust: reads three joints of a robot and commands a fourth, at 100 Hz.
//! `examples/README.md` describes it.
//!
//! `cargo run --release -p onbeat-robot --example level_foot -- walker 10`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::f64::consts::TAU;
use std::time::Duration;

use onbeat::{Flow, Loop, Period};
use onbeat_control::{Client, Reading, RingReader, Start};
use onbeat_message::{TypeSet, Value};

const TILT_RAD: f64 = 0.15;
const TILT_HZ: f64 = 0.5;

/// Every cycle of a robot, as messages of the type that its ring carries.
struct Cycles {
    ring: RingReader,
    types: TypeSet,
    type_name: String,
}

impl Cycles {
    fn open(robot: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let ring = RingReader::open(&format!("{robot}/cycle").parse()?, Start::Newest)?;
        let record_type = ring.record_type();
        let types = TypeSet::from_text(&record_type.name, &record_type.schema)?;
        Ok(Self { ring, types, type_name: record_type.name })
    }

    /// Returns the newest cycle; `None` if there is none since the last call.
    fn newest(&mut self) -> Option<Value> {
        let mut newest = None;
        loop {
            match self.ring.next() {
                Reading::Record { bytes, .. } => {
                    newest = self.types.value(&self.type_name, bytes).ok();
                }
                Reading::Lost(_) => {}
                Reading::Nothing => return newest,
            }
        }
    }
}

/// Returns a joint's position in rad.
fn position(cycle: &Value, joint: usize) -> f64 {
    match cycle.field("actual_rad") {
        Some(Value::List(all)) => match all.get(joint) {
            Some(Value::Float64(rad)) => *rad,
            _ => 0.0,
        },
        _ => 0.0,
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut words = std::env::args().skip(1);
    let robot = words.next().unwrap_or_else(|| "walker".to_owned());
    let seconds: u64 = words.next().map_or(Ok(10), |word| word.parse())?;

    let mut cycles = Cycles::open(&robot)?;
    let mut commander = Client::open(&robot)?.command()?;
    let joint = |wanted: &str| {
        let place = commander.joints().iter().position(|(name, _)| name == wanted);
        place.ok_or_else(|| format!("{robot} has no joint {wanted}"))
    };
    let leg = [joint("waist pitch")?, joint("left hip pitch")?, joint("left knee")?];
    let ankle = joint("left ankle pitch")?;

    let (mut time_s, mut has_stopped) = (0.0, false);
    let report =
        Loop::new(Period::from_hz(100)).duration(Duration::from_secs(seconds)).run(|now| {
            time_s += now.dt_ns() as f64 * 1e-9;
            let Some(cycle) = cycles.newest() else { return Flow::Continue };
            // 3: safe stop.
            has_stopped = matches!(cycle.field("robot_rung"), Some(Value::Uint(3)));
            let sum_rad: f64 = leg.iter().map(|joint| position(&cycle, *joint)).sum();
            commander.want(ankle, TILT_RAD * (TAU * TILT_HZ * time_s).sin() - sum_rad);
            // The robot follows a command for 0.1 s: without the next one it holds, and then stops safely.
            has_stopped |= commander.give().is_err();
            if has_stopped { Flow::Stop } else { Flow::Continue }
        })?;

    println!("{report}");
    println!("{} cycles of the robot read, {} lost", cycles.ring.received(), cycles.ring.lost());
    cycles.ring.check_alive()?;
    if has_stopped {
        return Err(format!("{robot} has stopped safely").into());
    }
    Ok(()) // The commander leaves in order: the robot keeps its last targets.
}
