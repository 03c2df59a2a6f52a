//! Panics of a library that is called here: caught, and without the lines that a panic prints.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Puts a hook before the one that is there: it passes over what panics in [`caught`], on that thread only.
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

/// Does the work; `Err` with the words of a panic. Nothing of what the work held may be used again then.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    install();
    let before = IS_QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(before);
    done.map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
        words.unwrap_or_else(|| "without words".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_in_the_library_prints_nothing_and_one_of_ours_does() {
        static HEARD: AtomicUsize = AtomicUsize::new(0);
        // Whatever hook the test's runner has comes behind one that counts; ours is put before it.
        let before = take_hook();
        set_hook(Box::new(move |about| {
            if about.payload().downcast_ref::<&str>() == Some(&"planted") {
                HEARD.fetch_add(1, Ordering::Relaxed);
            } else {
                before(about);
            }
        }));

        assert_eq!(caught(|| -> u8 { panic!("planted") }), Err("planted".to_owned()));
        assert_eq!(HEARD.load(Ordering::Relaxed), 0);
        assert_eq!(caught(|| 7), Ok(7));
        let _ = catch_unwind(|| panic!("planted"));
        assert_eq!(HEARD.load(Ordering::Relaxed), 1);
    }
}
