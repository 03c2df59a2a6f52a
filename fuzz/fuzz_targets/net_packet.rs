//! Decodes any bytes as a message of the wire format, and as the file of a plan.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_net::packet::{self, PacketBody};
use onbeat_net::plan::Network;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, body)) = packet::decode(bytes) {
        assert_eq!(header.kind.body_bytes().unwrap_or(bytes.len() - packet::HEADER_BYTES), bytes.len() - packet::HEADER_BYTES);
        let mut again = vec![0; bytes.len()];
        header.write(&mut again);
        body.write(&mut again[packet::HEADER_BYTES..]);
        assert_eq!(packet::decode(&again).map(|(header, _)| header), Ok(header));
        if let PacketBody::Echo(echo) = body {
            assert_eq!(echo, &again[packet::HEADER_BYTES..]);
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Network::parse(text);
    }
});
