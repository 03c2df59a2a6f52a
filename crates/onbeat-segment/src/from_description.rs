//! Builds a segment from a description: its devices, and the cables between them.

use onbeat_ethercat::description::memory::{
    CONTROLS, INPUTS_AT, MAILBOX_AT, OUTPUTS_AT, mailbox_bytes,
};
use onbeat_ethercat::description::{
    Description, DescriptionError, DriveTable, ProcessData, ResolvedDescription, ResolvedDevice,
    TypeTable,
};
use onbeat_ethercat::esi::{DEFAULT_CONFIGURATION, DcMode, EEPROM_BYTES, SyncManagerEntry};
use onbeat_ethercat::layout::{DeviceKind, MappedValue};
use onbeat_ethercat::setup::Sync0;

use super::cable_positions::SimulatedCable;
use super::coe::{DataType, Dictionary, access, details};
use super::device::{Drive, ForceTorque, Imu, Io, Model};
use super::device_parts::{DeviceParts, common_objects};
use super::esc::EscSettings;
use super::esi_parts;
use super::firmware::{Mailboxes, ProcessDataArea};
use super::process_data::{
    AssignedArea, AssignmentRules, INPUT_ASSIGNMENT, OUTPUT_ASSIGNMENT, USUAL_VALUES,
};
use super::segment::Segment;
use super::sii_contents::{PdoListing, SiiContents, SiiIdentity};
use super::subdevice::SubDevice;

/// The PDOs of outputs and inputs.
const OUTPUT_PDO: u16 = 0x1600;
const INPUT_PDO: u16 = 0x1a00;

impl Segment {
    /// The robot that ships with onbeat: 48 drives, 8 digital I/O devices and 3 inertial
    /// measurement units.
    pub const HUMANOID: &'static str = Description::HUMANOID;

    /// Builds a segment from the text of a segment file (`docs/segment.md`).
    ///
    /// # Errors
    /// [`DescriptionError`] when the text does not describe a segment.
    ///
    /// ```
    /// use onbeat_segment::Segment;
    ///
    /// let segment = Segment::from_toml(
    ///     r#"
    ///     [types.joint]
    ///     kind = "drive"
    ///
    ///     [[devices]]
    ///     type = "joint"
    ///     name = "knee"
    ///     "#,
    /// )?;
    /// assert_eq!(segment.len(), 1);
    /// assert!(Segment::from_toml("[[devices]]\ntype = \"joint\"").is_err(), "no such type");
    /// # Ok::<(), onbeat_segment::DescriptionError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        Self::from_description(&Description::from_toml(text)?)
    }

    /// Builds a segment from a description.
    ///
    /// # Errors
    /// [`DescriptionError`] when the description is inconsistent.
    pub fn from_description(description: &Description) -> Result<Self, DescriptionError> {
        let resolved = ResolvedDescription::new(description)?;
        let mut random = fastrand::Rng::with_seed(description.segment.seed);

        let mut devices = Vec::with_capacity(resolved.devices.len());
        for (position, device) in resolved.devices.iter().enumerate() {
            devices.push(build_device(description, position, device, &mut random)?);
        }

        let cables = resolved.cables.iter();
        let cables = cables
            .map(|cable| SimulatedCable {
                ends: cable.ends,
                delay_ns: cable.delay_ns,
                intact: true,
            })
            .collect();
        let head = &description.segment;
        let mut segment = Self::new(head.name.clone(), head.seed, devices, cables);
        segment.groups = resolved.groups;
        Ok(segment)
    }
}

fn build_device(
    description: &Description,
    position: usize,
    device: &ResolvedDevice<'_>,
    random: &mut fastrand::Rng,
) -> Result<SubDevice, DescriptionError> {
    let ResolvedDevice { table, kind, esi, ports, .. } = *device;
    let identity = SiiIdentity {
        vendor: device.vendor,
        product: device.product,
        revision: device.revision,
        serial: device.serial.unwrap_or(position as u32 + 1),
        alias: device.alias,
    };

    let parts = match esi {
        Some(esi) => {
            let loop_back = kind.channels.is_some_and(|channels| channels.loop_back);
            let startup = &device.setup.startup;
            let parts = esi_parts::parts(esi, identity, drive_settings(kind), loop_back, startup);
            parts.map_err(|why| kind.esi_error(why))?
        }
        None => {
            let seed = description.segment.seed
                ^ (position as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            type_parts(device, identity, seed)?
        }
    };

    let spread = description.segment.drift_ppm.clamp(0.0, 1e3) * 1e3;
    let random_drift = (random.f64() * 2.0 - 1.0) * spread;
    let esc_settings = EscSettings {
        has_clock: esi.map_or(kind.clock.unwrap_or(true), |esi| esi.has_clock),
        ports,
        drift_ppb: table.drift_ppm.map_or(random_drift, |ppm| ppm.clamp(-1e3, 1e3) * 1e3).round(),
        clock_start_ns: random.u64(0..1_000_000_000),
    };

    Ok(parts.assemble(device, description.delay_ns_of(kind), &esc_settings))
}

/// Builds the parts of a device without an ESI file.
fn type_parts(
    device: &ResolvedDevice<'_>,
    identity: SiiIdentity,
    seed: u64,
) -> Result<DeviceParts, DescriptionError> {
    let kind_name = device.table.kind.as_str();
    let kind = device.kind;
    let word = kind.kind_of(kind_name)?;
    let mut objects = Dictionary::default();
    let profile = if word == DeviceKind::Drive { 0x0002_0192 } else { 0x0000_1389 };
    common_objects(&mut objects, kind_name, identity, profile, &[1, 2, 3, 4]);
    let model = model(&mut objects, word, kind, seed);
    map(&mut objects, OUTPUT_PDO, OUTPUT_ASSIGNMENT, &device.outputs);
    map(&mut objects, INPUT_PDO, INPUT_ASSIGNMENT, &device.inputs);
    let mailbox = mailbox_bytes(kind, word);

    let mailboxes = (mailbox > 0).then_some(Mailboxes {
        to_device: (MAILBOX_AT, mailbox),
        to_main: (MAILBOX_AT + mailbox, mailbox),
        coe: details::ALL,
        foe: true,
        bootstrap: [(MAILBOX_AT, mailbox), (MAILBOX_AT + mailbox, mailbox)],
    });

    let boot =
        mailboxes.map_or([0; 4], |boxes| [boxes.to_device.0, mailbox, boxes.to_main.0, mailbox]);
    let first = if mailbox > 0 { 2 } else { 0 };
    let area = |channel, start, assignment| ProcessDataArea {
        areas: vec![AssignedArea { channel, start, assignment }],
        rules: AssignmentRules::default(),
        most_values: USUAL_VALUES,
    };
    let has_data = !device.outputs.values.is_empty() || !device.inputs.values.is_empty();
    let listed = |index, channel: usize, data: &ProcessData| {
        let one = PdoListing { index, channel: channel as u8, flags: 0 };
        if data.values.is_empty() { Vec::new() } else { vec![one] }
    };

    let sii = SiiContents {
        identity,
        name: device.name.to_owned(),
        order: kind_name.to_owned(),
        configuration: DEFAULT_CONFIGURATION,
        bootstrap: boot,
        mailboxes,
        sync_managers: sync_managers(has_data, mailbox),
        fmmus: if has_data { &[1, 2, 3][..] } else { &[3] }[..]
            .iter()
            .copied()
            .filter(|&usage| usage < 3 || mailbox > 0)
            .collect(),
        pdos: [
            listed(OUTPUT_PDO, first, &device.outputs),
            listed(INPUT_PDO, first + 1, &device.inputs),
        ],
        clock: if kind.clock.unwrap_or(true) { default_modes() } else { Vec::new() },
        ports: (0..kind.ports.unwrap_or(2)).fold(0u16, |ports, port| ports | 1 << (4 * port)),
        size: EEPROM_BYTES,
    };
    let outputs = area(first, OUTPUTS_AT, OUTPUT_ASSIGNMENT);
    let inputs = area(first + 1, INPUTS_AT, INPUT_ASSIGNMENT);
    Ok(DeviceParts { sii, objects, model, outputs, inputs })
}

/// Returns the default operation modes: SM-synchronous and DC-synchronous with SYNC0.
fn default_modes() -> Vec<DcMode> {
    let mode = |activation, name: &str| DcMode {
        name: name.to_owned(),
        description: name.to_owned(),
        pulses: Sync0 { activation, shift_ns: Some(0), ..Sync0::default() },
        ..DcMode::default()
    };
    vec![mode(0, "SM-Synchron"), mode(0x0300, "DC-Synchron")]
}

/// Returns the SyncManagers for the EEPROM; the lengths of process data are set later.
fn sync_managers(has_data: bool, mailbox: u16) -> Vec<SyncManagerEntry> {
    let areas =
        [(MAILBOX_AT, mailbox), (MAILBOX_AT + mailbox, mailbox), (OUTPUTS_AT, 0), (INPUTS_AT, 0)];
    let all = (1..).zip(areas.into_iter().zip(CONTROLS));
    let all = all.map(|(usage, ((start, length), control))| SyncManagerEntry {
        start,
        length,
        control,
        usage,
        enabled: usage <= 2,
    });
    all.filter(|entry| if entry.usage <= 2 { mailbox > 0 } else { has_data }).collect()
}

fn model(objects: &mut Dictionary, word: DeviceKind, kind: &TypeTable, seed: u64) -> Model {
    let channels = kind.channels.unwrap_or_default();
    let io =
        |objects: &mut Dictionary, value: DataType| Model::Io(Io::new(objects, value, channels));
    match word {
        DeviceKind::Coupler => Model::Coupler,
        DeviceKind::Digital => io(objects, DataType::Bool),
        DeviceKind::Analogue => io(objects, DataType::I16),
        DeviceKind::Drive => Model::Drive(Box::new(Drive::new(objects, drive_settings(kind)))),
        DeviceKind::Imu => Model::Imu(Imu::new(objects, kind.imu.unwrap_or_default(), seed)),
        DeviceKind::ForceTorque => {
            Model::ForceTorque(ForceTorque::new(objects, kind.force.unwrap_or_default(), seed))
        }
    }
}

/// Returns the settings of a drive, without friction and lag below 0.
fn drive_settings(kind: &TypeTable) -> DriveTable {
    let drive = kind.drive.unwrap_or_default();
    DriveTable {
        viscous_nm_s: drive.viscous_nm_s.max(0.0),
        dry_nm: drive.dry_nm.max(0.0),
        torque_lag_us: drive.torque_lag_us.max(0.0),
        ..drive
    }
}

/// Adds a PDO with these entries and its assignment object.
fn map(objects: &mut Dictionary, pdo: u16, assignment: u16, data: &ProcessData) {
    let entry = |value: &MappedValue| {
        u32::from(value.index) << 16 | u32::from(value.entry) << 8 | u32::from(value.bits)
    };
    let entries: Vec<u32> = data.values.iter().map(entry).collect();
    let right = access::READ | access::WRITE_PREOP;
    let name = if pdo < 0x1a00 { "Outputs" } else { "Inputs" };
    objects.list((pdo, name), ("Entry", DataType::U32, right), &entries, entries.len().max(16));

    let assigned = &[u32::from(pdo)][..usize::from(!entries.is_empty())];
    let name = format!("{name} assigned");
    objects.list((assignment, &name), ("PDO", DataType::U16, right), assigned, 4);
}
