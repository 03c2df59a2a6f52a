//! A system-call filter that kills the process when its loop makes an unexpected system call.
//!
//! It allows the calls on the front page of [`onbeat_rt`], those that end a thread, and the mapping
//! that replaces a truncated ring.

use std::io;

use crate::syscall_filter::{
    FIRST_ARGUMENT_AT, IF_EQUAL, LOAD_WORD, RETURN, beginning, install, instruction,
};

/// The filter could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum LockdownError {
    /// The kernel refused the filter.
    #[error(
        "cannot install the loop's system-call filter: {0}; this kernel needs CONFIG_SECCOMP_FILTER"
    )]
    Refused(#[from] io::Error),
    /// This processor is not supported.
    #[error(
        "the loop's system-call filter knows x86-64 and AArch64, and this is {arch}; run without --lockdown"
    )]
    UnknownProcessor {
        /// The processor.
        arch: &'static str,
    },
}

/// Whether a loop uses ports besides sleep and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPorts {
    /// Sleep and time only.
    None,
    /// It reads and writes prepared descriptors.
    Open,
}

/// Additional calls for a loop with ports.
const OF_PORTS: [libc::c_long; 6] = [
    libc::SYS_write,
    libc::SYS_ioctl,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
];

/// Calls for every loop, then calls that end its thread.
const ALLOWED: [libc::c_long; 11] = [
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigreturn,
    libc::SYS_getrusage,
    libc::SYS_futex,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_madvise,
    libc::SYS_munmap,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The only mapping that is permitted: pages of zeros in place of a truncated ring, made by the
/// handler of SIGBUS (`onbeat_control::truncation`). An allocator maps without `MAP_FIXED`.
const MAPS_ZEROS: u32 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED).cast_unsigned();

/// The fourth argument, the flags of mmap.
const FLAGS_AT: u32 = FIRST_ARGUMENT_AT + 3 * 8;

/// Restricts the calling thread to the system calls of a loop; any other call kills the process
/// with `SIGSYS`. This cannot be undone.
///
/// # Errors
/// [`LockdownError`].
pub fn lockdown(ports: LoopPorts) -> Result<(), LockdownError> {
    let unknown = LockdownError::UnknownProcessor { arch: std::env::consts::ARCH };
    let mut program = beginning().ok_or(unknown)?;
    program.extend([
        instruction(IF_EQUAL, 0, 4, u32::try_from(libc::SYS_mmap).unwrap_or(u32::MAX)),
        instruction(LOAD_WORD, 0, 0, FLAGS_AT),
        instruction(IF_EQUAL, 0, 1, MAPS_ZEROS),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ]);
    let of_ports: &[libc::c_long] = if ports == LoopPorts::Open { &OF_PORTS } else { &[] };
    let allowed = [&ALLOWED, of_ports].concat();

    for (place, &number) in allowed.iter().enumerate() {
        // Jumps over the rest of the list and the kill, to the last instruction.
        let to_allow = u8::try_from(allowed.len() - place).unwrap_or(u8::MAX);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        program.push(instruction(IF_EQUAL, to_allow, 0, number));
    }

    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    Ok(install(&mut program)?)
}
