//! Compares the modules that are plugged with those of the file (ETG.5001, object 0xF050).

use onbeat_control::{RequestFailure, SdoAction};
use onbeat_ethercat::coe::abort;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::wire::Wire;

use super::error::{BusError, Unready};
use super::pump::Pump;
use crate::commission::{CommissionError, Line};

/// List of detected modules, one entry for each slot from 1 on.
const DETECTED: u16 = 0xf050;

/// Reads the detected modules of each device whose slots the file fills. `places` are positions on
/// the cable and station addresses. A device without the list
/// is accepted: it cannot tell.
pub(super) fn check_modules<W: Wire>(
    pump: &mut Pump<'_, '_, W>,
    places: &[(u16, u16)],
    layout: &Layout,
) -> Result<(), BusError> {
    for (place, device) in layout.devices.iter().enumerate() {
        let expected = &device.setup.modules;
        let Some(&(position, station)) = places.get(place).filter(|_| !expected.is_empty()) else {
            continue;
        };
        let last_counter = pump.config_record.last_mail_counter(station);
        let mut line = Line::beside(
            &mut *pump.exchange.wire,
            places.last().map_or(0, |(position, _)| position + 1),
            position,
            last_counter,
        );
        let found = detected(&mut line, position, expected.len());
        let (frames, counter) = line.end(position);
        pump.exchange.frames += frames;
        pump.config_record.set_mail_counter(station, counter);
        let differs = found?.into_iter().flatten().zip(expected).enumerate();
        for (slot, (found, &expected)) in differs {
            if found != expected {
                let trouble = Unready::Modules { slot: slot as u16, expected, found };
                return Err(pump.unready(station, trouble));
            }
        }
    }
    Ok(())
}

/// Returns the idents of the detected modules; `None` if the device has no list.
fn detected<W: Wire>(
    line: &mut Line<'_, W>,
    place: u16,
    slots: usize,
) -> Result<Option<Vec<u32>>, BusError> {
    let mut idents = Vec::new();
    for entry in (1..=254).take(slots) {
        match line.sdo(place, (DETECTED, entry), false, SdoAction::Read) {
            Ok(bytes) => {
                let mut ident = [0; 4];
                let known = bytes.len().min(4);
                ident[..known].copy_from_slice(&bytes[..known]);
                idents.push(u32::from_le_bytes(ident));
            }
            Err(CommissionError::Object {
                why: RequestFailure::Abort(abort::NO_OBJECT), ..
            }) if entry == 1 => {
                return Ok(None);
            }
            // Slots behind the last detected module.
            Err(CommissionError::Object { .. }) => idents.push(0),
            Err(CommissionError::Bus(why)) => return Err(why),
            // A device whose mailbox cannot be used is reported when its mapping is read.
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(idents))
}
