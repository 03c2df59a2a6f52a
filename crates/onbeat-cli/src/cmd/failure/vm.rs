//! Why a command of `onbeat vm` could not run.

use std::path::PathBuf;

use onbeat::campaign::StoreError;
use onbeat_lab::TomlFileError;

/// Why a command of `onbeat vm` could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VmFailure {
    #[error(
        "{word} is not traced: the job is a measurement, such as `-- measure latency --for 10s`"
    )]
    NotAMeasurement { word: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: TomlFileError },
    #[error("{path}: only experiments with clock = \"virtual\" run again in the same way")]
    ReplayOfOtherClock { path: PathBuf },
    #[error(
        "{path}: \"{kernel}\" is a guest of your own, whose disks and cards answer by this machine's clock: it sends other bytes each time, so that {what} has nothing to compare"
    )]
    NotRepeatable { path: PathBuf, kernel: String, what: &'static str },
    #[error(
        "--modules names the modules of a kernel image, and {kernel} is a package, which brings its own"
    )]
    ModulesOfPackage { kernel: String },
    #[error(
        "--modules, --module and --gpio are for a kernel of the command line; a guest of your own has its own modules"
    )]
    PartsOfOwnGuest,
    #[error(
        "neither HOME nor XDG_CACHE_HOME is set; name a directory for kernels and guests by --work"
    )]
    NoCache,
    #[error("{source}; name another directory by --work")]
    Work { source: StoreError },
    #[error("--login is for a guest of your own: name it by --qemu or --domain")]
    LoginOfNoGuest,
    #[error("{path}: its measurement: {why}")]
    Measured { path: PathBuf, why: String },
    #[error("the guest's job `{words}`: {why}")]
    Measurement { words: String, why: String },
}
