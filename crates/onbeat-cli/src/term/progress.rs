//! One line on standard error while something runs; nothing when that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line that shows elapsed and total time, and what the run has come to.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A line for something that takes `total_s` seconds; 0 when that is not known.
    pub(crate) fn new(total_s: f64, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let tenths = (total_s * 10.0).round() as u64;
        let bar = if tenths == 0 { ProgressBar::no_length() } else { ProgressBar::new(tenths) };
        bar.set_draw_target(target);
        let (unicode, ascii) = ("━╸ ", "=> ");
        let template = if tenths == 0 { "{elapsed:>4}  {msg}" } else { "{elapsed:>4} {bar:16} {percent:>3}%  {msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars(if super::unicode() { unicode } else { ascii }));
        }
        Self { bar }
    }

    /// Shows how far it is, and what it has come to.
    pub(crate) fn show(&self, elapsed_s: f64, text: String) {
        self.bar.set_position((elapsed_s * 10.0) as u64);
        self.bar.set_message(text);
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
