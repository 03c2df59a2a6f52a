//! Comparison of what a device maps with the file, value by value: process data of the same length can
//! have its values in another order, in which a set-point would reach another object.

use std::collections::BTreeMap;

use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, MappedValue};

use super::error::BusError;

/// Entries of outputs and of inputs, as mapping objects have them (ETG.1000.6, 5.6.7.3); `None` where
/// they could not be read.
pub(super) type MappedEntries = [Option<Vec<u32>>; 2];

/// Index, subindex and bits of a mapped value.
type Entry = (u16, u8, u16);

/// Checks that a device maps the values of the file where the file has them.
///
/// # Errors
/// [`BusError::OtherObject`] with the first that is elsewhere.
pub(super) fn compare(device: &DeviceLayout, mapped: &MappedEntries) -> Result<(), BusError> {
    let sides = [
        ("outputs", &device.output_values, device.outputs.len()),
        ("inputs", &device.input_values, device.inputs.len()),
    ];
    for ((side, values, bytes), entries) in sides.into_iter().zip(mapped) {
        let Some(entries) = entries else { continue };
        let (there, bits) = placed(entries);
        // Process data in several areas have further assignments, which were not read.
        if bits.div_ceil(8) != bytes || !is_comparable(device.kind, values, &there) {
            continue;
        }
        // A file may list the bits of an object one by one, by subindices that the device has not.
        let is_compared =
            |value: &MappedValue| device.kind != DeviceKind::Drive || value.entry == 0;
        let differs = |value: &&MappedValue| {
            is_compared(value) && there.get(&value.bit_at) != Some(&entry_of(value))
        };
        if let Some(value) = values.iter().find(differs) {
            return Err(BusError::OtherObject {
                name: device.name.clone(),
                side,
                bit: value.bit_at,
                found: there
                    .get(&value.bit_at)
                    .map_or_else(|| "no value".to_owned(), |found| words(*found)),
                expected: words(entry_of(value)),
            });
        }
    }
    Ok(())
}

/// Whether the file has the objects of the device: its values may have other names where it was made
/// from lengths only. Those of a drive are known.
fn is_comparable(kind: DeviceKind, values: &[MappedValue], there: &BTreeMap<usize, Entry>) -> bool {
    let is_mapped = |value: &MappedValue| {
        there.values().any(|(index, entry, _)| (*index, *entry) == (value.index, value.entry))
    };
    kind == DeviceKind::Drive || values.iter().all(is_mapped)
}

/// Returns the values by their first bit, without gaps, and the bits of all.
fn placed(entries: &[u32]) -> (BTreeMap<usize, Entry>, usize) {
    let mut there = BTreeMap::new();
    let mut at = 0;
    for entry in entries {
        let (index, bits) = ((entry >> 16) as u16, (entry & 0xff) as u16);
        if index != 0 {
            there.insert(at, (index, (entry >> 8) as u8, bits));
        }
        at += usize::from(bits);
    }
    (there, at)
}

const fn entry_of(value: &MappedValue) -> Entry {
    (value.index, value.entry, value.bits)
}

fn words((index, entry, bits): Entry) -> String {
    format!("{index:#06x}:{entry:x} ({bits} bits)")
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::layout::Layout;

    use super::*;

    const DRIVE: &str =
        "[types.joint]\nkind = \"drive\"\n[[devices]]\ntype = \"joint\"\nname = \"knee\"\n";
    const OUTPUTS: [u32; 3] = [0x6040_0010, 0x607a_0020, 0x6071_0010];

    fn said(outputs: &[u32]) -> String {
        let layout = Layout::from_toml(DRIVE).unwrap();
        let compared = compare(&layout.devices[0], &[Some(outputs.to_vec()), None]);
        compared.map_or_else(|why| why.to_string(), |()| String::new())
    }

    #[test]
    fn a_mapping_in_another_order_is_another_mapping() {
        assert_eq!(said(&OUTPUTS), "");
        assert_eq!(
            said(&[0x6040_0010, 0x6071_0010, 0x607a_0020]),
            "\"knee\" maps 0x6071:0 (16 bits) at bit 16 of its outputs where the file has 0x607a:0 (32 bits); nothing was enabled: \
             correct its mapping or the file"
        );
        let gap = said(&[0x0000_0010, 0x607a_0020, 0x6071_0010]);
        assert!(gap.starts_with("\"knee\" maps no value at bit 0 of its outputs"), "{gap}");
    }

    #[test]
    fn other_lengths_are_told_by_their_bytes() {
        assert_eq!(said(&OUTPUTS[..2]), "");
    }
}
