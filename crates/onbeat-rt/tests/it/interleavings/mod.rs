//! Interleavings that loom explores (`make loom`): the broadcast, the delayed lock, the latest value, the ring.

mod broadcast;
mod delayed_lock;
mod latest;
mod ring;
