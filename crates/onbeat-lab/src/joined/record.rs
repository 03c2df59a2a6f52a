//! All events of a guest, throughout a measurement, as a file of packed windows.
//!
//! ```text
//! guest   onbeat agent answer --record /out/events   a line every 200 ms: the events since the one before
//!         onbeat measure ...                         meanwhile
//! host    lines ──▶ windows ──▶ one window on the host's clock
//! ```
//!
//! A run file keeps the events around its worst spikes only. What the kernel has overwritten before
//! it was read stands in the windows as lost.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat::cause::flight::PathSource;
use onbeat::cause::ftrace::{UnpackError, pack, unpack};
use onbeat::cause::{FlightRecorder, FlightSetting, TraceError, Window};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::relation::ClockRelation;
use super::spike::{merged, window_on_host};

/// Kernel buffer per CPU, in KiB: a busy guest fills a megabyte in 200 ms.
const BUFFER_KIB: u32 = 4 << 10;
const READ_EVERY: Duration = Duration::from_millis(200);
/// The file's name among the results.
pub(super) const SENT: &str = "events";
/// Words before those of a measurement, which runs beside the recorder then.
pub(super) const BESIDE: [&str; 4] = ["sh", "-c", SCRIPT, "record"];
const SCRIPT: &str = r#"onbeat agent answer --record /out/events & recorder=$!
until [ -e /out/events ]; do kill -0 $recorder || exit 2; usleep 10000; done
"$@"
status=$?
kill -INT $recorder && wait $recorder && exit $status"#;

/// Why events could not be recorded in a guest.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel does not record them.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file could not be written.
    #[error("cannot write the guest's events: {0}")]
    File(#[from] io::Error),
}

/// Records all events of this machine into a file, until `stop`.
///
/// # Errors
/// [`RecordError`].
pub fn record_events(path: &Path, stop: &AtomicBool) -> Result<(), RecordError> {
    let setting = FlightSetting {
        buffer_kib: BUFFER_KIB,
        kept_kib: BUFFER_KIB,
        path: PathSource::Tracefs,
        ..FlightSetting::default()
    };
    let mut recorder = FlightRecorder::open(&setting)?;
    let mut from = Monotonic.now();
    let mut file = File::create(path)?;
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let to = Monotonic.now();
        writeln!(file, "{}", pack(&recorder.window(from, to)?))?;
        if is_last {
            return Ok(());
        }
        // Both ends belong to a window.
        from = to.plus_ns(1);
        std::thread::sleep(READ_EVERY);
    }
}

/// The recorded windows as one, on the host's clock.
pub(super) fn recorded_on_host(
    file: &[u8],
    relation: &ClockRelation,
) -> Result<Window, UnpackError> {
    let text = String::from_utf8_lossy(file);
    let mut windows = text.lines().map(unpack);
    let first = windows.next().transpose()?.unwrap_or_default();
    let whole = windows.try_fold(first, |whole, next| next.map(|next| merged(whole, next)))?;
    Ok(window_on_host(&whole, relation))
}

#[cfg(test)]
mod tests {
    use onbeat::cause::event::{KernelEvent, TraceEvent};
    use onbeat::cause::window::CpuWindow;
    use onbeat_rt::Instant;

    use super::super::exchange::PageExchange;
    use super::*;

    fn window(from: u64, to: u64, cpu: u32, at: u64) -> Window {
        let event = TraceEvent {
            at: Instant::from_ns(at),
            cpu,
            tid: 1,
            what: KernelEvent::IrqExit { irq: 36 },
        };
        let cpus = vec![CpuWindow { cpu, events: vec![event] }];
        let [from, to] = [from, to].map(Instant::from_ns);
        Window { from, to, cpus, ..Window::default() }
    }

    #[test]
    fn windows_one_after_another_become_one_on_the_hosts_clock() {
        let at = |sent, stamp, received| {
            let [sent, stamp, received] = [sent, stamp, received].map(Instant::from_ns);
            PageExchange { sent, stamp, received }
        };
        let exchanges = [at(10_100, 100, 10_102), at(11_100, 1_100, 11_102)];
        let relation = ClockRelation::fit(&exchanges).expect("a relation");
        let lines = [window(100, 300, 0, 200), window(301, 500, 1, 400), window(501, 700, 0, 600)];
        let text: String = lines.iter().map(|one| pack(one) + "\n").collect();

        let whole = recorded_on_host(text.as_bytes(), &relation).expect("windows");
        let events = whole.in_order();
        let offsets = events.iter().map(|event| event.at.as_ns() - 10_000).collect::<Vec<_>>();
        assert_eq!(events.len(), 3);
        assert!(offsets.iter().zip([200, 400, 600]).all(|(at, known)| at.abs_diff(known) <= 2));
        assert!(whole.from < events[0].at && whole.to > events[2].at);
        assert!(recorded_on_host(b"not base64!", &relation).is_err());
    }
}
