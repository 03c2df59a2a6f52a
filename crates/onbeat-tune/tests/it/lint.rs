//! Lints of whole texts: kernel command lines, scripts that start QEMU, definitions of libvirt.

use onbeat_tune::catalogue::catalogue;
use onbeat_tune::lint::{LintError, LintReport, LintSubject, LintVerdict, lint};
use proptest::prelude::*;

use LintVerdict::{
    Contradiction, Deprecated, Discouraged, Harmful, Incomplete, InvalidValue, Known, Missing,
    Misspelt, NoEffect, Redundant, Unknown, Valid,
};

/// Code 5 and code 10 of Pamuk and Rauh, with the scanner's errors repaired.
const BOOT_LINE: &str = include_str!("../published/pamuk-2024.grub");
const SCRIPT: &str = include_str!("../published/pamuk-2024.sh");

fn report(text: &str) -> LintReport {
    lint(text, LintSubject::recognise(text, None).unwrap()).unwrap()
}

/// Verdicts with ids of all findings on one piece.
fn verdicts<'r>(report: &'r LintReport, text: &str) -> Vec<(LintVerdict, &'r str)> {
    let on_piece = report.findings.iter().filter(|finding| finding.text == text);
    on_piece.map(|finding| (finding.verdict, finding.id.as_deref().unwrap_or(""))).collect()
}

#[test]
fn each_parameter_of_the_published_boot_line_gets_its_verdict() {
    let report = report(BOOT_LINE);
    let expected: [(&str, &[LintVerdict], &str); 27] = [
        ("isolcpus=4", &[Incomplete], "shield.isolcpus"),
        ("rcu_nocbs=4", &[Redundant, Valid], "shield.rcu_nocbs"),
        ("rcu_nocb_poll", &[Valid], "shield.rcu_nocb_poll"),
        ("nohz_full=4", &[Valid], "shield.nohz_full"),
        ("default_hugepagesz=1G", &[Valid], "mem.hugepages"),
        ("hugepagesz=1G", &[Valid], "mem.hugepages"),
        ("hugepages=8", &[Valid], "mem.hugepages"),
        ("intel_iommu=on", &[Incomplete, Valid], "host.iommu"),
        ("rdt=13cat", &[NoEffect], "rdt.l3"),
        ("nmi_watchdog=0", &[Valid], "dbg.nmi_watchdog"),
        ("idle=poll", &[Discouraged], "idle.poll"),
        ("clocksource=tsc", &[Valid], "clock.source"),
        ("tsc=reliable", &[Valid], "clock.tsc_watchdog"),
        ("audit=0", &[Valid], "dbg.audit"),
        ("skew_tick=1", &[Valid], "timer.skew_tick"),
        ("intel_pstate=disable", &[Discouraged], "freq.driver"),
        ("intel.max_cstate=0", &[NoEffect], "idle.max_cstate"),
        ("intel_idle.max_cstate=0", &[Redundant, Valid], "idle.max_cstate"),
        ("processor.max_cstate=0", &[Redundant, Valid], "idle.max_cstate"),
        ("processor_idle.max_cstate=0", &[NoEffect], "idle.max_cstate"),
        ("nosoftlockup", &[Valid], "dbg.softlockup"),
        ("no_timer_check", &[Redundant], "clock.no_timer_check"),
        ("nospectre_v2", &[Valid], "sec.mitigations"),
        ("spectre_v2_user=off", &[Redundant, Valid], "sec.mitigations"),
        ("kvm.kvmclock_periodic_sync=N", &[Valid], "host.kvmclock_sync"),
        ("kvm_intel.ple_gap=0", &[Valid], "host.ple"),
        ("irqaffinity=0", &[Discouraged, Valid], "irq.default"),
    ];
    for (parameter, verdict, id) in expected {
        let expected: Vec<_> = verdict.iter().map(|verdict| (*verdict, id)).collect();
        assert_eq!(verdicts(&report, parameter), expected, "{parameter}");
    }

    // And no finding besides.
    let judged: usize = expected.iter().map(|(_, verdict, _)| verdict.len()).sum();
    assert_eq!(report.findings.len(), judged, "{report}");
}

#[test]
fn the_corrected_boot_line_keeps_what_has_an_effect() {
    let expected = "GRUB_CMDLINE_LINUX=\"isolcpus=managed_irq,domain,4 rcu_nocb_poll nohz_full=4 default_hugepagesz=1G \
        hugepagesz=1G hugepages=8 intel_iommu=on nmi_watchdog=0 idle=poll clocksource=tsc tsc=reliable audit=0 skew_tick=1 \
        intel_pstate=disable nosoftlockup nospectre_v2 kvm.kvmclock_periodic_sync=N kvm_intel.ple_gap=0 irqaffinity=0 \
        iommu=pt\"\n";
    assert_eq!(report(BOOT_LINE).corrected, expected);
}

#[test]
fn each_part_of_the_published_script_gets_its_verdict() {
    let report = report(SCRIPT);
    assert_eq!(report.subject, LintSubject::QemuScript);

    let expected: [(&str, &[(LintVerdict, &str)]); 28] = [
        ("taskset -c 4 chrt -f 99", &[(Harmful, "host.emulator_pin")]),
        ("99", &[(Harmful, "kthread.migration")]),
        ("vCPU threads", &[(Missing, "host.vcpu_pin")]),
        ("-name", &[(Missing, "host.vcpu_pin")]),
        ("-M pc,accel=kvm", &[(Discouraged, "vmm.minimal"), (Valid, "vmm.accel")]),
        ("-cpu", &[(Missing, "vmm.cpu")]),
        ("-overcommit cpu-pm", &[(Missing, "vmm.cpu_pm")]),
        ("-smp", &[(Missing, "vmm.smp")]),
        ("-overcommit", &[(Missing, "vmm.mem")]),
        (
            "-drive file=salamander-image-sigmatek-core2.ext4,format=raw,media=disk",
            &[(Incomplete, "vmm.disk")],
        ),
        ("-object memory-backend-ram,id=ram0,size=4G,prealloc=on", &[(NoEffect, "vmm.mem")]),
        ("-mem-prealloc", &[(Deprecated, "vmm.mem")]),
        ("-mem-path /dev/hugepages", &[(Deprecated, "vmm.mem")]),
        ("-device vfio-pci,host=03:00.0", &[(Valid, "vmm.vfio")]),
        ("-net nic,model=e1000,netdev=e1000", &[(Discouraged, "vmm.nic")]),
        (
            "-device virtio-9p-pci,id=fs0,fsdev=fsdev0,mount_tag=/mnt/drive-C",
            &[(Discouraged, "vmm.minimal")],
        ),
        ("-nographic", &[(Discouraged, "vmm.serial_log")]),
        ("threadirqs", &[(Valid, "kern.threadirqs")]),
        ("nohlt", &[(NoEffect, "guest.nohlt")]),
        ("idle=poll", &[(Discouraged, "idle.poll")]),
        ("schedstats=enable", &[(Discouraged, "sched.schedstats")]),
        ("xeno_hal.smi=1", &[(Deprecated, "guest.xenomai_smi")]),
        ("xenomai.smi=1", &[(InvalidValue, "guest.xenomai_smi")]),
        ("console=ttyS0", &[(Valid, "dbg.console")]),
        ("quiet", &[(Valid, "dbg.console")]),
        ("root=/dev/sda", &[(Valid, "")]),
        ("sigmatek_lrt.QEMU=1", &[(Valid, "")]),
        ("-device vhost-vsock-pci,guest-cid=3,id=vsock0", &[(Known, "")]),
    ];
    for (piece, expected) in expected {
        assert_eq!(verdicts(&report, piece), expected, "{piece}");
    }

    // And no problem besides.
    let problems: usize = expected
        .iter()
        .flat_map(|(_, all)| *all)
        .filter(|(verdict, _)| verdict.is_problem())
        .count();
    assert_eq!(report.problems().count(), problems, "{report}");
}

#[test]
fn the_corrected_script_starts_qemu_without_what_was_found() {
    let corrected = report(SCRIPT).corrected;
    let expected = "\
# After the start: taskset -cp CPU TID and chrt -f -p 1 TID for each thread CPU N/KVM,
# and taskset -cp HOUSEKEEPING TID for all other threads of QEMU.
exec qemu-system-x86_64 -M pc,accel=kvm,memory-backend=ram0 -kernel ./bzImage \\
    -m 2048 -drive file=salamander-image-sigmatek-core2.ext4,format=raw,media=disk,cache=none,aio=native \\
    -append \"console=ttyS0 console=tty1 root=/dev/sda rw panic=1 sigmatek_lrt.QEMU=1 ip=dhcp rootfstype=ext4 schedstats=enable \
idle=poll quiet threadirqs\" \\
    -net nic,model=virtio-net-pci,netdev=e1000 -netdev bridge,id=e1000,br=nm-bridge \\
    -fsdev local,security_model=none,id=fsdev0,path=drive-c -device virtio-9p-pci,id=fs0,fsdev=fsdev0,mount_tag=/mnt/drive-C \\
    -device vhost-vsock-pci,guest-cid=3,id=vsock0 \\
    -drive if=pflash,format=qcow2,file=ovmf.code.qcow2 \\
    -object memory-backend-memfd,id=ram0,size=2G,hugetlb=on,hugetlbsize=1G,prealloc=on \\
    -device vfio-pci,host=03:00.0 \\
    -no-reboot -nographic \\
    -name guest,debug-threads=on \\
    -cpu host,migratable=off,+invtsc,+tsc-deadline,pmu=off,kvm-hint-dedicated=on \\
    -smp 2,sockets=1,cores=2,threads=1 \\
    -overcommit mem-lock=on
";
    let command = corrected.split("fi\n\n").nth(1).unwrap();

    assert_eq!(command, expected);
}

#[test]
fn a_corrected_text_needs_no_further_correction() {
    for text in [BOOT_LINE, SCRIPT, GUEST] {
        let once = report(text).corrected;
        assert_eq!(report(&once).corrected, once);
    }
}

/// The table of published parameters and the lint name the same records.
#[test]
fn findings_name_the_records_of_the_table_of_published_parameters() {
    let (line, script) = (report(BOOT_LINE), report(SCRIPT));
    let mut compared = 0;
    for finding in line.findings.iter().chain(&script.findings) {
        let published = catalogue().published.iter().filter(|known| known.source == "pamuk-2024");
        for known in published.filter(|known| known.text == finding.text) {
            // What is merely known belongs to no record.
            let Some(id) = finding.id.as_ref() else { continue };
            assert!(known.ids.contains(id), "{}: {id} is not among {:?}", known.text, known.ids);
            compared += 1;
        }
    }

    assert!(compared >= 35, "{compared}");
    for finding in line.findings.iter().chain(&script.findings) {
        assert!(finding.id.iter().all(|id| catalogue().get(id).is_some()), "{finding:?}");
    }
}

/// Every option of the script is in the table of published parameters, so that none is left without
/// a record or a reason.
#[test]
fn the_table_of_published_parameters_has_every_option_of_the_script() {
    let command = SCRIPT.split("exec ").nth(1).unwrap();
    let outside_quotes: String = command.split('"').step_by(2).collect();
    let published: Vec<&str> = catalogue()
        .published
        .iter()
        .filter(|known| known.source == "pamuk-2024")
        .map(|known| known.text.as_str())
        .collect();
    for option in
        outside_quotes.split_whitespace().filter(|word| word.starts_with('-') && word.len() > 2)
    {
        if option != "-append" {
            assert!(published.iter().any(|text| text.contains(option)), "{option} is in no entry");
        }
    }

    let guest_line = SCRIPT.split('"').find(|text| text.contains("root=")).unwrap();
    for parameter in guest_line.split_whitespace() {
        assert!(
            published.iter().any(|text| text.split([' ', ',']).any(|word| word == parameter)),
            "{parameter}"
        );
    }
}

#[test]
fn partners_and_contradictions_of_parameters_are_found() {
    let cases = [
        ("nohz_full=2 isolcpus=managed_irq,domain,3", "nohz_full=2", Contradiction),
        ("isolcpus=domain,2 irqaffinity=0-2", "irqaffinity=0-2", Contradiction),
        ("nohz_full=0-1 isolcpus=domain,0-1", "nohz_full=0-1", Contradiction),
        ("isolcpus=domain,2 isolcpus=domain,3", "isolcpus=domain,3", Contradiction),
        ("nohz_full=2 nohz_full=3 isolcpus=domain,2", "nohz_full=3", Contradiction),
        ("loglevel=3 loglevel=7", "loglevel=3", Contradiction),
        ("quiet noht", "noht", Misspelt),
        ("efi=runtime quiet", "efi=runtime", Discouraged),
        ("numa_balancing=disable max_cstate=1", "max_cstate=1", Misspelt),
        ("preempt_rt quiet", "preempt_rt", NoEffect),
        ("intel_iommu=on intel_iommu=sm_on iommu=pt", "intel_iommu=sm_on", Valid),
        ("hugepages=4 hugepagesz=1G", "hugepages=4", Contradiction),
        ("nohz=off nohz_full=2 isolcpus=domain,2", "nohz_full=2", Contradiction),
        ("rcu_nocb_poll", "rcu_nocb_poll", NoEffect),
        ("nohz_full=2", "nohz_full=2", Incomplete),
        ("intel_idle.max_cstate=0", "intel_idle.max_cstate=0", Incomplete),
        ("console=ttyS0", "console=ttyS0", Incomplete),
        ("nosoftlockup nowatchdog", "nosoftlockup", Redundant),
        ("quiet quiet", "quiet", Redundant),
        ("isolcpu=3", "isolcpu=3", Misspelt),
        ("rdinit=/bin/sh", "rdinit=/bin/sh", Valid),
        ("isolcpus={2,3} quiet", "isolcpus={2,3}", InvalidValue),
        ("mce=off", "mce=off", Harmful),
        ("rcutree.kthread_prio=99", "rcutree.kthread_prio=99", Discouraged),
        ("systemd.unified_cgroup_hierarchy=0", "systemd.unified_cgroup_hierarchy=0", Discouraged),
        ("idle=pole", "idle=pole", InvalidValue),
        ("mymodule.depth=3", "mymodule.depth=3", Unknown),
    ];
    for (line, piece, verdict) in cases {
        let report = lint(line, LintSubject::KernelLine).unwrap();
        assert_eq!(
            verdicts(&report, piece).first().map(|(verdict, _)| *verdict),
            Some(verdict),
            "{line}"
        );
    }
}

/// Of two lists for one purpose the kernel keeps the first, and flags for the same CPUs add up.
#[test]
fn flags_of_several_isolcpus_become_one() {
    let report = |text: &str| lint(text, LintSubject::KernelLine).unwrap();
    let split = report("isolcpus=managed_irq,2-3 quiet isolcpus=domain,2-3");
    assert_eq!(split.corrected, "isolcpus=managed_irq,domain,2-3 quiet");
    assert_eq!(split.with_verdict(Redundant).count(), 1, "{split}");
    let apart = report("isolcpus=managed_irq,domain,2 isolcpus=managed_irq,domain,3");
    let found = apart.with_verdict(Contradiction).next().unwrap();
    assert!(found.message.contains("keeps the first"), "{apart}");
    assert_eq!(report("isolcpus= isolcpus=domain,3").with_verdict(Contradiction).count(), 0);
}

/// grub-mkconfig writes GRUB_CMDLINE_LINUX first, and RECOVERY into an entry of its own.
#[test]
fn variables_of_grub_are_joined_as_in_an_entry() {
    let text = "GRUB_CMDLINE_LINUX_DEFAULT=\"loglevel=7\"\nGRUB_CMDLINE_LINUX=\"intel_iommu=on loglevel=3\"\n\
                GRUB_CMDLINE_LINUX_RECOVERY=\"single loglevel=5\"\n";
    let report = report(text);
    let found: Vec<_> =
        report.with_verdict(Contradiction).map(|finding| finding.text.as_str()).collect();
    assert_eq!(found, ["loglevel=3"], "{report}");
    let corrected = text.replace("loglevel=7", "loglevel=7 iommu=pt");
    assert_eq!(report.corrected, corrected);
}

#[test]
fn what_is_added_to_a_file_of_grub_goes_between_quotes() {
    let text = "# GRUB_CMDLINE_LINUX=\"nohlt\"\nGRUB_CMDLINE_LINUX=\"intel_iommu=on\" # passed on\nGRUB_CMDLINE_LINUX_DEFAULT=\nGRUB_TIMEOUT=5\n";
    let corrected = report(text).corrected;
    assert_eq!(corrected, text.replace("=on\"", "=on iommu=pt\""));

    let corrected = report("GRUB_CMDLINE_LINUX=intel_iommu=on\n").corrected;
    assert_eq!(corrected, "GRUB_CMDLINE_LINUX=\"intel_iommu=on iommu=pt\"\n");
    // Where nothing is added, nothing is quoted.
    assert_eq!(report("GRUB_CMDLINE_LINUX=quiet\n").corrected, "GRUB_CMDLINE_LINUX=quiet\n");
}

/// What a shell makes of it, and not what was meant.
#[test]
fn a_file_of_grub_is_read_as_a_shell_does() {
    let cut = report("GRUB_CMDLINE_LINUX=quiet isolcpus=2-3\nGRUB_TIMEOUT=5\n");
    assert_eq!(verdicts(&cut, "isolcpus=2-3"), [(NoEffect, "env.bootchain")], "{cut}");
    let apart = report("GRUB_CMDLINE_LINUX = \"quiet\"\n");
    assert_eq!(verdicts(&apart, "GRUB_CMDLINE_LINUX ="), [(InvalidValue, "env.bootchain")]);
    let typographic = report("GRUB_CMDLINE_LINUX=“quiet nohlt”\n");
    assert!(typographic.refusal.unwrap().contains("typographic"));
    for fine in [
        "GRUB_CMDLINE_LINUX= \n",
        "GRUB_CMDLINE_LINUX=quiet # passed on\n",
        "export GRUB_CMDLINE_LINUX=\"quiet\"; GRUB_TIMEOUT=5\n",
        "GRUB_CMDLINE_LINUX=\"quiet\" GRUB_TIMEOUT=5\n",
        "GRUB_CMDLINE_LINUX=$(cat /etc/kernel/line)\n",
    ] {
        assert_eq!(report(fine).problems().count(), 0, "{fine}");
    }
    for open in [
        "GRUB_CMDLINE_LINUX=\"quiet isolcpus=2-3\n",
        "GRUB_CMDLINE_LINUX=\"quiet\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n",
    ] {
        let why = lint(open, LintSubject::GrubFile).unwrap_err();
        assert_eq!(why, LintError::OpenQuote { line: 1, column: 20, quote: '"' }, "{open}");
    }
}

#[test]
fn rcu_callbacks_of_other_cpus_are_not_redundant() {
    let text = "rcu_nocbs=2-5 nohz_full=4 isolcpus=domain,4";
    let report = lint(text, LintSubject::KernelLine).unwrap();
    assert_eq!(verdicts(&report, "rcu_nocbs=2-5"), [(Valid, "shield.rcu_nocbs")]);
    assert_eq!(report.corrected, text);
}

#[test]
fn places_are_lines_and_columns_of_the_file() {
    let report = report(SCRIPT);
    let place = |text: &str| {
        report.findings.iter().find(|f| f.text == text).map(|f| (f.line, f.column)).unwrap()
    };
    assert_eq!(place("taskset -c 4 chrt -f 99"), (8, 6));
    assert_eq!(place("-mem-prealloc"), (16, 5));
    let line = SCRIPT.lines().nth(9).unwrap();
    assert_eq!(place("nohlt"), (10, line.find("nohlt").unwrap() + 1));
}

#[test]
fn arguments_alone_are_judged_as_the_kernel_shows_them() {
    let text = "qemu-system-x86_64\0-accel\0kvm\0-cpu\0host,migratable=off,+invtsc,+tsc-deadline,pmu=off,kvm-hint-dedicated=on\0\
        -smp\x002\0-m\x002G\0-object\0memory-backend-memfd,id=m,size=4G,hugetlb=on,prealloc=on\0-machine\0q35,memory-backend=m\0";
    let report = report(text);
    assert_eq!(report.subject, LintSubject::QemuArguments);
    let contradiction = report.with_verdict(Contradiction).next().unwrap();
    assert!(
        contradiction.message.contains("4096 MiB") && contradiction.message.contains("2048 MiB")
    );
    assert!(report.corrected.ends_with("\0-overcommit\0mem-lock=on\0"), "{:?}", report.corrected);
    assert!(report.findings.iter().all(|finding| !finding.text.contains('\0')), "{report}");
    let other = self::report("qemu-system-x86_64\0-accel\0whpx\0");
    assert_eq!(verdicts(&other, "-accel whpx"), [(LintVerdict::Known, "")], "{other}");
}

#[test]
fn emulation_generic_models_and_removed_options_are_found() {
    let report = report(
        "qemu-system-x86_64 -accel tcg -cpu qemu64 -smp 1 -realtime mlock=on -device virtio-balloon -m 1G",
    );

    let problems: Vec<_> =
        report.problems().map(|finding| (finding.verdict, finding.text.as_str())).collect();
    for expected in [
        (Harmful, "-accel tcg"),
        (Discouraged, "-cpu qemu64"),
        (Discouraged, "-smp 1"),
        (Deprecated, "-realtime mlock=on"),
        (Discouraged, "-device virtio-balloon"),
        (Missing, "-object"),
    ] {
        assert!(problems.contains(&expected), "{expected:?} is not among {problems:?}");
    }

    assert!(
        report.corrected.contains("-overcommit mem-lock=on")
            && !report.corrected.contains("-realtime")
    );
    // A second one would take cpu-pm back.
    for (given, rest) in [("cpu-pm=on", ",mem-lock=on"), ("mem-lock=on", "")] {
        let command = "qemu-system-x86_64 -accel kvm -realtime mlock=on -m 1G -overcommit";
        let corrected = self::report(&format!("{command} {given}\n")).corrected;
        assert!(corrected.contains(&format!("-overcommit {given}{rest} ")), "{corrected}");
        assert_eq!(corrected.matches("-overcommit").count(), 1, "{corrected}");
    }
}

/// Scripts keep options in arrays; nobody knows what a variable of the environment holds.
#[test]
fn options_in_an_array_are_judged_and_what_is_missing_is_added_there() {
    let text =
        "ARGS=(\n  -enable-kvm\n  -m 4G\n  -smp 2\n)\nexec qemu-system-x86_64 \"${ARGS[@]}\"\n";
    let report = report(text);
    let missing: Vec<_> = report.with_verdict(Missing).map(|found| found.text.as_str()).collect();
    assert!(!missing.contains(&"-smp") && !missing.contains(&"-accel"), "{report}");
    assert!(report.corrected.contains("  -smp 2\n  -cpu host,"), "{report}");

    let line = "CMDLINE=\"quiet isolcpus=1\"\nkvm -m 4G -kernel a -append \"$CMDLINE\"\n";
    let report = self::report(line);
    assert_eq!(verdicts(&report, "isolcpus=1")[0].0, Incomplete);
    assert!(report.corrected.starts_with("CMDLINE=\"quiet isolcpus=managed_irq,domain,1\"\n"));

    let report = self::report("kvm -m 4G $OPTIONS\n");
    assert_eq!(report.with_verdict(Missing).count(), 0, "{report}");
    assert_eq!(verdicts(&report, "$OPTIONS"), [(Unknown, "")]);
}

#[test]
fn only_what_binds_all_threads_is_taken_from_the_prefix() {
    let harmful = |script: &str| {
        let report = lint(script, LintSubject::QemuScript).unwrap();
        let pieces: Vec<_> =
            report.with_verdict(Harmful).map(|finding| finding.text.clone()).collect();
        (pieces, report.corrected.split(" -m ").next().unwrap().lines().last().unwrap().to_owned())
    };
    let (pieces, corrected) =
        harmful("sudo chrt -f 80 taskset -c 3 nice -n 5 qemu-system-x86_64 -accel kvm -m 1G");
    assert_eq!(pieces, ["chrt -f 80 taskset -c 3"]);
    assert_eq!(corrected, "sudo nice -n 5 qemu-system-x86_64 -accel kvm");
    assert!(harmful("taskset -c 0-1 qemu-system-x86_64 -accel kvm -m 1G").0.is_empty());
    assert_eq!(harmful("taskset -c 2 qemu-system-x86_64 -accel kvm -m 1G").0, ["taskset -c 2"]);
    assert!(
        !report("qemu-system-x86_64 -M pc-q35-8.0,accel=kvm")
            .problems()
            .any(|found| found.text.contains("q35"))
    );
}

/// QEMU takes the first accelerator that the host has.
#[test]
fn a_fallback_is_no_emulation() {
    let fallback = report("qemu-system-x86_64 -accel kvm -accel tcg -m 1G");
    assert_eq!(fallback.with_verdict(Harmful).count(), 0, "{fallback}");
}

/// aio=native is refused beside a mode with the page cache.
#[test]
fn a_cache_of_the_host_is_replaced_before_native_access_is_added() {
    let drive = |text: &str| report(text).corrected.split(" -").nth(1).unwrap().to_owned();
    let command = "qemu-system-x86_64 -drive file=a,format=raw,cache=unsafe -m 1G -accel kvm";
    assert_eq!(drive(command), "drive file=a,format=raw,cache=none,aio=native");
    let command = "qemu-system-x86_64 -drive file=a,cache=writeback,aio=threads -m 1G -accel kvm";
    assert_eq!(drive(command), "drive file=a,cache=none,aio=threads");
    let command = "qemu-system-x86_64 -drive file=a,cache=directsync -m 1G -accel kvm";
    assert_eq!(drive(command), "drive file=a,cache=directsync,aio=native");

    let disk = "<driver name='qemu' type='qcow2'/>";
    let buffered = disk.replace("/>", " cache='writeback'/>");
    let corrected = report(&GUEST.replace(disk, &buffered)).corrected;
    assert!(corrected.contains("type='qcow2' cache='none' io='native'/>"), "{corrected}");
}

/// What libvirt chooses where a definition does not say, and what is emulated.
#[test]
fn devices_that_libvirt_chooses_or_emulates_are_found() {
    let text = "<domain type='kvm'>\n  <clock offset='utc'>\n    <timer name='hpet' present='yes'/>\n    <timer name='tsc' mode='emulate'/>\n  </clock>\n  \
                <devices>\n    <disk type='file' device='disk'><source file='/a'/><target dev='sda' bus='sata'/></disk>\n    \
                <interface type='network'>\n      <source network='default'/>\n    </interface>\n  </devices>\n</domain>\n";
    let report = report(text);
    for (piece, expected) in [
        ("<timer name='hpet' present='yes'/>", (Discouraged, "vmm.minimal")),
        ("<timer name='tsc' mode='emulate'/>", (Harmful, "vmm.cpu")),
        ("<disk type='file' device='disk'>", (Discouraged, "vmm.disk")),
        ("<driver>", (Missing, "vmm.disk")),
        ("<model>", (Missing, "vmm.nic")),
    ] {
        assert!(verdicts(&report, piece).contains(&expected), "{piece}: {report}");
    }
    assert!(
        report.corrected.contains("      <model type='virtio'/>\n    </interface>"),
        "{report}"
    );
}

const GUEST: &str = "\
<domain type='kvm'>
  <name>robot</name>
  <vcpu placement='static'>2</vcpu>
  <cputune>
    <vcpupin vcpu='0' cpuset='2'/>
    <vcpupin vcpu='1' cpuset='2'/>
    <emulatorpin cpuset='0-2'/>
    <vcpusched vcpus='1' scheduler='fifo' priority='99'/>
    <iothreadsched iothreads='1' scheduler='rr' priority='98'/>
    <emulatorsched scheduler='fifo' priority='99'/>
  </cputune>
  <os>
    <cmdline>root=/dev/vda nohlt quiet</cmdline>
  </os>
  <features>
    <acpi/>
  </features>
  <cpu mode='host-model'/>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
    </disk>
    <interface type='bridge'>
      <model type='e1000'/>
    </interface>
    <graphics type='vnc'/>
  </devices>
</domain>
";

#[test]
fn a_libvirt_definition_is_judged_and_corrected() {
    let report = report(GUEST);
    assert_eq!(report.subject, LintSubject::LibvirtXml);
    let expected = [
        ("<vcpupin vcpu='1' cpuset='2'/>", Contradiction, "host.vcpu_pin"),
        ("<emulatorpin cpuset='0-2'/>", Harmful, "host.emulator_pin"),
        ("<vcpusched vcpus='1' scheduler='fifo' priority='99'/>", Harmful, "kthread.migration"),
        (
            "<iothreadsched iothreads='1' scheduler='rr' priority='98'/>",
            Harmful,
            "kthread.migration",
        ),
        ("<emulatorsched scheduler='fifo' priority='99'/>", Harmful, "host.emulator_pin"),
        ("nohlt", NoEffect, "guest.nohlt"),
        ("<cpu mode='host-model'/>", Discouraged, "vmm.cpu"),
        ("<feature>", Missing, "vmm.cpu"),
        ("<hugepages>", Missing, "vmm.mem"),
        ("<model type='e1000'/>", Discouraged, "vmm.nic"),
        ("<memballoon>", Missing, "vmm.minimal"),
        ("<graphics type='vnc'/>", Discouraged, "vmm.minimal"),
    ];
    for (text, verdict, id) in expected {
        assert!(
            verdicts(&report, text).contains(&(verdict, id)),
            "{text}: {:?}",
            verdicts(&report, text)
        );
    }

    let corrected = &report.corrected;
    assert!(roxmltree_parses(corrected), "{corrected}");
    for part in [
        "<cmdline>root=/dev/vda quiet</cmdline>",
        "mode='host-passthrough'",
        "name='invtsc'",
        "<locked/>",
        "priority='1'",
        "<model type='virtio'/>",
        "<memballoon model='none'/>",
        "cache='none' io='native'",
    ] {
        assert!(corrected.contains(part), "{part} is not in {corrected}");
    }
    assert!(!corrected.contains("emulatorsched"));
}

#[test]
fn quotas_of_libvirt_are_harmful() {
    let quota = "<quota>50000</quota>";
    let text = GUEST.replace("<cputune>", &format!("<cputune>\n    {quota}"));
    let limited = report(&text);
    assert!(verdicts(&limited, "<quota>").contains(&(Harmful, "host.vcpu_prio")), "{limited}");
    assert!(!limited.corrected.contains(quota));
}

#[test]
fn a_guest_on_arm_gets_nothing_that_its_processor_does_not_have() {
    let script = report("qemu-system-aarch64 -M virt,accel=kvm -cpu host -m 2G").corrected;
    assert!(script.contains("-cpu host,pmu=off") && !script.contains("cpu-pm"), "{script}");
    let generic = report("qemu-system-riscv64 -M virt,accel=kvm -m 2G").corrected;
    assert!(generic.ends_with("-cpu host") || generic.contains("-cpu host "), "{generic}");

    let domain =
        "<domain type='kvm'><os><type arch='aarch64' machine='virt'>hvm</type></os></domain>";
    let corrected = lint(domain, LintSubject::LibvirtXml).unwrap().corrected;
    assert!(corrected.contains("<cpu mode='host-passthrough'/>"), "{corrected}");
    for part in ["invtsc", "migratable", "hint-dedicated"] {
        assert!(!script.contains(part) && !corrected.contains(part), "{part}: {corrected}");
    }

    let disabled = "<domain type='kvm'><cpu mode='host-passthrough'><feature policy='disable' name='invtsc'/></cpu></domain>";
    let corrected = lint(disabled, LintSubject::LibvirtXml).unwrap().corrected;
    assert_eq!(corrected.matches("name='invtsc'").count(), 1, "{corrected}");
    assert!(corrected.contains("<feature policy='require' name='invtsc'/>"), "{corrected}");
}

#[test]
fn features_that_are_there_are_completed_and_not_given_twice() {
    let text = "<domain type='kvm'>
  <features>
    <kvm>
      <hidden state='on'/>
    </kvm>
    <pmu state='on'/>
  </features>
</domain>";
    let corrected = lint(text, LintSubject::LibvirtXml).unwrap().corrected;
    for part in ["<hidden state='on'/>", "<hint-dedicated state='on'/>", "<pmu state='off'/>"] {
        assert!(corrected.contains(part), "{part} is not in {corrected}");
    }
    assert_eq!((corrected.matches("<kvm>").count(), corrected.matches("<pmu").count()), (1, 1));
}

/// As libvirt starts QEMU: `/proc/PID/cmdline`, `/var/log/libvirt/qemu/*.log`.
#[test]
fn objects_and_devices_in_json_are_judged() {
    let report = report(
        "qemu-system-x86_64 -accel kvm -machine q35,memory-backend=pc.ram -m size=4194304k \
         -object '{\"qom-type\":\"memory-backend-memfd\",\"id\":\"pc.ram\",\"hugetlb\":true,\"prealloc\":true,\"size\":4294967296}' \
         -device '{\"driver\":\"e1000e\",\"netdev\":\"hostnet0\"}'",
    );
    assert!(report.findings.iter().all(|of| of.text != "-object"), "{report}");
    assert!(!report.corrected.contains("ram0"), "{}", report.corrected);
    let device = "-device '{\"driver\":\"virtio-net-pci\",\"netdev\":\"hostnet0\"}'";
    assert!(report.corrected.contains(device), "{}", report.corrected);
}

#[test]
fn a_program_that_is_called_kvm_runs_by_kvm() {
    let programs = [("/usr/bin/kvm", false), ("qemu-kvm", false), ("qemu-system-x86_64", true)];
    for (program, is_missing) in programs {
        let report = report(&format!("{program} -m 1G -smp 2"));
        let is_told = verdicts(&report, "-accel").contains(&(Missing, "vmm.accel"));
        assert_eq!(is_told, is_missing, "{program}");
    }
}

fn roxmltree_parses(text: &str) -> bool {
    lint(text, LintSubject::LibvirtXml).is_ok()
}

#[test]
fn what_cannot_be_judged_is_an_error_with_its_place() {
    let script = |text| lint(text, LintSubject::QemuScript).unwrap_err();
    assert_eq!(lint(" \n", LintSubject::KernelLine).unwrap_err(), LintError::Empty);
    assert_eq!(script("echo a\necho b\n"), LintError::NoQemu { lines: 2 });
    assert_eq!(
        script("qemu-system-x86_64 -m 'x"),
        LintError::OpenQuote { line: 1, column: 23, quote: '\'' }
    );
    assert!(matches!(lint("<domain>", LintSubject::LibvirtXml), Err(LintError::Xml(_))));
    let other = lint("<network/>", LintSubject::LibvirtXml).unwrap_err();
    assert_eq!(other, LintError::NoDomain { found: "network".to_owned() });
}

#[test]
fn the_report_in_json_names_its_schema() {
    let json = serde_json::to_value(report("rdt=13cat quiet")).unwrap();
    assert_eq!(json["schema"], "onbeat.tune-lint/1");
    assert_eq!(json["subject"], "kernel_line");
    assert_eq!(json["findings"][0]["verdict"], "no_effect");
    assert_eq!(json["findings"][0]["id"], "rdt.l3");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Any text is judged without a panic, and each finding has its place in it.
    #[test]
    fn every_text_is_judged(text in "[-a-z=,.0-9 \u{a0}\"'\\\\\n<>/µ#;&$()]{0,200}") {
        for subject in [
            LintSubject::KernelLine, LintSubject::QemuScript, LintSubject::QemuArguments, LintSubject::LibvirtXml,
        ] {
            let Ok(report) = lint(&text, subject) else { continue };
            for finding in &report.findings {
                prop_assert!(finding.line >= 1 && finding.column >= 1 && finding.line <= text.lines().count() + 1);
            }
        }
    }

    /// Lines of known parameters in any order: the correction is stable, and invents no parameter.
    #[test]
    fn corrections_of_kernel_lines_are_stable(picked in proptest::collection::vec(0..30usize, 1..12)) {
        let known: Vec<&str> = BOOT_LINE.split(['"', ' ', '\n']).filter(|text| text.contains('=') || text.len() > 5).collect();
        let line = picked.iter().map(|at| known[at % known.len()]).filter(|text| !text.starts_with("GRUB")).collect::<Vec<_>>().join(" ");
        prop_assume!(!line.is_empty());
        let once = lint(&line, LintSubject::KernelLine).unwrap().corrected;
        prop_assume!(!once.trim().is_empty());
        prop_assert_eq!(&lint(&once, LintSubject::KernelLine).unwrap().corrected, &once);
    }
}
