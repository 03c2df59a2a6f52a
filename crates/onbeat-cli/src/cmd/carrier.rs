//! The process that carries a load: this program again.

use std::path::Path;
use std::process::Command;

use onbeat::load::Load;

use super::{Common, Failure};

/// Returns what makes the command of a process that carries a load, which may write in `dir`: this
/// program again.
pub(crate) fn carrier(dir: Option<&Path>) -> Result<impl Fn(&Load) -> Command, Failure> {
    let program = std::env::current_exe().map_err(Common::OwnProgram)?;
    Ok(move |load: &Load| {
        let mut command = Command::new(&program);
        command.args(["load", "--supervised"]).arg(load.to_string());
        if let Some(dir) = dir {
            command.arg("--dir").arg(dir);
        }
        command
    })
}
