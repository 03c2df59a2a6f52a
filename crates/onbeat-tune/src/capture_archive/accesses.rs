//! What a recording tree was asked for, and what it answered.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::cpu_list::CpuList;

/// An error of the kernel by its number; 0 for what is not a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AccessFailure(i32);

impl AccessFailure {
    pub(crate) fn from_error(error: &io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }

    /// The failure of a file that does not exist.
    pub(crate) fn absent() -> Self {
        Self(rustix::io::Errno::NOENT.raw_os_error())
    }

    pub(crate) fn to_error(self) -> io::Error {
        match self.0 {
            0 => io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"),
            number => io::Error::from_raw_os_error(number),
        }
    }
}

/// The answers of a tree, by path. The last answer counts.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    /// Contents of files.
    pub(crate) reads: BTreeMap<String, Result<Vec<u8>, AccessFailure>>,
    /// Names in directories.
    pub(crate) lists: BTreeMap<String, Result<Vec<String>, AccessFailure>>,
    /// Whether a file exists.
    pub(crate) lookups: BTreeMap<String, Result<bool, AccessFailure>>,
    /// Parts of devices, by path and offset.
    pub(crate) registers: BTreeMap<String, BTreeMap<u64, Vec<u8>>>,
    /// The CPUs of threads, where a system call returned them.
    pub(crate) affinities: BTreeMap<i32, CpuList>,
}
