//! A capture as a tar archive: `capture.json`, then the files below their paths on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};

use super::accesses::{AccessFailure, Accesses};
use super::files::{CapturedEntry, CapturedFiles};
use super::{CaptureError, CaptureSummary, is_absent};

/// The name of the first entry.
const MANIFEST: &str = "capture.json";
/// What this version writes and reads.
const SCHEMA: &str = "onbeat.capture/1";
/// The same under its first name.
const FORMER_SCHEMA: &str = "onbeat.capture.v1";
/// Ten times the entries of a machine with 1,024 CPUs.
const MOST_ENTRIES: usize = 500_000;
/// The largest archive, unpacked.
const MOST_BYTES: u64 = 1 << 30;
/// The largest file, as in a check of the machine itself.
const MOST_FILE_BYTES: u64 = 4 << 20;

/// What was done with a path that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailedAccess {
    /// A file was read.
    Read,
    /// A directory was listed.
    List,
    /// A file's existence was asked for.
    LookUp,
}

/// `capture.json`: what the files of an archive do not say themselves.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureManifest {
    schema: String,
    /// Which machine it is, in a line.
    pub about: String,
    /// Whether what is not in the archive does not exist on the machine. An archive from `capture`
    /// holds only what probes of its time read; of a path that is neither in it nor known to be
    /// absent nothing is known.
    #[serde(default)]
    pub is_complete: bool,
    #[serde(default)]
    pub(crate) absent: BTreeSet<String>,
    #[serde(default)]
    pub(crate) failed: BTreeMap<FailedAccess, BTreeMap<String, AccessFailure>>,
    #[serde(default)]
    pub(crate) registers: BTreeMap<String, BTreeMap<u64, u64>>,
}

impl CaptureManifest {
    fn new(about: &str, accesses: &Accesses) -> Self {
        let mut manifest =
            Self { schema: SCHEMA.to_owned(), about: about.to_owned(), ..Self::default() };
        manifest.add_failures(FailedAccess::Read, &accesses.reads);
        manifest.add_failures(FailedAccess::List, &accesses.lists);
        manifest.add_failures(FailedAccess::LookUp, &accesses.lookups);
        let not_found = accesses.lookups.iter().filter(|(_, found)| **found == Ok(false));
        manifest.absent.extend(not_found.map(|(path, _)| path.clone()));
        for (path, registers) in &accesses.registers {
            let number = |bytes: &Vec<u8>| {
                let mut value = [0; 8];
                value[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
                u64::from_le_bytes(value)
            };
            let registers =
                registers.iter().map(|(offset, bytes)| (*offset, number(bytes))).collect();
            manifest.registers.insert(path.clone(), registers);
        }

        manifest
    }

    fn add_failures<T>(
        &mut self,
        access: FailedAccess,
        answers: &BTreeMap<String, Result<T, AccessFailure>>,
    ) {
        for (path, answer) in answers {
            let Err(failure) = answer else { continue };
            if is_absent(&failure.to_error()) {
                self.absent.insert(path.clone());
            } else {
                self.failed.entry(access).or_default().insert(path.clone(), *failure);
            }
        }
    }
}

/// The entries of an archive, with the directories that were listed.
fn entries(accesses: &Accesses) -> BTreeMap<&str, CapturedEntry> {
    let mut entries: BTreeMap<&str, CapturedEntry> = BTreeMap::new();
    for (path, found) in &accesses.lookups {
        if *found == Ok(true) {
            entries.insert(path, CapturedEntry::Unread);
        }
    }
    for (path, read) in &accesses.reads {
        match read {
            Ok(bytes) => entries.insert(path, CapturedEntry::File(bytes.as_slice().into())),
            Err(failure) if is_absent(&failure.to_error()) => None,
            Err(_) => entries.insert(path, CapturedEntry::Unread),
        };
    }
    for (path, list) in &accesses.lists {
        if let Ok(names) = list {
            entries.insert(path, CapturedEntry::Directory(Some(names.iter().cloned().collect())));
        }
    }

    entries
}

/// Writes an archive whose bytes depend on the answers alone.
pub(crate) fn write(
    accesses: &Accesses,
    about: &str,
    archive: impl Write,
) -> Result<CaptureSummary, CaptureError> {
    let manifest = CaptureManifest::new(about, accesses);
    let mut builder = Builder::new(archive);
    let text = serde_json::to_string_pretty(&manifest)
        .map_err(|error| CaptureError::Manifest(error.to_string()))?;
    append(&mut builder, MANIFEST, EntryType::Regular, 0o444, text.as_bytes())?;

    let entries = entries(accesses);
    let is_above_another = |path: &str| {
        let below = format!("{path}/");
        entries.range(below.as_str()..).next().is_some_and(|(other, _)| other.starts_with(&below))
    };
    for (path, entry) in &entries {
        match entry {
            CapturedEntry::File(bytes) => {
                append(&mut builder, path, EntryType::Regular, 0o444, bytes)?;
            }
            // A name in a directory whose own content nothing read; its entries, if there are some,
            // show that it is one.
            CapturedEntry::Unread if is_above_another(path) => {}
            CapturedEntry::Unread => append(&mut builder, path, EntryType::Regular, 0, &[])?,
            CapturedEntry::Directory(names) => {
                append(&mut builder, path, EntryType::Directory, 0o555, &[])?;
                for name in names.iter().flatten() {
                    let inside = format!("{}/{name}", path.trim_end_matches('/'));
                    if !entries.contains_key(inside.as_str()) && !is_above_another(&inside) {
                        append(&mut builder, &inside, EntryType::Regular, 0, &[])?;
                    }
                }
            }
        }
    }

    builder.into_inner()?.flush()?;
    let is_thread = |path: &&&str| path.contains("/task/") && path.ends_with("/stat");
    Ok(CaptureSummary {
        files: entries.values().filter(|entry| matches!(entry, CapturedEntry::File(_))).count(),
        threads: entries.keys().filter(is_thread).count(),
        refused: manifest.failed.values().map(BTreeMap::len).sum(),
    })
}

fn append(
    archive: &mut Builder<impl Write>,
    path: &str,
    kind: EntryType,
    mode: u32,
    bytes: &[u8],
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, path.trim_start_matches('/'), bytes)
}

fn unpack(archive: impl Read) -> Result<CapturedFiles, CaptureError> {
    // One byte more than allowed shows that there are more.
    let mut archive = Archive::new(archive.take(MOST_BYTES + 1));
    let mut captured =
        CapturedFiles::new(CaptureManifest { is_complete: true, ..CaptureManifest::default() });
    let mut bytes_read = 0;
    let mut is_own = false;
    for (number, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        bytes_read += entry.size();
        if number >= MOST_ENTRIES {
            return Err(CaptureError::TooLarge { most: MOST_ENTRIES as u64, what: "entries" });
        }
        if bytes_read > MOST_BYTES {
            return Err(CaptureError::TooLarge { most: MOST_BYTES, what: "bytes" });
        }

        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        let is_unread = entry.header().mode()? & 0o777 == 0;
        let mut bytes = Vec::new();
        (&mut entry).take(MOST_FILE_BYTES).read_to_end(&mut bytes)?;

        if number == 0 && name == MANIFEST {
            captured = CapturedFiles::new(manifest(&bytes)?);
            is_own = true;
            continue;
        }
        let path = path_on_machine(&name)?;
        match kind {
            EntryType::Directory => {
                captured.add(&path, CapturedEntry::Directory(Some(BTreeSet::new())));
            }
            EntryType::Regular if is_unread => captured.add(&path, CapturedEntry::Unread),
            EntryType::Regular => {
                captured.add(&path, CapturedEntry::File(bytes.into_boxed_slice()));
            }
            EntryType::Symlink | EntryType::Link => {
                let problem = "a link; unpack the archive and name the directory, in which links are followed";
                return Err(CaptureError::Entry { path: name, problem });
            }
            _ => {
                let problem = "neither a regular file nor a directory";
                return Err(CaptureError::Entry { path: name, problem });
            }
        }
    }

    let is_machine = |path| captured.exists(path).unwrap_or(false);
    if is_own || is_machine("/proc") || is_machine("/sys") {
        Ok(captured)
    } else {
        Err(CaptureError::NoMachine)
    }
}

fn manifest(bytes: &[u8]) -> Result<CaptureManifest, CaptureError> {
    let manifest: CaptureManifest =
        serde_json::from_slice(bytes).map_err(|error| CaptureError::Manifest(error.to_string()))?;
    if [SCHEMA, FORMER_SCHEMA].contains(&manifest.schema.as_str()) {
        Ok(manifest)
    } else {
        Err(CaptureError::Manifest(format!(
            "its schema is \"{}\"; this version reads \"{SCHEMA}\"",
            manifest.schema
        )))
    }
}

fn path_on_machine(name: &str) -> Result<String, CaptureError> {
    let pieces: Vec<_> =
        name.split('/').filter(|piece| !piece.is_empty() && *piece != ".").collect();
    if pieces.contains(&"..") {
        return Err(CaptureError::Entry {
            path: name.to_owned(),
            problem: "outside of the archive",
        });
    }

    Ok(format!("/{}", pieces.join("/")))
}

impl CapturedFiles {
    /// Reads an archive, packed by gzip or not.
    pub(crate) fn from_archive(mut archive: impl Read) -> Result<Self, CaptureError> {
        let mut start = [0; 2];
        archive.read_exact(&mut start)?;
        let whole = start.chain(archive);
        match &start {
            [0x1F, 0x8B] => unpack(GzDecoder::new(whole)),
            [0xFD, b'7'] => Err(CaptureError::Packed { by: "xz" }),
            b"BZ" => Err(CaptureError::Packed { by: "bzip2" }),
            b"PK" => Err(CaptureError::Packed { by: "zip" }),
            [0x28, 0xB5] => Err(CaptureError::Packed { by: "zstd" }),
            _ => unpack(whole),
        }
    }
}
