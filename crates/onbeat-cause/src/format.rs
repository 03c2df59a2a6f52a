//! The kernel's description of its records: `events/*/*/format` and `events/header_page`.
//!
//! Offsets and sizes differ between kernels and architectures, so they are always read from these
//! files. The text is part of the kernel's stable interface (`Documentation/trace/events.rst`).

use std::collections::BTreeMap;

/// The description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A mandatory line is missing.
    #[error(
        "the trace format has no \"{0}\" line; onbeat does not support this kernel's trace format"
    )]
    NoLine(&'static str),
    /// A field line lacks offset, size or sign.
    #[error(
        "the trace format's field line \"{line}\" has no offset, size and sign; onbeat cannot read this event"
    )]
    Field { line: String },
    /// The event lacks a field that the classifier needs.
    #[error(
        "event {event} has no field {field} on this kernel; causes that need it will not be named"
    )]
    NoField { event: String, field: &'static str },
    /// The header does not describe a valid page.
    #[error(
        "the ring buffer's page has a data area of {size} bytes at offset {offset}; no ring buffer page has this layout"
    )]
    NoPage {
        /// Offset of the data area.
        offset: usize,
        size: usize,
    },
}

/// The storage of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldStorage {
    /// A number or a fixed array, in place.
    InPlace,
    /// `__data_loc`: offset of the bytes in the record (low half) and their count (high half).
    Location,
    /// `__rel_loc`: the same, with the offset relative to the end of this field.
    RelativeLocation,
}

/// Position and type of a field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// Offset of the first byte.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Whether the number is signed.
    pub signed: bool,
    /// The storage of the bytes.
    pub holds: FieldStorage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The name of the event.
    pub name: String,
    /// Event id: `common_type` of each record.
    pub id: u16,
    /// Fields by name, including the common ones.
    pub fields: BTreeMap<String, FormatField>,
}

impl EventFormat {
    /// Parses an `events/*/*/format` file.
    ///
    /// # Errors
    /// [`FormatError`], with the missing or malformed line.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let after = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = after("name:").ok_or(FormatError::NoLine("name:"))?.to_owned();
        let id = after("ID:").and_then(|id| id.parse().ok()).ok_or(FormatError::NoLine("ID:"))?;
        // The print format holds C code in which the same words occur.
        let description = text.split("print fmt:").next().unwrap_or(text);
        let fields = fields(description)?;
        Ok(Self { name, id, fields })
    }

    /// Returns the field with this name.
    ///
    /// # Errors
    /// [`FormatError::NoField`].
    pub fn field(&self, name: &'static str) -> Result<FormatField, FormatError> {
        let found = self.fields.get(name).copied();
        found.ok_or_else(|| FormatError::NoField { event: self.name.clone(), field: name })
    }
}

/// The layout of a ring buffer page, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Time stamp of the first record.
    pub timestamp: FormatField,
    /// Number of bytes written, with flags.
    pub commit: FormatField,
    /// Offset of the first record.
    pub data_offset: usize,
    /// Maximum size of all records, in bytes.
    pub data_size: usize,
}

/// Maximum size of a page, in bytes: the largest order that the kernel offers
/// (`buffer_subbuf_size_kb`).
// Buffers of a page are made from this number, and the text may come from a captured file.
const LARGEST_PAGE: usize = 1 << 26;

impl PageLayout {
    /// Parses `events/header_page`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let fields = fields(text)?;
        let field = |name: &'static str| fields.get(name).copied().ok_or(FormatError::NoLine(name));
        let timestamp = field("timestamp")?;
        let commit = field("commit")?;
        let data = field("data")?;
        let fits = |field: FormatField| {
            matches!(field.size, 4 | 8) && field.offset.saturating_add(field.size) <= data.offset
        };
        let whole = data.offset.checked_add(data.size).is_some_and(|end| end <= LARGEST_PAGE);
        if !fits(timestamp) || !fits(commit) || data.size == 0 || !whole {
            return Err(FormatError::NoPage { offset: data.offset, size: data.size });
        }

        Ok(Self { timestamp, commit, data_offset: data.offset, data_size: data.size })
    }

    /// Returns the size of a whole page, in bytes.
    #[must_use]
    pub const fn page_size(&self) -> usize {
        self.data_offset + self.data_size
    }
}

fn fields(text: &str) -> Result<BTreeMap<String, FormatField>, FormatError> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("field:") || line.starts_with("field :"));
    lines
        .map(|line| field(line).ok_or_else(|| FormatError::Field { line: line.to_owned() }))
        .collect()
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`, separated by tabs.
fn field(line: &str) -> Option<(String, FormatField)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.split_once(':')?.1.trim();
    let mut number =
        |key: &str| -> Option<usize> { parts.next()?.strip_prefix(key)?.trim().parse().ok() };
    let offset = number("offset:")?;
    let size = number("size:")?;
    // Kernels before 2.6.31 have no sign.
    let signed = number("signed:").is_some_and(|signed| signed != 0);
    let holds = match declaration {
        located if located.starts_with("__data_loc") => FieldStorage::Location,
        located if located.starts_with("__rel_loc") => FieldStorage::RelativeLocation,
        _ => FieldStorage::InPlace,
    };

    // `char prev_comm[16]`, `void *call_site`: the name stands last, with its array behind it.
    let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
    Some((name.to_owned(), FormatField { offset, size, signed, holds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:void * function;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"field:%s\", REC->prev_comm\n";

    #[test]
    fn a_format_file_has_the_position_of_each_field() {
        let format = EventFormat::parse(SWITCH).unwrap();
        assert_eq!(
            (format.name.as_str(), format.id, format.fields.len()),
            ("sched_switch", 372, 5)
        );
        let in_place = |offset, size, signed| FormatField {
            offset,
            size,
            signed,
            holds: FieldStorage::InPlace,
        };
        assert_eq!(format.field("prev_comm"), Ok(in_place(8, 16, false)));
        assert_eq!(format.field("common_pid"), Ok(in_place(4, 4, true)));
        assert_eq!(format.field("function"), Ok(in_place(24, 8, false)));
        assert_eq!(format.field("name").unwrap().holds, FieldStorage::Location);
        assert!(matches!(format.field("missing"), Err(FormatError::NoField { .. })));
    }

    #[test]
    fn a_page_header_must_describe_a_page() {
        let header = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(PageLayout::parse(header).unwrap().page_size(), 4096);
        let broken = header.replace("offset:16", "offset:8");

        assert!(matches!(PageLayout::parse(&broken), Err(FormatError::NoPage { .. })));
        assert_eq!(PageLayout::parse(""), Err(FormatError::NoLine("timestamp")));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(name:|ID:|field: u64 (timestamp|commit|data);|offset:|size:|signed:|[0-9]{1,25}|;|\n|\t| |\\PC){0,60}") {
            let _ = EventFormat::parse(&text);
            let _ = PageLayout::parse(&text);
        }
    }
}
