//! The description of a segment: a TOML file, with the ESI files it names.
//!
//! ```toml
//! [segment]
//! name = "two joints"
//! seed = 7                       # for clocks, noise and faults
//!
//! [types.joint]
//! kind = "drive"                 # coupler, digital, analogue, drive, imu, force-torque
//! [types.joint.drive]
//! mode = "csp"
//!
//! [[devices]]
//! type = "joint"
//! names = ["left knee", "right knee"]    # in a line; `after` and `port` make branches
//! ```

mod assignment;
mod error;
mod fault_table;
mod groups;
pub mod memory;
mod process_data;
mod resolved;
mod setup_tables;
mod tables;
mod to_layout;
mod value_names;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::esi::{self, DeviceSelector, EsiDevice, EsiSlot, Transition};
use crate::layout::DeviceKind;
use onbeat_host::foreign;

pub use error::DescriptionError;
pub use fault_table::{FaultTable, FaultValueError};
pub use process_data::{PdoDirection, ProcessData, mappable};
pub use resolved::{CableEnd, CableSpec, ResolvedDescription, ResolvedDevice};
pub use setup_tables::{StartupTable, Sync0Table};
pub use tables::{
    ChannelsTable, DeviceTable, DriveTable, FICTITIOUS_VENDOR, ForceTable, ImuTable, OperationMode,
    SegmentTable, TypeTable,
};

/// Largest number of devices of a segment.
const MOST_DEVICES: usize = 1024;
/// Longest order name used as a device name, in bytes; a number follows, and names have at most 64
/// bytes.
const LONGEST_ORDER: usize = 56;
/// Most notes and slots that are listed of one device.
const MOST_NOTES: usize = 8;

/// The description of a segment, from which a simulated segment and a
/// [`Layout`](crate::layout::Layout) are built.
///
/// ```
/// use onbeat_ethercat::description::Description;
///
/// let description = Description::from_toml(Description::HUMANOID)?;
/// assert_eq!(description.segment.name, "humanoid");
/// # Ok::<(), onbeat_ethercat::description::DescriptionError>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// `[segment]`.
    #[serde(default)]
    pub segment: SegmentTable,
    /// Devices of ESI files, by name of the type.
    #[serde(skip)]
    pub esi_devices: BTreeMap<String, EsiDevice>,
    /// Device delay that overrides that of all types.
    #[serde(skip)]
    delay_ns: Option<u64>,
    /// `[types.NAME]`, by name.
    #[serde(default)]
    pub types: BTreeMap<String, TypeTable>,
    /// `[[devices]]`, in file order.
    #[serde(default)]
    pub devices: Vec<DeviceTable>,
    /// `[[faults]]`.
    #[serde(default)]
    pub faults: Vec<FaultTable>,
    // The tables of the robot are read by another crate.
    #[serde(default, rename = "robot")]
    _robot: IgnoredAny,
    #[serde(default, rename = "joints")]
    _joints: IgnoredAny,
}

/// Timing of the internal cycle of a device, as far as the file defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCycle {
    /// Time from the passing of a frame to the cycle, in ns.
    pub delay_ns: u64,
    /// Whether a processor samples the pins in that cycle; without one, the inputs are the pins.
    pub has_processor: bool,
}

/// Returns a sentence about the axes of a drive that no joint of a robot has (ETG.6010: axis n has its
/// objects 0x800 · n further on).
fn further_axes(esi: &EsiDevice) -> Option<String> {
    let assigned = esi.default_assignment(0);
    let entries = || assigned.iter().flat_map(|(_, pdos)| pdos).flat_map(|pdo| &pdo.entries);
    let has = |index: u16| entries().any(|entry| (entry.index, entry.subindex) == (index, 0));
    let axes: Vec<String> = (0x6040..=0x9840)
        .step_by(0x800)
        .filter(|index| has(*index))
        .map(|index| format!("{index:#06x}"))
        .collect();
    (axes.len() > 1 && has(0x6040)).then(|| {
        format!(
            "device \"{}\" has {} axes (controlwords {}); a robot moves the first, the others get no power",
            esi.order,
            axes.len(),
            axes.join(", ")
        )
    })
}

/// Returns a warning if the slots of a device that has modules are empty.
fn empty_slots(esi: &EsiDevice) -> Option<String> {
    let is_empty = |slot: &&EsiSlot| slot.module.is_none() && !slot.modules.is_empty();
    let nothing_is_filled = esi.slots.iter().all(|slot| slot.module.is_none());
    let wanted: Vec<&EsiSlot> = esi
        .slots
        .iter()
        .filter(is_empty)
        .filter(|slot| nothing_is_filled || slot.is_needed)
        .collect();
    let first = wanted.first()?;
    let listed: Vec<String> = wanted
        .iter()
        .take(MOST_NOTES)
        .map(|slot| {
            let mut modules: Vec<&str> = slot.modules.iter().take(4).map(String::as_str).collect();
            if slot.modules.len() > 4 {
                modules.push("...");
            }
            format!("\"{}\" ({})", slot.name, modules.join(", "))
        })
        .collect();
    let more = if wanted.len() > MOST_NOTES {
        format!(" and {} more", wanted.len() - MOST_NOTES)
    } else {
        String::new()
    };
    let (are_empty, them) = match wanted.len() {
        1 => ("1 slot is empty and exchanges no data".to_owned(), "it"),
        slots => (format!("{slots} slots are empty and exchange no data"), "them"),
    };
    Some(format!(
        "device \"{}\": {are_empty}: {}{more}; fill {them} in the device file, such as slots = [\"{}\"]",
        esi.order,
        listed.join(", "),
        first.usual_module()
    ))
}

impl Description {
    /// The robot that ships with onbeat: 48 drives, 8 digital I/O devices and 3 inertial
    /// measurement units.
    pub const HUMANOID: &'static str = include_str!("humanoid.toml");

    /// Sets the time from the passing of a frame to the internal cycle for all devices, in
    /// nanoseconds.
    #[must_use]
    pub fn with_device_delay(self, ns: u64) -> Self {
        Self { delay_ns: Some(ns), ..self }
    }

    /// Returns the time from the passing of a frame to the internal cycle of devices of this type,
    /// in ns.
    #[must_use]
    pub fn delay_ns_of(&self, kind: &TypeTable) -> u64 {
        self.delay_ns.unwrap_or(kind.delay_us.saturating_mul(1_000))
    }

    /// Returns the timing of the internal cycle of the named device; `None` when SYNC0 or an ESI
    /// file defines it.
    #[must_use]
    pub fn cycle_of(&self, device: &str) -> Option<DeviceCycle> {
        let table =
            self.devices.iter().find(|table| table.all_names().any(|name| name == device))?;
        let kind = self.types.get(&table.kind)?;
        let is_pulsed = table.sync0.or(kind.sync0).is_some() || table.dc.is_some();
        if kind.esi.is_some() || is_pulsed {
            return None;
        }

        let delay_ns = self.delay_ns_of(kind);
        let has_mailbox =
            kind.mailbox.map_or(!matches!(kind.kind, Some(DeviceKind::Digital)), |bytes| bytes > 0);
        Some(DeviceCycle { delay_ns, has_processor: has_mailbox || delay_ns > 0 })
    }

    /// Parses the text of a segment file (`docs/segment.md`).
    ///
    /// # Errors
    /// [`DescriptionError`] with what is wrong. The text has no directory, so types that name ESI
    /// files need [`Description::from_file`] or [`Description::from_toml_with`].
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let no_files = |_: &str| {
            Err(io::Error::other(
                "the segment's text was given without the files that it refers to",
            ))
        };
        Self::from_toml_with(text, no_files)
    }

    /// Parses the text of a segment file. `esi` is called once for each ESI file name in the text
    /// and returns the bytes of the file.
    ///
    /// # Errors
    /// [`DescriptionError`] with what is wrong in the text or in an ESI file.
    pub fn from_toml_with(
        text: &str,
        mut esi: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, DescriptionError> {
        let mut description: Self = toml::from_str(text)
            .map_err(|error| DescriptionError::Syntax(error.to_string().trim_end().to_owned()))?;
        let devices: usize =
            description.devices.iter().map(|table| table.all_names().count()).sum();
        match devices {
            0 => return Err(DescriptionError::NoDevices),
            1..=MOST_DEVICES => (),
            more => return Err(DescriptionError::TooManyDevices(more)),
        }

        let mut files: BTreeMap<&String, (Vec<u8>, Vec<Vec<u8>>)> = BTreeMap::new();
        for (name, kind) in &description.types {
            let Some(file) = &kind.esi else {
                kind.check_without_esi(name)?;
                continue;
            };
            kind.check_with_esi(name)?;
            if !files.contains_key(file) {
                let bytes = esi(file).map_err(|error| DescriptionError::Unread {
                    file: file.clone(),
                    why: error.to_string(),
                })?;
                let others = esi::referenced(&bytes, |name| {
                    let path = Path::new(file).with_file_name(name);
                    esi(&path.to_string_lossy()).ok()
                });
                files.insert(file, (bytes, others));
            }

            let choice = DeviceSelector {
                device: kind.device.clone(),
                product: kind.product,
                revision: kind.revision,
                slots: kind.slots.clone(),
            };
            let Some((bytes, others)) = files.get(file) else { continue };
            let found = esi::devices_with(bytes, others, &[choice]);
            let found = found.map_err(|why| kind.esi_error(why))?;
            description.esi_devices.extend(found.into_iter().map(|device| (name.clone(), device)));
        }

        Ok(description)
    }

    /// Describes a line of devices from an ESI file: one of each kind in its newest revision, or,
    /// if `chosen` is not empty, the devices with these types or names, repeated as listed.
    ///
    /// # Errors
    /// [`DescriptionError::Esi`] when the file cannot be used; `file` is the name in the message.
    pub fn from_esi(bytes: &[u8], file: &str, chosen: &[String]) -> Result<Self, DescriptionError> {
        let choices: Vec<DeviceSelector> = chosen
            .iter()
            .map(|device| DeviceSelector {
                device: Some(device.clone()),
                ..DeviceSelector::default()
            })
            .collect();
        let found = esi::devices(bytes, &choices)
            .map_err(|why| DescriptionError::Esi { file: file.to_owned(), why })?;
        Self::from_esi_devices(found, file)
    }

    /// Describes a line of these devices of an ESI file.
    ///
    /// # Errors
    /// [`DescriptionError::TooManyDevices`].
    pub fn from_esi_devices(found: Vec<EsiDevice>, file: &str) -> Result<Self, DescriptionError> {
        if found.len() > MOST_DEVICES {
            return Err(DescriptionError::TooManyDevices(found.len()));
        }

        let name = Path::new(file)
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let segment = SegmentTable { name, ..SegmentTable::default() };
        let mut description = Self { segment, ..Self::default() };

        let mut orders: BTreeMap<String, usize> = BTreeMap::new();
        for (position, device) in found.into_iter().enumerate() {
            let kind = format!("device {}", position + 1);
            let fits = device
                .order
                .char_indices()
                .take_while(|(at, letter)| at + letter.len_utf8() <= LONGEST_ORDER);
            let order: String = fits.map(|(_, letter)| letter).collect();
            let order = if order.is_empty() { kind.clone() } else { order };
            let count = orders.entry(order.clone()).or_default();
            *count += 1;
            let name = if *count == 1 { order } else { format!("{order} {count}") };
            description.types.insert(
                kind.clone(),
                TypeTable { esi: Some(file.to_owned()), ..TypeTable::default() },
            );
            description.esi_devices.insert(kind.clone(), device);
            description.devices.push(DeviceTable {
                kind,
                name: Some(name),
                ..DeviceTable::default()
            });
        }

        Ok(description)
    }

    /// Returns what the user should know about the devices that are used, a sentence each: slots
    /// that are not filled, what was corrected in ESI files, and equal aliases.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let used: BTreeSet<&String> = self.devices.iter().map(|table| &table.kind).collect();
        for name in used {
            let Some((esi, kind)) = self.esi_devices.get(name).zip(self.types.get(name)) else {
                continue;
            };
            let file = kind.esi.as_deref().unwrap_or_default();
            let notes = esi.notes.iter().take(MOST_NOTES);
            warnings.extend(notes.map(|note| format!("{file}, device \"{}\": {note}", esi.order)));
            if esi.notes.len() > MOST_NOTES {
                let more = esi.notes.len() - MOST_NOTES;
                warnings.push(format!("{file}, device \"{}\": {more} more notes", esi.order));
            }
            warnings.extend(empty_slots(esi));
            warnings.extend(further_axes(esi));
            let late: Vec<String> = esi
                .commands
                .iter()
                .filter(|command| command.transition == Transition::ToOp)
                .map(|command| command.line.to_string())
                .collect();
            if !late.is_empty() {
                let lines = if late.len() == 1 { "line" } else { "lines" };
                warnings.push(format!(
                    "{file}, device \"{}\": start-up commands between SAFEOP and OP are not sent ({lines} {})",
                    esi.order,
                    late.join(", ")
                ));
            }
        }

        let unused = |(name, kind): (&String, &TypeTable)| {
            let table = kind.unused_table()?;
            Some(format!(
                "type \"{name}\": devices of its kind have no [types.{name}.{table}]; remove it"
            ))
        };
        warnings.extend(self.types.iter().filter_map(unused));
        warnings.extend(self.partial_modes());
        warnings.extend(self.shared_memory());
        warnings.extend(self.same_numbers("alias", |table| table.alias));
        warnings.extend(self.same_numbers("device ID", |table| table.device_id));
        warnings
    }

    /// Returns a warning for each type whose process data do not fit into the memory of the device.
    #[must_use]
    pub fn shared_memory(&self) -> Vec<String> {
        let Ok(resolved) = ResolvedDescription::new(self) else { return Vec::new() };
        let mut seen = BTreeSet::new();
        let firsts = resolved.devices.iter().filter(|device| seen.insert(&device.table.kind));
        firsts.filter_map(memory::shared_memory).collect()
    }

    /// Returns a warning for each type of used drives without `[types.NAME.drive]`: a real drive may
    /// have another number of increments per turn than a simulated one.
    #[must_use]
    pub fn assumed_increments(&self) -> BTreeSet<String> {
        let assumed = DriveTable::default().increments;
        let warning = |table: &DeviceTable| {
            let name = &table.kind;
            let kind = self.types.get(name)?;
            let esi = self.esi_devices.get(name).map(EsiDevice::behaviour);
            let is_drive = esi.or(kind.kind) == Some(DeviceKind::Drive);
            (is_drive && kind.drive.is_none()).then(|| {
                format!(
                    "type \"{name}\": {assumed} increments per turn are assumed; positions, velocities and limits are wrong by the factor \
                     between these and the drive's own: set `increments` in [types.{name}.drive]"
                )
            })
        };
        self.devices.iter().filter_map(warning).collect()
    }

    /// Returns warnings for each clock mode that has PDOs, a shift, or a type that are not used.
    fn partial_modes(&self) -> BTreeSet<String> {
        let warnings = |table: &DeviceTable| {
            let kind = self.types.get(&table.kind)?;
            let dc = table.dc.as_ref().or(kind.dc.as_ref())?;
            let esi = self.esi_devices.get(&table.kind)?;
            let mode = esi.clock.iter().find(|mode| mode.name.eq_ignore_ascii_case(dc.trim()))?;
            let at = format!(
                "{}, clock mode \"{}\"",
                kind.esi.as_deref().unwrap_or_default(),
                mode.name
            );
            let pdos = mode.pdo_line.map(|line| {
                format!(
                    "{at}: its PDOs (line {line}) are not assigned, oversampling is not supported; choose PDOs by `pdos`"
                )
            });
            let is_chosen = table.sync0.or(kind.sync0).is_some_and(|own| own.shift_us.is_some());
            let shift = mode.shift_line.filter(|_| !is_chosen).map(|line| {
                format!(
                    "{at}: of its shift (line {line}) only the time is used, not that it is relative to the inputs (Input); set `shift_us` of `sync0`"
                )
            });
            let is_written = || {
                let startup = kind.startup.iter().chain(&table.startup);
                let commands = esi.commands.iter().map(|command| command.value.index);
                let mut of = startup.filter_map(StartupTable::index).chain(commands);
                of.any(|index| matches!(index, 0x1c32 | 0x1c33))
            };
            let sync_type = mode.sync_type_line.filter(|_| !is_written()).map(|line| {
                format!(
                    "{at}: its SyncType (line {line}) is not written; a device that does not choose it by the SYNC pulses needs 1c32:1 and 1c33:1 in `startup`"
                )
            });
            Some(pdos.into_iter().chain(shift).chain(sync_type))
        };
        self.devices.iter().filter_map(warnings).flatten().collect()
    }

    /// Returns a warning for each device that has the number of an earlier one.
    fn same_numbers(&self, what: &str, of: impl Fn(&DeviceTable) -> u16) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut known: BTreeMap<u16, &str> = BTreeMap::new();
        for table in self.devices.iter().filter(|table| of(table) != 0) {
            for (number, name) in (0..).zip(table.all_names()) {
                let number = of(table).wrapping_add(number);
                match known.get(&number) {
                    Some(other) => warnings.push(format!(
                        "devices \"{other}\" and \"{name}\" have the same {what} {number}; give each its own, or the bus cannot distinguish them"
                    )),
                    None => {
                        known.insert(number, name);
                    }
                }
            }
        }
        warnings
    }

    /// Splits the name of an ESI file from the devices chosen in it: `servo.xml:SV-2,SV-2` are two
    /// devices of `servo.xml`. Returns `None` for other files.
    ///
    /// ```
    /// use std::path::Path;
    /// use onbeat_ethercat::description::Description;
    ///
    /// let (file, chosen) = Description::esi_choice(Path::new("servo.xml:SV-2,IN-8")).unwrap();
    /// assert_eq!((file.as_path(), chosen.len()), (Path::new("servo.xml"), 2));
    /// assert!(Description::esi_choice(Path::new("robot.toml")).is_none());
    /// ```
    #[must_use]
    pub fn esi_choice(path: &Path) -> Option<(PathBuf, Vec<String>)> {
        let is_esi =
            |path: &Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml"));
        if is_esi(path) {
            return Some((path.to_owned(), Vec::new()));
        }
        let (file, chosen) = path.to_str()?.rsplit_once(':')?;
        let file = Path::new(file);
        let chosen =
            chosen.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty());
        is_esi(file).then(|| (file.to_owned(), chosen.collect()))
    }

    /// Reads a segment file with the ESI files it names, or an ESI file (`.xml`) as with
    /// [`Description::from_esi`], with the devices after a colon ([`Description::esi_choice`]).
    ///
    /// # Errors
    /// [`DescriptionError`] with what cannot be read or is wrong.
    pub fn from_file(path: &Path) -> Result<Self, DescriptionError> {
        let choice = Self::esi_choice(path);
        let file = choice.as_ref().map_or(path, |(file, _)| file.as_path());
        let unread = |error: io::Error| DescriptionError::Unread {
            file: file.display().to_string(),
            why: error.to_string(),
        };
        let bytes = foreign::read(file, foreign::MOST_BYTES_BY_HAND).map_err(unread)?;
        if let Some((_, chosen)) = &choice {
            return Self::from_esi(&bytes, &file.display().to_string(), chosen);
        }

        let text = String::from_utf8(bytes).map_err(|_| {
            DescriptionError::Syntax(format!("{} is not UTF-8 text", path.display()))
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::from_toml_with(&text, |name| {
            foreign::read(&directory.join(name), foreign::MOST_BYTES_BY_HAND)
        })
    }
}
