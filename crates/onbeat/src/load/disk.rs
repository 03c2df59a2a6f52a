//! `disk`: writes one file repeatedly, each time from empty, as `while true; do dd if=/dev/zero
//! of=bigfile bs=1024000 count=1024; done` does (Yoon, Song and Lee, 2009, Figure 5).
//!
//! The file never has a name, so that nothing is left however the load ends. Its size is limited by
//! the free space, which is read again each time.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{OFlags, StatFs, fstatfs, fstatvfs, statfs};

use super::bounds;
use super::builtin::{BuiltIn, WorkerContext};
use super::event::PartWork;
use super::spec::{Load, LoadPart};

/// A block, in bytes, as in the paper.
const BLOCK: usize = 1_024_000;
/// The paper's file, in bytes: 1024 blocks.
pub(super) const LARGEST: u64 = BLOCK as u64 * 1024;
/// Pause between two attempts on a full disk.
const PAUSE: Duration = Duration::from_millis(200);
/// tmpfs and ramfs (statfs(2)): their files are memory.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The directory cannot be written to.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiskError {
    /// The file cannot be created.
    #[error("no file can be created in {}: {why}; give another directory", .directory.display())]
    Create {
        directory: PathBuf,
        /// The reason.
        why: std::io::Error,
    },
    /// The file system is nearly full.
    #[error("only {} MiB are free in {}, and the disk load needs at least {} MiB; give another directory",
            .free >> 20, .directory.display(), bounds::LEAST_FREE >> 20)]
    Full {
        directory: PathBuf,
        /// Bytes free.
        free: u64,
    },
}

/// The storage that is written to: a file, or a fake in tests.
pub(super) trait ScratchFile: Send + Sync {
    fn empty(&self) -> Result<(), std::io::Error>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, std::io::Error>;
    /// Free space in bytes, while the file is empty.
    fn free(&self) -> Result<u64, std::io::Error>;
    fn is_in_memory(&self) -> bool;
}

impl ScratchFile for File {
    fn empty(&self) -> Result<(), std::io::Error> {
        self.set_len(0)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, std::io::Error> {
        FileExt::write_at(self, bytes, offset)
    }

    fn free(&self) -> Result<u64, std::io::Error> {
        let system = fstatvfs(self)?;
        Ok(system.f_bavail * system.f_frsize)
    }

    fn is_in_memory(&self) -> bool {
        fstatfs(self).is_ok_and(|system| is_memory_file_system(&system))
    }
}

fn is_memory_file_system(system: &StatFs) -> bool {
    // The kernel's field is signed on some targets, and never negative.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
    IN_MEMORY.contains(&(system.f_type as u64 & 0xffff_ffff))
}

/// Whether `load` should write to a disk but would write to memory, because `directory` is on a
/// file system in memory.
#[must_use]
pub fn misses_the_disk(load: &Load, directory: &Path) -> bool {
    let writes = load.parts().iter().any(|part| matches!(part, LoadPart::Disk | LoadPart::Paper));
    writes && statfs(directory).is_ok_and(|system| is_memory_file_system(&system))
}

/// Checks that a load can write in `directory`, by creating a nameless file.
///
/// # Errors
/// The system's error if `directory` does not exist, is not a directory or cannot be written to.
pub fn check_directory(directory: &Path) -> Result<(), std::io::Error> {
    nameless(directory).map(|_| ())
}

/// The part, with one thread.
pub(super) struct DiskLoad<S: ScratchFile = File> {
    store: S,
    directory: PathBuf,
    wanted: u64,
    largest: AtomicU64,
    /// The smallest limit that was reported, in bytes.
    reported: AtomicU64,
    written: AtomicU64,
    files: AtomicU64,
    no_space: AtomicU64,
}

impl DiskLoad {
    /// Creates a nameless file in `directory`, of at most `wanted` bytes.
    pub(super) fn open(directory: &Path, wanted: u64) -> Result<Self, DiskError> {
        let file = nameless(directory)
            .map_err(|why| DiskError::Create { directory: directory.to_owned(), why })?;
        Self::on(file, directory, wanted)
    }
}

impl<S: ScratchFile> DiskLoad<S> {
    fn on(store: S, directory: &Path, wanted: u64) -> Result<Self, DiskError> {
        let disk = Self {
            store,
            directory: directory.to_owned(),
            wanted,
            largest: AtomicU64::new(wanted),
            reported: AtomicU64::new(wanted),
            written: AtomicU64::new(0),
            files: AtomicU64::new(0),
            no_space: AtomicU64::new(0),
        };

        let create = |why| DiskError::Create { directory: directory.to_owned(), why };
        match disk.bound(wanted).map_err(create)? {
            Ok(largest) => disk.largest.store(largest, Ordering::Relaxed),
            Err(free) => return Err(DiskError::Full { directory: directory.to_owned(), free }),
        }

        Ok(disk)
    }

    /// Returns the file size for the current free space, or the free space if it is too small.
    fn bound(&self, wanted: u64) -> Result<Result<u64, u64>, std::io::Error> {
        let free = self.store.free()?;
        let wanted =
            if self.store.is_in_memory() { wanted.min(bounds::memory_share()) } else { wanted };
        Ok(bounds::file_bytes(free, wanted).ok_or(free))
    }

    /// Writes the file from empty up to `largest` bytes. Returns the bytes written, and the error
    /// that stopped it.
    fn write_once(
        &self,
        zeros: &[u8],
        largest: u64,
        context: &WorkerContext,
    ) -> (u64, Option<std::io::Error>) {
        let mut at = 0;
        while at < largest && !context.is_over() {
            let block = zeros.len().min(usize::try_from(largest - at).unwrap_or(usize::MAX));
            match self.store.write_at(&zeros[..block], at) {
                Ok(0) => return (at, Some(ErrorKind::StorageFull.into())),
                Ok(count) => at += count as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (at, Some(error)),
            }
        }

        (at, None)
    }

    fn shrink(&self, to: u64, why: &std::io::Error, context: &WorkerContext) {
        self.no_space.fetch_add(1, Ordering::Relaxed);
        self.largest.store(to, Ordering::Relaxed);
        if to < self.reported.fetch_min(to, Ordering::Relaxed) {
            let by = match to {
                0 => "nothing, until there is space again".to_owned(),
                to => format!("a file of at most {} KiB", to >> 10),
            };
            context.smaller(by, format!("in {}: {why}", self.directory.display()));
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Creates a nameless file: with `O_TMPFILE`, or by removing the name at once if the file system
/// does not support it.
fn nameless(directory: &Path) -> Result<File, std::io::Error> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.clone().custom_flags(flags).open(directory).or_else(|_| {
        let name = directory.join(format!(
            ".onbeat-load-{}-{:08x}",
            std::process::id(),
            fastrand::u32(..)
        ));
        let file = options.create_new(true).open(&name)?;
        std::fs::remove_file(&name)?;
        Ok(file)
    })
}

impl<S: ScratchFile> BuiltIn for DiskLoad<S> {
    fn plan(&self) -> String {
        let place = if self.store.is_in_memory() {
            " (a file system in memory: no disk is written to)"
        } else {
            ""
        };
        let largest = self.largest.load(Ordering::Relaxed);
        format!(
            "disk: writes a file of {} MB repeatedly in {}{place}",
            largest / 1_000_000,
            self.directory.display()
        )
    }

    fn threads(&self) -> usize {
        1
    }

    fn work(&self, _: usize, context: &WorkerContext) -> Result<(), std::io::Error> {
        let zeros = vec![0; BLOCK];
        let mut wanted = self.wanted;
        while !context.is_over() {
            self.store.empty()?;
            let largest = match self.bound(wanted)? {
                Ok(largest) => largest,
                Err(_) => {
                    self.shrink(0, &ErrorKind::StorageFull.into(), context);
                    context.pause(PAUSE);
                    continue;
                }
            };

            self.largest.store(largest, Ordering::Relaxed);
            let (reached, error) = self.write_once(&zeros, largest, context);
            self.written.fetch_add(reached, Ordering::Relaxed);
            match error {
                None if reached == largest => _ = self.files.fetch_add(1, Ordering::Relaxed),
                None => {}
                Some(error) if is_full(&error) => {
                    // Three quarters of what fitted, so that other programs find space too.
                    wanted = reached / 4 * 3;
                    self.shrink(wanted, &error, context);
                    if wanted == 0 {
                        wanted = BLOCK as u64;
                        context.pause(PAUSE);
                    }
                }
                Some(error) => return Err(error),
            }
        }

        self.store.empty()
    }

    fn did(&self, _: Duration) -> PartWork {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PartWork::Disk {
            bytes_written: read(&self.written),
            files: read(&self.files),
            largest_file_bytes: read(&self.largest),
            no_space: read(&self.no_space),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::builtin::{ThreadMessage, try_out};
    use std::sync::Arc;

    const SOME: u64 = 3_000_000;

    /// A disk that reports much free space and holds little.
    struct Small {
        holds: u64,
        free: u64,
        most: AtomicU64,
    }

    impl ScratchFile for Arc<Small> {
        fn empty(&self) -> Result<(), std::io::Error> {
            Ok(())
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<usize, std::io::Error> {
            let end = offset + bytes.len() as u64;
            if end > self.holds {
                return Err(ErrorKind::StorageFull.into());
            }

            self.most.fetch_max(end, Ordering::Relaxed);
            // A pause, because a disk that takes no time would be a busy loop.
            std::thread::sleep(Duration::from_micros(100));
            Ok(bytes.len())
        }

        fn free(&self) -> Result<u64, std::io::Error> {
            Ok(self.free)
        }

        fn is_in_memory(&self) -> bool {
            false
        }
    }

    fn small(holds: u64, free: u64) -> Arc<Small> {
        Arc::new(Small { holds, free, most: AtomicU64::new(0) })
    }

    #[test]
    fn the_file_is_written_over_and_over_never_beyond_its_bound_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(DiskLoad::open(directory.path(), SOME).unwrap());
        let watched = disk.clone();
        let (mut looks, mut seen) = (0, 0_u64);
        let (did, words) = try_out(disk, |did| {
            looks += 1;
            seen = seen.max(watched.store.metadata().unwrap().len());
            looks >= 50 && seen > 0 && matches!(did, PartWork::Disk { files: 1.., .. })
        });

        assert!(seen > 0 && seen <= SOME, "{seen}");
        assert!(
            matches!(
                did,
                PartWork::Disk {
                    files: 1..,
                    bytes_written: SOME..,
                    largest_file_bytes: SOME,
                    no_space: 0
                }
            ),
            "{did:?}"
        );
        assert!(words.is_empty() && std::fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_full_disk_is_reported_and_written_with_less() {
        let store = small(5 * BLOCK as u64, u64::MAX);
        let (did, words) = try_out(
            Arc::new(DiskLoad::on(store.clone(), Path::new("/small"), LARGEST).unwrap()),
            |did| matches!(did, PartWork::Disk { files: 1.., .. }),
        );

        assert!(
            matches!(&words[..], [ThreadMessage::Smaller { why, .. }] if why.contains("/small")),
            "{words:?}"
        );
        assert!(
            matches!(did, PartWork::Disk { no_space: 1, files: 1.., largest_file_bytes, .. } if largest_file_bytes < 5 * BLOCK as u64),
            "{did:?}"
        );
        assert!(store.most.load(Ordering::Relaxed) <= 5 * BLOCK as u64);
    }

    #[test]
    fn a_disk_that_accepts_nothing_does_not_crash_the_load() {
        let (did, words) = try_out(
            Arc::new(DiskLoad::on(small(0, u64::MAX), Path::new("/full"), SOME).unwrap()),
            |did| matches!(did, PartWork::Disk { no_space: 1.., .. }),
        );
        assert!(
            matches!(did, PartWork::Disk { bytes_written: 0, no_space: 1.., .. })
                && !words.is_empty(),
            "{did:?}"
        );
    }

    #[test]
    fn a_tenth_of_the_free_space_bounds_the_file_and_a_full_disk_is_refused() {
        let disk = DiskLoad::on(small(u64::MAX, 1_000_000_000), Path::new("/"), LARGEST).unwrap();
        assert_eq!(disk.largest.load(Ordering::Relaxed), 100_000_000);
        let refused = DiskLoad::on(small(u64::MAX, 1 << 20), Path::new("/"), LARGEST)
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains("1 MiB") && refused.contains("64 MiB"), "{refused}");
        assert!(
            DiskLoad::open(Path::new("/nowhere"), SOME)
                .err()
                .unwrap()
                .to_string()
                .contains("/nowhere")
        );
    }
}
