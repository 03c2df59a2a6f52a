//! Messages with pictures, as ROS 2 and Foxglove define them, in CDR.
//!
//! Written here and not by `TypeSet::encode`, which would make a value of each byte.

use onbeat_message::TypeSet;

use super::coding::Coding;

/// `sensor_msgs/msg/CompressedImage`, without its comments.
const COMPRESSED_IMAGE: &str = "std_msgs/Header header
string format
uint8[] data
";
/// `sensor_msgs/msg/Image`, without its comments.
const IMAGE: &str = "std_msgs/Header header
uint32 height
uint32 width
string encoding
uint8 is_bigendian
uint32 step
uint8[] data
";
/// `foxglove_msgs/msg/CompressedVideo`, without its comments.
const COMPRESSED_VIDEO: &str = "builtin_interfaces/Time timestamp
string frame_id
uint8[] data
string format
";
const HEADER: &str = "builtin_interfaces/Time stamp
string frame_id
";
const TIME: &str = "int32 sec
uint32 nanosec
";

fn types_and_name(coding: &Coding) -> (&'static str, &'static str) {
    match coding {
        Coding::Jpeg => ("sensor_msgs/msg/CompressedImage", COMPRESSED_IMAGE),
        Coding::Video { .. } => ("foxglove_msgs/msg/CompressedVideo", COMPRESSED_VIDEO),
        Coding::Raw { .. } => ("sensor_msgs/msg/Image", IMAGE),
    }
}

/// Returns name, hash and definition of the type of a coding's messages.
pub(super) fn record_type(coding: &Coding) -> (String, [u8; 32], String) {
    let (name, text) = types_and_name(coding);
    let mut types = TypeSet::default();
    for (name, text) in
        [(name, text), ("std_msgs/msg/Header", HEADER), ("builtin_interfaces/msg/Time", TIME)]
    {
        // A test reads them.
        let _ = types.add(name, text);
    }
    let hash = types.hash(name).unwrap_or_default();
    (name.to_owned(), hash, types.text(name).unwrap_or_default())
}

/// A message, little-endian; positions are counted from behind its head of four bytes.
struct Cdr<'r>(&'r mut Vec<u8>);

impl<'r> Cdr<'r> {
    fn begin(record: &'r mut Vec<u8>) -> Self {
        record.clear();
        record.extend_from_slice(&[0, 1, 0, 0]);
        Self(record)
    }

    fn number(&mut self, number: u32) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(u32::try_from(text.len() + 1).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    /// A sequence of bytes that `append` writes.
    fn bytes(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        self.number(0);
        let begin = self.0.len();
        append(self.0);
        let length = u32::try_from(self.0.len() - begin).unwrap_or(u32::MAX);
        self.0[begin - 4..begin].copy_from_slice(&length.to_le_bytes());
    }
}

/// Encodes a picture with its time (UTC) and the camera's name into `record`.
pub(super) fn encode(
    record: &mut Vec<u8>,
    coding: &Coding,
    (stamp_ns, camera): (u64, &str),
    bytes: &[u8],
) {
    let mut message = Cdr::begin(record);
    message.number(u32::try_from(stamp_ns / 1_000_000_000).unwrap_or(u32::MAX));
    message.number((stamp_ns % 1_000_000_000) as u32);
    message.text(camera);
    match coding {
        Coding::Jpeg => {
            message.text(coding.word());
            message.bytes(|to| coding.append(bytes, to));
        }
        Coding::Video { .. } => {
            message.bytes(|to| coding.append(bytes, to));
            message.text(coding.word());
        }
        Coding::Raw { width, height, channels } => {
            message.number(u32::try_from(*height).unwrap_or(u32::MAX));
            message.number(u32::try_from(*width).unwrap_or(u32::MAX));
            message.text(coding.word());
            message.0.push(0);
            message.number(u32::try_from(*width).unwrap_or(u32::MAX).saturating_mul(*channels));
            message.bytes(|to| coding.append(bytes, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use onbeat_message::Value;

    use super::*;

    #[test]
    fn a_message_is_that_of_the_general_encoder() {
        let video = Coding::Video { format: "h264", parameters: vec![0, 0, 0, 1, 7], is_key: true };
        let raw = Coding::Raw { width: 3, height: 1, channels: 3 };
        for (coding, bytes) in [
            (Coding::Jpeg, &[1, 2, 3][..]),
            (video, &[0, 0, 0, 1, 9]),
            (raw, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ] {
            for camera in ["a", "left", "camera-12"] {
                let (name, hash, schema) = record_type(&coding);
                assert_ne!(hash, [0; 32]);
                let types = TypeSet::from_text(&name, &schema).unwrap();
                let mut record = Vec::new();
                encode(&mut record, &coding, (1_700_000_000_123_456_789, camera), bytes);
                let value = types.value(&name, &record).unwrap();
                assert_eq!(types.encode(&name, &value).unwrap(), record, "{name} of {camera}");
                let stamp = value
                    .field("timestamp")
                    .or(value.field("header").and_then(|it| it.field("stamp")));
                assert_eq!(stamp.unwrap().field("nanosec"), Some(&Value::Uint(123_456_789)));
            }
        }
    }
}
