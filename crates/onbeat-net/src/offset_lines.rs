//! The straight lines that a set of limits leaves: an offset between two clocks over time.
//!
//! Each limit says that the line passes below a point, or above one. The possible lines are a convex
//! set, whose corners touch two limits, or one with the steepest slope. Only limits on the convex
//! hulls of both kinds can be touched.

/// What a line may violate a limit by: less than the resolution of the limits.
const TOLERANCE_NS: f64 = 1e-3;

/// The possible values of an offset in ns, or of a slope in ns per ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffsetRange {
    pub lowest: f64,
    pub highest: f64,
}

impl OffsetRange {
    /// No value.
    const NONE: Self = Self { lowest: f64::INFINITY, highest: f64::NEG_INFINITY };

    const fn widen(&mut self, offset: f64) {
        self.lowest = self.lowest.min(offset);
        self.highest = self.highest.max(offset);
    }

    /// Returns the value in the middle.
    #[must_use]
    pub const fn middle(self) -> f64 {
        f64::midpoint(self.lowest, self.highest)
    }
}

/// A limit of the offset of one clock from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffsetLimit {
    /// When, in ns from the beginning of the fit.
    pub at: f64,
    /// The offset, in ns from the caller's base.
    pub offset: f64,
}

/// All straight lines of an offset over time that no limit contradicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffsetLines {
    /// Offsets at the beginning.
    pub at_from: OffsetRange,
    /// Offsets at the end.
    pub at_to: OffsetRange,
    pub slopes: OffsetRange,
    /// One of them, amid the others.
    pub amid: OffsetLine,
}

/// A straight line of an offset over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OffsetLine {
    /// Offset at the beginning, in ns from the caller's base.
    pub offset: f64,
    /// Slope, in ns per ns.
    pub slope: f64,
}

impl OffsetLines {
    /// Returns the lines over `span` ns that pass below each of `most` and above each of `least`, with
    /// slopes of at most `most_slope`; none where every line contradicts a limit.
    #[must_use]
    pub fn between(
        most: Vec<OffsetLimit>,
        least: Vec<OffsetLimit>,
        span: f64,
        most_slope: f64,
    ) -> Option<Self> {
        let limits = OffsetLimits { most: hull(most, 1.0), least: hull(least, -1.0), most_slope };
        let none = OffsetRange::NONE;
        let amid = OffsetLine::default();
        let mut lines = Self { at_from: none, at_to: none, slopes: none, amid };
        let mut corners = 0.0;
        limits.for_each_corner(|through, slope| {
            let at_from = through.offset - slope * through.at;
            lines.at_from.widen(at_from);
            lines.at_to.widen(at_from + slope * span);
            lines.slopes.widen(slope);
            corners += 1.0;
            lines.amid.offset += at_from;
            lines.amid.slope += slope;
        });
        // Lines that no limit contradicts are a convex set, so that their mean is one of them.
        lines.amid.offset /= corners;
        lines.amid.slope /= corners;
        (corners > 0.0).then_some(lines)
    }
}

impl OffsetLimit {
    fn slope_to(self, other: Self) -> f64 {
        (other.offset - self.offset) / (other.at - self.at)
    }
}

/// Limits of a line, those alone that a line can touch.
struct OffsetLimits {
    most: Vec<OffsetLimit>,
    least: Vec<OffsetLimit>,
    most_slope: f64,
}

impl OffsetLimits {
    /// Calls `corner` with each possible line that is at the end of what is possible: it touches two
    /// limits, or one limit with the largest slope.
    fn for_each_corner(&self, mut corner: impl FnMut(OffsetLimit, f64)) {
        let all = || self.most.iter().chain(&self.least).copied();
        for (place, one) in all().enumerate() {
            let through_two = all().skip(place + 1).filter(|other| other.at != one.at);
            let slopes = through_two.map(|other| one.slope_to(other));
            for slope in slopes.chain([-self.most_slope, self.most_slope]) {
                if slope.abs() <= self.most_slope && self.allow(one, slope) {
                    corner(one, slope);
                }
            }
        }
    }

    fn allow(&self, through: OffsetLimit, slope: f64) -> bool {
        let above =
            |limit: &OffsetLimit| through.offset + slope * (limit.at - through.at) - limit.offset;
        self.most.iter().all(|limit| above(limit) <= TOLERANCE_NS)
            && self.least.iter().all(|limit| above(limit) >= -TOLERANCE_NS)
    }
}

/// Returns the corners of a convex hull's side: the lower one for `side` 1, the upper one for -1.
fn hull(mut limits: Vec<OffsetLimit>, side: f64) -> Vec<OffsetLimit> {
    limits.sort_by(|a, b| {
        a.at.total_cmp(&b.at).then((side * a.offset).total_cmp(&(side * b.offset)))
    });
    let mut corners: Vec<OffsetLimit> = Vec::new();
    for limit in limits {
        if corners.last().is_some_and(|last| last.at == limit.at) {
            continue;
        }
        while let [.., before, last] = corners[..]
            && side * (before.slope_to(limit) - before.slope_to(last)) <= 0.0
        {
            corners.pop();
        }
        corners.push(limit);
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_between_two_gates_are_those_through_their_corners() {
        let at = |at, offset| OffsetLimit { at, offset };
        let lines = OffsetLines::between(
            vec![at(0.0, 10.0), at(1e6, 30.0)],
            vec![at(0.0, -10.0), at(1e6, 10.0)],
            1e6,
            1.0,
        );
        let lines = lines.expect("lines");
        assert_eq!((lines.at_from.lowest, lines.at_from.highest), (-10.0, 10.0));
        assert_eq!((lines.at_to.lowest, lines.at_to.highest), (10.0, 30.0));
        assert_eq!((lines.slopes.lowest, lines.slopes.highest), (0.0, 40e-6));
        assert!(lines.amid.offset.abs() < 1e-6 && (lines.amid.slope - 20e-6).abs() < 1e-12);

        let none = OffsetLines::between(vec![at(0.0, 0.0)], vec![at(0.0, 1.0)], 1e6, 1.0);
        assert_eq!(none, None);
    }
}
