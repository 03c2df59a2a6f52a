//! Frames that are sent one at a time, each until its reply arrives.

use std::time::Duration;

use onbeat_rt::frame::{self, Command, LONGEST, Writer, register};

use super::error::{BusError, LISTEN_NS};
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
    frame: Box<[u8; LONGEST]>,
    reply: Box<[u8; LONGEST + 1]>,
}

impl<'w, W: Wire> FrameExchange<'w, W> {
    pub(crate) fn new(wire: &'w mut W) -> Self {
        let (frame, reply) = (Box::new([0; LONGEST]), Box::new([0; LONGEST + 1]));
        Self { wire, frames: 0, again: 0, frame, reply }
    }

    /// Sends a frame that `write` fills and waits for its [`reply`](Self::reply); returns what
    /// `write` did. Other frames that arrive are dropped.
    pub(crate) fn ask<T>(
        &mut self,
        purpose: u8,
        write: impl FnOnce(&mut Writer<'_>) -> T,
    ) -> Result<T, BusError> {
        let mut writer = Writer::new(&mut self.frame[..], purpose);
        let written = write(&mut writer);
        let length = writer.finish();
        let sent = &mut self.frame[..length];
        let first = self.frames;
        for tries in 0..MOST_TRIES {
            // A new number for each frame, or the late reply to one would be taken for that to the
            // next.
            frame::number(sent, self.frames as u16);
            self.wire.send(sent);
            self.frames += 1;
            self.again += u64::from(tries > 0);
            let until = self.wire.now().plus_ns(REPLY_WITHIN_NS);
            while let Some(length) = self.wire.receive(&mut self.reply[..], until) {
                self.wire.rest();
                let reply = &self.reply[..length];
                // To any of the tries: the reply to the first has the mail that its frame took from
                // a mailbox, and that to the second finds the mailbox empty.
                let is_of_try = |number: u64| {
                    frame::number(sent, number as u16);
                    frame::is_reply_to(reply, sent)
                };
                if frame::purpose_of(reply) == Some(purpose)
                    && (first..self.frames).rev().any(is_of_try)
                {
                    return Ok(written);
                }
            }

            self.wire.rest();
        }
        Err(BusError::NoAnswer(MOST_TRIES))
    }

    /// Returns the reply to the last frame, and whatever the buffer holds behind it.
    pub(crate) fn reply(&self) -> &[u8] {
        &self.reply[..]
    }

    /// Counts the frames that arrive while nothing is sent, other than replies with this purpose.
    pub(crate) fn listen(&mut self, own: Option<u8>) -> u64 {
        let until = self.wire.now().plus_ns(LISTEN_NS);
        let mut foreign = 0;
        while let Some(length) = self.wire.receive(&mut self.reply[..], until) {
            let purpose = frame::purpose_of(&self.reply[..length.min(LONGEST)]);
            foreign += u64::from(own.is_none() || purpose != own);
        }
        foreign
    }

    /// Leaves the devices this time, on the wire's clock. No frame is in flight.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.wire.now().plus_ns(time.as_nanos() as u64);
        let mut late = [0; LONGEST + 1];
        while self.wire.receive(&mut late, until).is_some() {}
        self.wire.rest();
    }
}

/// Appends reads of a register of the first of these devices, as many as fit; returns their number.
pub(super) fn push_reads(
    writer: &mut Writer<'_>,
    stations: impl Iterator<Item = u16>,
    at: u16,
    length: usize,
) -> usize {
    let fit = stations
        .take_while(|station| writer.push(Command::Fprd, register(*station, at), length).is_some());
    fit.count()
}
