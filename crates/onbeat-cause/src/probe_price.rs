//! What a probe of a function costs here: measured on a function of two instructions that is mapped
//! from a file for this purpose.
//!
//! Whether the kernel emulates the first instruction or executes it with a single step decides, and on
//! virtual machines by a factor of thirty.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::stream::{FunctionPlace, PathStream};

/// Calls without a probe and with one, in pieces of which the shortest counts: a stop of the machine
/// lengthens one of them, by more than all probes cost.
const PIECES: u64 = 8;
const CALLS: u64 = 250;
/// Bytes of the mapping.
const PAGE: usize = 4096;
/// Ring for the records of the measurement, in KiB.
const RING_KIB: u32 = 64;

/// `push rbp; pop rbp; ret`
const EMULATED: [u8; 3] = [0x55, 0x5d, 0xc3];
/// `lea rax, [rdi]; ret`
const SINGLE_STEPPED: [u8; 4] = [0x48, 0x8d, 0x07, 0xc3];

/// A function that is mapped from a file, which is removed with it.
struct MappedFunction {
    path: PathBuf,
    memory: NonNull<std::ffi::c_void>,
}

impl MappedFunction {
    fn map(code: &[u8]) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("onbeat-probe-{}", std::process::id()));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            // Nobody else may change what is executed here.
            .mode(0o600)
            .open(&path)?;
        let mut page = code.to_vec();
        page.resize(PAGE, 0xcc);
        let written = file.write_all(&page);
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let mapped = written.and_then(|()| unsafe {
            let rights = ProtFlags::READ | ProtFlags::EXEC;
            Ok(mmap(std::ptr::null_mut(), PAGE, rights, MapFlags::PRIVATE, &file, 0)?)
        });
        match mapped.map(NonNull::new) {
            Ok(Some(memory)) => Ok(Self { path, memory }),
            Ok(None) => Err(io::ErrorKind::OutOfMemory.into()),
            Err(why) => {
                let _ = std::fs::remove_file(&path);
                Err(why)
            }
        }
    }

    /// Returns the time of a call, in nanoseconds: the mean of the shortest piece.
    fn time_of_call_ns(&self) -> f64 {
        // SAFETY: the memory holds one of the two functions above, which take nothing, keep the
        // registers that a caller relies on, and return.
        let function: extern "C" fn() = unsafe { std::mem::transmute(self.memory.as_ptr()) };
        let piece_ns = |_: u64| {
            let from = Monotonic.now();
            (0..CALLS).for_each(|_| function());
            Monotonic.now().ns_since(from)
        };
        (0..PIECES).map(piece_ns).min().unwrap_or(0) as f64 / CALLS as f64
    }
}

impl Drop for MappedFunction {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, whose function is not called any more.
        let _ = unsafe { munmap(self.memory.as_ptr(), PAGE) };
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns by how much probes at the beginning and the return of a function make a call longer here,
/// in nanoseconds, where its first instruction is emulated or single-stepped; `None` if they cannot
/// be measured.
#[must_use]
pub fn price_of_probes_ns(is_emulated: bool) -> Option<f64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let code: &[u8] = if is_emulated { &EMULATED } else { &SINGLE_STEPPED };
    let function = MappedFunction::map(code).ok()?;
    let without_ns = function.time_of_call_ns();
    let place = FunctionPlace {
        pid: NonZeroU32::new(std::process::id())?,
        file: function.path.clone(),
        offset: 0,
    };
    let _probed = PathStream::open_with(&[], RING_KIB, Some(&place)).ok()?;
    Some((function.time_of_call_ns() - without_ns).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_have_a_price_where_they_are_permitted_and_leave_no_file() {
        match price_of_probes_ns(true) {
            Some(ns) => assert!(ns > 0.0, "{ns} ns"),
            None => println!("skipped: probes of functions are not permitted here"),
        }
        let path = std::env::temp_dir().join(format!("onbeat-probe-{}", std::process::id()));
        assert!(!path.exists());
    }
}
