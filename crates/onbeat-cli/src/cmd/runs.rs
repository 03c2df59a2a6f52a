//! The directory of a run, as commands use it: what is advised while it is made, and the page that
//! is written into it.

use std::path::{Path, PathBuf};

use onbeat::record::RunFile;
use onbeat::record::run_dir::{NewRunDir, RunDirError, RunText, StoredRun, read, read_with_text};
use onbeat_report::frames::RobotClock;
use onbeat_report::page::page;
use onbeat_report::{JudgeBy, JudgedRun, Summary};
use serde::Serialize;
use serde_json::{Value, json};

use super::whole::{self, Name};
use super::{Common, Failure};
use crate::probes::is_without_bus;
use crate::term::{Tone, advise};

/// The page without its data, as `viewer/` builds it.
pub(crate) const TEMPLATE: &str = include_str!("../../assets/viewer.html");
/// The page of a run, beside its files.
const PAGE: &str = "report.html";

/// Marks a run as begun. Where `latest` cannot be replaced, that is advised and the run continues.
pub(crate) fn begin(dir: &NewRunDir) {
    if let Err(why) = dir.begin() {
        advise(Tone::Careful, &why.to_string());
    }
}

/// Keeps the directory of a run that succeeded or has begun, and removes that of a run that was
/// refused.
pub(crate) fn keep_if_begun<T>(dir: &NewRunDir, ran: Result<T, Failure>) -> Result<T, Failure> {
    match &ran {
        Ok(_) => begin(dir),
        Err(_) => dir.withdraw_unless_begun(),
    }
    ran
}

/// A judged run with the text of its files, for tables and page.
pub(crate) struct ReportedRun {
    pub(crate) dir: PathBuf,
    pub(crate) summary: Summary,
    texts: Vec<RunText>,
    /// Clocks of the runs with a robot, and the places of their texts.
    robots: Vec<(usize, RobotClock)>,
}

/// Reads a run's directory, or one run file, and judges it; conclusions are for a mission of
/// `mission_ns`.
pub(crate) fn reported(
    path: &Path,
    by: impl Into<JudgeBy>,
    mission_ns: Option<u64>,
) -> Result<ReportedRun, Failure> {
    let StoredRun { dir, files, texts } = read_with_text(path)?;
    let clock = |(place, run)| Some((place, RobotClock::of(run)?));
    let robots = files.iter().enumerate().filter_map(clock).collect();
    let JudgedRun { mut summary, runs, .. } = judged_files(path, files, by.into())?;
    summary.conclude(&runs, mission_ns.map(|ns| ns as f64 / 1e9));
    Ok(ReportedRun { dir, summary, texts, robots })
}

/// Reads and judges a run without the text of its files.
pub(crate) fn judged(path: &Path, by: impl Into<JudgeBy>) -> Result<JudgedRun, Failure> {
    judged_files(path, read(path)?.files, by.into())
}

/// Reads and judges a run, and returns the text of its files as well.
pub(crate) fn judged_with_text(
    path: &Path,
    by: impl Into<JudgeBy>,
) -> Result<(JudgedRun, Vec<RunText>), Failure> {
    let StoredRun { files, texts, .. } = read_with_text(path)?;
    Ok((judged_files(path, files, by.into())?, texts))
}

pub(crate) fn judged_files(
    path: &Path,
    files: Vec<RunFile>,
    by: JudgeBy,
) -> Result<JudgedRun, Failure> {
    if by.most_alarms.is_some() {
        check_bus(path, &files)?;
    }
    let count = files.len();
    let none = || match count {
        0 | 1 => RunDirError::NoRun { path: path.to_owned() }.into(),
        _ => RunDirError::SeveralRuns { path: path.to_owned(), count }.into(),
    };
    JudgedRun::new(files, by).ok_or_else(none)
}

/// Refuses a limit on the events of a run that has no bus: none of them would be a PASS.
pub(crate) fn check_bus(path: &Path, files: &[RunFile]) -> Result<(), Failure> {
    let mut loops = files.iter().filter(|run| run.bench.is_none()).peekable();
    // Cells of a bench are called `timer`, whatever is added to their loop.
    let is_without = |run: &RunFile| {
        run.import.is_some() || run.header.cell.is_none() && is_without_bus(&run.header.probe)
    };
    if loops.peek().is_some() && loops.all(is_without) {
        let instead = "name a run with a bus";
        return Err(Common::NoEvents { what: path.display().to_string(), instead }.into());
    }
    Ok(())
}

/// Returns the page of a summary with the files that it was made of.
pub(crate) fn page_of(summary: &impl Serialize, texts: &[RunText]) -> Result<String, Failure> {
    let files: Vec<(&str, &str)> =
        texts.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    Ok(page(TEMPLATE, &files, &serde_json::to_string(summary)?)?)
}

impl ReportedRun {
    /// Returns the clocks of the runs with a robot.
    pub(crate) fn robots(&self) -> &[(usize, RobotClock)] {
        &self.robots
    }

    /// Adds a note to the page, behind the text of a run file.
    pub(crate) fn add_note(&mut self, place: usize, kind: &str, note: &Value) {
        if let Some(of) = self.texts.get_mut(place) {
            // Of a truncated file, the last line is left out.
            of.text.truncate(of.text.rfind('\n').map_or(0, |end| end + 1));
            of.text.push_str(&format!("#[onbeat: {}]\n", json!({ kind: note })));
        }
    }

    /// Writes the page to `to`, or beside the run files, and returns its path.
    pub(crate) fn write_page(&self, to: Option<&Path>) -> Result<PathBuf, Failure> {
        let html = page_of(&self.summary, &self.texts)?;
        let (to, name) = match to {
            Some(to) => (to.to_owned(), Name::Typed),
            None => (self.dir.join(PAGE), Name::Chosen),
        };

        let written = whole::stream(&to, name, |to| to.write_all(html.as_bytes()));
        match written {
            Err(Common::File { path, source, .. }) if name == Name::Chosen => {
                Err(Common::Page { path, source }.into())
            }
            written => Ok(written.map(|()| to)?),
        }
    }
}
