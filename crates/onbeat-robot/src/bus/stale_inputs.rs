//! Detects a device whose inputs stopped changing.
//!
//! A device that answers with old data is indistinguishable on the bus. A sensor is reported when
//! its inputs changed in nearly every cycle before, and do not change any more. Devices with
//! outputs are not checked: they may stand still on command.

use onbeat_ethercat::layout::Layout;

/// Number of cycles considered.
const WINDOW: u8 = 100;
/// Minimum number of these in which the inputs must have changed.
const MIN_CHANGING: u8 = 90;
/// Number of cycles without change before the report.
const STALE_AFTER: u8 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct InputHistory {
    changing: u8,
    unchanged: u8,
}

#[derive(Clone, Debug)]
pub(super) struct StaleInputs {
    devices: Vec<InputHistory>,
    inputs: Vec<u8>,
}

impl StaleInputs {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            devices: vec![InputHistory::default(); layout.devices.len()],
            inputs: vec![0; layout.input_bytes],
        }
    }

    /// Compares the inputs of a cycle with the previous ones; calls `report` with each sensor that
    /// became stale.
    pub(super) fn update(&mut self, layout: &Layout, inputs: &[u8], mut report: impl FnMut(usize)) {
        let sensors = self.devices.iter_mut().zip(&layout.devices).enumerate();
        let sensors = sensors
            .filter(|(_, (_, layout))| layout.outputs.is_empty() && !layout.inputs.is_empty());
        for (place, (device, layout)) in sensors {
            let range = layout.inputs.clone();
            if inputs[range.clone()] != self.inputs[range.clone()] {
                self.inputs[range.clone()].copy_from_slice(&inputs[range]);
                *device =
                    InputHistory { changing: (device.changing + 1).min(WINDOW), unchanged: 0 };
                continue;
            }

            device.unchanged = device.unchanged.saturating_add(1);
            if device.unchanged == STALE_AFTER && device.changing >= MIN_CHANGING {
                report(place);
            }
            if device.unchanged >= STALE_AFTER {
                device.changing = device.changing.saturating_sub(1);
            }
        }
    }
}
