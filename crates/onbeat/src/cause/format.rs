//! The kernel's description of its own records: `events/*/*/format` and `events/header_page`.
//!
//! Offsets and sizes differ between kernels and architectures, so nothing is assumed that these files tell.
//! The text is part of the kernel's stable interface (`Documentation/trace/events.rst`).

use std::collections::BTreeMap;

/// A description that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A line that every description has is missing.
    #[error("the trace format has no \"{0}\" line; this kernel's tracing differs from all that onbeat knows")]
    NoLine(&'static str),
    /// A field line does not have offset, size and sign.
    #[error("the trace format's field line \"{line}\" has no offset, size and sign; onbeat cannot read this event")]
    Field {
        /// The line.
        line: String,
    },
    /// A field that the classifier needs is not in the event.
    #[error("event {event} has no field {field} on this kernel; causes that need it will not be named")]
    NoField {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
    },
    /// A page's header describes no page.
    #[error("the ring buffer's page has a data area of {size} bytes at offset {offset}, which no page has")]
    NoPage {
        /// Offset of the data area.
        offset: usize,
        /// Its size.
        size: usize,
    },
}

/// How a field's bytes are to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldStorage {
    /// A number or a fixed array, in place.
    InPlace,
    /// `__data_loc`: where in the record the bytes are (low half) and how many (high half).
    Location,
    /// `__rel_loc`: the same, counted from the end of this field.
    RelativeLocation,
}

/// Place of a field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Whether the number has a sign.
    pub signed: bool,
    /// What is there.
    pub holds: FieldStorage,
}

/// One event's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's name.
    pub name: String,
    /// Its number, in `common_type` of each record.
    pub id: u16,
    /// Its fields by name, the common ones included.
    pub fields: BTreeMap<String, Field>,
}

impl EventFormat {
    /// Reads an `events/*/*/format` file.
    ///
    /// # Errors
    /// [`FormatError`], with the line that is missing or cannot be read.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let after = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = after("name:").ok_or(FormatError::NoLine("name:"))?.to_owned();
        let id = after("ID:").and_then(|id| id.parse().ok()).ok_or(FormatError::NoLine("ID:"))?;
        let description = text.split("print fmt:").next().unwrap_or(text);
        let fields = fields(description)?;
        Ok(Self { name, id, fields })
    }

    /// The field of that name.
    ///
    /// # Errors
    /// [`FormatError::NoField`].
    pub fn field(&self, name: &'static str) -> Result<Field, FormatError> {
        let found = self.fields.get(name).copied();
        found.ok_or_else(|| FormatError::NoField { event: self.name.clone(), field: name })
    }
}

/// The layout of a ring buffer page, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The time stamp of the first record.
    pub timestamp: Field,
    /// How many bytes are written, and flags.
    pub commit: Field,
    /// Where records begin.
    pub data_offset: usize,
    /// How many bytes of records there can be.
    pub data_size: usize,
}

/// Larger pages than the largest order the kernel offers (`buffer_subbuf_size_kb`) are none.
const LARGEST_PAGE: usize = 1 << 26;

impl PageLayout {
    /// Reads `events/header_page`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let fields = fields(text)?;
        let field = |name: &'static str| fields.get(name).copied().ok_or(FormatError::NoLine(name));
        let (timestamp, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
        let fits = |field: Field| matches!(field.size, 4 | 8) && field.offset.saturating_add(field.size) <= data.offset;
        let whole = data.offset.checked_add(data.size).is_some_and(|end| end <= LARGEST_PAGE);
        if !fits(timestamp) || !fits(commit) || data.size == 0 || !whole {
            return Err(FormatError::NoPage { offset: data.offset, size: data.size });
        }

        Ok(Self { timestamp, commit, data_offset: data.offset, data_size: data.size })
    }

    /// Bytes of a whole page.
    #[must_use]
    pub const fn page_size(&self) -> usize {
        self.data_offset + self.data_size
    }
}

fn fields(text: &str) -> Result<BTreeMap<String, Field>, FormatError> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("field:") || line.starts_with("field :"));
    lines.map(|line| field(line).ok_or_else(|| FormatError::Field { line: line.to_owned() })).collect()
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`, with tabs between.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.split_once(':')?.1.trim();
    let mut number = |key: &str| -> Option<usize> { parts.next()?.strip_prefix(key)?.trim().parse().ok() };
    let offset = number("offset:")?;
    let size = number("size:")?;
    // Kernels before 2.6.31 do not tell the sign.
    let signed = number("signed:").is_some_and(|signed| signed != 0);
    let holds = match declaration {
        located if located.starts_with("__data_loc") => FieldStorage::Location,
        located if located.starts_with("__rel_loc") => FieldStorage::RelativeLocation,
        _ => FieldStorage::InPlace,
    };

    let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
    Some((name.to_owned(), Field { offset, size, signed, holds }))
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
    fn a_format_file_tells_where_each_field_is() {
        let format = EventFormat::parse(SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id, format.fields.len()), ("sched_switch", 372, 5));
        let in_place = |offset, size, signed| Field { offset, size, signed, holds: FieldStorage::InPlace };
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
