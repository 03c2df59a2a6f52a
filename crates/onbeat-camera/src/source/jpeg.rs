//! JPEG pictures, as cameras send them.

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use onbeat_control::frames::MOST_SIDE;

use crate::convert::Picture;

/// A marker by which the decoder knows that the tables of Huffman codes are those of the standard: many
/// USB cameras leave them out, as in AVI files.
const WITHOUT_TABLES: [u8; 12] = [0xff, 0xe0, 0, 10, b'A', b'V', b'I', b'1', 0, 0, 0, 0];

/// Decodes pictures; keeps the memory that it needs.
#[derive(Debug)]
pub(crate) struct Jpegs {
    is_gray: bool,
    pixels: Vec<u8>,
    completed: Vec<u8>,
    size: (usize, usize),
    channels: usize,
}

impl Jpegs {
    pub(crate) const fn new(is_gray: bool) -> Self {
        Self { is_gray, pixels: Vec::new(), completed: Vec::new(), size: (0, 0), channels: 3 }
    }

    /// Decodes a picture. One without its end is refused: the rest would be gray.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Result<(), String> {
        let whole = whole(bytes)?;
        let bytes = if has_tables(whole) {
            whole
        } else {
            self.completed.clear();
            self.completed.extend_from_slice(&whole[..2]);
            self.completed.extend_from_slice(&WITHOUT_TABLES);
            self.completed.extend_from_slice(&whole[2..]);
            &self.completed
        };

        let most = MOST_SIDE as usize;
        let options = DecoderOptions::default().set_max_width(most).set_max_height(most);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|why| format!("{why:?}"))?;
        let input = decoder.input_colorspace();
        let is_gray = self.is_gray || input == Some(ColorSpace::Luma);
        let wanted = if is_gray { ColorSpace::Luma } else { ColorSpace::RGB };
        decoder.set_options(options.jpeg_set_out_colorspace(wanted));
        let info = decoder.info().ok_or("it has no header")?;
        self.size = (usize::from(info.width), usize::from(info.height));
        self.channels = if is_gray { 1 } else { 3 };
        let length = self.size.0 * self.size.1 * self.channels;
        if length == 0 {
            return Err("it has no pixels".to_owned());
        }
        self.pixels.resize(length, 0);
        decoder.decode_into(&mut self.pixels).map_err(|why| format!("{why:?}"))
    }

    /// Returns the picture that was decoded last.
    pub(crate) fn picture(&self) -> Picture<'_> {
        let (width, height) = self.size;
        let pixels = &self.pixels;
        match self.channels {
            1 => Picture::Gray { width, height, pixels },
            _ => Picture::Rgb { width, height, pixels },
        }
    }
}

/// Checks beginning and end; cuts off what follows the end.
fn whole(bytes: &[u8]) -> Result<&[u8], String> {
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return Err("it does not begin as a JPEG picture".to_owned());
    }
    let end = bytes.windows(2).rposition(|it| it == [0xff, 0xd9]);
    let end = end.ok_or_else(|| format!("its end is missing after {} bytes", bytes.len()))?;
    Ok(&bytes[..end + 2])
}

/// Whether a picture has tables of Huffman codes before its data.
fn has_tables(bytes: &[u8]) -> bool {
    // 0xda: start of the data.
    let found = segments(bytes).find(|(marker, _)| [0xc4, 0xda].contains(marker));
    found.is_none_or(|(marker, _)| marker == 0xc4)
}

/// The segments from the beginning of a picture: their markers, and where they end.
pub(super) fn segments(bytes: &[u8]) -> impl Iterator<Item = (u8, usize)> + '_ {
    let mut at = 2;
    std::iter::from_fn(move || {
        // A marker may have fill bytes before it.
        while matches!(bytes.get(at..at + 2), Some([0xff, 0xff])) {
            at += 1;
        }
        let Some([0xff, marker, high, low]) = bytes.get(at..at + 4) else { return None };
        at += 2 + usize::from(u16::from_be_bytes([*high, *low]));
        Some((*marker, at))
    })
}
