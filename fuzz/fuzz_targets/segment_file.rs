//! Parses any text as a segment file, and sends frames to the segment of a valid one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_segment::{Link, Nic};
use onbeat_rt::time::Instant;

fuzz_target!(|text: &str| {
    let Ok(mut link) = Link::from_toml(text) else { return };
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(&[0x88, 0xa4, 14, 0x10, 7, 0, 0, 0, 0x30, 1, 2, 0, 0, 0, 0, 0, 0, 0]);
    for now_ns in [0, 1_000_000, 2_000_000] {
        link.send(Nic::First, &frame, Instant::from_ns(now_ns));
    }
});
