//! Goals from standard input, a line each.

use std::io::{BufRead, stdin};
use std::thread;

use onbeat_host::foreign::printable;
use onbeat_robot::motion::{GoalSlot, Robot};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::goal::parsed;
use crate::cmd::Common;
use crate::term::{Tone, advise};

/// Starts to follow standard input, and returns where its goals arrive.
pub(super) fn follow(robot: &Robot) -> Result<GoalSlot, Common> {
    let place = GoalSlot::default();
    let names: Vec<String> = robot.joints.iter().map(|joint| joint.name.clone()).collect();
    let commanded = place.clone();
    let following = thread::Builder::new().name("onbeat-goals".to_owned());
    let started = following.spawn(move || follow_lines(&names, commanded));
    started.map_err(|source| Common::Thread { what: "goals from standard input", source })?;
    Ok(place)
}

/// Follows goals in lines of standard input: `NAME=RAD, NAME=RAD`. Joints without a goal stay where
/// they are.
fn follow_lines(names: &[String], mut place: GoalSlot) {
    let mut wanted = vec![None; names.len()];
    for line in stdin().lock().split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(line.trim_ascii_end());
        match goals_of(&line, names) {
            Ok(goals) => {
                goals.into_iter().for_each(|(joint, rad)| wanted[joint] = Some(rad));
                place.put(Monotonic.now().as_ns(), &wanted);
            }
            Err(part) => advise(
                Tone::Careful,
                &printable(&format!(
                    "\"{line}\" is not followed: \"{part}\" is not a goal; write NAME=RAD, with the \
                     name of a joint, each once"
                )),
            ),
        }
    }
}

/// Returns the joints of a line with their positions in rad, or the part that is not a goal: half of
/// a line is a position that nobody planned, such as 0 of `elbow=0,4`.
fn goals_of<'l>(line: &'l str, names: &[String]) -> Result<Vec<(usize, f64)>, &'l str> {
    let goal = |part: &str| {
        // Not a number would stay, and have every later goal refused.
        let (name, rad) = parsed(part).ok().filter(|(_, rad)| rad.is_finite())?;
        Some((names.iter().position(|known| *known == name)?, rad))
    };
    let mut goals: Vec<(usize, f64)> = Vec::new();
    for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (joint, rad) = goal(part).ok_or(part)?;
        if goals.iter().any(|(other, _)| *other == joint) {
            return Err(part);
        }
        goals.push((joint, rad));
    }
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_followed_as_a_whole_or_not_at_all() {
        let names = ["elbow", "left wrist"].map(str::to_owned);
        let of = |line| goals_of(line, &names);
        assert_eq!(of("elbow=0.4, left wrist=-0.1,"), Ok(vec![(0, 0.4), (1, -0.1)]));
        assert_eq!(of(""), Ok(Vec::new()));
        assert_eq!(of("elbow=0,4"), Err("4"), "a decimal comma");
        assert_eq!(of("elbow=0.4, hand=1"), Err("hand=1"));
        assert_eq!(of("elbow=nan"), Err("elbow=nan"));
        assert_eq!(of("elbow=0.4, elbow=-0.4"), Err("elbow=-0.4"), "which of both?");
    }
}
