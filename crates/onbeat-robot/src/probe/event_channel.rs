//! Channel for events of bus and robot, from the loop to the recorder: the hand-over of other probes,
//! with a count of the events that had no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat::record::Recorder;
use onbeat_ethercat::event::Event;
use onbeat_ethercat::layout::Layout;
use onbeat_net::hand_over::{HandOverReceiver, HandOverSender, hand_over};

/// Capacity of each side; the recorder reads every 20 ms. Further events are counted.
const ROOM: usize = 4_096;

/// The loop's side.
#[derive(Debug)]
pub(super) struct EventSender {
    events: HandOverSender<Event>,
    lost: Arc<AtomicU64>,
}

/// The recorder's side.
#[derive(Debug)]
pub(super) struct EventReceiver {
    events: HandOverReceiver<Event>,
    lost: Arc<AtomicU64>,
    /// Names of the devices by position.
    names: Vec<String>,
}

/// Creates both sides for a bus with this layout.
pub(super) fn event_channel(layout: &Layout) -> (EventSender, EventReceiver) {
    let (sender, receiver) = hand_over(ROOM);
    let lost = Arc::<AtomicU64>::default();
    let names = layout.devices.iter().map(|device| device.name.clone()).collect();
    (
        EventSender { events: sender, lost: Arc::clone(&lost) },
        EventReceiver { events: receiver, lost, names },
    )
}

impl EventSender {
    pub(super) fn put(&mut self, event: Event) {
        if self.events.put(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Passes the events on at the end of a cycle. Does not allocate or make system calls.
    pub(super) fn flush(&mut self) {
        self.events.flush();
    }
}

impl EventReceiver {
    /// Records the events received. A file that cannot be written ends the run by itself.
    pub(super) fn record(&mut self, recorder: &mut Recorder) {
        recorder.lose_events(self.lost.swap(0, Ordering::Relaxed));
        for event in self.events.take() {
            let name = self.names.get(usize::from(event.device)).map_or("", String::as_str);
            let _ = recorder.event(event, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_ethercat::event::{EventKind, NO_DEVICE};

    #[test]
    fn events_beyond_the_capacity_are_counted() {
        let (mut sender, mut receiver) = event_channel(&Layout::default());
        let (kind, device) = (EventKind::FrameLate, NO_DEVICE);
        let event = Event { at_ns: 1, cycle: 1, kind, device, old: 0, new: 0, code: 0 };
        (0..ROOM + 5).for_each(|_| sender.put(event));
        sender.flush();
        let lost = receiver.lost.load(Ordering::Relaxed);
        assert_eq!((receiver.events.take().len(), lost), (ROOM, 5));
    }
}
