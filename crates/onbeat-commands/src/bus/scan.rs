//! `onbeat bus scan`: lists the devices on a cable (read-only).

use onbeat_control::{Client, DeviceInfo, Presence, names};
use onbeat_ethercat::al;
use onbeat_ethercat::carrier::{Interface, Role, User};
use onbeat_figures::table::{Column, Row, Table};
use onbeat_robot::bus::{
    BusError, DeviceIdentity as Identity, InProcess, Packets, RunningBus, ScannedDevice,
    scan as scan_on,
};
use onbeat_rt::sys::Monotonic;
use onbeat_segment::{Link, Segment};
use serde_json::{Value, json};

use super::line_words::{SIMULATED, on_line};
use super::options::ScanOptions;
use super::words::al_words;
use crate::term::{Tone, advise, columns, print_json, say, wrapped};
use crate::{ExitVerdict, Failure};

pub(crate) fn scan(options: &ScanOptions) -> Result<ExitVerdict, Failure> {
    let devices = if options.interface == SIMULATED {
        let link = Link::from_toml(Segment::HUMANOID)?;
        scan_on(&mut InProcess::on_clock(link, Monotonic), SIMULATED, false)?
    } else {
        scan_interface(&options.interface, options.beside_running)?
    };

    let ids = if options.ids { Some(device_ids(&options.interface)?) } else { None };
    let id_of = |place: usize| ids.as_ref().and_then(|ids| ids.get(place).copied().flatten());
    if options.json {
        let json = |(place, device)| as_json((place, device), id_of(place));
        print_json(&Value::Array(devices.iter().enumerate().map(json).collect()))?;
        return Ok(ExitVerdict::Pass);
    }

    let words = ["device", "vendor:product", "revision", "serial", "alias", "AL state", "clock"]
        .map(Column::words);
    let id_column = ids.as_ref().map(|_| Column::words("device ID"));
    let rows = devices.iter().enumerate().map(|(place, device)| {
        let mut row = row((place, device));
        if ids.is_some() {
            let id = id_of(place).map_or_else(|| "-".to_owned(), |id| id.to_string());
            row.entries.push(id.into());
        }
        row
    });
    let table = Table {
        title: match devices.len() {
            1 => format!("1 device answers on {}", options.interface),
            devices => format!("{devices} devices answer on {}", options.interface),
        },
        columns: std::iter::once(Column::figures("")).chain(words).chain(id_column).collect(),
        rows: rows.collect(),
        ..Table::default()
    };

    say(Tone::Plain, table.to_text(columns()).trim_end());
    if devices.iter().any(|device| device.identity.is_none()) {
        let why =
            if options.beside_running { ", as they are while nothing is written" } else { "" };
        let sentence = format!(
            "Devices without vendor and product: their EEPROMs were not read{why}, or are blank"
        );
        advise(Tone::Faint, &wrapped(&sentence, 80));
    }

    if options.details {
        super::line::details(&options.interface)?;
    }
    Ok(ExitVerdict::Pass)
}

/// Requests the device IDs of all devices.
fn device_ids(interface: &str) -> Result<Vec<Option<u16>>, Failure> {
    on_line(interface, |line| {
        let ids = (0..line.devices()).map(|place| line.device_id(place));
        Ok(ids.collect::<Result<_, _>>()?)
    })
}

fn scan_interface(name: &str, beside_running: bool) -> Result<Vec<ScannedDevice>, Failure> {
    let interface = Interface::open(name)?;
    let Some(user) = interface.user(Role::MainDevice) else {
        drop(interface);
        return Ok(scan_on(&mut Packets::open(name)?, name, beside_running)?);
    };

    if !beside_running {
        let running = RunningBus::Onbeat(name.to_owned(), user);
        return Err(BusError::Running(running).into());
    }

    let mut devices = scan_on(&mut Packets::new(interface), name, true)?;
    name_by_image(&mut devices, &user);
    Ok(devices)
}

/// Names the devices by the image of the running bus, when it has one and each of its devices is at
/// its place: with one that is away, or one more, the others are not where the image has them.
fn name_by_image(devices: &mut [ScannedDevice], user: &User) {
    let images = names().into_iter().filter_map(|name| Client::open(&name).ok());
    let Some(client) = images.into_iter().find(|client| client.state().pid == user.pid) else {
        return;
    };
    let known = client.devices();
    let is_at_its_place = |(device, known): (&ScannedDevice, &DeviceInfo)| {
        let alias = known.layout.alias;
        // Lost is none of them: as many devices answer as the image has.
        let is_it = !matches!(known.state.presence, Presence::Wrong | Presence::Away);
        is_it && (alias == 0 || alias == device.alias)
    };
    if known.len() != devices.len() || !devices.iter().zip(&known).all(is_at_its_place) {
        return;
    }
    for (device, known) in devices.iter_mut().zip(known) {
        let known = known.layout;
        device.identity = Some(Identity {
            name: known.name,
            vendor: known.vendor,
            product: known.product,
            revision: known.revision,
            serial: None,
        });
    }
}

fn as_json((place, device): (usize, &ScannedDevice), id: Option<u16>) -> Value {
    let of = device.identity.as_ref();
    json!({
        "place": place, "name": of.map(|of| &of.name), "alias": device.alias, "vendor": of.map(|of| of.vendor),
        "product": of.map(|of| of.product), "revision": of.map(|of| of.revision), "serial": of.and_then(|of| of.serial),
        "station": device.station, "al_state": device.al_state & !al::ERROR, "al_error": device.al_state & al::ERROR != 0,
        "distributed_clock": device.has_clock, "device_id": id,
    })
}

fn row((place, device): (usize, &ScannedDevice)) -> Row {
    let error = if device.al_state & al::ERROR == 0 { "" } else { " error" };
    let of = |words: &dyn Fn(&Identity) -> String| {
        device.identity.as_ref().map_or_else(|| "-".to_owned(), words)
    };
    Row::new([
        place.to_string(),
        of(&|of| of.name.clone()),
        of(&|of| format!("{:08x}:{:08x}", of.vendor, of.product)),
        of(&|of| format!("{:x}", of.revision)),
        of(&|of| of.serial.map_or_else(|| "-".to_owned(), |serial| serial.to_string())),
        device.alias.to_string(),
        format!("{}{error}", al_words(u16::from(device.al_state & !al::ERROR))),
        if device.has_clock { "yes" } else { "no" }.to_owned(),
    ])
}
