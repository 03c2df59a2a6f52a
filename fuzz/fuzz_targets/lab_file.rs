//! Reads any text as the file of a laboratory of guests.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use onbeat_lab::vm::Matrix;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(why) = Matrix::from_toml(text, Path::new(".")) {
        assert!(!why.to_string().is_empty());
    }
});
