//! What the CPUs did around a spike, as a run file keeps it, and which spikes it is kept of.
//!
//! A file is only ever appended to, and its length is not known beforehand. So a window is written
//! when its spike is among the [`AMONG`] worst of the run so far: those of the whole run are among
//! them in the end, and of n spikes in no order some `AMONG · (1 + ln(n / AMONG))` are written.
//! Where lateness grows and grows, half of the room is used up like that; from then on a spike must
//! be the worst by a quarter: from 50 µs to 1,000 s, the longest time there is, that is at most
//! ln(1,000 s / 50 µs) / ln 1.25 = 76 times, for which the other half suffices.

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use onbeat_cause::ftrace::{UnpackError, unpack};
use onbeat_cause::{KeptWindow, SpikeFacts, Window};

/// Of the run so far, a spike must be among this many worst ones.
// Windows are the large part of a run file, and who looks at spikes looks at the worst ones.
const AMONG: usize = 32;
/// Bytes of packed windows in a file, at most.
const FILE_MOST: u64 = 2 * 1024 * 1024;
/// Whether a spike's window is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowFate {
    /// It follows the spike.
    Kept,
    /// 32 spikes before it were worse.
    NotAmongWorst,
    /// The file's 2 MiB for windows were used up.
    NoRoom,
    /// The flight recorder had no event of the loop's CPU.
    NoEvents,
}

impl WindowFate {
    /// Whether there is a window, and why not, as the end of a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Kept => "its events are in the run file",
            Self::NotAmongWorst => {
                "32 spikes before it were worse, and only the worst keep their events"
            }
            Self::NoRoom => {
                "the run file's 2 MiB for events were used up, but for spikes worse by a quarter"
            }
            Self::NoEvents => "the flight recorder had no event of the loop's CPU",
        }
    }
}

/// Which windows a file has been given so far. Memory is fixed.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeping {
    /// Latenesses of the worst that were kept, worst first.
    worst: Vec<u64>,
    bytes: u64,
}

impl Keeping {
    /// What would become of the window of a spike that late.
    pub(super) fn judge(&self, lateness_ns: u64) -> WindowFate {
        // The second half of the room is for what is clearly worse than all before. Otherwise a
        // storm in the first minute would use it up, and the worst spike of a night would have no
        // events.
        if self.bytes >= FILE_MOST / 2 {
            let worst = self.worst.first().copied().unwrap_or(0);
            return if lateness_ns > worst.saturating_add(worst / 4) {
                WindowFate::Kept
            } else {
                WindowFate::NoRoom
            };
        }
        match self.worst.get(AMONG - 1) {
            Some(least) if *least >= lateness_ns => WindowFate::NotAmongWorst,
            _ => WindowFate::Kept,
        }
    }

    /// The same, and remembers what is kept.
    pub(super) fn admit(&mut self, lateness_ns: u64, window: Option<&KeptWindow>) -> WindowFate {
        let fate = self.judge(lateness_ns);
        let WindowFate::Kept = fate else { return fate };
        // Admitted by its lateness, and yet without events: that is said in its note, for it is not
        // the same as having been left out.
        let Some(window) = window else { return WindowFate::NoEvents };
        let bytes = self.bytes + window.packed.len() as u64;
        // The size is known only now. A single window may be larger than what is left.
        if bytes > FILE_MOST {
            return WindowFate::NoRoom;
        }

        self.remember(lateness_ns, window.packed.len() as u64);
        fate
    }

    /// Takes into account a window that the file has been given before, by a part of its run that
    /// is over.
    pub(super) fn remember(&mut self, lateness_ns: u64, bytes: u64) {
        self.bytes += bytes;
        let place = self.worst.partition_point(|kept| *kept >= lateness_ns);
        self.worst.insert(place, lateness_ns);
        // Windows that were written stay in the file: it is only ever appended to. What falls off
        // here lowers the bar for later ones, no more.
        self.worst.truncate(AMONG);
    }
}

/// Kernel events around the spike that precedes it, from 4 ms before the programmed expiry to 1 ms
/// after the end of the cycle: at most 1,200 events of the loop's CPU and 400 of all others, 12 KiB
/// packed, the nearest to expiry and first instruction first. Switches that are only visible in the
/// next one are included.
///
/// A window is written if its spike is among the 32 worst so far when its interval ends; from 1 MiB
/// on only if it is worse than all before by a quarter; at most 2 MiB a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowNote {
    /// Block of the spike.
    pub block: u32,
    /// Cycle number k of the spike.
    pub index: u64,
    /// Release `r_k` by `CLOCK_MONOTONIC`, as all instants here, in nanoseconds.
    pub release_ns: u64,
    /// Instant that the loop's timer was set to.
    pub expiry_ns: u64,
    /// Whether the timer was set for a length of time, and therefore expires a little later than
    /// `expiry_ns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relative: bool,
    /// Start `s_k`.
    pub start_ns: u64,
    /// End `e_k`.
    pub end_ns: u64,
    /// Time spent polling before the release, in nanoseconds.
    pub spun_ns: u64,
    /// Planned work of a cycle, in nanoseconds.
    pub planned_work_ns: u64,
    /// Thread ID of the loop.
    pub tid: u32,
    /// CPU of the loop; `None` if unknown.
    pub cpu: Option<u32>,
    /// The loop's priority as the kernel counts it.
    pub prio: i32,
    /// Number of events in `packed`.
    pub events: u64,
    /// Number of events dropped because the window was full.
    pub left_out: u64,
    /// Base64 of raw deflate (RFC 1951) of text like the kernel's `trace` file, with nine digits of
    /// time and points instead of context flags, and comment lines `# window: FROM TO` (ns), `#
    /// cpus: N ...`, `# function: ADDRESS NAME`, `# lost: CPU FROM TO COUNT` (`-` where not
    /// counted; also events dropped for lack of space).
    pub packed: String,
}

impl WindowNote {
    /// Of its spike: wake-up latency plus execution time beyond the planned work.
    pub(super) const fn lateness_ns(&self) -> u64 {
        let worked_ns = self.end_ns.saturating_sub(self.start_ns);
        self.start_ns.saturating_sub(self.release_ns)
            + worked_ns.saturating_sub(self.planned_work_ns)
    }

    pub(super) fn new(block: u32, index: u64, kept: KeptWindow) -> Self {
        let KeptWindow { facts, events, left_out, packed } = kept;
        Self {
            block,
            index,
            release_ns: facts.release.as_ns(),
            expiry_ns: facts.expiry.as_ns(),
            relative: facts.relative,
            start_ns: facts.start.as_ns(),
            end_ns: facts.end.as_ns(),
            spun_ns: facts.spun_ns,
            planned_work_ns: facts.planned_work_ns,
            tid: facts.tid,
            cpu: facts.cpu,
            prio: facts.prio,
            events,
            left_out,
            packed,
        }
    }

    /// What is known of the cycle without any event.
    #[must_use]
    pub const fn facts(&self) -> SpikeFacts {
        SpikeFacts {
            release: Instant::from_ns(self.release_ns),
            expiry: Instant::from_ns(self.expiry_ns),
            relative: self.relative,
            entered_sleep: None,
            start: Instant::from_ns(self.start_ns),
            end: Instant::from_ns(self.end_ns),
            spun_ns: self.spun_ns,
            planned_work_ns: self.planned_work_ns,
            tid: self.tid,
            cpu: self.cpu,
            prio: self.prio,
            waits_in: None,
        }
    }

    /// The events.
    ///
    /// # Errors
    /// [`UnpackError`] when the file was edited.
    pub fn unpacked(&self) -> Result<Window, UnpackError> {
        unpack(&self.packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = onbeat_cause::keep::PACKED_MOST;

    fn window() -> KeptWindow {
        KeptWindow { packed: "x".repeat(LARGE), ..KeptWindow::default() }
    }

    /// How many of these are kept, and which.
    fn kept(latenesses_ns: impl IntoIterator<Item = u64>) -> (Keeping, Vec<u64>) {
        let mut keeping = Keeping::default();
        let large = window();
        let is_kept = |ns: &u64| keeping.admit(*ns, Some(&large)) == WindowFate::Kept;
        let kept = latenesses_ns.into_iter().filter(is_kept).collect();
        (keeping, kept)
    }

    #[test]
    fn the_worst_of_the_whole_run_are_among_those_kept() {
        // A permutation of 1 to 10,006, which is a prime minus one.
        let latenesses: Vec<u64> =
            (1..10_007).map(|i| i * 5003 % 10_007).map(|n| 50_000 + n).collect();
        let small = KeptWindow { packed: "x".repeat(2000), ..KeptWindow::default() };
        let mut keeping = Keeping::default();
        let mut kept: Vec<u64> = Vec::new();
        for &ns in &latenesses {
            if keeping.admit(ns, Some(&small)) == WindowFate::Kept {
                kept.push(ns);
            }
        }

        assert!((0..32).all(|rank| kept.contains(&(50_000 + 10_006 - rank))), "the 32 worst");
        assert!(kept.len() < 500, "{} of 10,006 are kept", kept.len());
    }

    #[test]
    fn a_run_that_gets_worse_and_worse_stays_within_the_files_room_and_keeps_its_worst() {
        let mut ns = 50_000_u64;
        let ramp = std::iter::from_fn(|| {
            ns = ns + ns / 100 + 1;
            (ns < 1_000_000_000_000).then_some(ns)
        });

        let (keeping, kept) = kept(ramp);
        assert!(keeping.bytes <= FILE_MOST);
        assert!(kept.last().is_some_and(|last| *last > 1_000_000_000_000 / 5 * 4), "{kept:?}");
        let after_half = kept.len() as u64 - (FILE_MOST / 2).div_ceil(LARGE as u64);
        assert!((40..=76).contains(&after_half), "{after_half}");
    }

    #[test]
    fn a_day_of_equal_spikes_keeps_the_first_ones() {
        let (_, kept) = kept((0..864_000).map(|_| 70_000));
        assert_eq!(kept.len(), AMONG);
    }

    #[test]
    fn a_spike_without_events_takes_no_room() {
        let mut keeping = Keeping::default();
        assert_eq!(keeping.admit(70_000, None), WindowFate::NoEvents);
        assert_eq!((keeping.bytes, keeping.worst.len()), (0, 0));
    }

    #[test]
    fn a_note_gives_back_the_facts_it_was_made_of() {
        let facts = SpikeFacts { tid: 7, cpu: Some(1), prio: 9, ..SpikeFacts::default() };
        assert_eq!(WindowNote::new(1, 2, KeptWindow { facts, ..window() }).facts(), facts);
    }
}
