//! Takes any bytes as those of a ZeroMQ peer, wherever they are cut: messages, or the end of the connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_gateway::ZmtpDecoder;

/// Longest message, all frames together, in bytes.
const MOST: usize = 1 << 10;

fn messages(bytes: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, bool) {
    let mut decoder = ZmtpDecoder::new(MOST);
    let mut found = Vec::new();
    for part in bytes.chunks(piece) {
        decoder.put(part);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => {
                    assert!(message.iter().map(Vec::len).sum::<usize>() <= MOST);
                    found.push(message);
                }
                Ok(None) => break,
                Err(_) => return (found, false),
            }
        }
        // A message, the head of its next frame, and what was read last.
        assert!(decoder.held_bytes() <= MOST + 64 + 9 + piece);
    }
    (found, true)
}

fuzz_target!(|bytes: &[u8]| {
    let [piece, bytes @ ..] = bytes else { return };
    let piece = usize::from(*piece) + 1;
    assert_eq!(messages(bytes, piece), messages(bytes, 1), "the cut does not matter");
});
