//! A scan finds the devices on a cable, and changes nothing.

use crate::bus_world;

use bus_world::{MS, OPTIONS, World, clock};
use onbeat_ethercat::event::EventKind;
use onbeat_robot::bus::{BusError, InProcess, RunningBus, Wire, scan};
use onbeat_rt::frame::{Command, LONGEST, Writer, is_reply_to, position, register};
use onbeat_rt::time::{Clock, Instant};
use onbeat_segment::{Link, Segment};

/// Returns the registers of a device, read by position; registers that change without access are
/// left out.
fn registers<W: Wire>(
    wire: &mut W,
    device: u16,
    left_out: &[std::ops::Range<u16>],
) -> Vec<(u16, u8)> {
    let mut all = Vec::new();
    for at in (0..0x1000u16).step_by(1024) {
        let mut frame = [0; LONGEST];
        let mut writer = Writer::new(&mut frame, 0x7f);
        let data = writer.push(Command::Aprd, register(position(device), at), 1024).unwrap();
        let length = writer.finish();
        wire.send(&frame[..length]);
        let mut reply = [0; LONGEST];
        let until = wire.now().plus_ns(MS / 4);
        let came = std::iter::from_fn(|| {
            wire.receive(&mut reply, until).map(|length| reply[..length].to_vec())
        });
        let reply =
            came.into_iter().find(|reply| is_reply_to(reply, &frame[..length])).expect("a reply");
        all.extend((at..).zip(reply[data..data + 1024].iter().copied()));
    }

    all.retain(|(at, _)| !left_out.iter().any(|range| range.contains(at)));
    all
}

/// Watchdog counters, status of SyncManagers, and time change without access.
const BY_THEMSELVES: [std::ops::Range<u16>; 3] = [0x0440..0x0444, 0x0800..0x0880, 0x0900..0x0a00];

#[test]
fn a_scan_beside_a_running_robot_changes_no_register_and_does_not_disturb_it() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    world.cycles(50);
    world.events.clear();
    let all = |world: &mut World<'_>| -> Vec<_> {
        (0..59).map(|device| registers(world.bus.wire_mut(), device, &BY_THEMSELVES)).collect()
    };
    let before = all(&mut world);
    let counts = world.bus.counts();
    let found = scan(world.bus.wire_mut(), "eth1", true).unwrap();

    assert_eq!(all(&mut world), before, "no register of any device");
    assert_eq!(found.len(), 59);
    for (device, registers) in found.iter().zip(&before) {
        let byte =
            |at: u16| u16::from(registers.iter().find(|(register, _)| *register == at).unwrap().1);
        let station = byte(0x0010) | byte(0x0011) << 8;
        assert!(station != 0);
        assert_eq!((device.al_state, device.station, &device.identity), (8, station, &None));
    }

    world.pause(MS);
    world.cycles(50);
    // On one socket the scan received the bus's reply; with two sockets each has a copy.
    let noticed = world.kinds().into_iter().filter(|kind| *kind != EventKind::FrameLost).count();
    assert!(world.bus.is_up() && noticed == 0, "{:?}", world.events);
    assert_eq!(world.bus.counts().counter_off, counts.counter_off);
}

#[test]
fn a_scan_of_idle_devices_reads_identities_and_keeps_states_and_station_addresses() {
    let clock = clock();
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID).unwrap(), &clock);
    // Only the EEPROM interface may be written: command, address, and thereby the data read.
    let left_out = [BY_THEMSELVES[2].clone(), 0x0502..0x0510];
    let all = |wire: &mut InProcess<_>| -> Vec<_> {
        (0..59).map(|device| registers(wire, device, &left_out)).collect()
    };
    let before = all(&mut wire);
    let found = scan(&mut wire, "eth1", false).unwrap();

    assert_eq!(all(&mut wire), before);
    let layout = onbeat_ethercat::layout::Layout::from_toml(Segment::HUMANOID).unwrap();
    assert_eq!(found.len(), layout.devices.len());
    for (device, known) in found.iter().zip(&layout.devices) {
        let identity = device.identity.as_ref().unwrap();
        assert_eq!((device.al_state, device.station), (1, 0));
        assert_eq!(
            (identity.vendor, identity.product, identity.revision, device.alias),
            (known.vendor, known.product, known.revision, known.alias)
        );
        assert!(!identity.name.is_empty() && device.has_clock, "{identity:?}");
    }

    // The names are those that ethercrab finds too.
    assert_eq!(found[1].identity.as_ref().unwrap().name, "imu");
}

#[test]
fn an_eeprom_assigned_to_its_device_is_not_read() {
    let clock = clock();
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID).unwrap(), &clock);
    let mut frame = [0; LONGEST];
    let mut writer = Writer::new(&mut frame, 0x7f);
    writer.push_data(Command::Apwr, register(position(7), 0x0500), &[1]).unwrap();
    let length = writer.finish();
    wire.send(&frame[..length]);
    let found = scan(&mut wire, "eth1", true).and_then(|_| scan(&mut wire, "eth1", false)).unwrap();
    let unread: Vec<usize> = (0..59).filter(|&place| found[place].identity.is_none()).collect();

    assert_eq!(unread, [7]);
}

/// Frames of another MainDevice are received while nothing is sent.
struct Busy<W>(W, u32);

impl<W: Wire> Wire for Busy<W> {
    fn send(&mut self, frame: &[u8]) {
        self.0.send(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        let Some(left) = self.1.checked_sub(1) else { return self.0.receive(buffer, until) };
        self.1 = left;
        buffer[..60].fill(0xaa);
        Some(60)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn rest(&mut self) {
        self.0.rest();
    }
}

#[test]
fn a_bus_of_another_program_is_not_scanned_by_default() {
    let clock = clock();
    let wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID).unwrap(), &clock);
    let mut wire = Busy(wire, 12);
    let refused = scan(&mut wire, "eth1", false).unwrap_err();

    assert!(
        matches!(&refused, BusError::Running(RunningBus::Foreign(on, 12)) if on == "eth1"),
        "{refused}"
    );
    assert_eq!(
        refused.to_string(),
        "another MainDevice is running on \"eth1\": 12 of its frames were received within 200 ms; nothing was sent: use `--beside-running` to scan \
         read-only"
    );
    assert_eq!(wire.0.link().counts().sent, 0, "nothing was sent");
    wire.1 = 5;

    assert_eq!(scan(&mut wire, "eth1", true).unwrap().len(), 59);
}

#[test]
fn a_cable_without_devices_is_one_error() {
    let clock = clock();
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID).unwrap(), &clock);
    let now = clock.now();
    wire.link_mut().inject(onbeat_segment::Fault::Lose, now, None, 1.0);
    assert!(matches!(scan(&mut wire, "eth1", false), Err(BusError::NoDevices(on)) if on == "eth1"));
}

#[test]
fn a_scan_repeats_lost_frames() {
    let clock = clock();
    let mut wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID).unwrap(), &clock);
    let now = clock.now();
    wire.link_mut().inject(onbeat_segment::Fault::Lose, now, None, 0.2);
    let found = scan(&mut wire, "eth1", true).unwrap();
    assert_eq!(found.len(), 59);
}

#[test]
fn frames_of_a_scan_are_ignored_by_the_bus() {
    let clock = clock();
    let mut world = World::new(Segment::HUMANOID, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    // Both sockets receive all replies: here the bus finds replies to a scan.
    let mut frame = [0; LONGEST];
    let mut writer = Writer::new(&mut frame, 0xa0);
    writer.push(Command::Brd, register(0, 0x0130), 2).unwrap();
    let length = writer.finish();

    for _ in 0..100 {
        world.bus.wire_mut().send(&frame[..length]);
        world.cycles(1);
    }

    assert_eq!(world.count(EventKind::FrameUnknown) + world.count(EventKind::ForeignFrames), 0);
}
