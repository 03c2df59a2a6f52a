//! The programs that record the loop's path: one per trace point, each some forty instructions long.
//!
//! They are attached with the kernel's own types (`tp_btf`), so that members of its structures are loaded directly, without
//! a function that reads memory safely; that is most of what they save.

use super::assembler::{Assembler, FRAME, KernelCall, Place, R0, R1, R2, R3, R6, R7, R8, Register, Width};
use super::btf::{Btf, BtfError};
use super::path_record::{AT, KIND, PathKind, REST, TID};

/// Offsets in the kernel's structures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pid: i16,
    prio: i16,
    exit_state: i16,
    cpu: i16,
    comm: i32,
    timer_expires: i16,
    timer_softexpires: i16,
    timer_function: i16,
}

impl Offsets {
    pub(super) fn of(btf: &Btf) -> Result<Self, BtfError> {
        let near = |structure: &str, member: &str| -> Result<i16, BtfError> {
            let offset = btf.offset(structure, member)?;
            i16::try_from(offset).map_err(|_| BtfError::NoMember(format!("{structure}.{member} within 32 KiB")))
        };
        let task = |member: &str| near("task_struct", member);
        Ok(Self {
            pid: task("pid")?,
            prio: task("prio")?,
            exit_state: task("exit_state")?,
            cpu: task("thread_info.cpu").or_else(|_| task("cpu"))?,
            comm: task("comm")?.into(),
            timer_expires: near("hrtimer", "node.expires")?,
            timer_softexpires: near("hrtimer", "_softexpires")?,
            timer_function: near("hrtimer", "function")?,
        })
    }
}

/// The maps that programs write to, by descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// One value: the number of the loop's thread.
    pub(super) control: i32,
    /// Per CPU: how many records there were.
    pub(super) heads: i32,
    /// Per CPU, one after the other: records.
    pub(super) records: i32,
    /// Records of one CPU, a power of two, as its exponent.
    pub(super) exponent: i32,
}

/// The instructions for a trace point.
pub(super) fn program(kind: PathKind, offsets: &Offsets, maps: Maps) -> Vec<u64> {
    let mut code = Assembler::default();
    let end = code.place();
    let mut program = Program { offsets, maps, code, end };
    program.code.copy(R6, R1);
    match kind {
        PathKind::Switch => program.at_switch(),
        PathKind::Waking => program.at_waking(),
        PathKind::TimerStart => program.at_timer_start(),
        PathKind::TimerExpireEntry | PathKind::TimerExpireExit => program.at_expiry(kind),
        PathKind::Idle => program.at_idle(),
        PathKind::LocalTimerEntry | PathKind::LocalTimerExit => program.begin(kind),
        PathKind::Exit => program.at_exit(),
    }
    program.finish()
}

/// R6 is the trace point's arguments, R7 the record.
struct Program<'o> {
    offsets: &'o Offsets,
    maps: Maps,
    code: Assembler,
    end: Place,
}

impl Program<'_> {
    /// `sched_switch(preempt, prev, next, prev_state)`.
    fn at_switch(&mut self) {
        self.reserve();
        let Offsets { pid, prio, exit_state, .. } = *self.offsets;
        self.code.load(Width::Double, R2, R6, 8);
        self.code.load(Width::Double, R3, R6, 16);
        self.copy_word(R2, pid, TID);
        self.copy_word(R3, pid, REST);
        self.copy_word(R3, prio, REST + 4);
        self.copy_word(R2, prio, REST + 8);
        // The state as it was given: by now another CPU may have woken the thread.
        self.code.load(Width::Word, R1, R2, exit_state);
        self.code.load(Width::Double, R2, R6, 24);
        self.code.or(R1, R2);
        self.code.store(Width::Word, R7, REST + 12, R1);
        self.code.load(Width::Double, R1, R6, 0);
        self.code.and(R1, 1);
        self.code.shift_left(R1, 8);
        self.code.set(R2, PathKind::Switch as i32);
        self.code.or(R1, R2);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    /// `sched_waking(thread)`, of the loop only.
    fn at_waking(&mut self) {
        let Offsets { pid, prio, cpu, .. } = *self.offsets;
        self.code.load(Width::Double, R1, R6, 0);
        self.code.load(Width::Word, R8, R1, pid);
        self.only_the_loops(R8);
        self.begin(PathKind::Waking);
        self.code.load(Width::Double, R2, R6, 0);
        self.copy_word(R2, pid, REST);
        self.copy_word(R2, prio, REST + 4);
        self.copy_word(R2, cpu, REST + 8);
    }

    /// `hrtimer_start(timer, ...)`, by the loop only.
    fn at_timer_start(&mut self) {
        const MOST_SLACK: i32 = 0xff_ffff;
        self.code.call(KernelCall::CurrentNumber);
        self.code.copy(R8, R0);
        self.only_the_loops(R8);
        self.begin(PathKind::TimerStart);
        self.code.load(Width::Double, R2, R6, 0);
        self.code.store(Width::Double, R7, REST, R2);
        self.code.load(Width::Double, R1, R2, self.offsets.timer_expires);
        self.code.load(Width::Double, R3, R2, self.offsets.timer_softexpires);
        self.code.store(Width::Double, R7, REST + 8, R3);
        self.code.subtract(R1, R3);
        let fits = self.code.place();
        self.code.jump_if_at_most(R1, MOST_SLACK, fits);
        self.code.set(R1, MOST_SLACK);
        self.code.here(fits);
        self.code.shift_left(R1, 8);
        self.code.set(R2, PathKind::TimerStart as i32);
        self.code.or(R1, R2);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    /// `hrtimer_expire_entry(timer, now)` and `hrtimer_expire_exit(timer)`.
    fn at_expiry(&mut self, kind: PathKind) {
        self.begin(kind);
        self.code.load(Width::Double, R2, R6, 0);
        self.code.store(Width::Double, R7, REST, R2);
        if kind == PathKind::TimerExpireEntry {
            self.code.load(Width::Double, R1, R2, self.offsets.timer_function);
            self.code.store(Width::Double, R7, REST + 8, R1);
        }
    }

    /// `cpu_idle(state, cpu)`.
    fn at_idle(&mut self) {
        self.begin(PathKind::Idle);
        self.code.load(Width::Double, R1, R6, 0);
        self.code.store(Width::Word, R7, REST, R1);
    }

    /// `sched_process_exit(thread, ...)`.
    fn at_exit(&mut self) {
        self.begin(PathKind::Exit);
        self.code.load(Width::Double, R3, R6, 0);
        self.code.add(R3, self.offsets.comm);
        self.code.copy(R1, R7);
        self.code.add(R1, REST.into());
        self.code.set(R2, 16);
        self.code.call(KernelCall::ProbeReadKernel);
    }

    /// A record of `kind` by the current thread.
    fn begin(&mut self, kind: PathKind) {
        self.reserve();
        self.code.call(KernelCall::CurrentNumber);
        self.code.store(Width::Word, R7, TID, R0);
        self.code.set(R1, kind as i32);
        self.code.store(Width::Word, R7, KIND, R1);
    }

    /// R7 becomes the CPU's next record, without a time yet. An interrupt in between takes the one after.
    fn reserve(&mut self) {
        self.code.call(KernelCall::ProcessorId);
        self.code.copy(R8, R0);
        self.code.store(Width::Word, FRAME, -4, R8);
        self.look_up(self.maps.heads);
        self.code.set(R1, 1);
        self.code.fetch_add(R0, R1);
        self.code.and(R1, (1 << self.maps.exponent) - 1);
        self.code.shift_left(R8, self.maps.exponent);
        self.code.or(R1, R8);
        self.code.store(Width::Word, FRAME, -4, R1);
        self.look_up(self.maps.records);
        self.code.copy(R7, R0);
        self.code.store_zero(Width::Double, R7, AT);
    }

    /// Ends the program unless the low half of `tid` is the loop's thread.
    fn only_the_loops(&mut self, tid: Register) {
        self.code.store_zero(Width::Word, FRAME, -4);
        self.look_up(self.maps.control);
        self.code.load(Width::Word, R1, R0, 0);
        let take = self.code.place();
        self.code.jump_if_equal(R1, tid, take);
        self.code.jump(self.end);
        self.code.here(take);
    }

    /// R0 becomes the value at the key at frame −4; ends the program when there is none.
    fn look_up(&mut self, map: i32) {
        self.code.map(R1, map);
        self.code.copy(R2, FRAME);
        self.code.add(R2, -4);
        self.code.call(KernelCall::MapLookup);
        self.code.jump_if_zero(R0, self.end);
    }

    /// Copies a word of the kernel's structure into the record.
    fn copy_word(&mut self, from: Register, offset: i16, place: i16) {
        self.code.load(Width::Word, R1, from, offset);
        self.code.store(Width::Word, R7, place, R1);
    }

    fn finish(mut self) -> Vec<u64> {
        self.code.call(KernelCall::KtimeNs);
        self.code.store(Width::Double, R7, AT, R0);
        self.code.here(self.end);
        self.code.exit();
        self.code.finish()
    }
}
