//! `onbeat message command --from` and `onbeat message key`: a robot commanded from other computers.
//!
//! Bytes of strangers are read by two processes of `onbeat-gateway`: one takes commands, and is the robot's commander; the other one
//! publishes channels by ZeroMQ, so that readers, however many, do not delay a command.

use std::net::SocketAddr;

use onbeat_control::channels;
use onbeat_report::units::count;
use serde_json::{Value, json};

use super::log::accounted;
use super::options::{CommandOptions, KeyOptions};
use crate::cmd::failure::robot_goal::GoalFailure;
use crate::cmd::gateway::Gateway;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, say};

pub(super) fn create_key(options: &KeyOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let order = json!({ "out": options.out });
    Gateway::begin("key", &order, &interruptions.stop)?.finish()?;
    let file = options.out.display();
    say(
        Tone::Plain,
        &format!("created {file}, readable only by you; anyone with a copy can move the robot"),
    );
    Ok(ExitVerdict::Pass)
}

/// Lets other computers command a robot until Ctrl-C, until it ends, or for the given time.
pub(super) fn listen(options: &CommandOptions, from: &str) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let name = &options.name;
    let own = format!("{name}/");
    let all: Vec<String> =
        channels().iter().map(ToString::to_string).filter(|it| it.starts_with(&own)).collect();
    let address = from.strip_prefix("tcp://").and_then(|text| text.parse::<SocketAddr>().ok());
    let address = address.ok_or_else(|| GoalFailure::Address(from.to_owned()))?;
    let port = address.port().checked_add(1).filter(|_| address.port() > 0);
    let port = port.ok_or_else(|| GoalFailure::Address(from.to_owned()))?;
    let is_published = !options.no_telemetry && !all.is_empty();

    let order = json!({
        "name": name, "from": from, "key": options.key, "peers": options.peers,
        "joints": options.joints, "rate": options.rate, "lifetime_ns": options.lifetime,
        "telemetry": if is_published { port } else { 0 }, "channels": all, "for_ns": options.duration,
    });
    let telemetry = if is_published {
        let sent = all.iter().map(|channel| json!({ "channel": channel, "remote": channel }));
        let to = format!("tcp://{}", SocketAddr::new(address.ip(), port));
        let order = json!({ "channels": sent.collect::<Vec<_>>(), "to": to });
        Some(Gateway::begin("send", &order, &interruptions.stop)?)
    } else {
        None
    };
    let gateway = Gateway::begin("command", &order, &interruptions.stop)?;
    let right = if options.key.is_some() { "the key" } else { "this computer alone" };
    advise(
        Tone::Faint,
        &format!(
            "{name} is commanded from {from} with {right}, and read from there by all who can connect"
        ),
    );
    if is_published {
        advise(Tone::Faint, &format!("{} published on port {port}", all.join(", ")));
    }

    let account = gateway.run(&interruptions.stop);
    // The robot may have ended, and its channels with it: their account says nothing more.
    if let Some(telemetry) = telemetry {
        telemetry.end()?;
    }
    let account = account?;
    accounted(options.json, &account, || sentence(&account))
}

fn sentence(account: &Value) -> String {
    let number = |name: &str| count(account[name].as_u64().unwrap_or(0));
    let oldest = account["oldest_followed_ns"].as_f64().unwrap_or(0.0) / 1e6;
    format!(
        "commands followed: {}, the oldest {oldest:.1} ms old; too late: {}; refused: {}; commanders too fast: {}, gone without leave: {}; connections: {}, refused: {}, not valid: {}",
        number("followed"),
        number("too_late"),
        number("refused"),
        number("too_fast"),
        number("abandoned"),
        number("connections"),
        number("refused_peers"),
        number("forged"),
    )
}
