//! Devices of ESI files: the EtherCAT SubDevice Information of a vendor, in XML (ETG.2000).
//!
//! Read: identity, SyncManagers, FMMUs, PDOs with their default assignment, mailbox with CoE,
//! distributed clock, EEPROM, start-up commands, the object dictionary, and modules in their slots.
//! The function of a device is not in the file; see [`EsiDevice::behaviour`].
//!
//! A file is read as vendors write it: devices that nobody uses may have any error, and what a
//! device does not need is passed over with a note ([`EsiDevice::notes`]).
//!
//! Absent on purpose: mailbox protocols other than CoE, and the safety parameters of FSoE.
//!
//! ```
//! use onbeat_ethercat::esi::{EsiError, devices};
//!
//! assert_eq!(devices(b"<Robot/>", &[]), Err(EsiError::Other("Robot".to_owned())));
//! ```

mod behaviour;
mod commands;
mod device;
mod eeprom;
pub(crate) mod element;
mod modules;
mod objects;
mod types;

use std::collections::BTreeMap;

use element::{Element, LineEnds, one_line};

pub use behaviour::values;
pub use commands::{InitCommand, Transition};
pub(crate) use device::MOST_SYNC_MANAGERS;
pub use device::{EsiDevice, Pdo, PdoEntry};
pub use eeprom::{DEFAULT_CONFIGURATION, DcMode, EEPROM_BYTES, SyncManagerEntry};
pub use modules::EsiSlot;
pub use objects::{EsiObject, EsiValue};

/// Most elements, texts and line breaks between them: a file of 64 MiB with an indented dictionary
/// for each device has 6,000,000.
const MOST_NODES: u32 = 8_000_000;
/// Most files that one may refer to.
const MOST_REFERENCES: usize = 64;

/// Why an ESI file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EsiError {
    /// Neither UTF-8 nor UTF-16 nor ISO 8859-1.
    #[error("it is not text in UTF-8, UTF-16 or ISO 8859-1; save it in one of these encodings")]
    Text,
    /// Declared as text in another encoding.
    #[error(
        "it is text in {0}, which is not read; convert it: iconv -f {from} -t UTF-8",
        from = iconv_name(.0)
    )]
    Encoding(String),
    /// No text.
    #[error("it is empty; save it again")]
    Empty,
    /// A compressed file, as vendors offer it for download.
    #[error("it is an archive; unpack it, and use the .xml file in it")]
    Archive,
    /// The description of a CANopen device.
    #[error("it is an EDS file, of CANopen (CiA 306); ask the vendor for the ESI file (.xml)")]
    CanOpen,
    /// Too many elements.
    #[error(
        "it has more than {MOST_NODES} elements and texts; copy the devices that you use to a file of their own"
    )]
    Large,
    /// A document type, which no such file has.
    #[error("it has a document type (DOCTYPE), as a web page; download the file itself")]
    DocumentType,
    /// Not XML.
    #[error("it is not valid XML: {0}")]
    Xml(String),
    /// XML, but not an ESI file.
    #[error(
        "the root element is <{0}> instead of <EtherCATInfo>; {hint}",
        hint = hint(.0)
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
    /// An error in the description of one device.
    #[error("device \"{device}\": {why}")]
    InDevice {
        /// Type of the device.
        device: String,
        /// What is wrong.
        why: Box<EsiError>,
    },
    #[error("it has no <Device> with a ProductCode below <Descriptions>")]
    NoDevice,
    /// No device, and a reference to another file.
    #[error("it has no <Device> of its own and refers to \"{0}\" (InfoReference); use that file")]
    Refers(String),
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
        "{wanted} matches several devices; add device (a type or name), product or revision to select one: {there}"
    )]
    Several {
        /// The requested device.
        wanted: String,
        /// Matching devices.
        there: String,
    },
}

fn hint(root: &str) -> &'static str {
    match root {
        "EtherCATConfig" => "this is an ENI file, of a network: onbeat bus import",
        "EtherCATModule" | "EtherCATDict" | "EtherCATDiag" => {
            "it has parts of devices: use the ESI file that refers to it"
        }
        _ => "use the vendor's ESI file of the device",
    }
}

/// Selects a device of a file. `None` matches any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSelector {
    /// Type or name.
    pub device: Option<String>,
    /// Product code.
    pub product: Option<u32>,
    pub revision: Option<u32>,
    /// Modules in its slots, in order: type, name or ident of each; "" for an empty slot.
    pub slots: Vec<String>,
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
        self.device.as_ref().is_none_or(|device| names().any(|name| one_line(name) == *device))
            && self.product.is_none_or(|product| product == head.product)
            && self.revision.is_none_or(|revision| revision == head.revision)
    }
}

/// Identification of a device in a file.
struct DeviceHeader<'d> {
    element: Element<'d>,
    /// Modules of the file, and of those that it refers to.
    modules: Vec<Element<'d>>,
    vendor: u32,
    kind: &'d str,
    product: u32,
    revision: u32,
}

impl<'d> DeviceHeader<'d> {
    /// Reads the header of a device; `None` for one without a product code, which has no controller
    /// of its own and only passes the signals on.
    fn read(
        element: Element<'d>,
        vendor: u32,
        modules: &[Element<'d>],
    ) -> Option<Result<Self, EsiError>> {
        let kind = element.first("Type")?;
        let read = || {
            let product = kind.numbered("ProductCode", u32::MAX)?;
            if product.is_none() && kind.attribute("ProductCode").is_some() {
                return Err(kind.lacks("the number of its ProductCode".to_owned()));
            }
            let revision = kind.numbered("RevisionNo", u32::MAX)?.unwrap_or(0);
            Ok(product.map(|product| Self {
                element,
                modules: modules.to_vec(),
                vendor,
                kind: kind.text(),
                product,
                revision,
            }))
        };
        let named = |why| EsiError::in_device(kind.text(), why);
        read().map_err(named).transpose()
    }

    /// Describes the device, with name and line if it is one of several that are alike otherwise.
    fn describe(&self, is_alike: bool) -> String {
        let Self { element, product, revision, .. } = self;
        let kind = one_line(self.kind);
        let words = format!("\"{kind}\" (product {product:#x}, revision {revision:#x})");
        if !is_alike {
            return words;
        }
        let name = one_line(element.localized("Name"));
        format!("{words} \"{name}\" in line {}", element.line())
    }

    fn device(&self, slots: &[String]) -> Result<EsiDevice, EsiError> {
        EsiDevice::read(self.element, self.vendor, &self.modules, slots)
            .map_err(|why| EsiError::in_device(self.kind, why))
    }
}

impl EsiError {
    fn in_device(device: &str, why: Self) -> Self {
        Self::InDevice { device: one_line(device), why: Box::new(why) }
    }
}

/// A parsed file.
struct EsiFile<'d> {
    heads: Vec<DeviceHeader<'d>>,
    /// Errors of devices whose header cannot be read.
    errors: Vec<EsiError>,
}

impl<'d> EsiFile<'d> {
    /// Reads the headers of a file; `others` are the modules of the files that it refers to.
    fn read(root: Element<'d>, others: &[Element<'d>]) -> Result<Self, EsiError> {
        let roots: Vec<Element<'d>> = match root.name() {
            "EtherCATInfo" => vec![root],
            "EtherCATInfoList" => root.all("EtherCATInfo").collect(),
            other => return Err(EsiError::Other(other.to_owned())),
        };

        let mut file = Self { heads: Vec::new(), errors: Vec::new() };
        let mut reference = None;
        for root in roots {
            reference = reference.or(root.first("InfoReference"));
            let vendor = root.needs("Vendor")?.needs("Id")?.number(u32::MAX)?;
            let own = modules_in(root);
            let modules: Vec<Element<'d>> = own.into_iter().chain(others.iter().copied()).collect();
            let listed = root.at(&["Descriptions", "Devices"]);
            for device in listed.into_iter().flat_map(|listed| listed.all("Device")) {
                match DeviceHeader::read(device, vendor, &modules) {
                    Some(Ok(head)) => file.heads.push(head),
                    Some(Err(why)) => file.errors.push(why),
                    None => {}
                }
            }
        }

        match file.errors.first() {
            Some(why) if file.heads.is_empty() => Err(why.clone()),
            None if file.heads.is_empty() => Err(reference
                .map_or(EsiError::NoDevice, |other| EsiError::Refers(other.text().to_owned()))),
            _ => Ok(file),
        }
    }

    /// Returns every device in its newest revision.
    fn newest(&self) -> Vec<&DeviceHeader<'d>> {
        let mut newest: BTreeMap<(u32, u32, &str), u32> = BTreeMap::new();
        let key = |head: &DeviceHeader<'d>| (head.vendor, head.product, head.kind);
        for head in &self.heads {
            let revision = newest.entry(key(head)).or_default();
            *revision = (*revision).max(head.revision);
        }

        let is_newest = |head: &&DeviceHeader<'d>| newest.get(&key(head)) == Some(&head.revision);
        self.heads.iter().filter(is_newest).collect()
    }
}

/// A device of a file, or why it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedDevice {
    /// Its type; empty if not even that can be read.
    pub order: String,
    /// Product code.
    pub product: u32,
    pub revision: u32,
    /// The device, with every slot filled by its default module, or the first that fits; only those
    /// that need a module or have a default, if that is too much for the device.
    pub device: Result<EsiDevice, EsiError>,
}

/// Reads the files that an ESI file refers to (InfoReference), as far as they are there; they may
/// have the modules of its devices. `read` takes a name relative to the folder of the file: with the
/// folders of the reference, then without, as where all files were saved in one.
#[must_use]
pub fn referenced(bytes: &[u8], mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let Some(text) = decoded(bytes).ok().filter(|text| text.contains("InfoReference")) else {
        return Vec::new();
    };
    let names = with_root(&text, |root| {
        let listed = root.all("InfoReference").take(MOST_REFERENCES);
        let names = listed.map(|one| one.text().replace('\\', "/"));
        Ok::<Vec<String>, EsiError>(names.filter(|name| !name.ends_with('/')).collect())
    });
    let mut found = |name: String| {
        // Nothing above the folder.
        let is_below = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let whole = if is_below { read(&name) } else { None };
        whole.or_else(|| read(name.rsplit('/').next().unwrap_or_default()))
    };
    names.unwrap_or_default().into_iter().filter_map(&mut found).collect()
}

/// Reads all devices of an ESI file in all revisions, for a list. `others` are the files that it
/// refers to, as far as they are there.
///
/// # Errors
/// [`EsiError`] when the file is not an ESI file.
pub fn list(bytes: &[u8], others: &[Vec<u8>]) -> Result<Vec<ListedDevice>, EsiError> {
    with_file(bytes, others, |file| {
        let unreadable = file.errors.iter().map(|why| ListedDevice {
            order: String::new(),
            product: 0,
            revision: 0,
            device: Err(why.clone()),
        });
        let read = file.heads.iter().map(|head| ListedDevice {
            order: one_line(head.kind),
            product: head.product,
            revision: head.revision,
            device: head.device(&[]).and_then(|empty| {
                let fill: Vec<String> = empty.slots.iter().map(EsiSlot::usual_module).collect();
                if fill.is_empty() {
                    return Ok(empty);
                }
                // A coupler may have more slots than it can have modules with process data.
                head.device(&fill).or_else(|why| {
                    let needed = empty.slots.iter().map(EsiSlot::needed_module);
                    head.device(&needed.collect::<Vec<String>>()).map_err(|_| why)
                })
            }),
        });
        Ok(read.chain(unreadable).collect())
    })
}

/// Reads devices of an ESI file: one for each selector, or, without selectors, every device in its
/// newest revision.
///
/// Of several revisions of one device, the newest is used unless a selector has the revision.
///
/// # Errors
/// [`EsiError`] with what is wrong or missing in the file, or in a device that is used.
pub fn devices(bytes: &[u8], selectors: &[DeviceSelector]) -> Result<Vec<EsiDevice>, EsiError> {
    devices_with(bytes, &[], selectors)
}

/// Reads devices as [`devices`] does, with the modules of the files that theirs refers to
/// ([`referenced`]), as far as they are there.
///
/// # Errors
/// As [`devices`].
pub fn devices_with(
    bytes: &[u8],
    others: &[Vec<u8>],
    selectors: &[DeviceSelector],
) -> Result<Vec<EsiDevice>, EsiError> {
    with_file(bytes, others, |file| {
        if selectors.is_empty() {
            return file.newest().into_iter().map(|head| head.device(&[])).collect();
        }

        let device = |selector| select(&file.heads, selector)?.device(&selector.slots);
        selectors.iter().map(device).collect()
    })
}

fn with_file<T>(
    bytes: &[u8],
    others: &[Vec<u8>],
    then: impl FnOnce(&EsiFile<'_>) -> Result<T, EsiError>,
) -> Result<T, EsiError> {
    // Most have devices only: a tree of each takes memory and time.
    let texts = others.iter().filter_map(|bytes| decoded(bytes).ok());
    let texts: Vec<String> = texts.filter(|text| text.contains("<Module")).collect();
    let read = texts.iter().filter_map(|text| Some((parsed(text).ok()?, LineEnds::of(text))));
    let documents: Vec<(roxmltree::Document<'_>, LineEnds)> = read.collect();
    let modules = documents
        .iter()
        .filter_map(|(document, lines)| modules_in(Element::new(document.root_element(), lines)));
    let modules: Vec<Element<'_>> = modules.collect();
    with_root(&decoded(bytes)?, |root| then(&EsiFile::read(root, &modules)?))
}

/// Returns the modules of a file: below its descriptions, or below the root of one that has only
/// modules (`EtherCATModule`).
fn modules_in(root: Element<'_>) -> Option<Element<'_>> {
    root.at(&["Descriptions", "Modules"]).or_else(|| root.first("Modules"))
}

/// Parses XML and passes its root element on.
pub(crate) fn with_root<T, E: From<EsiError>>(
    text: &str,
    then: impl FnOnce(Element<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let document = parsed(text)?;
    let lines = LineEnds::of(text);
    then(Element::new(document.root_element(), &lines))
}

fn parsed(text: &str) -> Result<roxmltree::Document<'_>, EsiError> {
    let options = roxmltree::ParsingOptions {
        allow_dtd: false,
        nodes_limit: MOST_NODES,
        ..Default::default()
    };
    roxmltree::Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::NoRootNode if text.trim().is_empty() => EsiError::Empty,
        _ if is_eds(text) => EsiError::CanOpen,
        roxmltree::Error::NodesLimitReached => EsiError::Large,
        roxmltree::Error::DtdDetected => EsiError::DocumentType,
        error => EsiError::Xml(error.to_string()),
    })
}

fn is_eds(text: &str) -> bool {
    text.lines().take(50).any(|line| line.trim().eq_ignore_ascii_case("[FileInfo]"))
}

fn select<'h, 'd>(
    heads: &'h [DeviceHeader<'d>],
    selector: &DeviceSelector,
) -> Result<&'h DeviceHeader<'d>, EsiError> {
    let describe = |heads: &[&DeviceHeader<'_>], are_alike: bool| {
        let mut words: Vec<String> =
            heads.iter().take(8).map(|head| head.describe(are_alike)).collect();
        if heads.len() > 8 {
            words.push(format!("and {} more", heads.len() - 8));
        }
        words.join(", ")
    };

    let matching: Vec<&DeviceHeader<'_>> =
        heads.iter().filter(|head| selector.matches(head)).collect();
    let Some(newest) = matching.iter().max_by_key(|head| head.revision) else {
        let all: Vec<&DeviceHeader<'_>> = heads.iter().collect();
        return Err(EsiError::Unknown {
            wanted: selector.describe(),
            there: describe(&all, false),
        });
    };
    let same =
        |head: &&DeviceHeader<'_>| (head.product, head.kind) == (newest.product, newest.kind);
    let twice = matching.iter().filter(|head| head.revision == newest.revision).count() > 1;

    if matching.iter().all(same) && !twice {
        return Ok(newest);
    }

    Err(EsiError::Several { wanted: selector.describe(), there: describe(&matching, twice) })
}

/// Decodes the text of a file: UTF-8, UTF-16, or windows-1252 and ISO 8859-1 as written by older tools.
/// A file that declares another encoding is refused: its names would be other ones.
pub(crate) fn decoded(bytes: &[u8]) -> Result<String, EsiError> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        // A tool may have appended a line break of one byte, or cut the file within a character.
        let units = bytes.as_chunks::<2>().0.iter().map(|pair| unit(*pair));
        String::from_utf16(&units.collect::<Vec<u16>>()).map_err(|_| EsiError::Text)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => return wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => return wide(rest, u16::from_be_bytes),
        // ZIP, gzip, 7z, RAR.
        [b'P', b'K', 3, 4, ..] | [0x1f, 0x8b, ..] | [b'7', b'z', 0xbc, 0xaf, ..] => {
            return Err(EsiError::Archive);
        }
        [b'R', b'a', b'r', b'!', 0x1a, ..] => return Err(EsiError::Archive),
        // Without a byte order mark, the first character is `<`.
        [b'<', 0, ..] => return wide(bytes, u16::from_le_bytes),
        [0, b'<', ..] => return wide(bytes, u16::from_be_bytes),
        _ => {}
    }

    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        // Text with zero bytes has two bytes per character.
        Err(_) if bytes.contains(&0) => Err(EsiError::Text),
        Err(_) => match declared_encoding(bytes).filter(|name| !is_read(name)) {
            Some(name) => Err(EsiError::Encoding(name.to_owned())),
            None => Ok(bytes.iter().map(|&byte| western(byte)).collect()),
        },
    }
}

/// Returns the encoding in the XML declaration.
fn declared_encoding(bytes: &[u8]) -> Option<&str> {
    let declaration = bytes.strip_prefix(b"<?xml")?.split(|byte| *byte == b'>').next()?;
    let (_, value) = std::str::from_utf8(declaration).ok()?.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let name = value.strip_prefix(['"', '\''])?.split(['"', '\'']).next()?;
    name.bytes().all(|byte| byte.is_ascii_graphic()).then_some(name)
}

/// Returns whether text that is not in UTF-8 may be read as windows-1252 although it declares this
/// encoding; a tool may have written other bytes than it declares, and names are written in many ways.
fn is_read(encoding: &str) -> bool {
    const READ: &str = "utf8 utf16 ascii usascii iso88591 iso885915 latin1 cp1252 windows1252";
    let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    READ.split(' ').any(|read| plain.eq_ignore_ascii_case(read))
}

/// Returns the name with which iconv converts text that declares this encoding: what is called
/// GB2312 or Shift_JIS mostly has the letters of their extensions too.
fn iconv_name(encoding: &str) -> &str {
    match encoding.to_ascii_lowercase().as_str() {
        "gb2312" | "gbk" => "GB18030",
        "shift_jis" | "shift-jis" | "sjis" => "CP932",
        _ => encoding,
    }
}

/// Returns the character of a byte in windows-1252, which is ISO 8859-1 with printable characters
/// in the place of control characters; files declared as either have them.
fn western(byte: u8) -> char {
    const FROM_80: [char; 32] = [
        '€', '\u{fffd}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{fffd}', 'Ž',
        '\u{fffd}', '\u{fffd}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ',
        '\u{fffd}', 'ž', 'Ÿ',
    ];
    let special = usize::from(byte).checked_sub(0x80).and_then(|at| FROM_80.get(at));
    special.copied().unwrap_or(char::from(byte))
}
