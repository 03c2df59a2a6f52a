//! SDO requests of other processes: records that are requested, taken, answered and freed, even if
//! a process dies in between.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::abi::{REQUEST_BYTES, REQUESTS, RequestRecord, phase};
use super::device_table;
use super::error::ControlError;
use super::image::MappedImage;
use super::process::Process;

/// Polling interval of a requester, and number of polls between checks of the bus process.
const LOOK_EVERY: Duration = Duration::from_micros(500);
const LOOK_AT_BUS_EVERY: u32 = 200;

/// Operation on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdoAction {
    /// Read.
    Read,
    /// Write these bytes, at most 1024.
    Write(Vec<u8>),
}

/// A requested transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdoRequest {
    /// Position of the device on the cable.
    pub device: u16,
    /// Index of the object, such as 0x6041.
    pub index: u16,
    /// Subindex.
    pub entry: u8,
    /// Complete access: all subindices at once.
    pub complete: bool,
    /// Read or write.
    pub action: SdoAction,
}

/// Reasons why a transfer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SdoFailure {
    /// The device refused the transfer.
    #[error("the device refused with abort code 0x{0:08x}{words}", words = abort_words(*.0))]
    Abort(u32),
    /// The device has no mailbox, or is in INIT.
    #[error("the device has no mailbox in its present state")]
    NoMailbox,
    /// The device did not answer in time.
    #[error("the device did not answer in time")]
    NoReply,
    /// The bus does not support this transfer.
    #[error("the bus does not support this transfer")]
    NotPossible,
    /// The answer is longer than a request record.
    #[error("the value is longer than {REQUEST_BYTES} bytes")]
    TooLong,
}

/// Result of a transfer: the bytes read, empty after a write.
pub type SdoAnswer = Result<Vec<u8>, SdoFailure>;

/// A request taken by the bus.
#[derive(Debug)]
pub struct SdoJob {
    /// The request.
    pub request: SdoRequest,
    place: usize,
    order: u64,
}

/// Meaning of the most common abort codes (ETG.1000.6, 5.6.2.7.2).
fn abort_words(code: u32) -> &'static str {
    match code {
        0x0601_0000 => ": unsupported access",
        0x0601_0001 => ": write-only object",
        0x0601_0002 => ": read-only object",
        0x0602_0000 => ": object does not exist",
        0x0604_0041 => ": object cannot be mapped",
        0x0607_0010 | 0x0607_0012 | 0x0607_0013 => ": wrong length",
        0x0609_0011 => ": subindex does not exist",
        0x0609_0030..=0x0609_0032 => ": value out of range",
        0x0800_0020..=0x0800_0022 => ": not possible in the present state",
        _ => "",
    }
}

const WRITE: u64 = 1 << 41;
const COMPLETE: u64 = 1 << 40;

fn target_of(request: &SdoRequest) -> u64 {
    let flag = |on: bool, bit: u64| if on { bit } else { 0 };
    u64::from(request.device)
        | u64::from(request.index) << 16
        | u64::from(request.entry) << 32
        | flag(request.complete, COMPLETE)
        | flag(matches!(request.action, SdoAction::Write(_)), WRITE)
}

fn request_of(record: &RequestRecord) -> SdoRequest {
    let target = record.target.load(Relaxed);
    let action =
        if target & WRITE == 0 { SdoAction::Read } else { SdoAction::Write(data_of(record)) };
    SdoRequest {
        device: target as u16,
        index: (target >> 16) as u16,
        entry: (target >> 32) as u8,
        complete: target & COMPLETE != 0,
        action,
    }
}

fn data_of(record: &RequestRecord) -> Vec<u8> {
    let length = (record.length.load(Relaxed) as usize).min(REQUEST_BYTES);
    let mut bytes = device_table::load(&record.data[..length.div_ceil(8)]);
    bytes.truncate(length);
    bytes
}

fn outcome_of(failure: SdoFailure) -> u64 {
    match failure {
        SdoFailure::Abort(code) => 1 << 32 | u64::from(code),
        SdoFailure::NoMailbox => 2 << 32,
        SdoFailure::NoReply => 3 << 32,
        SdoFailure::NotPossible => 4 << 32,
        SdoFailure::TooLong => 5 << 32,
    }
}

fn answer_of(record: &RequestRecord) -> SdoAnswer {
    let outcome = record.outcome.load(Relaxed);
    match outcome >> 32 {
        0 => Ok(data_of(record)),
        1 => Err(SdoFailure::Abort(outcome as u32)),
        2 => Err(SdoFailure::NoMailbox),
        3 => Err(SdoFailure::NoReply),
        4 => Err(SdoFailure::NotPossible),
        _ => Err(SdoFailure::TooLong),
    }
}

/// Frees a record: the phase first, so that the next requester finds it idle.
fn free(record: &RequestRecord) {
    record.phase.store(phase::IDLE, Relaxed);
    record.holder.store(0, Release);
}

// ---- bus process

pub(super) fn take(records: &[RequestRecord]) -> Option<SdoJob> {
    let asked = |record: &RequestRecord| record.phase.load(Acquire) == phase::ASKED;
    loop {
        let waiting = records.iter().enumerate().filter(|(_, record)| asked(record));
        let (place, record) = waiting.min_by_key(|(_, record)| record.order.load(Relaxed))?;
        // The requester may have given up in between.
        if record.phase.compare_exchange(phase::ASKED, phase::TAKEN, AcqRel, Relaxed).is_ok() {
            return Some(SdoJob {
                request: request_of(record),
                place,
                order: record.order.load(Relaxed),
            });
        }
    }
}

pub(super) fn answer(records: &[RequestRecord], job: &SdoJob, answer: &SdoAnswer) {
    let Some(record) =
        records.get(job.place).filter(|record| record.order.load(Relaxed) == job.order)
    else {
        return;
    };
    let too_long = answer.as_ref().is_ok_and(|bytes| bytes.len() > REQUEST_BYTES);
    let failure = if too_long { Some(SdoFailure::TooLong) } else { answer.as_ref().err().copied() };
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
    request: &SdoRequest,
    timeout: Duration,
) -> Result<SdoAnswer, ControlError> {
    let data: &[u8] = if let SdoAction::Write(bytes) = &request.action { bytes } else { &[] };
    if data.len() > REQUEST_BYTES {
        return Err(ControlError::SdoTooLong { bytes: data.len(), most: REQUEST_BYTES });
    }

    let device = request.device;
    let devices = shared.size.devices;
    if usize::from(device) >= devices {
        return Err(ControlError::NoDevice { name: shared.name.clone(), device, devices });
    }

    shared.check_alive()?;
    let own = |record: &&RequestRecord| {
        record.holder.compare_exchange(0, shared.me.word(), AcqRel, Relaxed).is_ok()
    };
    let record = shared.requests().iter().find(own);
    let record =
        record.ok_or_else(|| ControlError::Busy { name: shared.name.clone(), most: REQUESTS })?;
    record.target.store(target_of(request), Relaxed);
    device_table::store(&record.data, data);
    record.length.store(data.len() as u64, Relaxed);
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

    answered.map(|()| Err(SdoFailure::NoReply))
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
