//! Reads any bytes as an MCAP log, in memory that is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_gateway::check_log;

/// Memory for a record or a chunk, in bytes.
const MOST: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let check = check_log(bytes, MOST);
    if let Some(defect) = check.defect {
        let sentence = defect.to_string();
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "{sentence}");
    }
});
