//! Host and guest on one clock: a guest measures and records the causes of its spikes, the host
//! records the thread of its virtual CPU, and both are joined.
//!
//! | module | what is in it |
//! |---|---|
//! | [`PageExchange`] | the guest's clock between two readings of the host's, by a page of shared memory |
//! | [`ClockRelation`] | all lines that no exchange contradicts: the guest's instants on the host's clock, each with its error bound |
//! | [`HostShare`] | whether the virtual CPU ran, was halted, or was kept off its CPU, and by whom |
//! | [`JoinedSpike`] | a spike of the guest with both sides' causes |
//! | [`GuestTrace`] | the whole, from a guest's description to a [`JoinedTrace`] |
//! | [`GuestPair`] | two guests as two boards, each with a clock of its own, and both clocks on the host's |
//!
//! Nothing is assumed about the ways of an exchange. That the clocks are joined rightly is checked
//! by events that no exchange was made of ([`EventCheck`]): a guest does nothing while its virtual
//! CPU is off the host's CPUs.
//!
//! Entries and exits of the virtual machine are KVM's; software emulation has none.

mod error;
mod exchange;
mod page;
mod pair;
mod record;
mod relation;
mod session;
mod spike;
mod vcpu;

pub use error::JoinError;
pub(crate) use exchange::{ExchangeHost, answer_on};
pub use exchange::{PageExchange, answer_exchanges};
pub(crate) use page::SharedPage;
pub use pair::{CheckedReading, GuestPair, PairedClocks};
pub use record::{RecordError, record_events};
pub use relation::{ClockRelation, HostInterval, NotRelated};
pub use session::{EXCHANGES, GuestTrace, JoinedTrace, TraceStep, VcpuPin};
pub(crate) use session::{PAGE, page_arguments};
pub use spike::{EventCheck, JoinedCause, JoinedSpike};
pub use vcpu::{HostShare, InjectedInterrupt, OffCpu, VcpuThread, off_cpu};
