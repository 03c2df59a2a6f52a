//! Judges a kernel command line, a script that starts QEMU or a libvirt definition, and prints the
//! corrected text.
//!
//! ```sh
//! cargo run -p onbeat-tune --example lint -- /etc/default/grub
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use onbeat_tune::lint::{LintSubject, lint};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give a file, such as /proc/cmdline")?;
    let text = std::fs::read_to_string(path)?;
    print!("{}", lint(&text, LintSubject::recognise(&text, None)?)?);
    Ok(())
}
