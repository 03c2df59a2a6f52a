//! Tables of the configuration that devices get on the way to OP.

use serde::Deserialize;

use super::error::out_of_range;
use super::{DescriptionError, DeviceTable, TypeTable};
use crate::coe::details;
use crate::esi::{DcMode, EsiDevice, EsiSlot, InitCommand, Transition};
use crate::setup::{self, DeviceSetup, ObjectValue, Sync0, Sync1};

/// Longest start-up value, in bytes: the limit of one SDO transfer of the bus.
const LONGEST: usize = 1024;
/// Valid cycle times of SYNC0, in µs.
const PERIODS_US: std::ops::RangeInclusive<f64> = 10.0..=1_000_000.0;
/// Largest time from SYNC0 to SYNC1, in µs: 32 bits of ns.
const MOST_SYNC1_US: f64 = 4_000_000.0;
/// Valid watchdog times in ms: 1 to 65535 units of 100 µs.
const WATCHDOGS_MS: std::ops::RangeInclusive<f64> = 0.1..=6_553.5;

/// `[[types.NAME.startup]]` and `[[devices.startup]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupTable {
    /// Index and subindex in hexadecimal.
    object: String,
    /// A number with its type, or bytes.
    value: String,
    #[serde(default)]
    complete: bool,
}

impl StartupTable {
    /// Returns the index of its object.
    pub(super) fn index(&self) -> Option<u16> {
        setup::object(&self.object).map(|(index, _)| index)
    }
}

/// `sync0`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync0Table {
    period_us: Option<f64>,
    pub(super) shift_us: Option<f64>,
    /// Value of registers 0x0980 and 0x0981.
    activate: Option<u16>,
    /// Time from SYNC0 to SYNC1, register 0x09A4.
    sync1_us: Option<f64>,
}

/// Returns the configuration of a device: what its ESI file has, the start-up values of its type,
/// then its own; its own SYNC0 overrides that of its type.
pub(crate) fn setup_of(
    name: &str,
    kind: &TypeTable,
    table: &DeviceTable,
    esi: Option<&EsiDevice>,
) -> Result<DeviceSetup, DescriptionError> {
    let mut setup = match esi {
        Some(esi) => esi_setup(kind, table, esi)?,
        None => DeviceSetup::default(),
    };
    for startup in kind.startup.iter().chain(&table.startup) {
        setup.startup.push(object_value(name, startup)?);
    }

    let mode = match (table.dc.as_ref().or(kind.dc.as_ref()), esi) {
        (None, _) => None,
        (Some(_), None) => {
            return Err(DescriptionError::NeedsEsi { kind: table.kind.clone(), what: "dc" });
        }
        (Some(wanted), Some(esi)) => Some(clock_mode(name, wanted, esi)?),
    };
    let table_sync0 = table.sync0.or(kind.sync0);
    setup.sync0 = match (mode, table_sync0) {
        (None, None) => None,
        (Some(mode), None) => mode.sync0(),
        (mode, Some(values)) => {
            let of_mode = mode.and_then(DcMode::sync0).unwrap_or_default();
            Some(sync0(&table.kind, values, of_mode)?)
        }
    };
    Ok(setup)
}

/// Returns the operation mode of an ESI device with this name.
fn clock_mode<'e>(
    device: &str,
    wanted: &str,
    esi: &'e EsiDevice,
) -> Result<&'e DcMode, DescriptionError> {
    let is_named = |mode: &&DcMode| mode.name.eq_ignore_ascii_case(wanted.trim());
    esi.clock.iter().find(is_named).ok_or_else(|| {
        let names: Vec<String> =
            esi.clock.iter().map(|mode| format!("\"{}\"", mode.name)).collect();
        DescriptionError::UnknownClockMode {
            device: device.to_owned(),
            wanted: wanted.to_owned(),
            there: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        }
    })
}

/// Returns the configuration in an ESI file: modules, PDOs, and start-up commands.
fn esi_setup(
    kind: &TypeTable,
    table: &DeviceTable,
    esi: &EsiDevice,
) -> Result<DeviceSetup, DescriptionError> {
    let mut setup = DeviceSetup::default();
    if !kind.slots.is_empty() {
        let ident = |slot: &EsiSlot| slot.module.as_ref().map_or(0, |(_, ident)| *ident);
        let modules: Vec<u32> = esi.slots.iter().map(ident).collect();
        if esi.loads_modules {
            setup.startup.extend(module_list(&modules, esi.coe));
        }
        setup.modules = modules;
    }

    let chosen = super::assignment::chosen(&table.kind, kind, esi)?;
    let is_sent = |one: &&InitCommand| {
        one.transition == Transition::ToSafeOp && !chosen.objects.contains(&one.value.index)
    };
    let sent = || esi.commands.iter().filter(is_sent);
    // A device takes a mapping only while it has no PDOs assigned: the choice follows it.
    let maps = sent().any(|one| (0x1600..0x1c00).contains(&one.value.index));
    let is_later =
        |value: &&ObjectValue| maps && chosen.objects.contains(&value.index) && !is_none(value);
    setup.startup.extend(chosen.values.iter().filter(|value| !is_later(value)).cloned());
    for command in sent() {
        let value = &command.value;
        if value.bytes.is_empty() || value.bytes.len() > LONGEST {
            return Err(DescriptionError::Startup {
                device: table.all_names().next().unwrap_or_default().to_owned(),
                object: format!("{:x}:{:x}", value.index, value.entry),
                why: format!(
                    "the ESI file has {} bytes of data in line {}; 1 to {LONGEST} can be written",
                    value.bytes.len(),
                    command.line
                ),
            });
        }
        setup.startup.push(value.clone());
    }
    setup.startup.extend(chosen.values.iter().filter(is_later).cloned());
    Ok(setup)
}

/// Returns whether a value takes all PDOs from its SyncManager.
fn is_none(value: &ObjectValue) -> bool {
    value.entry == 0 && value.bytes == [0]
}

/// Returns the start-up values that write the module ident list (ETG.5001, object 0xF030).
fn module_list(modules: &[u32], coe: u8) -> Vec<ObjectValue> {
    const CONFIGURED: u16 = 0xf030;
    let value = |entry, complete, bytes| ObjectValue {
        index: CONFIGURED,
        entry,
        complete,
        bytes,
        of_period: false,
    };
    let count = modules.len().min(254) as u8;
    if coe & details::COMPLETE_ACCESS != 0 {
        let idents = modules.iter().flat_map(|ident| ident.to_le_bytes());
        return vec![value(0, true, [count, 0].into_iter().chain(idents).collect())];
    }

    let idents = (1..=254).zip(modules);
    idents.map(|(entry, ident)| value(entry, false, ident.to_le_bytes().to_vec())).collect()
}

fn object_value(device: &str, table: &StartupTable) -> Result<ObjectValue, DescriptionError> {
    let refused = |why: String| DescriptionError::Startup {
        device: device.to_owned(),
        object: table.object.clone(),
        why,
    };

    let (index, entry) = setup::object(&table.object).ok_or_else(|| {
        refused("write index or index:entry in hexadecimal, such as 6060 or 1c12:1".to_owned())
    })?;
    let bytes = setup::value(&table.value).map_err(|why| refused(why.to_string()))?;
    if bytes.len() > LONGEST {
        return Err(refused(format!(
            "it has {} bytes, at most {LONGEST} can be written",
            bytes.len()
        )));
    }

    Ok(ObjectValue { index, entry, complete: table.complete, bytes, of_period: false })
}

/// Returns SYNC0 with the values of a table, the others as in the operation mode.
fn sync0(kind: &str, table: Sync0Table, of_mode: Sync0) -> Result<Sync0, DescriptionError> {
    if let Some(period) = table.period_us.filter(|period| !PERIODS_US.contains(period)) {
        return out_of_range(kind, "sync0.period_us", period, "10 to 1000000");
    }

    if let Some(shift) =
        table.shift_us.filter(|shift| shift.abs() >= table.period_us.unwrap_or(*PERIODS_US.end()))
    {
        let range = "less than a period in either direction";
        return out_of_range(kind, "sync0.shift_us", shift, range);
    }

    if let Some(delay) = table.sync1_us.filter(|delay| !(0.0..=MOST_SYNC1_US).contains(delay)) {
        return out_of_range(kind, "sync0.sync1_us", delay, "0 to 4000000");
    }

    let ns = |us: f64| (us * 1e3).round();
    let given =
        table.sync1_us.map(|delay| Sync1 { shift_ns: ns(delay) as i64, ..Sync1::default() });
    let with_sync1 = if given.is_some() { Sync0::WITH_SYNC1 } else { 0 };
    Ok(Sync0 {
        period_ns: table.period_us.map(|period| ns(period) as u32).or(of_mode.period_ns),
        factor: of_mode.factor,
        shift_ns: table.shift_us.map(|shift| ns(shift) as i64).or(of_mode.shift_ns),
        shift_factor: if table.shift_us.is_some() { 0 } else { of_mode.shift_factor },
        activation: table.activate.unwrap_or(of_mode.activation | with_sync1),
        sync1: given.unwrap_or(of_mode.sync1),
    })
}

/// Converts a watchdog time to ns.
pub(crate) fn watchdog_ns(ms: f64) -> Result<u64, DescriptionError> {
    if WATCHDOGS_MS.contains(&ms) {
        Ok((ms * 1e6).round() as u64)
    } else {
        Err(DescriptionError::Watchdog(ms.to_string()))
    }
}
