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

mod arrangement;
mod error;
mod fault_words;
mod listing;
mod process_data;
mod setup_words;
mod tables;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::esi::{self, Choice, Information};
use crate::input;

pub use arrangement::{Arrangement, Cable, End, Placed};
pub use error::DescriptionError;
pub use fault_words::FaultWords;
pub(crate) use listing::layout_of;
pub use process_data::{ProcessData, Way, mappable};
pub use setup_words::{StartupWords, Sync0Words};
pub use tables::{
    ChannelsTable, DeviceTable, DriveTable, FICTITIOUS_VENDOR, ForceTable, ImuTable, KindWord, ModeWord, SegmentTable,
    TypeTable,
};

/// More than station addresses are good for here.
const MOST_DEVICES: usize = 1024;
/// Of the name of a device that is called after its type, so many bytes; a number follows, and the longest name has 64.
const LONGEST_ORDER: usize = 56;

/// A segment as its file describes it: what a simulated one and a [`Layout`](crate::layout::Layout) are made of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// `[segment]`.
    #[serde(default)]
    pub segment: SegmentTable,
    /// Of types that come from ESI files.
    #[serde(skip)]
    pub information: BTreeMap<String, Information>,
    /// Device delay of all types instead of their own.
    #[serde(skip)]
    delay_ns: Option<u64>,
    /// `[types.NAME]`, by name.
    #[serde(default)]
    pub types: BTreeMap<String, TypeTable>,
    /// `[[devices]]`, in the order of the file.
    #[serde(default)]
    pub devices: Vec<DeviceTable>,
    /// `[[faults]]`.
    #[serde(default)]
    pub faults: Vec<FaultWords>,
    // What the robot is to do with the devices is read elsewhere.
    #[serde(default, rename = "robot")]
    _robot: IgnoredAny,
    #[serde(default, rename = "joints")]
    _joints: IgnoredAny,
}

/// When a device's model has its cycles, as far as it follows from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCycle {
    /// From a frame's passing to the cycle, in ns.
    pub delay_ns: u64,
    /// A processor looks at the pins in that cycle; without one the inputs are the pins.
    pub has_processor: bool,
}

impl Description {
    /// The robot that ships with onbeat: 48 drives, 8 digital I/O devices and 3 inertial measurement units.
    pub const HUMANOID: &'static str = include_str!("humanoid.toml");

    /// The same devices, whose own cycles all begin so long after a frame has passed, in nanoseconds.
    #[must_use]
    pub fn with_device_delay(self, ns: u64) -> Self {
        Self { delay_ns: Some(ns), ..self }
    }

    /// From a frame's passing to the own cycle of devices of this type, in ns.
    #[must_use]
    pub fn delay_ns_of(&self, kind: &TypeTable) -> u64 {
        self.delay_ns.unwrap_or(kind.delay_us.saturating_mul(1_000))
    }

    /// When the device of this name has its cycles; `None` where pulses or a vendor's file decide.
    #[must_use]
    pub fn cycle_of(&self, device: &str) -> Option<DeviceCycle> {
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
