//! Kernel command lines.

use std::ops::Range;

use super::correction::{self, Draft, LintRemark, is_template};
use super::dictionary::{CpuRelation, DictionaryEntry, ParameterRelation, dictionary};
use super::finding::LintVerdict;
use super::kernel_cpus::{self, IsolatedCpus, KernelCpus};
use super::kernel_text::{self, AddedAt, LineStretch};
use super::{LintError, LintSubject, settings, systemd_values};
use crate::cpu_list::CpuList;

/// One parameter of a line, and its bytes in the text.
#[derive(Clone, Debug)]
struct PlacedParameter {
    /// With `_` for `-`; the name that is meant, where people write another one.
    name: String,
    /// The name that is written and does not exist.
    wrong_name: Option<String>,
    /// Empty without one.
    value: String,
    /// Whether a `=` stands behind the name.
    has_value: bool,
    bytes: Range<usize>,
    /// What is removed with it.
    whole: Range<usize>,
}

impl PlacedParameter {
    /// The CPUs that it lists, or that its correction does: what follows from them holds for the
    /// corrected line as well.
    fn meant_cpus(&self) -> Option<KernelCpus> {
        match kernel_cpus::parse_isolated(&self.value) {
            IsolatedCpus::Read { cpus, .. } => Some(cpus),
            IsolatedCpus::FlagsBehind { list, .. } => kernel_cpus::parse(&list).ok(),
            IsolatedCpus::Refused(_) => kernel_cpus::parse(&list_of_mask(&self.value)?).ok(),
            IsolatedCpus::Empty => None,
        }
    }

    /// The CPUs that it lists; `None` where the text does not say all.
    fn cpus(&self) -> Option<CpuList> {
        self.meant_cpus()?.known().cloned()
    }

    /// Whether CPU 0 is among its CPUs.
    fn names_boot_cpu(&self) -> bool {
        self.meant_cpus().is_some_and(|cpus| cpus.contains(0))
    }
}

/// Judges the command lines of a text.
pub(super) fn judge(draft: &mut Draft<'_>, subject: LintSubject) -> Result<(), LintError> {
    let text = draft.text();
    let found = kernel_text::lines_of(text, subject);
    let is_loader = matches!(
        subject,
        LintSubject::GrubMenu | LintSubject::Extlinux | LintSubject::SystemdBootEntry
    );
    if is_loader && found.lines.is_empty() {
        return Err(LintError::NoLine { lines: text.lines().count() });
    }

    if let Some(at) = found.open_quote {
        let (line, column) = correction::line_and_column(text, at);
        let quote = text[at..].chars().next().unwrap_or('"');
        return Err(LintError::OpenQuote { line, column, quote });
    }

    for line in &found.lines {
        let parameters: Vec<_> =
            line.stretches.iter().flat_map(|stretch| split_stretch(text, stretch)).collect();
        judge_parameters(draft, &parameters, &line.added_at);
    }
    // A word of a shell without quotes gets them where it becomes several.
    for bytes in found.unquoted {
        if draft.is_added_at(bytes.end) {
            draft.insert(bytes.start, "\"");
            draft.insert(bytes.end, "\"");
        }
    }

    for bytes in found.behind {
        let message = "A shell ends the value at the blank in front, and does not read this into the variable: put quotes around \
                       the whole value.";
        draft.judge(bytes, "env.bootchain", LintVerdict::NoEffect, message);
    }
    for bytes in found.commands {
        let message = "With a blank beside the sign a shell takes the name or the value for a command, and grub-mkconfig ends: write NAME=\"...\".";
        draft.judge(bytes, "env.bootchain", LintVerdict::InvalidValue, message);
    }
    for bytes in found.replaced.into_iter().filter(|bytes| !bytes.is_empty()) {
        let message =
            "Replaced: the variable is assigned again further down, and the last value counts.";
        draft.judge(bytes, "env.bootchain", LintVerdict::NoEffect, message);
    }
    for bytes in found.unread {
        let message = "Not read: a kernel command line is one line, and the firmware of a Raspberry Pi reads the first one \
                       only. Move these words to the first line.";
        draft.judge(bytes, "env.bootchain", LintVerdict::NoEffect, message);
    }
    draft.add_others(found.others);
    if let Some(why) = found.refusal {
        draft.refuse_correction(why);
    }
    Ok(())
}

/// Judges the command line that is in another text; `offsets` are the bytes of the text for each byte
/// of the line, and for its end.
pub(super) fn judge_inside(draft: &mut Draft<'_>, line: &str, offsets: &[usize]) {
    judge_placed(draft, line, offsets, &AddedAt::Word(offsets[line.len()]));
}

/// The same of words that are added to the line of a machine.
pub(super) fn judge_part(draft: &mut Draft<'_>, line: &str, offsets: &[usize]) {
    judge_placed(draft, line, offsets, &AddedAt::Elsewhere);
}

fn judge_placed(draft: &mut Draft<'_>, line: &str, offsets: &[usize], added_at: &AddedAt) {
    let whole = 0..line.len();
    let mut parameters = split(line, &whole);
    for parameter in &mut parameters {
        parameter.bytes = offsets[parameter.bytes.start]..offsets[parameter.bytes.end - 1] + 1;
        parameter.whole = parameter.bytes.clone();
    }

    judge_parameters(draft, &parameters, added_at);
}

fn split_stretch(text: &str, stretch: &LineStretch) -> Vec<PlacedParameter> {
    let mut parameters = split(text, &stretch.bytes);
    if let [only] = parameters.as_mut_slice()
        && stretch.whole != stretch.bytes
    {
        only.whole = stretch.whole.clone();
    }
    parameters
}

/// Splits as the kernel does: at blanks outside quotes, up to `--`; and as who fills in
/// `${NAME:+$NAME }` or `{{ name }}`.
fn split(text: &str, bytes: &Range<usize>) -> Vec<PlacedParameter> {
    let (mut in_quotes, mut in_braces, mut last) = (false, false, ' ');
    let pieces = text[bytes.clone()].split(|c: char| {
        in_quotes ^= c == '"';
        let is_open = matches!((last, c), ('$' | '{', '{') | ('{', '%'));
        in_braces = c != '}' && (in_braces || is_open);
        last = c;
        // The kernel splits at bytes, and each of these is one.
        c.is_ascii_whitespace() && !in_quotes && !in_braces
    });

    let mut at = bytes.start;
    let mut parameters = Vec::new();
    for piece in pieces {
        let start = at;
        at += piece.len() + 1;
        if piece == "--" {
            break;
        }
        // A line of a shell that continues.
        if piece.is_empty() || piece == "\\" {
            continue;
        }
        let clean = piece.replace('"', "");
        let (name, value) = clean.split_once('=').unwrap_or((&clean, ""));
        let bytes = start..start + piece.len();
        let name = name.replace('-', "_");
        let meant = dictionary().meant_by(&name);
        parameters.push(PlacedParameter {
            name: meant.unwrap_or(&name).to_owned(),
            wrong_name: meant.is_some().then_some(name),
            value: value.to_owned(),
            has_value: clean.contains('='),
            whole: bytes.clone(),
            bytes,
        });
    }

    parameters
}

/// Consoles of boards with ARM.
const ARM_CONSOLES: [&str; 14] = [
    "serial0", "ttyAMA", "ttyTCU", "ttyTHS", "ttymxc", "ttyLP", "ttyPS", "ttyO", "ttySAC",
    "ttyAML", "ttyMSM", "ttySTM", "ttyFIQ", "ttyMV",
];

/// What the firmware of a Raspberry Pi adds, whose console may be ttyS0.
const OF_PI: [&str; 4] = ["bcm2708_fb.", "bcm2709.", "vc_mem.", "snd_bcm2835."];

/// Judged parameters that only x86 has.
const OF_X86: [&str; 8] = [
    "idle",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "tsc",
    "mce",
    "intel_iommu",
    "amd_iommu",
];

/// Says of a parameter that it is read on x86, or on ARM, alone; returns whether it is one.
fn judge_on_arm(draft: &mut Draft<'_>, parameter: &PlacedParameter) -> bool {
    let (verdict, message) = match parameter.name.as_str() {
        "nohlt" => (LintVerdict::Valid, "Valid; idle CPUs poll instead of sleeping."),
        "idle" | "intel_idle.max_cstate" => (
            LintVerdict::NoEffect,
            "A parameter of x86. On ARM nohlt keeps idle CPUs from sleeping.",
        ),
        name if OF_X86.contains(&name) => {
            (LintVerdict::NoEffect, "A parameter of x86; the console is that of a board with ARM.")
        }
        _ => return false,
    };
    let id = dictionary().entry(&parameter.name, &parameter.value).map(|entry| entry.id.clone());
    let remark = LintRemark { id, verdict, message: message.to_owned(), instead: None };
    draft.remark(parameter.bytes.clone(), remark);
    true
}

/// Bytes of a command line on x86 and ARM64 with a NUL at the end (`COMMAND_LINE_SIZE`).
const LINE_BYTES: usize = 2048;

/// Returns the parameters that fit into a command line, and says where it is cut off.
fn read_of<'p>(draft: &mut Draft<'_>, parameters: &'p [PlacedParameter]) -> &'p [PlacedParameter] {
    let mut bytes = 0;
    let fits = |parameter: &&PlacedParameter| {
        bytes += parameter.bytes.len() + 1;
        bytes <= LINE_BYTES
    };
    let (read, cut) = parameters.split_at(parameters.iter().take_while(fits).count());
    if let Some(first) = cut.first() {
        let message = format!(
            "Cut off: kernels for x86 and ARM64 read {} bytes of their command line. Words from here on that are not read: {}.",
            LINE_BYTES - 1,
            cut.len()
        );
        draft.judge(first.bytes.clone(), "env.bootchain", LintVerdict::NoEffect, message);
    }
    read
}

fn judge_parameters(draft: &mut Draft<'_>, parameters: &[PlacedParameter], added_at: &AddedAt) {
    let parameters = read_of(draft, parameters);
    let is_sign = |PlacedParameter { name, value, .. }: &PlacedParameter| {
        name == "console" && ARM_CONSOLES.iter().any(|known| value.starts_with(known))
            || OF_PI.iter().any(|known| name.starts_with(known))
    };
    let is_arm = parameters.iter().any(is_sign);
    // First what removes it: a parameter that goes is not replaced for its own sake.
    let mut counted = Vec::new();
    for (at, parameter) in parameters.iter().enumerate() {
        if !judge_repetition(draft, parameters, at) {
            counted.push((at, parameter));
        }
    }
    // On ARM nothing follows from what is not read there.
    let is_read = |parameter: &&PlacedParameter| !is_arm || !OF_X86.contains(&&*parameter.name);
    let only: Vec<&PlacedParameter> =
        counted.iter().map(|(_, parameter)| *parameter).filter(is_read).collect();
    for (at, parameter) in counted {
        if is_arm && judge_on_arm(draft, parameter) {
            continue;
        }
        // Kernels of boards seldom have NO_HZ_FULL, without which nothing implies rcu_nocbs.
        let is_open = is_arm && parameter.name == "rcu_nocbs";
        for relation in relations(parameter, &only, added_at).into_iter().filter(|_| !is_open) {
            apply_relation(draft, parameter, relation, added_at);
        }
        let before = at.checked_sub(1).map(|before| &parameters[before]);
        judge_one(draft, parameter, before, &flags_of_others(&parameters[at + 1..], parameter));
    }

    judge_order_of_pages(draft, parameters);
    judge_interrupts(draft, &only);
    judge_boot_cpu(draft, &only);
}

/// Parameters whose value is a list of CPUs and nothing else.
const CPU_LISTS: [&str; 4] = ["nohz_full", "rcu_nocbs", "irqaffinity", "workqueue.unbound_cpus"];

/// Judges a parameter by itself, with the one in front of it and the flags of others for its CPUs.
fn judge_one(
    draft: &mut Draft<'_>,
    parameter: &PlacedParameter,
    before: Option<&PlacedParameter>,
    flags: &[&str],
) {
    let PlacedParameter { name, value, bytes, .. } = parameter;
    let piece = &draft.text()[bytes.clone()];
    if piece.contains(['$', '@', '%']) || is_template(piece) {
        let message =
            "Something else is written here before the kernel reads it; it is not judged.";
        draft.pass_over(bytes.clone(), LintVerdict::Unknown, message);
        return;
    }
    if parameter.wrong_name.is_some() {
        judge_wrong_name(draft, parameter, flags);
        return;
    }
    if name == "isolcpus" {
        judge_isolated(draft, parameter, flags);
        return;
    }
    if CPU_LISTS.contains(&name.as_str()) && !judge_list(draft, parameter) {
        return;
    }
    if name == "systemd.cpu_affinity"
        && let Some(message) = systemd_values::wrong_cpus(value)
    {
        draft.judge(bytes.clone(), "shield.systemd_affinity", LintVerdict::InvalidValue, message);
        return;
    }

    if let Some(entry) = dictionary().entry(name, value) {
        match entry.instead.as_deref() {
            Some("") => draft.remove(parameter.whole.clone()),
            Some(instead) => draft.replace(bytes.clone(), instead.replace("{value}", value)),
            None => {}
        }
        draft.remark(bytes.clone(), entry.remark(value));
        return;
    }
    judge_name(draft, parameter, before);
}

/// A parameter under a name that no kernel has.
fn judge_wrong_name(draft: &mut Draft<'_>, parameter: &PlacedParameter, others: &[&str]) {
    let PlacedParameter { name, value, bytes, has_value, .. } = parameter;
    let message = format!("No parameter of a kernel has this name; {name} is meant.");
    let remark = LintRemark::new("kern.cmdline_known", LintVerdict::Misspelt, message);
    let written = match kernel_cpus::parse_isolated(value) {
        IsolatedCpus::Read { flags, list, .. } if name == "isolcpus" => {
            Some(isolated(&[flags.as_slice(), others].concat(), list))
        }
        _ if name == "isolcpus" => None,
        _ if *has_value => Some(format!("{name}={value}")),
        _ => Some(name.clone()),
    };
    let is_valid = |entry: &DictionaryEntry| entry.verdict == LintVerdict::Valid;
    let is_good = name == "isolcpus"
        || (dictionary().entry(name, value).is_some_and(is_valid)
            && (!CPU_LISTS.contains(&name.as_str()) || list_error(name, value).is_none()));
    draft.correct(bytes.clone(), remark, written.filter(|_| is_good));
}

/// A parameter that no entry is about.
fn judge_name(
    draft: &mut Draft<'_>,
    parameter: &PlacedParameter,
    before: Option<&PlacedParameter>,
) {
    const ID: &str = "kern.cmdline_known";
    let PlacedParameter { name, bytes, .. } = parameter;
    if dictionary().is_plain(name) {
        draft.remark(bytes.clone(), LintRemark::plain());
        return;
    }
    if judge_sysctl(draft, parameter) || judge_lost_piece(draft, parameter, before) {
        return;
    }

    let is_known = dictionary().is_known(name);
    let remark = match dictionary().similar(name).filter(|_| !is_known) {
        _ if is_known => {
            let message = "A parameter of the kernel, of a module or of the init system. Its effect on latency is not judged.";
            LintRemark::unjudged(LintVerdict::Known, message)
        }
        Some(similar) => LintRemark::new(
            ID,
            LintVerdict::Misspelt,
            format!("No such parameter is documented; {similar} is."),
        ),
        None if name.contains('.') => LintRemark::unjudged(
            LintVerdict::Unknown,
            "Not in the dictionary. The kernel ignores a module's parameter that does not exist without a message.",
        ),
        None => LintRemark::unknown(),
    };
    draft.remark(bytes.clone(), remark);
}

/// A sysctl on the command line: the kernel reads it behind the prefix `sysctl.` only.
fn judge_sysctl(draft: &mut Draft<'_>, parameter: &PlacedParameter) -> bool {
    let PlacedParameter { name, value, bytes, has_value, .. } = parameter;
    if let Some(key) = name.strip_prefix("sysctl.") {
        let remark = settings::remark("sysctl", key, value);
        draft.remark(bytes.clone(), remark);
        return true;
    }
    let is_sysctl = settings::is_known("sysctl", name)
        || ["kernel.", "vm.", "fs."].iter().any(|start| name.starts_with(start));
    if !is_sysctl || !*has_value || dictionary().is_known(name) {
        return false;
    }
    let message = "A sysctl, which the kernel does not read here. In /etc/sysctl.d it is set at each boot; on the command line \
                   it needs the prefix sysctl. (since Linux 5.8).";
    let remark = LintRemark::new("kern.cmdline_known", LintVerdict::NoEffect, message);
    let is_good = !settings::remark("sysctl", name, value).verdict.is_problem();
    draft.correct(bytes.clone(), remark, is_good.then(|| format!("sysctl.{name}={value}")));
    true
}

/// The rest of a list behind a blank.
fn judge_lost_piece(
    draft: &mut Draft<'_>,
    parameter: &PlacedParameter,
    before: Option<&PlacedParameter>,
) -> bool {
    let is_list = |text: &str| !text.is_empty() && kernel_cpus::parse(text).is_ok();
    let follows_list = before.is_some_and(|before| before.value.ends_with(','));
    if parameter.has_value || !follows_list || !is_list(&parameter.name.replace('_', "-")) {
        return false;
    }
    let message = "A blank ends the list in front of it: the kernel does not read these CPUs and passes the word to init.";
    draft.judge(parameter.bytes.clone(), "kern.cmdline_known", LintVerdict::NoEffect, message);
    true
}

/// `isolcpus=` as the kernel reads it best: flags in front, the scheduler's domains among them.
fn isolated(flags: &[&str], list: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for flag in flags.iter().filter_map(|flag| known_flag(flag)) {
        if !kept.contains(&flag) {
            kept.push(flag);
        }
    }
    if kept.is_empty() {
        kept.push("managed_irq");
    }
    if !kept.contains(&"domain") {
        kept.push("domain");
    }
    // A list in quotes may have blanks, which stay out of what is written without them.
    let list: Vec<&str> = list.split([',', ' ', '\t']).filter(|cpu| !cpu.is_empty()).collect();
    format!("isolcpus={},{}", kept.join(","), list.join(","))
}

/// The flag that a word is, or is nearly.
fn known_flag(word: &str) -> Option<&'static str> {
    let nearly = |flag: &&&str| strsim::damerau_levenshtein(flag, word) <= 2;
    kernel_cpus::FLAGS.iter().find(nearly).copied()
}

/// A mask such as `0x0c` as the list that was meant.
fn list_of_mask(value: &str) -> Option<String> {
    let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"))?;
    let cpus = CpuList::parse_mask(digits).ok()?;
    (!cpus.is_empty()).then(|| cpus.to_string())
}

/// What is wrong with a list of CPUs; `None` for a good one.
fn list_error(name: &str, value: &str) -> Option<String> {
    // What the kernel does with an empty list, and with one that it cannot read.
    let (empty, unread) = match name {
        "nohz_full" => ("no tick is stopped", "ignores the whole value, so no tick is stopped"),
        "rcu_nocbs" => ("no CPU is offloaded", "offloads all CPUs instead"),
        "irqaffinity" => (
            "new interrupts go to the boot CPU alone",
            "sends new interrupts to the boot CPU and to the CPUs in front of it alone",
        ),
        _ => ("the parameter has no effect", "ignores the whole value"),
    };
    match kernel_cpus::parse(value) {
        // `rcu_nocbs` alone offloads what nohz_full names.
        Ok(_) if value.is_empty() && name == "rcu_nocbs" => None,
        Ok(_) if value.trim_matches([',', ' ']).is_empty() => {
            Some(format!("No CPU is in the list: {empty}."))
        }
        Ok(_) => None,
        Err(at) => Some(format!(
            "Not a list of CPUs: the kernel stops at \"{at}\" and {unread}. A list is numbers and \
             ranges by comma, such as 2-3."
        )),
    }
}

/// Judges the value of a parameter of [`CPU_LISTS`]; returns whether the kernel reads it.
fn judge_list(draft: &mut Draft<'_>, parameter: &PlacedParameter) -> bool {
    let PlacedParameter { name, value, bytes, .. } = parameter;
    let Some(message) = list_error(name, value) else { return true };
    let id = dictionary().entry(name, value).map_or("kern.cmdline_known", |entry| &entry.id);
    let remark = LintRemark::new(id, LintVerdict::InvalidValue, message);
    let written = list_of_mask(value).map(|list| format!("{name}={list}"));
    draft.correct(bytes.clone(), remark, written);
    false
}

/// The flags of `isolcpus=`: without any it is about the scheduler's domains.
fn flags_of(value: &str) -> Vec<&str> {
    let flags = match kernel_cpus::parse_isolated(value) {
        IsolatedCpus::Read { flags, .. } | IsolatedCpus::FlagsBehind { flags, .. } => flags,
        IsolatedCpus::Empty | IsolatedCpus::Refused(_) => Vec::new(),
    };
    if flags.is_empty() { vec!["domain"] } else { flags }
}

/// The flags that other `isolcpus=` have for the same CPUs as one.
fn flags_of_others<'p>(others: &'p [PlacedParameter], parameter: &PlacedParameter) -> Vec<&'p str> {
    let is_isolating = |one: &PlacedParameter| one.name == "isolcpus";
    let is_same = |other: &&PlacedParameter| is_isolating(other) && is_same_list(other, parameter);
    let same = others.iter().filter(is_same).filter(|_| is_isolating(parameter));
    same.flat_map(|other| flags_of(&other.value)).collect()
}

fn is_same_list(one: &PlacedParameter, other: &PlacedParameter) -> bool {
    let cpus = one.meant_cpus();
    one.value == other.value || cpus.is_some() && cpus == other.meant_cpus()
}

/// Judges `isolcpus=`, the first of its line for these CPUs, with the flags of the others.
fn judge_isolated(draft: &mut Draft<'_>, parameter: &PlacedParameter, others: &[&str]) {
    let value = parameter.value.as_str();
    let mut say = |verdict, message: String, instead: Option<String>| {
        let remark = LintRemark::new("shield.isolcpus", verdict, message);
        draft.correct(parameter.bytes.clone(), remark, instead);
    };
    let invalid = LintVerdict::InvalidValue;
    match kernel_cpus::parse_isolated(value) {
        IsolatedCpus::Empty if value.is_empty() => {
            say(invalid, "No CPU is in the list: the kernel isolates nothing.".to_owned(), None);
        }
        IsolatedCpus::Empty => {
            let message = format!(
                "The kernel takes \"{value}\" for flags and finds no list behind them: nothing is isolated. Name the CPUs, \
                 such as managed_irq,domain,2-3."
            );
            say(invalid, message, None);
        }
        IsolatedCpus::Refused(at) => {
            let list = list_of_mask(value);
            let what = if list.is_some() { "A mask, not a list" } else { "Not a list of CPUs" };
            let message = format!(
                "{what}: the kernel stops at \"{at}\", reports an incorrect CPU range and isolates nothing."
            );
            say(invalid, message, list.map(|list| isolated(others, &list)));
        }
        IsolatedCpus::FlagsBehind { flags, list } => {
            let message = "Flags stand in front of the list. Behind it the kernel reports an incorrect CPU range and isolates \
                           nothing.";
            let all = [flags.as_slice(), others].concat();
            say(invalid, message.to_owned(), Some(isolated(&all, &list)));
        }
        IsolatedCpus::Read { list, .. }
            if others.iter().any(|flag| !flags_of(value).contains(flag)) =>
        {
            let message =
                "More flags for the same CPUs are in another isolcpus=: write all into one.";
            let all = [flags_of(value).as_slice(), others].concat();
            say(LintVerdict::Incomplete, message.to_owned(), Some(isolated(&all, list)));
        }
        IsolatedCpus::Read { flags, list, .. } => judge_flags(&flags, list, say),
    }
}

fn judge_flags(
    flags: &[&str],
    list: &str,
    mut say: impl FnMut(LintVerdict, String, Option<String>),
) {
    let better = isolated(flags, list);
    if let Some(unknown) = flags.iter().find(|flag| !kernel_cpus::FLAGS.contains(flag)) {
        let lost = match known_flag(unknown) {
            Some("managed_irq") => "managed interrupts still arrive there",
            Some("domain") => "the scheduler still places threads there",
            Some("nohz") => "the tick stays",
            _ => "it has no effect",
        };
        let message = format!(
            "No such flag: the kernel skips \"{unknown}\", so {lost} (since Linux 5.8; before, it ignored the whole \
             parameter). The flags are managed_irq, domain and nohz."
        );
        say(LintVerdict::InvalidValue, message, Some(better));
    } else if flags.is_empty() {
        let message = "Works, but managed interrupts still arrive there: add managed_irq,domain. A cpuset partition is preferred, \
                       because it can be undone; SMT siblings must be isolated as well.";
        say(LintVerdict::Incomplete, message.to_owned(), Some(better));
    } else if !flags.contains(&"domain") {
        let message = "Without the flag domain the scheduler still places threads on these CPUs.";
        say(LintVerdict::Incomplete, message.to_owned(), Some(better));
    } else {
        let message = "Removes these CPUs from the scheduling domains. A cpuset partition does the same and can be undone; SMT \
                       siblings must be isolated as well.";
        say(LintVerdict::Valid, message.to_owned(), None);
    }
}

/// The relations that hold for a parameter on its line.
fn relations(
    parameter: &PlacedParameter,
    all: &[&PlacedParameter],
    added_at: &AddedAt,
) -> Vec<&'static ParameterRelation> {
    // The flag nohz of isolcpus is nohz_full for its CPUs.
    let is_tickless = |other: &&PlacedParameter| {
        other.name == "isolcpus" && other.value.split(',').any(|flag| flag == "nohz")
    };
    // What a boot loader writes in place of a word may hold what is not seen here.
    let is_open = *added_at == AddedAt::Elsewhere
        || all.iter().any(|other| other.name.starts_with(['$', '@', '{']));
    let has = |name: &String| {
        all.iter().any(|other| other.name == *name || (name == "nohz_full" && is_tickless(other)))
    };
    let holds = |relation: &&ParameterRelation| {
        if relation.when != parameter.name || !relation.is_about(&parameter.value) {
            return false;
        }
        match &relation.beside {
            None => !is_open && !relation.without.iter().any(has),
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
    added_at: &AddedAt,
) {
    if relation.instead.as_deref() == Some("") {
        draft.remove(parameter.whole.clone());
    }
    if let Some(add) = &relation.add {
        match *added_at {
            AddedAt::Word(end) => draft.insert(end, format!(" {add}")),
            AddedAt::QuotedWord(end) => draft.insert(end, format!(" \"{add}\"")),
            AddedAt::Elsewhere => {}
        }
    }

    let id = dictionary().entry(&parameter.name, &parameter.value).map(|entry| entry.id.clone());
    let written = &draft.text()[parameter.bytes.clone()];
    let instead = match &relation.add {
        Some(add) => Some(format!("{written} {add}")),
        None => relation.instead.clone(),
    };
    let (verdict, message) = (relation.verdict, relation.says.clone());
    draft.remark(parameter.bytes.clone(), LintRemark { id, verdict, message, instead });
}

/// Judges a parameter that its line has again; returns whether nothing else is to be said of it.
fn judge_repetition(draft: &mut Draft<'_>, parameters: &[PlacedParameter], at: usize) -> bool {
    let parameter = &parameters[at];
    let PlacedParameter { name, value, bytes, .. } = parameter;
    if bytes.is_empty() || draft.text()[bytes.clone()].contains(['$', '@', '{']) {
        return false;
    }
    if kernel_cpus::keeps_first(name) {
        return judge_later_list(draft, parameter, &parameters[..at]);
    }
    if dictionary().is_repeatable(name) {
        return false;
    }
    let later = &parameters[at + 1..];
    let Some(other) = later.iter().rfind(|other| other.name == *name) else { return false };

    let (verdict, message) = if other.value == *value {
        (LintVerdict::Redundant, "Given twice with the same value.".to_owned())
    } else {
        let written = draft.text()[other.bytes.clone()].to_owned();
        let message = format!("Given again as {written}: the last one counts.");
        (LintVerdict::Contradiction, message)
    };
    if verdict == LintVerdict::Redundant {
        draft.remove(parameter.whole.clone());
    }
    let id = dictionary().entry(name, value).map(|entry| entry.id.clone());
    draft.remark(bytes.clone(), LintRemark { id, verdict, message, instead: None });
    false
}

/// Of several `isolcpus=` for one purpose, and of several `nohz_full=`, the kernel keeps the first
/// that it can read (`housekeeping_setup` in kernel/sched/isolation.c).
fn judge_later_list(
    draft: &mut Draft<'_>,
    parameter: &PlacedParameter,
    earlier: &[PlacedParameter],
) -> bool {
    let name = parameter.name.as_str();
    let is_read = |other: &PlacedParameter| {
        other.meant_cpus().is_some()
            || name == "nohz_full"
                && kernel_cpus::parse(&other.value).is_ok_and(|cpus| cpus.is_open)
    };
    let is_first = |other: &&PlacedParameter| other.name == name && is_read(other);
    let Some(first) = earlier.iter().find(is_first).filter(|_| is_read(parameter)) else {
        return false;
    };
    let id = if name == "isolcpus" { "shield.isolcpus" } else { "shield.nohz_full" };
    let written = draft.text()[first.bytes.clone()].to_owned();
    if is_same_list(first, parameter) {
        let message = format!("The same CPUs as {written}: one {name}= is enough.");
        let remark = LintRemark::new(id, LintVerdict::Redundant, message);
        draft.remove(parameter.whole.clone());
        draft.remark(parameter.bytes.clone(), remark);
        return true;
    }
    let message = format!(
        "Other CPUs than {written}: of two for the same purpose the kernel keeps the first, ignores this one and logs \
         \"nohz_full= must match isolcpus=\"."
    );
    draft.judge(parameter.bytes.clone(), id, LintVerdict::Contradiction, message);
    true
}

/// A number of pages counts for the size in front of it.
fn judge_order_of_pages(draft: &mut Draft<'_>, parameters: &[PlacedParameter]) {
    let place = |name: &str| parameters.iter().position(|parameter| parameter.name == name);
    let (Some(size), Some(number)) = (place("hugepagesz"), place("hugepages")) else { return };
    let is_only = parameters.iter().filter(|parameter| parameter.name == "hugepages").count() == 1;
    let value = |name: &str| place(name).map(|at| parameters[at].value.as_str());
    let is_default = value("default_hugepagesz") == value("hugepagesz");
    if number < size && is_only && !is_default {
        let message = "The number precedes the size and applies to pages of the default size.";
        let remark = LintRemark::new("mem.hugepages", LintVerdict::Contradiction, message);
        draft.remark(parameters[number].bytes.clone(), remark);
    }
}

/// All interrupts on one CPU, where others are free, is rarely meant.
fn judge_interrupts(draft: &mut Draft<'_>, parameters: &[&PlacedParameter]) {
    let last = |name: &str| parameters.iter().rfind(|parameter| parameter.name == name);
    let Some(affinity) = last("irqaffinity") else { return };
    let one_cpu = affinity.cpus().filter(|cpus| cpus.iter().count() == 1);
    let isolated = last("isolcpus").or_else(|| last("nohz_full")).and_then(|one| one.cpus());
    let (Some(one_cpu), Some(isolated)) = (one_cpu, isolated) else { return };
    // The text alone shows a third CPU only below an isolated one.
    let mut below = 0..isolated.iter().max().unwrap_or(0);
    if below.all(|cpu| isolated.contains(cpu) || one_cpu.contains(cpu)) {
        return;
    }

    let message = format!("Puts all interrupts on one CPU: list all CPUs except {isolated}.");
    draft.judge(affinity.bytes.clone(), "irq.default", LintVerdict::Discouraged, message);
}

fn judge_boot_cpu(draft: &mut Draft<'_>, parameters: &[&PlacedParameter]) {
    for parameter in parameters.iter().filter(|parameter| parameter.names_boot_cpu()) {
        let (id, message) = match parameter.name.as_str() {
            "nohz_full" => (
                "shield.nohz_full",
                "CPU 0 keeps the time and cannot be without a tick; the kernel removes it from the list.",
            ),
            "isolcpus" => (
                "shield.plan",
                "CPU 0 is the boot CPU: timekeeping, the kernel's own work and interrupts that cannot move stay on it, and where \
                 no other CPU is left the kernel takes it out of the list. /sys/devices/system/cpu/isolated shows what is in \
                 effect. Take another CPU.",
            ),
            _ => continue,
        };
        draft.judge(parameter.bytes.clone(), id, LintVerdict::Contradiction, message);
    }
}
