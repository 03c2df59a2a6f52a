//! What `onbeat bus` and `onbeat bus scan` print alike.

use onbeat_ethercat::al;
use serde_json::Value;

use super::Failure;
use crate::term::{Tone, say};

pub(super) fn print_json(value: &Value) -> Result<(), Failure> {
    say(Tone::Plain, &serde_json::to_string(value)?);
    Ok(())
}

pub(super) fn al_words(state: u16) -> String {
    match (state, al::name(state)) {
        (0, _) => "-".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (other, None) => format!("0x{other:x}"),
    }
}
