//! Which bytes of the process image are in which frame of a cycle, and at which logical addresses.
//!
//! ```text
//! logical addresses:  inputs | outputs of the devices that are always there, inputs | outputs of group 0, of group 1, ...
//! ```
//!
//! The first part is as ethercrab maps it. Each optional group follows with datagrams of its own.

use std::ops::Range;

use onbeat_ethercat::layout::{DeviceLayout, Layout};

/// Bytes of a datagram beside its data: header and working counter.
const DATAGRAM: usize = 12;

/// Process data in one datagram: inputs, then outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageShare {
    /// Range in the inputs of the process image.
    pub(super) inputs: Range<usize>,
    pub(super) outputs: Range<usize>,
    /// Logical address, from the first one of the bus.
    pub(super) logical: u32,
    /// Working counter when all its devices are in OP.
    pub(super) expected: u16,
    /// Optional group of its devices; `None` for those that are always there.
    pub(super) group: Option<usize>,
}

impl ImageShare {
    pub(super) fn len(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }
}

/// Devices whose process data follow each other: those that are always there, or a group.
struct Section<'l> {
    devices: &'l [DeviceLayout],
    group: Option<usize>,
    inputs: Range<usize>,
    outputs: Range<usize>,
    logical: u32,
}

impl Section<'_> {
    /// Returns the process data from one byte of the section to another, counted through its inputs
    /// and its outputs.
    fn share(&self, range: &Range<usize>, expected: u16) -> ImageShare {
        let bytes = self.inputs.len();
        let input = |at: usize| self.inputs.start + at.min(bytes);
        let output = |at: usize| self.outputs.start + at.saturating_sub(bytes);
        ImageShare {
            inputs: input(range.start)..input(range.end),
            outputs: output(range.start)..output(range.end),
            logical: self.logical + range.start as u32,
            expected,
            group: self.group,
        }
    }

    /// Returns the parts of the devices within the section, each with its share of the working
    /// counter.
    fn parts(&self) -> impl Iterator<Item = (Range<usize>, u16)> {
        let moved = |range: &Range<usize>, from: usize, to: usize| {
            range.start - from + to..range.end - from + to
        };
        let inputs =
            self.devices.iter().map(move |one| (moved(&one.inputs, self.inputs.start, 0), 1));
        let behind = self.inputs.len();
        let outputs = self
            .devices
            .iter()
            .map(move |one| (moved(&one.outputs, self.outputs.start, behind), 2));
        inputs.chain(outputs).filter(|(range, _)| !range.is_empty())
    }
}

fn sections(layout: &Layout) -> Vec<Section<'_>> {
    let groups = layout.groups.iter().map(|group| group.devices.clone()).enumerate();
    let all = std::iter::once((None, 0..layout.always_there()))
        .chain(groups.map(|(group, devices)| (Some(group), devices)));
    let mut logical = 0;
    all.map(|(group, range)| {
        let devices = &layout.devices[range];
        let span = |of: fn(&DeviceLayout) -> &Range<usize>| {
            let first = devices.first().map_or(0, |one| of(one).start);
            first..devices.last().map_or(first, |one| of(one).end)
        };
        let (inputs, outputs) = (span(|one| &one.inputs), span(|one| &one.outputs));
        let section = Section { devices, group, inputs, outputs, logical };
        logical += (section.inputs.len() + section.outputs.len()) as u32;
        section
    })
    .collect()
}

/// Splits the process image into datagrams at device boundaries, by frame. `most` are the bytes of
/// process data that fit into one datagram of the first frame and of each further one.
pub(super) fn image_shares(layout: &Layout, most: [usize; 2]) -> Vec<Vec<ImageShare>> {
    let mut frames = vec![Vec::new()];
    let mut free = most[0];
    for section in sections(layout) {
        let (mut range, mut expected) = (0..0, 0);
        for (part, count) in section.parts() {
            // Inputs or outputs of one device are never in two frames: of a frame that is lost, the
            // device would get, or show, the one half of a value with the other of a cycle before.
            if part.end - range.start > free {
                close(&mut frames, section.share(&range, expected));
                frames.push(Vec::new());
                (range, expected, free) = (part.start..part.start, 0, most[1]);
            }
            range.end = part.end;
            expected += count;
        }

        close(&mut frames, section.share(&range, expected));
        free = free.saturating_sub(range.len() + DATAGRAM);
    }

    frames
}

/// Adds a datagram to the last frame. One without data is needed in the first frame only, where no
/// device has any.
fn close(frames: &mut [Vec<ImageShare>], share: ImageShare) {
    let is_first = frames.len() == 1 && share.group.is_none();
    if let Some(frame) = frames.last_mut().filter(|_| is_first || share.len() > 0) {
        frame.push(share);
    }
}

/// Returns the logical addresses of the inputs and of the outputs of a device, from the first one
/// of the bus.
pub(super) fn logical_of(layout: &Layout, device: usize) -> [u32; 2] {
    let group = layout.group_of(device);
    let sections = sections(layout);
    let Some(section) = sections.iter().find(|section| section.group == group) else {
        return [0; 2];
    };
    let one = &layout.devices[device];
    let inputs = section.logical + (one.inputs.start - section.inputs.start) as u32;
    let behind = section.inputs.len() + one.outputs.start - section.outputs.start;
    [inputs, section.logical + behind as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six drives with 8 bytes of outputs and 12 of inputs each, of which the last three are two
    /// optional groups.
    fn layout() -> Layout {
        let text = "[types.joint]\nkind = \"drive\"\n[types.fork]\nkind = \"coupler\"\nports = 4\n\
            [[devices]]\ntype = \"fork\"\nname = \"fork\"\n\
            [[devices]]\ntype = \"joint\"\nnames = [\"g0\"]\nalias = 7\ngroup = \"g\"\nport = 3\n\
            [[devices]]\ntype = \"joint\"\nnames = [\"a\", \"b\", \"c\"]\nafter = \"fork\"\n\
            [[devices]]\ntype = \"joint\"\nnames = [\"h0\", \"h1\"]\nalias = 9\ngroup = \"h\"\n";
        Layout::from_toml(text).unwrap()
    }

    #[test]
    fn the_devices_that_are_always_there_come_first_and_each_group_has_its_datagram() {
        let layout = layout();
        let names: Vec<&str> = layout.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["fork", "a", "b", "c", "g0", "h0", "h1"]);
        let frames = image_shares(&layout, [1_000, 1_000]);
        assert_eq!(frames.len(), 1);
        let all: Vec<_> =
            frames[0].iter().map(|one| (one.group, one.len(), one.logical, one.expected)).collect();
        let one = layout.devices[1].inputs.len() + layout.devices[1].outputs.len();
        let at = |drives: usize| (drives * one) as u32;
        assert_eq!(
            all,
            [(None, 3 * one, 0, 9), (Some(0), one, at(3), 3), (Some(1), 2 * one, at(4), 6)]
        );
    }

    #[test]
    fn every_byte_is_in_one_datagram_whatever_fits_into_a_frame() {
        let layout = layout();
        for most in 24..200 {
            let frames = image_shares(&layout, [most, most + 20]);
            let shares: Vec<&ImageShare> = frames.iter().flatten().collect();
            let mut inputs: Vec<usize> = shares.iter().flat_map(|one| one.inputs.clone()).collect();
            let mut outputs: Vec<usize> =
                shares.iter().flat_map(|one| one.outputs.clone()).collect();
            inputs.sort_unstable();
            outputs.sort_unstable();
            assert_eq!(inputs, (0..layout.input_bytes).collect::<Vec<_>>(), "{most}");
            assert_eq!(outputs, (0..layout.output_bytes).collect::<Vec<_>>(), "{most}");
            let expected: u16 = shares.iter().map(|one| one.expected).sum();
            assert_eq!(expected, 18, "{most}: three for each drive");
            for (number, frame) in frames.iter().enumerate() {
                let bytes: usize = frame.iter().map(|one| one.len() + DATAGRAM).sum();
                assert!(bytes <= most + 20 * number.min(1) + DATAGRAM, "{most}: {bytes}");
            }
        }
    }

    #[test]
    fn the_addresses_of_devices_are_those_of_their_datagrams() {
        let layout = layout();
        let frames = image_shares(&layout, [1_000, 1_000]);
        for device in 1..layout.devices.len() {
            let [inputs, outputs] = logical_of(&layout, device);
            let group = layout.group_of(device);
            let share = frames[0].iter().find(|one| one.group == group).unwrap();
            let one = &layout.devices[device];
            assert_eq!(
                inputs,
                share.logical + (one.inputs.start - share.inputs.start) as u32,
                "{}",
                one.name
            );
            let behind = share.inputs.len() + one.outputs.start - share.outputs.start;
            assert_eq!(outputs, share.logical + behind as u32, "{}", one.name);
        }
    }
}
