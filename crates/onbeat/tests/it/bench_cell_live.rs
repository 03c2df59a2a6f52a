//! A cell of a bench runs the companion of its probe as a measurement does.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use onbeat::bench::LoopOptions;
use onbeat::bench::cell::{CellReply, CellRequest, CellServer};
use onbeat::bench::cell_start::{CellStart, CellTask};
use onbeat::probe::description::{Companion, OnGrid, Parts, ProbeError};
use onbeat::probe::timer::Timer;
use onbeat::probe::{Interruptions, Setting};
use onbeat::record::{Cell, EndReason, NoFigures, Recorder, RunFile, Series};
use onbeat_rt::Flow;

/// Writes down which of its functions are called, `look` once for each block.
struct Observed {
    calls: Arc<Mutex<Vec<&'static str>>>,
    ends_blocks: Flow,
}

impl Observed {
    fn call(&self, name: &'static str) {
        let mut calls = self.calls.lock().unwrap();
        if calls.last() != Some(&name) {
            calls.push(name);
        }
    }
}

impl Companion for Observed {
    fn start(&mut self) -> Result<(), ProbeError> {
        self.call("start");
        Ok(())
    }

    fn look(&mut self, _: &mut Recorder) -> Flow {
        self.call("look");
        self.ends_blocks
    }

    fn after_block(&mut self, _: &mut Recorder) {
        self.call("after_block");
    }

    fn end(&mut self) -> Vec<String> {
        self.call("end");
        vec!["the companion has ended".to_owned()]
    }
}

/// The bench's end of the reply pipe.
struct ToBench(Sender<CellReply>);

impl Write for ToBench {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The server writes a line at once.
        let _ = self.0.send(serde_json::from_slice(bytes).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Requests the blocks one after the other, then ends the requests.
fn request(mut pipe: UnixStream, replies: Receiver<CellReply>, blocks: &'static [u64]) {
    thread::spawn(move || {
        let until = |is_it: fn(&CellReply) -> bool| replies.iter().find(is_it).unwrap();
        until(|reply| matches!(reply, CellReply::Ready(_)));
        for (index, releases) in (0..).zip(blocks) {
            let request = CellRequest::Block { index, releases: *releases };
            writeln!(pipe, "{}", serde_json::to_string(&request).unwrap()).unwrap();
            until(|reply| matches!(reply, CellReply::Done(_)));
        }
    });
}

/// Serves a cell with these blocks; what was called of its companion, and its run file.
fn served(ends_blocks: Flow, blocks: &'static [u64]) -> (Vec<&'static str>, RunFile) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("none-idle.onbeat.hlog");
    let start = CellStart {
        onbeat: CellStart::version(),
        command: vec!["onbeat".to_owned(), "bench".to_owned()],
        cell: Cell::new("none", "idle"),
        file: file.clone(),
        started_unix_s: 0.0,
        origin_ns: 0,
        task: CellTask::Timer,
        setting: Setting::new(1_000_000),
        options: LoopOptions::default(),
        explain: false,
        resume: None,
    };

    let calls = Arc::default();
    let parts = Parts {
        body: Box::new(OnGrid { task: Timer { work_ns: 0 }, has_ports: false }),
        figures: Box::new(NoFigures),
        companion: Box::new(Observed { calls: Arc::clone(&calls), ends_blocks }),
    };
    let run = start.open_run(&[Series::ReleaseLatency], Vec::new()).unwrap();
    let interruptions = Arc::new(Interruptions::default());
    let server = CellServer { run, load: start.cell.load, interruptions, explain: false };

    let (ours, theirs) = UnixStream::pair().unwrap();
    let (sender, replies) = channel();
    request(ours, replies, blocks);
    server.serve_loop(parts, theirs, ToBench(sender)).unwrap();

    let called = calls.lock().unwrap().clone();
    (called, RunFile::read(&file).unwrap())
}

#[test]
fn a_companion_starts_once_looks_in_each_block_and_ends_once() {
    let (calls, run) = served(Flow::Continue, &[100, 120]);
    assert_eq!(calls, ["start", "look", "after_block", "look", "after_block", "end"]);
    assert_eq!(run.remarks, ["the companion has ended"]);
    assert_eq!(run.blocks.len(), 2);
    assert_eq!(run.end.unwrap().slots, 220);
}

#[test]
fn a_companion_that_is_complete_ends_the_block_and_the_next_one_runs() {
    let (calls, run) = served(Flow::Stop, &[u64::MAX, u64::MAX]);
    assert_eq!(calls, ["start", "look", "after_block", "look", "after_block", "end"]);
    assert_eq!(run.end.unwrap().reason, EndReason::Complete);
}
