//! What `onbeat tune lint` and `onbeat vm lint` share: a file, judged, and its report.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use onbeat_tune::lint::{LintError, LintReport, LintSubject, MOST_BYTES, lint};

use super::failure::tune::TuneFailure;
use super::{Common, ExitVerdict, Failure};
use crate::term::{Tone, advise, put, say};

pub(super) struct JudgedFile {
    /// As they are in the file.
    bytes: Vec<u8>,
    /// Bytes that are not UTF-8 are replaced.
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
        let bytes = read_bytes(path).map_err(Common::file("read", path))?;
        let text = String::from_utf8_lossy(&bytes);
        // The mark in front of a text from Windows.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
        let failed = |source| TuneFailure::Lint { path: path.to_owned(), source };
        let subject = subject_of(&text).map_err(failed)?;
        let mut report = lint(&text, subject).map_err(failed)?;
        if let Err(why) = str::from_utf8(&bytes) {
            let before = &bytes[..why.valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            text.clone_into(&mut report.corrected);
            report.refusal = Some(format!("line {line} is not UTF-8; iconv converts the file"));
        }
        Ok(Self { bytes, text, subject, report })
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
                let corrected = match self.report.refusal {
                    Some(_) => self.bytes.as_slice(),
                    None => self.report.corrected.as_bytes(),
                };
                put(|out| out.write_all(corrected));
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

/// Reads no more than shows that a file is too long: a device has no end.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MOST_BYTES as u64 + 1;
    if path == Path::new("-") {
        io::stdin().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    // NUL ends a string of the device tree, such as /proc/device-tree/chosen/bootargs.
    if bytes.iter().position(|byte| *byte == 0).is_some_and(|at| at + 1 == bytes.len()) {
        bytes.pop();
    }
    Ok(bytes)
}
