//! ethercrab brings simulated SubDevices to OP and exchanges process data. Of onbeat, only
//! onbeat-segment and its dependencies are linked.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ethercrab::{MainDevice, MainDeviceConfig, PduRx, PduStorage, PduTx, Timeouts};
use onbeat_segment::{Instant, Passage, Segment};

const SEGMENT: &str = r#"
[segment]
name = "one joint and a gripper"

[types.joint]
kind = "drive"

[types.gripper]
kind = "digital"

[[devices]]
type = "joint"
name = "elbow"

[[devices]]
type = "gripper"
name = "gripper"
"#;

/// Both devices are read and written, which adds 3 each.
const WORKING_COUNTER: u16 = 6;
const CYCLES: u32 = 1_000;

/// The cable: passes each frame through the segment and advances the clock by its round trip.
struct Cable<'s> {
    segment: RefCell<&'s mut Segment>,
    now_ns: Cell<u64>,
}

impl Cable<'_> {
    fn exchange(&self, tx: &mut PduTx<'_>, rx: &mut PduRx<'_>) -> bool {
        let Some(frame) = tx.next_sendable_frame() else { return false };
        let mut buffer = [0; 1514];
        let mut length = 0;
        let sent = frame.send_blocking(|bytes| {
            length = bytes.len();
            buffer[..length].copy_from_slice(bytes);
            Ok(length)
        });

        assert!(sent.is_ok(), "{sent:?}");

        let now = Instant::from_ns(self.now_ns.get());
        let Passage::Back { after_ns, .. } = self.segment.borrow_mut().frame(&mut buffer[..length], now) else {
            return true;
        };
        self.now_ns.set(self.now_ns.get() + after_ns + 10_000);
        let received = rx.receive_frame(&buffer[..length]);

        assert!(received.is_ok(), "{received:?}");
        true
    }

    /// Runs a future of ethercrab to completion, alternating between the future and the cable.
    fn run<T>(&self, tx: &mut PduTx<'_>, rx: &mut PduRx<'_>, future: impl Future<Output = T>) -> T {
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

fn main() -> Result<(), Box<dyn Error>> {
    static STORAGE: PduStorage<64, { PduStorage::element_size(1400) }> = PduStorage::new();
    let (mut tx, mut rx, pdu_loop) = STORAGE.try_split().map_err(|()| "the storage is split once")?;
    // Real time, in which a loaded machine may pause; the clock of the segment does not wait. All of them: ethercrab looks at the
    // time before it looks at a reply.
    let timeout = Duration::from_secs(60);
    let timeouts = Timeouts {
        state_transition: timeout,
        pdu: timeout,
        eeprom: timeout,
        mailbox_echo: timeout,
        mailbox_response: timeout,
        ..Timeouts::default()
    };
    let config = MainDeviceConfig { dc_static_sync_iterations: 0, ..MainDeviceConfig::default() };
    let main_device = MainDevice::new(pdu_loop, timeouts, config);

    let mut segment = Segment::from_toml(SEGMENT)?;
    let cable = Cable { segment: RefCell::new(&mut segment), now_ns: Cell::new(1_000_000) };
    let up = async {
        let group = main_device.init_single_group::<16, 256>(|| cable.now_ns.get()).await?;
        group.into_safe_op(&main_device).await?.into_op(&main_device).await
    };

    let group = cable.run(&mut tx, &mut rx, up)?;

    for _ in 0..CYCLES {
        cable.now_ns.set(cable.now_ns.get() + 900_000);
        let seen = cable.run(&mut tx, &mut rx, group.tx_rx(&main_device))?;
        if seen.working_counter != WORKING_COUNTER {
            return Err(format!("working counter {} where {WORKING_COUNTER} is expected", seen.working_counter).into());
        }
    }

    let states: Vec<u8> = (0..2).filter_map(|device| segment.status(device).map(|status| status.al_state)).collect();
    if states != [8, 8] {
        return Err(format!("AL states {states:?} where all are 8 (OP)").into());
    }

    println!("{} devices in OP, {CYCLES} cycles with working counter {WORKING_COUNTER}", states.len());
    Ok(())
}
