//! `network`: a flood of small UDP packets on the loopback, each of which passes the whole network
//! stack and a softirq.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::builtin::{BuiltIn, WorkerContext};
use super::event::PartWork;

/// Payload of a packet, in bytes, as in the paper's flood.
const PAYLOAD: usize = 10;
const PATIENCE: Duration = Duration::from_millis(50);

/// The part `network`: thread 0 receives, thread 1 sends.
pub(super) struct NetworkLoad {
    receiver: UdpSocket,
    sender: UdpSocket,
    sent: AtomicU64,
    received: AtomicU64,
}

impl NetworkLoad {
    /// Opens two connected sockets on the loopback.
    pub(super) fn new() -> Result<Self, std::io::Error> {
        let any_port = |address: SocketAddr| UdpSocket::bind(address);
        let receiver = any_port((Ipv4Addr::LOCALHOST, 0).into())
            .or_else(|_| any_port((Ipv6Addr::LOCALHOST, 0).into()))?;
        let address = receiver.local_addr()?;
        let sender = UdpSocket::bind((address.ip(), 0))?;
        sender.connect(address)?;
        // Connected both ways, so that the receiver accepts packets from this sender only.
        receiver.connect(sender.local_addr()?)?;
        receiver.set_read_timeout(Some(PATIENCE))?;
        sender.set_write_timeout(Some(PATIENCE))?;

        Ok(Self { receiver, sender, sent: AtomicU64::new(0), received: AtomicU64::new(0) })
    }
}

impl BuiltIn for NetworkLoad {
    fn plan(&self) -> String {
        format!("network: flood of UDP packets of {PAYLOAD} bytes on the loopback")
    }

    fn threads(&self) -> usize {
        2
    }

    fn work(&self, thread: usize, context: &WorkerContext) -> Result<(), std::io::Error> {
        let mut packet = [0x55; PAYLOAD];
        while !context.is_over() {
            let (outcome, count) = if thread == 0 {
                (self.receiver.recv(&mut packet), &self.received)
            } else {
                (self.sender.send(&packet), &self.sent)
            };
            match outcome {
                Ok(_) => count.fetch_add(1, Ordering::Relaxed),
                Err(error) if is_passing(&error) => 0,
                Err(error) => return Err(error),
            };
        }

        Ok(())
    }

    fn did(&self, _: Duration) -> PartWork {
        PartWork::Network {
            packets_sent: self.sent.load(Ordering::Relaxed),
            packets_received: self.received.load(Ordering::Relaxed),
        }
    }
}

/// Whether the error is expected in a flood: a full queue, or lack of memory.
fn is_passing(error: &std::io::Error) -> bool {
    let no_buffers = error.raw_os_error() == Some(libc::ENOBUFS);
    no_buffers
        || matches!(
            error.kind(),
            ErrorKind::WouldBlock
                | ErrorKind::TimedOut
                | ErrorKind::Interrupted
                | ErrorKind::OutOfMemory
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::builtin::try_out;
    use std::sync::Arc;

    #[test]
    fn packets_are_sent_and_arrive() {
        let is_enough = |did: &PartWork| {
            matches!(did, PartWork::Network { packets_sent: 101.., packets_received: 1.. })
        };
        let (did, words) = try_out(Arc::new(NetworkLoad::new().unwrap()), is_enough);
        let PartWork::Network { packets_sent, packets_received } = did else { panic!("{did:?}") };
        assert!(packets_sent > 100 && packets_received > 0, "{did:?}");
        assert!(words.is_empty(), "{words:?}");
    }
}
