//! The program `onbeat-gateway`: takes one order of `onbeat`, and answers in lines of JSON.
//!
//! `onbeat-gateway record ORDER`: a line `{"recording": FILE}` once the log is being written, and a
//! line with its account at the end; `{"error": SENTENCE}` and exit status 2 when it failed.

use std::io::{Write, stdout};
use std::os::unix::process::parent_id;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onbeat_gateway::{GatewayError, RecordOrder, Recording};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> ExitCode {
    let Err(why) = run() else { return ExitCode::SUCCESS };
    // Whoever has started this program may be gone.
    let _ = answer(&json!({ "error": why.to_string() }));
    ExitCode::from(2)
}

fn run() -> Result<(), GatewayError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, order] = arguments.as_slice() else { return Err(GatewayError::NoOrder) };
    if verb != "record" {
        return Err(GatewayError::NoOrder);
    }

    let order: RecordOrder = serde_json::from_str(order)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(GatewayError::Signals)?;
    }

    let recording = Recording::begin(&order)?;
    answer(&json!({ "recording": order.out }))?;
    // Without `onbeat`, nobody would end this process.
    let starter = parent_id();
    let is_stopped = || stop.load(Ordering::Relaxed) || parent_id() != starter;
    let account = recording.run(is_stopped)?;
    answer(&serde_json::to_value(account)?)
}

fn answer(line: &Value) -> Result<(), GatewayError> {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(GatewayError::Output)
}
