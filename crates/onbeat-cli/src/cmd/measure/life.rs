//! `--beside PID`: a process at whose end a measurement ends.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cmd::Common;
use crate::cmd::Failure;

/// A process at whose end a measurement ends.
pub(crate) struct Life(OwnedFd);

impl Life {
    pub(crate) fn open(pid: i32) -> Result<Self, Failure> {
        let known = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
        let opened = known.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        opened.map(Self).map_err(|source| Common::NoProcess { pid, source: source.into() }.into())
    }

    /// Returns whether it has ended: its descriptor is readable from then on.
    pub(crate) fn is_over(&mut self) -> bool {
        let mut asked = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}
