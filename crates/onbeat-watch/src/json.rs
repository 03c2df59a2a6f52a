//! The threads of a program as JSON: `--list --json`, and what the scheduler counts without rights.

use crate::choose::{SeenSeries, SeenThread, rate};
use crate::class::Class;
use crate::measure::WatchedLoop;
use crate::process::{ThreadCounters, ThreadFacts};
use crate::survey::Survey;
use serde_json::{Value, json};

use crate::words::source_words;

/// Names the fields below.
const SCHEMA: &str = "onbeat.watch-threads/1";

/// Returns the threads of a look: how each waits, and which are the loops.
#[must_use]
pub fn threads(seen: &Survey, pid: i32, chosen: &[WatchedLoop]) -> Value {
    let of = |thread: &SeenThread| {
        let waits: Vec<Value> =
            thread.series.iter().map(|one| series(one, seen.looked_ns)).collect();
        let mut value = facts(&thread.facts);
        value["cpu_share"] = json!(thread.counters.cpu_ns as f64 / seen.looked_ns.max(1) as f64);
        value["waits"] = json!(waits);
        value["is_loop"] = json!(chosen.iter().any(|one| one.thread.id == thread.facts.id));
        value
    };
    json!({
        "schema": SCHEMA,
        "pid": pid,
        "looked_s": seen.looked_ns as f64 / 1e9,
        "lost_events": seen.lost,
        "threads": seen.threads.iter().map(of).collect::<Vec<_>>(),
    })
}

fn series(one: &SeenSeries, looked_ns: u64) -> Value {
    json!({
        "for": source_words(one.source),
        "per_s": rate(one.waits, looked_ns),
        "class": one.class.as_ref().map(Class::word),
        "period_ns": one.class.as_ref().map(Class::period_ns),
    })
}

/// Returns what the scheduler counted of each thread in `seconds`.
#[must_use]
pub fn counters(pid: i32, seconds: f64, counted: &[(&ThreadFacts, ThreadCounters)]) -> Value {
    let of = |(thread, since): &(&ThreadFacts, ThreadCounters)| {
        let mut value = facts(thread);
        value["waits_per_s"] = json!(since.waits as f64 / seconds);
        value["preemptions_per_s"] = json!(since.preemptions as f64 / seconds);
        value["cpu_share"] = json!(since.cpu_ns as f64 / 1e9 / seconds);
        value["delayed_share"] = json!(since.delayed_ns as f64 / 1e9 / seconds);
        value
    };
    json!({
        "schema": SCHEMA,
        "pid": pid,
        "counted_s": seconds,
        "threads": counted.iter().map(of).collect::<Vec<_>>(),
    })
}

fn facts(thread: &ThreadFacts) -> Value {
    json!({
        "tid": thread.id.tid,
        "name": thread.name,
        "policy": thread.policy.words(),
        "cpus": thread.cpus,
    })
}
