//! The verdicts on each option of a command that starts QEMU: also on those that no finding is about.

use super::correction::line_and_column;
use super::qemu_command::{self, QemuCommand, QemuOption};
use super::shell_words;
use super::{LintFinding, LintReport, LintSubject, LintVerdict};
use std::ops::Range;

/// An option of QEMU, or what stands in front of its name, with what was found about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionVerdict {
    /// Line of the text, from 1.
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

/// Returns each option of the command that starts QEMU, in order, with what `report` has found about
/// it: none of a text that starts no QEMU. What is missing belongs to no option and is in the report
/// alone.
#[must_use]
pub fn verdicts_by_option(text: &str, report: &LintReport) -> Vec<OptionVerdict> {
    let command = match report.subject {
        LintSubject::QemuScript => qemu_command::find(text),
        LintSubject::QemuArguments => qemu_command::of_arguments(text).ok(),
        _ => None,
    };
    let Some(command) = command else { return Vec::new() };

    let verdict = |(bytes, value): (Range<usize>, Option<Range<usize>>)| {
        let is_inside = |finding: &&LintFinding| {
            let at = byte_of(text, finding.line, finding.column);
            let value = value.as_ref().is_some_and(|value| value.contains(&at));
            finding.verdict != LintVerdict::Missing && (value || bytes.contains(&at))
        };
        OptionVerdict {
            line: line_and_column(text, bytes.start).0,
            text: on_one_line(&text[bytes.clone()]),
            findings: report.findings.iter().filter(is_inside).cloned().collect(),
        }
    };
    let options = command.options.iter().map(|option| pieces(text, option));
    before(&command).map(|bytes| (bytes, None)).into_iter().chain(options).map(verdict).collect()
}

/// What stands in front of QEMU's name, such as `taskset -c 4 chrt -f 99`.
fn before(command: &QemuCommand) -> Option<Range<usize>> {
    Some(command.before.first()?.bytes.start..command.before.last()?.bytes.end)
}

/// An option in the text, and where the value of a variable in it is set.
fn pieces(text: &str, option: &QemuOption) -> (Range<usize>, Option<Range<usize>>) {
    let value = option.argument.as_ref().and_then(|word| shell_words::value_of(text, word));
    (option.bytes.clone(), value.map(|word| word.bytes))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::{LintSubject, lint};

    /// Code 10 of Pamuk and Rauh, with the scanner's errors repaired.
    const SCRIPT: &str = include_str!("../../tests/published/pamuk-2024.sh");

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
    #[test]
    fn options_that_a_script_keeps_in_an_array_or_a_variable_have_their_verdicts() {
        let script = "MEM=\"-m 2G\"\nLINE=\"console=ttyS0 rcu_nocbs=1 nohz_full=1\"\nargs=(-accel kvm)\nargs+=(-net nic)\ntaskset -c 2 \\\n  qemu-system-x86_64 \"${args[@]}\" $MEM -append \"$LINE\"\n";
        let report = lint(script, LintSubject::QemuScript).expect("a report");
        let all = verdicts_by_option(script, &report);
        let texts: Vec<&str> = all.iter().map(|one| one.text.as_str()).collect();
        let expected = ["taskset -c 2", "-accel kvm", "-net nic", "-m 2G", "-append \"$LINE\""];
        assert_eq!(texts, expected);
        assert!(!all[4].findings.is_empty(), "{report:?}");
    }
}
