//! Lines at the bottom of the terminal that are redrawn in place, below the scrolling output.

use super::{Tone, put, say};

/// Lines redrawn in place. Without a terminal, lines are written once, in order.
pub(crate) struct Live {
    is_on: bool,
    lines: usize,
}

impl Live {
    pub(crate) const fn new(is_on: bool) -> Self {
        Self { is_on, lines: 0 }
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Replaces the lines drawn last.
    pub(crate) fn draw(&mut self, lines: &[(Tone, String)]) {
        self.clear();
        lines.iter().for_each(|(tone, line)| say(*tone, line));
        self.lines = lines.len();
    }

    /// Writes a line that scrolls away above the redrawn ones.
    pub(crate) fn above(&mut self, line: &str) {
        self.clear();
        say(Tone::Plain, line);
    }

    /// Removes the drawn lines.
    pub(crate) fn clear(&mut self) {
        if self.lines > 0 {
            // ECMA-48: cursor up by the number of lines (CUU), then erase to the end of the screen
            // (ED).
            put(|out| write!(out, "\x1b[{}A\x1b[J", self.lines));
            self.lines = 0;
        }
    }
}
