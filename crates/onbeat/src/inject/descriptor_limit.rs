//! Room for many descriptors, for as long as an injection runs.
//!
//! The limit is the process's own and ends with it; it is put back as soon as nobody needs it.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

struct RaisedLimit {
    by: usize,
    before: Option<Rlimit>,
}

static RAISED: Mutex<RaisedLimit> = Mutex::new(RaisedLimit { by: 0, before: None });

/// The process's soft limit of descriptors, raised to its hard limit while this lives.
#[derive(Debug)]
pub(super) struct ManyDescriptors {
    most: usize,
}

impl ManyDescriptors {
    pub(super) fn hold() -> Self {
        let mut held = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = getrlimit(Resource::Nofile);
        if held.by == 0 {
            held.before = Some(limit);
        }

        held.by += 1;
        // Without the higher limit a part of the descriptors must do: `most` says how many.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { most: usize::try_from(now).unwrap_or(usize::MAX) }
    }

    /// How many descriptors the process may have.
    pub(super) const fn most(&self) -> usize {
        self.most
    }
}

impl Drop for ManyDescriptors {
    fn drop(&mut self) {
        let mut held = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        held.by -= 1;
        if held.by == 0
            && let Some(before) = held.before.take()
        {
            // It was in force before, so it is accepted.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}
