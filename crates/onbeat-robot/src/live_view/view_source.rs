//! What a server of the loopback shows: the source of its events.

use std::fmt::Debug;
use std::time::Duration;

use super::LiveViewAccount;

/// What a server shows to browsers that follow it.
pub trait ViewSource: Send + 'static {
    /// What a browser that follows has not been sent yet.
    type Pending: Default + Debug + Send;

    /// Time between two events while a browser follows, and between two looks otherwise.
    fn pace(&self) -> ViewPace;

    /// Takes what is new since the last look, for all browsers that follow.
    fn look(
        &mut self,
        following: &mut dyn Iterator<Item = &mut Self::Pending>,
        account: &mut LiveViewAccount,
    );

    /// Writes what a browser that has read everything before is to be sent now, as server-sent
    /// events. `round` counts the looks; `u64::MAX` is the last one. Returns how many events of its
    /// main kind these are.
    fn write(&mut self, pending: &mut Self::Pending, round: u64, text: &mut String) -> u64;

    /// A browser has not read what it was sent before: what is new waits for the next round.
    fn merged(&self, pending: &mut Self::Pending);
}

/// How often a source is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewPace {
    /// While a browser follows.
    pub followed: Duration,
    /// While nobody does.
    pub alone: Duration,
}
