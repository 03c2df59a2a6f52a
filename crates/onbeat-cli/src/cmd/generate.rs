//! `onbeat generate DIR`: man pages and completions, from the same definitions as the command line.

use std::fs;
use std::path::Path;

use clap::CommandFactory;

use super::Common;
use super::{ExitVerdict, Failure};
use crate::cli::{Cli, GenerateOptions};
use crate::completion;

pub(crate) fn run(options: &GenerateOptions) -> Result<ExitVerdict, Failure> {
    let man = options.into.join("man");
    let completions = options.into.join("completions");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Common::File { what: "write", path, source }
    };

    for dir in [&man, &completions] {
        fs::create_dir_all(dir).map_err(failed(dir))?;
    }

    clap_mangen::generate_to(Cli::command(), &man).map_err(failed(&man))?;
    for (name, script) in completion::scripts().map_err(failed(&completions))? {
        let path = completions.join(name);
        fs::write(&path, script).map_err(failed(&path))?;
    }

    Ok(ExitVerdict::Pass)
}
