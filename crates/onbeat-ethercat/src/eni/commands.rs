//! Start-up commands of an ENI file: objects by SDO, which become start-up values, and registers,
//! of which onbeat writes its own.

use super::Account;
use crate::esi::EsiError;
use crate::esi::element::Element;
use crate::setup::ObjectValue;

/// Longest start-up value, in bytes.
const LONGEST: usize = 1024;

/// An object that is written before SAFEOP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupCommand {
    /// What is written.
    pub value: ObjectValue,
    /// What the file says about it.
    pub comment: String,
}

/// Reads the objects that a device is given before SAFEOP; other commands are left out.
pub(super) fn startup(
    slave: Element<'_>,
    name: &str,
    account: &mut Account,
) -> Result<Vec<StartupCommand>, EsiError> {
    let mut read = Vec::new();
    let listed = slave.at(&["Mailbox", "CoE", "InitCmds"]);
    for command in listed.into_iter().flat_map(|all| all.all("InitCmd")) {
        let index = command.needs("Index")?.number(0xffff)? as u16;
        let entry = command.number_at("SubIndex", 0xff)? as u8;
        let object = format!("{index:#06x}:{entry:x}");
        let transitions: Vec<&str> = command.all("Transition").map(Element::text).collect();
        if command.flag("Disabled") || command.at(&["Disabled"]).is_some_and(|on| on.text() == "1")
        {
            account.add(command, format!("{name}: object {object} is disabled in the file"));
            continue;
        }
        let ccs = command.first("Ccs").map_or(Ok(1), |ccs| ccs.number(255))?;
        if ccs != 1 {
            let what = format!("{name}: object {object} is read (Ccs {ccs}): onbeat only writes");
            account.add(command, what);
            continue;
        }

        // IP is before there is a process data mapping, as PS is.
        if !transitions.iter().any(|one| matches!(*one, "PS" | "IP")) {
            let words = transitions.join(", ");
            let what = format!(
                "{name}: object {object} is written at {words}: onbeat writes start-up values from PREOP to SAFEOP"
            );
            account.add(command, what);
            continue;
        }
        let bytes = command.first("Data").map_or(Ok(Vec::new()), Element::bytes)?;
        if bytes.is_empty() || bytes.len() > LONGEST {
            let what = format!(
                "{name}: object {object} has {} bytes; 1 to {LONGEST} can be written",
                bytes.len()
            );
            account.add(command, what);
            continue;
        }
        let complete = command.flag("CompleteAccess");
        let value = ObjectValue { index, entry, complete, bytes, of_period: false };
        read.push(StartupCommand { value, comment: command.text_at("Comment").to_owned() });
    }
    Ok(read)
}

/// A register that a command writes.
pub(super) struct RegisterCommand {
    pub(super) address: u16,
    pub(super) data: Vec<u8>,
}

/// Transitions on the way to OP, in order. Files list the commands of all transitions together: one
/// that ends the SYNC pulses at IP and OP comes after the one that starts them at PS.
const TO_OP: [&str; 3] = ["IP", "PS", "SO"];

/// Reads the writes of registers of a device on its way to OP, and lists those of registers that
/// onbeat leaves alone.
pub(super) fn registers(
    slave: Element<'_>,
    account: &mut Account,
) -> Result<Vec<RegisterCommand>, EsiError> {
    let listed = || slave.first("InitCmds").into_iter().flat_map(|all| all.all("InitCmd"));
    for command in listed() {
        check_register_command(command, account);
    }

    let mut read = Vec::new();
    for transition in TO_OP {
        let is_of_it =
            |command: &Element<'_>| command.all("Transition").any(|one| one.text() == transition);
        for command in listed().filter(is_of_it) {
            let number = command.number_at("Cmd", 255)?;
            let Some(address) = command.first("Ado") else { continue };
            if matches!(number, 2 | 5 | 8)
                && let Some(data) = command.first("Data")
            {
                let (address, data) = (address.number(0xffff)? as u16, data.bytes()?);
                read.push(RegisterCommand { address, data });
            }
        }
    }
    Ok(read)
}

/// Lists a command of a register that onbeat does not write.
pub(super) fn check_register_command(command: Element<'_>, account: &mut Account) {
    let address = command.first("Ado").and_then(|ado| ado.number(0xffff).ok());
    let number = command.first("Cmd").and_then(|cmd| cmd.number(255).ok());
    let (Some(address), Some(number)) = (address, number) else { return };
    let is_write = matches!(number, 2 | 5 | 8 | 11);
    if is_write && !is_own(address as u16) {
        let comment = command.text_at("Comment");
        let what = format!(
            "a start-up command writes register {address:#06x}{}: onbeat does not",
            if comment.is_empty() { String::new() } else { format!(" ({comment})") }
        );
        account.add(command, what);
    }
}

/// Returns whether onbeat's bring-up takes care of a register: addresses, ports, AL states, error
/// counters, watchdogs, EEPROM, FMMUs, SyncManagers, clock.
const fn is_own(register: u16) -> bool {
    matches!(
        register,
        0x0000..=0x0013
            | 0x0100..=0x0113
            | 0x0120..=0x0135
            | 0x0200..=0x0223
            | 0x0300..=0x0313
            | 0x0400..=0x0443
            | 0x0500..=0x050f
            | 0x0600..=0x06ff
            | 0x0800..=0x087f
            | 0x0900..=0x09cf
    )
}
