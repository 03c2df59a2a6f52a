//! Channel for events of bus and robot, from the loop to the recorder.
//!
//! Both sides only try the lock, so neither wakes the other; events that cannot be passed in one
//! cycle are passed in a later one.

use std::mem::{swap, take};
use std::sync::{Arc, Mutex};

use onbeat::record::Recorder;
use onbeat_ethercat::event::Event;
use onbeat_ethercat::layout::Layout;

/// Capacity of each side; the recorder reads every 20 ms. Further events are counted.
const ROOM: usize = 4_096;

/// Events shared by both sides.
#[derive(Debug)]
struct SharedEvents {
    events: Vec<Event>,
    lost: u64,
}

/// The loop's side.
#[derive(Debug)]
pub(super) struct EventSender {
    between: Arc<Mutex<SharedEvents>>,
    waiting: Vec<Event>,
    lost: u64,
}

/// The recorder's side.
#[derive(Debug)]
pub(super) struct EventReceiver {
    between: Arc<Mutex<SharedEvents>>,
    taken: Vec<Event>,
    /// Names of the devices by position.
    names: Vec<String>,
}

/// Creates both sides for a bus with this layout.
pub(super) fn event_channel(layout: &Layout) -> (EventSender, EventReceiver) {
    let room = || Vec::with_capacity(ROOM);
    let between = Arc::new(Mutex::new(SharedEvents { events: room(), lost: 0 }));
    let names = layout.devices.iter().map(|device| device.name.clone()).collect();
    (
        EventSender { between: Arc::clone(&between), waiting: room(), lost: 0 },
        EventReceiver { between, taken: room(), names },
    )
}

impl EventSender {
    pub(super) fn put(&mut self, event: Event) {
        if self.waiting.len() == ROOM {
            self.lost += 1;
        } else {
            self.waiting.push(event);
        }
    }

    /// Passes the events on at the end of a cycle. Does not allocate or make system calls.
    pub(super) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }

        let Ok(mut between) = self.between.try_lock() else { return };
        if between.events.is_empty() {
            swap(&mut between.events, &mut self.waiting);
            between.lost += take(&mut self.lost);
        }
    }
}

impl EventReceiver {
    /// Records the events received. A file that cannot be written ends the run by itself.
    pub(super) fn record(&mut self, recorder: &mut Recorder) {
        let lost = match self.between.try_lock() {
            Ok(mut between) => {
                swap(&mut between.events, &mut self.taken);
                take(&mut between.lost)
            }
            Err(_) => return,
        };

        recorder.lose_events(lost);
        for event in self.taken.drain(..) {
            let name = self.names.get(usize::from(event.device)).map_or("", String::as_str);
            let _ = recorder.event(&event, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::event::{EventKind, NO_DEVICE};

    fn event(cycle: u64) -> Event {
        Event {
            at_ns: cycle,
            cycle,
            kind: EventKind::FrameLate,
            device: NO_DEVICE,
            old: 0,
            new: 0,
            code: 0,
        }
    }

    fn cycles(inbox: &EventReceiver) -> Vec<u64> {
        inbox.between.lock().unwrap().events.iter().map(|event| event.cycle).collect()
    }

    #[test]
    fn events_pass_in_order_even_if_the_lock_is_held() {
        let (mut outbox, inbox) = event_channel(&Layout::default());
        outbox.put(event(1));
        {
            let _held = inbox.between.lock().unwrap();
            outbox.flush();
        }

        assert_eq!(cycles(&inbox), [] as [u64; 0], "the loop does not wait");
        outbox.put(event(2));
        outbox.flush();
        assert_eq!(cycles(&inbox), [1, 2]);
        outbox.put(event(3));
        outbox.flush();

        assert_eq!(cycles(&inbox), [1, 2], "events not read yet are not overtaken");
        inbox.between.lock().unwrap().events.clear();
        outbox.flush();
        assert_eq!(cycles(&inbox), [3]);
    }

    #[test]
    fn events_beyond_the_capacity_are_counted() {
        let (mut outbox, inbox) = event_channel(&Layout::default());
        (0..ROOM as u64 + 5).for_each(|cycle| outbox.put(event(cycle)));
        outbox.flush();
        assert_eq!((cycles(&inbox).len(), inbox.between.lock().unwrap().lost), (ROOM, 5));
    }
}
