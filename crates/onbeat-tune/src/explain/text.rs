//! The explanation as text of 80 columns.

use std::fmt;

use super::{ManualStep, TuningExplanation};
use crate::wrap::wrap;

/// The width of the text. Lines for a shell are not broken: they are pasted.
const COLUMNS: usize = 80;
/// Where the text of a labelled paragraph begins.
const INDENT: usize = 11;

/// What the numbers of an effect mean.
const EFFECTS: [&str; 4] = [
    "hygiene",
    "some microseconds, or rare",
    "tens to hundreds of microseconds",
    "up to milliseconds",
];

impl fmt::Display for TuningExplanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}: {}", self.id, self.title)?;
        writeln!(out)?;
        labelled(out, "What", &self.what)?;
        labelled(out, "Why", &self.why)?;
        let effect = EFFECTS.get(usize::from(self.effect)).copied().unwrap_or_default();
        labelled(out, "Effect", &format!("{} of 3: {effect}", self.effect))?;

        let mut here = self.verdict.to_owned();
        let details = [self.current.as_str(), self.reason.as_deref().unwrap_or_default()];
        for detail in details.into_iter().filter(|detail| !detail.is_empty()) {
            here.push_str(if here == self.verdict { ": " } else { "; " });
            here.push_str(detail);
        }
        labelled(out, "Here", &here)?;
        labelled(out, "Wanted", &self.wanted)?;

        steps(out, "Set", &self.set)?;
        labelled(out, "Takes", &self.takes_effect.join(", "))?;
        if let (Some(level), Some(text)) = (&self.risk, &self.risk_text) {
            labelled(out, "Risk", &format!("{level}: {text}"))?;
        }
        steps(out, "Undo", &self.undo)?;

        let lists = [
            ("Needs", &self.needs),
            ("After", &self.after),
            ("Before", &self.before),
            ("Conflicts", &self.conflicts),
            ("Profiles", &self.profiles),
            ("Mends", &self.mends),
        ];
        for (label, list) in lists {
            labelled(out, label, &list.join(", "))?;
        }
        for (at, source) in self.sources.iter().enumerate() {
            let separator = if source.title.is_empty() { "" } else { ": " };
            let label = if at == 0 { "Sources" } else { "" };
            labelled(out, label, &format!("{}{separator}{}", source.tag, source.title))?;
        }
        Ok(())
    }
}

/// A paragraph behind its label; nothing where it is empty.
fn labelled(out: &mut fmt::Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    if text.is_empty() {
        return Ok(());
    }
    for (at, line) in wrap(text, COLUMNS - INDENT).iter().enumerate() {
        writeln!(out, "{:INDENT$}{line}", if at == 0 { label } else { "" })?;
    }
    Ok(())
}

fn steps(out: &mut fmt::Formatter<'_>, label: &str, steps: &[ManualStep]) -> fmt::Result {
    for (at, step) in steps.iter().enumerate() {
        let label = if at == 0 { label } else { "" };
        match step {
            ManualStep::Shell(line) => writeln!(out, "{label:INDENT$}# {line}")?,
            ManualStep::KernelParameters(line) => {
                labelled(out, label, "Kernel parameters:")?;
                writeln!(out, "{:INDENT$}{line}", "")?;
            }
            ManualStep::Instruction(text) => labelled(out, label, text)?,
        }
    }
    Ok(())
}
