//! Serial lines in raw mode.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{OptionalActions, isatty, tcgetattr, tcsetattr};

/// What to do when one cannot be opened.
pub(super) const HINT: &str =
    "; serial devices are readable for the group dialout: sudo usermod -aG dialout \"$USER\"";
/// Bits a second.
const SPEED: u32 = 115_200;

/// Opens a serial device raw, at 115,200 bits a second, eight bits, no parity.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    let line =
        rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK, Mode::empty())?;
    if !isatty(&line) {
        return Err(io::Error::other("it is not a serial line; use file:PATH"));
    }

    let mut settings = tcgetattr(&line)?;
    settings.make_raw();
    settings.set_speed(SPEED)?;
    tcsetattr(&line, OptionalActions::Flush, &settings)?;
    Ok(line)
}
