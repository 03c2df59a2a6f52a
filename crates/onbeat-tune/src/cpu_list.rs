//! Sets of CPUs as the kernel writes them: the list `0-2,4` and the mask `ff,ffffffff`.
//!
//! They are compared as sets, never as text: the kernel pads masks with zeros to the number of CPUs
//! it was built for.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Limit on CPU numbers, above that of any kernel; a longer range is a typing error.
const MOST_CPUS: u32 = 65_536;
const BITS_PER_GROUP: u32 = 32;

/// A text is not a set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a {kind} of CPUs: {at:?} does not fit. Write {example}")]
pub struct CpuListError {
    /// `list` or `mask`.
    pub kind: &'static str,
    /// The text as it was given.
    pub text: String,
    /// The piece that does not fit.
    pub at: String,
    /// A text that would fit.
    pub example: &'static str,
}

/// A set of CPU numbers, 0 to 65535. Empty is legal: no CPU.
///
/// ```
/// use onbeat_tune::CpuList;
///
/// let online: CpuList = "0-3".parse()?;
/// let reserved: CpuList = "2-3".parse()?;
/// assert_eq!(online.minus(&reserved).to_string(), "0-1");
/// assert!(online.meets(&reserved));
/// # Ok::<(), onbeat_tune::TuneError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuList(BTreeSet<u32>);

impl CpuList {
    /// Reads the kind `list`: numbers and ranges by comma, blanks around the whole ignored, empty
    /// means no CPU.
    ///
    /// # Errors
    /// [`CpuListError`] with the piece that is neither number nor rising range.
    ///
    /// ```
    /// use onbeat_tune::CpuList;
    ///
    /// assert_eq!(CpuList::parse_list("0-2,4")?.to_mask(), "17");
    /// assert!(CpuList::parse_list("3-1").is_err(), "a range rises");
    /// # Ok::<(), onbeat_tune::TuneError>(())
    /// ```
    pub fn parse_list(text: &str) -> Result<Self, CpuListError> {
        let mut cpus = BTreeSet::new();
        for piece in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let wrong = || CpuListError {
                kind: "list",
                text: text.trim().to_owned(),
                at: piece.to_owned(),
                example: "\"0-2,4\"",
            };

            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let first = number(first, 10).ok_or_else(wrong)?;
            let last = number(last, 10).ok_or_else(wrong)?;
            if first > last || last >= MOST_CPUS {
                return Err(wrong());
            }

            cpus.extend(first..=last);
        }

        Ok(Self(cpus))
    }

    /// Reads the kind `mask`: hexadecimal, groups of 32 bits by comma, highest first; leading zeros
    /// are ignored.
    ///
    /// # Errors
    /// [`CpuListError`] with the group that is not hexadecimal, longer than 8 digits or
    /// missing.
    ///
    /// ```
    /// use onbeat_tune::CpuList;
    ///
    /// assert_eq!(CpuList::parse_mask("1,00000003")?.to_string(), "0-1,32");
    /// # Ok::<(), onbeat_tune::TuneError>(())
    /// ```
    pub fn parse_mask(text: &str) -> Result<Self, CpuListError> {
        let mut cpus = BTreeSet::new();
        for (group, digits) in (0_u32..).zip(text.trim().rsplit(',')) {
            let bits = number(digits, 16)
                .filter(|_| digits.len() <= 8 && group < MOST_CPUS / BITS_PER_GROUP);
            let bits = bits.ok_or_else(|| CpuListError {
                kind: "mask",
                text: text.trim().to_owned(),
                at: digits.to_owned(),
                example: "\"ff\" or \"1,00000000\"",
            })?;

            let set = (0..BITS_PER_GROUP).filter(|bit| bits >> bit & 1 == 1);
            cpus.extend(set.map(|bit| group * BITS_PER_GROUP + bit));
        }

        Ok(Self(cpus))
    }

    /// Writes the kind `mask`, without zeros in front; `0` for no CPU.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let highest = self.0.last().map_or(0, |cpu| cpu / BITS_PER_GROUP);
        let mut groups = vec![0_u32; highest as usize + 1];
        for cpu in &self.0 {
            groups[(cpu / BITS_PER_GROUP) as usize] |= 1 << (cpu % BITS_PER_GROUP);
        }

        let mut text = format!("{:x}", groups[highest as usize]);
        for group in groups.iter().rev().skip(1) {
            text.push_str(&format!(",{group:08x}"));
        }

        text
    }

    /// The CPUs of `self` that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// The CPUs in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Whether a CPU is in both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Whether every CPU of `self` is in `other`.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether it holds no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is in it.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// `wanted` without `taken`, or `else_` when that is empty.
    pub(super) fn kept_off(wanted: &Self, taken: &Self, else_: &Self) -> Self {
        let left = wanted.minus(taken);
        if left.is_empty() { else_.clone() } else { left }
    }
}

/// Plain digits only: Rust would accept `+4`, which the kernel never writes.
fn number(digits: &str, radix: u32) -> Option<u32> {
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().filter(|cpu| *cpu < MOST_CPUS).collect())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        Self::parse_list(text)
    }
}

impl fmt::Display for CpuList {
    /// The kind `list`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }

            if first == last {
                write!(out, "{comma}{first}")?;
            } else {
                write!(out, "{comma}{first}-{last}")?;
            }

            comma = ",";
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(text: &str) -> CpuList {
        CpuList::parse_list(text).unwrap()
    }

    proptest! {
        #[test]
        fn a_written_list_reads_as_the_same_set(set in proptest::collection::btree_set(0_u32..2_000, 0..40)) {
            let list = CpuList(set);
            prop_assert_eq!(CpuList::parse_list(&list.to_string()).unwrap(), list.clone());
            prop_assert_eq!(CpuList::parse_list(&format!("{list}\n")).unwrap(), list);
        }

        #[test]
        fn a_written_mask_reads_as_the_same_set(set in proptest::collection::btree_set(0_u32..2_000, 0..40)) {
            let list = CpuList(set);
            prop_assert_eq!(CpuList::parse_mask(&list.to_mask()).unwrap(), list);
        }

        #[test]
        fn leading_zeros_of_a_mask_are_ignored(
            set in proptest::collection::btree_set(0_u32..200, 0..20),
            groups in 0_usize..4,
        ) {
            let list = CpuList(set);
            let mask = list.to_mask();
            let (first, rest) = mask.split_once(',').unwrap_or((&mask, ""));
            let padded = format!("{}{first:0>8}{}{rest}\n", "00000000,".repeat(groups), if rest.is_empty() { "" } else { "," });
            prop_assert_eq!(CpuList::parse_mask(&padded).unwrap(), list);
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,40}") {
            let _ = CpuList::parse_list(&text);
            let _ = CpuList::parse_mask(&text);
        }
    }

    #[test]
    fn masks_come_in_groups_of_32_bits() {
        assert_eq!(CpuList::parse_mask("1,00000000").unwrap(), cpus("32"));
        assert_eq!(CpuList::parse_mask("00000000,0000000f\n").unwrap(), cpus("0-3"));
        assert_eq!(cpus("0-3,32,64").to_mask(), "1,00000001,0000000f");
        assert_eq!(cpus("").to_mask(), "0");
    }

    #[test]
    fn an_invalid_set_is_refused_with_the_part_that_is_wrong() {
        for (text, piece) in
            [("0-", ""), ("3-1", "3-1"), ("1,,2", ""), ("a", "a"), ("0-4294967295", "0-4294967295")]
        {
            let error = CpuList::parse_list(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(piece), "{error}");
        }
        for text in ["", "xyz", "123456789", "1,,2", "+1"] {
            assert!(CpuList::parse_mask(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_set_kept_off_all_its_cpus_falls_back_to_the_others() {
        let kept = |wanted: &str, taken: &str| {
            CpuList::kept_off(&cpus(wanted), &cpus(taken), &cpus("0,2-3")).to_string()
        };
        assert_eq!(
            (kept("0-3", "1"), kept("1", "1"), kept("1-2", "1")),
            ("0,2-3".into(), "0,2-3".into(), "2".into())
        );
    }
}
