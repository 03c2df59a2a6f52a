//! `onbeat report`: tables and page from the files alone.

use super::{Failure, Verdict, asked, runs, show, verdict};
use crate::cli::ReportOptions;

pub(crate) fn run(options: &ReportOptions) -> Result<Verdict, Failure> {
    if options.brief {
        let opened = runs::open(&options.run, asked(&options.limit, runs::main_series(&options.run)))?;
        show::in_brief(&opened.summary);
        return Ok(verdict(opened.summary.verdict.outcome));
    }

    runs::spare(&options.run, &options.html)?;
    let kept = runs::read_for(&options.run, asked(&options.limit, runs::main_series(&options.run)), options.mission)?;
    let extent = show::Extent { json: options.json, full: options.full, concludes: true, verbose: true };
    show::summary(&kept, extent, options.html.as_deref())?;
    Ok(verdict(kept.summary.verdict.outcome))
}
