//! `onbeat metrics`: the figures of a run in progress, in the formats that Prometheus scrapes.
//!
//! A process of its own reads the run files, as for `--view`: the measuring one neither serves nor grows.
//! `--metrics` of other commands starts it.

pub(crate) mod options;
mod server;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;
use onbeat::record::run_dir;
use onbeat::thread::{run_as_ordinary, stay_off_cpu};
use onbeat_report::export::openmetrics::{self, ExpositionFormat};

use super::view::begun;
use super::{ExitVerdict, Failure, runs};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::term::{Tone, advise};
use options::MetricsOptions;
pub(crate) use server::MetricsFailure;
use server::{Exposition, MetricsServer};

/// Time between two readings of the run files, at least.
const EVERY: Duration = Duration::from_secs(1);
/// The files are read again after so many times what it took: at most a hundredth of a CPU.
const TIMES_READING: u32 = 100;
/// For so long the figures of an ended run are served: a scrape a quarter of a minute finds them.
const LAST_FOR: Duration = Duration::from_secs(15);
/// Longest wait for a client in one piece: a request to stop is seen after it.
const STEP: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &MetricsOptions) -> Result<ExitVerdict, Failure> {
    run_as_ordinary();
    options.avoid_cpu.into_iter().for_each(stay_off_cpu);
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("the run to be read");
    let server = MetricsServer::open(options.listen)?;
    let path = begun(&options.run, &interruptions)?;
    advise(Tone::Plain, &format!("metrics: http://{}/metrics", server.address()));
    serve(&path, &server, &interruptions);
    Ok(ExitVerdict::Pass)
}

/// Refuses an address that cannot be listened on.
pub(crate) fn check_address(address: SocketAddr) -> Result<(), MetricsFailure> {
    MetricsServer::open(address).map(drop)
}

/// Serves the run to its end, and its last figures for some seconds more.
fn serve(path: &Path, server: &MetricsServer, interruptions: &Interruptions) {
    let mut exposition = Exposition::default();
    let mut next_reading = Instant::now();
    let mut ends = None;
    while !interruptions.stop.load(Ordering::Relaxed)
        && ends.is_none_or(|ends| Instant::now() < ends)
    {
        let goes_on = run_dir::goes_on(path);
        if Instant::now() >= next_reading && ends.is_none() {
            let began = Instant::now();
            // A file that is just being begun has its figures the next time.
            if let Some(read) = read(path, goes_on) {
                exposition = read;
            }
            next_reading = Instant::now() + EVERY.max(began.elapsed() * TIMES_READING);
        }
        if !goes_on && ends.is_none() {
            exposition = read(path, false).unwrap_or(exposition);
            ends = Some(Instant::now() + LAST_FOR);
        }
        server.answer(&exposition, STEP);
    }
}

fn read(path: &Path, goes_on: bool) -> Option<Exposition> {
    let files = runs::judged(path, None).ok()?.runs;
    let written = |format| {
        let mut text = Vec::new();
        openmetrics::write_as(&files, format, goes_on, &mut text).ok()?;
        String::from_utf8(text).ok()
    };
    Some(Exposition {
        text: written(ExpositionFormat::Text)?,
        open_metrics: written(ExpositionFormat::OpenMetrics)?,
    })
}
