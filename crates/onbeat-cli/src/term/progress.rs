//! A progress line on standard error; nothing where that is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Terminals with fewer columns get no bar.
const LEAST_FOR_BAR: usize = 76;

/// A line with the elapsed share of a run, the time left, and a message.
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    /// Expected duration in seconds; 0: unknown.
    total_s: f64,
}

impl ProgressLine {
    /// A line for a run of `total_s` seconds; 0: unknown duration. `quiet` hides it.
    pub(crate) fn new(total_s: f64, quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(5)
        };
        let tenths = (total_s * 10.0).round() as u64;
        let bar = if tenths == 0 { ProgressBar::no_length() } else { ProgressBar::new(tenths) };
        bar.set_draw_target(target);

        let bar_letters = if super::unicode() { "━╸ " } else { "=> " };
        let template = match (tenths, super::columns()) {
            (0, _) => "{elapsed:>4}  {wide_msg}",
            (_, LEAST_FOR_BAR..) => "{bar:10} {percent:>3}%  {wide_msg}",
            _ => "{percent:>3}%  {wide_msg}",
        };

        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars(bar_letters));
        }

        Self { bar, total_s }
    }

    /// Shows the elapsed time in seconds, the time left, and a message cut to the terminal's width.
    pub(crate) fn show(&self, elapsed_s: f64, text: &str) {
        self.bar.set_position((elapsed_s * 10.0) as u64);
        let left = (self.total_s > 0.0).then(|| left(self.total_s - elapsed_s));
        self.bar.set_message(left.map_or(text.to_owned(), |left| format!("{left}  {text}")));
    }

    /// Runs `write` with the line hidden; the line is redrawn below its output.
    pub(crate) fn above(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Writes lines above the progress line.
    pub(crate) fn above_if(&self, lines: &[String]) {
        if !lines.is_empty() {
            self.above(|| lines.iter().for_each(|line| super::say(super::Tone::Plain, line)));
        }
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The time left: `1:20 left`, `2:05:00 left`.
fn left(seconds: f64) -> String {
    let whole = seconds.max(0.0).ceil() as u64;
    match whole / 3600 {
        0 => format!("{}:{:02} left", whole / 60, whole % 60),
        hours => format!("{hours}:{:02}:{:02} left", whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_minutes_and_seconds_then_hours() {
        assert_eq!(
            [left(80.0), left(7500.0), left(-1.0)],
            ["1:20 left", "2:05:00 left", "0:00 left"]
        );
    }
}
