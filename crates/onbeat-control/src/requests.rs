//! Requests of other processes as messages.

use std::time::Duration;

use super::abi::REQUEST_BYTES;
use super::error::ControlError;
use super::image::MappedImage;
use super::link::Link;
use super::message::{Message, ask, tell};
use super::request::{
    BusRequest, REGISTER_BYTES, RegisterAction, RegisterRequest, RequestAnswer, RequestFailure,
    SdoAction, SdoRequest,
};

/// A request taken by the bus.
#[derive(Debug)]
pub struct RequestJob {
    /// The request.
    pub request: BusRequest,
    pub(super) connection: u64,
    pub(super) order: u64,
}

const WRITE: u64 = 1 << 41;
const COMPLETE: u64 = 1 << 40;
/// Kind of a request: 0 object, 1 register, 2 rescan.
const KIND_AT: u32 = 42;
const SDO: u64 = 0;
const REGISTER: u64 = 1;
const RESCAN: u64 = 2;

fn target_of(request: &BusRequest) -> u64 {
    let flag = |on: bool, bit: u64| if on { bit } else { 0 };
    match request {
        BusRequest::Sdo(request) => {
            u64::from(request.device)
                | u64::from(request.index) << 16
                | u64::from(request.entry) << 32
                | flag(request.complete, COMPLETE)
                | flag(matches!(request.action, SdoAction::Write(_)), WRITE)
        }
        BusRequest::Register(request) => {
            u64::from(request.device)
                | u64::from(request.address) << 16
                | flag(matches!(request.action, RegisterAction::Write(_)), WRITE)
                | REGISTER << KIND_AT
        }
        BusRequest::Rescan => RESCAN << KIND_AT,
    }
}

/// Number of bytes to write, or of register bytes to read.
fn length_of(request: &BusRequest) -> usize {
    if let BusRequest::Register(request) = request { request.bytes() } else { request.data().len() }
}

/// Returns the request in a message; `None` if it makes no sense.
pub(super) fn from_message(message: Message) -> Option<BusRequest> {
    let Message { a: target, b: length, data, .. } = message;
    let device = target as u16;
    let at = (target >> 16) as u16;
    let is_write = target & WRITE != 0;
    let length = usize::try_from(length).ok().filter(|length| *length <= REQUEST_BYTES)?;
    if is_write && data.len() != length || !is_write && !data.is_empty() {
        return None;
    }

    Some(match target >> KIND_AT {
        RESCAN => BusRequest::Rescan,
        REGISTER => {
            let read = || RegisterAction::Read(length.min(REGISTER_BYTES));
            let action = if is_write { RegisterAction::Write(data) } else { read() };
            BusRequest::Register(RegisterRequest { device, address: at, action })
        }
        SDO => BusRequest::Sdo(SdoRequest {
            device,
            index: at,
            entry: (target >> 32) as u8,
            complete: target & COMPLETE != 0,
            action: if is_write { SdoAction::Write(data) } else { SdoAction::Read },
        }),
        _ => return None,
    })
}

fn message_of(request: &BusRequest) -> Message {
    Message {
        a: target_of(request),
        b: length_of(request) as u64,
        data: request.data().to_vec(),
        ..Message::new(ask::REQUEST, 0)
    }
}

fn outcome_of(failure: RequestFailure) -> u64 {
    match failure {
        RequestFailure::Abort(code) => 1 << 32 | u64::from(code),
        RequestFailure::NoMailbox => 2 << 32,
        RequestFailure::NoReply => 3 << 32,
        RequestFailure::NotPossible => 4 << 32,
        RequestFailure::TooLong => 5 << 32,
        RequestFailure::KeptByBus => 6 << 32,
        RequestFailure::NotInOp => 7 << 32,
    }
}

/// Returns the message of an answer.
pub(super) fn to_message(id: u32, answer: &RequestAnswer) -> Message {
    let too_long = answer.as_ref().is_ok_and(|bytes| bytes.len() > REQUEST_BYTES);
    let failure =
        if too_long { Some(RequestFailure::TooLong) } else { answer.as_ref().err().copied() };
    let bytes = if failure.is_some() { &[] } else { answer.as_deref().unwrap_or_default() };
    Message {
        a: failure.map_or(0, outcome_of),
        b: bytes.len() as u64,
        data: bytes.to_vec(),
        ..Message::new(tell::ANSWER, id)
    }
}

fn answer_of(message: Message) -> RequestAnswer {
    let outcome = message.a;
    match outcome >> 32 {
        0 => Ok(message.data),
        1 => Err(RequestFailure::Abort(outcome as u32)),
        2 => Err(RequestFailure::NoMailbox),
        3 => Err(RequestFailure::NoReply),
        4 => Err(RequestFailure::NotPossible),
        5 => Err(RequestFailure::TooLong),
        6 => Err(RequestFailure::KeptByBus),
        _ => Err(RequestFailure::NotInOp),
    }
}

/// Makes a request on a connection of its own: if the process dies or gives up, it ends with it.
pub(super) fn ask(
    shared: &MappedImage,
    request: &BusRequest,
    timeout: Duration,
) -> Result<RequestAnswer, ControlError> {
    request.check(&shared.name, shared.size.devices)?;
    let link = Link::again(shared)?;
    link.send(&message_of(request)).map_err(|()| shared.gone())?;
    let Some((message, _)) = link.receive(timeout).map_err(|()| shared.gone())? else {
        return Err(ControlError::NoAnswer { name: shared.name.clone(), ms: timeout.as_millis() });
    };
    match message.kind {
        tell::ANSWER => Ok(answer_of(message)),
        tell::BUSY => Err(ControlError::Busy {
            name: shared.name.clone(),
            most: usize::try_from(message.a).unwrap_or(0),
        }),
        _ => {
            let why = "its answer to a request is unknown";
            Err(ControlError::Spoilt { name: shared.name.clone(), why })
        }
    }
}
