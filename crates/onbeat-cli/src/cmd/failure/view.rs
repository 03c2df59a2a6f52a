//! Why a run cannot be shown while it is measured.

use std::path::PathBuf;

use super::spike::pasted;

/// A run cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ViewFailure {
    #[error(
        "{} is not being measured: it has ended, or was cut off; `onbeat report {}` writes its page",
        run.display(), pasted(run)
    )]
    Ended { run: PathBuf },
}
