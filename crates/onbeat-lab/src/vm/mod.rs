//! Guests under QEMU: a kernel, an initramfs, a job, and what comes back.
//!
//! | module | what is in it |
//! |---|---|
//! | [`Kernel`] | kernels from Debian packages or files, unpacked once, with their modules in load order |
//! | [`Initramfs`], [`Archive`], [`GuestWiring`] | what a guest boots into, with GPIO lines or a second board; the same content gives the same bytes |
//! | [`OwnGuest`] | a user's guest, from its script or libvirt definition, with an agent in it |
//! | [`Guest`], [`RunningGuest`] | QEMU's command line from plain data; QEMU from its start to its end |
//! | [`Job`], [`GuestPlan`], [`GuestResult`] | commands for a guest, a measurement as planned here, and the files that it sends back |
//! | [`ForeignProbe`] | a program of the guest's that measures, its output as run files |
//! | [`Real`], [`Virtual`], [`Free`] | three clocks; [`GuestFigures`] of different clocks do not compile into one [`ClockTable`] |
//! | [`choose_accelerator`] | whether KVM works here, by a canary guest |
//! | [`RealTimeMachine`], [`ThreadPlan`] | memory, processor and threads of a guest with a real-time loop, for QEMU and libvirt |
//! | [`Matrix`], [`Laboratory`] | experiments from a file, run in parallel, kept, and resumed |
//! | [`Replay`] | one of them again, traced from outside: the critical path of its largest latency |
//!
//! Nothing is downloaded unless [`PackageSource::Download`] is given. Guests of onbeat's own have no
//! network and no disk; a user's has its own, of which nothing is changed. A guest ends with the thread that started it; what is left after a crash is ended when the
//! work directory is opened next.

mod accelerator;
mod archive;
mod clock;
pub(crate) mod error;
mod figures;
mod foreign;
mod frame;
mod guest;
mod initramfs;
mod job;
mod kernel;
mod leftover;
mod libvirt;
mod machine;
mod matrix;
mod own;
mod plan;
pub(crate) mod pm_timer;
mod printed;
pub(crate) mod process;
mod program;
mod qemu;
mod qmp;
mod replay;
mod result;
mod snapshot;
mod threads;
mod wiring;
pub(crate) mod work_directory;

pub use accelerator::{CANARY_LIMIT, KvmRefusal, choose_accelerator, open_kvm};
pub use archive::Archive;
pub use clock::{Free, Measures, Real, Virtual, VmClock};
pub use error::VmError;
pub use figures::{ClockTable, GuestFigures};
pub(crate) use figures::{in_us, merged, supported};
pub use foreign::{ForeignProbe, main_series};
pub use frame::{FrameError, GuestFile};
pub(crate) use guest::CONSOLE;
pub use guest::{Guest, RunningGuest};
pub use initramfs::{BootImage, Initramfs, runs_in_guests};
pub(crate) use job::SECOND_BOARD;
pub use job::{Job, LatencyTest};
pub use kernel::{
    ImageError, Kernel, KernelState, ListedKernel, Module, ModuleError, PackageSource,
    downloadable_kernels, list_kernels,
};
pub use leftover::EndedGuest;
pub use machine::{GuestMemory, RealTimeMachine, free_huge_pages};
pub use matrix::{
    CellFigures, ClockChoice, Experiment, KernelChoice, LabCell, LabGuest, LabResults, Laboratory,
    Matrix, Shard, StoredExperiment,
};
pub use own::{
    AGENT_PROGRAM, DomainError, LoginError, OwnGuest, OwnGuestError, OwnLogin, OwnMachine,
};
pub use plan::GuestPlan;
pub use printed::{PrintedCell, PrintedRun};
pub use program::port_storm;
pub use qemu::qemu_version;
pub use qmp::QemuSocket;
pub use replay::{CriticalPath, PathPart, Replay};
pub use result::GuestResult;
pub use threads::{
    HIGHEST_PRIORITY, PlaceError, QemuThread, ThreadPlan, VcpuPlace, housekeeping, place_threads,
    qemu_threads,
};
pub use wiring::GuestWiring;
pub use work_directory::WorkDirectory;
