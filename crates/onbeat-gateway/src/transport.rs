//! The two networks behind one way to send and one to receive.

use std::thread::sleep;
use std::time::Duration;

use super::error::GatewayError;
use super::lcm_packets::{LcmAccount, LcmAssembler, datagrams};
use super::lcm_socket::{LcmReceiver, LcmSender};
use super::zmq_socket::{NetworkMessage, ZmqPublisher, ZmqSubscriber};

/// Interval between two looks at a publisher that sends nothing.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// A record on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedRecord<'r> {
    pub(super) number: u64,
    pub(super) at_ns: u64,
    pub(super) bytes: &'r [u8],
}

/// Where records go.
#[derive(Debug)]
pub(super) enum Outlet {
    Lcm { sender: LcmSender, sequence: u32 },
    Zmq(ZmqPublisher),
}

impl Outlet {
    /// Opens `udpm://...` or `tcp://...`.
    pub(super) fn open(url: &str) -> Result<Self, GatewayError> {
        match url.split_once("://") {
            Some(("udpm", _)) => {
                Ok(Self::Lcm { sender: LcmSender::open(url.parse()?)?, sequence: 0 })
            }
            Some(("tcp", _)) => Ok(Self::Zmq(ZmqPublisher::bind(url)?)),
            _ => Err(GatewayError::Transport { url: url.to_owned() }),
        }
    }

    pub(super) fn send(
        &mut self,
        name: &str,
        record: NumberedRecord<'_>,
    ) -> Result<(), GatewayError> {
        match self {
            Self::Lcm { sender, sequence } => {
                for datagram in datagrams(name, *sequence, record.bytes) {
                    sender.send(&datagram)?;
                }
                *sequence = sequence.wrapping_add(1);
            }
            Self::Zmq(publisher) => {
                publisher.send(name, [record.number, record.at_ns], record.bytes);
            }
        }
        Ok(())
    }

    /// Does what a network wants regularly.
    pub(super) fn poll(&mut self) {
        if let Self::Zmq(publisher) = self {
            publisher.poll();
        }
    }

    /// Returns whether records wait for a peer that reads slowly.
    pub(super) fn has_waiting(&self) -> bool {
        match self {
            Self::Lcm { .. } => false,
            Self::Zmq(publisher) => publisher.has_waiting(),
        }
    }

    /// Returns the number of records that were dropped because a peer did not read.
    pub(super) const fn dropped(&self) -> u64 {
        match self {
            Self::Lcm { .. } => 0,
            Self::Zmq(publisher) => publisher.dropped(),
        }
    }
}

/// Where messages come from.
#[derive(Debug)]
pub(super) enum Inlet {
    Lcm { receiver: LcmReceiver, assembler: LcmAssembler },
    Zmq(ZmqSubscriber),
}

impl Inlet {
    /// Opens `udpm://...` or `tcp://...`.
    pub(super) fn open(url: &str) -> Result<Self, GatewayError> {
        match url.split_once("://") {
            Some(("udpm", _)) => {
                let receiver = LcmReceiver::open(url.parse()?)?;
                Ok(Self::Lcm { receiver, assembler: LcmAssembler::default() })
            }
            Some(("tcp", _)) => Ok(Self::Zmq(ZmqSubscriber::open(url)?)),
            _ => Err(GatewayError::Transport { url: url.to_owned() }),
        }
    }

    /// Returns the size of the kernel's receive buffer, in bytes; 0 where the peer waits instead of
    /// losing messages.
    pub(super) const fn buffer_bytes(&self) -> usize {
        match self {
            Self::Lcm { receiver, .. } => receiver.buffer_bytes(),
            Self::Zmq(_) => 0,
        }
    }

    /// Returns the next message; `None` after some milliseconds without one.
    pub(super) fn receive(&mut self) -> Result<Option<NetworkMessage>, GatewayError> {
        match self {
            Self::Lcm { receiver, assembler } => {
                let Some((from, datagram)) = receiver.receive()? else { return Ok(None) };
                let message = assembler.take(from, datagram);
                Ok(message.map(|(name, payload)| NetworkMessage { name, payload }))
            }
            Self::Zmq(subscriber) => {
                let message = subscriber.receive();
                if message.is_none() {
                    sleep(LOOK_EVERY);
                }
                Ok(message)
            }
        }
    }

    pub(super) fn account(&self) -> LcmAccount {
        match self {
            Self::Lcm { assembler, .. } => assembler.account(),
            Self::Zmq(subscriber) => {
                let [received, lost, strange] = subscriber.counts();
                LcmAccount { received, lost, strange }
            }
        }
    }
}
