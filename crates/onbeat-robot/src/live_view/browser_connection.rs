//! The connection of one browser: never waited for, of bounded size.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::cycle_window::CycleWindow;
use super::view_request::{ViewRefusal, ViewRequest, answer_head, read_head};

/// Bytes that the kernel keeps for a browser that does not read.
const SEND_BUFFER: usize = 64 * 1024;
/// A browser must have sent its request within this time.
const ASKS_WITHIN: Duration = Duration::from_secs(5);
/// A browser must have received the page within this time.
const READS_WITHIN: Duration = Duration::from_secs(30);

/// What a browser that follows the events has not been sent yet.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    /// Cycles since the last event.
    pub window: CycleWindow,
    /// Number of the newest state that was sent.
    pub state: u64,
    /// Number of the next event of robot or bus.
    pub next_event: u64,
    /// Whether the description of the robot was sent.
    pub is_greeted: bool,
}

#[derive(Debug)]
enum ConnectionStage {
    Asking(Vec<u8>),
    Answering,
    Following(Box<PendingEvents>),
}

/// A connection. Its socket never blocks.
#[derive(Debug)]
pub(super) struct BrowserConnection {
    socket: TcpStream,
    stage: ConnectionStage,
    since: Instant,
    out: Vec<u8>,
    written: usize,
    is_closed: bool,
}

impl BrowserConnection {
    /// Takes a connection that was just accepted.
    ///
    /// # Errors
    /// The system's answer.
    pub(super) fn over(socket: TcpStream, now: Instant) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
        let stage = ConnectionStage::Asking(Vec::new());
        Ok(Self { socket, stage, since: now, out: Vec::new(), written: 0, is_closed: false })
    }

    pub(super) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns what to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.is_flushed() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Returns whether everything was handed to the kernel.
    pub(super) fn is_flushed(&self) -> bool {
        self.written == self.out.len()
    }

    /// Returns what a browser that follows the events is still to be sent.
    pub(super) fn following(&mut self) -> Option<&mut PendingEvents> {
        match &mut self.stage {
            ConnectionStage::Following(pending) => Some(pending),
            ConnectionStage::Asking(_) | ConnectionStage::Answering => None,
        }
    }

    pub(super) const fn is_following(&self) -> bool {
        matches!(self.stage, ConnectionStage::Following(_))
    }

    /// Returns whether the connection is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.since);
        self.is_closed
            || match self.stage {
                ConnectionStage::Asking(_) => waited > ASKS_WITHIN,
                ConnectionStage::Answering => self.is_flushed() || waited > READS_WITHIN,
                ConnectionStage::Following(_) => false,
            }
    }

    /// Reads what the browser sent, and answers a complete request. `admits` is whether there is
    /// room for one more browser that follows the events.
    pub(super) fn read(&mut self, port: u16, page: &str, admits: bool) {
        let mut bytes = [0; 1024];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => return self.close(),
                Ok(count) => {
                    // What is sent after a request is ignored.
                    if let ConnectionStage::Asking(head) = &mut self.stage {
                        head.extend_from_slice(&bytes[..count]);
                        if let Some(request) = read_head(head, port) {
                            self.answer(request, page, admits);
                        }
                    }
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.close(),
            }
        }
    }

    fn answer(&mut self, request: ViewRequest, page: &str, admits: bool) {
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

    fn close(&mut self) {
        self.is_closed = true;
    }
}
