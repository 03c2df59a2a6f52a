//! What a polling thread saw of its CPU: in sentences, and in a table like osnoise's.

use super::table::{Column, Row, Table};
use super::units::{Letters, count, fixed, time_ns};
use onbeat_cause::NoiseSource;
use onbeat_record::{NoiseAccount, NoiseCount};

/// Returns the account of the noise as sentences: the total, what no event explains, and what the
/// CPU counted.
#[must_use]
pub fn sentences(account: &NoiseAccount) -> Vec<String> {
    let time = |ns: u64| time_ns(ns, Letters::Ascii);
    let total = format!(
        "noise on CPU {}: {} in {} of polling ({:.4} % of the CPU), {} gaps of {} or longer, longest {}; a clock reading takes {}",
        account.cpu,
        time(account.gaps_ns),
        time(account.window_ns),
        100.0 * account.share(),
        count(account.gaps),
        time(account.threshold_ns),
        time(account.longest_ns),
        time(account.step_ns)
    );
    [
        Some(total),
        most_of_it(account),
        unexplained(account),
        silent(account),
        Some(counters(account)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Sources in a sentence; the table has all of them.
const NAMED: usize = 5;

/// Who took the most, for readers of the page.
fn most_of_it(account: &NoiseAccount) -> Option<String> {
    let one = |of: &NoiseCount| {
        let kind = match of.source {
            NoiseSource::Irq(_) | NoiseSource::Softirq(_) | NoiseSource::Thread(_) => {
                format!("{} ", of.source.kind())
            }
            _ => String::new(),
        };
        format!(
            "{kind}{} {} in {} gaps (longest {})",
            of.source,
            time_ns(of.ns, Letters::Ascii),
            count(of.gaps),
            time_ns(of.longest_ns, Letters::Ascii)
        )
    };
    let named: Vec<String> = account.sources.iter().take(NAMED).map(one).collect();
    let others = account.sources.len().saturating_sub(NAMED);
    let rest =
        if others > 0 { format!("; {others} other sources took less") } else { String::new() };
    (!named.is_empty()).then(|| format!("most of it: {}{rest}", named.join(", ")))
}

/// Why gaps have no name, where some have none.
fn unexplained(account: &NoiseAccount) -> Option<String> {
    let ns = ns_of(account, &NoiseSource::NotRecorded)?;
    let time = time_ns(ns, Letters::Ascii);
    Some(match &account.not_recorded {
        Some(why) => format!(
            "{time} of the gaps is unexplained, because the kernel's events were not recorded: {why}"
        ),
        None => format!(
            "{time} of the gaps is unexplained: the recorder lost events there, or knew of no thread"
        ),
    })
}

/// What passed without an event of this kernel.
fn silent(account: &NoiseAccount) -> Option<String> {
    let ns = ns_of(account, &NoiseSource::Hardware)?;
    let time = time_ns(ns, Letters::Ascii);
    let below = match (account.is_guest, account.smis) {
        (true, _) => "this kernel is a guest, so that its host is the likeliest",
        (false, Some(1..)) => "the CPU counted system management interrupts during the run",
        (false, _) => "firmware, shared hardware, or kernel code with its trace points off",
    };
    Some(format!(
        "{time} of the gaps passed while nothing of this kernel ran on the CPU: hardware or hypervisor; {below}"
    ))
}

fn ns_of(account: &NoiseAccount, source: &NoiseSource) -> Option<u64> {
    account.sources.iter().find(|count| count.source == *source).map(|count| count.ns)
}

fn counters(account: &NoiseAccount) -> String {
    let counted = |n: Option<u64>, one: &str, absent: &str| {
        n.map_or_else(|| absent.to_owned(), |n| format!("{} {one}", count(n)))
    };
    let steal = account.steal_ns.map_or_else(
        || "no count of stolen time".to_owned(),
        |ns| format!("{} stolen by /proc/stat", time_ns(ns, Letters::Ascii)),
    );
    format!(
        "during the run CPU {} counted {}, {} and {steal}",
        account.cpu,
        counted(
            account.smis,
            "system management interrupts",
            "no system management interrupts, because it has no readable counter of them (MSR 0x34, /dev/cpu/N/msr)"
        ),
        counted(
            account.nmis,
            "non-maskable interrupts",
            "no non-maskable interrupts, which it does not list"
        )
    )
}

/// Returns the sources: gaps that each had a part in, the time that it took in all and as a share of
/// the CPU, and its longest part.
#[must_use]
pub fn table(account: &NoiseAccount, letters: Letters) -> Option<Table> {
    if account.sources.is_empty() {
        return None;
    }
    let us = |ns: u64| fixed(ns as f64 / 1e3, 1);
    let share = |ns: u64| format!("{:.4}", 100.0 * ns as f64 / account.window_ns.max(1) as f64);
    let row = |kind: &str, name: String, n: u64, ns: u64, longest_ns: u64, begins_group| Row {
        entries: vec![
            kind.into(),
            name.into(),
            count(n).into(),
            us(ns).into(),
            share(ns).into(),
            us(longest_ns).into(),
        ],
        begins_group,
    };
    let mut rows: Vec<Row> = account
        .sources
        .iter()
        .map(|of| {
            let kind = of.source.kind();
            row(kind, of.source.to_string(), of.gaps, of.ns, of.longest_ns, false)
        })
        .collect();
    rows.push(row("all", String::new(), account.gaps, account.gaps_ns, account.longest_ns, true));
    let columns = vec![
        Column::words("noise"),
        Column::words("by"),
        Column::figures("gaps"),
        Column::figures(format!("total, {}", letters.microseconds())),
        Column::figures("% of CPU"),
        Column::figures(format!("longest, {}", letters.microseconds())),
    ];
    let title = format!("what took CPU {} from the polling thread", account.cpu);
    let legend = vec!["a gap counts once for each source that has a part in it".to_owned()];
    Some(Table { title, columns, rows, legend })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> NoiseAccount {
        let mut account = NoiseAccount {
            cpu: 1,
            threshold_ns: 1_000,
            step_ns: 30,
            windows: 10,
            window_ns: 1_000_000_000,
            polled_ns: 999_000_000,
            gaps: 3,
            gaps_ns: 1_000_000,
            longest_ns: 900_000,
            ..NoiseAccount::default()
        };
        account.add_part(&NoiseSource::Thread("planted".into()), 900_000);
        account.add_part(&NoiseSource::Irq("local_timer".into()), 60_000);
        account.add_part(&NoiseSource::Hardware, 40_000);
        account
    }

    #[test]
    fn the_table_has_each_source_and_their_sum() {
        let table = table(&account(), Letters::Ascii).unwrap();
        let texts =
            |row: &Row| row.entries.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&table.rows[0]), ["thread", "planted", "1", "900.0", "0.0900", "900.0"]);
        assert_eq!(texts(&table.rows[3]), ["all", "", "3", "1,000.0", "0.1000", "900.0"]);
    }

    #[test]
    fn sentences_name_nothing_that_was_not_seen() {
        let bare = sentences(&account()).join("\n");
        assert!(bare.contains("0.1000 % of the CPU"), "{bare}");
        assert!(
            bare.contains("40 us of the gaps passed while nothing of this kernel ran"),
            "{bare}"
        );
        assert!(bare.contains("no readable counter"), "{bare}");
        assert!(!bare.contains("unexplained"), "{bare}");
        assert!(bare.contains("most of it: thread planted 900 us in 1 gaps"), "{bare}");

        let mut blind = NoiseAccount { sources: Vec::new(), ..account() };
        blind.add_part(&NoiseSource::NotRecorded, 1_000_000);
        blind.not_recorded = Some("permission denied".into());
        let blind = sentences(&blind).join("\n");
        assert!(blind.contains("were not recorded: permission denied"), "{blind}");
        assert!(!blind.contains("hardware"), "{blind}");
    }
}
