//! Where a load may write and walk.

use std::path::PathBuf;

use super::disk;

/// Options of a load: where it may write and walk.
#[derive(Debug)]
pub struct Options {
    /// Directory for the files of the disk part and of stress-ng, on the disk to be loaded.
    pub directory: PathBuf,
    /// Maximum file size of the disk part, in bytes; a tenth of the free space if that is less.
    pub largest_file_bytes: u64,
    /// Start directory of the walk.
    pub walk_from: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: std::env::temp_dir(),
            largest_file_bytes: disk::LARGEST,
            walk_from: PathBuf::from("/"),
        }
    }
}
