//! An Octave at its prompt, for tests that interrupt it.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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

    /// Open descriptors of the process.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
