//! An I/O board whose outputs are wired to its inputs: digital input n to digital output n, and
//! analogue input n to PWM output n, filtered.
//!
//! Absent on purpose: a clock.

use super::packet::{IoCommand, IoFeedback, WireHeader};

/// Voltage of an output at a duty cycle of 1.
const SUPPLY_V: f32 = 3.3;

/// The state of an I/O board.
#[derive(Clone, Copy, Debug, Default)]
pub struct IoBoard {
    digital: u32,
    changed_ns: [u64; 8],
    pwm: [f32; 8],
    sequence: u64,
    commanded_ns: Option<u64>,
}

impl IoBoard {
    /// Takes a command that arrived at `now_ns`, by the device's clock.
    pub fn take(&mut self, header: &WireHeader, command: &IoCommand, now_ns: u64) {
        let before = self.digital;
        self.digital = (before & !command.digital_mask) | (command.digital & command.digital_mask);
        for (input, changed_ns) in self.changed_ns.iter_mut().enumerate() {
            if (before ^ self.digital) >> input & 1 == 1 {
                *changed_ns = now_ns;
            }
        }
        for (output, duty) in self.pwm.iter_mut().enumerate() {
            if command.pwm_mask >> output & 1 == 1 && command.pwm[output].is_finite() {
                *duty = command.pwm[output].clamp(0.0, 1.0);
            }
        }

        self.sequence = header.sequence;
        self.commanded_ns = Some(now_ns);
    }

    /// Returns its inputs at `now_ns`.
    #[must_use]
    pub fn feedback(&self, now_ns: u64) -> IoFeedback {
        let analogue_v =
            std::array::from_fn(|input| self.pwm.get(input).map_or(0.0, |duty| duty * SUPPLY_V));
        let age_us = self.commanded_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns) / 1000);
        IoFeedback {
            digital_in: self.digital,
            digital_out: self.digital,
            changed_ns: self.changed_ns,
            sampled_ns: now_ns,
            analogue_v,
            pwm: self.pwm,
            command_sequence: self.sequence,
            command_age_us: u32::try_from(age_us).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketKind;

    #[test]
    fn outputs_appear_at_the_inputs_with_the_instant_of_the_change() {
        let kind = PacketKind::IoCommand;
        let header = |sequence| WireHeader { kind, ..WireHeader::echo(0, sequence, 1) };
        let mut board = IoBoard::default();
        let mut command = IoCommand { digital_mask: 0b11, digital: 0b01, ..IoCommand::default() };
        command.pwm_mask = 0b101;
        command.pwm = [0.5, 0.5, 7.0, 0.0, 0.0, 0.0, 0.0, f32::NAN];
        board.take(&header(4), &command, 1000);
        board.take(&header(5), &IoCommand { digital: 0b11, ..command }, 2000);

        let inputs = board.feedback(5_000_000);
        assert_eq!((inputs.digital_in, &inputs.changed_ns[..3]), (0b11, &[1000, 2000, 0][..]));
        assert_eq!(&inputs.pwm[..3], &[0.5, 0.0, 1.0]);
        assert_eq!(inputs.analogue_v[2], SUPPLY_V);
        assert_eq!((inputs.command_sequence, inputs.command_age_us), (5, 4_998));
    }
}
