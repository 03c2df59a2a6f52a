//! `onbeat generate DIR`: man pages and completions, from the same definitions as the command line.

use std::fs;
use std::path::Path;

use super::Common;
use super::{ExitVerdict, Failure};
use crate::cli::GenerateOptions;
use crate::completion;
use crate::surface::{self, Extent};

mod man;

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

    for (name, page) in man::pages(surface::command(Extent::All)).map_err(failed(&man))? {
        let path = man.join(name);
        fs::write(&path, page).map_err(failed(&path))?;
    }
    for (shell, name) in completion::SCRIPTS {
        let path = completions.join(name);
        let script = completion::script_of(shell).map_err(failed(&path))?;
        fs::write(&path, script).map_err(failed(&path))?;
    }

    Ok(ExitVerdict::Pass)
}
