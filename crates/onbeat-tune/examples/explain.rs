//! Explains a tuning on this machine.
//!
//! ```sh
//! cargo run -p onbeat-tune --example explain -- irq.affinity 1         # the loop has CPU 1
//! cargo run -p onbeat-tune --example explain -- irq.affinity 1 json
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::explain::explain;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let id = arguments.next().ok_or("give an id, such as irq.affinity")?;
    let cpus = arguments.next().unwrap_or_default().parse()?;
    let is_json = arguments.next().is_some();

    for explanation in explain(&id, &HostTree::live(), &LoopSetup::on(cpus))? {
        if is_json {
            println!("{}", serde_json::to_string_pretty(&explanation)?);
        } else {
            println!("{explanation}");
        }
    }
    Ok(())
}
