//! `onbeat.subscribe` and `onbeat.publish` in Python and Octave: one call joins LCM or ZeroMQ, and what it started ends with the script,
//! however that ends.
//!
//! Without root, `ip`, the gateway, or a language, a test is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::needless_pass_by_value)]

use crate::equipment;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use equipment::{commands, done, octave, root, trial};
use libtest_mimic::Trial;
use onbeat_control::FoundChannels;
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial("one_call::python_publishes_and_subscribes_in_one_call", python, in_python),
        trial("one_call::octave_publishes_and_subscribes_in_one_call", octave_too, in_octave),
        trial("one_call::the_guide_prints_what_it_says", octave_for_guide, guide_holds),
    ];
    Vec::from(tests)
}

fn here() -> PathBuf {
    root().join("tests/clients")
}

fn namespaces() -> Result<(), String> {
    let gateway = Path::new(env!("CARGO_BIN_EXE_onbeat")).with_file_name("onbeat-gateway");
    if !gateway.is_file() {
        return Err("onbeat-gateway is not built beside onbeat; `make test` builds it".to_owned());
    }
    let unshared = in_namespace(&Command::new("true")).output();
    match unshared.is_ok_and(|output| output.status.success()) {
        true => Ok(()),
        false => {
            Err("needs root, unshare (util-linux) and ip (iproute2) for a network namespace".into())
        }
    }
}

/// The same command in a network namespace with a loopback interface that multicasts.
fn in_namespace(command: &Command) -> Command {
    let up = "ip link set lo up multicast on && ip route add 224.0.0.0/4 dev lo && exec \"$@\"";
    let mut unshared = Command::new("unshare");
    unshared.args(["--net", "sh", "-c", up, "sh"]);
    unshared.arg(command.get_program()).args(command.get_args());
    unshared.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    unshared
}

fn python() -> Result<Command, String> {
    namespaces()?;
    let equipped = commands()?;
    let mut command = Command::new(equipped.get_program());
    command.arg(here().join("one_call.py")).env("PYTHONPATH", root().join("python/src"));
    command.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    Ok(command)
}

fn octave_too() -> Result<Command, String> {
    namespaces()?;
    let mut command = octave()?;
    command.arg(here().join("one_call.m"));
    Ok(command)
}

fn octave_for_guide() -> Result<(Command, Command), String> {
    namespaces()?;
    let mut command = octave()?;
    command.arg(here().join("guide.m")).arg(root().join("docs/guide/messages.md"));
    command.arg(root()).arg(root().join("target/clients-java"));
    Ok((command, commands()?))
}

/// Every command of the guide, in one session of Octave; those of ROS 2 where the gateway has it.
fn guide_holds((octave, python): (Command, Command)) {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(place("plan_msgs/msg")).unwrap();
    for name in ["plan.lcm", "plan_msgs/msg/Plan.msg", "Shape.idl"] {
        std::fs::copy(here().join(name), place(name)).unwrap();
    }
    let mut bag = Command::new(python.get_program());
    done(bag.arg(here().join("guide_bag.py")).arg(place("bag")));

    let output = done(in_namespace(&octave).current_dir(folder.path()));
    let line = String::from_utf8(output.stdout).unwrap();
    let found: Value = serde_json::from_str(line.trim()).unwrap();
    println!("{} commands compared; not run: {}", found["compared"], found["reason"]);
    assert_eq!(found["wrong"], "", "{}", found["wrong"].as_str().unwrap());
    assert!(
        found["compared"].as_u64() >= Some(9) && found["skipped"].as_u64() <= Some(1),
        "{found}"
    );
}

/// Runs a script until it has said its line; kills it, and waits until nothing of it is left.
fn said(mut command: Command, name: &str) -> Value {
    let mut child: Child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said = serde_json::from_str(&line);
    let own = format!("sub-{}-", child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let began = Instant::now();
    loop {
        let found = FoundChannels::look().unwrap();
        let is_own = |channel: &str| channel.starts_with(&own) || channel.starts_with(name);
        let left = found
            .rings
            .iter()
            .find(|ring| is_own(&ring.channel().to_string()) && ring.check_alive().is_ok());
        let Some(left) = left else { break };
        assert!(began.elapsed() < WITHIN, "{} outlives its script", left.channel());
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = onbeat_control::remove_leftovers();
    said.unwrap_or_else(|why| panic!("{why}: {line}"))
}

fn in_python(script: Command) {
    let name = format!("call-py-{}", std::process::id());
    let mut command = in_namespace(&script);
    let said = said(
        {
            command.arg(&name).arg(here());
            command
        },
        &name,
    );
    for way in ["cdr_by_lcm", "lcm_by_lcm", "cdr_by_zeromq"] {
        assert_eq!(said[way], json!([way, [0.5, 1.5], 2]), "{said}");
    }
    assert_eq!(said["plain"], "00010000", "{said}");
    for (wrong, sentence) in [
        ("speed", "has no field speed; it has name, speeds, legs"),
        ("legs", "the value of legs is not a uint8"),
        ("name", "the value of name is not a text"),
        ("channel", "\"planner\" is not a valid name of a channel; write NAME/TOPIC"),
        ("nowhere", "`udpm://nowhere` is not an LCM network"),
    ] {
        assert!(said[wrong].as_str().unwrap().contains(sentence), "{said}");
    }
}

fn in_octave(script: Command) {
    let name = format!("call-oct-{}", std::process::id());
    let mut command = in_namespace(&script);
    command.arg(&name).arg(here()).arg(root()).arg(root().join("target/clients-java"));
    let said = said(command, &name);
    let wanted = json!(["octave", [0.5, 1.5], 2, 1]);
    assert_eq!(json!([said["name"], said["speeds"], said["legs"], said["same"]]), wanted, "{said}");
    assert!(said["refused"].as_str().unwrap().contains("has no field speed"), "{said}");
}
