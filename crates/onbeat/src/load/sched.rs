//! `sched`: groups of senders and receivers that wake each other, like `hackbench`.
//!
//! In a group each of 20 senders writes 100 bytes to each of 20 receivers in turn, over one socket
//! pair per receiver (the topology described in hackbench(8)). They are threads, not processes:
//! their stacks are small, and nothing is left to kill.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::bounds;
use super::builtin::{BuiltIn, WorkerContext};
use super::event::PartWork;

/// Number of senders in a group, and of receivers.
const SIDE: usize = 20;
const MESSAGE: usize = 100;
/// Memory of a group, in bytes: 40 kernel and user stacks, 20 socket pairs with full buffers.
const GROUP_MEMORY: u64 = 6 << 20;
const GROUP_DESCRIPTORS: u64 = 2 * SIDE as u64;
/// Memory of a group of the external hackbench, in bytes: 40 processes.
const HACKBENCH_GROUP_MEMORY: u64 = 16 << 20;

/// Returns the number of hackbench groups that fit into a quarter of the available memory, at least
/// one and at most `wanted`. The 2 GB of the paper's machine hold its twenty groups.
pub(super) fn hackbench_groups(wanted: u16) -> u16 {
    let fit =
        bounds::fit(u64::from(wanted), HACKBENCH_GROUP_MEMORY, bounds::available_memory() / 4);
    u16::try_from(fit).unwrap_or(wanted)
}

/// The part `sched`, with `2 * SIDE` threads for each group, the receivers first.
pub(super) struct SchedLoad {
    wanted: u16,
    groups: Vec<Vec<Pair>>,
    messages: AtomicU64,
}

struct Pair {
    receiver: UnixStream,
    sender: UnixStream,
}

impl SchedLoad {
    /// Makes `wanted` groups, or fewer if memory or descriptors are short.
    pub(super) fn new(wanted: u16) -> Result<Self, std::io::Error> {
        let by_memory = bounds::fit(u64::from(wanted), GROUP_MEMORY, bounds::memory_share());
        // A quarter of the descriptors is left for other uses.
        let possible =
            bounds::fit(by_memory, GROUP_DESCRIPTORS, bounds::most_descriptors() / 4 * 3);
        let group = || {
            (0..SIDE)
                .map(|_| UnixStream::pair().map(|(receiver, sender)| Pair { receiver, sender }))
                .collect::<Result<Vec<_>, _>>()
        };

        let groups = (0..possible).map(|_| group()).collect::<Result<_, _>>()?;
        Ok(Self { wanted, groups, messages: AtomicU64::new(0) })
    }

    fn receive(&self, mut from: &UnixStream) -> Result<(), std::io::Error> {
        let mut message = [0; MESSAGE];
        loop {
            match from.read_exact(&mut message) {
                Ok(()) => self.messages.fetch_add(1, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            };
        }
    }

    fn send(group: &[Pair], context: &WorkerContext) -> Result<(), std::io::Error> {
        let message = [0x55; MESSAGE];
        while !context.is_over() {
            for pair in group {
                (&pair.sender).write_all(&message)?;
            }
        }

        Ok(())
    }
}

impl BuiltIn for SchedLoad {
    fn plan(&self) -> String {
        let had = self.groups.len();
        let bound = if had < usize::from(self.wanted) {
            format!(" (not {}: memory or descriptors)", self.wanted)
        } else {
            String::new()
        };

        format!("sched: {had} groups of {SIDE} senders and {SIDE} receivers{bound}")
    }

    fn threads(&self) -> usize {
        self.groups.len() * 2 * SIDE
    }

    fn work(&self, thread: usize, context: &WorkerContext) -> Result<(), std::io::Error> {
        let group = &self.groups[thread / (2 * SIDE)];
        let outcome = match thread % (2 * SIDE) {
            receiver @ 0..SIDE => self.receive(&group[receiver].receiver),
            _ => Self::send(group, context),
        };

        // A blocked thread ends because its socket was shut down.
        if context.is_over() { Ok(()) } else { outcome }
    }

    fn did(&self, _: Duration) -> PartWork {
        PartWork::Sched {
            groups: u32::try_from(self.groups.len()).unwrap_or(u32::MAX),
            messages: self.messages.load(Ordering::Relaxed),
        }
    }

    fn unblock(&self) {
        for pair in self.groups.iter().flatten() {
            // A pair that is shut down already needs no wake-up.
            let _ = pair.receiver.shutdown(Shutdown::Both);
            let _ = pair.sender.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::builtin::try_out;
    use std::sync::Arc;

    #[test]
    fn a_group_passes_messages_and_ends() {
        let is_enough = |did: &PartWork| matches!(did, PartWork::Sched { messages: 401.., .. });
        let (did, words) = try_out(Arc::new(SchedLoad::new(1).unwrap()), is_enough);
        assert!(
            matches!(did, PartWork::Sched { groups: 1, messages } if messages > 400),
            "{did:?}"
        );
        assert!(words.is_empty(), "{words:?}");
    }
}
