//! Two boards in two guests whose clocks differ: `make test-vm-clocks`.
//!
//! The first board fits the second one's clock to the packets between them, and states a bound. The
//! host reads both clocks by shared memory and holds each fit against them.

use crate::test_lab;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::record::RunFile;
use onbeat_lab::joined::{ClockRelation, GuestPair, PairedClocks};
use onbeat_lab::vm::{BootImage, Free, Guest, Initramfs};

use test_lab::{BUSYBOX, RT, TestLab};

/// How much faster the second guest's clock runs.
const FASTER_PPM: i32 = 100;
const LEAST_FITS: usize = 8;

fn boot(lab: &TestLab) -> BootImage {
    let kernel = lab.kernel(RT);
    let mut initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    initramfs.program("bin/onbeat", &lab.onbeat).expect("a static onbeat");
    initramfs.module("virtio_net");
    initramfs.build(&lab.work).expect("an archive")
}

fn paired(lab: &TestLab) -> PairedClocks<Free> {
    let guest = Guest { limit: std::time::Duration::from_secs(200), ..Guest::new(boot(lab), Free) };
    let words = format!(
        "measure chain --via {} --period 20ms --count 0 --for 12s --delay 1ms --priority 80 --no-causes \
         --on-overrun catch-up=1000",
        GuestPair::<Free>::VIA
    );
    let pair = GuestPair {
        guests: [&guest, &guest],
        work: &lab.work,
        words: words.split(' ').map(str::to_owned).collect(),
        faster_ppm: FASTER_PPM,
        exchanges: onbeat_lab::joined::EXCHANGES,
    };
    pair.run(&AtomicBool::new(false)).expect("two guests")
}

#[test]
fn the_bound_that_one_board_states_holds_for_another_whose_clock_differs() {
    let Some(lab) = TestLab::open() else { return };
    let paired = paired(&lab);
    let sent = paired.results[0].run_files().next().expect("a run file");
    let run = RunFile::parse(Path::new(&sent.path), &sent.content).expect("a run");
    let account = run.boards.expect("an account of two boards");
    let clock = account.clock.clone().expect("a fit");
    let widths = paired.relations.each_ref().map(ClockRelation::width_ns);
    println!(
        "{} edges, {} lost; second clock {:+.1} ppm by the last fit; truth known within {widths:?} ns",
        account.sent, account.lost, clock.drift_ppm
    );

    assert!(clock.recent.len() >= LEAST_FITS, "{account:?}");
    let mut largest = 0.0_f64;
    for reading in &clock.recent {
        let checked = paired.check(reading);
        let share = checked.error_ns as f64 / reading.bound_ns as f64;
        println!("offset {} ns +- {}: wrong by {checked:?}", reading.offset_ns, reading.bound_ns);
        largest = largest.max(share);
        assert!(
            checked.error_ns <= reading.bound_ns + checked.uncertain_ns,
            "{reading:?} {checked:?}"
        );
        // A truth that is not known well would prove nothing.
        assert!(checked.uncertain_ns < reading.bound_ns, "{reading:?} {checked:?}");
    }
    println!("{} fits, the worst wrong by {largest:.2} of its bound", clock.recent.len());
}
