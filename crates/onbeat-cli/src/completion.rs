//! Completion: the shells' scripts in `share/completions` call onbeat itself, with the variable
//! [`SHELL_VARIABLE`] set to the shell's name; [`crate::complete`] has the values.

use std::io;

use clap::CommandFactory;
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};

use crate::cli::Cli;

/// Set by the completion scripts to the name of the shell.
const SHELL_VARIABLE: &str = "ONBEAT_COMPLETE";

/// Prints completions and ends the process when a completion script started it; otherwise does
/// nothing.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Cli::command).var(SHELL_VARIABLE).complete();
}

/// The completion scripts, each with the file name that its shell expects.
pub(crate) fn scripts() -> io::Result<[(&'static str, Vec<u8>); 3]> {
    let mut zsh = script(&Zsh)?;
    // zsh runs an autoloaded file as the function itself, so the first completion happens in the
    // script.
    zsh.extend_from_slice(
        b"\n[[ ${funcstack[1]} == _onbeat ]] && _clap_dynamic_completer_onbeat \"$@\"\ntrue\n",
    );
    Ok([("onbeat.bash", script(&Bash)?), ("_onbeat", zsh), ("onbeat.fish", script(&Fish)?)])
}

fn script(shell: &dyn EnvCompleter) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    shell.write_registration(SHELL_VARIABLE, "onbeat", "onbeat", "onbeat", &mut text)?;
    // The shells' templates differ in blank lines at both ends.
    let text = String::from_utf8_lossy(&text).trim().to_owned() + "\n";
    Ok(text.into_bytes())
}
