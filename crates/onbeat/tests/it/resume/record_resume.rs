//! What a run file says of a run that was killed, at any byte, and went on.

use std::fs::OpenOptions;
use std::path::Path;

use onbeat::record::{Account, EndReason, Past, Recorder, RunFile, RunFileError, Series};
use onbeat_rt::{Instant, Sample};
use proptest::prelude::*;

use crate::record_world::{MS, SECOND_NS, header, outcome, recorder, recording};

/// Of the clock after the machine was started again.
const BOOTED: Instant = Instant::from_ns(5 * SECOND_NS);

fn begin(path: &Path) -> Recorder {
    recorder(path, &header(&["onbeat"]), recording())
}

/// Each third release of a hundred is skipped. How many cycles that makes.
fn serve(recorder: &mut Recorder, from: Instant, block: u32, slots: u64) -> u64 {
    recorder.begin_block(block, from, "idle", 0).unwrap();
    let mut cycles = 0;
    for index in (0..slots).filter(|index| index % 100 != 2) {
        let skipped = u64::from(index % 100 == 3);
        let release = from.plus_ns(index * MS);
        let sample = Sample {
            index,
            release,
            wakeup_latency_ns: 20_000 + index,
            execution_time_ns: 7_000,
            skipped,
            ..Sample::default()
        };

        recorder.sample(&sample, None).unwrap();
        cycles += 1;
    }

    cycles
}

fn end(recorder: &mut Recorder, from: Instant, slots: u64, cycles: u64) {
    recorder.end_block(&outcome(from, slots, cycles)).unwrap();
}

fn closing(reason: EndReason) -> Account {
    Account { reason, cpu_ns: 1_000, page_faults: 2, ..Account::default() }
}

fn go_on(past: Past, slots: u64, from_s: u64) -> Account {
    let block = past.next_block;
    let mut recorder = Recorder::go_on(past, (BOOTED, from_s * SECOND_NS), recording()).unwrap();
    let cycles = serve(&mut recorder, BOOTED, block, slots);
    end(&mut recorder, BOOTED, slots, cycles);
    recorder.close(&closing(EndReason::Complete)).unwrap()
}

fn in_a_file(test: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    test(&dir.path().join("timer.onbeat.hlog"));
}

/// Every slot of the account is in a series or lost.
fn adds_up(run: &RunFile, account: &Account) {
    assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
    let kept = [Series::WakeupLatency, Series::SkippedLatency]
        .map(|series| run.distribution(series).count());
    assert_eq!(
        account.slots,
        kept.iter().sum::<u64>() + account.lost + account.warmup + account.excluded
    );
}

#[test]
fn the_warm_up_of_a_killed_part_stays_in_every_count() {
    in_a_file(|path| {
        let mut killed = begin(path);
        killed.begin_block(0, Instant::from_ns(0), "idle", 10).unwrap();
        for index in 0..2_500 {
            let release = Instant::from_ns(index * MS);
            killed
                .sample(
                    &Sample { index, release, wakeup_latency_ns: 20_000, ..Sample::default() },
                    None,
                )
                .unwrap();
        }

        drop(killed);
        let read = RunFile::read(path).unwrap();
        assert_eq!((read.account().slots, read.account().warmup), (2_000, 10), "two whole seconds");

        let past = Past::open(path).unwrap();
        assert_eq!(
            (past.account.slots, past.account.cycles, past.account.warmup),
            (2_000, 2_000, 10)
        );
        let account = go_on(past, 500, 90);
        assert_eq!((account.slots, account.warmup), (2_500, 10));
        adds_up(&RunFile::read(path).unwrap(), &account);
    });
}

#[test]
fn a_run_that_was_ended_early_and_resumed_has_one_account() {
    in_a_file(|path| {
        let mut recorder = begin(path);
        let cycles = serve(&mut recorder, Instant::from_ns(0), 0, 1_500);
        end(&mut recorder, Instant::from_ns(0), 1_500, cycles);
        recorder.close(&closing(EndReason::Asked)).unwrap();
        let past = Past::open(path).unwrap();

        assert_eq!(
            (past.ended, past.account.slots, past.next_block),
            (Some(EndReason::Asked), 1_500, 1)
        );
        assert!((past.last_t - 1.5).abs() < 1e-9, "{}", past.last_t);
        let account = go_on(past, 500, 90);
        assert_eq!(
            (account.slots, account.cpu_ns, account.page_faults, account.untold),
            (2_000, 2_000, 4, 0)
        );
        let run = RunFile::read(path).unwrap();

        assert_eq!(run.end, Some(account.clone()), "the last one is the whole file's");
        adds_up(&run, &account);
        assert!(
            (run.blocks[1].t - 90.0).abs() < 1e-9,
            "times go on by the wall clock, whatever the other one says"
        );
    });
}

#[test]
fn what_comes_behind_a_closing_line_was_cut_off_until_it_has_one_of_its_own() {
    in_a_file(|path| {
        let mut recorder = begin(path);
        let cycles = serve(&mut recorder, Instant::from_ns(0), 0, 1_500);
        end(&mut recorder, Instant::from_ns(0), 1_500, cycles);
        recorder.close(&closing(EndReason::Asked)).unwrap();
        let mut killed =
            Recorder::go_on(Past::open(path).unwrap(), (BOOTED, 90 * SECOND_NS), recording())
                .unwrap();
        serve(&mut killed, BOOTED, 1, 2_500);
        drop(killed);
        let run = RunFile::read(path).unwrap();

        assert!(!run.is_complete() && run.end.is_none());
        let account = run.account();
        assert_eq!(
            (account.slots, account.cpu_ns, account.untold),
            (3_500, 1_000, 2_000),
            "two seconds were written"
        );
        adds_up(&run, &account);
        let account = go_on(Past::open(path).unwrap(), 500, 120);

        assert_eq!((account.slots, account.cpu_ns, account.untold), (4_000, 2_000, 2_000));
    });
}

#[test]
fn a_file_whose_writer_is_alive_goes_on_and_is_not_taken_over() {
    in_a_file(|path| {
        let mut alive = begin(path);
        serve(&mut alive, Instant::from_ns(0), 0, 1_500);
        assert!(RunFile::read(path).unwrap().goes_on);
        let why = Past::open(path).unwrap_err();

        assert!(matches!(why, RunFileError::BeingWritten { .. }), "{why}");
        drop(alive);
        assert!(!RunFile::read(path).unwrap().goes_on && Past::open(path).is_ok());
    });
}

#[test]
fn an_interval_that_is_written_out_early_is_whole_in_its_parts() {
    in_a_file(|path| {
        let mut recorder = begin(path);
        recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();
        for index in 0..2_000 {
            let release = Instant::from_ns(index * MS);
            recorder
                .sample(
                    &Sample { index, release, wakeup_latency_ns: 20_000, ..Sample::default() },
                    None,
                )
                .unwrap();
            if index == 299 || index == 699 {
                recorder.write_out().unwrap();
                assert_eq!(RunFile::read(path).unwrap().account().slots, index + 1);
            }
        }

        end(&mut recorder, Instant::from_ns(0), 2_000, 2_000);
        recorder.close(&Account::default()).unwrap();
        let run = RunFile::read(path).unwrap();
        let parts: Vec<(f64, f64, u64)> =
            run.intervals.iter().map(|i| (i.t, i.length, i.cycles)).collect();
        assert_eq!(parts, [(0.0, 0.3, 300), (0.3, 0.4, 400), (0.7, 0.3, 300), (1.0, 1.0, 1_000)]);
        assert_eq!(
            run.trends.iter().map(|trend| trend.cycles).collect::<Vec<_>>(),
            [0, 1_000],
            "the trend keeps its grid"
        );
    });
}

proptest! {
    /// Whatever byte a crash leaves as the last one, everything whole before it is kept and
    /// counted.
    #[test]
    fn a_file_cut_at_any_byte_goes_on(cut in 0.0_f64..1.0, skipped_s in 0_u64..1_000) {
        in_a_file(|path| {
            let mut killed = begin(path);
            let header_ends = killed.writer().written();
            serve(&mut killed, Instant::from_ns(0), 0, 3_200);
            drop(killed);
            let whole = std::fs::read(path).unwrap();
            let length = header_ends + (cut * (whole.len() as u64 - header_ends) as f64) as u64;
            OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
            let before = std::fs::read(path).unwrap();
            let lines = before.iter().rposition(|b| *b == b'\n').unwrap() + 1;

            let past = Past::open(path).unwrap();
            let (slots, from_s) = (past.account.slots, past.last_t.ceil() as u64 + skipped_s);
            assert!(slots <= 3_000);
            let account = go_on(past, 4_000 - slots, from_s);

            let run = RunFile::read(path).unwrap();
            assert!(std::fs::read(path).unwrap().starts_with(&before[..lines]), "nothing whole is lost");
            assert_eq!((account.slots, run.is_complete()), (4_000, true));
            adds_up(&run, &account);

            assert!(run.entries.is_sorted_by_key(|entry| entry.t));
            // Where not even the block had begun, the resumed part is the first one.
            let part = run.blocks.len() as u32 - 1;
            let before = run.intervals.iter().filter(|interval| interval.block < part);
            let cut_off: u64 = before.map(|interval| interval.cycles + interval.skipped).sum();

            assert_eq!(cut_off, slots);
            assert_eq!(account.untold, slots, "what the kernel counted of them is not known");
        });
    }
}
