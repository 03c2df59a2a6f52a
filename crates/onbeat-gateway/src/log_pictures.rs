//! Passes on the pictures of a log: number and time of each, and the bytes of those that are wanted.
//!
//! One JSON line for each message, followed by its bytes where it has them. Decoding is the reader's: pictures come from
//! strangers, and their decoders are in the program `onbeat-camera`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use onbeat_message::own::CYCLE;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::GatewayError;
use super::log_reader::{LogContent, LoggedChannel};
use super::log_records::LogMessage;

/// Types of messages with a picture. Of a video, each picture needs those before it.
const IMAGES: [&str; 2] = ["sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"];
const VIDEO: &str = "foxglove_msgs/msg/CompressedVideo";
/// Messages between two looks at whether it was stopped.
const IN_A_TURN: u64 = 256;
/// Where a message of [`CYCLE`] has the number of the cycle: behind its head, little-endian.
const CYCLE_AT: std::ops::Range<usize> = 4..12;

/// Which pictures to pass on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PicturesOrder {
    pub log: PathBuf,
    /// The first and the last time, in ns since 1970.
    pub from_ns: u64,
    /// As above.
    pub to_ns: u64,
    /// How many pictures of a channel are passed on with their bytes, of those that need no others; spread over the time.
    pub most_pictures: u64,
    /// Cycles of a robot, in rising order, whose times are wanted if the log has them.
    #[serde(default)]
    pub cycles: Vec<u64>,
    /// Memory for one record, one chunk and messages out of order, each, in bytes.
    pub most_memory: u64,
}

/// What was passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PicturesAccount {
    /// Messages with a picture, by channel.
    pub pictures: BTreeMap<String, u64>,
    /// All channels of the log, for a sentence about one without pictures.
    pub channels: Vec<String>,
    /// The times by `CLOCK_MONOTONIC` of cycles that were asked for, by channel: number and ns.
    pub cycles: BTreeMap<String, Vec<(u64, u64)>>,
    /// As in [`crate::ListedLog::cut`].
    pub cut: String,
    /// As in [`crate::ListedLog::damage`].
    pub damage: Vec<String>,
}

/// Writes the pictures of a log to `to`, in the order of their times.
///
/// # Errors
/// [`GatewayError::Open`], [`GatewayError::Read`], and [`GatewayError::Output`] if nobody reads them.
pub fn pictures(
    order: &PicturesOrder,
    to: &mut impl Write,
    is_stopped: impl Fn() -> bool,
) -> Result<PicturesAccount, GatewayError> {
    let content = LogContent::from_file(&order.log, order.most_memory)?;
    let named = |of: &LoggedChannel| of.topic.clone();
    let mut account = PicturesAccount {
        channels: content.channels.iter().map(named).collect(),
        ..PicturesAccount::default()
    };
    let mut due_ns = vec![0; content.channels.len()];
    let apart_ns = order.to_ns.saturating_sub(order.from_ns) / order.most_pictures.max(1);
    let mut passed = 0_u64;
    for message in content.in_order()? {
        passed += 1;
        if passed.is_multiple_of(IN_A_TURN) && is_stopped() {
            break;
        }
        let message = message?;
        let Some(place) = content.place_of(&message) else { continue };
        let channel = &content.channels[place];
        if channel.type_name == CYCLE {
            account.add_cycle(order, channel, &message);
        }
        let is_video = channel.type_name == VIDEO;
        let is_picture = is_video || IMAGES.contains(&channel.type_name.as_str());
        if !is_picture || !(order.from_ns..=order.to_ns).contains(&message.log_time) {
            continue;
        }
        let is_due = order.most_pictures > 0 && (is_video || message.log_time >= due_ns[place]);
        if is_due {
            due_ns[place] = message.log_time.saturating_add(apart_ns);
        }
        *account.pictures.entry(channel.topic.clone()).or_default() += 1;
        let bytes = if is_due { message.data.as_slice() } else { &[] };
        pass_on(channel, &message, bytes, to).map_err(GatewayError::Output)?;
    }
    Ok(PicturesAccount { cut: content.cut, damage: content.damage, ..account })
}

impl PicturesAccount {
    fn add_cycle(&mut self, order: &PicturesOrder, of: &LoggedChannel, message: &LogMessage) {
        let number = message.data.get(CYCLE_AT).and_then(|it| it.try_into().ok());
        let Some(number) = number.map(u64::from_le_bytes) else { return };
        if order.cycles.binary_search(&number).is_ok() {
            let at_ns = message.log_time.saturating_sub(of.utc_offset_ns());
            let times = self.cycles.entry(of.topic.clone()).or_default();
            // A cycle of a later run in the same log is another one.
            if times.len() < order.cycles.len() {
                times.push((number, at_ns));
            }
        }
    }
}

fn pass_on(
    channel: &LoggedChannel,
    message: &LogMessage,
    bytes: &[u8],
    to: &mut impl Write,
) -> std::io::Result<()> {
    let line = json!({ "picture": {
        "channel": channel.topic,
        "type": channel.type_name,
        "number": message.sequence,
        "at_ns": message.log_time,
        "utc_offset_ns": channel.utc_offset_ns(),
        "bytes": bytes.len(),
    }});
    writeln!(to, "{line}")?;
    to.write_all(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use onbeat_message::own;
    use serde_json::Value;

    use super::super::log_writer::{Compression, LogWriter};
    use super::*;

    const IMAGE: &str = "sensor_msgs/msg/Image";

    /// A log with twenty pictures of a byte, 10 ns apart, and a cycle for each.
    fn log(folder: &Path) -> PathBuf {
        let path = folder.join("walk.mcap");
        let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
        let image = log.add_channel("left/image", IMAGE, "uint8 x\n", &[]).unwrap();
        let text = own::types().text(own::CYCLE).unwrap();
        let offset = [("onbeat:utc_offset_ns", "1000")];
        let cycle = log.add_channel("walker/cycle", own::CYCLE, &text, &offset).unwrap();
        for number in 1..=20_u64 {
            let at_ns = 2000 + 10 * number;
            log.write(image, number, at_ns, &[number as u8]).unwrap();
            let mut message = vec![0, 1, 0, 0];
            message.extend((100 + number).to_le_bytes());
            log.write(cycle, number, at_ns, &message).unwrap();
        }
        log.finish().unwrap();
        path
    }

    fn order(log: PathBuf, from_ns: u64, to_ns: u64, most_pictures: u64) -> PicturesOrder {
        let cycles = vec![7, 103, 120];
        PicturesOrder { log, from_ns, to_ns, most_pictures, cycles, most_memory: 1 << 20 }
    }

    /// Numbers of the pictures, and the byte of those that have one.
    fn numbers(mut stream: &[u8]) -> Vec<(u64, Option<u8>)> {
        let mut found = Vec::new();
        while let Some(end) = stream.iter().position(|it| *it == b'\n') {
            let line: Value = serde_json::from_slice(&stream[..end]).unwrap();
            let picture = &line["picture"];
            let bytes = picture["bytes"].as_u64().unwrap() as usize;
            stream = &stream[end + 1..];
            found.push((picture["number"].as_u64().unwrap(), stream[..bytes].first().copied()));
            stream = &stream[bytes..];
        }
        found
    }

    #[test]
    fn every_picture_of_the_time_is_named_and_those_that_are_due_have_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = log(folder.path());
        let mut stream = Vec::new();
        let account = pictures(&order(path.clone(), 2050, 2160, 3), &mut stream, || false).unwrap();
        let found = numbers(&stream);
        let expected: Vec<_> = (5..=16)
            .map(|number| (number, [5, 9, 13].contains(&number).then_some(number as u8)))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(account.pictures["left/image"], 12);
        assert_eq!(account.cycles["walker/cycle"], [(103, 1030), (120, 1200)]);
        assert_eq!((account.cut.as_str(), account.damage.len()), ("", 0));
    }

    #[test]
    fn without_pictures_their_numbers_and_times_are_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = Vec::new();
        let all = order(log(folder.path()), 0, u64::MAX, 0);
        pictures(&all, &mut stream, || false).unwrap();
        let found = numbers(&stream);
        assert_eq!(found.len(), 20);
        assert!(found.iter().all(|(_, byte)| byte.is_none()));
    }
}
