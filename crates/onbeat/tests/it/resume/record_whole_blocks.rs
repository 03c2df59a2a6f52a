//! What the file of a bench's cell holds when it was cut off at any byte, or ended early, and was
//! resumed after its last complete block.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use onbeat::record::{Account, DroppedBlock, EndReason, Past, Recorder, RunFile, Series};
use onbeat_rt::{Instant, Sample};
use proptest::prelude::*;

use crate::record_world::{MS, SECOND_NS, header, outcome, recorder, recording};

/// Releases of a block: two whole intervals and a half.
const SLOTS: u64 = 2_500;
const BLOCKS: u32 = 4;

fn create(path: &Path) -> Recorder {
    recorder(path, &header(&["onbeat", "bench"]), recording())
}

/// Runs `slots` releases of a block that was planned to have [`SLOTS`]; one of a hundred is
/// skipped.
fn block(recorder: &mut Recorder, index: u32, slots: u64) {
    let from = Instant::from_ns(u64::from(index) * 3 * SECOND_NS);
    recorder.plan_block(SLOTS);
    recorder.begin_block(index, from, "idle", 10).unwrap();
    let mut cycles = 0;
    for at in (0..slots).filter(|at| at % 100 != 42) {
        let skipped = u64::from(at % 100 == 43);
        let release = from.plus_ns(at * MS);
        let sample = Sample {
            index: at,
            release,
            wakeup_latency_ns: 20_000 + at,
            skipped,
            ..Sample::default()
        };
        recorder.sample(&sample, None).unwrap();
        cycles += 1;
    }

    // The last release of all is not the skipped one, so that no latency is open at the end.
    recorder.end_block(&outcome(from, slots, cycles)).unwrap();
}

fn closing(reason: EndReason) -> Account {
    Account { reason, cpu_ns: 1_000, ..Account::default() }
}

/// A cell's file with `BLOCKS` complete blocks, and its closing line.
fn whole(dir: &Path) -> PathBuf {
    let path = dir.join("none-idle.onbeat.hlog");
    let mut recorder = create(&path);
    (0..BLOCKS).for_each(|index| block(&mut recorder, index, SLOTS));
    recorder.close(&closing(EndReason::Complete)).unwrap();
    path
}

/// Measures the blocks that are missing, and returns the closing account.
fn resume(path: &Path) -> Account {
    let past = Past::open_at_whole_block(path).unwrap();
    let next = past.next_block;
    // Times of a block follow from its index, as if nothing had been unmeasured.
    let mut recorder = Recorder::go_on(past, (Instant::from_ns(0), 0), recording()).unwrap();
    (next..BLOCKS).for_each(|index| block(&mut recorder, index, SLOTS));
    recorder.close(&closing(EndReason::Complete)).unwrap()
}

/// Every slot is there once, in every account.
fn adds_up(path: &Path, account: &Account) {
    let run = RunFile::read(path).unwrap();
    let all = SLOTS * u64::from(BLOCKS);
    assert_eq!((account.slots, account.cycles + account.skipped + account.lost), (all, all));
    let kept = [Series::WakeupLatency, Series::SkippedLatency]
        .map(|series| run.distribution(series).count());
    assert_eq!(kept[0] + kept[1] + account.lost + account.warmup + account.excluded, all);
    assert_eq!(
        run.blocks.iter().map(|block| block.index).collect::<Vec<_>>(),
        (0..BLOCKS).collect::<Vec<_>>()
    );
    assert!(run.blocks.iter().all(|block| block.releases == Some(SLOTS)));
    assert_eq!(run.intervals.len(), 3 * BLOCKS as usize, "no interval of a dropped block is left");
}

#[test]
fn a_complete_file_has_nothing_to_drop() {
    let dir = tempfile::tempdir().unwrap();
    let path = whole(dir.path());
    let past = Past::open_at_whole_block(&path).unwrap();
    assert_eq!(
        (past.dropped, past.next_block, past.ended),
        (None, BLOCKS, Some(EndReason::Complete))
    );
}

#[test]
fn a_block_that_was_asked_to_end_is_dropped_with_its_closing_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none-idle.onbeat.hlog");
    let mut recorder = create(&path);
    block(&mut recorder, 0, SLOTS);
    block(&mut recorder, 1, 1_200);
    recorder.close(&closing(EndReason::Asked)).unwrap();

    let past = Past::open_at_whole_block(&path).unwrap();
    assert_eq!(past.dropped, Some(DroppedBlock { index: 1, slots: 1_200 }));
    assert_eq!((past.next_block, past.ended, past.account.slots), (1, None, SLOTS));
    drop(past);
    adds_up(&path, &resume(&path));
}

#[test]
fn a_file_that_was_closed_between_two_blocks_keeps_both_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none-idle.onbeat.hlog");
    let mut recorder = create(&path);
    block(&mut recorder, 0, SLOTS);
    recorder.close(&closing(EndReason::Complete)).unwrap();

    let account = resume(&path);
    adds_up(&path, &account);
    assert_eq!((account.cpu_ns, account.untold), (2_000, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_file_cut_off_at_any_byte_has_every_block_once_in_the_end(cuts in prop::collection::vec(0.0..1.0_f64, 1..4)) {
        let dir = tempfile::tempdir().unwrap();
        let path = whole(dir.path());
        let text = fs::read_to_string(&path).unwrap();
        let header_bytes = text.find("#[onbeat: {\"block\"").unwrap();
        for cut in cuts {
            let length = fs::metadata(&path).unwrap().len() as f64;
            let bytes = header_bytes as f64 + cut * (length - header_bytes as f64);
            OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes as u64).unwrap();
            let read = RunFile::read(&path).unwrap();

            let past = Past::open_at_whole_block(&path).unwrap();
            prop_assert_eq!(past.account.slots, u64::from(past.next_block) * SLOTS);
            prop_assert!(read.blocks.len() as u32 <= past.next_block + 1, "at most the last block is dropped");
            drop(past);
            adds_up(&path, &resume(&path));
        }
    }
}
