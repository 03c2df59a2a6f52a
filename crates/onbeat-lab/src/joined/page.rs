//! One page of memory that host and guest share: the device `ivshmem` of QEMU.
//!
//! On the host it is a file that QEMU maps, in the guest the second memory area of a PCI device,
//! which the kernel offers as a file without any driver. All accesses are atomic words.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Size of the page.
const BYTES: usize = 4096;
/// Words between two words that different sides write: a cache line.
const SPACED: usize = 8;
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// The device's numbers of vendor and product.
const IVSHMEM: [(&str, &str); 2] = [("vendor", "0x1af4"), ("device", "0x1110")];

/// A word of the page, by the side that writes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum PageWord {
    /// Host: number of the exchange, or [`super::exchange::LAST`].
    Request,
    /// Guest: number of the exchange that it has answered.
    Reply,
    /// Guest: its clock at that exchange, in nanoseconds.
    Stamp,
    /// Guest: how many times a program has begun to answer.
    Begun,
}

/// The page, mapped.
#[derive(Debug)]
pub(crate) struct SharedPage {
    base: NonNull<u8>,
}

// SAFETY: the memory is accessed as atomics only, by `word`.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Maps the first page of a file, which must have that length.
    fn map(file: &File) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel overlaps nothing. Nothing
        // truncates the file: it is in the guest's locked directory, or a memory area of a device.
        let base = unsafe { mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, file, 0) }?;
        NonNull::new(base.cast()).map(|base| Self { base }).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// Maps the page on the host: QEMU has created the file, filled with zeros.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::map(&File::options().read(true).write(true).open(path)?)
    }

    /// Maps the page in a guest.
    pub(crate) fn of_this_guest() -> io::Result<Self> {
        let device = ivshmem_device(Path::new(PCI_DEVICES))?;
        // Without a driver nothing else has switched its memory on.
        fs::write(device.join("enable"), "1")?;
        let file = File::options().read(true).write(true).open(device.join("resource2"))?;
        Self::map(&file)
    }

    pub(super) fn word(&self, word: PageWord) -> &AtomicU64 {
        let at = word as usize * SPACED * size_of::<AtomicU64>();
        // SAFETY: inside the mapping (4 words, 64 bytes apart, of 4,096 bytes), aligned to 8 bytes,
        // and every pattern of bits is a value. It lives as long as `self`.
        unsafe { self.base.byte_add(at).cast().as_ref() }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: made by `map` with this length; no reference outlives `self`. It fails only for
        // an address that is not a mapping.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

/// The directory of the first such device.
fn ivshmem_device(devices: &Path) -> io::Result<PathBuf> {
    for entry in fs::read_dir(devices)? {
        let path = entry?.path();
        let has = |(file, number): (&str, &str)| {
            fs::read_to_string(path.join(file)).is_ok_and(|text| text.trim() == number)
        };
        if IVSHMEM.into_iter().all(has) {
            return Ok(path);
        }
    }

    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page");
        fs::write(&path, [0; BYTES]).expect("a file");
        let host = SharedPage::open(&path).expect("a page");
        let guest = SharedPage::open(&path).expect("the same page");

        host.word(PageWord::Request).store(7, Ordering::Release);
        guest.word(PageWord::Begun).store(1, Ordering::Release);
        assert_eq!(guest.word(PageWord::Request).load(Ordering::Acquire), 7);
        assert_eq!(host.word(PageWord::Begun).load(Ordering::Acquire), 1);
        assert_eq!(host.word(PageWord::Reply).load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_device_is_found_by_its_numbers() {
        let directory = tempfile::tempdir().expect("a directory");
        let device = |name: &str, product: &str| {
            let path = directory.path().join(name);
            fs::create_dir(&path).expect("a device");
            fs::write(path.join("vendor"), "0x1af4\n").expect("a file");
            fs::write(path.join("device"), product).expect("a file");
            path
        };
        device("0000:00:02.0", "0x1003\n");
        assert!(ivshmem_device(directory.path()).is_err());
        let shared = device("0000:00:03.0", "0x1110\n");
        assert_eq!(ivshmem_device(directory.path()).expect("the device"), shared);
    }
}
