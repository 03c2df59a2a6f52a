//! Idle states and frequencies beside the figures, in words.

use super::best::Overall;
use super::cell::CellSummary;
use super::once::grouped;
use super::summary::Summary;
use super::units::{counted, percent};
use onbeat_host::idle::PowerUse;

/// Idle states, bound and frequency of the cell that the answer is about, in a line; of several cells
/// with its name.
#[must_use]
pub(super) fn in_one_line(cells: &[CellSummary], verdict: &Overall) -> Option<String> {
    let answer = verdict.best.as_ref().or(verdict.worst.as_ref());
    let is_answer = |cell: &&CellSummary| answer.is_some_and(|answer| cell.cell() == *answer);
    let cell = cells.iter().find(is_answer).or_else(|| cells.first())?;
    let words = in_words(cell.power.as_ref()?);
    Some(if cells.len() > 1 { format!("{}: {words}", cell.tuning) } else { words })
}

/// `deepest idle state C1E (10 us to leave), 4,812 times, 62 % of the time; bound: no bound;
/// frequency 2.10 to 3.40 GHz (powersave)`.
#[must_use]
pub fn in_words(used: &PowerUse) -> String {
    let idle = match used.deepest() {
        Some(state) => {
            let rested: u64 = used.states.iter().map(|state| state.time_us).sum();
            let share = percent(state.time_us as f64 / rested.max(1) as f64);
            format!(
                "deepest idle state {}, entered {}, {share} of the idle time",
                used.deepest_in_words(),
                counted(state.entered, "time")
            )
        }
        None if used.states.is_empty() => {
            "the kernel lists no idle states, as in guests that leave idling to their host"
                .to_owned()
        }
        None => "no idle state was entered".to_owned(),
    };
    let bound = match used.bound_in_words().as_str() {
        "unknown" => {
            "its bound (/dev/cpu_dma_latency) cannot be read: no root, or no such device".to_owned()
        }
        bound if bound.starts_with("no bound") => format!("{bound} (/dev/cpu_dma_latency)"),
        bound => format!("bound {bound} (/dev/cpu_dma_latency)"),
    };
    let frequency = match used.frequency_in_words().as_str() {
        "unknown" => "frequency unknown (no cpufreq)".to_owned(),
        range => format!("frequency {range}"),
    };
    format!("{idle}; {bound}; {frequency}")
}

/// What a run is compared by: the same for all its cells, or each with its name.
pub(super) fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    type Words = fn(&PowerUse) -> Option<String>;
    let of: [(&'static str, Words); 3] = [
        ("bound on idle states during the run", |used| Some(used.bound_in_words())),
        ("deepest idle state entered", |used| Some(used.deepest_in_words())),
        // Two readings of a clock that changes all the time differ in any two runs.
        ("frequency during the run", |used| {
            let is_counted = used.frequency.as_ref().is_some_and(|of| of.is_counted);
            is_counted.then(|| used.frequency_in_words())
        }),
    ];
    let cells: Vec<(&CellSummary, &PowerUse)> =
        summary.cells.iter().filter_map(|cell| Some((cell, cell.power.as_ref()?))).collect();
    let value = |words: Words| -> Option<String> {
        let all: Vec<(String, String)> = cells
            .iter()
            .filter_map(|(cell, used)| Some((words(used)?, cell.tuning.clone())))
            .collect();
        let (first, _) = all.first()?;
        if all.iter().all(|(value, _)| value == first) {
            return Some(first.clone());
        }
        // Of a bench, tunings differ on purpose: each value once, with those that had it.
        let by_value = grouped(all).into_iter();
        let words = by_value.map(|(value, names)| format!("{}: {value}", names.join(", ")));
        Some(words.collect::<Vec<_>>().join("; "))
    };
    of.into_iter().filter_map(|(name, words)| Some((name, value(words)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_host::idle::{BoundUse, FrequencyUse, IdleStateUse};

    #[test]
    fn idle_state_bound_and_frequency_stand_in_a_line() {
        let state = |name: &str, exit_us, entered, time_us| IdleStateUse {
            name: name.to_owned(),
            exit_us,
            entered,
            time_us,
        };
        let used = PowerUse {
            cpus: "3".to_owned(),
            bound: Some(BoundUse { first_us: Some(20), last_us: Some(20) }),
            driver: Some("intel_idle".to_owned()),
            states: vec![
                state("POLL", 0, 4, 1_000),
                state("C1E", 10, 4_812, 9_000),
                state("C6", 133, 0, 0),
            ],
            frequency: Some(FrequencyUse {
                least_khz: 800_000,
                most_khz: 3_400_000,
                is_counted: true,
                governor: "powersave".to_owned(),
            }),
            ..PowerUse::default()
        };
        assert_eq!(
            in_words(&used),
            "deepest idle state C1E (10 us to leave), entered 4,812 times, 90 % of the idle time; \
             bound 20 us (/dev/cpu_dma_latency); frequency 0.80 to 3.40 GHz (powersave)"
        );
        let later = PowerUse {
            bound: Some(BoundUse { first_us: None, last_us: Some(0) }),
            ..PowerUse::default()
        };
        assert!(in_words(&later).contains("; no bound, later 0 us (/dev/cpu_dma_latency); "));
        assert_eq!(
            in_words(&PowerUse::default()),
            "the kernel lists no idle states, as in guests that leave idling to their host; \
             its bound (/dev/cpu_dma_latency) cannot be read: no root, or no such device; frequency unknown (no cpufreq)"
        );
    }
}
