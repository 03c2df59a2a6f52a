//! The tuning of a cell: letters of P, M, C and S, and further settings by their names.
//!
//! `none`, `PMC`, `P+irq.affinity`, `mem.swappiness`, `PM+plan`: letters first, names after `+`. A
//! name is an id of the catalogue, `plan` for the plan of the bench, or the path of a plan. Ids of
//! the loop's own settings are options of the cell; all others are settings of the host.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::str::FromStr;

use onbeat_tune::catalogue::catalogue;
use rustix::thread::set_current_timer_slack;
use serde::{Deserialize, Serialize};

use super::error::BenchError;
use crate::near_word::{did_you_mean, nearest};
use crate::probe::Setting;
use onbeat_host::thread::{ThreadRequest, set_oom_score};
use onbeat_record::{Tuning, TuningError};
use onbeat_rt::Wait;

/// The name of a setting that changes nothing: what is measured with it is chance.
pub const PLACEBO: &str = "placebo";
/// Stands for the plan of the bench.
pub const PLAN: &str = "plan";
/// The id of the loop's CPU, without a shield.
pub const AFFINITY: &str = "proc.affinity";
/// The id of the loop's timer slack.
pub const TIMER_SLACK: &str = "timer.slack";
/// The id of the OOM score of the loop's process.
pub const OOM: &str = "mem.oom";
/// The score of a process that the kernel never ends for want of memory.
const NEVER_A_VICTIM: i32 = -1000;
/// The timer slack that the setting gives, in nanoseconds.
const LEAST_SLACK_NS: u64 = 1;

/// A tuning of a bench.
///
/// ```
/// use onbeat::bench::CellTuning;
///
/// let tuning: CellTuning = "proc.policy+mem.swappiness".parse()?;
/// assert_eq!(tuning.to_string(), "P+mem.swappiness");
/// assert!("P+mem.swapiness".parse::<CellTuning>().is_err());
/// # Ok::<(), onbeat::bench::CellTuningError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CellTuning {
    letters: Tuning,
    names: Vec<String>,
}

/// What a tuning changes of the loop itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopOptions {
    /// Priority, memory, shield and spinning.
    #[serde(with = "letters_as_text")]
    pub letters: Tuning,
    /// Whether the loop is bound to the CPU of the bench, also without a shield.
    pub bound: bool,
    /// Timer slack of the loop's thread, in nanoseconds; `None` leaves the kernel's default.
    pub timer_slack_ns: Option<u64>,
    /// OOM score of the loop's process, -1000 to 1000; `None` leaves it as it is.
    pub oom_score: Option<i32>,
}

impl LoopOptions {
    /// Returns the options of a setting of the loop; `None` for one of the host.
    #[must_use]
    pub fn of_id(id: &str) -> Option<Self> {
        let letters = |letters: Tuning| Some(Self { letters, ..Self::default() });
        let none = Tuning::default();
        match id {
            "proc.policy" => letters(Tuning { priority: true, ..none }),
            "proc.mlock" => letters(Tuning { memory: true, ..none }),
            "proc.spin" => letters(Tuning { spin: true, ..none }),
            "shield.cpuset_v1" | "shield.cpuset_v2" => letters(Tuning { shield: true, ..none }),
            AFFINITY => Some(Self { bound: true, ..Self::default() }),
            OOM => Some(Self { oom_score: Some(NEVER_A_VICTIM), ..Self::default() }),
            TIMER_SLACK => Some(Self { timer_slack_ns: Some(LEAST_SLACK_NS), ..Self::default() }),
            _ => None,
        }
    }

    /// Returns a loop's setting with these options: its priority, CPU, memory and wait are theirs
    /// alone. `priority` is that of P, `spin` the wait of S.
    #[must_use]
    pub fn applied(&self, setting: &Setting, cpu: u32, priority: u32, spin: Wait) -> Setting {
        let letters = self.letters;
        let thread = ThreadRequest {
            fifo: letters.priority.then_some(priority).filter(|priority| *priority > 0),
            cpu: (letters.shield || self.bound).then_some(cpu),
            lock_memory: letters.memory,
            ..setting.thread
        };
        let wait = if letters.spin { spin } else { Wait::Sleep };
        Setting { wait, thread, ..setting.clone() }
    }

    /// Sets the timer slack of this thread, which the loop's thread inherits, and the OOM score of
    /// this process, for a tuning of this name.
    pub(super) fn set(&self, tuning: &str) -> Result<(), BenchError> {
        let refused = |refusal| BenchError::NotPermitted { tuning: tuning.to_owned(), refusal };
        if let Some(slack) = self.timer_slack_ns.and_then(NonZeroU64::new) {
            set_current_timer_slack(Some(slack)).map_err(|why| {
                let why = io::Error::from(why);
                refused(format!("the timer slack of the loop cannot be set: {why}"))
            })?;
        }
        self.oom_score.map_or(Ok(()), set_oom_score).map_err(|why| {
            refused(format!(
                "/proc/self/oom_score_adj cannot be written: {why}; a smaller score takes root (CAP_SYS_RESOURCE)"
            ))
        })
    }

    /// Returns the options of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let a = self.letters;
        let b = other.letters;
        Self {
            letters: Tuning {
                priority: a.priority || b.priority,
                memory: a.memory || b.memory,
                shield: a.shield || b.shield,
                spin: a.spin || b.spin,
            },
            bound: self.bound || other.bound,
            timer_slack_ns: self.timer_slack_ns.or(other.timer_slack_ns),
            oom_score: self.oom_score.or(other.oom_score),
        }
    }
}

/// A word that is not a valid tuning of a bench.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellTuningError {
    /// Its letters are wrong.
    #[error("{0}, or ids of the catalogue, such as P+irq.affinity")]
    Letters(#[from] TuningError),
    /// A name is unknown, or a setting is listed twice.
    #[error("`{word}` is not a valid tuning: {why}")]
    Name {
        /// The whole word.
        word: String,
        /// Which name, and what is wrong with it.
        why: String,
    },
}

impl CellTuning {
    /// Returns what the words of the tuning change of the loop, without what plans add.
    #[must_use]
    pub fn options(&self) -> LoopOptions {
        let letters = LoopOptions { letters: self.letters, ..LoopOptions::default() };
        self.names
            .iter()
            .filter_map(|name| LoopOptions::of_id(name))
            .fold(letters, LoopOptions::and)
    }

    /// Returns the names that are settings of the host: ids, `plan`, paths of plans.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str).filter(|name| LoopOptions::of_id(name).is_none())
    }

    /// Returns the tuning with one more setting, and whether it did not have it before.
    ///
    /// # Errors
    /// [`CellTuningError::Name`].
    pub fn with(&self, name: &str) -> Result<(Self, bool), CellTuningError> {
        let mut more = self.clone();
        let is_new = more.add(name).ok_or_else(|| unknown(name, name))?;
        Ok((more, is_new))
    }

    /// Adds a setting; returns whether it is new, and `None` for an unknown one.
    fn add(&mut self, name: &str) -> Option<bool> {
        let name = canonical(name)?;
        let options = LoopOptions::of_id(&name).unwrap_or_default();
        if options.letters != Tuning::default() {
            let before = LoopOptions { letters: self.letters, ..LoopOptions::default() };
            let after = before.and(options).letters;
            let is_new = after != self.letters;
            self.letters = after;
            return Some(is_new);
        }

        let is_new = !self.names.contains(&name);
        if is_new {
            self.names.push(name);
        }
        Some(is_new)
    }
}

impl From<Tuning> for CellTuning {
    fn from(letters: Tuning) -> Self {
        Self { letters, names: Vec::new() }
    }
}

impl TryFrom<String> for CellTuning {
    type Error = CellTuningError;

    fn try_from(word: String) -> Result<Self, CellTuningError> {
        word.parse()
    }
}

impl From<CellTuning> for String {
    fn from(tuning: CellTuning) -> Self {
        tuning.to_string()
    }
}

impl FromStr for CellTuning {
    type Err = CellTuningError;

    fn from_str(word: &str) -> Result<Self, CellTuningError> {
        let mut tuning = Self::default();
        // Of a list that was typed in quotes, such as "none, PMC".
        for (place, part) in word.split('+').map(str::trim).enumerate() {
            if place == 0 && !is_name(part) {
                tuning.letters = part.parse()?;
                continue;
            }

            if !tuning.add(part).ok_or_else(|| unknown(word, part))? {
                let why = format!("{part} occurs twice");
                return Err(CellTuningError::Name { word: word.to_owned(), why });
            }
        }

        Ok(tuning)
    }
}

impl fmt::Display for CellTuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_letters = self.letters != Tuning::default() || self.names.is_empty();
        let letters = has_letters.then(|| self.letters.to_string());
        let words: Vec<&str> = letters.iter().chain(&self.names).map(String::as_str).collect();
        f.pad(&words.join("+"))
    }
}

/// Letters have no dot: `plan` and `placebo` are the only names without one.
fn is_name(part: &str) -> bool {
    part == PLAN || part == PLACEBO || part.contains('.') || is_path(part)
}

/// Whether a name is the path of a plan.
pub(super) fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

fn unknown(word: &str, name: &str) -> CellTuningError {
    let ids = catalogue().records.iter().map(|record| record.id.as_str());
    let meant = did_you_mean(nearest(name, ids));
    let why =
        format!("{name} is not in the catalogue{meant}; `onbeat tune check --all` lists its ids");
    CellTuningError::Name { word: word.to_owned(), why }
}

/// Returns the one name of a setting; `None` for an unknown one.
#[must_use]
pub fn canonical(name: &str) -> Option<String> {
    if name == PLAN || name == PLACEBO || is_path(name) {
        return Some(name.to_owned());
    }

    match catalogue().resolve(name).as_slice() {
        [] => None,
        [record] => Some(record.id.clone()),
        // An alias of several records stays what was typed.
        _ => Some(name.to_owned()),
    }
}

/// Letters in JSON, as they are typed.
mod letters_as_text {
    use onbeat_record::Tuning;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(letters: &Tuning, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(letters)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tuning, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(word: &str) -> CellTuning {
        word.parse().unwrap()
    }

    #[test]
    fn a_tuning_is_letters_and_names_and_survives_being_written() {
        for word in
            ["none", "PMCS", "P+mem.swappiness", "mem.swappiness", "PM+plan", "placebo", "plan"]
        {
            assert_eq!(parsed(word).to_string(), word);
            assert_eq!(parsed(&parsed(word).to_string()), parsed(word));
        }
        assert_eq!(parsed("M+proc.policy").to_string(), "PM", "ids of the letters are letters");
        assert_eq!(parsed("proc.timer_slack").to_string(), TIMER_SLACK, "an alias of one record");
        assert_eq!(parsed("P+./my.plan/a.toml").to_string(), "P+./my.plan/a.toml");
        assert_eq!(parsed(" PM + mem.swappiness ").to_string(), "PM+mem.swappiness");
    }

    #[test]
    fn settings_of_the_loop_are_options_and_all_others_are_of_the_host() {
        let tuning = parsed("PS+timer.slack+proc.affinity+irq.affinity+plan");
        let options = tuning.options();
        assert!(options.letters.priority && options.letters.spin && !options.letters.memory);
        assert!(options.bound && options.timer_slack_ns == Some(1));
        let of_oom = parsed("PM+mem.oom");
        assert_eq!(of_oom.options().oom_score, Some(-1000));
        assert_eq!(of_oom.host_names().count(), 0, "it belongs to the loop's own process");
        assert_eq!(tuning.host_names().collect::<Vec<_>>(), ["irq.affinity", "plan"]);
    }

    #[test]
    fn a_wrong_word_is_refused_with_the_part_that_is_wrong() {
        let why = |word: &str| word.parse::<CellTuning>().unwrap_err().to_string();
        assert!(why("PX").contains("X is not one of P, M, C, S"));
        assert!(why("P+irq.afinity").contains("not in the catalogue (did you mean irq.affinity?)"));
        assert!(why("P+proc.policy").contains("proc.policy occurs twice"));
        assert!(why("P+plan+plan").contains("plan occurs twice") && why("").contains("empty"));
        assert!(why("P+").contains("is not in the catalogue"));
    }

    #[test]
    fn a_tuning_that_has_a_setting_already_says_so() {
        let (more, is_new) = parsed("P").with("proc.mlock").unwrap();
        assert_eq!((more.to_string().as_str(), is_new), ("PM", true));
        assert!(!more.with("proc.policy").unwrap().1);
        assert!(more.with("quick").is_err());
    }
}
