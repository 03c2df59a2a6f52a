//! Guests under QEMU: a kernel, an initramfs, a job, and what comes back.
//!
//! | module | what is in it |
//! |---|---|
//! | [`Kernel`] | kernels from Debian packages or files, unpacked once, with their modules in load order |
//! | [`Initramfs`], [`Archive`] | what a guest boots into; the same content gives the same bytes |
//! | [`Guest`], [`RunningGuest`] | QEMU's command line from plain data; QEMU from its start to its end |
//! | [`Job`], [`GuestResult`] | commands for a guest, and the files that it sends back |
//! | [`Real`], [`Virtual`], [`Free`] | three clocks; [`Figures`] of different clocks do not compile into one [`ClockTable`] |
//! | [`choose_accelerator`] | whether KVM works here, by a canary guest |
//! | [`Matrix`], [`Laboratory`] | experiments from a file, run in parallel, kept, and resumed |
//!
//! Nothing is downloaded unless [`PackageSource::Download`] is given. Guests have no network and no
//! disk. A guest ends with the thread that started it; what is left after a crash is ended when the
//! work directory is opened next.

mod accelerator;
mod archive;
mod clock;
mod error;
mod figures;
mod frame;
mod guest;
mod initramfs;
mod job;
mod kernel;
mod leftover;
mod matrix;
mod process;
mod qemu;
mod qmp;
mod result;
mod work_directory;

pub use accelerator::{Accelerator, CANARY_LIMIT, KvmRefusal, choose_accelerator, open_kvm};
pub use archive::Archive;
pub use clock::{Clock, Free, Measures, Real, Virtual};
pub use error::VmError;
pub use figures::{ClockTable, Figures};
pub use frame::{FrameError, GuestFile};
pub use guest::{Guest, RunningGuest};
pub use initramfs::{BootImage, Initramfs};
pub use job::{Job, LatencyTest};
pub use kernel::{
    ImageError, Kernel, KernelState, ListedKernel, Module, ModuleError, PackageSource,
    downloadable_kernels, list_kernels,
};
pub use leftover::EndedGuest;
pub use matrix::{
    Cell, CellFigures, ClockChoice, Experiment, KernelChoice, LabEvent, LabResults, Laboratory,
    Matrix, MatrixError, Repetition, StoredExperiment,
};
pub use qemu::qemu_version;
pub use result::GuestResult;
pub use work_directory::WorkDirectory;
