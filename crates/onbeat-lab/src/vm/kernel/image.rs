//! From the image that a boot loader takes (`vmlinuz`) to the ELF file inside (`vmlinux`).
//!
//! Under software emulation a kernel needs seconds to decompress itself. QEMU boots the ELF file
//! directly when it has a PVH note.

use std::io;

use object::elf::{FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, LittleEndian};

use super::compression;

/// Why an image cannot be booted.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It has neither an ELF header nor the setup header of an x86 kernel.
    #[error("neither an ELF file nor an x86 kernel image")]
    UnknownFormat,
    /// The payload lies beyond the end of the file.
    #[error("the compressed kernel should end at byte {end}, the file has {length}")]
    Truncated {
        /// Where the payload should end.
        end: usize,
        /// Length of the file.
        length: usize,
    },
    /// The payload could not be decompressed.
    #[error("the compressed kernel is damaged, or in a format other than xz, zstd and lz4: {0}")]
    Payload(io::Error),
    /// The ELF file has no PVH note.
    #[error("no PVH entry point: the kernel was built without CONFIG_PVH")]
    NoPvh,
}

/// Number of 512-byte sectors of setup code; 0 stands for 4.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR: usize = 512;
const ELF: &[u8] = b"\x7fELF";
/// `XEN_ELFNOTE_PHYS32_ENTRY` of include/xen/interface/elfnote.h.
const PVH_NOTE: NoteType = NoteType(18);

/// Returns the ELF file of a kernel image, or of an ELF file itself, checked to have a PVH note.
pub(super) fn vmlinux(image: &[u8]) -> Result<Vec<u8>, ImageError> {
    let elf = if image.starts_with(ELF) { image.to_vec() } else { payload(image)? };
    if has_pvh_note(&elf) { Ok(elf) } else { Err(ImageError::NoPvh) }
}

/// The decompressed payload; see Documentation/arch/x86/boot.rst, fields `payload_offset` and
/// `payload_length`.
fn payload(image: &[u8]) -> Result<Vec<u8>, ImageError> {
    if image.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err(ImageError::UnknownFormat);
    }

    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let offset = word(image, PAYLOAD_OFFSET)?;
    let length = word(image, PAYLOAD_LENGTH)?;
    let start = (sectors + 1) * SECTOR + offset;
    let end = start + length;
    let payload =
        image.get(start..end).ok_or(ImageError::Truncated { end, length: image.len() })?;

    compression::decompress(payload).map_err(ImageError::Payload)
}

fn word(image: &[u8], at: usize) -> Result<usize, ImageError> {
    let bytes = image.get(at..).and_then(|rest| rest.first_chunk());
    let bytes = bytes.ok_or(ImageError::Truncated { end: at + 4, length: image.len() })?;
    Ok(u32::from_le_bytes(*bytes) as usize)
}

/// Whether a 64-bit ELF file has the note that QEMU takes the entry point from.
fn has_pvh_note(elf: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(elf) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let Ok(segments) = header.program_headers(endian, elf) else { return false };

    segments.iter().filter_map(|segment| segment.notes(endian, elf).ok().flatten()).any(
        |mut notes| {
            std::iter::from_fn(|| notes.next().ok().flatten())
                .any(|note| note.n_type(endian) == PVH_NOTE && note.name() == b"Xen")
        },
    )
}

/// The bytes of a section of a 64-bit little-endian ELF file; none when the file lacks it.
pub(super) fn section<'e>(elf: &'e [u8], name: &str) -> Option<&'e [u8]> {
    use object::read::elf::SectionHeader;

    let header = FileHeader64::<LittleEndian>::parse(elf).ok()?;
    let sections = header.sections(LittleEndian, elf).ok()?;
    let (_, found) = sections.section_by_name(LittleEndian, name.as_bytes())?;
    found.data(LittleEndian, elf).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A 64-bit ELF file with one segment of one note.
    pub(in super::super) fn elf_with_note(kind: u32) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        elf[16] = 2;
        elf[18] = 62;
        elf[20] = 1;
        elf[32] = 64;
        elf[52] = 64;
        elf[54] = 56;
        elf[56] = 1;

        let mut segment = [0; 56];
        segment[0] = 4;
        segment[8] = 120;
        segment[32] = 20;
        segment[40] = 20;
        segment[48] = 4;
        elf.extend_from_slice(&segment);

        for word in [4, 4, kind] {
            elf.extend_from_slice(&word.to_le_bytes());
        }
        elf.extend_from_slice(b"Xen\0\x10\0\0\x01");
        elf
    }

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR];
        image[SETUP_SECTORS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET] = 16;
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 2]
            .copy_from_slice(&(payload.len() as u16).to_le_bytes());
        image.extend_from_slice(&[0xcc; 16]);
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn the_payload_of_an_image_is_returned() {
        let elf = elf_with_note(PVH_NOTE.0);
        assert_eq!(vmlinux(&image(&elf)).expect("an image"), elf);
        assert_eq!(vmlinux(&elf).expect("an ELF file"), elf);
    }

    #[test]
    fn a_kernel_without_a_pvh_note_is_refused() {
        assert!(matches!(vmlinux(&elf_with_note(17)), Err(ImageError::NoPvh)));
    }

    #[test]
    fn an_image_that_was_cut_off_is_refused_with_both_lengths() {
        let mut image = image(&elf_with_note(PVH_NOTE.0));
        image.truncate(1100);
        let refused = vmlinux(&image).expect_err("cut off");
        assert_eq!(
            refused.to_string(),
            "the compressed kernel should end at byte 1180, the file has 1100"
        );
        assert!(matches!(vmlinux(b"text"), Err(ImageError::UnknownFormat)));
    }
}
