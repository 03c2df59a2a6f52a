//! Files of `modprobe.d`: the options that modules are loaded with.

use std::ops::Range;

use super::config_files::unknown_line;
use super::correction::{Draft, LintRemark};
use super::dictionary::dictionary;
use super::finding::LintVerdict;
use super::kernel_text::numbered_lines;
use super::settings::{self, PlacedSetting};

/// Commands without options, of modprobe.d(5).
const OTHER_COMMANDS: [&str; 6] = ["blacklist", "install", "remove", "alias", "softdep", "weakdep"];

/// Names of the kernel that are no modules, or in the kernels of no distribution.
const BUILT_IN: [&str; 10] = [
    "intel_idle",
    "intel_pstate",
    "processor",
    "pcie_aspm",
    "cpuidle",
    "cpufreq",
    "workqueue",
    "rcutree",
    "rcupdate",
    "kfence",
];

/// Words that kernel command lines often begin with.
const KERNEL_WORDS: [&str; 4] = ["rw", "ro", "quiet", "splash"];

/// Whether a line is one of `modprobe.d`.
pub(super) fn is_line(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        // An entry of systemd-boot has options too, which are the kernel's.
        ["options", module, option, ..] => {
            option.contains('=') && !module.contains('=') && !KERNEL_WORDS.contains(&module)
        }
        ["blacklist", _] | ["weakdep", _, _, ..] => true,
        ["softdep", _, of, ..] => of.ends_with(':'),
        // A shell has commands of these names.
        ["alias", name, _] => !name.contains('='),
        ["install" | "remove", module, _, ..] => !module.starts_with('-'),
        _ => false,
    }
}

/// Judges a file of `modprobe.d`.
pub(super) fn judge(draft: &mut Draft<'_>) {
    let mut continues = false;
    let mut module: Option<String> = None;
    for (at, line) in numbered_lines(draft.text()) {
        let is_rest = std::mem::replace(&mut continues, line.ends_with('\\'));
        let content = line.trim_end_matches('\\');
        if content.trim().is_empty() || !is_rest && content.trim_start().starts_with('#') {
            continue;
        }
        let mut words = content.split_ascii_whitespace();
        if !is_rest {
            let command = words.next().unwrap_or_default();
            let named = words.next().map(|name| name.replace('-', "_"));
            module = named.filter(|_| command == "options");
            if OTHER_COMMANDS.contains(&command) {
                let bytes = at..at + content.trim_end().len();
                let message =
                    "Which module is loaded, and how. Its effect on latency is not judged.";
                draft.pass_over(bytes, LintVerdict::Known, message);
            } else if module.is_none() {
                unknown_line(draft, at, content);
            }
        }
        let Some(module) = &module else { continue };
        for word in words {
            let start = at + (word.as_ptr() as usize - line.as_ptr() as usize);
            judge_option(draft, module, word, start..start + word.len());
        }
    }
}

fn judge_option(draft: &mut Draft<'_>, module: &str, word: &str, bytes: Range<usize>) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let of_kernel = format!("{module}.{}", name.replace('-', "_"));
    let entry = dictionary().entry(&of_kernel, value);
    if BUILT_IN.contains(&module) {
        let message = format!(
            "{module} is a part of the kernel and not a module: modprobe does not load it. The kernel \
             command line takes {module}.{word}."
        );
        let id = entry.map_or("kern.cmdline_known", |entry| &entry.id);
        draft.judge(bytes, id, LintVerdict::NoEffect, message);
        return;
    }
    if let Some(entry) = entry {
        draft.remark(bytes, LintRemark { instead: None, ..entry.remark(value) });
        return;
    }
    let value_bytes = bytes.end - value.len()..bytes.end;
    // One value for each device.
    let mut values = value.split(',');
    let first = values.next().unwrap_or_default();
    let value = if values.all(|next| next == first) { first } else { value };
    let setting = PlacedSetting { name: format!("{module}.{name}"), value, bytes, value_bytes };
    settings::judge(draft, "modprobe", &setting, None);
}
