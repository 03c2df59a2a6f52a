//! What the programs read when the loop gets or leaves a CPU or is woken: time that the hypervisor has taken, rules of the
//! scheduler at work, and the system call of the other thread.

use super::assembler::{FRAME, KernelCall, R1, R2, R3, R7, R9, Register, Width};
use super::path_offsets::Throttled;
use super::path_program::ProgramBuilder;
use super::path_record::{
    BY_SERVER, FROM_USER, KIND, KNOWS_SERVER, KNOWS_STEAL, KNOWS_THROTTLING, NO_CALL, PathKind, REST, THROTTLED,
};

/// `struct pt_regs` of x86-64 from `r11` to `eflags`: its place in the structure, its length, and what is where in it.
const REGISTERS_FROM: i32 = 48;
const REGISTERS_LENGTH: i32 = 104;
const R11: i16 = 0;
const RCX: i16 = 40;
const ORIG_RAX: i16 = 72;
const RIP: i16 = 80;
const CS: i16 = 88;
const EFLAGS: i16 = 96;
/// Where `struct pt_regs` begins, counted from the start of a kernel stack: 16 KiB less its own 168 bytes.
const REGISTERS_ON_STACK: i32 = (16 << 10) - 168;
/// Where the program's own frame holds the registers.
const COPY: i16 = -128;
/// Numbers of system calls are smaller.
const CALLS: i32 = 1024;
/// A selector of this privilege is user code's.
const USER: i32 = 3;

impl ProgramBuilder<'_> {
    /// Fills the record in R7: kind and flags of a reading, with the loop's thread in R9; at a switch `next` is the thread that
    /// comes. Destroys R1 to R3.
    pub(super) fn read_flags(&mut self, kind: PathKind, next: Option<Register>) {
        let offsets = self.offsets;
        let server = next.zip(offsets.server);
        let throttling = offsets.throttled.map_or(0, |_| KNOWS_THROTTLING);
        let serving = server.map_or(0, |_| KNOWS_SERVER);
        self.code.set(R2, kind as i32 | (self.knows_steal() | throttling | serving) << 8);

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

        self.code.store(Width::Word, R7, KIND, R2);
    }

    /// Fills the record in R7: kind of a reading that says nothing of the scheduler's rules. Destroys R1.
    pub(super) fn note_kind(&mut self, kind: PathKind) {
        self.code.set(R1, kind as i32 | self.knows_steal() << 8);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    fn knows_steal(&self) -> i32 {
        self.offsets.steal.map_or(0, |_| KNOWS_STEAL)
    }

    /// Stores what the hypervisor has taken from the CPU of the loop in R9. Destroys R1.
    pub(super) fn read_steal(&mut self) {
        let Some(steal) = self.offsets.steal else { return };
        self.load_queue(R1);
        self.load_far(Width::Double, R1, steal);
        self.code.store(Width::Double, R7, REST, R1);
    }

    /// Stores at `place` how `thread` came into the kernel, from its user registers at the top of its kernel stack: the
    /// instruction `syscall` leaves the return address in `rcx` and the flags in `r11`, which nothing else does at once.
    /// Destroys R1 to R5.
    pub(super) fn read_call(&mut self, thread: Register, place: i16) {
        let [done, from_user, in_call] = [self.code.new_target(), self.code.new_target(), self.code.new_target()];
        self.code.copy(R3, thread);
        self.code.set(R1, NO_CALL);
        self.code.store(Width::Word, R7, place, R1);
        if !cfg!(target_arch = "x86_64") {
            return;
        }

        // An idle CPU has no user registers, and is what most wake-ups find: its stack is not read.
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

    /// `to` becomes the run queue of the CPU of the loop in R9.
    fn load_queue(&mut self, to: Register) {
        let [fair, queue] = self.offsets.queue;
        self.code.copy(to, R9);
        self.load_far(Width::Double, to, fair);
        self.load_far(Width::Double, to, queue);
    }

    /// `register` becomes what lies `offset` behind the structure that it points to.
    fn load_far(&mut self, width: Width, register: Register, offset: i32) {
        self.code.add(register, offset);
        self.code.load(width, register, register, 0);
    }

    /// Sets `flag` in R2 unless R1 is 0. Destroys R3.
    fn set_flag_unless_zero(&mut self, flag: i32) {
        let is_zero = self.code.new_target();
        self.code.jump_if_zero(R1, is_zero);
        self.code.set(R3, flag << 8);
        self.code.or(R2, R3);
        self.code.bind(is_zero);
    }
}
