//! The three tests of Mossige, Sampath and Rao (2007), 4.1, in guests in virtual time: write,
//! read-write, and read-network-write over two boards.
//!
//! The boards are two network namespaces of one guest, each with a GPIO chip, joined by a virtual
//! cable; so both read one clock, and no one-way figure has an error. The guest has one CPU, which
//! both boards and the load share.

use std::time::Duration;

use onbeat::record::Series;
use onbeat_figures::table::{Column, Row, Table};

use crate::toml_file::TomlFileError;
use crate::vm::{CellFigures, LabResults, Matrix, Measures, Virtual, VmError};
use crate::vm::{SECOND_BOARD, in_us};

/// Delay of each board between taking an edge up and passing it on (2007, 5.1.2 and 5.1.3).
const DELAY_US: u32 = 200;

/// Period of the edges.
const EDGES_US: u32 = 2000;

/// One of the three tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardTest {
    /// Writes to an output every 500 us (4.1.1).
    Write,
    /// From an edge at an input to an output of the same board, 500 times a second (4.1.2).
    ReadWrite,
    /// From an edge at an input of the first board to an output of the second (4.1.3).
    ReadNetworkWrite,
}

impl BoardTest {
    /// All three, in the order of the paper.
    pub const ALL: [Self; 3] = [Self::Write, Self::ReadWrite, Self::ReadNetworkWrite];

    /// Its name in tables and directories.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadWrite => "read-write",
            Self::ReadNetworkWrite => "read-network-write",
        }
    }

    /// The series that t_w, t_rw and t_rwn are taken from; the last two have delays in them.
    #[must_use]
    pub const fn series(self) -> Series {
        match self {
            Self::Write => Series::ResponseTime,
            Self::ReadWrite => Series::ReadWrite,
            Self::ReadNetworkWrite => Series::Chain,
        }
    }

    /// Number of delays in its series.
    const fn delays(self) -> u32 {
        match self {
            Self::Write => 0,
            Self::ReadWrite => 1,
            Self::ReadNetworkWrite => 2,
        }
    }

    const fn period_us(self) -> u32 {
        match self {
            Self::Write => 500,
            Self::ReadWrite | Self::ReadNetworkWrite => EDGES_US,
        }
    }

    /// The probe with its options.
    fn measure(self) -> String {
        let edges = "--stimulus gpio:gpiochip0/0 --input gpio:gpiochip0/1";
        match self {
            Self::Write => "write --output gpio:gpiochip0/2".to_owned(),
            Self::ReadWrite => {
                format!("read-write {edges} --output gpio:gpiochip0/2 --delay {DELAY_US}us")
            }
            Self::ReadNetworkWrite => format!(
                "chain {edges} --via {SECOND_BOARD} --one-clock --count 0 --delay {DELAY_US}us"
            ),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestedKernel {
    /// Its name in tables.
    pub name: String,
    /// Debian package.
    pub package: String,
}

/// What the tests are run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardTests {
    pub kernels: Vec<TestedKernel>,
    /// Loads, as `onbeat load` takes them.
    pub loads: Vec<String>,
    /// Time of each measurement of edges, in the guest's time; writes take a quarter of it, for as many
    /// cycles. At least 2.1 s, or the 99th percentile has fewer than ten samples beyond it.
    pub duration: Duration,
}

impl BoardTests {
    /// Returns the laboratory of one test. All three boot the same guests.
    ///
    /// # Errors
    /// [`TomlFileError`], such as for a load that does not exist.
    pub fn matrix(&self, test: BoardTest) -> Result<Matrix, TomlFileError> {
        let kernel = |kernel: &TestedKernel| {
            format!("{{ name = {:?}, package = {:?} }}", kernel.name, kernel.package)
        };
        let kernels: Vec<String> = self.kernels.iter().map(kernel).collect();
        let text = format!(
            "boards = true\nmeasure = {:?}\nperiod_us = {}\nduration_ms = {}\nkernels = [{}]\nloads = {:?}\n",
            test.measure(),
            test.period_us(),
            self.duration.as_millis() * u128::from(test.period_us()) / u128::from(EDGES_US),
            kernels.join(", "),
            self.loads
        );
        Matrix::from_toml(&text, ".".as_ref())
    }
}

/// What the three tests found for a kernel and a load.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardTestRow {
    /// Name of the kernel.
    pub kernel: String,
    pub load: String,
    /// Of the series of each test, in the order of [`BoardTest::ALL`], delays included.
    pub tests: [CellFigures<Virtual>; 3],
    /// Edges without an output at the second board.
    pub lost: u64,
}

impl BoardTestRow {
    /// Mean of a test without its delays, in nanoseconds: t_w, t_rw, t_rwn.
    #[must_use]
    pub fn mean_ns(&self, test: BoardTest) -> f64 {
        self.tests[test as usize].figures.mean_ns - f64::from(test.delays() * DELAY_US) * 1e3
    }

    /// t_r = t_rw - t_w, in nanoseconds.
    #[must_use]
    pub fn read_ns(&self) -> f64 {
        self.mean_ns(BoardTest::ReadWrite) - self.mean_ns(BoardTest::Write)
    }

    /// t_n = t_rwn - t_rw, in nanoseconds.
    #[must_use]
    pub fn network_ns(&self) -> f64 {
        self.mean_ns(BoardTest::ReadNetworkWrite) - self.mean_ns(BoardTest::ReadWrite)
    }
}

/// Returns a row for each kernel and load of which all three tests have results, in the order of the
/// first test.
///
/// # Errors
/// When a stored run file cannot be read.
pub fn rows(results: &[LabResults<Virtual>; 3]) -> Result<Vec<BoardTestRow>, VmError> {
    let cells = |test: BoardTest| results[test as usize].cells_of(test.series());
    let [write, read_write, network] = BoardTest::ALL.map(cells);
    let (write, read_write, network) = (write?, read_write?, network?);

    let mut rows = Vec::new();
    for one in write {
        let same = |cells: &[CellFigures<Virtual>]| {
            cells.iter().find(|other| other.cell == one.cell).cloned()
        };
        let (Some(second), Some(third)) = (same(&read_write), same(&network)) else { continue };
        let mut lost = 0;
        for stored in results[2].stored.iter().filter(|stored| stored.cell == one.cell) {
            lost += stored.boards()?.map_or(0, |account| account.lost + account.unfitted);
        }
        rows.push(BoardTestRow {
            kernel: one.cell.kernel.clone(),
            load: one.cell.load.clone(),
            tests: [one, second, third],
            lost,
        });
    }
    Ok(rows)
}

/// Returns the table of the means, and that of the percentiles.
#[must_use]
pub fn tables(rows: &[BoardTestRow]) -> [Table; 2] {
    [means(rows), percentiles(rows)]
}

fn means(rows: &[BoardTestRow]) -> Table {
    let figures = |row: &BoardTestRow| {
        let [write, read_write, network] = BoardTest::ALL.map(|test| row.mean_ns(test));
        [write, read_write, row.read_ns(), network, row.network_ns()].map(mean_in_us).to_vec()
    };
    let mut legend = vec![
        format!(
            "Means. t_w: from the release to the end of the write; t_rw and t_rwn: from the edge at an input to the \
             output of the same and of a second board, without the delays of {DELAY_US} us; t_r = t_rw - t_w, \
             t_n = t_rwn - t_rw (Mossige, Sampath and Rao, 2007)."
        ),
        "Both boards and the load share the guest's CPU.".to_owned(),
    ];
    legend.extend(Virtual::LEGEND.iter().map(|line| (*line).to_owned()));

    Table {
        title: format!("Two boards, means in {} ({} clock)", Virtual::UNIT, clock_name()),
        columns: Column::all(&NAMES, &["t_w", "t_rw", "t_r", "t_rwn", "t_n"]),
        rows: rows.iter().map(|row| table_row(row, figures(row))).collect(),
        legend,
    }
}

fn percentiles(rows: &[BoardTestRow]) -> Table {
    let figures = |row: &BoardTestRow| {
        let mut texts = Vec::new();
        for CellFigures { figures, .. } in &row.tests {
            texts.extend([figures.median_ns, figures.p99_ns, Some(figures.max_ns)].map(in_us));
        }
        texts.push(row.lost.to_string());
        texts
    };
    let of = ["write", "read-write", "network"];
    let names: Vec<String> =
        of.iter().flat_map(|test| ["p50", "p99", "max"].map(|p| format!("{test} {p}"))).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("lost");

    Table {
        title: format!("Two boards, percentiles in {} ({} clock)", Virtual::UNIT, clock_name()),
        columns: Column::all(&NAMES, &names),
        rows: rows.iter().map(|row| table_row(row, figures(row))).collect(),
        legend: vec![format!("With the delays of {DELAY_US} us of each board.")],
    }
}

/// Columns that name a row.
const NAMES: [&str; 2] = ["kernel", "load"];

const fn clock_name() -> &'static str {
    <Virtual as crate::vm::VmClock>::NAME
}

fn table_row(row: &BoardTestRow, figures: Vec<String>) -> Row {
    let names = [row.kernel.clone(), row.load.clone()].into_iter();
    Row::new(names.chain(figures))
}

fn mean_in_us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::GuestWiring;

    #[test]
    fn the_three_tests_have_the_periods_and_delays_of_the_paper_and_boot_the_same_guests() {
        let tests = BoardTests {
            kernels: vec![TestedKernel { name: "rt".to_owned(), package: "k".to_owned() }],
            loads: vec!["idle".to_owned(), "cpu=80%".to_owned()],
            duration: Duration::from_secs(2),
        };
        for test in BoardTest::ALL {
            let matrix = tests.matrix(test).expect("a laboratory");
            assert_eq!((matrix.wiring, matrix.experiments().len()), (GuestWiring::TwoBoards, 2));
        }
        assert!(BoardTest::ReadNetworkWrite.measure().contains("--delay 200us"));

        let unknown = BoardTests { loads: vec!["no-such-load".to_owned()], ..tests };
        assert!(unknown.matrix(BoardTest::Write).is_err());
    }
}
