//! What the header of a ring states, for lists of channels: nothing is mapped.

use super::map::padded_text;
use super::process::Process;
use super::ring_error::RingError;
use super::ring_file::{HeaderWords, OpenedRing, all};
use super::ring_object::{Channel, MOST_TYPE_NAME, VERSION, state, word};

/// A ring as its header describes it, read once.
#[derive(Debug)]
pub struct RingHead {
    channel: Channel,
    header: HeaderWords,
}

/// The channels of this user and of root.
#[derive(Debug)]
pub struct FoundChannels {
    /// Complete rings, in the order of their channels.
    pub rings: Vec<RingHead>,
    /// Why files with the name of a ring were ignored: they are not rings, or not to be trusted.
    pub ignored: Vec<RingError>,
    /// Why rings could not be read: they are those of root.
    pub denied: Vec<RingError>,
}

impl FoundChannels {
    /// Looks for channels. Never blocks, and maps nothing, whatever the directories hold.
    ///
    /// # Errors
    /// [`RingError::Directory`], [`RingError::System`]: a directory cannot be used.
    pub fn look() -> Result<Self, RingError> {
        let mut found = Self { rings: Vec::new(), ignored: Vec::new(), denied: Vec::new() };
        for (channel, ring) in all()? {
            let head =
                ring.and_then(|ring| ring.map(|ring| RingHead::of(channel, &ring)).transpose());
            match head {
                Ok(head) => found.rings.extend(head),
                Err(why) if is_denied(&why) => found.denied.push(why),
                Err(why) => found.ignored.push(why),
            }
        }
        Ok(found)
    }
}

/// Whether the system, not a check, refuses to open a file.
fn is_denied(why: &RingError) -> bool {
    let denied = Some(rustix::io::Errno::ACCESS.raw_os_error());
    matches!(why, RingError::System { source, .. } if source.raw_os_error() == denied)
}

impl RingHead {
    fn of(channel: Channel, ring: &OpenedRing) -> Result<Self, RingError> {
        check_version(&channel, &ring.header)?;
        ring.offsets()?;
        Ok(Self { channel, header: ring.header })
    }

    /// Returns the channel.
    #[must_use]
    pub const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Returns the name of the records' type. Text that is not valid UTF-8 is replaced.
    #[must_use]
    pub fn type_name(&self) -> String {
        padded_text(&self.header.bytes(word::TYPE_NAME, MOST_TYPE_NAME))
    }

    /// Returns the hash of the records' type.
    #[must_use]
    pub fn type_hash(&self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(&self.header.bytes(word::TYPE_HASH, 32));
        hash
    }

    /// Returns the number of records published so far.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.header.load(word::WRITTEN)
    }

    /// Returns the number of records that the ring keeps.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.header.load(word::SLOTS)
    }

    /// Returns the number of successive rings of this channel whose writers were killed, plus 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.header.load(word::GENERATION)
    }

    /// Returns process id and name of the writer; the name is empty if it is gone.
    #[must_use]
    pub fn writer(&self) -> (u32, String) {
        Process::described(self.header.writer())
    }

    /// Checks that the writer is alive; reads `/proc`.
    ///
    /// # Errors
    /// As [`RingReader::check_alive`](super::RingReader::check_alive).
    pub fn check_alive(&self) -> Result<(), RingError> {
        check_writer(&self.channel, || self.header.load(word::STATE), self.header.writer())
    }
}

pub(super) fn check_version(channel: &Channel, header: &HeaderWords) -> Result<(), RingError> {
    match header.load(word::VERSION) {
        VERSION => Ok(()),
        theirs => {
            Err(RingError::OtherVersion { channel: channel.to_string(), theirs, ours: VERSION })
        }
    }
}

/// Checks that a writer is alive, by the state in its ring and by `/proc`.
pub(super) fn check_writer(
    channel: &Channel,
    state_now: impl Fn() -> u64,
    writer: Option<Process>,
) -> Result<(), RingError> {
    let name = || channel.to_string();
    let reported = || match state_now() {
        state::RUNNING => Ok(()),
        state::ENDED => Err(RingError::Ended { channel: name() }),
        _ => Err(RingError::Replaced { channel: name() }),
    };

    reported()?;
    match writer {
        Some(writer) if writer.is_alive() => Ok(()),
        // It may have ended in order in between.
        writer => reported().and(Err(RingError::WriterDied {
            channel: name(),
            pid: writer.map_or(0, Process::pid),
        })),
    }
}
