//! `onbeat message send` and `receive`: channels of this machine and of a network, LCM,
//! ZeroMQ or ROS 2.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use onbeat::probe::Interruptions;
use onbeat_message::{TypeSet, own};
use onbeat_report::units::{count, listed};
use serde_json::{Value, json};

use super::files::{add_files, lcm_texts, only_lcm_texts};
use super::log::{accounted, of_channels};
use super::options::{ReceiveOptions, SendOptions};
use crate::cmd::byte_words::hex_of;
use crate::cmd::gateway::Gateway;
use crate::cmd::{Common, ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise};

/// Sends records until Ctrl-C, until their writers have ended, or for the given time.
pub(super) fn send(options: &SendOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let name = |channel: &str| options.remote.clone().unwrap_or_else(|| channel.to_owned());
    let channel = options.channel.to_string();
    let lcm = only_lcm_texts(&options.file)?;
    let sent = json!({ "channel": channel, "remote": name(&channel), "lcm": lcm });
    let order = json!({
        "channels": [sent], "to": options.to, "for_ns": options.duration,
        "most_memory": bytes_of_mib(options.most_memory),
    });

    let gateway = Gateway::begin_as("send", &order, options.user.as_deref(), &interruptions.stop)?;
    advise(Tone::Faint, &format!("sending {channel} to {}", options.to));
    let account = gateway.run(&interruptions.stop)?;
    accounted(options.json, &account, || {
        let dropped = count(account["dropped"].as_u64().unwrap_or(0));
        let sent = of_channels(&account);
        let refused = refused_peers(&account);
        let strange = not_of_lcm(&account);
        format!("records sent: {sent}; {dropped} dropped for slow peers{refused}{strange}")
    })
}

/// Receives messages until Ctrl-C or for the given time.
pub(super) fn receive(options: &ReceiveOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let (type_name, schema, hash) = record_type(options)?;
    let received = json!({
        "remote": options.remote, "channel": options.channel.to_string(),
        "type_name": type_name, "schema": schema, "hash": hash, "most_bytes": options.most_bytes,
        "lcm": lcm_texts(&options.file)?,
    });
    let order = json!({
        "from": options.from, "channels": [received], "for_ns": options.duration,
        "most_memory": bytes_of_mib(options.most_memory),
        "most_senders": options.most_senders, "most_age_ns": options.most_age,
    });

    if options.until_input_ends {
        stop_with_input(&interruptions)?;
    }
    let gateway =
        Gateway::begin_as("receive", &order, options.user.as_deref(), &interruptions.stop)?;
    let buffer = match gateway.begun()["buffer_bytes"].as_u64() {
        Some(bytes @ 1..) => format!("; receive buffer of the kernel {} bytes", count(bytes)),
        _ => String::new(),
    };
    advise(Tone::Faint, &format!("receiving from {}{buffer}", options.from));
    let account = gateway.run(&interruptions.stop)?;
    accounted(options.json, &account, || received_sentence(&options.remote, &account))
}

fn received_sentence(remote: &str, account: &Value) -> String {
    let number = |name: &str| count(account[name].as_u64().unwrap_or(0));
    format!(
        "{} messages on {}, {} of them too long; on all channels of the network {} received, {} lost, {} not valid{}",
        number("published"),
        remote,
        number("too_long"),
        number("received"),
        number("lost"),
        number("strange"),
        at_limits(account),
    )
}

/// Stops when standard input ends: the program that started this one is gone, however it ended.
fn stop_with_input(interruptions: &Arc<Interruptions>) -> Result<(), Failure> {
    let interruptions = Arc::clone(interruptions);
    let wait = move || {
        // What is written is not for this program.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        interruptions.stop.store(true, Ordering::Relaxed);
    };
    let started = thread::Builder::new().name("onbeat-input".to_owned()).spawn(wait);
    started
        .map(drop)
        .map_err(|source| Common::Thread { what: "the end of standard input", source }.into())
}

pub(super) fn bytes_of_mib(mib: u32) -> u64 {
    u64::from(mib) << 20
}

/// Returns how many peers were refused at a limit, to follow in a sentence; empty for none.
pub(super) fn refused_peers(account: &Value) -> String {
    match account["refused_peers"].as_u64() {
        Some(peers @ 1..) => format!("; {} peers refused or disconnected", count(peers)),
        _ => String::new(),
    }
}

/// Returns how many records are not of the type of LCM, to follow in a sentence; empty for none.
pub(super) fn not_of_lcm(account: &Value) -> String {
    match account["not_encoded"].as_u64() {
        Some(records @ 1..) => format!("; {} not of the type of LCM", count(records)),
        _ => String::new(),
    }
}

/// Returns what was dropped at the limits, to follow in a sentence; empty for nothing.
fn at_limits(account: &Value) -> String {
    let part = |name: &str, words: &str| {
        let number = account[name].as_u64().filter(|number| *number > 0)?;
        Some(format!("{} {words}", count(number)))
    };
    let parts = [
        part("dropped_for_memory", "for memory"),
        part("dropped_for_age", "for their age"),
        part("forgotten_senders", "senders forgotten"),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        some => format!("; incomplete messages dropped: {}", listed(some)),
    }
}

/// Returns name, definition and hash of the type of the messages; empty texts without a type.
fn record_type(options: &ReceiveOptions) -> Result<(String, String, String), Failure> {
    let Some(name) = &options.message_type else { return Ok(Default::default()) };
    let mut types: TypeSet = own::types();
    add_files(&mut types, &options.file)?;
    let text = types.text(name)?;
    let hash = types.hash(name)?;
    Ok((name.clone(), text, hex_of(&hash)))
}
