//! Lines of JSON in the pipes between a bench, its cells and its loads.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a message as one line.
pub(crate) fn write<W: Write + ?Sized>(to: &mut W, message: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(message)? + "\n";
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// Receives what is written into a pipe, by a thread of this name, which calls `at_end` when
/// nothing more is written or received. Lines that are no message are passed over.
pub(crate) fn receive<T: DeserializeOwned + Send + 'static>(
    name: &str,
    from: impl Read + Send + 'static,
    at_end: impl FnOnce() + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (send, messages) = channel();
    let read = move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        for message in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
            if send.send(message).is_err() {
                break;
            }
        }
        at_end();
    };
    thread::Builder::new().name(name.to_owned()).spawn(read)?;
    Ok(messages)
}
