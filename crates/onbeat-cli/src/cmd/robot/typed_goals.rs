//! Goals from standard input, a line each.

use std::io::{self, BufRead, Read, stdin};
use std::thread;

use onbeat_host::foreign::printable;
use onbeat_robot::motion::{GoalSlot, Robot};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::goal::parsed;
use crate::cmd::Common;
use crate::term::{Tone, advise};

/// Longest line in bytes, more than goals for all joints take.
const LONGEST_LINE: u64 = 1 << 16;
/// Number of characters of a line that are shown.
const SHOWN: usize = 100;

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
    let mut input = stdin().lock();
    loop {
        let (line, cut) = match next_line(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(why) => {
                let words = format!("no more goals: standard input cannot be read: {why}");
                return advise(Tone::Careful, &words);
            }
        };

        let line = String::from_utf8_lossy(line.trim_ascii_end());
        let goals = match cut {
            Some(why) => Err(why.to_owned()),
            None => goals_of(&line, names).map_err(|part| {
                let part = shown(part);
                format!(
                    "\"{part}\" is not a goal; write NAME=RAD, with the name of a joint, each once"
                )
            }),
        };
        match goals {
            Ok(goals) => {
                goals.into_iter().for_each(|(joint, rad)| wanted[joint] = Some(rad));
                place.put(Monotonic.now().as_ns(), &wanted);
            }
            Err(why) => {
                let words = format!("\"{}\" is not followed: {why}", shown(&line));
                advise(Tone::Careful, &printable(&words));
            }
        }
    }
}

/// The beginning of a text.
pub(in crate::cmd) fn shown(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// A line, and why it is not whole.
type TypedLine = (Vec<u8>, Option<&'static str>);

/// Reads a line; `None` at the end of the input.
pub(in crate::cmd) fn next_line(input: &mut impl BufRead) -> io::Result<Option<TypedLine>> {
    let mut line = Vec::new();
    let length = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if length == 0 {
        return Ok(None);
    }
    let cut = if line.ends_with(b"\n") {
        None
    } else if line.len() as u64 == LONGEST_LINE {
        input.skip_until(b'\n')?;
        Some("it is longer than 65536 bytes")
    } else {
        // As a planner leaves it that is killed: what is there of a number is another number.
        Some("the input ended before its newline")
    };
    Ok(Some((line, cut)))
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

    #[test]
    fn a_line_that_is_cut_or_endless_is_not_whole() {
        let text = format!("elbow=0.4\r\n{}\n\nelbow=1.", "x".repeat(100_000));
        let mut input = text.as_bytes();
        let mut next = || next_line(&mut input).unwrap().map(|(line, cut)| (line.len(), cut));
        assert_eq!(next(), Some((11, None)));
        assert_eq!(next(), Some((65_536, Some("it is longer than 65536 bytes"))));
        assert_eq!(next(), Some((1, None)));
        assert_eq!(next(), Some((8, Some("the input ended before its newline"))));
        assert_eq!(next(), None);
    }
}
