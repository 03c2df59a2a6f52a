//! Plays a log: its messages again, at their own pace or as fast as they can be read.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use onbeat_control::Channel;

use super::account::ChannelAccount;
use super::bridge::limit;
use super::error::GatewayError;
use super::log_defect::printable;
use super::log_reader::{LogContent, LoggedChannel};
use super::play_target::PlayTarget;
use super::transport_message::NumberedRecord;

/// Interval between two looks at a network, and at the end, while a message is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Messages between two looks where none is waited for.
const IN_A_TURN: u64 = 256;
/// Turns in a row after which peers that have not read are not waited for any more: one may be that of a
/// machine that stopped for a second.
const MOST_UNREAD_TURNS: u32 = 3;
/// Longest time from the first message to one that is played.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Most channels that are played at a time.
const MOST_CHANNELS: usize = 256;
/// Letters of each part of a name that is made for a ring, which has four more for a number.
const MOST_LETTERS: usize = 60;

/// Which log to play, and to where.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayOrder {
    pub log: PathBuf,
    /// Channels; all of the log if there are none.
    #[serde(default)]
    pub channels: Vec<PlayedChannel>,
    /// The network, as in [`crate::SendOrder::to`]; empty for rings of this machine.
    #[serde(default)]
    pub to: String,
    /// Texts of `.lcm` files, as in [`crate::SentChannel::lcm`].
    #[serde(default)]
    pub lcm: Vec<String>,
    /// Pace as a multiple of the log's own; 0 for as fast as the log can be read.
    #[serde(default = "own_pace")]
    pub rate: f64,
    /// Time before the first message, in ns: peers connect meanwhile.
    #[serde(default)]
    pub delay_ns: u64,
    /// Time limit in ns, from the first message on; 0 for none.
    #[serde(default)]
    pub for_ns: u64,
    /// Memory for one record, one chunk, messages out of order, and what waits for slow peers, each, in
    /// bytes.
    #[serde(default = "most_memory")]
    pub most_memory: u64,
}

const fn most_memory() -> u64 {
    256 << 20
}

/// A channel of a log, and its name where it is played.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayedChannel {
    /// Topic in the log.
    pub topic: String,
    /// Name there; empty for the topic, without a `/` at its beginning. A ring needs a name of two words: that of
    /// the topic `/imu` is `log/imu`.
    #[serde(default)]
    pub remote: String,
}

/// What is going to be played.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlayStart {
    /// Messages on the ordered channels.
    pub records: u64,
    /// Time from the first to the last message of the log, in ns.
    pub log_ns: u64,
    /// The longest time without a message on any channel of the log, in ns.
    pub pause_ns: u64,
    /// Why the log ends early, as a sentence; empty for a complete one.
    pub cut: String,
    /// As in [`crate::ListedLog::damage`]; what follows these places is played.
    pub damage: Vec<String>,
    pub damaged: u64,
    /// Names under which channels are played that have other names in the log.
    pub renamed: Vec<[String; 2]>,
}

/// What was played.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlayAccount {
    /// Account of each channel: messages played, and those missing in the log by the gaps in their
    /// numbers.
    pub channels: Vec<ChannelAccount>,
    /// Messages that were dropped because a peer did not read.
    pub dropped: u64,
    /// Peers that were refused or disconnected at a limit.
    pub refused_peers: u64,
    /// Messages that were not sent, because they are not of the type of the `.lcm` files.
    pub not_encoded: u64,
    /// Longest time by which a message was behind its pace, in ns; 0 without a pace.
    pub latest_ns: u64,
}

const fn own_pace() -> f64 {
    1.0
}

/// Plays a log until its end, until the time is over, or until `is_stopped` returns true. `ready` is
/// called when peers may connect.
///
/// # Errors
/// [`GatewayError`].
pub fn play(
    order: &PlayOrder,
    ready: impl FnOnce(&PlayStart) -> Result<(), GatewayError>,
    is_stopped: impl Fn() -> bool,
) -> Result<PlayAccount, GatewayError> {
    if !(order.rate.is_finite() && order.rate >= 0.0) {
        return Err(GatewayError::Rate { rate: order.rate });
    }
    let content = LogContent::from_file(&order.log, order.most_memory)?;
    let selected = selected(order, &content)?;
    if selected.len() > MOST_CHANNELS {
        let (path, channels) = (order.log.clone(), selected.len());
        return Err(GatewayError::ManyChannels { path, channels, most: MOST_CHANNELS });
    }
    let logged: Vec<&LoggedChannel> =
        selected.iter().map(|it| &content.channels[it.place]).collect();
    let names: Vec<String> = selected.iter().map(|it| it.remote.clone()).collect();
    let target = PlayTarget::open(order, &names, &logged)?;
    let accounts: Vec<_> = logged.iter().map(|of| PlayedAccount::new(of)).collect();
    ready(&PlayStart {
        records: logged.iter().map(|of| of.messages).sum(),
        log_ns: content.last_ns - content.first_ns,
        pause_ns: content.pause_ns,
        cut: content.cut.clone(),
        damage: content.damage.clone(),
        damaged: content.damaged,
        renamed: logged
            .iter()
            .zip(&names)
            .filter(|(of, name)| of.topic.trim_start_matches('/') != name.as_str())
            .map(|(of, name)| [of.topic.clone(), name.clone()])
            .collect(),
    })?;

    let mut player = Player {
        target,
        accounts,
        rate: order.rate,
        is_stopped,
        turn: 0,
        unread_turns: 0,
        latest_ns: 0,
        numbers_of_all: NumbersOfAll::default(),
    };
    if player.wait_until(Instant::now() + Duration::from_nanos(order.delay_ns))? {
        let mut places = vec![None; content.channels.len()];
        (0..).zip(&selected).for_each(|(number, it)| places[it.place] = Some(number));
        player.play(&content, &places, limit(order.for_ns))?;
        for _ in 0..MOST_UNREAD_TURNS {
            if player.target.empty()? || (player.is_stopped)() {
                break;
            }
        }
    }
    Ok(player.account())
}

/// A topic of others as a name that a ring can have: `NAME/TOPIC` of letters, digits, `-` and `_`.
fn ring_name(topic: &str) -> String {
    if topic.parse::<Channel>().is_ok() {
        return topic.to_owned();
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let tidy = |word: &str| -> String {
        let all = word.chars().map(|letter| if fits(letter) { letter } else { '_' });
        let tidy: String = all.collect();
        match tidy.len() {
            0 => "_".to_owned(),
            // Ends tell topics apart.
            letters => tidy[letters.saturating_sub(MOST_LETTERS)..].to_owned(),
        }
    };
    match topic.split_once('/') {
        Some((name, rest)) => format!("{}/{}", tidy(name), tidy(rest)),
        None => format!("log/{}", tidy(topic)),
    }
}

/// A channel of the log that is played.
struct SelectedChannel {
    place: usize,
    remote: String,
}

fn selected(order: &PlayOrder, content: &LogContent) -> Result<Vec<SelectedChannel>, GatewayError> {
    let mut all = chosen(order, content)?;
    // Names that are tidied may be one: `/image/raw` and `/image_raw` of a camera.
    for number in 1..all.len() {
        let (before, rest) = all.split_at_mut(number);
        let own = &mut rest[0];
        let (name, mut copies) = (own.remote.clone(), 1);
        let is_taken = |own: &SelectedChannel| {
            before.iter().any(|it| it.remote == own.remote && it.place != own.place)
        };
        while order.to.is_empty() && is_taken(own) {
            copies += 1;
            own.remote = format!("{name}_{copies}");
        }
    }
    Ok(all)
}

fn chosen(order: &PlayOrder, content: &LogContent) -> Result<Vec<SelectedChannel>, GatewayError> {
    let own = |place: usize| {
        let topic = content.channels[place].topic.trim_start_matches('/');
        let remote = if order.to.is_empty() { ring_name(topic) } else { topic.to_owned() };
        SelectedChannel { place, remote }
    };
    if order.channels.is_empty() && !content.channels.is_empty() {
        return Ok((0..content.channels.len()).map(own).collect());
    }

    let known = || content.channels.iter().map(|of| printable(&of.topic)).collect::<Vec<_>>();
    let of_log = |wanted: &PlayedChannel| {
        let place = content.place(&wanted.topic).ok_or_else(|| GatewayError::NoTopic {
            path: order.log.clone(),
            topic: wanted.topic.clone(),
            known: known().join(", "),
        })?;
        Ok(match wanted.remote.as_str() {
            "" => own(place),
            remote => SelectedChannel { place, remote: remote.to_owned() },
        })
    };
    match order.channels.as_slice() {
        [] => Err(GatewayError::EmptyLog { path: order.log.clone() }),
        some => some.iter().map(of_log).collect(),
    }
}

/// Account of one channel, while it is played.
struct PlayedAccount {
    account: ChannelAccount,
    utc_offset_ns: u64,
    numbers: Numbers,
    /// Missing messages and gaps before this channel's, in numbers that all channels share.
    missing_of_all: [u64; 2],
}

/// Numbers of messages, of which a log has the low 32 bits, in the order of their times. One that comes later than greater
/// ones, as where several threads or writers give times, is no loss.
#[derive(Debug, Default)]
struct Numbers {
    last: Option<u32>,
    messages: u64,
    /// Messages with a smaller number than the one before them.
    backs: u64,
    /// The last, the smallest and the greatest number, less the first one.
    place: i64,
    least: i64,
    greatest: i64,
}

impl Numbers {
    /// Takes the next number; returns how many are left out before it.
    fn take(&mut self, number: u32) -> u64 {
        let step = self.last.map_or(0, |last| number.wrapping_sub(last).cast_signed());
        self.last = Some(number);
        self.messages += 1;
        self.backs += u64::from(step < 0);
        self.place += i64::from(step);
        self.least = self.least.min(self.place);
        self.greatest = self.greatest.max(self.place);
        u64::try_from(i64::from(step) - 1).unwrap_or(0)
    }

    /// Most messages that can be missing. Numbers that often go back are those of several writers, which say nothing.
    const fn most_missing(&self) -> u64 {
        match self.backs {
            0 => u64::MAX,
            backs if backs * 4 > self.messages => 0,
            _ => (self.greatest.abs_diff(self.least) + 1).saturating_sub(self.messages),
        }
    }
}

/// Numbers of messages over all channels of a log: some writers number each channel, others all of them
/// together. Read in the order of the log, nearly every change of the channel is then one step.
#[derive(Debug, Default)]
struct NumbersOfAll {
    last_channel: Option<usize>,
    numbers: Numbers,
    changes: u64,
    steps_at_changes: u64,
}

impl NumbersOfAll {
    /// Counts a message of a channel; returns how many are missing before it, if the numbers are shared.
    fn count(&mut self, channel: usize, sequence: u32) -> u64 {
        let before = self.last_channel.replace(channel);
        let is_step = self.numbers.last.is_some_and(|last| sequence.wrapping_sub(last) == 1);
        if before.is_some_and(|before| before != channel) {
            self.changes += 1;
            self.steps_at_changes += u64::from(is_step);
        }
        self.numbers.take(sequence)
    }

    /// Two channels that are numbered each, at the same pace, have one step at every other change.
    const fn are_shared(&self) -> bool {
        self.changes > 0 && self.steps_at_changes * 4 >= self.changes * 3
    }
}

impl PlayedAccount {
    fn new(of: &LoggedChannel) -> Self {
        let account = ChannelAccount { channel: of.topic.clone(), ..ChannelAccount::default() };
        let (numbers, missing_of_all) = (Numbers::default(), [0; 2]);
        Self { account, utc_offset_ns: of.utc_offset_ns(), numbers, missing_of_all }
    }

    /// Counts a message; returns its number among the played ones.
    fn count(&mut self, sequence: u32) -> u64 {
        let missing = self.numbers.take(sequence);
        self.account.lost += missing;
        self.account.gaps += u64::from(missing > 0);
        self.account.received += 1;
        self.account.received
    }
}

struct Player<S> {
    target: PlayTarget,
    accounts: Vec<PlayedAccount>,
    rate: f64,
    is_stopped: S,
    turn: u64,
    /// Turns in a row after which peers had not read within a second what waited for them.
    unread_turns: u32,
    latest_ns: u64,
    numbers_of_all: NumbersOfAll,
}

impl<S: Fn() -> bool> Player<S> {
    /// `places` has the number of each channel of the log among the played ones.
    fn play(
        &mut self,
        content: &LogContent,
        places: &[Option<usize>],
        until: Option<Instant>,
    ) -> Result<(), GatewayError> {
        let began = Instant::now();
        for message in content.in_order()? {
            let message = message?;
            let Some(channel) = content.place_of(&message) else { continue };
            let missing = self.numbers_of_all.count(channel, message.sequence);
            let Some(place) = places[channel] else { continue };
            let due = self.due(began, message.log_time - content.first_ns);
            let is_over = |at: Instant| until.is_some_and(|end| at >= end);
            if is_over(due) || !self.keep_pace(due)? || is_over(Instant::now()) {
                return Ok(());
            }

            let account = &mut self.accounts[place];
            account.missing_of_all[0] += missing;
            account.missing_of_all[1] += u64::from(missing > 0);
            let number = account.count(message.sequence);
            let at_ns = message.log_time.wrapping_sub(self.accounts[place].utc_offset_ns);
            self.target.play(place, NumberedRecord { number, at_ns, bytes: &message.data })?;
        }
        Ok(())
    }

    /// Returns when a message is due that comes this time after the first one.
    fn due(&self, began: Instant, after_ns: u64) -> Instant {
        match self.rate {
            0.0 => began,
            // Times of a log are anyone's; what is due in centuries is never due.
            rate => {
                let after = Duration::from_nanos((after_ns as f64 / rate) as u64).min(NEVER);
                began + after
            }
        }
    }

    /// Waits until a message is due; returns false when playing was stopped.
    fn keep_pace(&mut self, due: Instant) -> Result<bool, GatewayError> {
        self.turn += 1;
        if self.turn.is_multiple_of(IN_A_TURN) {
            // Without a pace, peers that read set it.
            if self.rate == 0.0 && self.unread_turns < MOST_UNREAD_TURNS {
                let is_read = self.target.empty()?;
                self.unread_turns = if is_read { 0 } else { self.unread_turns + 1 };
            }
            self.target.poll()?;
            if (self.is_stopped)() {
                return Ok(false);
            }
        }
        if self.rate == 0.0 {
            return Ok(true);
        }

        let goes_on = self.wait_until(due)?;
        let behind_ns = u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latest_ns = self.latest_ns.max(behind_ns);
        Ok(goes_on)
    }

    /// Waits, while the network is attended to; returns false when playing was stopped.
    fn wait_until(&mut self, end: Instant) -> Result<bool, GatewayError> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            if (self.is_stopped)() {
                return Ok(false);
            }
            self.target.poll()?;
            sleep(left.min(LOOK_EVERY));
        }
    }

    fn account(self) -> PlayAccount {
        let of_all = &self.numbers_of_all;
        let counted = |of: PlayedAccount| {
            let ([lost, gaps], numbers) = match of_all.are_shared() {
                true => (of.missing_of_all, &of_all.numbers),
                false => ([of.account.lost, of.account.gaps], &of.numbers),
            };
            let lost = lost.min(numbers.most_missing());
            ChannelAccount { lost, gaps: gaps.min(lost), ..of.account }
        };
        let [dropped, refused_peers, not_encoded] = self.target.counts();
        let channels = self.accounts.into_iter().map(counted).collect();
        PlayAccount { channels, dropped, refused_peers, not_encoded, latest_ns: self.latest_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(messages: &[(usize, u32)]) -> (bool, u64) {
        let mut numbers = NumbersOfAll::default();
        let missing =
            messages.iter().map(|(channel, number)| numbers.count(*channel, *number)).sum();
        (numbers.are_shared(), missing)
    }

    #[test]
    fn numbers_that_a_writer_shares_over_all_channels_are_known_and_their_gaps_counted() {
        let shared: Vec<_> = (0..100).map(|number| (number as usize % 3, number)).collect();
        assert_eq!(counted(&shared), (true, 0));
        let with_gap: Vec<_> =
            shared.iter().copied().filter(|it| !(40..50).contains(&it.1)).collect();
        assert_eq!(counted(&with_gap), (true, 10));

        // The same pace, one twice as fast, and no numbers at all.
        let each: Vec<_> = (0..100).map(|place| (place as usize % 2, place / 2)).collect();
        assert!(!counted(&each).0);
        let offset: Vec<_> =
            (0..100_u32).map(|place| (place as usize % 2, place.div_ceil(2))).collect();
        assert!(!counted(&offset).0);
        assert!(!counted(&[(0, 0), (1, 0), (0, 0), (1, 0)]).0);
        assert!(!counted(&[(0, 5), (0, 6), (0, 9)]).0);
    }

    #[test]
    fn messages_that_come_in_another_order_are_not_lost() {
        for (numbers, wanted) in [
            (&[0, 1, 4, 2, 3, 5][..], 0),
            (&[0, 1, 4, 2, 5, 6, 7, 8], 1),
            (&[u32::MAX - 1, u32::MAX, 1, 0, 2], 0),
            (&[u32::MAX, 2], 2),
            // A writer that was started again, two at once, and none that numbers.
            (&[70, 71, 72, 0, 1, 2], 0),
            (&[900, 5, 901, 6, 902, 7], 0),
            (&[0, 0, 0], 0),
        ] {
            let mut found = Numbers::default();
            let missing: u64 = numbers.iter().map(|number| found.take(*number)).sum();
            assert_eq!(missing.min(found.most_missing()), wanted, "{numbers:?}");
        }
    }

    #[test]
    fn every_topic_has_a_ring_of_its_own_name() {
        let long = format!("/perception/{}/objects", "a".repeat(80));
        let topics = ["/cam/image/raw", "/cam/image_raw", "/cam/image/raw ", &long[..], "/", "/tf"];
        let mut content = LogContent::default();
        content.channels.extend(topics.map(|topic| LoggedChannel {
            topic: topic.to_owned(),
            encoding: String::new(),
            named_type: String::new(),
            schema_encoding: String::new(),
            type_name: String::new(),
            schema: String::new(),
            texts: std::collections::BTreeMap::new(),
            messages: 1,
            longest_bytes: 1,
        }));
        let order = serde_json::from_str(r#"{ "log": "a.mcap" }"#).unwrap();
        let names: Vec<_> =
            selected(&order, &content).unwrap().into_iter().map(|it| it.remote).collect();
        assert_eq!(names[..3], ["cam/image_raw", "cam/image_raw_2", "cam/image_raw_"]);
        assert!(names[3].starts_with("perception/aaa") && names[3].ends_with("a_objects"));
        assert_eq!(names[4..], ["log/_", "log/tf"]);
        assert!(names.iter().all(|name| name.parse::<Channel>().is_ok()), "{names:?}");

        let order = serde_json::from_str(r#"{ "log": "a.mcap", "to": "udpm://" }"#).unwrap();
        let first = selected(&order, &content).unwrap().swap_remove(1);
        assert_eq!(first.remote, "cam/image_raw");
    }
}
