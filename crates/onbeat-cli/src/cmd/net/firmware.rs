//! `onbeat net lab --firmware`: firmware at the ends of a plan's modelled network, in virtual time.

use std::fs;
use std::path::Path;

use onbeat_lab::net::lockstep::{
    CarriedPackets, CarriedTimes, ConductedBoard, Lockstep, LockstepAccount, LockstepError,
};
use onbeat_net::plan::Network;
use onbeat_report::units::{count, time_ns};
use serde_json::json;

use super::options::NetLabOptions;
use crate::cmd::failure::Common;
use crate::cmd::failure::net::NetFailure;
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, advise, letters, print_json, say};

const USUAL_NS: u64 = 10_000_000_000;
/// The first edge comes when boards have started and found each other.
const EDGES_FROM_NS: u64 = 20_000_000;
/// So long before the end no edge comes any more: the last ones have their outputs.
const EDGES_END_NS: u64 = 100_000_000;

pub(super) fn run(options: &NetLabOptions) -> Result<ExitVerdict, Failure> {
    let network = Network::read(options.file.as_deref().unwrap_or(Path::new("")))?;
    let until_ns = options.duration.unwrap_or(USUAL_NS);
    let account = conduct(options, &network, until_ns).map_err(NetFailure::from)?;
    if options.json {
        print_json(&json!({
            "schema": "onbeat.lockstep/1", "virtual_ns": until_ns, "sha256": account.digest(),
            "requests": account.requests, "answers": account.answers,
            "edge_commands": account.edge_commands, "edge_reports": account.edge_reports,
            "inputs": account.inputs, "outputs": account.outputs,
            "round_trip": account.round_trips(), "reaction": account.reactions(),
            "has_whole_log": account.has_whole_log(),
        }))?;
    } else {
        print(&account, until_ns);
    }

    if let (Some(out), false) = (&options.out, account.log.is_empty()) {
        let path = out.join("sender.onbeat.hlog");
        let written = fs::create_dir_all(out).and_then(|()| fs::write(&path, &account.log));
        written.map_err(|source| Common::File { what: "write", path: path.clone(), source })?;
        advise(Tone::Plain, &format!("what the sender logged: {}", path.display()));
    }
    Ok(ExitVerdict::Pass)
}

fn conduct(
    options: &NetLabOptions,
    network: &Network,
    until_ns: u64,
) -> Result<LockstepAccount, LockstepError> {
    let images = options.firmware.firmware.iter();
    let mut boards =
        images.map(|image| ConductedBoard::start(image)).collect::<Result<Vec<_>, _>>()?;
    if let (Some(every_ns), Some(first)) = (options.firmware.edges_every, boards.first_mut()) {
        let instants = (EDGES_FROM_NS..until_ns.saturating_sub(EDGES_END_NS))
            .step_by(usize::try_from(every_ns).unwrap_or(usize::MAX).max(1));
        first.set_edges(instants.zip([true, false].into_iter().cycle()));
    }

    let mut account = LockstepAccount::default();
    let mut lockstep = Lockstep::new(network, boards)?;
    lockstep.run(until_ns, &mut |at_ns, end, event| account.take(at_ns, end, event))?;
    Ok(account)
}

fn print(account: &LockstepAccount, until_ns: u64) {
    let packets = [
        ("echo requests", account.requests),
        ("echo answers", account.answers),
        ("edge commands", account.edge_commands),
        ("edge reports", account.edge_reports),
    ];
    for (name, of) in packets.iter().filter(|(_, of)| of.sent > 0) {
        say(Tone::Plain, &packets_line(name, *of));
    }
    if account.inputs > 0 {
        let (inputs, outputs) = (count(account.inputs), count(account.outputs));
        say(Tone::Plain, &format!("edges          {inputs} at the input, {outputs} outputs"));
    }
    let times = [("round trips", account.round_trips()), ("edge to output", account.reactions())];
    for (name, times) in times {
        if let Some(times) = times {
            say(Tone::Plain, &times_line(name, times));
        }
    }
    let time = time_ns(until_ns, letters());
    say(Tone::Plain, &format!("virtual time   {time}, sha256 of all events {}", account.digest()));
}

fn packets_line(name: &str, of: CarriedPackets) -> String {
    let [sent, arrived, late] = [of.sent, of.arrived, of.out_of_order].map(count);
    format!("{name:<15}{sent} sent, {arrived} arrived, {late} out of order")
}

fn times_line(name: &str, times: CarriedTimes) -> String {
    let CarriedTimes { min_ns, median_ns, p99_ns, max_ns } = times;
    let [min, median, p99, max] =
        [min_ns, median_ns, p99_ns, max_ns].map(|ns| time_ns(ns, letters()));
    format!("{name:<15}min {min}, p50 {median}, p99 {p99}, max {max}")
}
