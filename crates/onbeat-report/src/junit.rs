//! A gate's result as the XML that continuous integration reads: the elements and attributes that
//! JUnit's writers and their readers (Jenkins, GitLab, GitHub's reporters) have in common.

use super::gate::{Check, Gate};
use super::verdict::Outcome;

/// The XML of a gate. A broken check is a failure; one that the samples do not decide is an error,
/// so that it does not pass unseen. `time_s` is how long the run took.
#[must_use]
pub fn junit(gate: &Gate, time_s: f64) -> String {
    let of = |outcome: Outcome| gate.checks.iter().filter(|check| check.outcome == outcome).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{time_s:.3}\"",
        gate.checks.len(),
        of(Outcome::Fail),
        of(Outcome::Inconclusive)
    );
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.push_str(&format!("<testsuites name=\"onbeat gate\" {counts}>\n"));
    xml.push_str(&format!("  <testsuite name=\"{}\" {counts}>\n", escaped(&gate.run)));
    xml.push_str(&format!(
        "    <properties><property name=\"onbeat\" value=\"{}\"/></properties>\n",
        escaped(&gate.version)
    ));

    for check in &gate.checks {
        case(check, &mut xml);
    }

    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn case(check: &Check, xml: &mut String) {
    let name = escaped(&check.name);
    let of = escaped(&check.of);
    let text = escaped(&check.sentence);
    xml.push_str(&format!("    <testcase classname=\"{of}\" name=\"{name}\" time=\"0\">"));
    let kind = check.outcome.words();
    let open = |tag: &str| format!("<{tag} message=\"{text}\" type=\"{kind}\">{text}</{tag}>");
    xml.push_str(&match check.outcome {
        Outcome::Pass => format!("<system-out>{text}</system-out>"),
        Outcome::Fail => open("failure"),
        Outcome::Inconclusive => open("error"),
    });
    xml.push_str("</testcase>\n");
}

/// Text and attribute values; characters that XML 1.0 has no place for become `?`.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            '\t' | '\n' | '\r' => safe.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push('?'),
            c => safe.push(c),
        }
    }

    safe
}
