//! `onbeat fleet add`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::Args;
use onbeat_fleet::rows::{Naming, RunRows};
use onbeat_fleet::store::{Added, DataSet};
use onbeat_fleet::table::{FACTS, RUNS, SETTINGS, Table, VERSIONS};
use onbeat_host::foreign::printable;
use onbeat_host::program::asked_to_end_once;
use onbeat_record::run_dir::{BENCH_FILE, RUN_FILE_ENDING};
use onbeat_report::units::counted;

use crate::{Failure, advise, say};

/// Each thread holds the rows of a run, and waits for the disk half of the time.
const MOST_THREADS: usize = 8;
const THREADS_PER_CPU: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct AddOptions {
    /// Run directories, or run files
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Directory of the data set, or s3://BUCKET/NAME; made where there is none
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    to: Option<PathBuf>,
    /// Name of the machine [default: a number that stands for it]
    ///
    /// The default is the first 12 digits of a number that is made of /etc/machine-id and cannot be turned back into it. --host "$(hostname)"
    /// stores the name instead.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Fact to leave out, or the table settings, causes or versions, or command
    ///
    /// Facts have the names that --dry-run prints, such as "kernel command line".
    #[arg(long, value_name = "FACT")]
    without: Vec<String>,
    /// Reason why these runs say nothing of their machine
    ///
    /// They are kept, and no question counts them.
    #[arg(long, value_name = "WHY")]
    invalid: Option<String>,
    /// Print what would be added besides figures, and add nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(options: &AddOptions) -> Result<(), Failure> {
    let naming = Naming {
        host: options.host.clone(),
        without: options.without.clone(),
        invalid: options.invalid.clone(),
    };
    let Some(to) = options.to.as_ref().filter(|_| !options.dry_run) else {
        return show(&options.runs, &naming);
    };
    let stop = asked_to_end_once().map_err(Failure::Signals)?;
    let runs = distinct(&options.runs);
    let fleet = DataSet::open_or_create(to)?;
    let done = Mutex::new(Account::default());
    let next = AtomicUsize::new(0);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let threads = (cpus * THREADS_PER_CPU).min(MOST_THREADS);
    thread::scope(|scope| {
        for _ in 0..threads.min(runs.len()) {
            scope.spawn(|| add_some(&runs, &naming, &fleet, (&next, &stop), &done));
        }
    });

    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    say(&done.sentence(to));
    let all = runs.len();
    if done.failed > 0 {
        return Err(Failure::NotAll { failed: done.failed, all });
    }
    if done.all() < all {
        return Err(Failure::Interrupted { done: done.all(), all });
    }
    Ok(())
}

/// Each run once: onbeat-runs/* has the link `latest` to one of the others, and the file of a cell is a part of its bench.
fn distinct(runs: &[PathBuf]) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let place = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    runs.iter().map(|path| whole(path)).filter(|path| known.insert(place(path))).collect()
}

/// The bench beside which a run file stands: its cell would be another run of this machine, with the same samples.
fn whole(path: &Path) -> PathBuf {
    let is_run_file = path.to_string_lossy().ends_with(RUN_FILE_ENDING) && path.is_file();
    match path.parent().filter(|dir| is_run_file && dir.join(BENCH_FILE).is_file()) {
        Some(dir) if dir.as_os_str().is_empty() => PathBuf::from("."),
        Some(dir) => dir.to_owned(),
        None => path.to_owned(),
    }
}

/// What became of the runs.
#[derive(Debug, Default)]
struct Account {
    new: usize,
    replaced: usize,
    there: usize,
    failed: usize,
    invalid_cells: BTreeMap<String, usize>,
}

impl Account {
    const fn all(&self) -> usize {
        self.new + self.replaced + self.there + self.failed
    }

    fn sentence(&self, to: &Path) -> String {
        let mut parts = vec![format!("{} new", self.new)];
        let further =
            [(self.replaced, "replaced"), (self.there, "there already"), (self.failed, "failed")];
        let further = further.iter().filter(|(runs, _)| *runs > 0);
        parts.extend(further.map(|(runs, what)| format!("{runs} {what}")));
        let all = counted(self.all() as u64, "run");
        let mut sentence = format!("{all}: {}, in {}", parts.join(", "), to.display());
        for (why, cells) in &self.invalid_cells {
            let cells = counted(*cells as u64, "cell");
            sentence.push_str(&format!("; {cells} in no answer: {}", printable(why)));
        }
        sentence
    }
}

fn add_some(
    runs: &[PathBuf],
    naming: &Naming,
    fleet: &DataSet,
    (next, stop): (&AtomicUsize, &AtomicBool),
    done: &Mutex<Account>,
) {
    while !stop.load(Ordering::Relaxed) {
        let Some(path) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
        let rows = RunRows::read(path, naming).map_err(Failure::from);
        let added = rows.and_then(|rows| Ok((fleet.add(&rows)?, rows)));
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        match added {
            Ok((Added::AlreadyThere, rows)) => {
                done.there += 1;
                let name =
                    naming.host.as_ref().and_then(|_| fleet.machine_of(&rows).ok().flatten());
                if let Some(name) = name.filter(|name| *name != rows.host) {
                    let path = path.display();
                    advise(&format!(
                        "{path}: is there as a run of {name}; --host does not rename it"
                    ));
                }
            }
            Ok((what, rows)) => {
                for (why, cells) in rows.invalid_cells {
                    *done.invalid_cells.entry(why).or_default() += cells;
                }
                *(if what == Added::New { &mut done.new } else { &mut done.replaced }) += 1;
            }
            Err(why) => {
                done.failed += 1;
                advise(&format!("{}: {why}", path.display()));
            }
        }
    }
}

/// Prints the rows that name a machine, its software and its settings.
fn show(runs: &[PathBuf], naming: &Naming) -> Result<(), Failure> {
    let of_machine = [&RUNS, &FACTS, &SETTINGS, &VERSIONS];
    for path in distinct(runs) {
        let rows = RunRows::read(&path, naming)?;
        let (named, figures): (Vec<&Table>, Vec<&Table>) =
            rows.tables.iter().partition(|table| of_machine.contains(&table.shape()));
        named.into_iter().for_each(print_table);
        let figures: usize = figures.into_iter().map(Table::rows).sum();
        say(&format!(
            "{} cells: {figures} rows of figures, buckets and causes; a cause names the program or thread that made it",
            rows.cells
        ));
    }
    Ok(())
}

fn print_table(table: &Table) {
    let words = |row: usize| -> Vec<String> {
        let columns = table.shape().columns.iter().zip(table.columns());
        let shown = columns.filter(|((name, _), _)| {
            table.shape().name == "runs" || !["run", "host"].contains(name)
        });
        shown.map(|((name, _), column)| format!("{name}={}", column.text(row))).collect()
    };
    for row in 0..table.rows() {
        say(&printable(&format!("{}: {}", table.shape().name, words(row).join("  "))));
    }
}
