//! Limits of commands from a network: how old, how many, for which joints.

use std::time::{Duration, Instant};

/// Commands that may come at once, as a part of those of a second: a network that stalls for so long
/// delivers what waits at once.
const BURST_PARTS: f64 = 4.0;

/// A rate with a burst: a bucket of tokens.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, tokens: Self::burst(per_second), filled: now }
    }

    fn burst(per_second: f64) -> f64 {
        per_second / BURST_PARTS + 1.0
    }

    /// Counts one; `false` if it is beyond the rate.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let more = now.saturating_duration_since(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + more).min(Self::burst(self.per_second));
        self.filled = now;
        let is_within = self.tokens >= 1.0;
        if is_within {
            self.tokens -= 1.0;
        }
        is_within
    }
}

/// Returns whether a name fits a pattern in which `*` stands for any characters.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or("")) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// How a command's time by the robot's clock, as its sender estimates it, is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandAge {
    /// Valid for this time from now on.
    ValidFor(Duration),
    /// Older than its lifetime by its whole age.
    TooLate(Duration),
    /// From the future: the sender's clock jumped.
    Future(Duration),
}

/// Difference of clocks that counts as none: clocks of computers drift by less within the seconds between
/// two comparisons.
const MOST_DRIFT: Duration = Duration::from_millis(5);

/// The sender's estimate never is later than the true time, so the age is an upper bound.
pub(super) fn age(now_ns: u64, given_ns: u64, lifetime: Duration) -> CommandAge {
    let since = Duration::from_nanos(now_ns.saturating_sub(given_ns));
    let ahead = Duration::from_nanos(given_ns.saturating_sub(now_ns));
    if ahead > MOST_DRIFT {
        return CommandAge::Future(ahead);
    }
    match lifetime.checked_sub(since) {
        Some(left) if !left.is_zero() => CommandAge::ValidFor(left),
        _ => CommandAge::TooLate(since),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_seconds_commands_may_come_at_once_and_no_more_than_the_rate_in_the_long_run()
    {
        let now = Instant::now();
        let mut limit = RateLimit::new(100, now);
        let at_once = (0..1000).filter(|_| limit.take(now)).count();
        assert_eq!(at_once, 26);
        let paced = (1..=1000).filter(|&i| limit.take(now + Duration::from_millis(i * 10))).count();
        assert_eq!(paced, 1000, "at the rate itself, none is beyond it");
        let later = now + Duration::from_secs(10);
        let fast = (1..=10_000).filter(|&i| limit.take(later + Duration::from_millis(i))).count();
        assert!((999..=1026).contains(&fast), "{fast} in 10 s at ten times the rate");
    }

    #[test]
    fn patterns_name_joints() {
        for (pattern, name) in [
            ("*", "left knee"),
            ("left *", "left knee"),
            ("*knee", "left knee"),
            ("l*t*k*e", "left knee"),
            ("a", "a"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("left", "left knee"),
            ("knee*", "left knee"),
            ("*a*a*", "a"),
            ("ab*ba", "aba"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_command_is_valid_until_its_lifetime_has_passed_since_it_was_given_and_not_since_it_arrived()
     {
        let ms = Duration::from_millis;
        let at = |now_ms: u64| now_ms * 1_000_000;
        assert_eq!(age(at(1000), at(900), ms(250)), CommandAge::ValidFor(ms(150)));
        assert_eq!(age(at(1000), at(750), ms(250)), CommandAge::TooLate(ms(250)));
        assert_eq!(age(at(9000), at(0), ms(250)), CommandAge::TooLate(ms(9000)));
        assert_eq!(age(at(1000), at(1004), ms(250)), CommandAge::ValidFor(ms(250)));
        assert_eq!(age(at(1000), at(2000), ms(250)), CommandAge::Future(ms(1000)));
        assert_eq!(age(0, u64::MAX, ms(250)), CommandAge::Future(Duration::from_nanos(u64::MAX)));
    }
}
