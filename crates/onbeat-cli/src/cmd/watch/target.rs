//! Which process a number or a name means.

use std::path::Path;

use onbeat_watch::process;

use super::threads::clean;
use crate::cmd::Failure;
use crate::cmd::failure::watch::WatchFailure;

/// Processes of one name that are listed.
const MOST_LISTED: usize = 12;

/// Returns the process with this number or name.
pub(in crate::cmd) fn resolve(target: &str) -> Result<i32, Failure> {
    if let Ok(pid) = target.parse::<i32>() {
        // A thread has such a directory as well, and stands for its process.
        return match process::thread(pid) {
            Some(thread) => Ok(thread.pid),
            None => Err(WatchFailure::NoSuchProcess { pid }.into()),
        };
    }

    let found = process::named(target);
    match found.as_slice() {
        [one] => Ok(one.pid),
        [] => {
            let hint = if Path::new(target).is_file() {
                "to start a program, write it after --"
            } else {
                "to start a program, write it after --; names of threads are for --thread"
            };
            Err(WatchFailure::NoSuchName { name: clean(target), hint }.into())
        }
        several => {
            let mut lines: Vec<String> = several
                .iter()
                .take(MOST_LISTED)
                .map(|process| format!("  {:<8} {}", process.pid, short(&process.command)))
                .collect();
            if several.len() > MOST_LISTED {
                lines.push(format!("  and {} more", several.len() - MOST_LISTED));
            }
            let list = lines.join("\n");
            let count = several.len();
            Err(WatchFailure::Ambiguous { name: clean(target), count, list }.into())
        }
    }
}

/// Whether a process has ended; a child of ours that nobody waited for yet has too.
pub(in crate::cmd) fn has_ended(pid: i32) -> bool {
    process::thread(pid).is_none()
}

fn short(command: &str) -> String {
    const MOST: usize = 64;
    let clean = clean(command);
    match clean.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &clean[..at]),
        None => clean,
    }
}
