//! Several threads of a program, measured together: a run of each, and the worst of their verdicts.

use std::path::PathBuf;

use onbeat::probe::{Interruptions, Origin};
use onbeat::record::Recorder;
use onbeat::record::run_dir::{NewRunDir, RUN_FILE_ENDING};
use onbeat_watch::collect::Collector;
use onbeat_watch::measure::{WatchPlan, WatchedLoop};
use onbeat_watch::survey::Survey;
use onbeat_watch::together::measure_together;

use super::options::WatchOptions;
use super::{Measured, PROBE, conclude, plan};
use crate::cmd::{ExitVerdict, Failure, runs, worse};
use crate::term::{ProgressLine, say_error};

/// Threads whose causes are recorded: each recorder costs every wake-up of all of them.
const MOST_WITH_CAUSES: usize = 4;

/// What is to be measured.
pub(super) struct Asked<'a> {
    pub(super) options: &'a WatchOptions,
    pub(super) seen: &'a Survey,
    pub(super) loops: &'a [WatchedLoop],
}

pub(super) fn record(
    asked: &Asked<'_>,
    collector: &mut Collector,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let Asked { options, seen, loops } = asked;
    let dirs = loops.iter().map(|_| NewRunDir::create(&options.output.out));
    let dirs = dirs.collect::<Result<Vec<_>, _>>()?;
    let file = format!("{PROBE}{RUN_FILE_ENDING}");
    let paths: Vec<PathBuf> = dirs.iter().map(|dir| dir.path().join(&file)).collect();
    let plans = plans(asked, &paths);

    let progress = ProgressLine::new(options.duration as f64 / 1e9, options.output.json);
    let mut report = |elapsed_s: f64, _: &mut Recorder| {
        dirs.iter().for_each(runs::begin);
        progress.show(elapsed_s, "measuring");
    };
    let all = measure_together(collector, &plans, interruptions, &mut report);
    progress.finish();

    let mut worst = ExitVerdict::Pass;
    let mut failed: Option<Failure> = None;
    for (place, measured) in all.into_iter().enumerate() {
        let measured = measured.map_err(Failure::from);
        let (watched, findings) = (&loops[place], plans[place].header.findings.as_slice());
        let concluded = runs::keep_if_begun(&dirs[place], measured).and_then(|result| {
            let of_thread = Measured { seen, watched, result: &result, findings };
            conclude(options, &of_thread, &paths[place])
        });
        match concluded {
            Ok(verdict) => worst = worse(worst, verdict),
            // The others have been measured all the same; what failed last is said at the end.
            Err(why) => {
                if let Some(before) = failed.replace(why) {
                    say_error(&before.to_string());
                }
            }
        }
    }
    failed.map_or(Ok(worst), Err)
}

fn plans<'p>(asked: &Asked<'_>, paths: &'p [PathBuf]) -> Vec<WatchPlan<'p>> {
    let Asked { options, loops, .. } = asked;
    let origin = Origin::now();
    let of = |(place, (watched, path)): (usize, (&WatchedLoop, &'p PathBuf))| WatchPlan {
        causes: !options.no_causes && place < MOST_WITH_CAUSES,
        ..plan(options, watched, path, origin)
    };
    loops.iter().zip(paths).enumerate().map(of).collect()
}
