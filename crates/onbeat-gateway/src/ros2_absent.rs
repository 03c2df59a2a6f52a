//! In place of `ros2_node` in a build without the feature `ros2`: every order is refused.

use std::convert::Infallible;

use super::error::GatewayError;
use super::lcm_packets::LcmAccount;
use super::ros2_names::Ros2Url;
use super::transport_message::{NetworkChannel, NetworkMessage};

pub(super) use self::{AbsentReceiver as Ros2Receiver, AbsentSender as Ros2Sender};

/// Does not exist in this build.
#[derive(Debug)]
pub(super) struct AbsentSender(Infallible);

impl AbsentSender {
    pub(super) fn open(_url: Ros2Url, _channels: &[NetworkChannel]) -> Result<Self, GatewayError> {
        Err(GatewayError::Ros2NotBuilt)
    }

    pub(super) fn poll(&mut self) -> Result<(), GatewayError> {
        match self.0 {}
    }

    pub(super) fn send(&mut self, _name: &str, _payload: &[u8]) {
        match self.0 {}
    }

    pub(super) fn has_waiting(&self) -> bool {
        match self.0 {}
    }

    pub(super) const fn dropped(&self) -> u64 {
        match self.0 {}
    }
}

/// Does not exist in this build.
#[derive(Debug)]
pub(super) struct AbsentReceiver(Infallible);

impl AbsentReceiver {
    pub(super) fn open(_url: Ros2Url, _channels: &[NetworkChannel]) -> Result<Self, GatewayError> {
        Err(GatewayError::Ros2NotBuilt)
    }

    pub(super) fn receive(&mut self) -> Result<Option<NetworkMessage>, GatewayError> {
        match self.0 {}
    }

    pub(super) const fn account(&self) -> LcmAccount {
        match self.0 {}
    }
}
