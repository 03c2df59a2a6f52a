//! Limits of a load: shares of the resources that are free when it starts.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A built-in load takes at most this share of the available memory, and of the free disk space
/// (one tenth).
const SHARE: u64 = 10;
const MIB: u64 = 1 << 20;

/// Maximum memory of the `memory` part, in bytes.
const MOST_BUFFER: u64 = 256 * MIB;
/// Minimum memory of the `memory` part if more is available, in bytes.
const LEAST_BUFFER: u64 = 32 * MIB;
/// A file system with less free space than this, in bytes, is not written to.
pub(super) const LEAST_FREE: u64 = 64 * MIB;

/// Returns the available memory, in bytes: the smaller of the kernel's estimate `MemAvailable` and
/// the memory left in the control groups (v2) of this process; 0 if unknown.
pub(super) fn available_memory() -> u64 {
    let of_machine =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| field_kib(&text, "MemAvailable:"));
    let of_groups =
        fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| left_in_groups(&text));
    of_machine.unwrap_or(0).min(of_groups.unwrap_or(u64::MAX))
}

fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn left_in_groups(cgroups: &str) -> Option<u64> {
    let own = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    root.join(own)
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(|group| {
            let most = number(&group.join("memory.max"))?;
            Some(most.saturating_sub(number(&group.join("memory.current")).unwrap_or(0)))
        })
        .min()
}

/// Returns the memory that a part may use, in bytes: a tenth of the available memory.
pub(super) fn memory_share() -> u64 {
    available_memory() / SHARE
}

/// Returns the total buffer size of the `memory` part, in bytes: four times the last-level cache,
/// within the limits.
pub(super) fn buffer_bytes(available: u64, last_level_cache: u64) -> u64 {
    (4 * last_level_cache).clamp(LEAST_BUFFER, MOST_BUFFER).min(available / SHARE)
}

/// Returns the maximum file size for a file system with `free` bytes of free space; `None` if it is
/// too full.
pub(super) fn file_bytes(free: u64, wanted: u64) -> Option<u64> {
    (free >= LEAST_FREE).then(|| wanted.min(free / SHARE))
}

/// Returns the size of the last-level cache of CPU 0, in bytes; 0 if unknown.
pub(super) fn last_level_cache() -> u64 {
    let indices =
        fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
    indices
        .filter_map(|index| {
            let read = |name| fs::read_to_string(index.path().join(name)).ok();
            let level: u32 = read("level")?.trim().parse().ok()?;
            Some((level, size_with_unit(read("size")?.trim())?))
        })
        .max()
        .map_or(0, |(_, size)| size)
}

fn size_with_unit(size: &str) -> Option<u64> {
    let (digits, unit) =
        size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
    let number: u64 = digits.parse().ok()?;
    match unit {
        "" => Some(number),
        "K" => Some(number << 10),
        "M" => Some(number << 20),
        "G" => Some(number << 30),
        _ => None,
    }
}

/// Returns how many of `wanted` items of size `each` fit into `available`, at least one.
pub(super) fn fit(wanted: u64, each: u64, available: u64) -> u64 {
    wanted.min(available / each.max(1)).max(1)
}

/// Raises the limit of open descriptors to the hard limit, and returns it.
pub(super) fn most_descriptors() -> u64 {
    let now = getrlimit(Resource::Nofile);
    // If it is refused, the old limit stays in force, which is read below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_at_most_a_tenth_of_the_free_space_and_none_of_a_full_disk() {
        assert_eq!(file_bytes(100 * MIB, 1000 * MIB), Some(10 * MIB));
        assert_eq!(file_bytes(100_000 * MIB, 1000 * MIB), Some(1000 * MIB));
        assert_eq!(file_bytes(LEAST_FREE - 1, 1000 * MIB), None);
    }

    #[test]
    fn buffers_exceed_the_cache_unless_memory_is_short() {
        assert_eq!(buffer_bytes(u64::MAX, 8 * MIB), 32 * MIB);
        assert_eq!(buffer_bytes(u64::MAX, 32 * MIB), 128 * MIB);
        assert_eq!(buffer_bytes(u64::MAX, 512 * MIB), 256 * MIB);
        assert_eq!(buffer_bytes(200 * MIB, 32 * MIB), 20 * MIB);
    }

    #[test]
    fn kernel_sizes_are_read_with_their_units() {
        assert_eq!(size_with_unit("32768K"), Some(32 * MIB));
        assert_eq!(size_with_unit("2M"), Some(2 * MIB));
        assert_eq!(size_with_unit("x"), None);
        assert_eq!(
            field_kib("MemTotal: 5 kB\nMemAvailable:   12 kB\n", "MemAvailable:"),
            Some(12 * 1024)
        );
    }

    #[test]
    fn this_machine_says_how_much_memory_is_available() {
        assert!(available_memory() > 0);
        assert!(most_descriptors() >= 256);
    }
}
