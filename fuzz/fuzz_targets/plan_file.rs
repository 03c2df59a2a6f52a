//! Reads any text as a plan of tunings, and as the file of a study.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_lab::study::StudyFile;
use onbeat_tune::plan::Plan;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(plan) = Plan::from_text(text) {
        let written = plan.to_text();
        let again = Plan::from_text(&written).expect("a written plan can be read");
        assert_eq!(again.to_text(), written);
    }
    if let Err(why) = StudyFile::from_toml(text) {
        assert!(!why.to_string().is_empty());
    }
});
