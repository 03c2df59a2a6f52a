//! Decodes any bytes as a page of the kernel's ring buffer, with the formats of a real kernel.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use onbeat::cause::decode::{EventDecoder, TracePoint};
use onbeat::cause::format::{EventFormat, PageLayout};
use onbeat::cause::page::RingPage;

const FORMATS: &str = include_str!("../../crates/onbeat/tests/cause_pages/timers/formats");
const MORE_FORMATS: &str = include_str!("../../crates/onbeat/tests/cause_pages/syscalls/formats");
const HEADER: &str = include_str!("../../crates/onbeat/tests/cause_pages/timers/header_page");

static KERNEL: LazyLock<(PageLayout, EventDecoder)> = LazyLock::new(|| {
    let mut decoder = EventDecoder::new();
    for text in FORMATS.split("name: ").chain(MORE_FORMATS.split("name: ")) {
        let Ok(format) = EventFormat::parse(&format!("name: {text}")) else { continue };
        if let Some(kind) = TracePoint::all().into_iter().find(|kind| kind.name() == format.name) {
            decoder.learn(kind, &format).expect("a format of a real kernel");
        }
    }
    (PageLayout::parse(HEADER).expect("a page of a real kernel"), decoder)
});

fuzz_target!(|bytes: &[u8]| {
    let (layout, decoder) = &*KERNEL;
    if let Ok(page) = RingPage::parse(bytes, layout) {
        let mut seen = 0;
        for record in page.records() {
            seen += 1;
            if let Ok(record) = record {
                let _ = decoder.decode(0, &record);
            }
        }
        assert!(seen <= bytes.len() / 4, "more records than words");
    }
});
