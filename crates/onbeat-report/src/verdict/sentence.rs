//! A verdict in words.

use super::evidence::{Evidence, Joined};
use super::rule::{Bounds, MOST_TIMES_LONGER, Rule, UNSEEN};
use super::{Judging, Limit, Outcome, Unseen, allowed_rate};
use crate::units::{Letters, count, counted, percent, spoken, time_ns};
use onbeat_record::{Series, gap};

/// What a sentence is made of.
pub(super) struct Judged<'e> {
    pub(super) evidence: &'e Evidence,
    pub(super) judging: &'e Judging,
    pub(super) rule: Rule,
    pub(super) outcome: Outcome,
    pub(super) bounds: Bounds,
    /// How many times as long a run would decide.
    pub(super) times_longer: Option<f64>,
}

impl Judged<'_> {
    /// `14 of 60,000 releases are over 100 us, in 3 outages; with 95 % confidence at most 0.08 %
    /// exceed it (0.1 % allowed)`.
    pub(super) fn sentence(&self) -> String {
        let limit = self.judging.limit;
        if self.evidence.outages.releases == 0 {
            return format!("no samples of {}", limit.on.words());
        }
        if let Some(are_all_over) = self.evidence.uncounted {
            return self.of_uncounted(are_all_over) + &self.lost();
        }

        let found = self.found();
        let allowed = percent(allowed_rate(limit));
        let Bounds { lower, upper } = self.bounds;
        let confidence = "with 95 % confidence";
        let none_allowed = allowed_rate(limit) <= 0.0;
        let judged = match self.outcome {
            Outcome::Pass if none_allowed => format!("{found}{}", self.not_seen()),
            Outcome::Pass => format!(
                "{found}; {confidence} at most {} exceed it ({allowed} allowed){}",
                percent(upper),
                self.not_seen()
            ),
            Outcome::Fail if none_allowed => format!("{found} (none allowed)"),
            Outcome::Fail => {
                format!(
                    "{found}; {confidence} at least {} exceed it ({allowed} allowed)",
                    percent(lower)
                )
            }
            Outcome::Inconclusive if none_allowed => format!("{found} among the recorded samples"),
            Outcome::Inconclusive if self.evidence.outages.sums.late == 0 => {
                format!("{found}{}; {}", self.not_seen(), self.would_decide())
            }
            Outcome::Inconclusive => format!(
                "{found}; {} to {} fit ({allowed} allowed); {}",
                percent(lower),
                percent(upper),
                self.would_decide()
            ),
        };

        judged + &self.open()
    }

    /// `the largest sample is over 3 us; the source does not state how many samples there were`.
    fn of_uncounted(&self, are_all_over: bool) -> String {
        let which = match (self.evidence.outages.sums.late, are_all_over) {
            (0, _) => "no sample",
            (_, true) => "every sample",
            (_, false) => "the largest sample",
        };
        let limit = time_ns(self.judging.limit.limit_ns, Letters::Ascii);
        format!("{which} is over {limit}; the source does not state how many samples there were")
    }

    /// `none of 60,000 releases is over 100 us`, `14 of 60,000 releases are over 100 us, in 3
    /// outages`.
    fn found(&self) -> String {
        let Limit { limit_ns, on, .. } = self.judging.limit;
        let (one, many) = match on {
            Series::ObservedPeriod => ("period", "periods"),
            Series::ExecutionTime | Series::SleepLatency => ("cycle", "cycles"),
            Series::WorstGap => ("window", "windows"),
            Series::Gap => ("gap", "gaps"),
            Series::Hiccup | Series::RoundTrip | Series::Recorded => ("sample", "samples"),
            _ if on.is_of_pictures() => ("picture", "pictures"),
            _ if self.evidence.has_no_grid => ("served cycle", "served cycles"),
            _ => ("release", "releases"),
        };

        let outages = &self.evidence.outages;
        let noun = if outages.releases == 1 { one } else { many };
        let (over, is) = match outages.sums.late {
            0 => ("none".to_owned(), "is"),
            1 => ("1".to_owned(), "is"),
            over => (count(over), "are"),
        };
        let joined = match (self.evidence.joined, outages.sums.outages) {
            (_, 0) | (Joined::Never, _) => String::new(),
            _ if outages.sums.late == 1 => String::new(),
            (Joined::Recorded, n) => format!(", in {}", counted(n, "outage")),
            (Joined::ByInterval, n) => format!(", in {}", counted(n, "interval")),
        };

        format!(
            "{over} of {} {noun} {is} over {}{joined}",
            count(outages.releases),
            time_ns(limit_ns, Letters::Ascii)
        )
    }

    /// `; no outage in 98 s: one every 33 s or rarer would not show`.
    fn not_seen(&self) -> String {
        let outages = &self.evidence.outages;
        let seconds = outages.releases as f64 * self.evidence.period_s;
        if outages.sums.late > 0 || seconds <= 0.0 {
            return String::new();
        }

        let every = seconds / -self.rule.level.ln();
        format!(
            "; no outage in {}: one every {} or rarer would not show",
            spoken(seconds),
            spoken(every)
        )
    }

    /// `about 6 min would decide it`, in releases where the period is not known.
    fn would_decide(&self) -> String {
        if self.evidence.hangs_on_buckets(allowed_rate(self.judging.limit)) {
            let would =
                if self.evidence.negative > 0 { "absolute values" } else { "a finer source" };
            return format!("a longer run would not decide it, {would} would");
        }
        let releases = self.evidence.outages.releases as f64;
        let period_s = self.evidence.period_s;
        let in_words = |times: f64| {
            let needed = releases * times;
            if period_s > 0.0 {
                spoken(needed * period_s)
            } else {
                format!("{} samples", count(needed.ceil() as u64))
            }
        };
        match self.times_longer {
            Some(times) if times <= 1.0 && self.evidence.lost > 0 => {
                "a run without lost samples would decide it".to_owned()
            }
            Some(times) if self.evidence.outages.sums.late == 0 => {
                format!("PASS needs {} with none over", in_words(times))
            }
            Some(times) => format!("about {} would decide it (an estimate)", in_words(times)),
            None => format!("more than {} would decide it", in_words(MOST_TIMES_LONGER)),
        }
    }

    /// Samples on an unknown side of the limit.
    fn open(&self) -> String {
        let mut words = self.lost();
        let in_bucket = self.evidence.unsure - self.evidence.negative;
        if in_bucket > 0 {
            let unsure = count(in_bucket);
            words += &format!(
                "; {unsure} more may exceed it (the limit is inside a bucket of the source)"
            );
        }
        if self.evidence.negative > 0 {
            let negative = counted(self.evidence.negative, "negative sample");
            words += &format!(
                "; {negative} may be farther below 0 than the limit: import absolute values"
            );
        }
        words
    }

    fn lost(&self) -> String {
        match self.evidence.lost {
            0 => String::new(),
            1 => "; 1 lost sample counts against either outcome".to_owned(),
            lost => format!("; {} lost samples count against either outcome", count(lost)),
        }
    }

    /// What the verdict rests on, as a sentence of its own.
    pub(super) fn basis(&self) -> String {
        let allowed = allowed_rate(self.judging.limit);
        let is_uncounted = self.evidence.uncounted.is_some();
        if allowed <= 0.0 || self.evidence.outages.releases == 0 || is_uncounted {
            return String::new();
        }

        let level = match (self.judging.passes, self.judging.verdicts) {
            (_, 0 | 1) => String::new(),
            (1, fails) => {
                let verdicts = count(fails as u64);
                format!("; the 5 % for a wrong FAIL are shared by {verdicts} verdicts")
            }
            (passes, fails) if passes == fails => {
                format!(
                    "; the 5 % for a wrong verdict are shared by {} verdicts",
                    count(fails as u64)
                )
            }
            (passes, fails) => format!(
                "; the 5 % for a wrong PASS are shared by {}, for a wrong FAIL by {} verdicts",
                count(passes as u64),
                count(fails as u64)
            ),
        };
        let how = match self.evidence.joined {
            Joined::Recorded => {
                format!("late releases at most {} apart are one outage", count(gap(allowed)))
            }
            Joined::ByInterval => {
                "the file does not record where in an interval releases were late, so all \
                 late ones of an interval count as one outage"
                    .to_owned()
            }
            Joined::Never => {
                return format!(
                    "The verdict takes late samples to come singly: the import does not \
                     give their times{level}. In bursts they would prove less."
                );
            }
        };
        let unseen = self.unseen();
        let slower = match self.evidence.outages.releases as f64 * self.evidence.period_s / 60.0 {
            sixtieth if sixtieth > 0.0 => format!(" ({})", spoken(sixtieth)),
            _ => String::new(),
        };

        let no_grid = if self.evidence.has_no_grid {
            " It is about served cycles only: a relative wait has no releases that could be missed."
        } else {
            ""
        };

        format!(
            "The verdict counts outages: {how}{unseen}{level}. Changes slower than a sixtieth of this \
             run{slower} are not covered.{no_grid}"
        )
    }

    /// The assumption on outages that were not seen, as long as it matters.
    fn unseen(&self) -> String {
        let outages = self.evidence.outages.sums.outages;
        if outages > 20 {
            return String::new();
        }
        let releases = count(self.rule.unseen.round() as u64);
        let from = match (self.evidence.shorter_below(), self.judging.unseen) {
            (Some(below), _) => {
                let part = time_ns(below.limit_ns, Letters::Ascii);
                format!(", as the longest that reach {part}")
            }
            (None, Unseen::Seen(size)) if size < UNSEEN => {
                ", as those of all cells under this load".to_owned()
            }
            (None, _) => String::new(),
        };
        format!("; an outage not seen yet is assumed to last {releases} releases on average{from}")
    }
}
