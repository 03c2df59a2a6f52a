//! The BPF programs that record the loop's path: one per trace point, each about forty instructions
//! long.
//!
//! They are attached with the kernel's types (`tp_btf`), so that they load members of its
//! structures directly, without a helper that reads memory safely. This is most of what they save
//! compared with tracefs.

use super::assembler::{
    Assembler, FRAME, JumpTarget, KernelCall, R0, R1, R2, R3, R4, R6, R7, R8, R9, Register, Width,
};
use super::path_offsets::Offsets;
use super::path_record::{AT, KIND, PathKind, REST, TID};
use super::path_stack::{FRAMES, LATE_NS, STACK_HEAD_WORDS, STACKS};

/// Descriptors of the maps that programs write to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// Number of records written, per CPU; the entry at [`Self::loop_key`] is the number of the
    /// loop's thread.
    pub(super) heads: i32,
    pub(super) loop_key: i32,
    /// The records of all CPUs, one CPU after the other.
    pub(super) records: i32,
    /// Base-2 logarithm of the number of records per CPU.
    pub(super) exponent: i32,
    /// The stacks of late wake-ups, if they are copied.
    pub(super) stacks: Option<i32>,
}

/// Source of the state of a thread that leaves a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeavingState {
    /// An argument of `sched_switch`, since Linux 5.18.
    Given,
    /// The thread's own state. Another CPU may have woken it in the meantime, so that it looks
    /// preempted.
    OfThread,
}

/// Whether an interrupt, whose programs reserve records too, can occur between two instructions of
/// a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptState {
    /// The kernel disables interrupts around this trace point.
    AreOff,
    MayCome,
}

/// The side of a switch on which the loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Prev,
    Next,
}

/// Returns the instructions for the trace point of `kind`.
pub(super) fn program(
    kind: PathKind,
    offsets: &Offsets,
    maps: Maps,
    leaving: LeavingState,
) -> Vec<u64> {
    let mut program = ProgramBuilder::new(offsets, maps);
    match kind {
        PathKind::Switch => program.at_switch(leaving),
        PathKind::Waking => program.at_waking(),
        PathKind::TimerStart => program.at_timer_start(),
        PathKind::TimerExpireEntry => program.at_expiry(),
        PathKind::Idle => program.at_idle(),
        PathKind::LocalTimerEntry | PathKind::LocalTimerExit => {
            program.begin(kind, InterruptState::AreOff);
        }
        PathKind::Exit => program.at_exit(),
        PathKind::Reading => {}
    }

    program.finish()
}

/// R6 points to the trace point's arguments, R7 to the record.
pub(super) struct ProgramBuilder<'o> {
    pub(super) offsets: &'o Offsets,
    maps: Maps,
    pub(super) code: Assembler,
    end: JumpTarget,
}

/// Offsets of the arguments of `sched_switch`.
const PREEMPTED: i16 = 0;
const PREV: i16 = 8;
const NEXT: i16 = 16;
const PREV_STATE: i16 = 24;
/// Offsets in the program's stack frame. Below them is a copy of user registers.
const KEY: i16 = -4;
const NOW: i16 = -16;
const FIRST: i16 = -24;
/// Offsets in the entry of the loop: when its timer is due (0: no timer, or it woke the loop), and
/// the number of stacks copied.
const DUE_AT: i16 = 8;
const STACKS_TAKEN: i16 = 16;
/// `cpu_idle`'s states are smaller, and all ones when the CPU is awake again (`PWR_EVENT_EXIT`).
const DEEPEST: i32 = 1000;

impl<'o> ProgramBuilder<'o> {
    fn new(offsets: &'o Offsets, maps: Maps) -> Self {
        let mut code = Assembler::default();
        let end = code.new_target();
        code.copy(R6, R1);
        Self { offsets, maps, code, end }
    }

    /// `sched_switch(preempt, prev, next, prev_state)`.
    fn at_switch(&mut self, leaving: LeavingState) {
        let Offsets { pid, .. } = *self.offsets;
        let [is_prev, is_next, others] =
            [self.code.new_target(), self.code.new_target(), self.code.new_target()];
        self.load_the_loops_number(R8);
        self.code.load(Width::Double, R9, R6, PREV);
        self.code.load(Width::Word, R2, R9, pid);
        self.code.jump_if_equal(R8, R2, is_prev);
        self.code.load(Width::Double, R9, R6, NEXT);
        self.code.load(Width::Word, R2, R9, pid);
        self.code.jump_if_equal(R8, R2, is_next);
        self.code.jump(others);

        self.code.bind(is_prev);
        self.at_the_loops_switch(leaving, Side::Prev);
        self.code.bind(is_next);
        self.at_the_loops_switch(leaving, Side::Next);

        self.code.bind(others);
        self.reserve(InterruptState::AreOff);
        self.fill_switch(leaving);
    }

    /// Writes two records with the same time: the switch, and the reading for the loop's thread in
    /// R9. Both are reserved before one is written, because the memory of a record is usually not
    /// in the cache.
    fn at_the_loops_switch(&mut self, leaving: LeavingState, side: Side) {
        self.reserve(InterruptState::AreOff);
        self.code.store(Width::Double, FRAME, FIRST, R7);
        self.reserve(InterruptState::AreOff);
        self.code.call(KernelCall::KtimeNs);
        self.code.store(Width::Double, FRAME, NOW, R0);

        self.code.load(Width::Double, R2, R6, PREV);
        self.copy_word(R2, self.offsets.pid, TID);
        self.read_call(R2, REST + 8);
        self.code.load(Width::Double, R8, R6, NEXT);
        self.copy_word(R8, self.offsets.pid, REST + 12);
        match side {
            Side::Prev => self.read_flags(PathKind::Reading, Some(R8)),
            // A thread that gets the CPU is not held back by a rule of the scheduler, and this code
            // delays its wake-up.
            Side::Next => self.note_kind(PathKind::Reading),
        }
        self.read_steal();
        self.code.load(Width::Double, R1, FRAME, NOW);
        self.code.store(Width::Double, R7, AT, R1);

        self.code.load(Width::Double, R7, FRAME, FIRST);
        self.fill_switch(leaving);
        self.code.load(Width::Double, R1, FRAME, NOW);
        self.code.store(Width::Double, R7, AT, R1);
        self.code.jump(self.end);
    }

    /// Fills in the record of a switch, without its time.
    fn fill_switch(&mut self, leaving: LeavingState) {
        let Offsets { pid, prio, state, exit_state, .. } = *self.offsets;
        self.code.load(Width::Double, R2, R6, PREV);
        self.code.load(Width::Double, R3, R6, NEXT);
        self.copy_word(R2, pid, TID);
        self.copy_word(R3, pid, REST);
        self.copy_word(R3, prio, REST + 4);
        self.copy_word(R2, prio, REST + 8);

        self.code.load(Width::Word, R1, R2, exit_state);
        match leaving {
            LeavingState::Given => self.code.load(Width::Double, R2, R6, PREV_STATE),
            LeavingState::OfThread => self.code.load(Width::Word, R2, R2, state),
        }

        self.code.or(R1, R2);
        self.code.store(Width::Word, R7, REST + 12, R1);

        self.code.load(Width::Double, R1, R6, PREEMPTED);
        self.code.and(R1, 1);
        self.code.shift_left(R1, 8);
        self.code.set(R2, PathKind::Switch as i32);
        self.code.or(R1, R2);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    /// `sched_waking(thread)` of the loop, on the CPU of the waker: in an interrupt, the current
    /// thread is the interrupted one. The steal time is not read: the kernel updates it when the
    /// loop is queued.
    fn at_waking(&mut self) {
        let Offsets { pid, prio, cpu, .. } = *self.offsets;
        self.code.load(Width::Double, R9, R6, 0);
        self.code.load(Width::Word, R8, R9, pid);
        self.only_the_loops(R8);
        self.code.store(Width::Double, FRAME, FIRST, R0);
        self.reserve(InterruptState::MayCome);
        self.copy_word(R9, pid, REST);
        self.copy_word(R9, prio, REST + 4);
        self.copy_word(R9, cpu, REST + 8);

        self.code.call(KernelCall::CurrentTypedTask);
        self.code.copy(R8, R0);
        self.copy_word(R8, pid, TID);
        self.read_call(R8, REST + 12);
        self.read_flags(PathKind::Waking, None);
        if let Some(stacks) = self.maps.stacks {
            self.copy_stack_if_late(stacks);
        }
    }

    /// Copies the kernel's stack if the loop's timer was due more than [`LATE_NS`] ago and a thread
    /// ran, whose code is then on the stack. The thread is in R8, the entry of the loop in the
    /// frame. A wake-up that no timer caused is not late: the first one takes the timer's time
    /// away.
    fn copy_stack_if_late(&mut self, stacks: i32) {
        let done = self.code.new_target();
        self.code.load(Width::Double, R9, FRAME, FIRST);
        self.code.load(Width::Double, R1, R9, DUE_AT);
        self.code.jump_if_zero(R1, done);
        self.code.store_zero(Width::Double, R9, DUE_AT);
        self.code.load(Width::Word, R2, R8, self.offsets.pid);
        self.code.jump_if_zero(R2, done);
        self.code.copy(R8, R1);
        self.code.call(KernelCall::KtimeNs);
        self.code.subtract(R0, R8);
        self.code.jump_if_at_most(R0, LATE_NS, done);

        self.code.load(Width::Double, R1, R9, STACKS_TAKEN);
        self.code.copy(R2, R1);
        self.code.add(R2, 1);
        self.code.store(Width::Double, R9, STACKS_TAKEN, R2);
        self.code.and(R1, STACKS as i32 - 1);
        self.code.store(Width::Word, FRAME, KEY, R1);
        self.look_up(stacks);

        // A reader skips a stack whose time is 0: it is being written.
        self.code.copy(R8, R0);
        self.code.store_zero(Width::Double, R8, 0);
        self.code.copy(R1, R6);
        self.code.copy(R2, R8);
        self.code.add(R2, STACK_HEAD_WORDS as i32 * 8);
        self.code.set(R3, FRAMES as i32 * 8);
        self.code.set(R4, 0);
        self.code.call(KernelCall::GetStack);
        self.code.store(Width::Double, R8, 8, R0);
        self.code.call(KernelCall::KtimeNs);
        self.code.store(Width::Double, R8, 0, R0);
        self.code.bind(done);
    }

    /// `hrtimer_start(timer, ...)`, by the loop only.
    fn at_timer_start(&mut self) {
        const MOST_SLACK: i32 = 0xff_ffff;
        self.code.call(KernelCall::CurrentTypedTask);
        self.code.load(Width::Word, R8, R0, self.offsets.pid);
        self.only_the_loops(R8);
        if self.maps.stacks.is_some() {
            self.code.load(Width::Double, R2, R6, 0);
            self.code.load(Width::Double, R3, R2, self.offsets.timer_softexpires);
            self.code.store(Width::Double, R0, DUE_AT, R3);
        }
        self.begin(PathKind::TimerStart, InterruptState::MayCome);
        self.code.load(Width::Double, R2, R6, 0);
        self.code.store(Width::Double, R7, REST, R2);
        self.code.load(Width::Double, R1, R2, self.offsets.timer_expires);
        self.code.load(Width::Double, R3, R2, self.offsets.timer_softexpires);
        self.code.store(Width::Double, R7, REST + 8, R3);
        self.code.subtract(R1, R3);
        let fits = self.code.new_target();
        self.code.jump_if_at_most(R1, MOST_SLACK, fits);
        self.code.set(R1, MOST_SLACK);
        self.code.bind(fits);
        self.code.shift_left(R1, 8);
        self.code.set(R2, PathKind::TimerStart as i32);
        self.code.or(R1, R2);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    /// `hrtimer_expire_entry(timer, now)`.
    fn at_expiry(&mut self) {
        self.begin(PathKind::TimerExpireEntry, InterruptState::MayCome);
        self.code.load(Width::Double, R2, R6, 0);
        self.code.store(Width::Double, R7, REST, R2);
        self.code.load(Width::Double, R1, R2, self.offsets.timer_function);
        self.code.store(Width::Double, R7, REST + 8, R1);
    }

    /// `cpu_idle(state, cpu)`, on entry only: the next event of the CPU shows when it was awake
    /// again.
    fn at_idle(&mut self) {
        let enters = self.code.new_target();
        self.code.load(Width::Double, R1, R6, 0);
        self.code.jump_if_at_most(R1, DEEPEST, enters);
        self.code.jump(self.end);
        self.code.bind(enters);
        self.begin(PathKind::Idle, InterruptState::MayCome);
        self.code.load(Width::Double, R1, R6, 0);
        self.code.store(Width::Word, R7, REST, R1);
    }

    /// `sched_process_exit(thread, ...)`.
    fn at_exit(&mut self) {
        self.begin(PathKind::Exit, InterruptState::MayCome);
        self.code.load(Width::Double, R3, R6, 0);
        self.code.add(R3, self.offsets.comm);
        self.code.copy(R1, R7);
        self.code.add(R1, REST.into());
        self.code.set(R2, 16);
        self.code.call(KernelCall::ProbeReadKernel);
    }

    /// Begins a record of `kind` for the current thread.
    fn begin(&mut self, kind: PathKind, interrupts: InterruptState) {
        self.reserve(interrupts);
        self.code.call(KernelCall::CurrentTypedTask);
        self.copy_word(R0, self.offsets.pid, TID);
        self.code.set(R1, kind as i32);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    /// Points R7 to the CPU's next record, with a time of 0. An interrupt in between reserves the
    /// following record: where interrupts may occur, the counter is incremented atomically, which
    /// costs more than the two plain instructions.
    fn reserve(&mut self, interrupts: InterruptState) {
        self.code.call(KernelCall::ProcessorId);
        self.code.copy(R8, R0);
        self.code.store(Width::Word, FRAME, KEY, R8);
        self.look_up(self.maps.heads);
        match interrupts {
            InterruptState::MayCome => {
                self.code.set(R1, 1);
                self.code.fetch_add(R0, R1);
            }
            InterruptState::AreOff => {
                self.code.load(Width::Double, R1, R0, 0);
                self.code.copy(R2, R1);
                self.code.add(R2, 1);
                self.code.store(Width::Double, R0, 0, R2);
            }
        }
        self.code.and(R1, (1 << self.maps.exponent) - 1);
        self.code.shift_left(R8, self.maps.exponent);
        self.code.or(R1, R8);
        self.code.store(Width::Word, FRAME, KEY, R1);
        self.look_up(self.maps.records);
        self.code.copy(R7, R0);
        self.code.store_zero(Width::Double, R7, AT);
    }

    /// Ends the program unless `tid` is the loop's thread. Points R0 to the loop's entry. Clobbers
    /// R1 to R5.
    fn only_the_loops(&mut self, tid: Register) {
        let take = self.code.new_target();
        self.load_the_loops_number(R1);
        self.code.jump_if_equal(R1, tid, take);
        self.code.jump(self.end);
        self.code.bind(take);
    }

    /// Loads the number of the loop's thread into `to`, and points R0 to its entry. Clobbers R1 to
    /// R5.
    fn load_the_loops_number(&mut self, to: Register) {
        self.code.set(R1, self.maps.loop_key);
        self.code.store(Width::Word, FRAME, KEY, R1);
        self.look_up(self.maps.heads);
        self.code.load(Width::Word, to, R0, 0);
    }

    /// Points R0 to the map's value at the key in the frame; ends the program if there is none.
    fn look_up(&mut self, map: i32) {
        self.code.map(R1, map);
        self.code.copy(R2, FRAME);
        self.code.add(R2, KEY.into());
        self.code.call(KernelCall::MapLookup);
        self.code.jump_if_zero(R0, self.end);
    }

    /// Copies a word from a kernel structure into the record.
    fn copy_word(&mut self, from: Register, offset: i16, place: i16) {
        self.code.load(Width::Word, R1, from, offset);
        self.code.store(Width::Word, R7, place, R1);
    }

    fn finish(mut self) -> Vec<u64> {
        self.code.call(KernelCall::KtimeNs);
        self.code.store(Width::Double, R7, AT, R0);
        self.code.bind(self.end);
        self.code.exit();
        self.code.finish()
    }
}
