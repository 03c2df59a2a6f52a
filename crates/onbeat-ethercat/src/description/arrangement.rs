//! The devices of a description, checked, with their cables and their process data.
//!
//! Both who simulates a segment and who expects one on a cable begin here, so that they cannot disagree on names, places and mapping.

use std::collections::BTreeMap;

use super::process_data::{ProcessData, Way};
use super::tables::FICTITIOUS_VENDOR;
use super::{Description, DescriptionError, DeviceTable, TypeTable};
use crate::esi::Information;

/// Longest name of a device, in bytes.
const LONGEST_NAME: usize = 64;
/// Product codes of devices without one: this, and the number of their kind.
const FIRST_PRODUCT: u32 = 0x1000;

/// Where a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A network interface of the MainDevice.
    Nic(usize),
    /// A port of a device.
    Port {
        /// Place of the device in the file.
        device: usize,
        /// The port, 0 to 3.
        port: usize,
    },
}

/// A cable between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The end nearer to the MainDevice first.
    pub ends: [End; 2],
    /// Travel time of a frame, in ns.
    pub delay_ns: u64,
}

/// One device of a description.
#[derive(Clone, Debug)]
pub struct Placed<'d> {
    /// Its name.
    pub name: &'d str,
    /// Its table in the file.
    pub table: &'d DeviceTable,
    /// Its type.
    pub kind: &'d TypeTable,
    /// What the vendor's file says of its type, where there is one.
    pub information: Option<&'d Information>,
    /// How many ports it has, 1 to 4.
    pub ports: u8,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    /// Revision.
    pub revision: u32,
    /// Serial number, where the file says one; 0 for none.
    pub serial: Option<u32>,
    /// Second station address, 0 for none.
    pub alias: u16,
    /// Its outputs, as they are mapped without a MainDevice's doing.
    pub outputs: ProcessData,
    /// Its inputs.
    pub inputs: ProcessData,
}

/// All devices and cables.
#[derive(Clone, Debug)]
pub struct Arrangement<'d> {
    /// In the order of the file.
    pub devices: Vec<Placed<'d>>,
    /// The cable to each device, in the order of the file; of a ring, the one back at the end.
    pub cables: Vec<Cable>,
}

impl<'d> Arrangement<'d> {
    /// Checks a description and lays its cables.
    ///
    /// # Errors
    /// [`DescriptionError`] says what in it makes no segment.
    pub fn of(description: &'d Description) -> Result<Self, DescriptionError> {
        let mut builder = Builder {
            description,
            made: Self { devices: Vec::new(), cables: Vec::new() },
            taken: Vec::new(),
            places: BTreeMap::new(),
        };

        for table in &description.devices {
            let kind = description.types.get(&table.kind).ok_or_else(|| DescriptionError::UnknownType {
                device: table.all_names().next().unwrap_or_default().to_owned(),
                wanted: table.kind.clone(),
            })?;

            if table.all_names().next().is_none() {
                return Err(DescriptionError::NoName(table.kind.clone()));
            }

            check(&table.kind, kind)?;
            for (number, name) in table.all_names().enumerate() {
                builder.connect(table, number, name)?;
                let device = builder.device(table, kind, number, name)?;
                builder.made.devices.push(device);
            }
        }

        builder.close_ring();
        Ok(builder.made)
    }

    /// Places of the devices in the order in which a frame reaches them: a device, then what hangs on its ports 3, 1 and 2. In a ring
    /// the frame leaves by the second interface; what it would reach behind that is not among them.
    #[must_use]
    pub fn order_on_cable(&self) -> Vec<usize> {
        let mut far_ends = vec![[None; 4]; self.devices.len()];
        for cable in &self.cables {
            if let [End::Port { device, port }, far] = cable.ends {
                far_ends[device][port] = Some(far);
            }
        }

        let mut order = Vec::with_capacity(self.devices.len());
        let mut waiting = vec![End::Port { device: 0, port: 0 }];
        while let Some(End::Port { device, .. }) = waiting.pop() {
            order.push(device);
            // Taken from the end: what is reached first is put there last.
            waiting.extend([2, 1, 3].into_iter().filter_map(|port: usize| far_ends[device][port]));
        }

        order
    }
}

struct Builder<'d> {
    description: &'d Description,
    made: Arrangement<'d>,
    /// For each device, which ports have a cable.
    taken: Vec<[bool; 4]>,
    places: BTreeMap<&'d str, usize>,
}

impl<'d> Builder<'d> {
    fn ports(&self, device: usize) -> u8 {
        self.made.devices.get(device).map_or(0, |device| device.ports)
    }

    /// Lays the cable to a new device.
    fn connect(&mut self, table: &'d DeviceTable, number: usize, name: &'d str) -> Result<(), DescriptionError> {
        let device = self.made.devices.len();
        if name.is_empty() || name.len() > LONGEST_NAME {
            let value = format!("\"{name}\"");
            let range = "1 to 64 bytes long";
            return Err(DescriptionError::Range { kind: table.kind.clone(), what: "name", value, range });
        }

        if self.places.insert(name, device).is_some() {
            return Err(DescriptionError::DuplicateName(name.to_owned()));
        }

        let before =
            match table.after.as_ref().filter(|_| number == 0) {
                Some(after) => {
                    Some(*self.places.get(after.as_str()).filter(|place| **place < device).ok_or_else(|| {
                        DescriptionError::UnknownParent { device: name.to_owned(), after: after.clone() }
                    })?)
                }
                None => device.checked_sub(1),
            };

        let from = match before {
            None => End::Nic(0),
            Some(before) => self.free_port(before, table.port.filter(|_| number == 0), name)?,
        };

        self.taken.push([true, false, false, false]);
        let delay_ns = table.cable_ns.unwrap_or(self.description.segment.cable_ns);
        self.made.cables.push(Cable { ends: [from, End::Port { device, port: 0 }], delay_ns });
        Ok(())
    }

    /// Takes the wanted port of a device, or its first that is free.
    fn free_port(&mut self, before: usize, wanted: Option<u8>, name: &str) -> Result<End, DescriptionError> {
        let ports = self.ports(before);
        let taken = &mut self.taken[before];
        let is_free = |port: &u8| !taken[usize::from(*port)] && wanted.is_none_or(|wanted| wanted == *port);
        let Some(port) = (1..ports).find(is_free) else {
            let after = self.made.devices[before].name.to_owned();
            return Err(DescriptionError::NoPort { device: name.to_owned(), after, ports });
        };
        taken[usize::from(port)] = true;

        Ok(End::Port { device: before, port: usize::from(port) })
    }

    /// A ring leads on from the last device's first free port to the second interface.
    fn close_ring(&mut self) {
        let Some(taken) = self.taken.last().filter(|_| self.description.segment.ring) else { return };
        let device = self.taken.len() - 1;
        if let Some(port) = (1..self.ports(device)).map(usize::from).find(|port| !taken[*port]) {
            let delay_ns = self.description.segment.cable_ns;
            self.made.cables.push(Cable { ends: [End::Port { device, port }, End::Nic(1)], delay_ns });
        }
    }

    fn device(
        &self,
        table: &'d DeviceTable,
        kind: &'d TypeTable,
        number: usize,
        name: &'d str,
    ) -> Result<Placed<'d>, DescriptionError> {
        let information = self.description.information.get(&table.kind);
        let (vendor, product, revision) = match information {
            Some(information) => (information.vendor, information.product, information.revision),
            None => (
                kind.vendor.unwrap_or(FICTITIOUS_VENDOR),
                kind.product.unwrap_or(FIRST_PRODUCT + kind.word(&table.kind)? as u32),
                kind.revision.unwrap_or(1),
            ),
        };

        if information.is_some() || kind.word(&table.kind)? == super::KindWord::Drive {
            kind.drive.unwrap_or_default().check(&table.kind)?;
        }

        let data = |way| match information {
            Some(information) => Ok(ProcessData::of_esi(information, way)),
            None => ProcessData::of_type(&table.kind, kind, way),
        };

        Ok(Placed {
            name,
            table,
            kind,
            information,
            ports: information.map_or(kind.ports.unwrap_or(2), |information| information.ports.0),
            vendor,
            product,
            revision,
            serial: table.serial_of(number),
            // Aliases count on from the first device of a line.
            alias: if table.alias == 0 { 0 } else { table.alias.wrapping_add(number as u16) },
            outputs: data(Way::Outputs)?,
            inputs: data(Way::Inputs)?,
        })
    }
}

/// Checks the numbers of a type that are not its model's.
fn check(name: &str, kind: &TypeTable) -> Result<(), DescriptionError> {
    let refused =
        |what, value: String, range| Err(DescriptionError::Range { kind: name.to_owned(), what, value, range });
    if name.len() > LONGEST_NAME {
        return refused("its name", name.to_owned(), "at most 64 bytes long");
    }
    if let Some(ports) = kind.ports.filter(|ports| !(1..=4).contains(ports)) {
        return refused("ports", ports.to_string(), "1 to 4");
    }

    match kind.mailbox {
        None | Some(0 | 32..=1024) => Ok(()),
        Some(bytes) => refused("mailbox", bytes.to_string(), "0 or 32 to 1024"),
    }
}
