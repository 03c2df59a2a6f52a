//! What a machine's files say about a finding beyond its probe: the link that is broken between what
//! was configured and what is in effect, the right that a thread already has, the program that is
//! already kept away.
//!
//! A record holds no code, so these facts have their place here: each looks at a finding that a probe
//! made and either keeps it, or replaces its verdict or its fix with what the files prove.

use super::catalogue;
use super::check::{CheckVerdict, Finding};
use super::loop_setup::CpuSetVariable;
use super::probes::expand;
use super::probes::task::locked_kib;
use super::survey::{Architecture, Survey, name_of};
use super::unit_in_effect;
use crate::cpu_list::CpuList;
use crate::lint::{LintFinding, LintSubject, LintVerdict, kernel_cpus, lint};
use crate::tasks::{SchedulingPolicy, Task};

/// A finding in the light of the machine's other facts.
pub(super) fn reconsider(finding: Finding, survey: &Survey<'_>) -> Finding {
    match finding.id.as_str() {
        "shield.isolcpus" => isolation(finding, survey),
        "shield.nohz_full" | "kern.nohz_choice" => {
            intended(built_without(finding, survey, "nohz_full", "CONFIG_NO_HZ_FULL"), survey)
        }
        "shield.rcu_nocbs" => {
            intended(built_without(finding, survey, "rcu_nocbs", "CONFIG_RCU_NOCB_CPU"), survey)
        }
        "shield.cpuset_v2" => partition(finding, survey),
        "clock.source" => clock_source(finding, survey),
        "irq.irqbalance" => banned(finding, survey),
        "kern.preempt_mode" => preemption(finding, survey),
        "kern.cmdline_known" => misspelt(finding, survey),
        "proc.limits" => intended(rights(finding, survey), survey),
        "proc.policy" => intended(served(finding, survey), survey),
        "kthread.migration" => rivals(finding, survey),
        "wq.writeback" | "kern.efi_runtime" => behind_the_common_mask(finding, survey),
        "fw.cstates" | "idle.pm_qos" | "idle.state_disable" | "idle.max_cstate" => {
            intended(held_awake(polling(finding, survey), survey), survey)
        }
        "idle.dma_latency" | "idle.governor" => intended(polling(finding, survey), survey),
        "timer.slack" => intended(without_slack(finding, survey), survey),
        "clock.tsc_watchdog" => watchdog_of_the_clock(finding, survey),
        "svc.owner_conflict" => owners(finding, survey),
        _ => intended(finding, survey),
    }
}

fn is_bad(finding: &Finding) -> bool {
    finding.verdict == CheckVerdict::Bad
}

/// The text of a file that may be absent.
fn text(survey: &Survey<'_>, path: &str) -> Option<String> {
    survey.host().read(path).ok()
}

/// The CPUs in a file that lists them; `None` without it.
fn cpus_in(survey: &Survey<'_>, path: &str) -> Option<CpuList> {
    CpuList::parse_list(&text(survey, path)?).ok()
}

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const TICKLESS: &str = "/sys/devices/system/cpu/nohz_full";
const UNBOUND_WORK: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Files that say what a kernel should be started with, and what carries them over.
const BOOT_FILES: [(&str, &str); 8] = [
    (
        "/etc/default/grub",
        "run update-grub (Fedora, RHEL: grub2-mkconfig -o /boot/grub2/grub.cfg --update-bls-cmdline) and restart, or \
         another boot entry is in use",
    ),
    ("/boot/firmware/cmdline.txt", "restart, or the board was started from another medium"),
    ("/boot/cmdline.txt", "restart, or the firmware reads /boot/firmware/cmdline.txt instead"),
    ("/etc/kernel/cmdline", "run kernel-install add-all (or rebuild the image) and restart"),
    ("/boot/extlinux/extlinux.conf", "restart, or another label is in use"),
    ("/boot/armbianEnv.txt", "restart, or the board was started from another medium"),
    ("/etc/default/u-boot", "run u-boot-update and restart, or another label is in use"),
    ("/etc/kernelstub/configuration", "run kernelstub and restart, or another entry is in use"),
];

/// What a boot file says of a parameter.
struct Configured {
    path: String,
    /// Every `name` and `name=value` of the file that is not in a comment, in order.
    words: Vec<String>,
    /// What carries it over.
    then: &'static str,
}

/// The first boot file that has a parameter; of GRUB's files, and of entries, the last one, with the
/// words of all.
fn configured(survey: &Survey<'_>, name: &str) -> Option<Configured> {
    let is_meant = |word: &&str| {
        let own = word.split('=').next().unwrap_or_default();
        own.len() == name.len() && own.replace('-', "_") == name.replace('-', "_")
    };
    let in_file = |path: String, then| {
        let text = text(survey, &path)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let words = lines.flat_map(|line| line.split([' ', '\t', '"', '\'', ')']));
        // The first word of a value without quotes is joined to the variable.
        let words = words.filter_map(|word| {
            let value = word.split_once('=').map_or("", |(_, value)| value);
            [word, value].into_iter().find(is_meant)
        });
        let words: Vec<String> = words.map(str::to_owned).collect();
        (!words.is_empty()).then_some(Configured { path, words, then })
    };
    // A drop-in replaces what the files before it assign, or adds to it; of entries one is in use.
    let joined = |earlier: Configured, later: Configured| Configured {
        words: [earlier.words, later.words].concat(),
        ..later
    };
    let (grub, then) = BOOT_FILES[0];
    let drop_ins = survey.host().names("/etc/default/grub.d").unwrap_or_default();
    let drop_ins = drop_ins.iter().filter(|name| name.ends_with(".cfg"));
    let drop_ins = drop_ins.map(|name| format!("/etc/default/grub.d/{name}"));
    let of_grub = std::iter::once(grub.to_owned()).chain(drop_ins);
    let of_grub = of_grub.filter_map(|path| in_file(path, then)).reduce(joined);
    let of_others =
        || BOOT_FILES[1..].iter().find_map(|(path, then)| in_file((*path).to_owned(), *then));
    let of_entries = || {
        let names = survey.host().names("/boot/loader/entries").unwrap_or_default();
        let path = |name: &String| format!("/boot/loader/entries/{name}");
        let then = "restart, or another entry is in use";
        names.iter().filter_map(|name| in_file(path(name), then)).reduce(joined)
    };
    of_grub.or_else(of_others).or_else(of_entries)
}

/// The names of the kernel parameters that make a record good.
fn parameters_of(id: &str) -> Vec<&'static str> {
    let boot = catalogue().get(id).and_then(|record| record.boot.as_deref()).unwrap_or_default();
    boot.split_whitespace().filter_map(|word| word.split('=').next()).collect()
}

/// Returns what a boot file has and the running kernel has not, for a parameter of a record, with
/// what carries it over; `None` where both agree.
pub(crate) fn waits_for_restart(id: &str, survey: &Survey<'_>) -> Option<String> {
    parameters_of(id).into_iter().find_map(|name| {
        if !matches!(survey.parameter(name), Ok(None)) {
            return None;
        }
        let Configured { path, words, then } = configured(survey, name)?;
        let word = words.last()?;
        Some(format!("{path} has {word}, the running kernel has not: {then}"))
    })
}

/// A boot file with another value than the running kernel has; whether a restart helps depends on
/// the value.
fn differs(id: &str, survey: &Survey<'_>) -> Option<String> {
    parameters_of(id).into_iter().find_map(|name| {
        let running = survey.parameter(name).ok().flatten()?.value.clone()?;
        let Configured { path, words, then } = configured(survey, name)?;
        let value = |word: &String| word.split_once('=').map(|(_, value)| value.to_owned());
        if words.iter().any(|word| value(word).as_deref() == Some(&*running)) {
            return None;
        }
        let word = words.last()?;
        Some(format!("{path} has {word}, the running kernel {name}={running}: {then}"))
    })
}

/// A finding with the file that was meant to prevent it: of the boot loader, or of systemd.
fn intended(mut finding: Finding, survey: &Survey<'_>) -> Finding {
    if !is_bad(&finding) {
        return finding;
    }
    let read = std::mem::take(&mut finding.current);
    let separator = if read.is_empty() { "" } else { "; " };
    if let Some(sentence) = waits_for_restart(&finding.id, survey) {
        finding.current = format!("{read}{separator}not in /proc/cmdline");
        finding.fix = sentence;
    } else if let Some(sentence) = differs(&finding.id, survey) {
        finding.current = format!("{read}{separator}{sentence}");
    } else {
        finding.current = read;
        if let Some(sentence) = unit_in_effect::not_in_effect(&finding.id, survey) {
            finding.fix = sentence;
        }
    }
    finding
}

/// Reads the files of these facts, for a recording tree; partitions, drop-ins and units have names
/// that people chose and stay out.
pub(crate) fn read_all(survey: &Survey<'_>) {
    let boot = BOOT_FILES.iter().map(|(path, _)| *path);
    let others = [AVAILABLE_CLOCKS, ISOLATED, TICKLESS, UNBOUND_WORK];
    for path in boot.chain(others).chain(IRQBALANCE_FILES) {
        let _ = survey.host().read(path);
    }
}

/// Whether a file is one of a boot loader, of which a capture keeps the parameters alone.
pub(crate) fn is_boot_file(path: &str) -> bool {
    BOOT_FILES.iter().any(|(known, _)| *known == path)
}

/// Whether a file is one of irqbalance, of which a capture keeps the bans alone.
pub(crate) fn is_of_irqbalance(path: &str) -> bool {
    IRQBALANCE_FILES.contains(&path)
}

/// Parameters of the running kernel whose names the dictionary of the lint takes for misspelt ones.
fn misspelt(mut finding: Finding, survey: &Survey<'_>) -> Finding {
    let line = text(survey, "/proc/cmdline").filter(|_| finding.verdict == CheckVerdict::Good);
    let report = line.and_then(|line| lint(&line, LintSubject::KernelLine).ok());
    let Some(report) = report else { return intended(finding, survey) };
    // A short name of a board or module is like one of the kernel by chance.
    let is_long = |of: &&LintFinding| name_of(&of.text).len() > 5;
    let wrong: Vec<_> = report.with_verdict(LintVerdict::Misspelt).filter(is_long).collect();
    if wrong.is_empty() {
        return finding;
    }
    let named: Vec<&str> = wrong.iter().map(|of| of.text.as_str()).collect();
    let why: Vec<String> = wrong.iter().map(|of| format!("{}: {}", of.text, of.message)).collect();
    finding.verdict = CheckVerdict::Bad;
    finding.current = format!("kernel parameters: {}", named.join(", "));
    finding.fix = why.join(" ");
    finding
}

/// The mode of preemption that was asked for on the command line of a kernel that cannot change it.
fn preemption(mut finding: Finding, survey: &Survey<'_>) -> Finding {
    const OPTION: &str = "CONFIG_PREEMPT_DYNAMIC";
    let asked = survey.parameter("preempt").ok().flatten().and_then(|of| of.value.clone());
    let lacks = survey.config().is_ok_and(|config| !config.contains_key(OPTION));
    match asked {
        Some(mode) if lacks && is_bad(&finding) => {
            finding.fix = format!(
                "preempt={mode} on the command line does nothing: this kernel is built without {OPTION}; {}",
                finding.fix
            );
            finding
        }
        _ => intended(finding, survey),
    }
}

/// What the kernel's configuration makes of a parameter that was given to it.
fn built_without(finding: Finding, survey: &Survey<'_>, name: &str, option: &str) -> Finding {
    let lacks = survey.config().is_ok_and(|config| !config.contains_key(option));
    let is_given = matches!(survey.parameter(name), Ok(Some(_)));
    if !(lacks && is_given) {
        return finding;
    }
    finding.made_needless(format!(
        "{name}= on the command line does nothing: this kernel is built without {option}"
    ))
}

/// Why CPUs that were asked for are not isolated.
fn isolation(finding: Finding, survey: &Survey<'_>) -> Finding {
    let mut finding = intended(finding, survey);
    let Ok(Some(parameter)) = survey.parameter("isolcpus") else { return finding };
    let value = parameter.value.clone().unwrap_or_default();
    let asked =
        value.split(',').skip_while(|piece| piece.starts_with(|c: char| c.is_ascii_alphabetic()));
    let online = survey.online().unwrap_or_default();
    let last = online.iter().last().unwrap_or_default();
    let asked = kernel_cpus::on_machine(&asked.collect::<Vec<_>>().join(","), last);
    let effective = cpus_in(survey, ISOLATED).filter(|_| is_bad(&finding));
    let (Some(effective), Ok(loop_cpus)) = (effective, survey.loop_cpus()) else { return finding };

    finding.fix = match asked {
        None => format!(
            "isolcpus={value} is not a list that the kernel reads: it isolates nothing. Flags stand in front, then numbers and \
             ranges, such as managed_irq,domain,{loop_cpus}"
        ),
        Some(asked) if asked.contains(0) && !effective.contains(0) && loop_cpus.contains(0) => {
            let rest =
                if effective.is_empty() { "none".to_owned() } else { format!("CPU {effective}") };
            format!(
                "isolcpus={value} names CPU 0, which is the boot CPU and stays out ({rest} is isolated): take another CPU for the loop"
            )
        }
        Some(asked)
            if loop_cpus.is_within(&asked)
                && !value.contains("domain")
                && value.contains("managed_irq") =>
        {
            format!(
                "isolcpus={value} lacks the flag domain: the scheduler still places threads there"
            )
        }
        Some(_) => return finding,
    };
    finding
}

/// Why a partition is not isolated, in the kernel's words; CPUs that were isolated at boot need none.
fn partition(mut finding: Finding, survey: &Survey<'_>) -> Finding {
    let is_open = matches!(finding.verdict, CheckVerdict::Bad | CheckVerdict::Unknown(_));
    let isolated = cpus_in(survey, ISOLATED).unwrap_or_default();
    if is_open && survey.loop_cpus().is_ok_and(|cpus| cpus.is_within(&isolated)) {
        return finding.made_good(format!(
            "no partition, and none is needed: CPU {isolated} was isolated at boot"
        ));
    }
    if !is_bad(&finding) {
        return finding;
    }
    let mut paths = expand("{cgroup2}/*/cpuset.cpus.partition", survey).unwrap_or_default();
    paths.extend(expand("{cgroup2}/*/*/cpuset.cpus.partition", survey).unwrap_or_default());
    for path in paths {
        let Some(state) = text(survey, &path) else { continue };
        let state = state.trim();
        let Some((_, reason)) = state.split_once("invalid") else { continue };
        let reason = reason.trim().trim_matches(['(', ')']);
        let change = match reason {
            _ if reason.contains("not exclusive") => {
                "a sibling control group has the same CPUs: remove them from its cpuset.cpus"
            }
            _ if reason.contains("hotplug") => "its CPUs are offline: take them online again",
            _ if reason.contains("Parent unable") => {
                "the parent group has no CPU left: assign more CPUs to it, or fewer to this one"
            }
            _ if reason.contains("invalid partition root") => {
                "the cpuset.cpus.partition of the parent group says why it is invalid"
            }
            _ if reason.contains("not a partition root") || reason.contains("Parent is") => {
                "the parent group is not a partition root: make it one first"
            }
            _ if reason.contains("housekeeping") => {
                "isolcpus reserves other CPUs: take those, or boot without it"
            }
            _ if reason.ends_with("empty") || reason.contains("Invalid cpu list") => {
                "write the CPUs to its cpuset.cpus"
            }
            _ => "change cpuset.cpus of the group, its siblings or its parents",
        };
        finding.current = format!("{path}: {state}");
        finding.fix = format!("{path} says \"{state}\": {change}");
        break;
    }
    finding
}

const AVAILABLE_CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The clocks that are left where the kernel has withdrawn the TSC, for a bad finding.
fn left_without_tsc(finding: &Finding, survey: &Survey<'_>) -> Option<String> {
    let left = text(survey, AVAILABLE_CLOCKS).filter(|_| is_bad(finding))?;
    let has_tsc = left.split_whitespace().any(|name| name == "tsc");
    (!has_tsc).then(|| left.trim().to_owned())
}

/// Clocks that the kernel has withdrawn cannot be chosen.
fn clock_source(finding: Finding, survey: &Survey<'_>) -> Finding {
    let Some(left) = left_without_tsc(&finding, survey) else { return finding };
    finding.made_needless(format!(
        "the kernel has withdrawn the TSC (available: {left}): its log says why, often the firmware; dmesg | grep -i tsc"
    ))
}

/// The clock source watchdog has nothing left to watch once it has withdrawn the TSC.
fn watchdog_of_the_clock(finding: Finding, survey: &Survey<'_>) -> Finding {
    if left_without_tsc(&finding, survey).is_none() {
        return finding;
    }
    let reason = "the kernel has withdrawn the TSC: its watchdog has nothing left to watch";
    finding.made_needless(reason.to_owned())
}

/// The work of a queue runs within its own mask and the mask of all unbound queues
/// (`apply_wqattrs_prepare`, kernel/workqueue.c, since Linux 4.2), of which the queue's file shows
/// the first alone.
fn behind_the_common_mask(finding: Finding, survey: &Survey<'_>) -> Finding {
    let mask = text(survey, UNBOUND_WORK).filter(|_| is_bad(&finding));
    let mask = mask.and_then(|mask| CpuList::parse_mask(&mask).ok());
    match (mask, survey.loop_cpus()) {
        (Some(mask), Ok(loop_cpus)) if !mask.is_empty() && !mask.meets(&loop_cpus) => {
            finding.made_good(format!("{UNBOUND_WORK} keeps all unbound work on CPUs {mask}"))
        }
        _ => finding,
    }
}

/// CPUs that poll enter no idle state, whatever its limits are.
fn polling(finding: Finding, survey: &Survey<'_>) -> Finding {
    let given = |name: &str| survey.parameter(name).ok().flatten();
    let architecture = survey.processor().ok().and_then(|processor| processor.architecture);
    let parameter = match architecture {
        Some(Architecture::X86) => {
            given("idle").filter(|of| of.value.as_deref() == Some("poll")).map(|_| "idle=poll")
        }
        Some(Architecture::Arm64) => given("nohlt").map(|_| "nohlt"),
        None => None,
    };
    let is_open = matches!(finding.verdict, CheckVerdict::Bad | CheckVerdict::Unknown(_));
    match parameter.filter(|_| is_open) {
        Some(parameter) => {
            finding.made_good(format!("{parameter} on the command line: idle CPUs poll"))
        }
        None => finding,
    }
}

/// A limit that a program holds at `/dev/cpu_dma_latency` binds every CPU.
fn held_awake(finding: Finding, survey: &Survey<'_>) -> Finding {
    const PATH: &str = "/dev/cpu_dma_latency";
    let mut bytes = [0; 4];
    if !is_bad(&finding) || survey.host().read_device_at(PATH, 0, &mut bytes).is_err() {
        return finding;
    }
    let limit_us = i64::from(i32::from_ne_bytes(bytes));
    if !(0..=survey.setup().idle_exit_us).contains(&limit_us) {
        return finding;
    }
    finding.made_good(format!(
        "{PATH} is held at {limit_us} µs, for all CPUs as long as its holder runs"
    ))
}

/// Sleeps of real-time and deadline threads have no slack (`hrtimer_nanosleep`), whatever the file
/// shows.
fn without_slack(finding: Finding, survey: &Survey<'_>) -> Finding {
    let Some(task) = survey.setup().task.filter(|_| is_bad(&finding)) else { return finding };
    match survey.task(task) {
        Ok(stat) if stat.priority > 0 => {
            let shown = &finding.current;
            let current = format!("{shown}; not applied to a thread of policy {}", stat.policy);
            finding.made_good(current)
        }
        _ => finding,
    }
}

/// irqbalance alone, kept off the loop's CPUs, changes nothing there.
fn owners(finding: Finding, survey: &Survey<'_>) -> Finding {
    let places = finding.current.split("; ");
    let is_irqbalance = |place: &str| {
        place
            .split_once(": ")
            .is_some_and(|(name, _)| name.trim_end_matches(".service") == "irqbalance")
    };
    if places.into_iter().all(is_irqbalance) { banned(finding, survey) } else { finding }
}

/// Environment files of irqbalance.
const IRQBALANCE_FILES: [&str; 3] =
    ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance", "/etc/irqbalance.env"];

/// Whether a running irqbalance keeps off the loop's CPUs: by its ban, and without one by what was
/// isolated at boot.
fn banned(finding: Finding, survey: &Survey<'_>) -> Finding {
    match is_bad(&finding).then(|| keeps_off(survey)).flatten() {
        Some(why) => finding.made_good(format!("irqbalance runs and keeps off: {why}")),
        None => finding,
    }
}

/// Returns what keeps irqbalance off the loop's CPUs; `None` where it may use one of them.
fn keeps_off(survey: &Survey<'_>) -> Option<String> {
    let loop_cpus = survey.loop_cpus().ok()?;
    // A ban replaces what irqbalance would leave alone by itself.
    let (why, kept_off) = ban_of_irqbalance(survey).unwrap_or_else(|| {
        let [isolated, quiet] =
            [ISOLATED, TICKLESS].map(|path| cpus_in(survey, path).unwrap_or_default());
        let both = isolated.iter().chain(quiet.iter()).collect();
        ("isolcpus and nohz_full, which it leaves alone".to_owned(), both)
    });
    loop_cpus.is_within(&kept_off).then_some(why)
}

/// The line that bans CPUs, with the CPUs: of each variable the last one, and a mask counts before a
/// list (`setup_banned_cpus` in cputree.c of irqbalance).
fn ban_of_irqbalance(survey: &Survey<'_>) -> Option<(String, CpuList)> {
    const DROP_INS: &str = "/etc/systemd/system/irqbalance.service.d";
    let drop_ins = survey.host().names(DROP_INS).unwrap_or_default();
    let drop_ins = drop_ins.iter().map(|name| format!("{DROP_INS}/{name}"));
    // The unit's own come first: its environment files override them.
    let files = drop_ins.chain(IRQBALANCE_FILES.map(str::to_owned));
    let (mut mask, mut list) = (None, None);
    for settings in files.filter_map(|file| text(survey, &file)) {
        for line in settings.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let of_unit = line.strip_prefix("Environment=");
            let line = of_unit.map_or(line, |inner| inner.trim_matches(['"', '\'']));
            let Some((name, value)) = line.split_once('=') else { continue };
            let value = value.trim_matches(['"', '\'', ' ']);
            // An empty variable is as none.
            let ban = |cpus| (!value.is_empty()).then(|| (line.to_owned(), cpus));
            match name.trim_start_matches("export ").trim() {
                // None is banned, not even an isolated one.
                "IRQBALANCE_BANNED_CPULIST" if value == "-" => list = ban(CpuList::default()),
                "IRQBALANCE_BANNED_CPULIST" => {
                    list = CpuList::parse_list(value).ok().and_then(ban).or(list);
                }
                "IRQBALANCE_BANNED_CPUS" => {
                    mask = CpuList::parse_mask(value).ok().and_then(ban).or(mask);
                }
                _ => {}
            }
        }
    }
    mask.or(list)
}

/// Bits of `CapEff` in capabilities(7).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

/// A limit does not matter to a thread with the capability, or with what the limit is for.
fn rights(finding: Finding, survey: &Survey<'_>) -> Finding {
    let Some(task) = survey.setup().task.filter(|_| is_bad(&finding)) else { return finding };
    let Some(status) = text(survey, &format!("/proc/{task}/status")) else { return finding };
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let has = |bit: u32| capabilities.is_some_and(|bits| bits >> bit & 1 == 1);
    let is_real_time = survey.task(task).is_ok_and(|task| task.priority > 0);
    let is_locked = matches!(locked_kib(task, survey), Ok(Some(_)));
    let schedules = is_real_time.then_some("has a real-time policy");
    let locks = is_locked.then_some("all memory is locked");
    match (
        schedules.or(has(CAP_SYS_NICE).then_some("has CAP_SYS_NICE")),
        locks.or(has(CAP_IPC_LOCK).then_some("has CAP_IPC_LOCK")),
    ) {
        (Some(schedules), Some(locks)) => {
            let current = format!("task {task} {schedules}, {locks}: the limits do not bind it");
            finding.made_good(current)
        }
        _ => finding,
    }
}

/// A thread of a policy that serves as well is left as it is.
fn served(finding: Finding, survey: &Survey<'_>) -> Finding {
    let Some(task) = survey.setup().task.filter(|_| is_bad(&finding)) else { return finding };
    let Ok(stat) = survey.task(task) else { return finding };
    let serves = match stat.policy {
        SchedulingPolicy::Deadline => true,
        // Above the interrupt threads, at 50, and below the kernel's own guards.
        SchedulingPolicy::Fifo | SchedulingPolicy::RoundRobin => (51..=95).contains(&stat.priority),
        SchedulingPolicy::Ordinary => false,
    };
    if !serves {
        return finding;
    }
    Finding { verdict: CheckVerdict::Good, fix: String::new(), ..finding }
}

/// Threads of programs that precede the loop and may run on its CPUs.
fn rivals(mut finding: Finding, survey: &Survey<'_>) -> Finding {
    let (Ok(tasks), Ok(loop_cpus)) = (survey.tasks(), survey.loop_cpus()) else { return finding };
    let own = survey.host().is_live().then(|| std::process::id().cast_signed());
    let loop_task = survey.setup().task;
    let loop_process = loop_task.and_then(|task| tasks.iter().find(|known| known.id.tid == task));
    let loop_process = loop_process.map(|task| task.pid);
    let is_rival = |task: &&Task| {
        !task.is_kernel()
            && task.priority > 0
            && task.priority >= survey.setup().loop_priority
            && Some(task.id.tid) != loop_task
            && Some(task.pid) != loop_process
            && Some(task.pid) != own
            && survey
                .affinity(task.id.tid)
                .is_ok_and(|cpus| cpus.is_some_and(|cpus| cpus.meets(&loop_cpus)))
    };
    let rivals: Vec<_> = tasks.iter().filter(is_rival).collect();
    if rivals.is_empty() {
        // At 99 elsewhere it ties with the kernel's guards of other CPUs.
        let is_elsewhere = |task: &Task| {
            let cpus = survey.affinity(task.id.tid);
            task.is_kernel()
                || task.priority == 0
                || cpus.is_ok_and(|cpus| cpus.is_none_or(|cpus| !cpus.meets(&loop_cpus)))
        };
        if is_bad(&finding) && tasks.iter().all(is_elsewhere) {
            return Finding { verdict: CheckVerdict::Good, fix: String::new(), ..finding };
        }
        return finding;
    }
    let housekeeping = survey.cpu_set(CpuSetVariable::Housekeeping);
    let housekeeping =
        housekeeping.map_or_else(|_| "HOUSEKEEPING".to_owned(), |cpus| cpus.to_string());
    let first = &rivals[..rivals.len().min(3)];
    let name = |task: &&Task| {
        format!("{} ({}, {} {})", task.comm, task.id.tid, task.policy, task.priority)
    };
    let named: Vec<_> = first.iter().map(name).collect();
    let command = |task: &&Task| format!("taskset -cp {housekeeping} {}", task.id.tid);
    let commands: Vec<_> = first.iter().map(command).collect();
    let more = rivals.len().saturating_sub(3);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    finding.verdict = CheckVerdict::Bad;
    finding.current =
        format!("{}{more} may run on the loop's CPU and precedes the loop", named.join(", "));
    finding.wanted = format!("none at {} or more on CPU {loop_cpus}", survey.setup().loop_priority);
    finding.fix = format!(
        "{}; CPUAffinity={housekeeping} in a drop-in of its unit holds after a restart",
        commands.join("; ")
    );
    finding
}
