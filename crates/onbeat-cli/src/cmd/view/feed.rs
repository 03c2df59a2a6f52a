//! Run files as they grow, for browsers that follow them.

use std::fmt::Write as _;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onbeat::record::run_dir::run_files;
use onbeat_host::foreign;
use onbeat_robot::live_view::{LiveViewAccount, ViewPace, ViewSource};
use serde_json::json;

use super::super::{Common, Failure};

const PACE: ViewPace =
    ViewPace { followed: Duration::from_millis(500), alone: Duration::from_millis(1_000) };
/// Bytes of lines in one round of one browser.
const ROUND_BYTES: usize = 192 * 1024;
/// Events around spikes are in the page of the ended run: they are most of a file, and nobody reads them
/// while the next ones come.
const LEFT_OUT: &str = "#[onbeat: {\"window\"";

/// What is shown of a run. The reader of its files fills it, the server's thread reads it.
#[derive(Debug, Default)]
pub(super) struct Feed(Mutex<FeedText>);

#[derive(Debug, Default)]
struct FeedText {
    files: Vec<FeedFile>,
    summary: String,
    /// Number of the newest summary, from 1.
    number: u64,
    is_followed: bool,
    is_behind: bool,
}

#[derive(Debug)]
struct FeedFile {
    name: String,
    /// Its whole lines so far.
    text: String,
    /// Bytes of the file that are in it.
    read: u64,
}

impl Feed {
    fn text(&self) -> MutexGuard<'_, FeedText> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lines that were written since the last call.
    pub(super) fn take(&self, run: &Path) -> Result<(), Failure> {
        for path in run_files(run)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let read =
                self.text().files.iter().find(|file| file.name == name).map_or(0, |f| f.read);
            let bytes = match bytes_from(&path, read) {
                Ok(bytes) => bytes,
                // The next call finds it.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                Err(why) => return Err(Common::file("read", &path)(why).into()),
            };
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            self.text().add(&name, &bytes[..whole]);
        }
        Ok(())
    }

    /// Shows a summary, as JSON in one line.
    pub(super) fn show(&self, summary: String) {
        let mut text = self.text();
        text.summary = summary;
        text.number += 1;
        // Until a look finds that all have it.
        text.is_behind = text.is_followed;
    }

    /// Whether a browser follows.
    pub(super) fn is_followed(&self) -> bool {
        self.text().is_followed
    }

    /// Whether a browser that follows has not been sent everything.
    pub(super) fn is_behind(&self) -> bool {
        self.text().is_behind
    }
}

impl FeedText {
    fn add(&mut self, name: &str, lines: &[u8]) {
        let place = self.files.iter().position(|file| file.name == name);
        let place = place.unwrap_or_else(|| {
            let name = name.to_owned();
            self.files.push(FeedFile { name, text: String::new(), read: 0 });
            self.files.len() - 1
        });
        let file = &mut self.files[place];
        file.read += lines.len() as u64;
        let text = String::from_utf8_lossy(lines);
        let kept = text.split_inclusive('\n').filter(|line| !line.starts_with(LEFT_OUT));
        file.text.extend(kept);
    }
}

fn bytes_from(path: &Path, at: u64) -> io::Result<Vec<u8>> {
    let mut file = foreign::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a browser has been sent of a run.
#[derive(Debug, Default)]
pub(super) struct SentRun {
    /// Bytes of each file's text, in the order of the feed.
    bytes: Vec<usize>,
    /// Number of the newest summary.
    summary: u64,
}

impl SentRun {
    fn is_behind(&self, text: &FeedText) -> bool {
        let sent = |place: usize| self.bytes.get(place).copied().unwrap_or(0);
        self.summary < text.number
            || text.files.iter().enumerate().any(|(place, file)| sent(place) < file.text.len())
    }
}

/// The run that a server shows.
pub(super) struct RunSource(pub(super) Arc<Feed>);

impl ViewSource for RunSource {
    type Pending = SentRun;

    fn pace(&self) -> ViewPace {
        PACE
    }

    fn look(
        &mut self,
        following: &mut dyn Iterator<Item = &mut SentRun>,
        _account: &mut LiveViewAccount,
    ) {
        let mut text = self.0.text();
        (text.is_followed, text.is_behind) = (false, false);
        for sent in following {
            let is_behind = sent.is_behind(&text);
            text.is_followed = true;
            text.is_behind = text.is_behind || is_behind;
        }
    }

    fn write(&mut self, sent: &mut SentRun, _round: u64, out: &mut String) -> u64 {
        let feed = self.0.text();
        sent.bytes.resize(feed.files.len(), 0);
        let mut room = ROUND_BYTES;
        let mut events = 0;
        for (file, sent) in feed.files.iter().zip(&mut sent.bytes) {
            let rest = &file.text[*sent..];
            if rest.is_empty() || room == 0 {
                continue;
            }
            let lines = whole_lines(rest, room);
            let data = json!({ "file": file.name, "text": lines });
            let _ = write!(out, "event: lines\ndata: {data}\n\n");
            *sent += lines.len();
            room = room.saturating_sub(lines.len());
            events += 1;
        }
        // Figures come behind the lines that they are of.
        let is_whole =
            feed.files.iter().zip(&sent.bytes).all(|(file, sent)| *sent == file.text.len());
        if is_whole && sent.summary < feed.number {
            let _ = write!(out, "event: summary\ndata: {}\n\n", feed.summary);
            sent.summary = feed.number;
            events += 1;
        }
        events
    }

    fn merged(&self, _sent: &mut SentRun) {}
}

/// As many whole lines as have room, and one at least.
fn whole_lines(text: &str, room: usize) -> &str {
    if text.len() <= room {
        return text;
    }
    let head = &text.as_bytes()[..room];
    let end = head.iter().rposition(|byte| *byte == b'\n').map(|last| last + 1);
    let end = end.or_else(|| text.find('\n').map(|first| first + 1)).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_once_and_in_order_whatever_the_file_was_cut_at() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("a.onbeat.hlog");
        let all = "#[onbeat: {\"run\":{}}]\n1,2,3,A\n#[onbeat: {\"window\":{}}]\n4,5,6,B\n";
        let feed = Arc::new(Feed::default());
        let mut source = RunSource(Arc::clone(&feed));
        let mut sent = SentRun::default();
        let mut got = String::new();
        for end in 0..=all.len() {
            std::fs::write(&file, &all[..end]).expect("there is room");
            feed.take(&file).expect("it can be read");
            let mut out = String::new();
            source.write(&mut sent, 1, &mut out);
            for data in out.lines().filter_map(|line| line.strip_prefix("data: ")) {
                let event: serde_json::Value = serde_json::from_str(data).expect("JSON");
                assert_eq!(event["file"], "a.onbeat.hlog");
                got.push_str(event["text"].as_str().expect("text"));
            }
        }
        assert_eq!(got, "#[onbeat: {\"run\":{}}]\n1,2,3,A\n4,5,6,B\n");
    }

    #[test]
    fn a_round_has_a_bounded_size_and_the_summary_comes_behind_all_lines() {
        let feed = Arc::new(Feed::default());
        let line = format!("{}\n", "x".repeat(99));
        feed.text().add("f", line.repeat(5_000).as_bytes());
        feed.show("{}".to_owned());
        let mut source = RunSource(Arc::clone(&feed));
        let mut sent = SentRun::default();
        let mut rounds = 0;
        while sent.is_behind(&feed.text()) {
            let mut out = String::new();
            source.write(&mut sent, 1, &mut out);
            rounds += 1;
            assert!(out.len() < ROUND_BYTES + ROUND_BYTES / 10, "{}", out.len());
            assert_eq!(out.contains("event: summary"), !sent.is_behind(&feed.text()));
        }
        assert_eq!(rounds, 500_000_usize.div_ceil(ROUND_BYTES / 100 * 100));
    }

    #[test]
    fn a_line_that_is_longer_than_a_round_goes_in_one_piece() {
        assert_eq!(whole_lines("aaaa\nb\n", 3), "aaaa\n");
        assert_eq!(whole_lines("a\nb\nc\n", 4), "a\nb\n");
        assert_eq!(whole_lines("a\n", 9), "a\n");
    }
}
