//! The servo of the application test: what a command of the host moves in the guest.

use onbeat::probe::ProbeError;
use onbeat::probe::ports::{Output, PortAddress};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

/// A servo, which gets a pulse for each command.
#[derive(Debug)]
pub struct Servo {
    /// An output of this machine: a PWM channel, a GPIO line. Without one it is a virtual servo.
    output: Option<Output>,
    pulses: u32,
}

/// What a command has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pulse {
    /// When the edge had been written.
    pub(super) edge: Instant,
    /// Pulses so far.
    pub(super) pulses: u32,
    /// The timer at the edge; 0 without one.
    pub(super) ticks: u32,
    /// The reading of the timer was over by then, in nanoseconds after the edge.
    pub(super) after_ns: u32,
}

impl Servo {
    /// Opens an output for a servo; without one it is a virtual servo.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(output: Option<&PortAddress>) -> Result<Self, ProbeError> {
        Ok(Self { output: output.map(Output::open).transpose()?.flatten(), pulses: 0 })
    }

    /// Makes the pulse of a command. A virtual servo counts it; an output gets one edge, to the other
    /// level or duty cycle, and counts if it was written.
    pub(super) fn pulse(&mut self, number: u32) -> Pulse {
        let is_made = self.output.as_ref().is_none_or(|output| output.set((number & 1) as u8));
        let edge = Monotonic.now();
        self.pulses += u32::from(is_made);
        Pulse { edge, pulses: self.pulses, ticks: 0, after_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_servo_counts_a_pulse_for_each_command() {
        let before = Monotonic.now();
        let mut servo = Servo::open(None).expect("a servo");
        let pulses: Vec<Pulse> = (0..3).map(|number| servo.pulse(number)).collect();
        assert_eq!(pulses.iter().map(|pulse| pulse.pulses).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(pulses.iter().all(|pulse| pulse.edge >= before));
    }

    #[test]
    fn a_channel_of_the_pwm_class_gets_the_other_duty_cycle_with_each_command() {
        let chip = tempfile::tempdir().expect("a directory");
        let channel = chip.path().join("pwm0");
        std::fs::create_dir(&channel).expect("a channel");
        for (file, text) in [("period", "2000000"), ("duty_cycle", "0"), ("enable", "0")] {
            std::fs::write(channel.join(file), text).expect("a file");
        }
        let output = format!("pwm:{}/0", chip.path().display()).parse().expect("an output");
        let mut servo = Servo::open(Some(&output)).expect("a servo");
        assert_eq!((0..2).map(|number| servo.pulse(number).pulses).collect::<Vec<_>>(), [1, 2]);
        // A file of sysfs takes each write as a whole; here one is behind the other.
        let written = std::fs::read_to_string(channel.join("duty_cycle")).expect("a file");
        assert_eq!(written, "1500000\n500000\n");
    }
}
