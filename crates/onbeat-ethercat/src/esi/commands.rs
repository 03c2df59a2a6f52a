//! Start-up commands of an ESI file (InitCmd): SDO downloads at a transition.

use super::EsiError;
use super::element::Element;
use super::modules::SlotShift;
use crate::setup::ObjectValue;

/// Transition of a device at which a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// From PREOP to SAFEOP: before the process data are mapped.
    ToSafeOp,
    /// From SAFEOP to OP.
    ToOp,
}

/// An SDO download at a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitCommand {
    /// Line in the file.
    pub line: u32,
    /// When it is run.
    pub transition: Transition,
    /// What it writes; a file can have any number of bytes.
    pub value: ObjectValue,
}

/// Reads the CoE commands of a device or module. Commands of transitions that go down, or that need
/// a mailbox before there is one, have no effect and are left out.
pub(super) fn commands(
    parent: Element<'_>,
    shift: SlotShift,
) -> Result<Vec<InitCommand>, EsiError> {
    let mut commands = Vec::new();
    let listed = parent.at(&["Mailbox", "CoE"]).into_iter().flat_map(|coe| coe.all("InitCmd"));
    for command in listed {
        let data = command.needs("Data")?;
        let value = ObjectValue {
            index: shift.object(command.needs("Index")?)?,
            entry: command.number_at("SubIndex", 0xff)? as u8,
            complete: command.flag("CompleteAccess"),
            bytes: data.bytes()?,
            of_period: data.flag("AdaptAutomatically"),
        };
        let mut words: Vec<&str> = command.all("Transition").map(Element::text).collect();
        words.dedup();
        for word in words {
            let transition = match word {
                "PS" | "IP" => Transition::ToSafeOp,
                "SO" => Transition::ToOp,
                _ => continue,
            };
            commands.push(InitCommand { line: command.line(), transition, value: value.clone() });
        }
    }
    Ok(commands)
}
