//! A line of progress for each cell of an experiment whose cells are measured whole: guests and
//! measurements of a study.

use onbeat::campaign::CampaignEvent;

use crate::term::{Tone, advise, columns, wrapped};

/// How many cells have ended, of how many.
pub(super) struct CellLines<'w> {
    /// The sentence before the first one, of the numbers that are due, stored and waiting.
    begin: &'w dyn Fn(usize, usize, usize) -> String,
    due: usize,
    ended: usize,
}

impl<'w> CellLines<'w> {
    pub(super) fn new(begin: &'w dyn Fn(usize, usize, usize) -> String) -> Self {
        Self { begin, due: 0, ended: 0 }
    }

    pub(super) fn show(&mut self, event: &CampaignEvent<'_>) {
        let line = |tone, text: &str| advise(tone, &wrapped(text, columns()));
        match event {
            CampaignEvent::Said(words) => line(Tone::Faint, words),
            CampaignEvent::Warned(words) => line(Tone::Careful, words),
            CampaignEvent::Begun { due, stored, waiting } => {
                self.due = *due;
                line(Tone::Faint, &(self.begin)(*due, *stored, *waiting));
            }
            CampaignEvent::Made { row, settings, refused } => {
                advise(Tone::Faint, &format!("{row}: {settings} settings of this machine changed"));
                refused.iter().for_each(|why| line(Tone::Careful, &format!("not made: {why}")));
            }
            CampaignEvent::Stored { cell, elapsed_s } => {
                self.ended(Tone::Faint, &format!("{cell}: {elapsed_s:.1} s"));
            }
            CampaignEvent::Compared { cell, same: true } => {
                self.ended(Tone::Faint, &format!("{cell}: same bytes"));
            }
            CampaignEvent::Compared { cell, same: false } => {
                self.ended(Tone::Bad, &format!("{cell}: other bytes"));
            }
            CampaignEvent::Failed { cell, why } => self.ended(Tone::Bad, &format!("{cell}: {why}")),
            _ => {}
        }
    }

    fn ended(&mut self, tone: Tone, text: &str) {
        self.ended += 1;
        advise(tone, &wrapped(&format!("{}/{} {text}", self.ended, self.due), columns()));
    }
}

/// Says how many cells have no result, if there are any.
pub(super) fn say_missing(missing: usize, cells: &str, is_stopped: bool) {
    if missing > 0 {
        let word = if is_stopped { "stopped" } else { "incomplete" };
        let sentence =
            format!("{word}: {missing} {cells} have no result yet; the same command resumes");
        advise(Tone::Careful, &wrapped(&sentence, columns()));
    }
}
