//! A server of one page: GET /metrics.
//!
//! What a client sends is not trusted: a request has 4 KiB and five seconds, clients are
//! answered one after the other, and nothing can be written. What is served are figures of a run
//! and the words of its command line's tunings and loads; who may not read them is kept out by the
//! address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_report::export::exposition::Family;
use onbeat_report::export::form::Form;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::push::CollectorUrl;

/// The metrics cannot be served, or were not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricsFailure {
    #[error("cannot listen on {address} for the metrics: {source}; {}", remedy(.source))]
    Listen { address: SocketAddr, source: io::Error },
    #[error(
        "the last figures of {} did not reach {to}; `onbeat export --openmetrics FILE` writes them to a file",
        run.display()
    )]
    NotTaken { to: CollectorUrl, run: PathBuf },
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::AddrNotAvailable => {
            "name an address of this machine, or 0.0.0.0 for all of them"
        }
        ErrorKind::PermissionDenied => "name a port from 1024 on, which takes no root",
        _ => "name another port, or 0 for a free one",
    }
}

/// Longest request.
const LONGEST_REQUEST: usize = 4096;
/// Time of a client for its request, and again for the answer. A busy machine may stop one for a
/// second or more; those that wait behind a silent one are scraped within their usual ten seconds.
const WITHIN: Duration = Duration::from_secs(5);

/// What is answered to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Metrics(Form),
    /// Status and sentence.
    Refused(&'static str, &'static str),
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
    pub(super) fn answer(&self, families: &[Family], at_most: Duration) {
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
            let _ = talk(&mut client, families);
        }
    }
}

fn talk(client: &mut TcpStream, families: &[Family]) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(WITHIN))?;
    let head = head(client)?;
    let (status, form, body) = match answer_to(&head) {
        Answer::Metrics(form) => ("200 OK", form, form.body(families)),
        Answer::Refused(status, sentence) => (status, Form::Text, sentence.into()),
    };
    let kind = form.content_type();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    client.write_all(&body)
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

fn answer_to(head: &str) -> Answer {
    let mut lines = head.lines();
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, path, "HTTP/1.0" | "HTTP/1.1"] = first[..] else {
        return Answer::Refused("400 Bad Request", "not a request of HTTP/1.1\n");
    };
    if method != "GET" {
        return Answer::Refused("405 Method Not Allowed", "only GET is answered\n");
    }
    if path.split('?').next() != Some("/metrics") {
        return Answer::Refused("404 Not Found", "the metrics are at /metrics\n");
    }

    // A field may come in several lines.
    let fields = lines.filter_map(|line| line.split_once(':'));
    let accept = fields.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let accept: Vec<&str> = accept.map(|(_, value)| value).collect();
    Answer::Metrics(Form::preferred(&accept.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_not_answered_with_another_port() {
        // TEST-NET-1 (RFC 5737) is no machine's.
        let why = MetricsServer::open("192.0.2.1:0".parse().unwrap()).err().unwrap().to_string();
        assert!(why.contains("192.0.2.1:0") && why.contains("an address of this machine"), "{why}");
        let taken = MetricsServer::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let why = MetricsServer::open(taken.address()).err().unwrap().to_string();
        assert!(why.contains("name another port"), "{why}");
    }

    #[test]
    fn only_requests_of_the_metrics_are_answered() {
        let text = "GET /metrics HTTP/1.1\r\n\r\n";
        assert_eq!(answer_to(text), Answer::Metrics(Form::Text));
        let open = "GET /metrics?x HTTP/1.1\r\naccept: text/plain;q=0.1\r\nACCEPT: application/openmetrics-text;version=1.0.0\r\n\r\n";
        assert_eq!(answer_to(open), Answer::Metrics(Form::OpenMetrics));
        for (head, expected) in [
            ("POST /metrics HTTP/1.1", "405"),
            ("GET / HTTP/1.1", "404"),
            ("GET /metrics HTTP/2", "400"),
            ("", "400"),
        ] {
            let answer = answer_to(head);
            let is_refused =
                matches!(answer, Answer::Refused(status, _) if status.starts_with(expected));
            assert!(is_refused, "{head}: {answer:?}");
        }
    }
}
