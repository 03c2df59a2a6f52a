//! A spike's window as a Perfetto trace. Tests with Perfetto itself are in `tests/perfetto/`.

use crate::cause_world::{World, thread};
use onbeat::cause::event::KernelEvent;
use onbeat::cause::perfetto;

fn spike() -> (World, Vec<u8>) {
    let dd = thread(7, 120, "dd");
    let mut world = World::asleep_beside(dd);
    world.on(1, 150, 7, KernelEvent::SyscallEnter { number: libc::SYS_write });
    world.timer_interrupt(1001, 5).loop_runs(1906, dd);
    let explanation = world.explained();
    let trace = perfetto::write(&world.window, &world.facts, &explanation, "6.18.3");

    (world, trace)
}

/// Returns the top-level fields of a message: number and content of each text or message field.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    let varint = |bytes: &mut &[u8]| {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }

        value
    };

    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        if key & 7 == 2 {
            let (content, rest) = bytes.split_at(usize::try_from(value).unwrap());
            found.push((key >> 3, content));
            bytes = rest;
        }
    }

    found
}

#[test]
fn a_trace_is_a_sequence_of_packets_that_name_the_culprit() {
    let (_, trace) = spike();
    let packets = fields(&trace);
    assert!(packets.len() > 15 && packets.iter().all(|(number, _)| *number == 1));
    let texts = |needle: &str| {
        trace.windows(needle.len()).filter(|bytes| *bytes == needle.as_bytes()).count()
    };
    assert!(
        texts("kernel section in dd/write") >= 2,
        "on the track of causes and on the culprit's"
    );
    assert_eq!(texts("onbeat: the loop"), 1);
}
