//! bpf(2): maps, programs and their attachment. The only file of this room that calls the kernel without a wrapper.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const ARRAY: u32 = 2;
const RAW_TRACEPOINT: u32 = 17;

/// The command's attributes: a union of which the kernel reads what the command needs. Larger than any used here, zero
/// beyond.
#[repr(C, align(8))]
struct Attributes([u64; 16]);

impl Attributes {
    const fn new() -> Self {
        Self([0; 16])
    }

    fn word(mut self, at: usize, value: u32) -> Self {
        let place = &mut self.0[at / 8];
        let mut bytes = place.to_ne_bytes();
        bytes[at % 8..at % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        *place = u64::from_ne_bytes(bytes);
        self
    }

    const fn double(mut self, at: usize, value: u64) -> Self {
        self.0[at / 8] = value;
        self
    }
}

/// # Safety
/// Addresses inside `attributes` must point to memory as large as the command reads and writes, for the call's duration.
unsafe fn bpf(command: libc::c_int, attributes: &mut Attributes) -> io::Result<libc::c_int> {
    let size = size_of::<Attributes>();
    // SAFETY: the attributes are valid for `size` bytes, and the caller vouches for the addresses in them.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as libc::c_int) }
}

fn descriptor(number: libc::c_int) -> OwnedFd {
    // SAFETY: the kernel has just handed this descriptor out, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// An array of `entries` values.
#[derive(Debug)]
pub(crate) struct Array {
    descriptor: OwnedFd,
    value_size: usize,
    entries: u32,
}

impl Array {
    pub(crate) fn create(value_size: usize, entries: u32) -> io::Result<Self> {
        let attributes = Attributes::new().word(0, ARRAY).word(4, 4).word(8, value_size as u32).word(12, entries);
        // SAFETY: no addresses in these attributes.
        let number = unsafe { bpf(MAP_CREATE, &mut { attributes }) }?;
        Ok(Self { descriptor: descriptor(number), value_size, entries })
    }

    pub(crate) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    pub(crate) const fn bytes_held(&self) -> u64 {
        self.value_size as u64 * self.entries as u64
    }

    /// Writes the value at `key`.
    pub(crate) fn write(&self, key: u32, value: &[u8]) -> io::Result<()> {
        if value.len() != self.value_size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let attributes = Attributes::new()
            .word(0, self.number() as u32)
            .double(8, std::ptr::from_ref(&key) as u64)
            .double(16, value.as_ptr() as u64);
        // SAFETY: the key has the map's 4 bytes, and the value was checked to have the map's size; both live across the
        // call.
        unsafe { bpf(MAP_UPDATE, &mut { attributes }) }.map(|_| ())
    }

    /// Reads all values into `values`, one after the other.
    pub(crate) fn read(&self, values: &mut Vec<u8>) -> io::Result<()> {
        values.resize(self.value_size * self.entries as usize, 0);
        let mut keys = vec![0_u32; self.entries as usize];
        let mut next = 0_u32;
        let attributes = Attributes::new()
            .double(8, std::ptr::from_mut(&mut next) as u64)
            .double(16, keys.as_mut_ptr() as u64)
            .double(24, values.as_mut_ptr() as u64)
            .word(32, self.entries)
            .word(36, self.number() as u32);
        // SAFETY: keys and values have room for the `entries` that are asked for, and `next` for a key; all live across
        // the call.
        match unsafe { bpf(MAP_LOOKUP_BATCH, &mut { attributes }) } {
            // The end of the map is where the batch ends.
            Err(why) if why.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// A program that runs at a trace point until this is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Attached {
    /// Loads `code` and attaches it to the raw trace point `name`.
    ///
    /// The kernel lends the functions that read its memory only to programs that declare a licence compatible with its
    /// own; the programs of this room are offered under both licences that the string names.
    pub(crate) fn load(code: &[u64], name: &CStr) -> io::Result<Self> {
        const LICENSE: &CStr = c"Dual MIT/GPL";
        let attributes = Attributes::new()
            .word(0, RAW_TRACEPOINT)
            .word(4, code.len() as u32)
            .double(8, code.as_ptr() as u64)
            .double(16, LICENSE.as_ptr() as u64);
        // SAFETY: `code` has as many instructions as are announced, and the licence ends with a NUL; both live across the
        // call.
        let program = descriptor(unsafe { bpf(PROG_LOAD, &mut { attributes }) }?);
        let attributes = Attributes::new().double(0, name.as_ptr() as u64).word(8, program.as_raw_fd() as u32);
        // SAFETY: the name ends with a NUL and lives across the call.
        let link = descriptor(unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut { attributes }) }?);
        Ok(Self { _program: program, _link: link })
    }
}
