//! Kernel command lines.

use std::ops::Range;

use super::correction::{Draft, LintRemark};
use super::dictionary::{CpuRelation, ParameterRelation, dictionary};
use super::finding::LintVerdict;
use crate::cpu_list::CpuList;

/// One parameter of a line, and its bytes in the text.
#[derive(Clone, Debug)]
struct PlacedParameter {
    /// With `_` for `-`.
    name: String,
    /// Empty without one.
    value: String,
    bytes: Range<usize>,
}

impl PlacedParameter {
    /// The CPUs that it lists; `None` where its value is not a list.
    fn cpus(&self) -> Option<CpuList> {
        let is_flag = |piece: &&str| piece.starts_with(|c: char| c.is_ascii_lowercase());
        let list = self.value.split(',').skip_while(is_flag).collect::<Vec<_>>().join(",");
        CpuList::parse_list(&list).ok().filter(|cpus| !cpus.is_empty())
    }
}

/// Variables of `/etc/default/grub` that hold kernel command lines.
const GRUB_VARIABLE: &str = "GRUB_CMDLINE_LINUX";

/// Whether a text sets the variables of `/etc/default/grub`.
pub(super) fn is_grub_file(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(GRUB_VARIABLE))
}

/// Judges a line, or all lines of a file for GRUB together: the kernel gets them as one.
pub(super) fn judge(draft: &mut Draft<'_>) {
    let text = draft.text();
    let pieces = if is_grub_file(text) { grub_values(text) } else { kernel_lines(text) };
    let parameters: Vec<_> = pieces.iter().flat_map(|bytes| split(text, bytes)).collect();
    let last = pieces.iter().rfind(|bytes| !bytes.is_empty());

    // A word of a shell without quotes gets them, because it may become several.
    let unquoted: Vec<_> =
        pieces.iter().filter(|bytes| text[..bytes.start].ends_with('=')).collect();
    unquoted.iter().for_each(|bytes| draft.insert(bytes.start, "\""));
    judge_parameters(draft, &parameters, last.map_or(text.len(), |bytes| bytes.end));
    unquoted.iter().for_each(|bytes| draft.insert(bytes.end, "\""));
}

/// Judges the command line that is a part of another text; `offsets` are the bytes of the text for
/// each byte of the line, and for its end.
pub(super) fn judge_inside(draft: &mut Draft<'_>, line: &str, offsets: &[usize]) {
    let whole = 0..line.len();
    let mut parameters = split(line, &whole);
    for parameter in &mut parameters {
        parameter.bytes = offsets[parameter.bytes.start]..offsets[parameter.bytes.end - 1] + 1;
    }

    judge_parameters(draft, &parameters, offsets[line.len()]);
}

/// Lines that are not comments, as in `cmdline.txt` and `/proc/cmdline`.
fn kernel_lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        if !trimmed.is_empty() && !trimmed.trim_start().starts_with('#') {
            lines.push(start..start + trimmed.len());
        }
        start += line.len();
    }

    lines
}

/// The values of `GRUB_CMDLINE_LINUX="..."` and `GRUB_CMDLINE_LINUX_DEFAULT="..."`, without their
/// quotes.
fn grub_values(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut values = Vec::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if let (true, Some((_, value))) =
            (trimmed.starts_with(GRUB_VARIABLE), trimmed.split_once('='))
        {
            let from = start + line.find(value).unwrap_or_default();
            let inner = value.strip_prefix(['"', '\'']).and_then(|rest| rest.find(&value[..1]));
            match inner {
                Some(length) => values.push(from + 1..from + 1 + length),
                None if value.is_empty() || value.starts_with(['"', '\'']) => {}
                None => {
                    values
                        .push(from..from + value.find(char::is_whitespace).unwrap_or(value.len()));
                }
            }
        }
        start += line.len();
    }

    values
}

/// Splits as the kernel does: at blanks outside quotes, up to `--`.
fn split(text: &str, bytes: &Range<usize>) -> Vec<PlacedParameter> {
    let mut in_quotes = false;
    let pieces = text[bytes.clone()].split(|c: char| {
        in_quotes ^= c == '"';
        // The kernel splits at bytes, and each of these is one.
        c.is_ascii_whitespace() && !in_quotes
    });

    let mut at = bytes.start;
    let mut parameters = Vec::new();
    for piece in pieces {
        let start = at;
        at += piece.len() + 1;
        if piece == "--" {
            break;
        }
        if !piece.is_empty() {
            let clean = piece.replace('"', "");
            let (name, value) = clean.split_once('=').unwrap_or((&clean, ""));
            let name = name.replace('-', "_");
            let value = value.to_owned();
            parameters.push(PlacedParameter { name, value, bytes: start..start + piece.len() });
        }
    }

    parameters
}

fn judge_parameters(draft: &mut Draft<'_>, parameters: &[PlacedParameter], end: usize) {
    for (at, parameter) in parameters.iter().enumerate() {
        // First what removes it: a parameter that goes is not replaced for its own sake.
        judge_repetition(draft, parameter, &parameters[at + 1..]);
        for relation in relations(parameter, parameters) {
            apply_relation(draft, parameter, relation, end);
        }
        judge_one(draft, parameter);
    }

    judge_order_of_pages(draft, parameters);
    judge_interrupts(draft, parameters);
    judge_boot_cpu(draft, parameters);
}

fn judge_one(draft: &mut Draft<'_>, parameter: &PlacedParameter) {
    let PlacedParameter { name, value, bytes } = parameter;
    if let Some(entry) = dictionary().entry(name, value) {
        match entry.instead.as_deref() {
            Some("") => draft.remove(bytes.clone()),
            Some(instead) => draft.replace(bytes.clone(), instead.replace("{value}", value)),
            None => {}
        }
        draft.remark(bytes.clone(), entry.remark(value));
        return;
    }

    let similar = dictionary().similar(name).filter(|_| !dictionary().is_known(name));
    let (verdict, message) = match similar {
        _ if dictionary().is_known(name) => (LintVerdict::Valid, "No effect on latency.".to_owned()),
        Some(similar) => (LintVerdict::Misspelt, format!("No such parameter is documented; {similar} is.")),
        None if name.contains('.') => (
            LintVerdict::Unknown,
            "Not in the dictionary. The kernel ignores a module's parameter that does not exist without a message."
                .to_owned(),
        ),
        None => (LintVerdict::Unknown, "Not in the dictionary; it is not judged.".to_owned()),
    };
    let id = similar.map(|_| "kern.cmdline_known".to_owned());
    draft.remark(bytes.clone(), LintRemark { id, verdict, message, instead: None });
}

/// The relations that hold for a parameter on its line.
fn relations(
    parameter: &PlacedParameter,
    all: &[PlacedParameter],
) -> Vec<&'static ParameterRelation> {
    let has = |name: &String| all.iter().any(|other| other.name == *name);
    let holds = |relation: &&ParameterRelation| {
        if relation.when != parameter.name || !relation.is_about(&parameter.value) {
            return false;
        }
        match &relation.beside {
            None => !relation.without.iter().any(has),
            Some(name) => all
                .iter()
                .filter(|other| other.name == *name && relation.is_with(&other.value))
                .any(|other| relation.cpus.is_none_or(|cpus| relate(cpus, parameter, other))),
        }
    };
    dictionary().relation.iter().filter(holds).collect()
}

fn relate(relation: CpuRelation, parameter: &PlacedParameter, other: &PlacedParameter) -> bool {
    let (Some(own), Some(other)) = (parameter.cpus(), other.cpus()) else { return false };
    match relation {
        CpuRelation::Covered => own.is_within(&other),
        CpuRelation::Differ => own != other,
        CpuRelation::Overlap => own.meets(&other),
    }
}

fn apply_relation(
    draft: &mut Draft<'_>,
    parameter: &PlacedParameter,
    relation: &ParameterRelation,
    end: usize,
) {
    if relation.instead.as_deref() == Some("") {
        draft.remove(parameter.bytes.clone());
    }
    if let Some(add) = &relation.add {
        draft.insert(end, format!(" {add}"));
    }

    let id = dictionary().entry(&parameter.name, &parameter.value).map(|entry| entry.id.clone());
    let written = &draft.text()[parameter.bytes.clone()];
    let instead = match &relation.add {
        Some(add) => Some(format!("{written} {add}")),
        None => relation.instead.clone(),
    };
    draft.remark(
        parameter.bytes.clone(),
        LintRemark { id, verdict: relation.verdict, message: relation.says.clone(), instead },
    );
}

/// Parameters that may be given several times.
const REPEATABLE: [&str; 10] = [
    "console",
    "earlycon",
    "hugepagesz",
    "hugepages",
    "initrd",
    "memmap",
    "video",
    "modprobe.blacklist",
    "rd.",
    "ip",
];

fn judge_repetition(draft: &mut Draft<'_>, parameter: &PlacedParameter, later: &[PlacedParameter]) {
    let PlacedParameter { name, value, bytes } = parameter;
    if REPEATABLE
        .iter()
        .any(|known| name == known || (known.ends_with('.') && name.starts_with(known)))
    {
        return;
    }
    let Some(other) = later.iter().rfind(|other| other.name == *name) else { return };

    let (verdict, message) = if other.value == *value {
        (LintVerdict::Redundant, "Given twice with the same value.".to_owned())
    } else {
        let written = &draft.text()[other.bytes.clone()];
        (LintVerdict::Contradiction, format!("Given again as {written}, with another value."))
    };
    if verdict == LintVerdict::Redundant {
        draft.remove(bytes.clone());
    }
    let id = dictionary().entry(name, value).map(|entry| entry.id.clone());
    draft.remark(bytes.clone(), LintRemark { id, verdict, message, instead: None });
}

/// A number of pages counts for the size in front of it.
fn judge_order_of_pages(draft: &mut Draft<'_>, parameters: &[PlacedParameter]) {
    let place = |name: &str| parameters.iter().position(|parameter| parameter.name == name);
    let (Some(size), Some(number)) = (place("hugepagesz"), place("hugepages")) else { return };
    let is_only = parameters.iter().filter(|parameter| parameter.name == "hugepages").count() == 1;
    if number < size && is_only {
        let message =
            "The number stands in front of the size and counts for pages of the default size.";
        let remark = LintRemark::new("mem.hugepages", LintVerdict::Contradiction, message);
        draft.remark(parameters[number].bytes.clone(), remark);
    }
}

/// All interrupts on one CPU, where others are free, is rarely meant.
fn judge_interrupts(draft: &mut Draft<'_>, parameters: &[PlacedParameter]) {
    let last = |name: &str| parameters.iter().rfind(|parameter| parameter.name == name);
    let Some(affinity) = last("irqaffinity") else { return };
    let one_cpu = affinity.cpus().is_some_and(|cpus| cpus.iter().count() == 1);
    let isolated = last("isolcpus").or_else(|| last("nohz_full")).and_then(PlacedParameter::cpus);
    let Some(isolated) = isolated.filter(|_| one_cpu) else { return };

    let message = format!("Puts all interrupts on one CPU: list all CPUs except {isolated}.");
    draft.remark(
        affinity.bytes.clone(),
        LintRemark::new("irq.default", LintVerdict::Discouraged, message),
    );
}

fn judge_boot_cpu(draft: &mut Draft<'_>, parameters: &[PlacedParameter]) {
    let with_boot_cpu = |parameter: &&PlacedParameter| {
        parameter.name == "nohz_full" && parameter.cpus().is_some_and(|cpus| cpus.contains(0))
    };
    if let Some(parameter) = parameters.iter().find(with_boot_cpu) {
        let message = "CPU 0 keeps the time and cannot be without a tick; the kernel removes it from the list.";
        let remark = LintRemark::new("shield.nohz_full", LintVerdict::Contradiction, message);
        draft.remark(parameter.bytes.clone(), remark);
    }
}
