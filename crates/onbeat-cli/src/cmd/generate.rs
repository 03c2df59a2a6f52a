//! `onbeat generate DIR`: man pages and completions, from the same definitions as the command line.

use std::fs;
use std::path::Path;

use super::{Common, ExitVerdict, Failure};
use crate::completion;
use crate::surface::{self, Extent};

mod man;

pub(crate) fn run(into: &Path) -> Result<ExitVerdict, Failure> {
    let man = into.join("man");
    let completions = into.join("completions");
    for dir in [&man, &completions] {
        fs::create_dir_all(dir).map_err(Common::file("write", dir))?;
    }

    let pages = man::pages(surface::command(Extent::All));
    for (name, page) in pages.map_err(Common::file("write", &man))? {
        let path = man.join(name);
        fs::write(&path, page).map_err(Common::file("write", &path))?;
    }
    for (shell, name) in completion::SCRIPTS {
        let path = completions.join(name);
        let script = completion::script_of(shell);
        script.and_then(|text| fs::write(&path, text)).map_err(Common::file("write", &path))?;
    }

    Ok(ExitVerdict::Pass)
}
