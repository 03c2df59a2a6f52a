//! The kinds of grants by name, for code that decides by them.

use rustix::fs::StatVfsMountFlags;
use rustix::thread::{CapabilitySet, capability_is_in_bounding_set};
use serde::{Deserialize, Serialize};

use super::Grant;

/// A kind of [`Grant`]. Its name in JSON is [`Grant::what`], which run files and tables show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Privilege {
    /// `SCHED_FIFO` for the loop's thread.
    #[serde(rename = "real-time priority")]
    RealTimePriority,
    /// All memory of the process locked.
    #[serde(rename = "locked memory")]
    LockedMemory,
    /// The loop's thread bound to one CPU.
    #[serde(rename = "CPU affinity")]
    CpuAffinity,
    /// A CPU freed from other tasks and interrupts.
    #[serde(rename = "CPU shield")]
    CpuShield,
    /// A bound on the exit latency of idle states.
    #[serde(rename = "idle-state bound")]
    IdleStateBound,
    /// The flight recorder that explains spikes.
    #[serde(rename = "flight recorder")]
    FlightRecorder,
    /// The counter of time that a hypervisor took.
    #[serde(rename = "steal counter")]
    StealCounter,
}

impl Privilege {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::RealTimePriority,
        Self::LockedMemory,
        Self::CpuAffinity,
        Self::CpuShield,
        Self::IdleStateBound,
        Self::FlightRecorder,
        Self::StealCounter,
    ];

    /// Returns the name that [`Grant::what`] has.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTimePriority => "real-time priority",
            Self::LockedMemory => "locked memory",
            Self::CpuAffinity => "CPU affinity",
            Self::CpuShield => "CPU shield",
            Self::IdleStateBound => "idle-state bound",
            Self::FlightRecorder => "flight recorder",
            Self::StealCounter => "steal counter",
        }
    }

    /// Returns whether a loop without it is another loop: it decides when the loop runs, and not
    /// only what is known of it.
    #[must_use]
    pub const fn changes_the_loop(self) -> bool {
        !matches!(self, Self::FlightRecorder | Self::StealCounter)
    }
}

impl Grant {
    /// Returns the kind of the grant; `None` for kinds that nothing decides by.
    #[must_use]
    pub fn privilege(&self) -> Option<Privilege> {
        Privilege::ALL.into_iter().find(|privilege| privilege.name() == self.what)
    }

    /// Returns why it was refused and what would grant it, as one sentence without a full stop.
    #[must_use]
    pub fn refusal(&self) -> String {
        let why = self.why_not.as_deref().unwrap_or("refused");
        match &self.remedy {
            Some(remedy) => {
                format!("{} ({}): {why}; to grant it: {remedy}", self.what, self.wanted)
            }
            None => format!("{} ({}): {why}", self.what, self.wanted),
        }
    }
}

/// What gives the rights for priority and locked memory: capabilities on the program's file where
/// they help, and those of the process's starter where they do not.
pub(super) fn to_grant() -> String {
    if is_in_user_namespace() {
        return "raise rtprio and memlock of the user who starts this container, in /etc/security/limits.d    \
                # capabilities in a user namespace do not count here"
            .to_owned();
    }
    let wanted = [(CapabilitySet::SYS_NICE, "SYS_NICE"), (CapabilitySet::IPC_LOCK, "IPC_LOCK")];
    let status = crate::process::text("self", "status").unwrap_or_default();
    let is_barred = status
        .lines()
        .any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|flag| flag.trim() == "1"));
    let missing = |capability| !capability_is_in_bounding_set(capability).unwrap_or(true);
    let is_barred = is_barred || wanted.iter().any(|(capability, _)| missing(*capability));
    to_grant_where(is_barred, is_on_nosuid())
}

/// Whether the file system of this program is mounted so that capabilities of its files do not count
/// (mount(8), `nosuid`).
fn is_on_nosuid() -> bool {
    let of_program = rustix::fs::statvfs("/proc/self/exe");
    of_program.is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOSUID))
}

/// Whether this process is in another user namespace than the first, as in a rootless container: for
/// priorities and locked memory the kernel asks for capabilities in the first one
/// (`kernel/sched/syscalls.c`, `mm/mlock.c`: `capable`).
pub(super) fn is_in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !has_all_users(&map))
}

/// Whether a `uid_map` is that of the first user namespace (user_namespaces(7)).
fn has_all_users(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn to_grant_where(is_barred: bool, is_on_nosuid: bool) -> String {
    if is_barred {
        return "start the container with --cap-add=SYS_NICE --cap-add=IPC_LOCK, or the service with \
                AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK    # capabilities on the file do not count here"
            .to_owned();
    }
    let program = super::this_program();
    if is_on_nosuid {
        let path = std::env::current_exe().unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let installed = super::shell_word(&format!("/usr/local/bin/{name}"));
        return format!(
            "sudo install {program} /usr/local/bin && sudo setcap cap_sys_nice,cap_ipc_lock+ep {installed}    \
             # its capabilities do not count where it is, on a file system mounted nosuid"
        );
    }
    format!("sudo setcap cap_sys_nice,cap_ipc_lock+ep {program}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_a_rootless_container_is_not_that_of_the_first_namespace() {
        assert!(has_all_users("         0          0 4294967295\n"));
        assert!(!has_all_users(
            "         0       1000          1\n         1     100000      65536\n"
        ));
        assert!(!has_all_users("         0          0          1\n"));
    }

    #[test]
    fn setcap_is_not_advised_where_the_bounding_set_lacks_the_capability() {
        let plain = to_grant_where(false, false);
        assert!(plain.starts_with("sudo setcap cap_sys_nice,cap_ipc_lock+ep "), "{plain}");
        let nosuid = to_grant_where(false, true);
        assert!(nosuid.contains("setcap cap_sys_nice,cap_ipc_lock+ep /usr/local/bin/"), "{nosuid}");
        let barred = to_grant_where(true, true);
        assert!(barred.contains("--cap-add=SYS_NICE") && !barred.contains("setcap"), "{barred}");
    }

    #[test]
    fn a_name_in_json_is_the_one_that_grants_have() {
        for privilege in Privilege::ALL {
            assert_eq!(serde_json::to_value(privilege).unwrap(), privilege.name());
            assert_eq!(Grant::given(privilege.name(), "").privilege(), Some(privilege));
        }
        assert_eq!(Grant::given("priority of cause analysis", "").privilege(), None);
    }
}
