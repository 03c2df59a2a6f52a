//! Frames that are sent one at a time, each until its reply arrives.

use std::time::Duration;

use onbeat_rt::frame::{self, LONGEST};

use super::error::BusError;
use onbeat_ethercat::wire::Wire;

/// Time after which a frame is sent again, in ns.
pub(super) const REPLY_WITHIN_NS: u64 = 5_000_000;
/// Maximum number of attempts: a second in all, for which a busy machine may stop devices that are
/// simulated.
pub(super) const MOST_TRIES: u32 = 200;

/// A wire during bring-up, and the number of frames sent on it.
#[derive(Debug)]
pub(crate) struct FrameExchange<'w, W> {
    pub(crate) wire: &'w mut W,
    pub(crate) frames: u64,
    /// Frames sent again without a reply.
    pub(crate) again: u64,
}

impl<'w, W: Wire> FrameExchange<'w, W> {
    pub(crate) fn new(wire: &'w mut W) -> Self {
        Self { wire, frames: 0, again: 0 }
    }

    /// Sends a frame and waits for its reply; returns the reply's length. Other frames that arrive
    /// are dropped.
    pub(crate) fn exchange(
        &mut self,
        frame: &mut [u8],
        reply: &mut [u8],
    ) -> Result<usize, BusError> {
        for tries in 0..MOST_TRIES {
            frame::number(frame, self.frames as u16);
            self.wire.send(frame);
            self.frames += 1;
            self.again += u64::from(tries > 0);
            let until = self.wire.now().plus_ns(REPLY_WITHIN_NS);
            while let Some(length) = self.wire.receive(reply, until) {
                self.wire.rest();
                if frame::purpose_of(reply).is_some() && frame::is_reply_to(&reply[..length], frame)
                {
                    return Ok(length);
                }
            }

            self.wire.rest();
        }
        Err(BusError::NoAnswer(MOST_TRIES))
    }

    /// Leaves the devices this time, on the wire's clock. No frame is in flight.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.wire.now().plus_ns(time.as_nanos() as u64);
        let mut late = [0; LONGEST + 1];
        while self.wire.receive(&mut late, until).is_some() {}
        self.wire.rest();
    }
}
