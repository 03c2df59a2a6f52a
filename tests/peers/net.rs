//! Round trips beside sockperf's ping-pong, and a laboratory's times beside the model's.
//!
//! Both tools send 200 bytes a thousand times a second to their own echo, all four with the same
//! scheduling, over the loopback interface and over a veth pair of two network namespaces. sockperf
//! waits for the next packet by spinning, onbeat asleep.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Length;
use crate::failure::Failure;
use crate::table::{Finding, Part, format_times};
use crate::turns::{self, Contestant, Spread, in_turns};

/// Both ends of a round trip in `$2`: the server in the namespace of `$3`, the client in its own.
/// `$1` is the client's command, `$2` the server's, `$3` is `veth` or empty.
const ENDS: &str = r#"
ip link set lo up
enter=
if [ "$3" = veth ]; then
    unshare --net sleep 60 &
    other=$!
    until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
    ip link add near type veth peer name far netns $other
    ip address add 10.78.0.1/24 dev near
    ip link set near up
    enter="nsenter --net=/proc/$other/ns/net"
    $enter ip address add 10.78.0.2/24 dev far
    $enter ip link set far up
fi
$enter $2 >/dev/null 2>&1 &
sleep 0.5
$1
"#;
/// Eight devices behind 10 Mbit/s, where each answer takes 212.8 us with its gap.
const SLOW_LINK: &str = "[[switches]]\nname = \"switch\"\nlink = \"10M\"\n\
    [[devices]]\nname = \"board\"\ncount = 8\nto = \"switch\"\nlink = \"100M\"\n";
const SLOW_FRAME_NS: f64 = 212_800.0;
const PRIORITY: u32 = 80;

/// Median and 99th percentile of round trips, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct RoundTrips {
    p50: f64,
    p99: f64,
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds = length.pick(5, 1);
    let rounds = length.pick(9, 1);
    let title = format!(
        "Round trips of 200 bytes at 1 kHz, priority {PRIORITY} at both ends, beside sockperf: {} of {seconds} s each",
        turns::describe(rounds)
    );
    let mut part = Part::new(title, "sockperf");
    if is_missing("sockperf") || is_missing("unshare") {
        part.remark("no sockperf or no unshare here: nothing was measured beside it");
    } else {
        for network in ["loopback", "veth"] {
            beside_sockperf(&mut part, network, rounds, seconds)?;
        }
    }
    beside_the_model(&mut part, seconds)?;
    Ok(part)
}

fn is_missing(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_err()
}

fn beside_sockperf(
    part: &mut Part,
    network: &str,
    rounds: u32,
    seconds: u32,
) -> Result<(), Failure> {
    let mut block = |_: u32| onbeat(network, seconds, "block");
    let mut spin = |_: u32| onbeat(network, seconds, "spin");
    let mut theirs = |_: u32| sockperf(network, seconds);
    let mut all: [Contestant<'_, RoundTrips>; 3] = [&mut block, &mut theirs, &mut spin];
    let runs = in_turns(rounds, &mut all)?;
    let figures = |who: usize, figure: fn(&RoundTrips) -> f64| -> Vec<f64> {
        runs[who].iter().map(figure).collect()
    };

    let mut row = |what: &str, who: usize, figure: fn(&RoundTrips) -> f64, most: Option<f64>| {
        let (ours, theirs) = (figures(who, figure), figures(1, figure));
        let ratio = Spread::of_ratios(&ours, &theirs);
        let median = |times: &[f64]| format_times(Spread::from_figures(times.iter().copied()));
        let finding = Finding::new(format!("{what}, {network}"), median(&ours))
            .beside(median(&theirs))
            .with_ratio(ratio);
        part.add(match (most, ratio) {
            (Some(most), Some(ratio)) => {
                finding.with_goal(format!("≤ {most:.2}"), ratio.median <= most)
            }
            _ => finding,
        });
    };
    row("p50", 0, |run| run.p50, Some(1.05));
    row("p99", 0, |run| run.p99, Some(1.0));
    row("p50, spin receive", 2, |run| run.p50, Some(1.0 / 1.5));
    row("p99, spin receive", 2, |run| run.p99, None);
    Ok(())
}

/// Runs both ends in namespaces of their own; returns what the client printed.
fn ends(client: &str, server: &str, network: &str) -> Result<String, Failure> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", ENDS]);
    command.args(["sh", client, server, network]);
    let output = command
        .output()
        .map_err(|source| Failure::Start { program: "unshare".to_owned(), source })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let said = said + &String::from_utf8_lossy(&output.stderr);
    Err(Failure::Ended { program: client.to_owned(), status: output.status, said })
}

fn address(network: &str) -> &'static str {
    if network == "veth" { "10.78.0.2" } else { "127.0.0.1" }
}

fn onbeat(network: &str, seconds: u32, receive: &str) -> Result<RoundTrips, Failure> {
    let program = env!("CARGO_BIN_EXE_onbeat");
    let to = address(network);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let out = dir.path().display();
    let server =
        format!("{program} net device --bind {to} --allow 0.0.0.0/0 --priority {PRIORITY}");
    let client = format!(
        "{program} measure rtt --to {to} --for {seconds}s --priority {PRIORITY} --receive {receive} --no-causes \
         --no-stamps --json --out {out}"
    );
    let said = ends(&client, &server, network)?;
    let figure = |name: &str| -> Option<f64> {
        let summary: Value = serde_json::from_str(&said).ok()?;
        summary["cells"][0]["packets"]["devices"][0][name].as_f64()
    };
    match (figure("p50_ns"), figure("p99_ns")) {
        (Some(p50), Some(p99)) => Ok(RoundTrips { p50, p99 }),
        _ => Err(unreadable(dir.path(), &said)),
    }
}

fn sockperf(network: &str, seconds: u32) -> Result<RoundTrips, Failure> {
    let to = address(network);
    let server = format!("chrt -f {PRIORITY} sockperf server -i {to}");
    let client = format!(
        "chrt -f {PRIORITY} sockperf ping-pong -i {to} -t {seconds} --mps 1000 -m 200 --full-rtt"
    );
    let said = ends(&client, &server, network)?;
    // `sockperf: ---> percentile 50.000 =   73.700`, in microseconds.
    let figure = |name: &str| {
        let line = said.lines().find(|line| line.contains(name))?;
        line.rsplit_once('=')?.1.trim().parse::<f64>().ok()
    };
    match (figure("percentile 50.0"), figure("percentile 99.0")) {
        (Some(p50), Some(p99)) => Ok(RoundTrips { p50: p50 * 1e3, p99: p99 * 1e3 }),
        _ => Err(unreadable(Path::new("standard output"), &said)),
    }
}

fn unreadable(path: &Path, said: &str) -> Failure {
    Failure::Unreadable {
        path: path.to_owned(),
        program: "a round trip's client",
        why: said.chars().take(400).collect(),
    }
}

/// The laboratory's answers leave a slow link as far apart as the model has them.
fn beside_the_model(part: &mut Part, seconds: u32) -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let plan = dir.path().join("slow.toml");
    std::fs::write(&plan, SLOW_LINK).map_err(Failure::system("write a plan"))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["net", "lab", "--periods", "20ms", "--json", "--for", &format!("{seconds}s")]);
    command.arg("--out").arg(dir.path()).arg(&plan).args(["--", "--no-causes"]);
    let output = command.output().map_err(Failure::system("run a laboratory"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary: Value = serde_json::from_str(&said).map_err(|_| unreadable(dir.path(), &said))?;

    let account = &summary["cells"][0]["packets"];
    let medians = |of: &Value| -> Vec<f64> {
        let devices = of["devices"].as_array().into_iter().flatten();
        devices.filter_map(|device| device["response_p50_ns"].as_f64()).collect()
    };
    // The token bucket lets two frames pass at once.
    let spacing = |of: &Value| {
        let medians = medians(of);
        let apart = medians.windows(2).skip(2).map(|pair| pair[1] - pair[0]);
        Spread::from_figures(apart.collect::<Vec<_>>())
    };
    let (ours, theirs) = (spacing(account), spacing(&account["predicted"]));
    let ratio = ours.map(|ours| Spread {
        median: ours.median / SLOW_FRAME_NS,
        low: ours.low / SLOW_FRAME_NS,
        high: ours.high / SLOW_FRAME_NS,
    });
    part.add(
        Finding::new("time between answers behind 10 Mbit/s | the model", format_times(ours))
            .beside(format_times(theirs))
            .with_ratio(ratio)
            .with_goal("1 ± 0.1", ratio.is_some_and(|ratio| (0.9..=1.1).contains(&ratio.median)))
            .that_begins_a_group(),
    );
    Ok(())
}
