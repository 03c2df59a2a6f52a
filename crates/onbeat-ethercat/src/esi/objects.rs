//! The object dictionary of an ESI file: data types, objects, and their default values.

use std::collections::{BTreeMap, BTreeSet};

use super::EsiError;
use super::element::{Element, number};
use super::modules::SlotShift;
use super::types::{LONGEST_VALUE, kind};
use crate::coe::{DataType, access};

/// Most values of all objects of a device.
const MOST_VALUES: usize = 100_000;
/// Longest chain of base types.
const DEEPEST: usize = 8;

/// An entry of an object in an ESI file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsiValue {
    pub name: String,
    pub kind: DataType,
    /// Access rights, see [`access`](crate::coe::access).
    pub access: u16,
    /// First bit in a transfer of the whole object, if the file has it.
    pub bit: Option<u32>,
    /// Default value, little endian; empty for zeros.
    pub value: Vec<u8>,
}

/// An object of an ESI file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EsiObject {
    pub name: String,
    /// Entries by subindex.
    pub values: BTreeMap<u8, EsiValue>,
}

/// Data types by name.
type Named<'d> = BTreeMap<&'d str, Element<'d>>;

/// The data types of a dictionary, and those of all dictionaries of the device.
struct Types<'t, 'd> {
    own: Named<'d>,
    all: &'t Named<'d>,
}

/// Reads the objects of a device or module, by index; empty without a dictionary. An object that
/// cannot be read is left out, with a note.
pub(super) fn objects(
    device: Element<'_>,
    shift: SlotShift,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<u16, EsiObject>, EsiError> {
    for file in device.all("Profile").flat_map(|profile| profile.all("DictionaryFile")) {
        notes.push(format!(
            "line {}: the objects in \"{}\" (DictionaryFile) are not read; there are those of PDOs and start-up values",
            file.line(),
            file.text()
        ));
    }

    let dictionaries: Vec<Element<'_>> =
        device.all("Profile").filter_map(|profile| profile.first("Dictionary")).collect();
    let all: Named<'_> = dictionaries.iter().flat_map(|one| types_in(*one)).collect();
    let mut objects = BTreeMap::new();
    let mut count = 0;
    for dictionary in &dictionaries {
        let types = Types { own: types_in(*dictionary).collect(), all: &all };
        let listed = dictionary.first("Objects").into_iter();
        for element in listed.flat_map(|listed| listed.all("Object")) {
            let read = || Ok((shift.object(element.needs("Index")?)?, types.object(element)?));
            let (index, object): (u16, EsiObject) = match read() {
                Ok(read) => read,
                Err(why) => {
                    let why: EsiError = why;
                    notes.push(format!("{why}; the object is left out"));
                    continue;
                }
            };
            count += object.values.len();
            if count > MOST_VALUES {
                return Err(element.not_simulated(format!(
                    "is one too many: at most {MOST_VALUES} values per device are supported"
                )));
            }

            if !object.values.is_empty() {
                objects.insert(index, object);
            }
        }
    }

    Ok(objects)
}

/// Returns the data types that a dictionary lists, with their names.
fn types_in(dictionary: Element<'_>) -> impl Iterator<Item = (&str, Element<'_>)> {
    let listed = dictionary.first("DataTypes").into_iter().flat_map(|types| types.all("DataType"));
    listed.filter_map(|one| Some((one.first("Name")?.text(), one)))
}

impl<'d> Types<'_, 'd> {
    /// Returns the type with this name: of the dictionary, or else of another one of the device.
    fn get(&self, word: &str) -> Option<Element<'d>> {
        self.own.get(word).or_else(|| self.all.get(word)).copied()
    }

    fn object(&self, element: Element<'d>) -> Result<EsiObject, EsiError> {
        let name = element.localized("Name").to_owned();
        let word = element.needs("Type")?.text();
        let bits = length(element)?;
        let rights = rights(element)?;
        let info = element.first("Info");
        let mut values = BTreeMap::new();
        if let Some(record) = self.record(word) {
            for item in record.all("SubItem") {
                self.item(item, rights.unwrap_or(access::READ), &mut values)?;
            }
            // Names repeat, such as "Reserved".
            let mut given = BTreeSet::new();
            for (position, item) in
                info.into_iter().flat_map(|info| info.all("SubItem")).enumerate()
            {
                let name = item.localized("Name");
                let mut left = values.iter().filter(|(number, _)| !given.contains(*number));
                let by_name = left.find(|(_, value)| value.name == name).map(|(&number, _)| number);
                let number = by_name.or_else(|| values.keys().nth(position).copied());
                given.extend(number);
                if let (Some(value), Some(info)) =
                    (number.and_then(|number| values.get_mut(&number)), item.first("Info"))
                {
                    value.value = default(info, value.kind)?;
                }
            }
        } else if let Some(kind) = self.resolve(word, bits) {
            let value = info.map_or(Ok(Vec::new()), |info| default(info, kind))?;
            let access = rights.unwrap_or(access::READ);
            values.insert(0, EsiValue { name: name.clone(), kind, access, bit: None, value });
        }

        Ok(EsiObject { name, values })
    }

    /// Returns the record type with this name.
    fn record(&self, word: &str) -> Option<Element<'d>> {
        self.get(word).filter(|found| found.first("SubItem").is_some())
    }

    /// Adds the values of one item of a record: a single value, or all elements of an array.
    fn item(
        &self,
        item: Element<'d>,
        default_access: u16,
        values: &mut BTreeMap<u8, EsiValue>,
    ) -> Result<(), EsiError> {
        let word = item.needs("Type")?.text();
        let name = item.localized("Name");
        let access = rights(item)?.unwrap_or(default_access);
        let bit = item.first("BitOffs").and_then(|bit| bit.number(8 * LONGEST_VALUE).ok());
        if let Some(first) = item.first("SubIdx") {
            let subindex = first.number(0xff)? as u8;
            if let Some(kind) = self.resolve(word, length(item)?) {
                values.insert(
                    subindex,
                    EsiValue { name: name.to_owned(), kind, access, bit, value: Vec::new() },
                );
            }
            return Ok(());
        }

        let array = self.get(word).and_then(|array| Some((array, array.first("ArrayInfo")?)));
        let Some((array, info)) = array else { return Ok(()) };
        let base = array.needs("BaseType")?.text();
        let first = info.needs("LBound")?.number(0xff)?;
        let elements = info.needs("Elements")?;
        let count = elements.number(0xff)?;
        let bits = length(array)?.checked_div(count).unwrap_or(0);

        for number in first..(first + count).min(0x100) {
            if let Some(kind) = self.resolve(base, bits) {
                let name = format!("SubIndex {number:03}");
                let bit = bit.map(|bit| bit + (number - first) * u32::from(kind.bits()));
                let value = Vec::new();
                values.insert(number as u8, EsiValue { name, kind, access, bit, value });
            }
        }

        Ok(())
    }

    /// Resolves a type to a basic data type; `None` for types without values.
    fn resolve(&self, word: &'d str, bits: u32) -> Option<DataType> {
        let mut word = word;
        let mut bits = bits;
        for _ in 0..DEEPEST {
            let Some(found) = self.get(word).filter(|found| found.first("ArrayInfo").is_none())
            else {
                break;
            };
            bits = if bits == 0 { length(found).unwrap_or(0) } else { bits };
            match found.first("BaseType") {
                Some(base) if base.text() != word => word = base.text(),
                _ => break,
            }
        }

        let is_array = self.get(word).is_some_and(|found| found.first("ArrayInfo").is_some());
        let bits = if bits == 0 {
            self.get(word).and_then(|found| length(found).ok()).unwrap_or(0)
        } else {
            bits
        };
        kind(if is_array { "ARRAY" } else { word }, bits).filter(|kind| kind.bits() > 0)
    }
}

/// Returns the bit size of the element; 0 if it has none.
fn length(element: Element<'_>) -> Result<u32, EsiError> {
    element.number_at("BitSize", u32::MAX)
}

/// Returns the access rights of the element; `None` without flags.
fn rights(element: Element<'_>) -> Result<Option<u16>, EsiError> {
    let Some(flags) = element.first("Flags") else { return Ok(None) };
    let mapping = flags.first("PdoMapping").map_or("", Element::text).to_ascii_uppercase();
    let output = if mapping.contains('R') { access::OUTPUT } else { 0 };
    let input = if mapping.contains('T') { access::INPUT } else { 0 };
    let Some(access) = flags.first("Access") else {
        return Ok(Some(access::READ | output | input));
    };
    let states = |restrictions: Option<&str>, all: u16| match restrictions
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("preop") => all & 0x0009,
        Some("preop_safeop") => all & 0x001b,
        Some("preop_op") => all & 0x002d,
        Some("safeop") => all & 0x0012,
        Some("safeop_op") => all & 0x0036,
        Some("op") => all & 0x0024,
        _ => all,
    };

    let read = states(access.attribute("ReadRestrictions"), access::READ);
    let write = states(access.attribute("WriteRestrictions"), access::WRITE);
    let granted = match access.text().to_ascii_lowercase().as_str() {
        "ro" => read,
        "rw" => read | write,
        "wo" => write,
        _ => {
            return Err(EsiError::Value {
                line: access.line(),
                element: "Access".to_owned(),
                text: access.text().to_owned(),
                wanted: "ro, rw or wo".to_owned(),
            });
        }
    };

    Ok(Some(granted | output | input))
}

/// Returns a number as a value of a type, little endian.
fn default_number(text: &str, kind: DataType) -> Option<Vec<u8>> {
    /// LREAL.
    const F64: u16 = 0x11;
    let whole = || number(text).map(|value| value.to_le_bytes().to_vec());
    let real = |bytes: Option<Vec<u8>>| bytes.or_else(whole);
    match kind {
        DataType::Bool if text.eq_ignore_ascii_case("true") => Some(vec![1]),
        DataType::Bool if text.eq_ignore_ascii_case("false") => Some(vec![0]),
        DataType::F32 => real(text.parse().ok().map(|value: f32| value.to_le_bytes().to_vec())),
        DataType::Other { number: F64, .. } => {
            real(text.parse().ok().map(|value: f64| value.to_le_bytes().to_vec()))
        }
        _ => whole(),
    }
}

/// Returns the default value, little endian.
fn default(info: Element<'_>, kind: DataType) -> Result<Vec<u8>, EsiError> {
    let mut bytes = if let Some(data) = info.first("DefaultData") {
        data.bytes()?
    } else if let Some(text) = info.first("DefaultString") {
        text.text().as_bytes().to_vec()
    } else if let Some(value) = info.first("DefaultValue") {
        default_number(value.text(), kind).ok_or_else(|| EsiError::Value {
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
