//! Prints what the catalogue finds on this machine, or in a captured tree.
//!
//! ```sh
//! cargo run -p onbeat-tune --example check -- 1             # the loop has CPU 1
//! cargo run -p onbeat-tune --example check -- 1 ./captured  # in a directory with proc and sys
//! cargo run -p onbeat-tune --example check -- 1 robot.tar.gz  # in an archive of the example `capture`
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use onbeat_tune::catalogue::{CheckVerdict, HostTree, LoopSetup, catalogue};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let cpus = arguments.next().unwrap_or_default().parse()?;
    let host = match arguments.next() {
        Some(root) if Path::new(&root).is_dir() => HostTree::captured(Path::new(&root))?,
        Some(archive) => HostTree::from_capture(File::open(archive)?)?,
        None => HostTree::live(),
    };

    let records = catalogue();
    let began = Instant::now();
    let findings = onbeat_tune::check(&host, &LoopSetup::on(cpus));
    let took = began.elapsed();

    let mut counts = [0; 4];
    for finding in &findings {
        let (place, word) = match finding.verdict {
            CheckVerdict::Bad => (0, "bad"),
            CheckVerdict::Good => (1, "good"),
            CheckVerdict::Unknown(_) => (2, "unknown"),
            CheckVerdict::NotApplicable(_) => (3, "n/a"),
        };
        counts[place] += 1;

        let effect = records.get(&finding.id).map_or(0, |record| record.effect);
        let reason = finding.verdict.reason().unwrap_or_default();
        println!(
            "{word:7} {effect} {:24} {} [{}] {reason}",
            finding.id, finding.current, finding.wanted
        );
        if !finding.fix.is_empty() {
            println!("        fix: {}", finding.fix);
        }
    }

    let [bad, good, unknown, not_applicable] = counts;
    println!("{bad} bad, {good} good, {unknown} unknown, {not_applicable} not applicable");

    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("not shown");
    println!("checked in {took:.1?} (limit 100 ms), peak memory {} (limit 15 MB)", peak.trim());
    Ok(())
}
