//! Digital and analogue inputs and outputs.

use super::Step;
use crate::coe::{DataType, Dictionary, Slot, access};

/// Outputs, and inputs that follow the outputs of the same number when they are wired back, or whatever a test sets.
#[derive(Clone, Debug)]
pub(crate) struct Io {
    /// Where values are, and how many bytes they have.
    outputs: Vec<(Slot, usize)>,
    inputs: Vec<(Slot, usize)>,
    loop_back: bool,
}

impl Io {
    pub(crate) const INPUTS: u16 = 0x6000;
    pub(crate) const OUTPUTS: u16 = 0x7000;

    /// Adds the objects of `inputs` and `outputs` channels.
    pub(crate) fn new(objects: &mut Dictionary, kind: DataType, (inputs, outputs): (u8, u8), loop_back: bool) -> Self {
        let mut channels = |index: u16, name: &str, count: u8, access: u16| -> Vec<(Slot, usize)> {
            if count == 0 {
                return Vec::new();
            }

            objects.object(index, &format!("{name}s"));
            objects.entry("Entries", DataType::U8, access::READ, &[count]);
            let mut one = |number| objects.entry(&format!("{name} {number}"), kind, access, &[]);
            (1..=count).map(|number| (one(number), kind.bytes())).collect()
        };

        let inputs = channels(Self::INPUTS, "Input", inputs, access::READ | access::INPUT);
        let outputs = channels(Self::OUTPUTS, "Output", outputs, access::BOTH | access::OUTPUT);
        Self::of(outputs, inputs, loop_back)
    }

    /// With values that are there already.
    pub(crate) fn of(outputs: Vec<(Slot, usize)>, inputs: Vec<(Slot, usize)>, loop_back: bool) -> Self {
        Self { outputs, inputs, loop_back }
    }

    pub(crate) fn step(&mut self, objects: &mut Dictionary, _: Step) {
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

    /// The safe value of every output is 0.
    pub(crate) fn outputs_lost(&mut self, objects: &mut Dictionary) {
        for &(output, bytes) in &self.outputs {
            objects.raw_mut(output, bytes).fill(0);
        }
    }
}
