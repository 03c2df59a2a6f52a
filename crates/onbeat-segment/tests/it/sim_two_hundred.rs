//! Two hundred devices of several kinds at 500 Hz: each working counter is exact. The time per
//! frame is printed, not checked.

use crate::sim_world;

use std::fmt::Write;
use std::time::{Duration, Instant as Real};

use onbeat_ethercat::layout::Layout;
use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Segment};
use sim_world::{World, frame_of, last_count};

const DEVICES: usize = 200;
const CYCLES: u32 = 2_000;
/// Longest data of a frame with one datagram.
const LONGEST: usize = 1486;

/// A line of devices: of eight, six are drives, one is an inertial unit, one has contacts.
fn file() -> String {
    let mut text =
        "[segment]\nname = \"two hundred\"\nseed = 200\n[types.joint]\nkind = \"drive\"\n\
        [types.imu]\nkind = \"imu\"\n[types.contacts]\nkind = \"digital\"\n"
            .to_owned();
    for device in 0..DEVICES {
        let kind = match device % 8 {
            3 => "imu",
            7 => "contacts",
            _ => "joint",
        };
        write!(text, "[[devices]]\ntype = \"{kind}\"\nname = \"{kind} {device}\"\n").unwrap();
    }

    text
}

#[test]
fn two_hundred_devices_run_at_500_hz_with_exact_working_counters() {
    let text = file();
    let mut world = World::new(Segment::from_toml(&text).unwrap());
    world.address_all();
    // Outputs and inputs of a device share logical addresses; no device is in two frames.
    let mut parts: Vec<(u32, usize, u16)> = vec![(0, 0, 0)];
    for (place, device) in Layout::from_toml(&text).unwrap().devices.iter().enumerate() {
        let bytes = device.outputs.len().max(device.inputs.len());
        if parts.last().unwrap().1 + bytes > LONGEST {
            let next = parts.last().unwrap().0 + 0x1_0000;
            parts.push((next, 0, 0));
        }

        let (start, length, count) = parts.last_mut().unwrap();
        let mailbox = if device.outputs.len() == 1 { 0 } else { 128 };
        world.bring_up(0x1001 + place as u16, mailbox, *start + *length as u32);
        *length += bytes;
        *count +=
            u16::from(!device.inputs.is_empty()) + if device.outputs.is_empty() { 0 } else { 2 };
    }

    assert_eq!(parts.len(), 2, "{parts:?}");
    let frames: Vec<(Vec<u8>, u16)> = parts
        .iter()
        .map(|&(start, length, count)| {
            let image = vec![6; length];
            (frame_of(&[(Command::Lrw, start as u16, (start >> 16) as u16, &image)]), count)
        })
        .collect();
    let mut frame = Vec::with_capacity(1514);
    let mut on_frames = Duration::ZERO;
    let mut on_devices = Duration::ZERO;

    for cycle in 0..CYCLES {
        world.wait_ns(1_900_000);
        for (sent, count) in &frames {
            frame.clear();
            frame.extend_from_slice(sent);
            world.now_ns += 50_000;
            // A carrier advances the devices after sending its reply, not while a frame waits.
            let began = Real::now();
            world.segment.advance(Instant::from_ns(world.now_ns));
            on_devices += began.elapsed();
            let began = Real::now();
            world.segment.frame(&mut frame, Instant::from_ns(world.now_ns));
            on_frames += began.elapsed();

            assert_eq!((cycle, last_count(&frame)), (cycle, *count));
        }
    }

    let per = |time: Duration, parts: usize| time.as_nanos() as usize / (CYCLES as usize * parts);
    let frame_ns = per(on_frames, frames.len());
    let device_ns = per(on_devices, 1);
    println!(
        "{DEVICES} devices: {frame_ns} ns per frame of two, {device_ns} ns per cycle for what the devices do"
    );
    assert!(
        (0..DEVICES)
            .all(|device| world.segment.status(device).is_some_and(|status| status.al_state == 8))
    );
}
