//! Directories in memory, where the machine has such a file system: tests make thousands of files
//! and sync them.
#![allow(unreachable_pub)]

use std::path::Path;

use tempfile::TempDir;

pub fn directory_in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.unwrap()
}
