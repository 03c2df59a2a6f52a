//! The connection of one browser: never waited for, of bounded size, with a bounded part of each turn.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::view_limits::ViewLimits;
use super::view_request::{LONGEST_HEAD, ViewRefusal, ViewRequest, answer_head, read_head};

/// Bytes that the kernel keeps for a browser that does not read.
// The kernel's memory for a browser that stopped reading is bounded as well; by default it grows to
// megabytes.
const SEND_BUFFER: usize = 64 * 1024;
/// A browser must have received the page within this time.
const READS_WITHIN: Duration = Duration::from_secs(30);
/// A browser that has not taken all that it was sent for this long gives its place to a newcomer.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// Bytes read from a connection in one turn; there is one request in a connection.
const READ_AT_ONCE: usize = 2048;

#[derive(Debug)]
enum ConnectionStage<P> {
    Asking(Vec<u8>),
    Answering,
    /// What it has not been sent yet.
    Following(Box<P>),
}

/// Why a connection was closed before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosedFor {
    /// No whole request within the time for it.
    NoRequest,
    /// More bytes than a request may have.
    Flood,
}

/// A connection. Its socket never blocks.
#[derive(Debug)]
pub(super) struct BrowserConnection<P> {
    socket: TcpStream,
    stage: ConnectionStage<P>,
    since: Instant,
    /// When everything sent had been taken by the kernel last.
    flushed_at: Instant,
    /// Bytes received.
    received: usize,
    /// The browser sends nothing more.
    is_half_closed: bool,
    has_flooded: bool,
    out: Vec<u8>,
    written: usize,
    is_closed: bool,
}

impl<P: Default> BrowserConnection<P> {
    /// Takes a connection that was just accepted.
    ///
    /// # Errors
    /// The system's answer.
    pub(super) fn over(socket: TcpStream, now: Instant) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Events are small and come twenty times a second. Nagle's algorithm would hold each back
        // for the acknowledgement of the one before.
        socket.set_nodelay(true)?;
        set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
        let stage = ConnectionStage::Asking(Vec::new());
        Ok(Self {
            socket,
            stage,
            since: now,
            flushed_at: now,
            received: 0,
            is_half_closed: false,
            has_flooded: false,
            out: Vec::new(),
            written: 0,
            is_closed: false,
        })
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns what to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        let reads = if self.is_half_closed { PollFlags::empty() } else { PollFlags::IN };
        if self.is_flushed() { reads } else { reads | PollFlags::OUT }
    }

    /// Returns whether everything was handed to the kernel.
    pub(super) fn is_flushed(&self) -> bool {
        self.written == self.out.len()
    }

    /// Returns what a browser that follows the events is still to be sent.
    pub(super) fn following(&mut self) -> Option<&mut P> {
        match &mut self.stage {
            ConnectionStage::Following(pending) => Some(pending),
            ConnectionStage::Asking(_) | ConnectionStage::Answering => None,
        }
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) const fn is_following(&self) -> bool {
        matches!(self.stage, ConnectionStage::Following(_))
    }

    /// Returns how readily the connection gives its place to a newcomer, and since when; `None` for
    /// one whose browser takes what it is sent. Those without a request come first.
    pub(super) fn gives_way(&self, now: Instant) -> Option<(u8, Instant)> {
        let is_stalled =
            || !self.is_flushed() && now.saturating_duration_since(self.flushed_at) > STALLED_AFTER;
        match self.stage {
            ConnectionStage::Asking(_) => Some((0, self.since)),
            // Only who has stopped reading.
            ConnectionStage::Answering | ConnectionStage::Following(_) => {
                is_stalled().then_some((1, self.flushed_at))
            }
        }
    }

    /// Returns why the connection is closed before its end; `None` for one that goes on or has ended.
    pub(super) fn closed_for(&self, now: Instant, limits: &ViewLimits) -> Option<ClosedFor> {
        let waited = now.saturating_duration_since(self.since);
        match self.stage {
            _ if self.has_flooded => Some(ClosedFor::Flood),
            ConnectionStage::Asking(_) if !self.is_closed && waited > limits.request_within => {
                Some(ClosedFor::NoRequest)
            }
            _ => None,
        }
    }

    /// Returns whether the connection is over.
    pub(super) fn is_over(&self, now: Instant, limits: &ViewLimits) -> bool {
        let waited = now.saturating_duration_since(self.since);
        self.is_closed
            || match self.stage {
                ConnectionStage::Asking(_) => waited > limits.request_within,
                ConnectionStage::Answering => self.is_flushed() || waited > READS_WITHIN,
                ConnectionStage::Following(_) => false,
            }
    }

    /// Reads a bounded part of what the browser sent. Returns the request when it is complete.
    pub(super) fn read(&mut self, port: u16, limits: &ViewLimits) -> Option<ViewRequest> {
        if self.is_closed {
            return None;
        }
        let mut bytes = [0; READ_AT_ONCE];
        match self.socket.read(&mut bytes) {
            Ok(0) => self.end_of_input(),
            Ok(count) => return self.take(&bytes[..count], port, limits),
            Err(why) if matches!(why.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.close(),
        }
        None
    }

    fn take(&mut self, bytes: &[u8], port: u16, limits: &ViewLimits) -> Option<ViewRequest> {
        // Of the whole connection: a request has a few hundred bytes, and a browser sends nothing
        // after it.
        self.received += bytes.len();
        if self.received > limits.bytes {
            self.has_flooded = true;
            self.close();
            return None;
        }

        // What is sent after a request is ignored.
        let ConnectionStage::Asking(head) = &mut self.stage else { return None };
        // Only what is new is searched for the end: a head may arrive byte by byte.
        // Three bytes back, since the end of the head has four.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(bytes);
        let may_be_whole =
            head[from..].windows(4).any(|four| four == b"\r\n\r\n") || head.len() >= LONGEST_HEAD;
        if may_be_whole { read_head(head, port) } else { None }
    }

    /// A browser that asked for the page may have closed its own half; one that follows, or has not
    /// asked, has left.
    fn end_of_input(&mut self) {
        match self.stage {
            // A client may close its writing end and still read the answer.
            ConnectionStage::Answering => self.is_half_closed = true,
            ConnectionStage::Asking(_) | ConnectionStage::Following(_) => self.close(),
        }
    }

    /// Answers a request. `admits` is whether there is room for one more browser that follows the
    /// events.
    pub(super) fn answer(&mut self, request: ViewRequest, page: &str, admits: bool) {
        let request = match request {
            ViewRequest::Events if !admits => ViewRequest::Refused(ViewRefusal::TooMany),
            other => other,
        };
        self.stage = ConnectionStage::Answering;
        match request {
            ViewRequest::Page => {
                let head = answer_head("200 OK", "text/html; charset=utf-8", Some(page.len()));
                self.send(&head);
                self.send(page);
            }
            ViewRequest::Events => {
                self.send(&answer_head("200 OK", "text/event-stream", None));
                self.stage = ConnectionStage::Following(Box::default());
            }
            ViewRequest::Refused(refusal) => {
                let (status, sentence) = refusal.words();
                let length = Some(sentence.len() + 1);
                self.send(&answer_head(status, "text/plain; charset=utf-8", length));
                self.send(&format!("{sentence}\n"));
            }
        }
        self.flush();
    }

    /// Appends text to what is to be sent. The caller sends events to a flushed connection alone,
    /// so that at most one round of events waits.
    pub(super) fn send(&mut self, text: &str) {
        if self.is_flushed() {
            self.out.clear();
            self.written = 0;
            self.flushed_at = Instant::now();
        }
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Hands to the kernel what it takes now.
    pub(super) fn flush(&mut self) {
        while !self.is_closed && !self.is_flushed() {
            match self.socket.write(&self.out[self.written..]) {
                Ok(0) => self.close(),
                Ok(count) => self.written += count,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.close(),
            }
        }
    }

    /// Ends the connection; the server removes it after its turn.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }
}
