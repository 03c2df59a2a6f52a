//! The clock that runs were measured by: machines and guests under KVM have the real one, guests of
//! `onbeat vm` may have another, which is among the facts of their host.

use std::path::{Path, PathBuf};

use onbeat::host::Host;

/// Why runs have no figures in one table.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClockFailure {
    #[error(
        "{path} was recorded in a guest by the free clock, which has no latencies: every kernel has the emulator's; \
         run the guest with --clock virtual"
    )]
    Free { path: PathBuf },
    #[error(
        "{path} was measured by the {clock} clock, {other_path} by the {other} clock; only runs of one clock are comparable"
    )]
    Mixed { path: PathBuf, clock: String, other_path: PathBuf, other: String },
}

const FACT: &str = "clock";
const REAL: &str = "real";
const FREE: &str = "free";

/// Refuses runs by the free clock, and runs by several clocks.
pub(crate) fn check<'r>(
    runs: impl IntoIterator<Item = (&'r Path, &'r Host)>,
) -> Result<(), ClockFailure> {
    let mut first: Option<(&Path, &str)> = None;
    for (path, host) in runs {
        let clock = host.fact(FACT).unwrap_or(REAL);
        if clock == FREE {
            return Err(ClockFailure::Free { path: path.to_owned() });
        }

        let (other_path, other) = *first.get_or_insert((path, clock));
        if other != clock {
            return Err(ClockFailure::Mixed {
                path: path.to_owned(),
                clock: clock.to_owned(),
                other_path: other_path.to_owned(),
                other: other.to_owned(),
            });
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_clock_are_comparable_and_none_of_the_free_one() {
        let host = |clock: Option<&str>| Host::from_facts([(FACT, clock.map(str::to_owned))]);
        let machine = host(None);
        let kvm = host(Some("real"));
        let counted = host(Some("virtual"));
        let free = host(Some("free"));
        let [a, b] = ["a", "b"].map(Path::new);

        assert_eq!(check([(a, &machine), (b, &kvm)]), Ok(()));
        assert_eq!(check([(a, &counted), (b, &counted)]), Ok(()));
        let mixed = check([(a, &machine), (b, &counted)]).unwrap_err().to_string();
        assert_eq!(
            mixed,
            "b was measured by the virtual clock, a by the real clock; only runs of one clock are comparable"
        );
        let refused = check([(a, &free)]).unwrap_err().to_string();
        assert!(refused.starts_with("a was recorded in a guest by the free clock"), "{refused}");
    }
}
