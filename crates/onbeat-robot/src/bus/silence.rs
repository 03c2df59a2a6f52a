//! Whether anything comes back: a bus whose frames stay out knows nothing of its devices.

use onbeat_rt::time::Instant;

use super::nuisance::Nuisance;
use onbeat_ethercat::carrier::Trouble;
use onbeat_ethercat::event::ANSWERS_LATE;

/// So many cycles in a row without an answer, and what was known of the devices counts no more.
pub(super) const SILENT_AFTER: u32 = 10;

/// What there is to report after a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing has come back for [`SILENT_AFTER`] cycles, or there is a new reason for it.
    NoAnswer(u32),
    /// It does again, after so many ms.
    AnswerBack(u32),
}

/// When the devices answered last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    answered_at: Instant,
    /// Cycles since then.
    cycles: u32,
    /// The reason that was reported.
    reported: Option<u32>,
    limit: Nuisance,
}

impl Silence {
    pub(super) fn since(answered_at: Instant) -> Self {
        Self { answered_at, cycles: 0, reported: None, limit: Nuisance::default() }
    }

    /// A cycle whose frames all came back.
    pub(super) fn ends(&mut self, now: Instant) -> Option<Change> {
        let ms = now.ns_since(self.answered_at) / 1_000_000;
        (self.answered_at, self.cycles) = (now, 0);
        self.reported.take().map(|_| Change::AnswerBack(u32::try_from(ms).unwrap_or(u32::MAX)))
    }

    /// A cycle without an answer. `is_late`: some come, after their cycle.
    pub(super) fn goes_on(&mut self, cycle: u64, trouble: Option<Trouble>, is_late: bool) -> Option<Change> {
        self.cycles = self.cycles.saturating_add(1);
        if !self.is_silent() {
            return None;
        }

        let late = if is_late { ANSWERS_LATE } else { 0 };
        let code = trouble.map_or(late, |trouble| trouble as u32);
        let is_news = match self.reported {
            None => true,
            Some(before) => code != 0 && code != before,
        };

        (is_news && self.limit.begins(cycle)).then(|| {
            self.reported = Some(code);
            Change::NoAnswer(code)
        })
    }

    /// Whether nothing has come back for a while.
    pub(super) fn is_silent(&self) -> bool {
        self.cycles >= SILENT_AFTER
    }

    /// When all frames of a cycle came back last.
    pub(super) fn answered_at(&self) -> Instant {
        self.answered_at
    }
}
