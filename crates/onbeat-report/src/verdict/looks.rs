//! When a run that goes on is judged: a few looks that share the level, so that looking is free.
//!
//! Whoever looks each second until it suits sees PASS at the allowed rate in a third of all runs.
//! The verdict of a run that is watched changes at looks only: after 10, 14, 20, 28, 40, 57, 80 …
//! seconds, each at the level divided by their number.

/// The first look, in seconds.
const FIRST_S: f64 = 10.0;

/// The looks at a run of at most so many seconds; the last one is at its end.
#[must_use]
pub fn looks(longest_s: f64) -> Vec<f64> {
    let on_grid = (0..).map(|step| (FIRST_S * 2_f64.powf(f64::from(step) / 2.0)).round());
    let mut looks: Vec<f64> = on_grid.take_while(|at| *at < longest_s * 0.999).collect();
    looks.push(longest_s);
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_half_as_far_apart_as_the_run_is_long_and_end_with_it() {
        assert_eq!(
            looks(300.0),
            [10.0, 14.0, 20.0, 28.0, 40.0, 57.0, 80.0, 113.0, 160.0, 226.0, 300.0]
        );
        assert_eq!(looks(10.0), [10.0]);
        assert_eq!(looks(2.5), [2.5], "a short run is looked at once");
    }
}
