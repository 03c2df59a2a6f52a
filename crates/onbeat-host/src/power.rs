//! What keeps CPUs and devices awake, or lets them sleep: who holds the limit of idle exit latency, and
//! which devices the kernel may suspend while the machine runs.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::process::name;

/// The device whose open descriptors limit the exit latency of idle states, all CPUs alike
/// (kernel: `kernel/power/qos.c`).
const DEVICE: &str = "/dev/cpu_dma_latency";
/// What the kernel reads back without a request, in microseconds.
const NO_LIMIT_US: i32 = 2_000_000_000;

/// The limit of idle exit latency in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyLimit {
    /// In microseconds; `None`: no limit.
    pub us: Option<i32>,
    /// Processes that hold the device open, as far as this user may see them, without this one: name
    /// and process. The kernel does not say which of several asks for how much.
    pub holders: Vec<(String, u32)>,
}

impl fmt::Display for LatencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.us {
            Some(us) => write!(f, "{us} µs")?,
            None => f.write_str("no limit")?,
        }
        for (at, (name, pid)) in self.holders.iter().enumerate() {
            write!(f, "{} {name} (pid {pid})", if at == 0 { ", held open by" } else { "," })?;
        }
        Ok(())
    }
}

/// Reads the limit of idle exit latency alone, in microseconds, without looking for who holds it:
/// `Some(None)` is no limit, `None` as [`latency_limit`].
#[must_use]
pub fn latency_bound_us() -> Option<Option<i32>> {
    read_bound(&File::open(DEVICE).ok()?)
}

fn read_bound(mut device: &File) -> Option<Option<i32>> {
    let mut bytes = [0; 4];
    device.read_exact(&mut bytes).ok()?;
    let us = i32::from_ne_bytes(bytes);
    Some((us < NO_LIMIT_US).then_some(us))
}

/// Reads the limit of idle exit latency; `None` where the kernel has none or this user may not read
/// it.
#[must_use]
pub fn latency_limit() -> Option<LatencyLimit> {
    let device = File::open(DEVICE).ok()?;
    let us = read_bound(&device)?;
    Some(LatencyLimit { us, holders: holders(device.metadata().ok()?.rdev()) })
}

/// Returns the processes, this one excepted, that hold a device open, by its number.
fn holders(device: u64) -> Vec<(String, u32)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id();
    let mut found: Vec<(String, u32)> = processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && holds(*pid, device))
        .map(|pid| (name(pid), pid))
        .collect();
    found.sort_unstable_by_key(|(_, pid)| *pid);
    found
}

fn holds(pid: u32, device: u64) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| fs::metadata(descriptor.path()).ok())
        .any(|open| open.rdev() == device)
}

/// A device that the kernel may suspend when it seems idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspendable {
    /// The name that users know: of the network interface, or of the graphics card.
    pub name: String,
    /// Whether it is suspended now.
    pub is_suspended: bool,
}

impl fmt::Display for Suspendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_suspended { " (suspended)" } else { "" })
    }
}

/// Returns the network interfaces and graphics cards below `root` (`/` for this machine) whose
/// `power/control` is `auto`, by name.
#[must_use]
pub fn suspendable(root: &Path) -> Vec<Suspendable> {
    let class = |class: &str| {
        let entries = fs::read_dir(root.join("sys/class").join(class));
        entries.into_iter().flatten().flatten()
    };
    // A card's connectors stand beside it: card0-HDMI-A-1.
    let cards = class("drm").filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with("card") && !name.contains('-'))
    });
    let mut found: Vec<Suspendable> = class("net")
        .chain(cards)
        .filter_map(|entry| {
            let power = entry.path().join("device/power");
            let control = fs::read_to_string(power.join("control")).ok()?;
            let status = fs::read_to_string(power.join("runtime_status")).unwrap_or_default();
            (control.trim() == "auto").then(|| Suspendable {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_suspended: status.trim() == "suspended",
            })
        })
        .collect();
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_holds_a_device_is_named_and_this_one_is_not() {
        let device = fs::metadata("/dev/full").unwrap().rdev();
        let own = File::open("/dev/full").unwrap();
        assert_eq!(holders(device).iter().filter(|(_, pid)| *pid == std::process::id()).count(), 0);

        let full = Stdio::from(File::open("/dev/full").unwrap());
        let mut other = Command::new("sleep").arg("60").stdin(full).spawn().unwrap();
        let pid = other.id();
        let found = holders(device).into_iter().find(|(_, holder)| *holder == pid);
        other.kill().unwrap();
        other.wait().unwrap();
        drop(own);
        // Until it has become `sleep`, it has the name of this test's thread.
        assert!(found.is_some());
    }

    #[test]
    fn the_limit_is_said_with_those_who_hold_it() {
        let limit = |us, holders: &[(&str, u32)]| {
            let holders = holders.iter().map(|(name, pid)| ((*name).to_owned(), *pid)).collect();
            LatencyLimit { us, holders }.to_string()
        };
        assert_eq!(limit(None, &[]), "no limit");
        assert_eq!(limit(Some(0), &[]), "0 µs");
        assert_eq!(
            limit(Some(20), &[("tuned", 812), ("cyclictest", 9_041)]),
            "20 µs, held open by tuned (pid 812), cyclictest (pid 9041)"
        );
    }

    #[test]
    fn devices_that_may_be_suspended_are_those_with_auto() {
        let root = tempfile::tempdir().unwrap();
        let device = |path: &str, control: &str, status: &str| {
            let power = root.path().join("sys/class").join(path).join("device/power");
            fs::create_dir_all(&power).unwrap();
            fs::write(power.join("control"), control).unwrap();
            fs::write(power.join("runtime_status"), status).unwrap();
        };
        device("net/eth0", "on\n", "active\n");
        device("net/eth1", "auto\n", "active\n");
        device("drm/card0", "auto\n", "suspended\n");
        device("drm/card0-HDMI-A-1", "auto\n", "unsupported\n");
        fs::create_dir_all(root.path().join("sys/class/net/lo")).unwrap();

        let found: Vec<String> = suspendable(root.path()).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["card0 (suspended)", "eth1"]);
    }
}
