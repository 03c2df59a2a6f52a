//! Small pictures for a page, of the pictures of a log.
//!
//! [`read`] takes what `onbeat-gateway pictures` writes: a line for each picture, and the bytes of those that are wanted.
//! It answers with number and time of each picture, and small JPEG pictures of some, whose number and size are bounded; why
//! others could not be decoded is counted and said. Of a video these are key frames, which need no others.
//!
//! Absent on purpose: reading of logs, which is the gateway's; the page, which is a report's.

mod message;
mod small;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use message::LoggedPicture;
use small::Small;

/// Pictures of a channel whose number and time are kept: an hour and a half at 30 pictures a second.
const MOST_TIMES: usize = 160_000;
/// Channels of pictures.
const MOST_CHANNELS: usize = 8;
/// Longest line between pictures: the account of a log with many channels.
const MOST_LINE: u64 = 64 << 20;
/// Largest picture of a log.
const MOST_PICTURE: u64 = 1 << 30;

/// How many small pictures there may be, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThumbnailLimits {
    /// Of each channel.
    pub pictures: usize,
    /// Columns or rows, whichever are more.
    pub side: usize,
    /// Bytes of a JPEG picture; one that is longer at the lowest quality is left out.
    pub bytes: usize,
    /// Time from one to the next at least, in ns.
    pub apart_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelPictures {
    /// Name of the channel in the log.
    pub channel: String,
    /// Type of its messages.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What was added to times by `CLOCK_MONOTONIC` for those below, in ns; 0 where the log does not say.
    pub utc_offset_ns: u64,
    /// Numbers of the records.
    pub numbers: Vec<u64>,
    /// Their times, in ns since 1970.
    pub at_ns: Vec<u64>,
    /// Pictures beyond the bound on numbers and times.
    pub more: u64,
    /// Small pictures, in the order of time.
    pub pictures: Vec<Thumbnail>,
    /// Pictures that could not be decoded, by reason.
    pub undecoded: BTreeMap<String, u64>,
}

/// A small picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thumbnail {
    /// Its place in the numbers of its channel, from 0.
    pub place: usize,
    /// Columns and rows of the picture in the log.
    pub of: [usize; 2],
    /// Its own.
    pub size: [usize; 2],
    /// Base64 of a JPEG picture.
    pub jpeg: String,
}

/// All pictures of a log, and the account of its reader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogPictures {
    /// Channels with pictures, in the order of their first ones.
    pub channels: Vec<ChannelPictures>,
    /// Channels beyond the bound.
    pub more_channels: u64,
    /// The last line of the gateway.
    pub account: serde_json::Value,
}

/// Why there are no pictures.
#[derive(Debug, thiserror::Error)]
pub enum ThumbnailError {
    /// The stream of pictures ended, or cannot be read.
    #[error("the pictures of the log cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The reader of the log says why.
    #[error("{0}")]
    Refused(String),
    /// A line that is none of a gateway.
    #[error("the log reader sent an unexpected line of {bytes} bytes")]
    Strange {
        /// Its length.
        bytes: usize,
    },
}

#[derive(Debug, Deserialize)]
struct PictureLine {
    channel: String,
    #[serde(rename = "type")]
    type_name: String,
    number: u64,
    at_ns: u64,
    utc_offset_ns: u64,
    bytes: u64,
}

/// Reads the stream of a gateway to its end.
///
/// # Errors
/// [`ThumbnailError`].
pub fn read(
    mut from: impl BufRead,
    limits: ThumbnailLimits,
) -> Result<LogPictures, ThumbnailError> {
    let mut all = LogPictures::default();
    let mut bytes = Vec::new();
    loop {
        let mut line = Vec::new();
        if from.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)? == 0 {
            return if all.account.is_null() {
                let why = "the reader of the log ended without an account";
                Err(ThumbnailError::Refused(why.to_owned()))
            } else {
                Ok(all)
            };
        }
        let strange = || ThumbnailError::Strange { bytes: line.len() };
        let mut value: serde_json::Value = serde_json::from_slice(&line).map_err(|_| strange())?;
        if let Some(why) = value["error"].as_str() {
            return Err(ThumbnailError::Refused(why.to_owned()));
        }
        if value.get("pictures_of").is_some() {
            continue;
        }
        let Some(picture) = value.get_mut("picture") else {
            all.account = value;
            continue;
        };
        let picture: PictureLine = serde_json::from_value(picture.take()).map_err(|_| strange())?;
        if picture.bytes > MOST_PICTURE {
            return Err(strange());
        }
        bytes.clear();
        if from.by_ref().take(picture.bytes).read_to_end(&mut bytes)? as u64 != picture.bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        all.add(&picture, &bytes, limits);
    }
}

impl LogPictures {
    fn add(&mut self, picture: &PictureLine, bytes: &[u8], limits: ThumbnailLimits) {
        let place = self.channels.iter().position(|it| it.channel == picture.channel);
        let place = match place {
            Some(place) => place,
            None if self.channels.len() == MOST_CHANNELS => return self.more_channels += 1,
            None => {
                self.channels.push(ChannelPictures {
                    channel: picture.channel.clone(),
                    type_name: picture.type_name.clone(),
                    utc_offset_ns: picture.utc_offset_ns,
                    ..ChannelPictures::default()
                });
                self.channels.len() - 1
            }
        };
        self.channels[place].add(picture, bytes, limits);
    }
}

impl ChannelPictures {
    fn add(&mut self, picture: &PictureLine, bytes: &[u8], limits: ThumbnailLimits) {
        if self.numbers.len() == MOST_TIMES {
            self.more += 1;
            return;
        }
        self.numbers.push(picture.number);
        self.at_ns.push(picture.at_ns);
        let is_due = self.pictures.last().is_none_or(|last| {
            picture.at_ns >= self.at_ns[last.place].saturating_add(limits.apart_ns)
        });
        if bytes.is_empty() || !is_due || self.pictures.len() == limits.pictures {
            return;
        }
        let small = LoggedPicture::read(&picture.type_name, bytes)
            .and_then(|of| Small::of(&of, limits.side, limits.bytes));
        match small {
            Ok(Some(Small { of, size, jpeg })) => {
                let place = self.numbers.len() - 1;
                self.pictures.push(Thumbnail { place, of, size, jpeg: STANDARD.encode(jpeg) });
            }
            // Of a video, one that needs others.
            Ok(None) => {}
            Err(why) => *self.undecoded.entry(why).or_default() += 1,
        }
    }
}

#[cfg(test)]
mod tests;
