//! A raised descriptor limit for the time of an injection.
//!
//! The limit belongs to the process. It is restored when the last user is dropped.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

struct RaisedLimit {
    users: usize,
    before: Option<Rlimit>,
}

static RAISED: Mutex<RaisedLimit> = Mutex::new(RaisedLimit { users: 0, before: None });

/// Raises the process's soft limit of descriptors to its hard limit until it is dropped.
#[derive(Debug)]
pub(super) struct RaisedDescriptorLimit {
    most: usize,
}

impl RaisedDescriptorLimit {
    pub(super) fn raise() -> Self {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = getrlimit(Resource::Nofile);
        if raised.users == 0 {
            raised.before = Some(limit);
        }

        raised.users += 1;
        // If the limit cannot be raised, fewer descriptors must do: `most` returns their number.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { most: usize::try_from(now).unwrap_or(usize::MAX) }
    }

    /// Returns the number of descriptors that the process may have.
    pub(super) const fn most(&self) -> usize {
        self.most
    }
}

impl Drop for RaisedDescriptorLimit {
    fn drop(&mut self) {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        raised.users -= 1;
        if raised.users == 0
            && let Some(before) = raised.before.take()
        {
            // This limit was in force before, so the kernel accepts it.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}
