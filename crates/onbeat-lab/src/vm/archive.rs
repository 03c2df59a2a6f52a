//! Archives as the kernel unpacks them at boot: format `newc` of cpio, without compression. A guest that
//! has booted gets the same entries as a tar archive.
//!
//! The same entries give the same bytes: sorted by path, owner 0, time 0, inode numbers counted
//! from 1. The format is in the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// An archive in memory.
///
/// ```
/// use onbeat_lab::vm::Archive;
///
/// let mut archive = Archive::new();
/// archive.program("bin/tool", b"#!/bin/sh\n".to_vec());
/// let bytes = archive.to_bytes();
/// assert!(bytes.starts_with(b"070701"));
/// assert_eq!(bytes.len() % 512, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// By path.
    pub(super) entries: BTreeMap<String, ArchiveEntry>,
}

/// Bytes by gzip.
pub(super) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    let written = gzip.write_all(bytes).and_then(|()| gzip.finish());
    written.unwrap_or_default()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArchiveEntry {
    Directory,
    File { permissions: u32, content: Vec<u8> },
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;

impl Archive {
    /// Creates an archive without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same without one entry.
    #[must_use]
    pub(super) fn without(&self, path: &str) -> Self {
        let mut rest = self.clone();
        rest.entries.remove(path);
        rest
    }

    /// Adds a directory, with those above it. Paths are relative to the root, without a leading
    /// slash.
    pub fn directory(&mut self, path: &str) {
        self.add(path, ArchiveEntry::Directory);
    }

    /// Adds an executable file (0755), with the directories above it. A later file of the same path
    /// replaces it.
    pub fn program(&mut self, path: &str, content: Vec<u8>) {
        self.add(path, ArchiveEntry::File { permissions: 0o755, content });
    }

    /// Adds a file (0644), with the directories above it. A later file of the same path replaces
    /// it.
    pub fn file(&mut self, path: &str, content: Vec<u8>) {
        self.add(path, ArchiveEntry::File { permissions: 0o644, content });
    }

    fn add(&mut self, path: &str, entry: ArchiveEntry) {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/') {
            self.entries.entry(path[..end].to_owned()).or_insert(ArchiveEntry::Directory);
        }

        self.entries.insert(path.to_owned(), entry);
    }

    /// Returns the archive's bytes, padded with null bytes to a multiple of 512.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (inode, (path, entry)) in (1..).zip(&self.entries) {
            let (mode, content): (u32, &[u8]) = match entry {
                ArchiveEntry::Directory => (DIRECTORY, &[]),
                ArchiveEntry::File { permissions, content } => (FILE | permissions, content),
            };
            append(&mut bytes, inode, mode.into(), path, content);
        }

        append(&mut bytes, 0, 0, "TRAILER!!!", &[]);
        pad(&mut bytes, 512);
        bytes
    }

    /// Returns the same entries as a tar archive (ustar) that can be continued: without the empty blocks
    /// of its end.
    ///
    /// # Errors
    /// When a path is longer than the format's names.
    pub fn to_tar(&self) -> std::io::Result<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = tar::Header::new_ustar();
            let (kind, mode, content): (tar::EntryType, u32, &[u8]) = match entry {
                ArchiveEntry::Directory => (tar::EntryType::Directory, 0o755, &[]),
                ArchiveEntry::File { permissions, content } => {
                    (tar::EntryType::Regular, *permissions, content)
                }
            };
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(content.len() as u64);
            let slash = if kind == tar::EntryType::Directory { "/" } else { "" };
            builder.append_data(&mut header, format!("{path}{slash}"), content)?;
        }
        let mut bytes = builder.into_inner()?;
        bytes.truncate(bytes.len() - 1024);
        Ok(bytes)
    }
}

fn append(bytes: &mut Vec<u8>, inode: u64, mode: u64, path: &str, content: &[u8]) {
    let [size, name] = [content.len(), path.len() + 1].map(|length| length as u64);
    // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), length of the
    // name, checksum
    let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];

    bytes.extend_from_slice(b"070701");
    for field in fields {
        bytes.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    bytes.extend_from_slice(path.as_bytes());
    bytes.push(0);
    pad(bytes, 4);

    bytes.extend_from_slice(content);
    pad(bytes, 4);
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Archive {
        let mut archive = Archive::new();
        archive.program("init", b"#!".to_vec());
        archive
    }

    #[test]
    fn one_file_gives_the_bytes_of_the_specification() {
        let bytes = small().to_bytes();
        let header = "070701\
            00000001000081ED0000000000000000000000010000000000000002\
            0000000000000000000000000000000000000005\
            00000000init\0\0";
        assert_eq!(header.len(), 110 + 6);
        assert_eq!(&bytes[..116], header.as_bytes());
        assert_eq!(&bytes[116..120], b"#!\0\0");
        assert_eq!(&bytes[120..126], b"070701");
        assert_eq!(&bytes[230..241], b"TRAILER!!!\0");
        assert_eq!(bytes.len(), 512);
    }

    #[test]
    fn the_order_of_additions_does_not_matter() {
        let mut one = small();
        one.file("lib/modules/load", b"a.ko\n".to_vec());
        one.program("bin/sh", b"#!".to_vec());
        let mut other = Archive::new();
        other.program("bin/sh", b"#!".to_vec());
        other.file("/lib/modules/load", b"a.ko\n".to_vec());
        other.program("init", b"#!".to_vec());
        assert_eq!(one.to_bytes(), other.to_bytes());
    }

    #[test]
    fn directories_stand_before_what_is_in_them() {
        let mut archive = Archive::new();
        archive.file("a/b/c", Vec::new());
        assert_eq!(archive.entries.keys().collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        archive.directory("a/b");
        assert_eq!(archive.entries.len(), 3);
    }
}
