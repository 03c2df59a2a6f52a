//! How long the simulated humanoid takes for a frame: `cargo run --release -p onbeat-segment
//! --example segment_speed`.
#![allow(clippy::print_stdout)]

use std::time::Instant as Watch;

use onbeat_rt::time::Instant;
use onbeat_segment::{Passage, Segment};

const IMAGE: usize = 48 * 12 + 8 + 3 * 24;

fn datagram(frame: &mut Vec<u8>, command: u8, address: [u8; 4], data: &[u8], more: bool) {
    frame.extend_from_slice(&[command, 0]);
    frame.extend_from_slice(&address);
    let length = data.len() as u16 | if more { 0x8000 } else { 0 };
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(data);
    frame.extend_from_slice(&[0, 0]);
}

fn header(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(&[0x88, 0xa4]);
    frame.extend_from_slice(&(bytes as u16 | 0x1000).to_le_bytes());
    frame
}

/// One write to a device.
fn write(segment: &mut Segment, now_ns: &mut u64, station: u16, offset: u16, data: &[u8]) {
    let mut frame = header(data.len() + 12);
    let [low, high] = station.to_le_bytes();
    let [offset_low, offset_high] = offset.to_le_bytes();
    datagram(&mut frame, 5, [low, high, offset_low, offset_high], data, false);
    *now_ns += 10_000;
    segment.frame(&mut frame, Instant::from_ns(*now_ns));
}

fn bring_up(segment: &mut Segment, now_ns: &mut u64) {
    for position in 0..segment.len() as u16 {
        let mut frame = header(14);
        let [low, high] = 0u16.wrapping_sub(position).to_le_bytes();
        datagram(&mut frame, 2, [low, high, 0x10, 0], &(0x1001 + position).to_le_bytes(), false);
        *now_ns += 10_000;
        segment.frame(&mut frame, Instant::from_ns(*now_ns));
    }

    let mut logical = 0u32;
    for device in 0..segment.len() {
        let station = 0x1001 + device as u16;
        let Some(status) = segment.status(device) else { continue };
        let outputs = status.output_bytes as u8;
        let inputs = status.input_bytes as u8;
        let mut channels = Vec::new();
        if outputs != 1 {
            channels.extend_from_slice(&[
                0x00, 0x10, 128, 0, 0x26, 0, 1, 0, 0x80, 0x10, 128, 0, 0x22, 0, 1, 0,
            ]);
        }

        channels.extend_from_slice(&[0x00, 0x18, outputs, 0, 0x64, 0, u8::from(outputs > 0), 0]);
        channels.extend_from_slice(&[0x00, 0x24, inputs, 0, 0x20, 0, 1, 0]);
        write(segment, now_ns, station, 0x0800, &channels);
        let at = logical.to_le_bytes();
        for (channel, length, high, direction) in
            [(0u16, outputs, 0x18u8, 2u8), (1, inputs, 0x24, 1)]
        {
            let map = [
                at[0],
                at[1],
                at[2],
                at[3],
                length,
                0,
                0,
                7,
                0,
                high,
                0,
                direction,
                u8::from(length > 0),
                0,
                0,
                0,
            ];
            write(segment, now_ns, station, 0x0600 + 16 * channel, &map);
        }

        for state in [2, 4, 8] {
            write(segment, now_ns, station, 0x0120, &[state, 0]);
        }

        logical += u32::from(outputs.max(inputs));
    }
}

fn main() {
    let Ok(mut segment) = Segment::from_toml(Segment::HUMANOID) else { return };
    let mut now_ns = 0;
    bring_up(&mut segment, &mut now_ns);
    let mut frame = header(8 + 12 + IMAGE + 12);
    datagram(&mut frame, 14, [0x01, 0x10, 0x10, 0x09], &[0; 8], true);
    datagram(&mut frame, 12, [0; 4], &[0; IMAGE], false);
    let mut work = frame.clone();
    let (mut frames, mut devices) = (Vec::new(), Vec::new());

    for _ in 0..200_000 {
        work.copy_from_slice(&frame);
        now_ns += 1_000_000;
        let start = Watch::now();
        segment.advance(Instant::from_ns(now_ns));
        let between = Watch::now();
        let passage = segment.frame(&mut work, Instant::from_ns(now_ns));
        frames.push(between.elapsed().as_nanos());
        devices.push((between - start).as_nanos());

        if !matches!(passage, Passage::Back { .. }) {
            println!("{passage:?}");
        }
    }

    let last = work.len() - 2;
    println!("working counter {}", u16::from_le_bytes([work[last], work[last + 1]]));
    for (what, mut times) in
        [("frame past 59 devices", frames), ("their own work between frames", devices)]
    {
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize];
        println!("{what}: median {} ns, p99 {} ns, {} frames", at(0.5), at(0.99), times.len());
    }
}
