//! Figures of `onbeat watch` beside those of the programs themselves: tests/watch/beside.py.
//!
//! Compared are counts of the same cycles, and ratios: the machine may be as slow as it likes.

use std::collections::BTreeSet;
use std::process::Command;

use onbeat::cause::Tracefs;
use serde_json::Value;

/// Programs that note each cycle with its time.
const WITH_STAMPS: [&str; 4] = ["C absolute", "C realtime", "C timerfd", "C relative"];
/// Part of some seconds for which the machine may stop; neither half nor twice the periods are
/// within.
const PTP_STOPPED: f64 = 0.4;
/// Programs that nobody here wrote, and a loop in Python.
const OF_OTHERS: [&str; 4] = ["cyclictest", "Python asyncio", "jackd", "ptp4l"];

/// Runs the comparison; prints why a program was not run, and returns the others.
fn compared(names: &[&str]) -> Vec<Value> {
    if let Err(why) = Tracefs::open().and_then(|tracefs| tracefs.instances()) {
        println!("skipped: {why}");
        return Vec::new();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/watch/beside.py");
    let output = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_onbeat"), "--json", "--for", "2s", "--at-once", "2"])
        .args(names)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(why) => {
            println!("skipped: python3 does not start: {why}");
            return Vec::new();
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered: BTreeSet<&str> =
        lines.iter().map(|line| line["program"].as_str().unwrap()).collect();
    assert_eq!(answered, names.iter().copied().collect(), "each program is answered for");
    let (skipped, run): (Vec<Value>, Vec<Value>) =
        lines.into_iter().partition(|line| line["not_run"].is_string());
    for line in skipped {
        println!("skipped: {}: {}", line["program"], line["not_run"]);
    }
    run
}

fn number(line: &Value, of: &str, what: &str) -> f64 {
    line[of][what].as_f64().unwrap_or_else(|| panic!("{of} {what} of {line}"))
}

/// The way back to the program is in its own figures alone.
fn is_a_part(watch: f64, own: f64) -> bool {
    (0.25..=1.05).contains(&(watch / own))
}

#[test]
fn programs_that_note_their_cycles_had_as_many_as_were_seen_live() {
    for line in compared(&WITH_STAMPS) {
        let (own, seen) = (number(&line, "own", "cycles"), number(&line, "watch", "slots"));
        let skipped = number(&line, "watch", "skipped");
        let not_seen = number(&line, "watch", "not seen");
        let program = line["program"].as_str().unwrap();
        match program {
            // Each release is on a grid: of a timerfd those that passed have no note, and one that was
            // not seen may be one of them. A late read notes the last of those that passed, which of
            // the last cycle may be behind the end.
            "C timerfd" => {
                assert!(own <= seen && seen <= own + skipped + not_seen + 1.0, "{line}");
            }
            "C relative" => {
                assert!((own - seen).abs() <= 0.01 * own + 3.0 + not_seen, "{line}");
            }
            _ => assert!((own - seen).abs() <= 0.0, "{line}"),
        }
        let p50 = ["watch", "own"].map(|of| number(&line, of, "p50"));
        assert!(is_a_part(p50[0], p50[1]), "{line}");
        if not_seen <= 0.0 && program != "C timerfd" {
            let most = ["watch", "own"].map(|of| number(&line, of, "max"));
            assert!(most[0] <= most[1] * 1.05, "no cycle was later than the program saw: {line}");
        }
    }
}

#[test]
fn programs_of_others_have_the_cycles_and_periods_that_they_say_live() {
    for line in compared(&OF_OTHERS) {
        let (own, seen) = (number(&line, "own", "cycles"), number(&line, "watch", "slots"));
        let program = line["program"].as_str().unwrap();
        // Without a grid, cycles for which the program did not wait are not seen.
        let at_once = line["own"]["without a wait"].as_f64().unwrap_or(0.0);
        let few = 0.02 * own + 3.0 + number(&line, "watch", "not seen");
        match program {
            "Python asyncio" => {
                assert!(own - at_once - few <= seen && seen <= own + few, "{line}");
            }
            // It says a count before and one after, of a longer time: stops of the machine may be
            // in one of both alone.
            "ptp4l" => assert!((own - seen).abs() <= PTP_STOPPED * own + 1.0, "{line}"),
            _ => assert!((own - seen).abs() <= few, "{line}"),
        }
        let p50 = ["watch", "own"].map(|of| number(&line, of, "p50"));
        let is_latency = line["series"] == "release_latency";
        let ratio = p50[0] / p50[1];
        // Its own is a mean, which stops of the machine make longer.
        let least = if program == "ptp4l" { 1.0 - PTP_STOPPED } else { 0.95 };
        assert!(
            if is_latency { is_a_part(p50[0], p50[1]) } else { (least..=1.05).contains(&ratio) },
            "{line}"
        );
    }
}
