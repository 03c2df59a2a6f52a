//! The summary of a run from all its files, judged by a limit.

use super::imported;
use super::summary::Summary;
use super::verdict::Limit;
use super::worst_cpu;
use onbeat_record::RunFile;
use onbeat_record::run_dir::BENCH_FILE;

/// Limits to judge a run by; where one is `None`, the limit that the run itself was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgeBy {
    /// The latency limit.
    pub limit: Option<Limit>,
    /// Alarms of bus and robot that are allowed.
    pub most_alarms: Option<u64>,
    /// Looks at the run that share the level of its verdict; 0 for those that the run itself was to
    /// have.
    pub looks: usize,
}

impl From<Option<Limit>> for JudgeBy {
    fn from(limit: Option<Limit>) -> Self {
        Self { limit, ..Self::default() }
    }
}

/// A summary with the run files that it was made of.
#[derive(Clone, Debug)]
pub struct JudgedRun {
    pub summary: Summary,
    /// The run files with samples: that of a bench is not among them. Of a bench with a loop on each
    /// of several CPUs those that its cells are of: of the worst CPUs.
    pub runs: Vec<RunFile>,
    /// The run files of the other CPUs.
    pub other_cpus: Vec<RunFile>,
}

impl JudgedRun {
    /// Summarises the files of one run: of a bench with its cells, of a measurement, or of imports.
    /// `None` when they are several runs or none.
    #[must_use]
    pub fn new(mut files: Vec<RunFile>, by: JudgeBy) -> Option<Self> {
        let JudgeBy { limit, most_alarms, looks } = by;
        if looks > 0 {
            files.iter_mut().for_each(|file| look_at(file, looks));
        }
        let bench =
            files.iter().position(|run| run.bench.is_some() || run.path.ends_with(BENCH_FILE));
        if let Some(at) = bench {
            let bench = files.remove(at);
            let note = bench.bench.as_ref();
            let limit = limit.or(note.and_then(|bench| bench.limit));
            let most_alarms = most_alarms.or(note.and_then(|bench| bench.most_alarms));
            let summary =
                Summary::of_bench_against(&bench, &files, limit).with_most_alarms(most_alarms);
            let (runs, other_cpus) = worst_cpu::split(&summary.cells, files);
            return Some(Self { summary, runs, other_cpus });
        }

        let other_cpus = Vec::new();
        if !files.is_empty() && files.iter().all(|run| run.import.is_some()) {
            let summary = imported::summary(&files, limit)?;
            return Some(Self { summary, runs: files, other_cpus });
        }

        let [run] = files.as_slice() else { return None };
        let limit = limit.or(run.header.limit);
        let most_alarms = most_alarms.or(run.header.most_alarms);
        let summary = Summary::of_run(run, limit).with_most_alarms(most_alarms);
        Some(Self { summary, runs: files, other_cpus })
    }
}

fn look_at(file: &mut RunFile, looks: usize) {
    file.header.looks = looks;
    if let Some(bench) = &mut file.bench {
        bench.looks = looks;
    }
}
