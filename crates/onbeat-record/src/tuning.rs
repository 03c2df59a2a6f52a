//! The tuning of a cell: P, M, C and S, alone and together.

use std::fmt;
use std::str::FromStr;

/// The paper's four tunings (Yoon, Song and Lee, 2009, section 3.3), and which of them a cell has.
///
/// ```
/// use onbeat_record::Tuning;
///
/// let tuning: Tuning = "cmp".parse()?;
/// assert!(tuning.shield && !tuning.spin);
/// assert_eq!(tuning.to_string(), "PMC");
/// # Ok::<(), onbeat_record::TuningError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuning {
    /// P: the highest real-time priority.
    pub priority: bool,
    /// M: locked memory.
    pub memory: bool,
    /// C: a CPU for the loop alone, freed from other tasks and from interrupts that can be moved.
    pub shield: bool,
    /// S: sleep, then spin for the last part.
    pub spin: bool,
}

/// A word that is not a valid tuning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{word}` is not a valid tuning: {why}; write none, or letters of P (maximum priority), M (memory locked), C (CPU \
     shielded), S (sleep then spin), such as PMC"
)]
pub struct TuningError {
    word: String,
    why: String,
}

impl FromStr for Tuning {
    type Err = TuningError;

    fn from_str(word: &str) -> Result<Self, TuningError> {
        let error = |why: String| TuningError { word: word.to_owned(), why };
        let mut tuning = Self::default();
        if word.eq_ignore_ascii_case("none") {
            return Ok(tuning);
        }

        for letter in word.chars() {
            let place = match letter.to_ascii_uppercase() {
                'P' => &mut tuning.priority,
                'M' => &mut tuning.memory,
                'C' => &mut tuning.shield,
                'S' => &mut tuning.spin,
                _ => return Err(error(format!("{letter} is not one of P, M, C, S"))),
            };
            if std::mem::replace(place, true) {
                return Err(error(format!("{letter} occurs twice")));
            }
        }

        if word.is_empty() { Err(error("it is empty".to_owned())) } else { Ok(tuning) }
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters =
            [(self.priority, 'P'), (self.memory, 'M'), (self.shield, 'C'), (self.spin, 'S')];
        let word: String =
            letters.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect();
        f.pad(if word.is_empty() { "none" } else { &word })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tuning_is_written_as_the_paper_writes_it() {
        for word in ["none", "M", "C", "MC", "P", "PM", "PC", "PMC", "PMCS"] {
            assert_eq!(word.parse::<Tuning>().unwrap().to_string(), word);
        }
        assert_eq!("scp".parse::<Tuning>().unwrap().to_string(), "PCS", "any order, any case");
    }

    #[test]
    fn a_wrong_letter_is_named() {
        let message = "PX".parse::<Tuning>().unwrap_err().to_string();
        assert!(message.contains("`PX`") && message.contains("X is not one of"), "{message}");
        assert!("PP".parse::<Tuning>().is_err() && "".parse::<Tuning>().is_err());
    }
}
