//! `onbeat gate --watch`: follows a run that is being measured until its limit is decided.

use std::path::Path;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;
use onbeat::record::run_dir::{self, StoredRun};
use onbeat::record::{LimitNote, RunFile};
use onbeat::thread::Usage;
use onbeat_report::gate::{Check, Gate, limit_checks};
use onbeat_report::units::{cell_name, spoken};
use onbeat_report::verdict::looks;
use onbeat_report::{CellSummary, JudgeBy, JudgedRun, Outcome, Summary};

use super::{chosen, cut_off};
use crate::cmd::compare::names;
use crate::cmd::gate::options::GateOptions;
use crate::cmd::so_far::{NO_END_S, cpu_time_since};
use crate::cmd::watched::{LooksLeft, bounds_in_words};
use crate::cmd::{Common, Failure, runs};
use crate::signals::{self, EndOf, OnUsr1, pause};
use crate::term::{ProgressLine, Tone, advise, columns, wrapped};

/// Time between two readings of the run's files, at least.
const EVERY: Duration = Duration::from_secs(1);
/// A run is read again after so many times the CPU time that judging it took: a long one on a
/// machine that measures must not be read all the time. A wait for the CPU takes none.
const TIMES_READING: u32 = 30;
/// Time between two looks at a run that has just begun.
const STEP: Duration = Duration::from_millis(100);
/// A run that has just begun may have no file, or no header in it, for so long.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);

/// Follows the run, and returns the gate and the length of the run in seconds.
pub(super) fn watched(
    options: &GateOptions,
    path: &Path,
    limit: Option<LimitNote>,
) -> Result<(Gate, f64), Failure> {
    let Some(limit) = limit else { return Err(Common::NoRunNamed.into()) };
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("the run to be read");
    // `latest` points at another run as soon as one begins.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = names(std::slice::from_ref(&path)).concat();
    let watch = Watch { options, limit, name, path: &path };
    let first = first_reading(&path, &interruptions)?;
    watch.follow(first, &mut |took| {
        let goes_on = pause(EVERY.max(took * TIMES_READING), &interruptions.stop);
        if goes_on { Ok(Some(run_dir::read(&path)?)) } else { Ok(None) }
    })
}

/// The run as it is now; one that has just begun is waited for.
fn first_reading(path: &Path, interruptions: &Interruptions) -> Result<StoredRun, Failure> {
    let began = Instant::now();
    loop {
        match run_dir::read(path) {
            Ok(stored) => return Ok(stored),
            Err(why) => {
                let is_there = path.exists() && began.elapsed() < BEGINS_WITHIN;
                if !is_there || !pause(STEP, &interruptions.stop) {
                    return Err(why.into());
                }
            }
        }
    }
}

/// The next reading of the run, some time after one that took so long; `None` when the gate is to
/// stop.
type NextReading<'r> = dyn FnMut(Duration) -> Result<Option<StoredRun>, Failure> + 'r;

/// The run that is followed.
struct Watch<'w> {
    options: &'w GateOptions,
    limit: LimitNote,
    path: &'w Path,
    name: String,
}

/// Why a gate ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// A look decided it.
    Decided,
    /// The run is over, and was looked at before: its end is the last look.
    RunEnded,
    /// Somebody asked.
    Asked,
}

impl Watch<'_> {
    fn follow(&self, first: StoredRun, next: &mut NextReading<'_>) -> Result<(Gate, f64), Failure> {
        if !goes_on(&first.files) {
            // It is looked at once.
            let summary = self.judged(first, 0)?;
            return self.ended(&summary, End::RunEnded);
        }

        let longest_s = planned_s(&first.files);
        let looks = match own_looks(&first.files, self.limit) {
            0 => looks(longest_s.unwrap_or(NO_END_S)),
            own => first_looks(own, longest_s),
        };
        let count = looks.len();
        let mut left = LooksLeft::new(looks);
        let progress = ProgressLine::new(longest_s.unwrap_or(0.0), self.options.json);
        self.say_looks(count, &left);

        let mut stored = first;
        loop {
            let before = Usage::of_this_thread();
            let goes_on = goes_on(&stored.files);
            let summary = self.judged(stored, count)?;
            let is_due = left.is_due(summary.elapsed_s);
            let is_decided = is_due && self.outcome(&summary)? != Outcome::Inconclusive;
            progress.show(summary.elapsed_s, &self.approaching(&summary, &left));
            let end = match (goes_on, is_decided) {
                (false, _) => Err(End::RunEnded),
                (true, true) => Err(End::Decided),
                (true, false) => next(cpu_time_since(before))?.ok_or(End::Asked),
            };
            match end {
                Ok(reading) => stored = reading,
                Err(end) => {
                    progress.finish();
                    return self.ended(&summary, end);
                }
            }
        }
    }

    fn say_looks(&self, count: usize, left: &LooksLeft) {
        let next = left.next().map_or_else(String::new, spoken);
        let words = format!(
            "follows {}: {count} looks share the 5 % for a wrong verdict; the next one is after {next}",
            self.name
        );
        if !self.options.json {
            advise(Tone::Faint, &wrapped(&words, columns()));
        }
    }

    fn judged(&self, stored: StoredRun, looks: usize) -> Result<Summary, Failure> {
        let by = JudgeBy { limit: Some(self.limit), looks, ..JudgeBy::default() };
        let JudgedRun { summary, .. } = runs::judged_files(self.path, stored.files, by)?;
        Ok(summary)
    }

    fn outcome(&self, summary: &Summary) -> Result<Outcome, Failure> {
        // A bench has its first cell some seconds after its own file.
        if summary.cells.iter().all(|cell| cell.series.is_empty()) {
            return Ok(Outcome::Inconclusive);
        }
        let cells = chosen(self.options, &self.name, summary)?;
        Ok(Gate::new(&self.name, limit_checks(&self.name, &cells, self.limit)).outcome)
    }

    /// `0 % to 1.4 % over (1 % allowed), next look at 14 s`: of the cell that is farthest from PASS.
    fn approaching(&self, summary: &Summary, left: &LooksLeft) -> String {
        let cells = chosen(self.options, &self.name, summary).unwrap_or_default();
        let judged = cells.iter().filter_map(|cell| Some((*cell, cell.verdict.as_ref()?)));
        let worst = judged.max_by(|(_, a), (_, b)| a.at_most.total_cmp(&b.at_most));
        let Some((cell, verdict)) = worst else { return "no samples yet".to_owned() };
        let of = match cells.len() {
            0 | 1 => String::new(),
            _ => format!("{}: ", cell_name(&cell.tuning, &cell.load)),
        };
        let next = left.next().map_or_else(
            || "the last look is at its end".to_owned(),
            |at| format!("next look at {}", spoken(at)),
        );
        format!("{of}{}, {next}", bounds_in_words(verdict, self.limit))
    }

    fn ended(&self, summary: &Summary, end: End) -> Result<(Gate, f64), Failure> {
        let cells = chosen(self.options, &self.name, summary)?;
        let mut checks = limit_checks(&self.name, &cells, self.limit);
        match end {
            End::Decided => {}
            End::RunEnded => checks.extend(cut_off(&self.name, &cells)),
            End::Asked => checks.push(self.asked_to_stop(&cells, summary.elapsed_s)),
        }
        Ok((Gate::new(&self.name, checks), summary.elapsed_s))
    }

    /// What was seen between two looks decides nothing.
    fn asked_to_stop(&self, cells: &[&CellSummary], elapsed_s: f64) -> Check {
        let of = cells.first().map_or_else(
            || self.name.clone(),
            |cell| format!("{}, {}", self.name, cell_name(&cell.tuning, &cell.load)),
        );
        Check {
            name: "the run was followed to a look that decides".to_owned(),
            of,
            outcome: Outcome::Inconclusive,
            sentence: format!(
                "stopped after {} of a run still in progress, before a verdict was decided",
                spoken(elapsed_s)
            ),
            basis: String::new(),
        }
    }
}

/// Whether the run is being measured. Of a bench, cells that have ended are whole while it goes on.
fn goes_on(files: &[RunFile]) -> bool {
    files.iter().any(|file| file.goes_on)
}

/// Looks that the run itself is to have by this limit, because it ends when it is decided.
fn own_looks(files: &[RunFile], limit: LimitNote) -> usize {
    let bench = files.iter().find_map(|file| file.bench.as_ref());
    let of_bench = bench.filter(|bench| bench.limit == Some(limit)).map(|bench| bench.looks);
    let of_run = || {
        let headers = files.iter().map(|file| &file.header);
        headers.filter(|header| header.limit == Some(limit)).map(|header| header.looks).max()
    };
    of_bench.or_else(of_run).unwrap_or(0)
}

/// The same looks as the run itself has: so many, the last one at its end.
fn first_looks(count: usize, longest_s: Option<f64>) -> Vec<f64> {
    let mut all = looks(NO_END_S);
    all.truncate(count.saturating_sub(1));
    let before = all.last().copied().unwrap_or(0.0);
    all.push(longest_s.unwrap_or(NO_END_S).max(before));
    all
}

/// How long the run is to be, in seconds; `None` for one without an end.
fn planned_s(files: &[RunFile]) -> Option<f64> {
    if let Some(bench) = files.iter().find_map(|file| file.bench.as_ref()) {
        let cells = bench.tunings.len() * bench.loads.len();
        let planned = cells as f64 * f64::from(bench.blocks) * bench.block_s;
        return Some(planned).filter(|planned| *planned > 0.0);
    }

    let of_file = |file: &RunFile| {
        let period_ns = file.header.timing.as_ref()?.period_ns;
        let releases: Option<u64> = file.blocks.iter().map(|block| block.releases).sum();
        releases.filter(|releases| *releases > 0).map(|n| n as f64 * period_ns as f64 / 1e9)
    };
    files.iter().map(of_file).sum()
}

#[cfg(test)]
mod tests {
    use onbeat::probe;
    use onbeat::record::{
        Block, Distribution, Entry, Interval, Moments, RunWriter, Series, Timing,
    };

    use std::path::PathBuf;

    use super::*;

    const PLANNED_S: u64 = 300;
    const LIMIT: LimitNote = LimitNote { limit_ns: 200_000, at: 99.0, on: Series::ReleaseLatency };

    /// A run of a kilohertz in virtual time, `late` of each second's releases over the limit.
    struct Growing {
        run: RunFile,
        late: u64,
        ends_at_s: u64,
    }

    impl Growing {
        fn new(late: u64, ends_at_s: u64) -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("timer.onbeat.hlog");
            let header = probe::header(&[], "timer", &[Series::ReleaseLatency], 0.0);
            drop(RunWriter::create(&path, &header).expect("a run file"));
            let mut run = RunFile::read(&path).expect("it is whole");
            run.header.timing = Some(Timing {
                period_ns: 1_000_000,
                phase_ns: 0,
                avoids_tick: false,
                deadline_ns: 1_000_000,
                work_ns: 0,
                wait: "sleep".to_owned(),
                on_overrun: "skip".to_owned(),
                cpu: None,
                priority: 0,
                delay_ns: 0,
            });
            run.blocks = vec![Block {
                index: 0,
                t: 0.0,
                load: "idle".to_owned(),
                warmup: 0,
                releases: Some(PLANNED_S * 1_000),
            }];
            Self { run, late, ends_at_s }
        }

        fn after(&mut self, seconds: u64) -> StoredRun {
            for second in self.run.intervals.len() as u64..seconds {
                let late = self.late;
                let ns = (0..1_000).map(|i| if i < late { 900_000 } else { 20_000 });
                let mut moments = Moments::default();
                ns.clone().for_each(|ns| moments.add(ns));
                let interval = Interval {
                    t: second as f64,
                    length: 1.0,
                    cycles: 1_000,
                    series: [(Series::ReleaseLatency, moments)].into(),
                    ..Interval::default()
                };
                self.run.intervals.push(interval);
                self.run.entries.push(Entry {
                    series: Series::ReleaseLatency,
                    t: second as f64,
                    length: 1.0,
                    block: Some(0),
                    counts: Distribution::from_values(ns),
                });
            }
            self.run.goes_on = seconds < self.ends_at_s;
            StoredRun { dir: PathBuf::new(), files: vec![self.run.clone()], texts: Vec::new() }
        }
    }

    fn options() -> GateOptions {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            gate: GateOptions,
        }
        let words = ["gate", "run", "--limit", "200us", "--at", "99", "--watch", "--json"];
        Only::parse_from(words).gate
    }

    /// The gate of a run that is read after each second, and the second at which it ended.
    fn followed(mut run: Growing) -> (Gate, u64) {
        let options = options();
        let name = "run".to_owned();
        let watch = Watch { options: &options, limit: LIMIT, path: Path::new("run"), name };
        let first = run.after(1);
        let mut second = 1;
        let (gate, elapsed_s) = watch
            .follow(first, &mut |_| {
                second += 1;
                Ok(Some(run.after(second)))
            })
            .expect("it can be judged");
        assert!((elapsed_s - second as f64).abs() < 1e-9);
        (gate, second)
    }

    /// The first look at which the same run, measured with `--until decided`, is decided.
    fn decided_by_itself(late: u64) -> Option<u64> {
        let all = looks(PLANNED_S as f64);
        let mut run = Growing::new(late, PLANNED_S);
        run.run.header.limit = Some(LIMIT);
        run.run.header.looks = all.len();
        all.into_iter().map(|look| look as u64).find(|&look| {
            let StoredRun { files, .. } = run.after(look);
            let judged = JudgedRun::new(files, JudgeBy::default()).expect("one run");
            judged.summary.verdict.outcome != Some(Outcome::Inconclusive)
        })
    }

    #[test]
    fn a_run_that_is_followed_is_decided_at_the_look_that_would_end_it() {
        for (late, outcome) in [(0, Outcome::Pass), (1_000, Outcome::Fail), (100, Outcome::Fail)] {
            let (gate, second) = followed(Growing::new(late, PLANNED_S));
            assert_eq!(gate.outcome, outcome, "{late}: {:?}", gate.checks);
            assert_eq!(Some(second), decided_by_itself(late), "{late} late of each thousand");
            assert!(second < PLANNED_S, "{late}: {second} s");
        }
        assert_eq!(
            followed(Growing::new(1_000, PLANNED_S)).1,
            10,
            "a clear FAIL at the first look"
        );
    }

    #[test]
    fn between_two_looks_nothing_is_decided() {
        let at = looks(PLANNED_S as f64);
        for late in [0, 100, 1_000] {
            let (_, second) = followed(Growing::new(late, PLANNED_S));
            assert!(at.contains(&(second as f64)), "{second} s is not a look");
        }
    }

    #[test]
    fn a_run_that_ends_undecided_says_what_would_decide_it() {
        let (gate, second) = followed(Growing::new(10, 57));
        assert_eq!((gate.outcome, second), (Outcome::Inconclusive, 57), "{:?}", gate.checks);
        assert_eq!(gate.outcome.exit_status(), 3);
        assert!(gate.checks[0].sentence.contains("would decide it"), "{}", gate.checks[0].sentence);
    }

    #[test]
    fn a_gate_that_is_stopped_decides_nothing_from_what_it_saw_between_looks() {
        let options = options();
        let name = "run".to_owned();
        let watch = Watch { options: &options, limit: LIMIT, path: Path::new("run"), name };
        let first = Growing::new(1_000, PLANNED_S).after(9);
        let (gate, _) = watch.follow(first, &mut |_| Ok(None)).expect("it can be judged");
        let stopped = gate.checks.last().expect("a check");
        assert_eq!(stopped.outcome, Outcome::Inconclusive);
        assert!(stopped.sentence.contains("stopped after 9.0 s"), "{}", stopped.sentence);
    }

    #[test]
    fn a_run_with_looks_of_its_own_is_looked_at_as_often() {
        assert_eq!(first_looks(11, Some(300.0)), looks(300.0));
        assert_eq!(first_looks(1, Some(30.0)), [30.0]);
        // A bench says how often it is looked at, not how long it takes at most.
        let of_bench = first_looks(8, Some(20.0));
        assert_eq!((of_bench.len(), of_bench[..3].to_vec()), (8, vec![10.0, 14.0, 20.0]));
    }
}
