//! Error counters of the links: planted on a cable of the simulated segment, found at its port.

use crate::bus_world;

use bus_world::{Idle, MS, OPTIONS, TWO, World, clock};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::link_errors::{ErrorCount, ErrorCounter, LinkErrors};
use onbeat_segment::Fault;

/// Cycles between two readings of a device.
const SECOND: u64 = 1_000;

/// What the counters of all devices say, with the names of those that are not 0.
fn counted(world: &World<'_>) -> Vec<(String, LinkErrors)> {
    let devices = world.bus.layout().devices.iter().enumerate();
    let errors = |(place, device): (usize, &onbeat_ethercat::layout::DeviceLayout)| {
        let errors = world.bus.link_errors(place).expect("read once");
        (errors.counted().next().is_some()).then(|| (device.name.clone(), errors))
    };
    devices.filter_map(errors).collect()
}

#[test]
fn errors_of_a_noisy_cable_are_found_at_its_port_and_nowhere_else() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let knee = world.device("left knee");
    world.cycles(SECOND);
    assert_eq!(counted(&world), [], "nothing before");

    world.inject(Fault::Noise { device: knee }, Some(500 * MS), 0.05);
    let lost_before = world.bus.wire().link().counts().lost;
    world.cycles(2 * SECOND);
    let lost = (world.bus.wire().link().counts().lost - lost_before) as u16;
    assert!((5..100).contains(&lost), "{lost} of 500 at a share of 0.05");

    let mut expected = LinkErrors::default();
    expected.set(ErrorCounter::InvalidFrames(0), ErrorCount::exactly(lost));
    expected.set(ErrorCounter::RxErrors(0), ErrorCount::exactly(lost));
    let arose: Vec<(String, String)> = counted(&world)
        .into_iter()
        .map(|(name, errors)| (name, errors.to_string()))
        .filter(|(_, errors)| !errors.is_empty())
        .collect();
    assert_eq!(arose, [("left knee".to_owned(), expected.to_string())]);

    let events: Vec<_> =
        world.events.iter().filter(|event| event.kind == EventKind::LinkErrors).collect();
    assert!(events.iter().all(|event| usize::from(event.device) == knee && event.is_alarm()));
    let last = events.iter().rfind(|event| event.code == 0x0300).unwrap();
    assert_eq!(ErrorCount::from_word(last.new), ErrorCount::exactly(lost));
    let sentence = last.sentence("left knee");
    assert!(
        sentence.starts_with("left knee, port 0: ")
            && sentence.ends_with(&format!(" invalid frames, {lost} since the bus came up")),
        "{sentence}"
    );
}

#[test]
fn the_devices_behind_a_noisy_cable_count_forwarded_errors_without_an_event() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.cycles(20);
    // On the first cable: the two drives are a line.
    world.inject(Fault::Noise { device: 0 }, Some(5 * MS), 1.0);
    world.cycles(2 * SECOND);

    let at = |device: usize, counter| world.bus.link_errors(device).unwrap().of(counter).count();
    let lost = at(0, ErrorCounter::InvalidFrames(0));
    assert_eq!(u64::from(lost), world.bus.wire().link().counts().lost);
    assert!(lost > 0);
    assert_eq!(at(0, ErrorCounter::ForwardedErrors(0)), 0, "it arose there");
    assert_eq!(at(0, ErrorCounter::ForwardedErrors(1)), lost, "on the way back");
    assert_eq!(at(1, ErrorCounter::ForwardedErrors(0)), lost);
    assert_eq!(at(1, ErrorCounter::InvalidFrames(0)), 0);
    assert!(
        world.events.iter().all(|event| event.kind != EventKind::LinkErrors || event.device == 0)
    );
}

#[test]
fn a_cut_cable_is_a_lost_link_at_both_of_its_ports() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.cycles(20);
    world.inject(Fault::Cut { device: 1 }, Some(300 * MS), 1.0);
    world.cycles(3 * SECOND);
    assert!(world.bus.is_up());

    let lost: Vec<(usize, String)> =
        (0..2).map(|device| (device, world.bus.link_errors(device).unwrap().to_string())).collect();
    assert_eq!(
        lost,
        [(0, "port 1: 1 lost links".to_owned()), (1, "port 0: 1 lost links".to_owned())]
    );
}

#[test]
fn a_full_counter_is_a_lower_bound() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.cycles(20);
    world.inject(Fault::Noise { device: 1 }, Some(300 * MS), 1.0);
    world.cycles(4 * SECOND);

    let errors = world.bus.link_errors(1).unwrap();
    assert_eq!(errors.of(ErrorCounter::InvalidFrames(0)).to_string(), ">= 255");
    let event = world.events.iter().find(|event| event.code == 0x0300).unwrap();
    assert_eq!(
        event.sentence("right knee"),
        "right knee, port 0: >= 255 invalid frames, >= 255 since the bus came up"
    );
    // A counter that stays full is reported once.
    let events = world.events.iter().filter(|event| event.code == 0x0300);
    assert_eq!(events.count(), 1);
}

#[test]
fn a_power_cycle_clears_the_counters_and_not_what_was_counted() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut Idle);
    world.cycles(20);
    world.inject(Fault::Noise { device: 1 }, Some(10 * MS), 1.0);
    world.cycles(2 * SECOND);
    let before = world.bus.link_errors(1).unwrap().of(ErrorCounter::InvalidFrames(0));
    assert!(before.count() > 0);

    world.inject(Fault::PowerOff { device: 1 }, Some(100 * MS), 1.0);
    world.cycles(3 * SECOND);
    let after = world.bus.link_errors(1).unwrap().of(ErrorCounter::InvalidFrames(0));
    assert_eq!(after, before);
}

#[test]
fn the_reads_cost_one_small_frame_for_eight_devices_a_second_and_no_cycle() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    world.cycles(SECOND / 2);
    let before = world.bus.counts();
    let seconds = 3;
    for _ in 0..seconds * SECOND {
        assert!(world.cycle(&mut Idle).fresh);
    }

    let after = world.bus.counts();
    let rounds_of_eight = 59_u64.div_ceil(8);
    let (frames, _) = world.bus.size();
    assert_eq!(
        after.sent - before.sent,
        seconds * SECOND * frames as u64 + seconds * rounds_of_eight
    );
    assert_eq!(after.answered - before.answered, seconds * SECOND);
    assert_eq!(world.count(EventKind::LinkErrors), 0);
}
