//! `--resume`: finds the run that a command resumes, by the plan in its directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onbeat::bench::cell_start::path_as_json;
use onbeat::bench::measurement::ProbePlan;
use onbeat::bench::turns::{TurnsPlan, UnfinishedTurns};
use onbeat::campaign::{FoundRun, PlanFile, find_unfinished};
use onbeat::load::Load;
use onbeat::probe::hiccup::LIKE_JHICCUP;
use onbeat::probe::{RunError, Setting};
use onbeat::record::run_dir::{BENCH_FILE, RUN_FILE_ENDING, unfinished};
use onbeat::record::{LimitNote, Past, SweepNote};
use onbeat_report::units::spoken;
use serde::{Deserialize, Serialize};

use super::options::Measure;
use crate::cmd::Failure;
use crate::term::{Tone, advise};

const OPTION: &str = "--resume";
const KIND: &str = "measure";

/// What a measurement was planned to be. It is resumed by options that come to the same, however
/// they are typed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedMeasurement {
    probe: String,
    /// The probe's own options.
    given: BTreeMap<String, String>,
    /// The loop, as the options describe it.
    setting: Setting,
    loads: Vec<Load>,
    /// Releases under each load.
    releases: u64,
    tuning: Option<String>,
    limit: Option<LimitNote>,
    most_alarms: Option<u64>,
    sweep: Option<(SweepNote, Vec<f64>)>,
    #[serde(with = "path_as_json")]
    load_dir: PathBuf,
}

impl PlannedMeasurement {
    /// Returns the plan of a measurement under one load.
    pub(crate) fn new(Measure { options, .. }: &Measure, what: &ProbePlan) -> Self {
        Self {
            probe: what.probe.name.to_owned(),
            given: what
                .given
                .0
                .iter()
                .map(|(name, of)| ((*name).to_owned(), format!("{of:?}")))
                .collect(),
            setting: what.setting.clone(),
            loads: vec![options.load.clone()],
            releases: what.releases,
            tuning: options.tuning.as_ref().map(ToString::to_string),
            limit: what.limit,
            most_alarms: what.most_alarms,
            sweep: None,
            load_dir: options.load_dir.clone().unwrap_or_default(),
        }
    }

    /// Returns the plan of a measurement under several loads.
    pub(crate) fn of_turns(measure: &Measure, turns: &TurnsPlan) -> Self {
        Self {
            loads: turns.loads.clone(),
            sweep: turns.sweep.clone(),
            ..Self::new(measure, &turns.what)
        }
    }

    /// Keeps the plan in the directory of a new run.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), Failure> {
        Ok(PlanFile::new(KIND, BTreeMap::new(), self.clone()).write(dir)?)
    }
}

/// Refuses to resume a run without a grid: it has no number of releases that could be left.
pub(crate) fn admit(measure: &Measure) -> Result<(), Failure> {
    let Measure { options, given, .. } = measure;
    let is_relative = options.wait.is_relative() || given.is_set(LIKE_JHICCUP);
    if !(options.resume && is_relative) {
        return Ok(());
    }
    let why = "it ends by its time, and how much of that is left is not counted";
    Err(RunError::NoGrid { option: OPTION.to_owned(), why }.into())
}

/// Finds the latest run below `out` of this plan that has measured less than it plans.
pub(crate) fn find(out: &Path, planned: &PlannedMeasurement) -> Result<Option<Past>, Failure> {
    let name = format!("{}{RUN_FILE_ENDING}", planned.probe);
    let found = find_by(out, &name, planned, |path| Ok(unfinished(path, planned.releases)?))?;
    Ok(found.map(|found| found.unfinished))
}

/// Finds the directory of the latest run of this plan that has loads with blocks left.
pub(crate) fn find_turns(
    out: &Path,
    planned: &PlannedMeasurement,
    turns: &TurnsPlan,
) -> Result<Option<(PathBuf, UnfinishedTurns)>, Failure> {
    let open = |path: &Path| Ok(UnfinishedTurns::open(path.parent().unwrap_or(out), turns)?);
    Ok(find_by(out, BENCH_FILE, planned, open)?.map(|found| (found.dir, found.unfinished)))
}

fn find_by<T>(
    out: &Path,
    name: &str,
    planned: &PlannedMeasurement,
    open: impl Fn(&Path) -> Result<Option<T>, Failure>,
) -> Result<Option<FoundRun<PlannedMeasurement, T>>, Failure> {
    let found = find_unfinished((out, name), KIND, |found| found.plan == *planned, open)?;
    if found.is_none() {
        advise(
            Tone::Careful,
            &format!("no unfinished run of this command in {}: a new one begins", out.display()),
        );
    }
    Ok(found)
}

/// Describes the run that is resumed.
pub(crate) fn words(past: &Past) -> String {
    let how = if past.ended.is_some() { "was ended early" } else { "was cut off" };
    let period_s = past.header.timing.as_ref().map_or(0.0, |timing| timing.period_ns as f64 / 1e9);
    let measured = spoken(period_s * past.account.slots as f64);
    format!("resuming {}, which {how} after {measured} of measuring", past.path.display())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::cmd::measure::probe_plan::probe_plan;

    fn planned(line: &str) -> PlannedMeasurement {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Command::Measure(measure) = cli.command else { panic!("{line}") };
        PlannedMeasurement::new(&measure, &probe_plan(&measure, measure.options.duration))
    }

    #[test]
    fn options_that_come_to_the_same_are_one_plan_and_all_that_changes_the_run_is_in_it() {
        let begun = planned("onbeat measure timer --for 2m --period 1ms --limit 1ms");
        for same in [
            "onbeat measure timer --limit 1000us --for 120s --resume",
            "onbeat measure timer --for 2m --limit 1ms --json --verbose --out elsewhere",
            "onbeat --color never measure timer --for 2m --limit 1ms --load idle",
        ] {
            assert_eq!(planned(same), begun, "{same}");
        }
        for (option, of) in [
            ("--for 3m", "timer"),
            ("--for 2m --period 2ms", "timer"),
            ("--for 2m --priority 20", "timer"),
            ("--for 2m --cpu 0", "timer"),
            ("--for 2m --work 10us", "timer"),
            ("--for 2m --wait spin", "timer"),
            ("--for 2m --no-causes", "timer"),
            ("--for 2m --load cpu", "timer"),
            ("--for 2m --load-dir /tmp", "timer"),
            ("--for 2m --tuning PM", "timer"),
            ("--for 2m --at 99", "timer"),
            ("--for 2m", "hiccup"),
        ] {
            let other = planned(&format!("onbeat measure {of} --limit 1ms {option}"));
            assert_ne!(other, begun, "{option} {of}");
        }
    }

    #[test]
    fn a_plan_is_the_same_after_it_was_written() {
        for line in [
            "onbeat measure timer --limit 1ms --load cpu=30% --tuning PM+irq.affinity",
            "onbeat measure rtt --to 127.0.0.1",
            "onbeat measure bus --wait adaptive=200us --phase 250us --on-overrun catch-up=3",
        ] {
            let dir = tempfile::tempdir().unwrap();
            planned(line).write(dir.path()).unwrap();
            let read = PlanFile::<PlannedMeasurement>::read(dir.path(), KIND).unwrap().unwrap();
            assert_eq!(read.plan, planned(line), "{line}");
        }
    }
}
