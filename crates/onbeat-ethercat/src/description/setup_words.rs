//! What a file says that devices are told on their way up.

use serde::Deserialize;

use super::{DescriptionError, DeviceTable, TypeTable};
use crate::setup::{self, DeviceSetup, ObjectValue, Sync0};

/// A value is at most this long: what one transfer of the bus carries.
const LONGEST: usize = 1024;
/// Shortest and longest period of SYNC0, in µs.
const PERIODS_US: std::ops::RangeInclusive<f64> = 10.0..=1_000_000.0;
/// Shortest and longest time of a watchdog in ms: one to 65535 units of 100 µs.
const WATCHDOGS_MS: std::ops::RangeInclusive<f64> = 0.1..=6_553.5;

/// `[[types.NAME.startup]]` and `[[devices.startup]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupWords {
    /// Index and entry in hexadecimal.
    object: String,
    /// A number with its type, or bytes.
    value: String,
    #[serde(default)]
    complete: bool,
}

/// `sync0`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync0Words {
    period_us: Option<f64>,
    shift_us: Option<f64>,
}

/// What a device is told: the values of its type, then its own; its own pulses before those of its type.
pub(crate) fn setup_of(name: &str, kind: &TypeTable, table: &DeviceTable) -> Result<DeviceSetup, DescriptionError> {
    let startup = kind.startup.iter().chain(&table.startup).map(|words| object_value(name, words));
    let sync0 = table.sync0.or(kind.sync0).map(|words| sync0(&table.kind, words));
    Ok(DeviceSetup { startup: startup.collect::<Result<_, _>>()?, sync0: sync0.transpose()? })
}

fn object_value(device: &str, words: &StartupWords) -> Result<ObjectValue, DescriptionError> {
    let refused = |why: String| {
        let (device, object) = (device.to_owned(), words.object.clone());
        DescriptionError::Startup { device, object, why }
    };

    let (index, entry) = setup::object(&words.object)
        .ok_or_else(|| refused("write index or index:entry in hexadecimal, such as 6060 or 1c12:1".to_owned()))?;
    let bytes = setup::value(&words.value).map_err(|why| refused(why.to_string()))?;
    if bytes.len() > LONGEST {
        return Err(refused(format!("it has {} bytes, at most {LONGEST} can be written", bytes.len())));
    }

    Ok(ObjectValue { index, entry, complete: words.complete, bytes })
}

fn sync0(kind: &str, words: Sync0Words) -> Result<Sync0, DescriptionError> {
    let refused = |what, value: f64, range| {
        Err(DescriptionError::Range { kind: kind.to_owned(), what, value: value.to_string(), range })
    };
    if let Some(period) = words.period_us.filter(|period| !PERIODS_US.contains(period)) {
        return refused("sync0.period_us", period, "10 to 1000000");
    }

    if let Some(shift) = words.shift_us.filter(|shift| shift.abs() >= words.period_us.unwrap_or(*PERIODS_US.end())) {
        return refused("sync0.shift_us", shift, "less than a period to either side");
    }

    let ns = |us: f64| (us * 1e3).round();
    Ok(Sync0 {
        period_ns: words.period_us.map(|period| ns(period) as u32),
        shift_ns: words.shift_us.map(|shift| ns(shift) as i64),
    })
}

/// Time of the watchdog in ns.
pub(crate) fn watchdog_ns(ms: f64) -> Result<u64, DescriptionError> {
    if WATCHDOGS_MS.contains(&ms) {
        Ok((ms * 1e6).round() as u64)
    } else {
        Err(DescriptionError::Watchdog(ms.to_string()))
    }
}
