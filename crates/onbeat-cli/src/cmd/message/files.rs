//! Definitions of message types in files that a command names.

use std::path::{Path, PathBuf};

use onbeat_host::foreign;
use onbeat_message::{IdlTypes, LcmTypes, TypeSet};

use crate::cmd::failure::message::MessageFailure;
use crate::cmd::{Common, Failure};
use crate::term::{Tone, advise};

/// Types of IDL that cannot be used, of which the reason is said.
const MOST_NAMED: usize = 5;

/// Adds the definitions in these files.
pub(super) fn add_files(types: &mut TypeSet, files: &[PathBuf]) -> Result<(), Failure> {
    let mut of_lcm = LcmTypes::default();
    let (mut of_idl, mut idl) = (IdlTypes::default(), Vec::new());
    for path in files {
        let text = definition(path)?;
        let file = path.display().to_string();
        let added = match path.extension().and_then(|extension| extension.to_str()) {
            Some("lcm") => of_lcm.add(&file, &text),
            Some("idl") => {
                idl.push((file, text));
                Ok(())
            }
            _ => types.add(&type_of(path)?, &text),
        };
        added?;
    }
    of_idl.add_all(&idl)?;
    for why in of_idl.unusable().take(MOST_NAMED) {
        advise(Tone::Careful, &format!("a type cannot be used: {why}"));
    }
    of_idl.add_to(types)?;
    Ok(of_lcm.add_to(types)?)
}

/// Returns the texts of those files that are in LCM's language.
pub(super) fn lcm_texts(files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    files.iter().filter(|path| is_lcm(path)).map(|path| definition(path)).collect()
}

/// Returns the texts of files that are all in LCM's language.
pub(super) fn only_lcm_texts(files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    match files.iter().find(|path| !is_lcm(path)) {
        Some(path) => Err(MessageFailure::NotLcm { path: path.clone() }.into()),
        None => lcm_texts(files),
    }
}

/// Returns whether a file is in LCM's language.
fn is_lcm(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lcm")
}

fn definition(path: &Path) -> Result<String, Failure> {
    let text = foreign::text(path, foreign::MOST_BYTES_BY_HAND);
    let text = text.map_err(Common::file("read", path))?;
    // Editors of Windows begin a text with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// Returns the type that a file is named after: `.../PACKAGE/msg/Name.msg`.
fn type_of(path: &Path) -> Result<String, MessageFailure> {
    let named = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".msg")?;
        let folder = path.parent()?;
        let package = if folder.ends_with("msg") { folder.parent()? } else { folder };
        Some(format!("{}/msg/{name}", package.file_name()?.to_str()?))
    };
    // A relative path may begin within the package.
    let whole = || named(&path.canonicalize().ok()?);
    named(path).or_else(whole).ok_or_else(|| MessageFailure::FileName { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_after_its_folders_from_wherever_they_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("demo");
        std::fs::create_dir_all(package.join("msg")).unwrap();
        std::fs::write(package.join("msg/Point.msg"), "float64 x\n").unwrap();
        for path in ["msg/Point.msg", "msg/../msg/Point.msg"] {
            assert_eq!(type_of(&package.join(path)).unwrap(), "demo/msg/Point");
        }
        assert!(type_of(Path::new("Nowhere.msg")).is_err());
    }
}
