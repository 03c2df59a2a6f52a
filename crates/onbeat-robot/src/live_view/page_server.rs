//! A page and its events on the loopback: the part that does not know what is shown.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use onbeat::thread::{run_as_ordinary, stay_off_cpu};
use onbeat_host::rights;

use super::error::LiveViewError;
use super::view_limits::{ViewLimits, ViewNotice};
use super::view_server::{LiveViewAccount, ViewControl, ViewServer, listen};
use super::view_source::ViewSource;

/// How a page is served.
#[derive(Clone, Debug)]
pub struct PageServerPlan {
    /// Port to listen on; 0 for a free one.
    pub port: u16,
    /// The page, as HTML.
    pub page: Cow<'static, str>,
    /// CPU of the loop, which the thread avoids.
    pub avoid_cpu: Option<u32>,
    /// What browsers may take.
    pub limits: ViewLimits,
}

/// A page on 127.0.0.1 and ::1 with events of a source. Its thread ends with it.
#[derive(Debug)]
pub struct PageServer {
    control: Arc<ViewControl>,
    port: u16,
    thread: Option<JoinHandle<LiveViewAccount>>,
}

impl PageServer {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`LiveViewError`].
    pub fn open<S: ViewSource>(plan: PageServerPlan, source: S) -> Result<Self, LiveViewError> {
        let PageServerPlan { port, page, avoid_cpu, limits } = plan;
        let (port, listeners) = listen(port).map_err(|why| not_listening(port, why))?;

        let control = Arc::new(ViewControl::default());
        let server = ViewServer {
            listeners,
            port,
            page,
            source,
            control: Arc::clone(&control),
            connections: Vec::new(),
            limits,
            account: LiveViewAccount::default(),
        };
        let thread = thread::Builder::new()
            .name("onbeat-view".to_owned())
            .spawn(move || {
                run_as_ordinary();
                avoid_cpu.into_iter().for_each(stay_off_cpu);
                give_up_rights(&server.control);
                server.run()
            })
            .map_err(LiveViewError::Thread)?;

        Ok(Self { control, port, thread: Some(thread) })
    }

    /// Returns the address for a browser of this machine.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Returns the limits that applied for the first time since the last call.
    #[must_use]
    pub fn take_notices(&self) -> Vec<ViewNotice> {
        std::mem::take(&mut *self.control.notices())
    }

    /// Sends the last events to the browsers, closes their connections, and returns what was done.
    #[must_use]
    pub fn finish(mut self) -> LiveViewAccount {
        self.stop()
    }

    fn stop(&mut self) -> LiveViewAccount {
        self.control.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Finds out whether a port can be listened on, before a run begins that is to be shown there.
///
/// # Errors
/// [`LiveViewError`].
pub fn check_port(port: u16) -> Result<(), LiveViewError> {
    listen(port).map(drop).map_err(|why| not_listening(port, why))
}

fn not_listening(port: u16, source: io::Error) -> LiveViewError {
    match source.kind() {
        io::ErrorKind::AddrInUse => LiveViewError::PortInUse { port },
        _ => LiveViewError::Listen { port, source },
    }
}

/// Gives up, for this thread alone, what it does not need: it reads memory and sockets.
fn give_up_rights(control: &ViewControl) {
    if rights::drop_capabilities().is_err() {
        let why = "its thread keeps the capabilities of the program; capset(2) was refused";
        control.notices().push(ViewNotice::KeepsRights { why });
    }
    if rights::forbid_programs().is_err() {
        let why = "its thread may run programs; this kernel or processor has no system-call filter";
        control.notices().push(ViewNotice::KeepsRights { why });
    }
}
