//! ZeroMQ's protocol, without a socket: ZMTP 3.0 with the mechanism NULL, for publishers and
//! subscribers (ZeroMQ RFC 23, <https://rfc.zeromq.org/spec/23/>).

/// Bytes of a greeting.
pub(super) const GREETING: usize = 64;
/// Flags of a frame: another one of the same message follows; its length has 8 bytes; a command.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Most frames of a message.
const MOST_FRAMES: usize = 16;

/// The bytes of a peer are not ZMTP 3 with the mechanism NULL, or its message is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotZmtp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRole {
    Publisher,
    Subscriber,
}

impl SocketRole {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Publisher => b"PUB",
            Self::Subscriber => b"SUB",
        }
    }
}

/// Returns what a socket sends first: its greeting and its command READY.
pub(super) fn opening(role: SocketRole) -> Vec<u8> {
    let mut bytes = vec![0; GREETING];
    (bytes[0], bytes[9]) = (0xff, 0x7f);
    // Version 3.0: subscriptions are messages, and nobody sends a PING.
    bytes[10] = 3;
    bytes[12..16].copy_from_slice(b"NULL");

    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend((role.name().len() as u32).to_be_bytes());
    ready.extend(role.name());
    put_frame(&mut bytes, COMMAND, &ready);
    bytes
}

/// Returns the request for all messages.
pub(super) fn subscription() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, 0, &[1]);
    bytes
}

/// Appends a message.
pub(super) fn put_message(bytes: &mut Vec<u8>, frames: &[&[u8]]) {
    for (place, frame) in frames.iter().enumerate() {
        let more = if place + 1 < frames.len() { MORE } else { 0 };
        put_frame(bytes, more, frame);
    }
}

fn put_frame(bytes: &mut Vec<u8>, flags: u8, content: &[u8]) {
    match u8::try_from(content.len()) {
        Ok(length) => bytes.extend([flags, length]),
        Err(_) => {
            bytes.push(flags | LONG);
            bytes.extend((content.len() as u64).to_be_bytes());
        }
    }
    bytes.extend(content);
}

/// Splits what a peer sends into messages, and holds no more of it than one message of the longest length
/// and what was read last.
#[derive(Debug)]
pub struct ZmtpDecoder {
    bytes: Vec<u8>,
    at: usize,
    is_greeted: bool,
    is_ready: bool,
    frames: Vec<Vec<u8>>,
    most_message: usize,
}

impl ZmtpDecoder {
    /// Creates a decoder for messages of at most this length, all frames together, in bytes.
    #[must_use]
    pub const fn new(most_message: usize) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            is_greeted: false,
            is_ready: false,
            frames: Vec::new(),
            most_message,
        }
    }

    /// Takes bytes as they arrive; messages are taken out before the next ones.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend(bytes);
    }

    /// Returns the number of bytes that are held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.frames.iter().map(Vec::len).sum::<usize>()
    }

    /// Returns whether the peer has sent its greeting and its READY.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Returns the next complete message; commands are not returned.
    ///
    /// # Errors
    /// [`NotZmtp`]; the connection is of no use then.
    pub fn next_message(&mut self) -> Result<Option<Vec<Vec<u8>>>, NotZmtp> {
        if !self.is_greeted {
            let Some(greeting) = self.bytes.get(..GREETING) else { return Ok(None) };
            let is_null = &greeting[12..17] == b"NULL\0";
            if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 || !is_null {
                return Err(NotZmtp);
            }
            (self.is_greeted, self.at) = (true, GREETING);
        }

        while let Some((flags, content)) = self.frame()? {
            if flags & COMMAND != 0 {
                self.is_ready |= content.starts_with(b"\x05READY");
                if content.starts_with(b"\x05ERROR") {
                    return Err(NotZmtp);
                }
                continue;
            }
            if !self.is_ready {
                return Err(NotZmtp);
            }
            self.frames.push(content);
            if flags & MORE == 0 {
                return Ok(Some(std::mem::take(&mut self.frames)));
            }
            if self.frames.len() == MOST_FRAMES {
                return Err(NotZmtp);
            }
        }
        // What was taken out is not held while the rest is waited for.
        self.bytes.drain(..self.at);
        self.at = 0;
        Ok(None)
    }

    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, NotZmtp> {
        let left = &self.bytes[self.at..];
        let Some((&flags, rest)) = left.split_first() else { return Ok(None) };
        let length = match flags & LONG {
            0 => rest.split_first().map(|(length, rest)| (u64::from(*length), rest)),
            _ => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest)),
        };
        let Some((length, rest)) = length else { return Ok(None) };
        let held: usize = self.frames.iter().map(Vec::len).sum();
        let room = (self.most_message - held) as u64;
        if flags > (MORE | LONG | COMMAND) || length > room {
            return Err(NotZmtp);
        }

        let Some(content) = rest.get(..length as usize) else { return Ok(None) };
        let content = content.to_vec();
        self.at = self.bytes.len() - rest.len() + content.len();
        Ok(Some((flags, content)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_wherever_the_bytes_are_cut() {
        let long = vec![7; 300];
        let mut bytes = opening(SocketRole::Publisher);
        put_message(&mut bytes, &[b"walker/cycle", &long, b""]);
        put_message(&mut bytes, &[b"x"]);
        for cut in 1..80 {
            let mut decoder = ZmtpDecoder::new(1 << 20);
            let mut found = Vec::new();
            for part in bytes.chunks(cut) {
                decoder.put(part);
                while let Some(message) = decoder.next_message().unwrap() {
                    found.push(message);
                }
            }
            let first = vec![b"walker/cycle".to_vec(), long.clone(), Vec::new()];
            assert_eq!(found, [first, vec![b"x".to_vec()]], "{cut}");
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut refused = 0;
        for _ in 0..2000 {
            let mut bytes = opening(SocketRole::Subscriber);
            put_message(&mut bytes, &[b"a", b"b"]);
            for _ in 0..random.usize(0..5) {
                let place = random.usize(0..bytes.len());
                bytes[place] = random.u8(..);
            }
            let mut decoder = ZmtpDecoder::new(1 << 20);
            decoder.put(&bytes);
            refused += usize::from((0..4).any(|_| decoder.next_message().is_err()));
        }
        assert!(refused > 0);
    }

    #[test]
    fn a_claimed_length_takes_no_memory_and_a_message_beyond_the_limit_is_refused() {
        for length in [1 << 31, 1 << 32, 1 << 46, 1 << 63, u64::MAX, 101] {
            let mut bytes = opening(SocketRole::Publisher);
            bytes.push(LONG);
            bytes.extend(u64::to_be_bytes(length));
            let mut decoder = ZmtpDecoder::new(100);
            decoder.put(&bytes);
            assert_eq!(decoder.next_message(), Err(NotZmtp), "{length}");
            assert!(decoder.held_bytes() <= bytes.len());
        }

        // As many short frames are no way around it.
        let mut bytes = opening(SocketRole::Publisher);
        put_message(&mut bytes, &[&[7; 60], &[7; 60]]);
        let mut decoder = ZmtpDecoder::new(100);
        decoder.put(&bytes);
        assert_eq!(decoder.next_message(), Err(NotZmtp));
    }
}
