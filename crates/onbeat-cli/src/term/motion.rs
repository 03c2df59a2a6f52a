//! What a robot did in a run, in a terminal: what stopped it, then how its joints followed.

use onbeat::record::{JointMotion, MotionNote};
use onbeat_report::motion::is_full;
use onbeat_report::units::{count, percent};

use super::Tone;

/// Joints that are listed one by one: the worst.
const ROWS: usize = 12;
/// Width of a joint's name, in columns.
const NAME_WIDTH: usize = 21;

/// The lines with which a run of a robot ends: a safe stop and its cause, how far the trajectory
/// went, and the worst following error of each joint with its travel.
pub(crate) fn ending(motion: &MotionNote) -> Vec<(Tone, String)> {
    let mut lines = Vec::new();
    if let Some(why) = &motion.stopped_by {
        let times = match motion.safe_stops {
            1 => String::new(),
            n => format!("; {} safe stops in all", count(n)),
        };
        lines.push((Tone::Bad, format!("safe stop: {why}{times}")));
    }

    let reached = if is_full(motion) {
        "full amplitude".to_owned()
    } else {
        format!("{} of its amplitude", percent(motion.amplitude))
    };
    lines.push((
        Tone::Plain,
        format!("{}: {reached}, {:.1} s of the trajectory", motion.trajectory, motion.moved_s),
    ));

    let mut joints: Vec<&JointMotion> = motion.joints.iter().collect();
    joints.sort_by(|a, b| b.following_rad.abs().total_cmp(&a.following_rad.abs()));
    if joints.is_empty() {
        lines.push((Tone::Careful, "no joint was enabled".to_owned()));
        return lines;
    }

    let title =
        format!("{:NAME_WIDTH$}{:>22}{:>14}", "joint, rad", "worst following error", "travel");
    lines.push((Tone::Faint, title));
    let (listed, left) = joints.split_at(joints.len().min(ROWS));
    lines.extend(listed.iter().map(|joint| (Tone::Plain, row(&joint.name, joint))));
    if let Some(worst) = left.first() {
        let name = format!("{} more, at most", left.len());
        lines.push((Tone::Plain, row(&name, worst)));
    }

    lines
}

fn row(name: &str, joint: &JointMotion) -> String {
    let name: String = name.chars().take(NAME_WIDTH - 1).collect();
    format!("{name:NAME_WIDTH$}{:>22.4}{:>14.4}", joint.following_rad.abs(), joint.travel_rad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joint(name: &str, following_rad: f64) -> JointMotion {
        JointMotion { name: name.to_owned(), following_rad, low_rad: -0.35, high_rad: 0.35 }
    }

    fn text(motion: &MotionNote) -> String {
        ending(motion).into_iter().map(|(_, line)| line + "\n").collect()
    }

    #[test]
    fn a_safe_stop_and_its_cause_come_before_the_joints() {
        let motion = MotionNote {
            trajectory: "gait".to_owned(),
            amplitude: 0.5,
            moved_s: 4.2,
            safe_stops: 2,
            stopped_by: Some("10 missed cycles".to_owned()),
            joints: vec![joint("left hip pitch", 0.001), joint("left knee", -0.0123)],
            ..MotionNote::default()
        };
        assert_eq!(
            text(&motion),
            "\
safe stop: 10 missed cycles; 2 safe stops in all
gait: 50 % of its amplitude, 4.2 s of the trajectory
joint, rad            worst following error        travel
left knee                            0.0123        0.7000
left hip pitch                       0.0010        0.7000
"
        );
    }

    #[test]
    fn joints_beyond_the_first_twelve_are_one_line() {
        let joints = (0..48).map(|n| joint(&format!("joint {n}"), 0.0001 * f64::from(n))).collect();
        let motion = MotionNote { joints, amplitude: 1.0, ..MotionNote::default() };
        let text = text(&motion);
        assert!(
            text.ends_with("36 more, at most                     0.0035        0.7000\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 15, "{text}");
        assert!(
            super::ending(&MotionNote::default())
                .iter()
                .any(|(_, line)| line == "no joint was enabled")
        );
    }
}
