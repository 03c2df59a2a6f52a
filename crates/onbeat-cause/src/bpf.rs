//! Maps, programs and their attachment, by the one door to bpf(2) ([`onbeat_host::bpf`]).
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use onbeat_host::bpf::{self, BpfAttributes};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const LINK_CREATE: libc::c_int = 28;
const ARRAY: u32 = 2;
const RAW_TRACEPOINT: u32 = 17;
const TRACING: u32 = 26;
const XDP: u32 = 6;
/// `BPF_XDP`.
const XDP_ATTACHMENT: u32 = 37;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
const IN_STACK: u32 = 1 << 1;
const IN_DRIVER: u32 = 1 << 2;
/// `BPF_TRACE_RAW_TP`: a trace point with the kernel's types.
const TYPED_TRACEPOINT: u32 = 23;
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;
/// Writes the value at `key` of an array whose values have `value_size` bytes.
fn update(array: &OwnedFd, key: u32, value: &[u8], value_size: usize) -> io::Result<()> {
    if value.len() != value_size {
        return Err(io::ErrorKind::InvalidInput.into());
    }

    let attributes = BpfAttributes::new()
        .word(0, array.as_raw_fd() as u32)
        .double(8, std::ptr::from_ref(&key) as u64)
        .double(16, value.as_ptr() as u64);
    // SAFETY: the key has the array's 4 bytes, and the value was checked to have its size; both
    // live across the call.
    unsafe { bpf::command(MAP_UPDATE, attributes) }.map(|_| ())
}

/// An array of `entries` values.
#[derive(Debug)]
pub struct BpfArray {
    descriptor: OwnedFd,
    value_size: usize,
    entries: u32,
}

impl BpfArray {
    pub fn create(value_size: usize, entries: u32) -> io::Result<Self> {
        let attributes = BpfAttributes::new()
            .word(0, ARRAY)
            .word(4, 4)
            .word(8, value_size as u32)
            .word(12, entries);
        // SAFETY: no addresses in these attributes.
        let descriptor = unsafe { bpf::create(MAP_CREATE, attributes) }?;
        Ok(Self { descriptor, value_size, entries })
    }

    pub fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// Writes the value at `key`.
    pub fn write(&self, key: u32, value: &[u8]) -> io::Result<()> {
        update(&self.descriptor, key, value, self.value_size)
    }

    /// Reads all values into `values`, concatenated.
    pub fn read(&self, values: &mut Vec<u8>) -> io::Result<()> {
        values.resize(self.value_size * self.entries as usize, 0);
        let mut keys = vec![0_u32; self.entries as usize];
        let mut next = 0_u32;
        let attributes = BpfAttributes::new()
            .double(8, std::ptr::from_mut(&mut next) as u64)
            .double(16, keys.as_mut_ptr() as u64)
            .double(24, values.as_mut_ptr() as u64)
            .word(32, self.entries)
            .word(36, self.number() as u32);

        // SAFETY: keys and values have room for the requested `entries`, and `next` for a key; all
        // live across the call.
        match unsafe { bpf::command(MAP_LOOKUP_BATCH, attributes) } {
            // The batch ended at the end of the map.
            Err(why) if why.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// A BPF array mapped into this process, so that reading it needs no system call.
#[derive(Debug)]
pub(super) struct SharedArray {
    descriptor: OwnedFd,
    memory: NonNull<AtomicU64>,
    words: usize,
    value_words: usize,
}

// SAFETY: the memory belongs to this value until it is dropped, and all reads are atomic.
unsafe impl Send for SharedArray {}

impl SharedArray {
    /// Creates an array of `entries` values of `value_words` 64-bit words each.
    pub(super) fn create(value_words: u32, entries: u32) -> io::Result<Self> {
        let attributes = BpfAttributes::new()
            .word(0, ARRAY)
            .word(4, 4)
            .word(8, value_words * 8)
            .word(12, entries)
            .word(16, MAPPABLE);
        // SAFETY: no addresses in these attributes.
        let descriptor = unsafe { bpf::create(MAP_CREATE, attributes) }?;
        let words = value_words as usize * entries as usize;
        // SAFETY: a mapping of its own, at an address that the kernel chooses.
        let memory = unsafe {
            mmap(std::ptr::null_mut(), words * 8, ProtFlags::READ, MapFlags::SHARED, &descriptor, 0)
        }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;

        Ok(Self { descriptor, memory, words, value_words: value_words as usize })
    }

    pub(super) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    pub(super) const fn bytes_held(&self) -> u64 {
        self.words as u64 * 8
    }

    /// Writes the value at `key`; `value` must have the array's word count.
    pub(super) fn write(&self, key: u32, value: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_ne_bytes()).collect();
        update(&self.descriptor, key, &bytes, self.value_words * 8)
    }

    /// Returns all values, concatenated.
    pub(super) const fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `words` words long, aligned to a page, and lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.words) }
    }
}

impl Drop for SharedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `create`; no reference to it outlives `self`.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.words * 8) };
    }
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug)]
pub enum AttachPoint<'n> {
    /// A raw trace point, by name.
    Raw(&'n CStr),
    /// A trace point with the kernel's types, by the number of its type
    /// ([`super::btf::Btf::trace_point`]).
    Typed(u32),
    /// The frames that arrive at the interface with this index of the caller's network namespace.
    Frames { interface: u32, in_driver: bool },
}

/// A program attached to a trace point or an interface; dropping it, or the end of the process,
/// detaches the program.
#[derive(Debug)]
pub struct AttachedProgram {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl AttachedProgram {
    /// Loads `code` and attaches it.
    ///
    /// The kernel allows the helpers that read its memory only to programs with a compatible
    /// licence. The programs of this room are available under both licences named here.
    pub fn load(code: &[u64], at: AttachPoint<'_>) -> io::Result<Self> {
        const LICENSE: &CStr = c"Dual MIT/GPL";
        let attributes = BpfAttributes::new()
            .word(4, code.len() as u32)
            .double(8, code.as_ptr() as u64)
            .double(16, LICENSE.as_ptr() as u64);
        let attributes = match at {
            AttachPoint::Raw(_) => attributes.word(0, RAW_TRACEPOINT),
            AttachPoint::Typed(number) => {
                attributes.word(0, TRACING).word(68, TYPED_TRACEPOINT).word(108, number)
            }
            AttachPoint::Frames { .. } => attributes.word(0, XDP),
        };

        // SAFETY: `code` has the announced number of instructions, and the licence ends with a NUL;
        // both live across the call.
        let program = unsafe { bpf::load(attributes) }?;
        let number = program.as_raw_fd() as u32;
        let (command, attributes) = match at {
            AttachPoint::Frames { interface, in_driver } => {
                let flags = if in_driver { IN_DRIVER } else { IN_STACK };
                let attributes = BpfAttributes::new().word(0, number).word(4, interface);
                (LINK_CREATE, attributes.word(8, XDP_ATTACHMENT).word(12, flags))
            }
            AttachPoint::Raw(name) => {
                let attributes = BpfAttributes::new().double(0, name.as_ptr() as u64);
                (RAW_TRACEPOINT_OPEN, attributes.word(8, number))
            }
            AttachPoint::Typed(_) => (RAW_TRACEPOINT_OPEN, BpfAttributes::new().word(8, number)),
        };
        // SAFETY: the name, where there is one, ends with a NUL and lives across the call.
        let link = unsafe { bpf::create(command, attributes) }?;
        Ok(Self { _program: program, _link: link })
    }
}
