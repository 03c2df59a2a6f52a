//! Access to registers of a device for another process, in one datagram of an acyclic frame.
//!
//! A reply that is lost is asked for again, so a register may be written twice with the same bytes.

use onbeat_control::{RegisterAction, RegisterRequest, RequestAnswer, RequestFailure};
use onbeat_ethercat::registers;
use onbeat_rt::frame::{Command, register};

use super::acyclic::{AcyclicFrame, QueryPurpose};
use super::device::{BusDevice, DeviceStage};
use super::register_query::QueryReply;

/// Number of frames in which the device may not answer.
const MOST_TRIES: u8 = 3;
/// Cycles to wait for a reply.
const TIMEOUT_CYCLES: u64 = 500;

/// An access to registers.
#[derive(Clone, Debug)]
pub(super) struct RegisterTransfer {
    request: RegisterRequest,
    /// Bytes read.
    value: Vec<u8>,
    tries: u8,
    since: u64,
    ended: Option<Result<(), RequestFailure>>,
}

impl RegisterTransfer {
    /// Creates an access that has not begun. Registers that the bus sets itself are refused here, and
    /// process memory, where a read would take a device's mail: other processes may ask for anything.
    pub(super) fn new(request: RegisterRequest) -> Self {
        let bytes = request.bytes();
        let is_write = matches!(request.action, RegisterAction::Write(_));
        let end = usize::from(request.address) + bytes;
        let is_kept = bytes == 0
            || end > registers::PROCESS_MEMORY
            || is_write && !registers::is_free(request.address, bytes);
        let ended = is_kept.then_some(Err(RequestFailure::KeptByBus));
        Self { value: Vec::with_capacity(bytes), request, tries: 0, since: 0, ended }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn outcome(&self) -> Option<RequestAnswer> {
        self.ended.map(|ended| ended.map(|()| self.value.clone()))
    }

    /// Appends the access to the frame of this cycle.
    pub(super) fn push(
        &mut self,
        frame_writer: &mut AcyclicFrame<'_, '_>,
        devices: &[BusDevice],
        cycle: u64,
    ) {
        if self.since == 0 {
            self.since = cycle;
        }
        if self.ended.is_some() {
            return;
        }

        let device = devices.get(usize::from(self.request.device));
        let answers = |device: &&BusDevice| !matches!(device.stage, DeviceStage::NoAnswer);
        let Some(device) = device.filter(answers) else {
            return self.end(Err(RequestFailure::NoReply));
        };
        if cycle - self.since > TIMEOUT_CYCLES {
            return self.end(Err(RequestFailure::NoReply));
        }

        let address = register(device.known.station, self.request.address);
        match &self.request.action {
            RegisterAction::Read(bytes) => {
                frame_writer.push(QueryPurpose::Register, Command::Fprd, address, *bytes);
            }
            // Only then is it certain that this is the device at that station address.
            RegisterAction::Write(_) if !matches!(device.stage, DeviceStage::InOp) => {
                self.end(Err(RequestFailure::NotInOp));
            }
            RegisterAction::Write(bytes) => {
                frame_writer.push_data(QueryPurpose::Register, Command::Fpwr, address, bytes);
            }
        }
    }

    pub(super) fn take(&mut self, QueryReply { data, counter }: QueryReply<'_>) {
        if self.ended.is_some() {
            return;
        }
        if counter == 0 {
            self.tries += 1;
            if self.tries >= MOST_TRIES {
                self.end(Err(RequestFailure::NoReply));
            }
            return;
        }

        if let RegisterAction::Read(_) = self.request.action {
            self.value.extend_from_slice(data);
        }
        self.end(Ok(()));
    }

    fn end(&mut self, ended: Result<(), RequestFailure>) {
        self.ended = Some(ended);
    }
}
