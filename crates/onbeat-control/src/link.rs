//! A client's connection to a bus.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::abi::ABI;
use super::area::{self, Inward};
use super::error::{ControlError, Refusal};
use super::image::{self, MappedImage, system};
use super::message::{Message, ask, tell};
use super::place::{PATIENCE, connect_to_bus};
use super::socket::{self, Received};

/// Time after which a client does not wait for the bus to send its memory.
const WELCOME: Duration = Duration::from_millis(500);
/// Maximum time for a bus to confirm that a role was given up.
const LEAVING: Duration = Duration::from_secs(1);

/// A connection that the bus has accepted.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
}

/// A role that the bus can grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedRole {
    claim: u32,
    leave: u32,
    /// The error for a bus whose role a process with this id and name has.
    held: fn(String, u32, String) -> ControlError,
}

pub(super) const OWNER: GrantedRole = GrantedRole {
    claim: ask::CLAIM_OUTPUTS,
    leave: ask::LEAVE_OUTPUTS,
    held: |name, pid, process| ControlError::Owned { name, pid, process },
};
pub(super) const COMMANDER: GrantedRole = GrantedRole {
    claim: ask::CLAIM_JOINTS,
    leave: ask::LEAVE_JOINTS,
    held: |name, pid, process| ControlError::Commanded { name, pid, process },
};

/// Connects to a bus, and maps its image.
pub(super) fn open(name: &str) -> Result<(Link, MappedImage), ControlError> {
    let (socket, peer) = connect_to_bus(name)?;
    let link = Link { socket };
    let mut received = link.receive(WELCOME).map_err(|()| no_bus(name))?;
    if received.is_none() {
        // A stopped bus can be looked at nevertheless.
        if let Some(memory) = area::of_process(peer.pid, &image::memory_of(name)) {
            let lock = area::of_process(peer.pid, &image::lock_of(name));
            let image = MappedImage::open(name, memory, lock)?;
            return Ok((link, image));
        }
        received = link.receive(PATIENCE).map_err(|()| no_bus(name))?;
    }

    let (welcome, descriptors) = welcomed(name, received)?;
    let mut descriptors = descriptors.into_iter();
    let Some(memory) = descriptors.next() else {
        let why = "its process sent no memory";
        return Err(ControlError::Spoilt { name: name.to_owned(), why });
    };
    let theirs = welcome.a as u32;
    if theirs != ABI {
        return Err(ControlError::OtherVersion { name: name.to_owned(), theirs, ours: ABI });
    }
    let image = MappedImage::open(name, memory, descriptors.next())?;
    Ok((link, image))
}

fn no_bus(name: &str) -> ControlError {
    ControlError::NoBus { name: name.to_owned() }
}

type MessageWithMemory = (Message, Vec<OwnedFd>);

fn welcomed(
    name: &str,
    received: Option<MessageWithMemory>,
) -> Result<MessageWithMemory, ControlError> {
    let name = name.to_owned();
    let Some((message, descriptors)) = received else {
        return Err(ControlError::NotReady { name });
    };
    match message.kind {
        tell::WELCOME => Ok((message, descriptors)),
        tell::REFUSED => {
            let why = Refusal::from_message(message.a, message.b);
            Err(ControlError::Refused { name, why })
        }
        _ => Err(ControlError::Spoilt { name, why: "its first message is unknown" }),
    }
}

impl Link {
    /// Connects once more to the bus of an image.
    pub(super) fn again(image: &MappedImage) -> Result<Self, ControlError> {
        image.check()?;
        let name = &image.name;
        let socket = match connect_to_bus(name) {
            Err(ControlError::NoBus { .. }) => return Err(image.gone()),
            connected => connected?.0,
        };
        let link = Self { socket };
        let received = link.receive(PATIENCE).map_err(|()| image.gone())?;
        let (welcome, _) = welcomed(name, received)?;
        if welcome.b == image.instance() {
            Ok(link)
        } else {
            Err(ControlError::BusReplaced { name: name.clone() })
        }
    }

    /// Checks that the bus runs and its process lives.
    pub(super) fn check(&self, image: &MappedImage) -> Result<(), ControlError> {
        image.check()?;
        let mut wanted = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_closed = poll(&mut wanted, Some(&now)).is_ok_and(|count| count > 0);
        if is_closed { Err(image.gone()) } else { Ok(()) }
    }

    pub(super) fn send(&self, message: &Message) -> Result<(), ()> {
        socket::send(&self.socket, message, &[]).map_err(|_| ())
    }

    /// Waits for a message, at most this long. An error if the bus has closed the connection.
    pub(super) fn receive(&self, timeout: Duration) -> Result<Option<MessageWithMemory>, ()> {
        let until = Instant::now().checked_add(timeout);
        loop {
            match socket::receive(&self.socket) {
                Received::Message(message, descriptors) => return Ok(Some((message, descriptors))),
                Received::Ended => return Err(()),
                Received::Nothing => {}
            }
            let now = Instant::now();
            let left = until.map(|until| until.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let mut wanted = [PollFd::new(&self.socket, PollFlags::IN)];
            let timespec = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            // Interrupted or not: look again.
            let _ = poll(&mut wanted, timespec.as_ref());
        }
    }

    /// Asks for a role; returns its slots.
    pub(super) fn claim(
        &self,
        image: &MappedImage,
        role: GrantedRole,
        slot_words: usize,
    ) -> Result<Inward, ControlError> {
        let gone = |()| image.gone();
        let name = image.name.clone();
        self.send(&Message::new(role.claim, 0)).map_err(gone)?;
        let Some((message, memory)) = self.receive(PATIENCE).map_err(gone)? else {
            return Err(ControlError::NotReady { name });
        };
        match (message.kind, memory.into_iter().next()) {
            (tell::GRANTED, Some(memory)) => {
                Inward::open(memory, slot_words).map_err(system("map the slots of the", &name))
            }
            (tell::HELD, _) => {
                let pid = message.a as u32;
                Err((role.held)(name, pid, onbeat_host::process::name(pid)))
            }
            (tell::NO_GOALS, _) => Err(ControlError::NoGoals { name }),
            _ => Err(ControlError::Spoilt { name, why: "its answer to a claim is unknown" }),
        }
    }

    /// Gives up a role, and waits until the bus has confirmed it.
    pub(super) fn leave(&self, role: GrantedRole) {
        if self.send(&Message::new(role.leave, 0)).is_ok() {
            let _ = self.receive(LEAVING);
        }
    }
}
