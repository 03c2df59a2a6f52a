//! The process that carries a load: this program again.

use std::path::Path;
use std::process::Command;

use onbeat::load::Load;

use super::Common;
use super::Failure;

/// Returns a command whose process carries a load: this program again. `None` for the load `idle`.
pub(crate) fn carrier(load: &Load, dir: Option<&Path>) -> Result<Option<Command>, Failure> {
    if load.is_idle() {
        return Ok(None);
    }
    let myself = std::env::current_exe().map_err(Common::OwnProgram)?;
    Ok(Some(carrier_of(&myself, load, dir)))
}

/// Returns the command line of `program` that carries a load.
pub(crate) fn carrier_of(program: &Path, load: &Load, dir: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    command.args(["load", "--supervised"]).arg(load.to_string());
    if let Some(dir) = dir {
        command.arg("--dir").arg(dir);
    }
    command
}
