//! Power state machine of a drive, MainDevice side (CiA 402; IEC 61800-7-201, ETG.6010).

use serde::{Deserialize, Serialize};

/// State of a drive's power stage, from its statusword (object 0x6041).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum JointState {
    /// Starting, or state unknown.
    #[default]
    NotReady = 0,
    /// No power.
    SwitchOnDisabled = 1,
    /// Power may be switched on.
    ReadyToSwitchOn = 2,
    /// Power is on, the motor is not held.
    SwitchedOn = 3,
    /// The drive follows its set-point.
    OperationEnabled = 4,
    /// The drive brakes.
    QuickStopActive = 5,
    /// The drive performs its fault reaction.
    FaultReaction = 6,
    /// The drive waits for a fault reset.
    Fault = 7,
}

impl JointState {
    /// Decodes bits 0 to 3, 5 and 6 of a statusword.
    #[must_use]
    pub const fn from_statusword(statusword: u16) -> Self {
        // CiA 402, table of statuswords: states without power mask bit 5, the others need it, since
        // it tells quick stop from operation.
        match (statusword & 0x4f, statusword & 0x6f) {
            (0x40, _) => Self::SwitchOnDisabled,
            (0x0f, _) => Self::FaultReaction,
            (0x08, _) => Self::Fault,
            (_, 0x21) => Self::ReadyToSwitchOn,
            (_, 0x23) => Self::SwitchedOn,
            (_, 0x27) => Self::OperationEnabled,
            (_, 0x07) => Self::QuickStopActive,
            _ => Self::NotReady,
        }
    }

    /// Returns whether the power stage holds the motor.
    #[must_use]
    pub const fn holds(self) -> bool {
        matches!(self, Self::OperationEnabled | Self::QuickStopActive | Self::FaultReaction)
    }
}

const DISABLE_VOLTAGE: u16 = 0x0000;
const QUICK_STOP: u16 = 0x0002;
const SHUTDOWN: u16 = 0x0006;
const SWITCH_ON: u16 = 0x0007;
const ENABLE_OPERATION: u16 = 0x000f;
const FAULT_RESET: u16 = 0x0080;

/// Requested power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerTarget {
    Enabled,
    QuickStop,
    Off,
}

/// Duration of each half of a reset pulse in s, and its least number of cycles: drives slower than
/// the bus see the edge too.
// Bit 7 counts at its rising edge. Some drives look at it every few milliseconds.
const RESET_S: f64 = 0.01;
const RESET_CYCLES: u32 = 10;
/// Maximum number of reset pulses for one fault.
pub(crate) const MOST_RESETS: u32 = 3;

/// Generates controlwords (object 0x6040).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrivePower {
    /// Cycles of each half of a reset pulse.
    half_pulse: u32,
    /// Cycles spent resetting the present fault.
    resetting: u32,
}

impl DrivePower {
    pub(crate) fn new(period_s: f64) -> Self {
        let half_pulse = ((RESET_S / period_s).round() as u32).max(RESET_CYCLES);
        Self { half_pulse, resetting: 0 }
    }

    /// Returns whether all reset pulses failed.
    pub(crate) fn gave_up(&self) -> bool {
        self.resetting > 2 * self.half_pulse * MOST_RESETS
    }

    pub(crate) fn begin(&mut self) {
        self.resetting = 0;
    }

    /// Returns the next controlword from `state` towards `aim`: one transition at a time.
    pub(crate) fn controlword(&mut self, state: JointState, aim: PowerTarget) -> u16 {
        match (aim, state) {
            (PowerTarget::Enabled, JointState::Fault) => {
                self.resetting += 1;
                let is_high = self.resetting % (2 * self.half_pulse) >= self.half_pulse;
                let high = is_high && !self.gave_up();
                if high { FAULT_RESET } else { DISABLE_VOLTAGE }
            }
            // One transition at a time: 2, 3, 4 of CiA 402. Drives may skip a state that they pass
            // at once, and the next statusword shows it.
            (PowerTarget::Enabled, JointState::SwitchOnDisabled) => SHUTDOWN,
            (PowerTarget::Enabled, JointState::ReadyToSwitchOn) => SWITCH_ON,
            (PowerTarget::Enabled, JointState::SwitchedOn | JointState::OperationEnabled) => {
                ENABLE_OPERATION
            }
            (
                PowerTarget::QuickStop,
                JointState::OperationEnabled | JointState::QuickStopActive,
            ) => QUICK_STOP,
            // Whatever the state is, this word never moves a drive.
            _ => DISABLE_VOLTAGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statusword_decodes_to_the_state_for_any_other_bits() {
        let states = [
            (0x0000, JointState::NotReady),
            (0x0040, JointState::SwitchOnDisabled),
            (0x0021, JointState::ReadyToSwitchOn),
            (0x0023, JointState::SwitchedOn),
            (0x0027, JointState::OperationEnabled),
            (0x0007, JointState::QuickStopActive),
            (0x000f, JointState::FaultReaction),
            (0x0008, JointState::Fault),
        ];

        for (statusword, state) in states {
            for others in [0x0000, 0x0010, 0x0080, 0x1690, 0xff90] {
                assert_eq!(
                    JointState::from_statusword(statusword | others),
                    state,
                    "{:#06x}",
                    statusword | others
                );
            }
        }

        // Bit 5 is ignored in these states.
        assert_eq!(JointState::from_statusword(0x0060), JointState::SwitchOnDisabled);
        assert_eq!(JointState::from_statusword(0x0028), JointState::Fault);
    }

    /// A drive that makes one transition per controlword.
    fn after(state: JointState, controlword: u16, before: u16) -> JointState {
        match (state, controlword) {
            (JointState::Fault, FAULT_RESET) if before & FAULT_RESET == 0 => {
                JointState::SwitchOnDisabled
            }
            (JointState::SwitchOnDisabled, SHUTDOWN) => JointState::ReadyToSwitchOn,
            (JointState::ReadyToSwitchOn, SWITCH_ON) => JointState::SwitchedOn,
            (JointState::SwitchedOn, ENABLE_OPERATION) => JointState::OperationEnabled,
            (JointState::OperationEnabled, QUICK_STOP) => JointState::QuickStopActive,
            (
                JointState::QuickStopActive
                | JointState::OperationEnabled
                | JointState::ReadyToSwitchOn
                | JointState::SwitchedOn,
                DISABLE_VOLTAGE,
            ) => JointState::SwitchOnDisabled,
            _ => state,
        }
    }

    #[test]
    fn every_state_leads_to_operation_enabled_and_from_there_off() {
        for start in [
            JointState::SwitchOnDisabled,
            JointState::ReadyToSwitchOn,
            JointState::SwitchedOn,
            JointState::OperationEnabled,
            JointState::QuickStopActive,
            JointState::Fault,
        ] {
            let mut state = start;
            let mut power = DrivePower::new(0.001);
            let mut before = 0xffff;
            for (aim, end) in [
                (PowerTarget::Enabled, JointState::OperationEnabled),
                (PowerTarget::Off, JointState::SwitchOnDisabled),
            ] {
                for _ in 0..40 {
                    let controlword = power.controlword(state, aim);
                    state = after(state, controlword, before);
                    before = controlword;
                }
                assert_eq!(state, end, "from {start:?}");
            }
        }
    }

    #[test]
    fn a_fault_that_stays_is_not_reset_for_ever() {
        for (period_s, half_pulse) in [(0.004, 10), (0.001, 10), (0.000_25, 40)] {
            let mut power = DrivePower::new(period_s);
            let words: Vec<u16> = (0..1_000)
                .map(|_| power.controlword(JointState::Fault, PowerTarget::Enabled))
                .collect();
            let edges = words
                .windows(2)
                .filter(|pair| pair[0] == DISABLE_VOLTAGE && pair[1] == FAULT_RESET)
                .count();
            assert_eq!(edges, MOST_RESETS as usize);
            let high = words.iter().skip_while(|word| **word != FAULT_RESET);
            assert_eq!(high.take_while(|word| **word == FAULT_RESET).count(), half_pulse);
            assert!(power.gave_up());
        }
    }
}
