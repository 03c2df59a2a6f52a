//! What a program that reads a stranger's bytes gives up after its start, so that a defect in its reader
//! is of little use to the stranger.
//!
//! All of it concerns the calling thread and those that it starts afterwards, and cannot be undone: call
//! it before the first other thread, or in the thread that reads. Sockets and files that are open stay
//! usable. The order is [`become_user`], [`drop_capabilities`], [`forbid_programs`].
//!
//! Absent on purpose: rights to files. A process of root without capabilities still owns root's files;
//! only another user does not.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::ptr;

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::syscall_filter::{
    FIRST_ARGUMENT_AT, IF_EQUAL, LOAD_WORD, RETURN, beginning, install, instruction,
};

/// Gives up all capabilities, for good: those in use, those that a program could inherit, and those that
/// a program with a bit or capabilities of its own would bring.
///
/// ```
/// std::thread::spawn(|| {
///     onbeat_host::rights::drop_capabilities()?;
///     assert!(std::fs::read_to_string("/proc/thread-self/status")?.contains("CapEff:\t0000000000000000"));
///     std::io::Result::Ok(())
/// }).join().unwrap()?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
/// The system's.
pub fn drop_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // Permitted with CAP_SETPCAP only; without it, no_new_privs keeps programs from bringing any.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Forbids to run programs, to look into other processes, and to change the machine: such system calls
/// fail with `EPERM` from now on.
///
/// The list names what no reader of a network needs: `execve`, `ptrace`, reading of other processes'
/// memory, new and other namespaces, mounts, kernel modules, BPF, keys, opening by handles, clocks.
///
/// # Errors
/// [`ErrorKind::Unsupported`] on other processors than x86-64 and `AArch64`; the system's, such as that of
/// a kernel without `CONFIG_SECCOMP_FILTER`.
pub fn forbid_programs() -> io::Result<()> {
    install(&mut filter()?)
}

/// Continues as another user, by name or number, with the user's own group and no other. For root; on all
/// threads of the process.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an unknown name; the system's.
pub fn become_user(name: &str) -> io::Result<()> {
    let (user, group) = user_and_group(name)?;
    // SAFETY: plain numbers, and an empty list that is not read.
    let is_done = unsafe {
        libc::setgroups(0, ptr::null()) == 0
            && libc::setresgid(group, group, group) == 0
            && libc::setresuid(user, user, user) == 0
    };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A number without an entry is its own group.
fn user_and_group(name: &str) -> io::Result<(u32, u32)> {
    let number = name.parse::<u32>().ok();
    let name = CString::new(name).map_err(|_| ErrorKind::InvalidInput)?;
    let mut texts = vec![0; 16 << 10];
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = ptr::null_mut();
    // SAFETY: name, entry, the texts with their length, and the result live until the call returns.
    let failed = unsafe {
        let (entry, texts_at) = (entry.as_mut_ptr(), texts.as_mut_ptr());
        match number {
            Some(user) => libc::getpwuid_r(user, entry, texts_at, texts.len(), &raw mut found),
            None => libc::getpwnam_r(name.as_ptr(), entry, texts_at, texts.len(), &raw mut found),
        }
    };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }

    match (found.is_null(), number) {
        // SAFETY: the entry is filled in where a result was found.
        (false, _) => Ok(unsafe { ((*found).pw_uid, (*found).pw_gid) }),
        (true, Some(number)) => Ok((number, number)),
        (true, None) => Err(io::Error::new(ErrorKind::NotFound, "no user has this name")),
    }
}

/// System calls of x86-64 from this number on are those of its 32-bit variant x32, numbered otherwise.
const X32_FROM: u32 = 0x4000_0000;

/// Ports of the processor, which only x86 has.
#[cfg(target_arch = "x86_64")]
const OF_PROCESSOR: &[libc::c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const OF_PROCESSOR: &[libc::c_long] = &[];

/// System calls that fail with `EPERM`.
const FORBIDDEN: &[libc::c_long] = &[
    // Programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_userfaultfd,
    libc::SYS_personality,
    // Namespaces and mounts.
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    // The kernel.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_syslog,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Keys, and files without a path that would be checked.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Clocks and names of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Flags of `clone` that make a namespace, all of them in the lower half of its first argument.
const NEW_NAMESPACE: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();

const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;

const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
/// The C library then uses `clone`, whose flags a filter can read.
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// Every test jumps over one instruction at most, so that none of them counts the list.
fn filter() -> io::Result<Vec<libc::sock_filter>> {
    let mut program = beginning().ok_or(ErrorKind::Unsupported)?;
    program.push(instruction(IF_AT_LEAST, 0, 1, X32_FROM));
    program.push(instruction(RETURN, 0, 0, EPERM));
    let mut answer = |call: libc::c_long, with| -> io::Result<()> {
        let number = u32::try_from(call).map_err(|_| ErrorKind::InvalidInput)?;
        program.push(instruction(IF_EQUAL, 0, 1, number));
        program.push(instruction(RETURN, 0, 0, with));
        Ok(())
    };
    for call in FORBIDDEN.iter().chain(OF_PROCESSOR) {
        answer(*call, EPERM)?;
    }
    answer(libc::SYS_clone3, ENOSYS)?;

    let clone = u32::try_from(libc::SYS_clone).map_err(|_| ErrorKind::InvalidInput)?;
    program.extend([
        instruction(IF_EQUAL, 1, 0, clone),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        instruction(LOAD_WORD, 0, 0, FIRST_ARGUMENT_AT),
        instruction(IF_ANY_BIT, 0, 1, NEW_NAMESPACE),
        instruction(RETURN, 0, 0, EPERM),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
    Ok(program)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs on a thread of its own: what is given up stays given up.
    fn apart<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(run).join().unwrap()
    }

    fn status_of_thread(field: &str) -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    }

    #[test]
    fn no_capability_is_left_in_any_set() {
        let sets = apart(|| {
            drop_capabilities().unwrap();
            ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "NoNewPrivs:"].map(status_of_thread)
        });
        let none = "0000000000000000";
        assert_eq!(sets, [none, none, none, none, "1"]);
    }

    #[test]
    fn programs_and_namespaces_are_refused_and_threads_and_files_are_not() {
        assert!(Command::new("/bin/true").status().unwrap().success());
        apart(|| {
            forbid_programs().unwrap();
            let why = Command::new("/bin/true").status().unwrap_err();
            assert_eq!(why.raw_os_error(), Some(libc::EPERM));

            // SAFETY: plain numbers.
            let refused = [libc::SYS_unshare, libc::SYS_bpf, libc::SYS_clone]
                .map(|call| (unsafe { libc::syscall(call, libc::CLONE_NEWUSER, 0, 0) }, errno()));
            assert_eq!(refused, [(-1, Some(libc::EPERM)); 3]);

            assert_eq!(thread::spawn(|| 7).join().unwrap(), 7, "threads start");
            assert!(fs::read("/proc/self/status").is_ok(), "files open");
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_ok(), "sockets open");
        });
    }

    fn errno() -> Option<i32> {
        io::Error::last_os_error().raw_os_error()
    }

    #[test]
    fn users_are_found_by_name_and_by_number() {
        assert_eq!(user_and_group("root").unwrap(), (0, 0));
        assert_eq!(user_and_group("0").unwrap(), (0, 0));
        assert_eq!(user_and_group("4000000000").unwrap(), (4_000_000_000, 4_000_000_000));
        let why = user_and_group("no-such-user-here").unwrap_err();
        assert_eq!(why.to_string(), "no user has this name");
    }
}
