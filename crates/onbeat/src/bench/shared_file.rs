//! The file that cells which take turns share: their plan, what happens to all of them, and its
//! time.

use std::path::Path;

use onbeat_cause::Cost;
use onbeat_record::run_dir::BENCH_FILE;
use onbeat_record::{
    Account, EndReason, Header, LoadEvent, Note, Past, Remark, RunFileError, RunWriter, WriteError,
};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use crate::campaign::{CampaignEvent, CampaignReport};
use crate::probe::resume::{ResumePoint, ResumeTime};
use crate::probe::{self, Origin};

/// Has `open` open a run file to resume it; `None` where it does not exist, or was cut off in its
/// header, so that nothing was measured.
pub(super) fn past_of(
    path: &Path,
    open: fn(&Path) -> Result<Past, RunFileError>,
) -> Result<Option<Past>, RunFileError> {
    if !path.exists() {
        return Ok(None);
    }
    match open(path) {
        Ok(past) => Ok(Some(past)),
        Err(RunFileError::Foreign { .. }) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The file of an experiment in blocks, new or resumed.
pub(super) struct SharedFile {
    pub(super) writer: RunWriter,
    /// The start of this process, which is 0 in the files that it creates.
    pub(super) origin: Origin,
    resumed: Option<ResumedFile>,
}

/// The part of the file before it was resumed.
struct ResumedFile {
    point: ResumePoint,
    /// Why that part ended; `None` when it was cut off.
    after: Option<EndReason>,
    account: Account,
}

impl SharedFile {
    /// Creates the file in the directory of a run.
    pub(super) fn create(dir: &Path, origin: Origin, header: &Header) -> Result<Self, WriteError> {
        let writer = RunWriter::create(&dir.join(BENCH_FILE), header)?;
        Ok(Self { writer, origin, resumed: None })
    }

    /// Opens the file to resume it; the files of its cells end at `last_t` at the latest.
    pub(super) fn resume(past: Past, last_t: f64, origin: Origin) -> Result<Self, WriteError> {
        let last_t = last_t.max(past.last_t);
        let time = ResumeTime::new(past.header.started_unix_s, last_t, origin.unix_s);
        let point = ResumePoint { at_ns: origin.at.as_ns(), time };
        let (after, account) = (past.ended, past.account.clone());
        let resumed = Some(ResumedFile { point, after, account });
        Ok(Self { writer: RunWriter::go_on(past)?, origin, resumed })
    }

    /// Where all files continue; `None` for a new one.
    pub(super) fn point(&self) -> Option<&ResumePoint> {
        self.resumed.as_ref().map(|resumed| &resumed.point)
    }

    /// Returns the seconds since this process began or resumed the experiment.
    pub(super) fn elapsed_s(&self) -> f64 {
        Monotonic.now().ns_since(self.origin.at) as f64 / 1e9
    }

    /// Returns the time of the file.
    pub(super) fn seconds(&self) -> f64 {
        let from_ns = self.point().map_or(0, |point| point.time.from_ns);
        from_ns as f64 / 1e9 + self.elapsed_s()
    }

    /// Notes what happened to a load, and reports what the reader of the figures must know.
    pub(super) fn note_load(
        &mut self,
        events: Vec<LoadEvent>,
        report: CampaignReport<'_>,
    ) -> Result<(), WriteError> {
        for event in events {
            if event.event.matters() {
                report(CampaignEvent::Warned(&event.detail));
            }
            self.writer.note(&Note::Load(event))?;
        }
        Ok(())
    }

    /// Notes that the file is resumed, and what is doubtful about its time.
    pub(super) fn note_resume(&mut self) -> Result<(), WriteError> {
        let Some(ResumedFile { point, after, .. }) = &self.resumed else { return Ok(()) };
        self.writer.note(&Note::Resume(point.time.note(*after)))?;
        let Some(sentence) = point.time.doubt.clone() else { return Ok(()) };
        self.writer.note(&Note::Remark(Remark { sentence }))
    }

    /// Writes the closing line, with what explanations have cost. One that is not whole can be
    /// resumed.
    pub(super) fn close(mut self, is_whole: bool, cost: &Cost) -> Result<(), WriteError> {
        let reason = if is_whole { EndReason::Complete } else { EndReason::Asked };
        let t = self.seconds();
        let earlier = self.resumed.take().map(|resumed| resumed.account).unwrap_or_default();
        let account = Account { t, reason, ..probe::of_cost(cost) };
        self.writer.note(&Note::End(earlier.and(&account)))?;
        self.writer.sync()
    }
}
