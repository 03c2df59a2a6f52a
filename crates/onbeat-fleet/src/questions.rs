//! Questions are asked by the Python package `onbeat.fleet`, which has their SQL and the engine: this program starts it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::Failure;

/// Beside the program in a virtual environment, else in PATH.
const PYTHON: &str = "python3";
/// The package of a system-wide installation, relative to the folder of the program.
const INSTALLED: &str = "../share/onbeat/python";
/// What is run: a package that is not installed is one sentence.
const ASK: &str = "
import sys
try:
    from onbeat.fleet.__main__ import main
except ModuleNotFoundError as missing:
    how = ('in a clone, pip install \"./python[fleet]\"; else the wheel and duckdb (docs/fleet.md)'
           if missing.name.startswith('onbeat') else f'pip install {missing.name}')
    print(f'error: questions need the Python package {missing.name} for {sys.executable}; install it: {how}',
          file=sys.stderr)
    sys.exit(2)
sys.exit(main(sys.argv[1:]))
";

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Words {
    /// Data set and options of the question; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    words: Vec<OsString>,
}

/// Becomes the interpreter; returns only if that is not possible.
pub(crate) fn ask(question: &str, words: &Words) -> Failure {
    let own = std::env::current_exe().unwrap_or_default();
    let program = std::env::var_os("ONBEAT_PYTHON").map_or_else(|| beside(&own), PathBuf::from);
    let mut python = Command::new(&program);
    python.args(["-c", ASK, question]).args(&words.words);
    if let Some(path) = python_path(&own) {
        python.env("PYTHONPATH", path);
    }
    Failure::Python { program: program.display().to_string(), source: python.exec() }
}

fn beside(own: &Path) -> PathBuf {
    let beside = own.with_file_name(PYTHON);
    if beside.is_file() { beside } else { PathBuf::from(PYTHON) }
}

/// The user's own folders first.
fn python_path(own: &Path) -> Option<OsString> {
    let installed = own.parent()?.join(INSTALLED);
    let set = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&set).filter(|folder| !folder.as_os_str().is_empty()).collect();
    let all = folders.into_iter().chain(installed.is_dir().then_some(installed));
    std::env::join_paths(all).ok().filter(|path| !path.is_empty())
}
