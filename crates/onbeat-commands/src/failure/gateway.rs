//! Why records cannot be passed on.

use std::io;
use std::path::PathBuf;

/// The program that passes them on.
pub const PROGRAM: &str = "onbeat-gateway";

/// Why records cannot be passed on.
#[derive(Debug, thiserror::Error)]
pub enum GatewayFailure {
    #[error(
        "this command starts the program {program}, which is not installed; from a clone, `make install` puts it in the directory of {beside}, and `cargo install --locked --path crates/{program}` into cargo's"
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
