//! A run file with any numbers is reported, or refused with one sentence.

use std::fs;
use std::path::{Path, PathBuf};

use onbeat::record::RunFile;
use onbeat_report::{JudgeBy, JudgedRun};

/// Numbers that a report divides by, multiplies and allocates for.
const NUMBERS: [&str; 14] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "1e-300",
    "1e-9",
    "1e9",
    "1e30",
    "1e308",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551615",
    "-9223372036854775808",
    "4294967296",
];

fn golden() -> Vec<PathBuf> {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs");
    ["latency/latency", "before/timer", "bench/S-idle", "sweep/write-idle"]
        .map(|name| runs.join(format!("{name}.onbeat.hlog")))
        .to_vec()
}

/// Reports a file; returns the sentence with which it is refused.
fn reported(bytes: &[u8]) -> Option<String> {
    let run = match RunFile::parse(Path::new("run.onbeat.hlog"), bytes) {
        Ok(run) => run,
        Err(why) => return Some(why.to_string()),
    };
    let JudgedRun { mut summary, runs, .. } = JudgedRun::new(vec![run], JudgeBy::default())?;
    summary.conclude(&runs, Some(3600.0));
    assert!(!serde_json::to_string(&summary).unwrap().is_empty());
    None
}

/// Where the numbers of a text are, outside of histograms.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bytes = line.as_bytes();
        let end = line.find(",HISTF").unwrap_or(line.len());
        let mut place = 0;
        while place < end {
            let is_number = |byte: &u8| byte.is_ascii_digit() || b"-+.e".contains(byte);
            let begins = bytes[place].is_ascii_digit()
                && place.checked_sub(1).is_some_and(|before| b":,[".contains(&bytes[before]));
            let length = bytes[place..end].iter().take_while(|byte| is_number(byte)).count();
            if begins {
                found.push((at + place, at + place + length));
            }
            place += length.max(1);
        }
        at += line.len();
    }
    found
}

#[test]
fn a_number_out_of_range_gives_a_report_or_one_sentence() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut reports, mut refusals) = (0, 0);
    for path in golden() {
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(reported(text.as_bytes()), None);
        let places = numbers(&text);
        assert!(places.len() > 20);
        for _ in 0..60 {
            let mut changed = text.clone();
            let mut chosen: Vec<_> = (0..3).map(|_| *random.choice(&places).unwrap()).collect();
            chosen.sort_unstable();
            chosen.dedup();
            for (from, to) in chosen.into_iter().rev() {
                changed.replace_range(from..to, random.choice(NUMBERS).unwrap());
            }
            match reported(changed.as_bytes()) {
                None => reports += 1,
                Some(why) => {
                    refusals += 1;
                    assert!(!why.is_empty() && !why.contains('\n'), "{why}");
                }
            }
        }
    }
    assert!(reports > 0 && refusals > 0, "{reports} reports, {refusals} refusals");
}

#[test]
fn steps_of_any_length_are_reported_or_refused() {
    let text = fs::read_to_string(&golden()[0]).unwrap();
    let places = "AAAA".repeat(40);
    for every in ["0", "-1.0", "1e-300", "1e-10", "1e-9", "1.0", "1e9", "1e10", "1e30"] {
        for t in ["0.0", "-1e30", "1e30", "1e-300"] {
            let trend = format!(
                "#[onbeat: {{\"trend\":{{\"t\":{t},\"every\":{every},\"cycles\":0,\"series\":\"release_latency\",\
                 \"min\":\"{places}\",\"p50\":\"{places}{}\",\"p90\":\"{places}{}\",\"max\":\"{places}\"}}}}]\n",
                "AA".repeat(40), "AA".repeat(40),
            )
            .replace("AA", "BB");
            let twice = format!("{text}{trend}{}", trend.replace(t, "7.0"));
            let refused = reported(twice.as_bytes());
            let in_range = matches!(every, "1e-9" | "1.0" | "1e9");
            assert_eq!(refused.is_none(), in_range, "{every} {t}: {refused:?}");
        }
    }
}

#[test]
fn a_histogram_line_with_times_out_of_range_is_refused() {
    let text = fs::read_to_string(&golden()[0]).unwrap();
    let at = text.find("\n0.069,1.000,").unwrap() + 1;
    for times in ["NaN,1.000", "inf,1.000", "0.069,-1.0", "1e300,1.000", "0.069,1e300"] {
        let mut changed = text.clone();
        changed.replace_range(at..at + "0.069,1.000".len(), times);
        let why = reported(changed.as_bytes()).unwrap();
        assert!(why.contains("histogram line"), "{times}: {why}");
    }
}

/// Instants pass 2^53 ns after 104 days of uptime; what counts is added up and must not overflow.
#[test]
fn a_long_uptime_is_reported_and_sums_that_cannot_be_are_refused() {
    let text = fs::read_to_string(&golden()[0]).unwrap();
    let instants = "\"release_ns\":17281034163352562,\"expiry_ns\":17281034163352562,\
                    \"start_ns\":17281034163952562,\"end_ns\":17281034163972562";
    let window = format!(
        "#[onbeat: {{\"window\":{{\"block\":0,\"index\":1,{instants},\"spun_ns\":0,\
         \"planned_work_ns\":0,\"tid\":1,\"cpu\":0,\"prio\":120,\"events\":0,\"left_out\":0,\
         \"packed\":\"\"}}}}]\n"
    );
    assert_eq!(reported(format!("{text}{window}").as_bytes()), None);

    let interval = text.lines().find(|line| line.starts_with("#[onbeat: {\"interval\"")).unwrap();
    let lost = text.replacen(&format!("{interval}\n"), "", 1);
    let why = reported(lost.as_bytes()).unwrap();
    assert!(why.contains("line 45: it closes 2963 cycles"), "{why}");
    let cycles = interval.split("\"cycles\":").nth(1).unwrap().split(',').next().unwrap();
    let largest = interval.replacen(
        &format!("\"cycles\":{cycles},"),
        &format!("\"cycles\":{},", 1_u64 << 53),
        1,
    );
    let many = format!("{text}{}", format!("{largest}\n").repeat(2_100));
    let why = reported(many.as_bytes()).unwrap();
    assert!(why.contains("add up to more than 2^60"), "{why}");
}
