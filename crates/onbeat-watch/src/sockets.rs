//! Network interfaces that a process has bound by packet sockets: those of its fieldbus.

use std::collections::HashSet;
use std::fs;

/// Returns the interfaces to which packet sockets of a process are bound, such as those of an
/// EtherCAT master, in the order of their names; none without rights, or where the process has a
/// network of its own.
#[must_use]
pub fn bound_interfaces(pid: i32) -> Vec<String> {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    if network("self").is_none() || network("self") != network(&pid.to_string()) {
        return Vec::new();
    }

    let inodes = sockets(pid);
    let table = fs::read_to_string("/proc/net/packet").unwrap_or_default();
    let bound = bound_to(&table, &inodes);
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
            bound.contains(&index.trim().parse().ok()?).then_some(name)
        })
        .collect();
    names.sort();
    names
}

/// The inodes of the sockets that a process has open.
fn sockets(pid: i32) -> HashSet<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let target = fs::read_link(entry.ok()?.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.filter_map(of).collect()
}

/// From `/proc/net/packet`: the interface is the fifth column, 0 for all of them, the inode the last.
fn bound_to(table: &str, inodes: &HashSet<u64>) -> HashSet<u32> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let inode = words.get(8)?.parse().ok()?;
        let index = words.get(4)?.parse().ok()?;
        (inodes.contains(&inode) && index != 0).then_some(index)
    };
    table.lines().skip(1).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
sk               RefCnt Type Proto  Iface R Rmem   User   Inode
00000000b0f00000 3      3    88a4   4     1 0      0      90210
00000000b0f00800 3      3    0003   0     1 0      0      90211
00000000b0f01000 3      3    88a4   7     1 0      1000   90212
";

    #[test]
    fn the_interfaces_of_its_own_packet_sockets_are_found() {
        let of = |inodes: &[u64]| bound_to(TABLE, &inodes.iter().copied().collect());
        assert_eq!(of(&[90210]), HashSet::from([4]));
        assert_eq!(of(&[90211]), HashSet::new(), "it listens on all of them");
        assert_eq!(of(&[90210, 90212, 5]), HashSet::from([4, 7]));
        assert_eq!(bound_to("", &HashSet::from([90210])), HashSet::new());
        assert_eq!(bound_to("sk\ncut off\n", &HashSet::from([90210])), HashSet::new());
    }

    #[test]
    fn a_process_that_does_not_exist_has_none() {
        assert_eq!(bound_interfaces(i32::MAX), Vec::<String>::new());
    }
}
