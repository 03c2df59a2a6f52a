//! The program that an interface runs on each received frame, loaded by bpf(2) without a library.
//!
//! It redirects frames of EtherCAT to the socket of the frame's queue, and writes the instant of
//! arrival before the frame. All other frames, and those of queues without a socket, pass on.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use onbeat_host::bpf::{self, BpfAttributes};

use super::{XdpError, when_free};

/// Commands, types and flags of bpf(2) (`include/uapi/linux/bpf.h`).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const LINK_CREATE: libc::c_int = 28;
const SOCKET_MAP: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const XDP_ATTACHMENT: u32 = 37;
/// Highest number of a receive queue, plus one.
const QUEUES: u32 = 64;

/// Helper functions that a program calls.
const KTIME_GET_NS: i32 = 5;
const REDIRECT_MAP: i32 = 51;
const ADJUST_META: i32 = 54;
/// Verdict for frames of others.
const PASS: i32 = 2;

/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// EtherType of EtherCAT as a program reads it, and where it is in a frame.
const ETHERCAT: i32 = u16::from_ne_bytes([0x88, 0xa4]) as i32;
const ETHERTYPE_AT: i16 = 12;
const ETHERNET_HEADER: i32 = 14;

/// Bytes of the stamp before a frame: the instant on `CLOCK_MONOTONIC` in ns, and its complement,
/// which distinguishes a stamp from other bytes.
pub(super) const STAMP_BYTES: usize = 16;

/// Where an interface runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel allocates memory for a frame.
    Driver,
    /// In the kernel's network stack, for drivers without XDP.
    Generic,
}

impl AttachMode {
    /// Flags of an attachment (`include/uapi/linux/if_link.h`).
    const fn flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Driver => 1 << 2,
        }
    }

    /// Returns the mode as a phrase.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Driver => "in the driver",
            Self::Generic => "generic mode",
        }
    }
}

/// A program attached to an interface of the caller's network namespace until this is dropped.
#[derive(Debug)]
pub(super) struct XdpProgram {
    sockets: OwnedFd,
    pub(super) mode: AttachMode,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl XdpProgram {
    /// Attaches the program to the interface with this index: in the driver, or where the driver
    /// has no XDP, in the network stack.
    pub(super) fn attach(index: u32, name: &str) -> Result<Self, XdpError> {
        let failed = |step| move |source| XdpError::from_step(step, source);
        let sockets = socket_map().map_err(failed("create a map of sockets"))?;
        let program = load(&sockets).map_err(failed("load an XDP program"))?;
        let (link, mode) = when_free(|| link_in_any_mode(&program, index, name))?;
        Ok(Self { sockets, mode, _program: program, _link: link })
    }

    /// Redirects frames of EtherCAT that arrive at a queue to a socket.
    pub(super) fn redirect(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), XdpError> {
        let value = socket.as_raw_fd();
        let attributes = BpfAttributes::new()
            .word(0, self.sockets.as_raw_fd().cast_unsigned())
            .double(8, std::ptr::from_ref(&queue) as u64)
            .double(16, std::ptr::from_ref(&value) as u64);
        // SAFETY: key and value have 4 bytes each, as the map, and live across the call.
        unsafe { bpf::command(MAP_UPDATE, attributes) }
            .map(|_| ())
            .map_err(|source| XdpError::from_step("redirect frames to a socket", source))
    }
}

fn link_in_any_mode(
    program: &OwnedFd,
    index: u32,
    name: &str,
) -> Result<(OwnedFd, AttachMode), XdpError> {
    let is_busy = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
    let mut mode = AttachMode::Driver;
    let mut linked = link(program, index, mode);
    if linked.as_ref().is_err_and(|error| !is_busy(error)) {
        mode = AttachMode::Generic;
        linked = link(program, index, mode);
    }

    match linked {
        Ok(link) => Ok((link, mode)),
        Err(error) if is_busy(&error) || error.raw_os_error() == Some(libc::EEXIST) => {
            Err(XdpError::Busy { what: "XDP program", name: name.to_owned() })
        }
        Err(error) => Err(XdpError::from_step("attach an XDP program", error)),
    }
}

fn socket_map() -> io::Result<OwnedFd> {
    let attributes =
        BpfAttributes::new().word(0, SOCKET_MAP).word(4, 4).word(8, 4).word(12, QUEUES);
    // SAFETY: no addresses in these attributes.
    unsafe { bpf::create(MAP_CREATE, attributes) }
}

fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    let program = instructions(sockets.as_raw_fd());
    let license = c"Dual MIT/GPL";
    let attributes = BpfAttributes::new()
        .word(0, XDP_PROGRAM)
        .word(4, program.len() as u32)
        .double(8, program.as_ptr() as u64)
        .double(16, license.as_ptr() as u64);

    // SAFETY: the program has the given number of instructions, the license ends with a zero byte,
    // and both live across the call.
    unsafe { bpf::load(attributes) }
}

fn link(program: &OwnedFd, index: u32, mode: AttachMode) -> io::Result<OwnedFd> {
    let attributes = BpfAttributes::new()
        .word(0, program.as_raw_fd().cast_unsigned())
        .word(4, index)
        .word(8, XDP_ATTACHMENT)
        .word(12, mode.flags());
    // SAFETY: no addresses in these attributes.
    unsafe { bpf::create(LINK_CREATE, attributes) }
}

/// The instructions, as the kernel reads them.
fn instructions(sockets: libc::c_int) -> [u64; 30] {
    use Code::{
        AddNumber, Call, Exit, IfGreater, IfNotNumber, LoadShort, LoadWord, MapAddress, Move,
        MoveNumber, StoreDouble, XorNumber,
    };

    [
        instruction(Move, 6, 1, 0, 0),
        // A frame with an EtherType of EtherCAT, else pass.
        instruction(LoadWord, 2, 6, DATA, 0),
        instruction(LoadWord, 3, 6, DATA_END, 0),
        instruction(Move, 4, 2, 0, 0),
        instruction(AddNumber, 4, 0, 0, ETHERNET_HEADER),
        instruction(IfGreater, 4, 3, 22, 0),
        instruction(LoadShort, 5, 2, ETHERTYPE_AT, 0),
        instruction(IfNotNumber, 5, 0, 20, ETHERCAT),
        instruction(Call, 0, 0, 0, KTIME_GET_NS),
        instruction(Move, 7, 0, 0, 0),
        // Room for the stamp before the frame; drivers without it leave the frame unstamped.
        instruction(Move, 1, 6, 0, 0),
        instruction(MoveNumber, 2, 0, 0, -(STAMP_BYTES as i32)),
        instruction(Call, 0, 0, 0, ADJUST_META),
        instruction(IfNotNumber, 0, 0, 8, 0),
        instruction(LoadWord, 2, 6, DATA_META, 0),
        instruction(LoadWord, 3, 6, DATA, 0),
        instruction(Move, 4, 2, 0, 0),
        instruction(AddNumber, 4, 0, 0, STAMP_BYTES as i32),
        instruction(IfGreater, 4, 3, 3, 0),
        instruction(StoreDouble, 2, 7, 0, 0),
        instruction(XorNumber, 7, 0, 0, -1),
        instruction(StoreDouble, 2, 7, 8, 0),
        // To the socket of the queue; without one, pass.
        instruction(MapAddress, 1, 1, 0, sockets),
        0,
        instruction(LoadWord, 2, 6, QUEUE, 0),
        instruction(MoveNumber, 3, 0, 0, PASS),
        instruction(Call, 0, 0, 0, REDIRECT_MAP),
        instruction(Exit, 0, 0, 0, 0),
        instruction(MoveNumber, 0, 0, 0, PASS),
        instruction(Exit, 0, 0, 0, 0),
    ]
}

/// Operations (`include/uapi/linux/bpf_common.h`, `bpf.h`).
#[derive(Clone, Copy)]
#[repr(u8)]
enum Code {
    AddNumber = 0x07,
    MapAddress = 0x18,
    IfGreater = 0x2d,
    IfNotNumber = 0x55,
    LoadWord = 0x61,
    LoadShort = 0x69,
    StoreDouble = 0x7b,
    Call = 0x85,
    Exit = 0x95,
    XorNumber = 0xa7,
    MoveNumber = 0xb7,
    Move = 0xbf,
}

/// `struct bpf_insn` as one number in the byte order of this machine.
const fn instruction(code: Code, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    let offset = offset.to_ne_bytes();
    let number = number.to_ne_bytes();
    u64::from_ne_bytes([
        code as u8, registers, offset[0], offset[1], number[0], number[1], number[2], number[3],
    ])
}
