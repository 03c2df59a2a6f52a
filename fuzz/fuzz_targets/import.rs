//! Imports any bytes as a file of another tool, writes a run file and reads it back.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, Format, SourceOptions};
use onbeat::record::{Cell, RunFile};

fuzz_target!(|bytes: &[u8]| {
    // The first byte selects the format, or none; the rest is the file.
    let [choice, file @ ..] = bytes else { return };
    let format = Format::ALL.get(usize::from(*choice) % (2 * Format::ALL.len())).copied();
    let asked = SourceOptions { format, unit_ns: Some(1e3), period_ns: Some(1_000_000), ..SourceOptions::default() };
    let Ok(streams) = import::read(&mut Cursor::new(file), &asked) else { return };
    let path = std::env::temp_dir().join(format!("onbeat-fuzz-{}", std::process::id()));
    for stream in streams.iter().take(4) {
        let cell = Cell::new(stream.label.clone(), "unknown");
        let labels = ImportLabels { command: Vec::new(), file: "fuzz".to_owned(), cell };
        import::write(stream, &labels, &path).expect("a stream can be written");
        let run = match RunFile::read(&path) {
            Ok(run) => run,
            Err(why) => {
                // Figures that no loop has are refused.
                let why = why.to_string();
                assert!(why.contains("range") || why.contains("2^53"), "{why}");
                continue;
            }
        };
        let imported: u64 = stream.parts.iter().map(import::StreamPart::samples).fold(0, u64::saturating_add);
        let read: u64 = run.entries.iter().map(|entry| entry.counts.count()).fold(0, u64::saturating_add);
        assert_eq!(imported, read, "no sample is lost");
    }
});
