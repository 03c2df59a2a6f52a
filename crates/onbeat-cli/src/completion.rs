//! Completion: the shells' scripts in `share/completions` call onbeat itself, with the variable
//! [`SHELL_VARIABLE`] set to the shell's name; [`crate::complete`] has the values.

use std::io;

use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};

use crate::cli::Shell;
use crate::surface::{self, Extent};

/// Set by the completion scripts to the name of the shell.
const SHELL_VARIABLE: &str = "ONBEAT_COMPLETE";

/// Prints completions and ends the process when a completion script started it; otherwise does
/// nothing.
pub(crate) fn answer() {
    CompleteEnv::with_factory(|| surface::command(Extent::All)).var(SHELL_VARIABLE).complete();
}

/// The completion scripts, each with the file name that its shell expects.
pub(crate) const SCRIPTS: [(Shell, &str); 3] =
    [(Shell::Bash, "onbeat.bash"), (Shell::Zsh, "_onbeat"), (Shell::Fish, "onbeat.fish")];

/// The completion script of a shell.
pub(crate) fn script_of(shell: Shell) -> io::Result<Vec<u8>> {
    match shell {
        Shell::Bash => script(&Bash),
        Shell::Fish => script(&Fish),
        Shell::Zsh => {
            let mut zsh = script(&Zsh)?;
            // zsh runs an autoloaded file as the function itself, so the first completion happens
            // in the script.
            zsh.extend_from_slice(
                b"\n[[ ${funcstack[1]} == _onbeat ]] && _clap_dynamic_completer_onbeat \"$@\"\ntrue\n",
            );
            Ok(zsh)
        }
    }
}

fn script(shell: &dyn EnvCompleter) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    shell.write_registration(SHELL_VARIABLE, "onbeat", "onbeat", "onbeat", &mut text)?;
    // The shells' templates differ in blank lines at both ends.
    let text = String::from_utf8_lossy(&text).trim().to_owned() + "\n";
    Ok(text.into_bytes())
}
