//! Modes in sentences.

use super::{Lifts, Mode, Modes, Tied};
use crate::units::{Letters, count, counted, percent, spoken, three_digits, time};
use onbeat_record::{RunFile, Series};

/// `+4 us for 15 s every 5 min 18 s, in 271 of 271 periods, 4.7 % of all samples; ...`.
pub(super) fn of(mode: &Mode, step_s: f64) -> String {
    let size = time(mode.size_ns, Letters::Ascii);
    let every = every(mode);
    let single = if mode.period_cycles > 0.0 { "cycles" } else { "samples" };
    let what = match mode.lifts {
        Lifts::Most => format!("+{size} for {} every {every}", length(mode.duration_s)),
        Lifts::Some => {
            format!("+{size} in the slowest tenth for {} every {every}", length(mode.duration_s))
        }
        Lifts::Single => format!("+{size} in single {single} every {every}"),
    };

    let noun = match mode.lifts {
        Lifts::Single if mode.period_s < step_s => format!("steps of {}", length(step_s)),
        _ => "periods".to_owned(),
    };

    let share = match mode.lifts {
        Lifts::Single => format!("at least {} of all samples", percent(mode.share)),
        _ => format!("{} of all samples", percent(mode.share)),
    };

    let tied = match mode.tied {
        Tied::Time => "; periodic in time, independent of the loop",
        Tied::Cycles => "; periodic in loop cycles",
        Tied::Undecided if mode.period_cycles > 0.0 => {
            "; this run does not show whether it is periodic in time or in cycles"
        }
        Tied::Undecided => "",
    };

    format!("{what}, in {} of {} {noun}, {share}{tied}", count(mode.seen), count(mode.periods))
}

/// A period in time, or in cycles for what counts them or comes within few of them.
fn every(mode: &Mode) -> String {
    let cycles = mode.period_cycles;
    if mode.tied == Tied::Cycles {
        return format!("{} cycles", count(cycles.round() as u64));
    }
    let length = length(mode.period_s);
    if cycles > 0.0 && cycles < 1000.0 {
        format!("{length} ({} cycles)", three_digits(cycles))
    } else {
        length
    }
}

/// A time with three digits up to a minute, in two units above: `1.37 s`, `2 min 17 s`.
fn length(seconds: f64) -> String {
    if seconds < 59.95 { time(seconds * 1e9, Letters::Ascii) } else { spoken(seconds) }
}

/// What was found, in one line.
pub(super) fn in_all(modes: &Modes) -> String {
    let range = format!("between {} and {}", length(modes.shortest_s), length(modes.longest_s));
    match modes.found.as_slice() {
        [] => format!(
            "No periodic interference found: nothing in {} steps of {} recurs with a period {range}.",
            count(modes.steps),
            length(modes.step_s)
        ),
        [one] => format!("One disturbance recurs: {}.", one.sentence),
        many => {
            let each: Vec<&str> = many
                .iter()
                .map(|mode| mode.sentence.split(", ").next().unwrap_or_default())
                .collect();
            format!("{} disturbances recur: {}.", many.len(), each.join("; "))
        }
    }
}

/// What is to be said of cycles that are later than they are apart; empty if there are none.
pub(super) fn saturation(modes: &[Mode]) -> String {
    let Some(worst) = modes.iter().max_by(|a, b| a.size_ns.total_cmp(&b.size_ns)) else {
        return String::new();
    };
    format!(
        " Saturation: cycles every {} are {} late, which is longer than that; the loop could not keep up, and this is no \
         periodic interference.",
        length(worst.period_s),
        time(worst.size_ns, Letters::Ascii)
    )
}

/// Why a run without steps cannot be searched.
pub(super) fn without_a_trend(run: &RunFile, series: Series) -> String {
    let why = match &run.import {
        Some(import) => format!("its source ({}) gives no times of its samples", import.format),
        None => {
            format!(
                "this file holds no trend of the {} (recorded by onbeat {})",
                series.words(),
                run.header.version
            )
        }
    };
    format!("No search for periodic interference: {why}.")
}

pub(super) fn too_short(steps: usize, step_s: f64) -> String {
    format!(
        "No search for periodic interference: the run has {} of {}; at least {} are needed.",
        counted(steps as u64, "step"),
        length(step_s),
        super::search::LEAST_STEPS
    )
}
