//! Files of rings: where they are, who may have made them, and how they are created, replaced and
//! removed.
//!
//! The ring of the channel `NAME/TOPIC` is the file `NAME:TOPIC` of a checked directory
//! ([`onbeat_host::runtime_dir`]). Nothing here blocks, whatever has the name of a ring: only
//! regular files of this user or of root that nobody else can write are opened, and only those of
//! this user are changed. A header is read as a file, so that no truncation can hurt; sizes are
//! checked against the memory that the file has before anything is mapped.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use onbeat_host::foreign::{Opening, TrustedOwner};
use onbeat_host::runtime_dir::RuntimeDir;
use rustix::fs::{FlockOperation, flock};

use super::place::remove_leftover_images;
use super::process::Process;
use super::ring_error::RingError;
use super::ring_object::{Channel, HEADER_BYTES, MAGIC, RingOffsets, state, word};

/// Largest ring, in bytes: below 2 GiB, as Java maps no more.
pub(super) const MOST_BYTES: u64 = 1536 << 20;
/// The writer writes; its group may read.
const MODE: u32 = 0o640;
/// Maximum number of attempts, as another process may take or remove the file between two steps.
const MOST_TRIES: u32 = 20;
/// Maximum number of polls for a ring being created, and their interval.
const MAKING: (u32, Duration) = (100, Duration::from_millis(5));
/// Unit of the allocated size of a file (`st_blocks`).
const BLOCK_BYTES: u64 = 512;
const HEADER_WORDS: usize = HEADER_BYTES / 8;

/// A copy of a ring's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderWords([u64; HEADER_WORDS]);

impl HeaderWords {
    /// Reads the header of a file that has one.
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let read = || {
            let mut bytes = [0; HEADER_BYTES];
            file.read_exact_at(&mut bytes, 0)?;
            let (words, _) = bytes.as_chunks::<8>();
            let mut copied = [0; HEADER_WORDS];
            copied.iter_mut().zip(words).for_each(|(to, word)| *to = u64::from_ne_bytes(*word));
            Ok(Self(copied))
        };

        // The magic number is written last: what is read after it has been seen is complete.
        match read()? {
            seen if seen.load(word::MAGIC) == 0 => Ok(seen),
            _ => read(),
        }
    }

    pub(super) fn load(&self, word: usize) -> u64 {
        self.0.get(word).copied().unwrap_or(0)
    }

    pub(super) fn writer(&self) -> Option<Process> {
        Process::from_word(self.load(word::WRITER))
    }

    /// Returns the bytes of consecutive words.
    pub(super) fn bytes(&self, from: usize, length: usize) -> Vec<u8> {
        let words = self.0.iter().skip(from).flat_map(|word| word.to_ne_bytes());
        words.take(length).collect()
    }
}

/// A file that passed the checks and begins as a ring does.
#[derive(Debug)]
pub(super) struct OpenedRing {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) header: HeaderWords,
}

impl OpenedRing {
    /// Returns the offsets, checked against each other and against the memory of the file.
    pub(super) fn offsets(&self) -> Result<RingOffsets, RingError> {
        let offsets = RingOffsets::from_header(&self.header)
            .ok_or_else(|| self.spoilt("the sizes in its header contradict each other"))?;
        let bytes = offsets.total as u64;
        match memory_of(&self.file).map_err(at("look at", &self.path))? {
            held if held < bytes => {
                Err(RingError::Incomplete { path: self.path.clone(), bytes, held })
            }
            _ => Ok(offsets),
        }
    }

    pub(super) fn spoilt(&self, why: &'static str) -> RingError {
        RingError::NotARing { path: self.path.clone(), why }
    }
}

/// Returns how many bytes of a file, from its beginning, have memory: less than its length if it is
/// sparse.
pub(super) fn memory_of(file: &File) -> io::Result<u64> {
    let found = file.metadata()?;
    Ok(found.len().min(found.blocks().saturating_mul(BLOCK_BYTES)))
}

pub(super) fn at<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> RingError + 'p {
    move |source| RingError::System { what, path: path.to_owned(), source }
}

// ---- reading

/// Opens the ring of a channel; `None` while its writer is creating it.
pub(super) fn open(channel: &Channel) -> Result<Option<OpenedRing>, RingError> {
    for directory in RuntimeDir::existing_in_memory()? {
        match open_in(&directory, channel) {
            Err(RingError::NoChannel { .. }) => {}
            opened => return opened,
        }
    }

    Err(RingError::NoChannel { channel: channel.to_string() })
}

fn open_in(directory: &RuntimeDir, channel: &Channel) -> Result<Option<OpenedRing>, RingError> {
    let missing = || RingError::NoChannel { channel: channel.to_string() };
    let other = |path, why| RingError::NotARing { path, why };
    open_file(directory, &channel.file_name(), MAGIC, missing, other)
}

/// Opens a file that begins with a header and this magic number; `None` while its writer is
/// creating it. `missing` and `other` are the errors for no file and for one that begins otherwise.
pub(super) fn open_file<E: From<RingError>>(
    directory: &RuntimeDir,
    name: &str,
    magic: u64,
    missing: impl FnOnce() -> E,
    other: impl FnOnce(PathBuf, &'static str) -> E,
) -> Result<Option<OpenedRing>, E> {
    let path = directory.path().join(name);
    let opening = Opening::found(TrustedOwner::OwnOrRoot).at_most(MOST_BYTES);
    let file = match directory.open_file(name, &opening) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(missing()),
        opened => opened.map_err(at("open", &path))?,
    };

    let header = match HeaderWords::read(&file) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        header => header.map_err(at("read", &path))?,
    };
    match header.load(word::MAGIC) {
        0 => Ok(None),
        found if found == magic => Ok(Some(OpenedRing { file, path, header })),
        _ => Err(other(path, "it begins with other bytes")),
    }
}

/// Opens a ring; waits if its writer is creating it, and returns `None` if that takes too long.
pub(super) fn open_when_made<E>(
    open: impl Fn() -> Result<Option<OpenedRing>, E>,
) -> Result<Option<OpenedRing>, E> {
    for _ in 0..MAKING.0 {
        if let Some(ring) = open()? {
            return Ok(Some(ring));
        }
        sleep(MAKING.1);
    }
    Ok(None)
}

/// A file with the name of a ring: the ring, `None` if it is gone by now, or why it is refused.
type FoundRing = Result<Option<OpenedRing>, RingError>;

/// Returns the channels of all directories, in order, each with its ring: `None` while it is
/// created, and the reason where the file is not a ring. Names that no channel can have are not
/// looked at.
pub(super) fn all() -> Result<Vec<(Channel, FoundRing)>, RingError> {
    let mut found: Vec<(Channel, _)> = Vec::new();
    for directory in RuntimeDir::existing_in_memory()? {
        let names = directory.names().map_err(at("list", directory.path()))?;
        for channel in names.iter().filter_map(|name| Channel::from_file_name(name)) {
            // The own directory comes first, and with it the ring that a reader opens.
            if found.iter().all(|(known, _)| *known != channel) {
                let ring = open_in(&directory, &channel);
                found.push((channel, ring));
            }
        }
    }

    found.retain(|(_, ring)| !matches!(ring, Err(RingError::NoChannel { .. })));
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

// ---- writing

/// A file that this process has created and holds the lock of.
#[derive(Debug)]
pub(super) struct OwnRing {
    pub(super) directory: RuntimeDir,
    name: String,
    pub(super) file: File,
}

impl OwnRing {
    /// Creates the file of a channel and locks it; returns its generation too. The ring of a dead
    /// writer is replaced.
    pub(super) fn create(channel: &Channel) -> Result<(Self, u64), RingError> {
        Self::named(channel.file_name(), MAGIC, |directory| taken(directory, channel))
    }

    /// Creates a file that will begin with a header and this magic number, and locks it; returns
    /// its generation too, and the error `taken` if a living writer has the name. The file of a
    /// dead writer is replaced.
    pub(super) fn named<E: From<RingError>>(
        name: String,
        magic: u64,
        taken: impl FnOnce(&RuntimeDir) -> E,
    ) -> Result<(Self, u64), E> {
        let directory = RuntimeDir::own_in_memory().map_err(RingError::from)?;
        match create_locked(&directory, &name, magic)? {
            Some((file, generation)) => Ok((Self { directory, name, file }, generation)),
            None => Err(taken(&directory)),
        }
    }

    /// Gives the file another name: whoever opens that name finds what had it before, or this file.
    pub(super) fn take_name(&mut self, name: String) -> Result<(), RingError> {
        let path = self.directory.path().join(&name);
        self.directory.rename(&self.name, &name).map_err(at("replace", &path))?;
        self.name = name;
        Ok(())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Removes the file, unless another one has its name.
    pub(super) fn remove(&self) {
        if self.directory.leads_to(&self.name, &self.file) {
            // If it cannot be removed, the next writer of this name replaces it.
            let _ = self.directory.remove(&self.name);
        }
    }
}

fn create_locked(
    directory: &RuntimeDir,
    name: &str,
    magic: u64,
) -> Result<Option<(File, u64)>, RingError> {
    let path = directory.path().join(name);
    let mut generation = 1;
    for _ in 0..MOST_TRIES {
        match directory.create_file(name, MODE) {
            Ok(file) => {
                // Another process may have taken the file for abandoned before it was locked.
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                    && directory.leads_to(name, &file)
                {
                    return Ok(Some((file, generation)));
                }
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                let retired = retire(directory, name, magic, state::REPLACED);
                match retired.map_err(at("replace", &path))? {
                    Some(last) => generation = generation.max(last.saturating_add(1)),
                    None => return Ok(None),
                }
            }
            Err(why) => return Err(at("create", &path)(why)),
        }
    }
    Ok(None)
}

fn taken(directory: &RuntimeDir, channel: &Channel) -> RingError {
    let writer = open_in(directory, channel).ok().flatten().and_then(|ring| ring.header.writer());
    let (pid, process) = Process::described(writer);
    RingError::Taken { channel: channel.to_string(), pid, process }
}

/// Removes the ring of a dead writer, which begins with this magic number, leaves a state for its readers, and returns its generation; 0
/// if it is gone, `None` if its writer is alive.
pub(super) fn retire(
    directory: &RuntimeDir,
    name: &str,
    magic: u64,
    left: u64,
) -> io::Result<Option<u64>> {
    let file = match directory.open_file(name, &Opening::found(TrustedOwner::Own).writable()) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
        opened => opened?,
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }

    // A file shorter than a header is a ring that was never completed.
    let mut generation = 0;
    if let Ok(header) = HeaderWords::read(&file) {
        if ![0, magic].contains(&header.load(word::MAGIC)) {
            let why = "it is not a ring of onbeat; remove it, or use another name";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        generation = header.load(word::GENERATION);
        // A writer that has ended in order has informed its readers; with its lock held, nobody
        // else writes.
        if header.load(word::STATE) == state::RUNNING {
            file.write_all_at(&left.to_ne_bytes(), word::STATE as u64 * 8)?;
        }
    }

    if directory.leads_to(name, &file) {
        directory.remove(name)?;
    }
    Ok(Some(generation))
}

/// Removes the images of killed bus processes, and the rings of killed writers and cameras; returns
/// their names and channels. Those of living processes and of other users are not changed.
#[must_use]
pub fn remove_leftovers() -> Vec<String> {
    let rings = remove_leftover_rings().into_iter().map(|channel| channel.to_string());
    let frames = super::frames::remove_leftovers();
    remove_leftover_images().into_iter().chain(rings).chain(frames).collect()
}

fn remove_leftover_rings() -> Vec<Channel> {
    let mut removed = Vec::new();
    for directory in RuntimeDir::existing_in_memory().unwrap_or_default() {
        let names = directory.names().unwrap_or_default();
        for channel in names.iter().filter_map(|name| Channel::from_file_name(name)) {
            // Also the file of a writer that was killed before its header was complete.
            let retired = retire(&directory, &channel.file_name(), MAGIC, state::RUNNING);
            if matches!(retired, Ok(Some(_))) {
                removed.push(channel);
            }
        }
    }
    removed
}
