//! The first packets: which devices answer, so that a run begins with known neighbours.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::packet::{self, WireHeader};

/// Session of the packets before a run; those of runs are greater.
pub(crate) const BEFORE_RUN: u32 = 0;
/// How long each round of packets waits.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);

/// Sends packets of `bytes` to every device until it answers, in as many rounds at most; returns those
/// that did not. Reads of the socket do not wait afterwards.
pub(crate) fn silent(
    socket: &UdpSocket,
    devices: &[SocketAddr],
    bytes: usize,
    rounds: u64,
) -> io::Result<Vec<SocketAddr>> {
    let mut silent: Vec<(u16, SocketAddr)> = (0..).zip(devices.iter().copied()).collect();
    let mut message = vec![0; bytes];
    let mut answer = [0; packet::MOST_BYTES];
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;

    for sequence in 0..rounds {
        for (device, address) in &silent {
            WireHeader::echo(*device, sequence, BEFORE_RUN).write(&mut message);
            // A refusal shows as a missing answer.
            let _ = socket.send_to(&message, address);
        }
        let until = Instant::now() + ANSWER_WITHIN;
        while Instant::now() < until && !silent.is_empty() {
            if let Ok((_, from)) = socket.recv_from(&mut answer) {
                silent.retain(|(_, address)| *address != from);
            }
        }
    }
    socket.set_nonblocking(true)?;
    Ok(silent.into_iter().map(|(_, address)| address).collect())
}
