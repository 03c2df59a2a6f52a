//! The tables of a segment file, see `docs/segment.md`.

use serde::Deserialize;

use super::DescriptionError;
use super::setup_words::{StartupWords, Sync0Words};
use crate::esi::EsiError;

/// Most increments of an encoder; what is counted from them stays within 32 bits.
const MOST_INCREMENTS: u32 = 1 << 26;

/// `[segment]`: what holds for all devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SegmentTable {
    /// Its name.
    pub name: String,
    /// Clocks, noise and faults follow from it.
    pub seed: u64,
    /// The last device's way on leads to a second network interface.
    pub ring: bool,
    /// Travel time of a frame through each cable.
    pub cable_ns: u64,
    /// Quartzes are off by at most this much, each by its own part of it.
    pub drift_ppm: f64,
    /// How long devices wait for process data; theirs without it.
    pub watchdog_ms: Option<f64>,
}

impl Default for SegmentTable {
    fn default() -> Self {
        Self { name: "segment".to_owned(), seed: 1, ring: false, cable_ns: 25, drift_ppm: 25.0, watchdog_ms: None }
    }
}

/// `kind`: what a device is for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum KindWord {
    /// Ports and nothing else.
    Coupler,
    /// Digital inputs and outputs.
    Digital,
    /// Analogue inputs and outputs, 16 bits each.
    Analogue,
    /// A drive of CiA 402.
    Drive,
    /// Inertial measurement unit of six axes.
    Imu,
    /// Force-torque sensor of six axes.
    ForceTorque,
}

/// `[types.NAME]`: what devices of one type have in common.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeTable {
    /// What they are for; absent with `esi`.
    pub kind: Option<KindWord>,
    /// File of the vendor's that tells the device, and the device of several in it.
    pub esi: Option<String>,
    /// Type or name of the device in the ESI file.
    pub device: Option<String>,
    /// Vendor id.
    pub vendor: Option<u32>,
    /// Product code.
    pub product: Option<u32>,
    /// Revision.
    pub revision: Option<u32>,
    /// Ports, 1 to 4.
    pub ports: Option<u8>,
    /// Distributed clock.
    pub clock: Option<bool>,
    /// Bytes of each mailbox, 0 for none.
    pub mailbox: Option<u16>,
    /// How long an access to the EEPROM takes, in µs.
    #[serde(default)]
    pub eeprom_us: u64,
    /// How long a change of the AL state takes.
    #[serde(default)]
    pub state_us: u64,
    /// From a frame's passing to the device's own cycle.
    #[serde(default)]
    pub delay_us: u64,
    /// OP is refused before outputs came.
    #[serde(default)]
    pub needs_outputs: bool,
    /// Objects of the outputs and of the inputs, where other ones than usual are wanted.
    pub outputs: Option<Vec<String>>,
    /// Objects of the inputs, where other ones than usual are wanted.
    pub inputs: Option<Vec<String>>,
    /// `[types.NAME.channels]`.
    pub channels: Option<ChannelsTable>,
    /// `[types.NAME.drive]`.
    pub drive: Option<DriveTable>,
    /// `[types.NAME.imu]`.
    pub imu: Option<ImuTable>,
    /// `[types.NAME.force]`.
    pub force: Option<ForceTable>,
    /// What a MainDevice tells each of them on its way up.
    #[serde(default)]
    pub startup: Vec<StartupWords>,
    /// Pulses they work by.
    pub sync0: Option<Sync0Words>,
}

/// A vendor id that nobody has and that is seen to be made up.
pub const FICTITIOUS_VENDOR: u32 = 0xf1c7_1005;

/// Channels of digital and analogue devices.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelsTable {
    /// How many inputs.
    pub inputs: u8,
    /// How many outputs.
    pub outputs: u8,
    /// Each output is wired to the input of the same number.
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
pub enum ModeWord {
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

/// A drive with its motor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveTable {
    /// Mode of operation when it is switched on.
    pub mode: ModeWord,
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
    /// Following error window in increments; a tenth of a turn where it is absent.
    pub following_window: Option<u32>,
    /// Least and most position in increments; equal where there is no limit.
    pub travel: [i32; 2],
    /// Highest speed, in turns per second; above 0.
    pub most_turns_per_s: f64,
    /// Highest torque, in thousandths of the rated one.
    pub most_torque_permille: u16,
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

impl DriveTable {
    /// Checks its numbers, of the type of this name.
    pub(super) fn check(&self, name: &str) -> Result<(), DescriptionError> {
        let positive = [
            ("inertia_kg_m2", self.inertia_kg_m2),
            ("rated_nm", self.rated_nm),
            ("increments", f64::from(self.increments)),
            ("most_turns_per_s", self.most_turns_per_s),
        ];

        for (what, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                let value = value.to_string();
                return Err(DescriptionError::Range { kind: name.to_owned(), what, value, range: "above 0" });
            }
        }

        if self.increments > MOST_INCREMENTS {
            let value = self.increments.to_string();
            let range = "at most 67108864";
            return Err(DescriptionError::Range { kind: name.to_owned(), what: "increments", value, range });
        }

        Ok(())
    }
}

/// Noise of an inertial measurement unit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImuTable {
    /// Standard deviation of the acceleration, in m/s².
    pub acceleration_noise_m_s2: f32,
    /// Standard deviation of the rates, in rad/s.
    pub rate_noise_rad_s: f32,
    /// Constant error of each rate, in rad/s.
    pub rate_bias_rad_s: f32,
}

impl Default for ImuTable {
    fn default() -> Self {
        Self { acceleration_noise_m_s2: 0.02, rate_noise_rad_s: 0.001, rate_bias_rad_s: 0.000_5 }
    }
}

/// Load and noise of a force-torque sensor.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForceTable {
    /// Forces in N, then torques in N·m.
    pub load_n_nm: [f32; 6],
    /// Standard deviation of the forces, in N; of the torques a hundredth of it, in N·m.
    pub noise_n: f32,
}

impl Default for ForceTable {
    fn default() -> Self {
        Self { load_n_nm: [0.0; 6], noise_n: 0.1 }
    }
}

/// `[[devices]]`: one device, or several of a type one behind the other.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTable {
    /// Name of their type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the one.
    pub name: Option<String>,
    /// Names of the several.
    #[serde(default)]
    pub names: Vec<String>,
    /// Of the first; further ones count on.
    #[serde(default)]
    pub alias: u16,
    /// Of the first; further ones count on. 0 for none; without it, its place in the file.
    pub serial: Option<u32>,
    /// Name of the device before the first; the one before it in the file where it is absent.
    pub after: Option<String>,
    /// Port of the device before; the first free one where it is absent.
    pub port: Option<u8>,
    /// Travel time through its cable, in ns, where it is another than the segment's.
    pub cable_ns: Option<u64>,
    /// How far its quartz is off, in ppm, where it does not follow from the seed.
    pub drift_ppm: Option<f64>,
    /// What a MainDevice tells it behind what it tells its type.
    #[serde(default)]
    pub startup: Vec<StartupWords>,
    /// Its own pulses, before those of its type.
    pub sync0: Option<Sync0Words>,
}

impl TypeTable {
    /// What kind it is.
    ///
    /// # Errors
    /// [`DescriptionError::NoKind`] where the file does not say, as with a vendor's file.
    pub fn word(&self, name: &str) -> Result<KindWord, DescriptionError> {
        self.kind.ok_or_else(|| DescriptionError::NoKind(name.to_owned()))
    }

    /// Says which ESI file does not fit, and why.
    #[must_use]
    pub fn esi_error(&self, why: EsiError) -> DescriptionError {
        DescriptionError::Esi { file: self.esi.clone().unwrap_or_default(), why }
    }

    /// What an ESI file tells may not be told twice.
    pub(super) fn leaves_to_esi(&self, name: &str) -> Result<(), DescriptionError> {
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
    #[must_use]
    pub fn serial_of(&self, number: usize) -> Option<u32> {
        self.serial.map(|first| if first == 0 { 0 } else { first.wrapping_add(number as u32) })
    }

    /// Names of its devices, in order.
    pub fn all_names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.names).map(String::as_str)
    }
}
