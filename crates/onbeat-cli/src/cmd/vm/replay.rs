//! `onbeat vm replay`: the largest latency of a laboratory, traced from outside the guest.

use onbeat_lab::vm::{
    ClockChoice, CriticalPath, Laboratory, Measures, PathPart, Replay, Shard, StoredExperiment,
    Virtual,
};
use onbeat_report::table::{Column, Row, Table};
use serde_json::{Value, json};

use super::lab::{NICENESS, boots, default_out, read, refuse_own_guests, stock};
use super::options::VmReplayOptions;
use crate::cmd::failure::vm::VmFailure;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::term::print_json;
use crate::term::{Tone, advise, columns, say};

/// Functions that are listed.
const MOST_LISTED: usize = 10;

pub(super) fn run(options: &VmReplayOptions) -> Result<ExitVerdict, Failure> {
    let path = &options.file;
    let (mut matrix, is_the_agents) = read(path)?;
    let ClockChoice::Virtual { shift } = matrix.clock else {
        return Err(VmFailure::ReplayOfOtherClock { path: path.clone() }.into());
    };

    refuse_own_guests(&matrix, path, "a replay")?;

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("its guest");
    let stock = stock(&options.stock, &mut matrix, is_the_agents)?;
    let boots = boots(&stock, &matrix)?;
    let out = options.out.clone().unwrap_or_else(|| default_out(path));
    let laboratory = Laboratory {
        work: &stock.work,
        out: &out,
        boots,
        jobs: 1,
        niceness: NICENESS,
        again: 0,
        shard: Shard::WHOLE,
    };

    let clock = |seed| Virtual { shift, seed };
    let kernel = options.kernel.as_deref();
    let (stored, replay) = laboratory.replay(&matrix, clock, kernel, &interruptions.stop)?;
    if options.json {
        print_json(&as_json(&stored, &replay))?;
    } else {
        print(&stored, &replay);
    }
    Ok(if replay.is_same { ExitVerdict::Pass } else { ExitVerdict::Fail })
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

fn print(stored: &StoredExperiment, replay: &Replay) {
    let cell = &stored.cell;
    let path = &replay.path;
    let name = format!(
        "{}, {}, {}, {}, seed {}",
        cell.kernel, cell.command_line, cell.tuning, cell.load, stored.seed
    );
    say(Tone::Head, &format!("{name}: {} {}", us(replay.latency_ns), Virtual::UNIT));
    say(Tone::Plain, "");
    say(Tone::Plain, phases(path).to_text(columns()).trim_end());
    say(Tone::Plain, "");
    let title = format!("Functions in the way, {}", Virtual::UNIT);
    say(
        Tone::Plain,
        functions(&title, &path.blocked, path.blocked_ns).to_text(columns()).trim_end(),
    );

    let (tone, sentence) = if replay.is_same {
        (Tone::Good, "the traced guest sent the same bytes: the trace has changed nothing")
    } else {
        (Tone::Bad, "the traced guest sent other bytes: this path is not that of the experiment")
    };
    advise(tone, sentence);
}

/// The path from the timer's interrupt to the loop.
fn phases(path: &CriticalPath) -> Table {
    let of_call = path.system_call.as_deref().map_or_else(
        || "a program, a kernel thread, or a call that was preempted before".to_owned(),
        |call| format!("{call}() was running"),
    );
    let rows = [
        ("interrupt", path.interrupt_ns, "until the loop's thread was runnable".to_owned()),
        ("in the way", path.blocked_ns, format!("until the scheduler ran: {of_call}")),
        ("switch", path.switch_ns, "until the loop was in user mode".to_owned()),
        ("together", path.length_ns, "from the timer's interrupt".to_owned()),
    ];

    let row = |(name, ns, what): (&str, u64, String)| Row::new([name.to_owned(), us(ns), what]);
    Table {
        title: "Critical path".to_owned(),
        columns: vec![Column::words("part"), Column::figures(Virtual::UNIT), Column::words("what")],
        rows: rows.into_iter().map(row).collect(),
        legend: Vec::new(),
    }
}

fn functions(title: &str, parts: &[PathPart], whole_ns: u64) -> Table {
    let row = |part: &PathPart| {
        let share = format!("{:.1} %", part.percent_of(whole_ns));
        Row::new([part.function.clone(), us(part.ns), share])
    };

    let columns = [Column::words("function"), Column::figures("itself"), Column::figures("share")];
    Table {
        title: title.to_owned(),
        columns: columns.into(),
        rows: parts.iter().take(MOST_LISTED).map(row).collect(),
        legend: Vec::new(),
    }
}

fn as_json(stored: &StoredExperiment, replay: &Replay) -> Value {
    let cell = &stored.cell;
    let path = &replay.path;
    let parts = |parts: &[PathPart]| -> Vec<Value> {
        parts.iter().map(|part| json!({ "function": part.function, "ns": part.ns })).collect()
    };
    json!({
        "kernel": cell.kernel, "command_line": cell.command_line, "tuning": cell.tuning,
        "load": cell.load, "seed": stored.seed, "unit": Virtual::UNIT,
        "latency_ns": replay.latency_ns, "same_bytes": replay.is_same,
        "length_ns": path.length_ns, "interrupt_ns": path.interrupt_ns,
        "blocked_ns": path.blocked_ns, "switch_ns": path.switch_ns,
        "system_call": path.system_call, "blocked": parts(&path.blocked),
        "functions": parts(&path.functions),
    })
}
