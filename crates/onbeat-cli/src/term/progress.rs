//! One line on standard error while something runs; nothing when that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// With fewer columns there is no room for a bar.
const ROOM_FOR_BAR: usize = 76;

/// A line that shows how far a run is, what it has come to, and the time left.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// 0 when that is not known.
    total_s: f64,
}

impl Progress {
    /// A line for something that takes `total_s` seconds; 0 when that is not known.
    pub(crate) fn new(total_s: f64, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let tenths = (total_s * 10.0).round() as u64;
        let bar = if tenths == 0 { ProgressBar::no_length() } else { ProgressBar::new(tenths) };
        bar.set_draw_target(target);

        let (unicode, ascii) = ("━╸ ", "=> ");
        let template = match (tenths, super::columns()) {
            (0, _) => "{elapsed:>4}  {wide_msg}",
            (_, ROOM_FOR_BAR..) => "{bar:10} {percent:>3}%  {wide_msg}",
            _ => "{percent:>3}%  {wide_msg}",
        };

        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars(if super::unicode() { unicode } else { ascii }));
        }

        Self { bar, total_s }
    }

    /// Shows how far it is, the time left, and what it has come to, as far as the terminal has room.
    pub(crate) fn show(&self, elapsed_s: f64, text: &str) {
        self.bar.set_position((elapsed_s * 10.0) as u64);
        let left = (self.total_s > 0.0).then(|| left(self.total_s - elapsed_s));
        self.bar.set_message(left.map_or(text.to_owned(), |left| format!("{left}  {text}")));
    }

    /// Writes something above the line, which is redrawn below it.
    pub(crate) fn above(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Writes lines above it, when there are some.
    pub(crate) fn above_if(&self, lines: &[String]) {
        if !lines.is_empty() {
            self.above(|| lines.iter().for_each(|line| super::say(super::Tone::Plain, line)));
        }
    }

    /// Takes the line away.
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
        assert_eq!([left(80.0), left(7500.0), left(-1.0)], ["1:20 left", "2:05:00 left", "0:00 left"]);
    }
}
