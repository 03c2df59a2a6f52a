//! The thread of the live view: reads the ring of cycles, answers browsers.

use std::fmt::Write as _;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use onbeat_control::{Reading, RingReader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::browser_connection::{BrowserConnection, PendingEvents};
use super::cycle_record::CycleRecord;
use super::cycle_window::CycleWindow;
use super::robot_facts::RobotFacts;

/// Time between two events while a browser follows, and between two looks at the ring otherwise.
const EVENT_EVERY: Duration = Duration::from_millis(50);
const IDLE_EVERY: Duration = Duration::from_millis(250);
/// Events of cycles between two states of robot and devices.
const STATE_EVERY: u64 = 10;
/// Browsers that follow the events, and connections in all.
const MOST_FOLLOWING: usize = 8;
const MOST_CONNECTIONS: usize = 32;
/// Time for the last events at the end of the run.
const LAST_EVENTS_WITHIN: Duration = Duration::from_millis(300);

/// What the session and the thread of the view share. No lock of it is ever taken by the loop.
#[derive(Debug)]
pub(super) struct SharedFacts {
    facts: Mutex<RobotFacts>,
    pub stop: AtomicBool,
}

impl SharedFacts {
    pub(super) fn new(facts: RobotFacts) -> Self {
        Self { facts: Mutex::new(facts), stop: AtomicBool::new(false) }
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, RobotFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a live view did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveViewAccount {
    /// Browsers that followed the events.
    pub browsers: u64,
    /// Events of cycles sent to all of them.
    pub events: u64,
    /// Events merged into later ones, because a browser did not read them in time.
    pub merged: u64,
    /// Cycles shown.
    pub cycles: u64,
    /// Cycles that the ring had overwritten before they were read.
    pub lost: u64,
    /// CPU time of the thread, in ns.
    pub cpu_ns: u64,
    /// Its lifetime, in ns.
    pub lasted_ns: u64,
}

/// The thread's own state.
pub(super) struct ViewServer {
    pub listeners: Vec<TcpListener>,
    pub port: u16,
    pub page: &'static str,
    /// What the page needs to know once, as JSON without its closing brace.
    pub description: String,
    pub period_ns: u64,
    pub reader: RingReader,
    pub shared: Arc<SharedFacts>,
    /// Number and start of the cycle before, in ns.
    pub before: Option<(u64, u64)>,
    pub total: CycleWindow,
    pub connections: Vec<BrowserConnection>,
    pub account: LiveViewAccount,
}

impl ViewServer {
    /// Serves until it is asked to stop.
    pub(super) fn run(mut self) -> LiveViewAccount {
        let began = Instant::now();
        let mut window = CycleWindow::default();
        let mut next = began;
        let mut round = 0;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let has_browsers = self.connections.iter().any(BrowserConnection::is_following);
            let every = if has_browsers { EVENT_EVERY } else { IDLE_EVERY };
            next = (next + every).max(Instant::now());
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                self.wait(left.min(EVENT_EVERY));
                let now_has = self.connections.iter().any(BrowserConnection::is_following);
                if self.shared.stop.load(Ordering::Relaxed) || now_has != has_browsers {
                    break;
                }
            }

            self.look(&mut window);
            round += 1;
            self.send_events(round % STATE_EVERY == 0);
        }

        self.look(&mut window);
        self.end();
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        self.account.cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
        self.account.lasted_ns = began.elapsed().as_nanos() as u64;
        self.account
    }

    /// Waits for browsers, at most this long.
    fn wait(&mut self, at_most: Duration) {
        let timeout = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(2 + self.connections.len());
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        let connections = self.connections.iter();
        fds.extend(connections.map(|one| PollFd::new(one.socket(), one.interest())));
        if poll(&mut fds, Some(&timeout)).unwrap_or(0) == 0 {
            return self.close_old();
        }

        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let (listening, connected) = ready.split_at(self.listeners.len());
        for (place, flags) in connected.iter().enumerate() {
            let following = self.connections.iter().filter(|one| one.is_following()).count();
            let connection = &mut self.connections[place];
            if flags.contains(PollFlags::OUT) {
                connection.flush();
            }
            if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                let before = connection.is_following();
                connection.read(self.port, self.page, following < MOST_FOLLOWING);
                self.account.browsers += u64::from(!before && connection.is_following());
            }
        }

        for (place, flags) in listening.iter().enumerate() {
            if flags.contains(PollFlags::IN) {
                self.accept(place);
            }
        }
        self.close_old();
    }

    fn accept(&mut self, place: usize) {
        while let Ok((socket, _)) = self.listeners[place].accept() {
            // Without room the connection is closed.
            if self.connections.len() < MOST_CONNECTIONS
                && let Ok(connection) = BrowserConnection::over(socket, Instant::now())
            {
                self.connections.push(connection);
            }
        }
    }

    fn close_old(&mut self) {
        let now = Instant::now();
        self.connections.retain(|connection| !connection.is_over(now));
    }

    /// Reads the cycles published since the last look, and hands them to all that follow.
    fn look(&mut self, window: &mut CycleWindow) {
        window.clear();
        // A writer that is faster than this reader must not keep it here for ever.
        for _ in 0..self.reader.records() {
            match self.reader.next() {
                Reading::Record { bytes, .. } => {
                    let Some(record) = CycleRecord::from_bytes(bytes) else { continue };
                    let started = record.release_ns + record.wakeup_latency_ns;
                    let before = self.before.filter(|(cycle, _)| cycle + 1 == record.cycle);
                    window.add(&record, before.map(|(_, started)| started), self.period_ns);
                    self.before = Some((record.cycle, started));
                    self.account.cycles += 1;
                }
                Reading::Lost(records) => {
                    window.lost += records;
                    self.account.lost += records;
                }
                Reading::Nothing => break,
            }
        }

        if window.is_empty() {
            return;
        }
        self.total.merge(window);
        for connection in &mut self.connections {
            if let Some(pending) = connection.following() {
                pending.window.merge(window);
            }
        }
    }

    /// Sends to each browser what happened, if it has read everything before.
    fn send_events(&mut self, with_state: bool) {
        let Self { connections, shared, total, description, account, .. } = self;
        for connection in connections.iter_mut() {
            let is_flushed = connection.is_flushed();
            let Some(pending) = connection.following() else { continue };
            if !is_flushed {
                pending.window.merged += 1;
                account.merged += 1;
                continue;
            }

            let mut text = String::new();
            if !pending.is_greeted {
                greet(pending, description, total, &mut text);
            }
            let facts = shared.facts();
            if with_state || pending.state == 0 {
                write_state(pending, &facts, &mut text);
            }
            write_events(pending, &facts, &mut text);
            drop(facts);
            if !pending.window.is_empty() {
                text.push_str("event: cycles\ndata: ");
                pending.window.write_json(&mut text);
                text.push_str("\n\n");
                pending.window.clear();
                account.events += 1;
            }

            connection.send(&text);
            connection.flush();
        }
    }

    /// Sends the last events, and that there will be no more.
    fn end(&mut self) {
        self.connections.retain(BrowserConnection::is_following);
        let until = Instant::now() + LAST_EVENTS_WITHIN;
        self.send_until_flushed(until);
        self.send_events(true);
        self.send_until_flushed(until);
        for connection in &mut self.connections {
            if connection.is_flushed() {
                connection.send("event: end\ndata: {}\n\n");
                connection.flush();
            }
        }
        self.send_until_flushed(until);
    }

    fn send_until_flushed(&mut self, until: Instant) {
        while !self.connections.iter().all(BrowserConnection::is_flushed) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return };
            self.listeners.clear();
            self.wait(left.min(EVENT_EVERY));
        }
    }
}

fn greet(pending: &mut PendingEvents, description: &str, total: &CycleWindow, text: &mut String) {
    text.push_str("event: hello\ndata: ");
    text.push_str(description);
    text.push_str(",\"total\":");
    total.write_json(text);
    text.push_str("}\n\n");
    // What was pending is among the total.
    pending.window.clear();
    pending.is_greeted = true;
}

fn write_state(pending: &mut PendingEvents, facts: &RobotFacts, text: &mut String) {
    if pending.state == facts.number {
        return;
    }
    if let Some(state) = facts.state() {
        let _ = write!(text, "event: robot\ndata: {state}\n\n");
    }
    pending.state = facts.number;
}

fn write_events(pending: &mut PendingEvents, facts: &RobotFacts, text: &mut String) {
    let (events, left_out, next) = facts.events_from(pending.next_event);
    if next == pending.next_event {
        return;
    }
    let _ = write!(text, "event: events\ndata: {{\"left_out\":{left_out},\"events\":[");
    for (place, event) in events.enumerate() {
        text.push_str(if place == 0 { "" } else { "," });
        text.push_str(event);
    }
    text.push_str("]}\n\n");
    pending.next_event = next;
}

/// Listens on a port of 127.0.0.1 and, where this machine has it, of ::1; 0 takes a free one.
///
/// # Errors
/// The system's answer.
pub(super) fn listen(port: u16) -> io::Result<(u16, Vec<TcpListener>)> {
    /// Attempts to find a port that is free on both addresses.
    const ATTEMPTS: u32 = 16;
    for attempt in 1.. {
        let first = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))?;
        let taken = first.local_addr()?.port();
        let mut listeners = vec![first];
        match TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, taken)) {
            Ok(second) => listeners.push(second),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
                if port != 0 || attempt == ATTEMPTS {
                    return Err(why);
                }
                continue;
            }
            // A machine without IPv6.
            Err(_) => {}
        }
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        return Ok((taken, listeners));
    }
    Err(io::ErrorKind::AddrInUse.into())
}
