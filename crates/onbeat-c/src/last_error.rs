//! The sentence about the last call in this thread, and the wall that no panic passes.
#![allow(unsafe_code)] // Names of functions that C calls.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static SENTENCE: RefCell<CString> = RefCell::default();
}

/// Returns the sentence about the last call in this thread: why it failed, or what it did without.
/// It is empty if there is nothing to report, and valid until the next call in this thread.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub extern "C" fn onbeat_last_error() -> *const c_char {
    SENTENCE.try_with(|kept| kept.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Keeps a sentence; zeros in it are left out.
pub(crate) fn keep(sentence: &dyn Display) {
    let text: String = sentence.to_string().chars().filter(|letter| *letter != '\0').collect();
    let text = CString::new(text).unwrap_or_default();
    // A thread that is ending has nobody who reads it.
    let _ = SENTENCE.try_with(|kept| *kept.borrow_mut() = text);
}

/// Runs the body of a function that C has called. A panic is a bug in onbeat: it becomes `failed`.
pub fn without_panic<T>(failed: T, body: impl FnOnce() -> T) -> T {
    keep(&"");
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => {
            // What was thrown may itself panic when it is dropped.
            std::mem::forget(payload);
            keep(
                &"internal error: this is a bug in onbeat; report it with the arguments of the call",
            );
            failed
        }
    }
}
