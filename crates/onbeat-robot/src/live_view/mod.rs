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
//! What is not of a robot (listening, requests, connections, limits) is a [`PageServer`], which shows
//! the events of any [`ViewSource`]: `onbeat view` follows run files through it.
//!
//! No connection takes more than its part: a bounded number of bytes in all, a bounded part of each
//! turn, a bounded time for its request ([`ViewLimits`]). Where all places are taken, a newcomer gets
//! the one of a connection that has no request or does not read. The thread gives up all capabilities
//! and the system calls that run programs or change the machine; the loop's thread keeps its own.

mod browser_connection;
mod cycle_record;
mod cycle_window;
mod error;
mod page_server;
mod robot_facts;
mod robot_source;
mod sparse_counts;
mod view_limits;
mod view_request;
mod view_server;
mod view_source;

use std::sync::{Arc, Mutex};

use onbeat_control::{Channel, RingReader, Start};
use onbeat_ethercat::event::Event;
use serde_json::json;

use self::cycle_window::CycleWindow;
use self::robot_facts::RobotFacts;
use self::robot_source::{RobotSource, locked};
use crate::cycle_messages::TOPIC;
use crate::motion::RobotView;
use crate::session::RobotFile;

pub use self::error::LiveViewError;
pub use self::page_server::{PageServer, PageServerPlan, check_port};
pub use self::view_limits::{ViewLimits, ViewNotice};
pub use self::view_server::LiveViewAccount;
pub use self::view_source::{ViewPace, ViewSource};

/// A live view. Its thread ends with it.
#[derive(Debug)]
pub struct LiveView {
    shared: Arc<Mutex<RobotFacts>>,
    /// Answers the browsers.
    pub server: PageServer,
}

impl LiveView {
    /// Begins to listen, and to read the ring of cycles of a robot, which exists under this name.
    ///
    /// # Errors
    /// [`LiveViewError`].
    pub fn open(name: &str, file: &RobotFile, plan: PageServerPlan) -> Result<Self, LiveViewError> {
        // By its number a user resets the robot after a safe stop.
        let pid = std::process::id();
        let mut description =
            json!({ "robot": file.note, "command": name, "pid": pid }).to_string();
        // The rest of the greeting is appended.
        description.pop();

        let reader = RingReader::open(&Channel::new(name, TOPIC)?, Start::Oldest)?;
        let shared = Arc::new(Mutex::new(RobotFacts::new(file.layout.devices.len())));
        let source = RobotSource {
            description,
            period_ns: file.robot.settings.period_ns,
            reader,
            shared: Arc::clone(&shared),
            before: None,
            window: CycleWindow::default(),
            total: CycleWindow::default(),
        };
        Ok(Self { shared, server: PageServer::open(plan, source)? })
    }

    /// Shows a new state of robot and bus.
    pub fn show(&self, view: &RobotView) {
        locked(&self.shared).show(view);
    }

    /// Shows an event; `device` is its name, empty for the whole bus.
    pub fn add(&self, event: &Event, device: &str) {
        locked(&self.shared).add(event, device);
    }
}
