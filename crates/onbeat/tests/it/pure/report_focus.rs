//! What stands first: the load that decides, and the untuned loop beside the best.

use crate::report_world::{US, bench_file, run_in_memory};
use onbeat::record::{RunFile, Series};
use onbeat_report::focus::Focus;
use onbeat_report::markdown::{escaped, markdown};
use onbeat_report::picture::picture;
use onbeat_report::units::Letters;
use onbeat_report::{Limit, Outcome, Overall, Summary};

/// A cell of 4,000 cycles in two blocks: most `median_us` late, one in `every` `tail_us` late.
fn cell(tuning: &str, load: &str, (median_us, tail_us): (u64, u64), every: u64) -> RunFile {
    let one = |i: u64| if i.is_multiple_of(every) { tail_us * US } else { median_us * US + i % 97 };
    let block = |from: u64| (from..from + 2_000).map(one).collect::<Vec<u64>>();
    run_in_memory(tuning, load, &[block(1), block(2_001)])
}

fn limit(us: u64) -> Option<Limit> {
    Some(Limit { limit_ns: us * US, at: 99.0, on: Series::ReleaseLatency })
}

/// Untuned worst under `paper`; with P worst under `idle`.
fn files() -> Vec<RunFile> {
    vec![
        cell("none", "idle", (50, 300), 20),
        cell("P", "idle", (20, 90), 20),
        cell("none", "paper", (60, 9_000), 20),
        cell("P", "paper", (20, 40), 20),
    ]
}

fn bench(limit: Option<Limit>) -> (Summary, Vec<RunFile>) {
    let files = files();
    let bench = bench_file(&["none", "P"], &["idle", "paper"], limit);
    (Summary::of_bench(&bench, &files), files)
}

fn focus(load: &str, tunings: &[&str]) -> Focus {
    let tunings = tunings.iter().map(|&tuning| tuning.to_owned()).collect();
    Focus { load: load.to_owned(), series: Series::ReleaseLatency, tunings }
}

#[test]
fn a_limit_that_holds_shows_where_the_untuned_loop_is_worst() {
    let (summary, _) = bench(limit(100));
    assert_ne!(summary.verdict.outcome, Some(Outcome::Fail), "{}", summary.verdict.sentence);
    assert_eq!(summary.focus, Some(focus("paper", &["none", "P"])));
    let (without, _) = bench(None);
    assert_eq!(without.focus, Some(focus("paper", &["none", "P"])));
}

#[test]
fn a_limit_that_is_missed_shows_where_the_best_tuning_misses_it() {
    let (summary, _) = bench(limit(60));
    let missed = Overall { outcome: Some(Outcome::Fail), ..summary.verdict.clone() };
    let of = Focus::of_bench(&summary.cells, &summary.tunings, &missed);
    assert_eq!(of, Some(focus("idle", &["none", "P"])), "with P only idle is over 60 us");
}

#[test]
fn a_bench_whose_best_tuning_is_none_shows_it_alone_and_one_run_has_no_focus() {
    let files = [cell("none", "idle", (20, 40), 20), cell("P", "idle", (70, 900), 20)];
    let bench = bench_file(&["none", "P"], &["idle"], None);
    let summary = Summary::of_bench(&bench, &files);
    assert_eq!(summary.focus, Some(focus("idle", &["none"])));
    assert_eq!(summary.first_cells().len(), 1);

    let run = Summary::of_run(&files[0], None);
    assert_eq!(run.focus, None);
    assert_eq!(run.first_cells().len(), 1, "its only cell");
    let nothing = Summary::of_bench(&bench, &[]);
    assert_eq!(nothing.focus, None);
    assert!(nothing.first_rows(Letters::Ascii).iter().all(|row| row.figures.is_empty()));
}

#[test]
fn the_first_figures_are_those_of_the_cells() {
    let (summary, _) = bench(limit(100));
    let rows = summary.first_rows(Letters::Ascii);
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["p50", "p99", "p99.9", "p99.99", "max", "over 100 us", "missed or skipped"]);
    let row = |name: &str| {
        let of = rows.iter().find(|row| row.name == name).expect("it is there");
        of.figures.iter().map(|one| (one.text.as_str(), one.supported)).collect::<Vec<_>>()
    };
    assert_eq!(row("max"), [("9 ms", true), ("40 us", true)]);
    assert_eq!(row("over 100 us")[1], ("0 % (0 of 4,000)", true));
    assert!(!row("p99.99")[0].1, "four samples are beyond it at most");
}

#[test]
fn markdown_opens_with_the_verdict_and_the_same_figures() {
    let (summary, files) = bench(limit(100));
    let text = markdown(&summary);
    let outcome = summary.verdict.outcome.expect("there is a limit").words();
    assert!(text.starts_with("### ") && text.contains(outcome), "{text}");
    assert!(text.contains("|  | none | P |"), "{text}");
    assert!(text.contains("**Release latency under the 2009 stress mix (`paper`)**"), "{text}");
    assert!(text.contains("| max | 9 ms | 40 µs |"), "{text}");

    let of_pass = picture(&summary, &files).expect("there are samples");
    let of_fail = picture(&bench(limit(60)).0, &files).expect("there are samples");
    assert!(of_pass.starts_with(b"\x89PNG") && of_pass != of_fail);
    let nothing = Summary::of_bench(&bench_file(&["none"], &["idle"], None), &[]);
    assert!(picture(&nothing, &[]).expect_err("no samples").to_string().contains("no cell"));
}

#[test]
fn no_text_becomes_markup() {
    let mut dice = fastrand::Rng::with_seed(3);
    let letters: Vec<char> = "a |`*_[]<>&#~$!@\\\n\r\t(){}-+é".chars().collect();
    for _ in 0..2_000 {
        let text: String =
            (0..dice.usize(..40)).map(|_| letters[dice.usize(..letters.len())]).collect();
        let safe = escaped(&text);
        assert!(!safe.contains(['\n', '\r', '\t', '<', '>']), "{text:?}: {safe:?}");
        let mut before = ' ';
        for c in safe.chars() {
            if "|`*_[]#~$!@".contains(c) {
                assert_eq!(before, '\\', "{text:?}: {safe:?}");
            }
            // A backslash that is escaped escapes nothing.
            before = if before == '\\' && c == '\\' { ' ' } else { c };
        }
    }
}
