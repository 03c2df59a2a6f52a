//! A loop of one's own at 1 kHz for two seconds, with a run file that `onbeat report` shows.
//!
//! `cargo run -p onbeat --example own_loop -- my-loop.onbeat.hlog`

#![allow(clippy::print_stdout)]

use std::time::Duration;

use onbeat::{Loop, Period};

/// Moves a simulated mass on a spring to its target.
struct Joint {
    position: f64,
    velocity: f64,
}

impl Joint {
    fn step(&mut self, target: f64, dt_s: f64) {
        let acceleration = 200.0 * (target - self.position) - 20.0 * self.velocity;
        self.velocity += acceleration * dt_s;
        self.position += self.velocity * dt_s;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "own-loop.onbeat.hlog".to_owned());
    let mut joint = Joint { position: 0.0, velocity: 0.0 };
    let report = Loop::new(Period::from_hz(1000))
        .priority(80)
        .lock_memory()
        .accept_refusals()
        .duration(Duration::from_secs(2))
        .run_file(&file)
        .run(|cycle| joint.step(1.0, cycle.dt_ns() as f64 / 1e9))?;

    println!("{report}");
    println!("position {:.3}; report: onbeat report {file}", joint.position);
    Ok(())
}
