//! Messages with pictures, as logs have them: CDR of `sensor_msgs` and `foxglove_msgs`.

/// A picture of a log, in its own coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoggedPicture<'m> {
    /// Pixels, `step` bytes a row.
    Raw { width: usize, height: usize, encoding: &'m str, step: usize, data: &'m [u8] },
    /// A picture of a format such as `jpeg`.
    Compressed { format: &'m str, data: &'m [u8] },
    /// An access unit of `h264`, `h265` or another codec, with start codes.
    Video { format: &'m str, data: &'m [u8] },
}

impl<'m> LoggedPicture<'m> {
    /// Reads a message of one of the three types.
    pub(super) fn read(type_name: &str, message: &'m [u8]) -> Result<Self, String> {
        Self::of_type(type_name, message)
            .ok_or_else(|| format!("a message of {} bytes ends inside {type_name}", message.len()))
    }

    fn of_type(type_name: &str, message: &'m [u8]) -> Option<Self> {
        let mut fields = Fields::begin(message)?;
        // Time and frame, in all three.
        fields.number()?;
        fields.number()?;
        fields.text()?;
        match type_name {
            "sensor_msgs/msg/Image" => {
                let (height, width) = (fields.number()?, fields.number()?);
                let encoding = fields.text()?;
                // The byte order of pixels of more than a byte, which are not decoded.
                fields.bytes_of(1)?;
                let step = fields.number()?;
                let data = fields.sequence()?;
                Some(Self::Raw { width, height, encoding, step, data })
            }
            "sensor_msgs/msg/CompressedImage" => {
                let format = fields.text()?;
                Some(Self::Compressed { format, data: fields.sequence()? })
            }
            "foxglove_msgs/msg/CompressedVideo" => {
                let data = fields.sequence()?;
                Some(Self::Video { format: fields.text()?, data })
            }
            _ => None,
        }
    }
}

/// Fields of a message, one after the other; numbers are aligned from behind its head.
struct Fields<'m> {
    body: &'m [u8],
    at: usize,
    is_little: bool,
}

impl<'m> Fields<'m> {
    fn begin(message: &'m [u8]) -> Option<Self> {
        let (head, body) = message.split_at_checked(4)?;
        Some(Self { body, at: 0, is_little: head[1] & 1 == 1 })
    }

    fn bytes_of(&mut self, length: usize) -> Option<&'m [u8]> {
        let bytes = self.body.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }

    fn number(&mut self) -> Option<usize> {
        self.at = self.at.next_multiple_of(4);
        let bytes = self.bytes_of(4)?.try_into().ok()?;
        let number =
            if self.is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        Some(number as usize)
    }

    fn sequence(&mut self) -> Option<&'m [u8]> {
        let length = self.number()?;
        self.bytes_of(length)
    }

    fn text(&mut self) -> Option<&'m str> {
        let text = self.sequence()?;
        std::str::from_utf8(text.strip_suffix(&[0]).unwrap_or(text)).ok()
    }
}
