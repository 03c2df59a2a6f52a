//! Turns judged pieces into causes that add up to the lateness.
//!
//! The steps, in this order: steal time is carved out of the pieces it fell into; the planned work
//! is removed; the rest of the loop's own time gets a cause; steps of the wake-up that took longer
//! than such a step can are named; the pieces of each cause are added up.

use onbeat_rt::Instant;

use super::counters::{CounterSource, Counters};
use super::event::KernelEvent;
use super::facts::{ExpectedActivity, SpikePart};
use super::judge::{Attribution, Judge, ORDINARY_STEP_NS, Piece};
use super::kind::{Cause, CauseKind, Culprit};

/// Maximum time to switch away from another thread, in nanoseconds.
const SWITCH_NS: u64 = 10_000;
/// Shorter pieces are not considered for steal time, in nanoseconds.
const LEAST_STOLEN_NS: u64 = 5_000;
/// Maximum time of a page fault during which the thread keeps its CPU, in nanoseconds; clearing a
/// huge page takes this long.
const LONGEST_FAULT_NS: u64 = 500_000;
/// Maximum time by which one migration makes the loop's work longer, in nanoseconds: what fits into
/// a cache of 2 MB is read in this time.
const LONGEST_COLD_NS: u64 = 200_000;

/// Returns the pieces of one part, each with its final cause.
// A wake-up that is 300 µs late, in a guest, in µs since the programmed expiry:
//   events     0        40                       290    297  300
//   CPU 1      | dd in write(2), woken at 40 ...   | switch | loop runs
//   steal      |          60 counted between 40 and 290
//
//   pieces     [0,40) interrupts off by dd         the judge, slice by slice
//              [40,290) kernel section in dd/write
//              [290,300) wake-up itself
//   steal      [40,100) steal, [100,290) kernel section      60 out of the piece that may hide it
//   switches   nothing: each piece is longer than a switch
//   add up     kernel section 190 + steal 60 + interrupts off 40 + wake-up 10 = 300
//
// Steps only divide or rename pieces. None makes one longer, so that the sum stays the lateness,
// and the largest name is the main cause.
pub(super) fn settle(part: &SpikePart, judge: &Judge<'_>, counters: &Counters) -> Vec<Piece> {
    // What of its own work has a name of its own is not part of the plan.
    let pieces = judge.split_own_work(judge.pieces(part));
    // First of all: time in which the CPU did not run belongs to no thread of this kernel.
    let mut pieces = take_out_steal(pieces, judge, counters);
    // Planned work is no lateness, and what was stolen is not part of the plan.
    take_out_plan(&mut pieces, part.planned_ns);
    let mut pieces = name_own_time(pieces, part, judge, counters);
    // After the loop's own time has its name: what is left over are steps between threads, which
    // the events cut out as slices of a thread that was only leaving.
    take_switches_for_what_they_are(&mut pieces);
    name_long_steps(pieces, judge, counters)
}

/// Attributes unavoidable times to the wake-up itself. A thread that the loop preempts runs for a
/// few microseconds more: this is the switch, not a kernel section. A timer's interrupt takes time
/// to arrive and to run: without a known system call or sleep, no thread is to blame.
fn take_switches_for_what_they_are(pieces: &mut [Piece]) {
    let is = |piece: &Piece, kind| piece.attribution == Attribution::Cause(kind);
    let of_known_call =
        |piece: &Piece| piece.culprit.as_ref().is_some_and(|culprit| culprit.system_call.is_some());
    ordinary_up_to(SWITCH_NS, pieces, |piece| is(piece, CauseKind::KernelSection));
    ordinary_up_to(SWITCH_NS, pieces, |piece| is(piece, CauseKind::PolicyChange));
    ordinary_up_to(ORDINARY_STEP_NS, pieces, |piece| {
        is(piece, CauseKind::InterruptsOff) && !of_known_call(piece)
    });
    ordinary_up_to(ORDINARY_STEP_NS, pieces, |piece| {
        is(piece, CauseKind::LateTimer) && piece.culprit.is_none()
    });
    ordinary_up_to(ORDINARY_STEP_NS, pieces, |piece| is(piece, CauseKind::TimerInterrupt));
}

/// Attributes the selected pieces to the wake-up itself if together they take at most `most_ns`.
fn ordinary_up_to(most_ns: u64, pieces: &mut [Piece], which: impl Fn(&Piece) -> bool) {
    let total: u64 = pieces.iter().filter(|piece| which(piece)).map(Piece::ns).sum();
    // Together, not one by one: ten steps of 9 µs each are no ordinary switch.
    if total <= most_ns {
        for piece in pieces.iter_mut().filter(|piece| which(piece)) {
            (piece.attribution, piece.culprit, piece.remark) =
                (Attribution::Cause(CauseKind::WakeUpPath), None, None);
        }
    }
}

/// Assigns steal time to the longest pieces between the two readings that show it, because a stolen
/// CPU leaves a long time without events. Slices outside the spike are candidates as well.
fn take_out_steal(pieces: Vec<Piece>, judge: &Judge<'_>, counters: &Counters) -> Vec<Piece> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return pieces };
    let from = first.from;
    let to = last.to;
    let mut stolen: Vec<u64> = vec![0; pieces.len()];
    for steal in counters.steal_between(from, to) {
        let overlap = |piece: &Piece| piece.to.min(steal.to).ns_since(piece.from.max(steal.from));
        let inside = pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| piece.cpu == Some(steal.cpu) && may_hide_steal(piece));
        let mut places: Vec<(u64, Option<usize>)> = inside
            // The counter says how much, not when. The longest pieces in its interval are the
            // likeliest to hide it.
            .map(|(index, piece)| (overlap(piece).saturating_sub(stolen[index]), Some(index)))
            .collect();
        // Part of the interval lies outside the spike. What was busy there may have lost the time
        // just as well, and the spike is not charged for it.
        let before = judge.busy(steal.cpu, steal.from, from.max(steal.from));
        let after = judge.busy(steal.cpu, to.min(steal.to), steal.to);
        places
            .extend(before.iter().chain(&after).map(|slice| (slice.to.ns_since(slice.from), None)));
        places.sort_by(|a, b| b.cmp(a));
        let mut left = steal.ns;
        for (length, index) in places.into_iter().filter(|(length, _)| *length >= LEAST_STOLEN_NS) {
            let taken = length.min(left);
            left -= taken;
            if let Some(index) = index {
                stolen[index] += taken;
            }
        }
    }

    let split = |(piece, ns): (Piece, u64)| {
        let remark = match counters.source {
            CounterSource::Bpf => "the CPU's steal counter moved",
            CounterSource::Procfs | CounterSource::None => "the steal ticks of /proc/stat moved",
        };
        carve(piece, ns, CauseKind::HypervisorSteal, Some(remark))
    };

    pieces.into_iter().zip(stolen).flat_map(split).collect()
}

const fn may_hide_steal(piece: &Piece) -> bool {
    // A stopped process does not run, whoever has the CPU.
    !matches!(piece.attribution, Attribution::Cause(CauseKind::Stopped))
}

/// Attributes the first `ns` of a piece to another cause.
fn carve(piece: Piece, ns: u64, kind: CauseKind, remark: Option<&str>) -> Vec<Piece> {
    let middle = piece.from.plus_ns(ns.min(piece.ns()));
    let attribution = Attribution::Cause(kind);
    let remark = remark.map(str::to_owned);
    let taken = Piece { to: middle, attribution, culprit: None, remark, ..piece.clone() };
    let rest = Piece { from: middle, ..piece };
    [taken, rest].into_iter().filter(|piece| piece.ns() > 0).collect()
}

/// Removes the planned work: first from the loop's own time, then from the earliest other pieces,
/// which passed while the work waited for the clock.
fn take_out_plan(pieces: &mut Vec<Piece>, planned_ns: u64) {
    let mut left = planned_ns;
    for own_only in [true, false] {
        for piece in
            pieces.iter_mut().filter(|piece| !own_only || piece.attribution == Attribution::OwnWork)
        {
            let taken = piece.ns().min(left);
            piece.from = piece.from.plus_ns(taken);
            left -= taken;
        }
    }

    pieces.retain(|piece| piece.ns() > 0);
}

/// Names the rest of the loop's own time in a cycle: page faults, a slower CPU, cold caches, or
/// more work than planned.
fn name_own_time(
    pieces: Vec<Piece>,
    part: &SpikePart,
    judge: &Judge<'_>,
    counters: &Counters,
) -> Vec<Piece> {
    let is_fault =
        |event: &&&super::event::TraceEvent| matches!(event.what, KernelEvent::PageFault { .. });
    let faults = judge.own_events(part.from, part.to).filter(is_fault).count() as u64;
    let culprit = judge.memory_faulted(part.from, part.to);
    // Of a fault whose length is known there is left the way into the kernel and back.
    let longest_ns = match judge.knows_fault_lengths(part.from, part.to) {
        true => ORDINARY_STEP_NS,
        false => LONGEST_FAULT_NS,
    };
    let mut by_faults = faults * longest_ns;
    let mut slower_ns = 0;
    let fault_remark =
        format!("{faults} page {} in the cycle", if faults == 1 { "fault" } else { "faults" });
    let name = |piece: Piece| {
        if piece.attribution != Attribution::OwnWork {
            return vec![piece];
        }

        let slower = slower(&piece, part, judge);
        let (kind, remark) = if part.kind == ExpectedActivity::Polling {
            stood_still_polling(&piece, counters)
        } else {
            let plain = match counters.is_guest {
                true => {
                    "the thread had its CPU and nothing of this kernel interrupted it; a pause by the host that no steal counter shows would look the same"
                }
                false => "the thread had its CPU and nothing interrupted it",
            };
            (CauseKind::OwnOverrun, piece.remark.clone().or(Some(plain.to_owned())))
        };

        let faulted = piece.ns().min(by_faults);
        by_faults -= faulted;
        let named = Piece { attribution: Attribution::Cause(kind), remark, ..piece };
        let mut pieces = carve(named, faulted, CauseKind::PageFault, Some(&fault_remark));
        if faulted > 0 {
            pieces[0].culprit.clone_from(&culprit);
        }
        if let Some((kind, remark, most_ns)) = slower
            && let Some(rest) =
                pieces.pop_if(|last| last.attribution != Attribution::Cause(CauseKind::PageFault))
        {
            let ns = rest.ns().min(most_ns.saturating_sub(slower_ns));
            slower_ns += ns;
            pieces.extend(carve(rest, ns, kind, Some(&remark)));
        }
        pieces
    };

    pieces.into_iter().flat_map(name).collect()
}

/// Returns what made the loop's own time longer, and the most that it can have cost, in
/// nanoseconds.
fn slower(piece: &Piece, part: &SpikePart, judge: &Judge<'_>) -> Option<(CauseKind, String, u64)> {
    if let Some((khz, most_ns)) = judge.slowed_down(piece.cpu, part.from, part.to) {
        return Some((CauseKind::FrequencyChange, format!("to {} MHz", khz / 1000), most_ns));
    }
    let remark = "cold caches on the new CPU".to_owned();
    let most_ns = judge.moves.saturating_mul(LONGEST_COLD_NS);
    (judge.moves > 0).then_some((CauseKind::Migration, remark, most_ns))
}

/// Names time that a loop lost while it polled the clock in user code, where no event of this
/// kernel shows what took its CPU.
fn stood_still_polling(piece: &Piece, counters: &Counters) -> (CauseKind, Option<String>) {
    let polled = "the loop read the clock in user code, and nothing of this kernel ran";
    match smis_of_spike(counters) {
        _ if piece.ns() <= ORDINARY_STEP_NS => (CauseKind::WakeUpPath, None),
        Some(words) => (CauseKind::Smi, Some(words)),
        _ if counters.is_guest => {
            let remark = format!(
                "{polled}: only the host can take the CPU there; {}",
                steal_words(counters)
            );
            (CauseKind::HypervisorPause, Some(remark))
        }
        _ => (CauseKind::Unexplained, Some(polled.to_owned())),
    }
}

/// Several system management interrupts since the spike before show nothing of this one after this
/// time, in nanoseconds: many computers have one every second, and reading the counter more often
/// would disturb the loop.
const SMI_WITHIN_NS: u64 = 1_000_000_000;

/// Returns the system management interrupts that were counted, if they may be this spike's, in
/// words.
fn smis_of_spike(counters: &Counters) -> Option<String> {
    let is_of_spike = counters.smi == Some(1) || counters.smi_ns <= SMI_WITHIN_NS;
    smis_counted(counters).filter(|_| is_of_spike)
}

fn smis_counted(counters: &Counters) -> Option<String> {
    let count = counters.smi.filter(|count| *count > 0)?;
    let plural = if count == 1 { "" } else { "s" };
    let seconds = counters.smi_ns as f64 / 1e9;
    let digits = if seconds < 1.0 { 3 } else { 1 };
    Some(format!(
        "the CPU counted {count} system management interrupt{plural} in the {seconds:.digits$} s before"
    ))
}

const fn steal_words(counters: &Counters) -> &'static str {
    match counters.source {
        CounterSource::Bpf => "its steal counter does not account for it",
        CounterSource::Procfs | CounterSource::None => "no steal counter has that resolution",
    }
}

fn host_or_kernel(counters: &Counters) -> String {
    match counters.is_guest {
        true => format!("host or kernel code; {}", steal_words(counters)),
        false => {
            let counted = smis_counted(counters).map(|words| format!("; {words}"));
            format!("kernel code or firmware{}", counted.unwrap_or_default())
        }
    }
}

/// Names the excess of wake-up steps that took longer than such a step can: something stopped the
/// CPU without an event.
fn name_long_steps(pieces: Vec<Piece>, judge: &Judge<'_>, counters: &Counters) -> Vec<Piece> {
    let in_interrupt =
        |piece: &Piece| piece.attribution == Attribution::Cause(CauseKind::TimerInterrupt);
    let interrupt_ns: u64 = pieces.iter().filter(|piece| in_interrupt(piece)).map(Piece::ns).sum();
    let mut ordinary_ns = ORDINARY_STEP_NS;
    let mut name = |piece: Piece| {
        if in_interrupt(&piece) {
            // The first part is its usual length.
            let ordinary = piece.ns().min(ordinary_ns);
            ordinary_ns -= ordinary;
            let (kind, remark) = long_interrupt(&piece, interrupt_ns, judge, counters);
            let named =
                Piece { attribution: Attribution::Cause(kind), remark: Some(remark), ..piece };
            return carve(named, ordinary, CauseKind::WakeUpPath, None);
        }

        let excess = piece.ns().saturating_sub(ORDINARY_STEP_NS);
        if piece.attribution != Attribution::Cause(CauseKind::WakeUpPath) || excess == 0 {
            return vec![piece];
        }

        let (kind, remark) = silence(&piece, judge, counters);
        carve(piece, excess, kind, Some(&remark))
    };

    pieces.into_iter().flat_map(&mut name).collect()
}

/// Returns what stopped or slowed a CPU without an event, if a counter shows it.
fn slowed(piece: &Piece, judge: &Judge<'_>, counters: &Counters) -> Option<(CauseKind, String)> {
    let from = piece.from.minus_ns(1000);
    let to = piece.to.plus_ns(1000);
    if let Some(khz) = judge.frequency_change(piece.cpu, from, to) {
        return Some((CauseKind::FrequencyChange, format!("to {} MHz", khz / 1000)));
    }
    smis_of_spike(counters).map(|words| (CauseKind::Smi, words))
}

/// Names a long interrupt of the loop's timer. No event shows whether the host or the kernel caused
/// it.
fn long_interrupt(
    piece: &Piece,
    all_ns: u64,
    judge: &Judge<'_>,
    counters: &Counters,
) -> (CauseKind, String) {
    slowed(piece, judge, counters).unwrap_or_else(|| {
        let who = host_or_kernel(counters);
        let us = all_ns as f64 / 1000.0;
        (
            CauseKind::TimerInterrupt,
            format!("the interrupt of the loop's timer took {us:.1} us in all: {who}"),
        )
    })
}

fn silence(piece: &Piece, judge: &Judge<'_>, counters: &Counters) -> (CauseKind, String) {
    slowed(piece, judge, counters).unwrap_or_else(|| {
        let who = host_or_kernel(counters);
        (
            CauseKind::Unexplained,
            format!("code that takes microseconds took longer, without an event: {who}"),
        )
    })
}

/// Adds up the pieces of each cause and culprit: longest cause first, unexplained time last.
pub(super) fn add_up(pieces: &[Piece]) -> Vec<Cause> {
    let mut sums: Vec<CauseTotal<'_>> = Vec::new();
    for piece in pieces {
        let kind = match piece.attribution {
            Attribution::Cause(kind) => kind,
            Attribution::OwnWork => CauseKind::OwnOverrun,
        };
        match sums.iter_mut().find(|sum| sum.kind == kind && sum.culprit == piece.culprit.as_ref())
        {
            Some(sum) => sum.add(piece),
            None => sums.push(CauseTotal::new(kind, piece)),
        }
    }

    sums.sort_by_key(|sum| (sum.kind == CauseKind::Unexplained, std::cmp::Reverse(sum.ns)));
    sums.iter().map(CauseTotal::cause).collect()
}

struct CauseTotal<'p> {
    kind: CauseKind,
    culprit: Option<&'p Culprit>,
    ns: u64,
    longest_ns: u64,
    stretches: usize,
    ended: Instant,
    cpu: Option<u32>,
    remark: Option<&'p str>,
}

impl<'p> CauseTotal<'p> {
    fn new(kind: CauseKind, piece: &'p Piece) -> Self {
        let remark = piece.remark.as_deref();
        let mut sum = Self {
            kind,
            culprit: piece.culprit.as_ref(),
            ns: 0,
            longest_ns: 0,
            stretches: 0,
            ended: Instant::default(),
            cpu: piece.cpu,
            remark,
        };

        sum.add(piece);
        sum
    }

    fn add(&mut self, piece: &'p Piece) {
        self.ns += piece.ns();
        if piece.ns() > self.longest_ns {
            self.longest_ns = piece.ns();
            self.remark = piece.remark.as_deref().or(self.remark);
        }

        self.stretches += usize::from(piece.from != self.ended);
        self.ended = piece.to;
    }

    fn cause(&self) -> Cause {
        let us = |ns: u64| ns as f64 / 1000.0;
        let mut evidence = match self.culprit {
            Some(culprit) => culprit_words(culprit, self.kind),
            None => self.kind.words().to_owned(),
        };

        if let Some(cpu) = self.cpu {
            evidence.push_str(&format!(" on CPU {cpu}"));
        }

        evidence.push_str(&format!(" for {:.1} us", us(self.ns)));
        if self.stretches > 1 {
            evidence.push_str(&format!(
                " in {} stretches, the longest {:.1} us",
                self.stretches,
                us(self.longest_ns)
            ));
        }

        if let Some(remark) = self.remark {
            evidence.push_str("; ");
            evidence.push_str(remark);
        }

        Cause { kind: self.kind, ns: self.ns, evidence, culprit: self.culprit.cloned() }
    }
}

fn culprit_words(culprit: &Culprit, kind: CauseKind) -> String {
    let thread = culprit.tid.map(|tid| {
        let name = super::event::Label::from(culprit.name.as_str());
        super::event::Thread { tid, prio: culprit.prio.unwrap_or(120), name }.to_string()
    });

    let who = thread.unwrap_or_else(|| culprit.name.clone());
    let call = culprit.system_call.as_ref().map(|call| format!(" in {call}"));
    let work = || culprit.work.as_ref().map(|work| format!(" executing {work}"));
    let call = call.or_else(work).unwrap_or_default();
    match kind {
        CauseKind::KernelSection => format!("the kernel worked for {who}{call} and did not let go"),
        CauseKind::InterruptsOff => format!("interrupts were off while {who} ran{call}"),
        CauseKind::Softirq => format!("softirq {who} ran"),
        CauseKind::HardIrq => format!("interrupt {who} ran"),
        CauseKind::LateTimer => format!("late timer interrupt: {who}"),
        CauseKind::RtThrottling | CauseKind::FairServer => {
            format!("{} because of {who}", kind.words())
        }
        CauseKind::PolicyChange => format!("scheduling policy changed to {who}"),
        CauseKind::LockWait => format!("waited for a lock held by {who}"),
        CauseKind::PriorityInversion => format!("priority inversion by {who}"),
        CauseKind::DataWait => format!("waited for data from {who}"),
        CauseKind::OutputWait => format!("waited to write to {who}"),
        CauseKind::OwnWait => format!("waited in {who}"),
        CauseKind::MemoryCall => format!("memory call {who}"),
        CauseKind::PageFault => format!("page fault in {who}"),
        _ => format!("{who}{call} ran"),
    }
}
