//! Frames through a network interface: complete, in order, up to the capacity of the memory shared
//! with the kernel.

use onbeat_ethercat::carrier::{Interface, WireMethod, private_cable};
use onbeat_ethercat::wire::{Packets, Wire};
use onbeat_rt::time::SECOND_NS;

/// Capacity of the shared memory, in frames.
const SLOTS: usize = 64;
const PATIENCE_NS: u64 = 60 * SECOND_NS;

fn frame(number: usize, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number * 13) as u8).collect();
    bytes[12..14].copy_from_slice(&0x88a4_u16.to_be_bytes());
    // As the first device marks a frame that comes back.
    bytes[6] |= 2;
    bytes
}

/// Creates both ends of a cable, or prints why it cannot.
fn cable_by(method: WireMethod) -> Option<(Packets, Interface)> {
    let (bus, devices) = match private_cable(method) {
        Ok((bus, devices)) => (Packets::new(bus), devices),
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };

    if bus.method() == method {
        return Some((bus, devices));
    }

    println!("skipped: frames pass {}", bus.words());
    None
}

fn cable() -> Option<(Packets, Interface)> {
    cable_by(WireMethod::Ring)
}

fn next(bus: &mut Packets) -> Option<Vec<u8>> {
    let mut buffer = [0; 1515];
    let until = bus.now().plus_ns(PATIENCE_NS);
    bus.receive(&mut buffer, until).map(|length| buffer[..length].to_vec())
}

fn whole_and_in_order(mut bus: Packets, devices: &Interface) {
    for number in 0..3 * SLOTS {
        let sent = frame(number, 60 + number * 7);
        devices.send(&sent);
        assert_eq!(next(&mut bus).expect("it came"), sent, "frame {number}");
    }

    let burst: Vec<_> = (0..SLOTS / 2).map(|number| frame(number, 1514 - number)).collect();
    burst.iter().for_each(|sent| devices.send(sent));
    for sent in &burst {
        assert_eq!(next(&mut bus).as_ref(), Some(sent));
    }
}

#[test]
fn frames_arrive_complete_and_in_order_through_interfaces() {
    let Some((bus, devices)) = cable() else { return };
    whole_and_in_order(bus, &devices);
}

#[test]
fn frames_arrive_complete_and_in_order_through_af_xdp() {
    let Some((bus, devices)) = cable_by(WireMethod::Xdp) else { return };
    assert!(bus.words().starts_with("AF_XDP ("), "{}", bus.words());
    whole_and_in_order(bus, &devices);

    let Some((bus, devices)) = cable_by(WireMethod::Xdp) else { return };
    whole_and_in_order(bus.spinning_ns(0), &devices);
}

#[test]
fn frames_sent_through_af_xdp_arrive_at_the_devices() {
    let Some((mut bus, devices)) = cable_by(WireMethod::Xdp) else { return };
    for number in 0..6 * SLOTS {
        let sent = frame(number, 60 + (number * 7) % 1_400);
        bus.send(&sent);
        let mut buffer = [0; 1515];
        let ends = std::slice::from_ref(&devices);
        let taken = Interface::receive_from(ends, 0, &mut buffer, PATIENCE_NS).unwrap();
        let (_, length) = taken.expect("it came");
        assert_eq!(buffer[..length], sent, "frame {number}");
    }
}

#[test]
fn frames_arrive_complete_and_in_order_through_a_socket_of_this_process() {
    let (bus, devices) = Interface::pair().unwrap();
    whole_and_in_order(Packets::new(bus), &devices);
}

#[test]
fn frames_wake_a_sleeping_receiver() {
    let Some((bus, devices)) = cable() else { return };
    whole_and_in_order(bus.spinning_ns(0), &devices);
}

#[test]
fn a_late_loop_reads_the_oldest_frames_and_then_new_ones() {
    let mut counts: Vec<usize> = Vec::new();
    // The kernel may have left a frame for later when it is sent; then it finds room.
    while counts.last() != Some(&SLOTS) {
        assert!(counts.len() < 10, "what does not fit is lost, as in a network card: {counts:?}");
        let Some((mut bus, devices)) = cable() else { return };
        for number in 0..2 * SLOTS {
            devices.send(&frame(number, 100));
        }

        let mut buffer = [0; 1515];
        let already = bus.now();
        let mut came = 0;
        while let Some(length) = bus.receive(&mut buffer, already) {
            // Of those after the oldest, each may have been lost.
            if came < SLOTS {
                assert_eq!(buffer[..length], frame(came, 100), "frame {came}");
            }
            came += 1;
        }

        counts.push(came);
        if came == SLOTS {
            devices.send(&frame(5, 200));
            assert_eq!(next(&mut bus), Some(frame(5, 200)));
        }
    }
}

#[test]
fn a_receive_after_its_deadline_does_not_wait() {
    for method in WireMethod::ALL {
        let Some((mut bus, _devices)) = cable_by(method) else { continue };
        let passed = bus.now();
        assert_eq!(bus.receive(&mut [0; 1515], passed), None);
    }
}

#[test]
fn a_frame_longer_than_the_buffer_is_truncated_and_the_next_is_complete() {
    for method in WireMethod::ALL {
        let Some((mut bus, devices)) = cable_by(method) else { continue };
        let long = frame(1, 900);
        let short = frame(2, 64);
        devices.send(&long);
        devices.send(&short);
        let mut small = [0; 100];
        let until = bus.now().plus_ns(PATIENCE_NS);

        assert_eq!(bus.receive(&mut small, until), Some(100));
        assert_eq!(small, long[..100]);
        assert_eq!(next(&mut bus), Some(short));
    }
}

#[test]
fn the_time_of_reception_is_that_of_the_frame_and_not_of_the_read() {
    const UNREAD: std::time::Duration = std::time::Duration::from_millis(20);
    for method in WireMethod::ALL {
        let Some((mut bus, devices)) = cable_by(method) else { continue };
        let mut unread_ns: Vec<u64> = Vec::new();
        // A frame that the kernel has left for later when it is sent is received later. One of the
        // ring that seems older than a second counts as received now: its stamp is of the wall
        // clock, which may have been set.
        while unread_ns.last().is_none_or(|ns| *ns < UNREAD.as_nanos() as u64) {
            assert!(unread_ns.len() < 20, "{method}: {unread_ns:?}");
            devices.send(&frame(1, 100));
            std::thread::sleep(UNREAD);

            assert_eq!(next(&mut bus), Some(frame(1, 100)));
            let now = bus.now();
            unread_ns.push(now.ns_since(bus.received_at(now)));
        }
    }
}
