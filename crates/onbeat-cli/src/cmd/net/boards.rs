//! `onbeat net lab --virtual`: the three tests of two boards, in guests in virtual time.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use onbeat::campaign::CampaignEvent;
use onbeat_lab::TomlFileError;
use onbeat_lab::net::board_tests::{
    BoardTest, BoardTestRow, BoardTests, TestedKernel, rows, tables,
};
use onbeat_lab::vm::{LabResults, Laboratory, Matrix, Measures, Shard, Virtual, VmClock};
use serde_json::{Value, json};

use super::options::NetLabOptions;
use crate::cmd::cells::CellLines;
use crate::cmd::failure::net::NetFailure;
use crate::cmd::vm::lab::{NICENESS, begun, boots, conclude, say_tables};
use crate::cmd::vm::stock::Stock;
use crate::cmd::{ExitVerdict, Failure, worse};
use crate::signals::{self, OnUsr1};
use crate::term::print_json;
use crate::term::{Tone, advise};

const USUAL_NS: u64 = 2_200_000_000;
const USUAL_OUT: &str = "onbeat-lab/boards";
/// What packages of kernels are named around what distinguishes them.
const PACKAGE: (&str, &str) = ("linux-image-", "-amd64");

pub(super) fn run(options: &NetLabOptions) -> Result<ExitVerdict, Failure> {
    let tests = tests(options);
    let matrices = BoardTest::ALL.map(|test| tests.matrix(test));
    let matrices: Result<Vec<Matrix>, TomlFileError> = matrices.into_iter().collect();
    let matrices = matrices.map_err(|why| NetFailure::Matrix(Box::new(why)))?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let stop = &interruptions.stop;
    let stock = Stock::open(&options.stock)?;
    let boots = boots(&stock, &matrices[0])?;

    let out = options.out.as_deref().unwrap_or(USUAL_OUT.as_ref());
    let mut results = Vec::new();
    let mut verdict = ExitVerdict::Pass;
    for (test, matrix) in BoardTest::ALL.into_iter().zip(&matrices) {
        advise(Tone::Faint, &format!("{} test", test.name()));
        let out = out.join(test.name());
        let laboratory = Laboratory {
            work: &stock.work,
            out: &out,
            boots: boots.clone(),
            jobs: thread::available_parallelism().map_or(1, NonZero::get),
            niceness: NICENESS,
            again: u16::from(options.boards.verify),
            shard: Shard::WHOLE,
        };
        let mut progress = CellLines::new(&begun);
        let mut report = |event: CampaignEvent<'_>| progress.show(&event);
        let clock = |seed| Virtual { seed, ..Virtual::default() };
        let of_test = laboratory.conduct(matrix, clock, stop, &mut report)?;
        verdict = worse(verdict, conclude(&of_test, &out, stop.load(Ordering::Relaxed)));
        results.push(of_test);
    }

    show(options, &results, out)?;
    Ok(verdict)
}

fn tests(options: &NetLabOptions) -> BoardTests {
    let kernel = |package: &String| {
        let (before, after) = PACKAGE;
        let short = package.strip_prefix(before).unwrap_or(package);
        let name = match short.strip_suffix(after) {
            Some(name) => name,
            // `linux-image-amd64` has nothing in between.
            None if format!("-{short}") == after => "stock",
            None => short,
        };
        TestedKernel { name: name.to_owned(), package: package.clone() }
    };
    BoardTests {
        kernels: options.boards.kernels.iter().map(kernel).collect(),
        loads: options.boards.loads.clone(),
        duration: Duration::from_nanos(options.duration.unwrap_or(USUAL_NS)),
    }
}

fn show(
    options: &NetLabOptions,
    results: &[LabResults<Virtual>],
    out: &Path,
) -> Result<(), Failure> {
    let Ok(results): Result<&[LabResults<Virtual>; 3], _> = results.try_into() else {
        return Ok(());
    };
    let rows = rows(results)?;
    if options.json {
        let compared: usize = results.iter().map(|of_test| of_test.compared).sum();
        let differing: usize = results.iter().map(|of_test| of_test.differing.len()).sum();
        return Ok(print_json(&json!({
            "clock": Virtual::NAME, "unit": Virtual::UNIT, "out": out,
            "compared": compared, "differing": differing,
            "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
        }))?);
    }

    say_tables(&tables(&rows));
    Ok(())
}

fn row_json(row: &BoardTestRow) -> Value {
    let test = |test: BoardTest| {
        let figures = &row.tests[test as usize].figures;
        json!({
            "test": test.name(), "series": test.series().tag(), "samples": figures.samples,
            "min_ns": figures.min_ns, "mean_ns": figures.mean_ns, "p50_ns": figures.median_ns,
            "p99_ns": figures.p99_ns, "max_ns": figures.max_ns,
        })
    };
    let mean = |test| row.mean_ns(test);
    json!({
        "kernel": row.kernel, "load": row.load, "lost": row.lost,
        "t_w_ns": mean(BoardTest::Write), "t_rw_ns": mean(BoardTest::ReadWrite), "t_r_ns": row.read_ns(),
        "t_rwn_ns": mean(BoardTest::ReadNetworkWrite), "t_n_ns": row.network_ns(),
        "tests": BoardTest::ALL.map(test),
    })
}
