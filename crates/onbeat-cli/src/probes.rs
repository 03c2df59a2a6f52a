//! The probes there are: those of the library, then those with a bus.

use onbeat::probe::Description;
use onbeat::record::Series;

/// All probes, in the order in which they are listed.
pub(crate) fn all() -> impl Iterator<Item = &'static Description> {
    onbeat::probe::ALL.into_iter().chain(onbeat_robot::probe::ALL)
}

/// What the probe of this name is about; nothing where there is none of the name.
pub(crate) fn series_of(name: &str) -> &'static [Series] {
    all().find(|probe| probe.name == name).map_or(&[], |probe| probe.series)
}
