//! From a description to the layout that a MainDevice expects.

use super::memory::memory_of;
use super::resolved::{ResolvedDescription, ResolvedDevice};
use super::setup_tables::watchdog_ns;
use super::{Description, DescriptionError};
use crate::layout::{DeviceKind, DeviceLayout, GroupLayout, Layout};

impl Layout {
    /// Reads the layout from the text of a segment file (`docs/segment.md`).
    ///
    /// # Errors
    /// [`DescriptionError`] when the text does not describe a segment.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        Self::from_description(&Description::from_toml(text)?)
    }

    /// Derives the layout from a description.
    ///
    /// # Errors
    /// [`DescriptionError`] when the description is inconsistent.
    pub fn from_description(description: &Description) -> Result<Self, DescriptionError> {
        let resolved = ResolvedDescription::new(description)?;
        let watchdog_ns = description.segment.watchdog_ms.map(watchdog_ns).transpose()?;

        let mut layout =
            Layout { name: description.segment.name.clone(), watchdog_ns, ..Layout::default() };
        let is_optional = |position: &usize| resolved.devices[*position].table.group.is_some();
        let order = resolved.order_on_cable();
        for position in order.into_iter().filter(|position| !is_optional(position)) {
            layout.add(device(&resolved.devices[position])?);
        }

        for (name, members) in &resolved.groups {
            let first = layout.devices.len();
            for position in members {
                let mut member = device(&resolved.devices[*position])?;
                member.setup.memory = Some(memory_of(&resolved.devices[*position])?);
                layout.add(member);
            }
            let devices = first..layout.devices.len();
            layout.groups.push(GroupLayout { name: name.clone(), devices });
        }

        Ok(layout)
    }
}

fn device(resolved: &ResolvedDevice<'_>) -> Result<DeviceLayout, DescriptionError> {
    let kind = match resolved.esi {
        Some(esi) => esi.behaviour(),
        None => resolved.kind.kind_of(&resolved.table.kind)?,
    };

    let drive = resolved.kind.drive.unwrap_or_default();
    let is_drive = kind == DeviceKind::Drive;

    Ok(DeviceLayout {
        name: resolved.name.to_owned(),
        kind,
        alias: resolved.alias,
        vendor: resolved.vendor,
        product: resolved.product,
        revision: resolved.revision,
        serial: resolved.serial.unwrap_or(0),
        outputs: 0..resolved.outputs.bytes(),
        inputs: 0..resolved.inputs.bytes(),
        output_values: resolved.outputs.values.clone(),
        input_values: resolved.inputs.values.clone(),
        increments: if is_drive { drive.increments } else { 0 },
        travel: if is_drive { drive.travel } else { [0, 0] },
        setup: resolved.setup.clone(),
    })
}
