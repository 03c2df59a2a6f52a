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
/// nothing more is written or received. A line that is no message is passed over where a program
/// may print into the pipe as well; elsewhere it is the end, since its writer would wait for an
/// answer that never comes.
pub(crate) fn receive<T: DeserializeOwned + Send + 'static>(
    name: &str,
    from: impl Read + Send + 'static,
    is_printed_into: bool,
    at_end: impl FnOnce() + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (send, messages) = channel();
    let read = move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let goes_on = match serde_json::from_str(&line) {
                Ok(message) => send.send(message).is_ok(),
                Err(_) => is_printed_into,
            };
            if !goes_on {
                break;
            }
        }
        at_end();
    };
    thread::Builder::new().name(name.to_owned()).spawn(read)?;
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_message_is_passed_over_only_where_a_program_may_print() {
        let received = |is_printed_into| -> Vec<u32> {
            let lines = "1\nno number\n2\n".as_bytes();
            let messages = receive::<u32>("onbeat-test", lines, is_printed_into, || ()).unwrap();
            messages.iter().collect()
        };
        assert_eq!(received(true), [1, 2]);
        assert_eq!(received(false), [1]);
    }
}
