//! Devices of ESI files: the EtherCAT SubDevice Information of a vendor, in XML (ETG.2000).
//!
//! Read: identity, SyncManagers, FMMUs, PDOs with their default assignment, mailbox with CoE,
//! distributed clock, EEPROM, and the object dictionary. The function of a device is not in the
//! file; see [`EsiDevice::behaviour`].
//!
//! Absent on purpose: modules and slots, which a configuration tool combines; start-up commands,
//! which belong to the MainDevice; and mailbox protocols other than CoE.
//!
//! ```
//! use onbeat_ethercat::esi::{EsiError, devices};
//!
//! assert_eq!(devices(b"<Robot/>", &[]), Err(EsiError::Other("Robot".to_owned())));
//! ```

mod behaviour;
mod device;
mod eeprom;
mod element;
mod objects;
mod types;

use element::Element;

pub use behaviour::{Behaviour, values};
pub use device::{EsiDevice, Pdo, PdoEntry};
pub use eeprom::{DEFAULT_CONFIGURATION, DcMode, EEPROM_BYTES, SyncManagerEntry};
pub use objects::{EsiObject, EsiValue};

/// Most elements and attributes of a file.
const MOST_NODES: u32 = 4_000_000;

/// Why an ESI file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EsiError {
    /// Neither UTF-8 nor ISO 8859-1.
    #[error("it is not text in UTF-8 or ISO 8859-1; save it in one of these encodings")]
    Text,
    /// Not XML.
    #[error("it is not valid XML: {0}")]
    Xml(String),
    /// XML, but not an ESI file.
    #[error(
        "the root element is <{0}> instead of <EtherCATInfo>; use the vendor's ESI file of the device"
    )]
    Other(String),
    /// A missing element or attribute.
    #[error(
        "line {line}: <{element}> lacks {wanted}; add it, or ask the vendor for a file that has it"
    )]
    Missing {
        /// Line of the file.
        line: u32,
        /// Name of the element.
        element: String,
        /// The missing element or attribute.
        wanted: String,
    },
    /// An invalid value.
    #[error("line {line}: <{element}> is \"{text}\", expected {wanted}")]
    Value {
        /// Line of the file.
        line: u32,
        /// Name of the element, with the attribute if any.
        element: String,
        /// Text in the file.
        text: String,
        /// Expected value.
        wanted: String,
    },
    /// Something that is not supported.
    #[error("line {line}: <{element}> {what}")]
    NotSimulated {
        /// Line of the file.
        line: u32,
        /// Name of the element.
        element: String,
        /// What is not supported, and what to do.
        what: String,
    },
    /// No device.
    #[error("it has no <Device> below <Descriptions>; modules are not supported")]
    NoDevice,
    /// The requested device is not in the file.
    #[error("it has no device {wanted}; it has {there}")]
    Unknown {
        /// The requested device.
        wanted: String,
        /// Devices in the file.
        there: String,
    },
    /// Several devices match.
    #[error(
        "{wanted} matches several devices; add device, product or revision to select one: {there}"
    )]
    Several {
        /// The requested device.
        wanted: String,
        /// Matching devices.
        there: String,
    },
}

/// Selects a device of a file. `None` matches any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSelector {
    /// Type or name.
    pub device: Option<String>,
    /// Product code.
    pub product: Option<u32>,
    /// Revision.
    pub revision: Option<u32>,
}

impl DeviceSelector {
    fn describe(&self) -> String {
        let name = self.device.as_ref().map(|device| format!("\"{device}\""));
        let product = self.product.map(|product| format!("product {product:#x}"));
        let revision = self.revision.map(|revision| format!("revision {revision:#x}"));
        let words: Vec<String> = [name, product, revision].into_iter().flatten().collect();
        if words.is_empty() { "the file".to_owned() } else { words.join(", ") }
    }

    fn matches(&self, head: &DeviceHeader<'_>) -> bool {
        let names = || head.element.all("Name").map(Element::text).chain([head.kind]);
        self.device.as_ref().is_none_or(|device| names().any(|name| name == device))
            && self.product.is_none_or(|product| product == head.product)
            && self.revision.is_none_or(|revision| revision == head.revision)
    }
}

/// Identification of a device in a file.
struct DeviceHeader<'d> {
    element: Element<'d>,
    kind: &'d str,
    product: u32,
    revision: u32,
}

impl<'d> DeviceHeader<'d> {
    fn read(element: Element<'d>) -> Result<Self, EsiError> {
        let kind = element.needs("Type")?;
        let number = |name: &str| kind.numbered(name, u32::MAX);
        let product = number("ProductCode")?
            .ok_or_else(|| kind.lacks("the attribute ProductCode".to_owned()))?;
        Ok(Self {
            element,
            kind: kind.text(),
            product,
            revision: number("RevisionNo")?.unwrap_or(0),
        })
    }

    fn describe(&self) -> String {
        format!("\"{}\" (product {:#x}, revision {:#x})", self.kind, self.product, self.revision)
    }
}

/// Reads devices of an ESI file: one for each selector, or, without selectors, every device in its
/// newest revision.
///
/// Of several revisions of one device, the newest is used unless a selector has the revision.
///
/// # Errors
/// [`EsiError`] with what is wrong or missing in the file.
pub fn devices(bytes: &[u8], selectors: &[DeviceSelector]) -> Result<Vec<EsiDevice>, EsiError> {
    let text = decoded(bytes)?;
    let options = roxmltree::ParsingOptions {
        allow_dtd: false,
        nodes_limit: MOST_NODES,
        ..Default::default()
    };
    let document = roxmltree::Document::parse_with_options(&text, options)
        .map_err(|error| EsiError::Xml(error.to_string()))?;
    let root = Element::new(document.root_element());
    if root.name() != "EtherCATInfo" {
        return Err(EsiError::Other(root.name().to_owned()));
    }

    let vendor = root.needs("Vendor")?.needs("Id")?.number(u32::MAX)?;
    let listed = root.at(&["Descriptions", "Devices"]).ok_or(EsiError::NoDevice)?;
    let heads = listed.all("Device").map(DeviceHeader::read).collect::<Result<Vec<_>, _>>()?;
    if heads.is_empty() {
        return Err(EsiError::NoDevice);
    }

    let mut selected: Vec<&DeviceHeader<'_>> = Vec::new();
    if selectors.is_empty() {
        let is_newest = |head: &&DeviceHeader<'_>| {
            let same = |other: &&DeviceHeader<'_>| {
                (other.product, other.kind) == (head.product, head.kind)
            };
            heads.iter().filter(same).all(|other| other.revision <= head.revision)
        };
        selected.extend(heads.iter().filter(is_newest));
    }

    for selector in selectors {
        selected.push(select(&heads, selector)?);
    }

    selected.into_iter().map(|head| EsiDevice::read(head.element, vendor)).collect()
}

fn select<'h, 'd>(
    heads: &'h [DeviceHeader<'d>],
    selector: &DeviceSelector,
) -> Result<&'h DeviceHeader<'d>, EsiError> {
    let describe = |heads: &[&DeviceHeader<'_>]| {
        let mut words: Vec<String> = heads.iter().take(8).map(|head| head.describe()).collect();
        if heads.len() > 8 {
            words.push(format!("and {} more", heads.len() - 8));
        }
        words.join(", ")
    };

    let matching: Vec<&DeviceHeader<'_>> =
        heads.iter().filter(|head| selector.matches(head)).collect();
    let Some(newest) = matching.iter().max_by_key(|head| head.revision) else {
        let all: Vec<&DeviceHeader<'_>> = heads.iter().collect();
        return Err(EsiError::Unknown { wanted: selector.describe(), there: describe(&all) });
    };
    let same =
        |head: &&DeviceHeader<'_>| (head.product, head.kind) == (newest.product, newest.kind);
    let twice = matching.iter().filter(|head| head.revision == newest.revision).count() > 1;

    if matching.iter().all(same) && !twice {
        return Ok(newest);
    }

    Err(EsiError::Several { wanted: selector.describe(), there: describe(&matching) })
}

/// Decodes the text of a file: UTF-8, or ISO 8859-1 as written by older tools.
fn decoded(bytes: &[u8]) -> Result<String, EsiError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        // Text with zero bytes has two bytes per character.
        Err(_) if bytes.contains(&0) => Err(EsiError::Text),
        Err(_) => Ok(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}
