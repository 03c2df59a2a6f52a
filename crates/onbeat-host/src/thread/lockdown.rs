//! A system-call filter that kills the process when its loop makes an unexpected system call.
//!
//! It allows the calls on the front page of [`onbeat_rt`], those that end a thread, and the mapping
//! that replaces a truncated ring.
#![allow(unsafe_code)]

use std::io;

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

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const AUDIT_ARCH: Option<u32> = None;

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

const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
/// Offsets in `struct seccomp_data` (`include/uapi/linux/seccomp.h`).
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
/// Low half of the fourth argument, the flags of mmap; both processors are little-endian.
const FLAGS_AT: u32 = 16 + 3 * 8;

/// Restricts the calling thread to the system calls of a loop; any other call kills the process
/// with `SIGSYS`. This cannot be undone.
///
/// # Errors
/// [`LockdownError`].
pub fn lockdown(ports: LoopPorts) -> Result<(), LockdownError> {
    let arch =
        AUDIT_ARCH.ok_or(LockdownError::UnknownProcessor { arch: std::env::consts::ARCH })?;
    let mut program = vec![
        instruction(LOAD_WORD, 0, 0, ARCH_AT),
        instruction(JUMP_IF_EQUAL, 1, 0, arch),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, NUMBER_AT),
        instruction(JUMP_IF_EQUAL, 0, 4, u32::try_from(libc::SYS_mmap).unwrap_or(u32::MAX)),
        instruction(LOAD_WORD, 0, 0, FLAGS_AT),
        instruction(JUMP_IF_EQUAL, 0, 1, MAPS_ZEROS),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let of_ports: &[libc::c_long] = if ports == LoopPorts::Open { &OF_PORTS } else { &[] };
    let allowed = [&ALLOWED, of_ports].concat();

    for (place, &number) in allowed.iter().enumerate() {
        // Jumps over the rest of the list and the kill, to the last instruction.
        let to_allow = u8::try_from(allowed.len() - place).unwrap_or(u8::MAX);
        program.push(instruction(
            JUMP_IF_EQUAL,
            to_allow,
            0,
            u32::try_from(number).unwrap_or(u32::MAX),
        ));
    }

    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    install(&mut program)
}

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn install(program: &mut [libc::sock_filter]) -> Result<(), LockdownError> {
    let len = u16::try_from(program.len()).unwrap_or(u16::MAX);
    let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the first call takes plain numbers; the second reads `len` instructions behind
    // `filter`, which live until it returns.
    let answer = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
        } else {
            -1
        }
    };

    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error().into()) }
}
