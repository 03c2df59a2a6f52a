#!/usr/bin/env python3
"""Writes the captures of machines that are not at hand: each from its facts, as a capture of everything.

    python3 generate.py    # writes the eight of them beside itself

The captures `virtual` and `container` come from real machines, by the example `capture` of the crate.
"""

import gzip
import io
import pathlib
import tarfile

from machine import Machine


def server():
    """Two processors with 64 cores each; Ubuntu's kernel; CPUs 64 to 71 isolated on the command line, SMT on."""
    m = Machine("6.8.0", "#45-Ubuntu SMP PREEMPT_DYNAMIC", count=256)
    m.about = "generated: a server with 256 CPUs on 2 NUMA nodes and managed interrupts; CPUs 64 to 71 isolated at boot"
    m.x86("AuthenticAMD", "fpu msr tsc constant_tsc nonstop_tsc cat_l3 mba svm")
    m.text("/proc/cmdline", "ro quiet isolcpus=domain,64-71 rcu_nocbs=64-71 skew_tick=1 iommu=pt")
    m.config("/boot/config-6.8.0", "PREEMPT_DYNAMIC PREEMPT_VOLUNTARY NO_HZ_FULL RCU_NOCB_CPU AUDIT", hz=1000)
    rest = "0-63,72-255"

    m.topology(siblings=lambda cpu: f"{cpu % 128},{cpu % 128 + 128}", smt="1")
    for node, list_ in [(0, "0-63,128-191"), (1, "64-127,192-255")]:
        m.text(f"/sys/devices/system/node/node{node}/cpulist", list_)
    m.text("/sys/devices/system/cpu/isolated", "64-71")
    m.text("/sys/devices/system/cpu/nohz_full", "(null)")
    m.text("/sys/devices/system/cpu/cpufreq/boost", "1")
    m.frequency("schedutil", 1500000, 2450000)
    m.idle([("POLL", 0), ("C1", 1), ("C2", 800)], governor="menu")

    m.sysctl("kernel", numa_balancing=1, sched_autogroup_enabled=1, sched_schedstats=0, sched_util_clamp_min_rt_default=1024)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=1, watchdog_cpumask="0-255", hung_task_timeout_secs=120)
    m.sysctl("vm", swappiness=60, nr_hugepages=2048, min_free_kbytes=90112)
    m.usual_memory("madvise", "madvise", ksm=0)
    m.swap(1)
    m.module("kvm", lapic_timer_advance_ns=-1, kvmclock_periodic_sync="Y", halt_poll_ns=200000, pi_inject_timer=0,
             min_timer_period_us=200, nx_huge_pages="Y", nx_huge_pages_recovery_ratio=60)
    m.module("kvm_amd", pause_filter_count=3000)
    m.module("pcie_aspm", policy="[default] performance powersave powersupersave")
    m.directory("/sys/kernel/iommu_groups", [str(number) for number in range(40)])
    m.directory("/sys/devices/system/edac/mc/mc0")
    m.directory("/sys/firmware/efi")
    m.text("/sys/devices/virtual/workqueue/efi_runtime/cpumask", m.mask("0-255"))
    m.work_queues("0-63,72-255")

    m.default_interrupts("0-255")
    m.interrupt(9, "acpi", "0")
    for queue in range(129):
        m.interrupt(30 + queue, f"nvme0q{queue}", "0" if queue == 0 else str(queue - 1))
    for queue in range(64):
        m.interrupt(200 + queue, f"eth0-TxRx-{queue}", str(queue))
    m.block("nvme0n1", "[none] mq-deadline", 1)
    m.network("eth0", queues=64, node=0, ipv6=0)

    m.kernel_threads(rest, rcu_priority=0)
    m.kernel_thread("kswapd0", "0-63,128-191")
    # The kernel binds a node's thread for reclaiming to the CPUs of the node.
    m.kernel_thread("kswapd1", "64-127,192-255")
    m.systemd(rest, cpuset="0-255", isolated="", running=["irqbalance.service", "smartd.service"])
    m.program("irqbalance", rest)
    m.program("smartd", rest)
    m.program("qemu-system-x86", rest, threads=[("CPU 0/KVM", "71", 1, 1), ("IO mon_iothread", rest, 0, 0)])
    m.grub()
    return m


def board():
    """A Raspberry Pi 5 with Raspberry Pi OS as it is delivered."""
    m = Machine("6.12.25", "#1 SMP PREEMPT Debian", count=4)
    m.about = "generated: a Raspberry Pi 5 as delivered, with systemd and cmdline.txt"
    m.text("/proc/cpuinfo", "processor : 0\nFeatures : fp asimd evtstrm aes crc32 atomics\nCPU architecture: 8")
    m.text("/proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0")
    m.text("/proc/cmdline", "console=tty1 rootfstype=ext4 fsck.repair=yes rootwait")
    m.text("/boot/firmware/cmdline.txt", "")
    m.config("/boot/config-6.12.25", "PREEMPT AUDIT", hz=250)

    m.topology(siblings=str, smt=None)
    m.text("/sys/devices/system/cpu/isolated", "")
    m.frequency("ondemand", 1500000, 2400000)
    m.idle([], governor="menu")

    m.sysctl("kernel", sched_autogroup_enabled=1, hung_task_timeout_secs=120)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=0, watchdog_cpumask="0-3")
    m.sysctl("vm", swappiness=60, nr_hugepages=0, min_free_kbytes=16384)
    m.usual_memory("always", "madvise", ksm=None)
    m.swap(1)
    m.module("pcie_aspm", policy="default performance [powersave] powersupersave")
    m.work_queues("0-3")

    m.default_interrupts("0-3")
    for number, name in [(13, "arch_timer"), (106, "eth0"), (112, "mmc0"), (160, "xhci-hcd:usb1")]:
        m.interrupt(number, name, "0")
    m.block("mmcblk0", "none [mq-deadline] kyber", 1)
    m.network("eth0", queues=1, node=None, ipv6=0)
    m.directory("/sys/class/ieee80211/phy0")
    m.directory("/sys/class/drm/card0")

    m.kernel_threads("0-3", rcu_priority=0)
    m.kernel_thread("irq/106-eth0", "0", policy=1, priority=50, bound=False)
    m.systemd("0-3", cpuset=None, isolated="", running=["ModemManager.service", "avahi-daemon.service"])
    m.text("/etc/systemd/system/timers.target.wants/fstrim.timer", "")
    m.program("avahi-daemon", "0-3")
    m.program("ModemManager", "0-3")
    return m


def rt_pc():
    """An industrial PC with a PREEMPT_RT kernel whose CPU 3 was prepared with care."""
    m = Machine("6.12.30", "#1 SMP PREEMPT_RT Debian", count=4)
    m.about = "generated: an industrial PC with a PREEMPT_RT kernel, tuned for a loop on CPU 3"
    m.text("/sys/kernel/realtime", "1")
    m.x86("GenuineIntel", "fpu msr tsc constant_tsc nonstop_tsc tsc_adjust hwp cat_l2")
    m.text("/proc/cmdline", "quiet isolcpus=managed_irq,domain,3 rcu_nocbs=3 rcu_nocb_poll skew_tick=1 tsc=nowatchdog "
           "audit=0 irqaffinity=0-2 nomodeset")
    m.config("/boot/config-6.12.30", "PREEMPT_RT NO_HZ_FULL RCU_NOCB_CPU AUDIT", hz=1000)

    m.topology(siblings=str, smt="0")
    m.text("/sys/devices/system/cpu/isolated", "3")
    m.text("/sys/devices/system/cpu/nohz_full", "(null)")
    m.text("/sys/devices/system/cpu/intel_pstate/no_turbo", "1")
    m.text("/sys/devices/system/cpu/intel_pstate/status", "active")
    m.frequency("performance", 2400000, 2400000, preference="performance")
    m.idle([("POLL", 0), ("C1", 2)], governor="menu", bias="0", resume="n/a")
    m.register(3, 0x1A0, 0x850089)
    m.register(3, 0x770, 1)
    m.register(3, 0x1A4, 3)
    m.latency_request(0)

    m.sysctl("kernel", numa_balancing=None, sched_autogroup_enabled=0, sched_schedstats=0)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=0, watchdog_cpumask="0-2", hung_task_timeout_secs=600)
    m.sysctl("kernel", timer_migration=0, printk="3 4 1 3")
    m.sysctl("vm", swappiness=1, stat_interval=60, compact_unevictable_allowed=0, compaction_proactiveness=0)
    m.sysctl("vm", dirty_background_ratio=2, dirty_ratio=5, nr_hugepages=0, min_free_kbytes=65536)
    m.sysctl("net/core", busy_read=0, busy_poll=0)
    m.usual_memory("never", "never", ksm=0)
    m.swap(0)
    m.module("pcie_aspm", policy="default [performance] powersave powersupersave")
    m.module("workqueue", power_efficient="Y")
    m.text("/sys/kernel/rcu_normal", "1")
    m.directory("/sys/class/drm/card0")
    m.directory("/sys/fs/resctrl")
    m.work_queues("0-2")
    m.tracing(tracer="nop", events="0", fair_server=50000000, nr_migrate=4, resolution=1)
    m.text("/sys/kernel/security/lockdown", "[none] integrity confidentiality")

    m.default_interrupts("0-2")
    m.interrupt(16, "ehci_hcd:usb1", "0")
    m.interrupt(120, "nvme0q0", "0")
    m.interrupt(121, "nvme0q1", "1")
    m.interrupt(130, "eth0", "2")
    m.block("nvme0n1", "[none] mq-deadline", 1)
    m.network("eth0", queues=1, node=None, ipv6=1, flush=0, defer=0, power="on")

    m.kernel_threads("0-2", rcu_priority=1)
    m.kernel_thread("irq/130-eth0", "2", policy=1, priority=50, bound=False)
    m.systemd("0-2", cpuset="0-2", isolated="3", running=["ssh.service"])
    m.text("/etc/systemd/journald.conf", "[Journal]\nStorage=volatile")
    m.program("sshd", "0-2")
    m.grub()
    return m


def laptop():
    """A laptop with a graphical desktop, deep idle states, turbo, SMT, irqbalance and tuned."""
    m = Machine("6.14.5", "#1 SMP PREEMPT_DYNAMIC", count=8)
    m.about = "generated: a laptop with a graphical desktop, deep idle states, turbo, SMT, irqbalance and tuned"
    m.x86("GenuineIntel", "fpu msr tsc constant_tsc nonstop_tsc tsc_adjust hwp")
    m.text("/proc/cmdline", "quiet rhgb mitigations=off intel.max_cstate=1")
    m.config("/boot/config-6.14.5", "PREEMPT_DYNAMIC PREEMPT_LAZY NO_HZ_FULL RCU_NOCB_CPU AUDIT", hz=1000)

    m.topology(siblings=lambda cpu: f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}", smt="1")
    m.text("/sys/devices/system/cpu/isolated", "")
    m.text("/sys/devices/system/cpu/nohz_full", "(null)")
    m.text("/sys/devices/system/cpu/intel_pstate/no_turbo", "0")
    m.text("/sys/devices/system/cpu/intel_pstate/status", "active")
    m.frequency("powersave", 400000, 4700000, preference="balance_performance")
    m.idle([("POLL", 0), ("C1E", 2), ("C6", 170), ("C10", 890)], governor="menu", bias="6")
    m.text("/sys/firmware/acpi/platform_profile", "balanced")

    m.sysctl("kernel", numa_balancing=0, sched_autogroup_enabled=1, sched_schedstats=0, sched_util_clamp_min_rt_default=1024)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=0, watchdog_cpumask="0-7", hung_task_timeout_secs=120)
    m.sysctl("vm", swappiness=60, nr_hugepages=0, min_free_kbytes=67584)
    m.usual_memory("madvise", "madvise", ksm=0)
    m.swap(1)
    m.module("pcie_aspm", policy="[default] performance powersave powersupersave")
    m.module("kfence", sample_interval=100)
    m.text("/sys/kernel/sched_ext/state", "disabled")
    m.directory("/sys/firmware/efi")
    m.directory("/sys/class/drm/card1")
    m.text("/sys/devices/virtual/workqueue/efi_runtime/cpumask", m.mask("0-7"))
    m.work_queues("0-7")
    m.refused("/sys/kernel/debug", "look_up")
    for path in ["sched/preempt", "sched/nr_migrate"]:
        m.refused(f"/sys/kernel/debug/{path}", "read")
    m.refused("/sys/kernel/tracing/current_tracer", "read")
    m.refused("/sys/kernel/tracing/events/enable", "read")
    m.refused("/proc/timer_list", "read")
    m.refused("/dev/cpu_dma_latency", "read")

    m.default_interrupts("0-7")
    m.interrupt(16, "i801_smbus", "5")
    m.interrupt(130, "xhci_hcd", "3")
    for queue in range(9):
        m.interrupt(140 + queue, f"nvme0q{queue}", str(max(queue - 1, 0)))
    m.interrupt(160, "i915", "6")
    m.block("nvme0n1", "[none] mq-deadline", 1)
    m.block("sda", "mq-deadline kyber [bfq] none", 2)
    m.network("eth0", queues=4, node=None, ipv6=0)
    m.directory("/sys/class/ieee80211/phy0")
    m.directory("/sys/fs/selinux")
    m.text("/sys/fs/selinux/enforce", "1")

    m.kernel_threads("0-7", rcu_priority=0)
    running = ["tuned.service", "irqbalance.service", "bluetooth.service", "cups.service", "gdm.service"]
    m.systemd("0-7", cpuset=None, isolated="", running=running)
    m.program("tuned", "0-7")
    m.program("irqbalance", "0-7")
    m.program("gnome-shell", "0-7")
    m.program("kwin_rt", "0-7", threads=[("audio", "0-7", 2, 20)])
    m.grub()
    return m


def guest():
    """A guest of KVM with Debian 12 as it is installed: systemd, four virtual CPUs, virtio devices, the host's clock."""
    m = Machine("6.1.0-21-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.90-1", count=4)
    m.about = "generated: a guest of KVM with Debian 12 and systemd, 4 virtual CPUs, kvm-clock"
    m.x86("GenuineIntel", "fpu msr tsc hypervisor constant_tsc nonstop_tsc tsc_deadline_timer tsc_adjust")
    m.clocks("kvm-clock", available="kvm-clock tsc acpi_pm")
    m.text("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.1.0-21-amd64 root=UUID=0 ro quiet")
    m.config("/boot/config-6.1.0-21-amd64", "PREEMPT_DYNAMIC RCU_NOCB_CPU AUDIT", hz=250)
    m.text("/sys/kernel/security/lockdown", "[none] integrity confidentiality")

    m.topology(siblings=str, smt="0")
    m.text("/sys/devices/system/cpu/isolated", "")
    # No driver of idle states: the guest halts, and its host decides.
    m.text("/sys/devices/system/cpu/cpuidle/current_governor", "menu")

    m.sysctl("kernel", numa_balancing=0, sched_autogroup_enabled=1, sched_schedstats=0, sched_util_clamp_min_rt_default=1024)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=0, watchdog_cpumask="0-3", hung_task_timeout_secs=120)
    m.sysctl("vm", swappiness=60, nr_hugepages=0, min_free_kbytes=67584)
    m.usual_memory("always", "madvise", ksm=0)
    m.swap(1)
    m.module("kfence", sample_interval=0)
    m.work_queues("0-3")
    m.debugging(preempt="none (voluntary) full", nr_migrate=32, resolution=1)
    m.directory("/sys/bus/virtio/drivers/virtio_balloon", ["virtio4"])

    m.default_interrupts("0-3")
    for number, name, cpu in [(24, "virtio0-config", "0"), (25, "virtio0-input.0", "3"), (26, "virtio0-output.0", "1")]:
        m.interrupt(number, name, cpu)
    for cpu in range(4):
        m.interrupt(30 + cpu, f"virtio1-req.{cpu}", str(cpu))
    m.block("vda", "[none] mq-deadline", 1)
    m.network("eth0", queues=1, node=None, ipv6=0)

    m.kernel_threads("0-3", rcu_priority=0)
    m.systemd("0-3", cpuset=None, isolated=None, running=["ssh.service"])
    for timer in ["apt-daily.timer", "apt-daily-upgrade.timer", "fstrim.timer", "man-db.timer"]:
        m.text(f"/etc/systemd/system/timers.target.wants/{timer}", "")
    m.program("sshd", "0-3")
    m.grub('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""')
    return m


def pi():
    """A Raspberry Pi 4 with a PREEMPT_RT kernel: isolcpus was set and applied, what was added to cmdline.txt later was not."""
    m = Machine("6.6.31-rt31-v8", "#1 SMP PREEMPT_RT", count=4)
    m.about = "generated: a Raspberry Pi 4 with a PREEMPT_RT kernel and a cmdline.txt that was edited after the last start"
    m.text("/sys/kernel/realtime", "1")
    m.text("/proc/cpuinfo", "processor : 0\nFeatures : fp asimd evtstrm crc32 cpuid\nCPU architecture: 8")
    m.text("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4")
    running = "coherent_pool=1M snd_bcm2835.enable_hdmi=1 console=tty1 rootfstype=ext4 rootwait isolcpus=3"
    m.text("/proc/cmdline", running)
    m.text("/boot/firmware/cmdline.txt", "console=tty1 rootfstype=ext4 rootwait isolcpus=3 rcu_nocbs=3 irqaffinity=0-2 skew_tick=1")
    m.config("/boot/config-6.6.31-rt31-v8", "PREEMPT_RT RCU_NOCB_CPU AUDIT", hz=1000)

    m.topology(siblings=str, smt=None)
    m.text("/sys/devices/system/cpu/isolated", "3")
    m.frequency("performance", 600000, 1500000)
    m.idle([], governor="menu")

    m.sysctl("kernel", sched_autogroup_enabled=1, sched_schedstats=0, hung_task_timeout_secs=120, printk="3 4 1 3")
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=0, watchdog_cpumask="0-3")
    m.sysctl("vm", swappiness=60, nr_hugepages=0, min_free_kbytes=16384, compact_unevictable_allowed=0)
    m.text("/sys/kernel/rcu_normal", "1")
    m.swap(1)
    m.module("pcie_aspm", policy="default performance [powersave] powersupersave")
    # isolcpus takes CPU 3 out of the mask of all unbound work queues; the mask of a single one still shows all CPUs.
    m.text("/sys/devices/virtual/workqueue/cpumask", m.mask("0-2"))
    m.text("/sys/devices/virtual/workqueue/writeback/cpumask", m.mask("0-3"))
    m.debugging(preempt=None, nr_migrate=8, resolution=1)

    m.default_interrupts("0-3")
    for number, name in [(11, "arch_timer"), (31, "eth0"), (39, "mmc0"), (51, "xhci_hcd")]:
        m.interrupt(number, name, "0")
    m.block("mmcblk0", "none [mq-deadline] kyber", 1)
    m.network("eth0", queues=1, node=None, ipv6=0)
    m.directory("/sys/class/ieee80211/phy0")
    m.directory("/sys/class/drm/card0")
    m.text("/sys/bus/usb-serial/devices/ttyUSB0/latency_timer", 16)

    m.kernel_threads("0-3", rcu_priority=1)
    m.kernel_thread("irq/31-eth0", "0", policy=1, priority=50, bound=False)
    m.systemd("0-2", cpuset=None, isolated=None, running=["ssh.service", "avahi-daemon.service"])
    m.program("avahi-daemon", "0-2")
    m.program("sshd", "0-2")
    return m


def no_nohz():
    """A PC for a loop that polls, seen by an ordinary user: nohz_full on the command line of a kernel that is built
    without it, and a GRUB file that was edited since."""
    m = Machine("6.6.30", "#2 SMP PREEMPT", count=6)
    m.about = "generated: a PC with nohz_full given to a kernel that is built without NO_HZ_FULL, and an edited GRUB file"
    m.x86("GenuineIntel", "fpu msr tsc constant_tsc nonstop_tsc tsc_adjust hwp")
    m.clocks("tsc", available="tsc hpet acpi_pm")
    m.text("/proc/cmdline", "quiet nohz_full=3 rcu_nocbs=3 threadirqs audit=0 mitigations=auto")
    m.config("/boot/config-6.6.30", "PREEMPT RCU_NOCB_CPU AUDIT", hz=1000)
    m.text("/sys/kernel/security/lockdown", "[none] integrity confidentiality")

    m.topology(siblings=str, smt="0")
    m.text("/sys/devices/system/cpu/isolated", "")
    m.text("/sys/devices/system/cpu/intel_pstate/no_turbo", "1")
    m.text("/sys/devices/system/cpu/intel_pstate/status", "active")
    m.frequency("performance", 800000, 4400000, preference="performance")
    m.idle([("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 85)], governor="menu", bias="6")

    m.sysctl("kernel", sched_autogroup_enabled=1, sched_schedstats=0)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=1, watchdog_cpumask="0-5", hung_task_timeout_secs=120)
    m.sysctl("vm", swappiness=10, nr_hugepages=0, min_free_kbytes=67584)
    m.usual_memory("madvise", "madvise", ksm=0)
    m.swap(0)
    m.module("pcie_aspm", policy="[default] performance powersave powersupersave")
    m.directory("/sys/firmware/efi")
    m.directory("/sys/class/drm/card0")
    m.text("/sys/devices/virtual/workqueue/efi_runtime/cpumask", m.mask("0-5"))
    m.work_queues("0-5")
    m.refused("/sys/kernel/debug", "look_up")
    for path in ["sched/preempt", "sched/nr_migrate"]:
        m.refused(f"/sys/kernel/debug/{path}", "read")
    for path in ["/sys/kernel/tracing/current_tracer", "/sys/kernel/tracing/events/enable", "/proc/timer_list",
                 "/dev/cpu_dma_latency"]:
        m.refused(path, "read")

    m.default_interrupts("0-5")
    m.interrupt(16, "i801_smbus", "0")
    m.interrupt(130, "eth0", "1")
    for queue in range(7):
        m.interrupt(140 + queue, f"nvme0q{queue}", str(max(queue - 1, 0)))
    m.block("nvme0n1", "[none] mq-deadline", 1)
    m.network("eth0", queues=4, node=None, ipv6=0)

    m.kernel_threads("0-5", rcu_priority=0)
    m.kernel_thread("irq/130-eth0", "1", policy=1, priority=50, bound=False)
    m.systemd("0-5", cpuset=None, isolated=None, running=["irqbalance.service", "multipathd.service"])
    m.text("/etc/default/irqbalance", 'IRQBALANCE_BANNED_CPULIST="3"')
    m.program("irqbalance", "0-5")
    m.program("multipathd", "0-5", threads=[("multipathd", "0-5", 2, 99)])
    m.grub('GRUB_CMDLINE_LINUX_DEFAULT="quiet nohz_full=3 rcu_nocbs=3 isolcpus=managed_irq,domain,3 skew_tick=1"')
    return m


def service():
    """A PC whose loop is a service of systemd that runs as root: capabilities, FIFO 80, everything locked, and the limit of
    idle exit latency held at 0. The kernel has withdrawn the TSC."""
    m = Machine("6.12.30", "#1 SMP PREEMPT_RT Debian", count=4)
    m.about = "generated: a PC whose loop, task 812, is a root service of systemd with capabilities and locked memory"
    m.text("/sys/kernel/realtime", "1")
    m.x86("GenuineIntel", "fpu msr tsc constant_tsc nonstop_tsc")
    m.clocks("hpet", available="hpet acpi_pm")
    m.text("/proc/cmdline", "quiet isolcpus=managed_irq,domain,3 rcu_nocbs=3 rcu_nocb_poll skew_tick=1 irqaffinity=0-2 audit=0")
    m.config("/boot/config-6.12.30", "PREEMPT_RT NO_HZ_FULL RCU_NOCB_CPU AUDIT", hz=1000)
    m.text("/sys/kernel/security/lockdown", "[none] integrity confidentiality")

    m.topology(siblings=str, smt="0")
    m.text("/sys/devices/system/cpu/isolated", "3")
    m.text("/sys/devices/system/cpu/nohz_full", "(null)")
    m.text("/sys/devices/system/cpu/intel_pstate/no_turbo", "1")
    m.text("/sys/devices/system/cpu/intel_pstate/status", "passive")
    m.frequency("performance", 2400000, 2400000)
    m.idle([("POLL", 0), ("C1", 2), ("C6", 133)], governor="menu", bias="0")
    m.latency_request(0)

    m.sysctl("kernel", sched_autogroup_enabled=0, sched_schedstats=0)
    m.sysctl("kernel", watchdog=1, soft_watchdog=1, nmi_watchdog=0, watchdog_cpumask="0-2", hung_task_timeout_secs=600)
    m.sysctl("vm", swappiness=10, nr_hugepages=0, min_free_kbytes=67584, compact_unevictable_allowed=0)
    m.sysctl("kernel", timer_migration=0)
    m.text("/sys/kernel/rcu_normal", "1")
    m.swap(0)
    m.work_queues("0-2")
    m.debugging(preempt=None, nr_migrate=8, resolution=1)

    m.default_interrupts("0-2")
    m.interrupt(16, "i801_smbus", "0")
    m.interrupt(130, "eth0", "2")
    m.block("sda", "[mq-deadline] none", 1)
    m.network("eth0", queues=1, node=None, ipv6=1, power="on")

    m.kernel_threads("0-2", rcu_priority=1)
    m.kernel_thread("irq/130-eth0", "2", policy=1, priority=50, bound=False)
    m.systemd("0-2", cpuset="0-2", isolated="", running=["robot.service"])
    m.program("sshd", "0-2")
    m.loop_of_service(812, "robot", cpu=3, unit="robot.service")
    m.grub('GRUB_CMDLINE_LINUX_DEFAULT="quiet isolcpus=managed_irq,domain,3 rcu_nocbs=3 rcu_nocb_poll skew_tick=1 '
           'irqaffinity=0-2 audit=0"')
    return m


def write(machine, path):
    """The capture's bytes depend on the facts alone."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, text in machine.entries():
            header = tarfile.TarInfo(name)
            header.type, header.mode = (tarfile.DIRTYPE, 0o555) if kind == "directory" else (tarfile.REGTYPE, 0o444)
            header.size = len(text)
            tar.addfile(header, io.BytesIO(text))
    path.write_bytes(gzip.compress(archive.getvalue(), 9, mtime=0))


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    for make in [server, board, rt_pc, laptop, guest, pi, no_nohz, service]:
        place = here / f"{make.__name__}.tar.gz"
        write(make(), place)
        print(f"{place.name}: {place.stat().st_size} bytes")
