//! The image of a bus: created, named, and read consistently by threads and processes in all three
//! kinds of sharing.

use crate::control_world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use control_world::{
    ALL, BYTES, Other, client, cycle, exchange, in_bursts, layout, number_of, pattern, print_line,
    role, unique_name,
};
use onbeat_control::{
    BusSide, Client, ControlError, DeviceState, Image, ImageSettings, Presence, Sharing,
    remove_leftovers,
};
use onbeat_ethercat::layout::Layout;

/// Number of reads with each kind of sharing; `make peers` makes more of the wait-free one.
const READINGS: u64 = 1_000_000;

fn readings() -> u64 {
    std::env::var("ONBEAT_CONTROL_READINGS")
        .map_or(READINGS, |n| n.replace('_', "").parse().expect("a number"))
}

/// Consecutive reads before a reader lets the bus publish.
const STRETCH: u64 = 64;

/// Reads this often and checks each image; returns the number of different ones.
///
/// After each series of reads it waits outside any lock for a new cycle. So the bus gets its turn
/// with any scheduling and any lock, and each series has a new image.
fn read(client: &mut Client, times: u64) -> u64 {
    let mut seen = client.snapshot();
    let mut last = 0;
    let mut different = 0;
    for reading in 0..times {
        if reading % STRETCH == 0 {
            assert!(
                client.wait_next(control_world::PATIENCE).unwrap(),
                "the bus publishes while others read"
            );
        }

        client.read(&mut seen).unwrap();
        let number = number_of(&seen.inputs).expect("inputs of one piece");
        assert_eq!(number_of(&seen.outputs), Some(number), "outputs of the same cycle");
        assert_eq!(seen.cycle, cycle(number), "and so is the cycle");
        assert!(number >= last, "never an older one");
        different += u64::from(number > last);
        last = number;
    }

    different
}

#[test]
fn in_another_process() {
    let Some(words) = role() else {
        return assert!(std::env::args().count() > 0, "a role for others");
    };
    match words[0].as_str() {
        "read" => print_line(&read(&mut client(&words[1]), words[2].parse().unwrap()).to_string()),
        "create" => match Image::create(&words[1], &layout(), Sharing::WaitFree) {
            Err(ControlError::Taken { pid, .. }) => print_line(&format!("taken by {pid}")),
            other => print_line(&format!("{other:?}")),
        },
        other => panic!("unknown role {other}"),
    }
}

#[test]
fn clients_read_what_the_bus_publishes() {
    let name = unique_name();
    let mut bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    let mut client = client(&name);
    let mut seen = client.snapshot();

    assert!(matches!(client.read(&mut seen), Err(ControlError::NoCycleYet { .. })));
    assert_eq!(exchange(&mut bus, 7), [0; BYTES], "without an owner, safe outputs are sent");
    client.read(&mut seen).unwrap();
    assert_eq!((seen.number, seen.cycle), (1, cycle(7)));
    assert_eq!((number_of(&seen.inputs), number_of(&seen.outputs)), (Some(7), Some(0)));
}

#[test]
fn a_client_reads_layout_and_device_states() {
    let name = unique_name();
    let bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    let op = DeviceState { al_state: 8, al_status: 0, presence: Presence::Present };
    let lost = DeviceState { al_state: 4, al_status: 0x1B, presence: Presence::Lost };
    bus.set_state(0, op);
    bus.set_state(1, lost);
    bus.set_state(2, lost);
    let client = client(&name);

    assert_eq!(client.layout(), layout());
    let devices = client.devices();
    assert_eq!(devices.iter().map(|device| device.state).collect::<Vec<_>>(), [op, lost]);
    assert_eq!(devices[1].layout, layout().devices[1]);
    let state = client.state();

    assert_eq!((state.devices, state.in_op, state.owner, state.cycle), (2, 1, None, None));
    assert_eq!((state.pid, state.segment.as_str()), (std::process::id(), "two joints"));
}

#[test]
fn an_image_without_devices_works() {
    let name = unique_name();
    let mut bus = Image::create(&name, &Layout::default(), Sharing::Pi).unwrap();
    bus.exchange(&cycle(1), &[], &mut []);
    let mut client = client(&name);
    let mut seen = client.snapshot();
    client.read(&mut seen).unwrap();

    assert!(seen.cycle == cycle(1) && client.devices().is_empty());
}

#[test]
fn the_given_safe_outputs_are_sent() {
    let name = unique_name();
    let settings = |safe| ImageSettings { safe_outputs: safe, ..ImageSettings::default() };
    let refused = Image::create(&name, &layout(), settings(vec![1; 3]));
    assert!(matches!(refused, Err(ControlError::SafeOutputs { given: 3, wanted: BYTES })));
    let mut bus = Image::create(&name, &layout(), settings(pattern(5))).unwrap();
    assert_eq!(exchange(&mut bus, 1), pattern(5));
}

#[test]
fn a_name_with_a_path_is_refused() {
    for name in ["", "../x", ".hidden", "a/b", "a b", &"x".repeat(65)] {
        assert!(
            matches!(
                Image::create(name, &layout(), Sharing::WaitFree),
                Err(ControlError::BadName { .. })
            ),
            "{name}"
        );
        assert!(matches!(Client::open(name), Err(ControlError::BadName { .. })), "{name}");
    }
}

#[test]
fn a_name_without_a_bus_is_refused_in_one_sentence() {
    let why = Client::open("test-nobody").unwrap_err().to_string();
    assert_eq!(
        why,
        "no bus named \"test-nobody\" is running on this machine; `onbeat bus run --name test-nobody` starts a bus, `onbeat robot run --name test-nobody --trajectory commander` a robot"
    );
}

#[test]
fn a_name_is_used_by_one_bus_at_a_time() {
    let name = unique_name();
    let bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    let own = std::process::id();
    let again = Image::create(&name, &layout(), Sharing::WaitFree);

    assert!(matches!(again, Err(ControlError::Taken { pid, .. }) if pid == own));
    assert_eq!(
        Other::with(module_path!(), &format!("create {name}")).next_line(),
        format!("taken by {own}")
    );
    assert!(!remove_leftovers().contains(&name), "the image of a living process is not a leftover");
    drop(bus);
    drop(Image::create(&name, &layout(), Sharing::WaitFree).unwrap());
}

#[test]
fn a_bus_that_ends_in_order_informs_its_readers_and_leaves_nothing() {
    let name = unique_name();
    let mut bus = Image::create(&name, &layout(), Sharing::WaitFree).unwrap();
    exchange(&mut bus, 1);
    let mut client = client(&name);
    let mut seen = client.snapshot();
    client.read(&mut seen).unwrap();
    drop(bus);

    assert!(matches!(client.read(&mut seen), Err(ControlError::BusEnded { .. })));
    assert!(matches!(client.wait_next(Duration::from_secs(5)), Err(ControlError::BusEnded { .. })));
    assert!(matches!(Client::open(&name), Err(ControlError::NoBus { .. })));
}

#[test]
fn only_the_user_may_connect_unless_there_is_a_group() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let own = onbeat_host::runtime_dir::RuntimeDir::own().unwrap();
    let group = rustix::process::getegid().as_raw();
    for (group, expected) in [(None, 0o600), (Some(group), 0o660)] {
        let name = unique_name();
        let settings = ImageSettings { group, ..ImageSettings::default() };
        let _bus = Image::create(&name, &layout(), settings).unwrap();
        let socket = std::fs::metadata(own.path().join(format!("{name}.sock"))).unwrap();
        assert_eq!(socket.permissions().mode() & 0o777, expected);
        assert!(group.is_none_or(|group| socket.gid() == group));
    }
}

/// `times` reads by two threads and a process, while the bus publishes in bursts.
fn nothing_is_torn(sharing: Sharing, times: u64) {
    let name = unique_name();
    let mut bus = Image::create(&name, &layout(), sharing).unwrap();
    let publish =
        |bus: &mut BusSide, number| bus.publish(&cycle(number), &pattern(number), &pattern(number));
    publish(&mut bus, 1);
    let each = times / 3 + 1;
    let mut other = Other::with(module_path!(), &format!("read {name} {each}"));
    let is_over = AtomicBool::new(false);
    let (different, of_process) = thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let numbers = (2..).take_while(|_| !is_over.load(Ordering::Relaxed));
            in_bursts(numbers, |number| publish(&mut bus, number));
        });

        let readers: Vec<_> =
            (0..2).map(|_| threads.spawn(|| read(&mut client(&name), each))).collect();
        let different: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let of_process = other.next_line();
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        (different, of_process)
    });

    let different: Vec<u64> = different.into_iter().map(Result::unwrap).collect();
    let least = each.div_ceil(STRETCH);
    assert!(
        different.iter().all(|n| *n >= least),
        "a new image in each stretch of readings: {different:?}"
    );
    assert!(
        of_process.parse::<u64>().is_ok_and(|n| n >= least),
        "and in the other process: {of_process}"
    );
    assert!(other.has_succeeded());
}

#[test]
fn no_reader_ever_sees_a_torn_image_without_a_lock() {
    nothing_is_torn(Sharing::WaitFree, readings());
}

#[test]
fn no_reader_ever_sees_a_torn_image_behind_a_lock() {
    nothing_is_torn(Sharing::Pi, READINGS / 20);
    nothing_is_torn(Sharing::Plain, READINGS / 20);
}

#[test]
fn a_waiting_reader_gets_each_cycle() {
    for sharing in ALL {
        let name = unique_name();
        let mut bus = Image::create(&name, &layout(), sharing).unwrap();
        let mut client = client(&name);
        let mut seen = client.snapshot();
        let tick = AtomicU64::new(0);

        assert!(!client.wait_next(Duration::from_millis(2)).unwrap(), "there is none yet");
        thread::scope(|threads| {
            let reader = threads.spawn(|| {
                for number in 1..=20 {
                    assert!(client.wait_next(control_world::PATIENCE).unwrap());
                    client.read(&mut seen).unwrap();
                    assert_eq!(seen.number, number);
                    tick.store(number, Ordering::Release);
                }
            });

            for number in 1..=20 {
                exchange(&mut bus, number);
                while tick.load(Ordering::Acquire) < number && !reader.is_finished() {
                    thread::yield_now();
                }
            }

            reader.join().unwrap();
        });
    }
}
