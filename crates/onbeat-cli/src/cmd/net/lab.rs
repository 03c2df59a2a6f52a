//! `onbeat net lab`: round trips in a network of namespaces, a run for each period.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use onbeat_lab::net::{LinkRates, NetworkLab, NetworkLabError, forty_devices};
use onbeat_net::device::DeviceCounts;
use onbeat_net::plan::Network;

use super::boards;
use super::firmware;
use super::options::NetLabOptions;
use super::serving::read;
use crate::cmd::failure::net::NetFailure;
use crate::cmd::looping::check_cpu;
use crate::cmd::measure::options::Measure;
use crate::cmd::{ExitVerdict, Failure, measure, worse};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, columns, counted, put, wrapped};

/// Measuring time of a run.
const USUAL_NS: u64 = 10_000_000_000;
const USUAL_OUT: &str = "onbeat-runs";

pub(super) fn run(options: &NetLabOptions) -> Result<ExitVerdict, Failure> {
    let has_firmware = !options.firmware.firmware.is_empty();
    if options.duration == Some(0) && (options.boards.is_virtual || has_firmware) {
        return Err(NetFailure::NoEnd.into());
    }
    if options.boards.is_virtual {
        return boards::run(options);
    }
    if has_firmware {
        return firmware::run(options);
    }
    check_cpu(options.cpu)?;
    let network = match &options.file {
        Some(file) => Network::read(file)?,
        None => forty_devices(),
    };
    let rates = match &options.file {
        Some(_) if !options.unlimited => LinkRates::Planned,
        _ => LinkRates::Unlimited,
    };
    // What is not understood is refused before anything is built.
    let tried = Measure::from_words(&words(options, rates, &[], 1_000_000));
    if let Err(help) = tried.map_err(NetFailure::Words)? {
        put(|out| write!(out, "{help}"));
        return Ok(ExitVerdict::Pass);
    }

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let lab = NetworkLab::build(&network, rates)?;
    advise(Tone::Plain, &wrapped(&greeting(&lab, rates), columns()));
    for sentence in &lab.left_out {
        advise(Tone::Careful, &wrapped(sentence, columns()));
    }

    let started = Arc::clone(&lab.devices).start(options.priority > 0, options.cpu);
    let _devices = started.map_err(NetworkLabError::Thread)?;
    let addresses: Vec<String> = lab.addresses.iter().map(ToString::to_string).collect();
    let mut verdict = ExitVerdict::Pass;
    for period_ns in &options.periods {
        if interruptions.stop.load(Ordering::Relaxed) {
            break;
        }
        let measure = Measure::from_words(&words(options, rates, &addresses, *period_ns));
        let Ok(measure) = measure.map_err(NetFailure::Words)? else { break };
        verdict = worse(verdict, lab.within_controller(|| measure::run(&measure))??);
    }

    advise(Tone::Plain, &outcome(&lab.devices.counts));
    Ok(verdict)
}

fn greeting(lab: &NetworkLab, rates: LinkRates) -> String {
    let devices = counted(lab.addresses.len(), "device");
    let switches = match lab.switches {
        1 => "1 switch".to_owned(),
        count => format!("{count} switches"),
    };
    let links = match rates {
        LinkRates::Unlimited => "links as fast as this machine",
        LinkRates::Planned => "links at the plan's rates",
    };
    format!(
        "{devices} and {switches} in network namespaces, {links}; built in {:.2} s, and gone with this process",
        lab.built_in.as_secs_f64()
    )
}

fn outcome(counts: &DeviceCounts) -> String {
    format!(
        "the devices answered {} packets; {} answers were not sent, {} packets were not valid requests",
        read(&counts.answered),
        read(&counts.unsent),
        read(&counts.invalid)
    )
}

/// The words behind `onbeat measure` for one run; those of the user come last and override.
fn words(
    options: &NetLabOptions,
    rates: LinkRates,
    addresses: &[String],
    period_ns: u64,
) -> Vec<String> {
    let mut words: Vec<String> = vec!["rtt".to_owned()];
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    if !addresses.is_empty() {
        option("to", addresses.join(","));
    }
    option("period", format!("{period_ns}ns"));
    option("for", format!("{}ns", options.duration.unwrap_or(USUAL_NS)));
    option("priority", options.priority.to_string());
    let out = options.out.as_deref().unwrap_or(USUAL_OUT.as_ref());
    option("out", out.display().to_string());
    if let Some(cpu) = options.cpu {
        option("cpu", cpu.to_string());
    }
    if let (LinkRates::Planned, Some(file)) = (rates, &options.file) {
        option("plan", file.display().to_string());
    }

    words.extend(options.json.then(|| "--json".to_owned()));
    words.extend(options.more.iter().cloned());
    words
}
