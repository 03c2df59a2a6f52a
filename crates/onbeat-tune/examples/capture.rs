//! Writes a capture of this machine, to be checked elsewhere.
//!
//! ```sh
//! cargo run -p onbeat-tune --example capture -- robot.tar.gz "the robot in the laboratory"
//! cargo run -p onbeat-tune --example check -- 3 robot.tar.gz
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::time::Instant;

use flate2::{Compression, GzBuilder};
use onbeat_tune::capture::capture;
use onbeat_tune::catalogue::HostTree;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("the first argument is the archive to write, such as machine.tar.gz")?;
    let about = arguments.next().unwrap_or_else(|| "not described".to_owned());

    let began = Instant::now();
    let mut archive = Vec::new();
    let summary = capture(&HostTree::live(), &about, &mut archive)?;
    let took = began.elapsed();

    let mut file = File::create(&path)?;
    if path.ends_with(".gz") {
        let mut packer = GzBuilder::new().write(&mut file, Compression::best());
        packer.write_all(&archive)?;
        packer.finish()?;
    } else {
        file.write_all(&archive)?;
    }

    println!(
        "{} files, {} threads, {} not readable, in {took:.1?}",
        summary.files, summary.threads, summary.refused
    );
    Ok(())
}
