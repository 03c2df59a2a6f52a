//! Files that are written whole or not at all.
//!
//! Everything is written to a temporary file in the same directory, which is renamed when it is
//! complete. A link is followed where the name was typed, as by any other program. A link under a
//! name that onbeat chose itself is replaced: the directory may belong to another user.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::{Common, term};

/// Names that are tried for the temporary file.
const MOST_NAMES: u32 = 100;

/// Who chose the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The user: links are followed, `-` is standard output, and a pipe or device is written in
    /// place.
    Typed,
    /// onbeat: a file of this name is replaced.
    Chosen,
}

/// Writes a file whose name was typed.
pub fn write(to: &Path, bytes: &[u8]) -> Result<(), Common> {
    stream(to, Name::Typed, |to| to.write_all(bytes))
}

/// Writes the output of `fill`.
pub fn stream(
    to: &Path,
    name: Name,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Common> {
    if name == Name::Typed && is_standard_output(to) {
        term::put(fill);
        return Ok(());
    }

    let written = match name {
        Name::Typed => typed(to, fill),
        Name::Chosen => TemporaryFile::create_beside(to)
            .and_then(|temporary| temporary.fill(fill)?.move_to_place()),
    };

    written.map_err(Common::file("write", to))
}

/// Returns whether a typed name means standard output.
pub fn is_standard_output(to: &Path) -> bool {
    to.as_os_str() == "-"
}

/// Returns whether a typed name is a regular file, or can become one.
pub fn is_plain_file(to: &Path) -> bool {
    !is_standard_output(to) && fs::metadata(to).map_or(true, |there| there.is_file())
}

/// Refuses a regular file that is named for two results: the later one would replace the other.
pub fn check_apart<'p>(files: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), Common> {
    let mut known = Vec::new();
    for file in files.into_iter().filter(|file| is_plain_file(file)) {
        let place = place_of(file).unwrap_or_else(|_| file.clone());
        if known.contains(&place) {
            return Err(Common::OnePlace { path: file.clone() });
        }
        known.push(place);
    }
    Ok(())
}

/// Where a file is, or would be.
fn place_of(file: &Path) -> io::Result<PathBuf> {
    if let Ok(place) = fs::canonicalize(file) {
        return Ok(place);
    }
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = fs::canonicalize(directory.unwrap_or(Path::new(".")))?;
    Ok(directory.join(file.file_name().unwrap_or_default()))
}

fn typed(to: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let there = fs::metadata(to).ok();
    match &there {
        Some(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Some(there) if !there.is_file() => {
            return filled(File::options().write(true).open(to)?, fill).map(|_| ());
        }
        _ => {}
    }

    // The target of a link is replaced, not the link.
    let place = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    let temporary = match TemporaryFile::create_beside(&place) {
        Ok(temporary) => temporary,
        // The file may be written, its directory may not.
        Err(_) if there.is_some() => {
            return filled(File::options().write(true).truncate(true).open(&place)?, fill)
                .map(|_| ());
        }
        Err(why) => return Err(why),
    };

    if let Some(there) = &there {
        // Owner and permissions stay; the owner as far as that is permitted.
        let _ = fchown(&temporary.file, Some(there.uid()), Some(there.gid()));
        temporary.file.set_permissions(Permissions::from_mode(there.mode() & 0o777))?;
    }

    temporary.fill(fill)?.move_to_place()
}

fn filled(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(1 << 18, file);
    fill(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

/// A temporary file beside a target. The directory is opened once, so that all steps use the same
/// one even if it is renamed.
struct TemporaryFile<'p> {
    place: &'p Path,
    name: &'p OsStr,
    directory: rustix::fd::OwnedFd,
    own: PathBuf,
    file: File,
}

impl<'p> TemporaryFile<'p> {
    fn create_beside(place: &'p Path) -> io::Result<Self> {
        let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let directory =
            openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // A file that exists, a link above all, is not ours: only a new one is used.
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for number in 0..MOST_NAMES {
            let own = PathBuf::from(format!(".onbeat-{}-{number}", std::process::id()));
            match openat(&directory, &own, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok(Self { place, name, directory, own, file: file.into() }),
                Err(Errno::EXIST) => {}
                Err(why) => return Err(why.into()),
            }
        }

        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn fill(self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Self> {
        let written = self.file.try_clone().and_then(|file| filled(file, fill));
        let written = written.and_then(|file| file.sync_all());
        if written.is_err() {
            self.remove();
        }
        written.map(|()| self)
    }

    fn move_to_place(mut self) -> io::Result<()> {
        let moved = match renameat(&self.directory, &self.own, &self.directory, self.name) {
            Ok(()) => return Ok(()),
            // A file that is a mount of its own, as in a container, can be written but not
            // replaced.
            Err(Errno::BUSY | Errno::XDEV) => self.copy_into_place(),
            Err(why) => Err(why.into()),
        };
        self.remove();
        moved
    }

    fn copy_into_place(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
        let mut into = options.write(true).truncate(true).open(self.place)?;
        io::copy(&mut self.file, &mut into).map(|_| ())
    }

    fn remove(&self) {
        // A temporary file that cannot be removed has the number of a process that has ended in its
        // name.
        let _ = unlinkat(&self.directory, &self.own, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn chosen(to: &Path, bytes: &[u8]) -> Result<(), Common> {
        stream(to, Name::Chosen, |to| to.write_all(bytes))
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("it is there").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("spike.txt");
        write(&file, b"first, and longer").expect("there is room");
        write(&file, b"second").expect("there is room");
        assert_eq!(fs::read(&file).expect("it was written"), b"second");
        assert_eq!(names(dir.path()), ["spike.txt"]);
    }

    #[test]
    fn one_file_takes_one_result() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        symlink("there", at("link")).expect("there is room");
        fs::write(at("there"), b"").expect("there is room");
        let null = PathBuf::from("/dev/null");
        let apart = [at("new"), at("other"), at("there"), null.clone(), null];
        assert!(check_apart(&apart).is_ok());
        for [one, other] in [["new", "./new"], ["there", "link"], ["there", "./there"]] {
            let why = check_apart(&[at(one), at(other)]).expect_err("one place");
            assert!(why.to_string().contains("is named for two results"), "{why}");
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(write(dir.path(), b"x").is_err(), "a directory");
        assert!(write(&dir.path().join("no/such/place"), b"x").is_err());
        let file = dir.path().join("file");
        fs::write(&file, "whole").expect("there is room");
        for name in [Name::Typed, Name::Chosen] {
            let failed = stream(&file, name, |to| {
                to.write_all(b"half")?;
                Err(io::ErrorKind::StorageFull.into())
            });
            assert!(failed.is_err());
            assert_eq!(fs::read(&file).expect("it is there"), b"whole");
        }

        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_typed_link_stays_a_link_to_the_new_bytes() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        let link = dir.path().join("link");
        fs::write(&file, b"old").expect("there is room");
        symlink(&file, &link).expect("there is room");
        write(&link, b"new").expect("there is room");

        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read(&file).expect("it is there"), b"new");
    }

    #[test]
    fn a_link_under_a_chosen_name_is_replaced_and_its_target_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        let link = dir.path().join("report.html");
        fs::write(&file, b"precious").expect("there is room");
        symlink(&file, &link).expect("there is room");
        chosen(&link, b"new").expect("there is room");

        assert!(fs::symlink_metadata(&link).expect("it is there").is_file());
        assert_eq!(fs::read(&link).expect("it is there"), b"new");
        assert_eq!(fs::read(&file).expect("it is there"), b"precious");
    }

    #[test]
    fn a_link_under_the_name_beside_the_place_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, b"precious").expect("there is room");
        symlink(&file, dir.path().join(format!(".onbeat-{}-0", std::process::id())))
            .expect("there is room");
        write(&dir.path().join("typed"), b"new").expect("another name is free");
        chosen(&dir.path().join("chosen"), b"new").expect("another name is free");

        assert_eq!(fs::read(&file).expect("it is there"), b"precious");
        assert_eq!(names(dir.path()).len(), 4);
    }

    #[test]
    fn who_may_read_a_typed_file_stays_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, b"old").expect("there is room");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("it is ours");
        write(&file, b"new").expect("there is room");
        assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o640);
    }

    #[test]
    fn a_name_as_long_as_names_may_be_can_be_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("n".repeat(255));
        write(&file, b"bytes").expect("its own name fits");
        assert_eq!(fs::read(&file).expect("it is there"), b"bytes");
    }
}
