//! Which process a number or a name means.

use std::path::Path;

use onbeat_host::foreign::printable;

use crate::process;

/// No process, or not exactly one, is meant.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No process has the number.
    #[error(
        "no process {pid} exists; `onbeat watch NAME` finds one by name, `onbeat watch -- COMMAND` starts one"
    )]
    NoSuchProcess {
        /// The number.
        pid: i32,
    },
    /// No process, and no program of one, has the name.
    #[error("no process is named {name}, nor its program; {hint}")]
    NoSuchName {
        /// The name.
        name: String,
        /// What may have been meant.
        hint: &'static str,
    },
    /// Several processes have the name.
    #[error("{name} is the name of {count} processes; name one by its number:\n{list}")]
    Ambiguous {
        /// The name.
        name: String,
        /// How many have it.
        count: usize,
        /// A line for each, with number and command.
        list: String,
    },
}

/// Processes of one name that are listed.
const MOST_LISTED: usize = 12;

/// Returns the process with this number or name.
///
/// # Errors
/// [`TargetError`].
pub fn resolve(target: &str) -> Result<i32, TargetError> {
    if let Ok(pid) = target.parse::<i32>() {
        // A thread has such a directory as well, and stands for its process.
        return match process::thread(pid) {
            Some(thread) => Ok(thread.pid),
            None => Err(TargetError::NoSuchProcess { pid }),
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
            Err(TargetError::NoSuchName { name: printable(target), hint })
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
            Err(TargetError::Ambiguous { name: printable(target), count, list })
        }
    }
}

/// Whether a process has ended; a child of ours that nobody waited for yet has too.
#[must_use]
pub fn has_ended(pid: i32) -> bool {
    process::thread(pid).is_none()
}

fn short(command: &str) -> String {
    const MOST: usize = 64;
    let printable = printable(command);
    match printable.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &printable[..at]),
        None => printable,
    }
}
