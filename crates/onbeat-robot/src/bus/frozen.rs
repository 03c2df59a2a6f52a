//! Sees that a device's inputs stand still although they should not.
//!
//! A device that answers with old data counts as any other. What tells a sensor apart is that its inputs changed in nearly every cycle
//! before, and do not change at all now. Devices that take outputs may stand still because they were told to; whether they obey is
//! their controller's business.

use onbeat_ethercat::layout::Layout;

/// Cycles that are looked back on.
const MEMORY: u8 = 100;
/// Of these, so many must have brought other inputs.
const LIVELY: u8 = 90;
/// Cycles without a change that tell.
const STILL: u8 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Device {
    lively: u8,
    still: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Frozen {
    devices: Vec<Device>,
    inputs: Vec<u8>,
}

impl Frozen {
    pub(super) fn new(layout: &Layout) -> Self {
        Self { devices: vec![Device::default(); layout.devices.len()], inputs: vec![0; layout.input_bytes] }
    }

    /// Looks at a cycle's inputs; calls `tell` with each sensor that stands still since now.
    pub(super) fn look(&mut self, layout: &Layout, inputs: &[u8], mut tell: impl FnMut(usize)) {
        let sensors = self.devices.iter_mut().zip(&layout.devices).enumerate();
        let sensors = sensors.filter(|(_, (_, layout))| layout.outputs.is_empty() && !layout.inputs.is_empty());
        for (place, (device, layout)) in sensors {
            let range = layout.inputs.clone();
            if inputs[range.clone()] != self.inputs[range.clone()] {
                self.inputs[range.clone()].copy_from_slice(&inputs[range]);
                *device = Device { lively: (device.lively + 1).min(MEMORY), still: 0 };
                continue;
            }

            device.still = device.still.saturating_add(1);
            if device.still == STILL && device.lively >= LIVELY {
                tell(place);
            }
            if device.still >= STILL {
                device.lively = device.lively.saturating_sub(1);
            }
        }
    }
}
