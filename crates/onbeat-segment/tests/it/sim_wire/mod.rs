//! Connects ethercrab to a simulated segment, on a virtual clock.
#![allow(dead_code, unreachable_pub)]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ethercrab::{MainDevice, MainDeviceConfig, PduLoop, PduRx, PduStorage, PduTx, Timeouts};
use onbeat_rt::time::Instant;
use onbeat_segment::{Passage, Segment};

pub type Storage = PduStorage<64, { PduStorage::element_size(1400) }>;

/// Carries frames between ethercrab and a segment; its clock advances by the round trip of each
/// frame.
pub struct Wire<'s> {
    segment: RefCell<&'s mut Segment>,
    pub now_ns: Cell<u64>,
    pub frames: Cell<u64>,
}

impl<'s> Wire<'s> {
    pub fn new(segment: &'s mut Segment) -> Self {
        Self { segment: RefCell::new(segment), now_ns: Cell::new(1_000_000), frames: Cell::new(0) }
    }

    fn exchange(&self, tx: &mut PduTx<'_>, rx: &mut PduRx<'_>) -> bool {
        let Some(frame) = tx.next_sendable_frame() else { return false };
        let mut buffer = [0; 1514];
        let mut length = 0;
        frame
            .send_blocking(|bytes| {
                length = bytes.len();
                buffer[..length].copy_from_slice(bytes);
                Ok(length)
            })
            .expect("the whole frame is sent");
        let now = Instant::from_ns(self.now_ns.get());
        let passage = self.segment.borrow_mut().frame(&mut buffer[..length], now);
        let Passage::Back { after_ns, .. } = passage else { panic!("{passage:?}") };
        self.now_ns.set(self.now_ns.get() + after_ns + 10_000);
        self.frames.set(self.frames.get() + 1);
        rx.receive_frame(&buffer[..length]).expect("the frame is known");

        true
    }

    /// Runs a future of ethercrab to completion, alternating between the future and the wire.
    pub fn run<T>(
        &self,
        tx: &mut PduTx<'_>,
        rx: &mut PduRx<'_>,
        future: impl Future<Output = T>,
    ) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done;
            }
            while self.exchange(tx, rx) {}
        }
    }
}

pub fn timeouts() -> Timeouts {
    // Real time, in which a loaded machine may pause; the virtual clock does not wait. All of them:
    // ethercrab looks at the time before it looks at a reply.
    let patience = Duration::from_secs(60);
    Timeouts {
        state_transition: patience,
        pdu: patience,
        eeprom: patience,
        mailbox_echo: patience,
        mailbox_response: patience,
        ..Timeouts::default()
    }
}

/// Returns both ends of ethercrab's storage and its MainDevice.
pub fn main_device() -> (PduTx<'static>, PduRx<'static>, MainDevice<'static>) {
    let storage: &'static Storage = Box::leak(Box::new(Storage::new()));
    let (tx, rx, pdu_loop): (_, _, PduLoop<'static>) = storage.try_split().expect("split once");
    let config = MainDeviceConfig { dc_static_sync_iterations: 0, ..MainDeviceConfig::default() };
    (tx, rx, MainDevice::new(pdu_loop, timeouts(), config))
}
