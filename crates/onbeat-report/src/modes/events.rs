//! Late instants of a run: the largest value of each step of the trend, and when it was.

use super::series::TrendGrid;

/// Instants within a step are kept to this part of it.
const PLACES: f64 = 4096.0;
/// A period has at least this many of the parts that instants are kept to, where these are coarser
/// than releases.
const LEAST_PLACES: f64 = 8.0;
/// Shares of the events that are analysed together, by size.
const SHARE: f64 = 0.4;
/// Events are also grouped by size, in overlapping bands from one size to this many times that
/// size: what comes back with the same size each time stands out among few others.
const BAND: f64 = 1.6;
const NEXT_BAND: f64 = 1.25;
const MOST_BANDS: usize = 24;
/// Fewer events than this are no set.
pub(super) const LEAST_EVENTS: usize = 4;

/// The largest value of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LateInstant {
    /// When, in seconds from the grid's begin.
    pub(super) at_s: f64,
    /// How much beyond the step's median, in nanoseconds.
    pub(super) late_ns: f64,
    pub(super) step: usize,
}

/// The measured steps, and the resolution of instants.
#[derive(Clone, Debug)]
pub(super) struct MeasuredSteps {
    /// Length of a step, in seconds.
    pub(super) step_s: f64,
    /// Nearer instants than this cannot be distinguished, in seconds.
    pub(super) unit_s: f64,
    /// The shortest period that instants so far apart can show, in seconds.
    pub(super) shortest_s: f64,
    /// The longest period looked for, in seconds.
    pub(super) longest_s: f64,
    /// Measured steps before each step, and of all: a step is measured when it has an event.
    before: Vec<u32>,
}

impl MeasuredSteps {
    pub(super) fn span_s(&self) -> f64 {
        (self.before.len() - 1) as f64 * self.step_s
    }

    pub(super) fn steps(&self) -> usize {
        self.before[self.before.len() - 1] as usize
    }

    /// Whether a step is measured.
    pub(super) fn has(&self, step: usize) -> bool {
        self.before.get(step + 1).is_some_and(|after| *after > self.before[step])
    }

    /// Whether there is an event in the step of an instant.
    pub(super) fn at(&self, at_s: f64) -> bool {
        at_s >= 0.0 && self.has((at_s / self.step_s) as usize)
    }

    /// How much of the time between two instants is measured, in seconds.
    pub(super) fn between_s(&self, from_s: f64, to_s: f64) -> f64 {
        self.until_s(to_s) - self.until_s(from_s)
    }

    fn until_s(&self, at_s: f64) -> f64 {
        let steps = (at_s / self.step_s).clamp(0.0, (self.before.len() - 1) as f64);
        let whole = steps as usize;
        let of_next = if self.has(whole) { steps - whole as f64 } else { 0.0 };
        (f64::from(self.before[whole]) + of_next) * self.step_s
    }

    /// Counts these steps as not measured from now on.
    pub(super) fn forget(&mut self, steps: &[usize]) {
        let mut has: Vec<bool> = (0..self.before.len() - 1).map(|step| self.has(step)).collect();
        for &step in steps {
            has[step] = false;
        }

        self.before = counted(has.into_iter());
    }
}

/// How many are set before each place, and in all.
fn counted(has: impl Iterator<Item = bool>) -> Vec<u32> {
    let sums = has.scan(0, |sum, has| {
        *sum += u32::from(has);
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// The events of a grid in order of time, and what was measured. `release_s` is the loop's period,
/// 0 where it is unknown.
pub(super) fn of(grid: &TrendGrid, release_s: f64) -> (Vec<LateInstant>, MeasuredSteps) {
    let place_s = grid.step_s / PLACES;
    let on_releases = release_s >= 2.0 * place_s && grid.is_placed;
    let (unit_s, shortest_s) = match (grid.is_placed, on_releases) {
        (false, _) => (grid.step_s, 2.0 * grid.step_s),
        (true, true) => (release_s, 2.0 * release_s),
        (true, false) => (place_s, (2.0 * release_s).max(LEAST_PLACES * place_s)),
    };

    let has = |i: usize| !grid.max[i].is_nan();
    let mut events: Vec<LateInstant> = (0..grid.len())
        .filter(|&i| has(i))
        .map(|i| LateInstant {
            at_s: grid.worst_at[i] * grid.step_s,
            late_ns: grid.max[i] - grid.p50[i],
            step: i,
        })
        .collect();
    if on_releases {
        onto_releases(&mut events, release_s);
    }

    let longest_s = grid.len() as f64 * grid.step_s / super::comb::LEAST_PERIODS as f64;
    (
        events,
        MeasuredSteps {
            step_s: grid.step_s,
            unit_s,
            shortest_s,
            longest_s,
            before: counted((0..grid.len()).map(has)),
        },
    )
}

/// Late instants are releases: what the trend keeps of them is rounded to the release that it
/// stands for. Not where blocks have grids of their own.
fn onto_releases(events: &mut [LateInstant], release_s: f64) {
    let (sine, cosine) = events.iter().fold((0.0, 0.0), |(sine, cosine), event| {
        let (s, c) = (std::f64::consts::TAU * event.at_s / release_s).sin_cos();
        (sine + s, cosine + c)
    });

    if f64::hypot(sine, cosine) < 0.5 * events.len() as f64 {
        return;
    }

    let offset_s = f64::atan2(sine, cosine) / std::f64::consts::TAU * release_s;
    for event in events {
        event.at_s = ((event.at_s - offset_s) / release_s).round() * release_s + offset_s;
    }
}

/// Bounds of sizes that are analysed in turn: all, fewer and fewer of the largest, and bands of one
/// size.
pub(super) fn sets(events: &[LateInstant]) -> Vec<(f64, f64)> {
    let mut sizes: Vec<f64> = events.iter().map(|event| event.late_ns).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let n = sizes.len();
    if n < LEAST_EVENTS {
        return Vec::new();
    }

    let mut sets = vec![(f64::NEG_INFINITY, f64::INFINITY)];
    let mut share = SHARE;
    while share * n as f64 >= LEAST_EVENTS as f64 {
        sets.push((sizes[n - (share * n as f64).ceil() as usize], f64::INFINITY));
        share *= SHARE;
    }

    let mut low = sizes[n - ((SHARE * n as f64) as usize).clamp(1, n)].max(1.0);
    for _ in 0..MOST_BANDS {
        let within = |bound: f64| sizes.partition_point(|size| *size < bound);
        if within(low * BAND) - within(low) >= LEAST_EVENTS {
            sets.push((low, low * BAND));
        }
        low *= NEXT_BAND;
    }

    sets
}

/// Instants of the events within bounds.
pub(super) fn times(events: &[LateInstant], (low, high): (f64, f64)) -> Vec<f64> {
    events
        .iter()
        .filter(|event| (low..high).contains(&event.late_ns))
        .map(|event| event.at_s)
        .collect()
}
