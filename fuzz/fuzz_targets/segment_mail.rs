//! Sends any bytes as mails to a drive and fetches its replies, in frames as a MainDevice sends
//! them. Each mail is preceded by its length, an AL state to request, and the number of replies to
//! fetch.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_segment::{Command, Segment};
use onbeat_rt::time::Instant;

const FILE: &str = "[types.joint]\nkind = \"drive\"\nmailbox = 64\n[[devices]]\ntype = \"joint\"\nname = \"a\"\n";
const MAILBOX: usize = 64;

fn send(segment: &mut Segment, now_ns: &mut u64, command: Command, offset: u16, data: &[u8]) -> Vec<u8> {
    *now_ns += 50_000;
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(&[0x88, 0xa4]);
    frame.extend_from_slice(&(data.len() as u16 + 12 | 0x1000).to_le_bytes());
    frame.extend_from_slice(&[command as u8, 0, 0, 0]);
    frame.extend_from_slice(&offset.to_le_bytes());
    frame.extend_from_slice(&(data.len() as u16).to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(data);
    frame.extend_from_slice(&[0, 0]);
    segment.frame(&mut frame, Instant::from_ns(*now_ns));
    frame
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut segment) = Segment::from_toml(FILE) else { return };
    let mut now_ns = 0;
    let write = |segment: &mut Segment, now_ns: &mut u64, offset, data: &[u8]| {
        send(segment, now_ns, Command::Apwr, offset, data);
    };
    let sizes = (MAILBOX as u16).to_le_bytes();
    write(&mut segment, &mut now_ns, 0x0800, &[0, 0x10, sizes[0], sizes[1], 0x26, 0, 1, 0]);
    write(&mut segment, &mut now_ns, 0x0808, &[0x40, 0x10, sizes[0], sizes[1], 0x22, 0, 1, 0]);
    write(&mut segment, &mut now_ns, 0x0120, &[2, 0]);
    // A state change takes effect with the next frame.
    send(&mut segment, &mut now_ns, Command::Aprd, 0x0130, &[0; 2]);
    assert_eq!(segment.status(0).map(|status| status.al_state), Some(2), "the mailbox is active");
    let mut rest = bytes;
    while let Some((&[length, state, fetches], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(length).min(after.len()).min(MAILBOX);
        let (body, after) = after.split_at(length);
        rest = after;
        if state & 0xf0 == 0x50 {
            write(&mut segment, &mut now_ns, 0x0120, &[state & 0x0f, 0]);
        }
        let mut mail = body.to_vec();
        mail.resize(MAILBOX, 0);
        write(&mut segment, &mut now_ns, 0x1000, &mail);
        for _ in 0..fetches & 3 {
            let frame = send(&mut segment, &mut now_ns, Command::Aprd, 0x1040, &[0; MAILBOX]);
            let data = &frame[26..26 + MAILBOX];
            let count = frame[frame.len() - 2];
            let length = usize::from(u16::from_le_bytes([data[0], data[1]]));
            assert!(count == 0 || length + 6 <= MAILBOX, "a mail of {length} bytes in a mailbox of {MAILBOX}");
        }
    }
});
