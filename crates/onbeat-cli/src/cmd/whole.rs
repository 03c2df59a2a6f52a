//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Failure;

/// Writes a file beside its place and moves it there; `-` is standard output. What is no plain file, such as a pipe, is
/// written as it is.
pub(crate) fn write(to: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |source| Failure::File { what: "write", path: to.to_owned(), source };
    if to == Path::new("-") {
        return match io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()) {
            // A reader that has seen enough is no failure.
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => {
                written.map_err(|source| Failure::File { what: "write", path: "standard output".into(), source })
            }
        };
    }
    // What a link points at is replaced, not the link.
    let place = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    match fs::metadata(&place) {
        Ok(there) if there.is_dir() => Err(failed(io::Error::from(io::ErrorKind::IsADirectory))),
        Ok(there) if !there.is_file() => {
            File::options().write(true).open(&place).and_then(|mut file| file.write_all(bytes)).map_err(failed)
        }
        _ => write_and_move(&place, bytes).map_err(failed),
    }
}

fn write_and_move(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let beside: PathBuf = place.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, place)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("spike.txt");
        write(&file, b"first, and longer").expect("there is room");
        write(&file, b"second").expect("there is room");
        assert_eq!(fs::read(&file).expect("it was written"), b"second");
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(write(dir.path(), b"x").is_err(), "a directory");
        assert!(write(&dir.path().join("no/such/place"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn a_link_stays_a_link_to_the_new_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, b"old").expect("there is room");
        std::os::unix::fs::symlink(&file, &link).expect("there is room");
        write(&link, b"new").expect("there is room");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read(&file).expect("it is there"), b"new");
    }
}
