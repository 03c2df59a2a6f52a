//! Command lines of QEMU: what surrounds the command, its devices, and the guest's kernel command
//! line.

use super::correction::{Draft, LintRemark};
use super::finding::LintVerdict;
use super::kernel_line;
use super::qemu_command::{self, QemuCommand, QemuOption};
use super::qemu_memory;
use super::settings;
use super::shell_words::{self, ShellWord};
use super::{HIGHEST_PRIORITY, LintError};
use crate::cpu_list::CpuList;

pub(super) fn judge_script(draft: &mut Draft<'_>) -> Result<(), LintError> {
    // Splits once more where nothing was found, for the error that it may have.
    let Some(command) = qemu_command::find(draft.text()) else {
        shell_words::commands(draft.text())?;
        return Err(LintError::NoQemu { lines: draft.text().lines().count() });
    };

    judge_command(draft, &command);
    Ok(())
}

/// Judges arguments alone, perhaps with the program in front.
pub(super) fn judge_arguments(draft: &mut Draft<'_>) -> Result<(), LintError> {
    let command = qemu_command::of_arguments(draft.text())?;
    judge_command(draft, &command);
    Ok(())
}

fn judge_command(draft: &mut Draft<'_>, command: &QemuCommand) {
    let mut additions = Additions::default();
    judge_prefix(draft, command, &mut additions);
    judge_machine(draft, command, &mut additions);
    judge_processor(draft, command, &mut additions);
    qemu_memory::judge(draft, command, &mut additions);
    judge_network(draft, command);
    judge_disks(draft, command);
    judge_devices(draft, command);
    judge_old_options(draft, command, &mut additions);

    if let Some(word) = command.last(&["append"]).and_then(|option| option.argument.as_ref()) {
        let value = shell_words::value_of(draft.text(), word);
        let line = value.as_ref().unwrap_or(word);
        kernel_line::judge_inside(draft, &line.text, &line.offsets);
    }
    judge_the_rest(draft, command);
    additions.write(draft, command);
}

/// Says of each option that nothing was said about whether it is known.
fn judge_the_rest(draft: &mut Draft<'_>, command: &QemuCommand) {
    for word in &command.unset {
        let message = "May hold any option: it is not judged, and no option is called missing.";
        draft.pass_over(word.bytes.clone(), LintVerdict::Unknown, message);
    }
    for option in &command.options {
        if draft.is_judged(&option.bytes) {
            continue;
        }
        let name = option.name.as_str();
        let remark = if settings::is_plain("qemu", name) {
            LintRemark::plain()
        } else if settings::is_listed("qemu", name) {
            let message = "An option of QEMU. Its effect on latency is not judged.";
            LintRemark::unjudged(LintVerdict::Known, message)
        } else {
            LintRemark::unknown()
        };
        draft.remark(option.bytes.clone(), remark);
    }
}

/// Options that the corrected command has in addition.
#[derive(Debug, Default)]
pub(super) struct Additions {
    options: Vec<String>,
    comments: Vec<String>,
}

impl Additions {
    pub(super) fn option(&mut self, option: impl Into<String>) {
        let option = option.into();
        if !self.options.contains(&option) {
            self.options.push(option);
        }
    }

    /// Writes each option onto a line of its own, where the command is on several lines.
    fn write(self, draft: &mut Draft<'_>, command: &QemuCommand) {
        let text = draft.text();
        let start = command.start();
        let end = command.end();
        let line = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
        let indent = text[line..end].len() - text[line..end].trim_start().len();
        let separator = match text {
            _ if text.contains('\0') => "\0".to_owned(),
            // In an array in front of the command, which has options on lines of their own.
            _ if end < start && text[line + indent..].starts_with('-') => {
                format!("\n{}", &text[line..line + indent])
            }
            _ if end < start => " ".to_owned(),
            _ if text[start..end].contains("\\\n") => " \\\n    ".to_owned(),
            _ if text[start..end].contains('\n') => "\n".to_owned(),
            _ => " ".to_owned(),
        };
        let mut options = self.options;
        // Until QEMU 9.1 a second -overcommit takes back what the first one sets.
        if let Some(given) = command.last(&["overcommit"]) {
            let count = options.len();
            options.retain(|option| option != "-overcommit mem-lock=on");
            if options.len() < count && given.key("mem-lock") != Some("on") {
                draft.insert(given.bytes.end, ",mem-lock=on");
            }
        }
        for option in options {
            let option = if separator == "\0" { option.replacen(' ', "\0", 1) } else { option };
            draft.insert(end, format!("{separator}{option}"));
        }

        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let indent = &text[line_start..start];
        if indent.trim().is_empty() {
            self.comments
                .iter()
                .for_each(|comment| draft.insert(line_start, format!("{indent}# {comment}\n")));
        }
    }
}

/// Records that an option is missing, and adds it to the corrected command, unless a variable may
/// hold it.
pub(super) fn missing(
    draft: &mut Draft<'_>,
    command: &QemuCommand,
    option: &str,
    (id, message): (&str, &str),
    additions: &mut Additions,
) {
    if !command.unset.is_empty() {
        return;
    }
    additions.option(option);
    let name = option.split(' ').next().unwrap_or(option).to_owned();
    let remark = LintRemark::new(id, LintVerdict::Missing, message);
    draft.remark_as(command.start(), name, remark.instead(option));
}

/// `taskset` and `chrt` in front of QEMU hold for all of its threads.
fn judge_prefix(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    let find = |name: &str| {
        command.before.iter().position(|word| word.text.rsplit('/').next() == Some(name))
    };
    let taskset = find("taskset");
    let chrt = find("chrt");
    let is_one_cpu = |at: usize| {
        command.before[at + 1..].iter().find_map(|word| CpuList::parse_list(&word.text).ok())
    };
    // Several CPUs without a policy are where QEMU's other threads belong.
    let taskset = taskset.filter(|at| {
        chrt.is_some() || is_one_cpu(*at).is_some_and(|cpus| cpus.iter().count() == 1)
    });
    let Some(first) = [taskset, chrt].into_iter().flatten().min() else { return };

    let last = taskset.max(chrt).unwrap_or(first);
    let is_argument =
        |word: &&ShellWord| word.text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let arguments = command.before[last + 1..].iter().take_while(is_argument).count();
    let bytes = command.before[first].bytes.start..command.before[last + arguments].bytes.end;
    let message = match (taskset, chrt) {
        (Some(_), Some(_)) => {
            "Puts every thread of QEMU at this priority on these CPUs: vCPU, main loop and I/O workers block one another and \
             precede the host's migration and watchdog threads. Bind each thread by itself after the start."
        }
        (Some(_), None) => {
            "Puts every thread of QEMU on these CPUs: main loop and I/O workers share them with the vCPU. Bind each thread by \
             itself after the start."
        }
        _ => {
            "Gives every thread of QEMU this priority: main loop and I/O workers precede the host's kernel threads. Set the \
             policy of the vCPU threads only, after the start."
        }
    };
    let remark = LintRemark::new("host.emulator_pin", LintVerdict::Harmful, message).instead("");
    draft.remark(bytes.clone(), remark);
    draft.remove(bytes);

    if let Some(word) = chrt.and_then(|at| priority(&command.before[at + 1..])) {
        let message = "Too close to the kernel's own migration and watchdog threads at 99: at most 95, and 1 for a vCPU.";
        let remark = LintRemark::new("kthread.migration", LintVerdict::Harmful, message);
        draft.remark(word.bytes.clone(), remark.instead("1"));
    }
    add_instructions(draft, command, additions);
}

/// A priority above the highest that a user should take.
fn priority(words: &[ShellWord]) -> Option<&ShellWord> {
    let number = |word: &&ShellWord| word.text.parse::<u32>().is_ok();
    words
        .iter()
        .find(number)
        .filter(|word| word.text.parse().is_ok_and(|priority: u32| priority > HIGHEST_PRIORITY))
}

/// How the threads are bound instead, which needs their names.
fn add_instructions(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    const NAMES: &str = "debug-threads=on";
    if !command.last(&["name"]).is_some_and(|option| option.value().contains(NAMES)) {
        let message = "Without names of threads, tools cannot distinguish vCPUs (CPU 0/KVM) from the other threads.";
        let option = "-name guest,debug-threads=on";
        missing(draft, command, option, ("host.vcpu_pin", message), additions);
    }

    let message = "No thread of a vCPU has a host CPU of its own.";
    let how = "taskset -cp CPU TID and chrt -f -p 1 TID for each thread CPU N/KVM";
    let remark = LintRemark::new("host.vcpu_pin", LintVerdict::Missing, message).instead(how);
    draft.remark_as(command.start(), "vCPU threads", remark);
    let others = "and taskset -cp HOUSEKEEPING TID for all other threads of QEMU.";
    additions.comments.extend([format!("After the start: {how},"), others.to_owned()]);
}

fn judge_machine(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    const MACHINE: [&str; 2] = ["M", "machine"];
    const KVM: &str = "-accel kvm,kernel-irqchip=on";
    /// Those of Windows, macOS, NetBSD, Azure and Xen.
    const OTHERS: [&str; 5] = ["whpx", "hvf", "nvmm", "mshv", "xen"];
    // Of several QEMU takes the first that the host has.
    let by_option = command.all(&["accel"]).next();
    let kvm = "Valid; the guest runs on the processor itself.";
    let accelerator = by_option.map(QemuOption::head).or_else(|| command.key(&MACHINE, "accel"));
    let by_old_option = command.last(&["enable-kvm"]);
    let option = by_option.or_else(|| command.last(&MACHINE)).or(by_old_option);
    match (accelerator, option) {
        (Some(name), Some(option)) if OTHERS.contains(&name) => {
            let message = "A hypervisor other than KVM. Its effect on latency is not judged.";
            draft.pass_over(option.bytes.clone(), LintVerdict::Known, message);
        }
        (Some(name), Some(option)) if !name.starts_with("kvm") => {
            let message = "Emulates the processor: milliseconds where KVM takes microseconds.";
            let remark = LintRemark::new("vmm.accel", LintVerdict::Harmful, message).instead(KVM);
            draft.remark(option.bytes.clone(), remark);
        }
        (Some(_), Some(option)) => {
            draft.judge(option.bytes.clone(), "vmm.accel", LintVerdict::Valid, kvm);
        }
        _ => match by_old_option {
            Some(option) => {
                draft.judge(option.bytes.clone(), "vmm.accel", LintVerdict::Valid, kvm);
            }
            // A program of this name takes KVM by itself (system/vl.c).
            None if command.program.as_ref().is_some_and(|word| word.text.ends_with("kvm")) => {}
            None => {
                let message = "Without it QEMU emulates the processor: milliseconds where KVM takes microseconds.";
                missing(draft, command, KVM, ("vmm.accel", message), additions);
            }
        },
    }

    let machine = command.last(&MACHINE);
    if let Some(option) =
        machine.filter(|option| option.head() == "pc" || option.head().starts_with("pc-i440fx"))
    {
        let message = "A machine of 1996 with devices that no guest needs: q35 with hpet=off has fewer. The guest's disks change their \
                       names.";
        let remark = LintRemark::new("vmm.minimal", LintVerdict::Discouraged, message)
            .instead("-machine q35,hpet=off");
        draft.remark(option.bytes.clone(), remark);
    }
}

/// What the CPU model of a real-time guest has besides `host`: QEMU refuses what its processor does not
/// have.
fn cpu_features(command: &QemuCommand) -> &'static [&'static str] {
    match command.architecture() {
        "aarch64" | "arm" => &["pmu=off"],
        _ if command.is_x86() => {
            &["migratable=off", "+invtsc", "+tsc-deadline", "pmu=off", "kvm-hint-dedicated=on"]
        }
        _ => &[],
    }
}

fn judge_processor(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    judge_model(draft, command, additions);

    let smp = command.last(&["smp"]);
    let vcpus =
        |option: &QemuOption| option.key("cpus").unwrap_or(option.head()).parse::<u32>().ok();
    let message = "The guest has one vCPU: its loop shares it with everything else in the guest. Two need a second host CPU.";
    let two = "-smp 2,sockets=1,cores=2,threads=1";
    match smp {
        None => missing(draft, command, two, ("vmm.smp", message), additions),
        Some(option) if vcpus(option) == Some(1) => {
            let remark = LintRemark::new("vmm.smp", LintVerdict::Discouraged, message);
            draft.remark(option.bytes.clone(), remark.instead(two));
        }
        Some(_) => {}
    }
}

/// The model of the processor, and how the CPUs of an x86 guest halt.
fn judge_model(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    let features = cpu_features(command);
    let wanted = format!("-cpu {}", [&["host"][..], features].concat().join(","));
    match command.last(&["cpu"]) {
        None => {
            let message = "The guest gets a generic model: no invariant TSC, no TSC deadline timer, paravirtual locks.";
            missing(draft, command, &wanted, ("vmm.cpu", message), additions);
        }
        Some(option) if !["host", "max"].contains(&option.head()) => {
            let message = "A model without the features of the host's processor.";
            let remark =
                LintRemark::new("vmm.cpu", LintVerdict::Discouraged, message).instead(wanted);
            draft.remark(option.bytes.clone(), remark);
        }
        Some(option) => judge_cpu_features(draft, option, features),
    }

    let overcommit: Vec<_> = command.all(&["overcommit"]).collect();
    let may_lack = command.is_x86() && command.unset.is_empty();
    if may_lack && !overcommit.iter().any(|option| option.key("cpu-pm").is_some()) {
        let message = "With it the guest halts its CPU without leaving to the host. Only where each vCPU has a host CPU of its own, which \
                       then looks always busy.";
        let remark = LintRemark::new("vmm.cpu_pm", LintVerdict::Missing, message)
            .instead("-overcommit cpu-pm=on");
        draft.remark_as(command.start(), "-overcommit cpu-pm", remark);
    }
}

fn judge_cpu_features(draft: &mut Draft<'_>, option: &QemuOption, wanted: &[&str]) {
    let value = option.value();
    let has = |feature: &&&str| {
        let name = feature.trim_start_matches('+').split('=').next().unwrap_or(feature);
        value
            .split(',')
            .any(|piece| piece.trim_start_matches(['+', '-']).split('=').next() == Some(name))
    };
    let lacking: Vec<_> = wanted.iter().filter(|feature| !has(feature)).copied().collect();
    if lacking.is_empty() {
        return draft.judge(option.bytes.clone(), "vmm.cpu", LintVerdict::Valid, "Valid.");
    }

    let message = format!("Add {}.", lacking.join(","));
    let instead = format!("-cpu {value},{}", lacking.join(","));
    let remark = LintRemark::new("vmm.cpu", LintVerdict::Incomplete, message);
    draft.correct(option.bytes.clone(), remark, Some(instead));
}

/// Models of network interfaces that are emulated register by register.
pub(super) const EMULATED_INTERFACES: [&str; 7] =
    ["e1000", "e1000e", "rtl8139", "pcnet", "i82551", "i82557b", "ne2k_pci"];

fn judge_network(draft: &mut Draft<'_>, command: &QemuCommand) {
    for option in command.all(&["net", "nic", "device"]) {
        let model = option.key("model").unwrap_or(option.head()).to_owned();
        if option.name == "device" && model == "vfio-pci" {
            let message = "Valid; the guest has the device itself. Its IOMMU group must hold no other device that the host needs, and its \
                           interrupts belong on the vCPU's host CPU.";
            draft.judge(option.bytes.clone(), "vmm.vfio", LintVerdict::Valid, message);
        }
        if !EMULATED_INTERFACES.contains(&model.as_str()) {
            continue;
        }

        let message = "Emulated register by register: several exits for each frame. Control traffic goes through a device that is passed \
                       to the guest, everything else through virtio with vhost.";
        let instead = option.value().replacen(&format!("model={model}"), "model=virtio-net-pci", 1);
        let instead = if option.head() == model {
            instead.replacen(&model, "virtio-net-pci", 1)
        } else {
            instead
        };
        // The model alone: quotes around the argument stay.
        let value = option.value();
        let named = value.find(&format!("model={model}")).map(|at| at + "model=".len());
        if let (Some(word), Some(at)) = (&option.argument, named.or_else(|| value.find(&model))) {
            let bytes = word.offsets[at]..word.offsets[at + model.len() - 1] + 1;
            draft.replace(bytes, "virtio-net-pci");
        }
        let remark = LintRemark::new("vmm.nic", LintVerdict::Discouraged, message);
        draft.remark(option.bytes.clone(), remark.instead(format!("-{} {instead}", option.name)));
    }
}

fn judge_disks(draft: &mut Draft<'_>, command: &QemuCommand) {
    // Firmware and removable media are not written in operation.
    let is_disk = |option: &&QemuOption| {
        option.key("if") != Some("pflash")
            && option.key("media") != Some("cdrom")
            && option.key("file").is_some()
    };
    for option in command.all(&["drive"]).filter(is_disk) {
        if option.key("format") == Some("qcow2") {
            let message = "The image allocates blocks while the guest writes: a raw image or a volume does not.";
            draft.judge(option.bytes.clone(), "vmm.disk", LintVerdict::Discouraged, message);
        }

        let wanted = [("cache", ",cache=none"), ("aio", ",aio=native")];
        let lacking: Vec<_> =
            wanted.iter().filter(|(key, _)| option.key(key).is_none()).map(|(_, w)| *w).collect();
        // With any other mode QEMU refuses aio=native.
        let mode = option
            .key("cache")
            .filter(|mode| !["none", "directsync"].contains(mode) && !mode.contains('$'));
        let Some(word) = option.argument.as_ref() else { continue };
        if mode.is_none() && lacking.is_empty() {
            continue;
        }
        let written = mode.map(|mode| format!("cache={mode}")).unwrap_or_default();
        if let Some(at) = word.text.find(&written).filter(|_| mode.is_some()) {
            let bytes = word.offsets[at]..word.offsets[at + written.len()];
            draft.replace(bytes, "cache=none");
        }
        let message = "Writes go through the host's page cache and its worker threads.";
        draft.insert(word.bytes.end, lacking.concat());
        let value = match mode {
            Some(_) => option.value().replacen(&written, "cache=none", 1),
            None => option.value().to_owned(),
        };
        let remark = LintRemark::new("vmm.disk", LintVerdict::Incomplete, message);
        let instead = format!("-drive {value}{}", lacking.concat());
        draft.remark(option.bytes.clone(), remark.instead(instead));
    }
}

fn judge_devices(draft: &mut Draft<'_>, command: &QemuCommand) {
    for option in command.all(&["device", "virtfs"]) {
        let head = option.head();
        let message = match head {
            _ if head.contains("balloon") => {
                "Takes pages from the guest, which fault again when they are used."
            }
            _ if head.contains("usb") || head.ends_with("hci") => {
                "Polls: the controller interrupts the guest all the time."
            }
            _ if head.starts_with("virtio-9p") || option.name == "virtfs" => {
                "A directory of the host: each access waits for a thread of QEMU. Not in the loop's cycle."
            }
            _ => continue,
        };
        draft.judge(option.bytes.clone(), "vmm.minimal", LintVerdict::Discouraged, message);
    }

    let shows = command.all(&["vga", "display", "usbdevice", "soundhw", "audiodev"]);
    for option in shows.filter(|option| option.value() != "none") {
        let message = "A device that a control system does not need.";
        draft.judge(option.bytes.clone(), "vmm.minimal", LintVerdict::Discouraged, message);
    }

    let serial = command.last(&["serial"]);
    let blocks = |option: &QemuOption| {
        ["stdio", "mon:stdio", "pipe:", "file:"].iter().any(|how| option.value().starts_with(how))
    };
    let console = match serial {
        Some(option) => Some(option).filter(|option| blocks(option)),
        None => command.last(&["nographic"]),
    };
    if let Some(option) = console {
        let message = "Joins the guest's console to the standard output: where its reader stops, the vCPU that prints stops.";
        let remark = LintRemark::new("vmm.serial_log", LintVerdict::Discouraged, message);
        draft.remark(option.bytes.clone(), remark.instead("-display none -serial null"));
    }
}

/// Options that QEMU no longer has, or will not have for long.
fn judge_old_options(draft: &mut Draft<'_>, command: &QemuCommand, additions: &mut Additions) {
    for option in command.all(&["realtime", "no-hpet", "no-kvm-irqchip"]) {
        let (id, message, instead) = match option.name.as_str() {
            "realtime" => (
                "vmm.mem",
                "Removed from QEMU in favour of -overcommit mem-lock.",
                "-overcommit mem-lock=on",
            ),
            "no-hpet" => (
                "vmm.minimal",
                "Removed from QEMU in favour of the machine's property hpet=off.",
                "",
            ),
            _ => (
                "vmm.accel",
                "Moves the guest's interrupt controller into QEMU: each interrupt leaves the guest.",
                "",
            ),
        };
        draft.remove(option.bytes.clone());
        if !instead.is_empty() {
            additions.option(instead);
        }
        let remark = LintRemark::new(id, LintVerdict::Deprecated, message);
        draft.remark(option.bytes.clone(), remark.instead(instead));
    }
}
