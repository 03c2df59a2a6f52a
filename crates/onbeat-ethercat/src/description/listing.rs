//! What a MainDevice should find on a segment, from the segment's own file.

use super::arrangement::{Arrangement, Placed};
use super::setup_words::{setup_of, watchdog_ns};
use super::{Description, DescriptionError, KindWord};
use crate::esi::Behaviour;
use crate::layout::{DeviceKind, DeviceLayout, Layout};

/// The layout of the process image of the segment that a file describes.
pub(crate) fn layout_of(description: &Description) -> Result<Layout, DescriptionError> {
    let arrangement = Arrangement::of(description)?;
    let watchdog_ns = description.segment.watchdog_ms.map(watchdog_ns).transpose()?;

    let mut layout = Layout { name: description.segment.name.clone(), watchdog_ns, ..Layout::default() };
    for place in arrangement.order_on_cable() {
        layout.add(device(&arrangement.devices[place])?);
    }

    Ok(layout)
}

fn device(placed: &Placed<'_>) -> Result<DeviceLayout, DescriptionError> {
    let kind: DeviceKind = match placed.information {
        Some(information) => information.behaviour().into(),
        None => placed.kind.word(&placed.table.kind)?.into(),
    };

    let drive = placed.kind.drive.unwrap_or_default();
    let is_drive = kind == DeviceKind::Drive;

    Ok(DeviceLayout {
        name: placed.name.to_owned(),
        kind,
        alias: placed.alias,
        vendor: placed.vendor,
        product: placed.product,
        revision: placed.revision,
        serial: placed.serial.unwrap_or(0),
        outputs: 0..placed.outputs.bytes(),
        inputs: 0..placed.inputs.bytes(),
        output_values: placed.outputs.values.clone(),
        input_values: placed.inputs.values.clone(),
        increments: if is_drive { drive.increments } else { 0 },
        travel: if is_drive { drive.travel } else { [0, 0] },
        setup: setup_of(placed.name, placed.kind, placed.table)?,
    })
}

impl From<KindWord> for DeviceKind {
    fn from(kind: KindWord) -> Self {
        match kind {
            KindWord::Coupler => Self::Coupler,
            KindWord::Digital => Self::Digital,
            KindWord::Analogue => Self::Analogue,
            KindWord::Drive => Self::Drive,
            KindWord::Imu => Self::Imu,
            KindWord::ForceTorque => Self::ForceTorque,
        }
    }
}

impl From<Behaviour> for DeviceKind {
    fn from(behaviour: Behaviour) -> Self {
        match behaviour {
            Behaviour::Coupler => Self::Coupler,
            Behaviour::Digital => Self::Digital,
            Behaviour::Analogue => Self::Analogue,
            Behaviour::Drive => Self::Drive,
        }
    }
}
