//! When a frame was captured, received, decoded and published.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a stamp. `include/onbeat_frames.h` specifies them.
pub(super) mod word {
    pub(crate) const SEQUENCE: usize = 0;
    pub(crate) const NUMBER: usize = 1;
    pub(crate) const CAPTURE_NS: usize = 2;
    pub(crate) const RECEIVED_NS: usize = 3;
    pub(crate) const DECODED_NS: usize = 4;
    pub(crate) const PUBLISHED_NS: usize = 5;
    pub(crate) const SOURCE_NS: usize = 6;
    pub(crate) const TIME_SOURCE: usize = 7;
    pub(crate) const DROPPED_BEFORE: usize = 8;
}

/// Where the capture time of a frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimeSource {
    /// The first byte of the frame arrived then: the camera's own delay is not in it.
    #[default]
    Arrival = 1,
    /// The driver or the generator stamped it on this machine's clock.
    Device,
    /// The source's clock, fitted to arrivals: the earliest ones are taken as without delay.
    Fitted,
}

impl TimeSource {
    const fn from_number(number: u64) -> Self {
        match number {
            2 => Self::Device,
            3 => Self::Fitted,
            _ => Self::Arrival,
        }
    }
}

/// Times of one frame, `CLOCK_MONOTONIC` in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FrameTimes {
    /// When the picture was taken, as far as known.
    pub capture_ns: u64,
    /// When its last byte arrived.
    pub received_ns: u64,
    /// When it was decoded.
    pub decoded_ns: u64,
    /// When readers could see it; set by the writer.
    pub published_ns: u64,
    /// Time of the source's own clock, in ns, its zero unknown; 0 if it has none.
    pub source_ns: u64,
    /// Where `capture_ns` comes from.
    pub time_source: TimeSource,
    /// Frames that are known to have been dropped between the frame before and this one, by source,
    /// network or decoder.
    pub dropped_before: u64,
}

impl FrameTimes {
    pub(super) fn store(&self, stamp: &[AtomicU64]) {
        for (at, value) in [
            (word::CAPTURE_NS, self.capture_ns),
            (word::RECEIVED_NS, self.received_ns),
            (word::DECODED_NS, self.decoded_ns),
            (word::PUBLISHED_NS, self.published_ns),
            (word::SOURCE_NS, self.source_ns),
            (word::TIME_SOURCE, self.time_source as u64),
            (word::DROPPED_BEFORE, self.dropped_before),
        ] {
            if let Some(word) = stamp.get(at) {
                word.store(value, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn load(stamp: &[AtomicU64]) -> Self {
        let load = |at: usize| stamp.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        Self {
            capture_ns: load(word::CAPTURE_NS),
            received_ns: load(word::RECEIVED_NS),
            decoded_ns: load(word::DECODED_NS),
            published_ns: load(word::PUBLISHED_NS),
            source_ns: load(word::SOURCE_NS),
            time_source: TimeSource::from_number(load(word::TIME_SOURCE)),
            dropped_before: load(word::DROPPED_BEFORE),
        }
    }
}
