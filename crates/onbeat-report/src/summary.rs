//! The summary of a bench or of one run: the object that `--json` prints and that the page carries.
//!
//! Specified at the end of `docs/format.md`. Everything that is shown elsewhere (tables, sentences,
//! the page) is taken from here, so that no two places can disagree.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::best::{self, Overall};
use super::by_cpu;
use super::cell::CellSummary;
use super::deadline::DeadlineVerdict;
use super::effects::{self, Effect};
use super::events::{self, AlarmVerdict};
use super::file_facts::{cell_of, last_second};
use super::focus::Focus;
use super::once::once;
use super::sweep::{self, Sweep};
use super::verdict::{Judging, Limit, Outcome};
use super::{causes, cell_figures, deadline, load_events, motion, power, worst_cpu};
use onbeat_host::machine::Host;
use onbeat_host::thread::Grant;
use onbeat_record::{Bench, Cell, RunFile, RunOrder, Stall, Tuning};

/// The schema of a bench's summary.
pub const BENCH_SCHEMA: &str = "onbeat.bench/1";
/// The schema of one run's summary: the same with one cell.
pub const MEASURE_SCHEMA: &str = "onbeat.measure/1";

/// The result of a bench or of one run, of imported runs or of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `onbeat.bench/1`; `onbeat.measure/1` of one run, `onbeat.import/1` of an imported one,
    /// `onbeat.compare/1` of a comparison.
    pub schema: String,
    /// Version of onbeat that measured.
    pub version: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// Wall clock at the start: seconds since 1970.
    pub started_unix_s: f64,
    /// Seconds from the start to the last line of the run files.
    pub elapsed_s: f64,
    /// The machine.
    pub host: Host,
    /// Privileges requested.
    pub ladder: Vec<Grant>,
    /// The limit; `None` without one.
    pub limit: Option<Limit>,
    /// Limit on alarms of bus and robot per cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_alarms: Option<u64>,
    /// Order in which the cells ran.
    pub order: RunOrder,
    /// Tunings in the order requested; `CPU 0`, `CPU 1` with `measure --cpus`.
    pub tunings: Vec<String>,
    /// Loads in the order requested.
    pub loads: Vec<String>,
    /// Period T, in nanoseconds; 0 if no cell ran.
    pub period_ns: u64,
    /// Load by load, tunings in the order requested.
    pub cells: Vec<CellSummary>,
    /// Effect of each tuning.
    pub effects: Vec<Effect>,
    /// Causes of latency, as sentences; empty without an analysis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Result of a sweep over rising load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// The command that runs the robot of the bench with the best tuning, under the heaviest load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub robot_command: Vec<String>,
    /// Verdict on the whole run.
    pub verdict: Overall,
    /// Idle states, their bound and the frequency of the cell that decides, in one line; absent
    /// where its file lacks them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// What to show first, of a bench; `None` without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<Focus>,
}

impl Summary {
    /// The summary of a bench from its own file (`bench.onbeat.hlog`) and its cells' files, judged
    /// by the limit the bench was given.
    #[must_use]
    pub fn of_bench(bench: &RunFile, cells: &[RunFile]) -> Self {
        let limit = bench.bench.as_ref().and_then(|bench| bench.limit);
        Self::of_bench_against(bench, cells, limit)
    }

    /// The same, judged by another limit, or by none.
    #[must_use]
    pub fn of_bench_against(bench: &RunFile, files: &[RunFile], limit: Option<Limit>) -> Self {
        let asked = asked(bench, files);
        let cells = cells_of(bench, files, &asked, limit);
        let elapsed_s = files.iter().chain([bench]).map(last_second).fold(0.0, f64::max);
        let of_worst = files.iter().filter(|file| worst_cpu::is_of_worst(&cells, file));
        let effects = effects::of(of_worst, &asked.loads, effects::Bootstrap::default());
        let all = (asked.tunings.as_slice(), asked.loads.as_slice());
        let mut verdict = match asked.order {
            RunOrder::AtOnce => by_cpu::overall(&cells, files, all, limit),
            _ => best::overall(&cells, files, all.0, all.1, limit),
        };
        if limit.is_none() && asked.sweep.is_none() {
            verdict.deadline = by_deadline(files, &verdict, asked.looks.max(1));
            if let Some(DeadlineVerdict { outcome, sentence, .. }) = &mut verdict.deadline {
                for load in &asked.loads {
                    load_events::weaken((&mut *outcome, &mut *sentence), &bench.loads, load);
                }
            }
        }
        let robot_command = robot_command(asked.robot_command, &asked.loads, &verdict);
        let focus = Focus::of_bench(&cells, &asked.tunings, &verdict);
        let sweep = sweep::of(bench, &cells);
        // Of a sweep the worst step is explained; eleven explanations hide it.
        let worst = sweep.as_ref().and_then(Sweep::worst).map(|step| vec![step.load.clone()]);
        let explained = worst.unwrap_or_else(|| asked.loads.clone());
        Self {
            schema: BENCH_SCHEMA.to_owned(),
            version: bench.header.version.clone(),
            command: bench.header.command.clone(),
            started_unix_s: bench.header.started_unix_s,
            elapsed_s,
            host: bench.header.host.clone(),
            ladder: if asked.ladder.is_empty() {
                bench.header.grants.clone()
            } else {
                asked.ladder
            },
            limit,
            most_alarms: None,
            order: asked.order,
            causes: causes::sentences(&cells, &explained)
                .into_iter()
                .chain(causes::cost_of_bench(bench))
                .collect(),
            sweep,
            tunings: asked.tunings,
            loads: asked.loads,
            period_ns: files
                .iter()
                .find_map(|file| Some(file.header.timing.as_ref()?.period_ns))
                .unwrap_or(0),
            power: power::in_one_line(&cells, &verdict),
            cells,
            effects,
            robot_command,
            focus,
            verdict,
        }
    }

    /// The summary of one run.
    #[must_use]
    pub fn of_run(run: &RunFile, limit: Option<Limit>) -> Self {
        let cell = cell_of(run);
        let tunings = vec![cell.tuning.clone()];
        let loads = vec![cell.load.clone()];
        let looks = run.header.looks.max(1);
        let judging = limit.map(|limit| Judging { verdicts: looks, passes: looks, ..limit.into() });
        let mut only = cell_figures::of_file(cell, run, judging);
        load_events::weaken_cell(&mut only, &run.loads);

        // What else is to be known of one run stands beside its figures: what was never answered,
        // how late an observer was.
        let incidents = only.events.as_ref().map_or(Vec::new(), |events| events.incidents.clone());
        let moved = run.motion.as_ref().map(motion::sentence);
        let is_beside = |note: &String| {
            run.remarks.contains(note) || incidents.contains(note) || moved.as_ref() == Some(note)
        };
        let (beside, notes) = only.notes.into_iter().partition(is_beside);
        only.notes = notes;
        only.derived.extend::<Vec<String>>(beside);

        let cells = vec![only];
        let mut verdict = best::overall(&cells, std::slice::from_ref(run), &tunings, &loads, limit);
        if limit.is_none() {
            let runs = [(run, loads[0].as_str())];
            verdict.deadline = deadline::judged(&runs, &runs, looks);
            if let Some(DeadlineVerdict { outcome, sentence, .. }) = &mut verdict.deadline {
                load_events::weaken((outcome, sentence), &run.loads, &loads[0]);
            }
        }
        Self {
            schema: MEASURE_SCHEMA.to_owned(),
            version: run.header.version.clone(),
            command: run.header.command.clone(),
            started_unix_s: run.header.started_unix_s,
            elapsed_s: last_second(run),
            host: run.header.host.clone(),
            ladder: run.header.grants.clone(),
            limit,
            causes: causes::sentences(&cells, &loads),
            order: RunOrder::Single,
            tunings,
            loads,
            period_ns: run.header.timing.as_ref().map_or(0, |timing| timing.period_ns),
            power: power::in_one_line(&cells, &verdict),
            cells,
            verdict,
            ..Self::default()
        }
    }

    /// Judged by a limit on alarms of bus and robot as well, when there is one: of the best
    /// tuning's cells, those with more fail.
    #[must_use]
    pub fn with_most_alarms(mut self, most: Option<u64>) -> Self {
        self.most_alarms = most;
        let Some(most) = most else { return self };
        for cell in self.cells.iter_mut().filter(|cell| cell.file.is_some()) {
            let alarms = events::judge(cell.events.as_deref(), most);
            cell.alarms = Some(load_events::weaken_alarms(alarms, cell));
        }

        let worst = self.most_alarming();
        let outcome = worst.map_or(Outcome::Inconclusive, |(_, alarms)| alarms.outcome);
        let sentence =
            worst.map_or("no cell was run".to_owned(), |(cell, alarms)| match self.cells.len() {
                1 => alarms.sentence.clone(),
                _ => format!(
                    "{}: {}",
                    super::units::cell_name(&cell.tuning, &cell.load),
                    alarms.sentence
                ),
            });

        let Overall { outcome: of_limit, sentence: of_samples, .. } = &mut self.verdict;
        *of_samples = format!("{}: {sentence}. {of_samples}", outcome.words());
        *of_limit = Some(of_limit.map_or(outcome, |of_limit| of_limit.max(outcome)));
        self
    }

    /// How the run came out by what was asked: the limit, and the jitter of a sweep. `None` where
    /// nothing was; the loop's own deadline is not asked for.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let of_sweep = self.sweep.as_ref().filter(|sweep| !sweep.is_default).map(Sweep::outcome);
        of_sweep.into_iter().chain(self.verdict.outcome).max()
    }

    /// The cell that decides a limit on alarms: of the best tuning's, the one with most.
    pub(super) fn most_alarming(&self) -> Option<(&CellSummary, &AlarmVerdict)> {
        let best = self.verdict.best.as_ref().map(|best| best.tuning.as_str());
        let is_judged = |cell: &&CellSummary| best.is_none_or(|best| cell.tuning == best);
        let judged = self
            .cells
            .iter()
            .filter(is_judged)
            .filter_map(|cell| Some((cell, cell.alarms.as_ref()?)));
        judged.max_by_key(|(_, alarms)| (alarms.outcome, alarms.alarms))
    }

    #[must_use]
    pub fn cell(&self, tuning: &str, load: &str) -> Option<&CellSummary> {
        self.cells.iter().find(|cell| cell.tuning == tuning && cell.load == load)
    }

    /// Spikes that are no latency of the machine, over all cells.
    #[must_use]
    pub fn stalls(&self) -> BTreeMap<Stall, u64> {
        best::stalls(&self.cells)
    }
}

/// The cells of a bench, load by load. The best of them is judged: they share the level.
fn cells_of(
    bench: &RunFile,
    files: &[RunFile],
    asked: &Bench,
    limit: Option<Limit>,
) -> Vec<CellSummary> {
    let of_files: Vec<Cell> = files.iter().map(cell_of).collect();
    let measured: Vec<(&RunFile, &str)> =
        files.iter().zip(&of_files).map(|(file, cell)| (file, cell.load.as_str())).collect();
    let tunings: BTreeSet<&String> = of_files.iter().map(|cell| &cell.tuning).collect();
    // Every CPU has to pass: none of them is chosen, and passing shares no level.
    let tunings = if asked.order == RunOrder::AtOnce { 1 } else { tunings.len() };
    let mut cells = Vec::new();
    for load in &asked.loads {
        let judging = limit.map(|limit| Judging {
            limit,
            verdicts: files.len() * asked.looks.max(1),
            passes: tunings * asked.looks.max(1),
            unseen: deadline::unseen(&measured, load, limit),
        });
        for tuning in &asked.tunings {
            let loops = asked.cells(tuning, load).into_iter();
            let loops = loops.map(|cell| cell_summary(cell, bench, files, judging));
            cells.extend(worst_cpu::worst_of(loops.collect()));
        }
    }

    cells
}

/// The best tuning of a bench by the deadline of its loop.
fn by_deadline(files: &[RunFile], verdict: &Overall, looks: usize) -> Option<DeadlineVerdict> {
    let is_chosen = |tuning: &str| match (&verdict.best, &verdict.worst) {
        (Some(best), _) => best.tuning == tuning,
        // All CPUs have to meet it.
        (None, worst) => worst.is_some(),
    };
    let of_files: Vec<Cell> = files.iter().map(cell_of).collect();
    let measured: Vec<(&RunFile, &str)> =
        files.iter().zip(&of_files).map(|(file, cell)| (file, cell.load.as_str())).collect();
    let of_best = measured.iter().zip(&of_files).filter(|(_, cell)| is_chosen(&cell.tuning));
    let of_best: Vec<(&RunFile, &str)> = of_best.map(|(run, _)| *run).collect();
    deadline::judged(&of_best, &measured, looks)
}

/// The options of the bench; from its cells' files where its own note is missing.
fn asked(bench: &RunFile, files: &[RunFile]) -> Bench {
    bench.bench.clone().unwrap_or_else(|| {
        let cells: Vec<Cell> = files.iter().map(cell_of).collect();
        Bench {
            tunings: once(cells.iter().map(|cell| cell.tuning.clone())),
            loads: once(cells.iter().map(|cell| cell.load.clone())),
            cpus: once(cells.iter().filter_map(|cell| cell.cpu)),
            ..Bench::default()
        }
    })
}

/// The command that runs a robot under the best tuning and the load under which its tail is
/// largest, or the heaviest one where that is none; empty without a robot or without samples.
fn robot_command(command: Vec<String>, loads: &[String], verdict: &Overall) -> Vec<String> {
    let Some(best) = verdict.best.as_ref().filter(|_| !command.is_empty()) else {
        return Vec::new();
    };
    let is_load = |load: &&String| *load != "idle";
    let load = Some(&best.load).filter(is_load).or_else(|| best::heaviest_load(loads));
    let mut words = command;
    words.extend(["--tuning".to_owned(), best.tuning.clone()]);
    if let Some(load) = load.filter(is_load) {
        words.extend(["--load".to_owned(), load.clone()]);
    }

    words
}

fn cell_summary(
    cell: Cell,
    bench: &RunFile,
    files: &[RunFile],
    judging: Option<Judging>,
) -> CellSummary {
    let refused = bench
        .bench
        .iter()
        .flat_map(|bench| &bench.not_permitted)
        .find(|refused| refused.cell == cell);
    let file = files.iter().find(|file| cell_of(file) == cell);
    let mut summary = match (file, refused) {
        (Some(file), _) => cell_figures::of_file(cell, file, judging),
        (None, Some(refused)) => CellSummary::not_permitted(cell, refused.why_not.clone()),
        (None, None) => CellSummary::missing(cell),
    };

    if file.is_some() {
        summary.notes.extend(load_events::notes(&bench.loads, &summary.load));
        load_events::weaken_cell(&mut summary, &bench.loads);
        let letters = summary.tuning.split('+').next().unwrap_or_default();
        let shielded = letters.parse::<Tuning>().is_ok_and(|tuning| tuning.shield);
        summary
            .notes
            .extend(bench.bench.iter().filter(|_| shielded).flat_map(|bench| bench.shield.clone()));
    }

    summary
}
