//! Shell lines that set a tuning and that put it back.

use super::ManualStep;
use crate::catalogue::TuningRecord;
use crate::catalogue::probes::file::{FileProbe, ValueFormat, sysctl_path};
use crate::catalogue::probes::{ProbeSpec, expand};
use crate::catalogue::record::TuningTarget;
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::ProbeValue;

/// Files that are named one by one, before the rest is a pattern.
const MOST_FILES: usize = 4;

/// The probes of a record by what exists on this machine, such as the file of one of two drivers;
/// all of them where nothing that is set does.
fn of_this_machine<'r>(record: &'r TuningRecord, survey: &Survey<'_>) -> Vec<&'r ProbeSpec> {
    let is_absent = |path: &String| survey.host().exists(path).is_ok_and(|exists| !exists);
    let is_here = |spec: &&ProbeSpec| match spec {
        ProbeSpec::File(probe) => {
            !expand(&probe.path, survey).is_ok_and(|paths| paths.iter().all(is_absent))
        }
        ProbeSpec::Sysctl(probe) => !is_absent(&sysctl_path(&probe.name_here(survey))),
        _ => true,
    };
    let here: Vec<&ProbeSpec> = record.probe.iter().filter(is_here).collect();
    let is_set = here.iter().any(|spec| spec.probe().set().is_some());
    if is_set { here } else { record.probe.iter().collect() }
}

/// Returns how a person sets a tuning on this machine.
pub(super) fn set(record: &TuningRecord, survey: &Survey<'_>) -> Vec<ManualStep> {
    let probes = of_this_machine(record, survey);
    let mut steps: Vec<_> = probes.into_iter().flat_map(|spec| set_by(spec, survey)).collect();
    steps.extend(record.boot.iter().map(|line| ManualStep::KernelParameters(survey.fill(line))));
    steps.extend(record.fix.iter().map(|text| ManualStep::Instruction(survey.fill(text))));
    steps
}

fn set_by(spec: &ProbeSpec, survey: &Survey<'_>) -> Vec<ManualStep> {
    let Some(value) = spec.probe().set().map(|value| survey.fill(value)) else { return Vec::new() };
    let line = match spec {
        ProbeSpec::Sysctl(probe) => format!("sysctl -w {}={value}", probe.name_here(survey)),
        ProbeSpec::File(probe) => return writes(&probe.path, survey, |_| Some(value.clone())),
        ProbeSpec::Irqs(_) => format!("echo {value} > /proc/irq/N/smp_affinity_list"),
        ProbeSpec::IdleStates(_) => {
            format!("echo {value} > /sys/devices/system/cpu/cpuN/cpuidle/stateM/disable")
        }
        ProbeSpec::Cgroup(probe) => {
            let sentence = format!("Write {value} to {} of the loop's control group.", probe.file);
            return vec![ManualStep::Instruction(sentence)];
        }
        _ => return Vec::new(),
    };
    vec![ManualStep::Shell(line)]
}

/// A line for each file of a pattern, or one for all of many.
fn writes(
    pattern: &str,
    survey: &Survey<'_>,
    value: impl Fn(&str) -> Option<String>,
) -> Vec<ManualStep> {
    let write = |value: String, path: &str| ManualStep::Shell(format!("echo {value} > {path}"));
    match expand(pattern, survey) {
        Ok(paths) if !paths.is_empty() && paths.len() <= MOST_FILES => {
            paths.iter().filter_map(|path| value(path).map(|value| write(value, path))).collect()
        }
        _ => {
            let filled = survey.fill(pattern);
            let Some(value) = value(pattern) else { return Vec::new() };
            let loop_line = format!("for file in {filled}; do echo {value} > \"$file\"; done");
            vec![if filled.contains('*') {
                ManualStep::Shell(loop_line)
            } else {
                write(value, &filled)
            }]
        }
    }
}

/// Returns how a person puts a tuning back to what it is now.
pub(super) fn undo(record: &TuningRecord, survey: &Survey<'_>) -> Vec<ManualStep> {
    if record.is_check_only() {
        return Vec::new();
    }

    let probes = of_this_machine(record, survey);
    let mut steps: Vec<_> = probes.into_iter().flat_map(|spec| undo_of(spec, survey)).collect();
    if record.boot.is_some() {
        let sentence = "Remove the parameters from the kernel command line, then reboot.";
        steps.push(ManualStep::Instruction(sentence.to_owned()));
    }
    if steps.is_empty() {
        steps.push(ManualStep::Instruction(undo_words(record.target).to_owned()));
    }
    steps
}

fn undo_of(spec: &ProbeSpec, survey: &Survey<'_>) -> Vec<ManualStep> {
    if spec.probe().set().is_none() {
        return Vec::new();
    }
    let steps = match spec {
        ProbeSpec::Sysctl(probe) => {
            let name = probe.name_here(survey);
            let value = current(&sysctl_path(&name), probe.format, None, survey);
            let line = |value: String| ManualStep::Shell(format!("sysctl -w {name}={value}"));
            value.map(line).into_iter().collect()
        }
        ProbeSpec::File(FileProbe { path, format, column, .. }) => {
            writes(path, survey, |path| current(path, *format, *column, survey))
        }
        ProbeSpec::Irqs(_) => {
            let sentence = "Write each interrupt's old list back to /proc/irq/N/smp_affinity_list.";
            vec![ManualStep::Instruction(sentence.to_owned())]
        }
        _ => Vec::new(),
    };
    if steps.is_empty() {
        return vec![ManualStep::Instruction("Write the old value back.".to_owned())];
    }
    steps
}

/// The value that a file holds now, as it is written.
fn current(
    path: &str,
    format: ValueFormat,
    column: Option<usize>,
    survey: &Survey<'_>,
) -> Option<String> {
    let text = survey.host().read(path).ok()?;
    let text = text.trim();
    match (format, column) {
        // Written back as a whole: a column cannot be written alone.
        (_, Some(_)) => {
            Some(format!("\"{}\"", text.split_whitespace().collect::<Vec<_>>().join(" ")))
        }
        (ValueFormat::Bracket | ValueFormat::Paren | ValueFormat::Word, None) => {
            match format.parse(text).ok()? {
                ProbeValue::Text(word) => Some(word),
                _ => None,
            }
        }
        _ if text.contains(char::is_whitespace) => Some(format!("\"{text}\"")),
        _ if text.is_empty() => Some("\"\"".to_owned()),
        _ => Some(text.to_owned()),
    }
}

/// How a change is put back that no file holds.
const fn undo_words(target: TuningTarget) -> &'static str {
    match target {
        TuningTarget::Firmware => "Set the firmware's old value, then reboot.",
        TuningTarget::KernelBuild => "Boot the old kernel.",
        TuningTarget::Descriptor => "Close the descriptor, or end the process that holds it.",
        TuningTarget::Thread => {
            "Set the thread's old policy, priority and CPUs by chrt and taskset."
        }
        TuningTarget::Cgroup => "Move the tasks back, then remove the control group.",
        TuningTarget::Systemd => {
            "Restore the unit's old state by systemctl, and remove the drop-in."
        }
        TuningTarget::ConfigFile => "Restore the file, then restart its service.",
        TuningTarget::Network => "Set each old value by the same tool.",
        TuningTarget::Filesystem => "Mount with the old options; swapon for what was switched off.",
        TuningTarget::Resctrl => "Restore the old schemata, then remove the group.",
        TuningTarget::Program => "Start the program as before.",
        TuningTarget::Qemu | TuningTarget::Libvirt => "Start the guest with its old arguments.",
        _ => "Write the old value back.",
    }
}
