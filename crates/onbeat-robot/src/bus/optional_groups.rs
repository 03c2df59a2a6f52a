//! Optional groups (hot connect): devices that may be away when the bus comes up, and come and go
//! while it runs.
//!
//! A group is found by the alias of its first device, wherever that is on the cable; its other
//! devices follow that one. What is found is identified and configured as a device that was lost
//! ([`super::recovery`]), by a script that is made from the file instead of a recording.

use std::ops::Range;

use super::addresses::{BusAddresses, FMMU_BYTES};
use super::config_record::{ConfigStep, FmmuMark, RegisterWrite};
use super::device::{BusDevice, DeviceStage};
use super::event_queue::EventWriter;
use super::image_shares::logical_of;
use super::known_device::KnownDevice;
use super::position_scan::PlaceReading;
use super::preop_setup::{before_mapping, before_safeop};
use onbeat_ethercat::al::{PREOP, SAFEOP};
use onbeat_ethercat::event::{EventKind, EventValues};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::registers::{AL_CONTROL, FMMU, SII_OWNER, SYNC_MANAGER};
use onbeat_ethercat::setup::{ChannelUsage, DeviceChannel};

/// FMMUs that are cleared: those of the smallest controllers, and as many as one write has.
const CLEARED: usize = 4 * FMMU_BYTES;

#[derive(Clone, Debug)]
struct OptionalGroup {
    devices: Range<usize>,
    alias: u16,
    /// Explicit device ID of its first device, 0 for none.
    device_id: u16,
    /// All its devices were in OP, which was reported.
    is_there: bool,
    /// Cycle in which it came, or in which its first device was found.
    since: Option<u64>,
    /// Position of its first device on the cable, when that was last seen.
    position: u16,
    /// Number of unknown devices with its alias on the cable, and whether several were reported.
    with_alias: u16,
    twice_reported: bool,
}

impl OptionalGroup {
    /// Returns whether its first device is at this place, by alias and device ID as far as the file
    /// has them.
    fn begins_at(&self, place: &PlaceReading) -> bool {
        begins_at((self.alias, self.device_id), (place.alias, place.device_id))
    }
}

/// Returns whether alias and device ID of a device are those of the first device of a group; 0 in
/// the file is any.
pub(super) fn begins_at(of_group: (u16, u16), there: (u16, u16)) -> bool {
    let fits = |wanted: u16, there: u16| wanted == 0 || wanted == there;
    of_group != (0, 0) && fits(of_group.0, there.0) && fits(of_group.1, there.1)
}

/// The optional groups of a bus.
#[derive(Clone, Debug, Default)]
pub(super) struct OptionalGroups {
    groups: Vec<OptionalGroup>,
}

impl OptionalGroups {
    pub(super) fn new(layout: &Layout) -> Self {
        let group = |group: &onbeat_ethercat::layout::GroupLayout| OptionalGroup {
            devices: group.devices.clone(),
            alias: layout.devices.get(group.devices.start).map_or(0, |head| head.alias),
            device_id: layout
                .devices
                .get(group.devices.start)
                .map_or(0, |head| head.setup.device_id),
            is_there: false,
            since: None,
            position: 0,
            with_alias: 0,
            twice_reported: false,
        };
        Self { groups: layout.groups.iter().map(group).collect() }
    }

    fn of(&self, device: usize) -> Option<&OptionalGroup> {
        self.groups.iter().find(|group| group.devices.contains(&device))
    }

    /// Returns the first device of the group of a device.
    pub(super) fn head_of(&self, device: usize) -> Option<usize> {
        self.of(device).map(|group| group.devices.start)
    }

    /// Returns the devices of the group of a device.
    pub(super) fn devices_of(&self, device: usize) -> Range<usize> {
        self.of(device).map_or(0..0, |group| group.devices.clone())
    }

    /// Returns the next device of the same group.
    pub(super) fn follower(&self, device: usize) -> Option<usize> {
        let group = self.of(device)?;
        Some(device + 1).filter(|next| group.devices.contains(next))
    }

    /// Returns the first device of the group that begins at this place.
    pub(super) fn head_at(&self, place: &PlaceReading) -> Option<usize> {
        let group = self.groups.iter().find(|group| group.begins_at(place))?;
        Some(group.devices.start)
    }

    /// Returns whether a group is identified by an explicit device ID, which is asked for then.
    pub(super) fn need_device_ids(&self) -> bool {
        self.groups.iter().any(|group| group.device_id != 0)
    }

    /// Counts the unknown devices on the cable that may be the first one of each group.
    pub(super) fn count_heads(
        &mut self,
        places: &[PlaceReading],
        is_unknown: impl Fn(usize) -> bool,
    ) {
        for group in &mut self.groups {
            let with_alias = places
                .iter()
                .enumerate()
                .filter(|(at, place)| group.begins_at(place) && is_unknown(*at));
            group.with_alias = with_alias.count() as u16;
            if group.with_alias > 1
                && let Some(at) = places
                    .iter()
                    .enumerate()
                    .position(|(at, place)| group.begins_at(place) && is_unknown(at))
            {
                group.position = at as u16;
            }
        }
    }

    /// Returns whether at most one unknown device has the alias of this first device.
    pub(super) fn is_single(&self, head: usize) -> bool {
        self.of(head).is_some_and(|group| group.with_alias < 2)
    }

    /// Records where the first device of a group is.
    pub(super) fn note_position(&mut self, device: usize, position: u16) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.devices.start == device) {
            group.position = position;
        }
    }

    /// Returns whether all devices of a group are in OP, by its number.
    pub(super) fn is_there(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(|group| group.is_there)
    }

    /// Reports groups that came, left, or cannot be told apart. `is_round`: the states of all
    /// devices were read.
    pub(super) fn report(
        &mut self,
        devices: &[BusDevice],
        is_round: bool,
        events: &mut EventWriter<'_>,
    ) {
        for group in &mut self.groups {
            let own = &devices[group.devices.clone()];
            let head = Some(group.devices.start);
            let away =
                own.iter().filter(|device| matches!(device.stage, DeviceStage::NoAnswer)).count()
                    as u16;
            let is_in_op = own.iter().all(|device| matches!(device.stage, DeviceStage::InOp));
            let passed_us = |since: Option<u64>| {
                (events.cycle - since.unwrap_or(events.cycle)) * events.period_ns / 1_000
            };
            let code = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);

            // Its devices come one after the other, within many cycles: the group is there with the
            // last of them, and gone with the first, because its owner plugs all of it.
            if group.is_there {
                // Between two rounds some states are older than others, and the count of those
                // that are away would be less than what was pulled out.
                if away > 0 && is_round {
                    let values = EventValues::from_change(away, group.position);
                    let there_ms = passed_us(group.since) / 1_000;
                    events.write(EventKind::GroupLeft, head, values.with_code(code(there_ms)));
                    (group.is_there, group.since) = (false, None);
                }
            } else if is_in_op {
                let values = EventValues::from_change(own.len() as u16, group.position);
                let us = passed_us(group.since);
                events.write(EventKind::GroupCame, head, values.with_code(code(us)));
                (group.is_there, group.since) = (true, Some(events.cycle));
            } else if matches!(own.first(), Some(first) if matches!(first.stage, DeviceStage::NoAnswer))
            {
                group.since = None;
            } else {
                group.since.get_or_insert(events.cycle);
            }

            // Once for each time that it happens, not in every cycle for as long as it lasts.
            let is_twice = group.with_alias > 1;
            if is_twice && !group.twice_reported {
                let values = EventValues::from_change(group.with_alias, group.position);
                // An alias, or with bit 16 a device ID.
                let number = match group.alias {
                    0 => 1 << 16 | u32::from(group.device_id),
                    alias => alias.into(),
                };
                let values = values.with_code(number);
                events.write(EventKind::GroupTwice, head, values);
            }
            group.twice_reported = is_twice;
        }
    }
}

/// Returns the devices of the optional groups, as they are identified and configured when they come.
pub(super) fn absent_devices(
    layout: &Layout,
    addresses: &mut BusAddresses,
    period_ns: u64,
    is_led: bool,
) -> Vec<BusDevice> {
    let optional = layout.always_there()..layout.devices.len();
    let absent = optional.map(|place| {
        let device = &layout.devices[place];
        let logical = logical_of(layout, place).map(|offset| addresses.logical_start() + offset);
        let script = script(layout, place, logical, period_ns).into_boxed_slice();
        let has_clock = device.setup.memory.as_ref().is_some_and(|memory| memory.has_clock);
        let known = KnownDevice {
            // No device has it: it is polled without an answer until the device is found.
            station: addresses.next_station(|_| false),
            identity: [device.vendor, device.product, 0, device.serial],
            is_optional: true,
            alias: device.alias,
            device_id: device.setup.device_id,
            has_identical: false,
            mark: FmmuMark::in_script(&script),
            script,
            has_clock: has_clock && is_led,
            last_mail_counter: 0,
        };
        BusDevice::absent(known, layout.group_of(place).unwrap_or_default())
    });
    absent.collect()
}

/// Returns the configuration of a device from INIT to SAFEOP, from the file. `logical` are the
/// addresses of its inputs and outputs.
fn script(layout: &Layout, place: usize, logical: [u32; 2], period_ns: u64) -> Vec<ConfigStep> {
    let memory = layout.devices[place].setup.memory.clone().unwrap_or_default();
    let write = |register: u16, bytes: &[u8]| {
        ConfigStep::Register(RegisterWrite { register, bytes: bytes.into() })
    };
    let channel = |channel: &DeviceChannel| {
        write(SYNC_MANAGER + 8 * u16::from(channel.number), &channel_bytes(channel))
    };
    let of =
        |usage: ChannelUsage| memory.channels.iter().filter(move |channel| channel.usage == usage);

    let mut steps: Vec<ConfigStep> = of(ChannelUsage::Mailbox).map(channel).collect();
    // Some devices need their EEPROM in PREOP; the identification took it.
    steps.push(ConfigStep::register(SII_OWNER, 1));
    steps.push(ConfigStep::register(AL_CONTROL, PREOP.into()));
    steps.extend(before_mapping(layout, place));
    steps.push(write(FMMU, &[0; CLEARED]));
    let data = of(ChannelUsage::Outputs).chain(of(ChannelUsage::Inputs));
    steps.extend(data.map(channel));

    let [mut inputs, mut outputs] = logical;
    let mut number = 0;
    for usage in [ChannelUsage::Outputs, ChannelUsage::Inputs] {
        for channel in of(usage) {
            let at = if usage == ChannelUsage::Outputs { &mut outputs } else { &mut inputs };
            steps.push(write(FMMU + number * FMMU_BYTES as u16, &fmmu_bytes(channel, *at)));
            *at += u32::from(channel.bytes);
            number += 1;
        }
    }

    steps.extend(before_safeop(layout, place, period_ns));
    steps.push(ConfigStep::register(AL_CONTROL, SAFEOP.into()));
    steps
}

/// Registers of a SyncManager (ETG.1000.4, table 32).
fn channel_bytes(channel: &DeviceChannel) -> [u8; 8] {
    let [start, start_high] = channel.start.to_le_bytes();
    let [bytes, bytes_high] = channel.bytes.to_le_bytes();
    [start, start_high, bytes, bytes_high, channel.control, 0, 1, 0]
}

/// Registers of an FMMU that maps whole bytes (ETG.1000.4, table 28).
fn fmmu_bytes(channel: &DeviceChannel, logical: u32) -> [u8; FMMU_BYTES] {
    const READS: u8 = 1;
    const WRITES: u8 = 2;
    let mut bytes = [0; FMMU_BYTES];
    bytes[..4].copy_from_slice(&logical.to_le_bytes());
    bytes[4..6].copy_from_slice(&channel.bytes.to_le_bytes());
    bytes[7] = 7;
    bytes[8..10].copy_from_slice(&channel.start.to_le_bytes());
    bytes[11] = if channel.usage == ChannelUsage::Outputs { WRITES } else { READS };
    bytes[12] = 1;
    bytes
}
