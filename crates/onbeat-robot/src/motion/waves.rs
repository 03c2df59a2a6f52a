//! Trajectories that oscillate around the start position: a sine per joint, and a gait.

use std::f64::consts::{PI, TAU};

use super::file::{JointSetting, Robot};
use super::trajectory_error::TrajectoryError;
use super::wave::Wave;

/// Returns the sine waves configured in the file.
pub(crate) fn sines(robot: &Robot) -> Result<Vec<Wave>, TrajectoryError> {
    checked(robot, "sine", robot.joints.iter().map(|joint| joint.sine).collect())
}

/// Returns the oscillation of a joint in the gait, by the words in its name.
///
/// The knee bends while its leg swings forward; the ankle keeps the foot as level as hip and knee
/// allow; arms move against the legs.
fn of_gait(joint: &JointSetting, robot: &Robot) -> Option<Wave> {
    let name = joint.name.to_lowercase();
    let gait = robot.settings.gait;
    let side = if name.contains("left") {
        0.0
    } else if name.contains("right") {
        PI
    } else {
        return None;
    };

    let wave =
        |swing, lift, phase| Wave { hertz: gait.steps_hz / 2.0, phase: side + phase, swing, lift };
    let has = |word: &str| name.contains(word);
    let is_pitch = !has("roll") && !has("yaw");
    if has("hip") && is_pitch {
        Some(wave(gait.hip_rad, 0.0, 0.0))
    } else if has("hip") && has("roll") {
        // The body leans over the standing leg: same direction on both sides.
        Some(Wave { phase: 0.0, ..wave(gait.sway_rad, 0.0, 0.0) })
    } else if has("knee") {
        Some(wave(0.0, gait.knee_rad, PI / 2.0))
    } else if has("ankle") && is_pitch {
        Some(wave(-gait.ankle_rad, 0.0, 0.0))
    } else if has("shoulder") && is_pitch {
        Some(wave(-gait.arm_rad, 0.0, 0.0))
    } else if has("elbow") {
        Some(wave(0.0, gait.arm_rad, PI))
    } else {
        None
    }
}

/// Returns a gait for the joints that take part in it; the others hold.
pub(crate) fn gait(robot: &Robot) -> Result<Vec<Wave>, TrajectoryError> {
    let waves: Vec<Option<Wave>> = robot.joints.iter().map(|joint| of_gait(joint, robot)).collect();
    for part in ["hip", "knee"] {
        if !robot
            .joints
            .iter()
            .zip(&waves)
            .any(|(joint, wave)| wave.is_some() && joint.name.to_lowercase().contains(part))
        {
            return Err(TrajectoryError::NoPart { part });
        }
    }

    checked(robot, "gait", waves.into_iter().map(Option::unwrap_or_default).collect())
}

fn checked(
    robot: &Robot,
    what: &'static str,
    waves: Vec<Wave>,
) -> Result<Vec<Wave>, TrajectoryError> {
    for (joint, wave) in robot.joints.iter().zip(&waves) {
        let velocity = wave.amplitude() * TAU * wave.hertz;
        let acceleration = velocity * TAU * wave.hertz;
        // Rounded alike: 0.9 and not 0.8999999999999999, and the whole travel is not too much.
        let [width, travel] = [2.0 * wave.amplitude(), joint.limits.high - joint.limits.low]
            .map(|rad| (rad * 1e9).round() / 1e9);
        let needs = [
            // Wherever it starts, it would be cut off at an end.
            (width, travel, "rad"),
            (velocity, joint.limits.velocity, "rad/s"),
            (acceleration, joint.limits.acceleration, "rad/s²"),
        ];
        if let Some(&(needs, limit, unit)) = needs.iter().find(|(needs, limit, _)| needs > limit) {
            return Err(TrajectoryError::TooFast {
                what,
                joint: joint.name.clone(),
                needs,
                limit,
                unit,
            });
        }
    }
    Ok(waves)
}
