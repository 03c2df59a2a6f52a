//! The same file, seed, frames and instants give the same bytes, without allocation.

use crate::sim_world::{World, frame_of, last_count};
use assert_no_alloc::violation_count;
use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Segment};

/// Process data of the humanoid, and its working counter.
const IMAGE: usize = 48 * 12 + 8 + 3 * 24;
const COUNT: u16 = 48 * 3 + 8 * 3 + 3;

/// Brings a humanoid to OP. Outputs and inputs of a device share their logical bytes.
fn humanoid(seed: u64) -> World {
    let mut world =
        World::from_toml(&Segment::HUMANOID.replace("seed = 59", &format!("seed = {seed}")));
    world.address_all();
    let mut logical = 0;
    for device in 0..59u16 {
        let status = world.segment.status(usize::from(device)).unwrap();
        let mailbox = if status.output_bytes == 1 { 0 } else { 128 };
        let bytes = status.output_bytes.max(status.input_bytes) as u32;
        world.bring_up(0x1001 + device, mailbox, logical);
        logical += bytes;
    }

    assert_eq!(logical as usize, IMAGE);
    world
}

/// Returns the frames of a thousand cycles, with the FRMW datagram of the clock first.
fn thousand_cycles(world: &mut World) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for cycle in 0..1_000u32 {
        world.wait_ns(990_000);
        let image = [cycle as u8; IMAGE];
        let mut frame =
            frame_of(&[(Command::Frmw, 0x1001, 0x0910, &[0; 8]), (Command::Lrw, 0, 0, &image)]);
        world.pass(&mut frame);
        assert_eq!(last_count(&frame), COUNT);
        frames.push(frame);
    }

    frames
}

#[test]
fn the_bytes_depend_only_on_the_seed() {
    let first = thousand_cycles(&mut humanoid(59));
    assert_eq!(first, thousand_cycles(&mut humanoid(59)));
    assert_ne!(first, thousand_cycles(&mut humanoid(60)));
}

#[test]
fn additional_calls_of_advance_change_nothing() {
    let first = thousand_cycles(&mut humanoid(59));
    let mut world = humanoid(59);
    let mut frames = Vec::new();
    for cycle in 0..1_000u32 {
        for part in [330_000, 330_000, 330_000] {
            world.wait_ns(part);
            world.segment.advance(Instant::from_ns(world.now_ns));
        }

        let image = [cycle as u8; IMAGE];
        let mut frame =
            frame_of(&[(Command::Frmw, 0x1001, 0x0910, &[0; 8]), (Command::Lrw, 0, 0, &image)]);
        world.pass(&mut frame);
        frames.push(frame);
    }

    assert_eq!(first, frames);
}

#[test]
fn frames_do_not_allocate() {
    let mut world = humanoid(59);
    let image = [6; IMAGE];
    let cyclic =
        frame_of(&[(Command::Frmw, 0x1001, 0x0910, &[0; 8]), (Command::Lrw, 0, 0, &image)]);
    let mut request = vec![10, 0, 0, 0, 0, 3, 0x00, 0x20, 0x40, 0x18, 0x10, 1, 0, 0, 0, 0];
    request.resize(128, 0);
    let mail = frame_of(&[
        (Command::Fpwr, 0x1002, 0x1000, &request),
        (Command::Fprd, 0x1002, 0x1080, &[0; 128]),
    ]);
    let mut frame = Vec::with_capacity(1514);
    let before = violation_count();

    for cycle in 0..200 {
        frame.clear();
        frame.extend_from_slice(if cycle % 2 == 0 { &cyclic } else { &mail });
        world.now_ns += 500_000;
        let now = Instant::from_ns(world.now_ns);
        assert_no_alloc::assert_no_alloc(|| world.segment.frame(&mut frame, now));
    }

    assert_eq!(violation_count(), before);
    let planted = assert_no_alloc::assert_no_alloc(|| Vec::<u8>::with_capacity(64));
    assert!(violation_count() > before, "the counter counts: {}", planted.capacity());
}
