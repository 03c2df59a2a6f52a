//! Files of lines: `sysctl.d`, `limits.d`, systemd units, TuneD profiles, udev rules, interfaces,
//! irqbalance.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::HIGHEST_PRIORITY;
use super::containers;
use super::correction::{Draft, LintRemark, is_template};
use super::finding::LintVerdict;
use super::kernel_line;
use super::kernel_text::numbered_lines;
use super::settings::{self, PlacedSetting};
use super::systemd_values;
use crate::cpu_list::CpuList;

/// A line with its end, which goes where the setting goes.
fn with_end(text: &str, at: usize, line: &str) -> Range<usize> {
    let end = at + line.len();
    let rest = &text[end..];
    let newline = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    at..end + newline
}

pub(super) fn unknown_line(draft: &mut Draft<'_>, at: usize, line: &str) {
    let start = at + line.len() - line.trim_start().len();
    let message = "Not a line of this kind of file; it is not judged.";
    draft.pass_over(start..at + line.trim_end().len(), LintVerdict::Unknown, message);
}

/// `name = value`, without blanks around both; other white space is a part of them.
fn assignment(at: usize, line: &str) -> Option<PlacedSetting<'_>> {
    let (name, value) = line.split_once('=')?;
    let start = at + name.len() - name.trim_ascii_start().len();
    let value_start = at + name.len() + 1 + value.len() - value.trim_ascii_start().len();
    let value = value.trim_ascii();
    let value_bytes = value_start..value_start + value.len();
    let bytes = start..value_bytes.end;
    Some(PlacedSetting { name: name.trim_ascii().to_owned(), value, bytes, value_bytes })
}

/// The settings of lines with sections between them, each with its section and its line; says of
/// every other line that it is none.
fn in_sections<'l>(
    draft: &mut Draft<'_>,
    lines: impl Iterator<Item = (usize, &'l str)>,
) -> Vec<(&'l str, PlacedSetting<'l>, Range<usize>)> {
    let mut section = "";
    let mut settings = Vec::new();
    for (at, line) in lines {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = name;
            continue;
        }
        match assignment(at, line) {
            Some(setting) => settings.push((section, setting, with_end(draft.text(), at, line))),
            None => unknown_line(draft, at, line),
        }
    }
    settings
}

/// Judges a file of `sysctl.d`, of which the last value of a name counts.
pub(super) fn judge_sysctl(draft: &mut Draft<'_>) {
    let text = draft.text();
    let mut all: Vec<(PlacedSetting<'_>, Range<usize>)> = Vec::new();
    for (at, line) in numbered_lines(text) {
        if line.trim().is_empty() || line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        match assignment(at, line) {
            Some(mut setting) => {
                // `-name` ignores errors, and `/` may stand for `.`.
                setting.name = setting.name.trim_start_matches('-').replace('/', ".");
                all.push((setting, with_end(text, at, line)));
            }
            None => judge_without_sign(draft, at, line),
        }
    }
    let last_values: HashMap<_, _> =
        all.iter().map(|(setting, _)| (setting.name.as_str(), setting.value)).collect();
    let budgets = real_time_budgets(&all);
    for (setting, line) in &all {
        let again = last_values.get(setting.name.as_str());
        if let Some(again) = again.filter(|again| **again != setting.value) {
            let message = format!("Set again to {again}: the last value counts.");
            let id = settings::remark("sysctl", &setting.name, setting.value).id;
            let verdict = LintVerdict::Contradiction;
            let remark = LintRemark { id, verdict, message, instead: None };
            draft.remark(setting.bytes.clone(), remark);
        } else if let Some((value, _)) = setting.value.split_once(" #")
            && settings::is_known("sysctl", &setting.name)
        {
            let message = "A comment has a line of its own: here it is written as a part of the value. Behind a number the kernel drops it; \
                           a mask is refused, and a text has it in it.";
            let id = settings::remark("sysctl", &setting.name, value.trim()).id;
            let verdict = LintVerdict::Discouraged;
            let remark = LintRemark { id, verdict, message: message.to_owned(), instead: None };
            let name = &text[setting.bytes.start..setting.value_bytes.start];
            let instead = format!("{name}{}", value.trim());
            draft.correct(setting.bytes.clone(), remark, Some(instead));
        } else if let Some(remark) = budgets.get(&setting.bytes.start) {
            draft.remark(setting.bytes.clone(), remark.clone());
        } else {
            settings::judge(draft, "sysctl", setting, Some(line.clone()));
        }
    }
}

/// A line of `sysctl.d` without the sign of an assignment, as other files and programs have it.
fn judge_without_sign(draft: &mut Draft<'_>, at: usize, line: &str) {
    let name = line.trim_start().split([' ', '\t', ':']).next().unwrap_or_default();
    let name = name.replace('/', ".");
    if !settings::is_known("sysctl", &name) {
        unknown_line(draft, at, line);
        return;
    }
    let start = at + line.len() - line.trim_start().len();
    let id = settings::remark("sysctl", &name, "").id;
    let message =
        "Not an assignment, and ignored with a message in the log: it takes NAME = VALUE.";
    let verdict = LintVerdict::NoEffect;
    let remark = LintRemark { id, verdict, message: message.to_owned(), instead: None };
    draft.remark(start..at + line.trim_end().len(), remark);
}

/// What is said of the runtime and the period of real-time threads in a file that has both, by
/// where they begin: line by line the kernel refuses a runtime that would be longer than the period
/// (`sched_rt_global_validate`).
fn real_time_budgets(all: &[(PlacedSetting<'_>, Range<usize>)]) -> HashMap<usize, LintRemark> {
    const NAMES: [&str; 2] = ["kernel.sched_rt_runtime_us", "kernel.sched_rt_period_us"];
    let has = |name: &str| all.iter().any(|(setting, _)| setting.name == name);
    if !NAMES.into_iter().all(has) {
        return HashMap::new();
    }
    let [mut runtime, mut period] = [950_000, 1_000_000];
    let judge = |(setting, _): &(PlacedSetting<'_>, Range<usize>)| {
        let value = setting.value.parse::<i64>().ok()?;
        let asked = match NAMES.iter().position(|name| *name == setting.name)? {
            // No cap is below every period.
            0 if value <= 0 => {
                runtime = 0;
                return None;
            }
            0 => [value, period],
            _ if value <= 0 => return None,
            _ => [runtime, value],
        };
        let (verdict, message) = match asked {
            [time, of] if time > of => (
                LintVerdict::InvalidValue,
                format!("The kernel refuses it: {time} µs for real-time threads of each {of} µs."),
            ),
            _ => (LintVerdict::Valid, "Valid.".to_owned()),
        };
        if verdict == LintVerdict::Valid {
            [runtime, period] = asked;
        }
        Some((setting.bytes.start, LintRemark::new("sched.rt_runtime", verdict, message)))
    };
    all.iter().filter_map(judge).collect()
}

/// A line of `limits.d`: domain, type, item, value, of which pam_limits reads all but the domain in
/// any case.
struct PlacedLimit<'t> {
    domain: &'t str,
    kind: String,
    item: String,
    value: String,
    bytes: Range<usize>,
    kind_bytes: Range<usize>,
    value_bytes: Range<usize>,
    line: Range<usize>,
}

impl PlacedLimit<'_> {
    /// The value as a number; `None` for what is not one.
    fn number(&self) -> Option<u64> {
        if UNLIMITED.contains(&self.value.as_str()) {
            return Some(u64::MAX);
        }
        self.value.parse().ok()
    }
}

/// Words for no limit in `limits.d`.
const UNLIMITED: [&str; 4] = ["unlimited", "infinity", "-", "-1"];

/// Judges a file of `limits.d`.
pub(super) fn judge_limits(draft: &mut Draft<'_>) {
    let text = draft.text();
    let mut limits = Vec::new();
    for (at, line) in numbered_lines(text) {
        let content = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = content.split_ascii_whitespace().collect();
        let place = |word: &str| {
            let start = at + (word.as_ptr() as usize - line.as_ptr() as usize);
            start..start + word.len()
        };
        match words[..] {
            [] => {}
            [domain, kind, item, value]
                if ["soft", "hard", "-"].iter().any(|known| known.eq_ignore_ascii_case(kind)) =>
            {
                limits.push(PlacedLimit {
                    domain,
                    kind: kind.to_ascii_lowercase(),
                    item: item.to_ascii_lowercase(),
                    value: value.to_ascii_lowercase(),
                    bytes: place(domain).start..place(value).end,
                    kind_bytes: place(kind),
                    value_bytes: place(value),
                    line: with_end(text, at, line),
                });
            }
            _ => unknown_line(draft, at, content),
        }
    }
    let kinds = limits.iter().map(|limit| (limit.item.as_str(), limit.kind.as_str()));
    let hard = limits.iter().filter(|limit| limit.kind != "soft");
    let given = GivenLimits {
        kinds: kinds.collect(),
        hard: hard.map(|limit| ((limit.domain, limit.item.as_str()), limit)).collect(),
    };
    limits.iter().for_each(|limit| judge_limit(draft, limit, &given));
}

/// What a file of `limits.d` has.
struct GivenLimits<'l> {
    /// The types of each item.
    kinds: HashSet<(&'l str, &'l str)>,
    /// The last hard limit of each domain and item.
    hard: HashMap<(&'l str, &'l str), &'l PlacedLimit<'l>>,
}

fn judge_limit(draft: &mut Draft<'_>, limit: &PlacedLimit<'_>, given: &GivenLimits<'_>) {
    const ID: &str = "proc.limits";
    let PlacedLimit { domain, item, value, bytes, kind_bytes, value_bytes, .. } = limit;
    let text = draft.text();
    if let Some(group) = domain.strip_prefix('%').filter(|_| !item.starts_with("max")) {
        let meant = if group.is_empty() { "*".to_owned() } else { format!("@{group}") };
        let message =
            format!("pam_limits reads a domain with % for maxlogins only: {meant} is meant.");
        let remark = LintRemark::new(ID, LintVerdict::NoEffect, message);
        let instead = format!("{meant}{}", &text[bytes.start + domain.len()..bytes.end]);
        draft.correct(bytes.clone(), remark, Some(instead));
        return;
    }
    if let Some((message, meant)) = misread_limit(item, value) {
        let remark = LintRemark::new(ID, LintVerdict::InvalidValue, message);
        let written = &text[bytes.start..value_bytes.start];
        draft.correct(bytes.clone(), remark, meant.map(|meant| format!("{written}{meant}")));
        return;
    }
    if let Some(message) = half_of_a_limit(limit, given) {
        let [before, behind] = [bytes.start..kind_bytes.start, kind_bytes.end..bytes.end];
        let instead = format!("{}-{}", &text[before], &text[behind]);
        draft.replace(kind_bytes.clone(), "-");
        let remark = LintRemark::new(ID, LintVerdict::Incomplete, message).instead(instead);
        draft.remark(bytes.clone(), remark);
    }
    let hard = given.hard.get(&(*domain, item.as_str())).copied();
    let hard = hard.filter(|_| limit.kind == "soft" && item != "nice");
    let is_above = |hard: &&PlacedLimit<'_>| {
        limit.number().zip(hard.number()).is_some_and(|(soft, hard)| soft > hard)
    };
    if let Some(hard) = hard.filter(is_above) {
        let most = &hard.value;
        let message = format!("Above the hard limit, {most}: pam_limits lowers it to that.");
        draft.judge(bytes.clone(), ID, LintVerdict::Contradiction, message);
        return;
    }
    let (bytes, value_bytes) = (bytes.clone(), value_bytes.clone());
    let setting = PlacedSetting { name: item.clone(), value, bytes, value_bytes };
    settings::judge(draft, "limits", &setting, Some(limit.line.clone()));
}

/// What pam_limits makes of a value that is not a number alone, and what is meant: it reads the
/// digits in front and no unit (`process_limit` in pam_limits.c).
fn misread_limit(item: &str, value: &str) -> Option<(String, Option<String>)> {
    let is_nice = matches!(item, "nice" | "priority");
    let is_word = !is_nice && UNLIMITED.contains(&value);
    if is_word || !is_nice && !matches!(item, "rtprio" | "memlock" | "rttime") {
        return None;
    }
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == digits.len() {
        return Some(("Not a number: pam_limits ignores the line.".to_owned(), None));
    }
    let read = &value[..value.len() - rest.len()];
    let (unit, meant) = if item == "memlock" { (" KiB", "unlimited") } else { ("", read) };
    let message = format!("pam_limits reads the digits in front alone: {read}{unit}.");
    (!rest.is_empty()).then(|| (message, Some(meant.to_owned())))
}

/// What is missing where a file has the soft or the hard limit alone; of both another file may have
/// the rest.
fn half_of_a_limit(limit: &PlacedLimit<'_>, given: &GivenLimits<'_>) -> Option<String> {
    let (default, option) = match limit.item.as_str() {
        "rtprio" => ("0", 'r'),
        "memlock" => ("often 8 MiB", 'l'),
        _ => return None,
    };
    let has = |kind| [kind, "-"].iter().any(|of| given.kinds.contains(&(limit.item.as_str(), *of)));
    match limit.kind.as_str() {
        "hard" if !has("soft") => Some(format!(
            "The hard limit only: the soft one counts, and is {default} unless another file or \
             the program (ulimit -{option}) raises it. With - both are set."
        )),
        "soft" if !has("hard") => Some(format!(
            "The soft limit only: it is lowered to the hard one, which is {default} unless another \
             file raises it. With - both are set."
        )),
        _ => None,
    }
}

/// Settings of processes that system.conf has for all services.
const MANAGER_SETTINGS: [&str; 2] = ["CPUAffinity", "TimerSlackNSec"];

/// Settings of control groups, which slices and scopes have too.
const GROUP_SETTINGS: [&str; 7] =
    ["CPUQuota", "CPUWeight", "AllowedCPUs", "MemoryHigh", "MemoryMax", "CPUSetPartition", "Slice"];

/// Whether systemd reads a setting of processes in this section.
fn is_read_in(section: &str, name: &str) -> bool {
    match section {
        "Service" | "Socket" | "Mount" | "Swap" => true,
        "Slice" | "Scope" => GROUP_SETTINGS.contains(&name),
        "Manager" => MANAGER_SETTINGS.contains(&name),
        _ => false,
    }
}

/// A unit with blanks where a line continues the one above, and for comments in between: each byte
/// keeps its place.
fn with_joined_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut continues = false;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        let is_comment = line.trim_start().starts_with(['#', ';']);
        let kept = match content.strip_suffix('\\') {
            _ if is_comment && continues => "",
            Some(kept) if !is_comment => kept,
            _ => line,
        };
        continues = kept.len() < line.len();
        joined.push_str(kept);
        joined.push_str(&" ".repeat(line.len() - kept.len()));
    }
    joined
}

/// Judges a unit of systemd, or a drop-in of one.
pub(super) fn judge_unit(draft: &mut Draft<'_>) {
    let mut set: Vec<(String, String, Range<usize>)> = Vec::new();
    let joined = with_joined_lines(draft.text());
    for (section, mut setting, line) in in_sections(draft, numbered_lines(&joined)) {
        if matches!(section, "Container" | "Pod" | "Kube") {
            judge_quadlet(draft, section, setting);
            continue;
        }
        if setting.name == "SystemCallFilter" && is_read_in(section, &setting.name) {
            judge_call_filter(draft, &setting);
            continue;
        }
        // system.conf has limits for all services.
        let of_all = setting.name.strip_prefix("Default").filter(|_| section == "Manager");
        if let Some(limit) = of_all.filter(|limit| settings::is_known("unit", limit)) {
            setting.name = limit.to_owned();
            match unit_remark(&setting) {
                Some(remark) => draft.remark(setting.bytes, remark),
                None => settings::judge(draft, "unit", &setting, Some(line)),
            }
            continue;
        }
        let is_process = settings::is_known("unit", &setting.name) || setting.name == "CPUAffinity";
        if is_process && !is_read_in(section, &setting.name) {
            let message = format!("systemd ignores it in [{section}]: it belongs in [Service].");
            draft.judge(setting.bytes.clone(), "env.systemd", LintVerdict::NoEffect, message);
            continue;
        }
        let value = setting.value;
        let commented = value.split_once(" #").or_else(|| value.split_once(" ;"));
        if let Some((value, _)) = commented.filter(|_| is_process) {
            let message = "A comment has a line of its own: systemd reads it as a part of the value, \
                           and ignores the line.";
            let id = settings::remark("unit", &setting.name, value.trim()).id;
            let (verdict, message) = (LintVerdict::InvalidValue, message.to_owned());
            let written = &draft.text()[setting.bytes.start..setting.value_bytes.start];
            let instead = format!("{written}{}", value.trim());
            let remark = LintRemark { id, verdict, message, instead: None };
            draft.correct(setting.bytes, remark, Some(instead));
            continue;
        }
        set.push((setting.name.clone(), setting.value.to_owned(), setting.bytes.clone()));
        let is_start = matches!(setting.name.as_str(), "ExecStart" | "ExecStartPost");
        let command = Some(setting.value).filter(|_| is_start);
        let remark = command.and_then(started_by_chrt).or_else(|| unit_remark(&setting));
        if let Some(remark) = remark {
            draft.remark(setting.bytes.clone(), remark);
        } else if setting.name.starts_with("X-") {
            draft.remark(setting.bytes.clone(), LintRemark::plain());
        } else {
            settings::judge(draft, "unit", &setting, Some(line));
        }
    }
    // Commands and their variables have braces of their own, as docker's --format.
    let is_of_it = |name: &str| settings::is_known("unit", name) || name == "CPUAffinity";
    let is_open =
        |name: &str, value: &str| is_of_it(name) && !name.starts_with("Exec") && is_template(value);
    if !set.iter().any(|(name, value, _)| is_open(name, value)) {
        judge_unit_as_a_whole(draft, &set);
    }
}

/// A setting of a quadlet of podman.
fn judge_quadlet(draft: &mut Draft<'_>, section: &str, mut setting: PlacedSetting<'_>) {
    match (setting.name.as_str(), setting.value.split_once('=')) {
        ("Ulimit", Some((_, of))) if of.contains('%') => {
            let message = "Holds a specifier; it is not judged.";
            draft.pass_over(setting.bytes, LintVerdict::Unknown, message);
        }
        ("Ulimit", Some((limit, of))) => {
            setting.value_bytes.start = setting.value_bytes.end - of.len();
            setting.name = format!("ulimit.{limit}");
            setting.value = of;
            match containers::refused_limit(&setting.name, of) {
                Some(remark) => draft.remark(setting.bytes, remark),
                None => settings::judge(draft, "container", &setting, None),
            }
        }
        ("AddCapability", _) => {
            for name in setting.value.split_whitespace() {
                let start = setting.value_bytes.start + setting.value.find(name).unwrap_or(0);
                let remark = settings::remark("container", "cap_add", name);
                draft.remark(start..start + name.len(), remark);
            }
        }
        ("Sysctl", Some(_)) => {
            // A list by blanks, perhaps in quotes.
            let words = setting.value.split_whitespace().filter(|word| word.contains('='));
            let remarks =
                words.map(|word| containers::sysctl(word.trim_start_matches(['"', '\''])));
            if let Some(worst) = remarks.min_by_key(|remark| remark.verdict) {
                draft.remark(setting.bytes, worst);
            }
        }
        ("PodmanArgs", _) => {
            containers::judge_options(draft, setting.value, setting.value_bytes.start);
        }
        (name, _) if section == "Container" && !settings::is_listed("quadlet", name) => {
            let message = "Not a key of [Container] (Podman 5.7): podman's generator refuses the whole file, and there is no service. \
                           Options without a key of their own go into PodmanArgs=, such as PodmanArgs=--cpuset-cpus=2-3.";
            draft.judge(setting.bytes, "env.systemd", LintVerdict::InvalidValue, message);
        }
        _ => {
            let message = "A key of podman. Its effect on latency is not judged.";
            draft.pass_over(setting.bytes, LintVerdict::Known, message);
        }
    }
}

/// A filter of system calls that takes away what a loop sets for itself.
fn judge_call_filter(draft: &mut Draft<'_>, setting: &PlacedSetting<'_>) {
    let denied = setting.value.strip_prefix('~').unwrap_or_default();
    // A call may have an error of its own behind a colon.
    let named = denied.split_whitespace().filter_map(|call| call.split(':').next());
    let named: Vec<&str> = named.collect();
    let denies = |calls: &[&str]| named.iter().any(|name| calls.contains(name));
    let (id, what) = if denies(&["@resources", "sched_setscheduler", "sched_setattr"]) {
        (
            "proc.policy",
            "sets its policy or its CPUs; CPUSchedulingPolicy= and CPUAffinity= still work",
        )
    } else if denies(&["@memlock", "mlockall", "mlock"]) {
        ("proc.limits", "locks its memory")
    } else {
        draft.remark(setting.bytes.clone(), settings::remark("unit", &setting.name, setting.value));
        return;
    };
    let message = format!(
        "Ends the program with SIGSYS, or fails with the error of SystemCallErrorNumber=, where it {what}."
    );
    draft.judge(setting.bytes.clone(), id, LintVerdict::Harmful, message);
}

/// What is said of a command that starts a program by `chrt`, or sets a running thread, perhaps in
/// a line of a shell.
pub(super) fn started_by_chrt(command: &str) -> Option<LintRemark> {
    let plain = command.replace(['"', '\''], " ");
    let mut words = plain.split_whitespace();
    words.find(|word| word.rsplit('/').next() == Some("chrt"))?;
    let words: Vec<&str> = words.collect();
    let behind = words.iter().position(|word| !word.starts_with('-'))?;
    let (options, priority) = (&words[..behind], words[behind].parse::<u32>());
    // Of SCHED_DEADLINE the numbers are times.
    let is_real_time = |word: &&str| match word.strip_prefix("--") {
        Some(name) => {
            ["fifo", "rr", "pid", "all-tasks", "reset-on-fork", "verbose"].contains(&name)
        }
        None => word[1..].chars().all(|letter| "frpaRv".contains(letter)),
    };
    let has = |letter: char, name: &str| {
        options.iter().any(|word| match word.strip_prefix("--") {
            Some(long) => long == name,
            None => word.contains(letter),
        })
    };
    let whose = match has('p', "pid") && !has('a', "all-tasks") {
        true => "for that thread alone: -a sets all threads of the process",
        false => "for every thread of the program",
    };
    let is_above = priority.is_ok_and(|priority| priority > HIGHEST_PRIORITY);
    if is_above && options.iter().all(is_real_time) {
        let message = format!(
            "Too close to the kernel's own migration and watchdog threads at 99: at most 95, {whose}."
        );
        return Some(LintRemark::new("kthread.migration", LintVerdict::Harmful, message));
    }
    Some(LintRemark::new("proc.policy", LintVerdict::Valid, format!("Valid; {whose}.")))
}

/// What is said of a value that systemd does not read, and of the CPUs of a service.
fn unit_remark(setting: &PlacedSetting<'_>) -> Option<LintRemark> {
    let PlacedSetting { name, value, .. } = setting;
    let invalid = LintVerdict::InvalidValue;
    let of_cpus = match name.as_str() {
        "CPUAffinity" if *value != "numa" => Some("proc.affinity"),
        "AllowedCPUs" => Some("shield.systemd"),
        _ => None,
    };
    if let Some(id) = of_cpus
        && let Some(message) = systemd_values::wrong_cpus(value)
    {
        return Some(LintRemark::new(id, invalid, message));
    }
    if name == "CPUAffinity" {
        let message = "Valid; the CPUs of every thread of the service, in system.conf of every service without its own. They are its own only where all else is kept off them.";
        return Some(LintRemark::new("proc.affinity", LintVerdict::Valid, message));
    }
    let form = systemd_values::refused(name, value)?;
    let message =
        format!("systemd reports that it cannot parse it and ignores the line. It takes {form}.");
    let id = settings::remark("unit", name, value).id;
    Some(LintRemark { id, verdict: invalid, message, instead: None })
}

fn judge_unit_as_a_whole(draft: &mut Draft<'_>, set: &[(String, String, Range<usize>)]) {
    let last = |name: &str| set.iter().rfind(|(known, ..)| known == name);
    // What systemd ignores replaces nothing.
    let has_one_value = |name: &str| {
        name.starts_with("Limit") || name.starts_with("CPUScheduling") || name == "Nice"
    };
    let counts = |(name, value, _): &&(String, String, Range<usize>)| {
        let verdict = || settings::remark("unit", name, value).verdict;
        has_one_value(name)
            && systemd_values::refused(name, value).is_none()
            && verdict() != LintVerdict::InvalidValue
    };
    let values = set.iter().filter(counts).map(|(name, value, _)| (name, value));
    let last_values: HashMap<_, _> = values.collect();
    // An empty value takes back what came before, and is not one that is lost.
    let given = set.iter().filter(counts).filter(|(_, value, _)| !value.is_empty());
    for (name, value, bytes) in given {
        let Some(again) = last_values.get(name).filter(|again| **again != value) else { continue };
        let message = format!("Set again to {again}: the last value counts.");
        let id = settings::remark("unit", name, value).id;
        let verdict = LintVerdict::Contradiction;
        draft.remark(bytes.clone(), LintRemark { id, verdict, message, instead: None });
    }
    let policy = last("CPUSchedulingPolicy").map(|(_, value, _)| value.as_str());
    let is_real_time = matches!(policy, Some("fifo" | "rr" | "1" | "2"));
    if let Some((.., bytes)) = last("CPUSchedulingPriority").filter(|_| !is_real_time) {
        let message = "Without CPUSchedulingPolicy=fifo or rr a priority has no effect.";
        draft.judge(bytes.clone(), "proc.policy", LintVerdict::NoEffect, message);
    }
    if let Some((.., bytes)) = last("CPUSchedulingPolicy")
        .filter(|_| is_real_time && last("CPUSchedulingPriority").is_none())
    {
        let message = "Without CPUSchedulingPriority the priority is 1, below every interrupt thread: 80 to 95 for a control loop.";
        draft.judge(bytes.clone(), "proc.policy", LintVerdict::Incomplete, message);
    }
    if let Some((.., bytes)) = last("Nice").filter(|_| is_real_time) {
        let message = "No effect on threads of a real-time policy.";
        draft.judge(bytes.clone(), "proc.policy", LintVerdict::NoEffect, message);
    }
    let cpus = cpus_of(set, "CPUAffinity").zip(cpus_of(set, "AllowedCPUs"));
    if let Some((.., bytes)) = last("CPUAffinity")
        && let Some((own, allowed)) = cpus
        && !own.is_within(&allowed)
    {
        let message = match own.and(&allowed) {
            none if none.is_empty() => format!(
                "Not among AllowedCPUs={allowed}: with cgroup v2 the kernel refuses the affinity, and \
                 the service fails with status 215/CPUAFFINITY."
            ),
            left => format!("Not all among AllowedCPUs={allowed}: with cgroup v2 {left} is left."),
        };
        draft.judge(bytes.clone(), "proc.affinity", LintVerdict::Contradiction, message);
    }
}

/// The CPUs of all lines of a setting, of which an empty one takes back those above it; `None`
/// where the text does not say them.
fn cpus_of(set: &[(String, String, Range<usize>)], name: &str) -> Option<CpuList> {
    let mut cpus = CpuList::default();
    for (_, value, _) in set.iter().filter(|(known, ..)| known == name) {
        if value.contains('%') || value == "numa" {
            return None;
        }
        if value.is_empty() {
            cpus = CpuList::default();
        } else if systemd_values::wrong_cpus(value).is_none() {
            let plain = value.replace(['"', '\''], "").replace([' ', '\t'], ",");
            let pieces: Vec<&str> = plain.split(',').filter(|piece| !piece.is_empty()).collect();
            let more = CpuList::parse_list(&pieces.join(",")).ok()?;
            cpus = cpus.iter().chain(more.iter()).collect();
        }
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Judges a profile of TuneD.
pub(super) fn judge_tuned(draft: &mut Draft<'_>) {
    let text = draft.text();
    for (section, mut setting, line) in in_sections(draft, numbered_lines(text)) {
        let has_variables = setting.value.contains("${");
        match section {
            "bootloader"
                if setting.name.starts_with("cmdline") && setting.value.starts_with('-') =>
            {
                let message = "TuneD takes these words out of what other profiles add.";
                draft.pass_over(setting.bytes, LintVerdict::Known, message);
            }
            "bootloader" if setting.name.starts_with("cmdline") => {
                // `+` in front adds to what other profiles have.
                let sign = usize::from(setting.value.starts_with('+'));
                let bytes = setting.value_bytes.start + sign..setting.value_bytes.end;
                let offsets: Vec<usize> = (bytes.start..=bytes.end).collect();
                kernel_line::judge_part(draft, &text[bytes], &offsets);
            }
            _ if has_variables => {
                let message = "Holds a variable; it is not judged.";
                draft.pass_over(setting.bytes, LintVerdict::Unknown, message);
            }
            "sysctl" => {
                // A sign in front keeps a value that is larger, or smaller, already.
                let sign = usize::from(setting.value.starts_with(['<', '>']));
                setting.value = &setting.value[sign..];
                setting.value_bytes.start += sign;
                settings::judge(draft, "sysctl", &setting, Some(line));
            }
            _ => {
                setting.name = format!("{section}.{}", setting.name);
                settings::judge(draft, "tuned", &setting, None);
            }
        }
    }
}

/// Judges a `.link` file of systemd or a keyfile of NetworkManager.
pub(super) fn judge_network(draft: &mut Draft<'_>) {
    let lines = numbered_lines(draft.text());
    for (section, mut setting, line) in in_sections(draft, lines) {
        setting.name = format!("{section}.{}", setting.name);
        if settings::is_known("network", &setting.name) {
            settings::judge(draft, "network", &setting, Some(line));
        } else {
            let message = "A key of the network. Its effect on latency is not judged.";
            draft.pass_over(setting.bytes, LintVerdict::Known, message);
        }
    }
}

/// Judges an environment file of irqbalance (`setup_banned_cpus` in its cputree.c).
pub(super) fn judge_irqbalance(draft: &mut Draft<'_>) {
    const ID: &str = "irq.irqbalance";
    for (at, line) in numbered_lines(draft.text()) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let Some(setting) = assignment(at, line) else {
            unknown_line(draft, at, line);
            continue;
        };
        let value = setting.value.trim_matches(['"', '\'']);
        let remark = match setting.name.trim_start_matches("export ").trim() {
            "IRQBALANCE_BANNED_CPUS" if !value.is_empty() => match CpuList::parse_mask(value) {
                Ok(cpus) => {
                    let instead = format!("IRQBALANCE_BANNED_CPULIST={cpus}");
                    let message = "irqbalance 1.8 and later warns of it, and prefers it to the list. The same CPUs as a list:";
                    draft.replace(setting.bytes.clone(), &instead);
                    LintRemark::new(ID, LintVerdict::Deprecated, message).instead(instead)
                }
                Err(_) => {
                    let message = "Not a mask of hexadecimal digits. IRQBALANCE_BANNED_CPULIST takes a list, such as 2-3.";
                    LintRemark::new(ID, LintVerdict::InvalidValue, message)
                }
            },
            "IRQBALANCE_BANNED_CPULIST" if matches!(value, "" | "-") => {
                let message =
                    "Valid; no CPU is banned. With - isolated CPUs are not left alone either.";
                LintRemark::new(ID, LintVerdict::Valid, message)
            }
            "IRQBALANCE_BANNED_CPULIST"
                if value.starts_with("00") || CpuList::parse_list(value).is_err() =>
            {
                let message =
                    "Not a list of CPUs, such as 2-3: a mask belongs in IRQBALANCE_BANNED_CPUS.";
                LintRemark::new(ID, LintVerdict::InvalidValue, message)
            }
            "IRQBALANCE_BANNED_CPULIST" => {
                let message = "Valid; irqbalance 1.8 and later moves no interrupt to these CPUs.";
                LintRemark::new(ID, LintVerdict::Valid, message)
            }
            name if name.starts_with("IRQBALANCE_")
                || matches!(name, "ENABLED" | "ONESHOT" | "OPTIONS") =>
            {
                let message = "A known setting. Its effect on latency is not judged.";
                LintRemark::unjudged(LintVerdict::Known, message)
            }
            _ => LintRemark::unknown(),
        };
        draft.remark(setting.bytes, remark);
    }
}

/// The parts `KEY=="value"` of a rule of udev, each with its operator; `None` where it is not
/// understood.
fn udev_parts(at: usize, line: &str) -> Option<Vec<(&'static str, PlacedSetting<'_>)>> {
    let mut parts = Vec::new();
    let mut from = 0;
    loop {
        from += line[from..].len() - line[from..].trim_start_matches([' ', '\t', ',']).len();
        if line[from..].trim().is_empty() {
            return Some(parts);
        }
        // The name in braces may have any sign: ATTR{queues/rx-0/rps_cpus}.
        let is_key_end = |c: char| "=!+-: {".contains(c);
        let key_end = from + line[from..].find(is_key_end)?;
        let key_end = match line[key_end..].strip_prefix('{') {
            Some(braced) => key_end + braced.find('}')? + 2,
            None => key_end,
        };
        let rest = line[key_end..].trim_start();
        let operator =
            ["==", "!=", "+=", "-=", ":=", "="].into_iter().find(|o| rest.starts_with(o))?;
        let opened = line.len() - rest.len() + operator.len();
        let quote = opened
            + line[opened..]
                .find('"')
                .filter(|at| line[opened..][..*at].trim_matches([' ', 'e', 'i']).is_empty())?;
        let end = quote + 1 + line[quote + 1..].find('"')?;
        let setting = PlacedSetting {
            name: line[from..key_end].to_owned(),
            value: &line[quote + 1..end],
            bytes: at + from..at + end + 1,
            value_bytes: at + quote + 1..at + end,
        };
        parts.push((operator, setting));
        from = end + 1;
    }
}

/// Keys of udev without effect on latency.
const UDEV_KEYS: [&str; 5] = ["MODE", "GROUP", "OWNER", "SYMLINK", "TAG"];

/// Judges rules of udev.
pub(super) fn judge_udev(draft: &mut Draft<'_>) {
    let mut continues = false;
    for (at, line) in numbered_lines(draft.text()) {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let is_rest = std::mem::replace(&mut continues, line.ends_with('\\'));
        let line = line.trim_end_matches('\\');
        let Some(parts) = udev_parts(at, line) else {
            draft.refuse_correction("a rule is not understood");
            unknown_line(draft, at, line);
            continue;
        };
        // Of a rule on several lines another one may assign.
        let is_match = |operator: &str| matches!(operator, "==" | "!=");
        let assigns = is_rest || continues || parts.iter().any(|(operator, _)| !is_match(operator));
        for (operator, mut setting) in parts {
            let key = setting.name.strip_prefix("ATTR{").and_then(|key| key.strip_suffix('}'));
            let is_match = is_match(operator);
            match key.map(str::to_owned) {
                Some(name) if is_match && !assigns && settings::is_known("udev", &name) => {
                    let message =
                        "Two signs compare: the rule sets nothing. One sign sets the attribute.";
                    draft.judge(setting.bytes, "env.systemd", LintVerdict::NoEffect, message);
                }
                Some(name) if !is_match => {
                    setting.name = name;
                    settings::judge(draft, "udev", &setting, None);
                }
                _ if is_match || UDEV_KEYS.contains(&setting.name.as_str()) => {
                    draft.remark(setting.bytes, LintRemark::plain());
                }
                _ => {
                    let message = "A known key of udev. Its effect on latency is not judged.";
                    draft.pass_over(setting.bytes, LintVerdict::Known, message);
                }
            }
        }
    }
}
