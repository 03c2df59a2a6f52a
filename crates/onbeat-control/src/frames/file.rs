//! Files of rings of frames: `NAME.frames` in a checked directory, as those of other rings.

use std::fs::File;
use std::io;
use std::path::Path;

use onbeat_host::runtime_dir::RuntimeDir;

use super::error::FrameError;
use super::format::{FrameFormat, FrameOffsets, MAGIC, VERSION, word};
use crate::place::check_name;
use crate::process::Process;
use crate::ring_file::{OpenedRing, OwnRing, at, memory_of, open_file, retire};
use crate::ring_object::state;

const SUFFIX: &str = ".frames";
/// The next ring of a camera, until it takes the name of the one before.
const NEXT_SUFFIX: &str = ".frames-next";

pub(super) fn file_of(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

fn checked(name: &str) -> Result<(), FrameError> {
    check_name(name).map_err(|_| FrameError::BadName { name: name.to_owned() })
}

/// Returns the offsets of a ring, checked against each other and against the memory of the file.
pub(super) fn offsets_of(ring: &OpenedRing, name: &str) -> Result<FrameOffsets, FrameError> {
    let theirs = ring.header.load(word::VERSION);
    if theirs != VERSION {
        let name = name.to_owned();
        return Err(FrameError::OtherVersion { name, theirs, ours: VERSION });
    }
    let offsets = FrameOffsets::from_header(&ring.header).ok_or_else(|| FrameError::NotFrames {
        path: ring.path.clone(),
        why: "the sizes in its header contradict each other",
    })?;
    let bytes = offsets.total as u64;
    match memory_of(&ring.file).map_err(at("look at", &ring.path))? {
        held if held < bytes => {
            Err(FrameError::Incomplete { path: ring.path.clone(), bytes, held })
        }
        _ => Ok(offsets),
    }
}

/// Opens the ring of a camera; `None` while its writer is creating it.
pub(super) fn open(name: &str) -> Result<Option<OpenedRing>, FrameError> {
    checked(name)?;
    for directory in RuntimeDir::existing_in_memory()? {
        match open_in(&directory, name) {
            Err(FrameError::NoCamera { .. }) => {}
            opened => return opened,
        }
    }
    Err(FrameError::NoCamera { name: name.to_owned() })
}

fn open_in(directory: &RuntimeDir, name: &str) -> Result<Option<OpenedRing>, FrameError> {
    let missing = || FrameError::NoCamera { name: name.to_owned() };
    let other = |path, why| FrameError::NotFrames { path, why };
    open_file(directory, &file_of(name), MAGIC, missing, other)
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
        let names = directory.names().map_err(at("list", directory.path()))?;
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
    let offsets = offsets_of(&opened, name)?;
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

/// Creates and locks the file of a camera; returns its generation too. The ring of a dead writer is
/// replaced.
pub(super) fn create(name: &str) -> Result<(OwnRing, u64), FrameError> {
    checked(name)?;
    OwnRing::named(file_of(name), MAGIC, |directory| taken(directory, name))
}

/// Creates the file of the next ring of a camera beside the present one, until it takes its name.
pub(super) fn create_next(name: &str) -> Result<OwnRing, FrameError> {
    let file_name = format!("{name}{NEXT_SUFFIX}");
    let (own, _) = OwnRing::named(file_name, MAGIC, |directory| taken(directory, name))?;
    Ok(own)
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
    at("find memory in", path)(why).into()
}
