//! What `onbeat tune lint` and `onbeat vm lint` share: a file, judged, and its report.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use onbeat_host::foreign::{MOST_BYTES_BY_HAND, Refused};
use onbeat_tune::lint::{LintError, LintReport, LintSubject, lint};

use super::failure::tune::TuneFailure;
use super::{Common, ExitVerdict, Failure};
use crate::term::{Tone, advise, put, say};

pub(super) struct JudgedFile {
    pub(super) text: String,
    pub(super) subject: LintSubject,
    pub(super) report: LintReport,
}

/// What is printed of a report.
#[derive(Clone, Copy)]
pub(super) enum LintForm {
    Json,
    Corrected,
    Text,
}

impl LintForm {
    /// By the options of both commands.
    pub(super) const fn from_options(json: bool, corrected: bool) -> Self {
        match (json, corrected) {
            (true, _) => Self::Json,
            (false, true) => Self::Corrected,
            (false, false) => Self::Text,
        }
    }
}

impl JudgedFile {
    /// Reads and judges a file, or standard input for `-`, as what `subject_of` finds it to be.
    pub(super) fn read(
        path: &Path,
        subject_of: impl FnOnce(&str) -> Result<LintSubject, LintError>,
    ) -> Result<Self, Failure> {
        let text = read_text(path).map_err(Common::file("read", path))?;
        let failed = |source| TuneFailure::Lint { path: path.to_owned(), source };
        let subject = subject_of(&text).map_err(failed)?;
        let report = lint(&text, subject).map_err(failed)?;
        Ok(Self { text, subject, report })
    }

    /// Prints the report, in text after `heading`.
    pub(super) fn say(
        &self,
        form: LintForm,
        heading: impl FnOnce(&Self),
    ) -> Result<ExitVerdict, Failure> {
        match form {
            LintForm::Json => say(Tone::Plain, &serde_json::to_string(&self.report)?),
            LintForm::Corrected => {
                put(|out| out.write_all(self.report.corrected.as_bytes()));
                if let Some(why) = &self.report.refusal {
                    advise(Tone::Careful, &format!("not corrected: {why}; the text is as it was"));
                }
            }
            LintForm::Text => {
                heading(self);
                say(Tone::Plain, self.report.to_string().trim_end());
            }
        }

        Ok(match self.report.problems().next() {
            Some(_) => ExitVerdict::Fail,
            None if self.report.is_partly_unjudged() => ExitVerdict::Inconclusive,
            None => ExitVerdict::Pass,
        })
    }
}

/// Reads a file, a pipe, or standard input for `-`. Bytes that are not UTF-8 are replaced, and the mark
/// in front of a text from Windows is left out.
fn read_text(path: &Path) -> io::Result<String> {
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let most = MOST_BYTES_BY_HAND;
    let mut read = Vec::new();
    let bytes = source.take(most + 1).read_to_end(&mut read)? as u64;
    if bytes > most {
        return Err(Refused::TooLong { bytes, most }.into());
    }
    let text = String::from_utf8_lossy(&read);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}
