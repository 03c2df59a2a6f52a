//! A request of another process, carried out in acyclic frames: an object, registers, or a new scan
//! of the positions. One at a time.

use onbeat_control::{
    BusRequest, CablePosition, RequestAnswer, RequestFailure, SdoAction, SdoRequest,
};

use super::register_transfer::RegisterTransfer;
use super::sdo::SdoTransfer;

/// Cycles to wait for a position scan to end.
const SCAN_TIMEOUT_CYCLES: u64 = 2_000;

/// A request of another process, for [`Bus::begin_transfer`](super::Bus::begin_transfer). It is
/// created outside the loop with all the memory it needs.
///
/// ```
/// use onbeat_control::{SdoAction, SdoRequest};
/// use onbeat_robot::bus::BusTransfer;
///
/// let identity =
///     SdoRequest { device: 3, index: 0x1018, entry: 1, complete: false, action: SdoAction::Read };
/// let transfer = BusTransfer::new(identity.into());
/// assert_eq!(transfer.outcome(), None, "not begun");
/// ```
#[derive(Clone, Debug)]
pub struct BusTransfer(pub(super) TransferKind);

/// What is transferred.
#[derive(Clone, Debug)]
pub(super) enum TransferKind {
    Sdo(SdoTransfer),
    Register(RegisterTransfer),
    Rescan(RescanTransfer),
}

impl BusTransfer {
    /// Creates a transfer that has not begun.
    #[must_use]
    pub fn new(request: BusRequest) -> Self {
        Self(match request {
            BusRequest::Sdo(request) => TransferKind::Sdo(of_object(request)),
            BusRequest::Register(request) => TransferKind::Register(RegisterTransfer::new(request)),
            BusRequest::Rescan => TransferKind::Rescan(RescanTransfer::new()),
        })
    }

    /// Returns the result; `None` while in progress.
    #[must_use]
    pub fn outcome(&self) -> Option<RequestAnswer> {
        match &self.0 {
            TransferKind::Sdo(transfer) => transfer.outcome(),
            TransferKind::Register(transfer) => transfer.outcome(),
            TransferKind::Rescan(transfer) => transfer.outcome(),
        }
    }

    /// Returns whether it has ended, without copying the result.
    pub(super) fn has_ended(&self) -> bool {
        match &self.0 {
            TransferKind::Sdo(transfer) => transfer.written().is_some(),
            TransferKind::Register(transfer) => transfer.has_ended(),
            TransferKind::Rescan(transfer) => transfer.ended.is_some(),
        }
    }

    /// Returns the SDO transfer with this device.
    pub(super) fn sdo_with(&mut self, place: usize) -> Option<&mut SdoTransfer> {
        match &mut self.0 {
            TransferKind::Sdo(transfer) if transfer.device() == place => Some(transfer),
            _ => None,
        }
    }
}

/// Creates a transfer of an object. Writes to the mapping of process data are refused: a device that
/// takes them outside of a bring-up would have set-points in the places of other objects.
fn of_object(request: SdoRequest) -> SdoTransfer {
    let is_write = request.action != SdoAction::Read;
    let is_mapping = matches!(request.index, 0x1600..=0x17ff | 0x1a00..=0x1bff | 0x1c10..=0x1c2f);
    let mut transfer = SdoTransfer::new(request);
    if is_write && is_mapping {
        transfer.end(Err(RequestFailure::KeptByBus));
    }
    transfer
}

/// A scan of all positions, begun after it was requested.
#[derive(Clone, Debug)]
pub(super) struct RescanTransfer {
    /// The positions as bytes of the answer.
    found: Vec<u8>,
    since: u64,
    ended: Option<Result<(), RequestFailure>>,
}

impl RescanTransfer {
    fn new() -> Self {
        let found = Vec::with_capacity(2 * super::position_scan::MOST_PLACES);
        Self { found, since: 0, ended: None }
    }

    fn outcome(&self) -> Option<RequestAnswer> {
        self.ended.map(|ended| ended.map(|()| self.found.clone()))
    }

    /// Ends the scan on timeout. `cycle` is the current cycle.
    pub(super) fn wait(&mut self, cycle: u64) {
        if self.since == 0 {
            self.since = cycle;
        }
        if self.ended.is_none() && cycle - self.since > SCAN_TIMEOUT_CYCLES {
            self.ended = Some(Err(RequestFailure::NoReply));
        }
    }

    /// Ends the scan with what two passes agreed on.
    pub(super) fn found(&mut self, positions: impl Iterator<Item = CablePosition>) {
        self.found.extend(positions.flat_map(CablePosition::to_bytes));
        self.ended = Some(Ok(()));
    }
}
