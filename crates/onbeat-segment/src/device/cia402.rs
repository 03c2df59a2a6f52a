//! The power state machine of a drive (CiA 402, IEC 61800-7-201).

/// State of the power stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
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
/// Set-point acknowledged, follows the command value, or homing attained.
pub(crate) const MODE_12: u16 = 0x1000;
/// Following error, or homing error.
pub(crate) const MODE_13: u16 = 0x2000;

impl Power {
    /// Bits 0 to 3, 5 and 6 of the statusword.
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

    /// Whether the power stage holds the motor.
    pub(crate) fn is_powered(self) -> bool {
        matches!(self, Self::OperationEnabled | Self::QuickStopActive | Self::FaultReactionActive)
    }

    /// The state after a controlword; `before` is the last one, since a fault is reset by a rising edge.
    ///
    /// One transition at a time, but for "ready to switch on" to "operation enabled", which drives do in one go.
    pub(crate) fn after(self, controlword: u16, before: u16) -> Self {
        let has = |bits: u16| controlword & bits == bits;
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
    fn the_usual_way_up_and_down() {
        let mut state = Power::SwitchOnDisabled;
        for (controlword, expected) in [
            (0x0000, Power::SwitchOnDisabled),
            (0x0006, Power::ReadyToSwitchOn),
            (0x0007, Power::SwitchedOn),
            (0x000f, Power::OperationEnabled),
            (0x0007, Power::SwitchedOn),
            (0x000f, Power::OperationEnabled),
            (0x0006, Power::ReadyToSwitchOn),
            (0x000f, Power::OperationEnabled),
            (0x0002, Power::QuickStopActive),
            (0x000f, Power::QuickStopActive),
            (0x0000, Power::SwitchOnDisabled),
        ] {
            state = state.after(controlword, 0);
            assert_eq!(state, expected, "{controlword:#06x}");
        }
    }

    #[test]
    fn a_fault_is_left_by_a_rising_edge_of_reset_only() {
        assert_eq!(Power::Fault.after(0x000f, 0), Power::Fault);
        assert_eq!(Power::Fault.after(0x0080, 0x0080), Power::Fault);
        assert_eq!(Power::Fault.after(0x0080, 0x0000), Power::SwitchOnDisabled);
        assert_eq!(Power::FaultReactionActive.after(0x0080, 0x0000), Power::FaultReactionActive);
    }

    #[test]
    fn a_drive_that_is_switched_off_does_not_jump_to_operation() {
        assert_eq!(Power::SwitchOnDisabled.after(0x000f, 0), Power::SwitchOnDisabled);
    }
}
