//! The ring of frames as examples.

use std::os::unix::fs::FileExt;

use super::*;

const SMALL: FrameFormat =
    FrameFormat { width: 5, height: 3, channels: 3, layout: PixelLayout::ColumnPlanes };

fn name(of: &str) -> String {
    format!("test-{of}-{}", std::process::id())
}

fn publish(writer: &mut FrameWriter, value: u8) -> u64 {
    writer.pixels().fill(value);
    writer.publish(&FrameTimes { capture_ns: u64::from(value), ..FrameTimes::default() }).0
}

#[test]
fn a_reader_of_the_newest_frame_counts_what_it_skips_and_one_of_each_what_it_lost() {
    let name = name("newest");
    let mut writer = FrameWriter::create(&name, SMALL, 4, "{}").unwrap();
    let (mut newest, mut each) =
        (FrameReader::open(&name).unwrap(), FrameReader::open(&name).unwrap());
    assert!(newest.take(Want::Newest).is_none() && each.take(Want::Each).is_none());

    for value in 1..=10 {
        publish(&mut writer, value);
    }
    let frame = newest.take(Want::Newest).unwrap();
    assert_eq!((frame.number, frame.passed_over, frame.pixels), (10, 9, [10; 45].as_slice()));
    assert!(newest.take(Want::Newest).is_none(), "a frame is taken once");

    let numbers: Vec<u64> =
        std::iter::from_fn(|| each.take(Want::Each).map(|it| it.number)).collect();
    assert_eq!(numbers, [9, 10], "of four slots two are out of the writer's reach");
    assert_eq!((each.received(), each.passed_over()), (2, 8));
}

#[test]
fn a_frame_that_is_being_written_is_not_seen_and_the_newest_stays_readable() {
    let name = name("half");
    let mut writer = FrameWriter::create(&name, SMALL, 4, "{}").unwrap();
    publish(&mut writer, 1);
    let mut reader = FrameReader::open(&name).unwrap();
    // As a writer that is killed within a picture.
    writer.pixels()[..10].fill(99);
    let frame = reader.take(Want::Newest).unwrap();
    assert_eq!((frame.number, frame.pixels), (1, [1; 45].as_slice()));
    assert!(reader.take(Want::Newest).is_none());
}

#[test]
fn another_size_is_another_file_and_the_numbers_go_on() {
    let name = name("size");
    let mut writer = FrameWriter::create(&name, SMALL, 4, r#"{"source": "a"}"#).unwrap();
    publish(&mut writer, 1);
    publish(&mut writer, 2);
    let mut before = FrameReader::open(&name).unwrap();
    let wide = FrameFormat { width: 64, ..SMALL };
    writer.change_format(wide).unwrap();
    assert_eq!(publish(&mut writer, 3), 3);

    assert_eq!(before.take(Want::Newest).unwrap().pixels, [2; 45], "what is mapped stays");
    assert!(matches!(before.check_alive(), Err(FrameError::Replaced { .. })));
    let mut after = FrameReader::open(&name).unwrap();
    let format = after.format();
    let frame = after.take(Want::Each).unwrap();
    assert_eq!((format, frame.number, frame.pixels.len()), (wide, 3, 64 * 3 * 3));
    assert_eq!((after.generation(), after.description()), (2, r#"{"source": "a"}"#.to_owned()));

    let too_large = FrameFormat { width: 100_000, height: 100_000, ..SMALL };
    let why = writer.change_format(too_large).unwrap_err().to_string();
    assert!(why.contains("100000 x 100000") && why.contains("16384"), "{why}");
    assert_eq!(publish(&mut writer, 4), 4, "the camera goes on as before");
}

#[test]
fn a_change_of_size_that_fails_leaves_the_camera_and_its_generation() {
    let name = name("kept");
    let mut writer = FrameWriter::create(&name, SMALL, 4, "{}").unwrap();
    let directory = onbeat_host::runtime_dir::RuntimeDir::own_in_memory().unwrap();
    let in_the_way = directory.path().join(format!("{name}.frames"));
    std::fs::remove_file(&in_the_way).unwrap();
    std::fs::create_dir(&in_the_way).unwrap();
    let wide = FrameFormat { width: 64, ..SMALL };
    let refused = writer.change_format(wide);
    std::fs::remove_dir(&in_the_way).unwrap();
    assert!(matches!(refused, Err(FrameError::File(_))), "a directory has the name: {refused:?}");
    assert_eq!((writer.format(), publish(&mut writer, 1)), (SMALL, 1));

    writer.change_format(wide).unwrap();
    assert_eq!(FrameReader::open(&name).unwrap().generation(), 2);
}

#[test]
fn one_process_is_the_camera_of_a_name_and_readers_learn_of_its_end() {
    let name = name("taken");
    let writer = FrameWriter::create(&name, SMALL, 4, "{}").unwrap();
    let why = FrameWriter::create(&name, SMALL, 4, "{}").unwrap_err().to_string();
    assert!(why.starts_with(&format!("process {} ", std::process::id())), "{why}");

    let reader = FrameReader::open(&name).unwrap();
    assert!(reader.check_alive().is_ok());
    let is_found = |it: &FoundCamera| it.name == name && it.is_alive && it.format == SMALL;
    assert!(cameras().unwrap().0.iter().any(is_found));
    drop(writer);
    assert!(matches!(reader.check_alive(), Err(FrameError::Ended { .. })));
    assert!(matches!(FrameReader::open(&name), Err(FrameError::NoCamera { .. })));
    assert!(matches!(FrameReader::open("../x"), Err(FrameError::BadName { .. })));
}

#[test]
fn the_status_is_a_whole_sentence_of_bounded_length() {
    let name = name("status");
    let mut writer = FrameWriter::create(&name, SMALL, 4, "{}").unwrap();
    let reader = FrameReader::open(&name).unwrap();
    assert_eq!(reader.status(), "");
    writer.set_status("no route to 10.0.0.1");
    assert_eq!(reader.status(), "no route to 10.0.0.1");
    writer.set_status(&"ä".repeat(1000));
    assert_eq!(reader.status(), "ä".repeat(248));
    writer.set_status("");
    assert_eq!(reader.status(), "");
}

#[test]
fn numbers_that_another_process_has_written_are_no_frames() {
    let name = name("numbers");
    let mut writer = FrameWriter::create(&name, SMALL, 4, "{}").unwrap();
    publish(&mut writer, 1);
    let mut reader = FrameReader::open(&name).unwrap();
    let directory = onbeat_host::runtime_dir::RuntimeDir::own_in_memory().unwrap();
    let path = directory.path().join(format!("{name}.frames"));
    let file = std::fs::File::options().write(true).open(path).unwrap();
    for (newest, first) in [(u64::MAX, 0), (u64::MAX, u64::MAX), (1 << 63, 0), (2, u64::MAX)] {
        file.write_all_at(&newest.to_ne_bytes(), format::word::NEWEST as u64 * 8).unwrap();
        file.write_all_at(&first.to_ne_bytes(), format::word::FIRST as u64 * 8).unwrap();
        for want in [Want::Newest, Want::Each] {
            assert!(reader.take(want).is_none(), "{newest} after {first}, {want:?}");
        }
    }
}

#[test]
fn any_header_is_an_error_or_a_ring_whose_parts_are_inside_its_file() {
    let directory = onbeat_host::runtime_dir::RuntimeDir::own_in_memory().unwrap();
    let name = name("header");
    let file_name = format!("{name}.frames");
    let file = directory.create_file(&file_name, 0o640).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 10 << 20).unwrap();
    let mut random = 0x1234_5678_u64;
    let (mut refused, mut opened) = (0, 0);
    for round in 0..2_000 {
        let mut header = [0_u64; 48];
        let plausible: [u64; 15] =
            [format::MAGIC, 1, 10 << 20, 1, 1, 1, 4, 2 << 20, 2 << 20, 4096, 5, 3, 3, 1, 45];
        header[..15].copy_from_slice(&plausible);
        for _ in 0..round % 4 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = 1 + (random >> 33) as usize % 17;
            header[at] = if random & 1 == 0 { random } else { (random >> 40) % 5000 };
        }
        let bytes: Vec<u8> = header.iter().flat_map(|it| it.to_ne_bytes()).collect();
        file.write_all_at(&bytes, 0).unwrap();
        match FrameReader::open(&name) {
            Ok(mut reader) => {
                opened += 1;
                let _ =
                    (reader.take(Want::Newest).is_some(), reader.description(), reader.status());
            }
            Err(_) => refused += 1,
        }
    }
    directory.remove(&file_name).unwrap();
    // Every fourth one is right, and of the others those whose changes are harmless.
    assert!(opened >= 500 && refused >= 500, "{opened} opened, {refused} refused");
}
