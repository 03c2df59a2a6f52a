//! Names of system calls.

/// Returns the name of system call `number` on this architecture, without `sys_`; `None` for rare
/// calls.
#[must_use]
pub fn name(number: i64) -> Option<&'static str> {
    let by_number = |(known, _): &&(libc::c_long, &str)| number == { *known };
    CALLS.iter().chain(OLDER).find(by_number).map(|(_, name)| *name)
}

macro_rules! calls {
    ($($constant:ident $name:literal),* $(,)?) => { &[$((libc::$constant, $name)),*] };
}

/// Calls that every 64-bit architecture has.
const CALLS: &[(libc::c_long, &str)] = calls![
    SYS_read "read", SYS_write "write", SYS_close "close", SYS_fstat "fstat", SYS_lseek "lseek", SYS_mmap "mmap",
    SYS_mprotect "mprotect", SYS_munmap "munmap", SYS_brk "brk", SYS_ioctl "ioctl", SYS_pread64 "pread64",
    SYS_pwrite64 "pwrite64", SYS_readv "readv", SYS_writev "writev", SYS_sched_yield "sched_yield",
    SYS_mremap "mremap", SYS_msync "msync", SYS_madvise "madvise", SYS_nanosleep "nanosleep", SYS_getpid "getpid",
    SYS_socket "socket", SYS_connect "connect", SYS_accept4 "accept4", SYS_sendto "sendto", SYS_recvfrom "recvfrom",
    SYS_sendmsg "sendmsg", SYS_recvmsg "recvmsg", SYS_shutdown "shutdown", SYS_bind "bind", SYS_listen "listen",
    SYS_clone "clone", SYS_clone3 "clone3", SYS_execve "execve", SYS_exit "exit", SYS_exit_group "exit_group",
    SYS_wait4 "wait4", SYS_kill "kill", SYS_tgkill "tgkill", SYS_fcntl "fcntl", SYS_flock "flock", SYS_fsync "fsync",
    SYS_fdatasync "fdatasync", SYS_truncate "truncate", SYS_ftruncate "ftruncate", SYS_getdents64 "getdents64",
    SYS_chdir "chdir", SYS_mkdirat "mkdirat", SYS_unlinkat "unlinkat", SYS_renameat2 "renameat2", SYS_linkat "linkat",
    SYS_symlinkat "symlinkat", SYS_readlinkat "readlinkat", SYS_fchmodat "fchmodat", SYS_fchownat "fchownat",
    SYS_openat "openat", SYS_newfstatat "newfstatat", SYS_statx "statx", SYS_faccessat "faccessat",
    SYS_faccessat2 "faccessat2", SYS_ppoll "ppoll", SYS_pselect6 "pselect6", SYS_splice "splice", SYS_tee "tee",
    SYS_sendfile "sendfile", SYS_copy_file_range "copy_file_range", SYS_fallocate "fallocate", SYS_sync "sync",
    SYS_syncfs "syncfs", SYS_sync_file_range "sync_file_range", SYS_mount "mount", SYS_umount2 "umount2",
    SYS_futex "futex", SYS_epoll_create1 "epoll_create1", SYS_epoll_ctl "epoll_ctl", SYS_epoll_pwait "epoll_pwait",
    SYS_eventfd2 "eventfd2", SYS_timerfd_settime "timerfd_settime", SYS_clock_nanosleep "clock_nanosleep",
    SYS_clock_gettime "clock_gettime", SYS_set_robust_list "set_robust_list", SYS_mlock "mlock", SYS_mlock2 "mlock2",
    SYS_mlockall "mlockall", SYS_munlock "munlock", SYS_munlockall "munlockall", SYS_mincore "mincore",
    SYS_shmget "shmget", SYS_shmat "shmat", SYS_semop "semop", SYS_msgsnd "msgsnd", SYS_msgrcv "msgrcv",
    SYS_pipe2 "pipe2", SYS_dup "dup", SYS_dup3 "dup3", SYS_rt_sigaction "rt_sigaction",
    SYS_rt_sigprocmask "rt_sigprocmask", SYS_rt_sigreturn "rt_sigreturn", SYS_getrandom "getrandom",
    SYS_memfd_create "memfd_create", SYS_bpf "bpf", SYS_perf_event_open "perf_event_open", SYS_io_submit "io_submit",
    SYS_io_getevents "io_getevents", SYS_io_uring_enter "io_uring_enter", SYS_io_uring_setup "io_uring_setup",
    SYS_sched_setaffinity "sched_setaffinity", SYS_sched_setscheduler "sched_setscheduler", SYS_membarrier "membarrier",
    SYS_move_pages "move_pages", SYS_migrate_pages "migrate_pages", SYS_process_vm_readv "process_vm_readv",
    SYS_finit_module "finit_module", SYS_init_module "init_module", SYS_delete_module "delete_module",
    SYS_prctl "prctl", SYS_prlimit64 "prlimit64", SYS_waitid "waitid", SYS_unshare "unshare", SYS_setns "setns",
    SYS_inotify_add_watch "inotify_add_watch", SYS_sendmmsg "sendmmsg", SYS_recvmmsg "recvmmsg",
    SYS_setsockopt "setsockopt", SYS_getsockopt "getsockopt", SYS_vmsplice "vmsplice", SYS_readahead "readahead",
    SYS_rt_sigtimedwait "rt_sigtimedwait", SYS_rt_sigsuspend "rt_sigsuspend", SYS_epoll_pwait2 "epoll_pwait2",
    SYS_mq_timedsend "mq_timedsend", SYS_mq_timedreceive "mq_timedreceive", SYS_semtimedop "semtimedop",
    SYS_futex_waitv "futex_waitv", SYS_restart_syscall "restart_syscall", SYS_timerfd_create "timerfd_create",
    SYS_timer_create "timer_create", SYS_timer_settime "timer_settime", SYS_setitimer "setitimer",
    SYS_fadvise64 "fadvise64", SYS_preadv "preadv", SYS_pwritev "pwritev", SYS_ptrace "ptrace", SYS_reboot "reboot",
];

/// Calls that newer architectures omit.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(libc::c_long, &str)] = calls![
    SYS_open "open", SYS_stat "stat", SYS_lstat "lstat", SYS_poll "poll", SYS_access "access", SYS_pipe "pipe",
    SYS_select "select", SYS_dup2 "dup2", SYS_fork "fork", SYS_vfork "vfork", SYS_rename "rename", SYS_mkdir "mkdir",
    SYS_rmdir "rmdir", SYS_creat "creat", SYS_link "link", SYS_unlink "unlink", SYS_symlink "symlink",
    SYS_readlink "readlink", SYS_chmod "chmod", SYS_chown "chown", SYS_getdents "getdents", SYS_utime "utime",
    SYS_epoll_wait "epoll_wait", SYS_epoll_create "epoll_create", SYS_eventfd "eventfd", SYS_accept "accept",
    SYS_arch_prctl "arch_prctl", SYS_pause "pause",
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(libc::c_long, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn calls_are_known_by_their_number() {
        assert_eq!(name(libc::SYS_write), Some("write"));
        assert_eq!(name(libc::SYS_clock_nanosleep), Some("clock_nanosleep"));
        assert_eq!(name(libc::SYS_rt_sigtimedwait), Some("rt_sigtimedwait"));
        assert_eq!(name(-1), None);
    }
}
