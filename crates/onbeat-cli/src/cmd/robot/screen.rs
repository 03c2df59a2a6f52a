//! What `onbeat robot run` shows, while the robot moves and at its end.

use std::io::{IsTerminal, stdout};
use std::path::Path;

use onbeat_ethercat::event::Event;
use onbeat_robot::live_view::LiveView;
use onbeat_robot::motion::RobotView;
use onbeat_robot::session::{SessionObserver, SessionOutcome};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::SECOND_NS;
use onbeat_rt::{Clock, Instant};
use serde_json::json;

use super::options::RobotRunOptions;
use super::view;
use crate::cmd::looping::verdict;
use crate::cmd::{ExitVerdict, Failure, runs, show};
use crate::term::{Live, Tone, advise, letters, motion, print_json, robot as words, say};

/// Rows of devices in the live table.
const ROWS: usize = 8;
/// The live table is drawn this often, in ns.
pub(super) const DRAW_EVERY_NS: u64 = 250_000_000;
/// Lines of a log are written this often, in ns.
const LINE_EVERY_NS: u64 = SECOND_NS;

/// The terminal while a robot runs: a live table, or lines of a log.
pub(super) struct Screen {
    drawn: Instant,
    live: Live,
    /// Standard output is for one JSON object alone.
    is_quiet: bool,
    live_view: Option<LiveView>,
}

impl Screen {
    /// A live table where standard output is a terminal, else lines of a log; nothing on standard
    /// output with `is_quiet`.
    pub(super) fn new(origin: Instant, is_quiet: bool, live_view: Option<LiveView>) -> Self {
        let live = Live::new(stdout().is_terminal() && !is_quiet);
        Self { drawn: origin, live, is_quiet, live_view }
    }

    /// Clears the table and ends the view.
    pub(super) fn finish(mut self) {
        self.live.clear();
        self.live_view.into_iter().for_each(view::finish);
    }

    fn line(&mut self, line: &str) {
        if self.is_quiet {
            advise(Tone::Faint, line);
        } else {
            self.live.above(line);
        }
    }
}

impl SessionObserver for Screen {
    fn view(&mut self, view: &RobotView) {
        self.live_view.iter().for_each(|browsers| browsers.show(view));
        let notices = self.live_view.as_ref().map(|view| view.server.take_notices());
        for notice in notices.unwrap_or_default() {
            self.line(&notice.to_string());
        }
        let every_ns = if self.live.is_on() { DRAW_EVERY_NS } else { LINE_EVERY_NS };
        let now = Monotonic.now();
        if now.ns_since(self.drawn) < every_ns {
            return;
        }

        self.drawn = now;
        if self.live.is_on() {
            self.live.draw(&words::table(view, ROWS, letters()));
        } else {
            self.line(&words::line(view, letters()));
        }
    }

    fn event(&mut self, event: &Event, device: &str) {
        self.live_view.iter().for_each(|browsers| browsers.add(event, device));
        self.line(&words::event(event, device));
    }

    fn load(&mut self, words: &str) {
        self.line(words);
    }

    fn ring(&mut self, words: &str) {
        self.line(words);
    }
}

/// Shows the last view and the figures of the loop, and returns the verdict.
pub(super) fn conclude(
    options: &RobotRunOptions,
    path: &Path,
    outcome: &SessionOutcome,
) -> Result<ExitVerdict, Failure> {
    let reported = runs::reported(path, None, None)?;
    let Some(view) = &outcome.view else { return Ok(ExitVerdict::CouldNotRun) };

    if options.output.json {
        let all = json!({ "schema": "onbeat.robot/1", "robot": view, "run": reported.summary });
        print_json(&all)?;
    } else {
        for (tone, line) in words::table(view, ROWS, letters()) {
            say(tone, &line);
        }
        say(Tone::Plain, "");
        for (tone, line) in motion::ending(&outcome.motion) {
            say(tone, &line);
        }
        say(Tone::Plain, "");
        show::summary(&reported, show::SummaryExtent::default(), None)?;
    }

    Ok(if outcome.ended_in_order() {
        verdict(reported.summary.outcome())
    } else {
        ExitVerdict::Fail
    })
}
