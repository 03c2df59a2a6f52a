//! Reads any bytes as a run file and reports it: a report, or one sentence.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use onbeat::record::RunFile;
use onbeat_report::tables;
use onbeat_report::{JudgeBy, JudgedRun, Letters};

fuzz_target!(|bytes: &[u8]| {
    let run = match RunFile::parse(Path::new("run.onbeat.hlog"), bytes) {
        Ok(run) => run,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return;
        }
    };
    let Some(JudgedRun { mut summary, runs, .. }) = JudgedRun::new(vec![run], JudgeBy::default()) else { return };
    summary.conclude(&runs, Some(3600.0));
    let loads: Vec<String> = summary.cells.iter().map(|cell| cell.load.clone()).collect();
    for load in &loads {
        let _ = tables::by_tuning(&summary, load, Letters::Ascii).to_text(100);
    }
    let _ = serde_json::to_string(&summary).expect("a summary can be written");
});
