//! Files of rings of frames: `NAME.frames` in a checked directory, as those of other rings.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use onbeat_host::foreign::{Opening, TrustedOwner};
use onbeat_host::runtime_dir::RuntimeDir;
use rustix::fs::{FlockOperation, flock};

use super::error::FrameError;
use super::format::{FrameFormat, FrameOffsets, MAGIC, VERSION, word};
use crate::place::check_name;
use crate::process::Process;
use crate::ring_error::RingError;
use crate::ring_file::{HeaderWords, MODE, MOST_BYTES, create_locked, memory_of, retire};
use crate::ring_object::state;

const SUFFIX: &str = ".frames";
/// The next ring of a camera, until it takes the name of the one before.
const NEXT_SUFFIX: &str = ".frames-next";

pub(super) fn file_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

pub(super) fn checked(name: &str) -> Result<(), FrameError> {
    check_name(name).map_err(|_| FrameError::BadName { name: name.to_owned() })
}

/// A file that passed the checks and begins as a ring of frames does.
#[derive(Debug)]
pub(super) struct OpenedFrames {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) header: HeaderWords,
}

impl OpenedFrames {
    /// Returns the offsets, checked against each other and against the memory of the file.
    pub(super) fn offsets(&self, name: &str) -> Result<FrameOffsets, FrameError> {
        let theirs = self.header.load(word::VERSION);
        if theirs != VERSION {
            let name = name.to_owned();
            return Err(FrameError::OtherVersion { name, theirs, ours: VERSION });
        }
        let offsets = FrameOffsets::from_header(&self.header).ok_or(FrameError::NotFrames {
            path: self.path.clone(),
            why: "the sizes in its header contradict each other",
        })?;
        let bytes = offsets.total as u64;
        match memory_of(&self.file).map_err(FrameError::system("look at", &self.path))? {
            held if held < bytes => {
                Err(FrameError::Incomplete { path: self.path.clone(), bytes, held })
            }
            _ => Ok(offsets),
        }
    }
}

/// Opens the ring of a camera; `None` while its writer is creating it.
pub(super) fn open(name: &str) -> Result<Option<OpenedFrames>, FrameError> {
    checked(name)?;
    for directory in RuntimeDir::existing_in_memory()? {
        match open_in(&directory, name) {
            Err(FrameError::NoCamera { .. }) => {}
            opened => return opened,
        }
    }
    Err(FrameError::NoCamera { name: name.to_owned() })
}

fn open_in(directory: &RuntimeDir, name: &str) -> Result<Option<OpenedFrames>, FrameError> {
    let file_name = file_of(name);
    let path = directory.path().join(&file_name);
    let opening = Opening::found(TrustedOwner::OwnOrRoot).at_most(MOST_BYTES);
    let file = match directory.open_file(&file_name, &opening) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return Err(FrameError::NoCamera { name: name.to_owned() });
        }
        opened => opened.map_err(FrameError::system("open", &path))?,
    };
    let header = match HeaderWords::read(&file) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        header => header.map_err(FrameError::system("read", &path))?,
    };
    match header.load(word::MAGIC) {
        0 => Ok(None),
        MAGIC => Ok(Some(OpenedFrames { file, path, header })),
        _ => Err(FrameError::NotFrames { path, why: "it begins with other bytes" }),
    }
}

/// A camera as its header describes it, read once.
#[derive(Debug)]
pub struct FoundCamera {
    /// Its name.
    pub name: String,
    /// What its pictures look like.
    pub format: FrameFormat,
    /// Number of the newest picture.
    pub newest: u64,
    /// Process id and name of the writer; the name is empty if it is gone.
    pub writer: (u32, String),
    /// Whether the writer lives.
    pub is_alive: bool,
}

/// Returns the cameras that this user finds, in order, and why files with the name of one are ignored.
///
/// # Errors
/// [`FrameError::Directory`], [`FrameError::File`]: a directory cannot be used.
pub fn cameras() -> Result<(Vec<FoundCamera>, Vec<FrameError>), FrameError> {
    let (mut found, mut ignored): (Vec<FoundCamera>, _) = (Vec::new(), Vec::new());
    for directory in RuntimeDir::existing_in_memory()? {
        let names = directory.names().map_err(FrameError::system("list", directory.path()))?;
        let names = names.iter().filter_map(|file| file.strip_suffix(SUFFIX));
        for name in names.filter(|name| check_name(name).is_ok()) {
            if found.iter().any(|known| known.name == name) {
                continue;
            }
            match found_in(&directory, name) {
                Ok(camera) => found.extend(camera),
                Err(FrameError::NoCamera { .. }) => {}
                Err(why) => ignored.push(why),
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((found, ignored))
}

fn found_in(directory: &RuntimeDir, name: &str) -> Result<Option<FoundCamera>, FrameError> {
    let Some(opened) = open_in(directory, name)? else { return Ok(None) };
    let offsets = opened.offsets(name)?;
    let writer = opened.header.writer();
    Ok(Some(FoundCamera {
        name: name.to_owned(),
        format: offsets.format,
        newest: opened.header.load(word::NEWEST),
        is_alive: opened.header.load(word::STATE) == state::RUNNING
            && writer.is_some_and(Process::is_alive),
        writer: Process::described(writer),
    }))
}

/// The file of a camera that this process has created and holds the lock of.
#[derive(Debug)]
pub(super) struct OwnFrames {
    directory: RuntimeDir,
    name: String,
    pub(super) file: File,
}

impl OwnFrames {
    /// Takes the name of a camera; returns the generation too. The ring of a dead writer is replaced.
    pub(super) fn create(name: &str) -> Result<(Self, u64), FrameError> {
        checked(name)?;
        let directory = RuntimeDir::own_in_memory()?;
        match create_locked(&directory, &file_of(name), MAGIC)? {
            Some((file, generation)) => {
                Ok((Self { directory, name: name.to_owned(), file }, generation))
            }
            None => Err(taken(&directory, name)),
        }
    }

    /// Creates the file of the next ring beside this one. [`OwnFrames::take_name`] gives it the name.
    pub(super) fn next(&self) -> Result<Self, FrameError> {
        let (directory, file_name) = (RuntimeDir::own_in_memory()?, self.next_name());
        // One that a killed camera of this name has left; its name is this process's now.
        let _ = directory.remove(&file_name);
        let path = directory.path().join(&file_name);
        let file = directory.create_file(&file_name, MODE);
        let file = file.map_err(FrameError::system("create", &path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|why| FrameError::system("lock", &path)(why.into()))?;
        Ok(Self { directory, name: self.name.clone(), file })
    }

    fn next_name(&self) -> String {
        format!("{}{NEXT_SUFFIX}", self.name)
    }

    /// Gives the file of [`OwnFrames::next`] the name of the camera: readers that open it find the ring
    /// before, or this one.
    pub(super) fn take_name(&self) -> Result<(), FrameError> {
        self.directory
            .rename(&self.next_name(), &file_of(&self.name))
            .map_err(FrameError::system("replace", self.path()))
    }

    pub(super) fn remove_next(&self) {
        let _ = self.directory.remove(&self.next_name());
    }

    pub(super) fn directory(&self) -> &RuntimeDir {
        &self.directory
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(file_of(&self.name))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Removes the file, unless another one has its name.
    pub(super) fn remove(&self) {
        let file_name = file_of(&self.name);
        if self.directory.leads_to(&file_name, &self.file) {
            // If it cannot be removed, the next camera of this name replaces it.
            let _ = self.directory.remove(&file_name);
        }
    }
}

fn taken(directory: &RuntimeDir, name: &str) -> FrameError {
    let writer = open_in(directory, name).ok().flatten().and_then(|it| it.header.writer());
    let (pid, process) = Process::described(writer);
    FrameError::Taken { name: name.to_owned(), pid, process }
}

/// Removes the rings of killed cameras; returns their names. Those of living ones and of other users are
/// not changed.
#[must_use]
pub fn remove_leftovers() -> Vec<String> {
    let mut removed = Vec::new();
    for directory in RuntimeDir::existing_in_memory().unwrap_or_default() {
        for file in directory.names().unwrap_or_default() {
            let of = file.strip_suffix(SUFFIX).or_else(|| file.strip_suffix(NEXT_SUFFIX));
            let Some(name) = of.filter(|name| check_name(name).is_ok()) else { continue };
            if matches!(retire(&directory, &file, MAGIC, state::RUNNING), Ok(Some(_)))
                && file.ends_with(SUFFIX)
            {
                removed.push(format!("camera {name}"));
            }
        }
    }
    removed
}

/// Checks that the file of a mapped ring has all its memory.
pub(super) fn is_whole(file: &File, bytes: usize) -> bool {
    memory_of(file).map_or(true, |held| held >= bytes as u64)
}

/// Returns the error for a file without memory for a ring.
pub(super) fn no_room(directory: &RuntimeDir, needed: usize, why: io::Error) -> FrameError {
    let path: &Path = directory.path();
    if matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        let (path, free) = (path.to_owned(), directory.free_bytes());
        return FrameError::NoRoom { path, free, needed: needed as u64 };
    }
    FrameError::File(RingError::System {
        what: "find memory in",
        path: path.to_owned(),
        source: why,
    })
}
