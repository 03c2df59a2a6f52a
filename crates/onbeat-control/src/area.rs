//! Memory behind descriptors that clients receive from the bus: no name leads to it, and nobody
//! can change its length.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use onbeat_rt::latest::Latest;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals,
    memfd_create,
};

use super::abi::SLOTS;
use super::map::Map;

/// Offset of the slots: the number of the newest publication has a cache line of its own.
const SLOTS_AT: usize = 64;

/// Creates memory of this length. It is allocated completely: access to a hole without free memory
/// would end the process.
pub(super) fn create(bytes: usize, purpose: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(purpose, flags)?);
    fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    Ok(file)
}

/// Opens memory of a process that does not send it, because it is stopped or has no CPU time: for
/// processes of its user, and of root.
pub(super) fn of_process(pid: u32, purpose: &str) -> Option<OwnedFd> {
    let wanted = format!("/memfd:{purpose} (deleted)");
    let mut all = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let found = all.find(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == &*wanted)
    })?;
    Some(File::open(found.path()).ok()?.into())
}

/// Fixes the length for everyone, root included.
pub(super) fn seal_length(file: &File) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?)
}

/// Fixes the length, and allows no writer but the existing mapping of this process. Returns a
/// descriptor for readers.
pub(super) fn seal_for_readers(file: &File) -> io::Result<OwnedFd> {
    let length = SealFlags::SHRINK | SealFlags::GROW;
    // Linux before 5.1 does not know the seal; there only the descriptor below is read-only.
    if fcntl_add_seals(file, length | SealFlags::FUTURE_WRITE).is_err() {
        fcntl_add_seals(file, length)?;
    }
    fcntl_add_seals(file, SealFlags::SEAL)?;
    let path = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Ok(File::open(path)?.into())
}

/// Returns the length of received memory, if nobody can change it.
pub(super) fn fixed_length(memory: impl AsFd) -> io::Result<usize> {
    let wanted = SealFlags::SHRINK | SealFlags::GROW;
    if !fcntl_get_seals(&memory)?.contains(wanted) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its length is not sealed"));
    }
    let length = rustix::fs::fstat(&memory)?.st_size;
    usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Slots that one client writes and the bus reads: the owner's outputs, or the commander's goals.
/// Each grant of a role has new ones, so a former holder writes to nothing that is read.
#[derive(Debug)]
pub(super) struct Inward {
    map: Map,
    slot_words: usize,
    /// Number before the first publication, as the bus set it.
    pub(super) began: u64,
    /// Whether the role has ended; known in the bus process only.
    is_closed: AtomicBool,
}

impl Inward {
    /// Creates the slots, with a descriptor for the client. Publications continue after number
    /// `newest`.
    pub(super) fn create(slot_words: usize, newest: u64) -> io::Result<(Self, File)> {
        let bytes = Self::bytes(slot_words);
        let file = create(bytes, "onbeat-role")?;
        seal_length(&file)?;
        let map = Map::new(&file, bytes)?;
        let slots = Self { map, slot_words, began: newest, is_closed: AtomicBool::new(false) };
        slots.number().store(newest, Ordering::Release);
        Ok((slots, file))
    }

    /// Maps slots that the bus has granted.
    pub(super) fn open(memory: OwnedFd, slot_words: usize) -> io::Result<Self> {
        let bytes = Self::bytes(slot_words);
        if fixed_length(&memory)? < bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the slots are too short"));
        }
        let map = Map::new(&File::from(memory), bytes)?;
        Ok(Self { map, slot_words, began: 0, is_closed: AtomicBool::new(false) })
    }

    const fn bytes(slot_words: usize) -> usize {
        SLOTS_AT + SLOTS * slot_words * 8
    }

    /// Ends the role: the loop reads no more, except the last goal.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Number of the newest publication.
    #[inline]
    pub(super) fn newest(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    #[allow(clippy::expect_used)] // The map has the length that `bytes` computed.
    fn number(&self) -> &AtomicU64 {
        self.map.one(0).expect("a number before the slots")
    }

    #[allow(clippy::expect_used)] // As above.
    pub(super) fn slots(&self) -> Latest<'_> {
        let words = self.map.all(SLOTS_AT, SLOTS * self.slot_words);
        Latest::over(self.number(), words, SLOTS).expect("slots lie within the map")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{ftruncate, open};
    use rustix::io::{Errno, pwrite};

    #[test]
    fn readers_can_neither_write_nor_truncate_memory_that_the_bus_writes() {
        let file = create(8192, "test").unwrap();
        let map = Map::new(&file, 8192).unwrap();
        let reader = seal_for_readers(&file).unwrap();
        let word = map.one::<AtomicU64>(0).unwrap();
        word.store(7, Ordering::Relaxed);

        let seen = Map::read_only(&File::from(reader.try_clone().unwrap()), 8192).unwrap();
        assert_eq!(seen.one::<AtomicU64>(0).unwrap().load(Ordering::Relaxed), 7);
        assert!(Map::new(&File::from(reader.try_clone().unwrap()), 8192).is_err(), "read-only");
        // The same user can open it for writing again; the seals hold nevertheless.
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mode = rustix::fs::Mode::empty();
        let again = open(path, rustix::fs::OFlags::RDWR, mode).unwrap();
        assert_eq!(pwrite(&again, &[1], 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&again, 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&again, 16384), Err(Errno::PERM));
        assert!(
            fallocate(&again, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096)
                .is_err()
        );
        assert!(Map::new(&File::from(again), 8192).is_err(), "no further writer");
        assert_eq!(word.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn the_writer_of_inward_slots_cannot_change_their_length() {
        let (slots, file) = Inward::create(8, 5).unwrap();
        assert_eq!(ftruncate(&file, 0), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
        let client = Inward::open(file.into(), 8).unwrap();
        assert_eq!(client.slots().publish(&[&[3; 8]]), 6, "publications continue");
        let mut value = [0; 8];
        assert!(slots.slots().read(6, &mut [&mut value]) && value == [3; 8]);
        assert!(
            Inward::open(create(64, "test").unwrap().into(), 8).is_err(),
            "neither sealed nor long"
        );
    }
}
