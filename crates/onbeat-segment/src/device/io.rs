//! Digital and analogue inputs and outputs.

use onbeat_ethercat::description::ChannelsTable;

use crate::coe::{DataType, Dictionary, ValueSlot, access};

/// Outputs, and inputs that are looped back from the outputs of the same number or set by a test.
#[derive(Clone, Debug)]
pub(crate) struct Io {
    /// Slots and lengths in bytes of the values.
    outputs: Vec<(ValueSlot, usize)>,
    inputs: Vec<(ValueSlot, usize)>,
    loop_back: bool,
}

impl Io {
    pub(crate) const INPUTS: u16 = 0x6000;
    pub(crate) const OUTPUTS: u16 = 0x7000;

    /// Adds the objects of the channels.
    pub(crate) fn new(objects: &mut Dictionary, kind: DataType, channels: ChannelsTable) -> Self {
        let mut add = |index: u16, name: &str, count: u8, access: u16| -> Vec<(ValueSlot, usize)> {
            if count == 0 {
                return Vec::new();
            }

            objects.object(index, &format!("{name}s"));
            objects.entry("Entries", DataType::U8, access::READ, &[count]);
            let mut one = |number| objects.entry(&format!("{name} {number}"), kind, access, &[]);
            (1..=count).map(|number| (one(number), kind.bytes())).collect()
        };

        let inputs = add(Self::INPUTS, "Input", channels.inputs, access::READ | access::INPUT);
        let outputs = add(Self::OUTPUTS, "Output", channels.outputs, access::BOTH | access::OUTPUT);
        Self::from_values(outputs, inputs, channels.loop_back)
    }

    /// Uses existing values of the dictionary.
    pub(crate) fn from_values(
        outputs: Vec<(ValueSlot, usize)>,
        inputs: Vec<(ValueSlot, usize)>,
        loop_back: bool,
    ) -> Self {
        Self { outputs, inputs, loop_back }
    }

    pub(crate) fn step(&mut self, objects: &mut Dictionary) {
        if !self.loop_back {
            return;
        }
        for (&(output, bytes), &(input, input_bytes)) in self.outputs.iter().zip(&self.inputs) {
            for byte in 0..bytes.min(input_bytes) {
                let value = objects.u8(output.plus(byte));
                objects.put(input.plus(byte), [value]);
            }
        }
    }

    /// Sets all outputs to their safe value, 0.
    pub(crate) fn outputs_lost(&mut self, objects: &mut Dictionary) {
        for &(output, bytes) in &self.outputs {
            objects.raw_mut(output, bytes).fill(0);
        }
    }
}
