//! A laboratory of guests: real kernels under QEMU, measured by the machine's time or by counted
//! instructions.
//!
//! In virtual time a latency experiment gives the same bytes twice, whatever else the host does. So
//! it can stand in a test, and rank kernels, tunings and code; it predicts no hardware.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use onbeat_lab::vm::{Guest, Initramfs, Job, Kernel, LatencyTest, PackageSource, Virtual, WorkDirectory};
//!
//! let work = WorkDirectory::open("target/lab".as_ref())?;
//! let packages = PackageSource::Directory("packages".into());
//! let kernel = Kernel::from_package(&work, "linux-image-6.12.117+deb12-rt-amd64", &packages)?;
//! let mut initramfs = Initramfs::new(&kernel, "/usr/bin/busybox".as_ref())?;
//! initramfs.program("bin/onbeat", "onbeat-static".as_ref())?;
//!
//! let guest = Guest::new(initramfs.build(&work)?, Virtual::default());
//! let job = Job::measure_latency(&LatencyTest::default());
//! let result = guest.run(&work, &job, &AtomicBool::new(false))?;
//! println!("largest latency: {} virtual ns", result.figures()?.max_ns);
//! # Ok::<(), onbeat_lab::vm::VmError>(())
//! ```
//!
//! Guests are in [`vm`], the staged study of a host for them in [`study`], traces of host and guest on one clock in [`joined`], networks in namespaces in [`net`]. The crate prints nothing and downloads nothing that it is not asked to.

pub mod joined;
pub mod net;
pub mod study;
mod toml_file;
pub mod vm;

pub use toml_file::TomlFileError;
