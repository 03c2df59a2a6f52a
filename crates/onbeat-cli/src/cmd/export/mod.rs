//! `onbeat export`: writes a run in formats of other programs.

mod formats;
pub(crate) mod options;
mod spike;

use std::path::Path;

use onbeat::record::run_dir::{check_not_own_file, read_cells};
use onbeat_report::spikes;

use super::failure::spike::pasted;
use super::{Common, ExitVerdict, Failure, show, whole};
use crate::cmd::export::options::ExportOptions;
use crate::term::{Tone, advise, letters, say};

/// What to write, and where.
#[derive(Clone, Copy, Debug)]
enum SpikeExport<'o> {
    /// The events around a spike.
    Spike(spike::TraceForm, &'o Path),
}

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
    let choice = spike::SpikeChoice {
        run: &options.run,
        cell: options.cell.as_deref(),
        number: options.spike,
    };
    if options.list {
        list(&choice, &runs)?;
    }

    for target in targets(options) {
        match target {
            SpikeExport::Spike(form, to) => {
                let found = choice.find(&runs)?;
                whole::write(to, &found.written(form)?)?;
                advise(Tone::Faint, &found.words(form, to));
            }
        }
    }

    Ok(())
}

fn targets(options: &ExportOptions) -> Vec<SpikeExport<'_>> {
    let perfetto =
        options.perfetto.iter().map(|to| SpikeExport::Spike(spike::TraceForm::Perfetto, to));
    let ftrace = options.ftrace.iter().map(|to| SpikeExport::Spike(spike::TraceForm::Ftrace, to));
    perfetto.chain(ftrace).collect()
}

fn list(choice: &spike::SpikeChoice<'_>, runs: &[onbeat::record::RunFile]) -> Result<(), Failure> {
    let all = choice.listed(runs)?;
    let kept = all
        .iter()
        .filter(|listed| listed.spike.window == Some(onbeat::record::WindowFate::Kept))
        .count();
    let title = format!("{} spikes, worst first; the events around {kept} are kept", all.len());
    show::table(&spikes::table(title, &all, letters()));
    if let Some(first) =
        all.iter().find(|listed| listed.spike.window == Some(onbeat::record::WindowFate::Kept))
    {
        let line =
            format!("onbeat export {} {} --perfetto FILE", pasted(choice.run), first.options());
        say(Tone::Faint, &format!("events around {}:  {line}", first.words()));
    }

    Ok(())
}
