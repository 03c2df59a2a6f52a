//! Where a load may write and run.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::disk;

/// Options of a load: where it may write and run, and which process ends it.
#[derive(Debug)]
pub struct Options {
    /// Directory for the files of the disk part and of stress-ng, on the disk to be loaded.
    pub directory: PathBuf,
    /// Maximum file size of the disk part, in bytes; a tenth of the free space if that is less.
    pub largest_file_bytes: u64,
    /// Start directory of the walk.
    pub walk_from: PathBuf,
    /// CPUs for all parts; `None` for all CPUs of the cpuset except those isolated at boot.
    pub cpus: Option<Vec<usize>>,
    /// The process whose end ends the load; `None` for the current parent.
    pub parent: Option<i32>,
    /// Read end of a pipe: the load ends when the last write end is closed.
    pub parent_pipe: Option<OwnedFd>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: std::env::temp_dir(),
            largest_file_bytes: disk::LARGEST,
            walk_from: PathBuf::from("/"),
            cpus: None,
            parent: None,
            parent_pipe: None,
        }
    }
}
