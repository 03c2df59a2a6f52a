//! Measures wake-up latency in guests in virtual time: each kernel several times, idle or under a
//! load.
//!
//! ```text
//! cargo run -p onbeat-lab --example latency_in_guest -- ONBEAT WORK PACKAGE... [--runs N] [--download] [--packages DIR] [--writer]
//! ```
//!
//! ONBEAT is a statically linked onbeat, WORK a directory for kernels and guests, PACKAGE a Debian
//! package such as `linux-image-rt-amd64`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use onbeat_lab::vm::{
    ClockTable, Guest, Initramfs, Job, Kernel, LatencyTest, PackageSource, Virtual, WorkDirectory,
};

struct Arguments {
    onbeat: PathBuf,
    work: PathBuf,
    packages: Vec<String>,
    source: PackageSource,
    load: String,
    runs: usize,
}

fn arguments() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let onbeat = words.next()?.into();
    let work: PathBuf = words.next()?.into();
    let source = PackageSource::Directory(work.join("packages"));
    let mut arguments =
        Arguments { onbeat, work, packages: Vec::new(), source, load: "idle".to_owned(), runs: 2 };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--download" => arguments.source = PackageSource::Download,
            "--packages" => arguments.source = PackageSource::Directory(words.next()?.into()),
            "--runs" => arguments.runs = words.next()?.parse().ok()?,
            "--writer" => arguments.load = LatencyTest::WRITER.to_owned(),
            _ => arguments.packages.push(word),
        }
    }

    (!arguments.packages.is_empty()).then_some(arguments)
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(Arguments { onbeat, work, packages, source, load, runs }) = arguments() else {
        return Err(
            "usage: latency_in_guest ONBEAT WORK PACKAGE... [--runs N] [--download] [--packages DIR] [--writer]".into(),
        );
    };

    let work = WorkDirectory::open(&work)?;
    let job = Job::measure_latency(&LatencyTest { load, ..LatencyTest::default() });
    let mut table = ClockTable::default();
    for package in &packages {
        let kernel = Kernel::from_package(&work, package, &source)?;
        let mut initramfs = Initramfs::new(&kernel, Path::new("/usr/bin/busybox"))?;
        initramfs.program("bin/onbeat", &onbeat)?;
        let mut guest = Guest::new(initramfs.build(&work)?, Virtual::default());
        guest.niceness = 19;

        let first = guest.run(&work, &job, &AtomicBool::new(false))?;
        let mut same = 1;
        let mut longest = first.elapsed;
        for _ in 1..runs {
            let next = guest.run(&work, &job, &AtomicBool::new(false))?;
            same += usize::from(next.digest() == first.digest());
            longest = longest.max(next.elapsed);
        }

        println!(
            "{}: {same} of {runs} runs sent the same bytes, at most {:.1} s each",
            first.release,
            longest.as_secs_f64()
        );
        table.row(first.release.clone(), first.figures()?);
    }

    print!("{table}");
    Ok(())
}
