//! EtherCAT Network Information (ETG.2100): the network as another MainDevice's tool has configured
//! it, such as TwinCAT's "Export Configuration File", read for a device file of onbeat.
//!
//! Read: the devices with identity, SyncManagers, PDOs, mailboxes, start-up commands, distributed
//! clock, the ports between them, hot connect groups and the cycle time. What onbeat decides itself
//! (station and logical addresses, FMMUs, the frames of a cycle) is passed over; what it does not do
//! is listed by [`NetworkInformation::left_out`], with the line.
//!
//! [`DeviceFiles::from_network`] writes a device file, and an ESI file with the types that it uses.
//!
//! Absent on purpose: EoE, SoE and AoE, which onbeat does not speak.

mod commands;
mod device;
mod files;

use std::fmt;

use crate::esi::element::Element;
use crate::esi::{EsiError, decoded, with_root};

pub use commands::StartupCommand;
pub use device::{NetworkClock, NetworkDevice, NetworkEntry, NetworkPdo, NetworkSyncManager};
pub use files::DeviceFiles;

/// Most lines of an account; the others are counted.
const MOST_NOTES: usize = 200;

/// Why an ENI file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// XML, but not an ENI file.
    #[error(
        "the root element is <{0}> instead of <EtherCATConfig>; {hint}",
        hint = hint(.0)
    )]
    Other(String),
    #[error("it has no <Slave> below <Config>; export the configuration with its devices")]
    NoDevice,
    /// What cannot be read.
    #[error(transparent)]
    Element(#[from] EsiError),
    /// The device file would not be accepted.
    #[error("its devices make no device file: {0}")]
    Inconsistent(String),
}

fn hint(root: &str) -> &'static str {
    if root == "EtherCATInfo" {
        "this is a vendor's ESI file, which a device file names as `esi`"
    } else {
        "export the configuration of the network as an ENI file"
    }
}

/// One thing of an ENI file that is not in the device file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Line in the file.
    pub line: u32,
    /// What it is and why it was left out.
    pub what: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// The account of what was left out.
#[derive(Clone, Debug, Default)]
struct Account {
    left_out: Vec<LeftOut>,
    more: usize,
}

impl Account {
    fn add(&mut self, at: Element<'_>, what: String) {
        if self.left_out.len() < MOST_NOTES {
            self.left_out.push(LeftOut { line: at.line(), what });
        } else {
            self.more += 1;
        }
    }

    /// Lists the children of an element that are not known.
    fn unknown(&mut self, parent: Element<'_>, known: &[&str]) {
        for child in parent.elements() {
            if !known.contains(&child.name()) {
                let what = format!("<{}> in <{}> is not understood", child.name(), parent.name());
                self.add(child, what);
            }
        }
    }
}

/// What an ENI file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInformation {
    /// Name of the MainDevice.
    pub name: String,
    /// Cycle time, in ns; `None` without cyclic frames.
    pub cycle_ns: Option<u64>,
    /// The devices, in cable order.
    pub devices: Vec<NetworkDevice>,
    /// What is not in the device file, in file order.
    pub left_out: Vec<LeftOut>,
    /// Number of further things that were left out.
    pub more_left_out: usize,
}

impl NetworkInformation {
    /// Reads an ENI file in UTF-8, UTF-16 or ISO 8859-1.
    ///
    /// ```
    /// use onbeat_ethercat::eni::{NetworkError, NetworkInformation};
    ///
    /// let error = NetworkInformation::read(b"<EtherCATInfo/>").unwrap_err();
    /// assert!(matches!(error, NetworkError::Other(_)));
    /// ```
    ///
    /// # Errors
    /// [`NetworkError`] with what is missing or not readable, and its line.
    pub fn read(bytes: &[u8]) -> Result<Self, NetworkError> {
        let text = decoded(bytes)?;
        with_root(&text, Self::from_root)
    }

    fn from_root(root: Element<'_>) -> Result<Self, NetworkError> {
        let config = match root.name() {
            "EtherCATConfig" => root.needs("Config")?,
            "Config" => root,
            other => return Err(NetworkError::Other(other.to_owned())),
        };

        let mut account = Account::default();
        account.unknown(config, &["Master", "Slave", "Cyclic", "ProcessImage", "Comment"]);
        let name = config.at(&["Master", "Info", "Name"]).map(Element::text).unwrap_or_default();
        main_device(config, &mut account);
        let devices = config
            .all("Slave")
            .map(|slave| NetworkDevice::read(slave, config, &mut account))
            .collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() {
            return Err(NetworkError::NoDevice);
        }

        let cycle_ns = cycle(config, &mut account)?;
        let mut left_out = account.left_out;
        left_out.sort_by_key(|one| one.line);
        Ok(Self { name: name.to_owned(), cycle_ns, devices, left_out, more_left_out: account.more })
    }

    /// Adds what the making of the files has left out.
    fn leave_out(&mut self, line: u32, what: String) {
        let at = self.left_out.partition_point(|one| one.line <= line);
        self.left_out.insert(at, LeftOut { line, what });
    }
}

/// Lists what the MainDevice of the file has and onbeat's does not.
fn main_device(config: Element<'_>, account: &mut Account) {
    let Some(main) = config.first("Master") else { return };
    const KNOWN: [&str; 7] =
        ["Info", "MailboxStates", "EoE", "InitCmds", "Comment", "DcCycleTime", "MasterDC"];
    account.unknown(main, &KNOWN);
    if let Some(ethernet) = main.first("EoE") {
        account.add(ethernet, "<EoE> of the MainDevice: onbeat does not speak EoE".to_owned());
    }
    for command in main.at(&["InitCmds"]).into_iter().flat_map(|all| all.all("InitCmd")) {
        commands::check_register_command(command, account);
    }
}

/// Returns the cycle time in ns: the shortest of the cyclic frames.
fn cycle(config: Element<'_>, account: &mut Account) -> Result<Option<u64>, NetworkError> {
    /// Commands of the frames that onbeat builds itself: reads and writes of logical addresses, of
    /// states and of the time.
    const OWN: [u32; 8] = [0, 4, 7, 10, 11, 12, 13, 14];
    let mut shortest: Option<u64> = None;
    for cyclic in config.all("Cyclic") {
        account.unknown(cyclic, &["Comment", "CycleTime", "Priority", "TaskId", "Frame"]);
        if let Some(time) = cyclic.first("CycleTime") {
            let ns = u64::from(time.number(1_000_000)?) * 1_000;
            if let Some(other) = shortest.filter(|other| *other != ns) {
                let what = format!(
                    "two cycle times, {} us and {} us: all devices run at the shorter one",
                    ns / 1_000,
                    other / 1_000
                );
                account.add(time, what);
            }
            shortest = Some(shortest.unwrap_or(ns).min(ns));
        }
        for command in cyclic.all("Frame").flat_map(|frame| frame.all("Cmd")) {
            let number = command.first("Cmd").map(|cmd| cmd.number(255)).transpose()?;
            if let Some(other) = number.filter(|number| !OWN.contains(number)) {
                let what = format!("a cyclic command {other}: onbeat's cycle has none of it");
                account.add(command, what);
            }
        }
    }
    Ok(shortest.filter(|ns| *ns > 0))
}
