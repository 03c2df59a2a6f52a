//! Named shared memory objects: creation, opening, takeover and removal.
//!
//! The bus process holds a lock (`flock`) on the object as long as it lives; the kernel releases it
//! when the process dies. So only one of two processes that start concurrently gets the name, and a
//! process that obtains the lock of an existing object knows that its creator is gone.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::{FlockOperation, flock};

use super::abi::{ImageHeader, MAGIC, state};
use super::error::ControlError;
use super::map::Map;
use super::process::Process;

const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "onbeat-";
const LONGEST_NAME: usize = 64;
/// Read and write permission for user and group.
const MODE: u32 = 0o660;
/// Maximum number of attempts, as another process may take or remove the object between two steps.
const MOST_TRIES: u32 = 20;

/// Returns the names of all images, including those of killed bus processes.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(PREFIX).map(str::to_owned))
        .collect()
}

/// Removes the images of killed bus processes; returns their names. Images of living processes are
/// not changed.
pub(super) fn remove_leftover_images() -> Vec<String> {
    names()
        .into_iter()
        .filter(|name| {
            path_of(name).is_ok_and(|path| {
                is_leftover(&path) && retire(&path).is_ok_and(|gone| gone.is_some())
            })
        })
        .collect()
}

/// Checks that the object is an image: other programs may use such names.
fn is_leftover(path: &Path) -> bool {
    let Ok(file) = open_object(path) else { return false };
    header_of(&file).is_ok_and(|map| {
        map.one::<ImageHeader>(0)
            .is_some_and(|header| header.magic.load(Ordering::Acquire) == MAGIC)
    })
}

pub(super) fn path_of(name: &str) -> Result<PathBuf, ControlError> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty()
        || name.len() > LONGEST_NAME
        || name.starts_with('.')
        || !name.chars().all(fits)
    {
        return Err(ControlError::BadName { name: name.to_owned(), most: LONGEST_NAME });
    }
    Ok(Path::new(DIRECTORY).join(format!("{PREFIX}{name}")))
}

pub(super) fn at<'p>(
    what: &'static str,
    path: &'p Path,
) -> impl Fn(io::Error) -> ControlError + 'p {
    move |source| ControlError::System { what, path: path.to_owned(), source }
}

pub(super) fn open_object(path: &Path) -> io::Result<File> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(no_link).open(path)
}

/// Creates an object and locks it; returns its generation too.
pub(super) fn new_object(name: &str, path: &Path) -> Result<(File, u64), ControlError> {
    let mut generation = 1;
    for _ in 0..MOST_TRIES {
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => {
                // Another process may have taken the object for abandoned before it was locked;
                // create it again then.
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                    && is_at(&file, path)
                {
                    file.set_permissions(Permissions::from_mode(MODE))
                        .map_err(at("set the permissions of", path))?;
                    return Ok((file, generation));
                }
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                match retire(path).map_err(at("take over", path))? {
                    Some(last) => generation = generation.max(last + 1),
                    None => return Err(taken(name, path)),
                }
            }
            Err(why) => return Err(at("create", path)(why)),
        }
    }

    Err(taken(name, path))
}

fn taken(name: &str, path: &Path) -> ControlError {
    let map = open_object(path).and_then(|file| header_of(&file));
    let bus = map
        .ok()
        .and_then(|map| Process::from_word(map.one::<ImageHeader>(0)?.bus.load(Ordering::Relaxed)));
    let (pid, process) = bus.map_or((0, String::new()), |bus| (bus.pid(), bus.name()));
    ControlError::Taken { name: name.to_owned(), pid, process }
}

/// Marks the object of a dead bus process as replaced, removes it, and returns its generation; 0 if
/// it is gone, `None` if its process is alive.
fn retire(path: &Path) -> io::Result<Option<u64>> {
    let file = match open_object(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
        opened => opened?,
    };

    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }

    if !may_be_image(&file)? {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it is not an image of a bus; remove it, or use another --name",
        ));
    }

    let map = header_of(&file).ok();
    let header = map.as_ref().and_then(|map| map.one::<ImageHeader>(0));
    if let Some(header) = header {
        // A bus that has ended in order since the file was opened has informed its readers.
        let _ = header.state.compare_exchange(
            state::RUNNING,
            state::REPLACED,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
    if is_at(&file, path) {
        fs::remove_file(path)?;
    }

    Ok(Some(header.map_or(0, |header| header.generation.load(Ordering::Relaxed))))
}

/// Checks that the file is an image, possibly incomplete.
fn may_be_image(file: &File) -> io::Result<bool> {
    let mut first = [0; 8];
    let length = file.read_at(&mut first, 0)?;
    Ok(length == 0 || u64::from_ne_bytes(first) == 0 || u64::from_ne_bytes(first) == MAGIC)
}

pub(super) fn header_of(file: &File) -> io::Result<Map> {
    if file.metadata()?.len() < size_of::<ImageHeader>() as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Map::new(file, size_of::<ImageHeader>())
}

/// Checks that the path still refers to the opened object.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: fs::Metadata, there: fs::Metadata| {
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    };
    file.metadata().and_then(|own| Ok(same(own, fs::symlink_metadata(path)?))).unwrap_or(false)
}
