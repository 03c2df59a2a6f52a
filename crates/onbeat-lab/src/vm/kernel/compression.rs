//! Formats that kernels, modules and packages are compressed in, recognised by their first bytes.

use std::io::{self, Read};

use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The format of `lz4 -l`, which only kernels still use.
const LZ4_LEGACY: &[u8] = b"\x02\x21\x4c\x18";
/// The uncompressed size of a block of `lz4 -l`; the last one may be smaller.
const LZ4_BLOCK: usize = 8 << 20;

/// A reader of what `bytes` holds uncompressed; of `bytes` themselves when they are in none of the
/// known formats.
///
/// What follows the compressed data is ignored: kernels have their uncompressed size there.
pub(super) fn reader(bytes: &[u8]) -> io::Result<Box<dyn Read + '_>> {
    if bytes.starts_with(XZ) {
        return Ok(Box::new(XzReader::new(bytes, false)));
    }
    if bytes.starts_with(ZSTD) {
        return Ok(Box::new(StreamingDecoder::new(bytes).map_err(io::Error::other)?));
    }
    if let Some(blocks) = bytes.strip_prefix(LZ4_LEGACY) {
        return Ok(Box::new(io::Cursor::new(lz4_blocks(blocks)?)));
    }

    Ok(Box::new(bytes))
}

/// The whole of what `bytes` holds uncompressed.
pub(super) fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    reader(bytes)?.read_to_end(&mut content)?;

    Ok(content)
}

/// Blocks of `lz4 -l`, each with its compressed length in front, up to the end or to a length that
/// cannot be one.
fn lz4_blocks(mut bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut block = vec![0; LZ4_BLOCK];
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        // The uncompressed size at the end of a kernel is larger than what remains.
        let Some((compressed, rest)) = rest.split_at_checked(length) else { break };
        let written =
            lz4_flex::block::decompress_into(compressed, &mut block).map_err(io::Error::other)?;
        content.extend_from_slice(&block[..written]);
        bytes = rest;
    }

    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_no_known_format_stay_as_they_are() {
        assert_eq!(decompress(b"\x7fELF").expect("plain bytes"), b"\x7fELF");
    }

    #[test]
    fn zstd_is_recognised_and_what_follows_is_ignored() {
        // A frame of one raw block with 5 bytes, without a checksum.
        let mut bytes = b"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello".to_vec();
        bytes.extend_from_slice(&5_u32.to_le_bytes());
        assert_eq!(decompress(&bytes).expect("a frame of zstd"), b"hello");
    }

    #[test]
    fn lz4_blocks_end_at_the_uncompressed_size_of_the_kernel() {
        // Token: five literals, no match.
        let mut bytes = LZ4_LEGACY.to_vec();
        for _ in 0..2 {
            bytes.extend_from_slice(&6_u32.to_le_bytes());
            bytes.extend_from_slice(b"\x50hello");
        }
        bytes.extend_from_slice(&10_u32.to_le_bytes());
        assert_eq!(decompress(&bytes).expect("two blocks"), b"hellohello");
    }

    #[test]
    fn a_damaged_stream_is_an_error() {
        assert!(decompress(b"\xfd7zXZ\0 this is not xz").is_err());
        assert!(decompress(b"\x28\xb5\x2f\xfd\xff").is_err());
    }
}
