//! Sends any bytes as frames to a simulated segment. Each frame is preceded by its length and a
//! time to wait before it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_segment::Segment;
use onbeat_rt::time::Instant;

const FILE: &str = "\
[types.joint]\nkind = \"drive\"\n[types.contacts]\nkind = \"digital\"\n[types.board]\nkind = \"analogue\"\nports = 3\n\
[[devices]]\ntype = \"board\"\nname = \"a\"\n[[devices]]\ntype = \"joint\"\nname = \"b\"\n\
[[devices]]\ntype = \"contacts\"\nname = \"c\"\nafter = \"a\"\n";

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut segment) = Segment::from_toml(FILE) else { return };
    let mut now_ns = 0;
    let mut rest = bytes;
    while let Some((&[low, high, wait], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([low, high]) & 0x07ff).min(after.len());
        let (body, after) = after.split_at(length);
        rest = after;
        now_ns += u64::from(wait) * 10_000;
        let mut frame = vec![0xff; 12];
        frame.extend_from_slice(&[0x88, 0xa4]);
        frame.extend_from_slice(body);
        segment.frame(&mut frame, Instant::from_ns(now_ns));
    }
});
