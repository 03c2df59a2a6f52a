//! `onbeat vm lint`: verdicts on each option of a script that starts QEMU, or on a definition of
//! libvirt, and a corrected version.

use onbeat_tune::lint::{LintError, LintSubject, OptionVerdict, verdicts_by_option};

use super::study_options::VmLintOptions;
use crate::cmd::lint_report::{JudgedFile, LintForm};
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, columns, say};

pub(super) fn run(options: &VmLintOptions) -> Result<ExitVerdict, Failure> {
    let subject_of = |text: &str| {
        Ok(match LintSubject::recognise(text, None) {
            Ok(subject @ (LintSubject::QemuArguments | LintSubject::LibvirtXml)) => subject,
            Err(why @ LintError::Empty) => return Err(why),
            // Everything else that a guest does not start with is for `onbeat tune lint`.
            _ => LintSubject::QemuScript,
        })
    };
    let judged = JudgedFile::read(&options.file, subject_of)?;

    judged.say(LintForm::from_options(options.json, options.corrected), |judged| {
        if judged.subject != LintSubject::LibvirtXml {
            say_options(&verdicts_by_option(&judged.text, &judged.report));
            say(Tone::Plain, "");
        }
    })
}

/// A line per option: its line, its worst verdict, and as much of it as fits; below the guest's
/// kernel command line one for each of its words that was judged.
fn say_options(verdicts: &[OptionVerdict]) {
    for one in verdicts {
        let is_problem = one.findings.iter().any(|finding| finding.verdict.is_problem());
        let number = one.line.to_string();
        say_verdict(&number, one.worst(), &one.text, is_problem);
        for finding in one.findings.iter().filter(|_| one.text.starts_with("-append")) {
            let is_problem = finding.verdict.is_problem();
            let text = format!("    {}", finding.text);
            say_verdict("", finding.verdict.words(), &text, is_problem);
        }
    }
}

fn say_verdict(line: &str, verdict: &str, text: &str, is_problem: bool) {
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
