//! Number of cycles of a reaction through a bus, on a virtual clock: what `measure chain --with
//! bus` predicts.

use crate::bus_world;

use bus_world::{MS, OPTIONS, World, clock};
use onbeat_ethercat::description::Description;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{BusOptions, ExchangeMode};
use onbeat_robot::probe::chain::predicted;
use onbeat_rt::time::{Clock, Instant};

const US: u64 = 1_000;
/// Polling interval of the devices.
const STEP_NS: u64 = 10 * US;

/// Copies inputs to outputs.
struct Mirror;

impl Controller for Mirror {
    fn step(&mut self, _: &BusCycle, inputs: &[u8], outputs: &mut [u8]) {
        outputs[0] = inputs[0];
    }
}

/// A segment with one digital device, whose delay is this.
fn contacts(delay_us: u64) -> String {
    format!(
        "[types.contacts]\nkind = \"digital\"\ndelay_us = {delay_us}\n[[devices]]\ntype = \"contacts\"\nname = \"contacts\"\n"
    )
}

/// Returns the time from a change at the pins, `phase_ns` after a release, to the output that
/// follows, in ns.
fn reaction_ns(delay_us: u64, mode: ExchangeMode, phase_ns: u64) -> u64 {
    let clock = clock();
    let mut world = World::new(&contacts(delay_us), &clock, BusOptions { mode, ..OPTIONS });
    world.until_up(&mut Mirror);
    (0..10).for_each(|_| _ = world.cycle(&mut Mirror));

    let release = Instant::from_ns(world.now().as_ns() / MS * MS);
    let advance = |world: &mut World<'_>, until: Instant| {
        let _ = clock.sleep_until(until);
        world.bus.wire_mut().link_mut().advance(until);
    };

    let changed = release.plus_ns(phase_ns);
    advance(&mut world, changed);
    assert!(world.bus.wire_mut().link_mut().segment_mut().set_value(0, 0x6000, 1, &[1]));
    let mut at = changed;
    for _ in 0..6 {
        let next = Instant::from_ns((at.as_ns() / MS + 1) * MS);
        while at < next {
            if world.segment().value(0, 0x7000, 1) == Some(&[1]) {
                return at.ns_since(changed);
            }
            at = at.plus_ns(STEP_NS).min(next);
            advance(&mut world, at);
        }

        world.cycle(&mut Mirror);
    }

    panic!("nothing follows within six cycles");
}

/// Returns minimum and maximum over all phases, in cycles.
fn reactions(delay_us: u64, mode: ExchangeMode) -> (f64, f64) {
    // Between the instants of an exchange, not on them.
    let phases = (0..20).map(|part| part * 50 * US + 25 * US);
    let all: Vec<u64> = phases.map(|phase_ns| reaction_ns(delay_us, mode, phase_ns)).collect();
    let cycles = |ns: Option<&u64>| *ns.unwrap() as f64 / MS as f64;
    (cycles(all.iter().min()), cycles(all.iter().max()))
}

fn assert_within((least, most): (f64, f64), predicted: f64) {
    // The phases are 0.05 cycles apart, and devices are polled every 0.01.
    let near = |value: f64, wanted: f64| (value - wanted).abs() < 0.051;
    assert!(
        near(least, predicted) && near(most, predicted + 1.0),
        "{least} to {most}, predicted {predicted} and one more"
    );
}

const SAME_CYCLE: ExchangeMode = ExchangeMode::SameCycle { reply_within_ns: MS / 2 };

#[test]
fn what_is_measured_of_a_quiet_segment_is_what_is_predicted() {
    for (delay_us, mode) in [
        (0, ExchangeMode::Pipelined),
        (250, ExchangeMode::Pipelined),
        (500, ExchangeMode::Pipelined),
        (0, SAME_CYCLE),
        (500, SAME_CYCLE),
    ] {
        let description = Description::from_toml(&contacts(delay_us)).unwrap();
        let is_same_cycle = mode == SAME_CYCLE;
        let chain = predicted(&description, ("contacts", "contacts"), is_same_cycle, MS).unwrap();
        assert_eq!((chain.most_ns - chain.least_ns, chain.device_delay_ns), (MS, delay_us * US));
        assert_within(reactions(delay_us, mode), chain.least_ns as f64 / MS as f64);
    }
}

#[test]
fn devices_of_half_a_cycle_react_in_three_to_four_cycles_as_in_the_paper() {
    assert_within(reactions(500, ExchangeMode::Pipelined), 3.0);
}

#[test]
fn an_equal_device_delay_on_both_sides_cancels_out() {
    for delay_us in [100, 300, 900] {
        assert_within(reactions(delay_us, ExchangeMode::Pipelined), 3.0);
    }
}

#[test]
fn devices_without_a_processor_are_a_cycle_faster() {
    assert_within(reactions(0, ExchangeMode::Pipelined), 2.0);
}

#[test]
fn a_reply_in_the_same_cycle_saves_another_one() {
    assert_within(reactions(0, SAME_CYCLE), 1.0);
    assert_within(reactions(500, SAME_CYCLE), 2.0);
}
