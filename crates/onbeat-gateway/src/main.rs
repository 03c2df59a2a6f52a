//! The program `onbeat-gateway`: takes one order of `onbeat`, and answers in lines of JSON.
//!
//! `onbeat-gateway record|play|send|receive ORDER`: a line once the order is being carried out, and a line
//! with its account at the end; `{"error": SENTENCE}` and exit status 2 when it failed.

use std::io::{Write, stdout};
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onbeat_gateway::{GatewayError, LogRecording, PlayStart, play, receive, send};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> ExitCode {
    let Err(why) = run() else { return ExitCode::SUCCESS };
    // The program that started this one may be gone.
    let _ = answer(&json!({ "error": why.to_string() }));
    ExitCode::from(2)
}

fn run() -> Result<(), GatewayError> {
    // Where the system refuses it, a truncated ring ends this process, as it ends others.
    let _ = onbeat_control::truncation::install();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, order] = arguments.as_slice() else { return Err(GatewayError::NoOrder) };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(GatewayError::Signals)?;
    }
    // Without `onbeat`, nobody would end this process.
    let starter = parent_id();
    carry_out(verb, order, || stop.load(Ordering::Relaxed) || parent_id() != starter)
}

fn carry_out(verb: &str, order: &str, is_stopped: impl Fn() -> bool) -> Result<(), GatewayError> {
    match verb {
        "record" => {
            let order = serde_json::from_str(order)?;
            let recording = LogRecording::begin(&order)?;
            answer(&json!({ "recording": order.out }))?;
            answer(&serde_json::to_value(recording.run(is_stopped)?)?)
        }
        "play" => {
            let order = serde_json::from_str(order)?;
            let ready = |start: &PlayStart| answer(&serde_json::to_value(start)?);
            answer(&serde_json::to_value(play(&order, ready, is_stopped)?)?)
        }
        "send" => {
            let order = serde_json::from_str(order)?;
            let ready = || answer(&json!({ "sending": true }));
            answer(&serde_json::to_value(send(&order, ready, is_stopped)?)?)
        }
        "receive" => {
            let order = serde_json::from_str(order)?;
            let ready = |bytes| answer(&json!({ "buffer_bytes": bytes }));
            answer(&serde_json::to_value(receive(&order, ready, is_stopped)?)?)
        }
        _ => Err(GatewayError::NoOrder),
    }
}

fn answer(line: &Value) -> Result<(), GatewayError> {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(GatewayError::Output)
}
