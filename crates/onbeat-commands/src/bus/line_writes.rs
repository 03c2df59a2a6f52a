//! Writes to devices on a cable, without a running bus: `onbeat bus alias`, `sii write`, `foe`,
//! `state DEVICE STATE`, `sdo write --interface`.
//!
//! Each write of `onbeat bus` asks or takes `--yes`, and is recorded in the log of writes: before it is carried out, and
//! with its result.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use onbeat_control::SdoAction;
use onbeat_ethercat::al::{BOOT, INIT};
use onbeat_ethercat::sii::Sii;
use onbeat_host::foreign;
use onbeat_robot::commission::{CommissionError, FILE_BYTES, Line, alias_of, with_alias};
use serde_json::json;

use super::line::{device_of, image_of};
use super::line_words::{LineWire, on_line, place_on, state_word};
use super::options::{
    AliasOptions, CableDevice, Consent, FoeReadOptions, FoeWriteOptions, SdoWriteOptions,
    SiiWriteOptions,
};
use crate::byte_words::hex_of;
use crate::failure::bus::BusFailure;
use crate::state::state_directory;
use crate::term::{Tone, advise, say};
use crate::{ExitVerdict, Failure, question};

/// Name of the log of writes, in onbeat's state directory.
const LOG: &str = "bus-writes.jsonl";
/// Outcome of a write that is yet to be carried out.
const BEGUN: &str = "begun";

/// Asks, unless `--yes` was given.
fn ask(consent: &Consent, text: &str, question: &'static str) -> Result<(), Failure> {
    if consent.yes || question::ask(text, question, "written")? {
        return Ok(());
    }
    Err(BusFailure::Refused.into())
}

/// What is written to: an interface, or a running bus.
#[derive(Clone, Copy)]
pub(crate) enum Target<'n> {
    Interface(&'n str),
    Bus(&'n str),
}

/// Appends a line to the log of writes.
fn log(target: Target<'_>, place: u16, what: &str, outcome: &str) -> Result<(), BusFailure> {
    let (kind, name) = match target {
        Target::Interface(name) => ("interface", name),
        Target::Bus(name) => ("bus", name),
    };
    let directory = state_directory();
    let path = directory.join(LOG);
    let at = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let text = json!({
        "at": at, kind: name, "place": place, "what": what, "outcome": outcome,
        "pid": std::process::id(),
    });
    let write = || {
        std::fs::create_dir_all(&directory)?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        writeln!(file, "{text}")
    };
    write().map_err(|source| {
        let device = match outcome {
            BEGUN => "nothing was written to the device".to_owned(),
            outcome => format!("the write itself: {outcome}"),
        };
        BusFailure::WriteLog { path: path.clone(), source, device }
    })
}

/// Carries out a write to a device on a cable between two lines of the log.
fn logged<T>(
    (interface, place, what): (&str, u16, &str),
    work: impl FnOnce() -> Result<T, CommissionError>,
) -> Result<T, Failure> {
    recorded((Target::Interface(interface), place, what), || Ok(work()?))
}

/// Carries out a request to a device of a running bus; a write, which needs `consent`, between two lines of the log.
pub(crate) fn consented<T>(
    consent: Option<&Consent>,
    device: &str,
    target: (Target<'_>, u16, &str),
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(consent) = consent else { return work() };
    ask(consent, &format!("{device}: write {}?", target.2), "a write to a device")?;
    recorded(target, work)
}

/// Carries out a write between two lines of the log.
fn recorded<T>(
    (target, place, what): (Target<'_>, u16, &str),
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    log(target, place, what, BEGUN)?;
    let result = work();
    let outcome = result.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    let recorded = log(target, place, what, &outcome);
    let done = result?;
    recorded?;
    Ok(done)
}

pub(crate) fn request_state(
    interface: &str,
    device: CableDevice,
    state: u8,
    consent: &Consent,
) -> Result<ExitVerdict, Failure> {
    on_line(interface, |line| {
        let place = place_on(line, device)?;
        let (is, _) = line.state(place)?;
        let (from, to) = (state_word(is), state_word(state));
        let text = format!("Take the device at place {place} from {from} to {to}?");
        ask(consent, &text, "a change of state")?;
        let what = format!("AL state {from} to {to}");
        logged((interface, place, &what), || line.request_state(place, state))?;
        say(Tone::Plain, &format!("the device at place {place} is in {to}"));
        Ok(ExitVerdict::Pass)
    })
}

pub(crate) fn sdo(interface: &str, options: &SdoWriteOptions) -> Result<ExitVerdict, Failure> {
    on_line(interface, |line| {
        let place = place_on(line, device_of(&options.of)?)?;
        let object @ (index, entry) = options.of.object;
        let complete = options.of.complete;
        let SdoAction::Write(value) = options.action() else { return Ok(ExitVerdict::Pass) };
        let before = line.sdo(place, object, complete, SdoAction::Read).map(|bytes| hex_of(&bytes));
        let before = before.unwrap_or_else(|_| "not readable".to_owned());
        let new = hex_of(&value);
        let name = format!("object 0x{index:04x}:{entry:x}");
        let text = format!("Write {new} to {name} of the device at place {place} (now {before})?");
        ask(&options.consent, &text, "a write to a device")?;
        let what = format!("{name}: {before} to {new}");
        logged((interface, place, &what), || {
            line.sdo(place, object, complete, SdoAction::Write(value))
        })?;
        say(Tone::Plain, &format!("{name} of the device at place {place}: {before} to {new}"));
        Ok(ExitVerdict::Pass)
    })
}

pub(crate) fn alias(options: &AliasOptions) -> Result<ExitVerdict, Failure> {
    let interface = options.of.interface.as_str();
    on_line(interface, |line| {
        let place = place_on(line, options.of.device)?;
        let image = line.read_sii(place)?;
        let before = alias_of(&image);
        let Some(alias) = options.alias else {
            say(Tone::Plain, &before.to_string());
            return Ok(ExitVerdict::Pass);
        };

        let text =
            format!("Set the alias of the device at place {place} from {before} to {alias}?");
        ask(&options.consent, &text, "a write to an EEPROM")?;
        let area = with_alias(&image, alias);
        let what = format!("alias {before} to {alias}");
        logged((interface, place, &what), || {
            // Only the words of alias and checksum differ.
            line.write_sii(place, 0, &area, |_| ())?;
            line.reload_sii(place)
        })?;
        say(Tone::Plain, &format!("the device at place {place} has alias {alias}"));
        advise(
            Tone::Faint,
            "Controllers that load the alias at power-on only have it after the device was off",
        );
        Ok(ExitVerdict::Pass)
    })
}

pub(crate) fn write_sii(options: &SiiWriteOptions) -> Result<ExitVerdict, Failure> {
    let path = &options.file;
    let image = image_of(path)?;
    let new = Sii::decode(&image).map_err(|why| BusFailure::Image { path: path.clone(), why })?;
    let interface = options.of.interface.as_str();
    on_line(interface, |line| {
        let place = place_on(line, options.of.device)?;
        let before = line.read_sii(place)?;
        check_image(options, place, &image, &new, &before)?;

        let differ = image.chunks(2).zip(before.chunks(2)).filter(|(new, old)| new != old).count()
            + image.len().saturating_sub(before.len()).div_ceil(2);
        let own = replaced(&before, &new);
        let text =
            format!("Write {differ} words of the EEPROM of the device at place {place}{own}?");
        ask(&options.consent, &text, "a write to an EEPROM")?;
        let what = format!("EEPROM from {}, {differ} words{own}", path.display());
        let written = logged((interface, place, &what), || {
            let words = line.write_sii(place, 0, &image, |_| ())?;
            line.reload_sii(place)?;
            Ok(words)
        })?;
        say(
            Tone::Plain,
            &format!("{written} words written and read again{own}; switch the device off and on"),
        );
        Ok(ExitVerdict::Pass)
    })
}

/// Returns what of the device's own an image replaces: an image that was read from one device makes
/// another of its kind the same one for a bus.
fn replaced(before: &[u8], new: &Sii) -> String {
    let Ok(old) = Sii::decode(before) else { return String::new() };
    let alias = (u32::from(old.alias), u32::from(new.alias));
    let own = [("serial number", (old.serial, new.serial)), ("alias", alias)];
    let differs = own.iter().filter(|(_, (from, to))| from != to);
    let words: Vec<String> =
        differs.map(|(what, (from, to))| format!("{what} {from} to {to}")).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// Checks that an image is for this device, unless that is forced, and fits.
fn check_image(
    options: &SiiWriteOptions,
    place: u16,
    image: &[u8],
    new: &Sii,
    before: &[u8],
) -> Result<(), BusFailure> {
    let most = new.chip_bytes.max(before.len());
    if image.len() > most {
        return Err(BusFailure::ImageTooLong {
            path: options.file.clone(),
            bytes: image.len(),
            most,
        });
    }
    if !is_whole(image, new, before) {
        return Err(BusFailure::ImagePart { path: options.file.clone(), bytes: image.len() });
    }
    // A blank or damaged EEPROM has no identity that could differ.
    let Ok(old) = Sii::decode(before) else { return Ok(()) };
    let (image, device) = ((new.vendor, new.product), (old.vendor, old.product));
    if image != device && !options.force {
        return Err(BusFailure::OtherDevice { path: options.file.clone(), place, image, device });
    }
    Ok(())
}

/// Returns whether an image still means the same with what the EEPROM has behind it: one that is cut
/// has no end mark, and the old categories would be read on from there.
fn is_whole(image: &[u8], new: &Sii, before: &[u8]) -> bool {
    let rest = before.get(image.len()..).unwrap_or_default();
    Sii::decode(&[image, rest].concat()).as_ref() == Ok(new)
}

// ---- files

/// Takes a device to BOOT, if that is wanted.
fn boot(line: &mut Line<'_, LineWire>, place: u16, is_wanted: bool) -> Result<(), CommissionError> {
    if is_wanted { line.request_state(place, BOOT) } else { Ok(()) }
}

/// Returns whether a device leaves BOOT after a file of which it has taken these bytes: not with a part of its firmware,
/// and not without an answer, as it may be at work.
fn leaves_boot(written: &Result<(), CommissionError>, taken: usize) -> bool {
    match written {
        Ok(()) => true,
        Err(CommissionError::Mute { .. } | CommissionError::Bus(_)) => false,
        Err(_) => taken == 0,
    }
}

/// Takes a device from BOOT to INIT, also when the log cannot be written: one that stays there takes
/// part in no bus.
fn leave_boot(line: &mut Line<'_, LineWire>, interface: &str, place: u16) -> Result<(), Failure> {
    let (target, what) = (Target::Interface(interface), "AL state INIT");
    // The line after it has the same error, and whether the device was reached.
    let _ = log(target, place, what, BEGUN);
    let left = line.request_state(place, INIT);
    let outcome = left.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    let recorded = log(target, place, what, &outcome);
    left?;
    recorded?;
    Ok(())
}

/// Returns the error of a transfer, or else that of the way back from BOOT, which is shown beside
/// the other one.
fn transferred(done: Result<(), Failure>, left: Result<(), Failure>) -> Result<(), Failure> {
    if let (Err(_), Err(why)) = (&done, &left) {
        advise(Tone::Careful, &why.to_string());
    }
    done.and(left)
}

pub(crate) fn read_file(options: &FoeReadOptions) -> Result<ExitVerdict, Failure> {
    let interface = options.of.interface.as_str();
    on_line(interface, |line| {
        let place = place_on(line, options.of.device)?;
        let mut is_in_boot = false;
        let mut booted = Ok(());
        if options.boot {
            let text = format!("Take the device at place {place} to BOOT?");
            ask(&options.consent, &text, "a change of state")?;
            booted = logged((interface, place, "AL state BOOT"), || {
                boot(line, place, true)?;
                is_in_boot = true;
                Ok(())
            });
        }
        let file = booted
            .and_then(|()| Ok(line.read_file(place, &options.name, options.password, |_| ())?));
        let left = if is_in_boot { leave_boot(line, interface, place) } else { Ok(()) };
        transferred(file.and_then(|file| save(&file, &options.output)), left)?;
        Ok(ExitVerdict::Pass)
    })
}

fn save(file: &[u8], path: &Path) -> Result<(), Failure> {
    std::fs::write(path, file)
        .map_err(|source| BusFailure::File { path: path.to_owned(), source })?;
    say(Tone::Plain, &format!("{} bytes saved to {}", file.len(), path.display()));
    Ok(())
}

pub(crate) fn write_file(options: &FoeWriteOptions) -> Result<ExitVerdict, Failure> {
    let path = &options.file;
    let file = foreign::read(path, FILE_BYTES as u64)
        .map_err(|source| BusFailure::File { path: path.clone(), source })?;
    let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = options.name.clone().unwrap_or(own);
    let interface = options.of.interface.as_str();
    on_line(interface, |line| {
        let place = place_on(line, options.of.device)?;
        let via = if options.boot { ", in BOOT" } else { "" };
        let text = format!(
            "Write {} bytes as \"{name}\" to the device at place {place}{via}?",
            file.len()
        );
        ask(&options.consent, &text, "a write to a device")?;
        let what = format!("file \"{name}\", {} bytes{via}", file.len());
        let mut leaves = false;
        let written = logged((interface, place, &what), || {
            boot(line, place, options.boot)?;
            let mut taken = 0;
            let written =
                line.write_file(place, (&name, options.password), &file, |bytes| taken = bytes);
            leaves = options.boot && leaves_boot(&written, taken);
            written
        });
        if written.is_ok() {
            say(Tone::Plain, &format!("{} bytes written as \"{name}\"", file.len()));
        }
        let left = if leaves { leave_boot(line, interface, place) } else { Ok(()) };
        transferred(written, left)?;
        Ok(ExitVerdict::Pass)
    })
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::sii::checksum;

    use super::*;

    #[test]
    fn an_image_that_replaces_serial_number_or_alias_says_so() {
        let image = |alias: u8, serial: u8| {
            let mut bytes = vec![0; 128];
            (bytes[8], bytes[28]) = (alias, serial);
            bytes[14] = checksum(&bytes[..14]);
            bytes
        };
        let new = Sii::decode(&image(7, 0)).unwrap();
        assert_eq!(replaced(&image(0, 4), &new), " (serial number 4 to 0, alias 0 to 7)");
        assert_eq!(replaced(&image(7, 0), &new), "");
        assert_eq!(replaced(&[0xff; 128], &new), "", "a blank one has none");

        let fmmus = [40_u8, 0, 1, 0, 1, 2, 0xff, 0xff];
        let before = [&image(0, 4)[..], &fmmus].concat();
        let whole = |bytes: &[u8]| is_whole(bytes, &Sii::decode(bytes).unwrap(), &before);
        assert!(whole(&before) && !whole(&image(7, 0)), "an image that is cut has no end");
        assert!(whole(&[&image(7, 0)[..], &[0xff, 0xff]].concat()));
        assert!(is_whole(&image(7, 0), &new, &[0xff; 136]), "a blank one has the end");
    }

    #[test]
    fn a_device_that_has_taken_nothing_of_a_file_leaves_boot() {
        let refused = Err(CommissionError::File { place: 3, code: 0x8002, text: String::new() });
        let mute = Err(CommissionError::Mute { place: 3, ms: 2_000 });
        assert!(leaves_boot(&Ok(()), 500) && leaves_boot(&refused, 0));
        assert!(!leaves_boot(&refused, 500) && !leaves_boot(&mute, 0));
    }
}
