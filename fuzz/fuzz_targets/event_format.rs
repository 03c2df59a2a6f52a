//! Parses any text as the kernel's description of events and pages, and as a trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat::cause::decode::{EventDecoder, TracePoint};
use onbeat::cause::format::{EventFormat, PageLayout};
use onbeat::cause::ftrace;
use onbeat::cause::page::{Record, RingPage};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(format) = EventFormat::parse(&text) {
        for kind in TracePoint::all() {
            let mut decoder = EventDecoder::new();
            if decoder.learn(kind, &format).is_ok() {
                let _ = decoder.decode(0, &Record { at_ns: 0, bytes });
            }
        }
    }
    if let Ok(layout) = PageLayout::parse(&text)
        && let Ok(page) = RingPage::parse(bytes, &layout)
    {
        let _ = page.records().count();
    }
    if let Ok(window) = ftrace::read(&text) {
        let again = ftrace::read(&ftrace::write(&window.completed()));
        assert!(again.is_ok(), "a written trace can be read");
    }
});
