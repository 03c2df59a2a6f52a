//! `onbeat agent`: the agent of a guest that has the whole program.

use super::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};

pub(crate) fn run(mut words: Vec<String>) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    words.insert(0, "agent".to_owned());
    onbeat_guest::run(&words, &interruptions)?;
    Ok(ExitVerdict::Pass)
}
