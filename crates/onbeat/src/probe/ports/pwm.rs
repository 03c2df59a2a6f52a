//! Channels of the kernel's PWM class (`Documentation/driver-api/pwm.rst`): files of a directory in
//! sysfs.
//!
//! Not run on a board yet: its test writes to a directory that looks like one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::ProbeError;
use super::{PortAddress, names_in};

const CLASS: &str = "/sys/class/pwm";
/// Period of a channel that has none yet, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000;
const HINT: &str = "; files of PWM channels belong to root";

/// A chip's directory: by its name, or as a path.
pub(super) fn directory(chip: &str) -> PathBuf {
    if chip.starts_with('/') { chip.into() } else { Path::new(CLASS).join(chip) }
}

/// A channel that runs, and what is written to it: its duty cycle, a quarter and three quarters of
/// its period.
#[derive(Debug)]
pub(super) struct PwmChannel {
    pub(super) duty_cycle: File,
    pub(super) texts: [Box<[u8]>; 2],
}

/// Takes a channel: asks the chip for it, gives it a period where it has none, and switches it on.
pub(super) fn open(
    chip: &Path,
    channel: u32,
    place: &PortAddress,
) -> Result<PwmChannel, ProbeError> {
    if !chip.exists() {
        return Err(ProbeError::NoPwm { chip: chip.to_owned(), others: names_in(CLASS, "") });
    }

    let made_ready = || -> io::Result<PwmChannel> {
        let dir = chip.join(format!("pwm{channel}"));
        if !dir.exists() {
            fs::write(chip.join("export"), channel.to_string())?;
        }

        let period_ns = match fs::read_to_string(dir.join("period"))?.trim().parse() {
            Ok(0) => {
                fs::write(dir.join("period"), PERIOD_NS.to_string())?;
                PERIOD_NS
            }
            Ok(period_ns) => period_ns,
            Err(why) => return Err(io::Error::new(io::ErrorKind::InvalidData, why)),
        };

        // Rendered beforehand: a cycle only writes.
        let text = |ns: u64| format!("{ns}\n").into_bytes().into_boxed_slice();
        let texts = [text(period_ns / 4), text(period_ns / 4 * 3)];
        fs::write(dir.join("duty_cycle"), &texts[0])?;
        fs::write(dir.join("enable"), "1")?;
        let duty_cycle = OpenOptions::new().write(true).open(dir.join("duty_cycle"))?;
        Ok(PwmChannel { duty_cycle, texts })
    };

    made_ready().map_err(|source| place.refused("an output", source, HINT))
}

#[cfg(test)]
mod tests {
    use super::super::Output;
    use super::*;

    /// A directory that looks like a chip with one channel, as the kernel shows it after `export`.
    fn chip(period: &str) -> tempfile::TempDir {
        let chip = tempfile::tempdir().expect("a directory");
        fs::create_dir(chip.path().join("pwm1")).expect("a channel");
        for (file, text) in [("period", period), ("duty_cycle", "0\n"), ("enable", "0\n")] {
            fs::write(chip.path().join("pwm1").join(file), text).expect("written");
        }
        chip
    }

    fn read(chip: &tempfile::TempDir, file: &str) -> String {
        fs::read_to_string(chip.path().join("pwm1").join(file)).expect("readable")
    }

    #[test]
    fn marks_are_duty_cycles_of_a_quarter_and_three_quarters_in_turn() {
        let chip = chip("2000000\n");
        let place: PortAddress =
            format!("pwm:{}/1", chip.path().display()).parse().expect("a place");
        let output = Output::open(&place).expect("it opens").expect("not a pipe");
        assert_eq!(
            (read(&chip, "enable").as_str(), read(&chip, "duty_cycle").as_str()),
            ("1", "500000\n")
        );
        for mark in 0..3 {
            assert!(output.set(mark), "mark {mark}");
        }

        // A file of sysfs takes each write as a whole; here they stand behind each other.
        assert_eq!(read(&chip, "duty_cycle"), "1500000\n500000\n1500000\n");
    }

    #[test]
    fn a_channel_without_a_period_gets_one() {
        let chip = chip("0\n");
        let place = PortAddress::Pwm { chip: chip.path().to_owned(), channel: 1 };
        assert!(Output::open(&place).expect("it opens").is_some());
        assert_eq!(
            (read(&chip, "period").as_str(), read(&chip, "duty_cycle").as_str()),
            ("1000000", "250000\n")
        );
    }

    #[test]
    fn a_chip_that_is_not_there_is_one_sentence_with_the_default() {
        let why = Output::open(&"pwm:/nowhere/pwmchip9/0".parse().expect("a place"))
            .expect_err("no chip")
            .to_string();
        assert!(
            why.starts_with("/nowhere/pwmchip9 does not exist") && why.contains("a pipe"),
            "{why}"
        );
    }

    #[test]
    fn a_channel_that_the_chip_does_not_give_is_one_sentence() {
        let chip = chip("0\n");
        let place = PortAddress::Pwm { chip: chip.path().to_owned(), channel: 7 };
        let why = Output::open(&place).expect_err("no channel").to_string();
        assert!(why.contains("/7 as an output") && why.contains("belong to root"), "{why}");
    }
}
