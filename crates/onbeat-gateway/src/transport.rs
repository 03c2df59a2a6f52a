//! All networks behind one way to send and one to receive.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::error::GatewayError;
use super::lcm_packets::{LcmAccount, LcmAssembler, LcmLimits, datagrams};
use super::lcm_socket::{LcmReceiver, LcmSender};
use super::ros2_node::{Ros2Receiver, Ros2Sender};
use super::transport_message::{NetworkChannel, NetworkMessage, NumberedRecord};
use super::zmq_socket::{ZmqPublisher, ZmqSubscriber};

/// Interval between two looks at a peer that sends nothing.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Where records go.
#[derive(Debug)]
pub(super) enum Outlet {
    Lcm { sender: LcmSender, sequence: u32 },
    Zmq(ZmqPublisher),
    Ros2(Box<Ros2Sender>),
}

impl Outlet {
    /// Opens `udpm://...`, `tcp://...` or `ros2://...` for these channels.
    pub(super) fn open(
        url: &str,
        channels: &[NetworkChannel],
        most_memory: usize,
    ) -> Result<Self, GatewayError> {
        match url.split_once("://") {
            Some(("udpm", _)) => {
                Ok(Self::Lcm { sender: LcmSender::open(url.parse()?)?, sequence: 0 })
            }
            Some(("tcp", _)) => Ok(Self::Zmq(ZmqPublisher::bind(url, most_memory)?)),
            Some(("ros2", _)) => {
                let sender = Ros2Sender::open(url.parse()?, channels)?;
                Ok(Self::Ros2(Box::new(sender)))
            }
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
            Self::Ros2(sender) => sender.send(name, record.bytes),
        }
        Ok(())
    }

    /// Does what a network wants regularly.
    pub(super) fn poll(&mut self) -> Result<(), GatewayError> {
        match self {
            Self::Lcm { .. } => Ok(()),
            Self::Zmq(publisher) => {
                publisher.poll();
                Ok(())
            }
            Self::Ros2(sender) => sender.poll(),
        }
    }

    /// Returns whether records wait for a peer that reads slowly.
    pub(super) fn has_waiting(&self) -> bool {
        match self {
            Self::Lcm { .. } => false,
            Self::Zmq(publisher) => publisher.has_waiting(),
            Self::Ros2(sender) => sender.has_waiting(),
        }
    }

    /// Returns the number of records that were dropped because a peer did not read.
    pub(super) const fn dropped(&self) -> u64 {
        match self {
            Self::Lcm { .. } => 0,
            Self::Zmq(publisher) => publisher.dropped(),
            Self::Ros2(sender) => sender.dropped(),
        }
    }

    /// Returns the number of peers that were refused or disconnected at a limit.
    pub(super) const fn refused_peers(&self) -> u64 {
        match self {
            Self::Lcm { .. } | Self::Ros2(_) => 0,
            Self::Zmq(publisher) => publisher.refused_peers(),
        }
    }
}

/// Where messages come from.
#[derive(Debug)]
pub(super) enum Inlet {
    Lcm { receiver: LcmReceiver, assembler: LcmAssembler },
    Zmq(ZmqSubscriber),
    Ros2(Ros2Receiver),
}

impl Inlet {
    /// Opens `udpm://...`, `tcp://...` or `ros2://...` for these channels.
    pub(super) fn open(
        url: &str,
        channels: &[NetworkChannel],
        limits: LcmLimits,
    ) -> Result<Self, GatewayError> {
        match url.split_once("://") {
            Some(("udpm", _)) => {
                let receiver = LcmReceiver::open(url.parse()?)?;
                Ok(Self::Lcm { receiver, assembler: LcmAssembler::new(limits) })
            }
            Some(("tcp", _)) => Ok(Self::Zmq(ZmqSubscriber::open(url, limits.most_memory)?)),
            Some(("ros2", _)) => Ok(Self::Ros2(Ros2Receiver::open(url.parse()?, channels)?)),
            _ => Err(GatewayError::Transport { url: url.to_owned() }),
        }
    }

    /// Returns the size of the kernel's receive buffer, in bytes; 0 where it is not
    /// the place in which messages are lost.
    pub(super) const fn buffer_bytes(&self) -> usize {
        match self {
            Self::Lcm { receiver, .. } => receiver.buffer_bytes(),
            Self::Zmq(_) | Self::Ros2(_) => 0,
        }
    }

    /// Returns the next message; `None` after some milliseconds without one.
    pub(super) fn receive(&mut self) -> Result<Option<NetworkMessage>, GatewayError> {
        match self {
            Self::Lcm { receiver, assembler } => {
                let received = receiver.receive()?;
                let now = Instant::now();
                let Some((from, datagram)) = received else {
                    assembler.expire(now);
                    return Ok(None);
                };
                let message = assembler.take(from, datagram, now);
                Ok(message.map(|(name, payload)| NetworkMessage { name, payload }))
            }
            Self::Zmq(subscriber) => Ok(subscriber.receive().or_else(pause)),
            Self::Ros2(receiver) => Ok(receiver.receive()?.or_else(pause)),
        }
    }

    pub(super) fn account(&self) -> LcmAccount {
        match self {
            Self::Lcm { assembler, .. } => assembler.account(),
            Self::Zmq(subscriber) => subscriber.account(),
            Self::Ros2(receiver) => receiver.account(),
        }
    }
}

/// Waits before the next look; returns without a message.
fn pause() -> Option<NetworkMessage> {
    sleep(LOOK_EVERY);
    None
}
