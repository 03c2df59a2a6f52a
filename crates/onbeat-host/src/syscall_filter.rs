//! Filters of system calls (seccomp(2)): what their programs consist of, how each begins, and how
//! a thread gets one.
#![allow(unsafe_code)]

use std::io::{self, ErrorKind};

use rustix::thread::set_no_new_privs;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const AUDIT_ARCH: Option<u32> = None;

pub(crate) const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
pub(crate) const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
pub(crate) const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
/// Offsets in `struct seccomp_data` (`include/uapi/linux/seccomp.h`); of an argument that of its low
/// half, on little-endian processors as both are.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
pub(crate) const FIRST_ARGUMENT_AT: u32 = 16;

/// One instruction; `jt` and `jf` are how many it jumps over where its test holds, and where not.
pub(crate) const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// The beginning of a program: kills a process of another processor, then loads the number of the
/// call. `None` on processors other than x86-64 and `AArch64`.
pub(crate) fn beginning() -> Option<Vec<libc::sock_filter>> {
    Some(vec![
        instruction(LOAD_WORD, 0, 0, ARCH_AT),
        instruction(IF_EQUAL, 1, 0, AUDIT_ARCH?),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, NUMBER_AT),
    ])
}

/// Gives the calling thread, and those that it starts afterwards, a program for good.
pub(crate) fn install(program: &mut [libc::sock_filter]) -> io::Result<()> {
    set_no_new_privs(true)?;
    let len = u16::try_from(program.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads `len` instructions behind `filter`, which live until it returns.
    let answer =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
