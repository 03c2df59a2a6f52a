//! Whose a process is, and whether this one may act on it.
//!
//! File capabilities give a program rights that its user has not (`setcap cap_sys_nice+ep` lets it move any thread of the machine).
//! What onbeat does to other processes therefore goes by their owner and the real user, not by what the kernel would allow.

use std::fs;

/// The name of a user with the number, such as `ann (uid 1000)`; the number alone when there is no such user.
#[must_use]
pub fn user_name(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });

    name.map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

/// The real user of a process; `None` when it is gone.
#[must_use]
pub fn owner(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    uids(&status).and_then(|mut uids| uids.next())
}

/// Somebody else's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its owner: the first of its real, effective and saved user that is not this process's real one.
    pub owner: u32,
    /// The real user of this process.
    pub user: u32,
}

/// The owner of a process or thread, when this process's real user has no business with it: neither is root, nor is each of its real,
/// effective and saved user the same. `None` also when there is no such process: whoever acts on it will find that out.
#[must_use]
pub fn foreign(pid: i32) -> Option<Foreign> {
    let user = rustix::process::getuid();
    if user.is_root() {
        return None;
    }

    // Not the owner of /proc/PID: that is root for each process that runs with file capabilities, the user's own too.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let owner = owner_besides(&status, user.as_raw())?;
    Some(Foreign { owner, user: user.as_raw() })
}

/// Whose process it is besides `user`.
fn owner_besides(status: &str, user: u32) -> Option<u32> {
    uids(status)?.find(|uid| *uid != user)
}

/// Its real, effective and saved user: the first three of four in the line (proc(5)).
fn uids(status: &str) -> Option<impl Iterator<Item = u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    Some(line.split_ascii_whitespace().take(3).filter_map(|uid| uid.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_a_users_own_when_real_effective_and_saved_user_are_the_same() {
        let of = |uids: &str| owner_besides(&format!("Name:\tx\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n"), 1000);
        assert_eq!(of("1000\t1000\t1000\t1000"), None);
        assert_eq!(of("1000\t0\t0\t0"), Some(0), "a program that runs as root for the user");
        assert_eq!(of("1001\t1000\t1000\t1000"), Some(1001));
    }

    #[test]
    fn a_user_is_named_with_the_number_and_an_unknown_one_by_it_alone() {
        assert_eq!(user_name(0), "root (uid 0)");
        assert_eq!(user_name(u32::MAX - 7), "uid 4294967288");
    }
}
