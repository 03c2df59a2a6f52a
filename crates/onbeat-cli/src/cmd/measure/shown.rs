//! A measurement in the terminal: what is shown of it while it runs, and what ends it. It has one
//! run file, one for each of several loads, or one for each of several CPUs.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use onbeat::bench::{BenchError, Conditions};
use onbeat::campaign::CampaignEvent;
use onbeat::probe::{Interruptions, Setting};
use onbeat::record::run_dir::NewRunDir;
use onbeat_report::units::{Letters, count, time_ns, under};

use super::life::Life;
use super::options::Measure;
use super::seconds::Lines;
use crate::cmd::carrier::carrier;
use crate::cmd::net::log::RunShipment;
use crate::cmd::screen::Screen;
use crate::cmd::so_far::{LooksAhead, SoFar, counts_so_far};
use crate::cmd::view::BesideView;
use crate::cmd::{ExitVerdict, Failure, runs, show};
use crate::term::{ProgressLine, Tone, columns, wrapped};

/// A measurement that its options do not refuse any more.
pub(super) struct ShownMeasurement<'m> {
    pub(super) measure: &'m Measure,
    /// How the loop runs.
    pub(super) setting: Setting,
    /// The run file, or the directory of several.
    pub(super) path: PathBuf,
    /// The directory of a new run; `None` for one that is resumed.
    pub(super) new: Option<NewRunDir>,
    /// Describes a run file that is resumed.
    pub(super) resumed: String,
    /// Estimate of the time that is left to measure, in seconds; 0 without an end.
    pub(super) left_s: f64,
}

impl ShownMeasurement<'_> {
    /// Has `conduct` measure until `life` is over at the latest, shows it meanwhile, and prints the
    /// report.
    pub(super) fn conduct<T>(
        &self,
        mut life: Option<Life>,
        interruptions: &Interruptions,
        conduct: impl FnOnce(Conditions<'_>) -> Result<T, BenchError>,
    ) -> Result<ExitVerdict, Failure> {
        let Self { measure, path, new, .. } = self;
        let options = &measure.options;
        let is_json = options.output.json;
        let (carrier, shipment) = carrier(options.load_dir.as_deref())
            .and_then(|carrier| Ok((carrier, RunShipment::start(options, path)?)))
            .inspect_err(|_| new.iter().for_each(NewRunDir::withdraw_unless_begun))?;

        let mut screen = Screen::begin(path, options.screen.screen);
        let progress = ProgressLine::new(self.left_s, is_json || screen.is_on());
        let mut lines = Lines::new(measure.probe, &self.setting, is_json);
        let mut summary = SoFar::new(path.clone(), &interruptions.summary);
        let mut looks = LooksAhead::new(options.until, options.duration, path);
        let mut browser = BesideView::new(&options.beside_view, options.cpu);
        let takes_turns = !options.loads.is_empty() || options.load_sweep.is_some();
        let mut load_of_lines = String::new();
        let mut report = |event: CampaignEvent<'_>| {
            if matches!(event, CampaignEvent::Running { .. } | CampaignEvent::AtOnce { .. }) {
                new.iter().for_each(runs::begin);
                browser.begin(path);
            }
            let is_decided = match event {
                CampaignEvent::Resumed => return screen.advise(Tone::Careful, &self.resumed),
                CampaignEvent::Warned(words) => {
                    let words = wrapped(words, columns());
                    return progress.above(|| screen.advise(Tone::Careful, &words));
                }
                CampaignEvent::Running { cell, elapsed_s, recorder: Some(recorder) } => {
                    let mut seconds = lines.since(recorder);
                    if takes_turns && !seconds.is_empty() && load_of_lines != cell.load {
                        seconds.insert(0, under(&cell.load));
                        load_of_lines.clone_from(&cell.load);
                    }
                    if !screen.is_on() {
                        progress.above_if(&seconds);
                    }
                    screen.look(recorder);
                    if !summary.look(Some(&mut *recorder)) {
                        let load = takes_turns.then(|| format!("{}  ", cell.load));
                        let load = load.unwrap_or_default();
                        progress.show(elapsed_s, &format!("{load}{}", counts_so_far(recorder)));
                    }
                    looks.is_decided(elapsed_s, recorder)
                }
                CampaignEvent::AtOnce { elapsed_s, cycles, worst } => {
                    if !summary.look(None) {
                        progress.show(elapsed_s, &of_all(cycles, worst));
                    }
                    false
                }
                _ => return,
            };
            if is_decided || life.as_mut().is_some_and(Life::is_over) {
                interruptions.stop.store(true, Ordering::Relaxed);
            }
        };

        let conditions = Conditions { carrier: &carrier, interruptions, report: &mut report };
        let conducted = conduct(conditions).map_err(Failure::from);
        progress.finish();
        screen.end();
        summary.end();
        browser.end();
        shipment.finish();
        match new {
            Some(new) => runs::keep_if_begun(new, conducted)?,
            None => conducted?,
        };
        show::made(path, &options.output)
    }
}

/// `12,000 cycles, worst 34 us on CPU 3`.
fn of_all(cycles: u64, (cpu, worst_ns): (u32, u64)) -> String {
    let worst = time_ns(worst_ns, Letters::Ascii);
    format!("{} cycles, worst {worst} on CPU {cpu}", count(cycles))
}
