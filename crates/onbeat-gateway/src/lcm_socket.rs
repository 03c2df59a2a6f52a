//! UDP multicast as LCM uses it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, ipproto, socket_with, sockopt};

use super::error::GatewayError;

/// Receive buffer that is asked for, in bytes: LCM's own recommendation for high rates.
const WANTED_BUFFER: usize = 4 << 20;
/// Longest datagram.
const DATAGRAM: usize = 65_507;
/// Longest wait for a datagram.
const WAIT: Duration = Duration::from_millis(20);

/// Address of an LCM network, such as `udpm://239.255.76.67:7667?ttl=0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LcmUrl {
    /// Multicast group and port.
    pub group: SocketAddrV4,
    /// Number of networks that a datagram may cross; 0 stays on this machine.
    pub ttl: u32,
    /// Receive buffer that is asked for, in bytes: `recv_buf_size`, and no less than LCM's recommendation.
    pub buffer_bytes: usize,
}

impl FromStr for LcmUrl {
    type Err = GatewayError;

    fn from_str(text: &str) -> Result<Self, GatewayError> {
        let wrong = || GatewayError::LcmUrl { url: text.to_owned() };
        let rest = text.strip_prefix("udpm://").ok_or_else(wrong)?;
        let (group, options) = rest.split_once('?').unwrap_or((rest, ""));
        let group: SocketAddrV4 = group.parse().map_err(|_| wrong())?;
        let mut url = Self { group, ttl: 0, buffer_bytes: WANTED_BUFFER };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("ttl", ttl)) => {
                    url.ttl = ttl.parse().ok().filter(|ttl| *ttl < 256).ok_or_else(wrong)?;
                }
                Some(("recv_buf_size", bytes)) => {
                    let bytes: usize = bytes.parse().map_err(|_| wrong())?;
                    url.buffer_bytes = bytes.max(WANTED_BUFFER);
                }
                _ => return Err(wrong()),
            }
        }
        group.ip().is_multicast().then_some(url).ok_or_else(wrong)
    }
}

/// A socket that sends to an LCM network.
#[derive(Debug)]
pub struct LcmSender {
    socket: UdpSocket,
    group: SocketAddrV4,
}

impl LcmSender {
    /// Opens a socket with a port of its own: LCM distinguishes senders by it.
    ///
    /// # Errors
    /// [`GatewayError::Network`].
    pub fn open(url: LcmUrl) -> Result<Self, GatewayError> {
        let opened = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_multicast_ttl_v4(url.ttl)?;
            socket.set_multicast_loop_v4(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: opened().map_err(failed("open a socket for", url.group))?,
            group: url.group,
        })
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// [`GatewayError::Network`].
    pub fn send(&self, datagram: &[u8]) -> Result<(), GatewayError> {
        let sent = self.socket.send_to(datagram, self.group);
        sent.map(|_| ()).map_err(failed("send to", self.group))
    }
}

/// A socket that receives from an LCM network, as any number of programs do on one machine.
#[derive(Debug)]
pub struct LcmReceiver {
    socket: UdpSocket,
    group: SocketAddrV4,
    buffer_bytes: usize,
    datagram: Vec<u8>,
}

impl LcmReceiver {
    /// Joins the group, and asks for its receive buffer.
    ///
    /// # Errors
    /// [`GatewayError::Network`].
    pub fn open(url: LcmUrl) -> Result<Self, GatewayError> {
        let opened = || -> io::Result<(UdpSocket, usize)> {
            let flags = rustix::net::SocketFlags::CLOEXEC;
            let socket =
                socket_with(AddressFamily::INET, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
            sockopt::set_socket_reuseaddr(&socket, true)?;

            // Beyond the limit net.core.rmem_max with the right to, else up to it.
            if sockopt::set_socket_recv_buffer_size_force(&socket, url.buffer_bytes).is_err() {
                sockopt::set_socket_recv_buffer_size(&socket, url.buffer_bytes)?;
            }
            let buffer_bytes = sockopt::socket_recv_buffer_size(&socket)?;

            // Bound to the group, so that datagrams to other addresses do not arrive.
            bind(&socket, &url.group)?;
            let socket = UdpSocket::from(socket);
            socket.join_multicast_v4(url.group.ip(), &Ipv4Addr::UNSPECIFIED)?;
            socket.set_read_timeout(Some(WAIT))?;
            Ok((socket, buffer_bytes))
        };

        let (socket, buffer_bytes) = opened().map_err(failed("join", url.group))?;
        Ok(Self { socket, group: url.group, buffer_bytes, datagram: vec![0; DATAGRAM] })
    }

    /// Returns the size of the receive buffer that the kernel granted, in bytes. The kernel counts
    /// its own overhead too: it grants twice what is asked for.
    #[must_use]
    pub const fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Returns the next datagram and its sender; `None` if none came for 20 ms.
    ///
    /// # Errors
    /// [`GatewayError::Network`].
    pub fn receive(&mut self) -> Result<Option<(SocketAddrV4, &[u8])>, GatewayError> {
        match self.socket.recv_from(&mut self.datagram) {
            Ok((bytes, SocketAddr::V4(from))) => Ok(Some((from, &self.datagram[..bytes]))),
            Ok(_) => Ok(None),
            Err(why) => match why.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(failed("receive from", self.group)(why)),
            },
        }
    }
}

fn failed(what: &'static str, group: SocketAddrV4) -> impl FnOnce(io::Error) -> GatewayError {
    move |source| GatewayError::Network { what, group, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_lcm() {
        let url: LcmUrl = "udpm://239.255.76.67:7667?ttl=1".parse().unwrap();
        assert_eq!((url.group.to_string().as_str(), url.ttl), ("239.255.76.67:7667", 1));
        assert_eq!("udpm://239.255.76.67:7667".parse::<LcmUrl>().unwrap().ttl, 0);
        let url: LcmUrl = "udpm://239.255.76.67:7667?recv_buf_size=16777216&ttl=1".parse().unwrap();
        assert_eq!((url.buffer_bytes, url.ttl), (16 << 20, 1));
        for wrong in
            ["239.255.76.67:7667", "udpm://10.0.0.1:1", "udpm://239.0.0.1:1?x=1", "udpm://"]
        {
            let why = wrong.parse::<LcmUrl>().unwrap_err().to_string();
            assert!(
                why.contains(wrong) && why.contains("udpm://239.255.76.67:7667?ttl=0"),
                "{why}"
            );
        }
    }
}
