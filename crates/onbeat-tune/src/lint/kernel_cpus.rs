//! CPU lists of kernel parameters, as the kernel's own parser reads them (`lib/bitmap-str.c`,
//! `kernel/sched/isolation.c`).
//!
//! A list is regions by comma or blank: a number, a range, each perhaps with a stride
//! `:used/group`; `N` is the last CPU (since Linux 5.13), `all` every CPU (since 5.15). A mask such
//! as `0x0c` is not a list. In front of the list of `isolcpus=` may be flags; behind it they make
//! it invalid.

use crate::cpu_list::CpuList;

/// Flags of `isolcpus=`.
pub(super) const FLAGS: [&str; 3] = ["managed_irq", "domain", "nohz"];

/// Whether the kernel keeps the first of several lists of a parameter (`housekeeping_setup`); of
/// other parameters the last one counts.
pub(crate) fn keeps_first(name: &str) -> bool {
    matches!(name, "isolcpus" | "nohz_full")
}

/// What a list says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelCpus {
    /// The CPUs with a number.
    pub(super) numbered: CpuList,
    /// `all`, or a region up to `N`: the rest is known on the machine only.
    pub(super) is_open: bool,
}

impl KernelCpus {
    /// The CPUs, where the text alone says them all.
    pub(super) fn known(&self) -> Option<&CpuList> {
        (!self.is_open && !self.numbered.is_empty()).then_some(&self.numbered)
    }

    /// Whether it names this CPU.
    pub(super) fn contains(&self, cpu: u32) -> bool {
        self.numbered.contains(cpu)
    }
}

/// Reads a list. The error is the piece at which the kernel stops; it then ignores the whole
/// parameter.
pub(super) fn parse(text: &str) -> Result<KernelCpus, String> {
    let mut cpus = KernelCpus::default();
    let mut numbers = Vec::new();
    let regions = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
    for region in regions.filter(|region| !region.is_empty()) {
        let (range, stride) = region.split_once(':').map_or((region, None), |(a, b)| (a, Some(b)));
        let (used, group) = match stride {
            None => (1, 1),
            Some(stride) => stride_of(stride).ok_or_else(|| region.to_owned())?,
        };
        let is_all = range.eq_ignore_ascii_case("all");
        // A stride is one of a range.
        if stride.is_some() && !is_all && !range.contains('-') {
            return Err(region.to_owned());
        }
        if is_all {
            cpus.is_open = true;
            numbers.extend((used > 0).then_some(0));
            continue;
        }

        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first), number(last));
        match (first, last) {
            (Some(Bound::Number(first)), Some(Bound::Number(last))) if first <= last => {
                let is_used = |cpu: &u32| (cpu - first) % group < used;
                numbers.extend((first..=last).filter(is_used));
            }
            (Some(Bound::Number(first)), Some(Bound::Last)) => {
                cpus.is_open = true;
                numbers.extend((used > 0).then_some(first));
            }
            (Some(Bound::Last), Some(Bound::Last)) => cpus.is_open = true,
            _ => return Err(region.to_owned()),
        }
    }

    cpus.numbered = numbers.into_iter().collect();
    Ok(cpus)
}

/// The CPUs of a list on a machine whose last CPU is `last`; `None` where the kernel reads none.
pub(crate) fn on_machine(text: &str, last: u32) -> Option<CpuList> {
    let closed = text.replace('N', &last.to_string()).to_ascii_lowercase();
    let closed = closed.replace("all", &format!("0-{last}"));
    parse(&closed).ok()?.known().cloned()
}

enum Bound {
    Number(u32),
    /// `N`.
    Last,
}

/// The highest number that is read: above that of any kernel.
const MOST_CPUS: u32 = 65_536;

fn number(text: &str) -> Option<Bound> {
    if text == "N" {
        return Some(Bound::Last);
    }
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_plain.then(|| text.parse().ok()).flatten()?;
    (number < MOST_CPUS).then_some(Bound::Number(number))
}

/// `used/group`, of which the group is not empty and not smaller than what is used of it.
fn stride_of(text: &str) -> Option<(u32, u32)> {
    let (used, group) = text.split_once('/')?;
    let (used, group) = (used.parse().ok()?, group.parse().ok()?);
    (group > 0 && used <= group).then_some((used, group))
}

/// The value of `isolcpus=`, read as the kernel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IsolatedCpus<'v> {
    /// No CPU at all: empty, or flags alone.
    Empty,
    /// The kernel ignores the whole parameter, at this piece.
    Refused(String),
    /// Flags stand behind the list: the kernel ignores the whole parameter.
    FlagsBehind {
        /// All flags, in their order.
        flags: Vec<&'v str>,
        list: String,
    },
    /// A list that the kernel reads.
    Read {
        /// The flags in front of it, those that it does not know too.
        flags: Vec<&'v str>,
        /// The list as written.
        list: &'v str,
        /// What it says.
        cpus: KernelCpus,
    },
}

/// Reads the value of `isolcpus=`.
pub(super) fn parse_isolated(value: &str) -> IsolatedCpus<'_> {
    let mut flags = Vec::new();
    let mut rest = value;
    while rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let end = rest.find(',').unwrap_or(rest.len());
        let flag = &rest[..end];
        // The kernel takes any word for a flag, `all` and `N` as well.
        if !flag.chars().all(|c| c.is_ascii_alphabetic() || c == '_') {
            return IsolatedCpus::Refused(flag.to_owned());
        }
        flags.push(flag);
        rest = rest.get(end + 1..).unwrap_or("");
    }

    match parse(rest) {
        Ok(_) if rest.trim_matches(',').is_empty() => IsolatedCpus::Empty,
        Ok(cpus) => IsolatedCpus::Read { flags, list: rest, cpus },
        Err(at) => {
            let is_flag = |piece: &&str| FLAGS.contains(piece);
            let behind: Vec<_> = rest.split(',').filter(is_flag).collect();
            let list: Vec<_> = rest.split(',').filter(|piece| !is_flag(piece)).collect();
            let list = list.join(",");
            if behind.is_empty() || list.is_empty() || parse(&list).is_err() {
                return IsolatedCpus::Refused(at);
            }
            flags.extend(behind);
            IsolatedCpus::FlagsBehind { flags, list }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> String {
        parse(text).map_or_else(
            |at| format!("stops at {at}"),
            |cpus| format!("{}{}", cpus.numbered, if cpus.is_open { " and on" } else { "" }),
        )
    }

    #[test]
    fn lists_are_read_as_the_kernel_does() {
        let cases = [
            ("2-3", "2-3"),
            ("1,3-4", "1,3-4"),
            ("0-7:1/2", "0,2,4,6"),
            ("2-9:2/4", "2-3,6-7"),
            ("2-N", "2 and on"),
            ("all", "0 and on"),
            ("1,,2", "1-2"),
            ("1, 3 4", "1,3-4"),
            ("", ""),
            ("0x0c", "stops at 0x0c"),
            ("3-1", "stops at 3-1"),
            ("0-7:3/2", "stops at 0-7:3/2"),
            ("2-3,domain", "stops at domain"),
            ("2;3", "stops at 2;3"),
            ("3:1/2", "stops at 3:1/2"),
            ("2-n", "stops at 2-n"),
        ];
        for (text, expected) in cases {
            assert_eq!(listed(text), expected, "{text}");
        }
    }

    #[test]
    fn on_a_machine_the_last_cpu_has_a_number() {
        let listed = |text: &str| on_machine(text, 7).map(|cpus| cpus.to_string());
        assert_eq!(listed("2-N").as_deref(), Some("2-7"));
        assert_eq!(listed("0,N").as_deref(), Some("0,7"));
        assert_eq!(listed("all:1/4").as_deref(), Some("0,4"));
        assert_eq!(listed("2-3").as_deref(), Some("2-3"));
        assert_eq!([listed("2-n"), listed("0x0c"), listed("domain")], [None, None, None]);
    }

    #[test]
    fn flags_count_in_front_of_the_list_only() {
        assert_eq!(parse_isolated(""), IsolatedCpus::Empty);
        assert_eq!(parse_isolated("managed_irq,"), IsolatedCpus::Empty);
        // `all` is a flag that the kernel does not know.
        assert_eq!(parse_isolated("all"), IsolatedCpus::Empty);
        assert_eq!(parse_isolated("0x0c"), IsolatedCpus::Refused("0x0c".to_owned()));
        assert_eq!(parse_isolated("cpu2,3"), IsolatedCpus::Refused("cpu2".to_owned()));
        let expected =
            IsolatedCpus::FlagsBehind { flags: vec!["managed_irq", "domain"], list: "2-3".into() };
        assert_eq!(parse_isolated("2-3,managed_irq,domain"), expected);
        let IsolatedCpus::Read { flags, list, .. } = parse_isolated("managed_irqs,domain,2-3")
        else {
            panic!("it is read")
        };
        assert_eq!((flags, list), (vec!["managed_irqs", "domain"], "2-3"));
    }
}
