//! What happened in the cycles between two events of the live view: the last value of everything,
//! and its extremes in between, so that an event leaves out no worst value.

use std::fmt::Write as _;

use super::cycle_record::CycleRecord;
use super::sparse_counts::SparseCounts;
use crate::motion::{JointState, window_of};
use onbeat::record::{JointWindow, ValueRange};

/// Skipped releases of one cycle that are counted one by one; a robot stops long before.
// A machine that was suspended for a night skips millions of releases in one cycle.
const MOST_SKIPPED: u64 = 10_000;

/// Names of the histograms, as in run files.
const SERIES: [&str; 4] = ["release_latency", "observed_period", "execution_time", "round_trip"];

/// The cycles between two events. Its size depends on the number of joints and of filled buckets
/// alone, not on the number of cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CycleWindow {
    /// Number of cycles.
    cycles: u64,
    /// Records that the ring had overwritten.
    pub lost: u64,
    /// Events that were merged into this one because the browser did not read them.
    pub merged: u64,
    first: u64,
    last: u64,
    release_ns: u64,
    skipped: u64,
    stale: u64,
    counter_off: u64,
    /// Smallest number of devices in OP.
    in_op: u16,
    phase: u8,
    /// Highest rung of the miss ladder.
    rung: u8,
    joints: Vec<JointWindow>,
    times: [SparseCounts; 4],
}

impl CycleWindow {
    /// Returns whether there is nothing to report.
    pub(super) const fn is_empty(&self) -> bool {
        self.cycles == 0 && self.lost == 0
    }

    /// Adds a cycle. `before_ns` is the start of the cycle directly before it, `period_ns` the
    /// period of the loop.
    pub(super) fn add(&mut self, record: &CycleRecord<'_>, before_ns: Option<u64>, period_ns: u64) {
        let CycleRecord { cycle, .. } = *record;
        if self.cycles == 0 {
            (self.first, self.in_op) = (cycle, record.in_op);
        }

        self.cycles += 1;
        (self.last, self.release_ns, self.phase) = (cycle, record.release_ns, record.phase);
        // The highest rung and the fewest devices of the window: what was worst is shown, also
        // where it lasted a cycle.
        self.rung = self.rung.max(record.rung);
        self.in_op = self.in_op.min(record.in_op);
        self.stale += u64::from(!record.is_fresh);
        self.counter_off += u64::from(record.working_counter != record.expected);
        self.add_times(record, before_ns, period_ns);

        let is_first = self.joints.is_empty();
        for (place, values) in record.joints().enumerate() {
            let state = JointState::from_statusword(values.statusword);
            let now = window_of(&values, state, values.target_rad - values.actual_rad);
            match self.joints.get_mut(place) {
                Some(joint) => *joint = joint.followed_by(&now),
                // The number of joints does not change in a run; a record with more is another
                // writer's.
                None if is_first => self.joints.push(now),
                None => {}
            }
        }
    }

    fn add_times(&mut self, record: &CycleRecord<'_>, before_ns: Option<u64>, period_ns: u64) {
        let CycleRecord { cycle, wakeup_latency_ns, .. } = *record;
        let skipped = (record.dt_ns / period_ns.max(1)).saturating_sub(1);
        self.skipped += skipped;
        let [release, period, execution, round_trip] = &mut self.times;

        // A skipped release was served as late as the next one began.
        for earlier in 0..=skipped.min(MOST_SKIPPED) {
            release.add(wakeup_latency_ns + earlier * period_ns, cycle);
        }
        if let Some(before_ns) = before_ns {
            period.add((record.release_ns + wakeup_latency_ns).saturating_sub(before_ns), cycle);
        }
        execution.add(record.execution_time_ns, cycle);
        if record.round_trip_ns > 0 {
            round_trip.add(record.round_trip_ns.into(), cycle);
        }
    }

    /// Appends the cycles of a later window.
    pub(super) fn merge(&mut self, later: &Self) {
        self.lost += later.lost;
        if later.cycles == 0 {
            return;
        }
        if self.cycles == 0 {
            let Self { lost, merged, .. } = *self;
            *self = Self { lost, merged, ..later.clone() };
            return;
        }

        self.cycles += later.cycles;
        (self.last, self.release_ns, self.phase) = (later.last, later.release_ns, later.phase);
        self.skipped += later.skipped;
        self.stale += later.stale;
        self.counter_off += later.counter_off;
        self.in_op = self.in_op.min(later.in_op);
        self.rung = self.rung.max(later.rung);
        for (joint, later) in self.joints.iter_mut().zip(&later.joints) {
            *joint = joint.followed_by(later);
        }
        for (times, later) in self.times.iter_mut().zip(&later.times) {
            times.merge(later);
        }
    }

    /// Forgets everything but keeps the memory for joints.
    pub(super) fn clear(&mut self) {
        let mut joints = std::mem::take(&mut self.joints);
        joints.clear();
        self.times.iter_mut().for_each(SparseCounts::clear);
        *self = Self { joints, ..Self::default() };
    }

    /// Writes the window as JSON.
    ///
    /// A joint is a list: target, actual position, following error and torque, each last, lowest and
    /// highest; statusword; states that occurred, a bit each. Following errors are null while the
    /// drive does not follow its set-point.
    pub(super) fn write_json(&self, out: &mut String) {
        let Self { cycles, lost, merged, first, last, release_ns, .. } = self;
        // Writing to a `String` cannot fail, here and below.
        let _ = write!(
            out,
            "{{\"cycles\":{cycles},\"lost\":{lost},\"merged\":{merged},\"first\":{first},\
             \"last\":{last},\"release_ns\":{release_ns},\"skipped\":{},\"stale\":{},\
             \"counter_off\":{},\"in_op\":{},\"phase\":{},\"rung\":{},\"joints\":[",
            self.skipped, self.stale, self.counter_off, self.in_op, self.phase, self.rung
        );

        for (place, joint) in self.joints.iter().enumerate() {
            out.push_str(if place == 0 { "[" } else { ",[" });
            let ranges =
                [Some(joint.target), Some(joint.actual), joint.following, Some(joint.torque)];
            ranges.into_iter().for_each(|range| write_range(out, range));
            let _ = write!(out, "{},{}]", joint.statusword, joint.states);
        }

        out.push_str("],\"times\":");
        write_times(&self.times, out);
        out.push('}');
    }
}

fn write_range(out: &mut String, range: Option<ValueRange>) {
    let Some(ValueRange { last, low, high }) = range else {
        out.push_str("null,null,null,");
        return;
    };
    for value in [last, low, high] {
        let _ = match value.is_finite() {
            true => write!(out, "{value},"),
            false => write!(out, "null,"),
        };
    }
}

/// Writes histograms as JSON: per series the largest value, its cycle, and the filled buckets as a
/// list of index and count in turns.
fn write_times(times: &[SparseCounts; 4], out: &mut String) {
    for (place, (series, counts)) in SERIES.iter().zip(times).enumerate() {
        let SparseCounts { largest_ns, at_cycle, .. } = counts;
        out.push(if place == 0 { '{' } else { ',' });
        let _ = write!(
            out,
            "\"{series}\":{{\"largest_ns\":{largest_ns},\"at_cycle\":{at_cycle},\"counts\":["
        );
        for (place, (bucket, count)) in counts.filled().enumerate() {
            let _ = write!(out, "{}{bucket},{count}", if place == 0 { "" } else { "," });
        }
        out.push_str("]}");
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle_messages::JointSample;
    use serde_json::Value;

    /// An encoded cycle of two joints.
    fn message(cycle: u64, target: f64, actual: f64, statusword: u16) -> Vec<u8> {
        let joints = [target, -target].map(|target_rad| JointSample {
            target_rad,
            actual_rad: actual,
            torque_permille: -(cycle as i16),
            statusword,
            ..JointSample::default()
        });
        crate::cycle_messages::tests::encoded(cycle, &joints)
    }

    fn json(window: &CycleWindow) -> Value {
        let mut text = String::new();
        window.write_json(&mut text);
        serde_json::from_str(&text).unwrap()
    }

    fn window(cycles: &[(u64, f64, f64)]) -> CycleWindow {
        let mut window = CycleWindow::default();
        for (cycle, target, actual) in cycles {
            let bytes = message(*cycle, *target, *actual, 0x1237);
            window.add(&CycleRecord::from_bytes(&bytes).unwrap(), None, 1_000);
        }
        window
    }

    #[test]
    fn a_window_keeps_the_last_value_and_the_extremes_of_every_cycle() {
        let said = json(&window(&[(1, 0.5, 0.25), (2, -3.0, 0.0), (3, 1.0, 1.5)]));
        assert_eq!(
            (&said["cycles"], &said["first"], &said["last"]),
            (&3.into(), &1.into(), &3.into())
        );
        let joint = said["joints"][0].to_string();
        assert_eq!(joint, "[1,-3,1,1.5,0,1.5,-0.5,-3,0.25,-3,-3,-1,4663,16]");
    }

    /// What a browser that was slow gets is what one that was not got, in fewer events.
    #[test]
    fn merged_windows_are_the_window_of_all_their_cycles() {
        let cycles = [(1, 0.5, 0.25), (2, -3.0, 0.0), (3, 1.0, 1.5), (4, 0.0, 0.0)];
        for split in 0..=cycles.len() {
            let (before, after) = cycles.split_at(split);
            let mut merged = window(before);
            merged.merge(&window(after));
            assert_eq!(json(&merged), json(&window(&cycles)), "{split}");
        }
    }

    #[test]
    fn a_joint_without_power_has_no_following_error_and_both_states_are_seen() {
        let mut window = CycleWindow::default();
        for (cycle, word) in [(1, 0x0250), (2, 0x1237)] {
            let bytes = message(cycle, 1.0, 0.0, word);
            window.add(&CycleRecord::from_bytes(&bytes).unwrap(), None, 1_000);
            let following = &json(&window)["joints"][0][6];
            assert_eq!(following.is_null(), cycle == 1, "{following}");
        }
        assert_eq!(json(&window)["joints"][0][13], 0b1_0010);
    }

    #[test]
    fn skipped_releases_are_counted_with_the_latency_of_the_next_start() {
        let mut bytes = message(5, 0.0, 0.0, 0);
        // Two releases were passed over: dt is three periods.
        bytes[4 + 16..4 + 24].copy_from_slice(&3_000_u64.to_le_bytes());
        bytes[4 + 32..4 + 40].copy_from_slice(&100_u64.to_le_bytes());
        let mut window = CycleWindow::default();
        window.add(&CycleRecord::from_bytes(&bytes).unwrap(), None, 1_000);

        let said = json(&window);
        assert_eq!(said["skipped"], 2);
        let release = &said["times"]["release_latency"];
        assert_eq!(release["largest_ns"], 2_100);
        assert_eq!(release["counts"].as_array().unwrap().len(), 6);
    }
}
