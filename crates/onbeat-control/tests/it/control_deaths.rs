//! When any process is killed, the others continue or get an error, and nothing has to be cleaned
//! up.

use crate::control_world;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_world::{
    Other, client, cycle, exchange, kinds, layout, number_of, pattern, print_line, role,
    unique_name, until,
};
use onbeat_control::{
    Client, ControlError, Counter, Image, ImageSettings, SdoAction, SdoRequest, Sharing,
    remove_leftovers,
};
use onbeat_ethercat::event::EventKind;

/// Held by a test that kills a bus or removes what killed ones left, of any name.
static LEFT_BEHIND: Mutex<()> = Mutex::new(());
const LONG: Duration = Duration::from_secs(600);

#[test]
fn in_another_process() {
    let Some(words) = role() else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };

    match words[0].as_str() {
        "bus" => {
            let mut bus = Image::create(&words[1], &layout(), Sharing::WaitFree).unwrap();
            bus.publish(&cycle(1), &pattern(1), &pattern(1));
            print_line("runs");
            std::thread::sleep(LONG);
        }
        "compete" => match Image::create(&words[1], &layout(), Sharing::WaitFree) {
            Ok(_bus) => {
                print_line("runs");
                std::thread::sleep(LONG);
            }
            Err(ControlError::Taken { .. }) => print_line("taken"),
            Err(other) => print_line(&other.to_string()),
        },
        "stay" => {
            let mut client = client(&words[1]);
            let mut seen = client.snapshot();
            client.read(&mut seen).unwrap();
            print_line("reads");
            let mut has_begun = false;
            let stays = client.read_while(&mut seen, || {
                if !std::mem::replace(&mut has_begun, true) {
                    print_line("stays");
                }
                true
            });
            stays.unwrap();
        }
        "ask" => {
            let request = SdoRequest {
                device: 1,
                index: 0x1018,
                entry: 1,
                complete: false,
                action: SdoAction::Read,
            };
            print_line("asks");
            _ = client(&words[1]).request(&request, LONG);
        }
        other => panic!("unknown role {other}"),
    }
}

fn alone() -> MutexGuard<'static, ()> {
    LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of what was removed. The guard: no other test is between a death and the next bus.
fn removed(_alone: &MutexGuard<'_, ()>) -> Vec<String> {
    remove_leftovers()
}

fn path_of(name: &str) -> PathBuf {
    let own = onbeat_host::runtime_dir::RuntimeDir::own().unwrap();
    own.path().join(format!("{name}.sock"))
}

fn socket(name: &str) -> bool {
    path_of(name).exists()
}

#[test]
fn readers_of_a_killed_bus_get_an_error_and_the_next_bus_takes_over_the_name() {
    let _alone = alone();
    let name = unique_name();
    let mut other = Other::with(module_path!(), &format!("bus {name}"));
    let pid = other.pid();

    assert_eq!(other.next_line(), "runs");
    let mut reader = client(&name);
    let mut seen = reader.snapshot();
    reader.read(&mut seen).unwrap();
    other.kill();
    let error_of =
        |client: &mut Client| client.read(&mut client.snapshot()).map_err(|why| why.to_string());
    let sentence = format!("the bus process {pid} of \"{name}\" is gone");
    until("a reader gets the error", || {
        error_of(&mut reader).is_err_and(|why| why.starts_with(&sentence))
    });

    assert!(matches!(reader.wait_next(Duration::from_secs(60)), Err(ControlError::BusDied { .. })));
    assert!(matches!(Client::open(&name), Err(ControlError::NoBus { .. })));
    assert!(matches!(reader.claim(), Err(ControlError::BusDied { .. })));
    assert!(socket(&name), "no process has cleaned up");

    let mut bus = Image::create(&name, &layout(), Sharing::Pi).unwrap();
    assert!(matches!(reader.claim(), Err(ControlError::BusReplaced { .. })));
    assert!(matches!(reader.check(), Err(ControlError::BusDied { .. })));
    exchange(&mut bus, 5);
    let mut reader = client(&name);
    reader.read(&mut seen).unwrap();

    assert_eq!((number_of(&seen.inputs), reader.state().pid), (Some(5), std::process::id()));
    drop(bus);
    assert!(!socket(&name));
}

#[test]
fn the_image_of_a_killed_bus_is_removed_on_request() {
    let alone = alone();
    let name = unique_name();
    let mut other = Other::with(module_path!(), &format!("bus {name}"));
    assert_eq!(other.next_line(), "runs");
    assert!(!removed(&alone).contains(&name));
    other.kill();

    assert!(removed(&alone).contains(&name) && !socket(&name));
}

#[test]
fn a_file_that_is_not_a_socket_is_left_alone() {
    let alone = alone();
    let name = unique_name();
    let path = path_of(&name);
    std::fs::write(&path, b"somebody else's").unwrap();
    // The kernel refuses to connect to it, as to the socket of a dead process.
    assert!(matches!(Client::open(&name), Err(ControlError::NoBus { .. })));
    let refused = Image::create(&name, &layout(), Sharing::WaitFree).unwrap_err().to_string();
    assert!(refused.contains("it is not a socket; remove it, or use another --name"), "{refused}");

    assert!(!removed(&alone).contains(&name));
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn of_many_processes_that_start_at_once_one_gets_the_name_of_a_killed_bus() {
    let _alone = alone();
    let name = unique_name();
    let mut killed = Other::with(module_path!(), &format!("bus {name}"));
    assert_eq!(killed.next_line(), "runs");
    killed.kill();

    let mut all: Vec<_> =
        (0..6).map(|_| Other::with(module_path!(), &format!("compete {name}"))).collect();
    let mut said: Vec<String> = all.iter_mut().map(Other::next_line).collect();
    said.sort();
    assert_eq!(said, ["runs", "taken", "taken", "taken", "taken", "taken"]);
}

/// The kinds of sharing differ in whether the bus waits for a reader; in each of them it continues.
#[test]
fn a_reader_killed_while_reading_costs_others_only_time() {
    for (sharing, has_lock) in
        [(Sharing::WaitFree, false), (Sharing::Pi, true), (Sharing::Plain, true)]
    {
        let name = unique_name();
        let settings = ImageSettings { lock_wait: control_world::PATIENCE, ..sharing.into() };
        let mut bus = Image::create(&name, &layout(), settings).unwrap();
        exchange(&mut bus, 1);
        let reader = client(&name);
        for round in 1..=3 {
            let mut other = Other::with(module_path!(), &format!("stay {name}"));
            let pid = other.pid();
            assert_eq!(other.next_line(), "reads");
            if has_lock {
                let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
                std::thread::scope(|threads| {
                    let writing = threads.spawn(|| {
                        for number in 1..u64::MAX {
                            begun.store(number, Ordering::Release);
                            exchange(&mut bus, number);
                            done.store(number, Ordering::Release);
                            let events = reader.events(1);
                            if events.events.last().is_some_and(|(_, event)| event.code == pid) {
                                return events;
                            }
                        }
                        unreachable!("the reader's death is reported before")
                    });

                    // Cycles pass until the reader has the lock; then the bus waits for it.
                    let said = other.next_line();
                    until("the bus waits", || {
                        begun.load(Ordering::Acquire) > done.load(Ordering::Acquire)
                    });
                    other.kill();
                    assert_eq!(said, "stays");
                    let events = writing.join().unwrap();
                    assert_eq!(kinds(&events), vec![EventKind::ReaderDied; round]);
                });
            } else {
                assert_eq!(other.next_line(), "stays");
                (1..100).for_each(|number| _ = exchange(&mut bus, number));
                other.kill();
                assert_eq!(reader.events(1).events, []);
            }

            exchange(&mut bus, 7);
            let mut seen = reader.snapshot();
            client(&name).read(&mut seen).unwrap();
            assert_eq!(number_of(&seen.inputs), Some(7));
        }
    }
}

/// A reader that is stopped while it holds the lock costs the bus one wait, not its cycles.
#[test]
fn a_stopped_reader_costs_the_bus_one_wait() {
    for sharing in [Sharing::Pi, Sharing::Plain] {
        let name = unique_name();
        let mut bus = Image::create(&name, &layout(), sharing).unwrap();
        exchange(&mut bus, 1);
        let mut other = Other::with(module_path!(), &format!("stay {name}"));
        assert_eq!((other.next_line(), other.next_line()), ("reads".into(), "stays".into()));
        other.stop();

        (2..=100).for_each(|number| _ = exchange(&mut bus, number));
        let found = reader_of_a_bus_whose_lock_is_held(&name);
        assert_eq!(found, Some(100), "{sharing}: published without the lock");
        other.resume();
        other.kill();
        until("the lock serves again", || {
            exchange(&mut bus, 101);
            let client = client(&name);
            kinds(&client.events(1)) == [EventKind::LockTimeout, EventKind::ReaderDied]
        });
        let client = client(&name);
        assert!(client.stats().counter(Counter::LockTimeouts) >= 99);
    }
}

#[test]
fn a_stopped_bus_can_be_looked_at_and_claims_are_refused_with_a_sentence() {
    let _alone = alone();
    let name = unique_name();
    let mut other = Other::with(module_path!(), &format!("bus {name}"));
    assert_eq!(other.next_line(), "runs");
    other.stop();

    let mut reader = client(&name);
    let mut seen = reader.snapshot();
    reader.read(&mut seen).unwrap();
    assert_eq!((number_of(&seen.inputs), reader.state().pid), (Some(1), other.pid()));
    let why = reader.claim().unwrap_err();
    assert!(matches!(why, ControlError::NotReady { .. }), "{why}");
    other.resume();
    assert!(reader.claim().is_ok());
}

/// A client waits a second for the lock, then reads without it.
fn reader_of_a_bus_whose_lock_is_held(name: &str) -> Option<u64> {
    let mut client = client(name);
    let mut seen = client.snapshot();
    client.read(&mut seen).unwrap();
    number_of(&seen.inputs)
}

#[test]
fn the_request_of_a_killed_process_is_dropped_at_each_of_its_stages() {
    let name = unique_name();
    let bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    let cold = bus.cold_side();
    // Three times the number of records: with a leak none would be left.
    for round in 0..12 {
        let mut others: Vec<_> =
            (0..4).map(|_| Other::with(module_path!(), &format!("ask {name}"))).collect();
        others.iter_mut().for_each(|other| assert_eq!(other.next_line(), "asks"));
        let mut jobs = Vec::new();
        if round % 2 == 0 {
            until("all have asked", || {
                jobs.extend(cold.take_request());
                jobs.len() == 4
            });
        }

        others.into_iter().for_each(Other::kill);
        cold.tend();
        jobs.iter().for_each(|job| cold.answer(job, &Ok(vec![1])));
        cold.tend();
        assert!(cold.take_request().is_none(), "no requester is left");
    }

    let request =
        SdoRequest { device: 0, index: 0x1000, entry: 0, complete: false, action: SdoAction::Read };
    let reader = client(&name);
    std::thread::scope(|threads| {
        let asking: Vec<_> = (0..16)
            .map(|_| threads.spawn(|| reader.request(&request, control_world::PATIENCE)))
            .collect();
        let mut answered = 0;
        until("all 16 records serve", || {
            if let Some(job) = cold.take_request() {
                cold.answer(&job, &Ok(vec![2]));
                answered += 1;
            }
            answered == 16
        });

        asking
            .into_iter()
            .for_each(|asked| assert_eq!(asked.join().unwrap().unwrap(), Ok(vec![2])));
    });
}
