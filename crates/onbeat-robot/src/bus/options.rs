//! Options of a bus, and its counters.

/// When a cycle reads the reply to its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeMode {
    /// A cycle reads the reply to the previous frame, sends the next frame, and then runs the
    /// controller. The time of sending does not depend on the controller. An input reaches an
    /// output two cycles later.
    Pipelined,
    /// A cycle sends, waits for the reply, and then runs the controller: one cycle less delay, at
    /// the cost of the wait.
    SameCycle {
        /// Maximum time to wait for the reply, in ns.
        reply_within_ns: u64,
    },
}

/// Options of a bus.
#[derive(Clone, Copy, Debug)]
pub struct BusOptions {
    /// When replies are read.
    pub mode: ExchangeMode,
    /// Cycle period, in ns.
    pub period_ns: u64,
    /// Whether releases follow the reference clock of the segment, if it has one.
    pub follow_clock: bool,
}

/// Counters since the bus came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Cycles.
    pub cycles: u64,
    /// Cycles in which every frame was answered in time.
    pub answered: u64,
    /// Cycles in which a frame was not answered in time. The frame in flight is in neither number.
    pub lost: u64,
    /// Cycles with an unexpected working counter.
    pub counter_off: u64,
    /// Frames sent.
    pub sent: u64,
    /// Replies that arrived after their cycle.
    pub late: u64,
    /// Received frames that were not sent, or are damaged.
    pub unknown: u64,
    /// Replies received more than once.
    pub duplicate: u64,
    /// Frames of another MainDevice.
    pub foreign: u64,
    /// Frames of a ring of cables that were sent once more.
    pub repeated: u64,
    /// Events dropped because the queue was full.
    pub events_lost: u64,
}

impl BusCounts {
    /// Returns the number of unexpected frames, late ones excluded.
    #[must_use]
    pub const fn strange(&self) -> u64 {
        self.unknown + self.duplicate + self.foreign
    }
}
