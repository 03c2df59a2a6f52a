//! Offsets of structure members in the running kernel, from `/sys/kernel/btf/vmlinux`
//! (`Documentation/bpf/btf.rst`).
//!
//! Parses as much of the format as it takes to find a structure member. Every index is checked.

/// The kernel's type description (BTF) cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// The bytes are not BTF in this machine's byte order.
    #[error("/sys/kernel/btf/vmlinux is not valid BTF; the kernel needs CONFIG_DEBUG_INFO_BTF")]
    NoBtf,
    /// The description ends inside a type.
    #[error(
        "/sys/kernel/btf/vmlinux ends inside type {0}; onbeat does not know this version of the format"
    )]
    Cut(u32),
    /// The kernel has no such member.
    #[error("this kernel has no {0}")]
    NoMember(String),
}

/// A parsed description.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    strings: usize,
    /// Where each type begins; type 0 is `void`.
    types: Vec<usize>,
}

const MAGIC: u32 = 0xeb9f;
const POINTER: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;

#[derive(Clone, Copy)]
struct BtfType {
    name: usize,
    kind: u32,
    members: usize,
    bit_fields: bool,
    /// Size in bytes, or the type this one refers to.
    size_or_type: u32,
    at: usize,
}

/// Offset and type of a structure member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StructMember {
    byte: u32,
    type_id: u32,
}

impl Btf {
    /// Parses a description.
    ///
    /// # Errors
    /// [`BtfError::NoBtf`], [`BtfError::Cut`].
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let header = || -> Option<(usize, usize, usize)> {
            let magic = u16::from_ne_bytes(bytes.get(0..2)?.try_into().ok()?);
            let base = word(4)? as usize;
            let types = word(8)? as usize;
            let length = word(12)? as usize;
            let strings = word(16)? as usize;
            let begin = base.checked_add(types)?;
            let end = begin.checked_add(length)?;
            (u32::from(magic) == MAGIC && end <= bytes.len()).then_some((
                begin,
                end,
                base.checked_add(strings)?,
            ))
        };

        let (mut at, end, strings) = header().ok_or(BtfError::NoBtf)?;
        let mut types = vec![0];
        while at < end {
            types.push(at);
            let id = types.len() as u32 - 1;
            let info = word(at + 4).ok_or(BtfError::Cut(id))?;
            at += 12
                + trailer(info >> 24 & 0x1f, (info & 0xffff) as usize).ok_or(BtfError::Cut(id))?;
        }

        Ok(Self { bytes, strings, types })
    }

    /// Returns the byte offset of member `path` in structure `name`. Names of nested members are
    /// joined by `.`.
    ///
    /// # Errors
    /// [`BtfError::NoMember`].
    pub fn offset(&self, name: &str, path: &str) -> Result<u32, BtfError> {
        let found = self.find(STRUCT, name).and_then(|id| {
            let start = StructMember { byte: 0, type_id: id };
            path.split('.').try_fold(start, |so_far, step| {
                let member = self.member(so_far.type_id, step, 8)?;
                Some(StructMember { byte: so_far.byte.checked_add(member.byte)?, ..member })
            })
        });
        found.map(|member| member.byte).ok_or_else(|| BtfError::NoMember(format!("{name}.{path}")))
    }

    /// Returns the BTF type id by which programs are attached to trace point `name`.
    ///
    /// # Errors
    /// [`BtfError::NoMember`].
    pub fn trace_point(&self, name: &str) -> Result<u32, BtfError> {
        let wanted = format!("btf_trace_{name}");
        self.find(TYPEDEF, &wanted).ok_or_else(|| BtfError::NoMember(format!("trace point {name}")))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }

    fn type_of(&self, id: u32) -> Option<BtfType> {
        let at = *self.types.get(id as usize).filter(|_| id != 0)?;
        let info = self.word(at + 4)?;
        Some(BtfType {
            name: self.word(at)? as usize,
            kind: info >> 24 & 0x1f,
            members: (info & 0xffff) as usize,
            bit_fields: info >> 31 == 1,
            size_or_type: self.word(at + 8)?,
            at,
        })
    }

    fn is_named(&self, offset: usize, name: &str) -> bool {
        let text = self.strings.checked_add(offset).and_then(|at| self.bytes.get(at..));
        text.is_some_and(|text| {
            text.starts_with(name.as_bytes()) && text.get(name.len()) == Some(&0)
        })
    }

    fn find(&self, kind: u32, name: &str) -> Option<u32> {
        let count = u32::try_from(self.types.len()).ok()?;
        (1..count).find(|id| {
            self.type_of(*id)
                .is_some_and(|found| found.kind == kind && self.is_named(found.name, name))
        })
    }

    /// Finds a member by name, also inside unnamed structures; `depth` limits the recursion.
    fn member(&self, type_id: u32, name: &str, depth: u32) -> Option<StructMember> {
        let holder = self.resolved(type_id)?;
        if !matches!(holder.kind, STRUCT | UNION) || depth == 0 {
            return None;
        }

        (0..holder.members).find_map(|index| {
            let at = holder.at + 12 + index * 12;
            let text = self.word(at)? as usize;
            let type_id = self.word(at + 4)?;
            let bits = self.word(at + 8)?;
            let byte = (if holder.bit_fields { bits & 0xff_ffff } else { bits }) / 8;
            if self.is_named(text, name) {
                return Some(StructMember { byte, type_id });
            }

            let inner = if self.is_named(text, "") {
                self.member(type_id, name, depth - 1)?
            } else {
                return None;
            };
            Some(StructMember { byte: byte.checked_add(inner.byte)?, ..inner })
        })
    }

    /// Follows typedefs and qualifiers to the underlying type.
    fn resolved(&self, mut id: u32) -> Option<BtfType> {
        for _ in 0..16 {
            let found = self.type_of(id)?;
            match found.kind {
                // typedef, volatile, const, restrict, type tag
                8..=11 | 18 => id = found.size_or_type,
                POINTER => return None,
                _ => return Some(found),
            }
        }
        None
    }
}

/// Returns the number of bytes after the header of a type of `kind` with `count` members.
const fn trailer(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => count * 12,
        6 | 13 => count * 8,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct rq { int cpu; union { struct inner { long steal; } ; }; }` by hand.
    fn description() -> Vec<u8> {
        let strings = b"\0rq\0cpu\0steal\0int\0";
        let (rq, cpu, steal, int) = (1, 4, 8, 14);
        let structure = |members: u32| STRUCT << 24 | members;
        let types: Vec<u32> = [
            vec![int, 1 << 24, 4, 0],                        // 1: int
            vec![0, structure(1), 8, steal, 1, 64],          // 2: unnamed, steal at byte 8
            vec![0, UNION << 24 | 1, 8, 0, 2, 0],            // 3: unnamed union of 2
            vec![rq, structure(2), 24, cpu, 1, 0, 0, 3, 32], // 4: rq
        ]
        .concat();
        let length = types.len() as u32 * 4;
        let mut bytes = vec![];
        bytes.extend((MAGIC as u16).to_ne_bytes());
        bytes.extend([1, 0]);

        for word in [24, 0, length, length, strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }

        bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_by_name_through_unnamed_structures() {
        let btf = Btf::parse(description()).unwrap();
        assert_eq!(btf.offset("rq", "cpu"), Ok(0));
        assert_eq!(btf.offset("rq", "steal"), Ok(12));
        assert_eq!(btf.offset("rq", "nothing"), Err(BtfError::NoMember("rq.nothing".to_owned())));
        assert_eq!(btf.offset("no_such", "cpu"), Err(BtfError::NoMember("no_such.cpu".to_owned())));
    }

    #[test]
    fn invalid_bytes_are_an_error() {
        assert_eq!(Btf::parse(vec![]).unwrap_err(), BtfError::NoBtf);
        let mut cut = description();
        cut.truncate(60);
        assert_eq!(Btf::parse(cut).unwrap_err(), BtfError::NoBtf);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(at in 0_usize..140, byte in proptest::prelude::any::<u8>()) {
            let mut bytes = description();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(btf) = Btf::parse(bytes) {
                let _ = (btf.offset("rq", "steal"), btf.offset("rq", "cpu.steal"));
            }
        }
    }
}
