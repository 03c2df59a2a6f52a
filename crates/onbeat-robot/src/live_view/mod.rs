//! The live view: a robot in a browser of the same machine, while it runs.
//!
//! ```text
//! loop ──▶ ring NAME/cycle ──▶ thread of the view ──▶ events, 20 per second ──▶ browsers
//!                                     ▲ state and events of the robot, from the session
//! ```
//!
//! The thread is a reader of the ring as any other process: the loop does not know of it. An event
//! has the last value of each number and its extremes in all cycles since the event before, so a
//! chart of events leaves out no worst value. A browser that does not read gets longer events, not
//! more memory: cycles are merged until it reads again, and the number of merged events is shown.
//!
//! It listens on 127.0.0.1 and ::1 alone, answers GET of the page and of the events under the names
//! of this machine alone (a page of another site cannot reach it by a name of its own), and can
//! change nothing. Every user of the machine can read it.
//!
//! No connection takes more than its part: a bounded number of bytes in all, a bounded part of each
//! turn, a bounded time for its request ([`ViewLimits`]). Where all places are taken, a newcomer gets
//! the one of a connection that has no request or does not read. The thread gives up all capabilities
//! and the system calls that run programs or change the machine; the loop's thread keeps its own.

mod browser_connection;
mod cycle_record;
mod cycle_window;
mod error;
mod robot_facts;
mod sparse_counts;
mod view_limits;
mod view_request;
mod view_server;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use onbeat::thread::{run_as_ordinary, stay_off_cpu};
use onbeat_control::{Channel, RingReader, Start};
use onbeat_ethercat::event::Event;
use onbeat_host::rights;
use serde_json::json;

use self::cycle_window::CycleWindow;
use self::robot_facts::RobotFacts;
use self::view_server::{SharedFacts, ViewServer, listen};
use crate::cycle_messages::TOPIC;
use crate::motion::RobotView;
use crate::session::RobotFile;

pub use self::error::LiveViewError;
pub use self::view_limits::{ViewLimits, ViewNotice};
pub use self::view_server::LiveViewAccount;

/// How a live view is opened.
#[derive(Clone, Copy, Debug)]
pub struct LiveViewPlan<'p> {
    /// Name of the robot, whose ring of cycles exists.
    pub name: &'p str,
    /// The robot.
    pub file: &'p RobotFile,
    /// Port to listen on; 0 for a free one.
    pub port: u16,
    /// The page, as HTML.
    pub page: &'static str,
    /// CPU of the loop, which the thread avoids.
    pub avoid_cpu: Option<u32>,
    /// What browsers may take.
    pub limits: ViewLimits,
}

/// A live view. Its thread ends with it.
#[derive(Debug)]
pub struct LiveView {
    shared: Arc<SharedFacts>,
    port: u16,
    thread: Option<JoinHandle<LiveViewAccount>>,
}

impl LiveView {
    /// Begins to listen, and to read the ring.
    ///
    /// # Errors
    /// [`LiveViewError`].
    pub fn open(plan: &LiveViewPlan<'_>) -> Result<Self, LiveViewError> {
        let LiveViewPlan { name, file, port, page, avoid_cpu, limits } = *plan;
        let mut description = json!({ "robot": file.note, "command": name }).to_string();
        // The rest of the greeting is appended.
        description.pop();

        let reader = RingReader::open(&Channel::new(name, TOPIC)?, Start::Oldest)?;
        let (port, listeners) = listen(port).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => LiveViewError::PortInUse { port },
            _ => LiveViewError::Listen { port, source },
        })?;

        let shared = Arc::new(SharedFacts::new(RobotFacts::new(file.layout.devices.len())));
        let server = ViewServer {
            listeners,
            port,
            page,
            description,
            period_ns: file.robot.settings.period_ns,
            reader,
            shared: Arc::clone(&shared),
            before: None,
            total: CycleWindow::default(),
            connections: Vec::new(),
            limits,
            account: LiveViewAccount::default(),
        };
        let thread = thread::Builder::new()
            .name("onbeat-view".to_owned())
            .spawn(move || {
                run_as_ordinary();
                avoid_cpu.into_iter().for_each(stay_off_cpu);
                give_up_rights(&server.shared);
                server.run()
            })
            .map_err(LiveViewError::Thread)?;

        Ok(Self { shared, port, thread: Some(thread) })
    }

    /// Returns the address for a browser of this machine.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Shows a new state of robot and bus.
    pub fn show(&self, view: &RobotView) {
        self.shared.facts().show(view);
    }

    /// Shows an event; `device` is its name, empty for the whole bus.
    pub fn add(&self, event: &Event, device: &str) {
        self.shared.facts().add(event, device);
    }

    /// Returns the limits that applied for the first time since the last call.
    #[must_use]
    pub fn take_notices(&self) -> Vec<ViewNotice> {
        std::mem::take(&mut *self.shared.notices())
    }

    /// Sends the last cycles to the browsers, closes their connections, and returns what was done.
    #[must_use]
    pub fn finish(mut self) -> LiveViewAccount {
        self.stop()
    }

    fn stop(&mut self) -> LiveViewAccount {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

/// Gives up, for this thread alone, what it does not need: it reads a ring that is mapped, and sockets.
fn give_up_rights(shared: &SharedFacts) {
    if rights::drop_capabilities().is_err() {
        let why = "its thread keeps the capabilities of the program; capset(2) was refused";
        shared.notices().push(ViewNotice::KeepsRights { why });
    }
    if rights::forbid_programs().is_err() {
        let why = "its thread may run programs; this kernel or processor has no system-call filter";
        shared.notices().push(ViewNotice::KeepsRights { why });
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.stop();
    }
}
