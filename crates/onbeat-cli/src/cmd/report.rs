//! `onbeat report`: tables and page from the files alone.

use super::{Failure, Verdict, limit, runs, show, verdict};
use crate::cli::ReportOptions;

pub(crate) fn run(options: &ReportOptions) -> Result<Verdict, Failure> {
    let kept = runs::read(&options.run, limit(&options.limit))?;
    show::summary(&kept, show::Extent { json: options.json, full: options.full }, options.html.as_deref())?;
    Ok(verdict(kept.summary.verdict.outcome))
}
