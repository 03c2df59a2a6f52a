//! `walk`: reads the metadata of every file of one file system repeatedly, like `du -s`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::builtin::{BuiltIn, WorkerContext};
use super::event::PartWork;

/// Pause between two walks, so that an empty tree is not a busy loop.
const PAUSE: Duration = Duration::from_millis(1);

/// The part, with one thread.
pub(super) struct WalkLoad {
    root: PathBuf,
    device: u64,
    files: AtomicU64,
    walks: AtomicU64,
    unreadable: AtomicU64,
}

impl WalkLoad {
    /// Makes the part for the tree below `root`, without other file systems.
    pub(super) fn new(root: PathBuf) -> Result<Self, std::io::Error> {
        let device = fs::symlink_metadata(&root)?.dev();
        let count = || AtomicU64::new(0);
        Ok(Self { root, device, files: count(), walks: count(), unreadable: count() })
    }

    fn walk_once(&self, context: &WorkerContext) {
        let mut directories = vec![self.root.clone()];
        while let Some(directory) = directories.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                self.unreadable.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            for entry in entries.flatten() {
                if context.is_over() {
                    return;
                }

                // Files may disappear during the walk; these are not counted.
                let Ok(metadata) = entry.metadata() else { continue };
                self.files.fetch_add(1, Ordering::Relaxed);
                if metadata.is_dir() && metadata.dev() == self.device && !is_kernels(&entry.path())
                {
                    directories.push(entry.path());
                }
            }
        }

        self.walks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether `path` is a tree of the kernel. If it is mounted in an unusual way, the device does not
/// show it.
fn is_kernels(path: &std::path::Path) -> bool {
    path == std::path::Path::new("/proc") || path == std::path::Path::new("/sys")
}

impl BuiltIn for WalkLoad {
    fn plan(&self) -> String {
        format!("walk: metadata of every file below {} on its file system", self.root.display())
    }

    fn threads(&self) -> usize {
        1
    }

    fn work(&self, _: usize, context: &WorkerContext) -> Result<(), std::io::Error> {
        while !context.is_over() {
            self.walk_once(context);
            context.pause(PAUSE);
        }
        Ok(())
    }

    fn did(&self, _: Duration) -> PartWork {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        PartWork::Walk {
            files: read(&self.files),
            walks: read(&self.walks),
            unreadable: read(&self.unreadable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::builtin::try_out;
    use std::sync::Arc;

    #[test]
    fn every_file_is_looked_at_and_links_are_not_followed() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("a/b")).unwrap();
        fs::write(tree.path().join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink("..", tree.path().join("a/up")).unwrap();
        let (did, words) =
            try_out(Arc::new(WalkLoad::new(tree.path().to_owned()).unwrap()), |did| {
                matches!(did, PartWork::Walk { walks: 20.., .. })
            });
        let PartWork::Walk { files, walks, unreadable: 0 } = did else { panic!("{did:?}") };

        assert!(walks > 0 && (4 * walks..=4 * walks + 4).contains(&files), "{did:?}");
        assert!(words.is_empty(), "{words:?}");
    }
}
