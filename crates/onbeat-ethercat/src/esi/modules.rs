//! Slots and modules (ETG.5001, modular device profile): a device whose PDOs and objects are those of
//! the modules in its slots.
//!
//! A module has the indices of slot 0; in slot n, PDOs move by n times `SlotPdoIncrement` and
//! objects by n times `SlotIndexIncrement`, where the file says that they depend on the slot.

use std::collections::BTreeSet;

use super::device::pdos;
use super::element::{Element, number, one_line};
use super::objects::objects;
use super::{EsiDevice, EsiError, Pdo};

/// Increments per slot if the file has none (ETG.5001).
const PDO_INCREMENT: u32 = 1;
const INDEX_INCREMENT: u32 = 16;
/// Most slots of a device.
const MOST_SLOTS: usize = 1024;

/// A slot of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsiSlot {
    pub name: String,
    /// Names of the modules that fit, as a device file selects them.
    pub modules: Vec<String>,
    /// The one that the file gives as default.
    pub default: Option<String>,
    /// Whether the device needs a module here.
    pub is_needed: bool,
    /// The module in it, with its ident; `None` while it is empty.
    pub module: Option<(String, u32)>,
}

impl EsiSlot {
    /// Returns the module that this slot usually has: the default, or the first one that fits; empty
    /// for none.
    #[must_use]
    pub fn usual_module(&self) -> String {
        self.default.clone().or_else(|| self.modules.first().cloned()).unwrap_or_default()
    }

    /// Returns the usual module of a slot that needs one or has a default; empty for others.
    pub(super) fn needed_module(&self) -> String {
        let is_filled = self.is_needed || self.default.is_some();
        if is_filled { self.usual_module() } else { String::new() }
    }
}

/// How far the indices of a module move in its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotShift {
    pdo: u32,
    object: u32,
}

impl SlotShift {
    /// Parses the index of a PDO.
    pub(super) fn pdo(self, index: Element<'_>) -> Result<u16, EsiError> {
        shifted(index, self.pdo)
    }

    /// Parses the index of a PDO that the one of `index` excludes: for a PDO of a slot, one of the
    /// same slot, also where the file does not say so again.
    pub(super) fn excluded(self, other: Element<'_>, index: Element<'_>) -> Result<u16, EsiError> {
        let depends = other.flag("DependOnSlot") || index.flag("DependOnSlot");
        moved(other, if depends { self.pdo } else { 0 })
    }

    /// Parses the index of an object.
    pub(super) fn object(self, index: Element<'_>) -> Result<u16, EsiError> {
        shifted(index, self.object)
    }
}

fn shifted(index: Element<'_>, by: u32) -> Result<u16, EsiError> {
    moved(index, if index.flag("DependOnSlot") { by } else { 0 })
}

fn moved(index: Element<'_>, by: u32) -> Result<u16, EsiError> {
    let own = index.number(0xffff)?;
    // A gap is one in every slot.
    if own == 0 {
        return Ok(0);
    }
    if index.flag("DependOnSlotGroup") {
        let what = "depends on a slot group, which is not supported; leave the slot empty";
        return Err(index.not_simulated(what.to_owned()));
    }
    u16::try_from(own + by).map_err(|_| {
        index.not_simulated(format!(
            "{own:#06x} is beyond 0xffff in its slot, {by:#x} further; correct the increments of the slots"
        ))
    })
}

/// A module of a file.
#[derive(Clone, Copy)]
struct Module<'d> {
    element: Element<'d>,
    kind: &'d str,
    ident: u32,
}

impl<'d> Module<'d> {
    /// Reads the modules that an element lists.
    fn all(modules: Element<'d>) -> impl Iterator<Item = Self> {
        modules.all("Module").filter_map(|element| {
            let kind = element.first("Type")?;
            let ident = kind.numbered("ModuleIdent", u32::MAX).ok()??;
            Some(Self { element, kind: kind.text(), ident })
        })
    }

    fn is_called(&self, word: &str) -> bool {
        let names = || self.element.all("Name").map(Element::text).chain([self.kind]);
        names().any(|name| one_line(name) == word) || ident(word) == Some(self.ident)
    }

    fn fits(&self, slot: Element<'_>) -> bool {
        let class = self.element.first("Type").and_then(|kind| kind.attribute("ModuleClass"));
        slot.all("ModuleIdent").any(|one| ident(one.text()) == Some(self.ident))
            || class.is_some_and(|class| {
                let classes = slot.all("ModuleClass").map(|one| one.first("Class").unwrap_or(one));
                classes.map(Element::text).any(|one| one == class)
            })
    }

    fn name(&self) -> String {
        let name = if self.kind.is_empty() { self.element.localized("Name") } else { self.kind };
        if name.is_empty() { format!("{:#x}", self.ident) } else { one_line(name) }
    }
}

fn ident(text: &str) -> Option<u32> {
    number(text).and_then(|ident| u32::try_from(ident).ok())
}

/// A slot in the file, with its number among all slots and its increments.
struct SlotElement<'d> {
    element: Element<'d>,
    is_needed: bool,
    shift: SlotShift,
}

fn slots(listed: Element<'_>) -> Result<Vec<SlotElement<'_>>, EsiError> {
    let most = listed.numbered("MaxSlotCount", u32::MAX)?.unwrap_or(u32::MAX) as usize;
    let most = most.min(MOST_SLOTS);
    let increment = |slot: Element<'_>, name: &str, default: u32| -> Result<u32, EsiError> {
        let own = slot.numbered(name, 0xffff)?;
        Ok(own.or(listed.numbered(name, 0xffff)?).unwrap_or(default))
    };

    let mut slots = Vec::new();
    for element in listed.all("Slot") {
        let instances = element.numbered("MaxInstances", u32::MAX)?.unwrap_or(1);
        let needed = element.numbered("MinInstances", u32::MAX)?.unwrap_or(0);
        let by_pdo = increment(element, "SlotPdoIncrement", PDO_INCREMENT)?;
        let by_index = increment(element, "SlotIndexIncrement", INDEX_INCREMENT)?;
        for instance in 0..instances {
            if slots.len() == most {
                break;
            }
            let number = slots.len() as u32;
            let shift = SlotShift { pdo: number * by_pdo, object: number * by_index };
            slots.push(SlotElement { element, is_needed: instance < needed, shift });
        }
    }
    Ok(slots)
}

impl EsiDevice {
    /// Reads the slots and fills them with the modules that `fill` names, in order; "" or "-" leaves
    /// one empty.
    pub(super) fn fill_slots(
        &mut self,
        device: Element<'_>,
        modules: &[Element<'_>],
        fill: &[String],
    ) -> Result<(), EsiError> {
        let Some(listed) = device.first("Slots") else {
            return match fill.first() {
                Some(word) => Err(device.not_simulated(format!(
                    "has no slots for the module \"{word}\"; remove `slots`"
                ))),
                None => Ok(()),
            };
        };

        let listing = device.first("Modules").into_iter().chain(modules.iter().copied());
        let modules: Vec<Module<'_>> = listing.flat_map(Module::all).collect();
        let slots = slots(listed)?;
        self.loads_modules = listed.flag("DownloadModuleIdentList")
            || device.first("Type").is_some_and(|kind| kind.flag("DownloadModuleList"))
            || device
                .at(&["Mailbox", "CoE"])
                .is_some_and(|coe| coe.flag("DownloadModuleIdentList"));
        if fill.len() > slots.len() {
            return Err(listed.not_simulated(format!(
                "are {}, and `slots` names {} modules; remove the last ones",
                slots.len(),
                fill.len()
            )));
        }

        for (number, slot) in slots.iter().enumerate() {
            let fitting: Vec<&Module<'_>> =
                modules.iter().filter(|module| module.fits(slot.element)).collect();
            let word =
                fill.get(number).map(String::as_str).filter(|word| !matches!(*word, "" | "-"));
            let module = match word {
                None => None,
                Some(word) => Some(*selected(slot.element, number, word, &fitting)?),
            };
            let default = slot
                .element
                .all("ModuleIdent")
                .find(|one| one.flag("Default"))
                .and_then(|one| ident(one.text()));
            let default = fitting.iter().find(|module| Some(module.ident) == default);
            self.slots.push(EsiSlot {
                name: one_line(slot.element.localized("Name")),
                modules: fitting.iter().map(|module| module.name()).collect(),
                default: default.map(|module| module.name()),
                is_needed: slot.is_needed,
                module: module.map(|module| (module.name(), module.ident)),
            });
            if let Some(module) = module {
                self.plug(module, slot.shift)?;
            }
        }
        if !slots.is_empty() && self.slots.iter().all(|slot| slot.modules.is_empty()) {
            self.notes.push(format!(
                "line {}: no module for its slots was found; save the files that it refers to (InfoReference) beside it, and fill `slots` in a device file",
                listed.line()
            ));
        }
        let mut not_read = BTreeSet::new();
        for element in listed.elements().filter(|element| element.name() != "Slot") {
            if not_read.insert(element.name()) {
                self.notes.push(format!(
                    "line {}: <{}> of <Slots> is not read; the PDOs of modules are in the order of the slots",
                    element.line(),
                    element.name()
                ));
            }
        }
        for (pdos, name) in self.pdos.iter_mut().zip(["RxPdo", "TxPdo"]) {
            drop_overwritten(pdos, device.all(name).map(|pdo| pdo.flag("OverwrittenByModule")));
        }
        Ok(())
    }

    /// Adds what a module brings.
    fn plug(&mut self, module: Module<'_>, shift: SlotShift) -> Result<(), EsiError> {
        for (direction, name) in ["RxPdo", "TxPdo"].into_iter().enumerate() {
            let added = pdos(module.element, name, shift, &mut self.notes)?;
            self.pdos[direction].extend(added);
        }
        self.objects.extend(objects(module.element, shift, &mut self.notes)?);
        self.commands.extend(super::commands::commands(module.element, shift)?);
        Ok(())
    }
}

/// Drops PDOs of the device, which come first, that it leaves to its modules, if a module has them.
fn drop_overwritten(pdos: &mut Vec<Pdo>, of_device: impl Iterator<Item = bool>) {
    let are_left: Vec<bool> = of_device.collect();
    let of_modules: Vec<u16> = pdos.iter().skip(are_left.len()).map(|pdo| pdo.index).collect();
    let mut are_left = are_left.into_iter();
    pdos.retain(|pdo| !are_left.next().unwrap_or(false) || !of_modules.contains(&pdo.index));
}

/// Returns the fitting module with this name or ident.
fn selected<'m, 'd>(
    slot: Element<'_>,
    number: usize,
    word: &str,
    fitting: &[&'m Module<'d>],
) -> Result<&'m Module<'d>, EsiError> {
    let found = fitting.iter().find(|module| module.is_called(word));
    found.copied().ok_or_else(|| {
        let names: Vec<String> = fitting.iter().take(12).map(|module| module.name()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        slot.not_simulated(format!(
            "{number} (\"{}\") does not take the module \"{word}\"; it takes {names}",
            slot.localized("Name")
        ))
    })
}
