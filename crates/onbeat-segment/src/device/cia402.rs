//! The power state machine of a drive (CiA 402, IEC 61800-7-201).

/// State of the power stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerState {
    SwitchOnDisabled,
    ReadyToSwitchOn,
    SwitchedOn,
    OperationEnabled,
    QuickStopActive,
    FaultReactionActive,
    Fault,
}

/// Bits of the controlword.
pub(crate) const SWITCH_ON: u16 = 0x0001;
pub(crate) const ENABLE_VOLTAGE: u16 = 0x0002;
pub(crate) const NO_QUICK_STOP: u16 = 0x0004;
pub(crate) const ENABLE_OPERATION: u16 = 0x0008;
/// New set-point, or start of homing.
pub(crate) const START: u16 = 0x0010;
pub(crate) const CHANGE_NOW: u16 = 0x0020;
pub(crate) const RELATIVE: u16 = 0x0040;
pub(crate) const FAULT_RESET: u16 = 0x0080;
pub(crate) const HALT: u16 = 0x0100;

/// Bits of the statusword that do not come from the power state.
pub(crate) const VOLTAGE: u16 = 0x0010;
pub(crate) const REMOTE: u16 = 0x0200;
pub(crate) const TARGET_REACHED: u16 = 0x0400;
pub(crate) const LIMIT_ACTIVE: u16 = 0x0800;
/// Set-point acknowledged, drive follows the command value, or homing attained.
pub(crate) const MODE_12: u16 = 0x1000;
/// Following error, or homing error.
pub(crate) const MODE_13: u16 = 0x2000;

impl PowerState {
    /// Returns bits 0 to 3, 5 and 6 of the statusword.
    pub(crate) fn statusword(self) -> u16 {
        match self {
            Self::SwitchOnDisabled => 0x0040,
            Self::ReadyToSwitchOn => 0x0021,
            Self::SwitchedOn => 0x0023,
            Self::OperationEnabled => 0x0027,
            Self::QuickStopActive => 0x0007,
            Self::FaultReactionActive => 0x000f,
            Self::Fault => 0x0008,
        }
    }

    /// Returns whether the power stage drives the motor.
    pub(crate) fn is_powered(self) -> bool {
        matches!(self, Self::OperationEnabled | Self::QuickStopActive | Self::FaultReactionActive)
    }

    /// Returns the state after a controlword; `before` is the previous controlword, since a rising
    /// edge resets a fault.
    ///
    /// One transition at a time, except "ready to switch on" to "operation enabled", which drives
    /// do in one step.
    pub(crate) fn after(self, controlword: u16, before: u16) -> Self {
        let has = |bits: u16| controlword & bits == bits;
        // Bit 7 is 0 in every command except "fault reset" (IEC 61800-7-201, table 28).
        if has(FAULT_RESET) && self != Self::Fault {
            return self;
        }

        let voltage = has(ENABLE_VOLTAGE);
        let quick_stop = voltage && !has(NO_QUICK_STOP);
        let shutdown = has(ENABLE_VOLTAGE | NO_QUICK_STOP) && !has(SWITCH_ON);
        let switch_on = has(ENABLE_VOLTAGE | NO_QUICK_STOP | SWITCH_ON);
        let enable = switch_on && has(ENABLE_OPERATION);

        match self {
            Self::Fault if has(FAULT_RESET) && before & FAULT_RESET == 0 => Self::SwitchOnDisabled,
            Self::SwitchOnDisabled if shutdown => Self::ReadyToSwitchOn,
            Self::Fault | Self::FaultReactionActive | Self::SwitchOnDisabled => self,
            _ if !voltage => Self::SwitchOnDisabled,
            Self::ReadyToSwitchOn | Self::SwitchedOn if quick_stop => Self::SwitchOnDisabled,
            Self::OperationEnabled if quick_stop => Self::QuickStopActive,
            Self::ReadyToSwitchOn | Self::SwitchedOn if enable => Self::OperationEnabled,
            Self::ReadyToSwitchOn if switch_on => Self::SwitchedOn,
            Self::SwitchedOn | Self::OperationEnabled if shutdown => Self::ReadyToSwitchOn,
            Self::OperationEnabled if switch_on && !enable => Self::SwitchedOn,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_machine_goes_up_and_down() {
        let mut state = PowerState::SwitchOnDisabled;
        for (controlword, expected) in [
            (0x0000, PowerState::SwitchOnDisabled),
            (0x0006, PowerState::ReadyToSwitchOn),
            (0x0007, PowerState::SwitchedOn),
            (0x000f, PowerState::OperationEnabled),
            (0x0007, PowerState::SwitchedOn),
            (0x000f, PowerState::OperationEnabled),
            (0x0006, PowerState::ReadyToSwitchOn),
            (0x000f, PowerState::OperationEnabled),
            (0x0002, PowerState::QuickStopActive),
            (0x000f, PowerState::QuickStopActive),
            (0x0000, PowerState::SwitchOnDisabled),
        ] {
            state = state.after(controlword, 0);
            assert_eq!(state, expected, "{controlword:#06x}");
        }
    }

    #[test]
    fn a_command_with_the_reset_bit_is_none() {
        for (state, controlword) in [
            (PowerState::SwitchOnDisabled, 0x0086),
            (PowerState::ReadyToSwitchOn, 0x008f),
            (PowerState::OperationEnabled, 0x0080),
            (PowerState::OperationEnabled, 0x0082),
        ] {
            assert_eq!(state.after(controlword, 0), state, "{controlword:#06x}");
        }
    }

    #[test]
    fn only_a_rising_edge_of_reset_leaves_a_fault() {
        assert_eq!(PowerState::Fault.after(0x000f, 0), PowerState::Fault);
        assert_eq!(PowerState::Fault.after(0x0080, 0x0080), PowerState::Fault);
        assert_eq!(PowerState::Fault.after(0x0080, 0x0000), PowerState::SwitchOnDisabled);
        assert_eq!(
            PowerState::FaultReactionActive.after(0x0080, 0x0000),
            PowerState::FaultReactionActive
        );
    }

    #[test]
    fn a_switched_off_drive_does_not_jump_to_operation_enabled() {
        assert_eq!(PowerState::SwitchOnDisabled.after(0x000f, 0), PowerState::SwitchOnDisabled);
    }
}
