use std::fmt::Write as _;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use super::*;

const LIMITS: ThumbnailLimits =
    ThumbnailLimits { pictures: 3, side: 64, bytes: 20_000, apart_ns: 100 };
const IMAGE: &str = "sensor_msgs/msg/Image";

/// A message of a picture in one colour.
fn image((width, height): (u32, u32), encoding: &str, level: u8) -> Vec<u8> {
    let mut body = Vec::new();
    let number = |body: &mut Vec<u8>, number: u32| {
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(number.to_le_bytes());
    };
    number(&mut body, 5);
    number(&mut body, 6);
    number(&mut body, 5);
    body.extend(b"left\0");
    number(&mut body, height);
    number(&mut body, width);
    number(&mut body, encoding.len() as u32 + 1);
    body.extend(encoding.as_bytes());
    body.extend([0, 0]);
    number(&mut body, 3 * width);
    number(&mut body, 3 * width * height);
    body.extend(std::iter::repeat_n(level, (3 * width * height) as usize));
    [vec![0, 1, 0, 0], body].concat()
}

fn stream(pictures: &[(&str, u64, u64, Vec<u8>)]) -> Vec<u8> {
    let mut all = b"{\"pictures_of\":\"walk.mcap\"}\n".to_vec();
    for (channel, number, at_ns, bytes) in pictures {
        let mut line = String::new();
        let _ = writeln!(
            line,
            "{{\"picture\":{{\"channel\":\"{channel}\",\"type\":\"{IMAGE}\",\"number\":{number},\"at_ns\":{at_ns},\
             \"utc_offset_ns\":7,\"bytes\":{}}}}}",
            bytes.len()
        );
        all.extend(line.into_bytes());
        all.extend(bytes);
    }
    all.extend(b"{\"cycles\":{},\"cut\":\"\"}\n");
    all
}

/// Size of a small picture, and its first level.
fn decoded(thumbnail: &Thumbnail) -> ((usize, usize), u8) {
    let jpeg = STANDARD.decode(&thumbnail.jpeg).unwrap();
    let mut decoder = JpegDecoder::new(ZCursor::new(&jpeg));
    let pixels = decoder.decode().unwrap();
    let info = decoder.info().unwrap();
    ((info.width.into(), info.height.into()), pixels[0])
}

#[test]
fn each_picture_has_number_and_time_and_some_have_a_small_one() {
    let pictures: Vec<_> = (0..9)
        .map(|i| ("left/image", i + 1, 1000 + 60 * i, image((128, 96), "rgb8", 20 * i as u8)))
        .collect();
    let found = read(stream(&pictures).as_slice(), LIMITS).unwrap();
    let [left] = found.channels.as_slice() else { panic!("{} channels", found.channels.len()) };
    assert_eq!(left.numbers, (1..=9).collect::<Vec<_>>());
    assert_eq!((left.at_ns[0], left.at_ns[8], left.utc_offset_ns), (1000, 1480, 7));
    let places: Vec<usize> = left.pictures.iter().map(|it| it.place).collect();
    assert_eq!(places, [0, 2, 4], "100 ns apart, three at most");
    for small in &left.pictures {
        let ((width, height), level) = decoded(small);
        assert_eq!(([width, height], small.of), (small.size, [128, 96]));
        assert_eq!(small.size, [64, 48]);
        assert!(level.abs_diff(20 * small.place as u8) <= 2);
    }
    assert_eq!(found.account["cut"], "");
}

#[test]
fn what_cannot_be_decoded_is_counted_by_reason() {
    let mut bytes = image((128, 96), "rgb8", 3);
    bytes.truncate(bytes.len() - 1);
    let pictures = [
        ("a", 1, 1000, bytes),
        ("a", 2, 2000, image((8, 8), "16UC1", 1)),
        ("a", 3, 3000, Vec::new()),
        ("b", 1, 4000, image((8, 8), "rgb8", 1)),
    ];
    let found = read(stream(&pictures).as_slice(), LIMITS).unwrap();
    assert_eq!(found.channels[0].numbers, [1, 2, 3]);
    let whys: Vec<&str> = found.channels[0].undecoded.keys().map(String::as_str).collect();
    assert_eq!(whys.len(), 2, "{whys:?}");
    assert!(whys.iter().any(|why| why.contains("ends inside sensor_msgs/msg/Image")), "{whys:?}");
    assert!(whys.iter().any(|why| why.contains("16UC1")), "{whys:?}");
    assert_eq!(found.channels[1].pictures.len(), 1);
}

#[test]
fn a_reader_of_the_log_that_fails_is_quoted() {
    let refused = read(&b"{\"error\":\"cannot open walk.mcap\"}\n"[..], LIMITS).unwrap_err();
    assert_eq!(refused.to_string(), "cannot open walk.mcap");
    let cut = read(&b"{\"pictures_of\":\"walk.mcap\"}\n"[..], LIMITS).unwrap_err();
    assert!(cut.to_string().contains("without an account"), "{cut}");
    let strange = read(&b"hello\n"[..], LIMITS).unwrap_err();
    assert!(strange.to_string().contains("6 bytes"), "{strange}");
}

#[test]
fn no_message_is_read_beyond_its_end() {
    let whole = image((4, 2), "rgb8", 9);
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..4000 {
        let mut bytes = whole[..random.usize(..=whole.len())].to_vec();
        for _ in 0..random.usize(..4) {
            if let Some(byte) =
                random.choice(0..bytes.len().max(1)).and_then(|at| bytes.get_mut(at))
            {
                *byte = random.u8(..);
            }
        }
        let found = read(stream(&[("a", 1, 1, bytes)]).as_slice(), LIMITS).unwrap();
        let [only] = found.channels.as_slice() else { panic!("no channel") };
        assert!(only.pictures.len() + only.undecoded.len() <= 1);
    }
}
