//! The kernel's tables of numbers by CPU: `/proc/interrupts`, `/proc/softirqs`, `/proc/stat`,
//! `/proc/schedstat`.

/// A row of a table with a column for each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRow {
    /// The text before the colon.
    pub(crate) name: String,
    /// The numbers, by CPU.
    pub(crate) counts: Vec<(u32, u64)>,
    /// The text after the numbers.
    pub(crate) rest: String,
}

/// Returns the rows of a table whose first line names the CPUs. A row with fewer numbers than CPUs,
/// such as `ERR`, is not of one CPU and is left out.
pub(crate) fn rows(table: &str) -> Vec<TableRow> {
    let mut lines = table.lines();
    let cpus: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();

    let row = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let numbers = words.get(..cpus.len())?.iter();
        let numbers: Vec<u64> = numbers.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(TableRow {
            name: name.trim().to_owned(),
            counts: cpus.iter().copied().zip(numbers).collect(),
            rest: words[cpus.len()..].join(" "),
        })
    };
    lines.filter_map(row).collect()
}

/// Returns column `column` of each line `cpuN ...`, counted from 1 behind the name.
pub(super) fn column_by_cpu(text: &str, column: usize) -> Vec<(u32, u64)> {
    let value = |line: &str| {
        let mut words = line.split_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, words.nth(column - 1)?.parse().ok()?))
    };
    text.lines().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_number_for_each_cpu_that_the_heading_names() {
        let table = "      CPU0  CPU2\n 24:  5  1204  IO-APIC  5-edge  virtio0, eth0\nLOC: 9 8 Local timer interrupts\nERR: 0\n";
        let rows = rows(table);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].counts, [(0, 5), (2, 1204)]);
        assert_eq!(rows[0].rest, "IO-APIC 5-edge virtio0, eth0");
        assert_eq!(
            (rows[1].name.as_str(), rows[1].rest.as_str()),
            ("LOC", "Local timer interrupts")
        );
        assert!(super::rows("").is_empty());
    }

    #[test]
    fn the_line_of_all_cpus_is_not_one_of_a_cpu() {
        let stat = "cpu  1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 80 0 0\nctxt 9\n";
        assert_eq!(column_by_cpu(stat, 8), [(1, 80)]);
        assert!(column_by_cpu("cpu1 1\n", 8).is_empty());
    }
}
