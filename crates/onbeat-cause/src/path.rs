//! Records the loop's path through the kernel with BPF: switches, wake-ups, timers, idle states.
//!
//! Every wake-up of the loop passes these trace points, so the cost of recording adds to its
//! latency; a program that writes 32 bytes costs a fraction of a tracefs event. Records go to a
//! ring per CPU in memory shared with this process: nothing is copied, and nothing is read until an
//! explanation needs it. Names of threads are looked up then.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_rt::Instant;

use super::bpf::SharedArray;
use super::counters::CounterReading;
use super::event::{KernelEvent, LostEvents, TraceEvent};
use super::inside::{Inside, InsideEvent};
use super::path_record::{
    FAULTS, LENGTH, MEMORY_CALLS, MEMORY_LOCKS, PathEntry, PathKind, PathScope, WORDS, read,
};
use super::path_stack::{KernelStack, STACKS, stacks_between};
use super::programs::{LoadedObject, ObjectError, ObjectSetting, PATH};
use super::thread_names::ThreadNames;
use onbeat_host::machine;

/// The path cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum PathError {
    #[error("{0}")]
    NoBtf(ObjectError),
    #[error("{0}; it needs root (or CAP_BPF and CAP_PERFMON) and Linux 5.12")]
    Programs(ObjectError),
    #[error("the kernel refuses a BPF map: {0}; it needs root (or CAP_BPF) and Linux 5.5")]
    NoMap(#[from] io::Error),
    #[error("threads {one} and {other} have the same place among those that are measured")]
    SamePlace { one: u32, other: u32 },
}

impl From<ObjectError> for PathError {
    fn from(why: ObjectError) -> Self {
        // Neither root nor another version helps a kernel that does not describe itself.
        if matches!(why, ObjectError::NoBtf(_)) { Self::NoBtf(why) } else { Self::Programs(why) }
    }
}

/// Places of threads that are measured, as in `path.bpf.c`.
const PLACES: u32 = 1 << 16;

/// Words between the counters of two CPUs, so that each has its own cache line.
const HEAD_WORDS: u32 = 8;
/// The entry of the loop among the heads; those of the CPUs follow.
const LOOP_KEY: u32 = 0;

/// Recorder of the loop's path.
#[derive(Debug)]
pub(super) struct PathRecorder {
    memory: Arc<PathMemory>,
    kinds: Vec<PathKind>,
    names: ThreadNames,
    reads_steal: bool,
    /// Why page faults are recorded without their lengths, and calls that change memory not from
    /// their beginning to their end.
    no_lengths: Option<NoLengths>,
    /// Whether they were asked for.
    inside: bool,
}

/// The memory that the programs write, and the programs: several readers share it.
#[derive(Debug)]
pub(super) struct PathMemory {
    heads: SharedArray,
    records: SharedArray,
    measured: SharedArray,
    exponent: u32,
    /// Stacks of late wake-ups, if they are copied.
    stacks: Option<SharedArray>,
    _programs: LoadedObject,
}

/// What is recorded, and into how much memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathSetting<'s> {
    /// The loop, then other threads that are measured.
    pub(super) tids: &'s [u32],
    /// Ring of each CPU, in KiB.
    pub(super) kib: u32,
    pub(super) left_off: &'s [PathKind],
    pub(super) scope: PathScope,
    /// Whether page faults and calls that change memory are recorded with their lengths.
    pub(super) inside: bool,
    /// The function each of whose calls is a cycle.
    pub(super) function: Option<&'s FunctionPlace>,
}

/// Lengths that were asked for and are not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLengths {
    /// Why the kernel takes no programs at its functions.
    pub why: String,
    /// Whether calls that change memory are known by the lock of the memory instead.
    pub has_locks: bool,
}

/// A function of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPlace {
    /// The process.
    pub pid: NonZeroU32,
    /// The file that has it, as seen from here.
    pub file: PathBuf,
    /// Where its probed instruction is in the file, in bytes.
    pub offset: u64,
}

/// The records of one CPU within a time range.
#[derive(Debug, Default)]
pub(super) struct PathExtract {
    pub(super) events: Vec<TraceEvent>,
    pub(super) readings: Vec<CounterReading>,
    pub(super) inside: Vec<InsideEvent>,
    pub(super) lost: Option<LostEvents>,
}

impl PathRecorder {
    /// Records the path of the loop. Trace points that the kernel lacks are skipped, except those
    /// that every explanation needs.
    pub(super) fn open(setting: &PathSetting<'_>) -> Result<Self, PathError> {
        let PathSetting { tids, kib, left_off, scope, inside, function } = *setting;
        let cpus = machine::online_cpus().last().map_or(1, |last| last + 1);
        let copies_stacks = scope == PathScope::WithStacks;
        let exponent = (kib * 1024 / LENGTH).max(2).ilog2();
        let entries = [
            ("heads", cpus + 1),
            ("records", cpus << exponent),
            ("stacks", if copies_stacks { STACKS } else { 1 }),
        ];
        let setting = ObjectSetting { entries: &entries, ..ObjectSetting::default() };
        let mut programs = LoadedObject::load(PATH, &setting)?;
        let heads = programs.shared_array("heads")?;
        let records = programs.shared_array("records")?;
        let stacks = copies_stacks.then(|| programs.shared_array("stacks")).transpose()?;
        let measured = programs.shared_array("measured")?;
        for cpu in 0..cpus {
            let mut head = [0; HEAD_WORDS as usize];
            head[1] = u64::from(cpu << exponent) | u64::from((1_u32 << exponent) - 1) << 32;
            heads.write(cpu + 1, &head)?;
        }

        let mut kinds = left_off.to_vec();
        follow(&heads, tids.first().copied().unwrap_or(0))?;
        tids.iter().try_for_each(|tid| measure(&measured, *tid))?;
        attach(&mut programs, &mut kinds, scope)?;
        if let Some(FunctionPlace { pid, file, offset }) = function {
            let ends = ("function_begins", "function_ends");
            programs.attach_to_program(ends, file, *offset, *pid)?;
        }
        let no_lengths = if inside { attach_inside(&mut programs) } else { None };
        programs.forget_types();
        let explains = matches!(scope, PathScope::Explained | PathScope::WithStacks);
        let reads_steal = explains && kernel_counts_steal()?;
        let memory = PathMemory { heads, records, measured, exponent, stacks, _programs: programs };
        Ok(Self {
            memory: Arc::new(memory),
            kinds,
            names: ThreadNames::default(),
            reads_steal,
            no_lengths,
            inside,
        })
    }

    /// Returns the memory, for another reader.
    pub(super) fn memory(&self) -> Arc<PathMemory> {
        Arc::clone(&self.memory)
    }

    /// Whether page faults of the loop are recorded with their lengths.
    pub(super) const fn has_faults(&self) -> bool {
        self.inside && self.no_lengths.is_none()
    }

    /// Returns which lengths are missing that were asked for, and why.
    pub(super) const fn no_lengths(&self) -> Option<&NoLengths> {
        self.no_lengths.as_ref()
    }

    /// Follows another thread: records its wake-ups and timers from now on.
    pub(super) fn follow(&self, tid: u32) -> io::Result<()> {
        follow(&self.memory.heads, tid)
    }

    /// Returns the kinds that are recorded by BPF or deliberately not recorded.
    pub(super) fn kinds(&self) -> &[PathKind] {
        &self.kinds
    }

    /// Whether readings include steal time.
    pub(super) const fn reads_steal(&self) -> bool {
        self.reads_steal
    }

    pub(super) fn bytes_held(&self) -> u64 {
        self.memory.bytes_held()
    }

    /// Returns the stacks of late wake-ups of the loop between two instants, in order of time.
    pub(super) fn stacks(&self, from: Instant, to: Instant) -> Vec<KernelStack> {
        let words = self.memory.stacks.as_ref().map(SharedArray::words);
        words.map_or_else(Vec::new, |words| stacks_between(words, from, to))
    }

    /// Returns the records of `cpu` between two instants, in order of time.
    pub(super) fn extract(&mut self, cpu: u32, from: Instant, to: Instant) -> PathExtract {
        let mut contents = self.memory.ring().between(cpu, from, to, |_| true);
        contents.ended.into_iter().for_each(|(tid, name)| self.names.ended(tid, name));
        contents.events.sort_by_key(|event| event.at);
        give_functions(&mut contents.events);
        contents.events.iter_mut().for_each(|event| self.names.give(event));

        let RingContents { events, readings, inside, lost, .. } = contents;
        PathExtract { events, readings, inside, lost }
    }
}

impl PathMemory {
    fn bytes_held(&self) -> u64 {
        let stacks = self.stacks.as_ref().map_or(0, SharedArray::bytes_held);
        let measured = self.measured.bytes_held();
        self.records.bytes_held() + self.heads.bytes_held() + measured + stacks
    }

    /// Returns the events of the threads `tids` on `cpu` between two instants, without names of
    /// threads and functions of timers, in order of time.
    pub(super) fn events_of(
        &self,
        tids: &[u32],
        cpu: u32,
        from: Instant,
        to: Instant,
    ) -> PathExtract {
        let is_of_them = |event: &TraceEvent| match &event.what {
            KernelEvent::Switch { prev, next, .. } => {
                tids.contains(&prev.tid) || tids.contains(&next.tid)
            }
            KernelEvent::Waking { thread, .. } => tids.contains(&thread.tid),
            KernelEvent::TimerStart { .. } | KernelEvent::TimerExpireEntry { .. } => {
                tids.contains(&event.tid)
            }
            _ => false,
        };
        let is_call = |met: &InsideEvent| {
            matches!(met.what, Inside::FunctionBegins { .. } | Inside::FunctionEnds { .. })
        };
        let mut contents = self.ring().between(cpu, from, to, |entry| match entry {
            PathEntry::Event(event) | PathEntry::Waking(event, _) => is_of_them(event),
            // Of a function that is a cycle, every thread's calls count until the loop is known.
            PathEntry::Inside(met) => is_call(met) && (tids.is_empty() || tids.contains(&met.tid)),
            PathEntry::Reading(_) | PathEntry::Ended(..) => false,
        });
        contents.events.reverse();
        contents.events.sort_by_key(|event| event.at);
        let RingContents { events, inside, lost, .. } = contents;
        PathExtract { events, readings: Vec::new(), inside, lost }
    }

    /// Returns what splits the wake-ups of thread `tid`, on `cpu` between two instants: its timers,
    /// the expiries of all timers, since an expiry belongs to whom it interrupts, and switches to it.
    pub(super) fn wake_ups_of(
        &self,
        tid: u32,
        cpu: u32,
        from: Instant,
        to: Instant,
    ) -> PathExtract {
        let mut contents = self.ring().between(cpu, from, to, |entry| match entry {
            PathEntry::Event(event) => match &event.what {
                KernelEvent::Switch { next, .. } => next.tid == tid,
                KernelEvent::TimerStart { .. } => event.tid == tid,
                KernelEvent::TimerExpireEntry { .. } => true,
                _ => false,
            },
            _ => false,
        });
        contents.events.reverse();
        let RingContents { events, lost, .. } = contents;
        PathExtract { events, readings: Vec::new(), inside: Vec::new(), lost }
    }

    /// Adds a thread to those that are measured.
    pub(super) fn measure(&self, tid: u32) -> Result<(), PathError> {
        measure(&self.measured, tid)
    }

    fn ring(&self) -> PathRing<'_> {
        PathRing {
            heads: self.heads.words(),
            records: self.records.words(),
            exponent: self.exponent,
        }
    }
}

/// Returns whether run queues have `prev_steal_time_rq`, which the programs read where it is: no
/// other member has this name, so it is among the names of the kernel's types only then.
fn kernel_counts_steal() -> io::Result<bool> {
    const NAME: &[u8] = b"\0prev_steal_time_rq\0";
    let types = std::fs::read("/sys/kernel/btf/vmlinux")?;
    Ok(types.windows(NAME.len()).any(|bytes| bytes == NAME))
}

fn follow(heads: &SharedArray, tid: u32) -> io::Result<()> {
    let mut value = [0; HEAD_WORDS as usize];
    value[0] = u64::from(tid);
    heads.write(LOOP_KEY, &value)
}

/// Adds a thread to those that are measured.
fn measure(measured: &SharedArray, tid: u32) -> Result<(), PathError> {
    let place = tid & (PLACES - 1);
    let there = measured.words().get(place as usize).map_or(0, |word| word.load(Ordering::Relaxed));
    if there != 0 && there != u64::from(tid) {
        return Err(PathError::SamePlace { one: there as u32, other: tid });
    }
    Ok(measured.write(place, &[tid.into()])?)
}

/// Attaches the programs at page faults, and at calls that change memory, of which a kernel may lack
/// some. Returns why page faults are not recorded: kernels refuse programs at functions that are
/// built without trampolines, or locked.
fn attach_inside(programs: &mut LoadedObject) -> Option<NoLengths> {
    let mut attach = |(begins, ends, function)| {
        programs.attach_to_function(begins, ends, function).err().map(|why| why.to_string())
    };
    let Some(why) = attach(FAULTS) else {
        for call in MEMORY_CALLS {
            // One that this kernel has under another name is left out.
            let _ = attach(call);
        }
        return None;
    };

    let mut attach = |(program, point)| programs.attach_typed(program, point).is_ok();
    // Without the end of a lock its beginning says nothing.
    let [returned, rest @ ..] = MEMORY_LOCKS;
    let has_locks = attach(returned);
    if has_locks {
        rest.into_iter().for_each(|one| {
            attach(one);
        });
    }
    Some(NoLengths { why, has_locks })
}

/// Attaches the programs of all kinds but those in `kinds`, and adds what it attached.
fn attach(
    programs: &mut LoadedObject,
    kinds: &mut Vec<PathKind>,
    scope: PathScope,
) -> Result<(), PathError> {
    for kind in PathKind::ALL {
        let point = kind.trace_point().filter(|_| !kinds.contains(&kind));
        let Some((program, point)) = kind.program(scope).zip(point) else { continue };
        let mut attached = programs.attach_typed(program, point);
        if kind == PathKind::Switch && attached.is_err() {
            let is_own = matches!(scope, PathScope::Measured | PathScope::Split);
            let old = if is_own { "own_switch_old" } else { "switch_old" };
            attached = programs.attach_typed(old, point);
        }
        match attached {
            Ok(()) => kinds.push(kind),
            Err(ObjectError::NoTracePoint(_))
                if !matches!(kind, PathKind::Switch | PathKind::Waking) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

/// Fills in the functions of timer starts, which are recorded only at expiry.
fn give_functions(events: &mut [TraceEvent]) {
    let mut known = None;
    for event in events.iter_mut().rev() {
        match &mut event.what {
            KernelEvent::TimerExpireEntry { timer, function, .. } => {
                known = Some((*timer, *function));
            }
            KernelEvent::TimerStart { timer, function, .. } => {
                *function = known.filter(|(of, _)| of == timer).map_or(0, |(_, function)| function);
            }
            _ => {}
        }
    }
}

/// The rings in the shared memory.
struct PathRing<'r> {
    heads: &'r [AtomicU64],
    records: &'r [AtomicU64],
    exponent: u32,
}

#[derive(Default)]
struct RingContents {
    events: Vec<TraceEvent>,
    readings: Vec<CounterReading>,
    inside: Vec<InsideEvent>,
    ended: Vec<(u32, super::event::Label)>,
    lost: Option<LostEvents>,
}

impl PathRing<'_> {
    fn head(&self, cpu: u32) -> u64 {
        self.heads
            .get((cpu as usize + 1) * HEAD_WORDS as usize)
            .map_or(0, |head| head.load(Ordering::Acquire))
    }

    fn record(&self, cpu: u32, number: u64) -> Option<PathEntry> {
        let place = (u64::from(cpu) << self.exponent) | number & ((1 << self.exponent) - 1);
        let first = usize::try_from(place).ok()? * WORDS;
        let words = self.records.get(first..first + WORDS)?;
        let mut copy = [0; WORDS];
        copy.iter_mut().zip(words).for_each(|(copy, word)| *copy = word.load(Ordering::Acquire));
        read(cpu, copy)
    }

    /// Reads backwards from the newest record to the first one before `from`, keeps what `takes`
    /// says, and collects the names of threads that have ended since. A ring holds the records of all
    /// threads: what few readers want of it is not to be copied as a whole by each.
    fn between(
        &self,
        cpu: u32,
        from: Instant,
        to: Instant,
        takes: impl Fn(&PathEntry) -> bool,
    ) -> RingContents {
        let mut contents = RingContents::default();
        let mut numbered: Vec<(u64, PathEntry)> = Vec::new();
        // The oldest record of the range, taken or not.
        let mut oldest_met = None;
        let head = self.head(cpu);
        let oldest = head.saturating_sub(1 << self.exponent);
        let mut reached = oldest == 0;
        for number in (oldest..head).rev() {
            let Some(entry) = self.record(cpu, number) else { continue };
            match entry.at() {
                Some(at) if at < from => {
                    reached = true;
                    break;
                }
                Some(at) if at > to => {}
                Some(_) => {
                    oldest_met = Some(number);
                    if takes(&entry) {
                        numbered.push((number, entry));
                    }
                }
                None => contents.add(entry),
            }
        }

        // In the meantime programs may have overwritten the oldest records, and may be about to
        // overwrite one more.
        let valid = (self.head(cpu) + 1).saturating_sub(1 << self.exponent);
        let overtaken = oldest_met.is_some_and(|number| number < valid);
        numbered.retain(|(number, _)| *number >= valid);
        if !reached || overtaken {
            let first = oldest_met.and_then(|number| self.record(cpu, number.max(valid))?.at());
            let to = first.map_or(to, |first| first.clamp(from, to));
            contents.lost = Some(LostEvents { cpu, from, to, count: None });
        }

        numbered.into_iter().for_each(|(_, entry)| contents.add(entry));
        contents
    }
}

impl RingContents {
    fn add(&mut self, entry: PathEntry) {
        match entry {
            PathEntry::Event(event) => self.events.push(event),
            PathEntry::Waking(event, reading) => {
                self.events.push(event);
                self.readings.push(reading);
            }
            PathEntry::Reading(reading) => self.readings.push(reading),
            PathEntry::Inside(event) => self.inside.push(event),
            PathEntry::Ended(tid, name) => self.ended.push((tid, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop's entry, and rings of four records for two CPUs, filled as a program does.
    struct FakeRings {
        heads: Vec<AtomicU64>,
        records: Vec<AtomicU64>,
    }

    impl FakeRings {
        fn new() -> Self {
            let zeros = |words: usize| (0..words).map(|_| AtomicU64::new(0)).collect();
            Self { heads: zeros(3 * HEAD_WORDS as usize), records: zeros(2 * 4 * WORDS) }
        }

        fn idle(&self, cpu: usize, at: u64) {
            let number = self.heads[(cpu + 1) * HEAD_WORDS as usize].fetch_add(1, Ordering::Relaxed)
                as usize;
            let record = &self.records[(cpu * 4 + number % 4) * WORDS..][..WORDS];
            let kind = u64::from_ne_bytes(
                [[0; 4], (PathKind::Idle as u32).to_ne_bytes()].concat().try_into().unwrap(),
            );
            [at, kind, 0, 0]
                .iter()
                .zip(record)
                .for_each(|(value, word)| word.store(*value, Ordering::Relaxed));
        }

        fn between(&self, cpu: u32, from: u64, to: u64) -> (Vec<u64>, Option<(u64, u64)>) {
            self.taken_between(cpu, (from, to), |_| true)
        }

        fn taken_between(
            &self,
            cpu: u32,
            (from, to): (u64, u64),
            takes: fn(&PathEntry) -> bool,
        ) -> (Vec<u64>, Option<(u64, u64)>) {
            let ring = PathRing { heads: &self.heads, records: &self.records, exponent: 2 };
            let contents = ring.between(cpu, Instant::from_ns(from), Instant::from_ns(to), takes);
            let times = contents.events.iter().map(|event| event.at.as_ns()).collect();
            (times, contents.lost.map(|lost| (lost.from.as_ns(), lost.to.as_ns())))
        }
    }

    #[test]
    fn records_of_a_time_range_come_from_the_ring_of_the_cpu() {
        let rings = FakeRings::new();
        [10, 20, 30].into_iter().for_each(|at| rings.idle(1, at));
        assert_eq!(rings.between(1, 15, 25), (vec![20], None));
        assert_eq!(rings.between(1, 0, 99), (vec![30, 20, 10], None), "nothing was before");
        assert_eq!(rings.between(0, 0, 99), (vec![], None));
        assert_eq!(rings.between(7, 0, 99), (vec![], None), "no such CPU");
    }

    #[test]
    fn overwritten_records_are_a_gap() {
        let rings = FakeRings::new();
        [10, 20, 30, 40, 50, 60].into_iter().for_each(|at| rings.idle(0, at));
        // The oldest of four records may be the next one to be overwritten.
        assert_eq!(rings.between(0, 45, 99), (vec![60, 50], None));
        assert_eq!(rings.between(0, 35, 99), (vec![60, 50, 40], None));
        assert_eq!(rings.between(0, 15, 99), (vec![60, 50, 40], Some((15, 40))));
        assert_eq!(rings.between(0, 5, 8), (vec![], Some((5, 8))), "all of it");

        let late = |entry: &PathEntry| entry.at() > Some(Instant::from_ns(55));
        assert_eq!(rings.taken_between(0, (15, 99), late), (vec![60], Some((15, 40))), "not taken");
    }

    #[test]
    fn a_timer_start_has_the_function_of_its_expiry() {
        let at = Instant::from_ns;
        let event = |ns, what| TraceEvent { at: at(ns), cpu: 0, tid: 7, what };
        let start = |function| KernelEvent::TimerStart {
            timer: 5,
            function,
            expires: at(9),
            softexpires: at(9),
        };
        let expiry = KernelEvent::TimerExpireEntry { timer: 5, function: 77, now: at(9) };
        let mut events = [event(1, start(0)), event(9, expiry), event(10, start(0))];
        give_functions(&mut events);

        assert_eq!([events[0].what, events[2].what], [start(77), start(0)]);
    }
}
