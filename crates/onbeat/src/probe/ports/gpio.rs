//! Lines of the GPIO character device (`include/uapi/linux/gpio.h`, version 2 of the interface,
//! Linux 5.10 and later).

use std::fs::File;
use std::io;
use std::path::Path;

use gpiocdev_uapi::v2::{
    Errno, Error, LineConfig, LineFlags, LineRequest, get_chip_info, get_line, get_line_info,
};

use super::super::error::ProbeError;
use super::{PortAddress, names_in};

/// The name under which the kernel lists the lines that onbeat holds.
const CONSUMER: &str = "onbeat";
/// Events that the kernel keeps for a line that is not read; further ones are dropped, which their
/// numbers show.
const EVENTS_KEPT: u32 = 1024;
const HINT: &str = "; GPIO chips belong to root, or to the group gpio; a line that something else holds shows in `gpioinfo`";

/// The edges of a line that an input reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEdges {
    Rising,
    Both,
}

/// Takes a line as an output, low.
pub(super) fn output(chip: &Path, line: &str, place: &PortAddress) -> Result<File, ProbeError> {
    request(chip, line, place, LineFlags::OUTPUT)
}

/// Takes a line as an input whose edges the kernel stamps on `CLOCK_MONOTONIC`, in its interrupt
/// handler.
pub(super) fn input(
    chip: &Path,
    line: &str,
    place: &PortAddress,
    wanted: LineEdges,
) -> Result<File, ProbeError> {
    let edges = match wanted {
        LineEdges::Rising => LineFlags::EDGE_RISING,
        LineEdges::Both => LineFlags::EDGE_RISING | LineFlags::EDGE_FALLING,
    };
    request(chip, line, place, LineFlags::INPUT | edges)
}

fn request(
    path: &Path,
    line: &str,
    place: &PortAddress,
    flags: LineFlags,
) -> Result<File, ProbeError> {
    let what = if flags.contains(LineFlags::OUTPUT) { "an output" } else { "an input" };
    let refused = |source| place.refused(what, source, HINT);
    if !path.exists() {
        let others = names_in("/dev", "gpiochip");
        return Err(ProbeError::NoChip { chip: path.to_owned(), others });
    }

    let chip = File::options().read(true).write(true).open(path).map_err(refused)?;
    let offset = offset_of(&chip, path, line, &refused)?;
    let mut request = LineRequest {
        consumer: CONSUMER.into(),
        num_lines: 1,
        event_buffer_size: if flags.contains(LineFlags::INPUT) { EVENTS_KEPT } else { 0 },
        config: LineConfig { flags, ..LineConfig::default() },
        ..LineRequest::default()
    };

    request.offsets.set(0, offset);
    get_line(&chip, request).map_err(|why| refused(system(why)))
}

/// Finds a line by its number, or by the name that the board gives it.
fn offset_of(
    chip: &File,
    path: &Path,
    line: &str,
    refused: &dyn Fn(io::Error) -> ProbeError,
) -> Result<u32, ProbeError> {
    let lines = get_chip_info(chip).map_err(|why| refused(system(why)))?.num_lines;
    let by_number = line.parse().ok().filter(|offset| *offset < lines);
    let is_named = |offset: &u32| {
        get_line_info(chip, *offset).is_ok_and(|info| String::from(&info.name) == line)
    };
    by_number.or_else(|| (0..lines).find(is_named)).ok_or_else(|| ProbeError::NoLine {
        chip: path.to_owned(),
        line: line.to_owned(),
        lines,
    })
}

fn system(why: Error) -> io::Error {
    match why {
        Error::Os(Errno(number)) => io::Error::from_raw_os_error(number),
        other => io::Error::other(other.to_string()),
    }
}
