//! Ratios of runs taken in turns: onbeat beside `cyclictest`, and beside its own goals. `make
//! peers` runs it.
//!
//! `cargo bench -p onbeat-cli --bench peers -- [PART...] [--quick]`, with parts `slots`, `wakeup`,
//! `probes`, `causes`, `recording`, `day`, `report`, `import`, `sharing`, `messages`, `bus`, `net`,
//! `packets`, `view`; all of them when none is named. `--quick` takes short runs, to see that
//! everything works: its figures mean little.
//!
//! A time on a shared machine says more of the hour than of the program, so contestants take turns
//! and each turn gives one ratio; the median of the ratios stands in the table with the smallest
//! and the largest. Times are never asserted. Accounts are: a slot that is in no account ends the
//! benchmark with status 1.
//!
//! Everything it makes lies in a directory for temporary files, and goes with it.
// What it measures is printed, and nothing is linked against it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod alone;
mod bus;
mod causes;
mod cyclictest;
mod day;
mod failure;
mod importing;
mod latencies;
mod messages;
mod net;
mod packets;
mod pages;
mod probes;
mod recording;
mod running;
mod sharing;
mod slots;
mod table;
mod timer;
mod turns;
mod view;
mod wakeup;

use std::process::ExitCode;

use failure::Failure;
use onbeat::host::Host;
use table::Part;

/// How long runs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Whole,
    Quick,
}

impl Length {
    const fn pick<T: Copy>(self, whole: T, quick: T) -> T {
        match self {
            Self::Whole => whole,
            Self::Quick => quick,
        }
    }
}

type Measure = fn(Length) -> Result<Part, Failure>;

const PARTS: [(&str, Measure); 14] = [
    ("slots", slots::run),
    ("wakeup", wakeup::run),
    ("probes", probes::run),
    ("causes", causes::run),
    ("recording", recording::run),
    ("day", day::run),
    ("report", pages::run),
    ("import", importing::run),
    ("sharing", sharing::run),
    ("messages", messages::run),
    ("bus", bus::run),
    ("net", net::run),
    ("packets", packets::run),
    ("view", view::run),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [day::ROLE, path, hours] => day::child(path.as_ref(), hours),
        [packets::ROLE, path, cycles] => packets::child(path.as_ref(), cycles),
        [bus::ROLE, name, cycles, onbeat] => bus::child(name, cycles, onbeat.as_ref()),
        _ if words.iter().any(|word| word == "--bench") => all(&words),
        // `cargo test --all-targets` starts it too, and wants no minutes of measuring.
        _ => {
            println!(
                "peers: nothing measured; `make peers` does, by `cargo bench -p onbeat-cli --bench peers`"
            );
            Ok(())
        }
    };

    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}

fn all(words: &[String]) -> Result<(), Failure> {
    let length =
        if words.iter().any(|word| word == "--quick") { Length::Quick } else { Length::Whole };
    let named: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    if let Some(unknown) = named.iter().find(|word| !PARTS.iter().any(|(name, _)| name == *word)) {
        let known = PARTS.map(|(name, _)| name).join(", ");
        return Err(Failure::NoSuchPart { name: (*unknown).to_owned(), known });
    }

    let version = cyclictest::version();
    println!(
        "onbeat {} beside {}",
        env!("CARGO_PKG_VERSION"),
        version.as_deref().unwrap_or("nothing: no cyclictest")
    );
    println!("{}; load average {}", Host::read().in_one_line(), load_average());
    if length == Length::Quick {
        println!("--quick: these figures show that the benchmark runs, and little else");
    }

    for (name, part) in PARTS {
        if named.is_empty() || named.contains(&name) {
            print!("\n{}", part(length)?.to_text());
        }
    }

    println!("\nload average {} at the end", load_average());
    Ok(())
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
