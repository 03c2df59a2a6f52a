//! Tables fit a terminal of 80 columns, and say what their figures rest on.

use std::collections::BTreeMap;

use crate::report_world::{MS, US, bench_file, cell, run_in_memory};
use onbeat::cause::CauseKind;
use onbeat::record::{CauseCount, CellNotPermitted, CulpritCount, RunFile, Series};
use onbeat::thread::Grant;
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::table::{Column, Mark, Row};
use onbeat_report::units::{self, Letters};
use onbeat_report::{Limit, Summary, Table, by_load, compare_tables, tables};

const TUNINGS: [&str; 9] = ["none", "M", "C", "MC", "P", "PM", "PC", "PMC", "PMCS"];

fn is_within(text: &str, width: usize) {
    for line in text.lines() {
        assert!(
            line.chars().count() <= width,
            "{} characters: {line:?}\n{text}",
            line.chars().count()
        );
    }
}

/// A cell of `n` cycles, most of them near `median_ns`, with a tail up to `max_ns`.
fn with_tail(tuning: &str, load: &str, median_ns: u64, max_ns: u64) -> RunFile {
    let n = 6_000_u64;
    let late = |i: u64| {
        let tail = (i as f64 / n as f64).powi(40);
        median_ns + i % 1000 + ((max_ns - median_ns) as f64 * tail) as u64
    };

    let mut latencies: Vec<u64> = (1..=n).map(late).collect();
    latencies[n as usize - 1] = max_ns;
    let mut file = run_in_memory(
        tuning,
        load,
        &latencies.chunks(1_000).map(<[u64]>::to_vec).collect::<Vec<_>>(),
    );
    file.intervals[0].deadline_misses = 4_321;
    file
}

/// The nine tunings of the paper: those without P late by a third of a second, as in its figure 8.
fn paper(limit: Option<Limit>) -> Summary {
    let files: Vec<RunFile> = ["idle", "paper"]
        .into_iter()
        .flat_map(|load| {
            TUNINGS.map(|tuning| match tuning.contains('P') {
                true => with_tail(tuning, load, 12 * US, 1_510 * US),
                false => with_tail(tuning, load, 1_643 * US, 346_148 * US),
            })
        })
        .collect();
    Summary::of_bench(&bench_file(&TUNINGS, &["idle", "paper"], limit), &files)
}

#[test]
fn every_table_of_the_paper_s_bench_fits_80_columns() {
    let summary = paper(Some(Limit { limit_ns: 100 * US, at: 99.99, on: Series::ReleaseLatency }));
    for letters in [Letters::Ascii, Letters::Unicode] {
        for load in &summary.loads {
            is_within(&tables::by_tuning(&summary, load, letters).to_text(80), 80);
            is_within(
                &tables::full(&summary, load, Series::ReleaseLatency, letters).to_text(80),
                80,
            );
        }
        is_within(&tables::limit(&summary, letters).unwrap().to_text(80), 80);
        is_within(&tables::effects(&summary, letters).unwrap().to_text(80), 80);
    }
}

#[test]
fn tables_fit_however_long_the_latencies_are() {
    for max_ns in [2_100, 99_950, 999_500, 9_999_500, 999_999_999, 9_999_999_999, 900_000 * MS] {
        let files = TUNINGS.map(|tuning| with_tail(tuning, "paper", 2_000, max_ns));
        let summary = Summary::of_bench(&bench_file(&TUNINGS, &["paper"], None), &files);
        is_within(&tables::by_tuning(&summary, "paper", Letters::Ascii).to_text(80), 80);
        is_within(
            &tables::full(&summary, "paper", Series::ReleaseLatency, Letters::Ascii).to_text(80),
            80,
        );
    }
}

#[test]
fn the_nine_tunings_of_the_paper_stand_beside_each_other() {
    let text = tables::by_tuning(&paper(None), "paper", Letters::Ascii).to_text(80);
    assert_eq!(text.matches("tuning").count(), 1, "{text}");
    assert_eq!(text.lines().count(), 13, "title, a gap, heads, nine tunings, a legend\n{text}");
    let text =
        tables::full(&paper(None), "paper", Series::ReleaseLatency, Letters::Ascii).to_text(80);
    assert_eq!(text.matches("99.999%").count(), 1, "{text}");
}

#[test]
fn a_row_has_figures_rounded_to_their_certainty_and_marks_those_that_few_samples_carry() {
    let mut latencies = vec![vec![17_100; 999]; 6];
    latencies[0].extend([1_234_000; 6]);
    let mut file = run_in_memory("P", "idle", &latencies);
    file.end = None;
    let summary = Summary::of_run(&file, None);
    let table = tables::by_tuning(&summary, "idle", Letters::Ascii);

    assert_eq!(table.title, "release latency with no added load, us; 6,000 samples");
    let texts: Vec<&str> = table.rows[0].entries.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(
        texts,
        ["P*", "17.1", "18.3", "1,234", "38.5", "17.1", "17.1", "~17.1", "~1,234", "0", "0"]
    );
    assert_eq!(
        (table.rows[0].entries[7].mark, table.rows[0].entries[3].mark),
        (Mark::Unsupported, Mark::Plain)
    );
    assert_eq!(
        table.legend[..3],
        [
            "P real-time priority",
            "~ fewer than 10 samples beyond this value",
            "* truncated; figures from the recorded part"
        ]
    );
}

#[test]
fn a_cell_that_was_not_permitted_has_a_row_that_says_why() {
    let mut asked = bench_file(&["none", "P"], &["idle"], None);
    let refused =
        CellNotPermitted { cell: cell("P", "idle"), why_not: "RLIMIT_RTPRIO is 0".to_owned() };
    asked.bench.as_mut().unwrap().not_permitted.push(refused);
    let summary = Summary::of_bench(&asked, &[with_tail("none", "idle", US, MS)]);
    let table = tables::by_tuning(&summary, "idle", Letters::Ascii);

    assert!(table.rows[1].entries[1..].iter().all(|entry| entry.text == "-"));
    let said = onbeat_report::bench_sentences(&summary);
    assert_eq!(
        said.iter().filter(|sentence| sentence.contains("RLIMIT_RTPRIO")).count(),
        1,
        "{said:?}"
    );
    assert!(said.contains(&"Not permitted: P: RLIMIT_RTPRIO is 0".to_owned()), "{said:?}");
}

#[test]
fn the_full_table_has_the_rows_of_the_paper() {
    let table = tables::full(&paper(None), "paper", Series::ReleaseLatency, Letters::Unicode);
    assert_eq!(
        table.title,
        "release latency under the 2009 stress mix (`paper`), µs; 6,000 samples each"
    );
    let names: Vec<String> = table
        .rows
        .iter()
        .map(|row| format!("{} {}", row.entries[0].text, row.entries[1].text))
        .collect();
    let expected = [
        " min",
        "99% max",
        " avg",
        " SD",
        "99.9% ~max",
        " ~avg",
        " ~SD",
        "99.99% ~max",
        " ~avg",
        " ~SD",
        "99.999% ~max",
        " ~avg",
        " ~SD",
        "100% max",
        " avg",
        " SD",
        "jitter ",
        "tail ",
    ];

    assert_eq!(names, expected);
    let max: Vec<&str> =
        table.rows[13].entries[2..].iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(
        max,
        ["346,148", "346,148", "346,148", "346,148", "1,510", "1,510", "1,510", "1,510", "1,510"]
    );
    let [six_above, observed] = [4, 13].map(|row: usize| &table.rows[row].entries[2]);
    assert_eq!(
        (six_above.mark, observed.mark),
        (Mark::Unsupported, Mark::Plain),
        "6,000 less 5,994 are six"
    );
    assert!(!six_above.text.starts_with('~'), "the row's name carries the sign");
}

#[test]
fn where_only_some_tunings_support_a_row_their_figures_carry_the_sign() {
    let long =
        run_in_memory("none", "paper", &[(0..20_000).map(|i| 10_000 + i).collect::<Vec<u64>>()]);
    let summary = Summary::of_bench(
        &bench_file(&["none", "P"], &["paper"], None),
        &[long, with_tail("P", "paper", US, MS)],
    );
    let table = tables::full(&summary, "paper", Series::ReleaseLatency, Letters::Ascii);
    let row: Vec<&str> = table.rows[4].entries.iter().map(|entry| entry.text.as_str()).collect();

    assert_eq!(row[..3], ["99.9%", "max", "29.98"]);
    assert!(row[3].starts_with('~'), "{row:?}");
}

#[test]
fn a_long_name_is_cut_and_wide_characters_take_two_columns() {
    let of = |name: &str| Table {
        title: "latency".to_owned(),
        columns: vec![
            Column::words("run"),
            Column::figures("min"),
            Column::figures("avg"),
            Column::figures("max"),
        ],
        rows: vec![Row {
            entries: vec![name.into(), "3.77".into(), "22.7".into(), "124".into()],
            begins_group: false,
        }],
        legend: Vec::new(),
    };
    let name = "results_of_the_nightly_job_with_a_name_that_is_longer_than_a_terminal_is_wide";
    let text = of(name).to_text(80);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[3], format!("{}  3.77  22.7  124", &name[..40]));
    assert_eq!(lines[4], &name[40..]);

    let text = of(&"延迟".repeat(20)).to_text(80);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[3], format!("{}  3.77  22.7  124", "延迟".repeat(10)));
    assert_eq!(lines.len(), 5, "{text}");
    let fits = of("延迟").to_text(80);
    assert!(fits.contains("\nrun    min   avg  max\n延迟  3.77  22.7  124\n"), "{fits}");
}

#[test]
fn markdown_has_a_rule_under_its_heads_and_as_many_cells_in_every_row() {
    let markdown =
        tables::full(&paper(None), "paper", Series::ReleaseLatency, Letters::Ascii).to_markdown();
    let lines: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(lines.len(), 2 + 18);
    assert!(lines.iter().all(|line| line.matches('|').count() == 12), "{markdown}");
    assert!(lines[1].starts_with("| --- | --- | ---: |"));
}

#[test]
fn the_limit_s_table_says_the_outcome_in_words() {
    let summary = paper(Some(Limit { limit_ns: 2 * MS, at: 99.9, on: Series::ReleaseLatency }));
    let table = tables::limit(&summary, Letters::Ascii).unwrap();
    assert_eq!(
        table.title,
        "99.9 % of releases within 2 ms: releases over the limit / all releases"
    );
    let text_and_mark =
        |row: usize| (table.rows[row].entries[1].text.clone(), table.rows[row].entries[1].mark);

    assert_eq!(text_and_mark(4), ("INCONCLUSIVE 0/6,000".to_owned(), Mark::Open));
    // Its late releases are in few intervals, each of which may be one outage.
    assert_eq!(text_and_mark(0), ("INCONCLUSIVE 948/6,000".to_owned(), Mark::Open));
    let all_late = paper(Some(Limit { limit_ns: 1, at: 99.9, on: Series::ReleaseLatency }));
    let table = tables::limit(&all_late, Letters::Ascii).unwrap();
    assert_eq!(table.rows[0].entries[1].mark, Mark::Bad);
    assert!(tables::limit(&paper(None), Letters::Ascii).is_none());
}

#[test]
fn the_ladder_lists_what_was_not_granted_and_what_would_grant_it() {
    let grant = |what: &str, granted: bool| {
        Grant {
        what: what.to_owned(),
        wanted: "priority 98 on CPU 1, for the loop and for nothing else, from its first to its last cycle".to_owned(),
        granted,
        why_not: (!granted).then(|| "RLIMIT_RTPRIO is 0".to_owned()),
        costs: (!granted)
            .then(|| "other threads of the same CPU run first, which is late by their whole slice of 4 ms".to_owned()),
        remedy: (!granted).then(|| "sudo setcap cap_sys_nice+ep ./onbeat".to_owned()),
    }
    };

    let table = tables::ladder(&[grant("SCHED_FIFO 98", false), grant("locked memory", true)]);
    assert_eq!(
        (table.rows[0].entries[2].mark, table.rows[1].entries[2].mark),
        (Mark::Bad, Mark::Good)
    );
    let text = table.to_text(80);
    is_within(&text, 80);
    assert!(text.contains("\nSCHED_FIFO 98: RLIMIT_RTPRIO is 0\n"), "{text}");
    assert!(text.contains("\n  to grant it: sudo setcap cap_sys_nice+ep ./onbeat\n"), "{text}");
    // A line that is folded is as far to the right as one that is not.
    assert!(text.contains("\n  effect: other threads of the same CPU run first, which is late by their\n    whole slice of 4 ms\n"), "{text}");
}

#[test]
fn a_table_that_is_too_wide_goes_on_below_with_its_labels() {
    let mut table = Table { title: "wide".to_owned(), ..Table::default() };
    table.columns =
        vec![Column::words("tuning"), Column::figures("first"), Column::figures("second")];
    let entries = ["PMCS", "1234567890", "1234567890"].map(Into::into).to_vec();
    table.rows = vec![Row { entries, begins_group: false }];

    assert_eq!(
        table.to_text(18),
        "wide\n\ntuning       first\nPMCS    1234567890\n\ntuning      second\nPMCS    1234567890\n"
    );
}

#[test]
fn times_have_three_digits_and_a_suitable_unit() {
    let formatted = |ns: f64| units::time(ns, Letters::Ascii);
    let times =
        [0.0, 44.0, 999.4, 999.6, 17_123.0, 999_600.0, 1_071_000.0, 346_148_000.0, 2_300_000_000.0];
    let words =
        ["0 ns", "44 ns", "999 ns", "1 us", "17.1 us", "1 ms", "1.07 ms", "346 ms", "2.3 s"];
    assert_eq!(times.map(formatted), words);
    assert_eq!(units::time_ns(17_100, Letters::Unicode), "17.1 µs");
    assert_eq!(formatted(100_000.0), "100 us", "zeros before the point stay");
}

#[test]
fn counts_rates_and_lists_read_as_words() {
    assert_eq!(
        (units::count(1_234_567), units::count(999)),
        ("1,234,567".to_owned(), "999".to_owned())
    );
    assert_eq!(
        (units::percent(0.000_129_4), units::percent(0.0)),
        ("0.0129 %".to_owned(), "0 %".to_owned())
    );
    assert_eq!(
        (units::ratio(61.2), units::ratio(0.98), units::ratio(0.0612)),
        ("61".to_owned(), "0.98".to_owned(), "0.061".to_owned())
    );
    let words = |n: usize| units::listed(&["a", "b", "c"].map(str::to_owned)[..n]);

    assert_eq!([words(0), words(1), words(2), words(3)], ["", "a", "a and b", "a, b and c"]);
}

#[test]
fn compared_spikes_that_were_not_analysed_are_not_called_unexplained() {
    let run = run_in_memory("P", "idle", &[vec![9_000; 999]]);
    let digest = |place, not_analysed| {
        let mut summary = Summary::of_run(&run, None);
        let why = CulpritCount { spikes: not_analysed, worst_ns: 0 };
        let culprits = BTreeMap::from([("too many spikes at once".to_owned(), why)]);
        let spikes = CauseCount { spikes: 5, culprits, ..CauseCount::default() };
        summary.cells[0].causes.insert(CauseKind::Unexplained, spikes);
        Digest::new("r", place, summary, std::slice::from_ref(&run), &SHARES)
    };
    let rows_of = |not_analysed| {
        let compared = Comparison::new(&[digest(0, not_analysed), digest(1, not_analysed)]);
        let table = compare_tables::causes(&compared, compared.main()[0]).unwrap();
        let row = |row: &Row| row.entries.iter().map(|entry| entry.text.clone()).collect();
        table.rows.iter().map(row).collect::<Vec<Vec<String>>>()
    };
    assert_eq!(rows_of(3), [["unexplained", "2", "2"], ["not analysed", "3", "3"]]);
    assert_eq!(rows_of(5), [["not analysed", "5", "5"]]);
}

#[test]
fn a_setting_that_differs_between_the_cells_of_a_bench_is_not_called_unrecorded() {
    let with = |priority| {
        let mut run = run_in_memory("P", "idle", &[vec![9_000; 999]]);
        run.header.timing.as_mut().unwrap().priority = priority;
        run
    };
    let digest = |place, files: &[RunFile]| {
        Digest::new("r", place, Summary::of_run(&files[0], None), files, &SHARES)
    };
    let compared = Comparison::new(&[digest(0, &[with(98), with(0)]), digest(1, &[with(98)])]);
    let found: Vec<&str> = compared.differences.iter().map(|one| one.fact.as_str()).collect();
    assert_eq!(found, ["priority"], "what all cells have in common is compared");
    let values = ["by cell", "98"].map(|value| Some(value.to_owned()));
    assert_eq!(compared.differences[0].values, values);
}

/// The same figure, with and without `~`, in every table and sentence: an exact half goes up, as on the
/// page.
#[test]
fn the_largest_observed_value_has_the_same_digits_everywhere() {
    for (max_ns, digits) in [
        (100_500_u64, "101"),
        (17_250, "17.3"),
        (999_500, "1,000"),
        (123_499, "123"),
        (12_350, "12.4"),
        (104_500, "105"),
    ] {
        let mut latencies = vec![vec![9_000; 999]; 6];
        latencies[0].extend([max_ns; 6]);
        let run = run_in_memory("P", "idle", &latencies);
        let summary = Summary::of_run(&run, None);
        let in_table = tables::by_tuning(&summary, "idle", Letters::Ascii);
        let by_load = by_load::table(&summary, Series::ReleaseLatency, Letters::Ascii);
        let digest = |place| {
            let files = std::slice::from_ref(&run);
            Digest::new("r", place, Summary::of_run(&run, None), files, &SHARES)
        };
        let compared = Comparison::new(&[digest(0), digest(1)]);
        let figures = compare_tables::figures(&compared, compared.main()[0], Letters::Ascii);
        // One row per load has no percentile that few samples carry.
        for (table, least) in [(in_table, 2), (by_load, 1), (figures, 2)] {
            let texts: Vec<String> =
                table.rows[0].entries.iter().map(|entry| entry.text.replace(',', "")).collect();
            let plain = digits.replace(',', "");
            let wanted = [plain.clone(), format!("~{plain}")];
            assert!(wanted.iter().any(|text| texts.contains(text)), "{max_ns}: {texts:?}");
            let of_max = texts.iter().filter(|text| wanted.contains(text)).count();
            assert!(of_max >= least, "{max_ns}, with and without the sign: {texts:?}");
        }
        let spoken = units::time_ns(max_ns, Letters::Ascii);
        let expected = if digits == "1,000" { "1 ms".to_owned() } else { format!("{digits} us") };
        assert_eq!(spoken, expected);
    }
}
