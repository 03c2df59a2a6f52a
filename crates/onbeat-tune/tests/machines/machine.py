"""The files of a machine, from its facts."""

import json


def cpus(text):
    """The CPUs of `0-2,5`."""
    numbers = []
    for piece in filter(None, text.split(",")):
        first, _, last = piece.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


class Machine:
    about = ""

    def __init__(self, release, build, count):
        self.files, self.directories, self.failed, self.registers = {}, {}, {}, {}
        self.count, self.next_task = count, 1000
        self.text("/proc/version", f"Linux version {release} {build}")
        self.text("/proc/sys/kernel/osrelease", release)
        self.text("/sys/devices/system/cpu/online", f"0-{count - 1}")
        self.text("/proc/pressure/cpu", "")
        for directory in ["/sys/bus/cpu", "/sys/firmware/dmi", "/sys/fs/bpf"]:
            self.directory(directory)
        # What most distributions deliver; a machine's own facts replace it.
        self.sysctl("kernel", timer_migration=1, sched_rt_runtime_us=950000, printk="4 4 1 7")
        self.sysctl("vm", stat_interval=1, overcommit_memory=0, compact_unevictable_allowed=1, compaction_proactiveness=20)
        self.sysctl("vm", dirty_background_ratio=10, dirty_ratio=20)
        self.sysctl("net/core", busy_read=0, busy_poll=0)
        self.text("/sys/kernel/rcu_normal", "0")
        self.module("workqueue", power_efficient="N")
        self.module("rcupdate", rcu_cpu_stall_suppress=0)

    def text(self, path, text):
        self.files[path] = f"{text}\n".encode()

    def directory(self, path, names=()):
        self.directories[path] = [f"{path}/{name}" for name in names]

    def sysctl(self, section, **values):
        for name, value in values.items():
            if value is not None:
                self.text(f"/proc/sys/{section}/{name}", value)
            else:
                self.files.pop(f"/proc/sys/{section}/{name}", None)

    def module(self, module, **parameters):
        for name, value in parameters.items():
            self.text(f"/sys/module/{module}/parameters/{name}", value)

    def mask(self, list_):
        """Hexadecimal in groups of 32 bits, as the kernel writes it."""
        number = sum(1 << cpu for cpu in cpus(list_))
        groups = max(1, (self.count + 31) // 32)
        return ",".join(f"{number >> 32 * group & 0xFFFFFFFF:08x}" for group in reversed(range(groups)))

    def refused(self, path, access):
        """Permission denied (EACCES)."""
        self.failed.setdefault(access, {})[path] = 13

    def x86(self, vendor, flags):
        self.text("/proc/cpuinfo", f"vendor_id\t: {vendor}\nflags\t\t: {flags}")
        self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc")
        for cpu in range(self.count):
            base = f"/sys/devices/system/machinecheck/machinecheck{cpu}"
            self.text(f"{base}/ignore_ce", 0)
            self.text(f"{base}/check_interval", 300)

    def config(self, path, options, hz):
        filler = [f"CONFIG_OPTION_{number}=y" for number in range(200)]
        self.text(path, "\n".join(filler + [f"CONFIG_{option}=y" for option in options.split()] + [f"CONFIG_HZ={hz}"]))

    def topology(self, siblings, smt):
        for cpu in range(self.count):
            self.text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings(cpu))
        if smt is not None:
            self.text("/sys/devices/system/cpu/smt/active", smt)

    def frequency(self, governor, lowest, highest, preference=None):
        for cpu in range(self.count):
            base = f"/sys/devices/system/cpu/cpu{cpu}/cpufreq"
            self.text(f"{base}/scaling_governor", governor)
            self.text(f"{base}/scaling_min_freq", lowest)
            self.text(f"{base}/scaling_max_freq", highest)
            if preference:
                self.text(f"{base}/energy_performance_preference", preference)

    def idle(self, states, governor, bias=None, resume="0"):
        self.text("/sys/devices/system/cpu/cpuidle/current_governor", governor)
        for cpu in range(self.count):
            base = f"/sys/devices/system/cpu/cpu{cpu}"
            for number, (_, latency) in enumerate(states):
                self.text(f"{base}/cpuidle/state{number}/latency", latency)
                self.text(f"{base}/cpuidle/state{number}/disable", 0)
            self.text(f"{base}/power/pm_qos_resume_latency_us", resume)
            if bias is not None:
                self.text(f"{base}/power/energy_perf_bias", bias)

    def register(self, cpu, number, value):
        self.registers.setdefault(f"/dev/cpu/{cpu}/msr", {})[str(number)] = value

    def latency_request(self, microseconds):
        self.registers["/dev/cpu_dma_latency"] = {"0": microseconds}

    def usual_memory(self, thp, defrag, ksm):
        mark = lambda words, chosen: " ".join(f"[{word}]" if word == chosen else word for word in words.split())
        self.text("/sys/kernel/mm/transparent_hugepage/enabled", mark("always madvise never", thp))
        self.text("/sys/kernel/mm/transparent_hugepage/defrag", mark("always defer defer+madvise madvise never", defrag))
        if ksm is not None:
            self.text("/sys/kernel/mm/ksm/run", ksm)

    def swap(self, number):
        self.text("/proc/swaps", "\n".join(["Filename Type Size Used Priority"] + ["swap"] * number))

    def work_queues(self, list_):
        self.text("/sys/devices/virtual/workqueue/cpumask", self.mask(list_))
        self.text("/sys/devices/virtual/workqueue/writeback/cpumask", self.mask(list_))

    def tracing(self, tracer, events, fair_server, nr_migrate, resolution):
        """What root reads below debugfs and tracefs."""
        self.text("/sys/kernel/tracing/current_tracer", tracer)
        self.text("/sys/kernel/tracing/events/enable", events)
        self.text("/sys/kernel/debug/sched/nr_migrate", nr_migrate)
        self.text("/sys/kernel/debug/sched/fair_server/cpu3/runtime", fair_server)
        self.text("/proc/timer_list", f"  .resolution: {resolution} nsecs")

    def clocks(self, current, available):
        base = "/sys/devices/system/clocksource/clocksource0"
        self.text(f"{base}/current_clocksource", current)
        self.text(f"{base}/available_clocksource", available)

    def debugging(self, preempt, nr_migrate, resolution):
        """What root reads below debugfs and tracefs where nothing is traced."""
        self.text("/sys/kernel/tracing/current_tracer", "nop")
        self.text("/sys/kernel/tracing/events/enable", "0")
        self.text("/sys/kernel/debug/sched/nr_migrate", nr_migrate)
        self.text("/proc/timer_list", f"  .resolution: {resolution} nsecs")
        if preempt is not None:
            self.text("/sys/kernel/debug/sched/preempt", preempt)

    def default_interrupts(self, list_):
        self.text("/proc/irq/default_smp_affinity", self.mask(list_))

    def interrupt(self, number, handlers, effective):
        self.text(f"/sys/kernel/irq/{number}/actions", handlers)
        self.text(f"/proc/irq/{number}/effective_affinity_list", effective)

    def block(self, name, scheduler, rq_affinity):
        self.text(f"/sys/block/{name}/queue/scheduler", scheduler)
        self.text(f"/sys/block/{name}/queue/rq_affinity", rq_affinity)

    def network(self, name, queues, node, ipv6, flush=0, defer=0, power="auto"):
        base = f"/sys/class/net/{name}"
        for queue in range(queues):
            self.text(f"{base}/queues/rx-{queue}/rps_cpus", self.mask(""))
        self.text(f"{base}/queues/tx-0/xps_cpus", self.mask(""))
        self.text(f"{base}/threaded", 0)
        self.text(f"{base}/gro_flush_timeout", flush)
        self.text(f"{base}/napi_defer_hard_irqs", defer)
        self.text(f"{base}/device/power/control", power)
        self.text(f"{base}/device/numa_node", -1 if node is None else node)
        self.text(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", ipv6)

    def stat(self, task, name, flags, policy, priority):
        zeros = lambda number: " ".join(["0"] * number)
        return f"{task} ({name}) S 1 1 1 0 -1 {flags} {zeros(30)} {priority} {policy} {zeros(11)}"

    def thread(self, process, task, name, list_, flags, policy, priority):
        stat = self.stat(task, name, flags, policy, priority)
        self.text(f"/proc/{process}/task/{task}/stat", stat)
        if task in (1, 2):
            self.text(f"/proc/{task}/stat", stat)
        self.text(f"/proc/{task}/status", f"Cpus_allowed_list:\t{list_}")

    def kernel_thread(self, name, list_, policy=0, priority=0, bound=False, task=None):
        task = task or self.new_task()
        self.thread(task, task, name, list_, 0x200000 | (0x4000000 if bound else 0), policy, priority)

    def kernel_threads(self, unbound, rcu_priority):
        """Those of each CPU, which no one moves, and some that may run on the CPUs of a list."""
        self.kernel_thread("kthreadd", unbound, task=2)
        for name in ["rcu_preempt", "kcompactd0", "oom_reaper"]:
            self.kernel_thread(name, unbound, 1 if rcu_priority else 0, rcu_priority)
        for cpu in range(self.count):
            self.kernel_thread(f"migration/{cpu}", cpu, 1, 99, bound=True)
            self.kernel_thread(f"ksoftirqd/{cpu}", cpu, bound=True)
            self.kernel_thread(f"kworker/{cpu}:0", cpu, bound=True)

    def new_task(self):
        self.next_task += 1
        return self.next_task

    def program(self, name, list_, threads=()):
        process = self.new_task()
        self.thread(process, process, name, list_, 0x400000, 0, 0)
        for thread, its_list, policy, priority in threads:
            self.thread(process, self.new_task(), thread, its_list, 0x400000, policy, priority)

    def loop_of_service(self, task, name, cpu, unit):
        """A loop that is the first thread of a root service: all capabilities, FIFO 80, all memory locked, the limits of a
        service without any of its own, and an ordinary thread beside it."""
        self.thread(task, task, name, cpu, 0x400000, 1, 80)
        self.text(f"/proc/{task}/stat", self.stat(task, name, 0x400000, 1, 80))
        self.text(f"/proc/{task}/status", "\n".join([
            f"Name:\t{name}", "VmLck:\t   41200 kB", "VmRSS:\t   18432 kB", "CapEff:\t000001ffffffffff", f"Cpus_allowed_list:\t{cpu}"]))
        limits = [("Max core file size", "0", "unlimited", "bytes"), ("Max locked memory", "8388608", "8388608", "bytes"),
                  ("Max realtime priority", "0", "0", ""), ("Max realtime timeout", "unlimited", "unlimited", "us")]
        head = f"{'Limit':<25} {'Soft Limit':<20} {'Hard Limit':<20} Units"
        self.text(f"/proc/{task}/limits", "\n".join([head] + [f"{limit:<25} {soft:<20} {hard:<20} {units}" for limit, soft, hard, units in limits]))
        self.text(f"/proc/{task}/timerslack_ns", 50000)
        self.text(f"/proc/{task}/oom_score_adj", 0)
        self.text(f"/proc/{task}/cgroup", f"0::/system.slice/{unit}")
        for group in ["system.slice", f"system.slice/{unit}"]:
            self.text(f"/sys/fs/cgroup/{group}/memory.high", "max")
        self.thread(task, task + 1, f"{name}-log", "0-2", 0x400000, 0, 0)

    def systemd(self, init, cpuset, isolated, running):
        """systemd with the unified hierarchy; `cpuset` are the CPUs of its slices, None without the controller there."""
        self.thread(1, 1, "systemd", init, 0x400000, 0, 0)
        self.directory("/run/systemd/system")
        self.text("/proc/self/mountinfo", "25 1 8:1 / / rw,relatime - ext4 device rw\n"
                  "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
        self.text("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids")
        if isolated is not None:
            self.text("/sys/fs/cgroup/cpuset.cpus.isolated", isolated)
        self.directory("/sys/fs/cgroup/system.slice", running)
        for group in ["system.slice", "user.slice", "init.scope"] if cpuset else []:
            self.text(f"/sys/fs/cgroup/{group}/cpuset.cpus.effective", cpuset)
        self.directory("/etc/systemd/system")
        wants = "/etc/systemd/system/multi-user.target.wants"
        self.directory(wants)
        for unit in running:
            self.text(f"{wants}/{unit}", "")

    def grub(self, text=""):
        self.text("/etc/default/grub", text)

    def entries(self):
        """Name, kind and bytes of each entry of the archive, the manifest first."""
        about = {"schema": "onbeat.capture/1", "about": self.about, "is_complete": True}
        about |= {"failed": self.failed, "registers": self.registers}
        yield "capture.json", "file", json.dumps(about, indent=1, sort_keys=True).encode()
        directories = set(self.directories)
        for inside in self.directories.values():
            directories |= set(inside)
        paths = sorted(set(self.files) | directories)
        for path in paths:
            kind = "file" if path in self.files else "directory"
            yield path.lstrip("/"), kind, self.files.get(path, b"")
