//! `onbeat vm run`: one job in one guest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use onbeat::campaign::create_workplace;
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat_lab::vm::{
    ClockTable, ForeignProbe, Free, Guest, GuestFigures, GuestFile, GuestPlan, GuestResult, Job,
    Measures, Virtual, VmClock,
};
use serde_json::{Value, json};

use super::options::{GuestClock, VmRunOptions};
use super::stock::{Stock, guest};
use crate::cmd::Common;
use crate::cmd::failure::vm::VmFailure;
use crate::cmd::measure::in_guest::guest_plan;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::term::print_json;
use crate::term::{Tone, advise, say};

/// The job without one on the command line. Recording causes is heavy work for a guest that counts
/// instructions.
const USUAL_JOB: [&str; 7] =
    ["measure", "latency", "--period", "1ms", "--for", "2s", "--no-causes"];
const OUTPUT: &str = "output";
/// What a table of a user's guest says in virtual time, in place of the clock's own legend.
pub(super) const NOT_REPEATABLE: &str = "Counted instructions, predicts no hardware. The guest's disks and cards answer by this machine's clock: figures differ from run to run.";
const ERRORS: &str = "errors";

/// What a guest does: a measurement or bench with run files, or any command.
#[derive(Debug)]
struct GuestJob {
    job: Job,
    is_recorded: bool,
    /// Whether the agent can do it all.
    is_the_agents: bool,
    /// The measurement that it is.
    measurement: Option<GuestMeasurement>,
    /// A command whose output another tool's format makes a recording.
    foreign: Option<ForeignProbe>,
}

impl GuestJob {
    fn from_options(options: &VmRunOptions) -> Result<Self, Failure> {
        let Some(format) = options.format else { return Self::from_words(&options.job) };
        let has_own = options.guest.own.qemu.is_some() || options.guest.own.domain.is_some();
        let probe = ForeignProbe { words: options.job.clone(), format };
        let job = probe.job(has_own);
        let foreign = Some(probe);
        Ok(Self { job, is_recorded: true, is_the_agents: true, measurement: None, foreign })
    }

    fn from_words(words: &[String]) -> Result<Self, Failure> {
        let usual = || USUAL_JOB.map(str::to_owned).to_vec();
        let words = if words.is_empty() { usual() } else { words.to_vec() };
        if ["measure", "bench"].contains(&words[0].as_str()) {
            let measurement = GuestMeasurement::read(words)?;
            return Ok(Self {
                job: measurement.job(false),
                is_recorded: true,
                is_the_agents: measurement.plan.is_some(),
                measurement: Some(measurement),
                foreign: None,
            });
        }

        let is_the_agents = !words.iter().any(|word| word.contains("onbeat"));
        let mut job = Job::new();
        job.command(words);
        Ok(Self { job, is_recorded: false, is_the_agents, measurement: None, foreign: None })
    }
}

/// A measurement or a bench for a guest.
#[derive(Debug)]
pub(super) struct GuestMeasurement {
    words: Vec<String>,
    /// What it is for the agent; `None` where it takes the whole program.
    pub(super) plan: Option<GuestPlan>,
}

impl GuestMeasurement {
    /// Reads its words, which are refused here and not in the guest.
    pub(super) fn read(words: Vec<String>) -> Result<Self, Failure> {
        let refused = |why| VmFailure::Measurement { words: words.join(" "), why };
        let plan = guest_plan(&words).map_err(refused)?;
        Ok(Self { words, plan })
    }

    /// Its job, by the agent or by the whole program.
    pub(super) fn job(&self, by_agent: bool) -> Job {
        let mut planned = Job::new();
        match self.plan.as_ref().filter(|_| by_agent) {
            Some(plan) => planned.measurement(plan),
            None => planned = Job::recorded(self.words.iter().cloned()),
        }
        planned
    }
}

pub(super) fn run(options: &VmRunOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("its guest");
    let stop = &interruptions.stop;
    let mut job = GuestJob::from_options(options)?;
    let stock = Stock::open(&options.stock)?;
    let stock = if job.is_the_agents { stock.with_agent_if_needed() } else { stock };
    if let Some(measurement) = &job.measurement {
        job.job = measurement.job(stock.has_agent());
    }
    let boot = stock.guest(&options.guest)?;

    let (machine, cpus) = (&options.machine, options.cpus);
    match options.clock {
        GuestClock::Virtual => {
            let clock = Virtual { shift: options.shift, seed: options.seed };
            measured(options, &job, &stock, &guest(machine, cpus, boot, clock), stop)
        }
        GuestClock::Real => {
            let clock = stock.real_clock(&boot, stop)?;
            measured(options, &job, &stock, &guest(machine, cpus, boot, clock), stop)
        }
        GuestClock::Free => {
            without_figures(options, &job, &stock, &guest(machine, cpus, boot, Free), stop)
        }
    }
}

/// Runs the job by a clock whose times are results.
fn measured<C: Measures>(
    options: &VmRunOptions,
    job: &GuestJob,
    stock: &Stock,
    guest: &Guest<C>,
    stop: &AtomicBool,
) -> Result<ExitVerdict, Failure> {
    let (result, directory) = kept(options, job, stock, guest, stop)?;
    if !job.is_recorded {
        return finish_command(options, &result, &directory);
    }

    result.succeeded()?;
    let is_foreign = job.foreign.is_some();
    let cells = if is_foreign { result.figures_of_run_files()? } else { result.cells()? };
    if options.json {
        let mut object = outline(&result, &directory);
        object["unit"] = C::UNIT.into();
        object["cells"] = cells.iter().map(cell_json).collect();
        print_json(&object)?;
        return Ok(ExitVerdict::Pass);
    }

    let mut table = ClockTable::default();
    for (name, figures) in cells {
        table.row(format!("{} {name}", result.release), figures);
    }
    say(Tone::Plain, table.to_string().trim_end());
    if guest.boot.own.is_some() && C::NAME == "virtual" {
        say(Tone::Faint, NOT_REPEATABLE);
    } else {
        C::LEGEND.iter().for_each(|line| say(Tone::Faint, line));
    }
    say_where(&result, &directory);
    Ok(ExitVerdict::Pass)
}

/// Runs the job by the free clock: what it measured is neither printed nor kept.
fn without_figures(
    options: &VmRunOptions,
    job: &GuestJob,
    stock: &Stock,
    guest: &Guest<Free>,
    stop: &AtomicBool,
) -> Result<ExitVerdict, Failure> {
    let (result, directory) = kept(options, job, stock, guest, stop)?;
    if !job.is_recorded {
        return finish_command(options, &result, &directory);
    }

    result.succeeded()?;
    if options.json {
        print_json(&outline(&result, &directory))?;
        return Ok(ExitVerdict::Pass);
    }
    say(Tone::Plain, &format!("{}: the job ended with exit status 0 (free clock)", result.release));
    let sentence = "No latencies: by the free clock every kernel has the emulator's, milliseconds that differ each time; \
                    --clock virtual ranks kernels";
    advise(Tone::Careful, sentence);
    say_where(&result, &directory);
    Ok(ExitVerdict::Pass)
}

/// Prints what a command has written, and fails as it did.
fn finish_command<C: VmClock>(
    options: &VmRunOptions,
    result: &GuestResult<C>,
    directory: &Path,
) -> Result<ExitVerdict, Failure> {
    let text = |name| String::from_utf8_lossy(result.file(name).unwrap_or_default()).into_owned();
    if options.json {
        let mut object = outline(result, directory);
        object["output"] = text(OUTPUT).into();
        object["errors"] = text(ERRORS).into();
        print_json(&object)?;
    } else {
        let output = text(OUTPUT);
        if !output.is_empty() {
            say(Tone::Plain, output.trim_end_matches('\n'));
        }
    }

    result.succeeded()?;
    Ok(ExitVerdict::Pass)
}

/// Runs the job, and writes what the guest has sent into a new directory: by the free clock without
/// what it measured.
fn kept<C: VmClock>(
    options: &VmRunOptions,
    job: &GuestJob,
    stock: &Stock,
    guest: &Guest<C>,
    stop: &AtomicBool,
) -> Result<(GuestResult<C>, PathBuf), Failure> {
    // What is refused there is refused before the guest has run, not behind it.
    create_workplace(&options.out)?;
    let mut result = guest.run(&stock.work, &job.job, stop)?;
    let imported = job.foreign.as_ref().map_or(Ok(()), |probe| result.import(probe));
    let directory = new_directory(&options.out, &format!("{}-{}", result.release, C::NAME))?;
    let is_measured = |file: &GuestFile| {
        file.path.ends_with(RUN_FILE_ENDING) || (job.is_recorded && file.path == OUTPUT)
    };
    let mut wanted = result.clone();
    wanted.files.retain(|file| C::NAME != "free" || !is_measured(file));
    wanted.write_to(&directory)?;
    result.copy_log_to(&directory)?;
    result.remove_directory()?;
    imported?;
    Ok((result, directory))
}

/// Creates the first directory `NAME-1`, `NAME-2` ... that does not exist yet.
pub(super) fn new_directory(out: &Path, name: &str) -> Result<PathBuf, Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Common::File { what: "create", path, source }
    };
    create_workplace(out)?;
    let mut number = 1_u32;
    loop {
        let directory = out.join(format!("{name}-{number}"));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(failed(&directory)(error).into()),
        }
    }
}

fn outline<C: VmClock>(result: &GuestResult<C>, directory: &Path) -> Value {
    json!({
        "clock": C::NAME, "release": result.release, "status": result.status,
        "digest": result.digest(), "elapsed_s": result.elapsed.as_secs_f64(), "directory": directory,
    })
}

fn cell_json<C: Measures>((name, figures): &(String, GuestFigures<C>)) -> Value {
    json!({
        "cell": name, "samples": figures.samples, "p50_ns": figures.median_ns,
        "p99_ns": figures.p99_ns, "max_ns": figures.max_ns,
    })
}

fn say_where<C: VmClock>(result: &GuestResult<C>, directory: &Path) {
    let sentence = format!(
        "{} in {}; the guest ran for {:.1} s",
        if result.run_files().count() == 1 { "its run file is" } else { "its files are" },
        directory.display(),
        result.elapsed.as_secs_f64()
    );
    advise(Tone::Faint, &sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_recorded_and_other_words_are_commands() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let job = |words: &[String]| GuestJob::from_words(words).expect("a job");
        assert!(job(&[]).is_recorded && job(&[]).is_the_agents);
        let bench = job(&words("bench --for 4s"));
        assert!(bench.is_recorded && !bench.is_the_agents);
        let command = job(&words("uname -a"));
        assert!(!command.is_recorded && command.is_the_agents);
        assert!(!job(&words("sh -c onbeat\u{a0}repair")).is_the_agents);
    }

    #[test]
    fn each_guest_gets_a_directory_of_its_own() {
        let out = tempfile::tempdir().unwrap();
        let first = new_directory(out.path(), "6.1-virtual").unwrap();
        let second = new_directory(out.path(), "6.1-virtual").unwrap();
        assert!(first.ends_with("6.1-virtual-1") && second.ends_with("6.1-virtual-2"));
    }
}
