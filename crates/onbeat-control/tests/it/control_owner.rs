//! The outputs of a bus have at most one owner; it may leave, stop, or be killed at any time.

use crate::control_world;

use std::time::Duration;

use control_world::{
    ALL, BYTES, Other, PATIENCE, client, exchange, in_bursts, kinds, layout, number_of, pattern,
    print_line, role, unique_name, until,
};
use onbeat_control::{BusSide, Client, ControlError, Counter, Image, ImageSettings, Sharing};
use onbeat_ethercat::event::EventKind;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn in_another_process() {
    let Some(words) = role() else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };
    let client = client(&words[1]);

    match words[0].as_str() {
        // Writes different patterns for half of the time, so some kills hit it while it writes.
        "own" => {
            let mut owner = client.claim().unwrap();
            print_line("owns");
            in_bursts(1..u64::MAX, |number| owner.write(&pattern(number)).unwrap());
        }
        "claim" => match client.claim() {
            Err(ControlError::Owned { pid, process, .. }) => {
                print_line(&format!("owned by {pid} {process}"));
            }
            other => print_line(&format!("{:?}", other.is_ok())),
        },
        other => panic!("unknown role {other}"),
    }
}

fn world(settings: impl Into<ImageSettings>) -> (String, BusSide, Client) {
    let name = unique_name();
    let bus = Image::create(&name, &layout(), settings).unwrap();
    let client = client(&name);
    (name, bus, client)
}

#[test]
fn the_outputs_of_the_owner_are_sent_from_its_first_write_on() {
    for sharing in ALL {
        let (_, mut bus, client) = world(sharing);
        let mut owner = client.claim().unwrap();
        assert_eq!(exchange(&mut bus, 1), [0; BYTES], "it has written nothing yet");
        owner.write(&pattern(3)).unwrap();

        assert_eq!(exchange(&mut bus, 2), pattern(3));
        owner.write_with(|outputs| outputs[0] = 9).unwrap();
        assert_eq!(
            exchange(&mut bus, 3)[..9],
            [9, 0, 0, 0, 0, 0, 0, 0, 3],
            "the rest keeps the last values"
        );
        let short = owner.write(&[1]);
        assert!(matches!(short, Err(ControlError::OutputLength { given: 1, wanted: BYTES })));
    }
}

#[test]
fn a_second_owner_is_refused_with_the_first_ones_process() {
    let (name, _bus, client) = world(Sharing::WaitFree);
    let owner = client.claim().unwrap();
    let own = std::process::id();
    assert!(matches!(client.claim(), Err(ControlError::Owned { pid, .. }) if pid == own));
    let heard = Other::with(module_path!(), &format!("claim {name}")).next_line();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();

    assert_eq!(heard, format!("owned by {own} {}", comm.trim()));
    drop(owner);
    assert_eq!(Other::with(module_path!(), &format!("claim {name}")).next_line(), "true");
}

#[test]
fn an_owner_that_leaves_is_reported_and_its_outputs_end() {
    let (_, mut bus, client) = world(Sharing::WaitFree);
    let mut owner = client.claim().unwrap();
    owner.write(&pattern(3)).unwrap();
    assert_eq!(exchange(&mut bus, 1), pattern(3));
    drop(owner);
    // It waits a second at most for the thread that serves the bus.
    bus.cold_side().tend();

    assert_eq!(exchange(&mut bus, 2), [0; BYTES]);
    let _again = client.claim().unwrap();
    assert_eq!(
        exchange(&mut bus, 3),
        [0; BYTES],
        "what it wrote in its former life does not count"
    );
    assert_eq!(
        kinds(&client.events(1)),
        [EventKind::OwnerTaken, EventKind::OwnerLeft, EventKind::OwnerTaken]
    );
    assert_eq!(client.events(1).events[0].1.code, std::process::id());
}

#[test]
fn outputs_without_refresh_are_replaced_by_safe_ones_until_refreshed() {
    let settings = ImageSettings {
        stale_after_cycles: 3,
        safe_outputs: pattern(8),
        ..ImageSettings::default()
    };
    let (_, mut bus, client) = world(settings);
    let mut owner = client.claim().unwrap();
    owner.write(&pattern(1)).unwrap();
    let sent: Vec<_> =
        (1..=6).map(|number| number_of(&exchange(&mut bus, number)).unwrap()).collect();

    assert_eq!(sent, [1, 1, 1, 1, 8, 8], "the cycle that took them and three more");
    owner.write(&pattern(2)).unwrap();
    assert_eq!(number_of(&exchange(&mut bus, 7)), Some(2));
    assert_eq!(
        kinds(&client.events(1)),
        [EventKind::OwnerTaken, EventKind::OutputsStale],
        "reported once"
    );
    assert_eq!((client.events(1).events[1].1.cycle, client.events(1).events[1].1.code), (5, 4));
    assert_eq!(client.stats().counter(Counter::StaleCycles), 2);
}

#[test]
fn an_owner_killed_while_writing_leaves_complete_outputs_then_safe_ones_and_a_free_role() {
    for sharing in ALL {
        let (name, mut bus, client) = world(sharing);
        for _ in 0..5 {
            let mut other = Other::with(module_path!(), &format!("own {name}"));
            let pid = other.pid();
            assert_eq!(other.next_line(), "owns");
            let mut number = 0;
            let mut cycle = |bus: &mut BusSide| {
                number += 1;
                number_of(&exchange(bus, number)).expect("outputs of one piece")
            };

            until("its outputs are sent", || cycle(&mut bus) > 0);
            other.kill();
            (0..20).for_each(|_| _ = cycle(&mut bus));
            assert_eq!(
                cycle(&mut bus),
                0,
                "safe after ten cycles, even before the death is noticed"
            );
            bus.cold_side().tend();

            assert_eq!(cycle(&mut bus), 0);
            let events = client.events(1).events;
            let died = events
                .iter()
                .filter(|(_, event)| event.kind == EventKind::OwnerDied && event.code == pid);
            assert_eq!(died.count(), 1, "{sharing}: {events:?}");
        }

        client.claim().unwrap().write(&pattern(4)).unwrap();
    }
}

#[test]
fn the_role_of_a_dead_owner_can_be_claimed_before_the_bus_has_noticed() {
    let (name, mut bus, client) = world(Sharing::WaitFree);
    let mut other = Other::with(module_path!(), &format!("own {name}"));
    let pid = other.pid();
    assert_eq!(other.next_line(), "owns");
    exchange(&mut bus, 1);
    other.kill();
    let mut owner = client.claim().unwrap();

    assert_eq!(exchange(&mut bus, 2), [0; BYTES], "the dead one's outputs are not the new one's");
    owner.write(&pattern(6)).unwrap();
    assert_eq!(exchange(&mut bus, 3), pattern(6));
    let events = client.events(1);
    assert_eq!(
        kinds(&events)[..3],
        [EventKind::OwnerTaken, EventKind::OwnerDied, EventKind::OwnerTaken]
    );
    assert_eq!((events.events[1].1.code, events.events[2].1.code), (pid, std::process::id()));
}

/// A stopped owner is alive: it keeps its role, and safe outputs are sent.
#[test]
fn a_stopped_owner_is_stale_not_dead() {
    let (name, mut bus, client) = world(Sharing::WaitFree);
    let mut other = Other::with(module_path!(), &format!("own {name}"));
    assert_eq!(other.next_line(), "owns");
    until("its outputs are sent", || number_of(&exchange(&mut bus, 1)) != Some(0));
    let pid = Pid::from_raw(other.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    until("its outputs are safe", || number_of(&exchange(&mut bus, 2)) == Some(0));
    bus.cold_side().tend();

    assert!(matches!(client.claim(), Err(ControlError::Owned { .. })));
    kill_process(pid, Signal::CONT).unwrap();
    until("its outputs are sent again", || number_of(&exchange(&mut bus, 3)) != Some(0));
    assert_eq!(kinds(&client.events(1)), [EventKind::OwnerTaken, EventKind::OutputsStale]);
}

#[test]
fn an_owner_reads_and_answers_each_cycle() {
    let (_, mut bus, client) = world(Sharing::WaitFree);
    let mut owner = client.claim().unwrap();
    let mut seen = owner.snapshot();
    assert!(!owner.wait_cycle(&mut seen, Duration::ZERO).unwrap());
    for number in 1..=5 {
        assert_eq!(number_of(&exchange(&mut bus, number)), Some((number - 1) * 10));
        assert!(owner.wait_cycle(&mut seen, PATIENCE).unwrap());
        assert_eq!(number_of(&seen.inputs), Some(number));
        owner.write(&pattern(number * 10)).unwrap();
    }

    drop(bus);
    assert!(matches!(owner.write(&pattern(1)), Err(ControlError::BusEnded { .. })));
}

#[test]
fn a_bus_with_a_controller_of_its_own_keeps_the_outputs() {
    let (name, mut bus, client) = world(Sharing::WaitFree);
    bus.keep_outputs().unwrap();
    assert!(
        Other::with(module_path!(), &format!("claim {name}"))
            .next_line()
            .starts_with(&format!("owned by {}", std::process::id()))
    );
    bus.publish(&control_world::cycle(1), &pattern(1), &pattern(2));
    let mut seen = client.snapshot();
    let mut client = client;
    client.read(&mut seen).unwrap();

    assert_eq!(number_of(&seen.outputs), Some(2));
}
