//! What robots did in the cells of a run: how far the trajectory went, safe stops, following errors.

use super::cell::CellSummary;
use super::units::{count, counted, percent};
use onbeat_record::MotionNote;

/// Amplitudes from here on are full: a soft start ends at exactly 1.
const FULL: f64 = 0.9995;

/// Returns whether the trajectory reached its full amplitude.
#[must_use]
pub fn is_full(motion: &MotionNote) -> bool {
    motion.amplitude >= FULL
}

/// How far the trajectory of one run went, what stopped the robot, and which joint followed worst.
pub(super) fn sentence(motion: &MotionNote) -> String {
    let MotionNote { trajectory, moved_s, cycles, running, .. } = motion;
    let followed = percent(*running as f64 / (*cycles).max(1) as f64);
    format!(
        "{}the robot followed {trajectory} for {moved_s:.1} s at {} in {followed} of {} cycles{}",
        stops(motion).map_or(String::new(), |stops| format!("{stops}; ")),
        amplitude(motion),
        count(*cycles),
        worst(motion).map_or(String::new(), |worst| format!("; worst following error {worst}"))
    )
}

/// The closing line of a run, or of a bench's cells together; `None` without a robot.
pub(super) fn closing(cells: &[CellSummary]) -> Option<String> {
    let moved: Vec<(&CellSummary, &MotionNote)> =
        cells.iter().filter_map(|cell| Some((cell, cell.motion.as_deref()?))).collect();
    if let [(_, motion)] = moved.as_slice() {
        let done = format!("{} at {}", motion.trajectory, amplitude(motion));
        let worst = worst(motion).map_or(String::new(), |worst| format!("; following {worst}"));
        return Some(format!("{}{worst}", stops(motion).unwrap_or(done)));
    }

    let (_, first) = moved.first()?;
    let full = moved.iter().filter(|(_, motion)| is_full(motion)).count();
    let done = format!("{} at full amplitude in {full} of {} cells", first.trajectory, moved.len());
    let stops: u64 = moved.iter().map(|(_, motion)| motion.safe_stops).sum();
    let most = moved.iter().max_by_key(|(_, motion)| motion.safe_stops);
    let stopped = most.filter(|_| stops > 0).map(|(cell, _)| {
        let stops = counted(stops, "safe stop");
        format!("; {stops}, most in cell {}/{}", cell.tuning, cell.load)
    });
    Some(done + &stopped.unwrap_or_default())
}

/// `3 safe stops, the last one: missed cycles`; `None` without one.
fn stops(motion: &MotionNote) -> Option<String> {
    let why = motion.stopped_by.as_deref().unwrap_or("reason not recorded");
    match motion.safe_stops {
        0 => None,
        1 => Some(format!("safe stop: {why}")),
        n => Some(format!("{} safe stops, the last one: {why}", count(n))),
    }
}

fn amplitude(motion: &MotionNote) -> String {
    if is_full(motion) {
        "full amplitude".to_owned()
    } else {
        format!("{} of its amplitude", percent(motion.amplitude))
    }
}

/// `0.0123 rad (left knee)`; `None` where no joint was enabled.
fn worst(motion: &MotionNote) -> Option<String> {
    let joint = motion.worst_joint()?;
    Some(format!("{:.4} rad ({})", joint.following_rad.abs(), joint.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_record::{Cell, JointMotion};

    fn walked(safe_stops: u64, amplitude: f64) -> MotionNote {
        MotionNote {
            trajectory: "gait".to_owned(),
            amplitude,
            moved_s: 3.25,
            cycles: 4_000,
            running: 3_000,
            safe_stops,
            stopped_by: (safe_stops > 0).then(|| "missed cycles".to_owned()),
            joints: vec![JointMotion {
                name: "left knee".to_owned(),
                following_rad: -0.0123,
                ..JointMotion::default()
            }],
        }
    }

    fn cell(tuning: &str, motion: MotionNote) -> CellSummary {
        let cell = Cell::new(tuning, "paper");
        CellSummary { motion: Some(Box::new(motion)), ..CellSummary::missing(cell) }
    }

    #[test]
    fn a_safe_stop_comes_first_with_its_cause() {
        assert_eq!(
            sentence(&walked(1, 1.0)),
            "safe stop: missed cycles; the robot followed gait for 3.2 s at full amplitude in 75 % of 4,000 cycles; \
             worst following error 0.0123 rad (left knee)"
        );
        assert_eq!(
            closing(&[cell("PMC", walked(0, 1.0))]).as_deref(),
            Some("gait at full amplitude; following 0.0123 rad (left knee)")
        );
        assert_eq!(
            closing(&[cell("PMC", walked(2, 1.0))]).as_deref(),
            Some("2 safe stops, the last one: missed cycles; following 0.0123 rad (left knee)")
        );
    }

    #[test]
    fn a_bench_reports_the_cells_that_reached_the_full_amplitude() {
        let cells = [cell("none", walked(3, 0.5)), cell("PMC", walked(0, 1.0))];
        assert_eq!(
            closing(&cells).as_deref(),
            Some("gait at full amplitude in 1 of 2 cells; 3 safe stops, most in cell none/paper")
        );
        assert_eq!(closing(&[]), None);
        assert!(sentence(&walked(0, 0.5)).contains("at 50 % of its amplitude"));
    }
}
