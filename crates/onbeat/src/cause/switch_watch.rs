//! Three small programs in the kernel that note, whenever the loop gets or leaves a CPU or is woken, how much time the
//! hypervisor has taken, whether real-time threads are held back, and in which system call the other thread was.
//!
//! They cost nothing but a comparison for switches of other threads. The path from a thread to its CPU's run queue and
//! all offsets come from the kernel's own description ([`super::btf`]); no compiler, no library.

use std::io;

use onbeat_rt::Instant;

use super::assembler::{Assembler, FRAME, KernelCall, Place, R0, R1, R2, R3, R6, R7, R8, R9, Register, Width};
use super::bpf::{Array, At, Attached};
use super::btf::{Btf, BtfError};
use super::counters::{Moment, Reading};

/// The watch cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error("/sys/kernel/btf/vmlinux: {0}; the kernel needs CONFIG_DEBUG_INFO_BTF")]
    NoDescription(io::Error),
    #[error(transparent)]
    Description(#[from] BtfError),
    #[error("the kernel refuses the BPF program: {0}; it takes root (or CAP_BPF and CAP_PERFMON) and Linux 5.6")]
    Refused(#[from] io::Error),
}

/// Readings kept: half a second of a 1 kHz loop.
const ENTRIES: u32 = 2048;
/// One reading: nine numbers, then what the other thread had in its user registers.
const ENTRY: usize = 160;
const AT: i16 = 0;
const STEAL: i16 = 8;
const PREV: i16 = 16;
const NEXT: i16 = 20;
const CPU: i16 = 24;
const THROTTLED: i16 = 28;
const SERVER: i16 = 32;
const MOMENT: i16 = 40;
const REGISTERS: i16 = 48;
/// The control value: how many readings there were, and the thread to watch.
const CONTROL: usize = 16;
const TID: i16 = 8;

/// `struct pt_regs` of x86-64 from `r11` to `eflags`: its place in the structure, length, and what is where in it.
const REGISTERS_FROM: i32 = 48;
const REGISTERS_LENGTH: i32 = 104;
const R11: usize = 0;
const RCX: usize = 40;
const ORIG_RAX: usize = 72;
const RIP: usize = 80;
const CS: usize = 88;
const EFLAGS: usize = 96;
/// Where `struct pt_regs` begins, counted from the start of a kernel stack: 16 KiB less its own 168 bytes.
const REGISTERS_ON_STACK: i32 = (16 << 10) - 168;

/// Offsets in the kernel's structures; what a kernel does not have is left out of the readings.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    task_pid: u32,
    task_cfs_rq: u32,
    task_stack: u32,
    task_rt_rq: Option<u32>,
    task_dl_server: Option<u32>,
    cfs_rq_rq: u32,
    rq_cpu: u32,
    rq_steal: u32,
    rq_rt: u32,
    rt_rq_throttled: Option<u32>,
}

impl Offsets {
    fn of(btf: &Btf) -> Result<Self, BtfError> {
        Ok(Self {
            task_pid: btf.offset("task_struct", "pid")?,
            task_cfs_rq: btf.offset("task_struct", "se.cfs_rq")?,
            task_stack: btf.offset("task_struct", "stack")?,
            task_rt_rq: btf.offset("task_struct", "rt.rt_rq").ok(),
            task_dl_server: btf.offset("task_struct", "dl_server").ok(),
            cfs_rq_rq: btf.offset("cfs_rq", "rq")?,
            rq_cpu: btf.offset("rq", "cpu")?,
            rq_steal: btf.offset("rq", "prev_steal_time_rq")?,
            rq_rt: btf.offset("rq", "rt")?,
            rt_rq_throttled: btf.offset("rt_rq", "rt_throttled").ok(),
        })
    }
}

/// The programs at work.
#[derive(Debug)]
pub(super) struct SwitchWatch {
    control: Array,
    entries: Array,
    buffer: Vec<u8>,
    knows_throttling: bool,
    knows_server: bool,
    _programs: [Attached; 3],
}

impl SwitchWatch {
    pub(super) fn open(tid: u32) -> Result<Self, WatchError> {
        let bytes = std::fs::read("/sys/kernel/btf/vmlinux").map_err(WatchError::NoDescription)?;
        let btf = Btf::parse(bytes)?;
        let offsets = Offsets::of(&btf)?;
        let (control, entries) = (Array::create(CONTROL, 1)?, Array::create(ENTRY, ENTRIES)?);
        let maps = (control.number(), entries.number());
        // Kernels that refuse direct loads have functions that read memory for a program.
        let programs = match attach_typed(&btf, &offsets, maps) {
            Some(programs) => programs,
            None => attach_raw(&offsets, maps)?,
        };
        let watch = Self {
            control,
            entries,
            buffer: Vec::new(),
            knows_throttling: offsets.rt_rq_throttled.is_some(),
            knows_server: offsets.task_dl_server.is_some(),
            _programs: programs,
        };
        watch.follow(tid)?;
        Ok(watch)
    }

    /// Watches another thread from now on.
    pub(super) fn follow(&self, tid: u32) -> Result<(), WatchError> {
        let mut control = [0; CONTROL];
        control[TID as usize..TID as usize + 4].copy_from_slice(&tid.to_ne_bytes());
        Ok(self.control.write(0, &control)?)
    }

    pub(super) fn bytes_held(&self) -> u64 {
        self.entries.bytes_held() + self.buffer.capacity() as u64
    }

    /// Readings between two instants, in order of time.
    pub(super) fn readings(&mut self, from: Instant, to: Instant) -> Result<Vec<Reading>, WatchError> {
        self.entries.read(&mut self.buffer)?;
        let all = self.buffer.chunks_exact(ENTRY).filter_map(|entry| self.reading(entry));
        let mut readings: Vec<Reading> = all.filter(|reading| reading.at >= from && reading.at <= to).collect();
        readings.sort_by_key(|reading| reading.at);
        Ok(readings)
    }

    fn reading(&self, entry: &[u8]) -> Option<Reading> {
        let double = |at: i16| -> Option<u64> {
            let at = usize::try_from(at).ok()?;
            Some(u64::from_ne_bytes(entry.get(at..at + 8)?.try_into().ok()?))
        };
        let word = |at: i16| -> Option<u32> {
            let at = usize::try_from(at).ok()?;
            Some(u32::from_ne_bytes(entry.get(at..at + 4)?.try_into().ok()?))
        };
        let entered = entered_by(entry.get(REGISTERS as usize..)?);
        // A reading that is being written has no time yet.
        let at = Instant::from_ns(double(AT).filter(|at| *at != 0)?);
        let moment = moment(word(MOMENT)?)?;
        // The run queue is not looked at before the loop stands in it.
        let sees_queue = moment != Moment::Waking;
        Some(Reading {
            at,
            moment,
            cpu: word(CPU)?,
            steal_ns: double(STEAL)?,
            prev: word(PREV)?,
            next: word(NEXT)?,
            prev_syscall: entered.ok(),
            prev_in_user: entered == Err(Entered::FromUser),
            rt_throttled: if self.knows_throttling && sees_queue { Some(word(THROTTLED)? != 0) } else { None },
            by_fair_server: if self.knows_server && sees_queue { Some(double(SERVER)? != 0) } else { None },
        })
    }
}

const fn moment(number: u32) -> Option<Moment> {
    Some(match number {
        0 => Moment::Switch,
        1 => Moment::WakeUp,
        2 => Moment::Waking,
        _ => return None,
    })
}

fn attach_typed(btf: &Btf, offsets: &Offsets, maps: (i32, i32)) -> Option<[Attached; 3]> {
    let attach = |name: &str, code: Vec<u64>| Attached::load(&code, At::Typed(btf.trace_point(name).ok()?)).ok();
    let program = || Program::new(offsets, maps, Loads::Direct);
    Some([
        attach("sched_switch", program().at_switch())?,
        attach("sched_wakeup", program().at_wakeup())?,
        attach("sched_waking", program().at_waking())?,
    ])
}

fn attach_raw(offsets: &Offsets, maps: (i32, i32)) -> std::io::Result<[Attached; 3]> {
    let program = || Program::new(offsets, maps, Loads::ByFunction);
    Ok([
        Attached::load(&program().at_switch(), At::Raw(c"sched_switch"))?,
        Attached::load(&program().at_wakeup(), At::Raw(c"sched_wakeup"))?,
        Attached::load(&program().at_waking(), At::Raw(c"sched_waking"))?,
    ])
}

/// How a program reads the kernel's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loads {
    /// By plain loads, where the kernel knows the types.
    Direct,
    /// By a function of the kernel.
    ByFunction,
}

/// How a thread came into the kernel when it was no system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    /// From user code, by an interrupt or a fault.
    FromUser,
    /// It is a thread of the kernel, or this is not known.
    Unknown,
}

/// The system call a thread was in, from its user registers: the instruction `syscall` leaves the return address in `rcx`
/// and the flags in `r11`, which nothing else does at once.
fn entered_by(registers: &[u8]) -> Result<i64, Entered> {
    let register = |at: usize| Some(u64::from_ne_bytes(registers.get(at..at + 8)?.try_into().ok()?));
    let all = || Some((register(CS)?, register(RCX)? == register(RIP)? && register(R11)? == register(EFLAGS)?));
    match all() {
        Some((cs, true)) if cs & 3 == 3 && cfg!(target_arch = "x86_64") => {
            let number = register(ORIG_RAX).and_then(|number| i64::try_from(number).ok());
            number.filter(|number| *number < 1024).ok_or(Entered::Unknown)
        }
        Some((cs, false)) if cs & 3 == 3 && cfg!(target_arch = "x86_64") => Err(Entered::FromUser),
        _ => Err(Entered::Unknown),
    }
}

struct Program<'o> {
    offsets: &'o Offsets,
    control: i32,
    entries: i32,
    loads: Loads,
    code: Assembler,
    end: Place,
}

impl<'o> Program<'o> {
    fn new(offsets: &'o Offsets, (control, entries): (i32, i32), loads: Loads) -> Self {
        let mut code = Assembler::default();
        let end = code.place();
        Self { offsets, control, entries, loads, code, end }
    }

    /// `sched_switch(preempt, prev, next, ...)`: R7 prev, R8 next, R9 the loop's thread, R6 the reading.
    fn at_switch(mut self) -> Vec<u64> {
        self.code.load(Width::Double, R7, R1, 8);
        self.code.load(Width::Double, R8, R1, 16);
        self.find_control();
        self.read_pid(R7, -8);
        self.read_pid(R8, -12);
        let (is_prev, take) = (self.code.place(), self.code.place());
        self.code.load(Width::Word, R1, R9, TID);
        self.code.load(Width::Word, R2, FRAME, -8);
        self.code.jump_if_equal(R2, R1, is_prev);
        self.code.load(Width::Word, R2, FRAME, -12);
        let is_next = self.code.place();
        self.code.jump_if_equal(R2, R1, is_next);
        self.code.jump(self.end);
        self.code.here(is_prev);
        self.begin_reading();
        self.code.copy(R9, R7);
        self.code.jump(take);
        self.code.here(is_next);
        self.begin_reading();
        self.code.copy(R9, R8);
        self.code.here(take);
        self.read_run_queue();
        if let Some(server) = self.offsets.task_dl_server {
            self.code.copy(R3, R8);
            self.code.add(R3, server as i32);
            self.read_into_entry(SERVER, 8);
        }
        self.read_registers(R7);
        self.finish()
    }

    /// `sched_wakeup(thread)`.
    fn at_wakeup(mut self) -> Vec<u64> {
        self.code.store_zero(Width::Word, FRAME, -8);
        self.only_the_loops();
        self.begin_reading();
        self.note_moment(1);
        self.code.copy(R9, R7);
        self.read_run_queue();
        self.finish()
    }

    /// `sched_waking(thread)`, on the CPU of the waker: in an interrupt, the current thread is the one interrupted.
    ///
    /// Not `sched_wakeup`: that may run on the CPU that the loop is sent to. And no run queue: its clock, and with it the
    /// steal, is brought up to date only when the loop enters it.
    fn at_waking(mut self) -> Vec<u64> {
        self.code.copy(R6, R1);
        self.code.call(match self.loads {
            Loads::Direct => KernelCall::CurrentTypedTask,
            Loads::ByFunction => KernelCall::CurrentTask,
        });
        self.code.copy(R8, R0);
        self.code.copy(R1, R6);
        self.only_the_loops();
        self.read_pid(R8, -8);
        self.begin_reading();
        self.note_moment(2);
        self.code.call(KernelCall::ProcessorId);
        self.code.store(Width::Word, R6, CPU, R0);
        self.read_registers(R8);
        self.finish()
    }

    /// R7 becomes the thread that R1's event is about, R9 the control value; ends the program unless it is the loop.
    fn only_the_loops(&mut self) {
        self.code.load(Width::Double, R7, R1, 0);
        self.find_control();
        self.read_pid(R7, -12);
        self.code.load(Width::Word, R1, R9, TID);
        self.code.load(Width::Word, R2, FRAME, -12);
        let take = self.code.place();
        self.code.jump_if_equal(R2, R1, take);
        self.code.jump(self.end);
        self.code.here(take);
    }

    fn note_moment(&mut self, number: i32) {
        self.code.set(R1, number);
        self.code.store(Width::Word, R6, MOMENT, R1);
    }

    /// Reads the user registers of `thread`, which lie at the top of its kernel stack.
    fn read_registers(&mut self, thread: Register) {
        self.code.copy(R3, thread);
        self.code.add(R3, self.offsets.task_stack as i32);
        self.read_pointer();
        self.code.add(R3, REGISTERS_ON_STACK + REGISTERS_FROM);
        self.read_into_entry(REGISTERS, REGISTERS_LENGTH);
    }

    /// R9 becomes the address of the control value.
    fn find_control(&mut self) {
        self.code.store_zero(Width::Word, FRAME, -4);
        self.code.map(R1, self.control);
        self.look_up();
        self.code.copy(R9, R0);
    }

    /// Looks up the key at frame −4 in the map in R1; ends the program when it is not there.
    fn look_up(&mut self) {
        self.code.copy(R2, FRAME);
        self.code.add(R2, -4);
        self.code.call(KernelCall::MapLookup);
        self.code.jump_if_zero(R0, self.end);
    }

    /// Reads the number of the thread in `thread` to the frame at `offset`.
    fn read_pid(&mut self, thread: Register, offset: i16) {
        self.code.copy(R3, thread);
        self.code.add(R3, self.offsets.task_pid as i32);
        if self.loads == Loads::Direct {
            self.code.load(Width::Word, R1, R3, 0);
            self.code.store(Width::Word, FRAME, offset, R1);
            return;
        }
        self.code.copy(R1, FRAME);
        self.code.add(R1, offset.into());
        self.code.set(R2, 4);
        self.code.call(KernelCall::ProbeReadKernel);
    }

    /// R6 becomes the next reading, without a time yet, with both threads' numbers.
    fn begin_reading(&mut self) {
        self.code.load(Width::Double, R1, R9, 0);
        self.code.copy(R2, R1);
        self.code.and(R2, ENTRIES as i32 - 1);
        self.code.store(Width::Word, FRAME, -4, R2);
        self.code.add(R1, 1);
        self.code.store(Width::Double, R9, 0, R1);
        self.code.map(R1, self.entries);
        self.look_up();
        self.code.copy(R6, R0);
        self.code.store_zero(Width::Double, R6, AT);
        for (place, frame) in [(PREV, -8), (NEXT, -12)] {
            self.code.load(Width::Word, R1, FRAME, frame);
            self.code.store(Width::Word, R6, place, R1);
        }
        for place in [SERVER, MOMENT, REGISTERS + CS as i16] {
            self.code.store_zero(Width::Double, R6, place);
        }
    }

    /// From the thread in R9 to its CPU's run queue, and what is to be known of it. R9 becomes the run queue.
    fn read_run_queue(&mut self) {
        if let (Some(own), Some(throttled)) = (self.offsets.task_rt_rq, self.offsets.rt_rq_throttled) {
            // With CONFIG_RT_GROUP_SCHED every group is throttled by itself.
            self.code.copy(R3, R9);
            self.code.add(R3, own as i32);
            self.read_pointer();
            self.code.add(R3, throttled as i32);
            self.read_into_entry(THROTTLED, 4);
        }
        self.code.copy(R3, R9);
        self.code.add(R3, self.offsets.task_cfs_rq as i32);
        self.read_pointer();
        self.code.add(R3, self.offsets.cfs_rq_rq as i32);
        self.read_pointer();
        self.code.copy(R9, R3);
        let mut members = vec![(self.offsets.rq_steal, STEAL, 8), (self.offsets.rq_cpu, CPU, 4)];
        if let (None, Some(throttled)) = (self.offsets.task_rt_rq, self.offsets.rt_rq_throttled) {
            members.push((self.offsets.rq_rt + throttled, THROTTLED, 4));
        }
        for (offset, place, length) in members {
            self.code.copy(R3, R9);
            self.code.add(R3, offset as i32);
            self.read_into_entry(place, length);
        }
    }

    /// R3 becomes the pointer that it points to; 0 when that cannot be read.
    fn read_pointer(&mut self) {
        if self.loads == Loads::Direct {
            self.code.load(Width::Double, R3, R3, 0);
            return;
        }
        self.code.copy(R1, FRAME);
        self.code.add(R1, -24);
        self.code.set(R2, 8);
        self.code.call(KernelCall::ProbeReadKernel);
        self.code.load(Width::Double, R3, FRAME, -24);
    }

    /// Reads `length` bytes from R3 into the reading at `place`.
    fn read_into_entry(&mut self, place: i16, length: i32) {
        let width = if length == 4 { Width::Word } else { Width::Double };
        if self.loads == Loads::Direct && length <= 8 {
            self.code.load(width, R1, R3, 0);
            self.code.store(width, R6, place, R1);
            return;
        }
        self.code.copy(R1, R6);
        self.code.add(R1, i32::from(place));
        self.code.set(R2, length);
        self.code.call(KernelCall::ProbeReadKernel);
    }

    fn finish(mut self) -> Vec<u64> {
        self.code.call(KernelCall::KtimeNs);
        self.code.store(Width::Double, R6, AT, R0);
        self.code.here(self.end);
        self.code.exit();
        self.code.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_shows_in_the_registers_it_left() {
        let mut registers = [0_u8; 104];
        let mut set = |at: usize, value: u64| registers[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        for (at, value) in [(CS, 0x33), (RCX, 0x4000), (RIP, 0x4000), (R11, 0x246), (EFLAGS, 0x246), (ORIG_RAX, 1)] {
            set(at, value);
        }
        if cfg!(target_arch = "x86_64") {
            assert_eq!(entered_by(&registers), Ok(1));
            registers[RIP] = 1;
            assert_eq!(entered_by(&registers), Err(Entered::FromUser), "an interrupt or a fault brought it here");
        }
        assert_eq!(entered_by(&[0; 104]), Err(Entered::Unknown), "a kernel thread has no user registers");
    }
}
