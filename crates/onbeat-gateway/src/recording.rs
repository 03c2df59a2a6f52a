//! Reads rings into a log.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_control::{Reading, RingError, RingReader, Start};
use serde::Deserialize;

use super::account::{ChannelAccount, LogAccount};
use super::bridge::limit;
use super::error::GatewayError;
use super::log_writer::{Compression, LogChannel, LogWriter};

/// Interval between two looks at empty rings: a ring of cycles at 1 kHz keeps a thousand times more.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval between two checks of the writers.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// What a kill of this process loses at most.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Records of a channel that are written before it is the next channel's turn.
const IN_A_TURN: u32 = 1024;
/// Gaps that are noted one by one; all are in the account.
const MOST_NOTED_GAPS: u64 = 1000;

/// Which record of a channel a log begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstRecord {
    /// The oldest one that is kept.
    Oldest,
    /// The first new one.
    #[default]
    Newest,
}

/// What to record, and into which file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordOrder {
    /// Channels, `NAME/TOPIC`.
    pub channels: Vec<String>,
    /// The file; it must not exist.
    pub out: PathBuf,
    /// The first record of each channel.
    #[serde(default)]
    pub from: FirstRecord,
    /// Compression of the chunks.
    #[serde(default)]
    pub compression: Compression,
    /// Time limit in ns; 0 for none.
    #[serde(default)]
    pub for_ns: u64,
}

/// A log that is being written from rings.
#[derive(Debug)]
pub struct LogRecording {
    log: LogWriter,
    sources: Vec<LoggedRing>,
    until: Option<Instant>,
}

/// A ring, and its channel of the log.
#[derive(Debug)]
struct LoggedRing {
    reader: RingReader,
    channel: LogChannel,
    utc_offset_ns: u64,
    account: ChannelAccount,
    has_ended: bool,
}

impl LogRecording {
    /// Opens the channels, then creates the file: an order that fails leaves none.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub fn begin(order: &RecordOrder) -> Result<Self, GatewayError> {
        if order.channels.is_empty() {
            return Err(GatewayError::NoChannels);
        }
        let start = match order.from {
            FirstRecord::Oldest => Start::Oldest,
            FirstRecord::Newest => Start::Newest,
        };
        let opened = order.channels.iter().map(|name| RingReader::open(&name.parse()?, start));
        let readers: Vec<RingReader> = opened.collect::<Result<_, RingError>>()?;

        let mut log = LogWriter::create(&order.out, order.compression)?;
        let sources = readers.into_iter().map(|reader| LoggedRing::new(reader, &mut log));
        let sources = sources.collect::<Result<_, GatewayError>>()?;
        Ok(Self { log, sources, until: limit(order.for_ns) })
    }

    /// Records until all writers have ended, the time is over, or `is_stopped` returns true; what was published
    /// until then is in the log. Returns the account, which is in the log too.
    ///
    /// # Errors
    /// [`GatewayError::Write`].
    pub fn run(mut self, is_stopped: impl Fn() -> bool) -> Result<LogAccount, GatewayError> {
        let mut checked = Instant::now();
        let mut flushed = checked;
        while self.sources.iter().any(|source| !source.has_ended) {
            let is_over = self.until.is_some_and(|end| Instant::now() >= end);
            if is_over || is_stopped() {
                break;
            }
            if checked.elapsed() >= CHECK_EVERY {
                checked = Instant::now();
                self.sources.iter_mut().for_each(LoggedRing::check);
            }

            // A writer's last records are read after its end is known.
            if !self.take()? {
                sleep(LOOK_EVERY);
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                self.log.flush()?;
            }
        }

        self.take_the_rest()?;
        self.conclude()
    }

    /// Writes a turn of records of each channel; returns whether there were any.
    fn take(&mut self) -> Result<bool, GatewayError> {
        let mut was_any = false;
        for source in &mut self.sources {
            was_any |= source.take(&mut self.log, IN_A_TURN)? > 0;
        }
        Ok(was_any)
    }

    /// Writes what was published until now. A writer that goes on is not followed.
    fn take_the_rest(&mut self) -> Result<(), GatewayError> {
        for source in &mut self.sources {
            let pending = u32::try_from(source.reader.pending()).unwrap_or(u32::MAX);
            source.take(&mut self.log, pending)?;
        }
        Ok(())
    }

    fn conclude(mut self) -> Result<LogAccount, GatewayError> {
        let mut account = LogAccount::default();
        for source in self.sources {
            let of_channel = ChannelAccount {
                received: source.reader.received(),
                lost: source.reader.lost(),
                ..source.account
            };

            let texts = [
                ("channel", of_channel.channel.as_str()),
                ("received", &of_channel.received.to_string()),
                ("lost", &of_channel.lost.to_string()),
                ("gaps", &of_channel.gaps.to_string()),
                ("end", &of_channel.end),
            ];
            self.log.note("onbeat:account", &texts)?;
            account.channels.push(of_channel);
        }

        account.bytes = self.log.finish()?;
        Ok(account)
    }
}

impl LoggedRing {
    fn new(reader: RingReader, log: &mut LogWriter) -> Result<Self, GatewayError> {
        let record_type = reader.record_type();
        let hash: String = record_type.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let utc_offset_ns = reader.utc_offset_ns();
        let texts = [
            ("onbeat:type_hash", format!("RIHS01_{hash}")),
            ("onbeat:description", reader.description()),
            ("onbeat:utc_offset_ns", utc_offset_ns.to_string()),
            ("onbeat:generation", reader.generation().to_string()),
        ];
        let texts = texts.each_ref().map(|(name, text)| (*name, text.as_str()));
        let topic = reader.channel().to_string();

        let channel = log.add_channel(&topic, &record_type.name, &record_type.schema, &texts)?;
        let account = ChannelAccount { channel: topic, ..ChannelAccount::default() };
        Ok(Self { reader, channel, utc_offset_ns, account, has_ended: false })
    }

    fn check(&mut self) {
        if !self.has_ended
            && let Err(why) = self.reader.check_alive()
        {
            self.has_ended = true;
            self.account.end = why.to_string();
        }
    }

    /// Writes at most this number of records; returns how many it wrote.
    fn take(&mut self, log: &mut LogWriter, most: u32) -> Result<u32, GatewayError> {
        for taken in 0..most {
            match self.reader.next() {
                Reading::Nothing => return Ok(taken),
                Reading::Record { number, at_ns, bytes } => {
                    let utc_ns = at_ns.wrapping_add(self.utc_offset_ns);
                    log.write(self.channel, number, utc_ns, bytes)?;
                }
                Reading::Lost(lost) => {
                    self.account.gaps += 1;
                    if self.account.gaps <= MOST_NOTED_GAPS {
                        let after = self.reader.received() + self.reader.lost() - lost;
                        self.note_gap(log, lost, after)?;
                    }
                }
            }
        }
        Ok(most)
    }

    fn note_gap(&self, log: &mut LogWriter, lost: u64, after: u64) -> Result<(), GatewayError> {
        let texts = [
            ("channel", self.account.channel.as_str()),
            ("lost", &lost.to_string()),
            ("records_before", &after.to_string()),
        ];
        log.note("onbeat:lost", &texts)
    }
}
