//! From a description to devices and cables.

use std::collections::BTreeMap;

use super::coe::{Dictionary, Kind, access, details};
use super::controller::Chip;
use super::description::{Description, DescriptionError, DeviceTable, FICTITIOUS_VENDOR, KindWord, TypeTable};
use super::device::{Drive, DriveSettings, ForceTorque, Imu, Io, Model, MotorSettings, Noise};
use super::firmware::{Area, Mailboxes};
use super::parts::{Individual, Parts, common_objects};
use super::process_data::{INPUT_ASSIGNMENT, OUTPUT_ASSIGNMENT, Rules};
use super::sii::{CONFIGURATION, Channel, ClockMode, Identity, Listed, SIZE};
use super::subdevice::SubDevice;
use super::topology::{Cable, End};

/// The PDOs of outputs and inputs.
const OUTPUT_PDO: u16 = 0x1600;
const INPUT_PDO: u16 = 0x1a00;
/// Where process data stand in a device's memory.
const OUTPUTS_AT: u16 = 0x1800;
const INPUTS_AT: u16 = 0x2400;
/// Longest process data of one direction.
const MOST_PROCESS_DATA: usize = 1024;

/// Longest name of a device, in bytes.
const LONGEST_NAME: usize = 64;
/// Most increments of an encoder; what is counted from them stays within 32 bits.
const MOST_INCREMENTS: u32 = 1 << 26;

/// Devices and cables of a file.
pub(crate) struct Built {
    pub(crate) devices: Vec<SubDevice>,
    pub(crate) cables: Vec<Cable>,
}

/// Makes everything that a description lists.
pub(crate) fn build(description: &Description) -> Result<Built, DescriptionError> {
    let mut random = fastrand::Rng::with_seed(description.segment.seed);
    let mut builder =
        Builder { description, devices: Vec::new(), ports: Vec::new(), places: BTreeMap::new(), cables: vec![] };
    for table in &description.devices {
        let kind = description.types.get(&table.kind).ok_or_else(|| DescriptionError::UnknownType {
            device: table.all_names().next().unwrap_or_default().to_owned(),
            wanted: table.kind.clone(),
        })?;
        if table.all_names().next().is_none() {
            return Err(DescriptionError::NoName(table.kind.clone()));
        }
        check(&table.kind, kind)?;
        for (number, name) in table.all_names().enumerate() {
            builder.connect(table, (number, name), ports(description, &table.kind, kind))?;
            let device = builder.device((table, kind), (number, name), &mut random)?;
            builder.devices.push(device);
        }
    }
    builder.close_ring();
    Ok(Built { devices: builder.devices, cables: builder.cables })
}

struct Builder<'d> {
    description: &'d Description,
    devices: Vec<SubDevice>,
    /// For each device, how many ports it has and which are taken.
    ports: Vec<(u8, [bool; 4])>,
    places: BTreeMap<String, usize>,
    cables: Vec<Cable>,
}

impl Builder<'_> {
    /// Lays the cable to a new device.
    fn connect(
        &mut self,
        table: &DeviceTable,
        (number, name): (usize, &str),
        ports: u8,
    ) -> Result<(), DescriptionError> {
        let device = self.ports.len();
        if name.is_empty() || name.len() > LONGEST_NAME {
            let value = format!("\"{name}\"");
            return Err(DescriptionError::Range {
                kind: table.kind.clone(),
                what: "name",
                value,
                range: "1 to 64 bytes long",
            });
        }
        if self.places.insert(name.to_owned(), device).is_some() {
            return Err(DescriptionError::DuplicateName(name.to_owned()));
        }
        let before =
            match table.after.as_ref().filter(|_| number == 0) {
                Some(after) => Some(*self.places.get(after).filter(|place| **place < device).ok_or_else(|| {
                    DescriptionError::UnknownParent { device: name.to_owned(), after: after.clone() }
                })?),
                None => device.checked_sub(1),
            };
        let from = match before {
            None => End::Nic(0),
            Some(before) => {
                let (has, taken) = &mut self.ports[before];
                let wanted = table.port.filter(|_| number == 0);
                let free =
                    (1..*has).find(|port| !taken[usize::from(*port)] && wanted.is_none_or(|wanted| wanted == *port));
                let Some(port) = free else {
                    let after = self.places.iter().find(|(_, place)| **place == before);
                    let after = after.map(|(name, _)| name.clone()).unwrap_or_default();
                    return Err(DescriptionError::NoPort { device: name.to_owned(), after, ports: *has });
                };
                taken[usize::from(port)] = true;
                End::Port { device: before, port: usize::from(port) }
            }
        };
        self.ports.push((ports, [true, false, false, false]));
        let delay_ns = table.cable_ns.unwrap_or(self.description.segment.cable_ns);
        self.cables.push(Cable { ends: [from, End::Port { device, port: 0 }], delay_ns, intact: true });
        Ok(())
    }

    /// A ring leads on from the last device's first free port to the second interface.
    fn close_ring(&mut self) {
        let Some((has, taken)) = self.ports.last().filter(|_| self.description.segment.ring) else { return };
        if let Some(port) = (1..*has).find(|port| !taken[usize::from(*port)]) {
            let last = End::Port { device: self.ports.len() - 1, port: usize::from(port) };
            let delay_ns = self.description.segment.cable_ns;
            self.cables.push(Cable { ends: [last, End::Nic(1)], delay_ns, intact: true });
        }
    }

    fn device(
        &self,
        (table, kind): (&DeviceTable, &TypeTable),
        (number, name): (usize, &str),
        random: &mut fastrand::Rng,
    ) -> Result<SubDevice, DescriptionError> {
        let place = self.devices.len();
        let serial = table.serial_of(number).unwrap_or(place as u32 + 1);
        let alias = if table.alias == 0 { 0 } else { table.alias.wrapping_add(number as u16) };
        let told = self.description.information.get(&table.kind);
        let parts = match told {
            Some(information) => {
                let loop_back = kind.channels.is_some_and(|channels| channels.loop_back);
                let settings = drive_settings(&table.kind, kind)?;
                let parts = information.parts((serial, alias), settings, loop_back);
                parts.map_err(|why| kind.esi_error(why))?
            }
            None => {
                let identity = Identity {
                    vendor: kind.vendor.unwrap_or(FICTITIOUS_VENDOR),
                    product: kind.product.unwrap_or(0x1000 + kind.word(&table.kind)? as u32),
                    revision: kind.revision.unwrap_or(1),
                    serial,
                    alias,
                };
                let seed = self.description.segment.seed ^ (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                own_parts((&table.kind, kind), name, identity, seed)?
            }
        };
        let spread = self.description.segment.drift_ppm.clamp(0.0, 1e3) * 1e3;
        let own = (random.f64() * 2.0 - 1.0) * spread;
        let chip = Chip {
            has_clock: told.map_or(kind.clock.unwrap_or(true), |information| information.has_clock),
            ports: ports(self.description, &table.kind, kind),
            drift_ppb: table.drift_ppm.map_or(own, |ppm| ppm.clamp(-1e3, 1e3) * 1e3).round(),
            clock_start_ns: random.u64(0..1_000_000_000),
        };
        Ok(parts.assemble(&Individual {
            name,
            chip,
            eeprom_ns: kind.eeprom_us.saturating_mul(1_000),
            state_ns: kind.state_us.saturating_mul(1_000),
            delay_ns: self.description.delay_ns_of(kind),
            needs_outputs: kind.needs_outputs,
        }))
    }
}

/// How many ports a device of this type has.
fn ports(description: &Description, name: &str, kind: &TypeTable) -> u8 {
    description.information.get(name).map_or(kind.ports.unwrap_or(2), |information| information.ports.0)
}

/// The parts of a device that is told by its type alone.
fn own_parts(
    (kind_name, kind): (&str, &TypeTable),
    name: &str,
    identity: Identity,
    seed: u64,
) -> Result<Parts, DescriptionError> {
    let word = kind.word(kind_name)?;
    let mut objects = Dictionary::default();
    let profile = if word == KindWord::Drive { 0x0002_0192 } else { 0x0000_1389 };
    common_objects(&mut objects, kind_name, identity, (profile, &[1, 2, 3, 4]));
    let model = model(&mut objects, (kind_name, word), kind, seed)?;
    let usual = usual_mapping(word, &objects);
    let outputs = kind.outputs.as_ref().unwrap_or(&usual.0);
    let inputs = kind.inputs.as_ref().unwrap_or(&usual.1);
    map(&mut objects, kind_name, (OUTPUT_PDO, OUTPUT_ASSIGNMENT, access::OUTPUT), outputs)?;
    map(&mut objects, kind_name, (INPUT_PDO, INPUT_ASSIGNMENT, access::INPUT), inputs)?;
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
    let has_data = !outputs.is_empty() || !inputs.is_empty();
    let listed = |index, channel: usize, list: &[String]| {
        let one = Listed { index, channel: channel as u8, flags: 0 };
        if list.is_empty() { Vec::new() } else { vec![one] }
    };
    Ok(Parts {
        identity,
        name: name.to_owned(),
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
        pdos: [listed(OUTPUT_PDO, first, outputs), listed(INPUT_PDO, first + 1, inputs)],
        clock: if kind.clock.unwrap_or(true) { usual_modes() } else { Vec::new() },
        port_kinds: (0..kind.ports.unwrap_or(2)).fold(0u16, |ports, port| ports | 1 << (4 * port)),
        configuration: CONFIGURATION,
        bootstrap: boot,
        eeprom_bytes: SIZE,
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

/// Checks the numbers of a type that are not its model's.
fn check(name: &str, kind: &TypeTable) -> Result<(), DescriptionError> {
    let refused =
        |what, value: String, range| Err(DescriptionError::Range { kind: name.to_owned(), what, value, range });
    if name.len() > LONGEST_NAME {
        return refused("its name", name.to_owned(), "at most 64 bytes long");
    }
    if let Some(ports) = kind.ports.filter(|ports| !(1..=4).contains(ports)) {
        return refused("ports", ports.to_string(), "1 to 4");
    }
    match kind.mailbox {
        None | Some(0 | 32..=1024) => Ok(()),
        Some(bytes) => refused("mailbox", bytes.to_string(), "0 or 32 to 1024"),
    }
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

fn model(
    objects: &mut Dictionary,
    (name, word): (&str, KindWord),
    kind: &TypeTable,
    seed: u64,
) -> Result<Model, DescriptionError> {
    let channels = kind.channels.unwrap_or_default();
    let io = |objects: &mut Dictionary, value: Kind| {
        Model::Io(Io::new(objects, value, (channels.inputs, channels.outputs), channels.loop_back))
    };
    Ok(match word {
        KindWord::Coupler => Model::Coupler,
        KindWord::Digital => io(objects, Kind::Bool),
        KindWord::Analogue => io(objects, Kind::I16),
        KindWord::Drive => Model::Drive(Box::new(Drive::new(objects, drive_settings(name, kind)?))),
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
    })
}

fn drive_settings(name: &str, kind: &TypeTable) -> Result<DriveSettings, DescriptionError> {
    let drive = kind.drive.unwrap_or_default();
    let positive = [
        ("inertia_kg_m2", drive.inertia_kg_m2),
        ("rated_nm", drive.rated_nm),
        ("increments", f64::from(drive.increments)),
        ("most_turns_per_s", drive.most_turns_per_s),
    ];
    for (what, value) in positive {
        if !(value > 0.0 && value.is_finite()) {
            let value = value.to_string();
            return Err(DescriptionError::Range { kind: name.to_owned(), what, value, range: "above 0" });
        }
    }
    if drive.increments > MOST_INCREMENTS {
        let value = drive.increments.to_string();
        let range = "at most 67108864";
        return Err(DescriptionError::Range { kind: name.to_owned(), what: "increments", value, range });
    }
    Ok(DriveSettings {
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
    })
}

/// What a kind maps when its type does not say.
fn usual_mapping(kind: KindWord, objects: &Dictionary) -> (Vec<String>, Vec<String>) {
    let listed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let all = |index: u16| {
        let entries = objects.objects.iter().find(|object| object.index == index).map_or(0, |object| object.entries);
        (1..entries).map(|entry| format!("{index:x}:{entry:x}")).collect::<Vec<_>>()
    };
    match kind {
        KindWord::Coupler => (Vec::new(), Vec::new()),
        KindWord::Drive => (listed(&["6040", "607a", "6071"]), listed(&["6041", "6064", "606c", "6077"])),
        KindWord::Digital | KindWord::Analogue => (all(Io::OUTPUTS), all(Io::INPUTS)),
        KindWord::Imu => (Vec::new(), all(Imu::VALUES)),
        KindWord::ForceTorque => (Vec::new(), all(ForceTorque::VALUES)),
    }
}

/// Adds a PDO with these objects, and its assignment.
fn map(
    objects: &mut Dictionary,
    kind: &str,
    (pdo, assignment, right): (u16, u16, u16),
    list: &[String],
) -> Result<(), DescriptionError> {
    let mut entries = Vec::new();
    let mut bits = 0;
    for object in list {
        let refused = || DescriptionError::Object { kind: kind.to_owned(), object: object.clone() };
        let (index, sub) = object.split_once(':').unwrap_or((object, "0"));
        let number = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let (index, sub) = (number(index).ok_or_else(refused)?, number(sub).ok_or_else(refused)? as u8);
        let entry = objects.unsorted(index, sub).filter(|entry| entry.access & right != 0).ok_or_else(refused)?;
        bits += usize::from(entry.kind.bits());
        entries.push(u32::from(index) << 16 | u32::from(sub) << 8 | u32::from(entry.kind.bits()));
        if entries.len() > 64 || bits > 8 * MOST_PROCESS_DATA {
            return Err(refused());
        }
    }
    let right = access::READ | access::WRITE_PREOP;
    let name = if pdo < 0x1a00 { "Outputs" } else { "Inputs" };
    objects.object(pdo, name);
    objects.entry("Entries", Kind::U8, right, &[entries.len() as u8]);
    for number in 0..entries.len().max(16) {
        let entry = entries.get(number).copied().unwrap_or_default();
        objects.entry(&format!("Entry {}", number + 1), Kind::U32, right, &entry.to_le_bytes());
    }
    objects.object(assignment, &format!("{name} assigned"));
    objects.entry("Entries", Kind::U8, right, &[u8::from(!entries.is_empty())]);
    for number in 0..4u16 {
        let assigned = if number == 0 && !entries.is_empty() { pdo } else { 0 };
        objects.entry(&format!("PDO {}", number + 1), Kind::U16, right, &assigned.to_le_bytes());
    }
    Ok(())
}
