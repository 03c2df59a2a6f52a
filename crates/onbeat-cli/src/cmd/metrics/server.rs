//! A server of one page: GET /metrics.
//!
//! What a client sends is not trusted: a request has 4 KiB and a second, clients are answered one
//! after the other, and nothing can be written. What is served are figures of a run and the words of its command
//! line's tunings and loads; who may not read them is kept out by the address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricsFailure {
    #[error(
        "cannot listen on {address} for --metrics: {source}; name another port, or 0 for a free one"
    )]
    Listen { address: SocketAddr, source: io::Error },
}

/// Longest request.
const LONGEST_REQUEST: usize = 4096;
/// Time of a client for its request, and again for the answer.
const WITHIN: Duration = Duration::from_secs(1);
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures in both text formats.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    pub(super) text: String,
    pub(super) open_metrics: String,
}

pub(super) struct MetricsServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsServer {
    pub(super) fn open(address: SocketAddr) -> Result<Self, MetricsFailure> {
        let failed = |source| MetricsFailure::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a client, at most this long, and answers it.
    pub(super) fn answer(&self, exposition: &Exposition, at_most: Duration) {
        let timeout = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut fds = [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).unwrap_or(0) == 0 {
            return;
        }
        // A client that has gone, or is too slow, has no answer.
        if let Ok((mut client, _)) = self.listener.accept() {
            let _ = talk(&mut client, exposition);
        }
    }
}

fn talk(client: &mut TcpStream, exposition: &Exposition) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(WITHIN))?;
    let head = head(client)?;
    let (status, kind, body) = answer_to(&head, exposition);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

/// Reads a request up to its empty line.
fn head(client: &mut TcpStream) -> io::Result<String> {
    let until = Instant::now() + WITHIN;
    let mut bytes = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() >= LONGEST_REQUEST {
            return Err(ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        let mut some = [0; 1024];
        let read = client.read(&mut some)?;
        bytes.extend(&some[..read]);
        if read == 0 || bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// Status, content type and content for a request.
fn answer_to<'e>(head: &str, exposition: &'e Exposition) -> (&'static str, &'static str, &'e str) {
    let mut lines = head.lines();
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, "HTTP/1.0" | "HTTP/1.1"] = first[..] else {
        return ("400 Bad Request", TEXT, "not a request of HTTP/1.1\n");
    };
    if method != "GET" {
        return ("405 Method Not Allowed", TEXT, "only GET is answered\n");
    }
    if path.split('?').next() != Some("/metrics") {
        return ("404 Not Found", TEXT, "the metrics are at /metrics\n");
    }

    let accepts = lines.filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    });
    if accepts {
        // Before the first figures, the format still asks for its end.
        let text = exposition.open_metrics.as_str();
        ("200 OK", OPEN_METRICS, if text.is_empty() { "# EOF\n" } else { text })
    } else {
        ("200 OK", TEXT, &exposition.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_client_accepts() {
        let both = Exposition { text: "a 1\n".to_owned(), open_metrics: "a 1\n# EOF\n".to_owned() };
        let asked = |head: &str| answer_to(head, &both);
        assert_eq!(asked("GET /metrics HTTP/1.1\r\n\r\n"), ("200 OK", TEXT, "a 1\n"));
        let open = "GET /metrics?x HTTP/1.1\r\naccept: text/plain;q=0.1,application/openmetrics-text;version=1.0.0\r\n\r\n";
        assert_eq!(asked(open), ("200 OK", OPEN_METRICS, "a 1\n# EOF\n"));
        assert_eq!(answer_to(open, &Exposition::default()).2, "# EOF\n");
        for (head, status) in [
            ("POST /metrics HTTP/1.1", "405"),
            ("GET / HTTP/1.1", "404"),
            ("GET /metrics HTTP/2", "400"),
            ("", "400"),
        ] {
            assert!(asked(head).0.starts_with(status), "{head}");
        }
    }
}
