//! UDP sockets with room for a burst, and why a port is not opened.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::sockopt;

/// Bytes of a receive buffer for the packets of one cycle, twice that in the kernel's own account.
pub(crate) const BURST_BYTES: usize = 1 << 20;

/// A port that the system does not open.
#[derive(Debug, thiserror::Error)]
#[error("cannot open UDP port {address}: {source}; {}", remedy(.source))]
pub struct BindError {
    /// The address and port.
    pub address: SocketAddr,
    /// The system's answer.
    pub source: io::Error,
}

/// Opens a port that others send to; its reads do not wait.
pub(crate) fn open(address: SocketAddr) -> Result<UdpSocket, BindError> {
    let prepared = |socket: UdpSocket| prepare(&socket, BURST_BYTES).map(|()| socket);
    UdpSocket::bind(address).and_then(prepared).map_err(|source| BindError { address, source })
}

/// Opens any port to send from, to addresses of one family; its reads do not wait.
pub(crate) fn open_any(is_ipv4: bool, buffer_bytes: usize) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any_address(is_ipv4))?;
    prepare(&socket, buffer_bytes).map(|()| socket)
}

/// Has the reads of a socket not wait, and makes room in it.
pub(crate) fn prepare(socket: &UdpSocket, buffer_bytes: usize) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    make_room(socket, buffer_bytes);
    Ok(())
}

/// Makes a socket's receive buffer as large as this user may have it: a burst waits there until the
/// thread runs.
pub(crate) fn make_room(socket: &UdpSocket, bytes: usize) {
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes));
}

/// Returns the local address that sends to all of a family.
pub(crate) fn any_address(is_ipv4: bool) -> SocketAddr {
    if is_ipv4 { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() }
}

/// What to do about an address and port that the system does not open.
fn remedy(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address; `ip address` lists its addresses"
        }
        io::ErrorKind::PermissionDenied => "a port below 1024 needs root",
        _ => "another program may use it, --port takes another one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_that_of_the_reason() {
        for (kind, part) in [
            (io::ErrorKind::AddrNotAvailable, "does not have that address"),
            (io::ErrorKind::PermissionDenied, "root"),
            (io::ErrorKind::AddrInUse, "--port"),
        ] {
            assert!(remedy(&kind.into()).contains(part), "{kind:?}");
        }
    }
}
