//! Cycles that wait for a disk: they write to a file, or read a mapped file that is not in memory.
//!
//! Another thread drops the cached pages of the mapped file after each injection. The files have no
//! names and are gone with the process.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Instant};
use rustix::fs::{Advice as FileAdvice, Mode, OFlags, fadvise, fcntl_setfl, fstatfs, open};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munlock, munmap,
};
use rustix::param::page_size;

use super::disturb_cycle::DisturbCycle;
use super::error::Error;
use super::injector_thread::{InjectorThread, off_the_loops_cpu};
use super::log::DisturbanceRecord;
use super::plan::InjectionPlan;
use onbeat_host::thread::{ThreadRequest, Usage};

/// Maximum number of bytes of one write, and number of pages of a mapped file.
const MOST_BYTES: usize = 8 << 20;
const PAGES: usize = 512;
/// File systems in memory, by their magic numbers (statfs(2)): tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Creates a nameless file of `bytes` bytes on a disk.
fn file_on_disk(plan: &InjectionPlan, bytes: usize) -> Result<File, Error> {
    let directory = std::env::temp_dir();
    let opened =
        open(&directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    let made = opened.map_err(io::Error::from).and_then(|descriptor| {
        let in_memory =
            fstatfs(&descriptor).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u64)));
        let file = File::from(descriptor);
        file.write_all_at(&vec![1; bytes], 0)?;
        file.sync_all()?;
        Ok((file, in_memory))
    });

    let place = directory.display();
    match made {
        Ok((file, false)) => Ok(file),
        Ok(_) => {
            Err(plan
                .impossible(format!("{place} is in memory; set TMPDIR to a directory on a disk")))
        }
        Err(why) => Err(plan.impossible(format!(
            "a file of {bytes} bytes in {place}: {why}; TMPDIR names another directory"
        ))),
    }
}

/// A thread that prepares the file again after each use.
#[derive(Debug)]
struct FilePreparer {
    is_ready: Arc<AtomicBool>,
    feeder: InjectorThread,
}

impl FilePreparer {
    fn start(
        plan: &InjectionPlan,
        mut get_ready: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Self, Error> {
        let is_ready = Arc::new(AtomicBool::new(false));
        let ready = is_ready.clone();
        let body = move |over: &AtomicBool| {
            while !over.load(Ordering::SeqCst) {
                if !ready.load(Ordering::SeqCst) && get_ready() {
                    ready.store(true, Ordering::SeqCst);
                }
                std::thread::park();
            }
        };

        // With a priority above a load, which would delay it too much otherwise.
        let wanted = ThreadRequest { fifo: Some(1), ..off_the_loops_cpu(plan) };
        Ok(Self { is_ready, feeder: InjectorThread::start(wanted, body)? })
    }

    /// Whether the file is ready; wakes the thread if it is not.
    fn is(&self) -> bool {
        let is_ready = self.is_ready.load(Ordering::SeqCst);
        if !is_ready {
            self.feeder.wake();
        }
        is_ready
    }

    fn used(&self) {
        self.is_ready.store(false, Ordering::SeqCst);
        self.feeder.wake();
    }
}

/// `disk_wait`: writes to the disk without the page cache, whose write-back would take as much CPU
/// time as it waits.
#[derive(Debug)]
pub(super) struct DiskWait {
    file: File,
    /// A page longer than what is written: direct writes start at a page.
    buffer: Vec<u8>,
    bytes: usize,
    wait_ns: u64,
}

impl DiskWait {
    pub(super) fn prepare(plan: &InjectionPlan) -> Result<Self, Error> {
        let wanted = usize::try_from(plan.for_ns).unwrap_or(MOST_BYTES);
        let bytes = wanted.next_multiple_of(page_size()).min(MOST_BYTES);
        let file = file_on_disk(plan, bytes)?;
        let buffer = vec![2; bytes + page_size()];
        let prepared = Self { file, buffer, bytes, wait_ns: plan.for_ns };

        // A file system without direct writes refuses the flag or the write.
        let direct = fcntl_setfl(&prepared.file, OFlags::DIRECT).map_err(io::Error::from);
        direct.and_then(|()| prepared.write_through()).map_err(|why| {
            let place = std::env::temp_dir();
            plan.impossible(format!(
                "direct writes in {}: {why}; TMPDIR names another directory",
                place.display()
            ))
        })?;
        Ok(prepared)
    }

    fn write_through(&self) -> io::Result<()> {
        let from = self.buffer.as_ptr().align_offset(page_size());
        self.file.write_all_at(&self.buffer[from..from + self.bytes], 0)
    }
}

impl DisturbCycle for DiskWait {
    fn disturb(&mut self, _: &Cycle, _: u64) -> Option<DisturbanceRecord> {
        let at = Monotonic.now();
        let mut ns = 0;
        let mut bytes = 0;
        while ns < self.wait_ns {
            self.write_through().ok()?;
            ns = Monotonic.now().ns_since(at);
            bytes += self.bytes as u64;
        }

        Some(DisturbanceRecord { at, ns, figures: [bytes, 0] })
    }
}

/// `major_faults`.
#[derive(Debug)]
pub(super) struct MappedFile {
    mapping: Arc<FileMapping>,
    ready: FilePreparer,
}

/// A read-only mapping of the file.
#[derive(Debug)]
struct FileMapping {
    start: *mut u8,
    bytes: usize,
    file: File,
}

// SAFETY: the mapping is only read, which any thread may do; `is_ready` keeps the two threads from
// using it at the same time.
unsafe impl Send for FileMapping {}
// SAFETY: as above.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    fn new(file: File, bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses a range that nothing else uses; all calls are for this range.
        unsafe {
            let start =
                mmap(std::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::SHARED, &file, 0)?;
            let mapping = Self { start: start.cast(), bytes, file };
            // As long as no access is allowed, nothing can be locked in memory.
            munlock(start, bytes)?;
            mprotect(start, bytes, MprotectFlags::READ)?;
            // One page at a time, without readahead.
            madvise(start, bytes, Advice::Random)?;

            Ok(mapping)
        }
    }

    /// Drops the cached pages, which are clean.
    fn forget(&self) -> bool {
        // SAFETY: the whole mapping of a file; dropped pages are read from the file again.
        let dropped = unsafe { madvise(self.start.cast(), self.bytes, Advice::LinuxDontNeed) };
        dropped.is_ok() && fadvise(self.file.as_fd(), 0, None, FileAdvice::DontNeed).is_ok()
    }

    /// Reads one page after the other until `until`; returns the last clock reading and the number
    /// of pages.
    fn read_until(&self, until: Instant) -> (Instant, u64) {
        let mut now = Monotonic.now();
        let mut pages = 0;
        for offset in (0..self.bytes).step_by(page_size()) {
            if now >= until {
                break;
            }

            // SAFETY: `offset` is below `bytes`, and the file is as long as its mapping.
            unsafe { self.start.add(offset).read_volatile() };
            pages += 1;
            now = Monotonic.now();
        }

        (now, pages)
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which no reference was made.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

impl MappedFile {
    pub(super) fn prepare(plan: &InjectionPlan) -> Result<Self, Error> {
        let bytes = PAGES * page_size();
        let mapping = FileMapping::new(file_on_disk(plan, bytes)?, bytes);
        let mapping = Arc::new(
            mapping.map_err(|why| plan.impossible(format!("a mapping of {bytes} bytes: {why}")))?,
        );
        let forgotten = mapping.clone();
        let ready = FilePreparer::start(plan, move || forgotten.forget())?;
        Ok(Self { mapping, ready })
    }
}

impl DisturbCycle for MappedFile {
    fn disturb(&mut self, _: &Cycle, for_ns: u64) -> Option<DisturbanceRecord> {
        if !self.ready.is() {
            return None;
        }

        let before = Usage::of_this_thread();
        let at = Monotonic.now();
        let (end, pages) = self.mapping.read_until(at.plus_ns(for_ns));
        let major = Usage::of_this_thread().since(before).major_faults;
        self.ready.used();
        (major > 0).then_some(DisturbanceRecord {
            at,
            ns: end.ns_since(at),
            figures: [pages, major],
        })
    }
}
