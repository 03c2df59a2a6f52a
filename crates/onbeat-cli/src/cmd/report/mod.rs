//! `onbeat report`: tables and page from the files alone.

mod frames;
pub(crate) mod options;

use onbeat::record::run_dir::{check_not_own_file, main_series};

use super::looping::{asked, verdict};
use super::{ExitVerdict, Failure, run_clock, runs, show};
use crate::cmd::report::options::ReportOptions;

pub(crate) fn run(options: &ReportOptions) -> Result<ExitVerdict, Failure> {
    if options.brief {
        let opened = runs::judged(&options.run, asked(&options.limit, main_series(&options.run)))?;
        run_clock::check([(options.run.as_path(), &opened.summary.host)])?;
        show::in_brief(&opened.summary);
        return Ok(verdict(opened.summary.outcome()));
    }

    check_not_own_file(&options.run, &options.html)?;
    let mut kept = runs::reported(
        &options.run,
        asked(&options.limit, main_series(&options.run)),
        options.mission,
    )?;
    run_clock::check([(options.run.as_path(), &kept.summary.host)])?;
    if let Some(log) = &options.camera {
        frames::add(&mut kept, log, options.pictures)?;
    }
    let extent = show::SummaryExtent {
        json: options.json,
        full: options.full,
        concludes: true,
        verbose: true,
    };
    show::summary(&kept, extent, options.html.as_deref())?;
    Ok(verdict(kept.summary.outcome()))
}
