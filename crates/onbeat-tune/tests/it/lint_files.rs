//! Lints of the files in which people configure a machine: each is read as what it is, judged by
//! what the kernel, systemd or docker makes of it, and corrected without touching anything else.

use onbeat_tune::lint::{LintError, LintReport, LintSubject, LintVerdict, lint};
use proptest::prelude::*;

use LintVerdict::{
    Contradiction, Deprecated, Discouraged, Harmful, Incomplete, InvalidValue, Known, Misspelt,
    NoEffect, Unknown, Valid,
};

fn report(text: &str) -> LintReport {
    lint(text, LintSubject::recognise(text, None).unwrap()).unwrap()
}

fn verdict(report: &LintReport, piece: &str) -> LintVerdict {
    let found = report.findings.iter().filter(|finding| finding.text == piece);
    found.map(|finding| finding.verdict).min().unwrap_or_else(|| panic!("{piece}: {report}"))
}

#[test]
fn lists_of_cpus_are_judged_as_the_kernel_reads_them() {
    let cases = [
        ("rw isolcpus=", "isolcpus=", InvalidValue, "rw isolcpus="),
        ("isolcpus=0x30", "isolcpus=0x30", InvalidValue, "isolcpus=managed_irq,domain,4-5"),
        ("isolcpus=all", "isolcpus=all", InvalidValue, "isolcpus=all"),
        (
            "isolcpus=4,domain,managed_irq",
            "isolcpus=4,domain,managed_irq",
            InvalidValue,
            "isolcpus=domain,managed_irq,4",
        ),
        ("isolcpus=6-7,nohz", "isolcpus=6-7,nohz", InvalidValue, "isolcpus=nohz,domain,6-7"),
        (
            "isolcpus=manage_irq,domain,4",
            "isolcpus=manage_irq,domain,4",
            InvalidValue,
            "isolcpus=managed_irq,domain,4",
        ),
        (
            "isolcpus=managed_irq,4",
            "isolcpus=managed_irq,4",
            Incomplete,
            "isolcpus=managed_irq,domain,4",
        ),
        (
            "isolcpus=0,5 quiet",
            "isolcpus=0,5",
            Contradiction,
            "isolcpus=managed_irq,domain,0,5 quiet",
        ),
        ("isolcpus=domain,2-N", "isolcpus=domain,2-N", Valid, "isolcpus=domain,2-N"),
        // Blanks separate as commas do, where quotes keep them in the value.
        ("isolcpus=\"2, 3\"", "isolcpus=\"2, 3\"", Incomplete, "isolcpus=managed_irq,domain,2,3"),
        ("rcu_nocbs=\"2, 3\"", "rcu_nocbs=\"2, 3\"", Valid, "rcu_nocbs=\"2, 3\""),
        ("isolcpus=domain,2-16:2/4", "isolcpus=domain,2-16:2/4", Valid, "isolcpus=domain,2-16:2/4"),
        (
            "nohz_full=0xf0 isolcpus=domain,4-7",
            "nohz_full=0xf0",
            InvalidValue,
            "nohz_full=4-7 isolcpus=domain,4-7",
        ),
        ("irqaffinity=0-", "irqaffinity=0-", InvalidValue, "irqaffinity=0-"),
        (
            "isolated_cpus=4-5 quiet",
            "isolated_cpus=4-5",
            Misspelt,
            "isolcpus=managed_irq,domain,4-5 quiet",
        ),
        (
            "kernel.timer_migration=0 quiet",
            "kernel.timer_migration=0",
            NoEffect,
            "sysctl.kernel.timer_migration=0 quiet",
        ),
        ("preempt=rt", "preempt=rt", InvalidValue, "preempt=rt"),
        ("irqpoll quiet", "irqpoll", Harmful, "quiet"),
        // Nothing is compared with a list that does not count.
        (
            "isolcpus=domain,2 isolcpus=3 nohz_full=2",
            "nohz_full=2",
            Valid,
            "isolcpus=domain,2 isolcpus=3 nohz_full=2",
        ),
    ];
    for (line, piece, expected, corrected) in cases {
        let report = lint(line, LintSubject::KernelLine).unwrap();
        assert_eq!(
            (verdict(&report, piece), report.corrected.as_str()),
            (expected, corrected),
            "{line}: {report}"
        );
    }
    // kernel/rcu/tree_nocb.h and kernel/irq/irqdesc.c do not ignore what they cannot read.
    let unread = report("rcu_nocbs=0x0c irqaffinity=0-");
    let has = |words: &str| unread.findings.iter().any(|found| found.message.contains(words));
    assert!(has("offloads all CPUs instead") && has("to the boot CPU and"), "{unread}");
    let report = report("isolcpus=2, 3 quiet");
    assert_eq!(verdict(&report, "3"), NoEffect);
}

/// Of these the kernel takes each: a Raspberry Pi for k3s, a laptop, a kdump of SUSE.
#[test]
fn parameters_that_add_up_do_not_contradict_themselves() {
    for line in [
        "cgroup_enable=cpuset cgroup_enable=memory cgroup_memory=1",
        "acpi_osi=! acpi_osi=Linux quiet",
        "crashkernel=512M,high crashkernel=256M,low quiet",
        "pci=noaer pci=realloc quiet",
        "cgroup_disable=memory numa_policy=interleave numa=fake=8 rhgb quiet",
    ] {
        let report = lint(line, LintSubject::KernelLine).unwrap();
        assert_eq!(report.problems().count(), 0, "{report}");
        assert_eq!(report.corrected, line);
    }
}

#[test]
fn a_line_that_is_too_long_is_cut_off() {
    let fits = format!("{} isolcpus=domain,2", "xx=1 ".repeat(406).trim_end());
    assert_eq!(fits.len(), 2047);
    let report = |line: &str| lint(line, LintSubject::KernelLine).unwrap();
    assert_eq!(verdict(&report(&fits), "isolcpus=domain,2"), Valid);
    assert_eq!(verdict(&report(&format!("a{fits}")), "isolcpus=domain,2"), NoEffect);
}

#[test]
fn values_that_the_kernel_does_not_read_are_found() {
    let report = report(
        "tsc=relaible mitigations=on intel_pstate=off amd_pstate=off transparent_hugepage=off amd_iommu=on iommu=pt",
    );
    for piece in [
        "tsc=relaible",
        "mitigations=on",
        "intel_pstate=off",
        "amd_pstate=off",
        "transparent_hugepage=off",
    ] {
        assert_eq!(verdict(&report, piece), InvalidValue, "{piece}");
    }
    assert_eq!(verdict(&report, "amd_iommu=on"), NoEffect);
    assert!(report.corrected.ends_with("transparent_hugepage=off iommu=pt"), "{report}");

    let line = "audit=n pcie_aspm=performance highres=no nohz=0 skew_tick=yes intel_iommu=yes";
    let report = self::report(line);
    assert_eq!(report.with_verdict(InvalidValue).count(), 4, "{report}");
    assert_eq!(verdict(&report, "highres=no"), Harmful);
    assert_eq!(verdict(&report, "nohz=0"), Valid);
    let pages = self::report("default_hugepagesz=1G hugepages=4 hugepagesz=1G");
    assert_eq!(pages.problems().count(), 0, "{pages}");

    let slow =
        self::report("clocksource=hpet pcie_aspm.policy=powersave transparent_hugepage=always");
    assert_eq!(slow.with_verdict(Discouraged).count(), 3, "{slow}");
}

/// Idle CPUs of ARM poll by nohlt, those of x86 by idle=poll.
#[test]
fn a_console_of_arm_shows_which_parameters_are_read() {
    let text = "console=serial0,115200 quiet rootwait nohlt idle=poll";
    let report = report(text);
    assert_eq!(verdict(&report, "nohlt"), Valid);
    assert_eq!(verdict(&report, "idle=poll"), NoEffect);
    assert!(report.corrected.contains(" nohlt "), "{report}");

    let limited =
        self::report("console=ttyTCU0,115200 rw processor.max_cstate=1 idle=poll mce=off");
    assert_eq!(verdict(&limited, "processor.max_cstate=1"), Valid);
    assert_eq!(verdict(&limited, "mce=off"), NoEffect);
    let pi = self::report("vc_mem.mem_base=0x3ec00000 console=ttyS0,115200 quiet nohlt rootwait");
    assert_eq!(verdict(&pi, "nohlt"), Valid);
    let board = "console=ttyTCU0,115200 isolcpus=managed_irq,domain,3 nohz_full=3 rcu_nocbs=3";
    assert_eq!(self::report(board).problems().count(), 0);
    let refused = "nmi_watchdog=off pcie_aspm.policy=off hugepages=512M threadirqs=0 schedstats=off spectre_v2=of nohz=full \
                   kfence.sample_interval=off usbcore.autosuspend=off intel_idle.max_cstate=off iommu=passthrough \
                   processor.max_cstate=C1 numa_balancing=0 systemd.cpu_affinity=0x3 rcupdate.rcu_normal_after_boot=yes";
    let read = "nmi_watchdog=nopanic,0 hugepages=0:2,1:4 hugepages=12:1 hugepages=512 threadirqs schedstats=disable spectre_v2=off nohz=on \
                kfence.sample_interval=0 usbcore.autosuspend=-1 intel_idle.max_cstate=1 iommu=pt \
                processor.max_cstate=1 numa_balancing=disable systemd.cpu_affinity=0,1 clocksource=tsc";
    for (values, expected) in [(refused, InvalidValue), (read, Valid)] {
        for value in values.split_whitespace() {
            let report = self::report(&format!("quiet rw {value}"));
            assert_eq!(verdict(&report, value), expected, "{report}");
        }
    }
    let joined = self::report("quiet rw mce=ignore_ce,no_cmci");
    assert_eq!(verdict(&joined, "mce=ignore_ce,no_cmci"), InvalidValue);
    let x86 = self::report("quiet rw intel_idle.max_cstate=1 processor.max_cstate=1 idle=halt");
    assert_eq!(x86.corrected, "quiet rw idle=halt", "{x86}");
}

#[test]
fn the_flag_nohz_offloads_callbacks_too() {
    let text = "isolcpus=nohz,domain,2-3 rcu_nocb_poll";
    let report = report(text);
    assert_eq!(verdict(&report, "rcu_nocb_poll"), Valid);
    assert_eq!(report.corrected, text);
}

/// With four CPUs nothing else is left; CPU 1 is left where 2 and 3 are isolated.
#[test]
fn all_interrupts_on_the_only_cpu_that_is_left_are_right() {
    let report = report("isolcpus=managed_irq,domain,1-3 irqaffinity=0");
    assert_eq!(verdict(&report, "irqaffinity=0"), Valid);
    let report = self::report("isolcpus=managed_irq,domain,2-3 irqaffinity=0");
    assert_eq!(verdict(&report, "irqaffinity=0"), Discouraged);
}

#[test]
fn what_is_harmful_is_judged_and_what_is_merely_known_is_said_to_be() {
    let report = report(
        "highres=off cpuidle.off=1 nolapic_timer lapic=notscdeadline acpi=off quiet zz.top=1",
    );
    for piece in ["highres=off", "nolapic_timer", "lapic=notscdeadline", "acpi=off"] {
        assert_eq!(verdict(&report, piece), Harmful, "{piece}");
    }
    assert_eq!(verdict(&report, "cpuidle.off=1"), Discouraged);
    assert_eq!(verdict(&report, "zz.top=1"), Unknown);
    assert_eq!(report.counts.unknown, 1, "{report}");

    let merely_known = self::report("root=/dev/sda1 nokaslr quiet");
    assert_eq!(verdict(&merely_known, "nokaslr"), Known);
    let printed = merely_known.to_string();
    assert!(!printed.contains("No problem found") && printed.contains("nokaslr"), "{printed}");
}

#[test]
fn only_the_first_line_of_a_command_line_counts() {
    let text = "console=tty1 root=PARTUUID=12-02 rootwait\nisolcpus=domain,3\n";
    let report = report(text);
    assert_eq!(verdict(&report, "isolcpus=domain,3"), NoEffect);
    assert_eq!(report.corrected, text);
    assert!(report.refusal.is_some());
}

const EXTLINUX: &str = "\
TIMEOUT 30
DEFAULT robot

LABEL robot
      MENU LABEL the robot's kernel
      LINUX /boot/Image
      APPEND ${cbootargs} root=/dev/mmcblk0p1 rw isolcpus=4-5 nohz_full=4-5
LABEL backup
\tLINUX /boot/Image.backup
\tAPPEND ${cbootargs} root=/dev/mmcblk0p1 rw
";

#[test]
fn in_extlinux_only_words_of_append_change() {
    let report = report(EXTLINUX);
    assert_eq!(report.subject, LintSubject::Extlinux);
    assert_eq!(
        report.corrected,
        EXTLINUX.replace("isolcpus=4-5", "isolcpus=managed_irq,domain,4-5")
    );
    assert_eq!(verdict(&report, "${cbootargs}"), Unknown);
}

#[test]
fn in_nix_words_keep_their_quotes_and_comments() {
    let text = "boot.kernelParams = [\n  \"isolcpus=2,3\" # the loop\n  \"nohz_full=2,3\"\n  \"nohlt\"\n];\n";
    let report = report(text);
    let expected = text
        .replace("isolcpus=2,3", "isolcpus=managed_irq,domain,2,3")
        .replace("  \"nohlt\"\n", "");
    assert_eq!(report.corrected, expected, "{report}");
    // What Nix computes is left alone.
    let computed = "boot.kernelParams = [ \"isolcpus=${cpus}\" \"nohlt\" ];\n";
    let report = self::report(computed);
    assert_eq!((report.corrected.as_str(), report.refusal.is_some()), (computed, true));
    let joined = "boot.kernelParams = [ \"nohlt\" ] ++ lib.optionals rt [ \"irqpoll\" ];\n";
    assert_eq!(verdict(&self::report(joined), "irqpoll"), Harmful);
}

#[test]
fn a_grub_file_that_a_shell_computes_is_judged_and_not_corrected() {
    let text = "GRUB_CMDLINE_LINUX=\"$(cat /etc/line) nohlt\"\n";
    let report = report(text);
    assert_eq!((report.corrected.as_str(), report.refusal.is_some()), (text, true));
    let variable = "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT isolcpus=3\"\n";
    let report = self::report(variable);
    assert_eq!(report.corrected, variable.replace("=3", "=managed_irq,domain,3"));
}

#[test]
fn a_value_of_grub_that_is_assigned_again_has_no_effect() {
    let text = "GRUB_CMDLINE_LINUX=\"quiet isolcpus=domain,2\"\nGRUB_CMDLINE_LINUX=\"quiet intel_iommu=on\"\n";
    let report = report(text);
    assert_eq!(verdict(&report, "quiet isolcpus=domain,2"), NoEffect);
    assert!(!report.findings.iter().any(|found| found.text == "isolcpus=domain,2"), "{report}");
    assert_eq!(report.corrected, text.replace("=on\"", "=on iommu=pt\""));
    let added = "GRUB_CMDLINE_LINUX=\"quiet\"\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX rw\"\n";
    assert_eq!(self::report(added).problems().count(), 0);
}

#[test]
fn boot_entries_build_variables_and_menus_are_read() {
    let entry = "title a\nlinux /vmlinuz\ninitrd /initrd\noptions root=/dev/sda1 nohlt\noptions isolcpus=3\n";
    assert_eq!(
        report(entry).corrected,
        entry.replace(" nohlt", "").replace("=3", "=managed_irq,domain,3")
    );
    let yocto = "DISTRO = \"poky\"\nAPPEND:append = \" isolcpus=3 quiet\"\n";
    assert_eq!(report(yocto).corrected, yocto.replace("=3", "=managed_irq,domain,3"));
    let twice = "cmdline=quiet isolcpus=1\nuname_r=5.10\ncmdline=quiet nohlt\n";
    assert_eq!(verdict(&report(twice), "quiet isolcpus=1"), NoEffect);
    assert_eq!(report(twice).corrected, twice.replace(" nohlt", ""));
    let entries = ":Arch\nCMDLINE=rw isolcpus=domain,1\n:Fallback\nCMDLINE=rw quiet\n";
    assert_eq!(report(entries).with_verdict(NoEffect).count(), 0);
    let armbian = "rootfstype=ext4\nextraargs=cma=256M isolcpus=4-7 irqpoll\n";
    let expected = armbian.replace("=4-7 irqpoll", "=managed_irq,domain,4-7");
    assert_eq!(report(armbian).corrected, expected);
    let custom = "menuentry 'a' {\n  linux /boot/vmlinuz root=/dev/sda1 nohlt\n}\n";
    assert_eq!(report(custom).corrected, custom.replace(" nohlt", ""));
    let menu = format!("#\n# DO NOT EDIT THIS FILE\n#\n{custom}");
    let menu_report = report(&menu);
    assert_eq!(verdict(&menu_report, "nohlt"), NoEffect);
    assert!(menu_report.refusal.unwrap().contains("generated"));
}

/// Ansible, Salt, chezmoi, configure and others make the files that programs read.
#[test]
fn what_a_template_fills_in_is_neither_judged_nor_corrected() {
    for text in [
        "GRUB_CMDLINE_LINUX=\"quiet isolcpus={{ cpus }} nohz_full={{ cpus }} {% if a %}nosmt {% endif %}\"\n",
        "console=tty1 root=x isolcpus={{cpus}} rcu_nocb_poll {{ more }}\n",
        "[Service]\nCPUSchedulingPolicy={{ policy }}\nCPUSchedulingPriority=80\nCPUAffinity=<%= cpus %>\nLimitRTPRIO=@RTPRIO@\nCPUQuota={{ q }}\n",
        "kernel.sched_rt_runtime_us = {{ us }}\nvm.swappiness = 10\n",
    ] {
        let report = report(text);
        assert_eq!((report.problems().count(), report.corrected.as_str()), (0, text), "{report}");
        assert!(report.counts.unknown > 0, "{report}");
    }
    let braces = "[Service]\nExecStartPre=docker ps --format {{.ID}}\nCPUSchedulingPriority=80\n";
    assert_eq!(report(braces).problems().count(), 1);
    let own = "[Service]\nCPUAffinity={{ cpus }}\nCPUQuota=50%\n";
    assert_eq!(report(own).corrected, own.replace("CPUQuota=50%\n", ""));
}

/// What a part lacks may be in the files that it is added to.
#[test]
fn nothing_is_missing_of_a_part_of_a_line() {
    let parts = [
        "APPEND += \"WORDS\"\n",
        "APPEND:append:intel-x86-common = \" WORDS\"\n",
        "APPEND_append_genericx86-64 = \" WORDS\"\n",
        "GRUB_CMDLINE_LINUX_DEFAULT+=\" WORDS\"\n",
        "GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }rw WORDS\"\n",
        "kargs = [\"rcu_nocb_poll\", \"nohz_full=2-3\"]\n",
        "TUNED_BOOT_CMDLINE=\"skew_tick=1 WORDS\"\n",
        "# GRUB Environment Block\nsaved_entry=0\ntuned_params=WORDS\n####",
        "[main]\ninclude=realtime\n[bootloader]\ncmdline_x=+WORDS\n",
        "APPEND = \"rw\"\nAPPEND:remove = \"isolcpus=2-3 nohlt\"\n",
    ];
    for text in parts {
        let report = report(&text.replace("WORDS", "rcu_nocb_poll nohz_full=2-3"));
        assert_eq!(report.problems().count(), 0, "{text}{report}");
    }
    let drop_in = |text| lint(text, LintSubject::KernelLines).unwrap().problems().count();
    assert_eq!((drop_in("rcu_nocb_poll\n"), drop_in("root=/dev/sda1\nrcu_nocb_poll\n")), (0, 1));
}

#[test]
fn entries_of_other_boot_loaders_are_read_and_one_without_a_line_is_refused() {
    let cases = [
        (
            "\"Boot\"  \"rw isolcpus=2\"\n\"Single\" \"rw single\"\n",
            "isolcpus=managed_irq,domain,2",
        ),
        (
            "menuentry \"a\" {\n  loader /k\n  options \"rw isolcpus=2\"\n}\n",
            "isolcpus=managed_irq,domain,2",
        ),
        (
            "/Arch\n    protocol: linux\n    cmdline: rw isolcpus=2\n",
            "isolcpus=managed_irq,domain,2",
        ),
        ("kargs = [\"isolcpus=2\", \"rw\"]\n", "isolcpus=managed_irq,domain,2"),
    ];
    for (text, instead) in cases {
        assert_eq!(report(text).corrected, text.replace("isolcpus=2", instead), "{text}");
    }
    // A list of TOML stays one where a word goes or comes.
    let list = report("kargs = ['nohlt', 'rw', 'irqpoll']\n");
    assert_eq!(list.corrected, "kargs = [ 'rw',]\n", "{list}");

    let block = report("# GRUB Environment Block\nkernelopts=rw isolcpus=2 \nboot_success=0\n####");
    assert_eq!(verdict(&block, "isolcpus=2"), Incomplete);
    assert!(block.refusal.unwrap().contains("grub-editenv"));

    let none = lint("menuentry 'a' {\n  blscfg\n}\n", LintSubject::GrubMenu).unwrap_err();
    assert_eq!(none, LintError::NoLine { lines: 3 });
}

/// `${cbootargs}` may hold what seems to be missing.
#[test]
fn nothing_is_missing_on_a_line_that_a_boot_loader_completes() {
    let text = "setenv bootargs ${bootargs} nohz_full=3 rcu_nocb_poll console=ttyS0\n";
    let report = report(text);
    assert_eq!((report.problems().count(), report.corrected.as_str()), (0, text), "{report}");
}

#[test]
fn limits_that_set_the_nice_value_are_removed_and_memory_is_freed() {
    let text = "# robots\n@rt soft rtprio 99\n@rt soft priority 99\n@rt\thard\tmemlock 65536 # KiB\nalice - nofile 4096\n";
    let report = report(text);
    assert_eq!(verdict(&report, "@rt soft priority 99"), Harmful);
    assert_eq!(verdict(&report, "@rt soft rtprio 99"), Incomplete);
    let expected =
        "# robots\n@rt - rtprio 99\n@rt\t-\tmemlock unlimited # KiB\nalice - nofile 4096\n";
    assert_eq!(report.corrected, expected);
    assert_eq!(verdict(&report, "alice - nofile 4096"), Known);
}

#[test]
fn options_of_modules_are_judged_and_those_of_the_kernel_itself_found() {
    let text = "# network\noptions e1000e InterruptThrottleRate=3,3 IntMode=1\noptions igb InterruptThrottleRate=0,0\n\
                blacklist nouveau\noptions intel-idle max_cstate=1\noptions kvm_intel \\\n  ple_gap=0 nested=1\n";
    let report = report(text);
    for (piece, expected) in [
        ("InterruptThrottleRate=3,3", Discouraged),
        ("IntMode=1", Known),
        ("InterruptThrottleRate=0,0", NoEffect),
        ("blacklist nouveau", Known),
        ("max_cstate=1", NoEffect),
        ("ple_gap=0", Valid),
        ("nested=1", Known),
    ] {
        assert_eq!(verdict(&report, piece), expected, "{piece}: {report}");
    }
    let radio = self::report("options iwlmvm power_scheme=2\noptions iwlwifi power_save=0\n");
    assert_eq!(verdict(&radio, "power_scheme=2"), Discouraged);
    assert_eq!(verdict(&radio, "power_save=0"), Valid);
    let moderated = self::report("options e1000e InterruptThrottleRate=0,0 RxIntDelay=32\n");
    assert_eq!(verdict(&moderated, "InterruptThrottleRate=0,0"), Valid);
    assert_eq!(moderated.corrected, "options e1000e InterruptThrottleRate=0,0 RxIntDelay=0\n");
}

/// The manager of a user has the rights of the user.
#[test]
fn a_unit_of_a_users_manager_is_judged_as_such() {
    let text = "[Service]\nCPUSchedulingPolicy=fifo\nCPUSchedulingPriority=80\nAllowedCPUs=3\n[Install]\nWantedBy=multi-user.target\n";
    for (path, problems) in [
        ("/home/robot/.config/systemd/user/robot.service", 3),
        ("/etc/systemd/user/robot.service.d/50.conf", 3),
        ("/etc/systemd/system/robot.service", 0),
    ] {
        let mut report = report(text);
        report.note_file(path);
        assert_eq!(report.problems().count(), problems, "{path}: {report}");
        assert_eq!(report.refusal.is_some(), problems > 0, "{path}");
    }
}

/// A file of sysctl.d without its ending is a file that nothing reads.
#[test]
fn a_file_whose_name_nothing_reads_has_no_effect() {
    for (path, expected) in [
        ("/etc/sysctl.d/99-robot", 1),
        ("limits.d/robot.conf.bak", 1),
        ("/etc/systemd/system/robot.service.d/override", 1),
        ("/etc/udev/rules.d/99-robot.conf", 1),
        ("/etc/sysctl.d/99-robot.conf", 0),
        ("templates/sysctl.d/99-robot.conf.j2", 0),
        ("/etc/sysctl.conf", 0),
        ("/etc/udev/rules.d/99-robot.rules", 0),
        ("/home/robot/swappiness", 0),
    ] {
        let mut report = self::report("vm.swappiness = 10\n");
        report.note_file(path);
        assert_eq!(report.with_verdict(NoEffect).count(), expected, "{path}");
        let moved = usize::from(path == "/etc/sysctl.conf");
        assert_eq!(report.with_verdict(Discouraged).count(), moved, "{path}");
    }
}

/// No-break spaces of a page on the web: no program takes them for blanks.
#[test]
fn what_only_looks_like_a_blank_is_named() {
    for text in [
        "@rt\u{a0}- rtprio 95\n",
        "vm.swappiness\u{a0}= 10\n",
        "vm.swappiness =\u{a0}10\n",
        "[Service]\nCPUSchedulingPolicy=\u{a0}fifo\n",
        "quiet rw isolcpus=domain,2-3\u{a0}nohz_full=2-3\n",
    ] {
        let report = self::report(text);
        let named = report.problems().filter(|problem| problem.message.contains("U+00A0"));
        assert_eq!(named.count(), 1, "{report}");
    }
    let described = self::report("[Unit]\nDescription=a\u{a0}loop\n[Service]\nNice=0\n");
    assert_eq!(described.problems().count(), 0, "{described}");
}

/// Each answer follows from `process_limit` and `setup_limits` of pam_limits.
#[test]
fn limits_are_read_as_pam_reads_them() {
    for (line, expected, corrected) in [
        ("@rt hard rtprio 95", Incomplete, "@rt - rtprio 95"),
        ("@rt soft rtprio 95", Incomplete, "@rt - rtprio 95"),
        ("@rt HARD MEMLOCK UNLIMITED", Incomplete, "@rt - MEMLOCK UNLIMITED"),
        ("%rt - rtprio 95", NoEffect, "@rt - rtprio 95"),
        ("% - memlock unlimited", NoEffect, "* - memlock unlimited"),
        ("%rt - maxlogins 4", Known, "%rt - maxlogins 4"),
        ("@rt - memlock 64G", InvalidValue, "@rt - memlock unlimited"),
        ("@rt - rtprio 95:95", InvalidValue, "@rt - rtprio 95"),
        ("@rt - rtprio high", InvalidValue, "@rt - rtprio high"),
        ("@rt - nice unlimited", InvalidValue, "@rt - nice unlimited"),
        ("@rt - nice -20", Valid, "@rt - nice -20"),
        ("@rt - memlock -", Valid, "@rt - memlock -"),
    ] {
        let report = self::report(&format!("{line}\n"));
        assert_eq!(verdict(&report, line), expected, "{report}");
        assert_eq!(report.corrected, format!("{corrected}\n"), "{report}");
    }
    // Of two files, or groups, each may have its half.
    let both = self::report("* soft rtprio 95\n@rt hard rtprio 95\n");
    assert_eq!(both.problems().count(), 0, "{both}");
    let lowered = self::report("@rt soft rtprio 95\n@rt hard rtprio 90\n");
    assert_eq!(verdict(&lowered, "@rt soft rtprio 95"), Contradiction);
}

#[test]
fn sysctl_values_that_the_kernel_refuses_are_found() {
    let text =
        "kernel.sched_rt_period_us = -1\nkernel.sched_rt_runtime_us=-1\nvm.stat_interval=120\n";
    let report = report(text);
    assert_eq!(verdict(&report, "kernel.sched_rt_period_us = -1"), InvalidValue);
    assert_eq!(report.corrected, text.replace("period_us = -1", "period_us = 1000000"));
    let commented = self::report("vm.stat_interval = 120 # seconds\n");
    assert_eq!(commented.with_verdict(Discouraged).count(), 1, "{commented}");
    assert_eq!(commented.corrected, "vm.stat_interval = 120\n");
    let known = self::report("kernel.watchdog_thresh = 30\nkernel.core_patern = x\n");
    assert_eq!(verdict(&known, "kernel.watchdog_thresh = 30"), Known);
    assert_eq!(verdict(&known, "kernel.core_patern = x"), Misspelt);
    let moved = self::report("kernel.sched_tunable_scaling=0\nkernel.sched_util_clamp_min=512\n");
    assert_eq!(verdict(&moved, "kernel.sched_tunable_scaling=0"), NoEffect);
    assert_eq!(verdict(&moved, "kernel.sched_util_clamp_min=512"), Known);
    // Each line is judged by what those above it have set, at first 950000 of 1000000.
    let [runtime, period] = ["kernel.sched_rt_runtime_us", "kernel.sched_rt_period_us"];
    for (lines, refused) in [
        (format!("{runtime}=980000\n{period}=500000\n"), 1),
        (format!("{period}=500000\n{runtime}=400000\n"), 1),
        (format!("{runtime}=400000\n{period}=500000\n"), 0),
        (format!("{period}=2000000\n{runtime}=1900000\n"), 0),
        (format!("{runtime}=-1\n{period}=500000\n"), 0),
    ] {
        let budget = self::report(&lines);
        assert_eq!(budget.with_verdict(InvalidValue).count(), refused, "{budget}");
        assert_eq!(budget.problems().count(), refused, "{budget}");
    }
    let longer = self::report("kernel.sched_rt_runtime_us=2000000\n");
    assert_eq!(longer.with_verdict(Incomplete).count(), 1, "{longer}");
    let twice =
        self::report("kernel.sched_rt_runtime_us=-1\n-kernel/sched_rt_runtime_us = 950000\n");
    assert_eq!(verdict(&twice, "kernel.sched_rt_runtime_us=-1"), Contradiction, "{twice}");
    let moved = self::report("kernel.sched_migration_cost_ns=5000000\n");
    assert_eq!(verdict(&moved, "kernel.sched_migration_cost_ns=5000000"), NoEffect);
    let unsigned = self::report("vm.swappiness = 10\nkernel.panic = 5\nvm.stat_interval: 10\n");
    assert_eq!(verdict(&unsigned, "vm.stat_interval: 10"), NoEffect);
}

#[test]
fn a_unit_is_judged_and_keeps_everything_else() {
    let text = "[Unit]\nDescription=loop\n\n[Service]\nExecStart=/opt/loop \\\n  --fast\nCPUSchedulingPolicy=fifo\n\
                CPUSchedulingPriority=99\nLimitMEMLOCK=64M\nCPUQuota=50%\nCPUAffinity=2,3\n";
    let report = report(text);
    for (piece, expected) in [
        ("CPUSchedulingPriority=99", Harmful),
        ("LimitMEMLOCK=64M", Incomplete),
        ("CPUQuota=50%", Harmful),
        ("CPUAffinity=2,3", Valid),
    ] {
        assert_eq!(verdict(&report, piece), expected, "{piece}");
    }
    let expected =
        text.replace("=99", "=95").replace("64M", "infinity").replace("CPUQuota=50%\n", "");
    assert_eq!(report.corrected, expected);

    let misplaced =
        self::report("[Unit]\nCPUSchedulingPolicy=fifo\n[Service]\nCPUSchedulingPriority=80\n");
    assert_eq!(verdict(&misplaced, "CPUSchedulingPolicy=fifo"), NoEffect);
    // What systemd ignores is nobody's partner.
    assert_eq!(misplaced.problems().count(), 2, "{misplaced}");
    assert_eq!(verdict(&misplaced, "CPUSchedulingPriority=80"), NoEffect);
}

#[test]
fn a_section_has_its_own_settings_and_a_limit_is_a_number() {
    let manager = report(
        "[Manager]\nCPUAffinity=0-1\nCPUSchedulingPolicy=fifo\nDefaultLimitRTPRIO=unlimited\n\
         DefaultTimerAccuracySec=1us\nLimitRTPRIO=95\n",
    );
    assert_eq!(verdict(&manager, "CPUAffinity=0-1"), Valid);
    assert_eq!(verdict(&manager, "DefaultLimitRTPRIO=unlimited"), InvalidValue);
    assert!(manager.corrected.contains("DefaultLimitRTPRIO=infinity\n"), "{manager}");
    assert_eq!(verdict(&manager, "DefaultTimerAccuracySec=1us"), Known);
    assert_eq!(verdict(&manager, "LimitRTPRIO=95"), NoEffect);
    assert_eq!(verdict(&manager, "CPUSchedulingPolicy=fifo"), NoEffect);

    let limit = report("[Service]\nLimitRTPRIO=9\n");
    assert_eq!(verdict(&limit, "LimitRTPRIO=9"), Incomplete);

    let unread =
        report("[Service]\nAllowedCPUs=all\nCPUAffinity=0x0c\nLimitRTPRIO=95\nLimitRTPRIO=9x\n");
    for piece in ["AllowedCPUs=all", "CPUAffinity=0x0c", "LimitRTPRIO=9x"] {
        assert_eq!(verdict(&unread, piece), InvalidValue, "{piece}");
    }
    assert_eq!(verdict(&unread, "LimitRTPRIO=95"), Valid, "it is not replaced");

    let slice = report("[Slice]\nAllowedCPUs=2-3\nCPUAffinity=2-3\n");
    assert_eq!(verdict(&slice, "AllowedCPUs=2-3"), Valid);
    assert_eq!(verdict(&slice, "CPUAffinity=2-3"), NoEffect);

    let names =
        "[Unit]\nConditionKernelVersion=>=6\n[Service]\nTimeoutAbortSec=5\nRestartMod=direct\n";
    let counts = report(names).counts;
    assert_eq!((counts.judged, counts.known, counts.unknown), (0, 2, 1));
}

/// What a hardened unit takes from its loop, and limits that only permit.
#[test]
fn a_unit_that_refuses_real_time_policies_to_its_program_is_harmful() {
    let text = "[Service]\nRestrictRealtime=yes\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n\
                SystemCallFilter=~@memlock:EPERM\nLimitNICE=-20\nLimitNICE=41\nNice=-21\nLimitMEMLOCK=infinity:infinity\n\
                CPUSchedulingPolicy=FIFO\nCPUSchedulingPriority=80\n";
    let report = report(text);
    for (piece, expected) in [
        ("RestrictRealtime=yes", Harmful),
        ("SystemCallFilter=@system-service", Known),
        ("SystemCallFilter=~@privileged @resources", Harmful),
        ("SystemCallFilter=~@memlock:EPERM", Harmful),
        ("LimitNICE=-20", Valid),
        ("LimitNICE=41", InvalidValue),
        ("Nice=-21", InvalidValue),
        ("LimitMEMLOCK=infinity:infinity", Valid),
        ("CPUSchedulingPolicy=FIFO", InvalidValue),
    ] {
        assert_eq!(verdict(&report, piece), expected, "{piece}");
    }
    let corrected = text.replace("Realtime=yes", "Realtime=no").replace("FIFO", "fifo");
    assert_eq!(report.corrected, corrected);
}

/// A drop-in takes a value back before it gives its own.
#[test]
fn an_empty_value_of_a_unit_contradicts_nothing() {
    let text =
        "[Service]\nCPUSchedulingPolicy=\nCPUSchedulingPolicy=fifo\nCPUSchedulingPriority=80\n";
    assert_eq!(report(text).problems().count(), 0);
}

/// 90 beside a policy without priorities would keep the service from starting.
#[test]
fn a_priority_of_0_is_not_corrected() {
    let text = "[Service]\nCPUSchedulingPolicy=other\nCPUSchedulingPriority=0\n";
    let report = report(text);
    assert_eq!(verdict(&report, "CPUSchedulingPriority=0"), NoEffect);
    assert_eq!(report.with_verdict(InvalidValue).count(), 1, "{report}");
    assert_eq!(report.corrected, text, "{report}");
}

/// systemd joins the lines, and skips comments in between.
#[test]
fn a_value_of_a_unit_on_several_lines_is_judged_as_a_whole() {
    let start = "ExecStart=/usr/bin/taskset -c 2 \\\n# not -f 80 \\\n  /usr/bin/chrt -f 99 \\\r\n  /opt/robot";
    let limit = "LimitRTPRIO=\\\n  50";
    let text = format!("# é \\\n[Service]\n{start}\nCPUAffinity=2,\\\n3\n{limit}\nNice=-5\n");
    let report = report(&text);
    assert_eq!(verdict(&report, start), Harmful);
    assert_eq!(verdict(&report, "CPUAffinity=2,\\\n3"), Valid);
    assert_eq!(verdict(&report, limit), Incomplete);
    assert_eq!(report.corrected, text.replace(limit, "LimitRTPRIO=\\\n  95"), "{report}");
}

/// systemd has comments on lines of their own only.
#[test]
fn a_comment_behind_a_value_of_a_unit_is_taken_out() {
    let text = "[Service]\nCPUSchedulingPolicy=fifo # real time\nCPUSchedulingPriority=80 ; of 99\nDescription=a # b\n";
    let report = report(text);
    assert_eq!(report.with_verdict(InvalidValue).count(), 2, "{report}");
    let corrected = text.replace(" # real time", "").replace(" ; of 99", "");
    assert_eq!(report.corrected, corrected, "{report}");
}

/// The kernel refuses an affinity outside of the cpuset.
#[test]
fn an_affinity_is_compared_with_the_cpus_of_the_group() {
    for (lines, expected) in [
        ("AllowedCPUs=2-3\nCPUAffinity=4", Contradiction),
        ("AllowedCPUs=2-3\nCPUAffinity=2-4", Contradiction),
        ("AllowedCPUs=2\nAllowedCPUs=3 4\nCPUAffinity=2-4", Valid),
        ("AllowedCPUs=2-3\nCPUAffinity=0-1\nCPUAffinity=\nCPUAffinity=\"2\" 3", Valid),
        ("AllowedCPUs=2-3\nCPUAffinity=%i", Valid),
    ] {
        let report = self::report(&format!("[Service]\n{lines}\n"));
        assert_eq!(verdict(&report, lines.lines().last().unwrap()), expected, "{report}");
    }
}

/// `unlimited` is a word of limits.d; of a limit that is set again the last value counts.
#[test]
fn words_of_other_files_and_values_that_are_set_again_are_found() {
    let text = "[Service]\nLimitMEMLOCK=unlimited\nLimitRTPRIO=99\nLimitRTPRIO=90\n";
    let report = report(text);
    assert_eq!(verdict(&report, "LimitMEMLOCK=unlimited"), InvalidValue);
    assert_eq!(verdict(&report, "LimitRTPRIO=99"), Contradiction);
    assert_eq!(verdict(&report, "LimitRTPRIO=90"), Valid);
    assert_eq!(report.corrected, text.replace("unlimited", "infinity"));
    let container = self::report("docker run --ulimit memlock=unlimited robot\n");
    assert_eq!(verdict(&container, "--ulimit memlock=unlimited"), InvalidValue);
    assert_eq!(container.corrected, "docker run --ulimit memlock=-1 robot\n");

    for (limit, expected) in [
        ("rtprio=99:98", InvalidValue),
        ("rtprios=99", InvalidValue),
        ("as=-1", InvalidValue),
        ("rtprio=%i", Unknown),
        ("memlock=64m", InvalidValue),
        ("rtprio=-1", Valid),
        ("nofile=1024:4096", Known),
        ("nofile=infinity", Known),
    ] {
        let run = self::report(&format!("docker run --ulimit {limit} robot\n"));
        assert_eq!(verdict(&run, &format!("--ulimit {limit}")), expected, "{run}");
    }

    // A sysctl of the host ends the start of a container, in each way to write it.
    let host = "kernel.sched_rt_runtime_us=-1";
    let run = self::report(&format!(
        "podman run --replace --sysctl {host} --sysctl net.core.somaxconn=9 --ulimit rttime=9 robot\n"
    ));
    assert_eq!(verdict(&run, &format!("--sysctl {host}")), InvalidValue);
    assert_eq!(verdict(&run, "--sysctl net.core.somaxconn=9"), Known);
    assert_eq!(verdict(&run, "--ulimit rttime=9"), Valid);
    assert_eq!(run.counts.unknown, 0, "{run}");
    let listed = format!("services:\n  a:\n    sysctls:\n      - {host}\n");
    assert_eq!(verdict(&self::report(&listed), host), InvalidValue);
    let mapped = "services:\n  a:\n    sysctls:\n      vm.swappiness: 1\n      net.x: 1\n";
    assert_eq!(verdict(&self::report(mapped), "vm.swappiness: 1"), InvalidValue);
}

/// Robots are often started by chrt in the unit.
#[test]
fn a_priority_of_chrt_in_a_unit_is_judged() {
    let verdict_of = |start: &str| {
        let report = report(&format!("[Service]\nExecStart={start}\n"));
        verdict(&report, &format!("ExecStart={start}"))
    };
    assert_eq!(verdict_of("/usr/bin/chrt -f 99 taskset -c 2 /opt/robot"), Harmful);
    assert_eq!(verdict_of("/bin/bash -c \"source a; exec chrt --rr 98 ros2 run a b\""), Harmful);
    assert_eq!(verdict_of("chrt -f 80 /opt/robot"), Valid);
    let after = "ExecStartPost=/usr/bin/chrt -afp 99 $MAINPID";
    let unit = self::report(&format!("[Service]\nExecStart=/opt/robot\n{after}\n"));
    assert_eq!(verdict(&unit, after), Harmful);
    let one = self::report("[Service]\nExecStartPost=chrt -f -p 80 $MAINPID\n");
    assert!(one.findings[0].message.contains("that thread alone"), "{one:?}");
    assert_eq!(verdict_of("chrt -d -T 500000 -P 1000000 0 /opt/robot"), Valid);
}

/// The generator of podman refuses a file with a key that it does not have.
#[test]
fn keys_that_a_quadlet_does_not_have_are_found_and_its_arguments_judged() {
    let text = "[Container]\nImage=robot\nPrivileged=true\nCpusetCpus=2-3\nPidsLimit=100\n\
                PodmanArgs=--cpus=2 --cpuset-cpus 2-3 --cap-add=SYS_NICE,ALL\n";
    let report = report(text);
    assert_eq!(verdict(&report, "Privileged=true"), InvalidValue);
    assert_eq!(verdict(&report, "CpusetCpus=2-3"), InvalidValue);
    assert_eq!(verdict(&report, "PidsLimit=100"), Known);
    assert_eq!(verdict(&report, "--cpus=2"), Harmful);
    assert_eq!(verdict(&report, "--cpuset-cpus 2-3"), Valid);
    assert_eq!(verdict(&report, "--cap-add=SYS_NICE,ALL"), Discouraged);

    let report = self::report(
        "docker run --cap-add net_raw --cap-add=CAP_SYS_TIME --cap-add SYS_NIC robot\n",
    );
    assert_eq!(verdict(&report, "--cap-add net_raw"), Valid);
    assert_eq!(verdict(&report, "--cap-add SYS_NIC"), InvalidValue);
    assert_eq!(report.problems().count(), 1, "{report}");
}

#[test]
fn a_quadlet_of_podman_is_judged() {
    let text = "[Container]\nImage=robot\nUlimit=memlock=65536\nAddCapability=SYS_NICE IPC_LOCK\n";
    let report = report(text);
    let host = self::report("[Container]\nSysctl=vm.swappiness=1\nSysctl=net.core.somaxconn=4\n");
    assert_eq!(verdict(&host, "Sysctl=vm.swappiness=1"), InvalidValue);
    assert_eq!(verdict(&host, "Sysctl=net.core.somaxconn=4"), Known);
    let list = "Sysctl=\"net.core.somaxconn=4\" net.core.optmem_max=8";
    let quoted = self::report(&format!("[Container]\n{list}\nSysctl=\n"));
    assert_eq!((verdict(&quoted, list), verdict(&quoted, "Sysctl=")), (Known, Known));
    assert_eq!(verdict(&report, "Image=robot"), Known);
    assert_eq!(verdict(&report, "Ulimit=memlock=65536"), Incomplete);
    assert_eq!(verdict(&report, "IPC_LOCK"), Valid);
    assert_eq!(report.corrected, text.replace("65536", "-1"));
}

#[test]
fn options_of_docker_are_judged_and_stay() {
    let text = "docker run -it --rm --cap-add=sys_nice --cpu-rt-runtime=950000 --ulimit rtprio=99 --ulimit memlock=102400 \
                --cpus 1.5 robot:latest --ulimit x\n";
    let report = report(text);
    assert_eq!(report.subject, LintSubject::ContainerCommand);
    assert_eq!(verdict(&report, "--ulimit memlock=102400"), Incomplete);
    assert_eq!(verdict(&report, "--cpus 1.5"), Harmful);
    assert_eq!(verdict(&report, "--cpu-rt-runtime=950000"), Discouraged);
    assert_eq!(report.corrected, text.replace("102400", "-1"));
}

/// Each command of a script, joined letters, a flag that is not known, and what a shell fills in.
#[test]
fn each_command_of_a_script_that_starts_a_container_is_judged() {
    let text = "docker network create --driver bridge net\ndocker run -d redis\ndocker run -dp 80:80 -v/dev:/dev --new --cpus=1 robot --cpus=2\n";
    let report = report(text);
    assert_eq!(verdict(&report, "--new"), Unknown);
    assert_eq!(verdict(&report, "--cpus=1"), Harmful);
    assert_eq!((report.problems().count(), report.counts.unknown), (1, 1), "{report}");

    // Options of docker itself, a recipe of make, and lines of PowerShell and cmd.exe.
    for text in [
        "docker --context robot -H=ssh://a run --rm --cpus 2 robot\n",
        "run:\n\t@docker run --rm \\\n\t\t--cpus 2 robot\n",
        "docker run --rm `\r\n  --cpus 2 `\r\n  robot\r\n",
        "docker run --rm ^\n  --cpus 2 ^\n  robot\n",
    ] {
        assert_eq!(verdict(&self::report(text), "--cpus 2"), Harmful, "{text}");
    }
    let text = "docker run $EXTRA \"${ARGS[@]}\" --cpus 1.5 robot\ndocker run --cpus=0 $IMAGE\n";
    let report = self::report(text);
    assert_eq!(verdict(&report, "--cpus 1.5"), Harmful);
    assert_eq!((report.problems().count(), report.counts.unknown), (1, 2), "{report}");

    let text = "ARGS=(\n  --cpus 1.5\n  --ulimit memlock=102400\n)\nexec docker run \"${ARGS[@]}\" --rm robot\n";
    let report = self::report(text);
    assert_eq!(verdict(&report, "--cpus 1.5"), Harmful);
    assert_eq!(report.corrected, text.replace("102400", "-1"));

    let text = "docker run --cpuset-cpus=\"$CPUS\" --ulimit rtprio=$PRIO --cpu-quota -1 robot\n";
    let report = self::report(text);
    assert_eq!(verdict(&report, "--cpuset-cpus=\"$CPUS\""), Unknown);
    assert_eq!(verdict(&report, "--cpu-quota -1"), Valid);
    assert_eq!(report.corrected, text);

    let text = "services:\n  loop:\n    cpuset: ${CPUS:-2-3}\n    deploy: {resources: {limits: {cpus: '0.5'}}}\n";
    let report = self::report(text);
    assert_eq!(verdict(&report, "cpuset: ${CPUS:-2-3}"), Unknown);
    assert_eq!(verdict(&report, "cpus: '0.5'"), Harmful);
}

#[test]
fn compose_files_and_pods_are_judged_by_their_keys() {
    let text = "services:\n  loop:\n    image: robot\n    ulimits:\n      rtprio: 99\n      memlock: 65536\n    cap_add:\n      - SYS_NICE\n    cpus: \"1.5\"\n";
    let report = report(text);
    assert_eq!(report.subject, LintSubject::ComposeFile);
    assert_eq!(verdict(&report, "memlock: 65536"), Incomplete);
    assert_eq!(verdict(&report, "cpus: \"1.5\""), Harmful);
    assert_eq!(verdict(&report, "SYS_NICE"), Valid);
    assert_eq!(report.corrected, text.replace("65536", "-1"));
    let number = self::report("services:\n  loop: {cpuset: 3}\n  log: {cpuset: '0'}\n");
    assert_eq!(verdict(&number, "cpuset: 3"), InvalidValue);
    assert_eq!(number.corrected, "services:\n  loop: {cpuset: \"3\"}\n  log: {cpuset: '0'}\n");
    for text in ["&a \"3\"", "&a '3'", "!!str 3", ">-\n      3"] {
        let text = format!("services:\n  loop:\n    cpuset: {text}\n");
        assert_eq!(self::report(&text).problems().count(), 0, "{text}");
    }

    let pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: loop\n    resources:\n      requests:\n        cpu: 500m\n      limits:\n        cpu: \"2\"\n";
    let report = self::report(pod);
    assert_eq!(verdict(&report, "cpu: 500m"), Incomplete);
    assert_eq!((verdict(&report, "cpu: \"2\""), report.corrected.as_str()), (Incomplete, pod));
}

/// The same service in blocks, in brackets, and merged from what services share.
#[test]
fn a_compose_file_is_the_same_in_blocks_in_brackets_and_by_aliases() {
    let brackets = "services:\n  loop: {image: robot, ulimits: {rtprio: 50, memlock: {soft: 65536, hard: -1}}, cap_add: [SYS_NICE, 'IPC_LOCK']}\n";
    let report = report(brackets);
    assert_eq!(verdict(&report, "rtprio: 50"), Incomplete);
    assert_eq!(verdict(&report, "soft: 65536"), Incomplete);
    assert_eq!(verdict(&report, "'IPC_LOCK'"), Valid);
    assert_eq!(report.corrected, brackets.replace("50,", "95,").replace("65536", "-1"));

    let shared = "x-rt: &rt\n  ulimits: &limits\n    memlock: 65536\nservices:\n  a:\n    <<: *rt\n  b:\n    ulimits: *limits\n";
    let report = self::report(shared);
    assert_eq!(verdict(&report, "memlock: 65536"), Incomplete);
    assert_eq!(report.findings.len(), 1, "{report}");
    assert_eq!(report.corrected, shared.replace("65536", "-1"));
}

/// A container has CPUs of its own where requests and limits of CPU and memory are equal, as numbers.
#[test]
fn a_pod_is_judged_container_by_container_and_by_quantities() {
    let pod = |resources: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: other\n    resources: {{limits: {{cpu: 2, memory: 1Gi}}}}\n  - name: loop\n    resources: {resources}\n"
        )
    };
    for (resources, place, expected) in [
        (
            "{requests: {cpu: 2000m, memory: 1024Mi}, limits: {cpu: 2, memory: 1Gi}}",
            "cpu: 2000m",
            Valid,
        ),
        ("{requests: {cpu: 3, memory: 1Gi}, limits: {cpu: 3, memory: 2Gi}}", "cpu: 3", Incomplete),
        ("{limits: {cpu: 3}}", "cpu: 3", Incomplete),
        ("{requests: {cpu: 3, memory: 1Gi}}", "cpu: 3", Incomplete),
        ("{requests: {cpu: 3, memory: 1Gi}, limits: {cpu: 4, memory: 1Gi}}", "cpu: 4", Incomplete),
        ("{limits: {cpu: three, memory: 1Gi}}", "cpu: three", Incomplete),
    ] {
        let text = pod(resources);
        let report = report(&text);
        // The first container has all that it takes, where the other has as well.
        assert_eq!(verdict(&report, "cpu: 2"), expected, "{text}");
        let of_it = report.findings.iter().filter(|finding| finding.text == place);
        assert!(of_it.map(|finding| finding.verdict).any(|found| found == expected), "{report}");
    }
}

/// Nodes get their kernel's parameters and the kubelet's policy by manifests.
#[test]
fn manifests_for_nodes_are_judged() {
    let text = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nspec:\n  kernelArguments:\n    - isolcpus=2-3\n    - 'nohz_full=2'\n";
    let report = report(text);
    assert_eq!(verdict(&report, "isolcpus=2-3"), Incomplete);
    assert_eq!(verdict(&report, "nohz_full=2"), Contradiction);
    assert_eq!(report.corrected, text);

    let kubelet = |policy: &str| {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: {policy}\n"
        )
    };
    let report = self::report(&kubelet("none"));
    assert_eq!(verdict(&report, "cpuManagerPolicy: none"), Incomplete);
    let report = self::report(&kubelet("static"));
    assert_eq!(verdict(&report, "cpuManagerPolicy: static"), Incomplete);
    let report = self::report(&(kubelet("static") + "reservedSystemCPUs: 0-1\n"));
    assert_eq!(verdict(&report, "cpuManagerPolicy: static"), Valid);
    for (reserved, expected) in
        [("reservedSystemCPUs: \"0\"\n", Valid), ("systemReserved:\n  cpu: 0\n", Incomplete)]
    {
        let report = self::report(&(kubelet("static") + reserved));
        assert_eq!(verdict(&report, "cpuManagerPolicy: static"), expected, "{reserved}");
    }
    // OpenShift adds what it reserves.
    let operator = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nspec:\n  kubeletConfig:\n    cpuManagerPolicy: static\n";
    assert_eq!(verdict(&self::report(operator), "cpuManagerPolicy: static"), Valid);
    let talos = "machine:\n  install:\n    extraKernelArgs: [nohlt, -init_on_alloc]\n  sysctls:\n    kernel.numa_balancing: \"1\"\n";
    let report = self::report(talos);
    assert_eq!(verdict(&report, "nohlt"), NoEffect);
    assert_eq!(verdict(&report, "-init_on_alloc"), Known);
    assert_eq!(verdict(&report, "kernel.numa_balancing: \"1\""), Harmful);
}

#[test]
fn profiles_and_rules_are_judged() {
    let profile = "[main]\ninclude=realtime\n[bootloader]\ncmdline=+isolcpus=2-3\n[sysctl]\nkernel.numa_balancing=1\n";
    let report = report(profile);
    assert_eq!(
        report.corrected,
        profile.replace("=2-3", "=managed_irq,domain,2-3").replace("balancing=1", "balancing=0")
    );

    let larger = "[sysctl]\nvm.swappiness=>60\nvm.dirty_ratio=>10\n";
    let report = self::report(larger);
    assert_eq!(verdict(&report, "vm.swappiness=>60"), Discouraged);
    assert_eq!(verdict(&report, "vm.dirty_ratio=>10"), Valid);
    let removed = self::report("[main]\ninclude=realtime\n[bootloader]\ncmdline_x=-isolcpus=2-3\n");
    assert_eq!(verdict(&removed, "cmdline_x=-isolcpus=2-3"), Known);

    let rules = "SUBSYSTEM==\"usb-serial\", ATTR{latency_timer}=\"1\"\nSUBSYSTEM==\"pci\", ATTR{power/control}==\"on\"\n";
    let report = self::report(rules);
    assert_eq!(verdict(&report, "ATTR{latency_timer}=\"1\""), Valid);
    assert_eq!(verdict(&report, "ATTR{power/control}==\"on\""), NoEffect);

    let rule =
        "SUBSYSTEM==\"pci\", ATTR{power/control}==\"auto\", \\\n  ATTR{power/control}=\"auto\"\n";
    let report = self::report(rule);
    assert_eq!(report.corrected, rule.replace("}=\"auto\"", "}=\"on\""), "{report}");
    assert_eq!((report.problems().count(), report.counts.unknown), (1, 0), "{report}");
    let queue = "SUBSYSTEM==\"net\", ATTR{queues/rx-0/rps_cpus}=\"1\"\n";
    assert_eq!(self::report(queue).counts.unknown, 0);
    for (latency, expected) in [("0", NoEffect), ("n/a", Valid), ("20", Valid)] {
        let piece = format!("ATTR{{power/pm_qos_resume_latency_us}}=\"{latency}\"");
        let report = self::report(&format!("SUBSYSTEM==\"cpu\", {piece}\n"));
        assert_eq!(verdict(&report, &piece), expected, "{report}");
    }
}

/// What ros2_control_node reads of its thread; parameters of controllers have other meanings.
#[test]
fn the_thread_of_a_controller_manager_is_judged() {
    let text = "controller_manager:\n  ros__parameters:\n    update_rate: 1000\n    thread_priority: 99\n    lock_memory: false\n    cpu_affinity: [2, 3]\n\
                arm_controller:\n  ros__parameters:\n    thread_priority: 99\n";
    let report = report(text);
    assert_eq!(report.subject, LintSubject::RosParameters);
    assert_eq!(verdict(&report, "lock_memory: false"), Incomplete);
    assert_eq!(verdict(&report, "2"), Valid);
    assert_eq!(report.with_verdict(Harmful).count(), 1, "{report}");
    let corrected = text.replacen("priority: 99", "priority: 95", 1).replace("false", "true");
    assert_eq!(report.corrected, corrected);
    let own = "arm:\n  ros__parameters:\n    async_parameters:\n      thread_priority: 99\n      cpu_affinity: [3]\n";
    assert_eq!(self::report(own).corrected, own.replace("99", "95"));
    let dotted = "arm:\n  ros__parameters:\n    async_parameters.thread_priority: 99\n";
    assert_eq!(self::report(dotted).corrected, dotted.replace("99", "95"));
    let started = self::report("launch:\n- node:\n    exec: a\n    launch-prefix: chrt -f 99\n");
    assert_eq!(verdict(&started, "launch-prefix: chrt -f 99"), Harmful);

    let text = "<?xml version=\"1.0\"?>\n<launch>\n  <node pkg=\"controller_manager\" exec=\"ros2_control_node\" launch-prefix=\"chrt -f 99\">\n    \
                <param name=\"thread_priority\" value=\"99\"/>\n  </node>\n  <node exec=\"other\">\n    \
                <param name=\"thread_priority\" value=\"99\"/>\n  </node>\n</launch>\n";
    let launch = self::report(text);
    assert_eq!(
        (launch.problems().count(), launch.with_verdict(Harmful).count()),
        (2, 2),
        "{launch}"
    );
    assert_eq!(launch.corrected, text.replacen("value=\"99\"", "value=\"95\"", 1));
    let variable = text.replace("value=\"99\"", "value=\"$(var prio)\"");
    assert_eq!(
        verdict(
            &self::report(&variable),
            "<param name=\"thread_priority\" value=\"$(var prio)\"/>"
        ),
        Unknown
    );
    let robot = "<robot name=\"r\">\n <ros2_control name=\"h\" type=\"system\" is_async=\"true\">\n  <properties><async thread_priority=\"99\"/></properties>\n \
                 </ros2_control>\n</robot>\n";
    assert_eq!(self::report(robot).corrected, robot.replace("99", "95"));
    let signed = text.replacen("<param ", "<param if=\"2>1\" ", 1);
    let corrected = signed.replacen("value=\"99\"", "value=\"95\"", 1);
    assert_eq!(self::report(&signed).corrected, corrected);
}

/// Coalescing, offloads and sleeping links are set where the interface is configured.
#[test]
fn settings_of_an_interface_are_judged_for_systemd_and_network_manager() {
    let link = "[Match]\nOriginalName=enp3s0\n\n[Link]\nRxCoalesceSec=50us\nGenericReceiveOffload=no\nMTUBytes=1500\n\n\
                [EnergyEfficientEthernet]\nEnable=yes\n";
    let report = report(link);
    assert_eq!(report.subject, LintSubject::NetworkFile);
    assert_eq!(verdict(&report, "RxCoalesceSec=50us"), Discouraged);
    assert_eq!(verdict(&report, "GenericReceiveOffload=no"), Valid);
    assert_eq!(verdict(&report, "MTUBytes=1500"), Known);
    assert_eq!(report.corrected, link.replace("Enable=yes", "Enable=no"));

    let keyfile = "[connection]\nid=ecat\ntype=ethernet\n\n[ethtool]\ncoalesce-rx-usecs=0\nfeature-gro=true\neee-enabled=true\n";
    let report = self::report(keyfile);
    assert_eq!(verdict(&report, "coalesce-rx-usecs=0"), Valid);
    assert_eq!(verdict(&report, "feature-gro=true"), Discouraged);
    assert_eq!(report.corrected, keyfile.replace("enabled=true", "enabled=false"));
}

#[test]
fn a_mask_of_irqbalance_becomes_a_list() {
    let text = "# irqbalance\nENABLED=1\nIRQBALANCE_BANNED_CPUS=\"0000000c\"\n";
    let report = report(text);
    assert_eq!(report.subject, LintSubject::Irqbalance);
    assert_eq!(verdict(&report, "IRQBALANCE_BANNED_CPUS=\"0000000c\""), Deprecated);
    let corrected = "# irqbalance\nENABLED=1\nIRQBALANCE_BANNED_CPULIST=2-3\n";
    assert_eq!(report.corrected, corrected);
    assert_eq!(self::report(corrected).problems().count(), 0);
    for value in ["0000000c", "00000003", "2-"] {
        let line = format!("IRQBALANCE_BANNED_CPULIST={value}");
        assert_eq!(verdict(&self::report(&line), &line), InvalidValue);
    }
}

#[test]
fn sets_of_libvirt_may_take_cpus_out() {
    let domain = |tune: &str| {
        format!(
            "<domain type='kvm'><vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5'/>{tune}</cputune></domain>"
        )
    };
    let shared = report(&domain("<emulatorpin cpuset='0-4,^3'/>"));
    assert_eq!(verdict(&shared, "<emulatorpin cpuset='0-4,^3'/>"), Harmful);
    let apart = report(&domain("<emulatorpin cpuset='0-4,^4'/>"));
    assert!(!apart.findings.iter().any(|finding| finding.verdict == Harmful), "{apart}");
    let all = report("<domain type='kvm'><vcpu placement='static' cpuset='2-5'>4</vcpu></domain>");
    assert_eq!(verdict(&all, "<vcpu placement='static' cpuset='2-5'>"), Harmful);
    let wrong = report(&domain("<emulatorpin cpuset='x'/>"));
    assert_eq!(verdict(&wrong, "<emulatorpin cpuset='x'/>"), InvalidValue);
}

/// Each row of `tests/situations.md` with a text: what it is judged as is what the table says.
#[test]
fn the_table_of_situations_is_true() {
    let table = include_str!("../situations.md");
    let mut judged = 0;
    for row in table.lines().filter(|line| line.starts_with("| ") && line.contains("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [situation, text, piece, expected, _before] = cells[..] else { continue };
        let text = text.trim_matches('`').replace('⏎', "\n");
        let report = report(&text);
        let found = verdict(&report, piece.trim_matches('`'));
        assert_eq!(found.words(), expected, "{situation}: {report}");
        judged += 1;
    }
    assert!(judged >= 32, "{judged}");
}

/// Words of kernel command lines, right, wrong and odd ones.
const WORDS: [&str; 44] = [
    "isolcpus=2-3",
    "isolcpus=",
    "isolcpus=2-3,domain",
    "isolcpus=managed_irqs,domain,2-3",
    "isolcpus=0x0c",
    "isolcpus=0,3",
    "isolcpus=domain,2-N",
    "isolcpus=all",
    "isolcpus=managed_irq,2",
    "nohz_full=2-3",
    "nohz_full=all",
    "nohz_full=0x0c",
    "rcu_nocbs=2-3",
    "rcu_nocbs=",
    "rcu_nocb_poll",
    "irqaffinity=0-1",
    "irqaffinity=0",
    "isolated_cpus=2-3",
    "isolcpu=3",
    "thread_irqs",
    "kernel.sched_rt_runtime_us=-1",
    "vm.stat_interval=0",
    "sysctl.kernel.timer_migration=0",
    "highres=off",
    "acpi=off",
    "irqpoll",
    "preempt=rt",
    "preempt=none",
    "idle=poll",
    "intel_idle.max_cstate=0",
    "processor.max_cstate=0",
    "nohlt",
    "mce=off",
    "quiet",
    "console=ttyS0",
    "loglevel=3",
    "root=/dev/sda1",
    "rw",
    "intel_iommu=on",
    "iommu=pt",
    "nosoftlockup",
    "nowatchdog",
    "foo.bar=1",
    "zzz",
];

/// A file that holds a line, as each boot loader has it.
fn file_of(kind: usize, line: &str) -> String {
    match kind {
        0 => line.to_owned(),
        1 => format!(
            "# grub\nGRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"{line}\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"\"\n"
        ),
        2 => format!("DEFAULT a\nLABEL a\n  LINUX /Image\n  APPEND {line}\n"),
        3 => format!("title a\nlinux /vmlinuz\noptions {line}\n"),
        4 => {
            let words: Vec<_> =
                line.split(' ').map(|word| format!("    \"{word}\" # why\n")).collect();
            format!("{{\n  boot.kernelParams = [\n{}  ];\n}}\n", words.concat())
        }
        5 => format!("MACHINE = \"board\"\nAPPEND += \"{line}\"\n"),
        _ => format!("[bootloader]\ncmdline={line}\n"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// A correction passes its own lint, changes judged words only, and is not refused on a line whose
    /// structure is plain, unless there is none; nothing that was not judged ends in "No problem found".
    #[test]
    fn corrections_are_clean_and_change_judged_words_only(
        picked in proptest::collection::vec(0..WORDS.len(), 1..10),
        kind in 0_usize..7,
    ) {
        let line = picked.iter().map(|at| WORDS[*at]).collect::<Vec<_>>().join(" ");
        let text = file_of(kind, &line);
        let subject = [
            LintSubject::KernelLine, LintSubject::GrubFile, LintSubject::Extlinux, LintSubject::SystemdBootEntry,
            LintSubject::NixOptions, LintSubject::BuildVariables, LintSubject::TunedProfile,
        ][kind];
        let first = lint(&text, subject).unwrap();
        let is_decided = first.refusal.as_ref().is_none_or(|why| why.contains("decides none"));
        prop_assert!(is_decided, "{}: {:?}", text, first.refusal);

        // Every word without a problem stays, in its order, and every line without one byte by byte.
        let troubled: Vec<&str> = first.problems().map(|finding| finding.text.as_str()).collect();
        let is_separator = |c: char| c.is_whitespace() || c == '"';
        let mut left = first.corrected.split(is_separator);
        for word in text.split(is_separator).filter(|word| !word.is_empty()) {
            if !troubled.contains(&word) && !troubled.contains(&word.trim_start_matches("cmdline=")) {
                prop_assert!(left.any(|other| other == word), "{} is lost: {}", word, first.corrected);
            }
        }
        let mut lines = first.corrected.lines();
        for (number, line) in text.lines().enumerate() {
            let is_judged = first.problems().any(|finding| finding.line == number + 1) || line.contains('"');
            if kind != 0 && !is_judged && !line.contains("cmdline=") && !line.contains("APPEND") && !line.contains("options") {
                prop_assert!(lines.any(|other| other == line), "the line {} is lost: {}", line, first.corrected);
            }
        }

        prop_assume!(!first.corrected.trim().is_empty());
        let second = lint(&first.corrected, subject).unwrap();
        prop_assert_eq!(&second.corrected, &first.corrected);
        for left in second.problems() {
            let was_there = first.problems().any(|known| known.verdict == left.verdict && known.id == left.id);
            prop_assert!(was_there, "{} became {}: {left:?}", text, first.corrected);
        }
        for report in [&first, &second] {
            let printed = report.to_string();
            let is_partial = report.findings.iter().any(|finding| finding.verdict.is_unjudged());
            prop_assert!(!(is_partial && printed.contains("No problem found")), "{}", printed);
        }
    }

    /// Any text of any kind is judged or refused without a panic, and its correction is stable.
    #[test]
    fn every_text_of_every_kind_is_judged(text in "[-a-zA-Z=,.0-9 \"'\\\\\n:;\\[\\]{}$#/<>]{0,160}") {
        for subject in [
            LintSubject::KernelLine, LintSubject::KernelLines, LintSubject::GrubFile, LintSubject::GrubMenu,
            LintSubject::Extlinux, LintSubject::SystemdBootEntry, LintSubject::NixOptions, LintSubject::BuildVariables,
            LintSubject::Sysctl, LintSubject::Limits, LintSubject::SystemdUnit, LintSubject::ContainerCommand,
            LintSubject::ComposeFile, LintSubject::KubernetesPod, LintSubject::TunedProfile, LintSubject::UdevRules,
            LintSubject::NetworkFile, LintSubject::ModprobeFile, LintSubject::Irqbalance,
        ] {
            let Ok(report) = lint(&text, subject) else { continue };
            let Ok(again) = lint(&report.corrected, subject) else { continue };
            prop_assert!(report.refusal.is_some() || again.corrected == report.corrected, "{:?}", report);
        }
        let _ = LintSubject::recognise(&text, None);
    }
}

#[test]
fn bytes_that_are_no_text_are_not_arguments_of_qemu() {
    for text in ["\u{fffd}\u{fffd}[\0U\0n\0i\0t\0]\0", "\x7fELF\0\0\0", "q\0u\0i\0e\0t\0"] {
        assert!(LintSubject::recognise(text, None).is_err(), "{text:?}");
    }
    // What a power failure leaves, and a UKI.
    let damaged =
        [("vm.swappiness=1\n\0\0\0", 2), ("MZ\0.cmdline\0root=/dev/sda2 rw isolcpus=2-3\0", 1)];
    for (text, line) in damaged {
        let why = LintSubject::recognise(text, None).and_then(|subject| lint(text, subject));
        assert_eq!(why.unwrap_err(), LintError::NotText { line }, "{text:?}");
    }
    let arguments = LintSubject::recognise("qemu\0-m\x002G\0", None);
    assert_eq!(arguments.unwrap(), LintSubject::QemuArguments);
}
