//! The check of a machine, kind of probe by kind of probe, on captured trees.

use crate::check_tree;

use std::io::Write;

use check_tree::{CapturedMachine, CapturedTask, assert_verdict, setup};
use onbeat_tune::catalogue::{CheckVerdict, HostTree, LoopSetup, catalogue};

const CPU3: &str = "/sys/devices/system/cpu/cpu3";

#[test]
fn a_value_in_a_file_is_good_bad_absent_or_unreadable() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("mem.thp"), "bad");
    machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    assert_eq!(machine.verdict("mem.thp"), "good");
    machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "rubbish here\n");
    assert_verdict(&machine.verdict("mem.thp"), "unknown", "rubbish");
    machine.make_unreadable("/sys/kernel/mm/transparent_hugepage/enabled");
    assert_verdict(&machine.verdict("mem.thp"), "unknown", "transparent_hugepage/enabled");
    machine.remove("/sys/kernel/mm/transparent_hugepage");
    assert_verdict(&machine.verdict("mem.thp"), "not applicable", "without transparent huge pages");
}

#[test]
fn a_finding_names_the_value_what_it_should_be_and_the_fix() {
    let finding = CapturedMachine::hardware().finding("wq.unbound", &setup());
    assert_eq!(finding.current, "/sys/devices/virtual/workqueue/cpumask: CPUs 0-3");
    assert_eq!(finding.wanted, "without CPU 3");
    let machine = CapturedMachine::hardware();
    machine.file("/proc/sys/kernel/watchdog_cpumask", "0-3\n");
    machine.file("/proc/sys/kernel/soft_watchdog", "1\n");
    assert_eq!(machine.finding("dbg.softlockup", &setup()).wanted, "0 or without CPU 3");
    assert_eq!(
        finding.fix,
        "write 7 to /sys/devices/virtual/workqueue/cpumask; boot with workqueue.unbound_cpus=0-2"
    );
    let good = CapturedMachine::hardware().finding("idle.poll", &setup());
    assert_eq!((good.verdict, good.fix.as_str()), (CheckVerdict::Good, ""));
}

#[test]
fn a_finding_names_no_file_that_is_not_there_and_each_value_once() {
    let machine = CapturedMachine::hardware();
    // The file of intel_pstate does not exist.
    machine.file("/sys/devices/system/cpu/cpufreq/boost", "1\n");
    let turbo = machine.finding("fw.turbo", &setup());
    assert_eq!(turbo.wanted, "0");
    assert_eq!(turbo.fix, "write 0 to /sys/devices/system/cpu/cpufreq/boost");
    machine.file("/sys/devices/system/cpu/cpufreq/boost", "0\n");
    let turbo = machine.finding("fw.turbo", &setup());
    assert_eq!((turbo.verdict, turbo.wanted.as_str()), (CheckVerdict::Good, "0"));

    // Only one of two is not as wanted.
    machine.file("/proc/sys/vm/dirty_background_ratio", "10\n");
    machine.file("/proc/sys/vm/dirty_ratio", "5\n");
    assert_eq!(machine.finding("mem.dirty", &setup()).wanted, "1 to 3");

    for cpu in 0..4 {
        let path = |of: &str| format!("/sys/devices/system/machinecheck/machinecheck{cpu}/{of}");
        machine.file(&path("ignore_ce"), "0\n");
        machine.file(&path("check_interval"), "300\n");
    }
    let polled = machine.finding("dbg.mce", &setup()).current;
    assert!(
        polled.contains("ignore_ce: 0; ") && polled.contains("check_interval: 300; "),
        "{polled}"
    );
}

#[test]
fn sysctls_are_compared_as_numbers_and_their_absence_is_a_fact_of_the_kernel() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("timer.migration"), "bad");
    machine.file("/proc/sys/kernel/timer_migration", "0\n");
    assert_eq!(machine.verdict("timer.migration"), "good");
    machine.remove("/proc/sys/kernel/timer_migration");
    assert_verdict(
        &machine.verdict("timer.migration"),
        "not applicable",
        "timer_migration does not exist",
    );
    machine.remove("/proc/sys");
    assert_verdict(
        &machine.verdict("mem.swappiness"),
        "unknown",
        "/proc/sys does not exist in this tree",
    );
}

#[test]
fn a_resume_latency_of_zero_is_unlimited_and_bad() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("idle.pm_qos"), "bad");
    machine.file(&format!("{CPU3}/power/pm_qos_resume_latency_us"), "n/a\n");
    assert_eq!(machine.verdict("idle.pm_qos"), "good");
}

#[test]
fn a_limit_of_idle_states_applies_only_where_one_takes_long_to_leave() {
    let machine = CapturedMachine::hardware();
    machine.idle_state(1, 5, 0);
    assert_verdict(&machine.verdict("idle.pm_qos"), "not applicable", "no idle state");
    machine.remove(&format!("{CPU3}/cpuidle"));
    assert_verdict(&machine.verdict("idle.pm_qos"), "unknown", "lists no idle states");

    let guest = CapturedMachine::guest();
    guest.remove(&format!("{CPU3}/cpuidle"));
    assert_verdict(&guest.verdict("idle.dma_latency"), "not applicable", "no idle state");
}

#[test]
fn equal_limits_of_the_frequency_are_good() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("freq.fixed"), "bad");
    machine.file(&format!("{CPU3}/cpufreq/scaling_min_freq"), "4000000\n");
    assert_eq!(machine.verdict("freq.fixed"), "good");
    machine.remove(&format!("{CPU3}/cpufreq"));
    assert_verdict(&machine.verdict("freq.fixed"), "not applicable", "no frequency driver");
    assert_verdict(&machine.verdict("freq.governor"), "unknown", "the firmware decides");
}

#[test]
fn swap_is_the_lines_below_a_heading() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("mem.swap"), "bad");
    machine.file("/proc/swaps", "Filename Type Size Used Priority\n");
    assert_eq!(machine.verdict("mem.swap"), "good");
    machine.file("/proc/swaps", "");
    assert_verdict(&machine.verdict("mem.swap"), "unknown", "cut");
}

#[test]
fn a_parameter_counts_before_the_end_of_the_kernels_own_ones() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("timer.skew_tick"), "bad");
    machine.file("/proc/cmdline", "skew-tick=1\n");
    assert_eq!(machine.verdict("timer.skew_tick"), "good");
    machine.file("/proc/cmdline", "quiet -- skew_tick=1\n");
    assert_eq!(machine.verdict("timer.skew_tick"), "bad");
    machine.remove("/proc/cmdline");
    assert_verdict(&machine.verdict("timer.skew_tick"), "unknown", "/proc/cmdline");
}

#[test]
fn misspelt_parameters_are_found() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("kern.cmdline_known"), "good");
    for parameter in
        ["intel.max_cstate=0", "processor_idle.max_cstate=0", "rdt=13cat", "kthread_cpus=0"]
    {
        machine.file("/proc/cmdline", &format!("quiet {parameter}\n"));
        assert_eq!(machine.verdict("kern.cmdline_known"), "bad", "{parameter}");
    }
    machine.file("/proc/cmdline", "quiet netroot=dhcp netboot=nfs noroot\n");
    assert_eq!(machine.verdict("kern.cmdline_known"), "good");
    machine.file("/proc/cmdline", "quiet isolcpu=2-3 nohz_ful=2-3 my_board=1\n");
    let misspelt = machine.finding("kern.cmdline_known", &setup());
    assert_eq!(misspelt.current, "kernel parameters: isolcpu=2-3, nohz_ful=2-3");
    assert!(misspelt.fix.contains("isolcpus is meant"), "{}", misspelt.fix);
}

/// A configuration long enough to be one, with some options.
fn config(options: &str) -> String {
    let filler: String = (0..200).map(|number| format!("CONFIG_FILLER_{number}=y\n")).collect();
    format!("# Linux\n{filler}{options}")
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[test]
fn options_of_the_kernel_are_read_packed_or_plain_and_never_guessed() {
    let machine = CapturedMachine::hardware();
    assert_verdict(&machine.verdict("kern.debug"), "unknown", "none of the usual files");
    machine.file("/boot/config-6.12.5", &config(""));
    assert_eq!(machine.verdict("kern.debug"), "good");
    machine.bytes("/proc/config.gz", &packed(&config("CONFIG_KASAN=y\n")));
    assert_eq!(machine.verdict("kern.debug"), "bad", "the running kernel's own file comes first");
    machine.bytes("/proc/config.gz", &packed(&config(""))[..60]);
    assert_verdict(&machine.verdict("kern.debug"), "unknown", "config.gz");
    machine.bytes("/proc/config.gz", &packed("CONFIG_X=y\n"));
    assert_verdict(&machine.verdict("kern.debug"), "unknown", "1 options");
}

#[test]
fn the_mode_of_preemption_is_unknown_where_it_may_have_changed_since_boot() {
    let machine = CapturedMachine::hardware();
    machine.file("/boot/config-6.12.5", &config("CONFIG_PREEMPT_DYNAMIC=y\n"));
    machine.file("/proc/cmdline", "preempt=full\n");
    assert_verdict(&machine.verdict("kern.preempt_mode"), "unknown", "booted with full");
    machine.file("/sys/kernel/debug/sched/preempt", "none voluntary (full)\n");
    assert_eq!(machine.verdict("kern.preempt_mode"), "good");
    machine.file("/sys/kernel/debug/sched/preempt", "none (voluntary) full\n");
    assert_eq!(machine.verdict("kern.preempt_mode"), "bad");
}

#[test]
fn flags_of_the_processor_decide_and_an_empty_list_does_not() {
    let machine = CapturedMachine::guest();
    assert_eq!(machine.verdict("guest.timer"), "good");
    machine.file("/proc/cpuinfo", "vendor_id : AuthenticAMD\nflags : fpu hypervisor\n");
    assert_eq!(machine.verdict("guest.timer"), "bad");
    machine.file("/proc/cpuinfo", "\n");
    assert_verdict(&machine.verdict("guest.timer"), "unknown", "hypervisor");
}

#[test]
fn what_the_host_decides_does_not_apply_in_a_guest() {
    let machine = CapturedMachine::guest();
    assert_verdict(&machine.verdict("freq.governor"), "not applicable", "its host decides");
    assert_verdict(&machine.verdict("host.ple"), "not applicable", "no real-time guests");
    assert_verdict(
        &CapturedMachine::hardware().verdict("guest.timer"),
        "not applicable",
        "not a guest",
    );
}

#[test]
fn a_guest_on_arm_is_recognised_by_vendor_or_product() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/cpuinfo", "Features : fp asimd\nCPU architecture: 8\n");
    machine.file("/sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n");
    machine.file("/sys/class/dmi/id/product_name", "Virtual Machine\n");
    assert_verdict(&machine.verdict("freq.governor"), "not applicable", "its host decides");
    machine.file("/sys/class/dmi/id/product_name", "Surface\n");
    assert_eq!(machine.verdict("freq.governor"), "bad");
}

#[test]
fn threads_on_the_loops_cpu_are_bad_except_the_loop_itself() {
    let machine = CapturedMachine::hardware();
    for tid in [1, 700] {
        machine.task(&CapturedTask::user(tid, "program", "0-2"));
    }
    machine.task(&CapturedTask::user(900, "control", "3").fifo(80));
    assert_eq!(machine.verdict("shield.threads"), "bad");

    let with_loop = LoopSetup { task: Some(900), ..setup() };
    assert_eq!(machine.verdict_for("shield.threads", &with_loop), "good");
    assert_eq!(machine.verdict_for("proc.policy", &with_loop), "good");
    machine.task(&CapturedTask::user(900, "control", "0-3").fifo(99));
    assert_eq!(machine.verdict_for("proc.policy", &with_loop), "bad", "99 is the kernel's");
    assert_eq!(machine.verdict_for("proc.affinity", &with_loop), "bad");
}

#[test]
fn a_part_of_the_tasks_decides_nothing() {
    let machine = CapturedMachine::hardware();
    machine.task(&CapturedTask::user(2, "bash", "0-2"));
    for id in [
        "shield.threads",
        "shield.kthreads",
        "kthread.migration",
        "irq.irqbalance",
        "irq.thread_prio",
    ] {
        assert_verdict(&machine.verdict(id), "unknown", "only a part of the machine's tasks");
    }
}

#[test]
fn a_deadline_thread_is_above_every_priority() {
    let machine = CapturedMachine::hardware();
    machine.task(&CapturedTask::kernel(60, "irq/24-eth0", "3").fifo(50));
    assert_eq!(machine.verdict("irq.thread_prio"), "good");
    machine.task(&CapturedTask::kernel(60, "irq/24-eth0", "3").deadline());
    assert_eq!(machine.verdict("irq.thread_prio"), "bad");
}

#[test]
fn locked_memory_must_cover_what_is_resident() {
    let machine = CapturedMachine::hardware();
    let with_loop = LoopSetup { task: Some(900), ..setup() };
    for (locked, verdict) in [(0, "bad"), (100, "bad"), (5000, "good")] {
        machine.file("/proc/900/status", &format!("VmLck:\t{locked} kB\nVmRSS:\t4000 kB\n"));
        assert_eq!(machine.verdict_for("proc.mlock", &with_loop), verdict);
    }
    machine.file("/proc/900/status", "Name: kernel thread\n");
    assert_verdict(&machine.verdict_for("proc.mlock", &with_loop), "unknown", "VmLck");
}

#[test]
fn interrupts_count_where_they_arrive_and_only_with_a_handler() {
    let machine = CapturedMachine::hardware();
    let finding = machine.finding("irq.affinity", &setup());
    assert_eq!(
        (finding.verdict, finding.current.as_str()),
        (CheckVerdict::Bad, "interrupt 24 (eth0): CPU 3")
    );

    machine.file("/proc/irq/24/effective_affinity_list", "1\n");
    assert_eq!(machine.verdict("irq.affinity"), "good", "25 has no handler");
    machine.file("/proc/irq/24/effective_affinity_list", "\n");

    assert_eq!(
        machine.verdict("irq.affinity"),
        "bad",
        "not used yet: the CPUs that were asked for"
    );

    machine.make_unreadable("/sys/kernel/irq/24/actions");
    assert_verdict(&machine.verdict("irq.affinity"), "unknown", "actions");
    machine.remove("/sys/kernel/irq");

    assert_verdict(&machine.verdict("irq.managed"), "unknown", "no interrupt with a handler");
    machine.remove("/proc/irq");
    assert_verdict(&machine.verdict("irq.affinity"), "unknown", "/proc/irq");
    assert_verdict(
        &CapturedMachine::hardware().verdict("irq.managed"),
        "not applicable",
        "the kernel places no interrupt",
    );
}

#[test]
fn interrupts_that_the_kernel_places_are_those_of_irq_managed_alone() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/irq/24/effective_affinity_list", "1\n");
    machine.file("/sys/kernel/irq/26/actions", "virtio1-req.0\n");
    machine.file("/proc/irq/26/effective_affinity_list", "3\n");
    assert_eq!(machine.verdict("irq.affinity"), "good");
    assert_eq!(machine.verdict("irq.managed"), "bad");

    machine.file("/sys/kernel/irq/26/actions", "nvme0q0\n");
    assert_eq!(machine.verdict("irq.affinity"), "bad", "the queue of administration is moved");
    assert_verdict(&machine.verdict("irq.managed"), "not applicable", "places no interrupt");
    machine.file("/sys/kernel/irq/24/actions", "nvme0q4\n");
    machine.file("/sys/kernel/irq/26/actions", "nvme0q5\n");
    assert_verdict(&machine.verdict("irq.affinity"), "not applicable", "places each interrupt");
}

#[test]
fn a_service_is_stopped_when_it_neither_runs_nor_is_enabled() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("irq.irqbalance"), "bad");
    machine.remove("/proc/700");
    assert_eq!(machine.verdict("irq.irqbalance"), "bad", "its control group is still there");
    machine.remove("/sys/fs/cgroup/system.slice/irqbalance.service");
    assert_eq!(machine.verdict("irq.irqbalance"), "good");
    machine.file("/etc/systemd/system/multi-user.target.wants/irqbalance.service", "");
    assert_eq!(machine.verdict("irq.irqbalance"), "bad", "it would start at boot");
    machine.file("/etc/systemd/system/irqbalance.service", "");
    assert_eq!(machine.verdict("irq.irqbalance"), "good", "it is masked");
    machine.remove("/etc");
    assert_verdict(&machine.verdict("irq.irqbalance"), "unknown", "/etc/systemd/system");
    machine.remove("/sys/fs/cgroup/system.slice");
    assert_verdict(&machine.verdict("irq.irqbalance"), "unknown", "not visible");
}

#[test]
fn a_timer_that_is_installed_and_not_enabled_is_unknown() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("svc.noise"), "good");
    machine.file("/usr/lib/systemd/system/fstrim.timer", "[Timer]\n");
    assert_verdict(&machine.verdict("svc.noise"), "unknown", "fstrim.timer");
}

#[test]
fn a_limit_of_any_group_above_the_loop_is_found() {
    let machine = CapturedMachine::hardware();
    let with_loop = LoopSetup { task: Some(900), ..setup() };
    machine.file("/proc/900/cgroup", "0::/robot.slice/control.service\n");
    assert_verdict(&machine.verdict_for("mem.cgroup", &with_loop), "not applicable", "not enabled");
    machine.file("/sys/fs/cgroup/robot.slice/control.service/memory.high", "max\n");
    machine.file("/sys/fs/cgroup/robot.slice/memory.high", "max\n");
    assert_eq!(machine.verdict_for("mem.cgroup", &with_loop), "good");
    machine.file("/sys/fs/cgroup/robot.slice/memory.high", "1000000\n");
    assert_eq!(machine.verdict_for("mem.cgroup", &with_loop), "bad");
}

#[test]
fn a_part_of_the_cache_is_good_only_where_it_is_exclusive() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu cat_l3\n");
    assert_verdict(&machine.verdict("rdt.l3"), "not applicable", "without resctrl");
    machine.dir("/sys/fs/resctrl");
    assert_eq!(machine.verdict("rdt.l3"), "bad");
    for (file, text) in
        [("cpus_list", "3\n"), ("schemata", "    L3:0=f0\n"), ("mode", "shareable\n")]
    {
        machine.file(&format!("/sys/fs/resctrl/robot/{file}"), text);
    }
    assert_verdict(&machine.verdict("rdt.l3"), "unknown", "may share");
    machine.file("/sys/fs/resctrl/robot/mode", "exclusive\n");
    assert_eq!(machine.verdict("rdt.l3"), "good");
}

#[test]
fn the_sibling_of_the_loops_cpu_must_be_its_own_or_offline() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("shield.plan"), "bad");
    machine.file("/sys/devices/system/cpu/online", "0-1,3\n");
    assert_eq!(machine.verdict("shield.plan"), "good");
    assert_verdict(
        &machine.verdict_for("shield.plan", &LoopSetup::on("2".parse().unwrap())),
        "unknown",
        "not online",
    );
}

#[test]
fn the_deepest_idle_state_counts_unless_it_is_disabled_or_limited() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("fw.cstates"), "bad");
    machine.idle_state(1, 200, 1);
    assert_eq!(machine.verdict("fw.cstates"), "good");
    machine.idle_state(1, 200, 0);
    machine.file(&format!("{CPU3}/power/pm_qos_resume_latency_us"), "20\n");
    assert_eq!(machine.verdict("fw.cstates"), "good");
    machine.remove(&format!("{CPU3}/cpuidle"));
    assert_verdict(&machine.verdict("fw.cstates"), "unknown", "no idle states");
}

#[test]
fn bits_of_a_register_are_read_where_the_device_allows_it() {
    let machine = CapturedMachine::hardware();
    assert_verdict(&machine.verdict("hw.prefetch"), "unknown", "msr is not loaded");
    let mut registers = vec![0; 0x1A4];
    registers.extend(0b0011_u64.to_ne_bytes());
    machine.bytes("/dev/cpu/3/msr", &registers);
    assert_eq!(machine.verdict("hw.prefetch"), "good");
    registers.truncate(0x1A4);
    registers.extend(0b0100_u64.to_ne_bytes());
    machine.bytes("/dev/cpu/3/msr", &registers);
    assert_eq!(machine.verdict("hw.prefetch"), "bad");
}

#[test]
fn a_limit_held_by_a_descriptor_is_a_binary_number() {
    let machine = CapturedMachine::hardware();
    for (value, verdict) in [(2_000_000_000_i32, "bad"), (0, "good")] {
        machine.bytes("/dev/cpu_dma_latency", &value.to_ne_bytes());
        assert_eq!(machine.verdict("idle.dma_latency"), verdict);
    }
    machine.remove("/dev/cpu_dma_latency");
    assert_verdict(&machine.verdict("idle.dma_latency"), "unknown", "cpu_dma_latency");
}

#[test]
fn cpus_that_poll_need_no_limit_of_idle_states() {
    let machine = CapturedMachine::hardware();
    let ids = ["fw.cstates", "idle.pm_qos", "idle.state_disable", "idle.max_cstate"];
    ids.into_iter().for_each(|id| assert_eq!(machine.verdict(id), "bad", "{id}"));
    machine.file("/proc/cmdline", "root=/dev/sda quiet idle=poll\n");
    ids.into_iter().for_each(|id| assert_eq!(machine.verdict(id), "good", "{id}"));
    machine.remove(&format!("{CPU3}/cpuidle"));
    ids.into_iter().for_each(|id| assert_eq!(machine.verdict(id), "good", "{id}"));
}

#[test]
fn what_no_file_shows_is_unknown_with_where_to_look() {
    let machine = CapturedMachine::hardware();
    assert_verdict(&machine.verdict("irq.noise"), "unknown", "two readings");
    assert_verdict(&machine.verdict("proc.pi_mutex"), "unknown", "reviewed by hand");
    assert_verdict(&machine.verdict("net.coalesce"), "not applicable", "no network interface");
    let with_interface = LoopSetup { interfaces: vec!["eth0".to_owned()], ..setup() };
    assert_verdict(
        &machine.verdict_for("net.coalesce", &with_interface),
        "unknown",
        "ethtool -c eth0",
    );
    let outside = LoopSetup { interfaces: vec!["../../etc".to_owned()], ..setup() };
    assert_verdict(&machine.verdict_for("hw.runtime_pm", &outside), "unknown", "not a valid name");
}

#[test]
fn needs_decide_with_the_reason() {
    let machine = CapturedMachine::hardware();
    assert_verdict(&machine.verdict("sched.fair_server"), "not applicable", "the loop sleeps");
    let polls = LoopSetup { polls: true, ..setup() };
    assert_verdict(&machine.verdict_for("sched.fair_server", &polls), "unknown", "debugfs");
    machine.file("/proc/sys/kernel/osrelease", "6.1.0\n");
    assert_verdict(
        &machine.verdict_for("sched.fair_server", &polls),
        "not applicable",
        "Linux 6.12 or later",
    );
    machine.file("/proc/version", "Linux version 6.1.0 #1 SMP PREEMPT_RT\n");
    assert_eq!(machine.verdict("kern.preempt_rt"), "good");
    assert_verdict(
        &machine.verdict("kern.threadirqs"),
        "not applicable",
        "this is a PREEMPT_RT kernel",
    );
}

#[test]
fn a_loop_without_cpus_leaves_what_depends_on_them_unknown() {
    let machine = CapturedMachine::hardware();
    for id in ["irq.affinity", "wq.unbound", "shield.threads", "idle.pm_qos", "freq.governor"] {
        assert_verdict(
            &machine.verdict_for(id, &LoopSetup::default()),
            "unknown",
            "no CPU was chosen",
        );
    }
}

#[test]
fn nothing_is_good_in_an_empty_tree() {
    let machine = CapturedMachine::empty();
    for polls in [false, true] {
        let setup = LoopSetup {
            polls,
            runs_guests: true,
            task: Some(900),
            interfaces: vec!["eth0".to_owned()],
            ..setup()
        };
        let good: Vec<_> = machine
            .findings(&setup)
            .into_iter()
            .filter(|finding| finding.verdict == CheckVerdict::Good)
            .collect();
        assert!(good.is_empty(), "{good:?}");
    }
}

/// A file that cannot be read must not make anything look better.
#[test]
fn no_finding_becomes_good_because_a_file_is_unreadable() {
    let setup = LoopSetup { task: Some(700), ..setup() };
    let is_good = |machine: &CapturedMachine| -> Vec<bool> {
        machine
            .findings(&setup)
            .iter()
            .map(|finding| finding.verdict == CheckVerdict::Good)
            .collect()
    };
    let before = is_good(&CapturedMachine::hardware());

    for path in CapturedMachine::hardware().files() {
        let machine = CapturedMachine::hardware();
        machine.make_unreadable(&path);
        let improved =
            is_good(&machine).iter().zip(&before).position(|(after, before)| *after && !before);
        assert_eq!(improved.map(|place| &catalogue().records[place].id), None, "{path}");
    }
}

#[test]
fn every_reason_is_a_text() {
    for machine in [CapturedMachine::empty(), CapturedMachine::hardware(), CapturedMachine::guest()]
    {
        for finding in machine.findings(&setup()) {
            assert!(
                finding.verdict.reason().is_none_or(|reason| !reason.is_empty()),
                "{}",
                finding.id
            );
        }
    }
}

/// On any machine the check ends with a finding for each record; what they say depends on it.
#[test]
fn the_machine_of_the_test_is_checked_live() {
    let findings = onbeat_tune::check(&HostTree::live(), &LoopSetup::on("0".parse().unwrap()));
    let ids: Vec<_> = findings.iter().map(|finding| finding.id.as_str()).collect();
    let records: Vec<_> = catalogue().records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, records);
}

// ---- what the machine's other files prove about a finding

#[test]
fn what_the_boot_file_has_and_the_running_kernel_has_not_is_told_apart() {
    let machine = CapturedMachine::hardware();
    machine.file("/sys/devices/system/cpu/isolated", "\n");
    machine.file(
        "/etc/default/grub",
        "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"quiet isolcpus=managed_irq,domain,3 rcu_nocbs=3\"\n",
    );
    let finding = machine.finding("shield.isolcpus", &setup());
    assert_eq!(finding.verdict, CheckVerdict::Bad);
    for part in
        ["/etc/default/grub has isolcpus=managed_irq,domain,3", "update-grub", "another boot entry"]
    {
        assert!(finding.fix.contains(part), "{}", finding.fix);
    }
    // A comment is no setting.
    machine.file("/etc/default/grub", "#GRUB_CMDLINE_LINUX=\"isolcpus=3\"\n");
    assert!(machine.finding("shield.isolcpus", &setup()).fix.contains("boot with"));

    // As onbeat's own drop-in writes it; what it replaces is not in another boot entry.
    let drop_in = "/etc/default/grub.d/90-onbeat.cfg";
    let own = "isolcpus=managed_irq,domain,3";
    machine.file(drop_in, &format!("GRUB_CMDLINE_LINUX=\"$(without \"$OLD\"){own} audit=0\"\n"));
    machine.file("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"isolcpus=2\"\n");
    let fix = machine.finding("shield.isolcpus", &setup()).fix;
    assert!(fix.starts_with(&format!("{drop_in} has {own}, the running kernel has not")), "{fix}");
    machine.file("/proc/cmdline", &format!("quiet {own}\n"));
    let current = machine.finding("shield.isolcpus", &setup()).current;
    assert!(!current.contains("grub"), "{current}");
}

#[test]
fn the_boot_cpu_stays_and_another_one_is_asked_for() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/cmdline", "quiet isolcpus=0,3\n");
    machine.file("/sys/devices/system/cpu/isolated", "3\n");
    assert_eq!(machine.verdict("shield.isolcpus"), "good");
    let on_boot_cpu = LoopSetup::on("0".parse().unwrap());
    let finding = machine.finding("shield.isolcpus", &on_boot_cpu);
    assert!(
        finding.fix.contains("boot CPU") && finding.fix.contains("take another CPU"),
        "{}",
        finding.fix
    );

    machine.file("/proc/cmdline", "isolcpus=domain,2-N\n");
    machine.file("/sys/devices/system/cpu/isolated", "2-3\n");
    let finding = machine.finding("shield.isolcpus", &on_boot_cpu);
    assert!(!finding.fix.contains("isolates nothing"), "N is the last CPU: {}", finding.fix);

    machine.file("/proc/cmdline", "isolcpus=3,domain\n");
    machine.file("/sys/devices/system/cpu/isolated", "\n");
    assert!(machine.finding("shield.isolcpus", &setup()).fix.contains("Flags stand in front"));

    // Of two lists the kernel keeps the first.
    machine.file("/proc/cmdline", "isolcpus=domain,2 isolcpus=3,domain\n");
    machine.file("/sys/devices/system/cpu/isolated", "2\n");
    assert!(!machine.finding("shield.isolcpus", &setup()).fix.contains("Flags stand in front"));
}

#[test]
fn the_last_cpu_of_a_list_is_that_of_the_machine() {
    let machine = CapturedMachine::hardware();
    machine.file("/boot/config-6.12.5", &config("CONFIG_RCU_NOCB_CPU=y\n"));
    machine.file("/sys/devices/system/cpu/nohz_full", "(null)\n");
    for list in ["2-N", "ALL"] {
        machine.file("/proc/cmdline", &format!("quiet rcu_nocbs={list}\n"));
        assert_eq!(machine.verdict("shield.rcu_nocbs"), "good", "{list}");
    }
}

#[test]
fn a_parameter_of_what_the_kernel_was_built_without_does_nothing() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/cmdline", "nohz_full=3 rcu_nocbs=3\n");
    machine.file("/boot/config-6.12.5", &config("CONFIG_SMP=y\n"));
    for (id, option) in
        [("kern.nohz_choice", "CONFIG_NO_HZ_FULL"), ("shield.rcu_nocbs", "CONFIG_RCU_NOCB_CPU")]
    {
        assert_verdict(&machine.verdict(id), "not applicable", option);
    }
}

#[test]
fn a_clock_that_the_kernel_withdrew_is_not_asked_for() {
    const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";
    let machine = CapturedMachine::hardware();
    machine.file(&format!("{CLOCKS}/current_clocksource"), "hpet\n");
    machine.file(&format!("{CLOCKS}/available_clocksource"), "tsc hpet acpi_pm\n");
    assert_eq!(machine.verdict("clock.source"), "bad");
    machine.file(&format!("{CLOCKS}/available_clocksource"), "hpet acpi_pm\n");
    assert_verdict(&machine.verdict("clock.source"), "not applicable", "withdrawn");
}

#[test]
fn irqbalance_that_keeps_off_is_good() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("irq.irqbalance"), "bad");
    machine.file("/sys/devices/system/cpu/isolated", "3\n");
    assert_eq!(machine.verdict("irq.irqbalance"), "good");
    machine.file("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n");
    assert_eq!(machine.verdict("irq.irqbalance"), "bad");
    machine.file(
        "/etc/default/irqbalance",
        "#IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPUS=\"8\"\n",
    );
    assert_eq!(machine.verdict("irq.irqbalance"), "good");

    // The mask counts before the list, - bans none, and an empty list is as none.
    for (settings, expected) in [
        ("IRQBALANCE_BANNED_CPUS=2\nIRQBALANCE_BANNED_CPULIST=3\n", "bad"),
        ("IRQBALANCE_BANNED_CPULIST=-\n", "bad"),
        ("IRQBALANCE_BANNED_CPULIST=\n", "good"),
    ] {
        machine.file("/etc/default/irqbalance", settings);
        assert_eq!(machine.verdict("irq.irqbalance"), expected, "{settings}");
    }

    // A drop-in of its unit, which the environment file overrides.
    let drop_in = "[Service]\nEnvironment=\"IRQBALANCE_BANNED_CPULIST=3\"\n";
    machine.file("/etc/systemd/system/irqbalance.service.d/override.conf", drop_in);
    machine.file("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n");
    assert_eq!(machine.verdict("irq.irqbalance"), "bad");
    machine.file("/sys/devices/system/cpu/isolated", "\n");
    machine.file("/etc/default/irqbalance", "#\n");
    assert_eq!(machine.verdict("irq.irqbalance"), "good");
}

#[test]
fn a_partition_tells_why_it_is_not_isolated() {
    let machine = CapturedMachine::hardware();
    machine.file(
        "/sys/fs/cgroup/robot/cpuset.cpus.partition",
        "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
    );
    let finding = machine.finding("shield.cpuset_v2", &setup());
    for part in ["not exclusive", "/sys/fs/cgroup/robot", "cpuset.cpus"] {
        assert!(finding.fix.contains(part), "{}", finding.fix);
    }

    for (reason, change) in [
        ("No cpu available due to hotplug", "take them online again"),
        ("cpuset.cpus and cpuset.cpus.exclusive are empty", "write the CPUs to"),
        ("Parent is an invalid partition root", "of the parent group says why"),
        ("Parent is not a partition root", "make it one first"),
    ] {
        let state = format!("isolated invalid ({reason})\n");
        machine.file("/sys/fs/cgroup/robot/cpuset.cpus.partition", &state);
        let fix = machine.finding("shield.cpuset_v2", &setup()).fix;
        assert!(fix.contains(change), "{fix}");
    }
}

#[test]
fn a_program_that_precedes_the_loop_on_its_cpu_is_named() {
    let machine = CapturedMachine::hardware();
    assert_eq!(machine.verdict("kthread.migration"), "good");
    machine.task(&CapturedTask::user(812, "multipathd", "0-2").fifo(99));
    assert_eq!(machine.verdict("kthread.migration"), "good");
    machine.task(&CapturedTask::user(812, "multipathd", "0-3").fifo(99));
    let finding = machine.finding("kthread.migration", &setup());
    assert_eq!(finding.verdict, CheckVerdict::Bad);
    assert!(finding.current.contains("multipathd (812, "), "{}", finding.current);
    assert!(finding.fix.contains("taskset -cp 0-2 812"), "{}", finding.fix);
    assert_eq!(catalogue().get("kthread.migration").unwrap().effect, 3);
}

#[test]
fn limits_do_not_bind_a_thread_with_the_capabilities_or_with_what_they_are_for() {
    let machine = CapturedMachine::hardware();
    machine.task(&CapturedTask::user(900, "loop", "3").fifo(80));
    let limits = "Limit Soft Limit Hard Limit Units\nMax realtime priority 0 0\nMax locked memory 8388608 8388608 bytes\n";
    machine.file("/proc/900/limits", limits);
    let setup = LoopSetup { task: Some(900), ..setup() };
    let status = |capabilities: &str, locked: u32| {
        machine.file(
            "/proc/900/status",
            &format!("Name:\tloop\nVmLck:\t{locked} kB\nVmRSS:\t4000 kB\nCapEff:\t{capabilities}\nCpus_allowed_list:\t3\n"),
        );
    };
    status("0000000000000000", 0);
    assert_eq!(machine.verdict_for("proc.limits", &setup), "bad");
    status("000001ffffffffff", 0);
    assert_eq!(machine.verdict_for("proc.limits", &setup), "good");
    status("0000000000000000", 5000);
    assert_eq!(machine.verdict_for("proc.limits", &setup), "good");
}

#[test]
fn a_boot_file_that_differs_from_the_running_kernel_is_named_with_both_values() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/cmdline", "quiet isolcpus=1\n");
    machine.file("/boot/firmware/cmdline.txt", "console=tty1 isolcpus=3 threadirqs rootwait\n");
    let finding = machine.finding("shield.isolcpus", &setup());
    assert_eq!(finding.verdict, CheckVerdict::Bad);
    let sentence =
        "/boot/firmware/cmdline.txt has isolcpus=3, the running kernel isolcpus=1: restart";
    assert!(finding.current.contains(sentence), "{}", finding.current);

    let bare = machine.finding("kern.threadirqs", &setup());
    let sentence = "/boot/firmware/cmdline.txt has threadirqs, the running kernel has not";
    assert!(bare.fix.contains(sentence), "{bare:?}");

    // The first word behind a variable without quotes, and an entry of systemd-boot.
    for (path, text) in [
        ("/boot/armbianEnv.txt", "verbosity=1\nextraargs=threadirqs cma=256M\n"),
        ("/boot/loader/entries/arch.conf", "title Arch\noptions rw threadirqs\n"),
    ] {
        let machine = CapturedMachine::hardware();
        machine.file(path, text);
        let fix = machine.finding("kern.threadirqs", &setup()).fix;
        assert!(fix.starts_with(&format!("{path} has threadirqs, the running")), "{fix}");
    }
}

#[test]
fn a_unit_that_is_not_in_effect_is_named_with_what_loads_it() {
    let machine = CapturedMachine::hardware();
    machine.task(&CapturedTask::user(900, "loop", "0-3"));
    machine.file("/proc/900/cgroup", "0::/system.slice/robot.service\n");
    let setup = LoopSetup { task: Some(900), ..setup() };
    assert!(!machine.finding("proc.policy", &setup).fix.contains("robot.service"));

    machine.file(
        "/etc/systemd/system/robot.service",
        "[Service]\nExecStart=/usr/bin/robot\nCPUSchedulingPolicy=rr\n#CPUAffinity=3\n",
    );
    let drop_in = "/etc/systemd/system/robot.service.d/50-policy.conf";
    machine.file(drop_in, "[Service]\nCPUSchedulingPolicy = fifo\n");
    let fix = machine.finding("proc.policy", &setup).fix;
    let sentence = format!("{drop_in} has CPUSchedulingPolicy=fifo, the running process has not");
    assert!(fix.contains(&sentence) && fix.contains("systemctl restart robot.service"), "{fix}");
    let fix = machine.finding("proc.affinity", &setup).fix;
    assert!(!fix.contains("robot.service"), "a comment intends nothing: {fix}");

    // Drop-ins are read by name, and one in /etc hides that of the same name.
    for (path, is_read) in [
        ("/usr/lib/systemd/system/robot.service.d/50-policy.conf", false),
        ("/run/systemd/system/robot.service.d/60-policy.conf", true),
    ] {
        machine.file(path, "[Service]\nCPUSchedulingPolicy=rr\n");
        let fix = machine.finding("proc.policy", &setup).fix;
        assert_eq!(fix.contains(&format!("{path} has CPUSchedulingPolicy=rr")), is_read, "{fix}");
        assert_eq!(fix.contains(&sentence), !is_read, "{fix}");
    }
    let template = "/etc/systemd/system/robot@.service";
    machine.file("/proc/900/cgroup", "0::/system.slice/system-robot.slice/robot@left.service\n");
    machine.file(template, "[Service]\nCPUSchedulingPolicy=fifo\nCPUSchedulingPriority=%i\n");
    let fix = machine.finding("proc.policy", &setup).fix;
    assert!(fix.starts_with(&format!("{template} has CPUSchedulingPolicy=fifo, the")), "{fix}");
}

#[test]
fn a_mode_of_preemption_that_the_kernel_cannot_take_is_named_with_the_missing_option() {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/cmdline", "quiet preempt=full\n");
    let options: String = (0..200).map(|number| format!("CONFIG_O{number}=y\n")).collect();
    machine.file("/boot/config-6.12.5", &(options + "CONFIG_PREEMPT_VOLUNTARY=y\n"));
    machine.file("/proc/sys/kernel/osrelease", "6.12.5\n");
    let finding = machine.finding("kern.preempt_mode", &setup());
    if finding.verdict == CheckVerdict::Bad {
        assert!(finding.fix.contains("without CONFIG_PREEMPT_DYNAMIC"), "{}", finding.fix);
    } else {
        panic!("{finding:?}");
    }
}

#[test]
fn a_latency_that_is_held_and_a_common_mask_serve_as_well() {
    let machine = CapturedMachine::hardware();
    machine.file("/sys/devices/virtual/workqueue/cpumask", "7\n");
    machine.file("/sys/devices/virtual/workqueue/writeback/cpumask", "f\n");
    let finding = machine.finding("wq.writeback", &setup());
    assert_eq!(finding.verdict, CheckVerdict::Good, "{finding:?}");
    machine.file("/sys/devices/virtual/workqueue/cpumask", "f\n");
    assert_eq!(machine.verdict("wq.writeback"), "bad");
}

#[test]
fn systemd_of_a_guest_is_the_guests_own() {
    let guest = CapturedMachine::guest();
    for id in ["shield.systemd", "svc.text_target", "svc.noise"] {
        assert!(!guest.verdict(id).contains("its host decides"), "{id}: {}", guest.verdict(id));
    }
}

#[test]
fn a_plan_has_a_step_or_a_sentence_for_everything_that_a_check_finds() {
    use onbeat_tune::plan::{PlanProfile, PlanRequest, plan};

    let machine = CapturedMachine::hardware();
    machine.task(&CapturedTask::user(812, "multipathd", "0-3").fifo(99));
    machine.file("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"isolcpus=managed_irq,domain,3\"\n");
    for profile in PlanProfile::ALL.map(|(profile, _)| profile) {
        let plan = plan(&machine.tree(), &PlanRequest::profile(profile)).unwrap();
        let setup = LoopSetup::on(plan.loop_cpus().unwrap());
        for finding in
            machine.findings(&setup).iter().filter(|finding| finding.verdict == CheckVerdict::Bad)
        {
            let has_step = plan.steps.iter().any(|step| step.id == finding.id);
            let sentence = plan.left_out.iter().find(|left| left.id == finding.id);
            assert!(
                has_step || sentence.is_some_and(|left| !left.because.is_empty()),
                "{}",
                finding.id
            );
        }
    }
}
