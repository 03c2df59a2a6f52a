//! Devices as an ESI file tells them: the EtherCAT SubDevice Information of a vendor, in XML (ETG.2000).
//!
//! What is taken: identity, SyncManagers, FMMUs, PDOs with what is assigned by default, mailbox with its CoE, distributed clock,
//! EEPROM, and the object dictionary. What a device does is not in such a file; see [`Information::behaviour`].
//!
//! Absent on purpose: modules and slots, which a configuration tool puts together, start-up commands, which are the MainDevice's, and
//! every mailbox protocol but CoE.

mod behaviour;
mod device;
mod eeprom;
mod element;
mod objects;
mod types;

use element::Element;

pub use behaviour::{Behaviour, values};
pub use device::{Information, Pdo, PdoEntry};
pub use eeprom::{Channel, ClockMode, EEPROM_BYTES, USUAL_CONFIGURATION};
pub use objects::{ObjectPlan, ValuePlan};

/// Elements and attributes of a file at most.
const MOST_NODES: u32 = 4_000_000;

/// Why an ESI file makes no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EsiError {
    /// Neither UTF-8 nor an older one-byte text.
    #[error("it is no text in UTF-8 or ISO 8859-1; save it as one of them")]
    Text,
    /// Not XML.
    #[error("it is no XML: {0}")]
    Xml(String),
    /// XML, and not of this kind.
    #[error("it begins with <{0}>, wanted is <EtherCATInfo>; take the vendor's ESI file of the device")]
    Other(String),
    /// An element or attribute that has to be there.
    #[error("line {line}: <{element}> lacks {wanted}; add it, or ask the vendor for a file that has it")]
    Missing {
        /// Line of the file.
        line: u32,
        /// Name of the element.
        element: String,
        /// What it lacks.
        wanted: String,
    },
    /// A text that is no such number or word.
    #[error("line {line}: <{element}> is \"{text}\", wanted is {wanted}")]
    Value {
        /// Line of the file.
        line: u32,
        /// Name of the element, and of its attribute.
        element: String,
        /// What stands there.
        text: String,
        /// What may stand there.
        wanted: String,
    },
    /// Something that the simulation does not have.
    #[error("line {line}: <{element}> {what}")]
    NotSimulated {
        /// Line of the file.
        line: u32,
        /// Name of the element.
        element: String,
        /// What is not simulated, and what to do.
        what: String,
    },
    /// No device at all.
    #[error("it has no <Device> below <Descriptions>; modules are no devices")]
    NoDevice,
    /// No such device.
    #[error("it has no device {wanted}; it has {there}")]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Those there are.
        there: String,
    },
    /// Several devices fit.
    #[error("{wanted} fits several devices; add device, product or revision to tell them apart: {there}")]
    Several {
        /// What was asked for.
        wanted: String,
        /// Those that fit.
        there: String,
    },
}

/// Which device of a file is meant. What is `None` fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Its type or its name.
    pub device: Option<String>,
    /// Its product code.
    pub product: Option<u32>,
    /// Its revision.
    pub revision: Option<u32>,
}

impl Choice {
    fn told(&self) -> String {
        let name = self.device.as_ref().map(|device| format!("\"{device}\""));
        let product = self.product.map(|product| format!("product {product:#x}"));
        let revision = self.revision.map(|revision| format!("revision {revision:#x}"));
        let words: Vec<String> = [name, product, revision].into_iter().flatten().collect();
        if words.is_empty() { "the file".to_owned() } else { words.join(", ") }
    }

    fn fits(&self, head: &Head<'_>) -> bool {
        let names = || head.element.all("Name").map(Element::text).chain([head.kind]);
        self.device.as_ref().is_none_or(|device| names().any(|name| name == device))
            && self.product.is_none_or(|product| product == head.product)
            && self.revision.is_none_or(|revision| revision == head.revision)
    }
}

/// What tells devices of a file apart.
struct Head<'d> {
    element: Element<'d>,
    kind: &'d str,
    product: u32,
    revision: u32,
}

impl<'d> Head<'d> {
    fn of(element: Element<'d>) -> Result<Self, EsiError> {
        let kind = element.needs("Type")?;
        let number = |name: &str| kind.numbered(name, u32::MAX);
        let product = number("ProductCode")?.ok_or_else(|| kind.lacks("the attribute ProductCode".to_owned()))?;
        Ok(Self { element, kind: kind.text(), product, revision: number("RevisionNo")?.unwrap_or(0) })
    }

    fn told(&self) -> String {
        format!("\"{}\" (product {:#x}, revision {:#x})", self.kind, self.product, self.revision)
    }
}

/// The devices of a file that are asked for: the one that each choice means, or the newest revision of every device.
///
/// Of several revisions of one device, the newest is taken unless a choice says which.
///
/// # Errors
/// [`EsiError`] says what in the file makes no device, or which device it does not have.
pub fn devices(bytes: &[u8], choices: &[Choice]) -> Result<Vec<Information>, EsiError> {
    let text = decoded(bytes)?;
    let options = roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..Default::default() };
    let document =
        roxmltree::Document::parse_with_options(&text, options).map_err(|error| EsiError::Xml(error.to_string()))?;
    let root = Element::of(document.root_element());
    if root.name() != "EtherCATInfo" {
        return Err(EsiError::Other(root.name().to_owned()));
    }

    let vendor = root.needs("Vendor")?.needs("Id")?.number(u32::MAX)?;
    let listed = root.at(&["Descriptions", "Devices"]).ok_or(EsiError::NoDevice)?;
    let heads = listed.all("Device").map(Head::of).collect::<Result<Vec<_>, _>>()?;
    if heads.is_empty() {
        return Err(EsiError::NoDevice);
    }

    let mut chosen: Vec<&Head<'_>> = Vec::new();
    if choices.is_empty() {
        let is_newest = |head: &&Head<'_>| {
            let same = |other: &&Head<'_>| (other.product, other.kind) == (head.product, head.kind);
            heads.iter().filter(same).all(|other| other.revision <= head.revision)
        };
        chosen.extend(heads.iter().filter(is_newest));
    }

    for choice in choices {
        chosen.push(choose(&heads, choice)?);
    }

    chosen.into_iter().map(|head| Information::read(head.element, vendor)).collect()
}

fn choose<'h, 'd>(heads: &'h [Head<'d>], choice: &Choice) -> Result<&'h Head<'d>, EsiError> {
    let told = |heads: &[&Head<'_>]| {
        let mut words: Vec<String> = heads.iter().take(8).map(|head| head.told()).collect();
        if heads.len() > 8 {
            words.push(format!("and {} more", heads.len() - 8));
        }
        words.join(", ")
    };

    let fitting: Vec<&Head<'_>> = heads.iter().filter(|head| choice.fits(head)).collect();
    let Some(newest) = fitting.iter().max_by_key(|head| head.revision) else {
        let all: Vec<&Head<'_>> = heads.iter().collect();
        return Err(EsiError::Unknown { wanted: choice.told(), there: told(&all) });
    };
    let same = |head: &&Head<'_>| (head.product, head.kind) == (newest.product, newest.kind);
    let twice = fitting.iter().filter(|head| head.revision == newest.revision).count() > 1;

    if fitting.iter().all(same) && !twice {
        return Ok(newest);
    }

    Err(EsiError::Several { wanted: choice.told(), there: told(&fitting) })
}

/// Text of a file: UTF-8, or what older tools write.
fn decoded(bytes: &[u8]) -> Result<String, EsiError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        // A zero byte is in no such text; it is one of two bytes per letter.
        Err(_) if bytes.contains(&0) => Err(EsiError::Text),
        Err(_) => Ok(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}
