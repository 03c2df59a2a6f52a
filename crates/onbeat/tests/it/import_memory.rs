//! A log of any length takes no more memory than its values. Alone in its process, as every module is:
//! the memory of a process is that of all its tests.

use std::io::{BufRead, Read, Seek, SeekFrom};

use onbeat::import::{self, SourceOptions};

/// A log of `-v` that is made while it is read.
struct Endless {
    lines: u64,
    at: u64,
    line: Vec<u8>,
    place: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Endless {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.place == self.line.len() && self.at < self.lines {
            let latency = 20 + self.at * 7919 % 61;
            self.line = format!("{:8}:{:8}:{latency:8}\n", 0, self.at).into_bytes();
            (self.place, self.at) = (0, self.at + 1);
        }
        Ok(&self.line[self.place..])
    }

    fn consume(&mut self, n: usize) {
        self.place += n;
    }
}

impl Seek for Endless {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        assert_eq!(to, SeekFrom::Start(0));
        (self.at, self.place) = (0, self.line.len());
        Ok(0)
    }
}

#[test]
fn a_hundred_megabytes_of_samples_take_no_more_memory_than_their_values() {
    let lines = 100_000_000 / 27;
    let mut log = Endless { lines, at: 0, line: Vec::new(), place: 0 };
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let after = status.split_once("VmRSS:").unwrap().1;
        after.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let before = resident();
    let of = import::read(&mut log, &SourceOptions::default()).unwrap();
    let after = resident();
    assert_eq!(of[0].parts[0].samples(), lines);
    assert_eq!(of[0].parts[0].cells.len(), 61);
    assert!(after < before + 64 * 1024, "{before} KiB before, {after} KiB after");
}
