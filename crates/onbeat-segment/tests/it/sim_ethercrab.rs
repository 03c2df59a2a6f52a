//! An independent MainDevice, ethercrab, on the simulated segment with a virtual clock.

use crate::sim_wire;

use onbeat_segment::Segment;
use sim_wire::{Wire, main_device};

#[test]
fn ethercrab_brings_all_59_devices_to_op_and_sees_the_exact_working_counter_for_ten_thousand_cycles()
 {
    let (mut tx, mut rx, main_device) = main_device();
    let mut segment = Segment::from_toml(Segment::HUMANOID).expect("the shipped file is valid");
    let wire = Wire::new(&mut segment);

    let up = async {
        let group = main_device.init_single_group::<64, 2048>(|| wire.now_ns.get()).await?;
        let group = group.into_safe_op(&main_device).await?;
        group.into_op(&main_device).await
    };

    let group = wire.run(&mut tx, &mut rx, up).expect("all devices reach OP");
    assert_eq!(group.len(), 59);
    println!("{} frames to OP", wire.frames.get());

    // 48 drives and 8 I/O devices are read and written, 3 inertial units are read.
    let expected = 48 * 3 + 8 * 3 + 3;
    for cycle in 0..10_000 {
        wire.now_ns.set(wire.now_ns.get() + 900_000);
        let seen = wire.run(&mut tx, &mut rx, group.tx_rx(&main_device)).expect("a cycle");
        assert_eq!((cycle, seen.working_counter), (cycle, expected));
    }

    assert!(
        (0..59).all(|device| segment.status(device).is_some_and(|status| status.al_state == 8))
    );
}
