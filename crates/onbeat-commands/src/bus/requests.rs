//! `onbeat bus register` and `onbeat bus rescan`: requests that a running bus carries out.

use std::time::Duration;

use onbeat_control::{
    CableLink, CablePosition, Client, RegisterAction, RegisterRequest, RequestFailure,
};
use onbeat_ethercat::layout::DeviceLayout;
use serde_json::json;

use super::line_writes::{Target, consented};
use super::options::{Consent, RegisterCommand, RegisterOptions, RequestOptions};
use super::words::place_of;
use crate::byte_words::{hex_and_text, hex_of, number};
use crate::failure::bus::BusFailure;
use crate::term::{Tone, print_json, say};
use crate::{ExitVerdict, Failure};

pub(crate) fn register(command: &RegisterCommand) -> Result<ExitVerdict, Failure> {
    match command {
        RegisterCommand::Read(options) => {
            access(&options.of, &options.request, RegisterAction::Read(options.bytes), None)
        }
        RegisterCommand::Write(options) => {
            let action = RegisterAction::Write(options.bytes());
            access(&options.of, &options.request, action, Some(&options.consent))
        }
    }
}

fn access(
    of: &RegisterOptions,
    options: &RequestOptions,
    action: RegisterAction,
    consent: Option<&Consent>,
) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&options.named.name)?;
    let layout = client.layout();
    let place = place_of(&layout.devices, &of.device)?;
    let address = of.address;
    let is_read = matches!(action, RegisterAction::Read(_));

    let device = &layout.devices[place].name;
    let what = match &action {
        RegisterAction::Read(_) => String::new(),
        RegisterAction::Write(bytes) => format!("register {address:#06x} to {}", hex_of(bytes)),
    };
    let request = RegisterRequest { device: place as u16, address, action };
    let carry_out = || -> Result<Vec<u8>, Failure> {
        let answer = client.request(request, Duration::from_nanos(options.timeout))?;
        Ok(answer.map_err(|why| BusFailure::Register { device: device.clone(), address, why })?)
    };
    let target = (Target::Bus(&options.named.name), place as u16, what.as_str());
    let bytes = consented(consent, device, target, carry_out)?;

    let hex = hex_of(&bytes);
    if options.named.json {
        print_json(&json!({ "address": address, "bytes": hex, "unsigned": number(&bytes) }))?;
    } else if is_read {
        say(Tone::Plain, &hex_and_text(&bytes, &hex));
    } else {
        say(Tone::Plain, &format!("{device}: register {address:#06x} written"));
    }

    Ok(ExitVerdict::Pass)
}

pub(crate) fn rescan(options: &RequestOptions) -> Result<ExitVerdict, Failure> {
    let RequestOptions { timeout, named } = options;
    let client = Client::open(&named.name)?;
    let layout = client.layout();
    let failed = |why: RequestFailure| BusFailure::Rescan { name: named.name.clone(), why };
    let found = client.rescan(Duration::from_nanos(*timeout))?.map_err(failed)?;
    let missing: Vec<&str> = missing(&found, &layout.devices).collect();

    if named.json {
        let position = |found: &CablePosition| match found {
            CablePosition::Device(device) => json!(device),
            CablePosition::Unknown => json!("unknown"),
            CablePosition::NoAnswer => json!(null),
        };
        let positions: Vec<_> = found.iter().map(position).collect();
        print_json(&json!({ "positions": positions, "missing": missing }))?;
        return Ok(ExitVerdict::Pass);
    }

    for (position, found) in found.iter().enumerate() {
        let name = match found {
            CablePosition::Device(device) => {
                layout.devices.get(usize::from(*device)).map_or("?", |device| &device.name)
            }
            CablePosition::Unknown => "a device that is not of this bus, or not identified yet",
            CablePosition::NoAnswer => "no answer",
        };
        say(Tone::Plain, &format!("{position:>4}  {name}"));
    }

    if missing.is_empty() {
        say(Tone::Plain, "all devices are on the cable");
    } else {
        say(Tone::Bad, &format!("not on the cable: {}", missing.join(", ")));
    }

    Ok(ExitVerdict::Pass)
}

fn missing<'d>(
    found: &'d [CablePosition],
    devices: &'d [DeviceLayout],
) -> impl Iterator<Item = &'d str> {
    let is_there = |place: usize| found.contains(&CablePosition::Device(place as u16));
    let missing = devices.iter().enumerate().filter(move |(place, _)| !is_there(*place));
    missing.map(|(_, device)| device.name.as_str())
}

/// Describes link and answering devices.
pub(crate) fn cable_text(link: CableLink, answering: usize) -> String {
    let link = match link {
        CableLink::Up => "link up",
        CableLink::Down => "no link",
        CableLink::Unknown => "link unknown",
    };
    format!("{link}, {answering} devices answer")
}
