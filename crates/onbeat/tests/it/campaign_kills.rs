//! A campaign that is killed at drawn moments and begun again ends in the table of an undisturbed
//! one, and leaves nothing partial.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use onbeat::campaign::{Campaign, CampaignEvent, ResultStore, StoreError, product};

/// Set in the process that is killed in place of the whole test.
const OUT: &str = "ONBEAT_TEST_CAMPAIGN";
const AXES: [usize; 3] = [5, 4, 15];
const KILLS: usize = 50;

fn place(cell: [usize; 3]) -> String {
    format!("row-{}/{}-{}", cell[0], cell[1], cell[2])
}

fn figure([a, b, c]: [usize; 3]) -> usize {
    a * 10_000 + b * 100 + c
}

/// Measures every cell that has no result: its files take some milliseconds, in pieces.
fn conduct(out: &Path) {
    let store = ResultStore::open(out, "record.json").unwrap();
    let is_due = |cell: &[usize; 3]| store.find::<usize>(place(*cell).as_ref()).unwrap().is_none();
    let due: Vec<[usize; 3]> = product(AXES).filter(is_due).collect();
    let stop = AtomicBool::new(false);
    let mut report = |event: CampaignEvent<'_>| {
        if let CampaignEvent::Failed { cell, why } = event {
            panic!("{cell}: {why}");
        }
    };
    let measure = |cell: &[usize; 3]| {
        store.measure(place(*cell).as_ref(), |dir| {
            for piece in 0..3 {
                let path = dir.join(format!("piece-{piece}"));
                fs::write(&path, format!("{cell:?}")).map_err(StoreError::writing(&path))?;
                thread::sleep(Duration::from_micros(700));
            }
            Ok::<_, StoreError>(figure(*cell))
        })
    };
    let hand_over =
        |_: &mut Campaign<'_>, _: &[usize; 3], kept: Result<_, StoreError>| kept.map(|_: usize| ());
    Campaign::new(&stop, &mut report).side_by_side(&due, 2, measure, hand_over).unwrap();
}

/// The cells with their figures, and the names of all files.
fn table(out: &Path) -> (Vec<Option<usize>>, Vec<String>) {
    let store = ResultStore::open(out, "record.json").unwrap();
    let figures = product(AXES).map(|cell| store.find(place(cell).as_ref()).unwrap()).collect();
    let mut files = Vec::new();
    let mut left = vec![out.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            files.push(path.strip_prefix(out).unwrap().display().to_string());
            left.extend(path.is_dir().then_some(path));
        }
    }
    files.sort();
    (figures, files)
}

#[test]
fn a_campaign_killed_at_fifty_drawn_moments_has_the_table_of_an_undisturbed_one() {
    if let Some(out) = std::env::var_os(OUT) {
        return conduct(Path::new(&out));
    }
    let scratch = tempfile::tempdir().unwrap();
    let [undisturbed, killed] = ["undisturbed", "killed"].map(|name| scratch.path().join(name));
    conduct(&undisturbed);
    let whole = table(&undisturbed);
    assert!(whole.0.iter().all(Option::is_some) && whole.1.len() == 5 + 300 * 5);

    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let own = "campaign_kills::a_campaign_killed_at_fifty_drawn_moments_has_the_table_of_an_undisturbed_one";
    let mut cut_off = 0;
    for _ in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", own]).env(OUT, &killed).stdout(Stdio::null());
        let mut child = child.spawn().unwrap();
        thread::sleep(Duration::from_micros(random.u64(0..25_000)));
        child.kill().unwrap();
        cut_off += usize::from(!child.wait().unwrap().success());
    }
    println!("{cut_off} of {KILLS} were cut off");
    assert!(cut_off > 0, "every process ended before it was killed");
    conduct(&killed);
    let (figures, files) = table(&killed);
    assert!(figures == whole.0, "{figures:?}");
    let differing = |a: &[String], b: &[String]| -> Vec<String> {
        a.iter().filter(|file| !b.contains(file)).cloned().collect()
    };
    assert_eq!((differing(&files, &whole.1), differing(&whole.1, &files)), Default::default());
}
