//! The program that an interface runs on each received frame: `bpf/wire.bpf.c`, loaded by aya.
//!
//! It redirects frames of EtherCAT to the socket of the frame's queue, and writes the instant of
//! arrival before the frame. All other frames, and those of queues without a socket, pass on.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya::maps::{MapError, XskMap};
use aya::programs::{ProgramError, Xdp};
use aya::{Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use onbeat_host::bpf::attach_to_interface;

use super::{XdpError, when_free};

/// `bpf/wire.bpf.c` as compiled, so that building takes no clang.
static WIRE: &[u8] = include_bytes_aligned!("../../../bpf/wire.bpf.o");

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
    map_and_program: Ebpf,
    pub(super) mode: AttachMode,
    _link: OwnedFd,
}

impl XdpProgram {
    /// Attaches the program to the interface with this index: in the driver, or where the driver
    /// has no XDP, in the network stack.
    pub(super) fn attach(index: u32, name: &str) -> Result<Self, XdpError> {
        let failed = |source| XdpError::from_step("load an XDP program", source);
        let mut map_and_program =
            EbpfLoader::new().btf(None).load(WIRE).map_err(|why| failed(of_object(why)))?;
        let program = map_and_program.program_mut("wire").ok_or(ProgramError::NotLoaded);
        let program: Result<&mut Xdp, _> = program.and_then(TryInto::try_into);
        let number = program.and_then(|program| {
            program.load()?;
            Ok(program.fd()?.as_fd().as_raw_fd())
        });
        let number = number.map_err(|why| failed(of_program(why)))?;
        let (link, mode) = when_free(|| link_in_any_mode(number, index, name))?;
        Ok(Self { map_and_program, mode, _link: link })
    }

    /// Redirects frames of EtherCAT that arrive at a queue to a socket.
    pub(super) fn redirect(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), XdpError> {
        let map = self.map_and_program.map_mut("sockets").ok_or(MapError::KeyNotFound);
        let sockets = map.and_then(XskMap::try_from);
        sockets
            .and_then(|mut sockets| sockets.set(queue, socket, 0))
            .map_err(|why| XdpError::from_step("redirect frames to a socket", of_map(why)))
    }
}

/// Returns the system's answer in an error of the loader, by which a missing right is recognised.
fn of_object(why: EbpfError) -> io::Error {
    match why {
        EbpfError::MapError(why) => of_map(why),
        other => io::Error::other(other),
    }
}

fn of_map(why: MapError) -> io::Error {
    match why {
        MapError::CreateError { io_error, .. } | MapError::IoError(io_error) => io_error,
        MapError::SyscallError(call) => call.io_error,
        other => io::Error::other(other),
    }
}

fn of_program(why: ProgramError) -> io::Error {
    match why {
        ProgramError::LoadError { io_error, .. } => io_error,
        ProgramError::SyscallError(call) => call.io_error,
        other => io::Error::other(other),
    }
}

fn link_in_any_mode(
    program: i32,
    index: u32,
    name: &str,
) -> Result<(OwnedFd, AttachMode), XdpError> {
    let is_busy = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
    let mut mode = AttachMode::Driver;
    let mut linked = attach_to_interface(program, index, true);
    if linked.as_ref().is_err_and(|error| !is_busy(error)) {
        mode = AttachMode::Generic;
        linked = attach_to_interface(program, index, false);
    }

    match linked {
        Ok(link) => Ok((link, mode)),
        Err(error) if is_busy(&error) || error.raw_os_error() == Some(libc::EEXIST) => {
            Err(XdpError::Busy { what: "XDP program", name: name.to_owned() })
        }
        Err(error) => Err(XdpError::from_step("attach an XDP program", error)),
    }
}
