//! SDO information: lists of objects and descriptions of objects and entries.

use super::{Dictionary, abort, access, message};

/// Operation codes.
const LIST: u8 = 1;
const LIST_REPLY: u8 = 2;
const OBJECT: u8 = 3;
const OBJECT_REPLY: u8 = 4;
const ENTRY: u8 = 5;
const ENTRY_REPLY: u8 = 6;
const ERROR: u8 = 7;
/// Flag "incomplete": more follows in another mail.
const INCOMPLETE: u8 = 0x80;
/// CoE header, operation code, reserved byte and number of mails left.
const HEAD: usize = 6;

/// A list of objects that can need several mails.
#[derive(Clone, Debug)]
pub(crate) struct ObjectList {
    /// Words of the list.
    words: Vec<u16>,
    /// Number of words sent.
    sent: usize,
}

impl ObjectList {
    /// Creates an empty list with room for `objects` objects.
    pub(crate) fn new(objects: usize) -> Self {
        Self { words: Vec::with_capacity(objects + 6), sent: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.sent = 0;
    }

    pub(crate) fn serve(
        &mut self,
        objects: &Dictionary,
        request: &[u8],
        room: usize,
        reply: &mut Vec<u8>,
    ) {
        let number =
            |at: usize| Some(u16::from_le_bytes([*request.get(at)?, *request.get(at + 1)?]));
        let done = match (request.first().map(|code| code & !INCOMPLETE), number(4)) {
            (Some(LIST), Some(kind)) => self.list(objects, kind).map(|()| {
                self.next_mail(room, reply);
            }),
            (Some(OBJECT), Some(index)) => describe_object(objects, index, reply),
            (Some(ENTRY), Some(index)) => {
                let subindex = request.get(6).copied().unwrap_or_default();
                describe_entry(objects, index, subindex, reply)
            }
            _ => Err(abort::COMMAND),
        };

        if let Err(code) = done {
            head(reply, ERROR, 0);
            reply.extend_from_slice(&code.to_le_bytes());
        }
        // A name that does not fit into the mail is cut.
        reply.truncate(room + 2);
    }

    fn list(&mut self, objects: &Dictionary, kind: u16) -> Result<(), u32> {
        self.clear();
        let with = |right: u16| {
            let has = move |object: &&super::dictionary::Object| {
                objects
                    .entries_of(object)
                    .iter()
                    .any(|entry| right == 0 || entry.access & right != 0)
            };
            objects.objects.iter().filter(has).map(|object| object.index)
        };

        self.words.push(kind);
        match kind {
            0 => {
                let count = |right| with(right).count() as u16;
                self.words.extend([count(0), count(access::OUTPUT), count(access::INPUT), 0, 0]);
            }
            1 => self.words.extend(with(0)),
            2 => self.words.extend(with(access::OUTPUT)),
            3 => self.words.extend(with(access::INPUT)),
            4 | 5 => (),
            _ => return Err(abort::GENERAL),
        }

        Ok(())
    }

    /// Writes the next mail of the list to `reply`. Returns `false` when the whole list was sent.
    pub(crate) fn next_mail(&mut self, room: usize, reply: &mut Vec<u8>) -> bool {
        if self.sent >= self.words.len() {
            return false;
        }

        let per_mail = (room - HEAD) / 2;
        let left = self.words.len() - self.sent;
        let mails_left = left.div_ceil(per_mail) - 1;
        head(reply, LIST_REPLY | if mails_left > 0 { INCOMPLETE } else { 0 }, mails_left as u16);
        let now = left.min(per_mail);
        for word in &self.words[self.sent..self.sent + now] {
            reply.extend_from_slice(&word.to_le_bytes());
        }

        self.sent += now;
        true
    }
}

fn describe_object(objects: &Dictionary, index: u16, reply: &mut Vec<u8>) -> Result<(), u32> {
    let object = objects.find(index).ok_or(abort::NO_OBJECT)?;
    let entries = objects.entries_of(object);
    let is_value = entries.len() == 1;
    let same = |pair: &[super::ObjectEntry]| pair[0].kind == pair[1].kind;
    let record = standard_record(index);
    let is_array = !is_value && record.is_none() && entries[1..].windows(2).all(same);
    let kind = entries[usize::from(!is_value)].kind.number();
    head(reply, OBJECT_REPLY, 0);
    reply.extend_from_slice(&index.to_le_bytes());
    // Other records have no data type; their entries have one.
    let kind = if is_value || is_array { kind } else { record.unwrap_or(0) };
    reply.extend_from_slice(&kind.to_le_bytes());
    reply.push(entries.last().map_or(0, |entry| entry.subindex));
    reply.push(if is_value { 7 } else { 9 - u8::from(is_array) });
    reply.extend_from_slice(object.name.as_bytes());

    Ok(())
}

/// Returns the data type of an object that the standard defines as a record although its entries
/// have the same type (ETG.1000.6, types 0x0020 to 0x0023).
fn standard_record(index: u16) -> Option<u16> {
    match index {
        0x1018 => Some(0x0023),
        0x1600..=0x17ff | 0x1a00..=0x1bff => Some(0x0021),
        _ => None,
    }
}

fn describe_entry(
    objects: &Dictionary,
    index: u16,
    subindex: u8,
    reply: &mut Vec<u8>,
) -> Result<(), u32> {
    let entry = objects.lookup(index, subindex)?;
    head(reply, ENTRY_REPLY, 0);
    reply.extend_from_slice(&index.to_le_bytes());
    reply.push(subindex);
    // Value info: no unit, default or limits.
    reply.push(0);
    reply.extend_from_slice(&entry.kind.number().to_le_bytes());
    reply.extend_from_slice(&entry.kind.bits().to_le_bytes());
    reply.extend_from_slice(&entry.access.to_le_bytes());
    reply.extend_from_slice(entry.name.as_bytes());

    Ok(())
}

fn head(reply: &mut Vec<u8>, code: u8, mails_left: u16) {
    reply.clear();
    reply.extend_from_slice(&(message::SDO_INFORMATION << 12).to_le_bytes());
    reply.push(code);
    reply.push(0);
    reply.extend_from_slice(&mails_left.to_le_bytes());
}
