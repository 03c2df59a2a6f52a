//! Facts of the machine, and files of other users and processes.
//!
//! [`foreign`] is the only opener of files that somebody else may have made; [`runtime_dir`] is where
//! processes of one user share objects. Both check what was opened, never what a path led to before.
//! [`machine`] is the fingerprint that stands beside every result; [`power`] says who keeps CPUs and devices awake,
//! [`idle`] how CPUs rested and how fast they ran during a run.
//! [`address`] says which addresses may talk to a program, and which are local.
//! [`bpf`] is the door to bpf(2); [`thread`] asks for policy, CPU and locked memory of a loop's thread, [`policy`] is that of any task;
//! [`user`] says whose a process is.
//! [`process`] names processes, and finds and ends all that a load has started; [`peer`] is who is at
//! the other end of a socket. With the feature `program` there is what programs do with their output and with Ctrl-C. [`rights`] gives up what a thread that reads from a network does not need.
//!
//! ```
//! use onbeat_host::foreign::Opening;
//!
//! let why = Opening::named_by_user().at_most(1 << 20).text(std::path::Path::new("/dev/zero")).unwrap_err();
//! assert_eq!(why.to_string(), "it is a device, not a regular file");
//! ```

pub mod address;
pub mod bpf;
pub mod foreign;
pub mod idle;
pub mod machine;
pub mod peer;
pub mod policy;
pub mod power;
pub mod process;
#[cfg(feature = "program")]
pub mod program;
pub mod rights;
pub mod runtime_dir;
mod syscall_filter;
pub mod thread;
pub mod user;
