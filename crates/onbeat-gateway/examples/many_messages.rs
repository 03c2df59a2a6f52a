//! Writes a log of many messages of 128 bytes, for measuring how fast it is loaded: `make load-speed`.
//!
//! `cargo run --release -p onbeat-gateway --example many_messages -- FILE COUNT`

use std::path::Path;
use std::process::ExitCode;

use onbeat_gateway::{Compression, GatewayError, LogWriter};

const DEFINITION: &str = "uint64 n\nfloat64 time\nfloat64[13] joints\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, count] = arguments.as_slice() else { return ExitCode::from(2) };
    let Ok(count) = count.parse() else { return ExitCode::from(2) };
    match write(Path::new(path), count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn write(path: &Path, count: u64) -> Result<(), GatewayError> {
    let mut log = LogWriter::create(path, Compression::Lz4)?;
    let channel = log.add_channel("demo/state", "demo_msgs/msg/State", DEFINITION, &[])?;
    for n in 1..=count {
        let time = n as f64 * 1e-3;
        // Positions of joints that swing, as a robot's do.
        let joints = (0..13).map(|joint| (time * f64::from(joint + 1)).sin());
        let values = std::iter::once(time).chain(joints).flat_map(f64::to_le_bytes);
        let message: Vec<u8> =
            [0, 1, 0, 0].into_iter().chain(n.to_le_bytes()).chain(values).collect();
        log.write(channel, n, n * 1_000_000, &message)?;
    }
    log.finish().map(|_| ())
}
