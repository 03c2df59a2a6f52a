//! Small runs, and how often a data set holds each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onbeat_fleet::parquet_file;
use onbeat_fleet::table::{HISTOGRAMS, RUNS, TableShape};
use onbeat_host::machine::Host;
use onbeat_record::{
    Account, Block, Cell, Header, Interval, LimitNote, Moments, Note, RunWriter, Series,
    empty_counts,
};

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// A run of one cell whose releases were this late.
pub(crate) fn write_run(path: &Path, header: &Header, lateness_ns: &[u64]) {
    let mut file = RunWriter::create(path, header).unwrap();
    let block = Block { index: 0, t: 0.0, load: "idle".to_owned(), warmup: 0, releases: None };
    file.note(&Note::Block(block)).unwrap();
    drop(file);
    extend_run(path, 0.0, lateness_ns);
}

/// Another second of the run, and a closing line.
pub(crate) fn extend_run(path: &Path, t: f64, lateness_ns: &[u64]) {
    let mut counts = empty_counts(Series::ReleaseLatency);
    let mut moments = Moments::default();
    for &ns in lateness_ns {
        counts.record(ns).unwrap();
        moments.add(ns);
    }
    let mut encoded = Vec::new();
    V2DeflateSerializer::new().serialize(&counts, &mut encoded).unwrap();
    let mut text = fs::read_to_string(path).unwrap();
    let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, encoded);
    text += &format!("{t:.3},1.000,{:.3},{base64}\n", counts.max() as f64 / 1e6);
    let n = lateness_ns.len() as u64;
    let mut interval = Interval { t, length: 1.0, cycles: n, ..Interval::default() };
    interval.series.insert(Series::WakeupLatency, moments);
    let end = Account { t: t + 1.0, slots: n, cycles: n, ..Account::default() };
    for note in [Note::Interval(Box::new(interval)), Note::End(end)] {
        text += &format!("#[onbeat: {}]\n", serde_json::to_string(&note).unwrap());
    }
    fs::write(path, text).unwrap();
}

pub(crate) fn header(host: &str, started_unix_s: f64) -> Header {
    let facts = Host::from_facts([
        ("kernel", Some("6.1.9-rt".to_owned())),
        ("board", Some("A-100".to_owned())),
    ]);
    let new = Header::new(
        &["onbeat".to_owned(), "measure".to_owned()],
        "timer",
        &[Series::ReleaseLatency],
        started_unix_s,
    );
    Header {
        host: facts,
        machine: format!("{host:0<32}"),
        cell: Some(Cell::new("none", "idle")),
        limit: Some(LimitNote { limit_ns: 100_000, at: 99.0, on: Series::ReleaseLatency }),
        ..new
    }
}

/// Runs of one host each, of 200 releases.
pub(crate) fn some_runs(dir: &Path, number: usize) -> Vec<PathBuf> {
    let run = |place: usize| {
        let path = dir.join(format!("run-{place:03}.onbeat.hlog"));
        let lateness: Vec<u64> = (1..=200).map(|n| n * 10 + place as u64).collect();
        write_run(
            &path,
            &header(&format!("{place:02x}"), 1.79e9 + 3600.0 * place as f64),
            &lateness,
        );
        path
    };
    (0..number).map(run).collect()
}

/// The program, without a shell's settings.
pub(crate) fn fleet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_onbeat-fleet"))
}

pub(crate) fn add(runs: &[PathBuf], to: &Path) -> Output {
    fleet().arg("add").args(runs).arg("--to").arg(to).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat())
        .into_owned()
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// What readers may see: of each run its largest revision in the landing or in the newest packed files.
/// Returns, by run, the number of its samples in the histograms.
pub(crate) fn samples_by_run(fleet: &Path) -> BTreeMap<String, u64> {
    let mut newest: BTreeMap<String, (i64, PathBuf, i64)> = BTreeMap::new();
    for file in table_files(fleet, &RUNS) {
        let runs = parquet_file::read(&file, &RUNS).unwrap();
        for row in 0..runs.rows() {
            let id = runs.texts("id").unwrap().get(row).to_owned();
            let (run, revision) =
                (runs.numbers("run").unwrap()[row], runs.numbers("revision").unwrap()[row]);
            // Packed at the same length: the same rows twice, of which one counts.
            if newest
                .get(&id)
                .is_none_or(|known| revision > known.0 || revision == known.0 && is_packed(&file))
            {
                newest.insert(id, (revision, file.clone(), run));
            }
        }
    }
    let of_run = |file: &Path, run: i64| -> u64 {
        let all = table_files(fleet, &HISTOGRAMS);
        let of = all.iter().filter(|one| {
            if is_packed(file) {
                generation(one) == generation(file) && day(one) == day(file)
            } else {
                one.file_name() == file.file_name()
            }
        });
        of.map(|file| {
            let rows = parquet_file::read(file, &HISTOGRAMS).unwrap();
            let samples = rows.numbers("samples").unwrap();
            let series = rows.texts("series").unwrap();
            let is_of = |row: &usize| {
                rows.numbers("run").unwrap()[*row] == run && series.get(*row) == "release_latency"
            };
            (0..rows.rows()).filter(is_of).map(|row| samples[row].unsigned_abs()).sum::<u64>()
        })
        .sum()
    };
    newest.into_iter().map(|(id, (_, file, run))| (id, of_run(&file, run))).collect()
}

fn is_packed(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "packed")
}

fn generation(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    Some(name.strip_prefix('g')?.split('-').next()?.to_owned())
}

fn day(file: &Path) -> Option<PathBuf> {
    Some(PathBuf::from(file.parent()?.file_name()?))
}

/// Whole files of a table; of packed ones those of the newest generation with a file of `runs`.
pub(crate) fn table_files(fleet: &Path, table: &TableShape) -> Vec<PathBuf> {
    let is_file = |file: &PathBuf| !file.file_name().unwrap().to_string_lossy().starts_with('.');
    let mut all = files(&fleet.join("landing").join(table.name));
    let packed: Vec<PathBuf> =
        files(&fleet.join("packed").join(RUNS.name)).into_iter().filter(is_file).collect();
    for file in files(&fleet.join("packed").join(table.name)).into_iter().filter(is_file) {
        let of_day = packed
            .iter()
            .filter(|runs| day(runs) == day(&file))
            .filter_map(|runs| generation(runs))
            .max();
        if of_day == generation(&file) {
            all.push(file);
        }
    }
    all.retain(is_file);
    all
}
