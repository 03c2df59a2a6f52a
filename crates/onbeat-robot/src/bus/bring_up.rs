//! Bring-up by ethercrab: from any state to SAFEOP on all devices, with process data mapped.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ethercrab::subdevice_group::{PreOp, PreOpPdi};
use ethercrab::{DefaultLock, MainDevice, MainDeviceConfig, PduStorage, SubDeviceGroup, Timeouts};

use super::addresses::{BusAddresses, MOST_DEVICES};
use super::config_record::{
    ConfigRecord, ConfigStep, FmmuMark, enabled_areas, first_output_address, fmmus_by_area,
    maps_whole_areas,
};
use super::device_ids::{check_device_ids, device_ids_of_groups};
use super::error::{BusError, Unready};
use super::frame_exchange::{FrameExchange, MOST_TRIES};
use super::image_shares::logical_of;
use super::known_device::KnownDevice;
use super::mapped_objects::{self, MappedEntries};
use super::optional_groups::begins_at;
use super::panic_guard::catch_panic;
use super::plugged_modules::check_modules;
use super::preop_setup::{PreopSetup, before_mapping, before_safeop};
use super::pump::{Pump, read_words};
use super::topology::{PortLinks, Upstream, upstreams};
use onbeat_ethercat::carrier::CarrierError;
use onbeat_ethercat::event::{Event, EventKind, EventValues, NO_DEVICE};
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout};
use onbeat_ethercat::registers::{DL_STATUS, FMMUS, STATION};
use onbeat_ethercat::setup::DeviceSetup;
use onbeat_ethercat::sii::stated_text;
use onbeat_ethercat::wire::Wire;

/// Maximum number of further attempts when a bring-up fails.
const MOST_RESTARTS: usize = 2;
/// Maximum size of the process data, in bytes.
const MOST_PROCESS_DATA: usize = 16_384;
/// Time within which the kernel removes a thread that has ended, even on a busy machine.
const THREAD_GONE_WITHIN: Duration = Duration::from_secs(1);
/// ethercrab's maximum number of frames in flight, and the longest frame its receiver accepts.
type Storage = PduStorage<16, { PduStorage::element_size(1400) }>;

/// A device found during bring-up.
#[derive(Debug)]
pub(super) struct FoundDevice {
    /// Position on the cable.
    pub(super) position: u16,
    pub(super) station: u16,
    pub(super) name: String,
    pub(super) alias: u16,
    /// Explicit device ID of the file, compared with that of the device; 0 for none.
    pub(super) device_id: u16,
    pub(super) identity: [u32; 4],
    pub(super) has_clock: bool,
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) script: Box<[ConfigStep]>,
    /// Counter of the last mail sent to it.
    pub(super) last_mail_counter: u8,
}

/// Result of a bring-up.
pub(super) struct BroughtUp {
    pub(super) devices: Vec<FoundDevice>,
    pub(super) events: Vec<Event>,
    pub(super) frames: u64,
    pub(super) addresses: BusAddresses,
}

/// Brings the devices up; retries when ethercrab fails or panics. Each retry adds two events.
pub(super) fn bring_up_with_restarts<W: Wire>(
    wire: &mut W,
    expected: Option<&Layout>,
    period_ns: u64,
    on: &str,
) -> Result<BroughtUp, BusError> {
    let mut restart_events = Vec::new();
    loop {
        match bring_up(wire, expected, period_ns, on) {
            Ok(up) => {
                return Ok(BroughtUp {
                    events: restart_events.into_iter().chain(up.events).collect(),
                    ..up
                });
            }
            Err(why) if restart_events.len() / 2 < MOST_RESTARTS && may_pass(&why, wire) => {
                let event = |kind, code| {
                    let values = EventValues::from_code(code);
                    Event::new((wire.now().as_ns(), 0), kind, NO_DEVICE, values)
                };

                let restarts = restart_events.len() as u32 / 2 + 1;
                restart_events.extend([
                    event(EventKind::LibraryFailed, 0),
                    event(EventKind::BusRestarted, restarts),
                ]);
            }
            Err(why) => {
                // Asked only after the failure: the bring-up of a healthy bus needs none of these
                // frames.
                let why = with_location(with_name(why, expected), wire, expected);
                return Err(with_link_trouble(why, wire, on));
            }
        }
    }
}

/// Whether another try may mend it: a frame lost too often, a cable that was moved meanwhile. A
/// wrong device stays wrong.
fn may_pass<W: Wire>(why: &BusError, wire: &W) -> bool {
    match why {
        BusError::Library { .. }
        | BusError::Panicked(_)
        | BusError::NoAnswer(_)
        | BusError::Moved { .. } => true,
        // The first frame was not answered for a second, for which a busy machine may stop whoever
        // serves the devices. An interface that is down or has no link says so at once.
        BusError::NoDevices(_) => wire.trouble().is_none(),
        _ => false,
    }
}

/// Gives a device that cannot be configured its name in the file.
fn with_name(why: BusError, expected: Option<&Layout>) -> BusError {
    match why {
        BusError::Unready { place, name, at, trouble, frames } => {
            let name = name_in_file(place, expected).unwrap_or(name);
            BusError::Unready { place, name, at, trouble, frames }
        }
        other => other,
    }
}

fn name_in_file(place: u16, expected: Option<&Layout>) -> Option<String> {
    // Which device is at a position depends on the groups that are there.
    let layout = expected.filter(|layout| layout.groups.is_empty())?;
    Some(layout.devices.get(usize::from(place))?.name.clone())
}

/// Adds the place of a device that cannot be configured: its position, and the port before it.
fn with_location<W: Wire>(why: BusError, wire: &mut W, expected: Option<&Layout>) -> BusError {
    let BusError::Unready { place, name, trouble, frames, .. } = why else { return why };
    let mut exchange = FrameExchange::new(wire);
    let links = read_words(&mut exchange, DL_STATUS, usize::from(place) + 1).unwrap_or_default();
    let links: Vec<PortLinks> = links.into_iter().map(PortLinks::from_status).collect();
    let frames = frames + exchange.frames;
    let before = match upstreams(&links).get(usize::from(place)) {
        Some(Upstream::Interface) => ", next to the interface".to_owned(),
        Some(&Upstream::Device(device, port)) => {
            let of = name_in_file(device, expected).unwrap_or_else(|| format!("place {device}"));
            format!(", behind port {port} of {of}")
        }
        Some(Upstream::Unknown) | None => String::new(),
    };
    let at = format!("place {place} on the cable{before}");
    BusError::Unready { place, name, at, trouble, frames }
}

/// Replaces a missing answer by the interface's trouble, if that is the reason.
fn with_link_trouble<W: Wire>(why: BusError, wire: &W, on: &str) -> BusError {
    match (&why, wire.trouble()) {
        // "No devices" has a reason more often than not: an interface that is down, a cable that is
        // not in.
        (BusError::NoDevices(_) | BusError::NoAnswer(_), Some(trouble)) => {
            CarrierError::Trouble { name: on.to_owned(), trouble }.into()
        }
        _ => why,
    }
}

/// Finds the devices, compares them with `expected`, writes the configuration of the file, and maps
/// the process data. `period_ns` is the cycle period.
fn bring_up<W: Wire>(
    wire: &mut W,
    expected: Option<&Layout>,
    period_ns: u64,
    on: &str,
) -> Result<BroughtUp, BusError> {
    // Nothing that was borrowed is used after a panic.
    let brought_up = catch_panic(|| {
        with_main_device(wire, (on, expected), |pump, group, library| {
            let ((group, positions), main_device) = (group, library.0);
            let mut devices = found(&group, main_device, &pump.addresses);
            for (device, position) in devices.iter_mut().zip(positions) {
                device.position = position;
            }
            if let Some(layout) = expected {
                // Before any parameter is written: nothing of this file may reach another device
                // than its own.
                compare(&devices, layout)?;
                let places: Vec<(u16, u16)> =
                    devices.iter().map(|device| (device.position, device.station)).collect();
                // In PREOP, where mailboxes work and no process data do.
                check_device_ids(pump, &mut devices, layout)?;
                check_modules(pump, &places, layout)?;
                configure(pump, &devices, layout, |place| before_mapping(layout, place))?;
            }

            let group = map_process_data(pump, group, library)?;
            for (found, device) in devices.iter_mut().zip(group.iter(main_device)) {
                let io = device.io_raw();
                (found.outputs, found.inputs) = (io.outputs().len(), io.inputs().len());
            }

            map_split_areas(pump, &devices, expected)?;
            if let Some(layout) = expected {
                compare_process_data(&devices, layout)?;
                compare_objects(&devices, layout, &pump.mapped)?;
                check_sync0(&devices, layout, period_ns)?;
                configure(pump, &devices, layout, |place| {
                    before_safeop(layout, place, period_ns).into_iter().collect()
                })?;
            }

            to_safe_op(pump, group, library)?;
            // Last: a cable that was plugged elsewhere during the bring-up would give each device
            // behind it another's outputs.
            check_positions(pump, &devices, expected)?;
            record_scripts(&mut devices, &mut pump.config_record);
            let events = by_layout(std::mem::take(&mut pump.events), &devices);
            let addresses = pump.addresses;
            if let Some(layout) = expected {
                check_addresses(&devices, layout, addresses.logical_start())?;
            }
            Ok(BroughtUp { devices, events, frames: pump.exchange.frames, addresses })
        })
    });
    brought_up.unwrap_or_else(|words| Err(BusError::Panicked(words)))
}

/// All devices in a state of the library, some 100 kB. Moved, a group is on the stack several times:
/// between the library's three steps it is boxed, and each step is a function that is not inlined,
/// so that their stacks do not add up.
type DeviceGroup<S = PreOp> = SubDeviceGroup<MOST_DEVICES, MOST_PROCESS_DATA, DefaultLock, S>;

/// The devices that the library configures, and those of optional groups, which it leaves in PREOP:
/// they are configured when all others are in OP, as if they came then.
#[derive(Default)]
struct Groups {
    always_there: DeviceGroup,
    /// Without process data: those of the others begin at 0, whatever the library's order of groups.
    optional: SubDeviceGroup<MOST_DEVICES, 0, DefaultLock, PreOp>,
}

/// Finds the devices of optional groups among those on the cable, which are asked for in their
/// order.
struct GroupSearch<'l> {
    layout: Option<&'l Layout>,
    position: u16,
    /// The device of a group that follows on the cable, if the group is complete.
    follower: Option<usize>,
    /// Positions of all other devices.
    positions: Vec<u16>,
    /// Explicit device IDs by position, if a group is identified by one.
    device_ids: Vec<u16>,
}

impl GroupSearch<'_> {
    fn is_optional(&mut self, identity: [u32; 2], alias: u16) -> bool {
        let position = self.position;
        self.position += 1;
        let of_group = self.layout.filter(|_| position > 0).and_then(|layout| {
            let is_same = |device: &usize| {
                let device = &layout.devices[*device];
                [device.vendor, device.product] == identity
            };
            let device_id = self.device_ids.get(usize::from(position)).copied().unwrap_or(0);
            let head = |device: &usize| {
                let head = &layout.devices[*device];
                begins_at((head.alias, head.setup.device_id), (alias, device_id))
            };
            let mut heads = layout.groups.iter().map(|group| group.devices.start);
            heads.find(head).or(self.follower.filter(is_same))
        });
        self.follower = of_group.and_then(|device| {
            let next = device + 1;
            let layout = self.layout?;
            (layout.group_of(next) == layout.group_of(device)).then_some(next)
        });
        if of_group.is_none() {
            self.positions.push(position);
        }
        of_group.is_some()
    }
}

/// The library, and the callback that sets its time.
type Library<'l, 's> = (&'l MainDevice<'s>, &'l dyn Fn(u64));

/// Takes all devices to PREOP and calls `then`.
fn with_main_device<W: Wire, T>(
    wire: &mut W,
    (on, expected): (&str, Option<&Layout>),
    then: impl FnOnce(
        &mut Pump<'_, '_, W>,
        (Box<DeviceGroup>, Vec<u16>),
        Library<'_, '_>,
    ) -> Result<T, BusError>,
) -> Result<T, BusError> {
    let storage = Box::new(Storage::new());
    let Ok((tx, rx, pdu_loop)) = storage.try_split() else {
        return Err(BusError::Panicked("its frame storage is in use".to_owned()));
    };
    check_thread_start().map_err(BusError::Thread)?;
    // The pump handles lost frames; these timeouts are for devices that never become ready. They are
    // of real time, in which a busy machine may stop this thread, and ethercrab looks at the time
    // before it looks at a reply.
    let timeouts = Timeouts {
        pdu: Duration::from_secs(10),
        eeprom: Duration::from_secs(2),
        mailbox_echo: Duration::from_secs(2),
        mailbox_response: Duration::from_secs(2),
        ..Timeouts::default()
    };
    let config = MainDeviceConfig { dc_static_sync_iterations: 0, ..MainDeviceConfig::default() };
    let main_device = MainDevice::new(pdu_loop, timeouts, config);
    let mut search = GroupSearch {
        layout: expected,
        position: 0,
        follower: None,
        positions: Vec::new(),
        device_ids: device_ids_of_groups(wire, expected)?,
    };
    let now_ns = Cell::new(wire.now().as_ns());
    let mut pump = Pump::new(wire, (tx, rx));
    let set_time = |now: u64| now_ns.set(now);
    let library: Library<'_, '_> = (&main_device, &set_time);
    let group = match find_devices(&mut pump, &mut search, library, &now_ns) {
        // The first frame counts the devices.
        // Only the very first frame: a cable that is cut later has devices, which do not answer.
        Err(BusError::NoAnswer(_)) if pump.exchange.frames <= u64::from(MOST_TRIES) => {
            return Err(BusError::NoDevices(on.to_owned()));
        }
        other => other?,
    };

    if group.is_empty() {
        return Err(BusError::NoDevices(on.to_owned()));
    }

    then(&mut pump, (group, search.positions), library)
}

/// Takes all devices to PREOP; returns those that the library configures.
#[inline(never)]
fn find_devices<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    search: &mut GroupSearch<'_>,
    (main_device, set_time): Library<'_, '_>,
    now_ns: &Cell<u64>,
) -> Result<Box<DeviceGroup>, BusError> {
    let begun = main_device.init::<MOST_DEVICES, Groups>(
        || now_ns.get(),
        Groups::default(),
        |groups, device| {
            let identity = device.identity();
            let identity = [identity.vendor_id, identity.product_id];
            Ok(if search.is_optional(identity, device.alias_address()) {
                &groups.optional
            } else {
                &groups.always_there
            })
        },
    );
    Ok(Box::new(pump.run(begun, set_time)?.always_there))
}

/// Writes the sync managers and FMMUs of all devices.
#[inline(never)]
fn map_process_data<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    group: Box<DeviceGroup>,
    (main_device, set_time): Library<'_, '_>,
) -> Result<Box<DeviceGroup<PreOpPdi>>, BusError> {
    pump.run(group.into_pre_op_pdi(main_device), set_time).map(Box::new)
}

#[inline(never)]
fn to_safe_op<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    group: Box<DeviceGroup<PreOpPdi>>,
    (main_device, set_time): Library<'_, '_>,
) -> Result<(), BusError> {
    pump.run(group.into_safe_op(main_device), set_time).map(drop)
}

/// Checks that a thread can be started: ethercrab's timers start one, and panic on failure.
fn check_thread_start() -> std::io::Result<()> {
    let tried = std::thread::Builder::new().spawn(rustix::thread::gettid)?;
    let Ok(tid) = tried.join() else { return Ok(()) };
    // The thread counts towards the limit until the kernel has removed it, shortly after its end.
    let entry = format!("/proc/self/task/{}", tid.as_raw_nonzero());
    let until = Instant::now() + THREAD_GONE_WITHIN;
    while Path::new(&entry).exists() && Instant::now() < until {
        std::thread::yield_now();
    }

    Ok(())
}

/// Enables all areas with process data, and maps those that do not follow each other in memory by an
/// FMMU each: ethercrab maps all areas of one direction of a device with CoE by one, as if they did.
/// No device is beyond PREOP.
///
/// # Errors
/// [`Unready::SplitAreas`] for a device with too few FMMUs.
fn map_split_areas<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    devices: &[FoundDevice],
    expected: Option<&Layout>,
) -> Result<(), BusError> {
    let found = layout_of(devices);
    let layout = expected.unwrap_or(&found);
    let enabling: Vec<Vec<ConfigStep>> = devices
        .iter()
        .map(|device| enabled_areas(pump.config_record.steps(device.station)))
        .collect();
    configure(pump, devices, layout, |place| enabling[place].clone())?;
    let is_split =
        |device: &FoundDevice| !maps_whole_areas(pump.config_record.steps(device.station));
    let split: Vec<bool> = devices.iter().map(is_split).collect();
    if !split.contains(&true) {
        return Ok(());
    }

    let places = devices.last().map_or(0, |device| usize::from(device.position) + 1);
    let counts = read_words(&mut pump.exchange, FMMUS, places)?;
    let mut writes = vec![Vec::new(); devices.len()];
    for (place, device) in devices.iter().enumerate().filter(|(place, _)| split[*place]) {
        let fmmus = counts.get(usize::from(device.position)).map_or(0, |count| count & 0xff);
        let script = pump.config_record.steps(device.station);
        let Some(by_area) = fmmus_by_area(script, usize::from(fmmus)) else {
            return Err(pump.unready(device.station, Unready::SplitAreas { fmmus }));
        };
        writes[place] = by_area;
    }

    configure(pump, devices, layout, |place| writes[place].clone())?;
    match devices.iter().find(|device| !maps_whole_areas(pump.config_record.steps(device.station)))
    {
        Some(device) => Err(pump.unready(device.station, Unready::SplitAreas { fmmus: 0 })),
        None => Ok(()),
    }
}

/// Checks that the outputs of each device are mapped where the cyclic frames have them.
fn check_addresses(devices: &[FoundDevice], layout: &Layout, start: u32) -> Result<(), BusError> {
    for (place, device) in devices.iter().enumerate() {
        let [_, outputs] = logical_of(layout, place);
        if first_output_address(&device.script).is_some_and(|mapped| mapped != start + outputs) {
            let name = &layout.devices[place].name;
            return Err(BusError::Panicked(format!("it maps the outputs of {name} elsewhere")));
        }
    }
    Ok(())
}

/// Checks that the configured devices are still at the positions where they were found.
fn check_positions<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    devices: &[FoundDevice],
    expected: Option<&Layout>,
) -> Result<(), BusError> {
    let places = devices.last().map_or(0, |device| usize::from(device.position) + 1);
    let stations = read_words(&mut pump.exchange, STATION, places)?;
    let is_elsewhere =
        |device: &FoundDevice| stations.get(usize::from(device.position)) != Some(&device.station);
    let Some(place) = devices.iter().position(is_elsewhere) else {
        return Ok(());
    };
    let name = expected
        .and_then(|layout| layout.devices.get(place))
        .map_or(&devices[place].name, |device| &device.name);

    Err(BusError::Moved { place: devices[place].position.into(), name: name.clone() })
}

fn found(
    group: &DeviceGroup,
    main_device: &MainDevice<'_>,
    addresses: &BusAddresses,
) -> Vec<FoundDevice> {
    let devices = group.iter(main_device).map(|device| {
        let identity = device.identity();
        FoundDevice {
            position: 0,
            station: addresses.translate_station(device.configured_address()),
            name: stated_text(device.name().as_bytes()),
            alias: device.alias_address(),
            device_id: 0,
            identity: [identity.vendor_id, identity.product_id, identity.revision, identity.serial],
            has_clock: device.dc_support().any(),
            outputs: 0,
            inputs: 0,
            script: Box::default(),
            last_mail_counter: 0,
        }
    });
    devices.collect()
}

fn record_scripts(devices: &mut [FoundDevice], config_record: &mut ConfigRecord) {
    for device in devices {
        device.script = config_record.remove(device.station).into_boxed_slice();
        device.last_mail_counter = config_record.last_mail_counter(device.station);
    }
}

/// Returns the station address of the reference clock: the first device with a distributed clock.
pub(super) fn reference(devices: &[FoundDevice]) -> Option<u16> {
    devices.iter().find(|device| device.has_clock).map(|device| device.station)
}

/// Writes these configuration steps to devices in PREOP, and records them after the earlier ones.
fn configure<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    devices: &[FoundDevice],
    layout: &Layout,
    lines: impl Fn(usize) -> Vec<ConfigStep>,
) -> Result<(), BusError> {
    let added: Vec<Vec<ConfigStep>> = (0..devices.len()).map(lines).collect();
    if added.iter().all(Vec::is_empty) {
        return Ok(());
    }

    let known = devices.iter().zip(added).map(|(device, added)| {
        let mut script = pump.config_record.remove(device.station);
        let line = script.len();
        script.extend(added);
        let last_mail_counter = pump.config_record.last_mail_counter(device.station);
        (device.known(script.into_boxed_slice(), last_mail_counter, true), line)
    });

    let known: Vec<(KnownDevice, usize)> = known.collect();
    let mut preparation = PreopSetup::new(&mut *pump.exchange.wire, known);
    let result = preparation.run(layout, reference(devices));
    pump.exchange.frames += preparation.frames;
    let by_position = |event: Event| {
        let device = devices.get(usize::from(event.device));
        Event { device: device.map_or(NO_DEVICE, |device| device.position), ..event }
    };
    pump.events.extend(preparation.events.drain(..).map(by_position));
    for known in preparation.into_known() {
        pump.config_record.set_mail_counter(known.station, known.last_mail_counter);
        pump.config_record.insert(known.station, known.script.into_vec());
    }

    result
}

/// Checks SYNC0: the device has a clock, and the periods are multiples of each other.
fn check_sync0(found: &[FoundDevice], layout: &Layout, bus_ns: u64) -> Result<(), BusError> {
    for (device, wanted) in found.iter().zip(&layout.devices) {
        let Some(sync0) = wanted.setup.sync0 else { continue };
        if !device.has_clock {
            return Err(BusError::NoClock(wanted.name.clone()));
        }

        let pulse_ns = u64::from(sync0.period_on_bus_ns(bus_ns));
        // Pulses and frames that beat against each other would meet at a different point in each
        // cycle.
        if !bus_ns.is_multiple_of(pulse_ns) && !pulse_ns.is_multiple_of(bus_ns) {
            return Err(BusError::OddPulses { name: wanted.name.clone(), pulse_ns, bus_ns });
        }
    }
    Ok(())
}

impl FoundDevice {
    /// Returns the device as recovery needs it. `is_led`: the bus has a reference clock.
    pub(super) fn known(
        &self,
        script: Box<[ConfigStep]>,
        last_mail_counter: u8,
        is_led: bool,
    ) -> KnownDevice {
        KnownDevice {
            station: self.station,
            identity: self.identity,
            is_optional: false,
            alias: self.alias,
            device_id: self.device_id,
            has_identical: false,
            mark: FmmuMark::in_script(&script),
            script,
            has_clock: self.has_clock && is_led,
            last_mail_counter,
        }
    }
}

/// Names the devices of events by their numbers in the layout instead of their positions, between
/// which devices of optional groups may be.
fn by_layout(events: Vec<Event>, devices: &[FoundDevice]) -> Vec<Event> {
    let of_layout = |event: Event| {
        let number = devices.iter().position(|device| device.position == event.device);
        Event { device: number.map_or(NO_DEVICE, |number| number as u16), ..event }
    };
    events.into_iter().map(of_layout).collect()
}

/// Checks that the devices are those of the file, in its order.
fn compare(found: &[FoundDevice], layout: &Layout) -> Result<(), BusError> {
    let (expected, count) = (layout.always_there(), found.len());
    let differs = |(device, wanted): (&FoundDevice, &DeviceLayout)| {
        device.identity[..2] != [wanted.vendor, wanted.product]
    };
    let first_other = found.iter().zip(always_there(layout)).position(differs);
    // A missing device shifts all following ones; reporting it says more than reporting a wrong
    // device.
    // With one device too few, every device behind the hole differs; the first one that is missing
    // is the news.
    if count < expected {
        let first = layout.devices[first_other.unwrap_or(count)].name.clone();
        return Err(BusError::Fewer { expected, found: count, first });
    }
    if let Some(place) = first_other {
        let DeviceLayout { name, vendor, product, .. } = &layout.devices[place];
        return Err(BusError::WrongDevice {
            place: found[place].position.into(),
            name: name.clone(),
            expected: (*vendor, *product),
            found: (found[place].identity[0], found[place].identity[1]),
        });
    }
    if count > expected {
        return Err(BusError::More { expected, found: count });
    }

    compare_numbers(found, layout)
}

/// Checks serial numbers and aliases given in the file, which distinguish devices of the same type.
fn compare_numbers(found: &[FoundDevice], layout: &Layout) -> Result<(), BusError> {
    for (device, wanted) in found.iter().zip(always_there(layout)) {
        let numbers = [
            ("serial number", wanted.serial, device.identity[3]),
            ("alias", u32::from(wanted.alias), u32::from(device.alias)),
        ];
        for (what, expected, found) in numbers {
            // 0 in the file: the user did not say which one of several alike it has to be.
            if expected != 0 && expected != found {
                return Err(BusError::OtherNumber {
                    place: device.position.into(),
                    name: wanted.name.clone(),
                    what,
                    expected,
                    found,
                });
            }
        }
    }

    Ok(())
}

/// Returns the devices that are always there.
fn always_there(layout: &Layout) -> &[DeviceLayout] {
    &layout.devices[..layout.always_there()]
}

fn compare_process_data(found: &[FoundDevice], layout: &Layout) -> Result<(), BusError> {
    for (device, wanted) in found.iter().zip(&layout.devices) {
        let expected = (wanted.outputs.len(), wanted.inputs.len());
        let found = (device.outputs, device.inputs);
        if found != expected {
            return Err(BusError::OtherProcessData { name: wanted.name.clone(), expected, found });
        }
    }
    Ok(())
}

/// Checks that each value of the file is where the device maps it.
fn compare_objects(
    found: &[FoundDevice],
    layout: &Layout,
    mapped: &BTreeMap<u16, MappedEntries>,
) -> Result<(), BusError> {
    for (device, wanted) in found.iter().zip(&layout.devices) {
        if let Some(entries) = mapped.get(&device.station) {
            mapped_objects::compare(wanted, entries)?;
        }
    }
    Ok(())
}

/// Builds a layout from the devices found, when no file describes them.
pub(super) fn layout_of(devices: &[FoundDevice]) -> Layout {
    let mut layout = Layout { name: "found".to_owned(), ..Layout::default() };
    for (place, device) in devices.iter().enumerate() {
        layout.add(DeviceLayout {
            name: format!("{place} {}", device.name),
            kind: DeviceKind::Coupler,
            alias: device.alias,
            vendor: device.identity[0],
            product: device.identity[1],
            revision: device.identity[2],
            serial: device.identity[3],
            outputs: 0..device.outputs,
            inputs: 0..device.inputs,
            output_values: Vec::new(),
            input_values: Vec::new(),
            increments: 0,
            travel: [0, 0],
            setup: DeviceSetup::default(),
        });
    }

    layout
}
