//! The object dictionary of an ESI file: data types, objects, and their default values.

use std::collections::BTreeMap;

use super::EsiError;
use super::element::{Element, number};
use super::types::{LONGEST_VALUE, kind};
use crate::coe::{DataType, access};

/// Values of all objects of a device at most.
const MOST_VALUES: usize = 20_000;
/// How far a type may lead on to another.
const DEEPEST: usize = 8;

/// A value of an object, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePlan {
    /// Its name.
    pub name: String,
    /// Its data type.
    pub kind: DataType,
    /// Who may do what, see [`access`](crate::coe::access).
    pub access: u16,
    /// Its default value, little endian; empty for zeros.
    pub value: Vec<u8>,
}

/// An object with its values by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPlan {
    /// Its name.
    pub name: String,
    /// By the numbers of the entries.
    pub values: BTreeMap<u8, ValuePlan>,
}

/// The data types of a file by their names.
struct Types<'d>(BTreeMap<&'d str, Element<'d>>);

/// Objects by their index. A device without a dictionary has none.
pub(super) fn objects(device: Element<'_>) -> Result<BTreeMap<u16, ObjectPlan>, EsiError> {
    let mut objects = BTreeMap::new();
    let Some(dictionary) = device.all("Profile").find_map(|profile| profile.first("Dictionary")) else {
        return Ok(objects);
    };
    let listed = dictionary.first("DataTypes").into_iter().flat_map(|types| types.all("DataType"));
    let types = Types(listed.filter_map(|one| Some((one.first("Name")?.text(), one))).collect());
    let mut count = 0;
    for element in dictionary.first("Objects").into_iter().flat_map(|objects| objects.all("Object")) {
        let index = element.needs("Index")?.number(0xffff)? as u16;
        let object = types.object(element)?;
        count += object.values.len();
        if count > MOST_VALUES {
            return Err(element.not_simulated(format!("is one too many: a device has {MOST_VALUES} values at most")));
        }

        if !object.values.is_empty() {
            objects.insert(index, object);
        }
    }

    Ok(objects)
}

impl<'d> Types<'d> {
    fn object(&self, element: Element<'d>) -> Result<ObjectPlan, EsiError> {
        let name = element.told("Name").to_owned();
        let word = element.needs("Type")?.text();
        let bits = length(element)?;
        let rights = rights(element)?;
        let info = element.first("Info");
        let mut values = BTreeMap::new();
        if let Some(record) = self.record(word) {
            for item in record.all("SubItem") {
                self.item(item, rights.unwrap_or(access::READ), &mut values)?;
            }
            for (place, told) in info.into_iter().flat_map(|info| info.all("SubItem")).enumerate() {
                let name = told.told("Name");
                let by_name = values.iter().find(|(_, value)| value.name == name).map(|(&number, _)| number);
                let number = by_name.or_else(|| values.keys().nth(place).copied());
                if let (Some(value), Some(info)) =
                    (number.and_then(|number| values.get_mut(&number)), told.first("Info"))
                {
                    value.value = default(info, value.kind)?;
                }
            }
        } else if let Some(kind) = self.resolved(word, bits) {
            let value = info.map_or(Ok(Vec::new()), |info| default(info, kind))?;
            let access = rights.unwrap_or(access::READ);
            values.insert(0, ValuePlan { name: name.clone(), kind, access, value });
        }

        Ok(ObjectPlan { name, values })
    }

    /// The data type with the items of an object, if it has several.
    fn record(&self, word: &str) -> Option<Element<'d>> {
        self.0.get(word).copied().filter(|found| found.first("SubItem").is_some())
    }

    /// Adds what one item of a record stands for: a value, or all of an array.
    fn item(&self, item: Element<'d>, usual: u16, values: &mut BTreeMap<u8, ValuePlan>) -> Result<(), EsiError> {
        let word = item.needs("Type")?.text();
        let name = item.told("Name");
        let access = rights(item)?.unwrap_or(usual);
        if let Some(first) = item.first("SubIdx") {
            let sub = first.number(0xff)? as u8;
            if let Some(kind) = self.resolved(word, length(item)?) {
                values.insert(sub, ValuePlan { name: name.to_owned(), kind, access, value: Vec::new() });
            }
            return Ok(());
        }

        let array = self.0.get(word).and_then(|array| Some((*array, array.first("ArrayInfo")?)));
        let Some((array, info)) = array else { return Ok(()) };
        let base = array.needs("BaseType")?.text();
        let first = info.needs("LBound")?.number(0xff)?;
        let elements = info.needs("Elements")?;
        let count = elements.number(0xff)?;
        let bits = length(array)?.checked_div(count).unwrap_or(0);

        for number in first..(first + count).min(0x100) {
            if let Some(kind) = self.resolved(base, bits) {
                let name = format!("SubIndex {number:03}");
                values.insert(number as u8, ValuePlan { name, kind, access, value: Vec::new() });
            }
        }

        Ok(())
    }

    /// What a type is in the end; `None` for what no value can be of.
    fn resolved(&self, word: &'d str, bits: u32) -> Option<DataType> {
        let (mut word, mut bits) = (word, bits);
        for _ in 0..DEEPEST {
            let Some(found) = self.0.get(word).filter(|found| found.first("ArrayInfo").is_none()) else { break };
            bits = if bits == 0 { length(*found).unwrap_or(0) } else { bits };
            match found.first("BaseType") {
                Some(base) if base.text() != word => word = base.text(),
                _ => break,
            }
        }

        let is_array = self.0.get(word).is_some_and(|found| found.first("ArrayInfo").is_some());
        let bits = if bits == 0 { self.0.get(word).and_then(|found| length(*found).ok()).unwrap_or(0) } else { bits };
        kind(if is_array { "ARRAY" } else { word }, bits).filter(|kind| kind.bits() > 0)
    }
}

/// Bits as the element tells them; 0 where it does not.
fn length(element: Element<'_>) -> Result<u32, EsiError> {
    element.first("BitSize").map_or(Ok(0), |bits| bits.number(u32::MAX))
}

/// Who may do what, where the element says so.
fn rights(element: Element<'_>) -> Result<Option<u16>, EsiError> {
    let Some(flags) = element.first("Flags") else { return Ok(None) };
    let mapping = flags.first("PdoMapping").map_or("", Element::text).to_ascii_uppercase();
    let output = if mapping.contains('R') { access::OUTPUT } else { 0 };
    let input = if mapping.contains('T') { access::INPUT } else { 0 };
    let Some(told) = flags.first("Access") else { return Ok(Some(access::READ | output | input)) };
    let states = |restrictions: Option<&str>, all: u16| match restrictions.map(str::to_ascii_lowercase).as_deref() {
        Some("preop") => all & 0x0009,
        Some("preop_safeop") => all & 0x001b,
        Some("preop_op") => all & 0x002d,
        Some("safeop") => all & 0x0012,
        Some("safeop_op") => all & 0x0036,
        Some("op") => all & 0x0024,
        _ => all,
    };

    let read = states(told.attribute("ReadRestrictions"), access::READ);
    let write = states(told.attribute("WriteRestrictions"), access::WRITE);
    let may = match told.text() {
        "ro" => read,
        "rw" => read | write,
        "wo" => write,
        other => {
            return Err(EsiError::Value {
                line: told.line(),
                element: "Access".to_owned(),
                text: other.to_owned(),
                wanted: "ro, rw or wo".to_owned(),
            });
        }
    };

    Ok(Some(may | output | input))
}

/// The value after power-on, in the bytes of the device.
fn default(info: Element<'_>, kind: DataType) -> Result<Vec<u8>, EsiError> {
    let mut bytes = if let Some(data) = info.first("DefaultData") {
        data.bytes()?
    } else if let Some(text) = info.first("DefaultString") {
        text.text().as_bytes().to_vec()
    } else if let Some(value) = info.first("DefaultValue") {
        let told = number(value.text()).map(|value| value.to_le_bytes().to_vec());
        told.ok_or_else(|| EsiError::Value {
            line: value.line(),
            element: "DefaultValue".to_owned(),
            text: value.text().to_owned(),
            wanted: "a number, as 16 or #x10".to_owned(),
        })?
    } else {
        Vec::new()
    };

    bytes.truncate(kind.bytes().min(LONGEST_VALUE as usize));
    Ok(bytes)
}
