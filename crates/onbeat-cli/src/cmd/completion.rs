//! `onbeat completion SHELL`: the script on standard output.

use super::{Common, ExitVerdict, Failure};
use crate::cli::Shell;
use crate::{completion, term};

pub(crate) fn run(shell: Shell) -> Result<ExitVerdict, Failure> {
    let script = completion::script_of(shell).map_err(Common::Output)?;
    term::put(|out| out.write_all(&script));
    Ok(ExitVerdict::Pass)
}
