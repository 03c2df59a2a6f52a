//! Two boards in guests in virtual time: `make test-vm-net`.
//!
//! The three tests of Mossige, Sampath and Rao (2007) on a kernel with PREEMPT_RT and on the stock
//! one, idle and under load, each twice.

use crate::test_lab;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use onbeat::campaign::CampaignEvent;
use onbeat_lab::net::board_tests::{
    BoardTest, BoardTestRow, BoardTests, TestedKernel, rows, tables,
};
use onbeat_lab::vm::{BootImage, GuestWiring, Initramfs, LabResults, Laboratory, Shard, Virtual};

use test_lab::{BUSYBOX, RT, TestLab, packages};

/// Cloud kernels have no GPIO.
const STOCK: &str = "linux-image-amd64";
/// Of the five of the command, so that sixty guests become thirty-six.
const LOADS: [&str; 3] = ["idle", "cpu=40%", "cpu=80%"];
/// With fewer, less than ten samples lie beyond the 99th percentile.
const LEAST_SAMPLES: u64 = 1000;

fn tested() -> BoardTests {
    let kernel = |name: &str, package: &str| TestedKernel {
        name: name.to_owned(),
        package: package.to_owned(),
    };
    BoardTests {
        kernels: vec![kernel("rt", RT), kernel("stock", STOCK)],
        loads: LOADS.map(str::to_owned).to_vec(),
        duration: Duration::from_millis(2200),
    }
}

fn boot(lab: &TestLab, package: &str) -> BootImage {
    let kernel = lab.kernel(package);
    let mut initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    initramfs.program("bin/onbeat", &lab.onbeat).expect("a static onbeat");
    initramfs
        .wire(GuestWiring::TwoBoards, &lab.work, &packages(&lab.work))
        .expect("modules for two boards");
    initramfs.build(&lab.work).expect("an archive")
}

/// Runs all three tests, each guest twice; the second time the bytes are compared.
fn conduct(lab: &TestLab, tests: &BoardTests, out: &Path) -> [LabResults<Virtual>; 3] {
    let boots = tests.kernels.iter().map(|kernel| boot(lab, &kernel.package));
    let boots: Vec<BootImage> = boots.collect();
    BoardTest::ALL.map(|test| {
        let laboratory = Laboratory {
            work: &lab.work,
            out: &out.join(test.name()),
            boots: boots.clone(),
            jobs: 2,
            niceness: 0,
            again: 1,
            shard: Shard::WHOLE,
        };
        let mut report = |event: CampaignEvent<'_>| {
            if let CampaignEvent::Failed { cell, why } = event {
                panic!("{}: {cell}: {why}", test.name());
            }
        };

        let matrix = tests.matrix(test).expect("a laboratory");
        let clock = |seed| Virtual { seed, ..Virtual::default() };
        let stop = AtomicBool::new(false);
        laboratory.conduct(&matrix, clock, &stop, &mut report).expect("results")
    })
}

/// A row in whole tenths of a microsecond: the figures that must be equal in two runs.
fn rounded(row: &BoardTestRow) -> Vec<Option<u64>> {
    let tenths = |ns: u64| (ns + 50) / 100;
    let of = |figures: &onbeat_lab::vm::GuestFigures<Virtual>| {
        [figures.median_ns, figures.p99_ns].map(|ns| ns.map(tenths))
    };
    row.tests.iter().flat_map(|cell| of(&cell.figures)).collect()
}

#[test]
fn the_three_tests_of_two_boards_give_the_same_figures_twice() {
    let Some(lab) = TestLab::open() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let tests = tested();
    let begun = std::time::Instant::now();
    let results = conduct(&lab, &tests, out.path());
    let experiments = tests.kernels.len() * tests.loads.len();
    for (test, of_test) in BoardTest::ALL.into_iter().zip(&results) {
        let differing = of_test.differing.len();
        println!("{}: {} of {experiments} the same bytes", test.name(), experiments - differing);
        assert_eq!((of_test.compared, differing), (experiments, 0), "{}", test.name());
    }

    let rows = rows(&results).expect("figures");
    tables(&rows).iter().for_each(|table| println!("{}\n", table.to_text(130)));
    println!("{} guests in {:.0} s", 6 * experiments, begun.elapsed().as_secs_f64());
    assert_eq!(rows.len(), experiments);
    for row in &rows {
        let name = format!("{}, {}", row.kernel, row.load);
        assert_eq!(row.lost, 0, "{name}");
        assert!(rounded(row).iter().all(Option::is_some), "{name}: p50 and p99 of each test");
        assert!(row.tests.iter().all(|cell| cell.figures.samples >= LEAST_SAMPLES), "{name}");
        // An edge is later than a release, and a second board later than the first.
        assert!(row.read_ns() > 0.0 && row.network_ns() > 0.0, "{name}: {row:?}");
    }

    // What the paper found on a board: a load of the CPU changes nothing, here by less than a hundredth.
    for of_kernel in rows.chunks(tests.loads.len()) {
        for test in BoardTest::ALL {
            let median_ns =
                |row: &BoardTestRow| row.tests[test as usize].figures.median_ns.expect("samples");
            let idle_ns = median_ns(&of_kernel[0]);
            for row in of_kernel {
                let change_ns = median_ns(row).abs_diff(idle_ns);
                assert!(change_ns * 100 < idle_ns, "{}: {change_ns} ns {row:?}", test.name());
            }
        }
    }
}
