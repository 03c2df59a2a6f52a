//! `onbeat vm lint`: verdicts on each option of a script that starts QEMU, or on a definition of
//! libvirt, and a corrected version.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use onbeat_lab::vm::{OptionVerdict, verdicts_by_option};
use onbeat_tune::lint::{LintSubject, lint};

use super::failure::TuneFailure;
use super::{ExitVerdict, Failure};
use crate::cli_vm_study::VmLintOptions;
use crate::term::{Tone, columns, put, say};

pub(super) fn run(options: &VmLintOptions) -> Result<ExitVerdict, Failure> {
    let path = &options.file;
    let text =
        read(path).map_err(|source| Failure::File { what: "read", path: path.clone(), source })?;
    let subject = match LintSubject::guess(&text) {
        // A guest's kernel command line alone is for `onbeat tune lint`.
        LintSubject::KernelLine => LintSubject::QemuScript,
        subject => subject,
    };
    let report =
        lint(&text, subject).map_err(|source| TuneFailure::Lint { path: path.clone(), source })?;

    if options.json {
        say(Tone::Plain, &serde_json::to_string(&report)?);
    } else if options.corrected {
        put(|out| out.write_all(report.corrected.as_bytes()));
    } else {
        if subject != LintSubject::LibvirtXml {
            say_options(&verdicts_by_option(&text, &report));
            say(Tone::Plain, "");
        }
        say(Tone::Plain, report.to_string().trim_end());
    }
    Ok(if report.problems().next().is_some() { ExitVerdict::Broken } else { ExitVerdict::Holds })
}

/// Reads a file, or standard input for `-`; bytes that are not UTF-8 are replaced.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = fs::read(path)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line per option: its line, its worst verdict, and as much of it as fits; below the guest's
/// kernel command line one for each of its words that was judged.
fn say_options(verdicts: &[OptionVerdict]) {
    for one in verdicts {
        let is_problem = one.findings.iter().any(|finding| finding.verdict.is_problem());
        let number = one.line.to_string();
        say_verdict(&number, one.worst(), (&one.text, is_problem));
        for finding in one.findings.iter().filter(|_| one.text.starts_with("-append")) {
            let is_problem = finding.verdict.is_problem();
            let text = format!("    {}", finding.text);
            say_verdict("", finding.verdict.words(), (&text, is_problem));
        }
    }
}

fn say_verdict(line: &str, verdict: &str, (text, is_problem): (&str, bool)) {
    let tone = if is_problem { Tone::Careful } else { Tone::Plain };
    let start = format!("{line:>4}  {verdict:20}  ");
    say(tone, &(start.clone() + &cut(text, columns().saturating_sub(start.len()))));
}

/// The beginning of a text that is longer than `width` characters.
fn cut(text: &str, width: usize) -> String {
    const DOTS: &str = "...";
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(DOTS.len())).collect();
    kept + DOTS
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_option_is_cut_at_the_width_of_the_terminal() {
        assert_eq!(cut("-append quiet", 13), "-append quiet");
        assert_eq!(cut("-append quiet", 10), "-append...");
    }
}
