//! An Octave at its prompt, for tests that interrupt it.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

/// An Octave that reads its commands from a pipe, as from a keyboard.
pub(crate) struct Prompt {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Prompt {
    pub(crate) fn open(mut octave: Command) -> Self {
        octave.args(["--interactive", "--no-line-editing", "--no-history"]);
        octave.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = octave.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// Waits for a line with this part; returns it from there.
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "Octave has ended before {part}"
            );
            if let Some(at) = line.find(part) {
                return line[at..].trim().to_owned();
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Descriptors that stay open, the fewest of some readings: Java's threads open files for a
    /// moment, such as the limits of the cgroup while they compile, and so does Octave before it is at
    /// its prompt again.
    pub(crate) fn descriptors(&self) -> usize {
        let open = format!("/proc/{}/fd", self.child.id());
        let readings = (0..40).map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            std::fs::read_dir(&open).unwrap().count()
        });
        readings.min().unwrap()
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
