//! A bench with a loop on each of several CPUs: a tuning under a load is as good as its worst CPU.

use crate::report_world::{US, bench_file_of, bench_note, cell, read, run_text, with_outages};
use onbeat::record::{Cell, CellNotPermitted, LimitNote, RunFile, Series};
use onbeat_report::compare::Digest;
use onbeat_report::statistics::Share;
use onbeat_report::units::Letters;
use onbeat_report::{
    JudgeBy, JudgedRun, Outcome, Summary, bench_sentences, closing, export, tables,
};

const N: usize = 20_000;

/// The loop of a cell on a CPU, of which this number of releases is 2 ms late.
fn on_cpu(tuning: &str, load: &str, cpu: u32, over: usize) -> RunFile {
    let cell = Cell { cpu: Some(cpu), ..cell(tuning, load) };
    let cycles = with_outages(N, over);
    let blocks: Vec<_> = cycles.chunks(N / 5).map(<[_]>::to_vec).collect();
    read(&cell, &run_text(&cell, &blocks))
}

fn limit(at: f64) -> Option<LimitNote> {
    Some(LimitNote { limit_ns: 100 * US, at, on: Series::ReleaseLatency })
}

/// The files of `none` and `P` under `idle`, with this number of late releases on CPU 0, 1 and 2.
fn files(none: [usize; 3], p: [usize; 3]) -> Vec<RunFile> {
    let of = |tuning: &'static str, late: [usize; 3]| {
        (0_u32..).zip(late).map(move |(cpu, over)| on_cpu(tuning, "idle", cpu, over))
    };
    of("none", none).chain(of("P", p)).collect()
}

fn bench(limit: Option<LimitNote>) -> RunFile {
    let note = bench_note(&["none", "P"], &["idle"], limit);
    bench_file_of(onbeat::record::Bench { cpus: vec![0, 1, 2], ..note })
}

fn summary(limit: Option<LimitNote>, files: &[RunFile]) -> Summary {
    Summary::of_bench(&bench(limit), files)
}

#[test]
fn a_cell_is_its_worst_cpu_and_has_the_others_beside_it() {
    let summary = summary(limit(99.0), &files([0, 900, 30], [0, 0, 6]));
    let cells: Vec<(&str, Option<u32>)> =
        summary.cells.iter().map(|cell| (cell.tuning.as_str(), cell.cpu)).collect();
    assert_eq!(cells, [("none", Some(1)), ("P", Some(2))], "one cell for a tuning and a load");
    let none = &summary.cells[0];
    assert_eq!(none.cpus.iter().map(|of| of.cpu).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(none.file.as_deref(), Some("none-idle-cpu1.onbeat.hlog"));
    let max = |cpu: usize| none.cpus[cpu].figures.as_ref().unwrap().max_ns;
    assert!(max(0) < 100 * US && max(1) == 2_000 * US && max(2) == 2_000 * US);
}

#[test]
fn a_tuning_passes_only_where_every_cpu_does_and_the_sentence_names_the_worst() {
    let passes = summary(limit(99.0), &files([0, 900, 30], [0, 0, 6]));
    assert_eq!(passes.verdict.outcome, Some(Outcome::Pass), "{}", passes.verdict.sentence);
    assert_eq!(passes.verdict.best, Some(Cell { cpu: Some(2), ..cell("P", "idle") }));
    let sentence = &passes.verdict.sentence;
    assert!(
        sentence.contains("limit met with P") && sentence.contains("worst on CPU 2: "),
        "{sentence}"
    );

    let fails = summary(limit(99.0), &files([0, 1_200, 30], [0, 900, 0]));
    assert_eq!(fails.verdict.outcome, Some(Outcome::Fail), "one late CPU is enough");
    let sentence = &fails.verdict.sentence;
    assert!(
        sentence.contains("with any tuning") && sentence.contains("worst on CPU 1: "),
        "{sentence}"
    );
    let verdict = &closing::of(&fails)[0].text;
    assert!(verdict.contains("worst on CPU 1, 900 of 20,000 late"), "{verdict}");
}

#[test]
fn a_cpu_whose_file_is_missing_leaves_the_cell_open() {
    let mut all = files([0, 900, 30], [0, 0, 6]);
    all.retain(|file| file.header.cell != Some(Cell { cpu: Some(0), ..cell("P", "idle") }));
    let summary = summary(limit(99.0), &all);
    let p = summary.cell("P", "idle").unwrap().verdict.as_ref().unwrap();
    assert_eq!(p.outcome, Outcome::Inconclusive);
    assert!(p.sentence.ends_with("without samples: CPU 0"), "{}", p.sentence);
    let sentences = bench_sentences(&summary).join("\n");
    assert!(
        sentences.contains("No loop on CPU 0 with tuning P: its run file is missing"),
        "{sentences}"
    );
    let table = tables::by_tuning(&summary, "idle", Letters::Ascii).to_text(80);
    assert!(!table.contains('*'), "the files that are there are complete: {table}");
}

#[test]
fn a_cpu_that_the_shield_leaves_out_is_named_and_leaves_nothing_open() {
    let left = Cell { cpu: Some(0), ..cell("P", "idle") };
    let why_not = "the shield takes CPU 1-2 and leaves CPU 0 to all other programs".to_owned();
    let refused = CellNotPermitted { cell: left.clone(), why_not };
    let mut note = bench_note(&["none", "P"], &["idle"], limit(99.0));
    (note.cpus, note.not_permitted) = (vec![0, 1, 2], vec![refused]);
    let mut all = files([0, 900, 30], [0, 0, 6]);
    all.retain(|file| file.header.cell.as_ref() != Some(&left));
    let summary = Summary::of_bench(&bench_file_of(note), &all);
    assert_eq!(summary.verdict.outcome, Some(Outcome::Pass), "{}", summary.verdict.sentence);
    let sentences = bench_sentences(&summary).join("\n");
    assert!(
        sentences.contains("No loop on CPU 0 with tuning P: the shield takes CPU 1-2"),
        "{sentences}"
    );
    assert!(!sentences.contains("Not permitted"), "{sentences}");
}

#[test]
fn tables_and_lines_say_which_cpu_is_the_worst() {
    let summary = summary(None, &files([0, 900, 30], [0, 0, 6]));
    let sentence = &summary.verdict.sentence;
    assert!(sentence.starts_with("P is best") && sentence.contains("worst on CPU 2"), "{sentence}");
    let deadline = &summary.verdict.deadline.as_ref().unwrap().sentence;
    assert!(deadline.starts_with("worst on CPU "), "{deadline}");
    let table = tables::by_tuning(&summary, "idle", Letters::Ascii).to_text(80);
    let row = |tuning: &str| {
        let row = table.lines().find(|line| line.trim_start().starts_with(tuning)).unwrap();
        row.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert!(table.contains("CPU") && table.contains("from 0 to 2"), "{table}");
    assert_eq!((row("none"), row("P")), ("1".to_owned(), "2".to_owned()), "{table}");
    let worst = closing::of(&summary).into_iter().find(|line| line.label == "worst").unwrap();
    assert!(worst.text.starts_with("CPU 2 (P with no added load): "), "{}", worst.text);
}

#[test]
fn runs_are_compared_by_their_worst_cpus_and_exported_with_all() {
    let judged = |late: [usize; 3]| {
        let all = files([0, 900, 30], late).into_iter().chain([bench(None)]).collect();
        JudgedRun::new(all, JudgeBy::default()).unwrap()
    };
    let before = judged([0, 900, 0]);
    assert_eq!((before.runs.len(), before.other_cpus.len()), (2, 4));
    let mut csv = Vec::new();
    export::csv::write(before.runs.iter().chain(&before.other_cpus), &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",count,cpu"));
    for cpu in 0..3 {
        assert!(csv.lines().any(|line| line.ends_with(&format!(",{cpu}"))), "CPU {cpu}");
    }

    let shares = [Share::P50, Share::P99];
    let side = |name: &str, place, run| Digest::of_side(name, place, vec![run], &shares).unwrap();
    let (base, run) = (side("before", 0, before), side("after", 1, judged([0, 0, 6])));
    let cell = |of: &Digest| of.summary.cell("P", "idle").unwrap().clone();
    assert_eq!((cell(&base).cpu, cell(&run).cpu), (Some(1), Some(2)));
    let ratio =
        run.ratio_to(&base, (&cell(&run), &cell(&base)), (Series::ReleaseLatency, Share::P99));
    let ratio = ratio.unwrap();
    assert!(ratio.ratio < 0.1 && ratio.high.is_some(), "{ratio:?}");
}
