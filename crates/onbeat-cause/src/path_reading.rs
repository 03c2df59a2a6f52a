//! The readings that programs take when the loop is woken, gets a CPU or leaves it: steal time,
//! rules of the scheduler, and the system call of the other thread.

use super::assembler::{FRAME, KernelCall, R1, R2, R3, R7, R9, Register, Width};
use super::path_offsets::Throttled;
use super::path_program::ProgramBuilder;
use super::path_record::{
    BY_SERVER, FROM_USER, FROZEN, KIND, KNOWS_FREEZER, KNOWS_SERVER, KNOWS_STEAL, KNOWS_THROTTLING,
    NO_CALL, PathKind, REST, THROTTLED,
};

/// `struct pt_regs` of x86-64 from `r11` to `eflags`: its offset, its length, and the offsets of
/// its members.
const REGISTERS_FROM: i32 = 48;
const REGISTERS_LENGTH: i32 = 104;
const R11: i16 = 0;
const RCX: i16 = 40;
const ORIG_RAX: i16 = 72;
const RIP: i16 = 80;
const CS: i16 = 88;
const EFLAGS: i16 = 96;
/// Where `struct pt_regs` begins, counted from the start of a kernel stack: 16 KiB less its own 168
/// bytes.
const REGISTERS_ON_STACK: i32 = (16 << 10) - 168;
/// Offset of the copied registers in the program's stack frame.
const COPY: i16 = -128;
/// System call numbers are below this.
const CALLS: i32 = 1024;
/// Privilege level of user code in a code segment selector.
const USER: i32 = 3;
/// A thread in the freezer of cgroup v1, in its `__state` (`TASK_FROZEN`, since Linux 6.1).
const STATE_FROZEN: i32 = 0x8000;
/// A thread that the freezer of cgroup v2 stops, in its `jobctl` (`JOBCTL_TRAP_FREEZE`, since Linux
/// 5.2).
const TRAP_FREEZE: i32 = 1 << 23;

impl ProgramBuilder<'_> {
    /// Stores kind and flags of a reading in the record in R7. R9 is the loop's thread; at a switch
    /// `next` is the thread that gets the CPU. Clobbers R1 to R3.
    pub(super) fn read_flags(&mut self, kind: PathKind, next: Option<Register>) {
        let offsets = self.offsets;
        let server = next.zip(offsets.server);
        let throttling = offsets.throttled.map_or(0, |_| KNOWS_THROTTLING);
        let serving = server.map_or(0, |_| KNOWS_SERVER);
        let freezing = offsets.stop_requests.map_or(0, |_| KNOWS_FREEZER);
        let known = self.knows_steal() | throttling | serving | freezing;
        self.code.set(R2, kind as i32 | known << 8);

        if let Some((next, offset)) = server {
            self.code.copy(R1, next);
            self.load_far(Width::Double, R1, offset);
            self.set_flag_unless_zero(BY_SERVER);
        }

        if let Some(throttled) = offsets.throttled {
            match throttled {
                Throttled::OfGroup(group, flag) => {
                    self.code.copy(R1, R9);
                    self.load_far(Width::Double, R1, group);
                    self.load_far(Width::Word, R1, flag);
                }
                Throttled::OfCpu(flag) => {
                    self.load_queue(R1);
                    self.load_far(Width::Word, R1, flag);
                }
            }
            self.set_flag_unless_zero(THROTTLED);
        }

        self.read_freezer(kind);
        self.code.store(Width::Word, R7, KIND, R2);
    }

    /// Sets the flag of a frozen thread in R2. R9 is the loop's thread. A thread that the freezer of
    /// cgroup v2 wakes still sleeps for itself, so its trap counts when it leaves the CPU only.
    /// Clobbers R1 and R3.
    fn read_freezer(&mut self, kind: PathKind) {
        let Some(requests) = self.offsets.stop_requests else { return };
        self.code.load(Width::Word, R1, R9, self.offsets.state);
        self.code.and(R1, STATE_FROZEN);
        self.set_flag_unless_zero(FROZEN);
        if kind == PathKind::Reading {
            self.code.copy(R1, R9);
            self.load_far(Width::Double, R1, requests);
            self.code.and(R1, TRAP_FREEZE);
            self.set_flag_unless_zero(FROZEN);
        }
    }

    /// Stores the kind of a reading without the scheduler's flags in the record in R7. Clobbers R1.
    pub(super) fn note_kind(&mut self, kind: PathKind) {
        self.code.set(R1, kind as i32 | self.knows_steal() << 8);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    fn knows_steal(&self) -> i32 {
        self.offsets.steal.map_or(0, |_| KNOWS_STEAL)
    }

    /// Stores the steal time of the CPU of the loop in R9. Clobbers R1.
    pub(super) fn read_steal(&mut self) {
        let Some(steal) = self.offsets.steal else { return };
        self.load_queue(R1);
        self.load_far(Width::Double, R1, steal);
        self.code.store(Width::Double, R7, REST, R1);
    }

    /// Stores at `place` how `thread` entered the kernel. Uses the user registers at the top of its
    /// kernel stack: the instruction `syscall` leaves the return address in `rcx` and the flags in
    /// `r11`, and no other entry does both. Clobbers R1 to R5.
    pub(super) fn read_call(&mut self, thread: Register, place: i16) {
        let [done, from_user, in_call] =
            [self.code.new_target(), self.code.new_target(), self.code.new_target()];
        self.code.copy(R3, thread);
        self.code.set(R1, NO_CALL);
        self.code.store(Width::Word, R7, place, R1);
        if !cfg!(target_arch = "x86_64") {
            return;
        }

        // Most wake-ups find an idle CPU, which has no user registers, so its stack is not read.
        self.code.load(Width::Word, R1, R3, self.offsets.pid);
        self.code.jump_if_zero(R1, done);

        self.load_far(Width::Double, R3, self.offsets.stack);
        self.code.add(R3, REGISTERS_ON_STACK + REGISTERS_FROM);
        self.code.copy(R1, FRAME);
        self.code.add(R1, COPY.into());
        self.code.set(R2, REGISTERS_LENGTH);
        self.code.call(KernelCall::ProbeReadKernel);

        self.code.load(Width::Double, R1, FRAME, COPY + CS);
        self.code.and(R1, USER);
        self.code.jump_if_not(R1, USER, done);
        for (left, holds) in [(RCX, RIP), (R11, EFLAGS)] {
            self.code.load(Width::Double, R1, FRAME, COPY + left);
            self.code.load(Width::Double, R2, FRAME, COPY + holds);
            self.code.jump_if_different(R1, R2, from_user);
        }

        self.code.load(Width::Double, R1, FRAME, COPY + ORIG_RAX);
        self.code.jump_if_at_most(R1, CALLS - 1, in_call);
        self.code.jump(done);
        self.code.bind(from_user);
        self.code.set(R1, FROM_USER);
        self.code.bind(in_call);
        self.code.store(Width::Word, R7, place, R1);
        self.code.bind(done);
    }

    /// Loads the run queue of the CPU of the loop in R9 into `to`.
    fn load_queue(&mut self, to: Register) {
        let [fair, queue] = self.offsets.queue;
        self.code.copy(to, R9);
        self.load_far(Width::Double, to, fair);
        self.load_far(Width::Double, to, queue);
    }

    /// Loads the member at `offset` of the structure in `register` into `register`.
    fn load_far(&mut self, width: Width, register: Register, offset: i32) {
        self.code.add(register, offset);
        self.code.load(width, register, register, 0);
    }

    /// Sets `flag` in R2 unless R1 is 0. Clobbers R3.
    fn set_flag_unless_zero(&mut self, flag: i32) {
        let is_zero = self.code.new_target();
        self.code.jump_if_zero(R1, is_zero);
        self.code.set(R3, flag << 8);
        self.code.or(R2, R3);
        self.code.bind(is_zero);
    }
}
