//! What the loop met inside its cycles, beyond the events of every thread: the call in which it left
//! its CPU, page faults and calls that change its memory with their length, and lent priorities.
//!
//! BPF records it of the loop alone (`bpf/path.bpf.c`); it is not kept in run files.

use onbeat_rt::Instant;

/// Something that the loop met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsideEvent {
    /// When it was recorded: of something with a length, its end.
    pub at: Instant,
    pub cpu: u32,
    /// The thread that it happened to, or that ran.
    pub tid: u32,
    pub what: Inside,
}

/// What it met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It left its CPU in a system call.
    LeftIn(CallLeftIn),
    /// A page fault.
    Fault {
        address: u64,
        /// How long it took, in nanoseconds.
        ns: u64,
        /// Whether it had to wait for a device.
        is_major: bool,
    },
    /// A system call that changes its memory.
    MemoryCall {
        /// The call's number.
        number: i64,
        /// How long it took, in nanoseconds.
        ns: u64,
        /// Whether that is all of it: otherwise only what it did under the lock of the memory, or
        /// between two tables of pages.
        is_whole: bool,
    },
    /// A function each of whose calls is a cycle was called.
    FunctionBegins {
        /// Where its stack began; 0: not known.
        stack: u64,
    },
    /// It returned.
    FunctionEnds {
        /// The same, one word higher.
        stack: u64,
    },
    /// A thread runs at the priority of another that waits for its lock, or at its own again.
    Lent(LentPriority),
}

/// The system call in which a thread left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLeftIn {
    /// The call's number.
    pub number: i64,
    /// Of a futex: the operation without its flags.
    pub operation: u32,
    /// The first argument: a descriptor, or the address of a futex.
    pub first: u64,
    /// Of a futex with priority inheritance its word, otherwise the low half of the third argument:
    /// the value that a futex waits to change, the length of a write.
    pub word: u32,
    /// Of a futex: who holds it, if it is a mutex of the GNU C library.
    pub owner: u32,
}

/// A priority that a thread has from a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentPriority {
    /// Who holds the lock.
    pub holder: u32,
    /// Its kernel priority until now.
    pub holder_prio: i32,
    /// Who waits; 0: the holder is back at its own priority.
    pub waiter: u32,
}

/// What a futex is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FutexUse {
    /// A lock that another thread holds.
    Lock {
        /// The kernel lends the waiter's priority to the holder.
        inherits: bool,
        /// The number of the holder in its PID namespace, if the word or its neighbour has it.
        holder: Option<u32>,
    },
    /// A condition variable, a semaphore, an event: something that another thread is to do.
    Signal,
}

/// `FUTEX_TID_MASK` and `FUTEX_WAITERS` (include/uapi/linux/futex.h).
const TID_MASK: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;
/// The value of a lock with waiters in the GNU C library (sysdeps/nptl/lowlevellock.h) and in Rust's
/// standard library.
const CONTENDED: u32 = 2;
/// Operations of a futex.
const WAIT: u32 = 0;
const LOCK_PI: u32 = 6;
const WAIT_BITSET: u32 = 9;
const LOCK_PI2: u32 = 13;

impl CallLeftIn {
    /// Whether the first argument is a descriptor of something that is written or read.
    pub(crate) const fn takes_descriptor(&self) -> bool {
        matches!(
            self.number,
            libc::SYS_read
                | libc::SYS_readv
                | libc::SYS_pread64
                | libc::SYS_ioctl
                | libc::SYS_recvfrom
                | libc::SYS_recvmsg
                | libc::SYS_sendto
                | libc::SYS_sendmsg
        ) || self.writes()
    }

    /// Whether the call writes to a file, a pipe or a terminal, or waits for what was written.
    pub(crate) const fn writes(&self) -> bool {
        matches!(
            self.number,
            libc::SYS_write
                | libc::SYS_writev
                | libc::SYS_pwrite64
                | libc::SYS_pwritev
                | libc::SYS_fsync
                | libc::SYS_fdatasync
                | libc::SYS_ftruncate
                | libc::SYS_fallocate
                | libc::SYS_sync_file_range
        )
    }

    /// Whether the call changes the memory of the process, or copies it.
    pub(crate) const fn changes_memory(&self) -> bool {
        changes_memory(self.number)
    }

    /// Returns what the futex is used for.
    pub(crate) fn futex_use(&self) -> FutexUse {
        let some = |tid: u32| Some(tid).filter(|tid| *tid != 0);
        match self.operation {
            LOCK_PI | LOCK_PI2 => {
                FutexUse::Lock { inherits: true, holder: some(self.word & TID_MASK) }
            }
            // Robust mutexes, and those of musl, have their holder in the word.
            WAIT if self.word & WAITERS != 0 => {
                FutexUse::Lock { inherits: false, holder: some(self.word & TID_MASK) }
            }
            WAIT | WAIT_BITSET if self.word == CONTENDED => {
                FutexUse::Lock { inherits: false, holder: some(self.owner) }
            }
            _ => FutexUse::Signal,
        }
    }
}

#[cfg(target_arch = "x86_64")]
const fn is_old_fork(number: i64) -> bool {
    matches!(number, libc::SYS_fork | libc::SYS_vfork)
}
#[cfg(not(target_arch = "x86_64"))]
const fn is_old_fork(_number: i64) -> bool {
    false
}

/// Whether a system call neither reads nor writes memory of its process: no page fault is inside it.
pub(crate) const fn takes_no_memory(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync_file_range
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
    )
}

/// Whether a system call changes the memory of its process, or copies it.
const fn changes_memory(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_madvise
            | libc::SYS_mprotect
            | libc::SYS_brk
            | libc::SYS_mlock
            | libc::SYS_mlock2
            | libc::SYS_mlockall
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_shmat
            | libc::SYS_shmdt
    ) || is_old_fork(number)
}

/// A stretch of the loop's own time with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) what: Inside,
}

/// Returns the page faults, the calls that change memory, and the times for which another thread had
/// the priority of `tid`, in order of their beginnings.
pub(crate) fn stretches(inside: &[InsideEvent], tid: u32) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut lent: Option<(Instant, LentPriority)> = None;
    for event in inside {
        let over = |ns| Stretch { from: event.at.minus_ns(ns), to: event.at, what: event.what };
        match event.what {
            Inside::Fault { ns, .. } if event.tid == tid => found.push(over(ns)),
            // Other calls lock the memory of the process too, to read it.
            Inside::MemoryCall { ns, number, .. } if event.tid == tid && changes_memory(number) => {
                found.push(over(ns));
            }
            Inside::Lent(now) if now.waiter == tid => lent = lent.or(Some((event.at, now))),
            Inside::Lent(now) => {
                if let Some((from, of)) = lent.take_if(|(_, of)| of.holder == now.holder) {
                    found.push(Stretch { from, to: event.at, what: Inside::Lent(of) });
                }
            }
            _ => {}
        }
    }
    found.sort_by_key(|stretch| stretch.from);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn futex(operation: u32, word: u32, owner: u32) -> FutexUse {
        CallLeftIn { number: 202, operation, word, owner, first: 0 }.futex_use()
    }

    #[test]
    fn a_lock_is_told_from_a_signal_by_operation_and_value() {
        let lock = |inherits, holder| FutexUse::Lock { inherits, holder };
        assert_eq!(futex(0, 2, 77), lock(false, Some(77)), "a mutex of glibc");
        assert_eq!(futex(0, 2, 0), lock(false, None), "malloc, stdio");
        assert_eq!(futex(9, 2, 0), lock(false, None), "std::sync::Mutex of Rust");
        assert_eq!(futex(0, 0x8000_004d, 5), lock(false, Some(77)), "a robust mutex");
        assert_eq!(futex(6, 0x8000_004d, 5), lock(true, Some(77)));
        assert_eq!(futex(13, 77, 5), lock(true, Some(77)));
        assert_eq!(futex(9, 0, 77), FutexUse::Signal, "a condition variable of glibc");
        assert_eq!(futex(0, 0, 77), FutexUse::Signal, "Go's sleep");
        assert_eq!(futex(11, 4, 0), FutexUse::Signal);
    }

    #[test]
    fn a_lent_priority_lasts_until_the_holder_has_another() {
        let lent = |at, holder, waiter| InsideEvent {
            at: Instant::from_ns(at),
            cpu: 0,
            tid: waiter,
            what: Inside::Lent(LentPriority { holder, holder_prio: 120, waiter }),
        };
        let fault = InsideEvent {
            at: Instant::from_ns(90),
            cpu: 0,
            tid: 7,
            what: Inside::Fault { address: 1, ns: 20, is_major: false },
        };
        let inside = [lent(10, 5, 7), lent(15, 6, 8), fault, lent(40, 6, 0), lent(60, 5, 0)];
        let found = stretches(&inside, 7);
        let times: Vec<(u64, u64)> =
            found.iter().map(|one| (one.from.as_ns(), one.to.as_ns())).collect();
        assert_eq!(times, [(10, 60), (70, 90)]);
        assert_eq!(stretches(&inside, 9), []);
    }
}
