//! Why records cannot be passed on.

use std::io;
use std::path::PathBuf;

/// The program that passes them on.
pub(crate) const PROGRAM: &str = "onbeat-gateway";

/// Why records cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayFailure {
    #[error(
        "the program {program} is not installed, which this command starts; it belongs beside {beside}: from a clone, `make install` puts both there, and `cargo install --locked --path crates/{program}` this one"
    )]
    NotInstalled { program: &'static str, beside: PathBuf },
    #[error("cannot start {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error(
        "{PROGRAM} has ended ({status}) without an account; a log can be read up to its last second"
    )]
    Died { status: String },
}
