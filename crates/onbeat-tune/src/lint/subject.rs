//! What a text is.

use super::dictionary::dictionary;
use super::kernel_text::{assignment, is_build_variable, quoted_pair};
use super::{LintError, LintSubject, check_nul, containers, modprobe, qemu_command, settings};
use crate::catalogue::survey::name_of;

impl LintSubject {
    /// Returns what a text is, by its contents and, where these leave it open, by the name of its
    /// file.
    ///
    /// # Errors
    /// [`LintError::NotRecognised`] with the first words, [`LintError::NotJudged`],
    /// [`LintError::Empty`].
    ///
    /// ```
    /// use onbeat_tune::lint::LintSubject;
    ///
    /// let unit = "[Service]\nCPUSchedulingPolicy=fifo\n";
    /// assert_eq!(LintSubject::recognise(unit, None)?, LintSubject::SystemdUnit);
    /// assert!(LintSubject::recognise("Dear reader, hello.", None).is_err());
    /// # Ok::<(), onbeat_tune::lint::LintError>(())
    /// ```
    pub fn recognise(text: &str, file: Option<&str>) -> Result<Self, LintError> {
        if contents(text).next().is_none() {
            return Err(LintError::Empty);
        }
        let file = file.unwrap_or_default();
        if let Some(subject) = by_name(file).or_else(|| by_contents(text)) {
            return Ok(subject);
        }
        check_nul(text)?;
        let known = NOT_JUDGED.iter().find(|(marks, ..)| has_one(text, marks));
        if let Some(&(_, kind, instead)) = known {
            return Err(LintError::NotJudged { kind, instead });
        }
        let begins: Vec<&str> = text.split_whitespace().take(6).collect();
        let begins: String = begins.join(" ").chars().take(60).collect();
        Err(LintError::NotRecognised { begins })
    }
}

/// Files that configure a machine too and are not judged: what a line of them begins with, what
/// they are, and what to give instead.
const NOT_JUDGED: [(&[&str], &str, &str); 20] = [
    (&["{%", "{{", "{#", "<%"], "a template", "Give the file that it makes"),
    (
        &["- hosts:", "hosts:", "write_files:", "bootcmd:", "runcmd:"],
        "a playbook of Ansible, or a configuration of cloud-init",
        "Give the files that it writes, each alone",
    ),
    (
        &["def generate_launch_description("],
        "a launch file in Python",
        "Its values are known only when it runs: give the parameters that it loads (YAML), or a \
         launch file in XML",
    ),
    (
        &["[defaultboot]"],
        "a zipl.conf",
        "Give the words behind parameters= alone, with --as kernel-line",
    ),
    (
        &["variant: fcos", "variant: flatcar", "variant: r4e", "variant: openshift"],
        "a configuration of Butane",
        "Give the words below kernel_arguments as one line, with --as kernel-line, and each unit \
         and file in it alone",
    ),
    (
        &["arm_freq=", "force_turbo=", "dtparam=", "dtoverlay="],
        "a config.txt of a Raspberry Pi",
        "The firmware reads it; the kernel's parameters are in cmdline.txt. onbeat tune check \
         reads the clock that is in effect",
    ),
    (
        &["isolated_cores=", "isolate_managed_irq="],
        "a file of variables of TuneD",
        "Give the tuned.conf that includes it, or the /proc/cmdline that comes of it",
    ),
    (
        &["GOVERNOR=", "governor=", "CPUPOWER_", "CPU_SCALING_GOVERNOR_ON_AC=", "< POWER_MODEL "],
        "a configuration of cpupower, cpufrequtils, TLP or nvpmodel",
        "What is in effect: onbeat tune check freq.governor",
    ),
    (
        &["RTIRQ_"],
        "a configuration of rtirq",
        "The priorities in effect: onbeat tune check irq.thread_prio",
    ),
    (
        &["w ", "w\t", "w! ", "w+ ", "w- ", "devices/system/", "kernel/mm/"],
        "a file of tmpfiles.d, or a sysfs.conf",
        "The values in effect: onbeat tune check",
    ),
    (
        &["context.modules", "jackd ", "/usr/bin/jackd"],
        "a configuration of PipeWire or JACK",
        "The priorities in effect: onbeat tune check proc.policy --task NAME",
    ),
    (
        &["\"kernel_options\""],
        "the configuration of kernelstub",
        "Give the words of kernel_options as one line, with --as kernel-line",
    ),
    (
        &["lxc.", "limits.cpu", "limits.kernel."],
        "a configuration of LXC or Incus",
        "What is in effect: onbeat tune check, inside the container",
    ),
    (
        &["ostype: ", "scsihw: "],
        "a configuration of Proxmox VE",
        "Give the command that it starts: qm showcmd VMID --pretty",
    ),
    (
        &["FROM "],
        "a Dockerfile",
        "What its container may do is said where it is started: docker run, a compose file",
    ),
    (
        &["\"runArgs\""],
        "a devcontainer.json",
        "Give the words of runArgs as one line, behind docker run",
    ),
    (
        &["\"default-ulimits\"", "\"cpu-rt-runtime\"", "[containers]"],
        "a configuration of the docker daemon or of podman",
        "Give what starts the container: docker run, a compose file or a unit",
    ),
    (
        &["[wsl2]"],
        "a .wslconfig",
        "Give the words behind kernelCommandLine= alone, with --as kernel-line",
    ),
    (
        &["CONFIG_PREEMPT", "CONFIG_HZ", "CONFIG_NO_HZ"],
        "a configuration of a kernel",
        "That of the running kernel is read by onbeat tune check kern.preempt_rt kern.hz",
    ),
    (
        &["cset ", "tuna ", "taskset ", "chrt ", "sysctl -w ", "cpupower ", "tuned-adm "],
        "a script with commands of its own",
        "Commands that start QEMU or a container are. A unit says the same in a form that is, by \
         CPUSchedulingPolicy= and CPUAffinity=",
    ),
];

fn has_one(text: &str, marks: &[&str]) -> bool {
    let has =
        |line: &str| marks.iter().any(|mark| line.trim_start_matches("sudo ").starts_with(mark));
    contents(text).any(has)
}

fn by_name(file: &str) -> Option<LintSubject> {
    let name = file.rsplit('/').next().unwrap_or(file);
    match name {
        // /etc/kernel/cmdline, by any path.
        "cmdline" if file.ends_with("kernel/cmdline") => Some(LintSubject::KernelLines),
        "cmdline" if file == "/proc/cmdline" => Some(LintSubject::KernelLine),
        "cmdline.txt" => Some(LintSubject::KernelLine),
        _ if file.contains("/cmdline.d/") => Some(LintSubject::KernelLines),
        _ if file.contains("modprobe.d/") => Some(LintSubject::ModprobeFile),
        "tuned.conf" => Some(LintSubject::TunedProfile),
        "irqbalance" | "irqbalance.env" => Some(LintSubject::Irqbalance),
        // Its section [main] is that of TuneD as well.
        "NetworkManager.conf" => Some(LintSubject::NetworkFile),
        _ => None,
    }
}

/// Lines that are neither empty nor a comment.
fn contents(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

fn has_keyword(text: &str, keyword: &str) -> bool {
    contents(text).any(|line| {
        line.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case(keyword))
    })
}

fn by_contents(text: &str) -> Option<LintSubject> {
    let start = text.trim_start();
    // A text in UTF-16 and a program have NULs too.
    let is_option = |word: &str| word.len() > 1 && word.starts_with('-');
    let by_nul = text.contains('\0')
        && !text.contains(char::REPLACEMENT_CHARACTER)
        && text.split('\0').any(is_option);
    // A list of YAML begins with this sign too, and a line of sysctl.d that may fail.
    let first = start.split_whitespace().next().unwrap_or_default();
    let name = first.strip_prefix("--").or_else(|| first.strip_prefix('-')).unwrap_or_default();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.contains(['.', '/']);
    if by_nul || !text.contains('\0') && is_name {
        return Some(LintSubject::QemuArguments);
    }
    if start.starts_with('<') {
        let is_ros = ["<launch", "<ros2_control"].iter().any(|tag| text.contains(tag));
        return Some(if is_ros && !text.contains("<domain") {
            LintSubject::RosParameters
        } else {
            LintSubject::LibvirtXml
        });
    }
    if contents(text)
        .any(|line| line.trim_start_matches("export ").starts_with("GRUB_CMDLINE_LINUX"))
    {
        return Some(LintSubject::GrubFile);
    }
    if contents(text).any(|line| line.trim_start_matches("export ").starts_with("IRQBALANCE_")) {
        return Some(LintSubject::Irqbalance);
    }
    by_shape(text).or_else(|| by_command(text)).or_else(|| by_lines(text))
}

/// What has sections, keys or keywords.
fn by_shape(text: &str) -> Option<LintSubject> {
    let first = contents(text).next()?;
    if let Some(section) = first.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
        return match section {
            _ if settings::is_listed("unit_section", section) => Some(LintSubject::SystemdUnit),
            _ if settings::is_listed("tuned_section", section) => Some(LintSubject::TunedProfile),
            "Match" | "Link" | "connection" | "ethtool" => Some(LintSubject::NetworkFile),
            // The configuration of ukify.
            "UKI" => Some(LintSubject::BuildVariables),
            _ => None,
        };
    }
    if has_keyword(text, "menuentry") {
        return Some(LintSubject::GrubMenu);
    }
    if has_keyword(text, "label") && has_keyword(text, "append") {
        return Some(LintSubject::Extlinux);
    }
    if has_keyword(text, "options") && (has_keyword(text, "linux") || has_keyword(text, "title")) {
        return Some(LintSubject::SystemdBootEntry);
    }
    let is_list = |line: &str| {
        line.strip_prefix("kargs").is_some_and(|rest| rest.replace(' ', "").starts_with("=["))
    };
    if text.contains("kernelParams") && text.contains('[') || contents(text).any(is_list) {
        return Some(LintSubject::NixOptions);
    }
    let is_pair = |line: &str| quoted_pair(line).is_some_and(|of| is_kernel_line(&line[of]));
    if contents(text).all(is_pair) {
        return Some(LintSubject::Extlinux);
    }
    if contents(text).any(|line| assignment(line).is_some_and(|(name, _)| is_build_variable(name)))
    {
        // A script may keep the line of its guest in such a variable.
        return by_command(text).or(Some(LintSubject::BuildVariables));
    }
    if text.contains("ros__parameters:") {
        return Some(LintSubject::RosParameters);
    }
    let has_key = |key: &str| {
        text.lines().any(|line| line.trim_end() == key || line.starts_with(&format!("{key} ")))
    };
    if has_key("apiVersion:") && has_key("kind:") {
        return Some(LintSubject::KubernetesPod);
    }
    let of_launch = ["- node:", "- node_container:", "- executable:", "- include:", "- group:"];
    let is_launched = |line: &str| of_launch.iter().any(|start| line.starts_with(start));
    if has_key("launch:") && contents(text).any(is_launched) {
        return Some(LintSubject::RosParameters);
    }
    // Talos: a configuration of a machine, or a patch of one.
    let of_talos = ["sysctls:", "extraKernelArgs:", "kubelet:"];
    if has_key("machine:") && of_talos.iter().any(|key| text.contains(key)) {
        return Some(LintSubject::KubernetesPod);
    }
    has_key("services:").then_some(LintSubject::ComposeFile)
}

fn by_command(text: &str) -> Option<LintSubject> {
    if containers::is_run_command(text) {
        return Some(LintSubject::ContainerCommand);
    }
    qemu_command::find(text).is_some().then_some(LintSubject::QemuScript)
}

/// What is the same on every line.
fn by_lines(text: &str) -> Option<LintSubject> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_limit = |line: &str| {
        let words = words(line.split('#').next().unwrap_or(line));
        let is_kind = |kind: &&str| words[1].eq_ignore_ascii_case(kind);
        words.len() == 4 && ["soft", "hard", "-"].iter().any(is_kind)
    };
    let is_rule = |line: &str| {
        [
            "ACTION",
            "KERNEL",
            "SUBSYSTEM",
            "ATTR",
            "DRIVER",
            "ENV{",
            "LABEL=",
            "GOTO=",
            "IMPORT{",
            "TEST",
            "PROGRAM",
            "TAG",
        ]
        .iter()
        .any(|key| line.starts_with(key))
            && line.contains("=\"")
    };
    let is_sysctl = |line: &str| {
        let Some((name, value)) = line.split_once('=') else { return false };
        let name = name.trim().trim_start_matches('-');
        let first = name.split(['.', '/']).next().unwrap_or(name);
        let is_name =
            matches!(first, "kernel" | "vm" | "net" | "fs" | "dev" | "user" | "abi" | "debug");
        // Words behind the value are those of a kernel command line.
        let is_word = |piece: &str| piece.starts_with(|c: char| c.is_ascii_alphabetic());
        let has_words = !value.starts_with(' ') && value.split_whitespace().skip(1).any(is_word);
        is_name
            && name.len() > first.len()
            && !name.contains(' ')
            && !value.contains('=')
            && !has_words
            // A path below /sys.
            && !name.starts_with("kernel/mm/")
    };
    let mut lines = contents(text).peekable();
    lines.peek()?;
    let lines: Vec<&str> = lines.collect();
    let most =
        |is: &dyn Fn(&str) -> bool| lines.iter().filter(|line| is(line)).count() * 2 > lines.len();
    if most(&is_limit) {
        return Some(LintSubject::Limits);
    }
    if most(&is_rule) {
        return Some(LintSubject::UdevRules);
    }
    if most(&modprobe::is_line) {
        return Some(LintSubject::ModprobeFile);
    }
    if most(&is_sysctl) {
        return Some(LintSubject::Sysctl);
    }
    // JSON has words of this form too.
    (!lines[0].starts_with(['"', '{']) && is_kernel_line(lines[0]))
        .then_some(LintSubject::KernelLine)
}

/// Whether half of the words of a line are names that a kernel has, or nearly.
fn is_kernel_line(line: &str) -> bool {
    let is_parameter = |word: &&str| {
        let name = name_of(word);
        let dictionary = dictionary();
        dictionary.is_known(&name)
            || dictionary.meant_by(&name).is_some()
            || (name.len() > 4 && dictionary.similar(&name).is_some())
            || (name.contains('.') && word.contains('='))
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    // `name = [...]` is TOML.
    !words.contains(&"=")
        && words.iter().filter(|word| is_parameter(word)).count() * 2 >= words.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_is_recognised_by_what_is_in_it() {
        let cases = [
            ("root=/dev/sda1 rw quiet", LintSubject::KernelLine),
            ("GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"quiet\"\n", LintSubject::GrubFile),
            ("menuentry 'a' {\n linux /vmlinuz quiet\n}\n", LintSubject::GrubMenu),
            ("LABEL a\n  LINUX /Image\n  APPEND quiet\n", LintSubject::Extlinux),
            ("title a\nlinux /vmlinuz\noptions quiet\n", LintSubject::SystemdBootEntry),
            ("{\n  boot.kernelParams = [ \"quiet\" ];\n}\n", LintSubject::NixOptions),
            ("kargs = [\"quiet\", \"rw\"]\n", LintSubject::NixOptions),
            ("\"Boot\"  \"rw quiet\"\n", LintSubject::Extlinux),
            ("/Linux\n    cmdline: rw quiet\n", LintSubject::BuildVariables),
            ("[UKI]\nCmdline=rw quiet\n", LintSubject::BuildVariables),
            ("# GRUB Environment Block\nkernelopts=rw quiet\n", LintSubject::BuildVariables),
            ("APPEND:append = \" quiet\"\n", LintSubject::BuildVariables),
            ("CONFIG_SMP=y\nCONFIG_CMDLINE=\"quiet\"\n", LintSubject::BuildVariables),
            ("setenv bootargs root=/dev/mmcblk0p2 quiet\n", LintSubject::BuildVariables),
            ("# a\nkernel.printk = 3 4 1 3\n", LintSubject::Sysctl),
            ("robot - rtprio 95\n", LintSubject::Limits),
            ("[Unit]\nDescription=a\n", LintSubject::SystemdUnit),
            ("[Container]\nImage=a\n", LintSubject::SystemdUnit),
            ("[Pod]\nPodName=a\n", LintSubject::SystemdUnit),
            ("sudo docker run -it image\n", LintSubject::ContainerCommand),
            ("services:\n  a:\n    image: b\n", LintSubject::ComposeFile),
            ("apiVersion: v1\nkind: Pod\n", LintSubject::KubernetesPod),
            ("[main]\ninclude=realtime\n", LintSubject::TunedProfile),
            ("SUBSYSTEM==\"usb\", ATTR{power/control}=\"on\"\n", LintSubject::UdevRules),
            ("/**:\n  ros__parameters:\n    a: 1\n", LintSubject::RosParameters),
            ("[Match]\nOriginalName=eth1\n[Link]\nMTUBytes=1500\n", LintSubject::NetworkFile),
            ("options i915 enable_psr=0\nblacklist nouveau\n", LintSubject::ModprobeFile),
            ("ENABLED=1\nIRQBALANCE_BANNED_CPULIST=2-3\n", LintSubject::Irqbalance),
            ("#!/bin/sh\nqemu-system-x86_64 -m 1G\n", LintSubject::QemuScript),
            ("CMDLINE=quiet\nkvm -m 1G -append $CMDLINE\n", LintSubject::QemuScript),
            ("uname_r=5.10\ncmdline=quiet isolcpus=1\n", LintSubject::BuildVariables),
            ("-m 1G\n", LintSubject::QemuArguments),
            ("-kernel.timer_migration = 0\n", LintSubject::Sysctl),
            ("-net/core/busy_poll = 0\n", LintSubject::Sysctl),
            ("<domain/>", LintSubject::LibvirtXml),
            ("<?xml version='1.0'?>\n<launch/>", LintSubject::RosParameters),
            ("launch:\n- node: {pkg: a, exec: b}\n", LintSubject::RosParameters),
            ("launch:\n  script:\n  - docker run --rm a\n", LintSubject::ContainerCommand),
        ];
        for (text, expected) in cases {
            assert_eq!(LintSubject::recognise(text, None), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_file_of_kernel_install_is_recognised_by_any_path() {
        for path in ["/etc/kernel/cmdline", "etc/kernel/cmdline", "kernel/cmdline"] {
            let subject = LintSubject::recognise("root=LABEL=a rw\nquiet\n", Some(path));
            assert_eq!(subject, Ok(LintSubject::KernelLines), "{path}");
        }
    }

    #[test]
    fn what_is_known_and_not_judged_is_refused_by_its_name() {
        for (text, kind) in [
            (
                "from launch import Action\n\ndef generate_launch_description():\n    pass\n",
                "Python",
            ),
            ("[defaultboot]\ndefaultauto\n[linux]\ntarget=/boot\nparameters=\"quiet\"\n", "zipl"),
            (
                "variant: fcos\nversion: 1.5.0\nkernel_arguments:\n  should_exist: [isolcpus=2]\n",
                "Butane",
            ),
            ("dtparam=audio=on\n[pi5]\nforce_turbo=1\n", "config.txt"),
            ("isolated_cores=2-23\n", "variables of TuneD"),
            ("RTIRQ_NAME_LIST=\"snd usb\"\n", "rtirq"),
            ("ENABLE=\"true\"\nGOVERNOR=\"ondemand\"\n", "cpupower"),
            ("d /run/a\nw\t/sys/kernel/mm/ksm/run - - - - 0\n", "tmpfiles.d"),
            ("/usr/bin/jackd -R -P95 -dalsa\n", "JACK"),
            (
                "vm.swappiness={{ swap | default(1) }}\n{% if a %}\nvm.a = 1\n{% endif %}\n",
                "template",
            ),
            ("- hosts: robots\n  tasks: []\n", "Ansible"),
            ("#cloud-config\nruncmd:\n- [sysctl, -w, vm.swappiness=1]\n", "cloud-init"),
            ("CONFIG_PREEMPT_RT=y\n# CONFIG_NO_HZ_FULL is not set\n", "kernel"),
            ("lxc.arch = amd64\nlxc.cgroup2.cpuset.cpus = 2-3\n", "LXC"),
            ("config:\n  limits.cpu: 2-3\n  limits.kernel.rtprio: 99\n", "Incus"),
            ("agent: 1\ncores: 4\nostype: l26\n", "Proxmox"),
            ("FROM ros\nCMD chrt -f 99 ./loop\n", "Dockerfile"),
            ("kernel/mm/transparent_hugepage/enabled = never\n", "sysfs.conf"),
            ("{\n  \"user\": {\n    \"kernel_options\": [\"isolcpus=2\"]\n", "kernelstub"),
            ("{\n  \"runArgs\": [\"--cap-add=SYS_NICE\"]\n}\n", "devcontainer"),
            ("[containers]\ndefault_ulimits = [\"rtprio=99\"]\n", "podman"),
            ("[wsl2]\nkernelCommandLine=isolcpus=2\n", ".wslconfig"),
            ("#!/bin/sh\nsudo cset shield --cpu 2-3\nchrt -f 99 ./loop\n", "script"),
        ] {
            let error = LintSubject::recognise(text, None).expect_err(text);
            let LintError::NotJudged { kind: found, .. } = error else { panic!("{text}: {error}") };
            assert!(found.contains(kind), "{found}");
        }
    }

    #[test]
    fn what_is_not_clear_is_refused_with_its_first_words() {
        for text in [
            "Dear reader, this is a letter.\n",
            "#!/bin/sh\necho hello world\n",
            "{\"a\": 1}\n",
            "\"Dear reader\" \"this is a letter\"\n",
            "{\"exec-opts\":[\"native.cgroupdriver=systemd\"]}\n",
            "args = [\"quiet\", \"rw\"]\n",
        ] {
            let error = LintSubject::recognise(text, None).expect_err(text).to_string();
            assert!(error.contains("it is not clear what the text is"), "{error}");
        }
    }
}
