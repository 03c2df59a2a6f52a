//! The events of a robot's view: its cycles from the ring, state and events from the session.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onbeat_control::{Reading, RingReader};

use super::LiveViewAccount;
use super::cycle_record::CycleRecord;
use super::cycle_window::CycleWindow;
use super::robot_facts::RobotFacts;
use super::view_source::{ViewPace, ViewSource};

// Twenty pictures a second: more is not seen, and each costs CPU time beside the robot. Without a
// browser the ring is still read: whoever comes later sees the whole run's figures.
const PACE: ViewPace =
    ViewPace { followed: Duration::from_millis(50), alone: Duration::from_millis(250) };
/// Events of cycles between two states of robot and devices.
const STATE_EVERY: u64 = 10;

/// What a browser that follows a robot has not been sent yet.
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

/// Locks what the session reports. The loop never does.
pub(super) fn locked(facts: &Mutex<RobotFacts>) -> MutexGuard<'_, RobotFacts> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A robot that is shown.
pub(super) struct RobotSource {
    /// What the page needs to know once, as JSON without its closing brace.
    pub description: String,
    pub period_ns: u64,
    pub reader: RingReader,
    pub shared: Arc<Mutex<RobotFacts>>,
    /// Number and start of the cycle before, in ns.
    pub before: Option<(u64, u64)>,
    pub window: CycleWindow,
    pub total: CycleWindow,
}

impl ViewSource for RobotSource {
    type Pending = PendingEvents;

    fn pace(&self) -> ViewPace {
        PACE
    }

    /// Reads the cycles published since the last look, and hands them to all that follow.
    fn look(
        &mut self,
        following: &mut dyn Iterator<Item = &mut PendingEvents>,
        account: &mut LiveViewAccount,
    ) {
        let window = &mut self.window;
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
                    account.cycles += 1;
                }
                Reading::Lost(records) => {
                    window.lost += records;
                    account.lost += records;
                }
                Reading::Nothing => break,
            }
        }

        if window.is_empty() {
            return;
        }
        self.total.merge(window);
        for pending in following {
            pending.window.merge(window);
        }
    }

    fn write(&mut self, pending: &mut PendingEvents, round: u64, text: &mut String) -> u64 {
        if !pending.is_greeted {
            greet(pending, &self.description, &self.total, text);
        }
        let facts = locked(&self.shared);
        if round == u64::MAX || round.is_multiple_of(STATE_EVERY) || pending.state == 0 {
            write_state(pending, &facts, text);
        }
        write_events(pending, &facts, text);
        // Written from here on without the lock, which the session's thread takes at each view.
        drop(facts);
        if pending.window.is_empty() {
            return 0;
        }
        text.push_str("event: cycles\ndata: ");
        pending.window.write_json(text);
        text.push_str("\n\n");
        pending.window.clear();
        1
    }

    fn merged(&self, pending: &mut PendingEvents) {
        pending.window.merged += 1;
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
