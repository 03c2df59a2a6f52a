//! A run as rows of the tables, from its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use onbeat_host::machine::FACT_NAMES;
use onbeat_record::run_dir::{self, BENCH_FILE, RunDirError};
use onbeat_record::{Header, RunFile, RunFileError, Timing};
use sha2::{Digest, Sha256};

use crate::cell_rows::{CellTables, CellsOf};
use crate::parquet_file::SCHEMA;
use crate::table::{FACTS, RUNS, SETTINGS, Table, VERSIONS};

/// Digits of a machine's number that are its name: 48 bits, which two of a million machines share once in 500 fleets.
const HOST_DIGITS: usize = 12;
/// Words of a kernel's command line that name one machine's disks or addresses, and those of other facts.
const NOT_KEPT: [&str; 21] = [
    "root=",
    "resume=",
    "resume_offset=",
    "BOOT_IMAGE=",
    "initrd=",
    "ip=",
    "nfsroot=",
    "rd.luks",
    "rd.lvm",
    "rd.md",
    "netroot=",
    "ifname=",
    "systemd.hostname=",
    "hostname=",
    "cryptdevice=",
    "systemd.machine_id=",
    "systemd.set_credential",
    "luks.",
    "iscsi_initiator=",
    "BOOTIF=",
    // Of cloud-init: with the name of the machine, or where its settings are.
    "ds=",
];
/// Ends of names of words that do so as well: a Raspberry Pi's firmware adds `smsc95xx.macaddr=` and `bcm2709.serial=`, a Jetson's
/// `androidboot.serialno=`.
const NOT_KEPT_NAMES: [&str; 3] = ["macaddr", "serialno", ".serial"];
/// Facts that are versions.
const VERSIONS_OF: [&str; 6] =
    ["kernel", "kernel build", "distribution", "image", "BIOS", "microcode"];
/// What can be left out besides facts: tables, and the command of a run.
const NOT_FACTS: [&str; 4] = ["settings", "causes", "versions", "command"];
/// Facts of the loops of a run, as far as all of them have the same one: figures of unlike loops are not those of one machine.
const LOOP_FACTS: [&str; 4] = ["probe", "loop period", "loop wait", "loop priority"];
/// The fact that holds the command line.
const COMMAND_LINE: &str = "kernel command line";

/// How a run is named in the data set, and what is left out.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// The name of its machine; the first digits of the machine's number where there is none.
    pub host: Option<String>,
    /// Facts to leave out, tables (`settings`, `causes`, `versions`), and `command`.
    pub without: Vec<String>,
    /// Why its figures say nothing of the machine, when its user says so.
    pub invalid: Option<String>,
}

impl Naming {
    /// A misspelt name would leave in what was to be left out.
    fn check(&self, header: &Header) -> Result<(), RowsError> {
        let is_known = |name: &&String| {
            NOT_FACTS.contains(&name.as_str())
                || FACT_NAMES.contains(&name.as_str())
                || LOOP_FACTS.contains(&name.as_str())
                || header.host.fact(name).is_some()
        };
        match self.without.iter().find(|name| !is_known(name)) {
            Some(name) => Err(RowsError::Without { name: name.clone() }),
            None => Ok(()),
        }
    }

    fn leaves_out(&self, name: &str) -> bool {
        self.without.iter().any(|without| without == name)
    }
}

/// A run could not be made into rows.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// Its files cannot be read.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// One of its files cannot be read.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    /// It is not one run.
    #[error(
        "{path} holds {files} runs ({first}, ...) and not one; add them one by one: onbeat fleet add {path}/*.onbeat.hlog --to DIR"
    )]
    SeveralRuns {
        /// The directory.
        path: PathBuf,
        /// Its run files.
        files: usize,
        /// The first of them.
        first: String,
    },
    /// A name of nothing that could be left out.
    #[error(
        "'{name}' is not a fact that could be left out; onbeat fleet add --dry-run prints the facts of a run"
    )]
    Without {
        /// As typed.
        name: String,
    },
    /// A name of a machine that a folder or a query could not have.
    #[error("'{name}' is not a valid name of a machine: 1 to 64 printable characters")]
    Host {
        /// As typed.
        name: String,
    },
}

#[derive(Clone, Debug)]
pub struct RunRows {
    /// 128 bits, as 32 hexadecimal digits.
    pub id: String,
    /// The name of its machine.
    pub host: String,
    /// The day on which it began, by UTC: `2026-11-28`.
    pub day: String,
    /// Bytes of its files: a run that was resumed has more, and replaces what it was before. One more where its user calls it
    /// invalid, so that the mark replaces a run that is there, and stays.
    pub revision: u64,
    /// Number of cells.
    pub cells: usize,
    /// Number of cells whose figures say nothing of the machine, by the reason.
    pub invalid_cells: BTreeMap<String, usize>,
    /// Rows of each table that has any, [`RUNS`] last.
    pub tables: Vec<Table>,
}

impl RunRows {
    /// Reads a run: a directory of a bench, or a run file.
    ///
    /// # Errors
    /// [`RowsError`].
    pub fn read(path: &Path, naming: &Naming) -> Result<Self, RowsError> {
        let mut files = Vec::new();
        let mut hash = Sha256::new();
        let mut revision = 0;
        for file in run_dir::run_files(path)? {
            let (run, bytes) = RunFile::read_with_bytes(&file)?;
            revision += bytes.len() as u64;
            hash.update(&bytes);
            files.push(run);
        }
        revision += u64::from(naming.invalid.is_some());
        let bench =
            files.iter().position(|run| run.bench.is_some() || run.path.ends_with(BENCH_FILE));
        let bench = bench.map(|place| files.remove(place));
        let are_imports = files.iter().all(|run| run.import.is_some());
        if bench.is_none() && files.len() > 1 && !are_imports {
            let first =
                files[0].path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(RowsError::SeveralRuns {
                path: path.to_owned(),
                files: files.len(),
                first,
            });
        }

        let Some(header) = bench.as_ref().or(files.first()).map(|run| run.header.clone()) else {
            return Err(RunDirError::NoRun { path: path.to_owned() }.into());
        };
        naming.check(&header)?;
        let id = identity(&header, are_imports.then(|| hash.finalize().to_vec()));
        let host = host_of(&header, &id, naming)?;
        Ok(Self::of_files((bench.as_ref(), &files), &header, (id, host, revision), naming))
    }

    fn of_files(
        (bench, files): (Option<&RunFile>, &[RunFile]),
        header: &Header,
        (id, host, revision): (String, String, u64),
        naming: &Naming,
    ) -> Self {
        let run = number_of(&id);
        let started_us = started_us(header);
        let note = bench.and_then(|bench| bench.bench.as_ref());
        let looks = note.map_or(header.looks, |note| note.looks).max(1);
        let tunings = note.map_or(1, |note| note.tunings.len()).max(1);
        let of = CellsOf {
            run,
            host: &host,
            started_us,
            limit: note.map_or(header.limit, |note| note.limit),
            shared_by: (files.len().max(1) * looks, tunings * looks),
            loads: bench.map_or(&[], |bench| &bench.loads),
            invalid: naming.invalid.as_deref().unwrap_or_default(),
        };
        let cells = CellTables::of_files(&of, files);

        let complete = bench.into_iter().chain(files).all(RunFile::is_complete);
        let mut facts = kept_facts(header, naming);
        let of_loops = loop_facts(files).into_iter();
        facts.extend(of_loops.filter(|(name, _)| !naming.leaves_out(name)));
        let number_of_cells = cells.cells.rows();
        let mut tables = vec![cells.cells, cells.histograms.sorted(), cells.outages, cells.causes];
        tables.extend(tables_of_header(header, (run, &host), &facts));
        let mut runs = Table::new(&RUNS);
        let fact = |name: &str| {
            facts.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value.as_str())
        };
        let command =
            if naming.leaves_out("command") { String::new() } else { header.command.join(" ") };
        runs.push([
            run.into(),
            id.as_str().into(),
            host.as_str().into(),
            started_us.into(),
            SCHEMA.into(),
            header.version.as_str().into(),
            complete.into(),
            revision.into(),
            fact("kernel").into(),
            fact("BIOS").into(),
            fact("board").into(),
            fact("processor").into(),
            fact("image").into(),
            command.as_str().into(),
        ]);
        tables.retain(|table| table.rows() > 0 && !naming.leaves_out(table.shape().name));
        tables.push(runs);
        Self {
            day: day_of(started_us),
            id,
            host,
            revision,
            cells: number_of_cells,
            invalid_cells: cells.invalid,
            tables,
        }
    }
}

fn tables_of_header(
    header: &Header,
    (run, host): (i64, &str),
    kept: &[(&str, String)],
) -> [Table; 3] {
    let (mut facts, mut settings, mut versions) =
        (Table::new(&FACTS), Table::new(&SETTINGS), Table::new(&VERSIONS));
    for (name, value) in kept {
        facts.push([run.into(), host.into(), (*name).into(), value.as_str().into()]);
        if VERSIONS_OF.contains(name) {
            versions.push([run.into(), host.into(), (*name).into(), value.as_str().into()]);
        }
    }
    versions.push([run.into(), host.into(), "onbeat".into(), header.version.as_str().into()]);
    for finding in &header.findings {
        let (value, wanted) = (finding.current.as_str().into(), finding.wanted.as_str().into());
        settings.push([run.into(), host.into(), finding.id.as_str().into(), value, wanted]);
    }
    [facts, settings, versions]
}

/// The facts that go into the data set: without those that the user leaves out, and without what names one machine's disks.
fn kept_facts<'h>(header: &'h Header, naming: &Naming) -> Vec<(&'h str, String)> {
    let facts = header.host.facts().filter(|(name, _)| !naming.leaves_out(name));
    let kept = facts.map(|(name, value)| match name {
        COMMAND_LINE => {
            let words = value.split_ascii_whitespace();
            let words: Vec<&str> = words
                .filter(|word| !NOT_KEPT.iter().any(|begin| word.starts_with(begin)))
                .filter(|word| {
                    let name = word.split('=').next().unwrap_or_default();
                    !NOT_KEPT_NAMES.iter().any(|end| name.ends_with(end))
                })
                .collect();
            (name, words.join(" "))
        }
        _ => (name, value.to_owned()),
    });
    kept.collect()
}

fn loop_facts(files: &[RunFile]) -> Vec<(&'static str, String)> {
    let period = |timing: &Timing| Duration::from_nanos(timing.period_ns);
    let of_file = |file: &RunFile| {
        let timing = file.header.timing.as_ref();
        [
            Some(file.header.probe.clone()).filter(|probe| !probe.is_empty()),
            timing.map(|timing| humantime::format_duration(period(timing)).to_string()),
            timing.map(|timing| timing.wait.clone()),
            timing.map(|timing| timing.priority.to_string()),
        ]
    };
    let mut all = files.iter().map(of_file);
    let Some(mut common) = all.next() else { return Vec::new() };
    for values in all {
        for (known, value) in common.iter_mut().zip(values) {
            if *known != value {
                *known = None;
            }
        }
    }
    LOOP_FACTS.into_iter().zip(common).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// A run's own number; for files of before, one that follows from what was written first, and for those of other tools from all of it.
fn identity(header: &Header, of_import: Option<Vec<u8>>) -> String {
    let is_valid = |id: &&String| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(id) = Some(&header.id).filter(is_valid) {
        return id.to_lowercase();
    }
    // The header of a run stays when the run is resumed. Other tools' runs may have equal headers, and are never resumed.
    let digest = of_import
        .unwrap_or_else(|| Sha256::digest(serde_json::to_vec(header).unwrap_or_default()).to_vec());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The first 63 bits: engines agree on whole numbers of 64 bits with a sign, and on none other.
fn number_of(id: &str) -> i64 {
    let first = u64::from_str_radix(id.get(..16).unwrap_or("0"), 16).unwrap_or(0);
    (first >> 1).cast_signed()
}

fn host_of(header: &Header, id: &str, naming: &Naming) -> Result<String, RowsError> {
    if let Some(name) = &naming.host {
        let is_valid =
            (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        let wrong = || RowsError::Host { name: name.clone() };
        return is_valid.then(|| name.clone()).ok_or_else(wrong);
    }
    // A run of an unknown machine is a machine of its own: nothing is paired that may not belong together.
    let digits = header.machine.get(..HOST_DIGITS);
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Ok(digits.map_or_else(|| format!("unknown-{}", &id[..HOST_DIGITS]), str::to_owned))
}

fn started_us(header: &Header) -> i64 {
    // A wall clock that was never set is 1970; humantime writes days up to 9999.
    (header.started_unix_s.clamp(0.0, 2.5e11) * 1e6).round() as i64
}

fn day_of(started_us: i64) -> String {
    let since = Duration::from_micros(started_us.unsigned_abs());
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(id: &str, machine: &str) -> Header {
        let new = Header::new(&["onbeat".to_owned()], "timer", &[], 1.8e9);
        Header { id: id.to_owned(), machine: machine.to_owned(), ..new }
    }

    #[test]
    fn a_run_without_a_number_has_the_same_one_each_time() {
        let old = header("", "");
        assert_eq!(identity(&old, None), identity(&old.clone(), None));
        assert_ne!(
            identity(&old, None),
            identity(&Header { started_unix_s: 1.8e9 + 1.0, ..old.clone() }, None)
        );
        assert_ne!(identity(&old, Some(vec![1; 32])), identity(&old, Some(vec![2; 32])));
        let new = header("00112233445566778899aabbccddeeff", "");
        assert_eq!(identity(&new, None), "00112233445566778899aabbccddeeff");
        assert_eq!(number_of("ffffffffffffffff8899aabbccddeeff"), i64::MAX);
    }

    #[test]
    fn a_machine_is_named_by_its_user_or_by_its_number() {
        let naming = |host: &str| Naming { host: Some(host.to_owned()), ..Naming::default() };
        let run = header("", "0123456789abcdef0123456789abcdef");
        let id = identity(&run, None);
        assert_eq!(host_of(&run, &id, &Naming::default()).unwrap(), "0123456789ab");
        assert_eq!(host_of(&run, &id, &naming("walker 7")).unwrap(), "walker 7");
        assert!(
            host_of(&run, &id, &naming("")).is_err()
                && host_of(&run, &id, &naming("a\nb")).is_err()
        );
        assert!(host_of(&header("", ""), &id, &Naming::default()).unwrap().starts_with("unknown-"));
    }

    #[test]
    fn days_are_those_of_utc_also_where_the_clock_was_not_set() {
        assert_eq!(day_of(started_us(&header("", ""))), "2027-01-15");
        for unset in [0.0, -5.0, f64::NAN] {
            assert_eq!(
                day_of(started_us(&Header { started_unix_s: unset, ..header("", "") })),
                "1970-01-01"
            );
        }
    }

    #[test]
    fn disks_of_one_machine_stay_out_of_its_facts() {
        let host = onbeat_host::machine::Host::from_facts([
            (
                COMMAND_LINE,
                Some("BOOT_IMAGE=/vmlinuz root=UUID=1-2 smsc95xx.macaddr=DC:A6:32:01:02:03 bcm2709.serial=0xcd3e9d BOOTIF=01-dc-a6-32 resume_offset=4096 ds=nocloud;h=walker-7 rd.md.uuid=9:f isolcpus=1 quiet".to_owned()),
            ),
            ("memory", Some("8 GiB".to_owned())),
        ]);
        let naming = Naming { without: vec!["memory".to_owned()], ..Naming::default() };
        let run = Header { host, ..header("", "") };
        assert_eq!(kept_facts(&run, &naming), [(COMMAND_LINE, "isolcpus=1 quiet".to_owned())]);
    }
}
