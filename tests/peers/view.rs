//! What a live view costs the loop that it shows, and a core: the same robot alone, and with a
//! browser's connection that reads every event, in turns.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::Length;
use crate::failure::Failure;
use crate::table::{Finding, Part, format_times};
use crate::turns::{self, Contestant, Spread, in_turns};

/// The largest part of a core that the view may take.
const MOST_OF_A_CORE: f64 = 0.02;

type Figure = fn(&Ran) -> f64;

/// One run: times in ns.
#[derive(Clone, Copy, Debug)]
struct Ran {
    wakeup_p99: f64,
    wakeup_p999: f64,
    execution_p999: f64,
    /// Part of a core that the view's thread took; 0 without one.
    of_a_core: f64,
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds = length.pick(10, 2);
    let rounds = length.pick(7, 1);
    let title = format!(
        "A walking humanoid at 1 kHz with a browser's live view, beside the same without: {} of {seconds} s each",
        turns::describe(rounds)
    );

    let mut viewed = |_: u32| robot(seconds, true);
    let mut alone = |_: u32| robot(seconds, false);
    let mut all: [Contestant<'_, Ran>; 2] = [&mut viewed, &mut alone];
    let runs = in_turns(rounds, &mut all)?;
    let figures =
        |who: usize, figure: Figure| -> Vec<f64> { runs[who].iter().map(figure).collect() };

    let mut part = Part::new(title, "without");
    let rows: [(&str, Figure); 3] = [
        ("p99 wake-up latency", |ran| ran.wakeup_p99),
        ("p99.9 wake-up latency", |ran| ran.wakeup_p999),
        ("p99.9 execution time", |ran| ran.execution_p999),
    ];
    for (what, figure) in rows {
        let (ours, theirs) = (figures(0, figure), figures(1, figure));
        let median = |times: &[f64]| format_times(Spread::from_figures(times.iter().copied()));
        let ratio = Spread::of_ratios(&ours, &theirs);
        // An effect is visible when no pair of runs is without it.
        let is_hidden = ratio.is_some_and(|ratio| ratio.low <= 1.0);
        part.add(
            Finding::new(what, median(&ours))
                .beside(median(&theirs))
                .with_ratio(ratio)
                .with_goal("1 in the interval", is_hidden),
        );
    }

    let shares = Spread::from_figures(figures(0, |ran| ran.of_a_core));
    let words = shares.map_or_else(
        || "none".to_owned(),
        |share| {
            format!(
                "{:.2} % ({:.2}..{:.2})",
                100.0 * share.median,
                100.0 * share.low,
                100.0 * share.high
            )
        },
    );
    let is_small = shares.is_some_and(|share| share.high <= MOST_OF_A_CORE);
    part.add(Finding::new("the view's part of a core", words).with_goal("≤ 2 %", is_small));
    Ok(part)
}

/// Runs the robot for that time, with a browser connected or without a view.
fn robot(seconds: u32, is_viewed: bool) -> Result<Ran, Failure> {
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["robot", "run", "humanoid", "--trajectory", "gait", "--no-causes"]);
    command.args(["--for", &format!("{seconds}s"), "--out"]).arg(dir.path());
    command.args(is_viewed.then_some("--view"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| Failure::Start { program: "onbeat robot run".to_owned(), source })?;

    let stderr = child.stderr.take();
    let mut said = Vec::new();
    for line in stderr.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let Ok(line) = line else { break };
        if let Some(address) = line.trim().strip_prefix("live view: http://") {
            let address = address.trim_end_matches('/').to_owned();
            thread::spawn(move || read_events(&address));
        }
        said.push(line);
    }

    let status = child.wait().map_err(Failure::system("wait for a robot"))?;
    let report = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["report", "--json"])
        .arg(dir.path().join("latest"))
        .output()
        .map_err(Failure::system("read a run"))?;
    figures(&report.stdout, &said, is_viewed).ok_or_else(|| Failure::Ended {
        program: "onbeat robot run".to_owned(),
        status,
        said: said.join("\n") + &String::from_utf8_lossy(&report.stderr),
    })
}

/// Reads events as a browser does, until the view ends.
fn read_events(address: &str) -> Option<()> {
    let to: SocketAddr = address.parse().ok()?;
    let mut browser = TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok()?;
    write!(browser, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").ok()?;
    let mut events = vec![0; 64 * 1024];
    while browser.read(&mut events).ok()? > 0 {}
    Some(())
}

fn figures(report: &[u8], said: &[String], is_viewed: bool) -> Option<Ran> {
    let summary: Value = serde_json::from_slice(report).ok()?;
    let series = &summary["cells"][0]["series"];
    let figure = |name: &str, p: f64| {
        let percentiles = series[name]["percentiles"].as_array()?;
        percentiles.iter().find(|found| found["p"] == p)?["value_ns"].as_f64()
    };
    // `live view: 1 browser, 200 events; 10,000 cycles shown, 0 lost; 0.9 % of a CPU`
    let account = said.iter().find(|line| line.contains("% of a CPU"));
    let share = account.filter(|line| line.contains(" 1 browser,")).and_then(|line| {
        let (_, share) = line.trim().strip_suffix(" % of a CPU")?.rsplit_once(' ')?;
        share.parse::<f64>().ok()
    });

    Some(Ran {
        wakeup_p99: figure("wakeup_latency", 99.0)?,
        wakeup_p999: figure("wakeup_latency", 99.9)?,
        execution_p999: figure("execution_time", 99.9)?,
        of_a_core: if is_viewed { share? / 100.0 } else { 0.0 },
    })
}
