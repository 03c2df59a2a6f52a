//! What devices, a board and a logging server have in common while they serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat::probe::Interruptions;
use onbeat::thread::ThreadRequest;
use onbeat_net::address::AddressRange;

use crate::term::{Tone, advise, wrapped};

/// How often the end of `--for` is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who is served, this machine alone where nobody was named; and the same in words.
pub(super) fn allowed(named: &[AddressRange]) -> (Vec<AddressRange>, String) {
    let allow: &[_] = if named.is_empty() { &AddressRange::LOOPBACK } else { named };
    let words: Vec<String> = allow.iter().map(ToString::to_string).collect();
    (allow.to_vec(), words.join(", "))
}

/// Prepares this thread; `runs` and `later` say of those in it what a refusal means.
pub(super) fn prepare_thread(request: &ThreadRequest, runs: &str, later: &str) {
    for refused in request.prepare_thread().iter().filter(|grant| !grant.granted) {
        let why = refused.why_not.as_deref().unwrap_or_default();
        let sentence = format!("{runs} without {}: {why}; {later}", refused.what);
        advise(Tone::Careful, &wrapped(&sentence, 80));
    }
}

/// Stops what serves at the end of `--for`.
pub(super) fn end_in_time(interruptions: &Arc<Interruptions>, duration_ns: u64) {
    if duration_ns == 0 {
        return;
    }
    let until = Instant::now() + Duration::from_nanos(duration_ns);
    let interruptions = Arc::clone(interruptions);
    thread::spawn(move || {
        while Instant::now() < until && !interruptions.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        interruptions.stop.store(true, Ordering::Relaxed);
    });
}

pub(super) fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// What else was counted, as the rest of a sentence: all that is not 0.
pub(super) fn others(counts: &[(u64, &str)]) -> String {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("; {count} {what}")).collect()
}
