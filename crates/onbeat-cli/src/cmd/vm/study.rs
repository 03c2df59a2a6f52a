//! `onbeat vm study`: the staged study.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat::campaign::CampaignEvent;
use onbeat::host::Host;
use onbeat_lab::study::{
    self, LEAST_RUNS, StudyClock, StudyError, StudyFile, StudyRequest, StudyResults,
};
use onbeat_lab::vm::{
    BootImage, CANARY_LIMIT, ForeignProbe, Free, Virtual, VmClock, VmError, choose_accelerator,
};
use onbeat_report::Table;
use onbeat_report::units::spoken;
use onbeat_tune::{HostFiles, LiveHost};

use super::options::{KernelOptions, KernelParts, StockOptions};
use super::stock::Stock;
use super::study_options::VmStudyOptions;
use crate::cmd::Common;
use crate::cmd::cells::{CellLines, say_missing};
use crate::cmd::failure::vm::VmFailure;
use crate::cmd::repair::repair_first;
use crate::cmd::{ExitVerdict, Failure, typed};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::state::journal_directory;
use crate::term::{Tone, advise, columns, say, wrapped};

/// Names of the reports in the directory of a study.
const REPORT: &str = "report.md";
const PAGE: &str = "page";
/// Longest time in which a guest of the user's boots under KVM.
const OWN_CANARY_LIMIT: Duration = Duration::from_secs(120);

pub(super) fn run(options: &VmStudyOptions, stock: &StockOptions) -> Result<ExitVerdict, Failure> {
    let mut study = asked(options)?;
    if !LiveHost::new().is_root() {
        return Err(StudyError::NeedsRoot { command: typed().join(" ") }.into());
    }
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("its guest");
    let stop = &interruptions.stop;
    // What an interrupted onbeat left would be taken for the machine's own values.
    repair_first()?;
    let stock = Stock::open(stock)?.with_agent();
    let boot = boot(options, &mut study, &stock)?;

    let out = options.out.clone().unwrap_or_else(|| default_out(options));
    let (chosen, because) = accelerator(&study, &stock, &boot, stop)?;
    let myself = std::env::current_exe().map_err(Common::OwnProgram)?;
    let request = StudyRequest {
        study: &study,
        out: &out,
        journals: &journal_directory(),
        work: &stock.work,
        boot: &boot,
        onbeat: &myself,
        command: &typed().join(" "),
        because: &because,
    };

    match chosen {
        ChosenClock::Real(clock) => conducted(&request, |_| clock.clone(), options, stop),
        ChosenClock::Virtual => {
            // The same seed would give the same figures.
            let clock = |run| Virtual { seed: run, ..Virtual::default() };
            conducted(&request, clock, options, stop)
        }
        ChosenClock::Free => conducted(&request, |_| Free, options, stop),
    }
}

fn asked(options: &VmStudyOptions) -> Result<StudyFile, Failure> {
    let mut study = match &options.file {
        Some(path) => StudyFile::read(path)
            .map_err(|source| VmFailure::File { path: path.clone(), source })?,
        None => StudyFile::default(),
    };
    if let Some(clock) = options.clock {
        study.clock = clock;
    }
    if let (Some(line), Some(format)) = (&options.probe, options.format) {
        study.probe = Some(ForeignProbe::from_line(line, format));
    }
    Ok(if options.quick { study.quick() } else { study })
}

/// What the guests boot: the user's own guest, with its CPUs and memory, or the kernel of the file.
fn boot(
    options: &VmStudyOptions,
    study: &mut StudyFile,
    stock: &Stock,
) -> Result<BootImage, Failure> {
    if let Some(boot) = stock.own_guest(&options.own)? {
        if let Some(own) = &boot.own {
            (study.cpus, study.memory_mib) = (own.cpus, own.memory_mib);
        }
        return Ok(boot);
    }
    // A guest of onbeat's own has lines when its servo is at one.
    let gpio = study.servo.as_ref().is_some_and(|servo| servo.starts_with("gpio:"));
    let parts = KernelParts { modules: study.modules.clone(), gpio, ..KernelParts::default() };
    stock.boot_of(&KernelOptions { kernel: study.kernel.clone(), parts })
}

/// The clock that a study's guests run by.
enum ChosenClock {
    Real(onbeat_lab::vm::Real),
    Virtual,
    Free,
}

/// The clock of the guests, and why it is not the real one.
fn accelerator(
    study: &StudyFile,
    stock: &Stock,
    boot: &BootImage,
    stop: &AtomicBool,
) -> Result<(ChosenClock, String), Failure> {
    let asked_for = || "asked for by the study".to_owned();
    let is_by_login = boot.own.as_ref().is_some_and(|own| own.login.is_some());
    let reason = match study.clock {
        StudyClock::Virtual if is_by_login => return Err(VmError::LoginInVirtualTime.into()),
        StudyClock::Virtual => return Ok((ChosenClock::Virtual, asked_for())),
        StudyClock::Free => return Ok((ChosenClock::Free, asked_for())),
        StudyClock::Real => {
            return Ok((ChosenClock::Real(stock.real_clock(boot, stop)?), String::new()));
        }
        StudyClock::Auto => {
            match choose_accelerator(&stock.work, boot, canary_limit(boot), stop)? {
                Ok(real) => return Ok((ChosenClock::Real(real), String::new())),
                Err(reason) => reason,
            }
        }
    };
    Ok(if study.cpus > 1 && boot.own.is_some() {
        (ChosenClock::Free, format!("{reason}; the virtual clock runs guests with one CPU"))
    } else if is_by_login {
        (ChosenClock::Free, format!("{reason}; nobody can log in in virtual time"))
    } else {
        (ChosenClock::Virtual, reason.to_string())
    })
}

/// A guest of the user's has to boot before it answers.
fn canary_limit(boot: &BootImage) -> Duration {
    if boot.own.is_some() { OWN_CANARY_LIMIT } else { CANARY_LIMIT }
}

fn default_out(options: &VmStudyOptions) -> PathBuf {
    let own = options.own.qemu.as_deref().or(options.own.domain.as_deref());
    let stem = options.file.as_deref().or(own).and_then(Path::file_stem);
    let name = stem.map_or_else(|| "default".into(), ToOwned::to_owned);
    let mut path = Path::new("onbeat-study").join(name);
    if options.quick {
        path.as_mut_os_string().push("-quick");
    }
    path
}

fn conducted<C: VmClock>(
    request: &StudyRequest<'_>,
    clock: impl Fn(u32) -> C,
    options: &VmStudyOptions,
    stop: &AtomicBool,
) -> Result<ExitVerdict, Failure> {
    let begin = |due, stored, waiting| begun(options, request.study, [due, stored, waiting]);
    let mut lines = CellLines::new(&begin);
    let mut report = |event: CampaignEvent<'_>| lines.show(&event);
    let results = study::conduct(request, clock, stop, &mut report)?;
    let tables = results.tables()?;
    for table in &tables {
        say(Tone::Plain, &format!("\n{}", table.to_text(columns()).trim_end()));
    }

    if !results.measured.is_empty() {
        write_report(request.out, &tables, &results)?;
        write_pages(request, &results);
    }
    Ok(conclude(&results, request.out, stop.load(Ordering::Relaxed)))
}

/// The sentence before the first measurement.
fn begun(
    options: &VmStudyOptions,
    study: &StudyFile,
    [due, stored, waiting]: [usize; 3],
) -> String {
    let runs = study.runs;
    if runs < LEAST_RUNS {
        let how = if options.quick { "--quick: " } else { "" };
        warn(&format!("{how}{runs} run of each measurement; a comparison needs {LEAST_RUNS}"));
    }

    let at_least = spoken(study.duration.as_secs_f64() * due as f64);
    format!(
        "{due} measurements to make, at least {at_least}; {stored} are stored, {waiting} wait for a reboot"
    )
}

fn warn(text: &str) {
    advise(Tone::Careful, &wrapped(text, columns()));
}

/// Writes the tables as Markdown.
fn write_report(out: &Path, tables: &[Table], results: &StudyResults) -> Result<(), Failure> {
    let path = out.join(REPORT);
    let mut text = "# Real-time guests on this machine\n".to_owned();
    let baseline = &results.baseline;
    text += &format!(
        "\n{}. The guest's CPUs on it: {}.\n",
        Host::read().in_one_line(),
        baseline.host_cpus
    );
    if baseline.clock != "real" {
        text += &format!("\nGuests ran by the {} clock: {}.\n", baseline.clock, baseline.because);
    }

    if let Some(sentence) = outstanding(results) {
        text += &format!("\n{sentence}\n");
    }
    for table in tables {
        text += &format!("\n{}", table.to_markdown());
    }
    fs::write(&path, text).map_err(|source| Common::File { what: "write", path, source }.into())
}

/// Writes a page per clock with the distributions of all rows, by `onbeat compare`.
fn write_pages(request: &StudyRequest<'_>, results: &StudyResults) {
    let clocks: BTreeSet<&str> = results.measured.iter().map(|one| one.clock.as_str()).collect();
    for clock in clocks {
        let of_clock = results.measured.iter().filter(|one| one.clock == clock);
        let files: Vec<PathBuf> = of_clock.flat_map(|one| results.store.run_files(one)).collect();
        if files.len() < 2 {
            continue;
        }

        let page = request.out.join(format!("{PAGE}-{clock}.html"));
        let mut command = Command::new(request.onbeat);
        command.arg("compare").args(&files).arg("--html").arg(&page);
        let ended =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        // Its verdict on the differences is another statement.
        if ended.is_ok_and(|status| status.code() != Some(2)) && page.is_file() {
            advise(Tone::Faint, &format!("page     {}", page.display()));
        } else {
            warn(&format!("the page {} was not written; onbeat compare does it", page.display()));
        }
    }
}

/// What waits for a reboot, and how to make it.
fn outstanding(results: &StudyResults) -> Option<String> {
    let number = results.waiting;
    let noun = if number == 1 { "measurement waits" } else { "measurements wait" };
    let how = if results.outstanding.is_empty() {
        "remove the parameters of this study from the kernel command line".to_owned()
    } else {
        format!(
            "add to the kernel command line of this machine, or write by `onbeat tune persist`: {}",
            results.outstanding.join(" ")
        )
    };

    (number > 0).then(|| {
        format!(
            "{number} {noun} for a reboot: {how}. Restart the machine, then run the same command: it resumes."
        )
    })
}

fn conclude(results: &StudyResults, out: &Path, stopped: bool) -> ExitVerdict {
    if let Some(sentence) = outstanding(results) {
        warn(&sentence);
    }
    say_missing(results.missing, "measurements", stopped);
    advise(Tone::Faint, &format!("report   {}", out.join(REPORT).display()));

    ended(results.missing + results.waiting + results.failed.len())
}

/// The verdict of a study by its measurements without a result.
const fn ended(without_result: usize) -> ExitVerdict {
    if without_result == 0 { ExitVerdict::Pass } else { ExitVerdict::Inconclusive }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_with_a_measurement_left_is_inconclusive() {
        assert_eq!([0, 1, 12].map(|left| ended(left).status()), [0, 3, 3]);
    }
}
