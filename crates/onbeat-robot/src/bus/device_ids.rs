//! Explicit device IDs, as set by switches of the devices, while the bus comes up (ETG.1020): bit 5
//! of AL control requests one, AL status has bit 5 when register 0x0134 holds it.
//!
//! Only files that name such IDs cause a frame.

use std::time::Duration;

use onbeat_ethercat::al::{ERROR, INIT};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::registers::{AL_CONTROL, AL_STATUS};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::{Command, register, working_counter};

use super::bring_up::FoundDevice;
use super::cyclic::ACYCLIC;
use super::error::{BusError, Unready};
use super::frame_exchange::FrameExchange;
use super::pump::Pump;
use crate::commission::{CommissionError, Line};

/// Looks for all devices in INIT, and the time after each.
const MOST_LOOKS: usize = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Compares the IDs of devices in PREOP with those of the file.
pub(super) fn check_device_ids<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    devices: &mut [FoundDevice],
    layout: &Layout,
) -> Result<(), BusError> {
    let places = devices.last().map_or(0, |device| device.position + 1);
    for (device, wanted) in devices.iter_mut().zip(&layout.devices) {
        let expected = wanted.setup.device_id;
        // Most devices have no switch, and a request would only cost frames.
        if expected == 0 {
            continue;
        }
        let mut line = Line::beside(&mut *pump.exchange.wire, places, device.position, 0);
        let found = line.device_id(device.position);
        let (frames, _) = line.end(device.position);
        pump.exchange.frames += frames;
        match found.map_err(bus_error)? {
            Some(id) if id == expected => device.device_id = id,
            Some(id) => {
                return Err(BusError::OtherNumber {
                    place: device.position.into(),
                    name: wanted.name.clone(),
                    what: "device ID",
                    expected: expected.into(),
                    found: id.into(),
                });
            }
            None => return Err(pump.unready(device.station, Unready::NoDeviceId)),
        }
    }
    Ok(())
}

/// Returns the IDs of all devices on the cable, 0 for none, if a group of the file is identified by
/// one. All devices are in INIT afterwards, where the library takes them anyway.
pub(super) fn device_ids_of_groups<W: Wire>(
    wire: &mut W,
    expected: Option<&Layout>,
) -> Result<Vec<u16>, BusError> {
    let needs_ids = |layout: &&Layout| {
        let heads = layout.groups.iter().map(|group| group.devices.start);
        heads.into_iter().any(|head| layout.devices[head].setup.device_id != 0)
    };
    if expected.filter(needs_ids).is_none() {
        return Ok(Vec::new());
    }

    let devices = match all_to_init(wire) {
        // The library finds out why, and says so.
        Err(BusError::NoAnswer(_)) => return Ok(Vec::new()),
        counted => counted?,
    };
    let mut line = Line::beside(wire, devices, 0, 0);
    (0..devices)
        .map(|place| line.device_id(place).map(Option::unwrap_or_default).map_err(bus_error))
        .collect()
}

/// Takes all devices to INIT, and returns their number.
fn all_to_init<W: Wire>(wire: &mut W) -> Result<u16, BusError> {
    let mut exchange = FrameExchange::new(wire);
    let mut broadcast = |command: Command, at: u16, data: [u8; 2]| {
        let at = exchange
            .ask(ACYCLIC, |writer| writer.push_data(command, register(0, at), &data))?
            .unwrap_or_default();
        exchange.wait(LOOK_EVERY);
        let reply = exchange.reply();
        Ok::<_, BusError>((reply[at], working_counter(reply, at, 2)))
    };

    // With the error bit, because a device that reports an error takes no other state before it is
    // acknowledged.
    broadcast(Command::Bwr, AL_CONTROL, [INIT | ERROR, 0])?;
    let mut devices = 0;
    // A device that does not come to INIT is named by the library.
    for _ in 0..MOST_LOOKS {
        let (states, counted) = broadcast(Command::Brd, AL_STATUS, [0; 2])?;
        devices = counted;
        if states == INIT {
            break;
        }
    }
    Ok(devices)
}

fn bus_error(why: CommissionError) -> BusError {
    match why {
        CommissionError::Bus(why) => why,
        // A device that does not take an access was disconnected meanwhile.
        _ => BusError::NoAnswer(1),
    }
}
