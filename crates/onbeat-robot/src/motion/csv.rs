//! Trajectory from a CSV file.

use super::file::{AtEnd, Interpolation, Robot};
use super::limits::Limits;
use super::trajectory_error::TrajectoryError;

/// Samples of the joints in a CSV file.
#[derive(Clone, Debug)]
pub(crate) struct CsvTrajectory {
    /// Joint of each column.
    joints: Vec<usize>,
    /// Sample times from 0, in s.
    times: Vec<f64>,
    /// Samples line by line, in rad.
    values: Vec<f64>,
    /// Velocity at each sample, in rad/s; empty for linear interpolation.
    slopes: Vec<f64>,
    at_end: AtEnd,
}

impl CsvTrajectory {
    /// Parses and checks a file.
    pub(crate) fn parse(text: &str, robot: &Robot) -> Result<Self, TrajectoryError> {
        let is_content = |(_, line): &(usize, &str)| {
            !line.trim().is_empty() && !line.trim_start().starts_with('#')
        };
        // Spreadsheets begin a file in UTF-8 with a mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines =
            text.lines().enumerate().map(|(number, line)| (number + 1, line)).filter(is_content);
        let Some((line, header)) = lines.next() else {
            return Err(TrajectoryError::NoSamples { lines: 0 });
        };
        let separator = separator(header);
        let mut table = Self {
            joints: columns(line, header.split(separator), robot)?,
            times: Vec::new(),
            values: Vec::new(),
            slopes: Vec::new(),
            at_end: robot.settings.csv.at_end,
        };

        let mut last = line;
        for (line, text) in lines {
            table.add(line, text.split(separator), robot)?;
            last = line;
        }

        if table.times.len() < 2 {
            // One sample is a position and no motion; `hold` does that.
            return Err(TrajectoryError::NoSamples { lines: 1 + table.times.len() });
        }

        table.close(last, robot)?;
        // Files of a robot that ran for hours begin at any time.
        let begins = table.times[0];
        table.times.iter_mut().for_each(|time| *time -= begins);
        if robot.settings.csv.interpolation == Interpolation::Cubic {
            table.slopes = table.find_slopes();
        }

        Ok(table)
    }

    fn add<'t>(
        &mut self,
        line: usize,
        fields: impl Iterator<Item = &'t str>,
        robot: &Robot,
    ) -> Result<(), TrajectoryError> {
        let fields: Vec<&str> = fields.map(str::trim).collect();
        let wanted = self.joints.len() + 1;
        if fields.len() != wanted {
            return Err(TrajectoryError::Columns { line, found: fields.len(), wanted });
        }

        let mut numbers = Vec::with_capacity(wanted);
        for (place, field) in fields.iter().enumerate() {
            // Between semicolons and tabs a comma is a decimal one.
            let number = field.replace(',', ".").parse().ok();
            let number = number.filter(|number: &f64| number.is_finite());
            let refused = || TrajectoryError::NoNumber {
                line,
                column: place + 1,
                found: (*field).to_owned(),
            };
            numbers.push(number.ok_or_else(refused)?);
        }

        let time = numbers[0];
        let before = self.times.last().copied();
        if let Some(before) = before.filter(|&before| time <= before) {
            return Err(TrajectoryError::NotLater { line, found: time, before });
        }

        for (place, (&joint, &found)) in self.joints.iter().zip(&numbers[1..]).enumerate() {
            let column = place + 2;
            let Limits { low, high, velocity: limit, .. } = robot.joints[joint].limits;
            let joint = robot.joints[joint].name.clone();
            if !(low..=high).contains(&found) {
                return Err(TrajectoryError::Outside { line, column, joint, found, low, high });
            }

            let Some(before) = before else { continue };
            let velocity = (found - self.values[self.values.len() - self.joints.len() + place])
                .abs()
                / (time - before);
            // Checked before anything moves, with line and column. Later the limit would only make
            // the joint lag behind its table.
            if velocity > limit {
                return Err(TrajectoryError::Faster {
                    line,
                    column,
                    joint,
                    found: velocity,
                    limit,
                });
            }
        }

        self.times.push(time);
        self.values.extend_from_slice(&numbers[1..]);
        Ok(())
    }

    /// Checks that a loop ends where it begins.
    fn close(&self, line: usize, robot: &Robot) -> Result<(), TrajectoryError> {
        let last = self.values.len() - self.joints.len();
        for (place, &joint) in self.joints.iter().enumerate() {
            let begins = self.values[place];
            let ends = self.values[last + place];
            // A loop with a jump in it would be followed by a jerk at each turn.
            if self.at_end == AtEnd::Loop && (begins - ends).abs() > 1e-3 {
                let joint = robot.joints[joint].name.clone();
                return Err(TrajectoryError::Open { line, column: place + 2, joint, begins, ends });
            }
        }

        Ok(())
    }

    fn value(&self, line: usize, column: usize) -> f64 {
        self.values[line * self.joints.len() + column]
    }

    /// Computes slopes for a curve through all samples that never leaves the range of two
    /// neighbours (Fritsch, Butland 1984).
    fn find_slopes(&self) -> Vec<f64> {
        let last = self.times.len() - 1;
        let chord = |line: usize, column: usize| {
            let way = self.value(line + 1, column) - self.value(line, column);
            (
                self.times[line + 1] - self.times[line],
                way / (self.times[line + 1] - self.times[line]),
            )
        };

        let mut slopes = Vec::with_capacity(self.values.len());
        for line in 0..=last {
            for column in 0..self.joints.len() {
                let is_end = line == 0 || line == last;
                if is_end && self.at_end == AtEnd::Hold {
                    slopes.push(0.0);
                    continue;
                }

                let (before, after) = if is_end { (last - 1, 0) } else { (line - 1, line) };
                let ((long_before, before), (long_after, after)) =
                    (chord(before, column), chord(after, column));
                let w_before = long_before + 2.0 * long_after;
                let w_after = 2.0 * long_before + long_after;
                // No slope where the data turn, so that no joint overshoots its samples.
                let turns = before * after <= 0.0;
                let mean = (w_before + w_after) / (w_before / before + w_after / after);
                slopes.push(if turns { 0.0 } else { mean });
            }
        }

        slopes
    }

    /// Writes the joints' positions at this time since the start.
    pub(crate) fn at(&self, time_s: f64, wanted: &mut [f64]) {
        let last = self.times.len() - 1;
        let ends = self.times[last];
        let time = if self.at_end == AtEnd::Loop {
            time_s.rem_euclid(ends)
        } else {
            time_s.clamp(0.0, ends)
        };
        // The line before; at the very end the last but one, with the share 1.
        let line = self.times.partition_point(|&begins| begins <= time).clamp(1, last) - 1;
        let long = self.times[line + 1] - self.times[line];
        let share = (time - self.times[line]) / long;

        for (column, &joint) in self.joints.iter().enumerate() {
            let from = self.value(line, column);
            let to = self.value(line + 1, column);
            wanted[joint] = if self.slopes.is_empty() {
                from + (to - from) * share
            } else {
                let slope = |line: usize| self.slopes[line * self.joints.len() + column] * long;
                hermite(from, to, (slope(line), slope(line + 1)), share)
            };
        }
    }
}

fn hermite(from: f64, to: f64, (leaves, arrives): (f64, f64), share: f64) -> f64 {
    let square = share * share;
    let rest = 1.0 - share;
    from * (1.0 + 2.0 * share) * rest * rest
        + leaves * share * rest * rest
        + to * square * (3.0 - 2.0 * share)
        - arrives * square * rest
}

/// Returns what is between the columns: spreadsheets write semicolons where a comma is the decimal
/// point.
fn separator(header: &str) -> char {
    [',', ';', '\t'].into_iter().find(|between| header.contains(*between)).unwrap_or(',')
}

/// Returns the joints named in the header.
fn columns<'t>(
    line: usize,
    header: impl Iterator<Item = &'t str>,
    robot: &Robot,
) -> Result<Vec<usize>, TrajectoryError> {
    let mut names = header.map(|name| name.trim().trim_matches('"'));
    let first = names.next().unwrap_or_default();
    if first != "time" {
        return Err(TrajectoryError::NoTime { line, found: first.to_owned() });
    }

    let mut joints = Vec::new();
    for (place, name) in names.enumerate() {
        let joint = robot.find(name).filter(|joint| !joints.contains(joint));
        let refused =
            || TrajectoryError::NoJoint { line, column: place + 2, found: name.to_owned() };
        joints.push(joint.ok_or_else(refused)?);
    }

    Ok(joints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::layout::Layout;

    #[test]
    fn of_two_intervals_the_shorter_one_has_more_weight_in_the_slope_between_them() {
        let file = include_str!("../../tests/two_joints.toml");
        let layout = Layout::from_toml(file).unwrap();
        let robot = Robot::from_toml(file, &layout, 1_000_000).unwrap();
        let text = "time,left knee\n0,0\n1,0.2\n3,1\n4,1.4\n";
        let slopes = CsvTrajectory::parse(text, &robot).unwrap().slopes;
        // 0.2 rad/s for 1 s, then 0.4 rad/s for 2 s: their harmonic mean with weights 5 and 4.
        let expected = [0.0, 9.0 / (5.0 / 0.2 + 4.0 / 0.4), 0.4, 0.0];
        let off = slopes.iter().zip(expected).map(|(slope, expected)| (slope - expected).abs());
        assert!(off.fold(0.0, f64::max) < 1e-12, "{slopes:?}");
    }
}
