//! The program `onbeat-gateway`: takes one order of `onbeat`, and answers in lines of JSON.
//!
//! `onbeat-gateway record|play|list|pictures|convert|send|receive|command|key ORDER [USER]`: a line once the order is being carried out, and a
//! line with its account at the end; `{"error": SENTENCE}` and exit status 2 when it failed. Sentences
//! meanwhile are on standard error. `--version` prints the version.
//!
//! It never runs programs; once files, rings and sockets are open it has no capabilities, and is the given
//! user.

// Not a published library: a name that says all needs no sentence beside it.
#![allow(missing_docs)]

use std::io::{BufWriter, Write, stdout};
use std::net::SocketAddr;
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use onbeat_gateway::{
    ConvertOrder, GatewayError, LogRecording, PicturesOrder, PlayStart, command, convert,
    create_key, list, pictures, play, receive, send,
};
use onbeat_host::{program, rights};
use serde_json::{Value, json};

fn main() -> ExitCode {
    let Err(why) = run() else { return ExitCode::SUCCESS };
    // The program that started this one may be gone.
    let _ = answer(&json!({ "error": why.to_string() }));
    ExitCode::from(2)
}

fn run() -> Result<(), GatewayError> {
    program::survive_file_limit();
    // Where the system refuses it, a truncated ring ends this process, as it ends others.
    let _ = onbeat_control::truncation::install();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, order, user) = match arguments.as_slice() {
        [word] if word == "--version" => {
            let line = concat!("onbeat-gateway ", env!("CARGO_PKG_VERSION"));
            return writeln!(stdout(), "{line}").map_err(GatewayError::Output);
        }
        [verb, order] => (verb, order, None),
        [verb, order, user] => (verb, order, Some(user.as_str())),
        _ => return Err(GatewayError::NoOrder),
    };
    let stop = program::asked_to_end().map_err(GatewayError::Signals)?;
    if let Err(why) = rights::forbid_programs() {
        warn(&format!("system calls are not filtered: {why}"));
    }
    // Threads of RustDDS start with the order; without another user, nothing that follows needs more.
    let has_own_threads = order.contains("\"ros2://");
    if has_own_threads && user.is_none() {
        drop_capabilities()?;
    }

    // Without `onbeat`, nobody would end this process.
    let starter = parent_id();
    let is_stopped = || stop.load(Ordering::Relaxed) || parent_id() != starter;
    carry_out(verb, order, || give_up_rights(user), is_stopped)
}

fn carry_out(
    verb: &str,
    order: &str,
    opened: impl Fn() -> Result<(), GatewayError>,
    is_stopped: impl Fn() -> bool,
) -> Result<(), GatewayError> {
    let begun = |line: Value| opened().and_then(|()| answer(&line));
    match verb {
        "record" => {
            let order = serde_json::from_str(order)?;
            let recording = LogRecording::begin(&order)?;
            begun(json!({ "recording": order.out }))?;
            answer(&serde_json::to_value(recording.run(is_stopped)?)?)
        }
        "play" => {
            let order = serde_json::from_str(order)?;
            let ready = |start: &PlayStart| begun(serde_json::to_value(start)?);
            answer(&serde_json::to_value(play(&order, ready, is_stopped)?)?)
        }
        "list" => {
            let order = serde_json::from_str(order)?;
            let listed = list(&order)?;
            begun(json!({ "listing": true }))?;
            answer(&serde_json::to_value(listed)?)
        }
        "pictures" => {
            let order: PicturesOrder = serde_json::from_str(order)?;
            begun(json!({ "pictures_of": order.log }))?;
            let mut out = BufWriter::new(stdout().lock());
            let account = pictures(&order, &mut out, is_stopped)?;
            out.flush().map_err(GatewayError::Output)?;
            drop(out);
            answer(&serde_json::to_value(account)?)
        }
        "convert" => {
            let order: ConvertOrder = serde_json::from_str(order)?;
            begun(json!({ "converting": order.out }))?;
            answer(&serde_json::to_value(convert(&order, is_stopped)?)?)
        }
        "send" => {
            let order = serde_json::from_str(order)?;
            let ready = || begun(json!({ "sending": true }));
            answer(&serde_json::to_value(send(&order, ready, is_stopped)?)?)
        }
        "receive" => {
            let order = serde_json::from_str(order)?;
            let ready = |bytes| begun(json!({ "buffer_bytes": bytes }));
            answer(&serde_json::to_value(receive(&order, ready, warn, is_stopped)?)?)
        }
        "command" => {
            let order = serde_json::from_str(order)?;
            let ready = |address: SocketAddr| begun(json!({ "address": address.to_string() }));
            answer(&serde_json::to_value(command(order, ready, warn, is_stopped)?)?)
        }
        "key" => {
            create_key(&serde_json::from_str(order)?)?;
            begun(json!({ "created": true }))?;
            answer(&json!({}))
        }
        _ => Err(GatewayError::NoOrder),
    }
}

/// Gives up what a reader of strangers' bytes does not need, once everything is open.
fn give_up_rights(user: Option<&str>) -> Result<(), GatewayError> {
    if let Some(user) = user {
        rights::become_user(user)
            .map_err(|source| GatewayError::User { user: user.to_owned(), source })?;
    }
    drop_capabilities()
}

fn drop_capabilities() -> Result<(), GatewayError> {
    rights::drop_capabilities()
        .map_err(|source| GatewayError::Rights { what: "capabilities", source })
}

fn warn(sentence: &str) {
    program::advise(&format!("onbeat-gateway: {sentence}"));
}

fn answer(line: &Value) -> Result<(), GatewayError> {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(GatewayError::Output)
}
