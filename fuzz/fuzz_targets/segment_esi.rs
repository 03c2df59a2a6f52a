//! Reads any bytes as an ESI file. A valid one has a layout, an EEPROM that can be decoded, and
//! devices that accept frames.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::sii::Sii;
use onbeat_segment::{Description, Segment};
use onbeat_rt::time::Instant;

/// One datagram to the device at position 0.
fn frame(command: u8, offset: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend_from_slice(&[0x88, 0xa4]);
    frame.extend_from_slice(&(data.len() as u16 + 12 | 0x1000).to_le_bytes());
    frame.extend_from_slice(&[command, 0, 0, 0]);
    frame.extend_from_slice(&offset.to_le_bytes());
    frame.extend_from_slice(&(data.len() as u16).to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(data);
    frame.extend_from_slice(&[0, 0]);
    frame
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(description) = Description::from_esi(bytes, "fuzz.xml", &[]) else { return };
    let Ok(mut segment) = Segment::from_description(&description) else { return };
    let Ok(layout) = Layout::from_description(&description) else { panic!("a segment without a layout") };
    assert_eq!(layout.devices.len(), segment.order_on_cable().len());
    let mut now_ns = 0;
    let mut send = |segment: &mut Segment, mut frame: Vec<u8>| {
        now_ns += 1_000_000;
        segment.frame(&mut frame, Instant::from_ns(now_ns));
        frame
    };
    let mut image = Vec::new();
    for address in (0..1024u16).step_by(4) {
        let [low, high] = address.to_le_bytes();
        send(&mut segment, frame(2, 0x0502, &[0, 1, low, high, 0, 0]));
        let reply = send(&mut segment, frame(1, 0x0508, &[0; 8]));
        image.extend_from_slice(&reply[26..34]);
    }
    match Sii::decode(&image) {
        Ok(sii) => {
            let first = segment.order_on_cable()[0];
            assert_eq!(layout.devices[0].product, sii.product, "device {first}");
        }
        // The image can be longer than the part that was read.
        Err(why) => assert!(why.to_string().contains("left"), "{why}"),
    }
    for state in [2, 4, 8, 1] {
        send(&mut segment, frame(2, 0x0120, &[state, 0]));
    }
});
