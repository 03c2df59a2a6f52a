//! Access to the kernel's tracing, with private instances.
//!
//! If no tracefs is mounted, one is mounted for this process alone: a detached mount, accessed
//! through its descriptor and gone with it (fsopen(2), fsmount(2), Linux 5.2). An instance has its
//! own buffers, events and filters; the user's tracing is not touched. Its name contains process
//! number and start time of its owner, so that a guard ([`guard_instances_by`]), or the next start,
//! can remove instances of killed processes.

use std::any::Any;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::format::FormatError;
use onbeat_host::process::Stat;

/// The flight recorder cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The process lacks the privilege.
    #[error("kernel tracing is not permitted: {path}: {why}. Run onbeat as root (sudo onbeat ...)")]
    NotPermitted {
        /// The path that was accessed.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The kernel has no tracefs, or refuses to mount it.
    #[error(
        "tracefs cannot be mounted: {why}. Try \"mount -t tracefs tracefs /sys/kernel/tracing\"; a kernel without CONFIG_FTRACE has none, a locked-down kernel (/sys/kernel/security/lockdown) refuses it"
    )]
    NoTracefs {
        /// The system's error.
        why: io::Error,
    },
    /// A file of tracefs could not be read or written.
    #[error("{path}: {why}; this kernel's tracing lacks what the flight recorder needs")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// Events cannot be time-stamped with `CLOCK_MONOTONIC`.
    #[error(
        "this kernel has no trace clock \"mono\" (it has: {clocks}), so its events cannot be joined to the loop's; Linux 4.10 or later has it"
    )]
    NoMonotonicClock {
        /// The available clocks.
        clocks: String,
    },
    /// This process cannot know the thread numbers in events.
    #[error(
        "this process is in a PID namespace of its own (a container), and events name threads by the host's numbers, which cannot be known in here"
    )]
    PidNamespace,
    /// A format description cannot be used.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl TraceError {
    pub(super) fn at(path: &Path, why: io::Error) -> Self {
        let path = path.to_owned();
        match why.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { path, why },
            _ => Self::File { path, why },
        }
    }

    /// Returns the command that grants what is missing, or a comment that says what it takes.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotPermitted { .. } => "sudo onbeat ...",
            Self::PidNamespace => {
                "docker run --pid=host ...    # start the container with the host's process numbers"
            }
            Self::NoTracefs { .. } => "sudo mount -t tracefs tracefs /sys/kernel/tracing",
            Self::File { .. } | Self::NoMonotonicClock { .. } | Self::Format(_) => {
                "# needs a kernel with CONFIG_FTRACE and CONFIG_EVENT_TRACING, Linux 4.10 or later"
            }
        }
    }
}

/// What removes instances of this process when it is killed, as long as it is held.
pub type InstanceGuard = Arc<dyn Any + Send + Sync>;

static START_GUARD: OnceLock<fn() -> Option<InstanceGuard>> = OnceLock::new();

/// Has every later instance of this process guarded by what `start` returns: it is started before
/// the instance is made, and dropped after the instance was removed. The first call counts.
pub fn guard_instances_by(start: fn() -> Option<InstanceGuard>) {
    let _ = START_GUARD.set(start);
}

/// A mounted tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    _mount: Option<OwnedFd>,
}

/// Prefix of the names of onbeat's instances.
const PREFIX: &str = "onbeat-";
/// How long to wait for others to close the files of an instance: longer than a child waits for a
/// CPU on a busy machine.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);

/// The initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
// PROC_PID_INIT_INO of the kernel (include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

impl Tracefs {
    /// Opens the mounted tracefs, or mounts one for this process alone.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::NoTracefs`], [`TraceError::PidNamespace`].
    pub fn open() -> Result<Self, TraceError> {
        if fs::read_link("/proc/self/ns/pid")
            .is_ok_and(|link| link.as_os_str() != FIRST_PID_NAMESPACE)
        {
            return Err(TraceError::PidNamespace);
        }

        if let Some(root) = mounted() {
            let instances = root.join("instances");
            match fs::read_dir(&instances) {
                Ok(_) => return Ok(Self { root, _mount: None }),
                // Something else is mounted over it here: a mount of its own shows it again.
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(TraceError::at(&instances, why)),
            }
        }

        // Mounted for this process alone and seen by nobody else: it goes when the last descriptor
        // is closed, also after kill -9.
        let mount = mount_detached().map_err(|why| match why {
            rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => {
                TraceError::NotPermitted { path: PathBuf::from("tracefs"), why: why.into() }
            }
            other => TraceError::NoTracefs { why: other.into() },
        })?;

        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { root, _mount: Some(mount) })
    }

    /// Returns the path of a file below the root.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Reads a file below the root.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::File`].
    pub fn read(&self, name: &str) -> Result<String, TraceError> {
        let path = self.path(name);
        read_whole(&path).map_err(|why| TraceError::at(&path, why))
    }

    /// Creates an instance.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::File`].
    pub fn create_instance(&self) -> Result<Instance, TraceError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id().cast_signed();
        let start = start_ticks(pid).unwrap_or(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.path("instances").join(format!("{PREFIX}{pid}-{start}-{count}"));
        let guard = START_GUARD.get().and_then(|start| start());
        fs::create_dir(&path).map_err(|why| TraceError::at(&path, why))?;

        Ok(Instance { path, _guard: guard })
    }

    /// Returns the names of all instances, including the user's.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::File`].
    pub fn instances(&self) -> Result<Vec<String>, TraceError> {
        let path = self.path("instances");
        let entries = fs::read_dir(&path).map_err(|why| TraceError::at(&path, why))?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }

    /// Removes instances of onbeat whose owner has ended, and returns their names. The kernel keeps
    /// an instance that is still being read.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::File`] if instances cannot be listed.
    pub fn remove_leftovers(&self) -> Result<Vec<String>, TraceError> {
        let path = self.path("instances");
        let dead = self.instances()?.into_iter().filter(|name| owner_is_dead(name));
        let removed =
            |name: &String| Instance { path: path.join(name), _guard: None }.remove().is_ok();
        Ok(dead.filter(removed).collect())
    }
}

/// A tracefs instance, removed on drop. Readers of its files must be closed first.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    _guard: Option<InstanceGuard>,
}

impl Instance {
    /// Returns the name, `onbeat-PID-START-COUNT`.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of a file of the instance.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes `value` to a file of the instance.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::File`].
    pub fn write(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.path(name);
        let written = fs::File::options().write(true).truncate(true).open(&path);
        written
            .and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(|why| TraceError::at(&path, why))
    }

    /// Reads a file of the instance.
    ///
    /// # Errors
    /// [`TraceError::NotPermitted`], [`TraceError::File`].
    pub fn read(&self, name: &str) -> Result<String, TraceError> {
        let path = self.path(name);
        read_whole(&path).map_err(|why| TraceError::at(&path, why))
    }

    /// Opens the raw pages of a CPU's buffer, to be read by [`read_page`].
    pub(super) fn open_pages(&self, cpu: u32) -> Result<fs::File, TraceError> {
        let path = self.path(&pages_of(cpu));
        let opened = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        opened.map_err(|why| TraceError::at(&path, why))
    }

    fn remove(&self) -> io::Result<()> {
        // Tracing is stopped first, because the kernel takes longer to free a buffer in use.
        let _ = self.write("tracing_on", "0");
        fs::remove_dir(&self.path)
    }

    /// Removes it when no process has a file of it open any more. A child that this process has
    /// just started holds copies of all descriptors until its execve.
    fn remove_when_closed(&self) -> io::Result<()> {
        let since = Instant::now();
        loop {
            match self.remove() {
                Err(why) if is_busy(&why) && since.elapsed() < CLOSED_WITHIN => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                removed => return removed,
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If it cannot be removed now, the next start removes it.
        let _ = self.remove_when_closed();
    }
}

fn pages_of(cpu: u32) -> String {
    format!("per_cpu/cpu{cpu}/trace_pipe_raw")
}

/// Reads the next page of a CPU's buffer, and returns its length; `None` where there is none yet.
pub(super) fn read_page(
    mut pages: &fs::File,
    into: &mut [u8],
    cpu: u32,
) -> Result<Option<usize>, TraceError> {
    loop {
        match pages.read(into) {
            Ok(length) => return Ok(Some(length).filter(|length| *length > 0)),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(TraceError::at(pages_of(cpu).as_ref(), why)),
        }
    }
}

fn is_busy(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::ResourceBusy
}

/// Whether `name` is `onbeat-PID-START-COUNT` and this process no longer exists.
fn owner_is_dead(name: &str) -> bool {
    let numbers = || -> Option<(i32, u64)> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    numbers().is_some_and(|(pid, start)| start_ticks(pid) != Some(start))
}

/// Returns the start time of a process, in clock ticks since boot; `None` if it is gone or a
/// zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    Stat::read(pid).filter(|stat| !stat.is_dead()).map(|stat| stat.start_ticks)
}

/// Reads a file into a buffer larger than the file: some tracefs files return everything to the
/// first read and nothing to the next (`show_header` in kernel/trace/trace_events.c).
fn read_whole(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return String::from_utf8(bytes)
                .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why));
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
}

/// Returns the mount point of tracefs.
fn mounted() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_kind = |kind: &str| {
        let line = mounts.lines().find(|line| {
            line.split_once(" - ").is_some_and(|(_, rest)| rest.split(' ').next() == Some(kind))
        })?;
        line.split(' ').nth(4).map(PathBuf::from)
    };

    // A debugfs contains the same tree, mounted on first access.
    let below_debugfs = || {
        of_kind("debugfs")
            .map(|root| root.join("tracing"))
            .filter(|root| root.join("events").exists())
    };
    of_kind("tracefs").or_else(below_debugfs)
}

fn mount_detached() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_a_leftover_only_if_the_owner_in_its_name_has_ended() {
        let me = std::process::id().cast_signed();
        let start = start_ticks(me).unwrap();
        assert!(!owner_is_dead(&format!("onbeat-{me}-{start}-0")));
        assert!(
            owner_is_dead(&format!("onbeat-{me}-{}-0", start + 1)),
            "the number was used again"
        );
        assert!(owner_is_dead("onbeat-4194305-7-0"), "no process can have this number");
        for foreign in ["onbeat", "onbeat-", "onbeat-x-y", "trace-cmd", "onbeat-12"] {
            assert!(!owner_is_dead(foreign), "{foreign} is not ours");
        }
    }
}
