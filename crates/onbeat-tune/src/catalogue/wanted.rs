//! Wanted values: expressions over the CPUs and figures of a loop.
//!
//! | expression | true when the value |
//! |---|---|
//! | `is X`, `is not X` | equals X, or does not |
//! | `one of X, Y` | is in the list; `absent` in it allows that there is none |
//! | `at least N`, `at most N`, `below N`, `between N and M` | is a number in the range |
//! | `contains X\|Y`, `lacks X\|Y` | contains one of the words, or none of them; words are separated by blanks and commas |
//! | `within S`, `covers S`, `excludes S` | is a set of CPUs inside S, containing S, or without a CPU of S |
//! | `single cpu` | is a set of exactly one CPU |
//! | `present`, `absent` | exists, or does not |
//!
//! N is a number or a variable: `idle_exit_us`, `period_us`, `loop_priority`. S is `loop`,
//! `housekeeping`, `online`, `boot` or `interface_node`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::loop_setup::{CpuSetVariable, LoopNumber};
use super::no_value::NoValue;
use super::survey::Survey;
use crate::cpu_list::CpuList;

/// What a probe read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeValue {
    /// Nothing, where that is a value: a kernel parameter that was not given.
    Absent,
    /// A word or text.
    Text(String),
    Number(i64),
    /// A set of CPUs.
    Cpus(CpuList),
}

impl fmt::Display for ProbeValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => out.write_str("absent"),
            Self::Text(text) => out.write_str(text),
            Self::Number(i64::MAX) => out.write_str("no limit"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Cpus(cpus) if cpus.is_empty() => out.write_str("no CPU"),
            Self::Cpus(cpus) if cpus.iter().count() == 1 => write!(out, "CPU {cpus}"),
            Self::Cpus(cpus) => write!(out, "CPUs {cpus}"),
        }
    }
}

/// A number, or a figure of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberTerm {
    /// As written.
    Literal(i64),
    /// Of the loop that is checked for.
    Variable(LoopNumber),
}

impl NumberTerm {
    fn resolve(self, survey: &Survey<'_>) -> i64 {
        match self {
            Self::Literal(number) => number,
            Self::Variable(variable) => survey.setup().number(variable),
        }
    }
}

/// A wanted value, as in the module's table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum WantedValue {
    /// `present`.
    Present,
    /// `absent`.
    Absent,
    /// `is X`.
    Is(String),
    /// `is not X`.
    IsNot(String),
    /// `one of X, Y`.
    OneOf(Vec<String>),
    /// `contains X|Y`.
    Contains(Vec<String>),
    /// `lacks X|Y`.
    Lacks(Vec<String>),
    /// `at least N`.
    AtLeast(NumberTerm),
    /// `at most N`.
    AtMost(NumberTerm),
    /// `below N`.
    Below(NumberTerm),
    /// `between N and M`.
    Between(NumberTerm, NumberTerm),
    /// `within S`.
    Within(CpuSetVariable),
    /// `covers S`.
    Covers(CpuSetVariable),
    /// `excludes S`.
    Excludes(CpuSetVariable),
    /// `single cpu`.
    SingleCpu,
}

/// A text that is not an expression of the module's table.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "\"{0}\" is not a valid wanted value; write for example \"is 0\", \"at most 20\" or \"excludes loop\""
)]
pub struct WantedValueError(pub String);

impl FromStr for WantedValue {
    type Err = WantedValueError;

    fn from_str(text: &str) -> Result<Self, WantedValueError> {
        parse(text).ok_or_else(|| WantedValueError(text.to_owned()))
    }
}

impl TryFrom<String> for WantedValue {
    type Error = WantedValueError;

    fn try_from(text: String) -> Result<Self, WantedValueError> {
        text.parse()
    }
}

fn parse(text: &str) -> Option<WantedValue> {
    let words = |list: &str, by: &str| list.split(by).map(single_word).collect::<Option<_>>();
    let pieces: Vec<&str> = text.split(' ').collect();
    Some(match pieces.as_slice() {
        ["present"] => WantedValue::Present,
        ["absent"] => WantedValue::Absent,
        ["single", "cpu"] => WantedValue::SingleCpu,
        ["is", "not", word] => WantedValue::IsNot(single_word(word)?),
        ["is", word] => WantedValue::Is(single_word(word)?),
        ["one", "of", ..] => WantedValue::OneOf(words(text.strip_prefix("one of ")?, ", ")?),
        ["contains", list] => WantedValue::Contains(words(list, "|")?),
        ["lacks", list] => WantedValue::Lacks(words(list, "|")?),
        ["at", "least", term] => WantedValue::AtLeast(number_term(term)?),
        ["at", "most", term] => WantedValue::AtMost(number_term(term)?),
        ["below", term] => WantedValue::Below(number_term(term)?),
        ["between", low, "and", high] => {
            WantedValue::Between(number_term(low)?, number_term(high)?)
        }
        ["within", set] => WantedValue::Within(CpuSetVariable::from_name(set)?),
        ["covers", set] => WantedValue::Covers(CpuSetVariable::from_name(set)?),
        ["excludes", set] => WantedValue::Excludes(CpuSetVariable::from_name(set)?),
        _ => return None,
    })
}

fn single_word(text: &str) -> Option<String> {
    let is_word =
        !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == ',' || c == '|');
    is_word.then(|| text.to_owned())
}

fn number_term(text: &str) -> Option<NumberTerm> {
    match text.parse() {
        Ok(number) => Some(NumberTerm::Literal(number)),
        Err(_) => LoopNumber::from_name(text).map(NumberTerm::Variable),
    }
}

impl WantedValue {
    /// Returns whether a value is as wanted.
    ///
    /// # Errors
    /// [`NoValue`] where the value is not of the kind that the expression compares, or where a
    /// variable has no value here.
    pub fn holds(&self, value: &ProbeValue, survey: &Survey<'_>) -> Result<bool, NoValue> {
        match self {
            Self::Present => Ok(*value != ProbeValue::Absent),
            Self::Absent => Ok(*value == ProbeValue::Absent),
            Self::Is(word) => Ok(equals(value, word)),
            Self::IsNot(word) => Ok(!equals(value, word)),
            Self::OneOf(words) => Ok(words.iter().any(|word| equals(value, word))),
            Self::Contains(words) => Ok(words.iter().any(|word| has_word(value, word))),
            Self::Lacks(words) => Ok(!words.iter().any(|word| has_word(value, word))),
            Self::AtLeast(term) => Ok(number(value)? >= term.resolve(survey)),
            Self::AtMost(term) => Ok(number(value)? <= term.resolve(survey)),
            Self::Below(term) => Ok(number(value)? < term.resolve(survey)),
            Self::Between(low, high) => {
                Ok((low.resolve(survey)..=high.resolve(survey)).contains(&number(value)?))
            }
            Self::Within(set) => Ok(cpus(value)?.is_within(&survey.cpu_set(*set)?)),
            Self::Covers(set) => Ok(survey.cpu_set(*set)?.is_within(cpus(value)?)),
            Self::Excludes(set) => Ok(!cpus(value)?.meets(&survey.cpu_set(*set)?)),
            Self::SingleCpu => Ok(cpus(value)?.iter().count() == 1),
        }
    }

    /// Returns the expression with the values of its variables, for people: `without CPUs 2-3`.
    #[must_use]
    pub fn in_words(&self, survey: &Survey<'_>) -> String {
        let set = |set: CpuSetVariable| match survey.cpu_set(set) {
            Ok(cpus) => ProbeValue::Cpus(cpus).to_string(),
            Err(_) => format!("the {set} CPUs"),
        };
        match self {
            Self::Present => "present".to_owned(),
            Self::Absent => "absent".to_owned(),
            Self::Is(word) => word.clone(),
            Self::IsNot(word) => format!("not {word}"),
            Self::OneOf(words) => words.join(" or "),
            Self::Contains(words) => format!("with {}", words.join(" or ")),
            Self::Lacks(words) => format!("without {}", words.join(" and ")),
            Self::AtLeast(term) => format!("at least {}", term.resolve(survey)),
            Self::AtMost(term) => format!("at most {}", term.resolve(survey)),
            Self::Below(term) => format!("below {}", term.resolve(survey)),
            Self::Between(low, high) => {
                format!("{} to {}", low.resolve(survey), high.resolve(survey))
            }
            Self::Within(cpus) => format!("only {}", set(*cpus)),
            Self::Covers(cpus) => format!("with {}", set(*cpus)),
            Self::Excludes(cpus) => format!("without {}", set(*cpus)),
            Self::SingleCpu => "one CPU".to_owned(),
        }
    }
}

fn equals(value: &ProbeValue, word: &str) -> bool {
    match value {
        ProbeValue::Absent => word == "absent",
        ProbeValue::Text(text) => text == word,
        ProbeValue::Number(number) => word.parse() == Ok(*number),
        ProbeValue::Cpus(cpus) => CpuList::parse_list(word).is_ok_and(|other| other == *cpus),
    }
}

fn has_word(value: &ProbeValue, word: &str) -> bool {
    let ProbeValue::Text(text) = value else { return false };
    // `memory-backend=` asks for a key with any value.
    let fits = |piece: &str| {
        if word.ends_with(['=', ':']) { piece.starts_with(word) } else { piece == word }
    };
    text.split(|c: char| c.is_whitespace() || c == ',').any(fits)
}

fn number(value: &ProbeValue) -> Result<i64, NoValue> {
    match value {
        ProbeValue::Number(number) => Ok(*number),
        // The number of CPUs, where a number of them is asked for.
        ProbeValue::Cpus(cpus) => Ok(i64::try_from(cpus.iter().count()).unwrap_or(i64::MAX)),
        other => Err(NoValue::Unknown(format!("\"{other}\" is not a number"))),
    }
}

fn cpus(value: &ProbeValue) -> Result<&CpuList, NoValue> {
    match value {
        ProbeValue::Cpus(cpus) => Ok(cpus),
        other => Err(NoValue::Unknown(format!("\"{other}\" is not a set of CPUs"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_read_as_the_table_has_it() {
        let parsed = |text: &str| text.parse::<WantedValue>().unwrap();
        assert_eq!(parsed("is not 0"), WantedValue::IsNot("0".to_owned()));
        assert_eq!(parsed("one of a, b"), WantedValue::OneOf(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(
            parsed("at most idle_exit_us"),
            WantedValue::AtMost(NumberTerm::Variable(LoopNumber::IdleExitUs))
        );
        assert_eq!(
            parsed("between 2 and 8"),
            WantedValue::Between(NumberTerm::Literal(2), NumberTerm::Literal(8))
        );
        assert_eq!(parsed("excludes loop"), WantedValue::Excludes(CpuSetVariable::Loop));
    }

    #[test]
    fn a_text_outside_the_table_is_refused_with_itself() {
        for text in [
            "",
            "is",
            "is a b",
            "at most",
            "at most many",
            "excludes everything",
            "one of a,b",
            "equals 3",
            "between 1",
        ] {
            assert_eq!(
                text.parse::<WantedValue>(),
                Err(WantedValueError(text.to_owned())),
                "{text}"
            );
        }
    }
}
