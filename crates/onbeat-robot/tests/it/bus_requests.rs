//! Requests of other processes on a running bus: registers of devices, and what is where on the
//! cable.

use crate::bus_world;

use bus_world::{OPTIONS, TWO, World, clock};
use onbeat_control::{
    BusRequest, CableLink, CablePosition, RegisterAction, RegisterRequest, RequestAnswer,
    RequestFailure, SdoAction, SdoRequest,
};
use onbeat_robot::bus::BusTransfer;
use onbeat_segment::Fault;

const USER_MEMORY: u16 = 0x0f80;

fn read(device: u16, address: u16, bytes: usize) -> BusRequest {
    RegisterRequest { device, address, action: RegisterAction::Read(bytes) }.into()
}

fn write(device: u16, address: u16, bytes: &[u8]) -> BusRequest {
    RegisterRequest { device, address, action: RegisterAction::Write(bytes.to_vec()) }.into()
}

/// Makes a request, and runs cycles until it is answered.
fn answer(world: &mut World<'_>, request: BusRequest) -> RequestAnswer {
    assert!(world.bus.begin_transfer(Box::new(BusTransfer::new(request))).is_ok());
    for _ in 0..3_000 {
        world.cycles(1);
        if let Some(transfer) = world.bus.ended_transfer() {
            return transfer.outcome().expect("an ended transfer has an outcome");
        }
    }
    panic!("no answer");
}

fn positions(world: &mut World<'_>) -> Result<Vec<CablePosition>, RequestFailure> {
    let bytes = answer(world, BusRequest::Rescan)?;
    let numbers = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let position = |number| match number {
        0xffff => CablePosition::NoAnswer,
        0xfffe => CablePosition::Unknown,
        device => CablePosition::Device(device),
    };
    Ok(numbers.map(position).collect())
}

#[test]
fn registers_of_a_device_are_read_while_the_bus_runs() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let count = world.segment().len();
    let asked = [0, 1, count / 2, count - 1];
    let stations = asked.map(|device| answer(&mut world, read(device as u16, 0x0010, 2)).unwrap());
    for device in asked {
        assert_eq!(answer(&mut world, read(device as u16, 0x0130, 1)).unwrap(), [8], "OP");
    }

    assert_eq!(answer(&mut world, read(3, 0x0800, 512)).unwrap().len(), 512);
    assert!(world.bus.is_up() && world.bus.counts().counter_off == 0, "{:?}", world.bus.counts());
    // The same registers, read by position.
    assert_eq!(stations, asked.map(|device| world.registers(device, 0x0010, 2)));
}

#[test]
fn a_mailbox_that_is_mute_in_op_is_reported_with_its_device() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    world.events.clear();
    let identity = |device| SdoRequest {
        device,
        index: 0x1018,
        entry: 1,
        complete: false,
        action: SdoAction::Read,
    };
    assert!(answer(&mut world, identity(1).into()).is_ok());
    assert_eq!(world.events, [], "a mailbox that answers is no event");

    world.inject(Fault::MailMute { device: 1 }, None, 1.0);
    assert_eq!(answer(&mut world, identity(1).into()), Err(RequestFailure::NoReply));
    world.cycles(1);
    let sentences: Vec<String> = world.events.iter().map(|event| event.sentence("knee")).collect();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0]
            .starts_with("the mailbox of knee does not answer (request of object 0x1018:1)"),
        "{sentences:?}"
    );
    assert!(world.bus.is_up() && world.events[0].is_alarm() && world.events[0].device == 1);
    assert!(answer(&mut world, identity(0).into()).is_ok(), "the other one still answers");
}

#[test]
fn a_register_is_written_in_one_device_and_no_other() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    assert_eq!(answer(&mut world, write(1, USER_MEMORY, b"right")), Ok(Vec::new()));
    assert_eq!(answer(&mut world, read(1, USER_MEMORY, 5)).unwrap(), b"right");
    assert_eq!(answer(&mut world, read(0, USER_MEMORY, 5)).unwrap(), [0; 5]);
}

#[test]
fn registers_that_the_bus_sets_itself_are_refused_and_stay_as_they_are() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    let kept = [
        (0x0010, 2), // station address
        (0x0100, 4), // loops of the ports
        (0x0120, 2), // requested state
        (0x0400, 2), // watchdogs
        (0x0420, 2),
        (0x0500, 2),  // EEPROM
        (0x0600, 16), // FMMU
        (0x0800, 8),  // SyncManager
        (0x0910, 8),  // clock
        (0x0f00, 4),  // digital outputs
        (0x0f7f, 2),  // the last of them, and the first byte of user memory
        (0x0313, 2),  // the last error counter, and one beyond
    ];

    for (address, bytes) in kept {
        let before = answer(&mut world, read(1, address, bytes)).unwrap();
        let refused = answer(&mut world, write(1, address, &vec![0xa5; bytes]));
        let after = answer(&mut world, read(1, address, bytes)).unwrap();
        assert_eq!(refused, Err(RequestFailure::KeptByBus), "{address:#06x}");
        // The clock runs on.
        assert!(address == 0x0910 || before == after, "{address:#06x}: {before:?} {after:?}");
    }

    // A read of process memory would take a mail, whatever the client has checked.
    for (address, bytes) in [(0x1000, 8), (0x0fff, 2), (0xffff, 512), (0x0130, 0)] {
        let refused = answer(&mut world, read(1, address, bytes));
        assert_eq!(refused, Err(RequestFailure::KeptByBus), "{address:#06x}");
    }

    world.cycles(200);
    assert!(world.bus.is_up() && world.kinds().len() == 1, "{:?}", world.events);
}

#[test]
fn the_mapping_of_process_data_is_not_written_while_the_bus_runs() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    let count = |index, action| SdoRequest { device: 1, index, entry: 0, complete: false, action };
    for index in [0x1600, 0x1a00, 0x1c12, 0x1c13] {
        let refused = answer(&mut world, count(index, SdoAction::Write(vec![0])).into());
        assert_eq!(refused, Err(RequestFailure::KeptByBus), "{index:#06x}");
    }
    assert_eq!(answer(&mut world, count(0x1c12, SdoAction::Read).into()), Ok(vec![1]));
}

#[test]
fn a_device_that_is_gone_or_not_in_op_is_not_written() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    world.inject(Fault::RefuseState { device: 1, state: 8, code: 0x001d }, None, 1.0);
    world.inject(Fault::AlError { device: 1, code: 0x001b }, Some(5_000_000), 1.0);
    world.cycles(60);
    assert_eq!(answer(&mut world, write(1, USER_MEMORY, b"x")), Err(RequestFailure::NotInOp));
    assert_eq!(answer(&mut world, read(1, 0x0130, 1)).unwrap()[0] & 0x0f, 4, "it can be read");

    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    world.inject(Fault::Cut { device: 1 }, None, 1.0);
    world.cycles(20);
    assert_eq!(answer(&mut world, read(1, 0x0130, 1)), Err(RequestFailure::NoReply));
    assert_eq!(answer(&mut world, write(1, USER_MEMORY, b"x")), Err(RequestFailure::NoReply));
}

#[test]
fn a_lost_reply_is_asked_for_again() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    world.inject(Fault::Lose, Some(20_000_000), 1.0);
    assert_eq!(answer(&mut world, write(0, USER_MEMORY, b"late")), Ok(Vec::new()));
    assert_eq!(answer(&mut world, read(0, USER_MEMORY, 4)).unwrap(), b"late");
}

#[test]
fn a_rescan_says_which_device_is_where_and_disturbs_none() {
    let clock = clock();
    let mut world = World::humanoid(&clock);
    let count = world.segment().len() as u16;
    let all: Vec<CablePosition> = (0..count).map(CablePosition::Device).collect();
    assert_eq!(positions(&mut world), Ok(all.clone()));
    assert_eq!((world.bus.answering(), world.bus.link()), (count, CableLink::Up));

    // What was found before does not count: the last device is gone.
    world.inject(Fault::Cut { device: usize::from(count) - 1 }, None, 1.0);
    world.cycles(20);
    assert_eq!(positions(&mut world), Ok(all[..all.len() - 1].to_vec()));
    assert_eq!(world.bus.answering(), count - 1);
    assert!(world.bus.counts().answered > 0);
}

#[test]
fn without_any_answer_a_rescan_ends_and_no_device_counts_as_answering() {
    let clock = clock();
    let mut world = World::new(TWO, &clock, OPTIONS);
    world.until_up(&mut bus_world::Idle);
    world.inject(Fault::Lose, None, 1.0);
    assert_eq!(positions(&mut world), Err(RequestFailure::NoReply));
    assert_eq!(world.bus.answering(), 0);
}
