//! `onbeat metrics`: the figures of a run in progress, in the forms that Prometheus scrapes, or to an OpenTelemetry collector.
//!
//! A process of its own reads the run files, as for `--view`: the measuring one neither serves nor grows.
//! `--metrics` of other commands starts it.

pub(crate) mod options;
mod push;
mod server;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;
use onbeat::record::{RunFile, run_dir};
use onbeat::thread::{Usage, run_as_ordinary, stay_off_cpu};
use onbeat_report::export::exposition::{Family, families};
use onbeat_report::export::otlp::OfRun;

use super::so_far::cpu_time_since;
use super::view::begun;
use super::{ExitVerdict, Failure};
use crate::signals::{self, EndOf, OnUsr1, pause};
use crate::term::{Tone, advise};
use options::{MetricsOptions, MetricsTo};
use push::{CollectorUrl, Pusher};
pub(crate) use server::MetricsFailure;
use server::MetricsServer;

/// Time between two readings of the run files, at least.
const EVERY: Duration = Duration::from_secs(1);
/// The files are read again after so many times the CPU time that it took: at most a hundredth of a
/// CPU. Waiting for one or for the disk takes none, and does not make a run disappear for minutes.
const TIMES_READING: u32 = 100;
/// For so long the figures of an ended run are served, or a collector is tried: a scrape a quarter of a minute finds them.
const LAST_FOR: Duration = Duration::from_secs(15);
/// Longest wait for a client in one piece: a request to stop is seen after it.
const STEP: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &MetricsOptions) -> Result<ExitVerdict, Failure> {
    run_as_ordinary();
    options.avoid_cpu.into_iter().for_each(stay_off_cpu);
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("the run to be read");
    if let Some(to) = &options.push {
        let path = begun(&options.run, &interruptions)?;
        advise(Tone::Plain, &format!("metrics: to {to} every {} s", push::EVERY.as_secs()));
        if push_all(&path, to, &interruptions) {
            return Ok(ExitVerdict::Pass);
        }
        return Err(MetricsFailure::NotTaken { to: to.clone(), run: path }.into());
    }
    let server = MetricsServer::open(options.listen)?;
    let path = begun(&options.run, &interruptions)?;
    advise(Tone::Plain, &format!("metrics: http://{}/metrics", server.address()));
    serve(&path, &server, &interruptions);
    Ok(ExitVerdict::Pass)
}

/// Refuses an address that cannot be listened on. A collector may come later.
pub(crate) fn check(to: &MetricsTo) -> Result<(), MetricsFailure> {
    match to {
        MetricsTo::Scraper(address) => MetricsServer::open(*address).map(drop),
        MetricsTo::Collector(_) => Ok(()),
    }
}

/// Serves the run to its end, and its last figures for some seconds more.
fn serve(path: &Path, server: &MetricsServer, interruptions: &Interruptions) {
    let mut newest = Figures::default();
    let mut next_reading = Instant::now();
    let mut ends = None;
    while !interruptions.stop.load(Ordering::Relaxed)
        && ends.is_none_or(|ends| Instant::now() < ends)
    {
        let goes_on = run_dir::goes_on(path);
        if Instant::now() >= next_reading && ends.is_none() {
            let before = Usage::of_this_thread();
            // A file that is just being begun has its figures the next time.
            if let Some(read) = Figures::read(path, goes_on) {
                newest = read;
            }
            next_reading = Instant::now() + EVERY.max(cpu_time_since(before) * TIMES_READING);
        }
        if !goes_on && ends.is_none() {
            newest = Figures::read(path, false).unwrap_or(newest);
            ends = Some(Instant::now() + LAST_FOR);
        }
        server.answer(&newest.families, STEP);
    }
}

/// Hands the run over to its end; its last figures are tried for some seconds. Returns whether they
/// were taken.
fn push_all(path: &Path, to: &CollectorUrl, interruptions: &Interruptions) -> bool {
    let stops = || interruptions.stop.load(Ordering::Relaxed);
    let mut pusher = Pusher::new(to.clone());
    let mut next = Instant::now();
    while !stops() && run_dir::goes_on(path) {
        if Instant::now() >= next {
            let before = Usage::of_this_thread();
            let read = Figures::read(path, true);
            let reading = cpu_time_since(before);
            if let Some(Figures { families, of }) = read.filter(|read| !read.is_empty()) {
                pusher.push(&families, &of);
            }
            next = Instant::now() + push::EVERY.max(reading * TIMES_READING);
        }
        sleep(STEP);
    }
    let Some(Figures { families, of }) = Figures::read(path, false) else { return true };
    let ends = Instant::now() + LAST_FOR;
    while !pusher.push(&families, &of) {
        if !pause(EVERY, &interruptions.stop) || Instant::now() >= ends {
            return false;
        }
    }
    true
}

/// What a run's files hold.
#[derive(Debug, Default)]
struct Figures {
    families: Vec<Family>,
    of: OfRun,
}

impl Figures {
    fn read(path: &Path, goes_on: bool) -> Option<Self> {
        let files = run_dir::read(path).ok()?.files;
        // The number of a bench is in its own file; its cells have others, and begin one by one.
        let bench = files.iter().find(|file| file.bench.is_some());
        let of = bench.or(files.first()).map(of_run).unwrap_or_default();
        Some(Self { families: families(&files, Some(goes_on)), of })
    }

    /// Whether nothing but the state of the run is known.
    fn is_empty(&self) -> bool {
        self.families.len() <= 1
    }
}

fn of_run(file: &RunFile) -> OfRun {
    let header = &file.header;
    OfRun {
        machine: header.machine.clone(),
        run: header.id.clone(),
        version: header.version.clone(),
        started_ns: (header.started_unix_s.max(0.0) * 1e9) as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_bench_keeps_its_number_while_its_cells_begin() {
        let dir = tempfile::tempdir().unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs/bench");
        for name in ["bench", "none-idle", "S-idle"] {
            let file = format!("{name}{}", run_dir::RUN_FILE_ENDING);
            let text = fs::read_to_string(golden.join(&file)).unwrap();
            let numbered = format!("{{\"id\":\"of {name}\",\"schema\":");
            fs::write(dir.path().join(&file), text.replacen("{\"schema\":", &numbered, 1)).unwrap();
            assert_eq!(Figures::read(dir.path(), true).unwrap().of.run, "of bench", "{name}");
        }
    }
}
