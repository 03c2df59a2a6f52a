//! kill -9 of `onbeat vm lab` and `onbeat vm study` at drawn moments, and the same command again
//! until nothing is left: `make test-vm-kills`. `ONBEAT_KILLS` is the number of kills of each, 3
//! without it.
//!
//! Guests run in virtual time, so the tables of a campaign that was killed are compared with those
//! of an undisturbed one to the byte.

use crate::test_lab;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use onbeat_tune::{HostFiles, LiveHost};
use serde_json::Value;

use test_lab::TestLab;

const RT: &str = "linux-image-6.12-rt-amd64";
const KILLS: u32 = 3;
/// From the opening of the store to the end of the first guest, and into the next one.
const LATEST_KILL: Duration = Duration::from_secs(8);
/// Two tunings and three seeds of a measurement of 0.1 s.
const LAB: &str = "tunings = [\"none\", \"PM\"]\nseeds = 3\nduration_ms = 100\n";
/// Two stages outside and inside, under one load: six measurements of a second.
const STUDY: &str = r#"
    clock = "virtual"
    duration_s = 1
    period_us = 1000
    runs = 1
    commands = 5
    price_settings = false
    loads = [{ name = "idle" }]
    [[stage]]
    name = "host"
    settings = ["mem.swappiness"]
    [[stage]]
    name = "wait"
    settings = ["timer.vmstat"]
"#;

/// A command below a scratch directory, with guests of the laboratory for tests.
struct KilledCommand<'l> {
    lab: &'l TestLab,
    scratch: tempfile::TempDir,
    words: Vec<String>,
}

impl<'l> KilledCommand<'l> {
    /// `file` describes the guests of `vm WORD`, without their kernel.
    fn new(lab: &'l TestLab, word: &str, file: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("guests.toml");
        let kernel = match word {
            "lab" => format!("kernels = [\"{RT}\"]\n"),
            _ => format!("kernel = \"{RT}\"\n"),
        };
        fs::write(&path, kernel + file).expect("a file");
        let words = ["vm", word].map(str::to_owned).into_iter().chain([path.display().to_string()]);
        Self { lab, words: words.collect(), scratch }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn command(&self, name: &str, more: &[&str]) -> Command {
        let mut command = Command::new(&self.lab.onbeat);
        command.args(&self.words).args(more).arg("--out").arg(self.out(name));
        command.arg("--work").arg(&self.lab.work.path).arg("--onbeat").arg(&self.lab.onbeat);
        command.args(std::env::var_os("ONBEAT_VM_DOWNLOAD").map(|_| "--download"));
        command.env("ONBEAT_STATE_DIR", self.out("state")).current_dir(self.scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn whole(&self, name: &str, more: &[&str]) -> Output {
        let output = self.command(name, more).output().expect("an end");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Kills the command at moments that are drawn anew each time. One that has ended before begins anew
    /// with a drawn result of `results` taken away, so that each has something left to do.
    fn kill_at_drawn_moments(&self, name: &str, results: &str) {
        let seed = fastrand::u64(..);
        println!("moments drawn with seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let kills = std::env::var("ONBEAT_KILLS").ok().and_then(|text| text.parse().ok());
        let kills = kills.unwrap_or(KILLS);
        let (mut cut_off, mut begun) = (0, 0);
        let mut latest = LATEST_KILL;
        while cut_off < kills {
            begun += 1;
            assert!(begun <= 4 * kills + 8, "{cut_off} of {begun} were cut off");
            let mut running =
                self.command(name, &[]).stderr(Stdio::null()).spawn().expect("a start");
            let started = Instant::now();
            let moment = latest.mul_f64(random.f64());
            while started.elapsed() < moment && running.try_wait().expect("a child").is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let lasted = started.elapsed();
            running.kill().expect("a signal");
            let status = running.wait().expect("its end");
            if status.code().is_none() {
                cut_off += 1;
            } else {
                assert!(status.success(), "{status}");
                // With a single result left to make, a later moment cuts nothing off.
                latest = latest.min(lasted);
                self.take_a_result_away(name, results, &mut random);
            }
        }
        println!("{cut_off} of {begun} were cut off");
    }

    /// Removes the directory of a stored result, which is that of a file with this name.
    fn take_a_result_away(&self, name: &str, results: &str, random: &mut fastrand::Rng) {
        let all = files(&self.out(name));
        let stored: Vec<&PathBuf> = all.keys().filter(|path| path.ends_with(results)).collect();
        let drawn = random.choice(&stored).expect("a result");
        let directory = self.out(name).join(drawn.parent().expect("a directory"));
        fs::remove_dir_all(directory).expect("a result");
    }
}

/// The files below a directory, by their paths in it.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below it").to_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn a_laboratory_that_is_killed_ends_in_the_tables_and_bytes_of_an_undisturbed_one() {
    let Some(lab) = TestLab::open() else { return };
    let command = KilledCommand::new(&lab, "lab", LAB);
    let undisturbed = command.whole("undisturbed", &["--json"]);
    command.kill_at_drawn_moments("killed", "experiment.json");
    let killed = command.whole("killed", &["--json"]);

    let table = |output: &Output| -> Value {
        let mut table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        // Each lies in the directory of its own laboratory.
        for cell in table["cells"].as_array_mut().expect("cells") {
            let worst =
                cell["worst"].as_str().map(|path| Path::new(path).file_name().map(Into::into));
            let name: Option<PathBuf> = worst.flatten();
            cell["worst"] = serde_json::json!(name.expect("a directory"));
        }
        table
    };
    assert_eq!(table(&killed), table(&undisturbed));
    assert_eq!(table(&killed)["stored"], 6);
    let sent = |name: &str| {
        let mut all = files(&command.out(name));
        all.retain(|path, _| path.components().any(|part| part.as_os_str() == "sent"));
        all
    };
    let (killed, undisturbed) = (sent("killed"), sent("undisturbed"));
    assert!(killed.len() >= 6 && killed == undisturbed, "{:?}", killed.keys());
    let partial = fs::read_dir(command.out("killed")).expect("a directory").flatten();
    assert_eq!(
        partial.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count(),
        0
    );
}

/// What a study has stored of each measurement: its key and its answers, and the bytes of its run
/// files where the guest's clock is virtual. Outside, the machine's own clock is measured by.
fn measured(out: &Path) -> BTreeMap<PathBuf, (Value, Vec<u8>)> {
    let all = files(&out.join("measured"));
    let records = all.iter().filter(|(path, _)| path.ends_with("measured.json"));
    let record = |(path, bytes): (&PathBuf, &Vec<u8>)| {
        let record: Value = serde_json::from_slice(bytes).expect("JSON");
        let directory = path.parent().expect("a directory").to_owned();
        let is_virtual = record["clock"] == "virtual";
        let run_files = all.iter().filter(|(file, _)| {
            is_virtual && file.starts_with(&directory) && !file.ends_with("measured.json")
        });
        let bytes = run_files.flat_map(|(_, bytes)| bytes.clone()).collect();
        let answers = &record["answers"];
        let kept = serde_json::json!([
            record["key"],
            record["slot"],
            record["run_files"],
            answers["sent"],
            answers["answered"],
            record["refused"]
        ]);
        (directory, (kept, bytes))
    };
    records.map(record).collect()
}

#[test]
fn a_study_that_is_killed_ends_in_the_rows_and_bytes_of_an_undisturbed_one() {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() {
        println!("skipped: the settings of a study take root");
        return;
    }
    let command = KilledCommand::new(&lab, "study", STUDY);
    command.whole("undisturbed", &[]);
    command.kill_at_drawn_moments("killed", "measured.json");
    command.whole("killed", &[]);

    let [undisturbed, killed] = ["undisturbed", "killed"].map(|name| measured(&command.out(name)));
    assert!(undisturbed.len() > 3, "{:?}", undisturbed.keys());
    assert!(killed.values().any(|(_, bytes)| !bytes.is_empty()));
    assert_eq!(killed.keys().collect::<Vec<_>>(), undisturbed.keys().collect::<Vec<_>>());
    for (place, (record, bytes)) in &undisturbed {
        assert_eq!(killed[place].0, *record, "{place:?}");
        assert!(killed[place].1 == *bytes, "{place:?}: other bytes");
    }
    let tables = |name: &str| {
        let report = fs::read_to_string(command.out(name).join("report.md")).expect("a report");
        let first = |line: &str| line.split('|').take(2).collect::<Vec<_>>().join("|");
        // QEMU's threads are this machine's: one that has just begun has the name of its parent still.
        let of_guests = report.lines().take_while(|line| !line.contains("Threads of QEMU"));
        of_guests.map(first).collect::<Vec<_>>()
    };
    assert_eq!(tables("killed"), tables("undisturbed"), "the same tables with the same rows");
}
