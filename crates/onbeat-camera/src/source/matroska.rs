//! Compressed pictures as a Matroska stream, the form in which a decoder takes them one by one.
//!
//! A stream of bytes without a container would be cut into pictures by the decoder's own parser, which
//! knows that one is complete when the next one begins: a whole period late. Specification: RFC 9559 and,
//! for the elements, RFC 8794. Only what a reader needs is written.

/// Returns the head of a stream with one track of video.
pub(super) fn head(codec: &str, private: &[u8], (width, height): (u32, u32)) -> Vec<u8> {
    let ebml = [
        number(&[0x42, 0x86], 1),
        number(&[0x42, 0xf7], 1),
        number(&[0x42, 0xf2], 4),
        number(&[0x42, 0xf3], 8),
        element(&[0x42, 0x82], b"matroska"),
        number(&[0x42, 0x87], 4),
        number(&[0x42, 0x85], 2),
    ];
    let info = [
        number(&[0x2a, 0xd7, 0xb1], 1_000_000),
        element(&[0x4d, 0x80], b"onbeat"),
        element(&[0x57, 0x41], b"onbeat"),
    ];
    let video = [number(&[0xb0], width.into()), number(&[0xba], height.into())].concat();
    let track = [
        number(&[0xd7], 1),
        number(&[0x73, 0xc5], 1),
        number(&[0x83], 1),
        element(&[0x86], codec.as_bytes()),
        element(&[0x63, 0xa2], private),
        element(&[0xe0], &video),
    ];
    let mut stream = element(&[0x1a, 0x45, 0xdf, 0xa3], &ebml.concat());
    // A segment of unknown length: it ends with the stream.
    stream.extend([0x18, 0x53, 0x80, 0x67, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    stream.extend(element(&[0x15, 0x49, 0xa9, 0x66], &info.concat()));
    let track = element(&[0xae], &track.concat());
    stream.extend(element(&[0x16, 0x54, 0xae, 0x6b], &track));
    stream
}

/// Returns the cluster of one picture, with the time at which it is shown.
pub(super) fn picture(shown_ms: u64, is_key: bool, bytes: &[u8]) -> Vec<u8> {
    // Track 1, no time of its own, and the flag of a key frame.
    let mut block = vec![0x81, 0, 0, if is_key { 0x80 } else { 0 }];
    block.extend(bytes);
    let cluster = [number(&[0xe7], shown_ms), element(&[0xa3], &block)].concat();
    element(&[0x1f, 0x43, 0xb6, 0x75], &cluster)
}

fn number(id: &[u8], value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    let mut all = id.to_vec();
    // A length of eight bytes, marked by its first one.
    let length = (content.len() as u64) | 1 << 56;
    all.extend(length.to_be_bytes());
    all.extend(content);
    all
}
