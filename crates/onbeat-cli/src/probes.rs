//! The probes there are: those of the library, then those with a bus.

use onbeat::probe::Description;

/// All probes, in the order in which they are listed.
pub(crate) fn all() -> impl Iterator<Item = &'static Description> {
    onbeat::probe::ALL.into_iter().chain(onbeat_robot::probe::ALL)
}
