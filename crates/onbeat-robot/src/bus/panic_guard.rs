//! Catches panics of a library, and suppresses their message.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Installs a panic hook in front of the present one; it suppresses panics within [`catch_panic`],
/// on that thread only.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |about| {
            if !IS_QUIET.get() {
                before(about);
            }
        }));
    });
}

/// Runs `work`; returns the message of a panic as `Err`. Nothing that `work` borrowed may be used
/// afterwards.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    install();
    let before = IS_QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(before);
    done.map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
        words.unwrap_or_else(|| "no message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_guarded_panic_prints_nothing_and_any_other_does() {
        static REPORTED: AtomicUsize = AtomicUsize::new(0);
        // The test runner's hook stays behind the counting one; the guard's own is installed in
        // front of it.
        let before = take_hook();
        set_hook(Box::new(move |about| {
            if about.payload().downcast_ref::<&str>() == Some(&"planted") {
                REPORTED.fetch_add(1, Ordering::Relaxed);
            } else {
                before(about);
            }
        }));

        assert_eq!(catch_panic(|| -> u8 { panic!("planted") }), Err("planted".to_owned()));
        assert_eq!(REPORTED.load(Ordering::Relaxed), 0);
        assert_eq!(catch_panic(|| 7), Ok(7));
        let _ = catch_unwind(|| panic!("planted"));
        assert_eq!(REPORTED.load(Ordering::Relaxed), 1);
    }
}
