//! `onbeat measure` typed as cyclictest: its options in onbeat's words.
//!
//! What means the same is translated, with a line that says so; what would mean something else is an
//! error with the right spelling. Words are read as getopt(3) reads them: `-p90`, `-p 90`, `-Smp90`.

use std::ffi::OsString;
use std::iter::Peekable;

use onbeat::probe::description::Defaults;

use crate::units::time_ns;

/// Options of cyclictest that have a value; `a` and `t` may have one.
const WITH_VALUE: [char; 9] = ['p', 'i', 'D', 'l', 'h', 'd', 'H', 'b', 'c'];
const MAY_HAVE_VALUE: [char; 2] = ['a', 't'];
const WITHOUT: [char; 7] = ['S', 'm', 'q', 'n', 'N', 'M', 'v'];
const LONG: [(&str, char); 16] = [
    ("smp", 'S'),
    ("affinity", 'a'),
    ("threads", 't'),
    ("prio", 'p'),
    ("interval", 'i'),
    ("duration", 'D'),
    ("loops", 'l'),
    ("mlockall", 'm'),
    ("quiet", 'q'),
    ("histogram", 'h'),
    ("distance", 'd'),
    ("nanosleep", 'n'),
    ("histofall", 'H'),
    ("breaktrace", 'b'),
    ("nsecs", 'N'),
    ("refresh_on_max", 'M'),
];

/// A command line in onbeat's words.
#[derive(Debug, PartialEq, Eq)]
pub struct Translated {
    pub words: Vec<OsString>,
    /// What it comes to, for the user.
    pub hint: String,
}

/// Translates the words of a command line, the program's own name first; `None` where nothing in it
/// is of cyclictest.
///
/// # Errors
/// A sentence with the right spelling, where an option would mean something else.
pub fn translated(words: &[OsString]) -> Result<Option<Translated>, String> {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let Some(texts) = texts else { return Ok(None) };
    // The program itself may be called so.
    let found = texts.iter().skip(1).position(|word| *word == "measure");
    let Some(at) = found.map(|place| place + 1) else { return Ok(None) };
    // Only options of all commands stand before it.
    let is_command = texts[1..at].iter().all(|word| word.starts_with("--color") || is_colour(word));
    if !is_command {
        return Ok(None);
    }

    let mut habits = Habits::default();
    let mut own: Vec<String> = Vec::new();
    let mut rest = texts[at + 1..].iter().copied().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            own.push(word.to_owned());
            own.extend(rest.by_ref().map(str::to_owned));
        } else if own.first().is_some_and(|probe| probe == "latency") && is_letter(word) {
            return Err(format!(
                "{word}: Xenomai's latency and cyclictest differ in their letters; -p 100 of latency is --period 100us here, -T 60 is \
                 --for 60s, -P 99 is --priority 99, -c 1 is --cpu 1"
            ));
        } else if !habits.take(word, &mut rest)? {
            own.push(word.to_owned());
        }
    }
    if !habits.is_any {
        return Ok(None);
    }

    let names_probe = own.first().is_some_and(|word| !word.starts_with('-'));
    let mut command: Vec<String> = texts[..=at].iter().map(|word| (*word).to_owned()).collect();
    if !names_probe {
        command.push("timer".to_owned());
    }
    command.extend(own.iter().cloned());
    command.extend(habits.in_own_words(&own)?);
    let shown = onbeat::thread::shell_line(&command[1..]);
    let mut hint = format!("cyclictest's options, in onbeat's words: onbeat {shown}");
    for note in habits.notes {
        hint.push_str("; ");
        hint.push_str(note);
    }
    Ok(Some(Translated { words: command.into_iter().map(OsString::from).collect(), hint }))
}

fn is_colour(word: &str) -> bool {
    ["auto", "always", "never"].contains(&word)
}

/// An option by its letter, apart from help.
fn is_letter(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.starts_with(|c: char| c.is_ascii_alphabetic()) && letters != "h"
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Options of cyclictest as they were read.
#[derive(Debug, Default)]
struct Habits {
    is_any: bool,
    is_smp: bool,
    /// `Some(None)`: without a list.
    affinity: Option<Option<String>>,
    threads: Option<Option<u32>>,
    priority: Option<String>,
    interval_us: Option<u64>,
    duration: Option<String>,
    loops: Option<u64>,
    notes: Vec<&'static str>,
}

fn is_number_next<'w>(rest: &mut Peekable<impl Iterator<Item = &'w str>>) -> bool {
    rest.peek().is_some_and(|word| is_number(word))
}

/// The value of an option in the words behind it.
fn following<'w>(
    letter: char,
    rest: &mut Peekable<impl Iterator<Item = &'w str>>,
) -> Option<&'w str> {
    let has_value =
        WITH_VALUE.contains(&letter) || MAY_HAVE_VALUE.contains(&letter) && is_number_next(rest);
    if has_value { rest.next() } else { None }
}

impl Habits {
    /// Takes a word and its value; returns whether it was one of cyclictest's.
    fn take<'w, I: Iterator<Item = &'w str>>(
        &mut self,
        word: &str,
        rest: &mut Peekable<I>,
    ) -> Result<bool, String> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            if name == "latency" {
                return Err(format!(
                    "--latency of cyclictest is --dma-latency here, with a unit: --dma-latency {}us",
                    value.unwrap_or("0")
                ));
            }
            if let ("json", Some(file)) = (name, value) {
                return Err(format!(
                    "--json={file} of cyclictest names a file; --json here prints the object: --json > {file}"
                ));
            }
            if let ("policy", Some(policy)) = (name, value) {
                self.is_any = true;
                return self.set_policy(policy).map(|()| true);
            }
            let Some((_, letter)) = LONG.iter().find(|(known, _)| *known == name) else {
                return Ok(false);
            };
            self.set(*letter, value.or_else(|| following(*letter, rest)))?;
            return Ok(true);
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Ok(false);
        };
        self.take_letters(letters, rest)
    }

    /// `Smp90`: letters without a value, then one whose value is the rest of the word or the next.
    fn take_letters<'w, I: Iterator<Item = &'w str>>(
        &mut self,
        letters: &str,
        rest: &mut Peekable<I>,
    ) -> Result<bool, String> {
        for (at, letter) in letters.char_indices() {
            let behind = &letters[at + letter.len_utf8()..];
            if WITHOUT.contains(&letter) {
                self.set(letter, None)?;
                continue;
            }
            let value = match behind {
                _ if !WITH_VALUE.contains(&letter) && !MAY_HAVE_VALUE.contains(&letter) => {
                    return Ok(false);
                }
                // Help, unless a number follows, as the one that cyclictest's has.
                "" if letter == 'h' && !is_number_next(rest) => return Ok(false),
                "" => following(letter, rest),
                behind => Some(behind),
            };
            self.set(letter, value)?;
            return Ok(true);
        }
        Ok(true)
    }

    fn set(&mut self, letter: char, value: Option<&str>) -> Result<(), String> {
        self.is_any = true;
        let number = |what: &str| -> Result<u64, String> {
            let text = value.unwrap_or_default();
            text.parse()
                .map_err(|_| format!("-{letter} of cyclictest has {what}; `{text}` is not one"))
        };
        match letter {
            'S' => self.is_smp = true,
            'm' => self.note("-m: memory is locked anyway (--no-lock-memory leaves it unlocked)"),
            'q' => self.note("-q: nothing but the result is printed anyway"),
            'n' => self.note("-n: a release is waited for by clock_nanosleep anyway"),
            'd' if number("a distance in microseconds")? == 0 => {
                self.note("-d 0: the loops have one period anyway");
            }
            'd' => {
                return Err(
                    "-d of cyclictest gives each thread a longer interval than the one before; onbeat's loops have one period: leave it out".to_owned(),
                );
            }
            'a' => self.affinity = Some(value.map(str::to_owned)),
            't' => {
                let threads = value.map(|_| number("a number of threads")).transpose()?;
                self.threads = Some(threads.map(|n| u32::try_from(n).unwrap_or(u32::MAX)));
            }
            'p' => self.priority = Some(number("a priority from 0 to 99")?.to_string()),
            'i' => self.interval_us = Some(number("an interval in microseconds")?),
            'l' => self.loops = Some(number("a number of cycles")?),
            'D' => self.duration = Some(duration(value.unwrap_or_default())?),
            _ => return self.set_output(letter, value),
        }
        Ok(())
    }

    /// Options that say what is printed or traced, and of which clock.
    fn set_output(&mut self, letter: char, value: Option<&str>) -> Result<(), String> {
        let us = value.unwrap_or("US");
        match letter {
            'N' => self.note("-N: times have their unit anyway"),
            'M' => self.note("-M: --screen shows the figures while it runs"),
            'c' if us == "0" => self.note("-c 0: the clock is CLOCK_MONOTONIC anyway"),
            'c' => {
                return Err(format!(
                    "-c {us} of cyclictest chooses another clock; onbeat's loops use CLOCK_MONOTONIC: leave it out"
                ));
            }
            'b' => {
                return Err(format!(
                    "-b {us} of cyclictest stops at the first latency over {us} us; onbeat continues, and keeps the events around each: \
                     --spikes-over {us}us, or --limit {us}us for a verdict"
                ));
            }
            'v' => {
                return Err(
                    "-v of cyclictest prints every sample; onbeat writes their distribution, second by second: leave it out \
                     (`onbeat export --csv` prints it; --verbose prints all conclusions)"
                        .to_owned(),
                );
            }
            _ => {
                return Err(format!(
                    "-{letter} {us} of cyclictest asks for a histogram up to {us} us; onbeat records the whole distribution anyway: leave \
                     it out (the page draws it, `onbeat export --hgrm` writes it; -h is help here)"
                ));
            }
        }
        Ok(())
    }

    fn set_policy(&mut self, policy: &str) -> Result<(), String> {
        if policy.eq_ignore_ascii_case("fifo") {
            self.note("--policy=fifo: a priority above 0 is one of SCHED_FIFO anyway");
            return Ok(());
        }
        Err(format!(
            "--policy={policy} of cyclictest; onbeat's loops run under SCHED_FIFO, or with --priority 0 under SCHED_OTHER"
        ))
    }

    fn note(&mut self, words: &'static str) {
        if !self.notes.contains(&words) {
            self.notes.push(words);
        }
    }

    fn in_own_words(&self, own: &[String]) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        if let Some((option, value)) = self.cpus()? {
            add(option, value);
        }
        if let Some(priority) = &self.priority {
            add("--priority", priority.clone());
        }
        if let Some(us) = self.interval_us {
            add("--period", format!("{us}us"));
        }
        let has_own_time = own.iter().any(|word| word == "--for" || word.starts_with("--for="));
        if has_own_time && (self.duration.is_some() || self.loops.is_some()) {
            return Err("-D and -l say how long, as --for does; leave one of them out".to_owned());
        }
        match (&self.duration, self.loops) {
            (Some(_), Some(_)) => {
                return Err(
                    "-D and -l both say how long; leave one of them out (--for TIME)".to_owned()
                );
            }
            (Some(time), None) => add("--for", time.clone()),
            (None, Some(0)) => add("--for", "0".to_owned()),
            (None, Some(loops)) => {
                let ns = self.period_ns(own)?.saturating_mul(loops);
                add(
                    "--for",
                    if ns % 1_000_000 == 0 {
                        format!("{}ms", ns / 1_000_000)
                    } else {
                        format!("{}us", ns / 1_000)
                    },
                );
            }
            (None, None) => {}
        }
        Ok(words)
    }

    /// The period that a number of cycles is multiplied by.
    fn period_ns(&self, own: &[String]) -> Result<u64, String> {
        if let Some(us) = self.interval_us {
            return Ok(us.saturating_mul(1_000));
        }
        let at = own.iter().position(|word| word == "--period" || word.starts_with("--period="));
        let value = match at {
            Some(at) => own[at].strip_prefix("--period=").or(own.get(at + 1).map(String::as_str)),
            None => onbeat::probe::ALL
                .iter()
                .find(|probe| own.first().is_some_and(|name| name == probe.name))
                .map(|probe| probe.defaults.period),
        };
        let value = value.unwrap_or(Defaults::LOOP.period);
        time_ns(value).map_err(|why| why.to_string())
    }

    /// `--cpus LIST` for threads, `--cpu N` for one.
    fn cpus(&self) -> Result<Option<(&'static str, String)>, String> {
        let list = self.affinity.clone().flatten();
        let is_single = list.as_ref().is_some_and(|list| list.parse::<u32>().is_ok());
        match (self.is_smp, self.threads, list) {
            (false, None | Some(Some(1)), Some(cpu)) if is_single => Ok(Some(("--cpu", cpu))),
            (false, Some(Some(1)), _) => Ok(None),
            (true, _, Some(list)) | (false, Some(None), Some(list)) => Ok(Some(("--cpus", list))),
            (true, _, None) | (false, Some(None), None) => Ok(Some(("--cpus", "all".to_owned()))),
            (false, Some(Some(threads)), Some(list))
                if list.parse::<onbeat_tune::CpuList>().is_ok_and(|cpus| cpus.iter().count() as u32 == threads) =>
            {
                Ok(Some(("--cpus", list)))
            }
            (false, Some(Some(threads)), _) => Err(format!(
                "-t {threads} of cyclictest starts {threads} threads; onbeat runs a loop on each CPU that you list: --cpus 0-{}, or --cpus all",
                threads.saturating_sub(1)
            )),
            (false, None, Some(list)) => Err(format!(
                "-a {list} of cyclictest lets one thread run on several CPUs; onbeat binds a loop to one, --cpu N, or runs one on each: --cpus {list}"
            )),
            (false, None, None) if self.affinity.is_some() => Err(
                "-a of cyclictest binds its one thread to CPU 0: --cpu 0, or --cpus all for a loop on each".to_owned(),
            ),
            (false, None, None) => Ok(None),
        }
    }
}

/// cyclictest's time: seconds, or with `m`, `h`, `d` behind the number.
fn duration(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = &text[digits.len()..];
    let is_time =
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && unit.len() <= 1;
    match (is_time, unit) {
        (true, "d") => digits
            .parse::<u64>()
            .map(|days| format!("{}h", days.saturating_mul(24)))
            .map_err(|why| format!("-D {text}: {why}")),
        (true, "") => Ok(format!("{digits}s")),
        (true, unit) => Ok(format!("{digits}{unit}")),
        (false, _) => Err(format!(
            "-D of cyclictest has a time such as 30, 10m or 2h; `{text}` is not one: --for 30s"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn of(line: &str) -> Result<String, String> {
        let translated = translated(&words(line))?.expect(line);
        let words: Vec<String> =
            translated.words.into_iter().map(|word| word.into_string().unwrap()).collect();
        Ok(words[1..].join(" "))
    }

    #[test]
    fn what_means_the_same_is_translated() {
        for (typed, own) in [
            ("measure timer -S", "measure timer --cpus all"),
            (
                "measure -S -m -p 90 -i 200 -D 10m",
                "measure timer --cpus all --priority 90 --period 200us --for 10m",
            ),
            (
                "measure timer -Smp98 -i500 -D20 -q",
                "measure timer --cpus all --priority 98 --period 500us --for 20s",
            ),
            (
                "measure timer --smp --prio=95 --interval=1000",
                "measure timer --cpus all --priority 95 --period 1000us",
            ),
            ("measure timer -t -a", "measure timer --cpus all"),
            ("measure timer --smp --affinity 0-1", "measure timer --cpus 0-1"),
            ("measure timer -t -a 1-3 --json", "measure timer --json --cpus 1-3"),
            ("measure timer -t2 -a 0,2", "measure timer --cpus 0,2"),
            ("measure timer -t1 -a3 -p80", "measure timer --cpu 3 --priority 80"),
            ("measure hiccup -a 1", "measure hiccup --cpu 1"),
            ("measure timer -l 100000 -i 200", "measure timer --period 200us --for 20000ms"),
            ("measure timer -l 3 --period 250us", "measure timer --period 250us --for 750us"),
            ("measure latency --loops 10000", "measure latency --for 1000ms"),
            ("measure noise -l 100", "measure noise --for 1000ms"),
            ("measure timer -D 1d", "measure timer --for 24h"),
            ("measure -t1 -p 80 -n -i 10000", "measure timer --priority 80 --period 10000us"),
            (
                "measure --mlockall --smp --priority=80 --interval=200 --distance=0",
                "measure timer --priority=80 --cpus all --period 200us",
            ),
            ("--color never measure -p 1", "--color never measure timer --priority 1"),
            ("measure -NM -p 80 -c 0 --policy=fifo", "measure timer --priority 80"),
        ] {
            assert_eq!(of(&format!("onbeat {typed}")).as_deref(), Ok(own), "{typed}");
        }
    }

    #[test]
    fn the_translation_is_shown_with_what_needs_no_option() {
        let all = translated(&words("onbeat measure -S -m -q -m")).unwrap().unwrap();
        assert_eq!(
            all.hint,
            "cyclictest's options, in onbeat's words: onbeat measure timer --cpus all; -m: memory is locked anyway \
             (--no-lock-memory leaves it unlocked); -q: nothing but the result is printed anyway"
        );
    }

    #[test]
    fn what_would_mean_something_else_is_an_error_with_the_right_spelling() {
        for (typed, spelling) in [
            ("-t 5", "--cpus 0-4"),
            ("-a 1-3", "--cpus 1-3"),
            ("-a", "--cpu 0"),
            ("-h 400", "-h is help here"),
            ("-h400", "-h is help here"),
            ("--histogram=400", "-h is help here"),
            ("--latency=0", "--dma-latency 0us"),
            ("-D 10 -l 5", "--for TIME"),
            ("-D soon", "--for 30s"),
            ("-i 1ms", "in microseconds"),
            ("-p high", "from 0 to 99"),
            ("-t2 -a 0-3", "--cpus 0-1"),
            ("-d 500", "leave it out"),
            ("-Smp90 -H 400", "-h is help here"),
            ("--breaktrace=150", "--spikes-over 150us, or --limit 150us"),
            ("-b 150", "--limit 150us"),
            ("-c1", "CLOCK_MONOTONIC"),
            ("-v", "export --csv"),
            ("-q --json=ct.json", "--json > ct.json"),
            ("--policy=rr", "--priority 0"),
            ("-l 100 --for 1s", "leave one of them out"),
        ] {
            let refused = of(&format!("onbeat measure timer {typed}"));
            assert!(
                refused.as_ref().is_err_and(|why| why.contains(spelling)),
                "{typed}: {refused:?}"
            );
        }
        for typed in ["-p 50", "-T 60", "-l 10000", "-qP 99"] {
            let refused = of(&format!("onbeat measure latency {typed}"));
            assert!(refused.is_err_and(|why| why.contains("--period 100us")), "{typed}");
        }
        assert_eq!(translated(&words("onbeat measure latency -h")), Ok(None));
    }

    #[test]
    fn a_program_that_is_called_measure_is_no_command() {
        assert_eq!(translated(&words("measure bench -q")), Ok(None));
    }

    #[test]
    fn what_is_onbeat_s_own_stays_as_it_is() {
        for typed in [
            "measure timer --for 10s --period 1ms --cpu 1 --verbose --json",
            "measure rtt --clock eth0",
            "measure timer -h",
            "measure -h",
            "measure timer --help",
            "measure timer -x",
            "measure timer -- -p 90",
            "bench -p 90",
            "report measure -q",
            "measure",
        ] {
            assert_eq!(translated(&words(&format!("onbeat {typed}"))), Ok(None), "{typed}");
        }
    }
}
