//! Encoder for protocol buffers: numbers, strings and nested messages (protobuf.dev, wire types 0
//! and 2).

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds an unsigned number.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// Adds an `int32` or `int64`; negative numbers take ten bytes.
    pub(super) fn signed(self, field: u32, value: i64) -> Self {
        self.number(field, value as u64)
    }

    pub(super) fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::ProtobufMessage;

    #[test]
    fn messages_have_the_documented_bytes() {
        // The examples of protobuf.dev/programming-guides/encoding.
        assert_eq!(ProtobufMessage::new().number(1, 150).finish(), [0x08, 0x96, 0x01]);
        assert_eq!(ProtobufMessage::new().text(2, "testing").finish(), b"\x12\x07testing");
        let inner = ProtobufMessage::new().number(1, 150);
        assert_eq!(
            ProtobufMessage::new().message(3, &inner).finish(),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(
            ProtobufMessage::new().signed(1, -2).finish(),
            b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
    }
}
