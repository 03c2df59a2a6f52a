//! A segment as a TOML file tells it.
//!
//! ```toml
//! [segment]
//! name = "two joints"
//! seed = 7                       # clocks, noise and faults follow from it
//!
//! [types.joint]
//! kind = "drive"                 # coupler, digital, analogue, drive, imu, force-torque
//! [types.joint.drive]
//! mode = "csp"
//!
//! [[devices]]
//! type = "joint"
//! names = ["left knee", "right knee"]    # one behind the other; `after` and `port` make a tree of the line
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::esi::{self, Choice, EsiError, Information};
use super::fault_words::FaultWords;
use super::setup_words::{StartupWords, Sync0Words};
use crate::input;

/// More than station addresses are good for here.
const MOST_DEVICES: usize = 1024;
/// Of the name of a device that is called after its type, so many bytes; a number follows, and the longest name has 64.
const LONGEST_ORDER: usize = 56;

/// Why a file makes no segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Not TOML, or a key or value that has no meaning here.
    #[error("the segment file cannot be read: {0}")]
    Syntax(String),
    /// The file cannot be read.
    #[error("cannot read {file}: {why}")]
    Unread {
        /// Path of the file.
        file: String,
        /// What the system says.
        why: String,
    },
    /// Neither `kind` nor `esi`.
    #[error("type \"{0}\" says neither what kind it is nor which ESI file it is from; give it `kind` or `esi`")]
    NoKind(String),
    /// A key that an ESI file tells.
    #[error("type \"{kind}\" comes from an ESI file, which tells its {what}; take the key `{what}` out")]
    ToldByEsi {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
    },
    /// An ESI file that makes no device.
    #[error("the ESI file {file} does not fit: {why}")]
    Esi {
        /// Path of the file, as it was given.
        file: String,
        /// Why.
        why: EsiError,
    },
    /// No `[[devices]]`.
    #[error("the segment file lists no device; add a [[devices]] table with a type and a name")]
    NoDevices,
    /// More than station addresses are good for here.
    #[error("the segment file lists {0} devices, at most 1024 are simulated")]
    TooManyDevices(usize),
    /// A device of a type that is not there.
    #[error("device \"{device}\" has type \"{wanted}\", which the file does not have under [types]")]
    UnknownType {
        /// Name of the device.
        device: String,
        /// What its `type` says.
        wanted: String,
    },
    /// A table without `name` and `names`.
    #[error("a [[devices]] table of type \"{0}\" has no name; give it `name` or `names`")]
    NoName(String),
    /// Two devices of one name.
    #[error("two devices are called \"{0}\"; names tell devices apart and may stand once")]
    DuplicateName(String),
    /// `after` names a device that does not come earlier.
    #[error("device \"{device}\" is to stand after \"{after}\", which no earlier device is called")]
    UnknownParent {
        /// Name of the device.
        device: String,
        /// What its `after` says.
        after: String,
    },
    /// The port is taken, or the device before has no such port.
    #[error("device \"{device}\" finds no free port at \"{after}\", which has {ports} of them with the incoming one")]
    NoPort {
        /// Name of the device.
        device: String,
        /// Name of the device before it.
        after: String,
        /// Ports of the device before.
        ports: u8,
    },
    /// A number out of its range.
    #[error("type \"{kind}\" has {what} = {value}, which must be {range}")]
    Range {
        /// Name of the type.
        kind: String,
        /// The key.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        range: &'static str,
    },
    /// An object list that cannot be mapped.
    #[error(
        "type \"{kind}\" maps \"{object}\", which it does not have or cannot map; write index or index:entry in hexadecimal, such as 6040 or 6000:1"
    )]
    Object {
        /// Name of the type.
        kind: String,
        /// The entry of the list.
        object: String,
    },
    /// A value that is no value, of an object that is none.
    #[error("the start-up value of object \"{object}\" of device \"{device}\" does not fit: {why}")]
    Startup {
        /// Name of the device.
        device: String,
        /// The object, as it stands there.
        object: String,
        /// Why.
        why: String,
    },
    /// A watchdog that devices cannot have.
    #[error("[segment] has watchdog_ms = {0}, which must be 0.1 to 6553.5")]
    Watchdog(String),
    /// A fault that there is not, or that wants a device.
    #[error("the file plans a fault \"{0}\", which there is not, or which wants a device")]
    UnknownFault(String),
    /// A fault of a device that is not there.
    #[error("the file plans a fault \"{fault}\" of device \"{device}\", which it does not list")]
    UnknownFaultDevice {
        /// Its kind.
        fault: String,
        /// What its `device` says.
        device: String,
    },
}

/// A segment as it was told: what a [`super::Segment`], a [`super::Link`] and a [`crate::ethercat::layout::Layout`] are made of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    #[serde(default)]
    pub(crate) segment: SegmentTable,
    /// Of types that come from ESI files.
    #[serde(skip)]
    pub(crate) information: BTreeMap<String, Information>,
    /// Device delay of all types instead of their own.
    #[serde(skip)]
    delay_ns: Option<u64>,
    #[serde(default)]
    pub(crate) types: BTreeMap<String, TypeTable>,
    #[serde(default)]
    pub(crate) devices: Vec<DeviceTable>,
    #[serde(default)]
    pub(crate) faults: Vec<FaultWords>,
    // What the robot is to do with the devices is read elsewhere.
    #[serde(default, rename = "robot")]
    _robot: IgnoredAny,
    #[serde(default, rename = "joints")]
    _joints: IgnoredAny,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SegmentTable {
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// The last device's way on leads to a second network interface.
    pub(crate) ring: bool,
    /// Travel time of a frame through each cable.
    pub(crate) cable_ns: u64,
    /// Quartzes are off by at most this much, each by its own part of it.
    pub(crate) drift_ppm: f64,
    /// How long devices wait for process data; theirs without it.
    pub(crate) watchdog_ms: Option<f64>,
}

impl Default for SegmentTable {
    fn default() -> Self {
        Self { name: "segment".to_owned(), seed: 1, ring: false, cable_ns: 25, drift_ppm: 25.0, watchdog_ms: None }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KindWord {
    Coupler,
    Digital,
    Analogue,
    Drive,
    Imu,
    ForceTorque,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypeTable {
    pub(crate) kind: Option<KindWord>,
    /// File of the vendor's that tells the device, and the device of several in it.
    pub(crate) esi: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) vendor: Option<u32>,
    pub(crate) product: Option<u32>,
    pub(crate) revision: Option<u32>,
    pub(crate) ports: Option<u8>,
    /// Distributed clock.
    pub(crate) clock: Option<bool>,
    /// Bytes of each mailbox, 0 for none.
    pub(crate) mailbox: Option<u16>,
    #[serde(default)]
    pub(crate) eeprom_us: u64,
    /// How long a change of the AL state takes.
    #[serde(default)]
    pub(crate) state_us: u64,
    /// From a frame's passing to the device's own cycle.
    #[serde(default)]
    pub(crate) delay_us: u64,
    #[serde(default)]
    pub(crate) needs_outputs: bool,
    /// Objects of the outputs and of the inputs, where other ones than usual are wanted.
    pub(crate) outputs: Option<Vec<String>>,
    pub(crate) inputs: Option<Vec<String>>,
    pub(crate) channels: Option<ChannelsTable>,
    pub(crate) drive: Option<DriveTable>,
    pub(crate) imu: Option<ImuTable>,
    pub(crate) force: Option<ForceTable>,
    /// What a MainDevice tells each of them on its way up.
    #[serde(default)]
    pub(crate) startup: Vec<StartupWords>,
    pub(crate) sync0: Option<Sync0Words>,
}

/// A vendor id that nobody has and that is seen to be made up.
pub(crate) const FICTITIOUS_VENDOR: u32 = 0xf1c7_1005;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ChannelsTable {
    pub(crate) inputs: u8,
    pub(crate) outputs: u8,
    /// Each output is wired to the input of the same number.
    pub(crate) loop_back: bool,
}

impl Default for ChannelsTable {
    fn default() -> Self {
        Self { inputs: 8, outputs: 8, loop_back: false }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModeWord {
    Pp = 1,
    Pv = 3,
    Pt = 4,
    Hm = 6,
    Csp = 8,
    Csv = 9,
    Cst = 10,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DriveTable {
    pub(crate) mode: ModeWord,
    pub(crate) inertia_kg_m2: f64,
    pub(crate) viscous_nm_s: f64,
    pub(crate) dry_nm: f64,
    pub(crate) rated_nm: f64,
    pub(crate) load_nm: f64,
    pub(crate) torque_lag_us: f64,
    pub(crate) increments: u32,
    pub(crate) following_window: Option<u32>,
    pub(crate) travel: [i32; 2],
    pub(crate) most_turns_per_s: f64,
    pub(crate) most_torque_permille: u16,
}

impl Default for DriveTable {
    fn default() -> Self {
        Self {
            mode: ModeWord::Csp,
            inertia_kg_m2: 0.002,
            viscous_nm_s: 0.01,
            dry_nm: 0.02,
            rated_nm: 2.0,
            load_nm: 0.0,
            torque_lag_us: 200.0,
            increments: 65_536,
            following_window: None,
            travel: [0, 0],
            most_turns_per_s: 20.0,
            most_torque_permille: 3_000,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ImuTable {
    pub(crate) acceleration_noise_m_s2: f32,
    pub(crate) rate_noise_rad_s: f32,
    pub(crate) rate_bias_rad_s: f32,
}

impl Default for ImuTable {
    fn default() -> Self {
        Self { acceleration_noise_m_s2: 0.02, rate_noise_rad_s: 0.001, rate_bias_rad_s: 0.000_5 }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ForceTable {
    pub(crate) load_n_nm: [f32; 6],
    pub(crate) noise_n: f32,
}

impl Default for ForceTable {
    fn default() -> Self {
        Self { load_n_nm: [0.0; 6], noise_n: 0.1 }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceTable {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) names: Vec<String>,
    /// Of the first; further ones count on.
    #[serde(default)]
    pub(crate) alias: u16,
    /// Of the first; further ones count on. 0 for none; without it, its place in the file.
    pub(crate) serial: Option<u32>,
    pub(crate) after: Option<String>,
    pub(crate) port: Option<u8>,
    pub(crate) cable_ns: Option<u64>,
    pub(crate) drift_ppm: Option<f64>,
    /// What a MainDevice tells it behind what it tells its type.
    #[serde(default)]
    pub(crate) startup: Vec<StartupWords>,
    pub(crate) sync0: Option<Sync0Words>,
}

/// When a device's model has its cycles, as far as it follows from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceCycle {
    /// From a frame's passing to the cycle, in ns.
    pub(crate) delay_ns: u64,
    /// A processor looks at the pins in that cycle; without one the inputs are the pins.
    pub(crate) has_processor: bool,
}

impl Description {
    /// The same devices, whose own cycles all begin so long after a frame has passed, in nanoseconds.
    #[must_use]
    pub fn with_device_delay(self, ns: u64) -> Self {
        Self { delay_ns: Some(ns), ..self }
    }

    pub(crate) fn delay_ns_of(&self, kind: &TypeTable) -> u64 {
        self.delay_ns.unwrap_or(kind.delay_us.saturating_mul(1_000))
    }

    /// When the device of this name has its cycles; `None` where pulses or a vendor's file decide.
    pub(crate) fn cycle_of(&self, device: &str) -> Option<DeviceCycle> {
        let table = self.devices.iter().find(|table| table.all_names().any(|name| name == device))?;
        let kind = self.types.get(&table.kind)?;
        if kind.esi.is_some() || table.sync0.or(kind.sync0).is_some() {
            return None;
        }
        let delay_ns = self.delay_ns_of(kind);
        let has_mailbox = kind.mailbox.map_or(!matches!(kind.kind, Some(KindWord::Digital)), |bytes| bytes > 0);
        Some(DeviceCycle { delay_ns, has_processor: has_mailbox || delay_ns > 0 })
    }

    /// What a segment's file says, see `docs/segment.md`.
    ///
    /// # Errors
    /// [`DescriptionError`] says what in the text makes no segment. A text does not know where it is, so a type that names an ESI
    /// file wants [`Description::from_file`] or [`Description::from_toml_with`].
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let nowhere = |_: &str| Err(io::Error::other("the segment's text was given without the files beside it"));
        Self::from_toml_with(text, nowhere)
    }

    /// The same, with the ESI files that the text names: `esi` is given each name as it stands there, once, and gives the bytes.
    ///
    /// # Errors
    /// [`DescriptionError`] says what in the text or in an ESI file makes no segment.
    pub fn from_toml_with(
        text: &str,
        mut esi: impl FnMut(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, DescriptionError> {
        let mut description: Self =
            toml::from_str(text).map_err(|error| DescriptionError::Syntax(error.to_string().trim_end().to_owned()))?;
        let devices: usize = description.devices.iter().map(|table| table.all_names().count()).sum();
        match devices {
            0 => return Err(DescriptionError::NoDevices),
            1..=MOST_DEVICES => (),
            more => return Err(DescriptionError::TooManyDevices(more)),
        }
        let mut files: BTreeMap<&String, Vec<u8>> = BTreeMap::new();
        for (name, kind) in &description.types {
            let Some(file) = &kind.esi else { continue };
            kind.leaves_to_esi(name)?;
            if !files.contains_key(file) {
                let bytes = esi(file)
                    .map_err(|error| DescriptionError::Unread { file: file.clone(), why: error.to_string() })?;
                files.insert(file, bytes);
            }
            let choice = Choice { device: kind.device.clone(), product: kind.product, revision: kind.revision };
            let bytes = files.get(file).map(Vec::as_slice).unwrap_or_default();
            let found = esi::devices(bytes, &[choice]).map_err(|why| kind.esi_error(why))?;
            description.information.extend(found.into_iter().map(|information| (name.clone(), information)));
        }
        Ok(description)
    }

    /// One device of each kind that an ESI file has, one behind the other, in their newest revisions; or those whose type or name is
    /// `chosen`, as often as it is.
    ///
    /// # Errors
    /// [`DescriptionError::Esi`] when the file does not fit. `file` is what it is called there.
    pub fn from_esi(bytes: &[u8], file: &str, chosen: &[String]) -> Result<Self, DescriptionError> {
        let choices: Vec<Choice> =
            chosen.iter().map(|device| Choice { device: Some(device.clone()), ..Choice::default() }).collect();
        let found =
            esi::devices(bytes, &choices).map_err(|why| DescriptionError::Esi { file: file.to_owned(), why })?;
        if found.len() > MOST_DEVICES {
            return Err(DescriptionError::TooManyDevices(found.len()));
        }
        let name = Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let mut description = Self {
            delay_ns: None,
            segment: SegmentTable { name, ..SegmentTable::default() },
            information: BTreeMap::new(),
            types: BTreeMap::new(),
            devices: Vec::new(),
            faults: Vec::new(),
            _robot: IgnoredAny,
            _joints: IgnoredAny,
        };
        for (place, information) in found.into_iter().enumerate() {
            let kind = format!("device {}", place + 1);
            let alike = description.information.values().filter(|other| other.order == information.order).count();
            let fits =
                information.order.char_indices().take_while(|(at, letter)| at + letter.len_utf8() <= LONGEST_ORDER);
            let order: String = fits.map(|(_, letter)| letter).collect();
            let order = if order.is_empty() { kind.clone() } else { order };
            let name = if alike == 0 { order } else { format!("{order} {}", alike + 1) };
            description.types.insert(kind.clone(), TypeTable { esi: Some(file.to_owned()), ..TypeTable::default() });
            description.information.insert(kind.clone(), information);
            description.devices.push(DeviceTable { kind, name: Some(name), ..DeviceTable::default() });
        }
        Ok(description)
    }

    /// Reads a segment's file with the ESI files beside it, or an ESI file itself (`.xml`), with one device of each kind.
    ///
    /// # Errors
    /// [`DescriptionError`] says what cannot be read, or makes no segment.
    pub fn from_file(path: &Path) -> Result<Self, DescriptionError> {
        let unread =
            |error: io::Error| DescriptionError::Unread { file: path.display().to_string(), why: error.to_string() };
        let bytes = input::read(path, input::MOST_BYTES_BY_HAND).map_err(unread)?;
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("xml")) {
            return Self::from_esi(&bytes, &path.display().to_string(), &[]);
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| DescriptionError::Syntax(format!("{} is no text in UTF-8", path.display())))?;
        let beside = path.parent().unwrap_or(Path::new(""));
        Self::from_toml_with(&text, |name| input::read(&beside.join(name), input::MOST_BYTES_BY_HAND))
    }
}

impl TypeTable {
    /// What kind it is, where that is told.
    pub(crate) fn word(&self, name: &str) -> Result<KindWord, DescriptionError> {
        self.kind.ok_or_else(|| DescriptionError::NoKind(name.to_owned()))
    }

    pub(crate) fn esi_error(&self, why: EsiError) -> DescriptionError {
        DescriptionError::Esi { file: self.esi.clone().unwrap_or_default(), why }
    }

    /// What an ESI file tells may not be told twice.
    fn leaves_to_esi(&self, name: &str) -> Result<(), DescriptionError> {
        let told = [
            ("kind", self.kind.is_some()),
            ("vendor", self.vendor.is_some()),
            ("ports", self.ports.is_some()),
            ("clock", self.clock.is_some()),
            ("mailbox", self.mailbox.is_some()),
            ("outputs", self.outputs.is_some()),
            ("inputs", self.inputs.is_some()),
        ];
        match told.iter().find(|(_, told)| *told) {
            Some((what, _)) => Err(DescriptionError::ToldByEsi { kind: name.to_owned(), what }),
            None => Ok(()),
        }
    }
}

impl DeviceTable {
    /// Serial number of the device of this number in the table, where the file says one; 0 for none.
    pub(crate) fn serial_of(&self, number: usize) -> Option<u32> {
        self.serial.map(|first| if first == 0 { 0 } else { first.wrapping_add(number as u32) })
    }

    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.names).map(String::as_str)
    }
}
