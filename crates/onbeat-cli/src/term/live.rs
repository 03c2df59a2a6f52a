//! Lines that are drawn over again in a terminal, below what scrolls.

use super::{Tone, put, say};

/// Lines at the bottom of the terminal; where there is none, what is told is written as it comes.
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

    /// Draws these lines over the last ones.
    pub(crate) fn draw(&mut self, lines: &[(Tone, String)]) {
        self.clear();
        lines.iter().for_each(|(tone, line)| say(*tone, line));
        self.lines = lines.len();
    }

    /// Writes a line that stays.
    pub(crate) fn above(&mut self, line: &str) {
        self.clear();
        say(Tone::Plain, line);
    }

    /// Takes the drawn lines away.
    pub(crate) fn clear(&mut self) {
        if self.lines > 0 {
            // Cursor up so many lines, then everything below is cleared (ECMA-48: CUU, ED).
            put(|out| write!(out, "\x1b[{}A\x1b[J", self.lines));
            self.lines = 0;
        }
    }
}
