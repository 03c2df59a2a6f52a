//! Modes in sentences.

use super::{Lifts, Mode, Modes, Tied};
use crate::record::RunFile;
use crate::report::units::{Letters, count, percent, spoken, three_digits, time};

/// `+4.0 us for 15.0 s every 5 min 18 s, in 271 of 271 periods, 4.7 % of all samples; ...`.
pub(super) fn of(mode: &Mode, step_s: f64) -> String {
    let size = time(mode.size_ns, Letters::Ascii);
    let every = every(mode);
    let what = match mode.lifts {
        Lifts::Most => format!("+{size} for {} every {every}", length(mode.duration_s)),
        Lifts::Some => format!("+{size} in the slowest tenth for {} every {every}", length(mode.duration_s)),
        Lifts::Single => format!("+{size} in single cycles every {every}"),
    };
    let noun = if mode.period_s < step_s && mode.lifts == Lifts::Single { "stretches of the trend" } else { "periods" };
    let share = match mode.lifts {
        Lifts::Single => format!("at least {} of all samples", percent(mode.share)),
        _ => format!("{} of all samples", percent(mode.share)),
    };
    let tied = match mode.tied {
        Tied::Time => "it keeps time, whatever the loop does",
        Tied::Cycles => "it counts the loop's cycles",
        Tied::CannotTell => "time or cycle count, this run cannot tell",
    };
    format!("{what}, in {} of {} {noun}, {share}; {tied}", count(mode.seen), count(mode.periods))
}

/// A period in time, or in cycles for what counts them or comes within few of them.
fn every(mode: &Mode) -> String {
    let cycles = mode.period_cycles;
    if mode.tied == Tied::Cycles {
        return format!("{} cycles", count(cycles.round() as u64));
    }
    let length = length(mode.period_s);
    if cycles < 1000.0 { format!("{length} ({} cycles)", three_digits(cycles)) } else { length }
}

/// A time with three digits up to a minute, in two units above: `1.37 s`, `2 min 17 s`.
fn length(seconds: f64) -> String {
    if seconds < 59.95 { time(seconds * 1e9, Letters::Ascii) } else { spoken(seconds) }
}

/// What was found, in one line.
pub(super) fn in_all(modes: &Modes) -> String {
    let range = format!("between {} and {}", spoken(modes.shortest_s), spoken(modes.longest_s));
    match modes.found.as_slice() {
        [] => format!(
            "Nothing in {} steps of {} came back with a period {range}.",
            count(modes.steps),
            spoken(modes.step_s)
        ),
        [one] => format!("One disturbance comes back at its time: {}.", one.sentence),
        many => {
            let told: Vec<&str> = many.iter().map(|mode| mode.sentence.split(',').next().unwrap_or_default()).collect();
            format!("{} disturbances come back at their time: {}.", many.len(), told.join("; "))
        }
    }
}

pub(super) fn without_a_trend(run: &RunFile) -> String {
    format!(
        "Modes cannot be looked for: this file, recorded by onbeat {}, holds no trend of the wake-up latency.",
        run.header.version
    )
}

pub(super) fn too_short(steps: usize, step_s: f64) -> String {
    format!(
        "Modes cannot be looked for: the run has {steps} steps of {}, and {} are the least.",
        spoken(step_s),
        super::search::LEAST_STEPS
    )
}
