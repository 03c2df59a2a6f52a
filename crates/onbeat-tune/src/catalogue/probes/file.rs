//! Files that hold a value.

use std::io;

use serde::Deserialize;

use super::{NoValue, Probe, ProbeReading, expand, matches};
use crate::catalogue::host_tree::is_absent;
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};
use crate::change::between;
use crate::cpu_list::CpuList;

/// How the text of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueFormat {
    /// A decimal number.
    Integer,
    /// `0`, `1`, `Y` or `N`, as 0 or 1.
    Boolean,
    /// `always [madvise] never`: the word in brackets.
    Bracket,
    /// `none voluntary (full)`: the word in parentheses.
    Paren,
    /// Hexadecimal, in groups of 32 bits.
    Mask,
    /// `0-2,4`; `(null)` means without CPUs.
    List,
    /// The first word.
    Word,
    /// All of it.
    Text,
    /// Microseconds of resume latency: `n/a` is 0, and `0` means unlimited.
    ResumeLatency,
}

impl ValueFormat {
    /// Reads a value.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] with the text that is not of this format.
    pub fn parse(self, text: &str) -> Result<ProbeValue, NoValue> {
        let text = text.trim();
        let value = match self {
            Self::Integer => text.parse().ok().map(ProbeValue::Number),
            Self::Boolean => match text {
                "1" | "Y" | "y" => Some(ProbeValue::Number(1)),
                "0" | "N" | "n" => Some(ProbeValue::Number(0)),
                _ => None,
            },
            Self::Bracket => marked_word(text, '[', ']'),
            Self::Paren => marked_word(text, '(', ')'),
            Self::Mask => CpuList::parse_mask(text).ok().map(ProbeValue::Cpus),
            Self::List if text == "(null)" => Some(ProbeValue::Cpus(CpuList::default())),
            Self::List => CpuList::parse_list(text).ok().map(ProbeValue::Cpus),
            Self::Word => {
                text.split_whitespace().next().map(|word| ProbeValue::Text(word.to_owned()))
            }
            Self::Text => Some(ProbeValue::Text(text.to_owned())),
            Self::ResumeLatency => match text {
                "n/a" => Some(ProbeValue::Number(0)),
                "0" => Some(ProbeValue::Number(i64::MAX)),
                _ => text.parse().ok().map(ProbeValue::Number),
            },
        };

        value.ok_or_else(|| {
            NoValue::Unknown(format!("\"{text}\" cannot be read as {self:?}").to_lowercase())
        })
    }
}

/// The marked word; a single word needs no mark.
fn marked_word(text: &str, open: char, close: char) -> Option<ProbeValue> {
    let single = (!text.is_empty() && !text.contains(char::is_whitespace)).then_some(text);
    between(text, open, close).or(single).map(|word| ProbeValue::Text(word.to_owned()))
}

/// What the absence of a file means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsenceMeaning {
    /// This kernel or machine has no such setting.
    #[default]
    NotApplicable,
    /// Nothing: it may exist and not be visible.
    Unknown,
}

/// A file that holds one value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileProbe {
    /// The file, as a pattern of [`expand`].
    pub path: String,
    /// How its text is read.
    pub format: ValueFormat,
    /// What it should hold.
    pub want: WantedValue,
    /// What a change would write.
    #[serde(default)]
    pub set: Option<String>,
    /// Reads what follows this at the beginning of a line, instead of the whole text.
    #[serde(default)]
    pub line: Option<String>,
    /// Reads the first line that contains this.
    #[serde(default)]
    pub line_with: Option<String>,
    /// Reads the column of this number, from 1.
    #[serde(default)]
    pub column: Option<usize>,
    /// What it means that the file does not exist.
    #[serde(default)]
    pub if_absent: AbsenceMeaning,
    /// The same in words.
    #[serde(default)]
    pub absent: Option<String>,
}

impl FileProbe {
    fn value_of(&self, text: &str) -> Result<ProbeValue, NoValue> {
        let line = match (&self.line, &self.line_with) {
            (Some(start), _) => {
                text.lines().find_map(|line| line.trim_start().strip_prefix(start.as_str()))
            }
            (None, Some(part)) => text.lines().find(|line| line.contains(part.as_str())),
            (None, None) => Some(text),
        };
        let line = line.ok_or_else(|| self.absence("the line is not in the file"))?;

        let piece = match self.column {
            Some(column) => line.split_whitespace().nth(column.saturating_sub(1)),
            None => Some(line),
        };
        let piece =
            piece.ok_or_else(|| NoValue::Unknown(format!("\"{}\" is too short", line.trim())))?;
        self.format.parse(piece)
    }

    fn absence(&self, fallback: &str) -> NoValue {
        let reason = self.absent.clone().unwrap_or_else(|| fallback.to_owned());
        match self.if_absent {
            AbsenceMeaning::NotApplicable => NoValue::NotApplicable(reason),
            AbsenceMeaning::Unknown => NoValue::Unknown(reason),
        }
    }

    fn read_all(&self, survey: &Survey<'_>) -> Result<Vec<ProbeReading>, NoValue> {
        let paths = expand(&self.path, survey)?;
        if paths.is_empty() {
            survey.require_anchor(&self.path)?;
            return Err(self.absence(&format!("no file {} exists on this machine", self.path)));
        }

        let reading = |path: &String| ProbeReading::new(path, self.read_one(path, survey));
        Ok(paths.iter().map(reading).collect())
    }

    fn read_one(&self, path: &str, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        match survey.host().read(path) {
            Ok(text) => self.value_of(&text),
            Err(error) if is_absent(&error) => {
                survey.require_anchor(path)?;
                Err(self.absence(&format!("{path} does not exist on this kernel")))
            }
            // Where the reason is a missing right, the record's own words say which.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && self.absent.is_some() =>
            {
                match self.if_absent {
                    AbsenceMeaning::Unknown => Err(self.absence("")),
                    AbsenceMeaning::NotApplicable => Err(NoValue::from_error(path, &error)),
                }
            }
            Err(error) => Err(NoValue::from_error(path, &error)),
        }
    }
}

impl Probe for FileProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        ProbeReading::of_all(&self.path, self.read_all(survey))
    }

    fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }

    fn path(&self) -> Option<String> {
        Some(self.path.clone())
    }
}

/// A value below `/proc/sys`, by its dotted name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SysctlProbe {
    /// The dotted name.
    pub name: String,
    /// How its text is read.
    pub format: ValueFormat,
    /// What it should hold.
    pub want: WantedValue,
    /// What a change would write.
    #[serde(default)]
    pub set: Option<String>,
    /// Why it does not exist on some kernels.
    #[serde(default)]
    pub absent: Option<String>,
}

impl Probe for SysctlProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let file = FileProbe {
            path: self.path().unwrap_or_default(),
            format: self.format,
            want: self.want.clone(),
            set: None,
            line: None,
            line_with: None,
            column: None,
            if_absent: AbsenceMeaning::NotApplicable,
            absent: self.absent.clone(),
        };
        file.read(survey)
    }

    fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }

    fn path(&self) -> Option<String> {
        Some(sysctl_path(&self.name))
    }
}

impl SysctlProbe {
    /// Returns the name with its variables, as sysctl reads it: a dot in the name of an interface is
    /// a slash there (sysctl.d(5)).
    #[must_use]
    pub fn name_here(&self, survey: &Survey<'_>) -> String {
        let interface = survey.setup().interfaces.first();
        let slashed = interface.map(|interface| interface.replace('.', "/"));
        let name = slashed.map(|interface| self.name.replace("{interface}", &interface));
        survey.fill(name.as_ref().unwrap_or(&self.name))
    }
}

/// Returns the file of a sysctl.
#[must_use]
pub fn sysctl_path(name: &str) -> String {
    let swapped = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        c => c,
    });
    format!("/proc/sys/{}", swapped.collect::<String>())
}

/// Two files that must hold the same value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EqualFilesProbe {
    /// The first, as a pattern of [`expand`].
    pub first: String,
    /// The second, as a pattern with as many matches.
    pub second: String,
    /// Why they do not exist on some machines.
    pub absent: String,
}

impl EqualFilesProbe {
    fn read_all(&self, survey: &Survey<'_>) -> Result<Vec<ProbeReading>, NoValue> {
        let (first, second) = (expand(&self.first, survey)?, expand(&self.second, survey)?);
        if first.is_empty() || first.len() != second.len() {
            survey.require_anchor(&self.first)?;
            return Err(NoValue::NotApplicable(self.absent.clone()));
        }

        let pairs = first.iter().zip(&second);
        let reading = |(low, high): (&String, &String)| {
            ProbeReading::new(low, self.compare(low, high, survey))
        };
        Ok(pairs.map(reading).collect())
    }

    fn compare(
        &self,
        first: &str,
        second: &str,
        survey: &Survey<'_>,
    ) -> Result<ProbeValue, NoValue> {
        let absent = || NoValue::NotApplicable(self.absent.clone());
        let read = |path: &str| survey.text_if_there(path)?.ok_or_else(absent);
        let (low, high) = (read(first)?, read(second)?);
        let (low, high) = (low.trim(), high.trim());
        Ok(ProbeValue::Text(if low == high {
            "equal".to_owned()
        } else {
            format!("{low} and {high}")
        }))
    }
}

impl Probe for EqualFilesProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        static EQUAL: std::sync::LazyLock<WantedValue> =
            std::sync::LazyLock::new(|| WantedValue::Is("equal".to_owned()));
        Some(&EQUAL)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        ProbeReading::of_all(&self.first, self.read_all(survey))
    }
}

/// The number of lines of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinesProbe {
    /// The file.
    pub path: String,
    /// Lines at the beginning that are headings.
    pub skip: usize,
    /// What the number should be.
    pub want: WantedValue,
}

impl Probe for LinesProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let count = survey.text(&self.path).and_then(|text| {
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            // Without its headings the file is not what the record takes it for.
            let rest = lines
                .checked_sub(self.skip)
                .ok_or_else(|| NoValue::Unknown(format!("{} is cut", self.path)))?;
            Ok(ProbeValue::Number(i64::try_from(rest).unwrap_or(i64::MAX)))
        });
        vec![ProbeReading::new(&self.path, count)]
    }
}

/// The number of entries of a directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryProbe {
    /// The directory, as a pattern of [`expand`].
    pub path: String,
    /// Counts only names that fit this pattern.
    #[serde(default)]
    pub matching: Option<String>,
    /// What the number should be.
    pub want: WantedValue,
    /// Why it does not exist on some machines.
    #[serde(default)]
    pub absent: Option<String>,
}

impl DirectoryProbe {
    fn count(&self, path: &str, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        let Some(names) = survey.names_if_there(path)? else {
            survey.require_anchor(path)?;
            let reason = || format!("{path} does not exist on this kernel");
            return Err(NoValue::NotApplicable(self.absent.clone().unwrap_or_else(reason)));
        };

        let fits =
            |name: &&String| self.matching.as_ref().is_none_or(|pattern| matches(pattern, name));
        Ok(ProbeValue::Number(i64::try_from(names.iter().filter(fits).count()).unwrap_or(i64::MAX)))
    }
}

impl Probe for DirectoryProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let reading = |path: &String| ProbeReading::new(path, self.count(path, survey));
        let readings = expand(&self.path, survey).map(|paths| paths.iter().map(reading).collect());
        ProbeReading::of_all(&self.path, readings)
    }

    fn path(&self) -> Option<String> {
        Some(self.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_reads_what_the_kernel_writes() {
        let text = |word: &str| Ok(ProbeValue::Text(word.to_owned()));
        assert_eq!(ValueFormat::Bracket.parse("always [madvise] never\n"), text("madvise"));
        assert_eq!(ValueFormat::Bracket.parse("none\n"), text("none"));
        assert_eq!(ValueFormat::Paren.parse("none voluntary (full)\n"), text("full"));
        assert_eq!(ValueFormat::Boolean.parse("Y\n"), Ok(ProbeValue::Number(1)));
        assert_eq!(ValueFormat::Integer.parse("-1\n"), Ok(ProbeValue::Number(-1)));
        assert_eq!(ValueFormat::List.parse("(null)\n"), Ok(ProbeValue::Cpus(CpuList::default())));
        assert_eq!(
            ValueFormat::Mask.parse("00000000,00000003"),
            Ok(ProbeValue::Cpus("0-1".parse().unwrap()))
        );
    }

    #[test]
    fn a_resume_latency_of_zero_is_unlimited_and_na_is_zero() {
        assert_eq!(ValueFormat::ResumeLatency.parse("0\n"), Ok(ProbeValue::Number(i64::MAX)));
        assert_eq!(ValueFormat::ResumeLatency.parse("n/a\n"), Ok(ProbeValue::Number(0)));
        assert_eq!(ValueFormat::ResumeLatency.parse("35\n"), Ok(ProbeValue::Number(35)));
    }

    #[test]
    fn a_dot_in_the_name_of_an_interface_is_a_slash_for_sysctl() {
        assert_eq!(sysctl_path("vm.swappiness"), "/proc/sys/vm/swappiness");
        let path = "/proc/sys/net/ipv6/conf/eth0.100/disable_ipv6";
        assert_eq!(sysctl_path("net.ipv6.conf.eth0/100.disable_ipv6"), path);
    }

    #[test]
    fn what_is_not_of_a_format_is_unknown() {
        let cases = [
            (ValueFormat::Integer, "many"),
            (ValueFormat::Bracket, "a b"),
            (ValueFormat::Mask, "x"),
            (ValueFormat::Word, ""),
        ];
        for (format, text) in cases {
            assert!(matches!(format.parse(text), Err(NoValue::Unknown(_))), "{text}");
        }
    }
}
