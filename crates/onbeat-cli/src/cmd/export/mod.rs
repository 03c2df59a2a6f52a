//! `onbeat export`: writes a run in formats of other programs.

mod formats;
pub(crate) mod options;
mod spike;

use std::path::Path;

use onbeat::record::run_dir::{check_not_own_file, read_cells};
use onbeat::record::{RunFile, WindowFate};
use onbeat_report::spikes::{self, ListedSpike};

use super::failure::spike::pasted;
use super::{Common, ExitVerdict, Failure, show, whole};
use crate::cmd::export::options::ExportOptions;
use crate::term::{Tone, advise, counted, letters, say};
use spike::{SpikeChoice, TraceForm};

pub(crate) fn run(options: &ExportOptions) -> Result<ExitVerdict, Failure> {
    let formats = &options.formats;
    let files = [
        &formats.csv,
        &formats.json,
        &formats.parquet,
        &formats.openmetrics,
        &options.perfetto,
        &options.ftrace,
    ];
    check_not_own_file(&options.run, files.into_iter().flatten())?;
    let taken = files.into_iter().flatten().filter(|to| whole::is_standard_output(to)).count();
    if taken + usize::from(options.list) > 1 {
        return Err(Common::TwoDocuments.into());
    }
    whole::check_apart(files.into_iter().flatten())?;
    if options.formats.any() {
        formats::write(&options.run, &options.formats)?;
    }

    if options.list || !targets(options).is_empty() {
        spikes_of(options)?;
    }

    Ok(ExitVerdict::Pass)
}

fn spikes_of(options: &ExportOptions) -> Result<(), Failure> {
    let runs = read_cells(&options.run)?;
    let choice =
        SpikeChoice { run: &options.run, cell: options.cell.as_deref(), number: options.spike };
    if options.list {
        list(&choice, &runs)?;
    }

    for (form, to) in targets(options) {
        let found = choice.find(&runs)?;
        whole::write(to, &found.written(form)?)?;
        advise(Tone::Faint, &found.words(form, to));
    }

    Ok(())
}

/// The forms in which the events around a spike are written, and where.
fn targets(options: &ExportOptions) -> Vec<(TraceForm, &Path)> {
    let all = [(TraceForm::Perfetto, &options.perfetto), (TraceForm::Ftrace, &options.ftrace)];
    all.into_iter().filter_map(|(form, to)| Some((form, to.as_deref()?))).collect()
}

fn list(choice: &SpikeChoice<'_>, runs: &[RunFile]) -> Result<(), Failure> {
    let all = choice.listed(runs)?;
    let is_kept = |listed: &&ListedSpike<'_>| listed.spike.window == Some(WindowFate::Kept);
    let kept = all.iter().filter(is_kept).count();
    let title = match all.len() {
        1 if kept == 1 => "1 spike; the events around it are kept".to_owned(),
        1 => "1 spike; the events around it are not kept".to_owned(),
        of => format!("{}, worst first; the events around {kept} are kept", counted(of, "spike")),
    };
    show::table(&spikes::table(title, &all, letters()));
    if let Some(first) = all.iter().find(is_kept) {
        let line =
            format!("onbeat export {} {} --perfetto FILE", pasted(choice.run), first.options());
        say(Tone::Faint, &format!("events around {}:  {line}", first.words()));
    }

    Ok(())
}
