//! Where mailboxes and process data lie in the memory of devices: of types without an ESI file, and of
//! devices that may come while the bus runs, whose EEPROM nobody has read before.

use super::resolved::ResolvedDevice;
use super::{DescriptionError, TypeTable};
use crate::layout::DeviceKind;
use crate::registers::PROCESS_MEMORY;
use crate::setup::{ChannelUsage, DeviceChannel, DeviceMemory};

/// Start address of the first mailbox of a type without an ESI file; the second follows it.
pub const MAILBOX_AT: u16 = 0x1000;
/// Start address of its outputs.
pub const OUTPUTS_AT: u16 = 0x1800;
/// Start address of its inputs.
pub const INPUTS_AT: u16 = 0x2400;
/// Control registers of its SyncManagers: mailbox to and from the device, outputs, inputs.
pub const CONTROLS: [u8; 4] = [0x26, 0x22, 0x64, 0x20];

/// Returns the length of each mailbox of a type without an ESI file.
#[must_use]
pub fn mailbox_bytes(table: &TypeTable, kind: DeviceKind) -> u16 {
    table.mailbox.unwrap_or(match kind {
        DeviceKind::Coupler | DeviceKind::Digital => 0,
        _ => 128,
    })
}

/// Returns what the MainDevice must know of a device that it has not seen yet.
pub(super) fn memory_of(device: &ResolvedDevice<'_>) -> Result<DeviceMemory, DescriptionError> {
    let Some(esi) = device.esi else { return of_type(device) };
    let mut channels = Vec::new();
    for (number, channel) in (0u8..).zip(&esi.sync_managers) {
        let bytes_of = |direction: usize| {
            let own = device.channel_bytes[direction].iter().find(|(own, _)| *own == number);
            own.map_or(0, |(_, bytes)| *bytes)
        };
        let (usage, bytes) = match channel.usage {
            1 | 2 => (ChannelUsage::Mailbox, usize::from(channel.length)),
            3 => (ChannelUsage::Outputs, bytes_of(0)),
            4 => (ChannelUsage::Inputs, bytes_of(1)),
            _ => continue,
        };
        if bytes > 0 {
            let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
            let (start, control) = (channel.start, channel.control);
            channels.push(DeviceChannel { number, start, bytes, control, usage });
        }
    }

    Ok(DeviceMemory { channels, has_clock: esi.has_clock })
}

/// Returns a sentence about an area that reaches into the next one. A SyncManager keeps three buffers
/// of process data (ETG.1000.4); terminals without a mailbox have their channels in single bytes.
pub(super) fn shared_memory(device: &ResolvedDevice<'_>) -> Option<String> {
    device.esi?;
    let mut channels = memory_of(device).ok()?.channels;
    let has_mailbox = channels.iter().any(|channel| channel.usage == ChannelUsage::Mailbox);
    // Below it are registers, such as those of digital outputs.
    channels.retain(|channel| usize::from(channel.start) >= PROCESS_MEMORY);
    channels.sort_by_key(|channel| channel.start);
    let is_buffered = |channel: &DeviceChannel| {
        has_mailbox && channel.usage != ChannelUsage::Mailbox && channel.control & 3 == 0
    };
    let end = |channel: &DeviceChannel| {
        let buffers = if is_buffered(channel) { 3 } else { 1 };
        usize::from(channel.start) + buffers * usize::from(channel.bytes)
    };
    let pair = channels.windows(2).find(|pair| end(&pair[0]) > usize::from(pair[1].start))?;
    let [one, next] = [pair[0], pair[1]];
    Some(format!(
        "\"{}\": the {} bytes of SyncManager {}{} reach to {:#06x}, and SyncManager {} begins at {:#06x}: assign fewer PDOs",
        device.name,
        one.bytes,
        one.number,
        if is_buffered(&one) { ", in three buffers," } else { "" },
        end(&one),
        next.number,
        next.start
    ))
}

fn of_type(device: &ResolvedDevice<'_>) -> Result<DeviceMemory, DescriptionError> {
    let mailbox = mailbox_bytes(device.kind, device.kind.kind_of(&device.table.kind)?);
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    let areas = [
        (MAILBOX_AT, mailbox, ChannelUsage::Mailbox),
        (MAILBOX_AT + mailbox, mailbox, ChannelUsage::Mailbox),
        (OUTPUTS_AT, length(device.outputs.bytes()), ChannelUsage::Outputs),
        (INPUTS_AT, length(device.inputs.bytes()), ChannelUsage::Inputs),
    ];
    let passed_over = if mailbox > 0 { 0 } else { 2 };
    let channels = (0u8..).zip(areas.into_iter().zip(CONTROLS).skip(passed_over));
    let channels = channels
        .filter(|(_, ((_, bytes, _), _))| *bytes > 0)
        .map(|(number, ((start, bytes, usage), control))| DeviceChannel {
            number,
            start,
            bytes,
            control,
            usage,
        })
        .collect();
    Ok(DeviceMemory { channels, has_clock: device.kind.clock.unwrap_or(true) })
}
