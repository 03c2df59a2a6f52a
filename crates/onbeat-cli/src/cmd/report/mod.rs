//! `onbeat report`: tables and page from the files alone.

mod frames;
pub(crate) mod options;

use onbeat::record::run_dir::{check_not_own_file, main_series};
use onbeat_report::markdown::markdown;
use onbeat_report::picture::picture;

use super::looping::{asked, verdict};
use super::{Common, ExitVerdict, Failure, run_clock, runs, show, whole};
use crate::cmd::report::options::ReportOptions;

pub(crate) fn run(options: &ReportOptions) -> Result<ExitVerdict, Failure> {
    let by = asked(&options.limit, main_series(&options.run));
    if options.brief {
        let opened = runs::judged(&options.run, by)?;
        run_clock::check([(options.run.as_path(), &opened.summary.host)])?;
        show::in_brief(&opened.summary);
        return Ok(verdict(opened.summary.outcome()));
    }

    let files = [&options.html, &options.markdown, &options.png];
    for to in files {
        check_not_own_file(&options.run, to)?;
    }
    let taken = files.into_iter().flatten().filter(|to| whole::is_standard_output(to)).count();
    if taken + usize::from(options.json) > 1 {
        return Err(Common::TwoDocuments.into());
    }
    whole::check_apart(files.into_iter().flatten())?;
    let mut kept = runs::reported(&options.run, by, options.mission)?;
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
    if let Some(to) = &options.markdown {
        whole::write(to, markdown(&kept.summary).as_bytes())?;
    }
    if let Some(to) = &options.png {
        let judged = runs::judged(&options.run, by)?;
        whole::write(to, &picture(&judged.summary, &judged.runs)?)?;
    }
    // What goes to standard output goes there alone.
    if taken > 0 {
        kept.write_page(options.html.as_deref())?;
        return Ok(verdict(kept.summary.outcome()));
    }
    show::summary(&kept, extent, options.html.as_deref())?;
    Ok(verdict(kept.summary.outcome()))
}
