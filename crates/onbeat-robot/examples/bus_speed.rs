//! Time of a bring-up of the humanoid's 59 devices, and of a cycle with the simulated segment, in one
//! process: `cargo run --release -p onbeat-robot --example bus_speed`.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant as Stopwatch;

use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{Bus, BusOptions, ExchangeMode, InProcess};
use onbeat_rt::time::{Clock, Instant, MockClock};
use onbeat_segment::{Link, Segment};

const BRING_UPS: usize = 21;
/// Cycles after each bring-up, unless the first argument has their number.
const CYCLES: u64 = 5_000;
const PERIOD_NS: u64 = 1_000_000;

struct Idle;

impl Controller for Idle {
    fn step(&mut self, _: &BusCycle, _: &[u8], _: &mut [u8]) {}
}

fn main() {
    let cycles = std::env::args().nth(1).map_or(CYCLES, |cycles| cycles.parse().unwrap());
    let layout = Layout::from_toml(Segment::HUMANOID).unwrap();
    let mut bring_ups_us = Vec::new();
    let mut cycles_ns = Vec::new();
    let mut frames = 0;
    let mut until_op_us = 0;
    for _ in 0..BRING_UPS {
        let clock = MockClock::starting_at(Instant::from_ns(PERIOD_NS), |_| 0);
        let link = Link::from_toml(Segment::HUMANOID).unwrap();
        let wire = InProcess::on_virtual_clock(link, &clock);
        let options =
            BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: false };
        let began = Stopwatch::now();
        let mut bus = Bus::bring_up(wire, Some(&layout), options, "the segment").unwrap();
        bring_ups_us.push(began.elapsed().as_micros());
        frames = bus.bring_up_frames();

        let mut release = Instant::from_ns((clock.now().as_ns() / PERIOD_NS + 1) * PERIOD_NS);
        while !bus.is_up() {
            release = release.plus_ns(PERIOD_NS);
            let _ = clock.sleep_until(release);
            bus.cycle(release, PERIOD_NS, &mut Idle);
        }
        until_op_us = (clock.now().as_ns() - PERIOD_NS) / 1_000;

        let began = Stopwatch::now();
        for _ in 0..cycles {
            release = release.plus_ns(PERIOD_NS);
            let _ = clock.sleep_until(release);
            bus.cycle(release, PERIOD_NS, &mut Idle);
        }
        cycles_ns.push(began.elapsed().as_nanos() / u128::from(cycles));
    }

    for values in [&mut bring_ups_us, &mut cycles_ns] {
        values.sort_unstable();
    }
    let of = |values: &[u128]| (values[0], values[values.len() / 2], values[values.len() - 1]);
    let (least, middle, most) = of(&bring_ups_us);
    println!("to OP: {frames} frames to SAFEOP, {until_op_us} us of the devices' time to OP");
    println!(
        "bring-up, computing time: {least} us least, {middle} us median, {most} us most of {BRING_UPS}"
    );
    let (least, middle, most) = of(&cycles_ns);
    println!("cycle: {least} ns least, {middle} ns median, {most} ns most of {BRING_UPS} blocks");
}
