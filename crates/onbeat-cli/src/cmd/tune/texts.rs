//! `onbeat tune explain`, `lint` and `capture`: texts in, texts out.

use std::path::Path;

use onbeat_tune::capture::{CaptureSummary, capture as write_capture};
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::explain::TuningExplanation;
use onbeat_tune::lint::LintSubject;
use onbeat_tune::{CpuList, HostFiles, LiveHost};
use serde::Serialize;

use super::options::{QueryOptions, TuneCaptureOptions, TuneExplainOptions, TuneLintOptions};
use super::plan::write_new;
use super::plan_text::counted;
use super::running::{self, Looked};
use crate::cmd::failure::spike::pasted;
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::findings::machine;
use crate::cmd::lint_report::{JudgedFile, LintForm};
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, advise, columns, fold, put, say, say_folded};

/// Names the fields of what `tune explain --json` prints.
const EXPLAIN_SCHEMA: &str = "onbeat.tune-explain/1";
/// Names the fields of what `tune capture --json` prints.
const CAPTURE_SCHEMA: &str = "onbeat.tune-capture/1";
/// The width of the library's texts.
const TEXT_WIDTH: usize = 80;

#[derive(Serialize)]
struct PrintedExplanations<'e> {
    schema: &'static str,
    tunings: &'e [TuningExplanation],
}

pub(super) fn explain(options: &TuneExplainOptions) -> Result<ExitVerdict, Failure> {
    let tree = machine::tree(options.query.from.as_deref())?;
    let QueryOptions { from, json, checked } = &options.query;
    let checked = running::resolved(checked, Looked { from: from.as_deref(), json: *json })?;
    let setup = machine::setup(&checked);
    let choice = machine::choice(&checked);
    let cpus = match machine::chosen(&tree, &setup, &choice) {
        Ok(chosen) => chosen.cpus,
        // On a machine without a CPU for the loop a tuning can still be explained.
        Err(_) if options.query.checked.cpus.is_none() => CpuList::default(),
        Err(why) => return Err(why.into()),
    };
    let setup = LoopSetup { cpus, ..setup };

    let mut tunings = Vec::new();
    for id in &options.ids {
        tunings.extend(onbeat_tune::explain(id, &tree, &setup)?);
    }
    if options.query.json {
        let printed = PrintedExplanations { schema: EXPLAIN_SCHEMA, tunings: &tunings };
        say(Tone::Plain, &serde_json::to_string(&printed)?);
        return Ok(ExitVerdict::Pass);
    }

    let texts: Vec<String> = tunings.iter().map(|one| folded(&one.to_string())).collect();
    say(Tone::Plain, &texts.join("\n\n"));
    Ok(ExitVerdict::Pass)
}

/// A text of the library, folded again where the terminal is narrower than it.
fn folded(text: &str) -> String {
    let text = text.trim_end();
    if columns() < TEXT_WIDTH { fold::lines(text, columns()) } else { text.to_owned() }
}

pub(super) fn lint(options: &TuneLintOptions) -> Result<ExitVerdict, Failure> {
    let given = options.subject;
    let file = options.file.to_str();
    let subject_of = |text: &str| given.map_or_else(|| LintSubject::recognise(text, file), Ok);
    let mut judged = JudgedFile::read(&options.file, subject_of)?;
    if let Some(path) = file {
        judged.report.note_file(path);
    }

    judged.say(LintForm::from_options(options.json, options.corrected), |_| ())
}

#[derive(Serialize)]
struct PrintedCapture<'c> {
    schema: &'static str,
    file: &'c Path,
    files: usize,
    threads: usize,
    refused: usize,
    bytes: usize,
}

pub(super) fn capture(options: &TuneCaptureOptions) -> Result<ExitVerdict, Failure> {
    let mut archive = Vec::new();
    let summary = write_capture(&HostTree::live(), &options.about, &mut archive)
        .map_err(|source| TuneFailure::Capture { path: options.file.clone(), source })?;
    let is_to_stdout = options.file == Path::new("-");
    if is_to_stdout {
        put(|out| out.write_all(&archive));
    } else {
        write_new(&options.file, &archive, options.force)?;
    }

    if options.json && !is_to_stdout {
        let CaptureSummary { files, threads, refused } = summary;
        let file = options.file.as_path();
        let bytes = archive.len();
        let printed =
            PrintedCapture { schema: CAPTURE_SCHEMA, file, files, threads, refused, bytes };
        say(Tone::Plain, &serde_json::to_string(&printed)?);
    } else if !is_to_stdout {
        let path = options.file.display();
        let files = counted(summary.files, "file");
        let line = format!("{path}: {files}, {} KiB; gzip makes it smaller", archive.len() / 1024);
        say_folded(Tone::Plain, &line);
        let path = pasted(&options.file);
        say_folded(Tone::Plain, &format!("check  onbeat tune check --from {path}"));
    }
    if summary.refused > 0 && !LiveHost::new().is_root() {
        let refused = counted(summary.refused, "path");
        let sentence =
            format!("{refused} could not be read as this user; as root the archive holds more");
        advise(Tone::Careful, &sentence);
    }
    Ok(ExitVerdict::Pass)
}
