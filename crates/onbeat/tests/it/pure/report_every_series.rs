//! Conclusions are drawn of every series and every import, and what cannot be concluded is said
//! with its reason.

use std::io::Cursor;
use std::path::Path;

use crate::report_days::{Day, Draws, MS, Noise, US};
use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, SourceOptions};
use onbeat::record::{Cell, RunFile, Series};
use onbeat_report::{Conclusions, conclusions, imported};

fn imported(text: &str, asked: &SourceOptions) -> RunFile {
    let stream = import::read(&mut Cursor::new(text.as_bytes()), asked).unwrap().remove(0);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let cell = Cell::new("a run", "unknown");
    let labels =
        ImportLabels { command: vec!["onbeat".to_owned()], file: "source".to_owned(), cell };
    import::write(&stream, &labels, &path).unwrap();

    RunFile::read(&path).unwrap()
}

fn concluded(run: &RunFile) -> Conclusions {
    conclusions::of_run(run, None, None)
}

/// All that is said of an imported run.
fn sections(run: &RunFile) -> String {
    let mut summary = imported::summary(std::slice::from_ref(run), None).unwrap();
    summary.conclude(std::slice::from_ref(run), None);
    let sections = conclusions::sections(&summary).into_iter();
    sections.map(|(heading, sentences)| format!("{heading}\n{}\n", sentences.join("\n"))).collect()
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_files").join(name),
    )
    .unwrap()
}

/// An interval log of the given length as HistogramLogWriter makes them: noise, and periodically a
/// value of 5 ms.
fn interval_log(seconds: u64, every: u64) -> String {
    use base64::Engine;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    let mut noise = Noise::seeded(3);
    let mut text =
        String::from("#[Histogram log format version 1.2]\n#[StartTime: 1763712000.000]\n");
    for second in 0..seconds {
        let mut counts = onbeat::record::empty_counts(Series::Hiccup);
        (0..50).for_each(|_| counts.record(noise.next_ns().min(150 * US)).unwrap());
        if second % every == 7 {
            counts.record(5 * MS).unwrap();
        }

        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&counts, &mut bytes).unwrap();
        let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
        text.push_str(&format!("{second}.000,1.000,5.0,{encoded}\n"));
    }

    text
}

#[test]
fn an_interval_log_keeps_its_trend_and_shows_what_recurs_in_it() {
    let asked = SourceOptions { series: Some(Series::Hiccup), ..SourceOptions::default() };
    let run = imported(&interval_log(7200, 23), &asked);
    let all = concluded(&run);
    assert_eq!((all.series, all.modes.steps), (Series::Hiccup, 7200));
    assert!(
        all.modes.found.len() == 1 && (all.modes.found[0].period_s / 23.0 - 1.0).abs() < 0.01,
        "{}",
        all.modes.sentence
    );
    let sentence = &all.modes.found[0].sentence;

    assert!(
        sentence.starts_with("+4.9") && sentence.contains("in single samples every 23 s"),
        "{sentence}"
    );
    assert!(!sentence.contains("cycle"), "no loop is known: {sentence}");
    let still = concluded(&imported(&interval_log(600, 1_000_000), &asked));
    assert!(
        still
            .modes
            .sentence
            .starts_with("No periodic interference found: nothing in 600 steps of 1 s"),
        "{}",
        still.modes.sentence
    );
}

#[test]
fn samples_with_times_show_what_recurs_between_their_steps() {
    let (mut noise, mut text) = (Noise::seeded(4), String::from("time_s,latency_us\n"));
    for k in 0..60_000_u64 {
        let late_ns = if k % 137 == 30 { 900 * US } else { 0 };
        text.push_str(&format!(
            "{}.{:03},{:.1}\n",
            k / 1000,
            k % 1000,
            (noise.next_ns() + late_ns) as f64 / 1e3
        ));
    }

    let all = concluded(&imported(&text, &SourceOptions::default()));
    assert_eq!(all.modes.found.len(), 1, "{}", all.modes.sentence);
    assert!((all.modes.found[0].period_s / 0.137 - 1.0).abs() < 0.001, "{}", all.modes.sentence);
    let backwards: String = text
        .lines()
        .take(1)
        .chain(text.lines().skip(1).collect::<Vec<_>>().into_iter().rev())
        .map(|line| format!("{line}\n"))
        .collect();

    assert!(imported(&backwards, &SourceOptions::default()).trends.is_empty());
}

#[test]
fn equal_samples_with_times_have_no_modes() {
    let mut draws = Draws(5);
    let line = |k: u64| format!("{}.{:03},{}\n", k / 1000, k % 1000, 20 + draws.next() % 3);
    let text: String =
        std::iter::once("time_s,latency_us\n".to_owned()).chain((0..60_000).map(line)).collect();
    let all = concluded(&imported(&text, &SourceOptions::default()));
    assert_eq!(all.modes.found.len(), 0, "{}", all.modes.sentence);
}

#[test]
fn imports_without_times_say_so_and_no_nonsense() {
    for name in [
        "cyclictest.json",
        "cyclictest-h.txt",
        "oslat.json",
        "rtla-timerlat.txt",
        "rtla-osnoise.txt",
        "stress-ng.log",
    ] {
        let said = sections(&imported(&fixture(name), &SourceOptions::default()));
        assert!(
            said.contains("No search for periodic interference: its source ("),
            "{name}: {said}"
        );
        assert!(said.contains("No estimate of the worst case: its source ("), "{name}: {said}");
        assert!(said.contains("Tail versus normal distribution\n"), "{name}: {said}");
        for nonsense in ["-0 ", "recorded by onbeat", "measure for", "NaN", "inf", " 0 ns"] {
            assert!(!said.contains(nonsense), "{name}: `{nonsense}` in {said}");
        }
    }
}

#[test]
fn other_series_of_a_run_are_looked_at_as_well() {
    let late = |second: f64, _| if second % 60.0 < 6.0 { 400 * US } else { 0 };
    let all = concluded(&Day::at(10 * MS).seconds(900).seeded(1).recorded(late));
    assert_eq!(all.series, Series::ReleaseLatency);
    let response = all.others.iter().find(|other| other.series == Series::ResponseTime).unwrap();

    assert!(
        response.modes.found.iter().any(|mode| (mode.period_s / 60.0 - 1.0).abs() < 0.01),
        "{}",
        response.modes.sentence
    );
    assert!(response.normal.as_ref().unwrap().sentence.contains("response time"));
    assert!(response.extremes.largest_ns > 400e3);
}
