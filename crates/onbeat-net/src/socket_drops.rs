//! What the kernel dropped at a socket: datagrams that found its receive buffer full.

use std::fs::File;
use std::os::fd::AsFd;

/// Tables of UDP sockets of the calling thread's network namespace.
const TABLES: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];

/// Returns how many datagrams the kernel dropped at a UDP socket (column `drops` of proc(5)
/// `net/udp`); `None` where it does not say. The socket is one of the calling thread's namespace.
#[must_use]
pub fn socket_drops(socket: &impl AsFd) -> Option<u64> {
    let number = rustix::fs::fstat(socket.as_fd()).ok()?.st_ino;
    TABLES.iter().find_map(|path| {
        let table = std::io::read_to_string(File::open(path).ok()?).ok()?;
        drops_in(&table, number)
    })
}

/// The last column of the line whose tenth is the socket's number.
fn drops_in(table: &str, number: u64) -> Option<u64> {
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut own =
        lines.filter(|fields| fields.get(9).and_then(|text| text.parse().ok()) == Some(number));
    own.next()?.last()?.parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_line_of_a_socket_is_found_by_its_number() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            19: 0100007F:1E6F 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 0\n\
            20: 0100007F:1E70 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 1979\n";
        assert_eq!(drops_in(table, 4712), Some(1979));
        assert_eq!(drops_in(table, 4711), Some(0));
        assert_eq!(drops_in(table, 1), None);
    }

    #[test]
    fn an_own_socket_without_a_reader_drops_what_does_not_fit() {
        let _alone = crate::LOOPBACK.lock();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let Some(before) = socket_drops(&socket) else {
            println!("skipped: this kernel has no table of UDP sockets");
            return;
        };
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..SENT).for_each(|_| assert_eq!(sender.send_to(&[0; 1000], to).unwrap(), 1000));

        let received = received_of(&socket, || socket_drops(&socket).unwrap());
        assert_eq!((before, socket_drops(&socket)), (0, Some(SENT - received)));
    }

    /// Datagrams of 1000 bytes that a test sends.
    pub(crate) const SENT: u64 = 100;
    /// No buffer of 4096 bytes, which the kernel doubles, holds more of them.
    const MOST_HELD: u64 = 10;

    /// Returns how many of [`SENT`] datagrams a socket held, when each one is held or dropped. The
    /// kernel delivers them after their sending when its softirqs wait for a CPU.
    pub(crate) fn received_of(socket: &std::net::UdpSocket, drops: impl Fn() -> u64) -> u64 {
        let until = Instant::now() + Duration::from_secs(30);
        while drops() < SENT - MOST_HELD && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }

        socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 1000];
        let mut received = 0;
        while received + drops() < SENT && Instant::now() < until {
            received += std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count() as u64;
        }
        received
    }
}
