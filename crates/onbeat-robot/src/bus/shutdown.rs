//! Orderly shutdown: all devices at once, with one frame per step.

use onbeat_rt::frame::{self, Command, LONGEST, Writer, register, working_counter};

use super::cyclic::ACYCLIC;
use onbeat_ethercat::al::ERROR;
use onbeat_ethercat::registers::{AL_CONTROL, AL_STATUS};
use onbeat_ethercat::wire::Wire;

/// Maximum time to wait for a state, and the polling interval.
const STATE_WITHIN_NS: u64 = 100_000_000;
const LOOK_EVERY_NS: u64 = 1_000_000;

/// Requests a state of all devices, acknowledging errors, and waits until they report it. Devices
/// that do not reach it are left to their watchdogs.
pub(super) fn request_state<W: Wire>(wire: &mut W, state: u8, devices: usize) {
    let mut frame = [0; LONGEST];
    let mut writer = Writer::new(&mut frame, ACYCLIC);
    let asked = writer.push_data(Command::Bwr, register(0, AL_CONTROL), &[state | ERROR, 0]);
    let Some(at) = asked.and_then(|_| writer.push(Command::Brd, register(0, AL_STATUS), 2)) else {
        return;
    };
    let length = writer.finish();
    let until = wire.now().plus_ns(STATE_WITHIN_NS);
    let mut number = 0;
    while wire.now() < until {
        number += 1;
        frame::number(&mut frame[..length], number);
        wire.send(&frame[..length]);
        let next = wire.now().plus_ns(LOOK_EVERY_NS);
        let mut reply = [0; LONGEST + 1];
        while let Some(received) = wire.receive(&mut reply, next) {
            let reply = &reply[..received.min(LONGEST)];
            let is_ours = frame::purpose_of(reply) == Some(ACYCLIC)
                && frame::is_reply_to(reply, &frame[..length]);
            let all = is_ours && usize::from(working_counter(reply, at, 2)) == devices;
            if all && reply[at] & 0x1f == state {
                return;
            }
        }

        wire.rest();
    }
}
