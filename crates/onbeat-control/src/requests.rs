//! Requests of other processes: records that are requested, taken, answered and freed, even if
//! a process dies in between.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::abi::{REQUEST_BYTES, REQUESTS, RequestRecord, phase};
use super::device_table;
use super::error::ControlError;
use super::image::MappedImage;
use super::process::Process;
use super::request::{
    BusRequest, REGISTER_BYTES, RegisterAction, RegisterRequest, RequestAnswer, RequestFailure,
    SdoAction, SdoRequest,
};

/// Polling interval of a requester, and number of polls between checks of the bus process.
const LOOK_EVERY: Duration = Duration::from_micros(500);
const LOOK_AT_BUS_EVERY: u32 = 200;

/// A request taken by the bus.
#[derive(Debug)]
pub struct RequestJob {
    /// The request.
    pub request: BusRequest,
    place: usize,
    order: u64,
}

const WRITE: u64 = 1 << 41;
const COMPLETE: u64 = 1 << 40;
/// Kind of a request: 0 object, 1 register, 2 rescan.
const KIND_AT: u32 = 42;
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

fn request_of(record: &RequestRecord) -> BusRequest {
    let target = record.target.load(Relaxed);
    let device = target as u16;
    let at = (target >> 16) as u16;
    let is_write = target & WRITE != 0;

    match target >> KIND_AT {
        RESCAN => BusRequest::Rescan,
        REGISTER => {
            let bytes = record.length.load(Relaxed) as usize;
            let read = || RegisterAction::Read(bytes.min(REGISTER_BYTES));
            let action = if is_write { RegisterAction::Write(data_of(record)) } else { read() };
            BusRequest::Register(RegisterRequest { device, address: at, action })
        }
        _ => BusRequest::Sdo(SdoRequest {
            device,
            index: at,
            entry: (target >> 32) as u8,
            complete: target & COMPLETE != 0,
            action: if is_write { SdoAction::Write(data_of(record)) } else { SdoAction::Read },
        }),
    }
}

fn data_of(record: &RequestRecord) -> Vec<u8> {
    let length = (record.length.load(Relaxed) as usize).min(REQUEST_BYTES);
    let mut bytes = device_table::load(&record.data[..length.div_ceil(8)]);
    bytes.truncate(length);
    bytes
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

fn answer_of(record: &RequestRecord) -> RequestAnswer {
    let outcome = record.outcome.load(Relaxed);
    match outcome >> 32 {
        0 => Ok(data_of(record)),
        1 => Err(RequestFailure::Abort(outcome as u32)),
        2 => Err(RequestFailure::NoMailbox),
        3 => Err(RequestFailure::NoReply),
        4 => Err(RequestFailure::NotPossible),
        5 => Err(RequestFailure::TooLong),
        6 => Err(RequestFailure::KeptByBus),
        _ => Err(RequestFailure::NotInOp),
    }
}

/// Frees a record: the phase first, so that the next requester finds it idle.
fn free(record: &RequestRecord) {
    record.phase.store(phase::IDLE, Relaxed);
    record.holder.store(0, Release);
}

// ---- bus process

pub(super) fn take(records: &[RequestRecord]) -> Option<RequestJob> {
    let asked = |record: &RequestRecord| record.phase.load(Acquire) == phase::ASKED;
    loop {
        let waiting = records.iter().enumerate().filter(|(_, record)| asked(record));
        let (place, record) = waiting.min_by_key(|(_, record)| record.order.load(Relaxed))?;
        // The requester may have given up in between.
        if record.phase.compare_exchange(phase::ASKED, phase::TAKEN, AcqRel, Relaxed).is_ok() {
            return Some(RequestJob {
                request: request_of(record),
                place,
                order: record.order.load(Relaxed),
            });
        }
    }
}

pub(super) fn answer(records: &[RequestRecord], job: &RequestJob, answer: &RequestAnswer) {
    let Some(record) =
        records.get(job.place).filter(|record| record.order.load(Relaxed) == job.order)
    else {
        return;
    };
    let too_long = answer.as_ref().is_ok_and(|bytes| bytes.len() > REQUEST_BYTES);
    let failure =
        if too_long { Some(RequestFailure::TooLong) } else { answer.as_ref().err().copied() };
    record.outcome.store(failure.map_or(0, outcome_of), Relaxed);
    let bytes = if failure.is_some() { &[] } else { answer.as_deref().unwrap_or_default() };
    device_table::store(&record.data, bytes);
    record.length.store(bytes.len() as u64, Relaxed);

    if record.phase.compare_exchange(phase::TAKEN, phase::ANSWERED, AcqRel, Relaxed).is_err() {
        free(record);
    }
}

/// Frees the records of dead requesters; one taken by the bus is freed when it is answered.
pub(super) fn drop_dead(records: &[RequestRecord]) {
    for record in records {
        let word = record.holder.load(Acquire);
        if Process::from_word(word).is_none_or(Process::is_alive) {
            continue;
        }

        let taken = record.phase.compare_exchange(phase::TAKEN, phase::ABANDONED, AcqRel, Acquire);
        if taken.is_err_and(|now| now != phase::ABANDONED) {
            free(record);
        }
    }
}

// ---- requesters

pub(super) fn ask(
    shared: &MappedImage,
    request: &BusRequest,
    timeout: Duration,
) -> Result<RequestAnswer, ControlError> {
    request.check(&shared.name, shared.size.devices)?;
    shared.check_alive()?;
    let own = |record: &&RequestRecord| {
        record.holder.compare_exchange(0, shared.me.word(), AcqRel, Relaxed).is_ok()
    };
    let record = shared.requests().iter().find(own);
    let record =
        record.ok_or_else(|| ControlError::Busy { name: shared.name.clone(), most: REQUESTS })?;
    record.target.store(target_of(request), Relaxed);
    device_table::store(&record.data, request.data());
    record.length.store(length_of(request) as u64, Relaxed);
    record.order.store(shared.live().orders.0.fetch_add(1, Relaxed), Relaxed);
    record.phase.store(phase::ASKED, Release);
    let answered = wait(shared, record, timeout);

    if answered.is_ok()
        || record.phase.compare_exchange(phase::ASKED, phase::IDLE, AcqRel, Relaxed).is_ok()
    {
        let answer = answered.map(|()| answer_of(record));
        free(record);
        return answer;
    }

    // The bus has taken the request: it frees the record with its answer, unless it has just
    // answered.
    if record.phase.compare_exchange(phase::TAKEN, phase::ABANDONED, AcqRel, Acquire).is_err() {
        free(record);
    }

    answered.map(|()| Err(RequestFailure::NoReply))
}

fn wait(
    shared: &MappedImage,
    record: &RequestRecord,
    timeout: Duration,
) -> Result<(), ControlError> {
    let began = Instant::now();
    for look in 1_u32.. {
        if record.phase.load(Acquire) == phase::ANSWERED {
            return Ok(());
        }
        if look.is_multiple_of(LOOK_AT_BUS_EVERY) {
            shared.check_alive()?;
        }

        if began.elapsed() >= timeout {
            break;
        }

        sleep(LOOK_EVERY);
    }

    Err(ControlError::NoAnswer { name: shared.name.clone(), ms: timeout.as_millis() })
}
