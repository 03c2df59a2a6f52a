//! What systemd's files say beside what is in effect: a unit that was edited and not loaded, a
//! service that was not started again since.
//!
//! Read are the file of the unit, or of its template, and the drop-ins, in systemd's order; the last
//! assignment counts. Specifiers, drop-ins for several units and settings made with `systemctl
//! set-property` are not followed: then nothing is said.

use std::collections::BTreeMap;

use super::probes::unit::UNIT_DIRECTORIES;
use super::survey::Survey;

/// Returns which file of systemd was meant to make a record good and is not in effect, with the
/// command that brings it into effect; `None` where no file says so.
pub(super) fn not_in_effect(id: &str, survey: &Survey<'_>) -> Option<String> {
    match id {
        "shield.systemd" => ["system.slice", "user.slice", "init.scope"].iter().find_map(|unit| {
            let (path, value) = assigned(unit, "AllowedCPUs", survey)?;
            Some(format!(
                "{path} has AllowedCPUs={value}, and it is not in effect: systemctl daemon-reload, or the kernel refused it \
                 (journalctl -b -u {unit})"
            ))
        }),
        "shield.systemd_affinity" => {
            let main = "/etc/systemd/system.conf".to_owned();
            let drop_ins = ["/etc", "/run", "/usr/lib"];
            let drop_ins = drop_ins.map(|above| format!("{above}/systemd/system.conf.d"));
            let (path, value) = last_assigned(Some(main), &drop_ins, "CPUAffinity", survey)?;
            Some(format!(
                "{path} has CPUAffinity={value}, the first process has not: systemctl daemon-reexec, and start services again"
            ))
        }
        _ => {
            let unit = unit_of_loop(survey)?;
            let settings = settings_of(id).iter();
            let found = settings.filter_map(|setting| {
                let (path, value) = assigned(&unit, setting, survey)?;
                Some(format!("{path} has {setting}={value}"))
            });
            let found: Vec<String> = found.collect();
            (!found.is_empty()).then(|| {
                format!(
                    "{}, the running process has not: systemctl daemon-reload && systemctl restart {unit}, unless the program \
                     changes it itself",
                    found.join(", ")
                )
            })
        }
    }
}

/// The settings of a service that make a record of the loop's program good.
fn settings_of(id: &str) -> &'static [&'static str] {
    match id {
        "proc.policy" => &["CPUSchedulingPolicy", "CPUSchedulingPriority"],
        "proc.affinity" => &["CPUAffinity", "AllowedCPUs"],
        "proc.limits" => &["LimitRTPRIO", "LimitMEMLOCK"],
        "proc.rttime" => &["LimitRTTIME"],
        "mem.oom" => &["OOMScoreAdjust"],
        "timer.slack" => &["TimerSlackNSec"],
        "io.core_dump" => &["LimitCORE"],
        _ => &[],
    }
}

/// The service that the loop's thread runs in, by its control group.
fn unit_of_loop(survey: &Survey<'_>) -> Option<String> {
    let task = survey.setup().task?;
    let groups = survey.host().read(&format!("/proc/{task}/cgroup")).ok()?;
    let mut parts = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let is_service = |part: &&str| part.ends_with(".service") && !part.starts_with("user@");
    parts.find_map(|path| path.rsplit('/').find(is_service).map(str::to_owned))
}

/// The file and the value of the assignment that counts for a unit.
fn assigned(unit: &str, setting: &str, survey: &Survey<'_>) -> Option<(String, String)> {
    let template = unit.split_once('@').and_then(|(name, instance)| {
        instance.rsplit_once('.').map(|(_, kind)| format!("{name}@.{kind}"))
    });
    let names: Vec<&str> = std::iter::once(unit).chain(template.as_deref()).collect();
    let paths = |end: &str| -> Vec<String> {
        let of = |name: &&str| UNIT_DIRECTORIES.map(|above| format!("{above}/{name}{end}"));
        names.iter().flat_map(of).collect()
    };
    let main = paths("").into_iter().find(|path| survey.host().exists(path).unwrap_or(false));
    last_assigned(main, &paths(".d"), setting, survey)
}

/// The file and the value of the assignment that counts: drop-ins are read in the order of their
/// names, and of one name that in the first directory.
fn last_assigned(
    main: Option<String>,
    directories: &[String],
    setting: &str,
    survey: &Survey<'_>,
) -> Option<(String, String)> {
    let mut drop_ins = BTreeMap::new();
    for directory in directories {
        for name in survey.host().names(directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            drop_ins.entry(name).or_insert(path);
        }
    }
    drop_ins.retain(|name, _| name.ends_with(".conf"));
    let in_file = |path: String| {
        let value = last_in(&survey.host().read(&path).ok()?, setting)?;
        Some((path, value))
    };
    let found = main.into_iter().chain(drop_ins.into_values()).filter_map(in_file).next_back();
    found.filter(|(_, value)| !value.is_empty() && !value.contains('%'))
}

/// The last value of a setting in a text; empty where it was reset.
fn last_in(text: &str, setting: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let mut values = lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim_end() == setting).then(|| value.trim().to_owned())
    });
    values.next_back()
}
