//! Commands for the joints of a robot from other computers: `onbeat message command NAME --from tcp://...`.
//!
//! One thread, one listener, a bounded number of connections. The first peer with a right that commands is
//! the robot's commander until it leaves or its connection ends. A command is followed for what is left of
//! its lifetime since it was *given*, by the robot's clock alone ([`super::remote_limits::age`]), and no
//! longer: whatever the network does, a robot that hears nothing holds, and then stops safely.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_control::{
    Channel, Client, CommandWatch, Commander, ControlError, Joint, RingReader, Snapshot, Start,
    safe_stop,
};
use onbeat_host::address::AddressRange;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bridge::{self, limit};
use super::error::GatewayError;
use super::remote_frames::{Frame, NotValid};
use super::remote_key::read_key;
use super::remote_limits::{CommandAge, RateLimit, age, fits};
use super::remote_notice::StrangerNotice;
use super::remote_peer::{CommandRight, Peer, PeerEnd};
use super::zmq_socket::{endpoint, listen};

/// Connections, of all hosts and of one.
const MOST_PEERS: usize = 64;
const MOST_OF_A_HOST: usize = 16;
/// Time within which a peer sends its greeting.
const GREETED_WITHIN: Duration = Duration::from_secs(5);
/// Longest description of the robot and its channels, in bytes; channels beyond it are left out.
const MOST_WELCOME: usize = 1 << 20;
/// How often a goal is sent within its maximum age, and the bounds of the interval.
const TIMES_WITHIN_AGE: u32 = 5;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(20);
/// Interval between two looks at the robot, while it is commanded and while it is not.
const CHECK_EVERY: Duration = Duration::from_millis(20);
const IDLE_EVERY: Duration = Duration::from_millis(100);

/// Kinds of frames from a peer.
mod ask {
    pub(super) const PING: u8 = 1;
    pub(super) const COMMAND: u8 = 2;
    pub(super) const LEAVE: u8 = 3;
}

/// Kinds of frames to a peer.
mod tell {
    pub(super) const WELCOME: u8 = 1;
    pub(super) const PONG: u8 = 2;
    pub(super) const ANSWER: u8 = 3;
    pub(super) const NOTICE: u8 = 4;
}

/// What became of a command.
mod outcome {
    pub(super) const FOLLOWED: u8 = 0;
    pub(super) const TOO_LATE: u8 = 1;
    pub(super) const REFUSED: u8 = 2;
}

/// From where a robot takes commands, and which.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandOrder {
    /// Name of the robot.
    pub name: String,
    /// Where to listen, `tcp://ADDRESS:PORT`.
    pub from: String,
    /// File of the key; without one, only processes of this user on this machine may command.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// Addresses, `ADDRESS` or `ADDRESS/BITS`, that may connect; none for all.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Patterns of the joints that may be commanded; none for all.
    #[serde(default)]
    pub joints: Vec<String>,
    /// Commands a second.
    pub rate: u32,
    /// Longest lifetime of a command, in ns.
    pub lifetime_ns: u64,
    /// Port at which the channels are published by ZeroMQ; 0 for nowhere.
    #[serde(default)]
    pub telemetry: u16,
    /// These channels.
    #[serde(default)]
    pub channels: Vec<String>,
    /// Time limit in ns; 0 for none.
    #[serde(default)]
    pub for_ns: u64,
}

/// What was commanded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CommandAccount {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were refused: too many, or of an address that may not connect.
    pub refused_peers: u64,
    /// Connections that ended at bytes that are not of the protocol, the key, or their place.
    pub forged: u64,
    /// Commands that were followed.
    pub followed: u64,
    /// Commands that were older than their lifetime when they arrived.
    pub too_late: u64,
    /// Commands that were refused, such as those beyond a travel or of a peer without a right.
    pub refused: u64,
    /// Commanders that ended for more commands a second than the limit.
    pub too_fast: u64,
    /// Commanders that ended without taking leave.
    pub abandoned: u64,
    /// The longest age of a command that was followed, in ns: an upper bound.
    pub oldest_followed_ns: u64,
}

/// A command as it arrives.
#[derive(Debug)]
struct RemoteCommand {
    given_ns: u64,
    lifetime: Duration,
    targets: Vec<(usize, f64)>,
}

impl RemoteCommand {
    /// `u64` time of the robot's clock, `u32` lifetime in µs, `u16` count, then `u16` joint and `f64` rad.
    fn decode(payload: &[u8]) -> Option<Self> {
        let (head, rest) = payload.split_first_chunk::<14>()?;
        let given_ns = u64::from_le_bytes(*head.first_chunk()?);
        let lifetime_us = u32::from_le_bytes(*head[8..].first_chunk()?);
        let count = usize::from(u16::from_le_bytes(*head[12..].first_chunk()?));
        let (targets, left) = rest.as_chunks::<10>();
        if targets.len() != count || !left.is_empty() {
            return None;
        }
        let target = |bytes: &[u8; 10]| {
            let joint = usize::from(u16::from_le_bytes(*bytes.first_chunk()?));
            Some((joint, f64::from_le_bytes(*bytes[2..].first_chunk()?)))
        };
        let targets = targets.iter().map(target).collect::<Option<_>>()?;
        Some(Self { given_ns, lifetime: Duration::from_micros(lifetime_us.into()), targets })
    }
}

/// The peer whose commands the robot follows.
#[derive(Debug)]
struct Holder {
    peer: u64,
    address: SocketAddr,
    commander: Commander,
    watch: CommandWatch,
    commanded: Vec<String>,
    /// The last command is given again until then.
    repeat_until: Option<Instant>,
    is_silent: bool,
}

/// The robot, as it is commanded from the network.
struct Remote<'w> {
    order: CommandOrder,
    key: Option<Vec<u8>>,
    ranges: Vec<AddressRange>,
    client: Client,
    seen: Snapshot,
    joints: Vec<(String, Joint)>,
    allowed: HashSet<usize>,
    age: Duration,
    welcome: Value,
    listener: TcpListener,
    peers: Vec<Peer>,
    holder: Option<Holder>,
    next_number: u64,
    account: CommandAccount,
    strangers: StrangerNotice,
    warn: &'w dyn Fn(&str),
}

/// Lets other computers command a robot until `is_stopped` returns true or the robot has ended. `ready` is
/// given the address on which it listens; `warn` a sentence for each thing that its user must know.
///
/// # Errors
/// [`GatewayError`]; also when the robot ends.
pub fn command(
    order: CommandOrder,
    ready: impl FnOnce(SocketAddr) -> Result<(), GatewayError>,
    warn: impl Fn(&str),
    is_stopped: impl Fn() -> bool,
) -> Result<CommandAccount, GatewayError> {
    let mut remote = Remote::open(order, &warn)?;
    let address = remote.listener.local_addr();
    ready(address.map_err(GatewayError::Output)?)?;
    let ended = remote.run(&is_stopped);
    remote.release("the gateway ends");
    ended.map(|()| remote.account)
}

impl<'w> Remote<'w> {
    fn open(order: CommandOrder, warn: &'w dyn Fn(&str)) -> Result<Self, GatewayError> {
        let range =
            |text: &String| text.parse().map_err(|_| GatewayError::Peers { text: text.clone() });
        let ranges = order.peers.iter().map(range).collect::<Result<_, _>>()?;
        let key = order.key.as_deref().map(read_key).transpose()?;
        let client = Client::open(&order.name)?;
        let joints = client.joints();
        if joints.is_empty() {
            return Err(ControlError::NoGoals { name: order.name }.into());
        }
        let is_allowed =
            |name: &str| order.joints.is_empty() || order.joints.iter().any(|of| fits(of, name));
        let places = joints.iter().enumerate();
        let allowed: HashSet<usize> =
            places.filter(|(_, (name, _))| is_allowed(name)).map(|(place, _)| place).collect();
        if allowed.is_empty() {
            let patterns = order.joints.join(", ");
            return Err(GatewayError::NoJoints { name: order.name, patterns });
        }

        let listener = listen(endpoint(&order.from)?)?;
        let age = Duration::from_micros(client.goal_age_us().into());
        let welcome = described(&order, &joints, &allowed, age, warn)?;
        Ok(Self {
            seen: client.snapshot(),
            order,
            key,
            ranges,
            client,
            joints,
            allowed,
            age,
            welcome,
            listener,
            peers: Vec::new(),
            holder: None,
            next_number: 1,
            account: CommandAccount::default(),
            strangers: StrangerNotice::default(),
            warn,
        })
    }

    fn run(&mut self, is_stopped: &impl Fn() -> bool) -> Result<(), GatewayError> {
        let mut checked = Instant::now();
        let until = limit(self.order.for_ns);
        let every = (self.age / TIMES_WITHIN_AGE).clamp(SHORTEST, LONGEST);
        while !is_stopped() && until.is_none_or(|end| Instant::now() < end) {
            let is_commanded = self.holder.as_ref().is_some_and(|of| of.repeat_until.is_some());
            let (wait, check_every) =
                if is_commanded { (every, CHECK_EVERY) } else { (IDLE_EVERY, IDLE_EVERY) };
            let ready = self.wait(wait.min(check_every));
            self.read(&ready);
            self.accept();
            self.repeat()?;
            if checked.elapsed() >= check_every {
                checked = Instant::now();
                self.check()?;
            }
            if let Some(sentence) = self.strangers.sentence(Instant::now()) {
                (self.warn)(&sentence);
            }
        }
        Ok(())
    }

    /// Waits for bytes; returns the numbers of the peers that sent some.
    fn wait(&self, most: Duration) -> Vec<u64> {
        let sockets = self.peers.iter().map(|peer| &peer.stream);
        let mut wanted: Vec<PollFd<'_>> = vec![PollFd::new(&self.listener, PollFlags::IN)];
        wanted.extend(sockets.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
        // Interrupted or not: the caller looks whether it is stopped.
        let _ = poll(&mut wanted, Some(&most));
        let peers = self.peers.iter().zip(&wanted[1..]);
        peers.filter(|(_, fd)| !fd.revents().is_empty()).map(|(peer, _)| peer.number).collect()
    }

    fn accept(&mut self) {
        for _ in 0..MOST_OF_A_HOST {
            let Ok((stream, address)) = self.listener.accept() else { return };
            let host = address.ip().to_canonical();
            let is_allowed = self.ranges.is_empty()
                || host.is_loopback()
                || self.ranges.iter().any(|range| range.contains(host));
            let of_host = self.peers.iter().filter(|peer| peer.host() == host).count();
            // One that has shown no key gives way to one that may have it.
            let unproven = self.peers.iter().position(|peer| !peer.is_proven);
            let is_full = self.peers.len() >= MOST_PEERS;
            if !is_allowed || of_host >= MOST_OF_A_HOST || (is_full && unproven.is_none()) {
                self.account.refused_peers += 1;
                self.strangers.refused(host);
                continue;
            }
            if let Some(place) = unproven.filter(|_| is_full) {
                self.account.refused_peers += 1;
                self.peers.remove(place);
            }
            let rate = RateLimit::new(self.order.rate, Instant::now());
            if let Ok(peer) = Peer::new(self.next_number, stream, address, rate) {
                self.next_number += 1;
                self.account.connections += 1;
                self.peers.push(peer);
            }
        }
    }

    fn read(&mut self, ready: &[u64]) {
        for number in ready {
            let Some(place) = self.peers.iter().position(|peer| peer.number == *number) else {
                continue;
            };
            let welcome = &self.welcome;
            let welcomed = |right: CommandRight| (tell::WELCOME, welcome_bytes(welcome, right));
            let peer = &mut self.peers[place];
            let done = match peer.flush() {
                Ok(()) => peer.read(self.key.as_deref(), &welcomed),
                Err(why) => Err(why),
            };
            let done = done
                .and_then(|frames| frames.iter().try_for_each(|frame| self.frame(place, frame)));
            if let Err(why) = done {
                self.forget(place, why);
            }
        }
        let is_late = |peer: &Peer| !peer.is_open() && peer.accepted.elapsed() > GREETED_WITHIN;
        self.peers.retain(|peer| !is_late(peer));
    }

    /// Ends a connection.
    fn forget(&mut self, place: usize, why: PeerEnd) {
        let peer = self.peers.remove(place);
        if let PeerEnd::NotValid(not_valid) = why {
            self.account.forged += 1;
            self.strangers.forged(peer.host(), not_valid);
        }
        if self.holder.as_ref().is_some_and(|holder| holder.peer == peer.number) {
            self.release(&why.to_string());
        }
    }

    /// Lets the robot go as if its commander had been killed.
    fn release(&mut self, why: &str) {
        let name = self.order.name.clone();
        self.end_holder(why, &format!("; {name} holds, and then stops safely"));
    }

    fn end_holder(&mut self, why: &str, then: &str) {
        let Some(holder) = self.holder.take() else { return };
        holder.commander.abandon();
        self.account.abandoned += 1;
        let (address, name) = (holder.address, &self.order.name);
        (self.warn)(&format!("{address} commands {name} no more: {why}{then}"));
    }

    fn frame(&mut self, place: usize, frame: &Frame) -> Result<(), PeerEnd> {
        let unknown = || PeerEnd::from(NotValid::Content(frame.kind));
        match frame.kind {
            ask::PING => {
                let stamp = frame.payload.first_chunk::<8>().ok_or_else(unknown)?;
                let payload = [*stamp, now_ns().to_le_bytes()].concat();
                self.peers[place].send(tell::PONG, &payload)
            }
            ask::COMMAND => {
                let command = RemoteCommand::decode(&frame.payload).ok_or_else(unknown)?;
                self.command(place, frame.number, &command)
            }
            ask::LEAVE => {
                let given = frame.payload.first_chunk::<8>().ok_or_else(unknown)?;
                self.leave(place, u64::from_le_bytes(*given))
            }
            _ => Err(unknown()),
        }
    }

    fn command(
        &mut self,
        place: usize,
        number: u64,
        command: &RemoteCommand,
    ) -> Result<(), PeerEnd> {
        let now = Instant::now();
        // What was on its way when it was told.
        if self.peers[place].is_ended {
            return Ok(());
        }
        if !self.peers[place].rate.take(now) {
            return self.end_fast(place);
        }
        let lifetime = command.lifetime.min(Duration::from_nanos(self.order.lifetime_ns));
        let since = age(now_ns(), command.given_ns, lifetime);
        let (outcome, age_us) = match since {
            CommandAge::ValidFor(left) => {
                let done = self.follow(place, command, left);
                if let Err(why) = &done {
                    self.account.refused += 1;
                    self.notice(place, &json!({ "refused": why }))?;
                }
                let code = if done.is_ok() { outcome::FOLLOWED } else { outcome::REFUSED };
                (code, lifetime.saturating_sub(left).as_micros())
            }
            CommandAge::TooLate(age) => {
                self.account.too_late += 1;
                (outcome::TOO_LATE, age.as_micros())
            }
            CommandAge::Future(ahead) => {
                self.account.refused += 1;
                let why = format!(
                    "a command from {} ms in the future: the clock of the commanding computer has jumped",
                    ahead.as_millis()
                );
                self.notice(place, &json!({ "refused": why }))?;
                (outcome::REFUSED, 0)
            }
        };
        let age_us = u32::try_from(age_us).unwrap_or(u32::MAX).to_le_bytes();
        let payload = [&number.to_le_bytes()[..], &[outcome], &age_us].concat();
        self.peers[place].send(tell::ANSWER, &payload)
    }

    /// A script that runs away is not a commander.
    fn end_fast(&mut self, place: usize) -> Result<(), PeerEnd> {
        self.account.too_fast += 1;
        let rate = self.order.rate;
        let why = format!("more than {rate} commands a second (--rate)");
        self.notice(place, &json!({ "ended": why }))?;
        self.peers[place].is_ended = true;
        if self.is_holder(place) {
            self.release(&why);
        }
        Ok(())
    }

    fn is_holder(&self, place: usize) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.peer == self.peers[place].number)
    }

    fn notice(&mut self, place: usize, said: &Value) -> Result<(), PeerEnd> {
        self.peers[place].send(tell::NOTICE, said.to_string().as_bytes())
    }

    /// Gives the targets to the robot, all of them or none; returns why not.
    fn follow(
        &mut self,
        place: usize,
        command: &RemoteCommand,
        left: Duration,
    ) -> Result<(), String> {
        let name = self.order.name.clone();
        if self.peers[place].right == CommandRight::None {
            return Err(format!(
                "{name} is read only for this computer: commands need the key, or a process of the robot's user on its own computer"
            ));
        }
        for (joint, rad) in &command.targets {
            let (joint_name, of) = self.joints.get(*joint).ok_or("an unknown joint")?;
            if !self.allowed.contains(joint) {
                return Err(format!("{joint_name} of {name} may not be commanded (--joints)"));
            }
            if !(of.low_rad..=of.high_rad).contains(rad) {
                let Joint { low_rad: low, high_rad: high, .. } = *of;
                let joint = joint_name.clone();
                return Err(ControlError::Outside { joint, given: *rad, low, high }.to_string());
            }
        }

        self.hold(place)?;
        let Some(holder) = &mut self.holder else { return Err("no commander".to_owned()) };
        for (joint, rad) in &command.targets {
            holder.commander.want(*joint, *rad);
            let joint = &self.joints[*joint].0;
            if !holder.commanded.contains(joint) {
                holder.commanded.push(joint.clone());
            }
        }
        holder.commander.give().map_err(|why| why.to_string())?;
        // The robot follows the last one until it is too old itself.
        holder.repeat_until = Some(Instant::now() + left.saturating_sub(self.age));
        holder.is_silent = false;
        self.account.followed += 1;
        let lifetime = command.lifetime.min(Duration::from_nanos(self.order.lifetime_ns));
        let age_ns = lifetime.saturating_sub(left).as_nanos() as u64;
        self.account.oldest_followed_ns = self.account.oldest_followed_ns.max(age_ns);
        Ok(())
    }

    /// Makes a peer the commander, unless another one is.
    fn hold(&mut self, place: usize) -> Result<(), String> {
        let name = &self.order.name;
        let peer = &self.peers[place];
        match &self.holder {
            Some(holder) if holder.peer == peer.number => return Ok(()),
            Some(holder) => return Err(format!("{name} is commanded by {}", holder.address)),
            None => {}
        }
        let (number, address) = (peer.number, peer.address);
        let right = if peer.right == CommandRight::Key { "its key" } else { "the loopback" };
        if let Some(why) = self.stopped()? {
            return Err(why);
        }
        let commander = self.client.command().map_err(|why| why.to_string())?;
        (self.warn)(&format!("{address} commands {} by {right}", self.order.name));
        self.holder = Some(Holder {
            peer: number,
            address,
            watch: CommandWatch::new(&commander),
            commander,
            commanded: Vec::new(),
            repeat_until: None,
            is_silent: false,
        });
        Ok(())
    }

    fn stopped(&mut self) -> Result<Option<String>, String> {
        let why = safe_stop(&mut self.client, &mut self.seen).map_err(|why| why.to_string())?;
        let name = &self.order.name;
        Ok(why.map(|why| {
            format!("{name} has stopped safely ({why}), and follows no goal until its own computer resets it")
        }))
    }

    /// The robot keeps its last targets, unless that is said too late.
    fn leave(&mut self, place: usize, given_ns: u64) -> Result<(), PeerEnd> {
        if !self.is_holder(place) {
            return Ok(());
        }
        let lifetime = Duration::from_nanos(self.order.lifetime_ns);
        match age(now_ns(), given_ns, lifetime) {
            CommandAge::ValidFor(_) => {
                if let Some(holder) = self.holder.take() {
                    let name = &self.order.name;
                    (self.warn)(&format!(
                        "{} has left {name}, which keeps its targets",
                        holder.address
                    ));
                }
                self.notice(place, &json!({ "left": true }))
            }
            CommandAge::TooLate(age) | CommandAge::Future(age) => {
                let why = format!("it took leave too late, by a message of {} ms", age.as_millis());
                self.release(&why);
                self.notice(place, &json!({ "ended": why }))
            }
        }
    }

    /// Gives the last command again while it is valid.
    fn repeat(&mut self) -> Result<(), GatewayError> {
        let Some(holder) = &mut self.holder else { return Ok(()) };
        let is_valid = holder.repeat_until.is_some_and(|until| Instant::now() < until);
        if is_valid {
            holder.commander.give()?;
            if let Some(why) =
                holder.watch.look(&holder.commander, &mut self.client, &holder.commanded)
            {
                let number = holder.peer;
                if let Some(place) = self.peers.iter().position(|peer| peer.number == number) {
                    let _ = self.notice(place, &json!({ "waiting": why }));
                }
            }
            return Ok(());
        }
        holder.watch.pause();
        if holder.repeat_until.take().is_some() && !holder.is_silent {
            holder.is_silent = true;
            let (address, name) = (holder.address, &self.order.name);
            (self.warn)(&format!(
                "no valid command from {address}: {name} holds, and then stops safely unless one comes"
            ));
        }
        Ok(())
    }

    /// Looks at the robot: one that has stopped safely has no commander until a new connection.
    fn check(&mut self) -> Result<(), GatewayError> {
        let why = safe_stop(&mut self.client, &mut self.seen)?;
        let (Some(why), Some(holder)) = (why, &self.holder) else { return Ok(()) };
        let number = holder.peer;
        let said = format!("{} has stopped safely ({why})", self.order.name);
        if let Some(place) = self.peers.iter().position(|peer| peer.number == number) {
            let sentence = format!("{said}, and follows no goal until its own computer resets it");
            let _ = self.notice(place, &json!({ "ended": sentence }));
            self.peers[place].is_ended = true;
        }
        self.end_holder(&said, "");
        Ok(())
    }
}

/// The robot and its channels, for those who connect.
fn described(
    order: &CommandOrder,
    joints: &[(String, Joint)],
    allowed: &HashSet<usize>,
    age: Duration,
    warn: &dyn Fn(&str),
) -> Result<Value, GatewayError> {
    let joints: Vec<Value> = joints
        .iter()
        .enumerate()
        .map(|(place, (name, joint))| {
            json!({
                "name": name, "low_rad": joint.low_rad, "high_rad": joint.high_rad,
                "velocity_rad_s": joint.velocity_rad_s, "allowed": allowed.contains(&place),
            })
        })
        .collect();
    let mut channels = Vec::new();
    let mut bytes = 0;
    for name in &order.channels {
        let channel: Channel = name.parse()?;
        let ring = RingReader::open(&channel, Start::Newest)?;
        let of = ring.record_type();
        let described = json!({
            "channel": name, "type": of.name, "schema": of.schema, "description": ring.description(),
        });
        bytes += described.to_string().len();
        if bytes > MOST_WELCOME {
            warn(&format!(
                "{name} is not described to other computers: more than {MOST_WELCOME} bytes of definitions"
            ));
            break;
        }
        channels.push(described);
    }
    Ok(json!({
        "robot": order.name, "joints": joints, "channels": channels, "telemetry": order.telemetry,
        "rate": order.rate, "age_ms": age.as_secs_f64() * 1e3,
        "lifetime_ms": order.lifetime_ns as f64 / 1e6,
    }))
}

/// The time, then the description with the peer's right.
fn welcome_bytes(welcome: &Value, right: CommandRight) -> Vec<u8> {
    let mut said = welcome.clone();
    said["commands"] = (right != CommandRight::None).into();
    [&now_ns().to_le_bytes()[..], said.to_string().as_bytes()].concat()
}

/// The robot's clock for the age of commands. It goes on while the computer sleeps: what was on its way then
/// is too late.
fn now_ns() -> u64 {
    bridge::now_ns(ClockId::Boottime)
}
