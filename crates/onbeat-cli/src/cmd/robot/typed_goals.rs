//! Goals from standard input, a line each.

use std::io::{BufRead, stdin};
use std::thread;

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
    for line in stdin().lock().lines().map_while(Result::ok) {
        for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            // Not a number would stay, and have every later goal refused.
            let goal = parsed(part).ok().filter(|(_, position)| position.is_finite());
            let place_of = |name: &String| names.iter().position(|known| known == name);
            match goal.and_then(|(name, position)| Some((place_of(&name)?, position))) {
                Some((joint, position)) => wanted[joint] = Some(position),
                None => advise(
                    Tone::Careful,
                    &format!("\"{part}\" is not a goal; write NAME=RAD, with the name of a joint"),
                ),
            }
        }

        place.put(Monotonic.now().as_ns(), &wanted);
    }
}
