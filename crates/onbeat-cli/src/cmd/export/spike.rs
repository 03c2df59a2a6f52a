//! The spike that a command is about, and the events around it.

use std::path::Path;

use onbeat::cause::ftrace::write_as_kernel;
use onbeat::cause::{Explanation, perfetto};
use onbeat::record::{Cell, RunFile, WindowFate, WindowNote};
use onbeat_report::spikes::{self, ListedSpike};
use onbeat_report::units::{count, time_ns};

use crate::cmd::failure::spike::NoSpike;
use crate::term::letters;

/// The format of a spike's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceForm {
    Perfetto,
    Ftrace,
}

/// The options that choose a spike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpikeChoice<'o> {
    pub(crate) run: &'o Path,
    pub(crate) cell: Option<&'o str>,
    pub(crate) number: Option<u64>,
}

/// A spike with the events around it.
pub(crate) struct SpikeWindow<'r> {
    listed: ListedSpike<'r>,
    window: &'r WindowNote,
    kernel: &'r str,
}

impl SpikeChoice<'_> {
    /// All spikes of its cell, worst first; at least one.
    pub(crate) fn listed<'r>(&self, runs: &'r [RunFile]) -> Result<Vec<ListedSpike<'r>>, NoSpike> {
        let run = || self.run.to_owned();
        if runs.first().is_some_and(|of| of.import.is_some()) {
            return Err(NoSpike::Imported { run: run() });
        }
        let all = spikes::listed(runs);
        let Some(cell) = self.cell else {
            return if all.is_empty() { Err(NoSpike::None { run: run() }) } else { Ok(all) };
        };
        let names: Vec<String> = runs.iter().filter_map(name_of_cell).collect();

        if names.is_empty() {
            return Err(NoSpike::NoCells { run: run() });
        }
        if !names.iter().any(|name| name == cell) {
            return Err(NoSpike::NoSuchCell {
                run: run(),
                cell: cell.to_owned(),
                has: names.join(", "),
            });
        }

        let of_cell: Vec<ListedSpike<'r>> =
            all.into_iter().filter(|listed| listed.cell.as_deref() == Some(cell)).collect();
        if of_cell.is_empty() {
            Err(NoSpike::None { run: format!("{cell} of {}", self.run.display()).into() })
        } else {
            Ok(of_cell)
        }
    }

    /// Finds the spike by its number, or the worst one with recorded events.
    pub(crate) fn find<'r>(&self, runs: &'r [RunFile]) -> Result<SpikeWindow<'r>, NoSpike> {
        let listed = self.listed(runs)?;
        let kept = |listed: &&ListedSpike<'_>| window_of(runs, listed).is_some();
        let worst_kept = listed.iter().find(kept);
        let chosen = match (self.number, worst_kept) {
            (Some(number), _) => self.numbered(number, &listed)?,
            (None, Some(worst)) => worst,
            (None, None) => {
                let why = spikes::why_no_window(listed[0].spike);
                return Err(NoSpike::NoneKept { run: self.run.to_owned(), of: listed.len(), why });
            }
        };

        match window_of(runs, chosen) {
            Some((run, window)) => Ok(SpikeWindow {
                listed: chosen.clone(),
                window,
                kernel: run.header.host.fact("kernel").unwrap_or_default(),
            }),
            None => {
                let other = worst_kept
                    .map(|worst| format!("; {} is the worst one whose events are", worst.words()));
                let why = spikes::why_no_window(chosen.spike);
                Err(NoSpike::NotKept {
                    what: chosen.words(),
                    why,
                    other: other.unwrap_or_default(),
                })
            }
        }
    }

    fn numbered<'l, 'r>(
        &self,
        number: u64,
        listed: &'l [ListedSpike<'r>],
    ) -> Result<&'l ListedSpike<'r>, NoSpike> {
        let mut of_number = listed.iter().filter(|listed| listed.spike.number == number);
        let first = of_number.next();
        match (first, of_number.next()) {
            (Some(first), None) => Ok(first),
            (Some(first), Some(_)) => {
                Err(NoSpike::WhichCell { first: first.cell.clone().unwrap_or_default(), number })
            }
            (None, _) => {
                let of_cell = self.cell.map(|cell| format!(" of {cell}")).unwrap_or_default();
                let what = format!("spike {number}{of_cell}");
                Err(NoSpike::NoSuchNumber { run: self.run.to_owned(), what, of: listed.len() })
            }
        }
    }
}

fn name_of_cell(run: &RunFile) -> Option<String> {
    run.header.cell.as_ref().map(Cell::to_string)
}

fn window_of<'r>(
    runs: &'r [RunFile],
    listed: &ListedSpike<'_>,
) -> Option<(&'r RunFile, &'r WindowNote)> {
    let spike = listed.spike;
    let run = runs.iter().find(|run| name_of_cell(run) == listed.cell)?;
    Some((run, run.window_of(spike).filter(|_| spike.window == Some(WindowFate::Kept))?))
}

impl SpikeWindow<'_> {
    /// Returns the bytes of a file in a format.
    pub(crate) fn written(&self, form: TraceForm) -> Result<Vec<u8>, NoSpike> {
        let edited = |source| NoSpike::Edited { what: self.listed.words(), source };
        let window = self.window.unpacked().map_err(edited)?;
        let explanation = Explanation::from_causes(self.listed.spike.causes.clone());
        Ok(match form {
            TraceForm::Perfetto => {
                perfetto::write(&window, &self.window.facts(), &explanation, self.kernel)
            }
            TraceForm::Ftrace => write_as_kernel(&window).into_bytes(),
        })
    }

    /// Describes what was written.
    pub(crate) fn words(&self, form: TraceForm, to: &Path) -> String {
        let explanation = Explanation::from_causes(self.listed.spike.causes.clone());
        let why = explanation.main().map_or_else(String::new, |main| format!(": {}", main.words()));
        let late = time_ns(explanation.lateness_ns, letters());
        let left_out = match self.window.left_out {
            0 => String::new(),
            some => format!(", {} dropped (buffer full)", count(some)),
        };

        let events = count(self.window.events);
        let to =
            if to == Path::new("-") { "standard output".into() } else { to.display().to_string() };
        let open = if form == TraceForm::Perfetto { "; ui.perfetto.dev opens it" } else { "" };
        format!(
            "{}, {late} late{why}; {events} events{left_out} written to {to}{open}",
            self.listed.words()
        )
    }
}
