//! The thread of a view: answers browsers, and sends them the events of its source.

use std::borrow::Cow;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use onbeat_host::thread::thread_cpu_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::browser_connection::{BrowserConnection, ClosedFor};
use super::view_limits::{ViewLimits, ViewNotice};
use super::view_request::ViewRequest;
use super::view_source::ViewSource;

/// Longest time that the thread waits in one piece: a request to stop is seen after it.
const STEP: Duration = Duration::from_millis(50);
/// Least time between two turns, so that connections that keep sending, or keep coming, take a
/// bounded part of a CPU.
// A browser that sends byte by byte would otherwise wake this thread for each.
const TURN_EVERY: Duration = Duration::from_millis(2);
/// Connections accepted from one listener in a turn.
const ACCEPTED_AT_ONCE: usize = 8;
/// Time for the last events at the end of the run.
const LAST_EVENTS_WITHIN: Duration = Duration::from_millis(300);

/// What the owner of a server and its thread share.
#[derive(Debug, Default)]
pub(super) struct ViewControl {
    /// Limits that applied for the first time, and were not fetched yet.
    notices: Mutex<Vec<ViewNotice>>,
    pub stop: AtomicBool,
}

impl ViewControl {
    pub(super) fn notices(&self) -> MutexGuard<'_, Vec<ViewNotice>> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Browsers refused, because as many as permitted followed.
    pub refused: u64,
    /// Connections closed for a newcomer: without a request, or not reading.
    pub gave_way: u64,
    /// Connections closed without a whole request in time.
    pub no_request: u64,
    /// Connections closed because they sent more than a request may have.
    pub floods: u64,
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
pub(super) struct ViewServer<S: ViewSource> {
    pub listeners: Vec<TcpListener>,
    pub port: u16,
    pub page: Cow<'static, str>,
    pub source: S,
    pub control: Arc<ViewControl>,
    pub connections: Vec<BrowserConnection<S::Pending>>,
    pub limits: ViewLimits,
    pub account: LiveViewAccount,
}

impl<S: ViewSource> ViewServer<S> {
    /// Serves until it is asked to stop.
    pub(super) fn run(mut self) -> LiveViewAccount {
        let began = Instant::now();
        let pace = self.source.pace();
        let mut next = began;
        let mut round = 0;
        while !self.control.stop.load(Ordering::Relaxed) {
            let has_browsers = self.connections.iter().any(BrowserConnection::is_following);
            let every = if has_browsers { pace.followed } else { pace.alone };
            // After a stop of the machine there is no catching up: what was missed is merged into
            // the next event.
            next = (next + every).max(Instant::now());
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                self.wait(left.min(STEP));
                let now_has = self.connections.iter().any(BrowserConnection::is_following);
                if self.control.stop.load(Ordering::Relaxed) || now_has != has_browsers {
                    break;
                }
            }

            self.look();
            round += 1;
            self.send_events(round);
        }

        self.look();
        self.end();
        self.account.cpu_ns = thread_cpu_ns();
        self.account.lasted_ns = began.elapsed().as_nanos() as u64;
        self.account
    }

    /// Waits for browsers, at most this long, and takes one turn: a bounded part of the work of each.
    fn wait(&mut self, at_most: Duration) {
        let began = Instant::now();
        self.turn(at_most);
        let now = Instant::now();
        self.close_old(now);
        let took = now.saturating_duration_since(began);
        if let Some(left) = TURN_EVERY.min(at_most).checked_sub(took) {
            std::thread::sleep(left);
        }
    }

    fn turn(&mut self, at_most: Duration) {
        let timeout = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(2 + self.connections.len());
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        let connections = self.connections.iter();
        fds.extend(connections.map(|one| PollFd::new(one.socket(), one.interest())));
        if poll(&mut fds, Some(&timeout)).unwrap_or(0) == 0 {
            return;
        }

        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        // They borrow the connections, which are changed below.
        drop(fds);
        let (listening, connected) = ready.split_at(self.listeners.len());
        // Connections before listeners: a flood of new ones must not keep those that are served
        // from being served.
        for (place, flags) in connected.iter().enumerate() {
            let connection = &mut self.connections[place];
            if flags.contains(PollFlags::OUT) {
                connection.flush();
            }
            // What was sent before the end is read first.
            if flags.intersects(PollFlags::HUP | PollFlags::ERR) && !flags.contains(PollFlags::IN) {
                connection.close();
            }
            if flags.contains(PollFlags::IN) {
                self.serve(place);
            }
        }

        for (place, flags) in listening.iter().enumerate() {
            if flags.contains(PollFlags::IN) {
                self.accept(place);
            }
        }
    }

    /// Reads from a connection, and answers its request where it is complete.
    fn serve(&mut self, place: usize) {
        let Some(request) = self.connections[place].read(self.port, &self.limits) else { return };
        // The page itself is given to everybody: it then says why it shows nothing.
        let admits = request != ViewRequest::Events || self.has_place_for_browser();
        if !admits {
            self.account.refused += 1;
            let most = self.limits.browsers;
            self.notice(self.account.refused, ViewNotice::TooManyBrowsers { most });
        }
        let connection = &mut self.connections[place];
        connection.answer(request, &self.page, admits);
        self.account.browsers += u64::from(connection.is_following());
    }

    /// Returns whether one more browser may follow. One that does not read gives its place.
    fn has_place_for_browser(&mut self) -> bool {
        let follows = |one: &&BrowserConnection<S::Pending>| one.is_following() && !one.is_closed();
        let following = self.connections.iter().filter(follows).count();
        following < self.limits.browsers || self.take_place(BrowserConnection::is_following)
    }

    /// Closes the connection that gives way most readily, among these; returns whether there is one.
    fn take_place(&mut self, among: impl Fn(&BrowserConnection<S::Pending>) -> bool) -> bool {
        let now = Instant::now();
        let candidates = self.connections.iter_mut().filter(|one| among(one) && !one.is_closed());
        let waiting = candidates.filter_map(|one| one.gives_way(now).map(|since| (since, one)));
        // The one that has waited longest without doing anything. A browser that reads never gives
        // way to a stranger.
        let Some((_, leaving)) = waiting.min_by_key(|(since, _)| *since) else { return false };
        leaving.close();
        self.account.gave_way += 1;
        let most = self.limits.connections;
        self.notice(self.account.gave_way, ViewNotice::GaveWay { most });
        true
    }

    /// Reports a limit when it applies for the first time.
    fn notice(&self, count: u64, notice: ViewNotice) {
        // Said once in the terminal and counted from then on: an attack must not scroll the robot
        // away.
        if count == 1 {
            self.control.notices().push(notice);
        }
    }

    fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            // Another process may have taken it, or the limit of descriptors is reached; poll says
            // so again.
            let Ok((socket, _)) = self.listeners[place].accept() else { return };
            let open = self.connections.iter().filter(|one| !one.is_closed()).count();
            // Without a place the connection is closed.
            if (open < self.limits.connections || self.take_place(|_| true))
                && let Ok(connection) = BrowserConnection::over(socket, Instant::now())
            {
                self.connections.push(connection);
                // A browser has sent its request by now: it does not wait among those that have not.
                self.serve(self.connections.len() - 1);
            }
        }
    }

    fn close_old(&mut self, now: Instant) {
        let Self { connections, limits, account, .. } = self;
        let mut first = Vec::new();
        for closed in connections.iter().filter_map(|one| one.closed_for(now, limits)) {
            let (count, notice) = match closed {
                ClosedFor::NoRequest => {
                    let within = limits.request_within;
                    (&mut account.no_request, ViewNotice::NoRequest { within })
                }
                ClosedFor::Flood => (&mut account.floods, ViewNotice::Flood { most: limits.bytes }),
            };
            *count += 1;
            first.push((*count, notice));
        }
        connections.retain(|connection| !connection.is_over(now, limits));
        first.into_iter().for_each(|(count, notice)| self.notice(count, notice));
    }

    fn look(&mut self) {
        let Self { source, connections, account, .. } = self;
        source.look(&mut connections.iter_mut().filter_map(BrowserConnection::following), account);
    }

    /// Sends to each browser what happened, if it has read everything before.
    fn send_events(&mut self, round: u64) {
        let Self { connections, source, account, .. } = self;
        for connection in connections.iter_mut() {
            let is_flushed = connection.is_flushed();
            let Some(pending) = connection.following() else { continue };
            // A slow browser gets fewer and larger events. Nothing queues up for it in this
            // process.
            if !is_flushed {
                source.merged(pending);
                account.merged += 1;
                continue;
            }

            let mut text = String::new();
            account.events += source.write(pending, round, &mut text);
            connection.send(&text);
            connection.flush();
        }
    }

    /// Sends the last events, and that there will be no more.
    fn end(&mut self) {
        self.connections.retain(BrowserConnection::is_following);
        let until = Instant::now() + LAST_EVENTS_WITHIN;
        self.send_until_flushed(until);
        self.send_events(u64::MAX);
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
            // Nobody new at the end.
            self.listeners.clear();
            self.wait(left.min(STEP));
        }
    }
}

/// Listens on a port of 127.0.0.1 and, where this machine has it, of ::1; 0 takes a free one.
///
/// # Errors
/// The system's answer.
pub(super) fn listen(port: u16) -> io::Result<(u16, Vec<TcpListener>)> {
    /// Attempts to find a port that is free on both addresses.
    const ATTEMPTS: u32 = 16;
    for _ in 0..ATTEMPTS {
        // The loopback alone: whoever is on the network has no view of a robot, and no way to it.
        let first = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))?;
        let taken = first.local_addr()?.port();
        let mut listeners = vec![first];
        match TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, taken)) {
            Ok(second) => listeners.push(second),
            // A port that was chosen by the system may be taken on the other protocol: another one
            // is tried.
            Err(why) if why.kind() == io::ErrorKind::AddrInUse && port == 0 => continue,
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => return Err(why),
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
