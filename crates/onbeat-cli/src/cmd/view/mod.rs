//! `onbeat view`: the page of a run that is being measured, in a browser of this machine.
//!
//! A process of its own follows the run files, so that the measuring one neither reads them nor
//! grows; `--view` of other commands starts it.

mod beside;
mod feed;
pub(crate) mod options;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;
use onbeat::record::run_dir::{self, RunDirError};
use onbeat::thread::{Usage, run_as_ordinary, stay_off_cpu};
use onbeat_report::page::PLACE;
use onbeat_robot::live_view::{PageServer, PageServerPlan, ViewLimits};

use super::failure::spike::pasted;
use super::robot::view_sentence;
use super::so_far::cpu_time_since;
use super::{Common, ExitVerdict, Failure, runs};
use crate::signals::{self, EndOf, OnUsr1, pause};
use crate::term::{Tone, advise};
use feed::{Feed, RunSource};
use options::ViewOptions;

pub(crate) use beside::{BesideView, check_port};

/// Time between two looks at the run files.
const EVERY: Duration = Duration::from_millis(500);
/// Time between two looks whether the run is there, or the last figures are.
const STEP: Duration = Duration::from_millis(100);
/// A run that has just begun may have no file, or no header in it, for so long.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);
/// Time between two summaries of a run in progress, at least.
const SUMMARY_EVERY: Duration = Duration::from_secs(5);
/// A run is summarised again after so many times the CPU time that it took: at most a hundredth of
/// a CPU. Waiting for one or for the disk takes none, and does not leave old figures for minutes.
const TIMES_SUMMARY: u32 = 100;
/// Time for the last figures at the end of the run.
const LAST_WITHIN: Duration = Duration::from_secs(5);
/// What stands in the place of the page's data where it follows a run.
const LIVE: &str = "live";
/// The page may connect to its own address, and to no other.
const POLICY: (&str, &str) = ("default-src 'none'; ", "default-src 'none'; connect-src 'self'; ");

/// A run cannot be shown.
#[derive(Debug, thiserror::Error)]
enum ViewFailure {
    #[error(
        "{} is not being measured: it has ended, or was cut off; `onbeat report {}` writes its page",
        run.display(), pasted(run)
    )]
    Ended { run: PathBuf },
}

pub(crate) fn run(options: &ViewOptions) -> Result<ExitVerdict, Failure> {
    run_as_ordinary();
    options.avoid_cpu.into_iter().for_each(stay_off_cpu);
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("the run to be read");
    let path = begun(&options.run, &interruptions)?;
    if !run_dir::goes_on(&path) {
        return Err(ViewFailure::Ended { run: path }.into());
    }

    let feed = Arc::new(Feed::default());
    feed.take(&path)?;
    let plan = PageServerPlan {
        port: options.port,
        page: Cow::Owned(page()),
        avoid_cpu: options.avoid_cpu,
        limits: ViewLimits::for_browsers(options.browsers.into()),
    };
    let server = PageServer::open(plan, RunSource(Arc::clone(&feed)))?;
    advise(Tone::Plain, &format!("live view: {}", server.address()));
    follow(&path, &feed, &server, &interruptions)?;
    advise(Tone::Faint, &view_sentence(&server.finish()));
    Ok(ExitVerdict::Pass)
}

/// The page that follows a run.
fn page() -> String {
    let (policy, with_events) = POLICY;
    runs::TEMPLATE.replacen(PLACE, LIVE, 1).replacen(policy, with_events, 1)
}

/// The run that is followed: `latest` points at another one as soon as that begins. One that has just
/// begun is waited for.
pub(crate) fn begun(path: &Path, interruptions: &Interruptions) -> Result<PathBuf, Failure> {
    let began = Instant::now();
    loop {
        let there = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match run_dir::run_files(&there) {
            Ok(files) if files.iter().all(|file| file.exists()) => return Ok(there),
            Ok(_) if began.elapsed() > BEGINS_WITHIN => {
                let missing = std::fs::metadata(&there).err();
                return Err(missing.map_or_else(
                    || RunDirError::NoRun { path: there.clone() }.into(),
                    |why| Common::file("read", &there)(why).into(),
                ));
            }
            Err(why) if began.elapsed() > BEGINS_WITHIN => return Err(why.into()),
            _ => {}
        }
        if !pause(STEP, &interruptions.stop) {
            return Err(RunDirError::NoRun { path: there }.into());
        }
    }
}

/// Follows the run to its end, and hands on its last figures.
fn follow(
    path: &Path,
    feed: &Feed,
    server: &PageServer,
    interruptions: &Interruptions,
) -> Result<(), Failure> {
    let mut next_summary = Instant::now() + SUMMARY_EVERY;
    while run_dir::goes_on(path) {
        if !pause(EVERY, &interruptions.stop) {
            return Ok(());
        }
        feed.take(path)?;
        server.take_notices().iter().for_each(|why| advise(Tone::Careful, &why.to_string()));
        if feed.is_followed() && Instant::now() >= next_summary {
            let before = Usage::of_this_thread();
            // A file that is just being begun has its figures the next time.
            if let Ok(judged) = runs::judged(path, None) {
                feed.show(serde_json::to_string(&judged.summary)?);
            }
            let taken = cpu_time_since(before);
            next_summary = Instant::now() + SUMMARY_EVERY.max(taken * TIMES_SUMMARY);
        }
    }

    feed.take(path)?;
    // As `onbeat report` has it.
    feed.show(serde_json::to_string(&runs::reported(path, None, None)?.summary)?);
    let until = Instant::now() + LAST_WITHIN;
    while feed.is_behind() && Instant::now() < until && pause(STEP, &interruptions.stop) {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_follows_a_run_connects_to_its_own_address_and_has_no_data() {
        let page = page();
        assert_eq!(page.matches("connect-src 'self'").count(), 1);
        assert!(page.contains(">live</script>"), "the place of the data says so");
        assert!(!page.contains(PLACE));
        assert!(!runs::TEMPLATE.contains("connect-src"), "the page in a file connects to nothing");
    }
}
