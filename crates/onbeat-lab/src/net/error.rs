//! Why a laboratory of namespaces cannot be built.

use std::io;

use onbeat_net::plan::NetPlanError;

/// Why a laboratory cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum NetworkLabError {
    /// Namespaces need rights.
    #[error(
        "network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN); run it with sudo, or in `unshare --user --map-root-user --net`"
    )]
    NotPermitted,
    /// The kernel refuses a namespace.
    #[error("cannot create network namespace {number} of {all}: {source}")]
    Namespace {
        /// Which one, from 1.
        number: usize,
        /// How many the laboratory needs.
        all: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel lacks a part.
    #[error(
        "this kernel has no {kind}, which the laboratory needs for {what}; load the module {module}, or take a kernel that has it"
    )]
    NoSuchPart {
        /// As the kernel names it.
        kind: &'static str,
        /// What it is for.
        what: &'static str,
        module: &'static str,
    },
    /// A request to the kernel was refused.
    #[error("cannot {what} {name}: {source}")]
    Request {
        /// What was requested.
        what: &'static str,
        /// Of which interface or node.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The namespace of the controller cannot be entered or left.
    #[error("cannot enter a network namespace of the laboratory: {0}")]
    Enter(io::Error),
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] NetPlanError),
    /// More devices than one run can ask.
    #[error("the plan has {devices} devices; a laboratory has at most {most}")]
    TooManyDevices {
        /// As planned.
        devices: usize,
        /// As many as fit.
        most: u64,
    },
    /// The thread of the devices cannot be started.
    #[error("cannot start the thread of the devices: {0}")]
    Thread(io::Error),
}
