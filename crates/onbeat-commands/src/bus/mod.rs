//! `onbeat bus`: state, values and events of a running bus, read from its process image.

mod clocks;
mod drawing;
mod import;
mod line;
mod line_words;
mod line_writes;
mod link_errors;
pub mod options;
mod requests;
mod scan;
mod values;
pub mod words;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_control::{
    BusState, CableLink, Client, Counter, DeviceInfo as Device, EventBatch as Events, Outage,
    Presence, SdoAction, Snapshot, Stats, Timed,
};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::DeviceLayout;
use onbeat_ethercat::step::RobotState;
use onbeat_figures::table::{Column, Row, Table};
use onbeat_figures::units::{capital, count, fixed};
use onbeat_segment::Description;
use serde_json::{Map, Value, json};

use crate::byte_words::{hex_and_text, hex_of, number};
use crate::failure::bus::BusFailure;
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, columns, is_read, print_json, say, wrapped};
use crate::{ExitVerdict, Failure};
use line_writes::{Target, consented};
use link_errors::{devices_with_errors, errors_json, errors_text};
use options::{
    Bus, BusRunOptions, Consent, EventsOptions, FoeCommand, Named, Sdo, SdoOptions, SiiCommand,
    StatsOptions, WatchOptions,
};
use requests::{cable_text, register, rescan};
use scan::scan;
use values::{plain_json, values, values_line};
use words::{al_words, place_of, places_of};

/// Interval between two looks of `--follow`.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the options of `onbeat measure`.
pub type Measure = dyn Fn(&[String]) -> Result<ExitVerdict, Failure>;

/// Runs a command of `onbeat bus`. A bus for other processes is the bus probe, which `measure` runs.
///
/// # Errors
/// Why it could not run.
pub fn run(command: &Bus, measure: &Measure) -> Result<ExitVerdict, Failure> {
    match command {
        Bus::Scan(options) => scan(options),
        Bus::Run(options) => serve(options, measure),
        Bus::State(options) => match (options.device, options.request, &options.interface) {
            (Some(device), Some(request), Some(interface)) => {
                line_writes::request_state(interface, device, request, &options.consent)
            }
            (_, _, Some(interface)) => line::states(interface, options.named.json),
            _ => state(&options.named),
        },
        Bus::Info(named) => info(named),
        Bus::Watch(options) => watch(options),
        Bus::Events(options) => events(options),
        Bus::Stats(options) => stats(options),
        Bus::Sdo(Sdo::Read(options)) => match &options.interface {
            Some(interface) => line::sdo(interface, options),
            None => sdo(options, SdoAction::Read, None),
        },
        Bus::Sdo(Sdo::Write(options)) => match &options.of.interface {
            Some(interface) => line_writes::sdo(interface, options),
            None => sdo(&options.of, options.action(), Some(&options.consent)),
        },
        Bus::Register(command) => register(command),
        Bus::Rescan(options) => rescan(options),
        Bus::Pdos(options) => line::pdos(options),
        Bus::Sdos(options) => line::sdos(options),
        Bus::Sii(SiiCommand::Read(options)) => line::read_sii(options),
        Bus::Sii(SiiCommand::Write(options)) => line_writes::write_sii(options),
        Bus::Sii(SiiCommand::Type(options)) => line::sii_type(options),
        Bus::Alias(options) => line_writes::alias(options),
        Bus::Foe(FoeCommand::Read(options)) => line_writes::read_file(options),
        Bus::Foe(FoeCommand::Write(options)) => line_writes::write_file(options),
        Bus::Registers(options) => line::registers(options),
        Bus::Topology(options) => line::topology(options),
        Bus::Clocks(options) => clocks::clocks(options),
        Bus::Import(options) => import::import(options),
    }
}

/// Runs a bus for other processes: the bus probe with a shared process image, until it is stopped.
fn serve(options: &BusRunOptions, measure: &Measure) -> Result<ExitVerdict, Failure> {
    let is_esi = Description::esi_choice(Path::new(&options.file)).is_some();
    if !options.device.is_empty() && !is_esi {
        return Err(BusFailure::NoEsi { path: options.file.clone().into() }.into());
    }
    let file = if options.device.is_empty() {
        options.file.clone()
    } else {
        format!("{}:{}", options.file, options.device.join(","))
    };
    let mut words: Vec<String> =
        ["bus", "--for", "0", "--devices", &file, "--serve", &options.name]
            .map(str::to_owned)
            .into();

    words
        .extend(options.interface.iter().flat_map(|name| ["--interface".to_owned(), name.clone()]));
    words.extend(options.wire.iter().flat_map(|wire| ["--wire".to_owned(), wire.to_string()]));
    words.extend(options.group.iter().flat_map(|group| ["--group".to_owned(), group.clone()]));
    words.extend(options.more.iter().cloned());

    // The probe says why a file cannot be used.
    if let Ok(description) = Description::from_file(Path::new(&file)) {
        for warning in description.warnings() {
            advise(Tone::Careful, &wrapped(&warning, 80));
        }
    }

    measure(&words)
}

fn state(named: &Named) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&named.name)?;
    let state = client.state();
    if named.json {
        print_json(&state_json(&state, &client))?;
        return Ok(ExitVerdict::Pass);
    }

    let cycle = state.cycle.map_or_else(
        || "no cycle yet".to_owned(),
        |cycle| {
            format!(
                "cycle {}, working counter {} of {}",
                count(cycle.cycle),
                cycle.working_counter,
                cycle.expected
            )
        },
    );
    let named = |of: Option<(u32, String)>| {
        of.map_or_else(|| "nobody".to_owned(), |(pid, name)| format!("process {pid} ({name})"))
    };
    let owner = named(state.owner);
    let commander = named(state.commander);
    let (tone, devices) = match state.outage {
        Outage::None => (Tone::Head, format!("{} of {} devices in OP", state.in_op, state.devices)),
        silence => (
            Tone::Bad,
            format!("{silence}; the states of its {} devices are not known", state.devices),
        ),
    };

    say(tone, &format!("{}: {}, {devices}", state.name, state.segment));
    if let Some(robot) = state.robot {
        let words = robot.words(name_of(robot.device, &client.layout().devices));
        let tone = if robot.is_stopped() { Tone::Bad } else { Tone::Plain };
        let when = match state.outage {
            Outage::NoCycle(_) => " in the last cycle",
            Outage::None | Outage::NoAnswer(_) => "",
        };
        say(tone, &format!("  robot{when}: {words}"));
    }

    for line in [
        format!("  {cycle}; {}", cable_text(state.link, state.answering)),
        format!("  {}", errors_text(&client)),
        format!("  outputs belong to {owner}; joints are commanded by {commander}"),
        format!(
            "  process {}, sharing {}, {} events",
            state.pid,
            state.sharing,
            count(state.events)
        ),
    ] {
        say(Tone::Plain, &line);
    }

    Ok(ExitVerdict::Pass)
}

fn state_json(state: &BusState, client: &Client) -> Value {
    let devices = client.layout().devices;
    let process =
        |of: Option<&(u32, String)>| of.map(|(pid, name)| json!({ "pid": pid, "name": name }));
    let cycle = state.cycle.as_ref();

    json!({
            "bus": state.name, "segment": state.segment, "pid": state.pid, "sharing": state.sharing.to_string(),
            "devices": state.devices, "in_op": state.in_op,
            "no_answer_ns": state.outage.ns(),
            "owner": process(state.owner.as_ref()), "commander": process(state.commander.as_ref()),
            "cycle": cycle.map(|cycle| cycle.cycle),
            "link": match state.link {
                CableLink::Up => json!(true),
                CableLink::Down => json!(false),
                CableLink::Unknown => json!(null),
            },
            "answering": state.answering, "al_states": state.al_states.bits(),
            "working_counter": cycle.map(|cycle| cycle.working_counter),
            "expected_working_counter": cycle.map(|cycle| cycle.expected),
            "robot": state.robot.map(|robot| robot_json(&robot, &devices)),
            "link_errors": devices_with_errors(client)
                .map(|(name, errors)| (name, errors_json(&errors)))
                .collect::<Map<String, Value>>(),
            "events": state.events, "layout_hash": format!("{:016x}", state.layout_hash),
    })
}

fn robot_json(robot: &RobotState, devices: &[DeviceLayout]) -> Value {
    let name = name_of(robot.device, devices);
    let joint = (!name.is_empty()).then_some(name);
    json!({
        "phase": robot.phase, "rung": robot.rung, "stopped_by": robot.stopped_by, "stopped_joint": joint, "misses": robot.misses,
        "safe_stop": robot.is_stopped(), "sentence": robot.words(name),
    })
}

const fn presence_words(presence: Presence) -> &'static str {
    match presence {
        Presence::Unknown => "",
        Presence::Present => "present",
        Presence::Lost => "lost",
        Presence::Wrong => "another device",
        Presence::Away => "away, optional",
    }
}

fn info(named: &Named) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&named.name)?;
    let devices = client.devices();
    if named.json {
        print_json(&Value::Array(devices.iter().enumerate().map(device_json).collect()))?;
        return Ok(ExitVerdict::Pass);
    }

    let row = |(place, device): (usize, &Device)| {
        let Device { layout, state, .. } = device;
        let status = if state.al_status == 0 {
            String::new()
        } else {
            format!(" 0x{:04x}", state.al_status)
        };
        let range = |range: &std::ops::Range<usize>| format!("{}+{}", range.start, range.len());
        Row::new([
            place.to_string(),
            layout.name.clone(),
            format!("{:08x}:{:08x}", layout.vendor, layout.product),
            layout.alias.to_string(),
            format!("{}{status}", al_words(state.al_state)),
            presence_words(state.presence).to_owned(),
            range(&layout.outputs),
            range(&layout.inputs),
        ])
    };

    let words = ["device", "vendor:product", "alias", "AL state", "", "outputs", "inputs"]
        .map(Column::words);
    let table = Table {
        title: match client.state().outage {
            Outage::None => format!("Devices of {}", client.layout().name),
            silence => format!("Devices of {}: {silence}", client.layout().name),
        },
        columns: std::iter::once(Column::figures("")).chain(words).collect(),
        rows: devices.iter().enumerate().map(row).collect(),
        legend: vec![format!("{}.", capital(&errors_text(&client)))],
    };

    say(Tone::Plain, table.to_text(columns()).trim_end());
    Ok(ExitVerdict::Pass)
}

fn device_json((place, Device { layout, state, link_errors }): (usize, &Device)) -> Value {
    json!({
        "place": place, "name": layout.name, "alias": layout.alias, "vendor": layout.vendor, "product": layout.product,
        "revision": layout.revision, "al_state": state.al_state, "al_status": state.al_status,
        "presence": format!("{:?}", state.presence).to_lowercase(),
        "outputs": { "at": layout.outputs.start, "bytes": layout.outputs.len() },
        "inputs": { "at": layout.inputs.start, "bytes": layout.inputs.len() },
        "link_errors": link_errors.as_ref().map(errors_json),
    })
}

// ---- values

fn watch(options: &WatchOptions) -> Result<ExitVerdict, Failure> {
    let mut client = Client::open(&options.named.name)?;
    let layout = client.layout();
    let places = places_of(&layout.devices, &options.devices)?;

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let mut seen = client.snapshot();
    let begin = Instant::now();
    for round in 1.. {
        client.read(&mut seen)?;
        let outage = client.state().outage;
        if options.named.json {
            let devices = places.iter().map(|place| values_json(&layout.devices[*place], &seen));
            let devices: Map<String, Value> = devices.collect();
            print_json(&json!({
                "cycle": seen.cycle.cycle, "fresh": seen.cycle.fresh,
                "no_answer_ns": outage.ns(), "devices": devices,
            }))?;
        } else {
            if outage != Outage::None {
                say(Tone::Bad, &format!("{outage}; the inputs below are older"));
            }
            for place in &places {
                say(Tone::Plain, &values_line(&layout.devices[*place], &seen, options.raw));
            }
        }

        // Without a reader nothing is left to do.
        if round == options.count || !is_read() {
            break;
        }

        let next = Duration::from_nanos(options.every) * round as u32;
        if !signals::pause(next.saturating_sub(begin.elapsed()), &interruptions.stop) {
            break;
        }
    }

    Ok(ExitVerdict::Pass)
}

fn values_json(device: &DeviceLayout, seen: &Snapshot) -> (String, Value) {
    let all: Map<String, Value> =
        values(device, seen).map(|(key, _, bytes)| (key, plain_json(&bytes))).collect();
    (device.name.clone(), Value::Object(all))
}

// ---- events

fn events(options: &EventsOptions) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&options.named.name)?;
    let layout = client.layout();
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let mut from = options.from;
    loop {
        let Events { events, next, missed } = client.events(from);
        if missed > 0 {
            advise(Tone::Careful, &format!("{} events have been overwritten", count(missed)));
        }

        let mut events = events.into_iter().peekable();
        while let Some((number, event)) = events.next() {
            // One change of many devices is one line; their events name them.
            let mut with_others = Vec::new();
            while event.kind == EventKind::DevicesLeftOp
                && !options.named.json
                && let Some((_, one)) =
                    events.next_if(|(_, next)| next.kind == EventKind::LeftOpWithOthers)
            {
                with_others.push(name_of(one.device, &layout.devices));
            }
            if options.named.json {
                let sentence = event.sentence(name_of(event.device, &layout.devices));
                print_json(&json!({ "number": number, "event": event, "sentence": sentence }))?;
            } else {
                let line = event_line(number, &event, &layout.devices);
                say(Tone::Plain, &format!("{line}{}", first_names(&with_others)));
            }
        }

        from = next;
        if !options.follow || !is_read() || interruptions.stop.load(Ordering::Relaxed) {
            return Ok(ExitVerdict::Pass);
        }

        client.check()?;
        sleep(LOOK_EVERY);
    }
}

/// Returns the first of these names as the end of a sentence; empty without names.
fn first_names(names: &[&str]) -> String {
    const MOST: usize = 3;
    if names.is_empty() {
        return String::new();
    }
    let (first, rest) = names.split_at(MOST.min(names.len()));
    let first = first.join(", ");
    match rest.len() {
        0 => format!(": {first}"),
        more => format!(": {first} and {more} more (--json: each)"),
    }
}

/// Returns the name of a device by its position; empty without one.
fn name_of(device: u16, devices: &[DeviceLayout]) -> &str {
    devices.get(usize::from(device)).map_or("", |device| device.name.as_str())
}

fn event_line(number: u64, event: &Event, devices: &[DeviceLayout]) -> String {
    let kind = json!(event.kind);
    let at_s = event.at_ns as f64 / 1e9;
    let sentence = event.sentence(name_of(event.device, devices));
    format!(
        "{number:>6} {at_s:14.6} s  cycle {:>9}  {:20} {sentence}",
        event.cycle,
        kind.as_str().unwrap_or_default()
    )
}

// ---- statistics

fn stats(options: &StatsOptions) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&options.named.name)?;
    if options.text {
        say(Tone::Plain, client.stats_text().trim_end());
        return Ok(ExitVerdict::Pass);
    }

    let stats = client.stats();
    if options.named.json {
        print_json(&stats_json(&stats))?;
        return Ok(ExitVerdict::Pass);
    }

    let us = |ns: f64| fixed(ns / 1e3, 1);
    let simulated = stats.counter(Counter::SimulatedDevices);
    let is_modelled = |kind: Timed| kind == Timed::RoundTrip && simulated > 0;
    let row = |(kind, word): (Timed, &str)| {
        let times = stats.times(kind);
        let of = |share: f64| us(times.quantile_ns(share) as f64);
        let figures =
            [us(times.mean_ns()), of(0.5), of(0.99), of(0.999), us(times.max_ns() as f64)];
        let modelled = if is_modelled(kind) { ", modelled" } else { "" };
        let word = format!("{}{modelled}", word.replace('_', " "));
        let entries = [word, count(times.count())].into_iter().chain(figures);
        Row::new(entries)
    };

    let table = Table {
        title: format!("Times of {} since it began, us", options.named.name),
        columns: Column::all(&[""], &["samples", "avg", "p50", "p99", "p99.9", "max"]),
        rows: Timed::ALL.into_iter().map(row).collect(),
        legend: std::iter::once("Percentiles are upper ends of buckets a sixteenth wide.".to_owned())
            .chain((simulated > 0).then(|| {
                format!(
                    "The {} devices are simulated in the bus process: the round trip has no cables and no card.",
                    count(simulated)
                )
            }))
            .collect(),
    };

    say(Tone::Plain, table.to_text(columns()).trim_end());
    let counters = Counter::ALL.map(|(counter, word)| {
        format!("{} {}", count(stats.counter(counter)), word.replace('_', " "))
    });
    say(Tone::Plain, &format!("\n{}", crate::term::wrapped(&counters.join(", "), 80)));
    Ok(ExitVerdict::Pass)
}

fn stats_json(stats: &Stats) -> Value {
    let counters =
        Counter::ALL.map(|(counter, word)| (word.to_owned(), Value::from(stats.counter(counter))));
    let timed = Timed::ALL.map(|(kind, word)| {
        let times = stats.times(kind);
        let figures = json!({
            "count": times.count(), "mean_ns": times.mean_ns(), "p50_ns": times.quantile_ns(0.5),
            "p99_ns": times.quantile_ns(0.99), "p99.9_ns": times.quantile_ns(0.999), "max_ns": times.max_ns(),
        });
        (word.to_owned(), figures)
    });

    Value::Object(counters.into_iter().chain(timed).collect())
}

// ---- objects

/// Reads or writes an object through a running bus. A write needs `consent`.
fn sdo(
    options: &SdoOptions,
    action: SdoAction,
    consent: Option<&Consent>,
) -> Result<ExitVerdict, Failure> {
    let client = Client::open(&options.named.name)?;
    let layout = client.layout();
    let place = place_of(&layout.devices, &options.device)?;
    let is_read = action == SdoAction::Read;
    let (index, entry) = options.object;
    let device = &layout.devices[place].name;
    let what = match &action {
        SdoAction::Read => String::new(),
        SdoAction::Write(value) => format!("object 0x{index:04x}:{entry:x} to {}", hex_of(value)),
    };
    let request = options.request(place as u16, action);
    let carry_out = || -> Result<Vec<u8>, Failure> {
        let answer = client.request(&request, Duration::from_nanos(options.timeout))?;
        let sdo = |why| BusFailure::Sdo { device: device.clone(), index, entry, why };
        Ok(answer.map_err(sdo)?)
    };
    let target = (Target::Bus(&options.named.name), place as u16, what.as_str());
    let bytes = consented(consent, device, target, carry_out)?;
    if is_read || options.named.json {
        return say_object(options, &bytes);
    }
    say(Tone::Plain, &format!("{device}: object {index:#06x}:{entry:x} written"));
    Ok(ExitVerdict::Pass)
}

/// Prints the value of an object.
fn say_object(options: &SdoOptions, bytes: &[u8]) -> Result<ExitVerdict, Failure> {
    let (index, entry) = options.object;
    let hex = hex_of(bytes);
    if options.named.json {
        print_json(
            &json!({ "index": index, "entry": entry, "bytes": hex, "unsigned": number(bytes) }),
        )?;
    } else {
        say(Tone::Plain, &hex_and_text(bytes, &hex));
    }
    Ok(ExitVerdict::Pass)
}
