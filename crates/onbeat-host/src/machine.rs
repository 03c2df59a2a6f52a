//! Describes this machine: the fingerprint that is stored with every result.
//!
//! Reads `/proc` and `/sys`; changes nothing and needs no privileges. Unknown facts are omitted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::power;
pub use crate::user::{Foreign, foreign, owner, user_name};

/// The names of all facts that [`Host::read`] may find.
pub const FACT_NAMES: [&str; 28] = [
    "BIOS",
    "CPU list",
    "CPU topology",
    "CPUs online",
    "architecture",
    "board",
    "clock",
    "clock source",
    "cpuset",
    "deepest idle state",
    "distribution",
    "frequency governor",
    "hypervisor",
    "idle driver",
    "idle exit latency",
    "image",
    "isolated CPUs",
    "kernel",
    "kernel build",
    "kernel command line",
    "may be suspended",
    "memory",
    "microcode",
    "preemption",
    "processor",
    "real-time budget",
    "system",
    "tick",
];

/// Facts of a machine by name, as shown to users.
///
/// ```
/// use onbeat_host::machine::Host;
///
/// let host = Host::from_facts([("kernel", Some("6.18.3".to_owned())), ("hypervisor", None)]);
/// assert_eq!(host.fact("kernel"), Some("6.18.3"));
/// assert_eq!(host.fact("hypervisor"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Host {
    facts: BTreeMap<String, String>,
}

impl Host {
    /// Reads the facts of this machine.
    #[must_use]
    pub fn read() -> Self {
        let mut host = Self::default();
        let system = rustix::system::uname();
        host.add("kernel", Some(system.release().to_string_lossy().into_owned()));
        host.add("kernel build", Some(system.version().to_string_lossy().into_owned()));
        host.add("architecture", Some(system.machine().to_string_lossy().into_owned()));
        host.add("preemption", Some(preemption(&system.version().to_string_lossy())));
        host.add("tick", Some(format!("{} Hz", 1_000_000_000 / onbeat_rt::sys::tick().every_ns)));
        host.add(
            "distribution",
            field(&file("/etc/os-release"), "PRETTY_NAME=", '\n').map(|name| name.replace('"', "")),
        );
        host.add("image", image(&file("/etc/os-release")));
        host.read_firmware(Path::new("/sys"));
        host.read_processor();
        host.add(
            "clock source",
            trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        );
        host.add("kernel command line", trimmed("/proc/cmdline"));
        host.add("clock", guest_clock(&file("/proc/cmdline")));
        host.add("memory", memory());
        host.add("real-time budget", real_time_budget());
        host.add("hypervisor", hypervisor());
        host.add("cpuset", Some(cpuset_kind().to_owned()));
        host.add("idle exit latency", power::latency_limit().map(|limit| limit.to_string()));
        let suspendable = power::suspendable(Path::new("/"));
        let names: Vec<String> = suspendable.iter().map(ToString::to_string).collect();
        host.add("may be suspended", (!names.is_empty()).then(|| names.join(", ")));

        host
    }

    /// Makes a host of given facts; facts that are `None` are omitted.
    #[must_use]
    pub fn from_facts<'f>(facts: impl IntoIterator<Item = (&'f str, Option<String>)>) -> Self {
        let mut host = Self::default();
        for (name, value) in facts {
            host.add(name, value);
        }
        host
    }

    /// Returns a fact by name.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// Returns all facts, ordered by name.
    pub fn facts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.facts.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a one-line summary: processor, CPUs, kernel, preemption, hypervisor.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let fact = |name| self.fact(name).unwrap_or("unknown");
        let machine =
            self.fact("hypervisor").map_or(String::new(), |name| format!(", a guest of {name}"));
        format!(
            "{}, {} CPUs, Linux {} ({}, {}){machine}",
            fact("processor"),
            fact("CPUs online"),
            fact("kernel"),
            fact("preemption"),
            fact("tick"),
        )
    }

    /// Reads system, board and BIOS by DMI, or the model of a device tree.
    fn read_firmware(&mut self, sys: &Path) {
        let words = |names: [&str; 2]| -> Option<String> {
            let words =
                names.iter().filter_map(|name| stated(&sys.join("class/dmi/id").join(name)));
            let words: Vec<String> = words.collect();
            (!words.is_empty()).then(|| words.join(" "))
        };
        self.add("system", words(["sys_vendor", "product_name"]));
        let model = || stated(&sys.join("firmware/devicetree/base/model"));
        self.add("board", words(["board_vendor", "board_name"]).or_else(model));
        self.add("BIOS", words(["bios_version", "bios_date"]));
    }

    fn read_processor(&mut self) {
        let processor = file("/proc/cpuinfo");
        self.add("processor", processor_name(&processor));
        let microcode = processor.lines().find(|line| line.starts_with("microcode"));
        self.add(
            "microcode",
            microcode.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())),
        );
        self.add("CPUs online", Some(online_cpus().len().to_string()));
        self.add("CPU list", trimmed("/sys/devices/system/cpu/online"));
        let root = Path::new("/sys/devices/system/cpu");
        self.add("CPU topology", crate::idle::topology(root, &online_cpus()));
        self.add(
            "isolated CPUs",
            trimmed("/sys/devices/system/cpu/isolated").filter(|list| !list.is_empty()),
        );
        self.add(
            "frequency governor",
            trimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        );
        self.add("idle driver", trimmed("/sys/devices/system/cpu/cpuidle/current_driver"));
        let deepest = deepest_idle(online_cpus().last().copied().unwrap_or(0));
        self.add(
            "deepest idle state",
            deepest.map(|state| format!("{}, {} ns to leave", state.name, state.exit_ns)),
        );
    }

    fn add(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.facts.insert(name.to_owned(), value);
        }
    }
}

/// The processor's name in `/proc/cpuinfo`; on ARM and RISC-V, where the kernel names none, its cores.
fn processor_name(cpuinfo: &str) -> Option<String> {
    let values = |key: &'static str| {
        let lines = cpuinfo.lines().filter(move |line| line.starts_with(key));
        lines.filter_map(|line| Some(line.split_once(':')?.1.trim()))
    };
    let keys = ["model name", "Model", "Hardware", "uarch"];
    let named = keys.into_iter().find_map(|key| values(key).next().map(str::to_owned));
    named.or_else(|| {
        let mut cores: Vec<String> = Vec::new();
        for (maker, part) in values("CPU implementer").zip(values("CPU part")) {
            let core = arm_core(maker, part)
                .map_or_else(|| format!("core {part} of maker {maker}"), str::to_owned);
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
        (!cores.is_empty()).then(|| cores.join(" and "))
    })
}

/// The name of a core by its maker and part number (`MIDR_EL1`), of computers that robots have.
fn arm_core(maker: &str, part: &str) -> Option<&'static str> {
    Some(match (maker, part) {
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd04") => "Cortex-A35",
        ("0x41", "0xd05") => "Cortex-A55",
        ("0x41", "0xd07") => "Cortex-A57",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd09") => "Cortex-A73",
        ("0x41", "0xd0a") => "Cortex-A75",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd0c") => "Neoverse-N1",
        ("0x41", "0xd0d") => "Cortex-A77",
        ("0x41", "0xd40") => "Neoverse-V1",
        ("0x41", "0xd41") => "Cortex-A78",
        ("0x41", "0xd42") => "Cortex-A78AE",
        ("0x41", "0xd44") => "Cortex-X1",
        ("0x41", "0xd46") => "Cortex-A510",
        ("0x41", "0xd47") => "Cortex-A710",
        ("0x41", "0xd49") => "Neoverse-N2",
        ("0x41", "0xd4b") => "Cortex-A78C",
        ("0x41", "0xd4f") => "Neoverse-V2",
        ("0x41", "0xd80") => "Cortex-A520",
        ("0x41", "0xd81") => "Cortex-A720",
        ("0x4e", "0x003") => "Denver 2",
        ("0x4e", "0x004") => "Carmel",
        _ => return None,
    })
}

/// Returns the online CPUs, from `/sys/devices/system/cpu/online`, or from `/proc/stat` in a container
/// without that file; only CPU 0 if neither can be read.
///
/// ```
/// assert!(!onbeat_host::machine::online_cpus().is_empty());
/// ```
#[must_use]
pub fn online_cpus() -> Vec<u32> {
    let listed = cpu_list(&file("/sys/devices/system/cpu/online"));
    let cpus = if listed.is_empty() { cpus_with_counters(&file("/proc/stat")) } else { listed };
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The CPUs that `/proc/stat` counts for: the online ones.
fn cpus_with_counters(stat: &str) -> Vec<u32> {
    let number = |line: &str| line.strip_prefix("cpu")?.split_once(' ')?.0.parse().ok();
    stat.lines().filter_map(number).collect()
}

/// An idle state of a CPU, from `/sys/devices/system/cpu/cpuN/cpuidle/stateM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub name: String,
    /// Exit latency according to the kernel, in nanoseconds.
    pub exit_ns: u64,
}

/// Returns the idle state of a CPU with the longest exit latency; `None` if the kernel lists none.
#[must_use]
pub fn deepest_idle(cpu: u32) -> Option<IdleState> {
    deepest_idle_below(Path::new("/sys/devices/system/cpu"), cpu)
}

fn deepest_idle_below(cpus: &Path, cpu: u32) -> Option<IdleState> {
    let states = fs::read_dir(cpus.join(format!("cpu{cpu}/cpuidle"))).ok()?.flatten();
    let read = |dir: PathBuf| {
        let text = |name: &str| fs::read_to_string(dir.join(name)).ok();
        let latency_us: u64 = text("latency")?.trim().parse().ok()?;
        Some(IdleState { name: text("name")?.trim().to_owned(), exit_ns: latency_us * 1000 })
    };

    states.filter_map(|entry| read(entry.path())).max_by_key(|state| state.exit_ns)
}

/// Parses a kernel list of CPUs such as `0-2,4`.
///
/// ```
/// assert_eq!(onbeat_host::machine::cpu_list("0-2,4"), [0, 1, 2, 4]);
/// ```
#[must_use]
pub fn cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Whether this kernel is at least `major.minor`.
///
/// ```
/// assert!(onbeat_host::machine::kernel_is_at_least(2, 6));
/// assert!(!onbeat_host::machine::kernel_is_at_least(99, 0));
/// ```
#[must_use]
pub fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// Returns real-time runtime and period of the root group, in microseconds: real-time threads of a
/// CPU may run for the former in each period. `None` without a limit (`-1`) or if it cannot be
/// read.
#[must_use]
pub fn real_time_limit_us() -> Option<(u64, u64)> {
    let runtime: i64 = trimmed("/proc/sys/kernel/sched_rt_runtime_us")?.parse().ok()?;
    let period: u64 = trimmed("/proc/sys/kernel/sched_rt_period_us")?.parse().ok()?;
    Some((u64::try_from(runtime).ok()?, period))
}

/// Whether this kernel has a fair server, which gives ordinary threads 50 ms of each second (Linux
/// 6.12 and later).
#[must_use]
pub fn has_fair_server() -> bool {
    kernel_is_at_least(6, 12)
}

/// Whether RT throttling is on. Since Linux 6.12 only kernels built with `CONFIG_RT_GROUP_SCHED`
/// throttle; where its control files cannot be seen, they are assumed to exist.
#[must_use]
pub fn throttles_real_time() -> bool {
    let limited = real_time_limit_us().is_some_and(|(runtime, period)| runtime < period);
    let v1_cpu = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        .iter()
        .find(|dir| Path::new(dir).exists());
    let groups = v1_cpu.is_none_or(|dir| Path::new(dir).join("cpu.rt_runtime_us").exists());
    limited && (groups || !has_fair_server())
}

fn real_time_budget() -> Option<String> {
    let runtime = trimmed("/proc/sys/kernel/sched_rt_runtime_us")?;
    let period = trimmed("/proc/sys/kernel/sched_rt_period_us")?;
    Some(if runtime == "-1" { "unlimited".to_owned() } else { format!("{runtime} of {period} us") })
}

/// Whether this kernel is built with PREEMPT_RT.
#[must_use]
pub fn is_preempt_rt() -> bool {
    is_real_time(&rustix::system::uname().version().to_string_lossy())
}

fn is_real_time(build: &str) -> bool {
    trimmed("/sys/kernel/realtime").is_some_and(|value| value == "1")
        || build.contains("PREEMPT_RT")
}

fn preemption(build: &str) -> String {
    let real_time = is_real_time(build);
    let words = ["PREEMPT_DYNAMIC", "PREEMPT"];
    if real_time {
        "PREEMPT_RT".to_owned()
    } else {
        words
            .iter()
            .find(|word| build.contains(**word))
            .map_or("no preemption in its name", |word| word)
            .to_owned()
    }
}

/// A text of the firmware; `None` where the maker left what the board's supplier put there.
fn stated(file: &Path) -> Option<String> {
    const UNSTATED: [&str; 6] = [
        "to be filled by o.e.m.",
        "default string",
        "not specified",
        "system product name",
        "none",
        "unknown",
    ];
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
    (!text.is_empty() && !UNSTATED.contains(&text.to_lowercase().as_str())).then_some(text)
}

/// The image that a machine was installed from, by `IMAGE_ID` and `IMAGE_VERSION` of os-release(5).
fn image(os_release: &str) -> Option<String> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        let text = line.trim().trim_matches(['"', '\'']);
        (!text.is_empty()).then(|| text.to_owned())
    };
    match (value("IMAGE_ID"), value("IMAGE_VERSION")) {
        (Some(id), Some(version)) => Some(format!("{id} {version}")),
        (id, version) => id.or(version),
    }
}

/// Returns a number of this machine for runs: 32 hexadecimal digits, the same after a reboot and an update, from which the
/// machine's own id cannot be found. `None` without `/etc/machine-id`; copies of one disk image have the same.
///
/// As machine-id(5) asks of programs that publish it: HMAC-SHA256 of an id of onbeat's with the machine's id as the key, of which the
/// first 128 bits are kept.
#[must_use]
pub fn salted_id() -> Option<String> {
    salted(&trimmed("/etc/machine-id")?)
}

/// As [`salted_id`], for what is compared after a reboot: `None` where the id ends with this boot. On a
/// root file system that it cannot write, systemd keeps the id in `/run/machine-id`.
#[must_use]
pub fn lasting_id() -> Option<String> {
    salted_id().filter(|_| !Path::new("/run/machine-id").exists())
}

fn salted(machine_id: &str) -> Option<String> {
    // Chosen at random, once: with another id of its own, another program has other numbers of the same machine.
    const ONBEAT: [u8; 16] = [
        0x6e, 0x1d, 0x8a, 0x4b, 0x52, 0xc9, 0x4f, 0x37, 0xa3, 0x0e, 0x91, 0xd4, 0x7c, 0x25, 0xbb,
        0x68,
    ];
    let number = u128::from_str_radix(machine_id, 16)
        .ok()
        .filter(|&id| id != 0 && machine_id.len() == 32)?;
    let mut salted = Hmac::<Sha256>::new_from_slice(&number.to_be_bytes()).ok()?;
    salted.update(&ONBEAT);
    let digest = salted.finalize().into_bytes();
    Some(digest[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

fn memory() -> Option<String> {
    let kib: u64 = field(&file("/proc/meminfo"), "MemTotal:", 'k')?.trim().parse().ok()?;
    Some(format!("{:.1} GiB", kib as f64 / 1024.0 / 1024.0))
}

fn hypervisor() -> Option<String> {
    let vendor = trimmed("/sys/class/dmi/id/sys_vendor").filter(|name| !name.is_empty());
    is_guest().then(|| vendor.unwrap_or_else(|| "an unnamed hypervisor".to_owned()))
}

/// Names that only hypervisors give a machine (`detect_vm_dmi_vendor` in systemd's virt.c; vServer:
/// Hetzner).
const VIRTUAL_MACHINES: [&str; 14] = [
    "QEMU",
    "KVM",
    "VMware",
    "VirtualBox",
    "Xen",
    "Bochs",
    "Virtual Machine",
    "Amazon EC2",
    "Apple Virtualization",
    "Google Compute Engine",
    "OpenStack",
    "Parallels",
    "KubeVirt",
    "vServer",
];

/// Whether a firmware names a virtual machine: `names` are `sys_vendor` and `product_name` of DMI.
fn is_virtual(names: &[String]) -> bool {
    // Amazon names its machines without a hypervisor as well: c6g.metal.
    let is_metal = names.iter().any(|name| name.contains(".metal"));
    let is_known = |name: &String| VIRTUAL_MACHINES.iter().any(|known| name.contains(known));
    !is_metal && names.iter().any(is_known)
}

/// Whether this kernel is a guest of a hypervisor: by the processor's flag, and on processors
/// without flags (ARM) by the names that the firmware gives.
#[must_use]
pub fn is_guest() -> bool {
    is_guest_below(Path::new("/"))
}

fn is_guest_below(root: &Path) -> bool {
    let place = |path: &str| root.join(path.trim_start_matches('/'));
    let read = |path: &str| fs::read_to_string(place(path)).ok();
    is_guest_by(read, |path| place(path).exists()).unwrap_or(false)
}

/// Whether a kernel is a guest of a hypervisor, by its files; `None` where none of them shows it.
#[must_use]
pub fn is_guest_by(
    read: impl Fn(&str) -> Option<String>,
    exists: impl Fn(&str) -> bool,
) -> Option<bool> {
    let processor = read("/proc/cpuinfo").unwrap_or_default();
    if let Some(flags) = processor.lines().find(|line| line.starts_with("flags")) {
        return Some(flags.contains(" hypervisor"));
    }

    // Some name themselves in the one, some in the other.
    let names = ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"];
    let names: Vec<String> = names.into_iter().filter_map(&read).collect();
    if is_virtual(&names) || exists("/proc/device-tree/hypervisor") {
        return Some(true);
    }
    // Boards name themselves; QEMU's board for guests is linux,dummy-virt.
    let board = read("/proc/device-tree/model").map(|model| model.contains("dummy-virt"));
    board.or((!names.is_empty()).then_some(false))
}

/// The clock of a guest of `onbeat vm`, by the word `onbeat.clock=` of its kernel command line, or by
/// the agent's environment where that line is on the guest's disk.
fn guest_clock(command_line: &str) -> Option<String> {
    let mut words = command_line.split_ascii_whitespace();
    let word = words.find_map(|word| word.strip_prefix("onbeat.clock=")).map(str::to_owned);
    word.or_else(|| std::env::var("ONBEAT_CLOCK").ok())
}

fn cpuset_kind() -> &'static str {
    let mounts = file("/proc/self/mountinfo");
    let v1 = mounts.lines().any(|line| {
        line.split_once(" - cgroup ")
            .is_some_and(|(_, fs)| fs.split([' ', ',']).any(|option| option == "cpuset"))
    });
    let v2 =
        file("/sys/fs/cgroup/cgroup.controllers").split_whitespace().any(|name| name == "cpuset");
    match (v1, v2) {
        (true, _) => "cgroup v1",
        (false, true) => "cgroup v2",
        (false, false) => "none",
    }
}

fn field(text: &str, after: &str, until: char) -> Option<String> {
    Some(text.split_once(after)?.1.split(until).next()?.to_owned())
}

fn file(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn trimmed(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_list_names_its_cpus() {
        assert_eq!(cpu_list("0-2,4\n"), [0, 1, 2, 4]);
        assert_eq!(cpu_list(""), [] as [u32; 0]);
        let stat = "cpu  31 2 8 900\ncpu0 15 1 4 450\ncpu12 16 1 4 450\nintr 99 0\nctxt 7\n";
        assert_eq!(cpus_with_counters(stat), [0, 12]);
    }

    #[test]
    fn the_deepest_idle_state_is_the_one_that_takes_longest_to_leave() {
        let dir = tempfile::tempdir().unwrap();
        for (number, name, latency) in [(0, "POLL", "0"), (2, "C2", "400"), (1, "C1", "1")] {
            let state = dir.path().join(format!("cpu3/cpuidle/state{number}"));
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join("name"), format!("{name}\n")).unwrap();
            fs::write(state.join("latency"), format!("{latency}\n")).unwrap();
        }

        let deepest = IdleState { name: "C2".to_owned(), exit_ns: 400_000 };
        assert_eq!(deepest_idle_below(dir.path(), 3), Some(deepest));
        assert_eq!(deepest_idle_below(dir.path(), 4), None, "a CPU without idle states of its own");
    }

    #[test]
    fn a_guest_on_arm_is_recognised_by_its_names() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        let is_guest = |vendor: &str, product: &str| {
            put("sys/class/dmi/id/sys_vendor", vendor);
            put("sys/class/dmi/id/product_name", product);
            is_guest_below(root.path())
        };
        put("proc/cpuinfo", "processor : 0\nFeatures : fp asimd\nCPU architecture: 8\n");
        assert!(is_guest("Microsoft Corporation\n", "Virtual Machine\n"));
        assert!(is_guest("Apple Inc.\n", "Apple Virtualization Generic Platform\n"));
        assert!(is_guest("Amazon EC2\n", "c7g.large\n"));
        assert!(!is_guest("Amazon EC2\n", "c6g.metal\n"));
        assert!(!is_guest("NVIDIA\n", "Jetson Orin Nano\n"));
        put("proc/device-tree/model", "linux,dummy-virt\0");
        assert!(is_guest_below(root.path()));
        put("proc/cpuinfo", "flags : fpu tsc\n");
        assert!(!is_guest_below(root.path()), "on x86 the flag decides");
    }

    /// As `/proc/cpuinfo` is on a Jetson Orin, an RK3588, a Raspberry Pi and a StarFive board.
    #[test]
    fn a_processor_that_the_kernel_does_not_name_is_named_by_its_cores() {
        let core = |part: &str| {
            format!(
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: {part}\n\n"
            )
        };
        let name = |text: &str| processor_name(text).unwrap_or_default();
        assert_eq!(name(&core("0xd42").repeat(2)), "Cortex-A78AE");
        assert_eq!(name(&(core("0xd05") + &core("0xd0b"))), "Cortex-A55 and Cortex-A76");
        assert_eq!(name(&core("0xfff")), "core 0xfff of maker 0x41");
        let pi = core("0xd08") + "Revision\t: b03114\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n";
        assert_eq!(name(&pi), "Raspberry Pi 4 Model B Rev 1.4");
        assert_eq!(name("hart\t: 1\nisa\t: rv64imafdc\nuarch\t: sifive,u74-mc\n"), "sifive,u74-mc");
        assert_eq!(name("model\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n"), "Intel(R) Xeon(R)");
        assert_eq!(processor_name(""), None);
    }

    #[test]
    fn firmware_is_named_where_its_maker_has_named_it() {
        let sys = tempfile::tempdir().unwrap();
        let dmi = sys.path().join("class/dmi/id");
        fs::create_dir_all(&dmi).unwrap();
        for (name, text) in [
            ("sys_vendor", "LENOVO\n"),
            ("product_name", "To Be Filled By O.E.M.\n"),
            ("board_name", "20XX\n"),
            ("bios_version", "1.42\n"),
            ("bios_date", "03/09/2026\n"),
        ] {
            fs::write(dmi.join(name), text).unwrap();
        }
        let mut host = Host::default();
        host.read_firmware(sys.path());
        let facts: Vec<_> = host.facts().collect();
        assert_eq!(facts, [("BIOS", "1.42 03/09/2026"), ("board", "20XX"), ("system", "LENOVO")]);
    }

    #[test]
    fn every_fact_of_this_machine_has_a_listed_name() {
        let host = Host::read();
        let unlisted: Vec<_> =
            host.facts().filter(|(name, _)| !FACT_NAMES.contains(name)).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
    }

    #[test]
    fn an_image_is_what_os_release_calls_it() {
        let text = "ID=debian\nIMAGE_ID=walker\nIMAGE_VERSION=\"2026.11\"\n";
        assert_eq!(image(text).as_deref(), Some("walker 2026.11"));
        assert_eq!(image("ID=debian\n"), None);
    }

    #[test]
    fn the_number_of_a_machine_is_one_way_and_stays() {
        let id = salted("0123456789abcdef0123456789abcdef").unwrap();
        // As Python's hmac computes it.
        assert_eq!(id, "229ebab490e27b7878c08975ab9e30b8");
        assert_ne!(id, salted("0123456789abcdef0123456789abcdee").unwrap());
        assert_eq!((salted("uninitialized"), salted("")), (None, None));
    }

    #[test]
    fn this_machine_has_facts_about_kernel_and_cpus() {
        let host = Host::read();
        assert!(host.fact("kernel").is_some_and(|release| release.contains('.')));
        assert_eq!(
            host.fact("CPUs online").map(str::to_owned),
            Some(online_cpus().len().to_string())
        );
        assert!(kernel_is_at_least(2, 6));
    }
}
