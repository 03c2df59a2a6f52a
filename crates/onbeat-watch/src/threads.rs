//! The table of a process's threads.

use onbeat_figures::Letters;
use onbeat_figures::table::{Column, Entry, Row, Table};
use onbeat_figures::units::time_ns;

use crate::choose::{SeenSeries, SeenThread, ThreadNature, rate};
use crate::pool::{Pool, pools};
use crate::process::{ThreadCounters, ThreadFacts};
use crate::survey::Survey;
use crate::waits::Source;
use crate::words::{class_words, pool_name, process_words, source_words};

/// Rows of the table; threads that did nothing are summed up.
const MOST_ROWS: usize = 24;

/// The table of threads; the chosen one has a sign.
#[must_use]
pub fn table(survey: &Survey, process: &str, chosen: Option<u32>, letters: Letters) -> Table {
    let looked_ns = survey.looked_ns;
    let mut threads: Vec<&SeenThread> = survey.threads.iter().collect();
    let key = |thread: &&SeenThread| {
        let is_chosen = chosen == Some(thread.facts.tid());
        let policy = thread.facts.policy;
        let nature = match thread.nature(looked_ns) {
            ThreadNature::Periodic => 4,
            ThreadNature::Spins | ThreadNature::Floods => 3,
            ThreadNature::NotPeriodic => 2,
            ThreadNature::Sleeps => 0,
        };
        (is_chosen, policy.is_real_time(), nature, policy.priority(), thread.counters.cpu_ns)
    };
    threads.sort_by_key(|thread| std::cmp::Reverse(key(thread)));
    let idle = |thread: &&SeenThread| thread.nature(looked_ns) == ThreadNature::Sleeps;
    let asleep = threads.iter().filter(|thread| idle(thread)).count();
    let (shown, hidden) = if threads.len() > MOST_ROWS {
        threads.retain(|thread| !idle(thread));
        let over = threads.len().saturating_sub(MOST_ROWS);
        threads.truncate(MOST_ROWS);
        (threads, over)
    } else {
        (threads, 0)
    };

    let pools = pools(&survey.threads, looked_ns);
    let leads = |pool: &Pool<'_>| {
        pool.threads.first().is_some_and(|thread| chosen == Some(thread.facts.tid()))
    };
    let by_thread = if pools.iter().any(leads) { None } else { chosen };
    let of_pools = pools
        .iter()
        .map(|pool| pool_row(pool, looked_ns, if leads(pool) { "> " } else { "" }, letters));
    let mut legend = Vec::new();
    if shown.len() + hidden < survey.threads.len() {
        legend.push(match asleep {
            1 => "1 thread did not run and is not shown.".to_owned(),
            _ => format!("{asleep} threads did not run and are not shown."),
        });
    }
    if hidden > 0 {
        let more = if hidden == 1 { "thread is" } else { "threads are" };
        legend.push(format!("{hidden} more {more} not shown; --thread names any of them."));
    }
    if survey.lost > 0 {
        legend.push(format!("{} events were lost while looking.", survey.lost));
    }
    Table {
        title: format!("Threads of {process}, {:.1} s", looked_ns as f64 / 1e9),
        columns: vec![
            Column::words("thread"),
            Column::words("policy"),
            Column::words("CPUs"),
            Column::words("waits"),
            Column::words("period"),
            Column::figures("per s"),
            Column::figures("CPU"),
        ],
        rows: of_pools
            .chain(shown.iter().flat_map(|thread| rows(thread, looked_ns, by_thread, letters)))
            .collect(),
        legend,
    }
}

/// The row of a pool, before those of its threads.
fn pool_row(pool: &Pool<'_>, looked_ns: u64, sign: &str, letters: Letters) -> Row {
    let cpu_ns: u64 = pool.threads.iter().map(|thread| thread.counters.cpu_ns).sum();
    let period = time_ns(pool.class.period_ns(), letters);
    let facts = pool.threads.first().map(|thread| &thread.facts);
    let entries: [Entry; 7] = [
        format!("{sign}{}", pool_name(pool)).into(),
        facts.map_or_else(String::new, |facts| facts.policy.words()).into(),
        facts.map_or_else(String::new, |facts| facts.cpus.clone()).into(),
        "take turns".into(),
        format!("{period}, {}", class_words(&pool.class)).into(),
        format!("{:.1}", rate(pool.releases.len() as u64, looked_ns)).into(),
        format!("{:.1} %", cpu_ns as f64 * 100.0 / looked_ns.max(1) as f64).into(),
    ];
    Row { entries: Vec::from(entries), ..Row::default() }
}

/// Series with fewer than this part of the waits of a thread's most frequent one are not shown.
const LEAST_SHARE: u64 = 100;
/// Series of a thread that are shown.
const MOST_SERIES: usize = 3;

fn rows(thread: &SeenThread, looked_ns: u64, chosen: Option<u32>, letters: Letters) -> Vec<Row> {
    let facts = &thread.facts;
    let sign = if chosen == Some(facts.tid()) { "> " } else { "" };
    let head = |first: bool| -> [Entry; 3] {
        if first {
            [
                format!("{sign}{} [{}]", facts.name, facts.tid()).into(),
                facts.policy.words().into(),
                facts.cpus.clone().into(),
            ]
        } else {
            ["".into(), "".into(), "".into()]
        }
    };
    let cpu = format!("{:.1} %", thread.counters.cpu_ns as f64 * 100.0 / looked_ns.max(1) as f64);
    let most = thread.series.iter().map(|one| one.waits).max().unwrap_or(0);
    let counts = |one: &&SeenSeries| one.waits > 1 && one.waits * LEAST_SHARE >= most;
    let mut series: Vec<&SeenSeries> = thread.series.iter().filter(counts).collect();
    series.sort_by_key(|one| one.order());
    series.truncate(MOST_SERIES);
    let nature = thread.nature(looked_ns);
    if series.is_empty() || matches!(nature, ThreadNature::Floods | ThreadNature::Spins) {
        let words = match nature {
            ThreadNature::Floods => "floods",
            ThreadNature::Spins => "spins",
            ThreadNature::Sleeps => "asleep",
            ThreadNature::Periodic | ThreadNature::NotPeriodic => "waits rarely",
        };
        let mut entries = Vec::from(head(true));
        entries.extend([words, "", ""].map(Entry::from));
        entries.push(cpu.into());
        return vec![Row { entries, ..Row::default() }];
    }

    let row = |(place, one): (usize, &&SeenSeries)| {
        let mut entries = Vec::from(head(place == 0));
        let period = one.class.as_ref().map_or_else(
            || "too few".to_owned(),
            |class| {
                let period = time_ns(class.period_ns(), letters);
                format!("{period}, {}", class_words(class))
            },
        );
        entries.push(match (one.source, &thread.waits_in) {
            (Source::Event, Some(call)) => format!("in {call}").into(),
            (source, _) => source_words(source).into(),
        });
        entries.push(period.into());
        entries.push(format!("{:.1}", rate(one.waits, looked_ns)).into());
        entries.push(if place == 0 { cpu.clone() } else { String::new() }.into());
        Row { entries, ..Row::default() }
    };
    series.iter().enumerate().map(row).collect()
}

/// The table of what the scheduler counted of each thread in `seconds`.
#[must_use]
pub fn counted(
    pid: i32,
    seconds: f64,
    counted: &[(&ThreadFacts, ThreadCounters)],
    letters: Letters,
) -> Table {
    let rows = counted.iter().map(|(facts, since)| {
        let entries: [Entry; 7] = [
            format!("{} [{}]", facts.name, facts.tid()).into(),
            facts.policy.words().into(),
            facts.cpus.clone().into(),
            format!("{:.1}", since.waits as f64 / seconds).into(),
            format!("{:.1}", since.preemptions as f64 / seconds).into(),
            format!("{:.1} %", since.cpu_ns as f64 / seconds / 1e7).into(),
            time_ns((since.delayed_ns as f64 / seconds) as u64, letters).into(),
        ];
        Row { entries: Vec::from(entries), ..Row::default() }
    });
    Table {
        title: format!("Threads of {}, by the scheduler's counters", process_words(pid)),
        columns: vec![
            Column::words("thread"),
            Column::words("policy"),
            Column::words("CPUs"),
            Column::figures("waits/s"),
            Column::figures("preempted/s"),
            Column::figures("CPU"),
            Column::figures("delayed/s"),
        ],
        rows: rows.collect(),
        legend: vec!["delayed: time for which a thread could run and waited for a CPU".to_owned()],
    }
}
