//! The verdicts of `onbeat_tune::lint` on each option of a command that starts QEMU: also on those
//! that no finding is about.

use onbeat_tune::lint::{LintFinding, LintReport, LintVerdict};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionVerdict {
    pub line: usize,
    /// The option with its argument, as written; on one line.
    pub text: String,
    /// What was found; for words inside of an argument, such as those of `-append`, too.
    pub findings: Vec<LintFinding>,
}

impl OptionVerdict {
    /// The worst of its verdicts in words; an option that nothing was found about has no effect on
    /// latency.
    #[must_use]
    pub fn worst(&self) -> &'static str {
        let worst = self.findings.iter().map(|finding| finding.verdict).min();
        worst.map_or("no effect on latency", LintVerdict::words)
    }
}

/// A piece of a text between two bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

/// Returns each option of the command that starts QEMU, in order, with what was found about it. What
/// is missing belongs to no option and is in the report alone.
#[must_use]
pub fn verdicts_by_option(text: &str, report: &LintReport) -> Vec<OptionVerdict> {
    let spans = options(text);
    let verdict = |span: &Span| {
        let is_inside = |finding: &&LintFinding| {
            let at = byte_of(text, finding.line, finding.column);
            finding.verdict != LintVerdict::Missing && (span.start..span.end).contains(&at)
        };
        OptionVerdict {
            line: text[..span.start].matches('\n').count() + 1,
            text: on_one_line(&text[span.start..span.end]),
            findings: report.findings.iter().filter(is_inside).cloned().collect(),
        }
    };
    spans.iter().map(verdict).collect()
}

/// The byte of a line and column, both from 1, the column in characters.
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    text[start..].char_indices().nth(column - 1).map_or(text.len(), |(at, _)| start + at)
}

fn on_one_line(text: &str) -> String {
    let words = text
        .split(|c: char| c.is_whitespace() || c == '\0')
        .filter(|word| !matches!(*word, "" | "\\"));
    words.collect::<Vec<_>>().join(" ")
}

/// What stands in front of QEMU in its command (`taskset -c 4 chrt -f 99`), and each option with its
/// arguments.
fn options(text: &str) -> Vec<Span> {
    let words = words(text);
    let Some(program) = words.iter().position(|word| is_start_of_qemu(text, &words, *word)) else {
        return Vec::new();
    };
    let until = &words[..=program];
    let first = until.iter().rposition(|word| begins_command(text, *word)).unwrap_or(program);

    let mut spans = Vec::new();
    if first < program {
        spans.push(Span { start: words[first].start, end: words[program - 1].end });
    }
    // Arguments alone have no program in front.
    let is_program = is_qemu(&text[words[program].start..words[program].end]);
    let rest = if is_program { program + 1 } else { program };
    let mut before = if is_program { words[program].end } else { words[program].start };

    let mut is_argument = false;
    for word in &words[rest..] {
        if ends_command(&text[before..word.start]) {
            break;
        }
        before = word.end;
        let starts_option = text[word.start..].starts_with('-') && word.end - word.start > 1;
        match spans.last_mut().filter(|_| is_argument && !starts_option) {
            Some(span) => span.end = word.end,
            None if starts_option => spans.push(*word),
            None => {}
        }
        is_argument |= starts_option;
    }
    spans
}

fn is_qemu(word: &str) -> bool {
    word.rsplit('/')
        .next()
        .is_some_and(|name| name.contains("qemu-system") || name == "qemu-kvm" || name == "kvm")
}

/// A word that names QEMU and is followed by an option; in arguments alone, the first option.
fn is_start_of_qemu(text: &str, words: &[Span], word: Span) -> bool {
    let own = &text[word.start..word.end];
    let next = words.iter().find(|next| next.start > word.start);
    let is_option_next = next.is_some_and(|next| text[next.start..].starts_with('-'));
    (is_qemu(own) && is_option_next) || (word.start == words[0].start && own.starts_with('-'))
}

/// The first of the words that hold for QEMU's process.
fn begins_command(text: &str, word: Span) -> bool {
    let before = text[..word.start].trim_end_matches([' ', '\t']);
    let own = &text[word.start..word.end];
    before.is_empty()
        || before.ends_with(['\n', ';', '&', '|']) && !before.ends_with("\\\n")
        || own == "exec"
}

/// Whether a command ends between two of its words: at a newline without a backslash, or a
/// separator of the shell.
fn ends_command(between: &str) -> bool {
    let lines_end = between.match_indices('\n').any(|(at, _)| !between[..at].ends_with('\\'));
    let is_script = !between.contains('\0');
    is_script && (lines_end || between.contains([';', '&', '|']))
}

/// Words with their places; quotes keep blanks together, a backslash at the end of a line joins two.
/// Where NUL separates them, as in `/proc/PID/cmdline`, nothing else does.
fn words(text: &str) -> Vec<Span> {
    let by_nul = text.contains('\0');
    let mut words = Vec::new();
    let mut start = None;
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        let separates = if by_nul { c == '\0' } else { c.is_whitespace() || c == ';' };
        let is_blank = quote.is_none() && separates;
        let joins = quote.is_none() && c == '\\' && text[at + 1..].starts_with('\n');
        if escaped {
            escaped = false;
            continue;
        }
        if joins {
            escaped = true;
        }

        match (start, is_blank || joins) {
            (None, false) => start = Some(at),
            (Some(begun), true) => {
                words.push(Span { start: begun, end: at });
                start = None;
            }
            _ => {}
        }
        match quote {
            Some(open) if open == c => quote = None,
            None if !by_nul && (c == '"' || c == '\'') => quote = Some(c),
            _ => {}
        }
    }

    words.extend(start.map(|start| Span { start, end: text.len() }));
    words
}

#[cfg(test)]
mod tests {
    use onbeat_tune::lint::{LintSubject, lint};

    use super::*;

    /// Code 10 of Pamuk and Rauh, with the scanner's errors repaired.
    const SCRIPT: &str = include_str!("../../../onbeat-tune/tests/published/pamuk-2024.sh");

    fn verdicts(text: &str) -> Vec<(String, String)> {
        let report =
            lint(text, LintSubject::recognise(text, None).expect("a subject")).expect("a report");
        let all = verdicts_by_option(text, &report);
        all.iter().map(|one| (one.text.clone(), one.worst().to_owned())).collect()
    }

    #[test]
    fn each_option_of_the_published_script_has_its_verdict() {
        let expected = [
            ("exec taskset -c 4 chrt -f 99", "harmful"),
            ("-M pc,accel=kvm", "discouraged"),
            ("-kernel ./bzImage", "valid"),
            ("-m 2048", "valid"),
            (
                "-drive file=salamander-image-sigmatek-core2.ext4,format=raw,media=disk",
                "incomplete",
            ),
            ("-append", "no effect"),
            ("-net nic,model=e1000,netdev=e1000", "discouraged"),
            ("-netdev bridge,id=e1000,br=nm-bridge", "valid"),
            ("-fsdev local,security_model=none,id=fsdev0,path=drive-c", "known, not judged"),
            ("-device virtio-9p-pci,id=fs0,fsdev=fsdev0,mount_tag=/mnt/drive-C", "discouraged"),
            ("-device vhost-vsock-pci,guest-cid=3,id=vsock0", "known, not judged"),
            ("-drive if=pflash,format=qcow2,file=ovmf.code.qcow2", "valid"),
            ("-object memory-backend-ram,id=ram0,size=4G,prealloc=on", "no effect"),
            ("-mem-prealloc", "deprecated"),
            ("-mem-path /dev/hugepages", "deprecated"),
            ("-device vfio-pci,host=03:00.0", "valid"),
            ("-no-reboot", "valid"),
            ("-nographic", "discouraged"),
        ];
        let found = verdicts(SCRIPT);
        for ((option, verdict), (text, words)) in expected.iter().zip(&found) {
            assert!(text.starts_with(option), "{text} where {option} was expected");
            assert_eq!(words, verdict, "{option}");
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
    }

    #[test]
    fn arguments_alone_and_the_end_of_a_command_are_recognised() {
        let texts: Vec<String> =
            verdicts("-accel kvm -m 1G").into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["-accel kvm", "-m 1G"]);

        let script = "cp -r a b\nqemu-system-x86_64 -accel kvm \\\n  -m 1G\nrm -r b\n";
        let texts: Vec<String> = verdicts(script).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["-accel kvm", "-m 1G"]);

        let process = "/usr/bin/qemu-system-x86_64\0-accel\0kvm\0-append\0a b\0";
        let texts: Vec<String> = verdicts(process).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["-accel kvm", "-append a b"]);
    }
}
