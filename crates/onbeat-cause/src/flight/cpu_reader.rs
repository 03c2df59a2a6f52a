//! The kernel's ring buffer of one CPU, and the pages of it that are kept.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::RangeInclusive;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use crate::decode::EventDecoder;
use crate::event::{LostEvents, TraceEvent};
use crate::format::PageLayout;
use crate::page::RingPage;
use crate::tracefs::{TraceError, read_page};
use crate::window::CpuWindow;

/// One CPU's buffer.
#[derive(Debug)]
pub(super) struct CpuReader {
    pub(super) cpu: u32,
    pipe: File,
    pages: VecDeque<KeptPage>,
    lost: VecDeque<LostEvents>,
    /// Usual and maximum number of kept pages.
    kept: RangeInclusive<usize>,
    /// Start of the newest page.
    newest: Instant,
    /// End of the newest dropped page.
    dropped: Option<Instant>,
    /// Buffer of a dropped page, for reuse.
    spare: Vec<u8>,
}

#[derive(Debug)]
struct KeptPage {
    begins: Instant,
    bytes: Vec<u8>,
}

/// Number of gaps kept per CPU.
const LOST_KEPT: usize = 64;
impl CpuReader {
    pub(super) fn new(cpu: u32, pipe: File, kept: RangeInclusive<usize>) -> Self {
        let newest = Instant::from_ns(0);
        let pages = VecDeque::new();
        let lost = VecDeque::new();
        Self { cpu, pipe, pages, lost, kept, newest, dropped: None, spare: Vec::new() }
    }

    pub(super) fn bytes_held(&self) -> usize {
        self.pages.iter().map(|page| page.bytes.capacity()).sum()
    }

    /// Reads the events recorded up to now and keeps the pages that reach beyond `needed`. Events
    /// that arrive during the call are left for the next one: reading itself causes events, so the
    /// call would not end otherwise.
    pub(super) fn drain(&mut self, layout: &PageLayout, needed: Instant) -> Result<(), TraceError> {
        let now = Monotonic.now();
        // Up to what was there at the call: a CPU that writes faster than this reads would be read
        // for ever.
        while self.newest <= now {
            // The buffer of the page that was dropped last: reading allocates nothing once the kept
            // pages are full.
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.resize(layout.page_size(), 0);
            let Some(length) = read_page(&self.pipe, &mut bytes, self.cpu)? else { break };
            bytes.truncate(length);
            self.keep(bytes, layout, needed);
        }

        Ok(())
    }

    fn keep(&mut self, bytes: Vec<u8>, layout: &PageLayout, needed: Instant) {
        // A page that cannot be parsed is a gap, which ends at the next page.
        let Ok(page) = RingPage::parse(&bytes, layout) else { return };
        let begins = Instant::from_ns(page.timestamp_ns);
        // The kernel marks the first page after events that were overwritten before they were read.
        if let Some(missed) = page.missed {
            let from = self.last_instant(layout).unwrap_or_default();
            self.lost.push_back(LostEvents {
                cpu: self.cpu,
                from,
                to: begins,
                count: missed.count,
            });
            if self.lost.len() > LOST_KEPT {
                self.lost.pop_front();
            }
        }

        self.pages.push_back(KeptPage { begins, bytes });
        self.newest = begins;
        // A page ends where the next one begins.
        let first_ends = self.pages.get(1).map_or(begins, |page| page.begins);
        // The usual number, as long as nobody needs the oldest; the most in any case.
        let too_many = self.pages.len() > *self.kept.start() && first_ends <= needed;
        if too_many || self.pages.len() > *self.kept.end() {
            self.spare = self.pages.pop_front().map(|page| page.bytes).unwrap_or_default();
            self.dropped = Some(first_ends);
        }
    }

    /// Returns the gaps between `from` and `to`: events overwritten by the kernel, or dropped here
    /// because the page limit was reached.
    pub(super) fn lost_between(
        &self,
        from: Instant,
        to: Instant,
    ) -> impl Iterator<Item = LostEvents> {
        // What was thrown away here is lost as well, by our doing; without a count, since nobody
        // decoded it.
        let dropped = self.dropped.filter(|until| *until > from);
        let dropped =
            dropped.map(|until| LostEvents { cpu: self.cpu, from, to: until.min(to), count: None });
        let overwritten = self.lost.iter().filter(move |lost| lost.from < to && lost.to > from);
        dropped.into_iter().chain(overwritten.copied())
    }

    pub(super) fn last_instant(&self, layout: &PageLayout) -> Option<Instant> {
        let page = RingPage::parse(&self.pages.back()?.bytes, layout).ok()?;
        let last = page.records().filter_map(Result::ok).last();
        Some(Instant::from_ns(last.map_or(page.timestamp_ns, |record| record.at_ns)))
    }

    pub(super) fn events_between(
        &self,
        from: Instant,
        to: Instant,
        layout: &PageLayout,
        decoder: &EventDecoder,
    ) -> CpuWindow {
        let after = self.pages.partition_point(|page| page.begins <= from);
        let mut events: Vec<TraceEvent> = Vec::new();
        for kept in
            // The page that begins before the window holds its first events.
            self
                .pages
                .iter()
                .skip(after.saturating_sub(1))
                .take_while(|page| page.begins <= to)
        {
            let Ok(page) = RingPage::parse(&kept.bytes, layout) else { continue };
            let records = page.records().filter_map(Result::ok);
            let decoded = records.filter_map(|record| decoder.decode(self.cpu, &record));
            events.extend(decoded.filter(|event| event.at >= from && event.at <= to));
        }

        CpuWindow { cpu: self.cpu, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                          \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                          \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

    /// Returns an empty page that begins at `at`.
    fn page(at: u64) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..8].copy_from_slice(&at.to_ne_bytes());
        bytes
    }

    fn reader_of(pages: impl IntoIterator<Item = u64>, needed: u64) -> CpuReader {
        let layout = PageLayout::parse(LAYOUT).unwrap();
        let mut reader = CpuReader::new(0, File::open("/dev/null").unwrap(), 2..=5);
        pages.into_iter().for_each(|at| reader.keep(page(at), &layout, Instant::from_ns(needed)));
        reader
    }

    fn begins(reader: &CpuReader) -> Vec<u64> {
        reader.pages.iter().map(|page| page.begins.as_ns()).collect()
    }

    fn lost(reader: &CpuReader, from: u64, to: u64) -> Vec<(u64, u64)> {
        let lost = reader.lost_between(Instant::from_ns(from), Instant::from_ns(to));
        lost.map(|lost| (lost.from.as_ns(), lost.to.as_ns())).collect()
    }

    #[test]
    fn pages_inside_the_requested_window_are_kept_while_it_is_read() {
        let reader = reader_of([10, 20, 30, 40, 50], 25);
        assert_eq!(begins(&reader), [20, 30, 40, 50], "the page from 20 on ends at 30");
        assert_eq!(lost(&reader, 25, 60), []);
        let reader = reader_of([10, 20, 30, 40, 50], 100);
        assert_eq!(begins(&reader), [40, 50], "the others were not requested");
    }

    #[test]
    fn pages_dropped_at_the_limit_are_a_gap() {
        let reader = reader_of([10, 20, 30, 40, 50, 60, 70], 5);
        assert_eq!(begins(&reader), [30, 40, 50, 60, 70], "never more than five");
        assert_eq!(lost(&reader, 5, 65), [(5, 30)]);
        assert_eq!(lost(&reader, 5, 20), [(5, 20)]);
        assert_eq!(lost(&reader, 30, 65), []);
    }
}
