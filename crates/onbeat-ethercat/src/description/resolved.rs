//! A description with all references resolved: checked devices with their cables and process data.
//!
//! The simulated segment and the layout of a real bus are both built from this, so they agree on
//! names, positions and mappings.

use std::collections::BTreeMap;

use super::assignment;
use super::error::out_of_range;
use super::groups;
use super::process_data::{PdoDirection, ProcessData};
use super::setup_tables::setup_of;
use super::tables::FICTITIOUS_VENDOR;
use super::{Description, DescriptionError, DeviceTable, TypeTable};
use crate::esi::EsiDevice;
use crate::layout::DeviceKind;
use crate::setup::DeviceSetup;

/// Longest name of a device, in bytes.
const LONGEST_NAME: usize = 64;
/// Product code of a device without one: this number plus the number of its kind.
const FIRST_PRODUCT: u32 = 0x1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CableEnd {
    /// A network interface of the MainDevice.
    Nic(usize),
    /// A port of a device.
    Port {
        /// Position of the device in the file.
        device: usize,
        port: usize,
    },
}

/// A cable of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableSpec {
    /// Both ends, the one nearer to the MainDevice first.
    pub ends: [CableEnd; 2],
    /// Propagation delay, in ns.
    pub delay_ns: u64,
}

/// One device of a description.
#[derive(Clone, Debug)]
pub struct ResolvedDevice<'d> {
    /// Name of the device.
    pub name: &'d str,
    /// Its table in the file.
    pub table: &'d DeviceTable,
    pub kind: &'d TypeTable,
    /// Its device in an ESI file, if the type names one.
    pub esi: Option<&'d EsiDevice>,
    /// Number of ports, 1 to 4.
    pub ports: u8,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    pub revision: u32,
    /// Serial number if the file has one; 0 for none.
    pub serial: Option<u32>,
    /// Station alias, 0 for none.
    pub alias: u16,
    /// Outputs as the MainDevice maps them.
    pub outputs: ProcessData,
    /// Inputs as the MainDevice maps them.
    pub inputs: ProcessData,
    /// Bytes of outputs and of inputs by SyncManager; empty without an ESI file.
    pub channel_bytes: [Vec<(u8, usize)>; 2],
    /// Configuration that it gets on the way to OP.
    pub setup: DeviceSetup,
}

/// All devices and cables of a description.
#[derive(Clone, Debug)]
pub struct ResolvedDescription<'d> {
    /// Devices in file order.
    pub devices: Vec<ResolvedDevice<'d>>,
    /// The cable to each device, in file order; in a ring, the cable back to the MainDevice at the
    /// end.
    pub cables: Vec<CableSpec>,
    /// Optional groups by name: the file positions of their devices, in cable order.
    pub groups: Vec<(String, Vec<usize>)>,
}

impl<'d> ResolvedDescription<'d> {
    /// Checks a description and resolves types, names and cables.
    ///
    /// # Errors
    /// [`DescriptionError`] with the first inconsistency.
    pub fn new(description: &'d Description) -> Result<Self, DescriptionError> {
        let mut builder = Builder {
            description,
            resolved: Self { devices: Vec::new(), cables: Vec::new(), groups: Vec::new() },
            used_ports: Vec::new(),
            positions: BTreeMap::new(),
        };

        for table in &description.devices {
            let kind = description.types.get(&table.kind).ok_or_else(|| {
                DescriptionError::UnknownType {
                    device: table.all_names().next().unwrap_or_default().to_owned(),
                    wanted: table.kind.clone(),
                }
            })?;

            if table.all_names().next().is_none() {
                return Err(DescriptionError::NoName(table.kind.clone()));
            }

            check(&table.kind, kind)?;
            for (number, name) in table.all_names().enumerate() {
                builder.connect(table, number, name)?;
                let device = builder.device(table, kind, number, name)?;
                builder.resolved.devices.push(device);
            }
        }

        builder.close_ring();
        let mut resolved = builder.resolved;
        resolved.groups = groups::optional_groups(&resolved, description.segment.ring)?;
        Ok(resolved)
    }

    /// Returns the file positions of the devices in the order of a layout: as on the cable, those
    /// of optional groups after all others.
    #[must_use]
    pub fn layout_order(&self) -> Vec<usize> {
        let mut order = self.order_on_cable();
        order.retain(|position| self.devices[*position].table.group.is_none());
        order.extend(self.groups.iter().flat_map(|(_, members)| members));
        order
    }

    /// Returns the file positions of the devices in the order in which a frame reaches them: a
    /// device, then the branches at its ports 3, 1 and 2. In a ring, the order ends at the second
    /// interface.
    #[must_use]
    pub fn order_on_cable(&self) -> Vec<usize> {
        let mut far_ends = vec![[None; 4]; self.devices.len()];
        for cable in &self.cables {
            if let [CableEnd::Port { device, port }, far] = cable.ends {
                far_ends[device][port] = Some(far);
            }
        }

        let mut order = Vec::with_capacity(self.devices.len());
        let mut pending = vec![CableEnd::Port { device: 0, port: 0 }];
        while let Some(CableEnd::Port { device, .. }) = pending.pop() {
            order.push(device);
            // A stack: the branch that is reached first is pushed last.
            pending.extend([2, 1, 3].into_iter().filter_map(|port: usize| far_ends[device][port]));
        }

        order
    }
}

struct Builder<'d> {
    description: &'d Description,
    resolved: ResolvedDescription<'d>,
    /// For each device, which ports have a cable.
    used_ports: Vec<[bool; 4]>,
    positions: BTreeMap<&'d str, usize>,
}

impl<'d> Builder<'d> {
    /// Returns the ports of a device but the first one; numbers can have gaps.
    fn further_ports(&self, device: usize) -> Vec<u8> {
        let Some(device) = self.resolved.devices.get(device) else { return Vec::new() };
        let is_there =
            |port: &u8| device.esi.is_none_or(|esi| esi.port_kinds >> (4 * port) & 0x0f != 0);
        (1..device.ports).filter(is_there).collect()
    }

    /// Adds the cable to a new device.
    fn connect(
        &mut self,
        table: &'d DeviceTable,
        number: usize,
        name: &'d str,
    ) -> Result<(), DescriptionError> {
        let device = self.resolved.devices.len();
        // Names are printed, and lines of files.
        let is_printed = !name.is_empty() && !name.contains(char::is_control);
        if !is_printed || name.len() > LONGEST_NAME {
            let range = "1 to 64 bytes long, without control characters";
            return out_of_range(&table.kind, "name", format!("{name:?}"), range);
        }

        if self.positions.insert(name, device).is_some() {
            return Err(DescriptionError::DuplicateName(name.to_owned()));
        }

        let before = match table.after.as_ref().filter(|_| number == 0) {
            Some(after) => Some(
                *self
                    .positions
                    .get(after.as_str())
                    .filter(|position| **position < device)
                    .ok_or_else(|| DescriptionError::UnknownParent {
                        device: name.to_owned(),
                        after: after.clone(),
                    })?,
            ),
            None => device.checked_sub(1),
        };

        let from = match before {
            None => CableEnd::Nic(0),
            Some(before) => self.free_port(before, table.port.filter(|_| number == 0), name)?,
        };

        self.used_ports.push([true, false, false, false]);
        let delay_ns = table.cable_ns.unwrap_or(self.description.segment.cable_ns);
        self.resolved
            .cables
            .push(CableSpec { ends: [from, CableEnd::Port { device, port: 0 }], delay_ns });
        Ok(())
    }

    /// Reserves the requested port of a device, or its first free one.
    fn free_port(
        &mut self,
        before: usize,
        wanted: Option<u8>,
        name: &str,
    ) -> Result<CableEnd, DescriptionError> {
        let there = self.further_ports(before);
        let used = &mut self.used_ports[before];
        let is_free =
            |port: &u8| !used[usize::from(*port)] && wanted.is_none_or(|wanted| wanted == *port);
        let Some(port) = there.iter().copied().find(is_free) else {
            let after = self.resolved.devices[before].name.to_owned();
            let ports = 1 + there.len() as u8;
            return Err(DescriptionError::NoPort { device: name.to_owned(), after, ports });
        };
        used[usize::from(port)] = true;

        Ok(CableEnd::Port { device: before, port: usize::from(port) })
    }

    /// Adds the cable of a ring from the first free port of the last device to the second
    /// interface.
    fn close_ring(&mut self) {
        let Some(used) = self.used_ports.last().filter(|_| self.description.segment.ring) else {
            return;
        };
        let device = self.used_ports.len() - 1;
        let there = self.further_ports(device);
        if let Some(port) = there.into_iter().map(usize::from).find(|port| !used[*port]) {
            let delay_ns = self.description.segment.cable_ns;
            self.resolved.cables.push(CableSpec {
                ends: [CableEnd::Port { device, port }, CableEnd::Nic(1)],
                delay_ns,
            });
        }
    }

    fn device(
        &self,
        table: &'d DeviceTable,
        kind: &'d TypeTable,
        number: usize,
        name: &'d str,
    ) -> Result<ResolvedDevice<'d>, DescriptionError> {
        let esi = self.description.esi_devices.get(&table.kind);
        let (vendor, product, revision) = match esi {
            Some(esi) => (esi.vendor, esi.product, esi.revision),
            None => (
                kind.vendor.unwrap_or(FICTITIOUS_VENDOR),
                kind.product.unwrap_or(FIRST_PRODUCT + kind.kind_of(&table.kind)? as u32),
                kind.revision.unwrap_or(1),
            ),
        };

        if esi.is_some() || kind.kind_of(&table.kind)? == DeviceKind::Drive {
            kind.drive.unwrap_or_default().check(&table.kind)?;
        }

        let mut setup = setup_of(name, kind, table, esi)?;
        // The numbers of further devices of a table follow those of the first one.
        let own = |what, first: u32, most: u32| following(table, what, (first, most), number);
        let own_u16 = |what, first: u16| own(what, first.into(), u16::MAX.into());
        setup.device_id = own_u16("device_id", table.device_id)? as u16;
        let assigned = match esi {
            Some(esi) => {
                let chosen = assignment::chosen(&table.kind, kind, esi)?.assignment;
                Some(assignment::apply(&table.kind, esi, chosen, &setup.startup)?)
            }
            None => None,
        };
        let data = |direction: PdoDirection| match &assigned {
            Some(assigned) => Ok(ProcessData::from_assigned(&assigned.0[direction as usize])),
            None => ProcessData::from_type(&table.kind, kind, direction),
        };

        Ok(ResolvedDevice {
            name,
            table,
            kind,
            esi,
            ports: esi.map_or(kind.ports.unwrap_or(2), |esi| esi.ports),
            vendor,
            product,
            revision,
            serial: table.serial.map(|first| own("serial", first, u32::MAX)).transpose()?,
            alias: own_u16("alias", table.alias)? as u16,
            outputs: data(PdoDirection::Outputs)?,
            inputs: data(PdoDirection::Inputs)?,
            channel_bytes: assigned.as_ref().map_or_else(Default::default, |assigned| {
                assigned.0.each_ref().map(|channels| ProcessData::bytes_of(channels))
            }),
            setup,
        })
    }
}

/// Returns the number of device `number` of a table whose first one has `first`; 0 for none.
///
/// # Errors
/// [`DescriptionError::Range`] beyond `most`: going on at 0 would be a device without the number.
fn following(
    table: &DeviceTable,
    what: &'static str,
    (first, most): (u32, u32),
    number: usize,
) -> Result<u32, DescriptionError> {
    let own = if first == 0 { Some(0) } else { first.checked_add(number as u32) };
    match own.filter(|own| *own <= most) {
        Some(own) => Ok(own),
        None => out_of_range(&table.kind, what, first, "small enough for all names of its table"),
    }
}

/// Checks the numbers of a type, other than those of its model.
fn check(name: &str, kind: &TypeTable) -> Result<(), DescriptionError> {
    if name.len() > LONGEST_NAME {
        return out_of_range(name, "its name", name, "at most 64 bytes long");
    }
    if let Some(ports) = kind.ports.filter(|ports| !(1..=4).contains(ports)) {
        return out_of_range(name, "ports", ports, "1 to 4");
    }

    match kind.mailbox {
        None | Some(0 | 32..=1024) => Ok(()),
        Some(bytes) => out_of_range(name, "mailbox", bytes, "0 or 32 to 1024"),
    }
}
