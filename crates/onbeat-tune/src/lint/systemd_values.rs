//! Values of units that systemd does not read: it reports them and ignores the line. What is
//! accepted is what `systemd-analyze verify` of systemd 252 accepts.

use super::kernel_cpus;

/// What a setting takes, where a value is not that. An empty value takes some settings back, and
/// what a specifier stands for is not known here.
pub(super) fn refused(name: &str, value: &str) -> Option<&'static str> {
    let parts = ['%', '‰', '‱'];
    let is_percent = value.ends_with(parts);
    if value.contains('%') && !is_percent {
        return None;
    }
    let (is_read, form) = match name {
        "RestrictRealtime" | "CPUSchedulingResetOnFork" => (is_boolean(value), "yes or no"),
        "TimerSlackNSec" => (time(value).is_some(), "a time, such as 50us"),
        // Words of other files have judgements of their own.
        "LimitRTPRIO" | "LimitMEMLOCK" if matches!(value, "unlimited" | "-1") => return None,
        "LimitNICE" => (
            is_pair(value, nice),
            "a nice value with its sign, from -20 to +19, or the kernel's number from 0 to 40",
        ),
        "LimitRTTIME" => (
            is_pair(value, time),
            "a time, such as 500ms, or soft:hard in this order; a number is microseconds",
        ),
        "LimitMEMLOCK" => (
            is_pair(value, size),
            "infinity, bytes with K, M or G, such as 64M, or soft:hard in this order",
        ),
        "LimitRTPRIO" => (is_pair(value, number), "a number, or soft:hard in this order"),
        _ if value.is_empty() => return None,
        "Nice" => (is_within(value, -20, 19), "-20 to 19"),
        "CPUQuota" => {
            let percent = value.strip_suffix(parts).and_then(|number| number.parse::<f64>().ok());
            (percent.is_some_and(|percent| percent > 0.0), "a percentage above 0, such as 150%")
        }
        "CPUWeight" => (is_within(value, 1, 10_000) || value == "idle", "1 to 10000, or idle"),
        "MemoryMax" | "MemoryHigh" => {
            let share = value.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
            let is_share = share.map_or(is_percent, |share| share <= 100.0);
            let is_size = size(value).is_some_and(|bytes| bytes > 0.0);
            (is_share || is_size, "infinity, a percentage up to 100 %, or bytes with K, M or G")
        }
        "IOSchedulingClass" => {
            const CLASSES: [&str; 4] = ["none", "realtime", "best-effort", "idle"];
            let is_class = CLASSES.contains(&value) || is_within(value, 0, 3);
            (is_class, "realtime, best-effort or idle")
        }
        "IOSchedulingPriority" => (is_within(value, 0, 7), "0 to 7"),
        "OOMScoreAdjust" => (is_within(value, -1000, 1000), "-1000 to 1000"),
        _ => return None,
    };
    (!is_read).then_some(form)
}

/// What is wrong with a list of CPUs: numbers and ranges by blank or comma. What a specifier stands
/// for is not known here.
pub(super) fn wrong_cpus(value: &str) -> Option<String> {
    const FORM: &str = "Write 2 3, 2,3 or 2-3.";
    if value.contains('%') {
        return None;
    }
    let wrong = |piece: &str| {
        let digits =
            piece.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if let Some(cpu) = digits {
            return Some(format!(
                "systemd reads {piece} as the number of one CPU, {cpu}, and not as a mask. {FORM}"
            ));
        }
        let is_list = piece.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
            && kernel_cpus::parse(piece).is_ok();
        let message =
            "Not a list of CPUs: systemd reports that it cannot parse it and ignores the line.";
        (!is_list).then(|| format!("{message} {FORM}"))
    };
    // Between quotes nothing ends a piece.
    let mut quote = None;
    let pieces = value.split(|c: char| {
        match quote {
            Some(opened) if opened == c => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && matches!(c, ' ' | ',' | '\t')
    });
    let mut pieces = pieces.map(|piece| piece.replace(['"', '\''], ""));
    pieces.find_map(|piece| wrong(&piece))
}

fn is_boolean(value: &str) -> bool {
    const WORDS: [&str; 12] =
        ["1", "yes", "y", "true", "t", "on", "0", "no", "n", "false", "f", "off"];
    WORDS.iter().any(|word| word.eq_ignore_ascii_case(value))
}

fn is_within(value: &str, least: i64, most: i64) -> bool {
    value.parse().is_ok_and(|number: i64| (least..=most).contains(&number))
}

/// Whether it is a limit, or a soft and a hard one, of which the soft one is not above.
fn is_pair(value: &str, amount: fn(&str) -> Option<f64>) -> bool {
    let (soft, hard) = value.split_once(':').unwrap_or((value, value));
    amount(soft).zip(amount(hard.trim_start())).is_some_and(|(soft, hard)| soft <= hard)
}

fn infinity(value: &str) -> Option<f64> {
    (value == "infinity").then_some(f64::INFINITY)
}

fn number(value: &str) -> Option<f64> {
    let is_whole = value.parse::<u64>().is_ok();
    infinity(value).or_else(|| value.parse().ok().filter(|_| is_whole))
}

/// The kernel's number of a nice value, which has a sign.
fn nice(value: &str) -> Option<f64> {
    let (number, is_within) = match value.strip_prefix('+').or(value.strip_prefix('-')) {
        Some(_) => (20.0 - value.parse::<f64>().ok()?, is_within(value, -20, 19)),
        None => (value.parse().ok()?, is_within(value, 0, 40)),
    };
    is_within.then_some(number)
}

fn size(value: &str) -> Option<f64> {
    const SUFFIXES: &str = "BKMGTPE";
    let suffix = value.chars().next_back().filter(|last| SUFFIXES.contains(*last));
    // A blank may be in front of the suffix.
    let number = value[..value.len() - suffix.map_or(0, char::len_utf8)].trim_end();
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let amount = number.parse::<f64>().ok().filter(|_| is_plain);
    let power = suffix.and_then(|suffix| SUFFIXES.find(suffix)).unwrap_or(0);
    let bytes = |amount: f64| (0..power).fold(amount, |bytes, _| bytes * 1024.0);
    infinity(value).or_else(|| amount.map(bytes))
}

/// Microseconds, of which a number alone is one.
fn time(value: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 10] = [
        ("ns nsec", 1e-3),
        ("us usec µs μs", 1.0),
        ("ms msec", 1e3),
        ("s sec second seconds", 1e6),
        ("m min minute minutes", 6e7),
        ("h hr hour hours", 3.6e9),
        ("d day days", 8.64e10),
        ("w week weeks", 6.048e11),
        ("M month months", 2.6298e12),
        ("y year years", 3.15576e13),
    ];
    let is_digit = |c: char| c.is_ascii_digit();
    if !value.starts_with(is_digit) {
        return infinity(value);
    }
    let (mut sum, mut rest) = (0.0, value);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !is_digit(c) && c != '.').unwrap_or(rest.len());
        let amount: f64 = rest[..end].parse().ok()?;
        rest = rest[end..].trim_start();
        let end = rest.find(|c: char| is_digit(c) || c.is_whitespace()).unwrap_or(rest.len());
        let unit = &rest[..end];
        let is_named = |(names, _): &&(&str, f64)| names.split(' ').any(|name| name == unit);
        let factor = UNITS.iter().find(is_named).map(|(_, factor)| *factor);
        sum += amount * factor.or_else(|| unit.is_empty().then_some(1.0))?;
        rest = rest[end..].trim_start();
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer is that of `systemd-analyze verify`.
    #[test]
    fn a_value_is_read_or_refused_as_systemd_does() {
        let read = "RestrictRealtime=t TimerSlackNSec=50us LimitRTTIME=5ms LimitRTTIME=500000 LimitMEMLOCK=64M \
                    LimitMEMLOCK=infinity:infinity LimitRTPRIO=100 LimitRTPRIO=98:99 LimitMEMLOCK=1G:1024M \
                    LimitMEMLOCK=64M:infinity LimitRTTIME=500000:500ms LimitRTTIME=1.5s CPUQuota=150% CPUQuota= CPUWeight=idle \
                    LimitNICE=+19 LimitNICE=-20 LimitNICE=40 LimitNICE=10:20 LimitNICE=+10:-5 Nice= MemoryMax= MemoryMax=100% \
                    MemoryMax=50% IOSchedulingClass=realtime IOSchedulingPriority=7 OOMScoreAdjust=-1000 Nice=+5";
        let refused_ones = "RestrictRealtime=maybe TimerSlackNSec=-1 TimerSlackNSec=x LimitRTTIME=x LimitMEMLOCK=64MB \
                            LimitMEMLOCK=64k LimitRTPRIO=99:98 LimitMEMLOCK=64M:32M \
                            LimitMEMLOCK=infinity:64M LimitRTTIME=1s:999999 LimitRTTIME=100:1 \
                            LimitRTTIME=-1 LimitMEMLOCK=1e3 LimitNICE=41 LimitNICE=-21 LimitNICE=+20 LimitNICE=infinity \
                            LimitNICE=20:10 LimitNICE=-10:-5 LimitRTPRIO= LimitMEMLOCK= RestrictRealtime= TimerSlackNSec= \
                            Nice=20 Nice=abc MemoryMax=0 MemoryMax=101% \
                            CPUQuota=50 CPUQuota=0% CPUQuota=infinity CPUWeight=0 \
                            CPUWeight=10001 CPUWeight=high MemoryMax=lots IOSchedulingClass=RT IOSchedulingPriority=8 \
                            OOMScoreAdjust=1001 OOMScoreAdjust=x CPUSchedulingResetOnFork=maybe";
        assert_eq!(refused("MemoryMax", "64 M"), None);
        assert_eq!(refused("LimitMEMLOCK", "64M: 128M"), None);
        assert_eq!(refused("LimitRTTIME", "1s 500 ms:2s"), None);
        assert_eq!(refused("CPUQuota", "500‰"), None);
        for (settings, expected) in [(read, false), (refused_ones, true)] {
            for setting in settings.split_whitespace() {
                let (name, value) = setting.split_once('=').unwrap();
                assert_eq!(refused(name, value).is_some(), expected, "{setting}");
            }
        }
    }

    #[test]
    fn a_list_of_cpus_has_numbers_and_ranges() {
        for (list, is_wrong) in [
            ("2 3", false),
            ("2,,3", false),
            ("%i", false),
            ("0-1,3", false),
            ("\"2-3\"", false),
            ("'2' \"3\"", false),
            ("\"2 3\"", true),
            ("\"2,3\"", true),
            ("3-1", true),
            ("0-3,^2", true),
            ("all", true),
            ("1-", true),
        ] {
            assert_eq!(wrong_cpus(list).is_some(), is_wrong, "{list}");
        }
        assert!(wrong_cpus("0x0c").unwrap().contains("one CPU, 12,"));
    }
}
