//! All probes: those of the library, then those with a bus.

use onbeat::probe::Description;
use onbeat::record::Series;

/// All probes, in the order of the help.
pub(crate) fn all() -> impl Iterator<Item = &'static Description> {
    onbeat::probe::ALL.into_iter().chain(onbeat_net::PROBES).chain(onbeat_robot::probe::ALL)
}

/// Whether runs of this probe have no bus, whose events could be counted.
pub(crate) fn is_without_bus(name: &str) -> bool {
    let mut without = onbeat::probe::ALL.into_iter().chain(onbeat_net::PROBES);
    name == "watch" || without.any(|probe| probe.name == name)
}

/// The primary series of a probe; empty for an unknown name.
pub(crate) fn series_of(name: &str) -> &'static [Series] {
    all().find(|probe| probe.name == name).map_or(&[], |probe| probe.series)
}
