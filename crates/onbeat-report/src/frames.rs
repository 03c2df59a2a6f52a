//! Pictures of a log on the clock of a robot's run: number, time, and the small pictures of those that have one.
//!
//! A run file has times since its start, a log has times since 1970. Where the log has cycles of the same run, they join
//! both exactly: a cycle has one release. Elsewhere it is the wall clock, as it was at the start of the run and of the camera.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use onbeat_record::RunFile;

/// How far the start by a log's cycles may be from the start by the wall clock, in ns: beyond, they are those of another
/// run, as their numbers begin with each run again.
const SAME_RUN_NS: i128 = 10_000_000_000;
/// How far the starts by several cycles of a run may be apart, in ns.
const SAME_START_NS: i128 = 1_000_000;
/// Time around a run within which pictures are asked for, in ns.
const AROUND_NS: u64 = 2_000_000_000;

/// The pictures of a channel of a log, as `onbeat-camera thumbnails` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LoggedFrames {
    /// Name of the channel.
    pub channel: String,
    /// What was added to times by `CLOCK_MONOTONIC` for those below, in ns.
    pub utc_offset_ns: u64,
    /// Numbers of the records.
    pub numbers: Vec<u64>,
    /// Their times, in ns since 1970.
    pub at_ns: Vec<u64>,
    /// Pictures without number and time, beyond a bound.
    pub more: u64,
    /// Small pictures of some.
    pub pictures: Vec<FramePicture>,
    /// Pictures that could not be decoded, by reason.
    pub undecoded: BTreeMap<String, u64>,
}

/// A small picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramePicture {
    /// Place in `numbers`, from 0.
    pub place: usize,
    /// Columns and rows in the log.
    pub of: [usize; 2],
    /// Columns and rows here.
    pub size: [usize; 2],
    /// Base64 of a JPEG picture.
    pub jpeg: String,
}

/// The pictures of a camera during a run: an object of the line `frames` of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunFrames {
    /// Name of the channel in the log.
    pub channel: String,
    /// `cycles`: joined by the releases of the run's cycles; `wall_clock`: by wall-clock time.
    pub clock: &'static str,
    /// Numbers of the log's records.
    pub numbers: Vec<u64>,
    /// Capture times since the start of the file, in microseconds.
    pub t_us: Vec<i64>,
    /// Number of pictures beyond 160,000, without number and time.
    pub more: u64,
    /// Number of pictures before and after the run.
    pub outside: u64,
    /// Small pictures of some records.
    pub pictures: Vec<FramePicture>,
    /// Number of pictures that could not be decoded, by reason.
    pub undecoded: BTreeMap<String, u64>,
}

/// What joins the clock of a robot's run to that of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RobotClock {
    /// Wall clock at the start, in ns since 1970.
    start_ns: u64,
    length_s: f64,
    /// Last cycle of each step of the joints, and its release in s.
    steps: BTreeMap<u64, f64>,
}

impl RobotClock {
    /// Returns the clock of a run; `None` without a robot.
    #[must_use]
    pub fn of(run: &RunFile) -> Option<Self> {
        run.robot.as_ref()?;
        let steps = || run.joints.iter().flat_map(|note| &note.steps);
        let last_step = steps().last().map_or(0.0, |step| step.t);
        // Where a run was resumed, numbers of cycles begin again.
        let is_whole = run.resumes.is_empty();
        Some(Self {
            start_ns: (run.header.started_unix_s.max(0.0) * 1e9) as u64,
            length_s: run.end.as_ref().map_or(last_step, |end| end.t.max(last_step)),
            steps: steps().filter(|_| is_whole).map(|step| (step.last, step.t)).collect(),
        })
    }

    /// Returns the time of the run, in ns since 1970 by the wall clock, with some before and behind it.
    #[must_use]
    pub fn time_ns(&self) -> (u64, u64) {
        let end_ns = self.start_ns.saturating_add((self.length_s.max(0.0) * 1e9) as u64);
        (self.start_ns.saturating_sub(AROUND_NS), end_ns.saturating_add(AROUND_NS))
    }

    /// Returns the cycles whose times join a log to the run, in rising order.
    #[must_use]
    pub fn joining_cycles(&self) -> Vec<u64> {
        self.steps.keys().copied().collect()
    }

    /// The start by `CLOCK_MONOTONIC`, in ns, by cycles of a log; `None` where they contradict each other.
    fn start_by(&self, times: &[(u64, u64)]) -> Option<i128> {
        let start = |(cycle, at_ns): &(u64, u64)| {
            Some(i128::from(*at_ns) - (self.steps.get(cycle)? * 1e9) as i128)
        };
        let mut starts: Vec<i128> = times.iter().filter_map(start).collect();
        starts.sort_unstable();
        let (first, last) = (*starts.first()?, *starts.last()?);
        (last - first <= SAME_START_NS).then(|| starts[starts.len() / 2])
    }
}

/// Places the pictures of a channel on the clock of a run. `cycles` are times of its
/// [`RobotClock::joining_cycles`] by `CLOCK_MONOTONIC`, as the log has them, by channel.
#[must_use]
pub fn placed(
    run: &RobotClock,
    frames: LoggedFrames,
    cycles: &BTreeMap<String, Vec<(u64, u64)>>,
) -> RunFrames {
    let by_wall_ns = i128::from(run.start_ns);
    let offset_ns = i128::from(frames.utc_offset_ns);
    let by_cycles_ns = cycles
        .values()
        .filter_map(|times| run.start_by(times))
        .map(|start_ns| start_ns + offset_ns)
        .find(|start_ns| (start_ns - by_wall_ns).abs() < SAME_RUN_NS);
    let start_ns = by_cycles_ns.unwrap_or(by_wall_ns);
    let end_us = (run.length_s * 1e6) as i64;

    let mut of = RunFrames {
        channel: frames.channel,
        clock: if by_cycles_ns.is_some() { "cycles" } else { "wall_clock" },
        more: frames.more,
        undecoded: frames.undecoded,
        ..RunFrames::default()
    };
    let mut places = vec![None; frames.at_ns.len()];
    for (place, (at_ns, number)) in frames.at_ns.iter().zip(&frames.numbers).enumerate() {
        let t_us = i64::try_from((i128::from(*at_ns) - start_ns) / 1000).unwrap_or(i64::MAX);
        if (0..=end_us).contains(&t_us) {
            places[place] = Some(of.numbers.len());
            of.numbers.push(*number);
            of.t_us.push(t_us);
        } else {
            of.outside += 1;
        }
    }
    of.pictures = frames
        .pictures
        .into_iter()
        .filter_map(|it| {
            Some(FramePicture { place: places.get(it.place).copied().flatten()?, ..it })
        })
        .collect();
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a second that began at 1,000 s, with a step every 100 cycles of 1 ms.
    fn run() -> RobotClock {
        let steps = (1..=10_u32).map(|i| (u64::from(100 * i), 0.03 + 0.1 * f64::from(i)));
        RobotClock { start_ns: 1_000_000_000_000, length_s: 1.03, steps: steps.collect() }
    }

    /// Ten pictures, 100 ms apart; the first one 50 ms before the run, by a wall clock that is `ahead_ns` ahead.
    fn frames(ahead_ns: u64) -> LoggedFrames {
        let picture =
            |place| FramePicture { place, jpeg: "AA==".to_owned(), ..FramePicture::default() };
        LoggedFrames {
            channel: "left/image".to_owned(),
            utc_offset_ns: 400_000_000_000 + ahead_ns,
            numbers: (7..17).collect(),
            at_ns: (0..10).map(|i| 999_950_000_000 + ahead_ns + i * 100_000_000).collect(),
            pictures: vec![picture(0), picture(4)],
            ..LoggedFrames::default()
        }
    }

    /// Cycles as the log of that run has them; the run began at 600 s of the monotonic clock.
    fn cycles(shift_ns: u64) -> BTreeMap<String, Vec<(u64, u64)>> {
        let time = |i: u64| (100 * i + 100, 600_030_000_000 + shift_ns + 100_000_000 * (i + 1));
        BTreeMap::from([("walker/cycle".to_owned(), (0..10).map(time).collect())])
    }

    #[test]
    fn pictures_are_placed_by_the_wall_clock_and_those_outside_are_counted() {
        let run = run();
        let of = placed(&run, frames(0), &BTreeMap::new());
        assert_eq!((of.clock, of.outside), ("wall_clock", 1));
        assert_eq!(of.numbers, (8..17).collect::<Vec<_>>());
        assert_eq!((of.t_us[0], of.t_us[8]), (50_000, 850_000));
        let [only] = of.pictures.as_slice() else { panic!("{:?}", of.pictures) };
        assert_eq!(of.numbers[only.place], 11);
        assert_eq!(run.time_ns(), (998_000_000_000, 1_003_030_000_000));
    }

    #[test]
    fn cycles_join_the_clocks_whatever_the_wall_clock_did() {
        let run = run();
        assert_eq!(run.joining_cycles(), (1..=10).map(|i| 100 * i).collect::<Vec<_>>());
        let of = placed(&run, frames(3_000_000_000), &cycles(0));
        assert_eq!((of.clock, of.t_us[0]), ("cycles", 50_000));
        assert_eq!(placed(&run, frames(3_000_000_000), &BTreeMap::new()).numbers.len(), 0);
    }

    #[test]
    fn cycles_of_another_run_join_nothing() {
        let run = run();
        assert_eq!(placed(&run, frames(0), &cycles(60_000_000_000)).clock, "wall_clock");
        let mut torn = cycles(0);
        torn.values_mut().for_each(|times| times[3].1 += 5_000_000);
        assert_eq!(placed(&run, frames(0), &torn).clock, "wall_clock");
    }
}
