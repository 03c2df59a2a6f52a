//! The tables of a segment file, see `docs/segment.md`.

use serde::Deserialize;

use super::DescriptionError;
use super::error::out_of_range;
use super::setup_tables::{StartupTable, Sync0Table};
use crate::esi::EsiError;
use crate::layout::DeviceKind;

/// Largest number of encoder increments per turn; derived values stay within 32 bits.
const MOST_INCREMENTS: u32 = 1 << 26;

/// `[segment]`: settings of the whole segment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SegmentTable {
    /// Name of the segment.
    pub name: String,
    /// Random seed of clocks, noise and faults.
    pub seed: u64,
    /// Whether the last device is connected to a second network interface.
    pub ring: bool,
    /// Propagation delay of each cable, in ns.
    pub cable_ns: u64,
    /// Largest frequency error of the clocks, in ppm; each clock has its own random error.
    pub drift_ppm: f64,
    /// Process data watchdog, in ms; `None` keeps the setting of each device.
    pub watchdog_ms: Option<f64>,
}

impl Default for SegmentTable {
    fn default() -> Self {
        Self {
            name: "segment".to_owned(),
            seed: 1,
            ring: false,
            cable_ns: 25,
            drift_ppm: 25.0,
            watchdog_ms: None,
        }
    }
}

/// `[types.NAME]`: settings of a device type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeTable {
    /// Kind; absent with `esi`.
    pub kind: Option<DeviceKind>,
    /// Path of the vendor's ESI file.
    pub esi: Option<String>,
    /// Type or name of the device in the ESI file.
    pub device: Option<String>,
    /// PDOs to assign, by index or name; `None` for the assignment of the ESI file.
    pub pdos: Option<Vec<String>>,
    /// Modules in the slots of the ESI device, in order: type, name or ident; "" for an empty slot.
    #[serde(default)]
    pub slots: Vec<String>,
    /// Vendor id.
    pub vendor: Option<u32>,
    /// Product code.
    pub product: Option<u32>,
    pub revision: Option<u32>,
    /// Number of ports, 1 to 4.
    pub ports: Option<u8>,
    /// Whether the device has a distributed clock.
    pub clock: Option<bool>,
    /// Size of each mailbox in bytes, 0 for none.
    pub mailbox: Option<u16>,
    /// Duration of an EEPROM access, in µs.
    #[serde(default)]
    pub eeprom_us: u64,
    /// Duration of an AL state change, in µs.
    #[serde(default)]
    pub state_us: u64,
    /// Time from the passing of a frame to the internal cycle, in µs.
    #[serde(default)]
    pub delay_us: u64,
    /// Whether OP is refused until outputs were received.
    #[serde(default)]
    pub needs_outputs: bool,
    /// Whether PREOP is refused until the EEPROM is assigned to the device.
    #[serde(default)]
    pub needs_eeprom: bool,
    /// Objects mapped to the outputs; `None` for the default mapping.
    pub outputs: Option<Vec<String>>,
    /// Objects mapped to the inputs; `None` for the default mapping.
    pub inputs: Option<Vec<String>>,
    /// `[types.NAME.channels]`.
    pub channels: Option<ChannelsTable>,
    /// `[types.NAME.drive]`.
    pub drive: Option<DriveTable>,
    /// `[types.NAME.imu]`.
    pub imu: Option<ImuTable>,
    /// `[types.NAME.force]`.
    pub force: Option<ForceTable>,
    /// Start-up values that a MainDevice writes to each device of the type.
    #[serde(default)]
    pub startup: Vec<StartupTable>,
    /// SYNC0 of the devices of the type.
    pub sync0: Option<Sync0Table>,
    /// Operation mode of the distributed clock, by its name in the ESI file.
    pub dc: Option<String>,
}

/// A vendor id that is not assigned and recognisably fictitious.
pub const FICTITIOUS_VENDOR: u32 = 0xf1c7_1005;

/// `[types.NAME.channels]`: channels of digital and analogue devices.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelsTable {
    /// Number of inputs.
    pub inputs: u8,
    /// Number of outputs.
    pub outputs: u8,
    /// Whether each output is wired to the input of the same number.
    pub loop_back: bool,
}

impl Default for ChannelsTable {
    fn default() -> Self {
        Self { inputs: 8, outputs: 8, loop_back: false }
    }
}

/// Modes of operation of a drive (CiA 402, object 0x6060).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OperationMode {
    /// Profile position.
    Pp = 1,
    /// Profile velocity.
    Pv = 3,
    /// Profile torque.
    Pt = 4,
    /// Homing.
    Hm = 6,
    /// Cyclic synchronous position.
    Csp = 8,
    /// Cyclic synchronous velocity.
    Csv = 9,
    /// Cyclic synchronous torque.
    Cst = 10,
}

/// `[types.NAME.drive]`: a drive with its motor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveTable {
    /// Mode of operation after power-on.
    pub mode: OperationMode,
    /// Inertia at the motor, in kg·m²; above 0.
    pub inertia_kg_m2: f64,
    /// Viscous friction, in N·m·s.
    pub viscous_nm_s: f64,
    /// Dry friction, in N·m.
    pub dry_nm: f64,
    /// Rated torque, in N·m; above 0.
    pub rated_nm: f64,
    /// Constant load, in N·m.
    pub load_nm: f64,
    /// Time constant of the torque, in µs.
    pub torque_lag_us: f64,
    /// Encoder increments per turn, 1 to 67108864.
    pub increments: u32,
    /// Following error window in increments; a tenth of a turn by default.
    pub following_window: Option<u32>,
    /// Lowest and highest position in increments; equal for no limit.
    pub travel: [i32; 2],
    /// Maximum speed, in turns per second; above 0.
    pub most_turns_per_s: f64,
    /// Maximum torque, in thousandths of the rated torque.
    pub most_torque_permille: u16,
}

impl Default for DriveTable {
    fn default() -> Self {
        Self {
            mode: OperationMode::Csp,
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

impl DriveTable {
    /// Checks the numbers; `name` is the name of the type.
    pub(super) fn check(&self, name: &str) -> Result<(), DescriptionError> {
        let positive = [
            ("inertia_kg_m2", self.inertia_kg_m2),
            ("rated_nm", self.rated_nm),
            ("increments", f64::from(self.increments)),
            ("most_turns_per_s", self.most_turns_per_s),
        ];

        for (what, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return out_of_range(name, what, value, "above 0");
            }
        }

        if self.increments > MOST_INCREMENTS {
            return out_of_range(name, "increments", self.increments, "at most 67108864");
        }

        Ok(())
    }
}

/// `[types.NAME.imu]`: noise of an inertial measurement unit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImuTable {
    /// Standard deviation of the acceleration, in m/s².
    pub acceleration_noise_m_s2: f32,
    /// Standard deviation of the rates, in rad/s.
    pub rate_noise_rad_s: f32,
    /// Bias of each rate, in rad/s.
    pub rate_bias_rad_s: f32,
}

impl Default for ImuTable {
    fn default() -> Self {
        Self { acceleration_noise_m_s2: 0.02, rate_noise_rad_s: 0.001, rate_bias_rad_s: 0.000_5 }
    }
}

/// `[types.NAME.force]`: load and noise of a force-torque sensor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForceTable {
    /// Forces in N, then torques in N·m.
    pub load_n_nm: [f32; 6],
    /// Standard deviation of the forces, in N; that of the torques is a hundredth of it, in N·m.
    pub noise_n: f32,
}

impl Default for ForceTable {
    fn default() -> Self {
        Self { load_n_nm: [0.0; 6], noise_n: 0.1 }
    }
}

/// `[[devices]]`: one device, or several of one type in a line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTable {
    /// Name of the type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of a single device.
    pub name: Option<String>,
    /// Names of several devices.
    #[serde(default)]
    pub names: Vec<String>,
    /// Name of the optional group of the devices; `None` for devices that are always there.
    pub group: Option<String>,
    /// Station alias of the first device; that of further devices follows. 0 for none.
    #[serde(default)]
    pub alias: u16,
    /// Explicit device ID of the first device; that of further devices follows. 0 for none.
    #[serde(default)]
    pub device_id: u16,
    /// Serial number of the first device; that of further devices follows. 0 for none; by default
    /// the position in the file, from 1.
    pub serial: Option<u32>,
    /// Name of the device to which the first one is connected; by default the previous one in the
    /// file.
    pub after: Option<String>,
    /// Port of that device; by default its first free one.
    pub port: Option<u8>,
    /// Propagation delay of the cable, in ns; by default that of the segment.
    pub cable_ns: Option<u64>,
    /// Frequency error of the clock, in ppm; by default random.
    pub drift_ppm: Option<f64>,
    /// Start-up values that a MainDevice writes after those of the type.
    #[serde(default)]
    pub startup: Vec<StartupTable>,
    /// SYNC0 of the devices; overrides that of the type.
    pub sync0: Option<Sync0Table>,
    /// Operation mode of the distributed clock; overrides that of the type.
    pub dc: Option<String>,
}

impl TypeTable {
    /// Returns the kind of the type.
    ///
    /// # Errors
    /// [`DescriptionError::NoKind`] when the type has none, as with an ESI file.
    pub fn kind_of(&self, name: &str) -> Result<DeviceKind, DescriptionError> {
        self.kind.ok_or_else(|| DescriptionError::NoKind(name.to_owned()))
    }

    /// Adds the name of the type's ESI file to an error.
    #[must_use]
    pub fn esi_error(&self, why: EsiError) -> DescriptionError {
        DescriptionError::Esi { file: self.esi.clone().unwrap_or_default(), why }
    }

    /// Rejects keys that choose from an ESI file, for a type without one.
    pub(super) fn check_without_esi(&self, name: &str) -> Result<(), DescriptionError> {
        let given = [
            ("pdos", self.pdos.is_some()),
            ("slots", !self.slots.is_empty()),
            ("dc", self.dc.is_some()),
            ("device", self.device.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((what, _)) => Err(DescriptionError::NeedsEsi { kind: name.to_owned(), what }),
            None => Ok(()),
        }
    }

    /// Returns the table of the type that its kind does not use.
    pub(super) fn unused_table(&self) -> Option<&'static str> {
        let used = match self.kind? {
            DeviceKind::Coupler => "",
            DeviceKind::Digital | DeviceKind::Analogue => "channels",
            DeviceKind::Drive => "drive",
            DeviceKind::Imu => "imu",
            DeviceKind::ForceTorque => "force",
        };
        let tables = [
            ("channels", self.channels.is_some()),
            ("drive", self.drive.is_some()),
            ("imu", self.imu.is_some()),
            ("force", self.force.is_some()),
        ];
        let unused = tables.iter().find(|(table, is_given)| *is_given && *table != used);
        unused.map(|(table, _)| *table)
    }

    /// Rejects keys whose values are in the ESI file.
    pub(super) fn check_with_esi(&self, name: &str) -> Result<(), DescriptionError> {
        let given = [
            ("kind", self.kind.is_some()),
            ("vendor", self.vendor.is_some()),
            ("ports", self.ports.is_some()),
            ("clock", self.clock.is_some()),
            ("mailbox", self.mailbox.is_some()),
            ("outputs", self.outputs.is_some()),
            ("inputs", self.inputs.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((what, _)) => Err(DescriptionError::GivenByEsi { kind: name.to_owned(), what }),
            None => Ok(()),
        }
    }
}

impl DeviceTable {
    /// Returns the names of the devices, in order.
    pub fn all_names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.names).map(String::as_str)
    }
}
