//! Detects that no frame comes back; device states are unknown then.

use onbeat_rt::time::Instant;

use super::rate_limit::EventRateLimit;
use onbeat_ethercat::carrier::Trouble;
use onbeat_ethercat::event::ANSWERS_LATE;

/// Number of consecutive unanswered cycles after which device states count as unknown.
pub(super) const SILENT_AFTER: u32 = 10;

/// Time of the last complete reply and the reporting state.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoAnswerMonitor {
    answered_at: Instant,
    /// Cycles since the last complete reply.
    cycles: u32,
    /// The reason reported last.
    reported: Option<u32>,
    limit: EventRateLimit,
}

impl NoAnswerMonitor {
    pub(super) fn since(answered_at: Instant) -> Self {
        Self { answered_at, cycles: 0, reported: None, limit: EventRateLimit::default() }
    }

    /// Records a cycle in which all frames were answered. Returns the time without a reply in ms, if
    /// that was reported.
    pub(super) fn on_reply(&mut self, now: Instant) -> Option<u32> {
        let ms = now.ns_since(self.answered_at) / 1_000_000;
        (self.answered_at, self.cycles) = (now, 0);
        self.reported.take().map(|_| u32::try_from(ms).unwrap_or(u32::MAX))
    }

    /// Records a cycle without a complete reply. `is_late`: replies arrive after their cycle. Returns
    /// the reason of a silence when it begins, after [`SILENT_AFTER`] cycles, and each new one.
    pub(super) fn on_missed_cycle(
        &mut self,
        cycle: u64,
        trouble: Option<Trouble>,
        is_late: bool,
    ) -> Option<u32> {
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

        (is_news && self.limit.allow(cycle)).then(|| *self.reported.insert(code))
    }

    /// Returns whether device states count as unknown.
    pub(super) fn is_silent(&self) -> bool {
        self.cycles >= SILENT_AFTER
    }

    /// Returns when all frames of a cycle were last answered.
    pub(super) fn answered_at(&self) -> Instant {
        self.answered_at
    }
}
