//! Changes around a run that are not lateness of the loop: the wall clock is set, the machine is
//! suspended, CPUs come or go.
//!
//! The recorder takes a [`SurroundingsReading`] at each look into the ring, about every 20 ms.
//! [`changes`] is the rule: a pure function of two readings, one after the other. What it finds
//! excludes the cycles that were under way between them, wherever their figures would have gone
//! (see [`onbeat_record::Exclusion`]); nothing else is judged by it.
//!
//! Absent on purpose: a guess at what a change did to a cycle. The stretch between two looks is
//! left out as a whole, late cycles and timely ones alike, so that no figure is chosen by its size.

use std::fs::File;
use std::os::unix::fs::FileExt;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use rustix::time::{ClockId, clock_gettime};

use onbeat_host::machine::cpu_list;
use onbeat_record::{Exclusion, Surrounding};

/// Smallest step of the wall clock, in nanoseconds: time services move clocks by less without a
/// step.
const LEAST_STEP_NS: u64 = 5_000_000;
/// Largest slew of a clock, in parts per million: the limit of `adjtimex(2)`.
const SLEW_PPM: u64 = 500;
/// Shortest suspend, in nanoseconds: the kernel's own bookkeeping is not finer on all machines.
const LEAST_SUSPEND_NS: u64 = 1_000_000;
/// Readings of the clocks tried for one that took no longer than [`QUICK_NS`].
const TRIES: u32 = 4;
const QUICK_NS: u64 = 20_000;
/// Room for the kernel's list of CPUs, such as `0-2,4`.
const LIST_BYTES: usize = 256;

/// The surroundings at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurroundingsReading {
    /// `CLOCK_MONOTONIC` just before the others were read.
    pub from: Instant,
    /// `CLOCK_MONOTONIC` just after.
    pub to: Instant,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970.
    pub wall_ns: i64,
    /// `CLOCK_BOOTTIME`, in nanoseconds.
    pub boot_ns: i64,
    /// CPUs online; `None` where that cannot be read.
    pub cpus: Option<u32>,
}

impl SurroundingsReading {
    /// Returns how far a clock is ahead of `CLOCK_MONOTONIC`, in nanoseconds, as it was halfway
    /// through the reading.
    fn ahead_ns(&self, clock_ns: i64) -> i64 {
        let halfway_ns = self.from.as_ns() + self.took_ns() / 2;
        clock_ns.saturating_sub(i64::try_from(halfway_ns).unwrap_or(i64::MAX))
    }

    /// Returns how exactly the clocks can be compared, in nanoseconds.
    const fn took_ns(&self) -> u64 {
        self.to.ns_since(self.from)
    }
}

/// Returns what changed between two readings. The excluded interval begins before the earlier
/// reading and ends after the later one.
#[must_use]
pub fn changes(before: &SurroundingsReading, after: &SurroundingsReading) -> Vec<Exclusion> {
    let from = before.from;
    let to = after.to;
    let found = |what, sentence| Exclusion { from, to, what, sentence };
    let passed_ns = to.ns_since(from);
    let unsure_ns = before.took_ns() + after.took_ns();
    let suspended_ns =
        after.ahead_ns(after.boot_ns).saturating_sub(before.ahead_ns(before.boot_ns));
    // A suspend moves both clocks on beside CLOCK_MONOTONIC; what is left of the wall clock's move
    // is a step.
    let moved_ns = after.ahead_ns(after.wall_ns).saturating_sub(before.ahead_ns(before.wall_ns));
    let was_suspended = suspended_ns > (LEAST_SUSPEND_NS + unsure_ns).cast_signed();
    let step_ns = if was_suspended { moved_ns.saturating_sub(suspended_ns) } else { moved_ns };
    let mut changes = Vec::new();
    if was_suspended {
        let sentence =
            format!("the machine was suspended for {}", seconds(suspended_ns.unsigned_abs()));
        changes.push(found(Surrounding::Suspend, sentence));
    }

    if step_ns.unsigned_abs() > LEAST_STEP_NS + passed_ns / 1_000_000 * SLEW_PPM + unsure_ns {
        let way = if step_ns > 0 { "forward" } else { "back" };
        let sentence =
            format!("the wall clock was set {way} by {}", seconds(step_ns.unsigned_abs()));
        changes.push(found(Surrounding::ClockStep, sentence));
    }

    if let (Some(had), Some(has)) = (before.cpus, after.cpus)
        && had != has
    {
        changes.push(found(
            Surrounding::CpuCount,
            format!("the number of CPUs online went from {had} to {has}"),
        ));
    }

    changes
}

/// With three decimals: a look is some 20 ms long.
fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// The source of readings: this machine, or a test.
pub type Source = Box<dyn FnMut() -> SurroundingsReading>;

/// Watches the surroundings of one block.
pub struct Surroundings<'s> {
    source: &'s mut Source,
    last: SurroundingsReading,
}

impl<'s> Surroundings<'s> {
    /// Starts to watch: earlier changes do not count.
    pub fn watch(source: &'s mut Source) -> Self {
        let last = source();
        Self { source, last }
    }

    /// Looks again, and returns the changes. Cycles that ended after the returned instant are
    /// settled by the next look only.
    pub fn look(&mut self) -> (Instant, Vec<Exclusion>) {
        let now = (self.source)();
        let before = std::mem::replace(&mut self.last, now);
        (now.from, changes(&before, &now))
    }
}

/// This machine's surroundings. The list of CPUs is kept open: reading it again takes some 2 µs.
#[must_use]
pub fn of_this_machine() -> Source {
    let list = File::open("/sys/devices/system/cpu/online").ok();
    let mut cpus = OnlineCpus { list, text: [0; LIST_BYTES], count: None };
    Box::new(move || SurroundingsReading { cpus: cpus.count(), ..clocks() })
}

/// Reads both clocks; retries if interrupted between the two reads.
fn clocks() -> SurroundingsReading {
    let read = || {
        let from = Monotonic.now();
        let [wall_ns, boot_ns] = [ClockId::Realtime, ClockId::Boottime].map(|clock| {
            let at = clock_gettime(clock);
            at.tv_sec.saturating_mul(1_000_000_000).saturating_add(at.tv_nsec)
        });
        SurroundingsReading { from, to: Monotonic.now(), wall_ns, boot_ns, cpus: None }
    };

    let mut best = read();
    for _ in 1..TRIES {
        if best.took_ns() <= QUICK_NS {
            break;
        }

        let again = read();
        if again.took_ns() < best.took_ns() {
            best = again;
        }
    }

    best
}

struct OnlineCpus {
    list: Option<File>,
    text: [u8; LIST_BYTES],
    count: Option<u32>,
}

impl OnlineCpus {
    /// Counts only when the list's text is another one.
    fn count(&mut self) -> Option<u32> {
        let mut text = [0; LIST_BYTES];
        let length = self.list.as_ref()?.read_at(&mut text, 0).ok()?;
        if text != self.text || self.count.is_none() {
            self.text = text;
            let cpus = cpu_list(&String::from_utf8_lossy(&text[..length]));
            self.count = u32::try_from(cpus.len()).ok().filter(|count| *count > 0);
        }

        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: i64 = 1_000_000_000;

    /// Both clocks run with `CLOCK_MONOTONIC`, which has reached `ms`.
    fn at(ms: u64) -> SurroundingsReading {
        let from = Instant::from_ns(ms * MS);
        let ns = (ms * MS).cast_signed();
        SurroundingsReading {
            from,
            to: from,
            wall_ns: 1_763_712_000 * SECOND + ns,
            boot_ns: ns,
            cpus: Some(2),
        }
    }

    fn what(
        before: &SurroundingsReading,
        after: &SurroundingsReading,
    ) -> Vec<(Surrounding, String)> {
        changes(before, after).into_iter().map(|change| (change.what, change.sentence)).collect()
    }

    #[test]
    fn where_nothing_changes_nothing_is_found() {
        assert_eq!(what(&at(100), &at(120)), []);
    }

    #[test]
    fn a_wall_clock_that_is_set_is_a_step_either_way() {
        let forward = SurroundingsReading { wall_ns: at(120).wall_ns + 2 * SECOND, ..at(120) };
        let back = SurroundingsReading { wall_ns: at(120).wall_ns - 6_000_000, ..at(120) };
        assert_eq!(
            what(&at(100), &forward),
            [(Surrounding::ClockStep, "the wall clock was set forward by 2.000 s".into())]
        );
        assert_eq!(
            what(&at(100), &back),
            [(Surrounding::ClockStep, "the wall clock was set back by 0.006 s".into())]
        );
    }

    #[test]
    fn slewing_is_not_a_step_however_long_it_takes() {
        let slewed = SurroundingsReading { wall_ns: at(10_100).wall_ns + 9_000_000, ..at(10_100) };
        assert_eq!(what(&at(100), &slewed), [], "500 ppm of ten seconds are 5 ms");
        let stepped =
            SurroundingsReading { wall_ns: at(10_100).wall_ns + 11_000_000, ..at(10_100) };
        assert_eq!(what(&at(100), &stepped).len(), 1);
    }

    #[test]
    fn a_suspend_moves_the_wall_clock_too_and_is_not_a_step() {
        let hour = 3_600 * SECOND;
        let woken = SurroundingsReading {
            wall_ns: at(120).wall_ns + hour,
            boot_ns: at(120).boot_ns + hour,
            ..at(120)
        };
        assert_eq!(
            what(&at(100), &woken),
            [(Surrounding::Suspend, "the machine was suspended for 3600.000 s".into())]
        );
        let set_too = SurroundingsReading { wall_ns: woken.wall_ns + SECOND, ..woken };

        assert_eq!(
            what(&at(100), &set_too).iter().map(|(what, _)| *what).collect::<Vec<_>>(),
            [Surrounding::Suspend, Surrounding::ClockStep]
        );
    }

    #[test]
    fn cpus_that_come_or_go_are_counted_where_they_can_be_seen() {
        let fewer = SurroundingsReading { cpus: Some(1), ..at(120) };
        assert_eq!(
            what(&at(100), &fewer),
            [(Surrounding::CpuCount, "the number of CPUs online went from 2 to 1".into())]
        );
        assert_eq!(what(&at(100), &SurroundingsReading { cpus: None, ..at(120) }), []);
    }

    #[test]
    fn the_stretch_reaches_from_before_the_earlier_reading_to_after_the_later_one() {
        let later = Instant::from_ns(121 * MS);
        let change =
            &changes(&at(100), &SurroundingsReading { to: later, wall_ns: 0, ..at(120) })[0];
        assert_eq!((change.from, change.to), (Instant::from_ns(100 * MS), later));
    }

    #[test]
    fn a_reading_that_was_torn_apart_is_as_unsure_as_it_took_long() {
        // The loop's CPU was taken between the first clock and the second, for 40 ms.
        let torn = SurroundingsReading { to: Instant::from_ns(160 * MS), ..at(120) };
        assert_eq!(what(&at(100), &torn), []);
    }

    #[test]
    fn this_machine_stands_still_while_it_is_read_twice() {
        let mut source = of_this_machine();
        let mut surroundings = Surroundings::watch(&mut source);
        let (settled, changes) = surroundings.look();
        assert!(settled <= Monotonic.now() && changes.is_empty(), "{changes:?}");
    }
}
