//! Attributes of running tasks, read and written.

use std::io;

use super::host_files::HostFiles;
use super::task_setting::TaskSetting;

impl TaskSetting {
    /// Reads it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(self, host: &dyn HostFiles, tid: i32) -> io::Result<String> {
        if self == Self::Scheduling {
            return host.scheduling(tid);
        }

        let (file, line) = self.place();
        let text = host.read(&format!("/proc/{tid}/{file}"))?;
        match line {
            None => Ok(text.trim().to_owned()),
            Some(start) => {
                let limits =
                    text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
                let both: Vec<&str> = limits.split_whitespace().take(2).collect();
                if both.len() == 2 {
                    Ok(both.join(" "))
                } else {
                    Err(io::ErrorKind::InvalidData.into())
                }
            }
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for a text that is not a value of it.
    pub fn write(self, host: &dyn HostFiles, tid: i32, value: &str) -> io::Result<()> {
        match self {
            Self::Scheduling => host.set_scheduling(tid, value),
            Self::TimerSlack | Self::OomScore => {
                host.write(&format!("/proc/{tid}/{}", self.place().0), value)
            }
            Self::PriorityLimit
            | Self::LockedMemoryLimit
            | Self::RealTimeLimit
            | Self::CoreLimit => host.set_limit(tid, self, value),
        }
    }
}
