//! Sending and receiving messages on the socket of a bus. No call waits.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};

use super::message::{MESSAGE_BYTES, Message};

/// Maximum number of descriptors in a message: image and lock.
const MOST_DESCRIPTORS: usize = 2;

/// What was received.
#[derive(Debug)]
pub(super) enum Received {
    /// A message, with its descriptors.
    Message(Message, Vec<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other side has closed the socket, or sent what is not a message.
    Ended,
}

/// Sends a message; an error also if the receiver's buffer is full.
pub(super) fn send(
    socket: impl AsFd,
    message: &Message,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let bytes = message.to_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags).map(|_| ())
}

/// Receives a message of the bus.
pub(super) fn receive(socket: impl AsFd) -> Received {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
    let length = match received {
        Ok(received) => received.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        Err(_) => return Received::Ended,
    };

    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    match Message::from_bytes(&bytes[..length]) {
        Some(message) => Received::Message(message, descriptors),
        None => Received::Ended,
    }
}

/// Receives a message of a client. The kernel drops descriptors that it sends.
pub(super) fn receive_from_client(socket: impl AsFd) -> Received {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    match recv(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
        Ok((length, _)) => match Message::from_bytes(&bytes[..length]) {
            Some(message) => Received::Message(message, Vec::new()),
            None => Received::Ended,
        },
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::Ended,
    }
}
