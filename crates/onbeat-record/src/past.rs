//! The state of a run file that is resumed after a crash, a power cut, a reboot or a signal.
//!
//! Read line by line, so that the length of the file takes no memory. A last line that was cut in
//! the middle is left out here and taken away by [`RunWriter::go_on`](super::RunWriter::go_on);
//! nothing whole is lost.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::note::{Account, EndReason, Header, Interval, Note};
use super::run_file::{RunFile, RunFileError};
use super::series::Series;
use super::window::Keeping;
use super::writer_lock::lock_of;

/// A run file that can be resumed. It is locked against other writers.
#[derive(Debug)]
pub struct Past {
    pub path: PathBuf,
    /// What the run is.
    pub header: Header,
    /// The account so far.
    pub account: Account,
    /// Why it ended; `None` when it was cut off.
    pub ended: Option<EndReason>,
    /// The last instant that it speaks of, in seconds since its start.
    pub last_t: f64,
    /// The number of the block to come.
    pub next_block: u32,
    /// Bytes up to the end of its last whole line.
    pub(super) whole_bytes: u64,
    pub(super) file: File,
    pub(super) keeping: Keeping,
    /// The block that [`Past::open_at_whole_block`] leaves out.
    pub dropped: Option<DroppedBlock>,
    /// Counts of histograms that have no interval note after them, as such a note.
    pub(super) untold: Option<Interval>,
}

/// A block that was not complete, and is measured again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedBlock {
    /// Its index within the run.
    pub index: u32,
    /// Releases of it that the file counted.
    pub slots: u64,
}

/// How a file's slots add up while it is read.
#[derive(Clone, Debug, Default)]
struct Sums {
    account: Account,
    open: Account,
    ended: Option<EndReason>,
    last_t: f64,
    next_block: u32,
}

impl Sums {
    fn note(&mut self, note: &Note) {
        let t = match note {
            Note::Block(block) => {
                self.ended = None;
                // The largest, not the last: a run that was resumed twice may have notes of a block
                // that was dropped.
                self.next_block = self.next_block.max(block.index.saturating_add(1));
                block.t
            }
            Note::Resume(resume) => {
                self.ended = None;
                resume.t
            }
            Note::Interval(interval) => {
                self.open.add_interval(interval);
                interval.t + interval.length
            }
            Note::End(account) => {
                // A closing line contains all intervals before it. Whatever comes after belongs to
                // a part that was resumed.
                (self.account, self.open) = (account.clone(), Account::default());
                self.ended = Some(account.reason);
                account.t
            }
            Note::Load(load) => load.t,
            _ => 0.0,
        };

        self.last_t = self.last_t.max(t);
    }
}

impl Account {
    /// Counts what an interval of a part records that was killed before its closing line.
    pub(super) const fn add_interval(&mut self, interval: &Interval) {
        // Warm-up and left-out cycles were served, though they are in no series: the grid passed
        // over them.
        let cycles = interval.cycles
            + interval.warmup
            + interval.excluded.saturating_sub(interval.excluded_skipped);
        let skipped = interval.skipped + interval.excluded_skipped;
        let slots = cycles + skipped + interval.lost;
        self.slots += slots;
        self.cycles += cycles;
        self.skipped += skipped;
        self.lost += interval.lost;
        self.warmup += interval.warmup;
        self.excluded += interval.excluded;
        // Counted from lines and not told by the loop: a reader sees how much of the account rests
        // on them.
        self.untold += slots;
    }

    /// Both parts of one run together; when and why it ended is `later`'s.
    #[must_use]
    pub fn and(&self, later: &Self) -> Self {
        Self {
            t: later.t,
            reason: later.reason,
            slots: self.slots + later.slots,
            cycles: self.cycles + later.cycles,
            skipped: self.skipped + later.skipped,
            lost: self.lost + later.lost,
            warmup: self.warmup + later.warmup,
            warmup_worst_ns: self.warmup_worst_ns.max(later.warmup_worst_ns),
            excluded: self.excluded + later.excluded,
            untold: self.untold + later.untold,
            page_faults: self.page_faults + later.page_faults,
            involuntary_switches: self.involuntary_switches + later.involuntary_switches,
            cpu_ns: self.cpu_ns + later.cpu_ns,
            causes_cpu_ns: self.causes_cpu_ns + later.causes_cpu_ns,
            causes_explained: self.causes_explained + later.causes_explained,
            causes_incomplete: self.causes_incomplete + later.causes_incomplete,
            causes_slowest_ns: self.causes_slowest_ns.max(later.causes_slowest_ns),
            causes_bytes: self.causes_bytes.max(later.causes_bytes),
        }
    }
}

impl Past {
    /// Opens a run file to resume it.
    ///
    /// # Errors
    /// [`RunFileError`]; [`RunFileError::BeingWritten`] while its writer is alive.
    pub fn open(path: &Path) -> Result<Self, RunFileError> {
        Self::open_from(path, |_| None)
    }

    /// Opens a run file to resume it after its last complete block: a block that was running when
    /// the run was killed or asked to end is in [`Past::dropped`], and
    /// [`RunWriter::go_on`](super::RunWriter::go_on) removes its lines.
    ///
    /// A block is complete when the file counts as many slots of it as it was planned to have.
    ///
    /// # Errors
    /// As [`Past::open`].
    pub fn open_at_whole_block(path: &Path) -> Result<Self, RunFileError> {
        Self::open_from(path, PastReader::drop_open_block)
    }

    fn open_from(
        path: &Path,
        dropped: impl FnOnce(&mut PastReader) -> Option<DroppedBlock>,
    ) -> Result<Self, RunFileError> {
        let failed = |source| RunFileError::Read { path: path.to_owned(), source };
        // Looked at first by the opener of foreign files: opening a FIFO or a device to write could
        // block or do harm.
        onbeat_host::foreign::open(path).map_err(failed)?;
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        // The writer holds the lock as long as it lives, also after kill -9 of its parent. Two
        // writers would mix their lines.
        lock_of(&file).map_err(|()| RunFileError::BeingWritten { path: path.to_owned() })?;
        let mut reading = PastReader::default();
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        // A line without its end was cut off by a crash. It is not read, and what comes next
        // overwrites it.
        while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 && line.ends_with(b"\n") {
            reading.line(&line);
            line.clear();
        }

        let foreign =
            || RunFileError::Foreign { path: path.to_owned(), line: reading.lines.min(2) };
        let header = reading.header.take().filter(|_| reading.has_columns).ok_or_else(foreign)?;
        let dropped = dropped(&mut reading);
        let mut sums = reading.sums;
        let untold =
            untold(path, &reading.run_line, &reading.orphans, sums.next_block.saturating_sub(1))?;
        if let Some(interval) = &untold {
            sums.note(&Note::Interval(Box::new(interval.clone())));
        }

        Ok(Self {
            path: path.to_owned(),
            header,
            account: sums.account.and(&sums.open),
            ended: sums.ended,
            last_t: sums.last_t,
            next_block: sums.next_block,
            whole_bytes: reading.bytes,
            file,
            keeping: reading.keeping,
            dropped,
            untold,
        })
    }
}

#[derive(Debug, Default)]
struct PastReader {
    lines: usize,
    bytes: u64,
    header: Option<Header>,
    has_columns: bool,
    run_line: Vec<u8>,
    sums: Sums,
    keeping: Keeping,
    /// Histogram lines that count releases since the last interval note.
    orphans: Vec<u8>,
    block_start: Option<BlockStart>,
}

/// What was read up to the start of the last block.
#[derive(Debug)]
struct BlockStart {
    index: u32,
    bytes: u64,
    sums: Sums,
    keeping: Keeping,
    /// Its planned length in releases, where the file has it.
    releases: Option<u64>,
}

impl PastReader {
    /// Takes a whole line. What cannot be read is for the reader of run files to complain about.
    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        self.bytes += line.len() as u64;
        self.has_columns |= line.starts_with(b"\"StartTimestamp\"");
        let has_tag =
            |series: Series| line.starts_with(format!("Tag={},", series.tag()).as_bytes());
        let is_untagged = line.first().is_some_and(u8::is_ascii_digit);
        // Histogram lines come before the note of their interval. If the writer died between them,
        // the lines stand and the note does not: they are kept here until a note tells that they
        // were counted.
        if is_untagged || has_tag(Series::SkippedLatency) || has_tag(Series::WakeupLatency) {
            self.orphans.extend_from_slice(line);
        }

        let Some(json) =
            line.strip_prefix(b"#[onbeat: ").and_then(|rest| rest.strip_suffix(b"]\n"))
        else {
            return;
        };
        // The kind stands first in each note, so that the large ones (joints, seconds) are skipped
        // without parsing.
        const SUMMED_KINDS: [&str; 7] =
            ["run", "block", "resume", "interval", "window", "load", "end"];
        let is = |kind: &&str| json.starts_with(format!("{{\"{kind}\"").as_bytes());
        if !SUMMED_KINDS.iter().any(is) {
            return;
        }

        match serde_json::from_slice(json) {
            Ok(Note::Run(header)) if self.header.is_none() => {
                self.header = Some(*header);
                self.run_line = line.to_vec();
            }
            Ok(Note::Window(window)) => {
                self.keeping.remember(window.lateness_ns(), window.packed.len() as u64);
            }
            Ok(note) => {
                if let Note::Interval(_) = note {
                    // They were lines of the block that is dropped.
                    self.orphans.clear();
                }
                self.follow_block(&note, line.len() as u64);
                self.sums.note(&note);
            }
            // A note of a later version, or a damaged one. Resuming only appends; reading the whole
            // file reports it with its line.
            Err(_) => {}
        }
    }

    /// Follows whether the last block is complete; the line of `note` has `length` bytes.
    fn follow_block(&mut self, note: &Note, length: u64) {
        match note {
            Note::Block(block) => {
                self.block_start = Some(BlockStart {
                    index: block.index,
                    bytes: self.bytes - length,
                    sums: self.sums.clone(),
                    keeping: self.keeping.clone(),
                    releases: block.releases,
                });
            }
            // What came before is settled.
            Note::Resume(_) => self.block_start = None,
            _ => {}
        }
    }

    /// Goes back to the start of the last block, when that is not complete.
    fn drop_open_block(&mut self) -> Option<DroppedBlock> {
        let BlockStart { index, bytes, sums, keeping, releases } = self.block_start.take()?;
        let slots = |sums: &Sums| sums.account.slots + sums.open.slots;
        let dropped = DroppedBlock { index, slots: slots(&self.sums).saturating_sub(slots(&sums)) };
        // The block was complete and only its end is missing: measuring it again would lose what is
        // there.
        if dropped.slots >= releases? {
            return None;
        }

        self.bytes = bytes;
        self.sums = sums;
        self.keeping = keeping;
        self.orphans.clear();

        Some(dropped)
    }
}

/// What histograms count that no interval note follows, because the run was killed between the two.
fn untold(
    path: &Path,
    run_line: &[u8],
    orphans: &[u8],
    block: u32,
) -> Result<Option<Interval>, RunFileError> {
    if orphans.is_empty() {
        return Ok(None);
    }

    // As a run file of these lines alone: one reader, one set of rules.
    let run = RunFile::parse(path, &[run_line, orphans].concat())?;
    let count = |series: Series| run.distribution(series).count();
    let cycles = count(Series::WakeupLatency);
    let skipped = count(Series::SkippedLatency);
    let first = run.entries.first();
    let (t, length) = first.map_or((0.0, 0.0), |entry| (entry.t, entry.length));
    Ok(Some(Interval { t, length, block, cycles, skipped, ..Interval::default() }))
}
