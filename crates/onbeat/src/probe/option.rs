//! The options of one probe, as its description lists them.

/// An option of one probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeOption {
    /// Without the dashes.
    pub name: &'static str,
    /// Help: at most twelve words; details after a line break.
    pub help: &'static str,
    /// Default as typed; `None` for an option without one.
    pub default: Option<&'static str>,
    /// The kind of its value.
    pub kind: OptionKind,
}

/// The kind of value that a [`ProbeOption`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A time, such as `200us`.
    Time,
    /// A whole number.
    Count,
    /// A share, such as `95%`.
    Percent,
    /// Something to read from or write to.
    Place,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name or a path.
    Name,
    /// None: the option is there or not.
    Switch,
}
