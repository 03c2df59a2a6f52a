//! The sentence about a limit that has been reached.

use std::time::{Duration, Instant};

use super::lcm_packets::{LcmAccount, LcmLimits};

/// Interval between two sentences: a hostile sender reaches a limit many times a second.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Makes a sentence of what was dropped since the last one.
#[derive(Debug)]
pub(super) struct LimitNotice {
    limits: LcmLimits,
    said: Option<Instant>,
    counted: LcmAccount,
}

impl LimitNotice {
    pub(super) fn new(limits: LcmLimits) -> Self {
        Self { limits, said: None, counted: LcmAccount::default() }
    }

    /// Returns a sentence if something was dropped and the last sentence is old enough.
    pub(super) fn sentence(&mut self, account: &LcmAccount, now: Instant) -> Option<String> {
        let since = |of: fn(&LcmAccount) -> u64| of(account) - of(&self.counted);
        let for_memory = since(|of| of.dropped_for_memory);
        let for_age = since(|of| of.dropped_for_age);
        let senders = since(|of| of.forgotten_senders);
        let is_quiet =
            self.said.is_some_and(|said| now.saturating_duration_since(said) < SAY_EVERY);
        if for_memory + for_age + senders == 0 || is_quiet {
            return None;
        }
        (self.said, self.counted) = (Some(now), *account);

        let LcmLimits { most_memory, most_senders, most_age, .. } = self.limits;
        let mut parts = Vec::new();
        if for_memory > 0 {
            let mib = most_memory >> 20;
            parts.push(format!(
                "{for_memory} incomplete messages dropped beyond {mib} MiB (--most-memory)"
            ));
        }
        if for_age > 0 {
            parts.push(format!("{for_age} not complete within {most_age:?} (--most-age)"));
        }
        if senders > 0 {
            parts.push(format!(
                "{senders} senders forgotten beyond {most_senders} (--most-senders)"
            ));
        }
        Some(format!("limit reached: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_once_in_ten_seconds_with_what_was_dropped_since() {
        let mut notice = LimitNotice::new(LcmLimits::default());
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let mut account = LcmAccount::default();
        assert_eq!(notice.sentence(&account, at(0)), None);
        account.dropped_for_memory = 3;
        let first = "limit reached: 3 incomplete messages dropped beyond 64 MiB (--most-memory)";
        assert_eq!(notice.sentence(&account, at(1)).as_deref(), Some(first));
        account.dropped_for_age = 1;
        account.forgotten_senders = 7;
        assert_eq!(notice.sentence(&account, at(10)), None);
        let later = "limit reached: 1 not complete within 1s (--most-age), 7 senders forgotten beyond 1024 (--most-senders)";
        assert_eq!(notice.sentence(&account, at(11)).as_deref(), Some(later));
        assert_eq!(notice.sentence(&account, at(30)), None);
    }
}
