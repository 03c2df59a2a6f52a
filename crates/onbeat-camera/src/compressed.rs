//! Pictures for logs: a channel of messages beside the ring of frames, compressed as they came.
//!
//! A [`PictureChannel`] publishes on the channel `NAME/image` what a source receives, before anything is
//! decoded: JPEG pictures as `sensor_msgs/msg/CompressedImage`, access units of H.264 and H.265 as
//! `foxglove_msgs/msg/CompressedVideo` with start codes and, at key frames, their parameter sets; of sources
//! without compression `sensor_msgs/msg/Image`. `onbeat message record` writes it beside other channels.
//!
//! Absent on purpose: the log's file, which is the recorder's; compression of what came without.

mod coding;
mod message;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use onbeat_control::{Channel, RecordType, RingError, RingSettings, RingWriter};

use crate::camera::now_ns;
use crate::convert::{Picture, rows_of};
pub use coding::{Coding, parameter_sets};

/// Topic of the channel.
pub const TOPIC: &str = "image";
/// Records kept, and memory beyond which there are fewer.
const RECORDS: usize = 32;
const MOST_RING_BYTES: usize = 512 << 20;
/// Bytes of a message beside the picture.
const MESSAGE_HEAD: usize = 1 << 10;
/// Pictures, and their bytes, that may wait until the size is known.
const MOST_WAITING: usize = 64;
const MOST_WAITING_BYTES: usize = 32 << 20;

/// The channel, shared by the threads that receive and decode.
#[derive(Clone, Debug)]
pub struct PictureChannel(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    name: String,
    utc_offset_ns: u64,
    writer: Option<RingWriter>,
    coding: Option<Coding>,
    /// Whether decoding can begin with something that came.
    has_begun: bool,
    most_bytes: usize,
    /// What came before the channel was made.
    waiting: Vec<(Coding, u64, Vec<u8>)>,
    record: Vec<u8>,
    rows: Vec<u8>,
    account: ChannelAccount,
}

/// What became of the pictures of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ChannelAccount {
    pub published: u64,
    /// Longer than a record, of another coding than the first one, or more than could wait for the channel.
    pub left_out: u64,
    /// Of a video, before its first key frame: nothing can decode them.
    pub before_key: u64,
}

impl PictureChannel {
    /// Prepares the channel of a camera; it exists from the first picture on.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let utc_ns = u64::try_from(utc.as_nanos()).unwrap_or(u64::MAX);
        Self(Arc::new(Mutex::new(State {
            name: name.to_owned(),
            utc_offset_ns: utc_ns.saturating_sub(now_ns()),
            writer: None,
            coding: None,
            has_begun: false,
            most_bytes: 0,
            waiting: Vec::new(),
            record: Vec::new(),
            rows: Vec::new(),
            account: ChannelAccount::default(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left a state that is valid after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a picture as it came.
    pub fn put(&self, coding: &Coding, capture_ns: u64, bytes: &[u8]) {
        let mut state = self.state();
        if state.coding.get_or_insert_with(|| coding.clone()).word() != coding.word() {
            state.account.left_out += 1;
            return;
        }
        state.has_begun |= !matches!(coding, Coding::Video { is_key: false, .. });
        if !state.has_begun {
            state.account.before_key += 1;
            return;
        }
        let State { writer, waiting, .. } = &mut *state;
        if writer.is_some() {
            state.publish(coding, capture_ns, bytes);
            return;
        }
        let kept: usize = waiting.iter().map(|(_, _, bytes)| bytes.len()).sum();
        if waiting.len() < MOST_WAITING && kept + bytes.len() <= MOST_WAITING_BYTES {
            waiting.push((coding.clone(), capture_ns, bytes.to_vec()));
        } else {
            state.account.left_out += 1;
        }
    }

    /// Makes the channel if there is none, once the size is known, and publishes what has waited for it. A picture of a source
    /// without compression is published.
    ///
    /// # Errors
    /// [`RingError`]: the channel is taken, or there is no room for it.
    pub fn decoded(&self, picture: &Picture<'_>, capture_ns: u64) -> Result<(), RingError> {
        let mut state = self.state();
        let (width, height) = picture.size();
        let coding = state.coding.get_or_insert_with(|| Coding::raw(picture)).clone();
        if state.writer.is_none() {
            state.make(&coding, (width, height))?;
            for (own, capture_ns, bytes) in std::mem::take(&mut state.waiting) {
                state.publish(&own, capture_ns, &bytes);
            }
        }
        if let Coding::Raw { channels, .. } = coding {
            let raw = Coding::Raw { width, height, channels };
            let mut rows = std::mem::take(&mut state.rows);
            rows_of(picture, channels, &mut rows);
            state.publish(&raw, capture_ns, &rows);
            state.rows = rows;
        }
        Ok(())
    }

    /// Returns the account so far.
    #[must_use]
    pub fn account(&self) -> ChannelAccount {
        self.state().account
    }
}

impl State {
    fn make(&mut self, coding: &Coding, (width, height): (usize, usize)) -> Result<(), RingError> {
        let channel = Channel::new(&self.name, TOPIC)?;
        // A compressed picture is smaller than its luma, but for tiny ones.
        let pixels = match coding {
            Coding::Raw { channels, .. } => width * height * *channels as usize,
            _ => (width * height).max(64 << 10),
        };
        self.most_bytes = pixels + MESSAGE_HEAD;
        let records = (MOST_RING_BYTES / self.most_bytes).clamp(2, RECORDS);
        let (name, hash, schema) = message::record_type(coding);
        let settings = RingSettings {
            records: 1 << records.ilog2(),
            record_bytes: self.most_bytes,
            record_type: RecordType { name, hash, schema },
            description: serde_json::json!({ "camera": self.name }).to_string(),
        };
        self.writer = Some(RingWriter::create(&channel, &settings)?);
        Ok(())
    }

    fn publish(&mut self, coding: &Coding, capture_ns: u64, bytes: &[u8]) {
        let Some(writer) = &mut self.writer else { return };
        let stamp_ns = capture_ns.saturating_add(self.utc_offset_ns);
        message::encode(&mut self.record, coding, (stamp_ns, &self.name), bytes);
        // What is longer would be cut.
        if self.record.len() > self.most_bytes {
            self.account.left_out += 1;
            return;
        }
        writer.publish(capture_ns, &self.record);
        self.account.published += 1;
    }
}

#[cfg(test)]
mod tests {
    use onbeat_control::{Reading, RingReader, Start};
    use onbeat_message::{TypeSet, Value};

    use super::*;

    fn name(of: &str) -> String {
        format!("{of}-{}", std::process::id())
    }

    fn records(name: &str) -> Vec<(u64, Value)> {
        let channel = Channel::new(name, TOPIC).unwrap();
        let mut reader = RingReader::open(&channel, Start::Oldest).unwrap();
        let record_type = reader.record_type();
        let types = TypeSet::from_text(&record_type.name, &record_type.schema).unwrap();
        let mut found = Vec::new();
        while let Reading::Record { at_ns, bytes, .. } = reader.next() {
            found.push((at_ns, types.value(&record_type.name, bytes).unwrap()));
        }
        found
    }

    fn bytes_of(value: &Value) -> Vec<u8> {
        let Some(Value::List(all)) = value.field("data") else { panic!("no data") };
        all.iter().map(|it| if let Value::Uint(byte) = it { *byte as u8 } else { 0 }).collect()
    }

    #[test]
    fn pictures_before_the_size_is_known_are_published_with_their_times() {
        let name = name("waiting");
        let channel = PictureChannel::new(&name);
        channel.put(&Coding::Jpeg, 1_000, &[0xff, 0xd8, 1]);
        channel.put(&Coding::Jpeg, 2_000, &[0xff, 0xd8, 2, 3]);
        let pixels = [0; 12];
        let picture = Picture::Rgb { width: 2, height: 2, pixels: &pixels };
        channel.decoded(&picture, 1_000).unwrap();
        channel.put(&Coding::Jpeg, 3_000, &vec![7; 1 << 20]);
        channel.put(&Coding::Jpeg, 4_000, &[4]);
        let found = records(&name);
        let times: Vec<u64> = found.iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [1_000, 2_000, 4_000], "the third one is longer than a record");
        assert_eq!(bytes_of(&found[1].1), [0xff, 0xd8, 2, 3]);
        assert_eq!(found[0].1.field("format"), Some(&Value::Text("jpeg".into())));
        assert_eq!(channel.account(), ChannelAccount { published: 3, left_out: 1, before_key: 0 });
    }

    #[test]
    fn a_video_begins_with_a_key_frame() {
        let name = name("video");
        let channel = PictureChannel::new(&name);
        let unit = |is_key| Coding::Video { format: "h264", parameters: vec![9], is_key };
        let pixels = [0; 12];
        let picture = Picture::Rgb { width: 2, height: 2, pixels: &pixels };
        for (at, is_key) in [(1, false), (2, false), (3, true), (4, false)] {
            channel.put(&unit(is_key), at, &[0, 0, 0, 1, at as u8]);
            channel.decoded(&picture, at).unwrap();
        }
        let times: Vec<u64> = records(&name).iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [3, 4]);
        assert_eq!(channel.account(), ChannelAccount { published: 2, left_out: 0, before_key: 2 });
    }

    #[test]
    fn pictures_without_compression_are_images_row_by_row() {
        let name = name("raw");
        let channel = PictureChannel::new(&name);
        let pixels: Vec<u8> = (0..18).collect();
        let picture = Picture::Rgb { width: 3, height: 2, pixels: &pixels };
        channel.decoded(&picture, 5_000).unwrap();
        let (at_ns, image) = records(&name).remove(0);
        assert_eq!((at_ns, bytes_of(&image)), (5_000, pixels.clone()));
        assert_eq!(image.field("encoding"), Some(&Value::Text("rgb8".into())));
        assert_eq!(image.field("step"), Some(&Value::Uint(9)));
    }
}
