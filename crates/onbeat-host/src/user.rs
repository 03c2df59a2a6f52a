//! The owner of a process, and whether this one may act on it.
//!
//! File capabilities give a program rights that its user lacks (`setcap cap_sys_nice+ep` lets it
//! move any thread of the machine). onbeat therefore checks the owner against the real user, and
//! not only what the kernel allows.

use std::fs;

use super::process::text;

/// Formats a user as name and number, such as `ann (uid 1000)`; an unknown user as the number
/// alone.
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

/// The real user of a process; `None` when it has ended.
#[must_use]
pub fn owner(pid: i32) -> Option<u32> {
    let status = text(pid, "status").ok()?;
    uids(&status).and_then(|mut uids| uids.next())
}

/// The owner of another user's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its owner: the first of its real, effective and saved user that is not this process's real
    /// one.
    pub owner: u32,
    /// The real user of this process.
    pub user: u32,
}

/// The owner of a process or thread that belongs to another user: this process's real user is not
/// root and differs from its real, effective or saved user. `None` also for a process that does not
/// exist; the caller's next action on it then fails.
#[must_use]
pub fn foreign(pid: i32) -> Option<Foreign> {
    let user = rustix::process::getuid();
    if user.is_root() {
        return None;
    }

    // The owner of /proc/PID would be root for every process with file capabilities, the user's own
    // included.
    let status = text(pid, "status").ok()?;
    let owner = owner_besides(&status, user.as_raw())?;
    Some(Foreign { owner, user: user.as_raw() })
}

/// The first user of a process other than `user`.
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
        let of = |uids: &str| {
            owner_besides(&format!("Name:\tx\nUid:\t{uids}\nGid:\t0\t0\t0\t0\n"), 1000)
        };
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
