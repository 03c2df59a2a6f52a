//! From a description to devices and cables.

use onbeat_ethercat::description::{
    Arrangement, Description, DescriptionError, KindWord, Placed, ProcessData, TypeTable,
};
use onbeat_ethercat::esi::{Channel, ClockMode, EEPROM_BYTES, USUAL_CONFIGURATION};
use onbeat_ethercat::layout::MappedValue;

use super::coe::{DataType, Dictionary, access, details};
use super::controller::Chip;
use super::device::{Drive, DriveSettings, ForceTorque, Imu, Io, Model, MotorSettings, Noise};
use super::esi_parts;
use super::firmware::{Area, Mailboxes};
use super::parts::{Individual, Parts, common_objects};
use super::process_data::{INPUT_ASSIGNMENT, OUTPUT_ASSIGNMENT, Rules};
use super::sii::{Identity, Listed};
use super::subdevice::SubDevice;
use super::topology::Cable;

/// The PDOs of outputs and inputs.
const OUTPUT_PDO: u16 = 0x1600;
const INPUT_PDO: u16 = 0x1a00;
/// Where process data stand in a device's memory.
const OUTPUTS_AT: u16 = 0x1800;
const INPUTS_AT: u16 = 0x2400;

/// Devices and cables of a file.
pub(crate) struct Built {
    pub(crate) devices: Vec<SubDevice>,
    pub(crate) cables: Vec<Cable>,
}

/// Makes everything that a description lists.
pub(crate) fn build(description: &Description) -> Result<Built, DescriptionError> {
    let arrangement = Arrangement::of(description)?;
    let mut random = fastrand::Rng::with_seed(description.segment.seed);

    let mut devices = Vec::with_capacity(arrangement.devices.len());
    for (place, placed) in arrangement.devices.iter().enumerate() {
        devices.push(device(description, place, placed, &mut random)?);
    }

    let cables = arrangement.cables.iter();
    let cables = cables.map(|cable| Cable { ends: cable.ends, delay_ns: cable.delay_ns, intact: true }).collect();
    Ok(Built { devices, cables })
}

fn device(
    description: &Description,
    place: usize,
    placed: &Placed<'_>,
    random: &mut fastrand::Rng,
) -> Result<SubDevice, DescriptionError> {
    let Placed { table, kind, information, ports, .. } = *placed;
    let identity = Identity {
        vendor: placed.vendor,
        product: placed.product,
        revision: placed.revision,
        serial: placed.serial.unwrap_or(place as u32 + 1),
        alias: placed.alias,
    };

    let parts = match information {
        Some(information) => {
            let loop_back = kind.channels.is_some_and(|channels| channels.loop_back);
            let parts = esi_parts::parts(information, identity, drive_settings(kind), loop_back);
            parts.map_err(|why| kind.esi_error(why))?
        }
        None => {
            let seed = description.segment.seed ^ (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            own_parts(placed, identity, seed)?
        }
    };

    let spread = description.segment.drift_ppm.clamp(0.0, 1e3) * 1e3;
    let own = (random.f64() * 2.0 - 1.0) * spread;
    let chip = Chip {
        has_clock: information.map_or(kind.clock.unwrap_or(true), |information| information.has_clock),
        ports,
        drift_ppb: table.drift_ppm.map_or(own, |ppm| ppm.clamp(-1e3, 1e3) * 1e3).round(),
        clock_start_ns: random.u64(0..1_000_000_000),
    };

    Ok(parts.assemble(&Individual {
        name: placed.name,
        chip,
        eeprom_ns: kind.eeprom_us.saturating_mul(1_000),
        state_ns: kind.state_us.saturating_mul(1_000),
        delay_ns: description.delay_ns_of(kind),
        needs_outputs: kind.needs_outputs,
    }))
}

/// The parts of a device that is told by its type alone.
fn own_parts(placed: &Placed<'_>, identity: Identity, seed: u64) -> Result<Parts, DescriptionError> {
    let (kind_name, kind) = (placed.table.kind.as_str(), placed.kind);
    let word = kind.word(kind_name)?;
    let mut objects = Dictionary::default();
    let profile = if word == KindWord::Drive { 0x0002_0192 } else { 0x0000_1389 };
    common_objects(&mut objects, kind_name, identity, (profile, &[1, 2, 3, 4]));
    let model = model(&mut objects, word, kind, seed);
    map(&mut objects, OUTPUT_PDO, OUTPUT_ASSIGNMENT, &placed.outputs);
    map(&mut objects, INPUT_PDO, INPUT_ASSIGNMENT, &placed.inputs);
    let mailbox = kind.mailbox.unwrap_or(match word {
        KindWord::Coupler | KindWord::Digital => 0,
        _ => 128,
    });

    let mailboxes = (mailbox > 0).then_some(Mailboxes {
        to_device: (0x1000, mailbox),
        to_main: (0x1000 + mailbox, mailbox),
        coe: details::ALL,
    });

    let boot = mailboxes.map_or([0; 4], |boxes| [boxes.to_device.0, mailbox, boxes.to_main.0, mailbox]);
    let first = if mailbox > 0 { 2 } else { 0 };
    let area = |channel, start, assignment| Area { channel: Some(channel), start, assignment, rules: Rules::default() };
    let has_data = !placed.outputs.values.is_empty() || !placed.inputs.values.is_empty();
    let listed = |index, channel: usize, data: &ProcessData| {
        let one = Listed { index, channel: channel as u8, flags: 0 };
        if data.values.is_empty() { Vec::new() } else { vec![one] }
    };

    Ok(Parts {
        identity,
        name: placed.name.to_owned(),
        order: kind_name.to_owned(),
        model,
        mailboxes,
        outputs: area(first, OUTPUTS_AT, OUTPUT_ASSIGNMENT),
        inputs: area(first + 1, INPUTS_AT, INPUT_ASSIGNMENT),
        channels: channels(has_data, mailbox),
        fmmus: if has_data { &[1, 2, 3][..] } else { &[3] }[..]
            .iter()
            .copied()
            .filter(|&usage| usage < 3 || mailbox > 0)
            .collect(),
        pdos: [listed(OUTPUT_PDO, first, &placed.outputs), listed(INPUT_PDO, first + 1, &placed.inputs)],
        clock: if kind.clock.unwrap_or(true) { usual_modes() } else { Vec::new() },
        port_kinds: (0..kind.ports.unwrap_or(2)).fold(0u16, |ports, port| ports | 1 << (4 * port)),
        configuration: USUAL_CONFIGURATION,
        bootstrap: boot,
        eeprom_bytes: EEPROM_BYTES,
        objects,
    })
}

/// Driven by process data, and by SYNC0.
fn usual_modes() -> Vec<ClockMode> {
    let mode = |activate, name: &str| ClockMode {
        name: name.to_owned(),
        description: name.to_owned(),
        activate,
        ..ClockMode::default()
    };
    vec![mode(0, "SM-Synchron"), mode(0x0300, "DC-Synchron")]
}

/// SyncManagers as the EEPROM lists them; those of process data get their lengths later.
fn channels(has_data: bool, mailbox: u16) -> Vec<Channel> {
    let mut channels = Vec::new();
    if mailbox > 0 {
        channels.push(Channel { start: 0x1000, length: mailbox, control: 0x26, usage: 1 });
        channels.push(Channel { start: 0x1000 + mailbox, length: mailbox, control: 0x22, usage: 2 });
    }

    if has_data {
        channels.push(Channel { start: OUTPUTS_AT, length: 0, control: 0x64, usage: 3 });
        channels.push(Channel { start: INPUTS_AT, length: 0, control: 0x20, usage: 4 });
    }

    channels
}

fn model(objects: &mut Dictionary, word: KindWord, kind: &TypeTable, seed: u64) -> Model {
    let channels = kind.channels.unwrap_or_default();
    let io = |objects: &mut Dictionary, value: DataType| {
        Model::Io(Io::new(objects, value, (channels.inputs, channels.outputs), channels.loop_back))
    };
    match word {
        KindWord::Coupler => Model::Coupler,
        KindWord::Digital => io(objects, DataType::Bool),
        KindWord::Analogue => io(objects, DataType::I16),
        KindWord::Drive => Model::Drive(Box::new(Drive::new(objects, drive_settings(kind)))),
        KindWord::Imu => {
            let imu = kind.imu.unwrap_or_default();
            let noise = Noise {
                acceleration: imu.acceleration_noise_m_s2,
                rate: imu.rate_noise_rad_s,
                rate_bias: imu.rate_bias_rad_s,
            };

            Model::Imu(Imu::new(objects, noise, seed))
        }
        KindWord::ForceTorque => {
            let force = kind.force.unwrap_or_default();
            Model::ForceTorque(ForceTorque::new(objects, force.load_n_nm, force.noise_n, seed))
        }
    }
}

fn drive_settings(kind: &TypeTable) -> DriveSettings {
    let drive = kind.drive.unwrap_or_default();
    DriveSettings {
        motor: MotorSettings {
            inertia: drive.inertia_kg_m2,
            viscous: drive.viscous_nm_s.max(0.0),
            dry: drive.dry_nm.max(0.0),
            rated_torque: drive.rated_nm,
            torque_lag: drive.torque_lag_us.max(0.0) * 1e-6,
            increments: drive.increments,
            load: drive.load_nm,
        },
        mode: drive.mode as i8,
        following_window: drive.following_window.unwrap_or(drive.increments / 10),
        travel: drive.travel,
        most_velocity: (f64::from(drive.increments) * drive.most_turns_per_s) as u32,
        most_torque: drive.most_torque_permille,
    }
}

/// Adds a PDO with these values, and its assignment.
fn map(objects: &mut Dictionary, pdo: u16, assignment: u16, data: &ProcessData) {
    let entry =
        |value: &MappedValue| u32::from(value.index) << 16 | u32::from(value.entry) << 8 | u32::from(value.bits);
    let entries: Vec<u32> = data.values.iter().map(entry).collect();
    let right = access::READ | access::WRITE_PREOP;
    let name = if pdo < 0x1a00 { "Outputs" } else { "Inputs" };
    objects.object(pdo, name);
    objects.entry("Entries", DataType::U8, right, &[entries.len() as u8]);

    for number in 0..entries.len().max(16) {
        let entry = entries.get(number).copied().unwrap_or_default();
        objects.entry(&format!("Entry {}", number + 1), DataType::U32, right, &entry.to_le_bytes());
    }

    objects.object(assignment, &format!("{name} assigned"));
    objects.entry("Entries", DataType::U8, right, &[u8::from(!entries.is_empty())]);
    for number in 0..4u16 {
        let assigned = if number == 0 && !entries.is_empty() { pdo } else { 0 };
        objects.entry(&format!("PDO {}", number + 1), DataType::U16, right, &assigned.to_le_bytes());
    }
}
