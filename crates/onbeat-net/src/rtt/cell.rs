//! Round trips in the cells of a bench: the same loop, in blocks that take turns with other cells.
//!
//! A block ends when its packets are answered or given up, so none of one block counts in another.

use onbeat::bench::cell_start::RoundTripCell;

use super::{DEVICES, DSCP, LOST_AFTER, RECEIVE, RTT, RunPlan, SIZE, TO};
use onbeat::probe::description::Parts;
use onbeat::probe::{Given, ProbeError, Setting, SettingValue};
use onbeat_host::thread::Grant;

/// Payload as by default of the probe, in bytes.
const BYTES: u64 = 200;
/// The age of a lost packet is short, because the end of each block waits for it.
const LOST_AFTER_NS: u64 = 200_000_000;

/// Prepares the loop of a bench's cell, and returns it with a note on its devices.
///
/// # Errors
/// [`ProbeError`] as for the probe: addresses that cannot be used, too many packets per second.
pub fn parts_of_cell(
    setting: &Setting,
    wanted: &RoundTripCell,
) -> Result<(Parts, Grant), ProbeError> {
    let parts = (RTT.open)(&mut setting.clone(), &given(wanted))?;
    let to = match &wanted.to {
        Some(to) => format!("to {to}"),
        None => "to echo devices in the same process, over the loopback interface".to_owned(),
    };
    let packets = if wanted.devices == 1 { "packet" } else { "packets" };
    let sentence = format!("{} {packets} of {BYTES} bytes per cycle {to}", wanted.devices);
    Ok((parts, Grant::given("round trips", sentence)))
}

/// Checks what a cell would be asked for; opens nothing.
///
/// # Errors
/// As [`parts_of_cell`].
pub fn admit_cell(setting: &Setting, wanted: &RoundTripCell) -> Result<(), ProbeError> {
    RunPlan::from_options(setting, &given(wanted)).map(drop).map_err(ProbeError::from)
}

/// The options of the probe that a cell has.
fn given(wanted: &RoundTripCell) -> Given {
    let mut given = vec![
        (DEVICES.name, SettingValue::Count(wanted.devices)),
        (SIZE.name, SettingValue::Count(BYTES)),
        (LOST_AFTER.name, SettingValue::Time(LOST_AFTER_NS)),
        (RECEIVE.name, SettingValue::Word("block".to_owned())),
        (DSCP.name, SettingValue::Count(0)),
    ];
    given.extend(wanted.to.clone().map(|to| (TO.name, SettingValue::Name(to))));
    Given(given)
}
