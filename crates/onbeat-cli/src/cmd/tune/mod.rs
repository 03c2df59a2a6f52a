//! `onbeat tune`: what of this machine is in a loop's way, changed and undone.
//!
//! | file | contents |
//! |---|---|
//! | `check`, `check_words` | `check`, and its findings as text |
//! | `running` | `--task`: the loop of a program that runs |
//! | `selection` | from a plan file, ids or a profile to a plan |
//! | `plan`, `plan_text` | `plan`, and a plan as text |
//! | `apply` | `apply` |
//! | `record` | what is on record: words for `status` and `undo` |
//! | `status`, `undo` | `status`, `undo` |
//! | `persist`, `boot_settings` | `persist`, and the settings of a plan or of ids |
//! | `texts` | `explain`, `lint`, `capture` |
//!
//! What is judged there is in `cmd/findings`.

mod apply;
mod boot_settings;
mod check;
mod check_words;
mod measure;
pub(crate) mod measure_options;
pub(crate) mod options;
mod persist;
mod plan;
mod plan_text;
pub(crate) mod record;
pub(in crate::cmd) mod running;
mod selection;
mod status;
mod texts;
mod undo;

use super::{ExitVerdict, Failure};
use options::Tune;

pub(crate) fn run(command: &Tune) -> Result<ExitVerdict, Failure> {
    match command {
        Tune::Check(options) => check::run(options),
        Tune::Explain(options) => texts::explain(options),
        Tune::Plan(options) => plan::run(options),
        Tune::Apply(options) => apply::run(options),
        Tune::Status(options) => status::run(*options),
        Tune::Undo(options) => undo::run(*options),
        Tune::Persist(options) => persist::run(options),
        Tune::Lint(options) => texts::lint(options),
        Tune::Capture(options) => texts::capture(options),
        Tune::Measure(options) => measure::run(options),
    }
}
