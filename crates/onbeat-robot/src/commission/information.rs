//! The dictionary of a device by SDO information (ETG.1000.6, 5.6.3).

use onbeat_control::RequestFailure;
use onbeat_ethercat::coe::MAIL;
use onbeat_ethercat::coe::message::SDO_INFORMATION;
use onbeat_ethercat::sii::stated_text;
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::word;

use super::error::CommissionError;
use super::line::Line;

/// Services; the reply has the next number.
const LIST: u8 = 1;
const OBJECT: u8 = 3;
const ENTRY: u8 = 5;
const ERROR: u8 = 7;
/// "More fragments follow" in the byte of the service.
const MORE: u8 = 0x80;
/// Bytes before the data: CoE header, service, reserved, fragments left.
const HEADER: usize = 6;
/// Most fragments of one reply.
const MOST_FRAGMENTS: usize = 4_096;

/// An object in the dictionary of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectDescription {
    /// Its index.
    pub index: u16,
    /// Data type (ETG.1020).
    pub data_type: u16,
    /// Highest subindex.
    pub highest: u8,
    /// 7 variable, 8 array, 9 record.
    pub code: u8,
    /// Its name.
    pub name: String,
}

/// An entry of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryDescription {
    /// Its subindex.
    pub entry: u8,
    /// Data type (ETG.1020).
    pub data_type: u16,
    /// Length in bits.
    pub bits: u16,
    /// Access rights: bits 0 to 2 readable and 3 to 5 writable in PREOP, SAFEOP and OP, 6 and 7
    /// mappable as output and as input.
    pub access: u16,
    /// Its name.
    pub name: String,
}

impl EntryDescription {
    /// Returns the access rights as `ethercat sdos` and TwinCAT print them: `rwrwrw`, for PREOP,
    /// SAFEOP and OP, then `R` and `T` where it can be mapped.
    ///
    /// ```
    /// use onbeat_robot::commission::EntryDescription;
    ///
    /// let of = |access| EntryDescription { access, ..EntryDescription::default() }.rights();
    /// assert_eq!(of(0x0007), "r-r-r-");
    /// assert_eq!(of(0x007f), "rwrwrw R");
    /// ```
    #[must_use]
    pub fn rights(&self) -> String {
        let mut rights = String::new();
        for state in 0..3 {
            rights.push(if self.access >> state & 1 != 0 { 'r' } else { '-' });
            rights.push(if self.access >> (3 + state) & 1 != 0 { 'w' } else { '-' });
        }
        let mapped = [(0x40, " R"), (0x80, " T")];
        mapped
            .iter()
            .filter(|(bit, _)| self.access & bit != 0)
            .for_each(|(_, word)| rights += word);
        rights
    }
}

impl<W: Wire> Line<'_, W> {
    /// Reads the indices of all objects.
    ///
    /// # Errors
    /// [`CommissionError::Mailbox`] from a device without SDO information;
    /// [`CommissionError::Object`] with an abort code.
    pub fn object_indices(&mut self, place: u16) -> Result<Vec<u16>, CommissionError> {
        /// List of all objects.
        const ALL: [u8; 2] = [1, 0];
        let data = self.information(place, LIST, &ALL, (0, 0))?;
        // The list repeats its type first.
        let indices = data.get(2..).unwrap_or_default().chunks_exact(2);
        Ok(indices.map(|bytes| word(bytes, 0)).collect())
    }

    /// Reads the description of an object.
    ///
    /// # Errors
    /// As [`Line::object_indices`].
    pub fn object(&mut self, place: u16, index: u16) -> Result<ObjectDescription, CommissionError> {
        let data = self.information(place, OBJECT, &index.to_le_bytes(), (index, 0))?;
        if data.len() < 6 {
            return Err(CommissionError::Reply { place, what: "with a short object description" });
        }
        Ok(ObjectDescription {
            index,
            data_type: word(&data, 2),
            highest: data[4],
            code: data[5],
            name: text(&data[6..]),
        })
    }

    /// Reads the description of an entry; `None` where the object has no such entry.
    ///
    /// # Errors
    /// As [`Line::object_indices`].
    pub fn entry(
        &mut self,
        place: u16,
        index: u16,
        entry: u8,
    ) -> Result<Option<EntryDescription>, CommissionError> {
        let [low, high] = index.to_le_bytes();
        // No further values: unit, default, minimum, maximum.
        let data = match self.information(place, ENTRY, &[low, high, entry, 0], (index, entry)) {
            Err(CommissionError::Object { .. }) => return Ok(None),
            data => data?,
        };
        if data.len() < 10 {
            return Err(CommissionError::Reply { place, what: "with a short entry description" });
        }
        Ok(Some(EntryDescription {
            entry,
            data_type: word(&data, 4),
            bits: word(&data, 6),
            access: word(&data, 8),
            name: text(&data[10..]),
        }))
    }

    /// Requests a service; returns the data of all fragments.
    fn information(
        &mut self,
        place: u16,
        service: u8,
        data: &[u8],
        (index, entry): (u16, u8),
    ) -> Result<Vec<u8>, CommissionError> {
        let boxes = self.boxes(place)?;
        let mut body = (SDO_INFORMATION << 12).to_le_bytes().to_vec();
        body.extend_from_slice(&[service, 0, 0, 0]);
        body.extend_from_slice(data);
        self.send_mail(place, boxes, MAIL, &body)?;

        let mut whole = Vec::new();
        // The last fragment. It has the number of those after it; a device that does not count them
        // has the same number in each.
        let mut last = Vec::new();
        for _ in 0..MOST_FRAGMENTS {
            let reply = self.receive_mail(place, boxes, MAIL, |body| {
                body.len() >= HEADER && word(body, 0) >> 12 == SDO_INFORMATION
            })?;
            match reply[2] & !MORE {
                ERROR if reply.len() >= HEADER + 4 => {
                    let code = u32::from(word(&reply, 6)) | u32::from(word(&reply, 8)) << 16;
                    let why = RequestFailure::Abort(code);
                    return Err(CommissionError::Object { place, index, entry, why });
                }
                answered if answered == service + 1 => {
                    if follows(&last, &reply)
                        .ok_or(CommissionError::Reply { place, what: "with a part missing" })?
                    {
                        whole.extend_from_slice(&reply[HEADER..]);
                    }
                }
                _ => {
                    return Err(CommissionError::Reply {
                        place,
                        what: "another information service",
                    });
                }
            }
            if reply[2] & MORE == 0 {
                return Ok(whole);
            }
            last = reply;
        }
        Err(CommissionError::Reply { place, what: "without end" })
    }
}

/// Returns whether a fragment is a new one, and not the last one sent again; `None` if some between
/// them are missing.
fn follows(last: &[u8], reply: &[u8]) -> Option<bool> {
    let left = |fragment: &[u8]| (fragment.len() >= HEADER).then(|| word(fragment, 4));
    let (Some(before @ 1..), Some(left)) = (left(last), left(reply)) else { return Some(true) };
    if left == before {
        return Some(last != reply);
    }
    (left == before - 1).then_some(true)
}

/// Returns a name without padding.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    stated_text(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_taken_once_and_a_missing_one_is_noticed() {
        let fragment = |left: u16, data: u8| {
            let [low, high] = left.to_le_bytes();
            [0, 0x80, LIST + 1, 0, low, high, data]
        };
        assert_eq!(follows(&[], &fragment(2, 1)), Some(true));
        assert_eq!(follows(&fragment(2, 1), &fragment(2, 1)), Some(false), "sent again");
        assert_eq!(follows(&fragment(2, 1), &fragment(1, 2)), Some(true));
        assert_eq!(follows(&fragment(2, 1), &fragment(0, 3)), None);
        assert_eq!(follows(&fragment(2, 1), &fragment(0xffff, 3)), None);
        // Devices that do not count.
        for same in [0, 1] {
            assert_eq!(follows(&fragment(same, 1), &fragment(same, 2)), Some(true));
        }
    }

    #[test]
    fn a_name_is_one_line_without_padding_and_control_characters() {
        assert_eq!(text(b" Status\x1b[2J\nword \0\xff"), "Status [2J word");
        assert_eq!(text(b"Weg in \xb5m"), "Weg in \u{b5}m");
    }
}
