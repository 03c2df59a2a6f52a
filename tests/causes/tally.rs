//! Counts of judgements, their shares, and confidence intervals of the shares.

use std::collections::BTreeMap;

use onbeat::cause::CauseKind;

use crate::planted::Judgement;

/// Judgements, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) first: usize,
    /// In addition to those in `first`.
    pub(crate) right: usize,
    pub(crate) unexplained: usize,
    pub(crate) nothing: usize,
    pub(crate) swamped: usize,
    pub(crate) wrong: BTreeMap<CauseKind, usize>,
}

impl Tally {
    pub(crate) fn new(judged: impl Iterator<Item = Judgement>) -> Self {
        let mut tally = Self::default();
        judged.for_each(|one| tally.add(one));
        tally
    }

    pub(crate) fn add(&mut self, judged: Judgement) {
        match judged {
            Judgement::First => self.first += 1,
            Judgement::Right => self.right += 1,
            Judgement::Unexplained => self.unexplained += 1,
            Judgement::Nothing => self.nothing += 1,
            Judgement::Swamped => self.swamped += 1,
            Judgement::Wrong(kind) => *self.wrong.entry(kind).or_default() += 1,
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.first += other.first;
        self.right += other.right;
        self.unexplained += other.unexplained;
        self.nothing += other.nothing;
        self.swamped += other.swamped;
        for (kind, count) in &other.wrong {
            *self.wrong.entry(*kind).or_default() += count;
        }
    }

    /// Returns the number of injections that can be judged: the injected cause is most of the
    /// lateness.
    pub(crate) fn all(&self) -> usize {
        self.first + self.right + self.unexplained + self.nothing + self.wrong_ones()
    }

    pub(crate) fn wrong_ones(&self) -> usize {
        self.wrong.values().sum()
    }

    /// "3 steal, 2 preempted".
    pub(crate) fn wrong_words(&self) -> String {
        let words = self.wrong.iter().map(|(kind, count)| format!("{count} {}", kind.words()));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the share as `12.0 %`; a dash if `all` is 0.
pub(crate) fn percent(part: usize, all: usize) -> String {
    if all == 0 {
        return "–".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / all as f64)
}

/// Returns the share with its 95 % interval (Wilson 1927).
pub(crate) fn percent_with_interval(part: usize, all: usize) -> String {
    let Some((low, high)) = interval(part, all) else { return percent(part, all) };
    format!("{} [{:.1}, {:.1}]", percent(part, all), low * 100.0, high * 100.0)
}

fn interval(part: usize, all: usize) -> Option<(f64, f64)> {
    const Z: f64 = 1.959_964;
    if all == 0 {
        return None;
    }

    let (n, p) = (all as f64, part as f64 / all as f64);
    let middle = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some((((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)))
}

/// Checks that counts add up, and that the interval is the published one.
pub(crate) fn check() {
    let wrong = Judgement::Wrong(CauseKind::Preempted);
    let tally = Tally::new(
        [Judgement::First, Judgement::Right, wrong, wrong, Judgement::Swamped].into_iter(),
    );
    assert_eq!(
        (tally.all(), tally.wrong_ones(), tally.wrong_words()),
        (4, 2, "2 preempted".to_owned())
    );
    let mut twice = tally.clone();
    twice.join(&tally);

    assert_eq!((twice.all(), twice.swamped), (8, 2));
    // Newcombe 1998, table I: 81 of 263.
    assert_eq!(percent_with_interval(81, 263), "30.8 % [25.5, 36.6]");
    assert_eq!(percent_with_interval(0, 0), "–");
}
