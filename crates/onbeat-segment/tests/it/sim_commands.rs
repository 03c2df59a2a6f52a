//! Commands to a running segment, and the fault log.

use crate::sim_world;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use onbeat_rt::time::Instant;
use onbeat_segment::serving::{ControlSocket, SegmentCommand, SegmentReply, send_command};
use onbeat_segment::{Command, FaultLog, FaultTable, Link, Nic};
use sim_world::frame_of;

const FILE: &str = "[segment]\nseed = 7\n[types.j]\nkind = \"drive\"\n[types.d]\nkind = \"digital\"\n\
    [[devices]]\ntype = \"j\"\nname = \"knee\"\n[[devices]]\ntype = \"d\"\nname = \"foot\"\n\
    [[faults]]\nkind = \"lose\"\nat_ms = 2\nfor_ms = 20\nshare = 0.5\n";

fn fault(kind: &str, device: Option<&str>) -> FaultTable {
    FaultTable {
        kind: kind.to_owned(),
        device: device.map(str::to_owned),
        share: 1.0,
        ..FaultTable::default()
    }
}

/// Sends one broadcast frame per ms. Returns how many returned.
fn frames(link: &mut Link, now_ns: &mut u64, milliseconds: u64) -> u64 {
    let frame = frame_of(&[(Command::Brd, 0, 0x0130, &[0; 2])]);
    let before = link.counts().received;
    for _ in 0..milliseconds {
        *now_ns += 1_000_000;
        link.send(Nic::First, &frame, Instant::from_ns(*now_ns));
        while link.receive(Instant::from_ns(*now_ns + 500_000), &mut [0; 1514]).is_some() {}
    }

    link.counts().received - before
}

/// Returns the log of a run with planned and injected faults.
fn log_of(file: &str) -> String {
    let mut link = Link::from_toml(file).unwrap();
    let mut bytes = Vec::new();
    let mut log = FaultLog::new(link.segment(), &mut bytes);
    let mut now_ns = 1_000_000;
    frames(&mut link, &mut now_ns, 30);
    let words = FaultTable { by: Some(-2), for_ms: Some(3.0), ..fault("clock-step", Some("knee")) };

    assert_eq!(
        SegmentCommand::Fault(words).execute(&mut link, Instant::from_ns(now_ns)),
        SegmentReply::Done { faults: 0 }
    );
    frames(&mut link, &mut now_ns, 5);
    for line in link.drain_log() {
        log.record(&line).unwrap();
    }

    assert_eq!(link.log().len(), 0);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_log_depends_only_on_the_seed() {
    let first = log_of(FILE);
    assert_eq!(first, log_of(FILE));
    assert_ne!(first, log_of(&FILE.replace("seed = 7", "seed = 8")));
    let lines: Vec<serde_json::Value> =
        first.lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    assert_eq!(lines[0]["what"], "begins");
    assert_eq!(
        (&lines[0]["fault"], &lines[0]["frame"], &lines[0]["seed"]),
        (&"lose".into(), &2.into(), &7.into())
    );
    assert_eq!(lines[0]["device"], serde_json::Value::Null);
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["fault"], &last["device"], &last["by"]),
        (&"clock-step".into(), &"knee".into(), &(-2).into())
    );
    assert_eq!(lines.iter().filter(|line| line["what"] == "affects").count() as u64, frames_lost());
}

/// Returns how many frames the planned fault lost.
fn frames_lost() -> u64 {
    let mut link = Link::from_toml(FILE).unwrap();
    frames(&mut link, &mut 1_000_000, 30);
    link.counts().lost
}

#[test]
fn an_injected_fault_is_active_at_once_and_ends_when_healed() {
    let mut link = Link::from_toml(&FILE[..FILE.find("[[faults]]").unwrap()]).unwrap();
    let mut now_ns = 1_000_000;
    assert_eq!(frames(&mut link, &mut now_ns, 3), 3);
    let now = |now_ns: u64| Instant::from_ns(now_ns);

    assert_eq!(
        SegmentCommand::Fault(fault("lose", None)).execute(&mut link, now(now_ns)),
        SegmentReply::Done { faults: 1 }
    );
    let power = SegmentCommand::Fault(fault("power-off", Some("foot")));
    assert_eq!(power.execute(&mut link, now(now_ns)), SegmentReply::Done { faults: 2 });
    assert_eq!(frames(&mut link, &mut now_ns, 3), 0);
    let SegmentReply::Status(status) = SegmentCommand::Status.execute(&mut link, now(now_ns))
    else {
        panic!("a status")
    };

    assert_eq!(status.faults, [fault("lose", None), fault("power-off", Some("foot"))]);
    assert_eq!(
        status.devices.iter().map(|device| device.powered).collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!((status.counts.sent, status.counts.lost, status.seed), (6, 3, 7));
    assert_eq!(
        SegmentCommand::Heal.execute(&mut link, now(now_ns)),
        SegmentReply::Done { faults: 0 }
    );
    assert_eq!(frames(&mut link, &mut now_ns, 3), 3);
}

#[test]
fn an_impossible_fault_is_refused_with_a_sentence() {
    let mut link = Link::from_toml(FILE).unwrap();
    let mut why = |words: FaultTable| match SegmentCommand::Fault(words)
        .execute(&mut link, Instant::from_ns(5))
    {
        SegmentReply::Refused { why } => why,
        other => panic!("{other:?}"),
    };

    assert!(why(fault("burn", None)).starts_with("fault \"burn\" does not exist"));
    assert!(why(fault("cut", None)).starts_with("fault \"cut\" affects a device"));
    assert!(
        why(fault("swap", Some("knee")))
            .starts_with("fault \"swap\" affects two devices; name the other one with --with")
    );
    assert!(why(fault("cut", Some("hip"))).starts_with("the segment has no device \"hip\""));
    assert_eq!(
        why(fault("mail-mute", Some("foot"))),
        "device \"foot\" cannot have the fault \"mail-mute\""
    );
}

#[test]
fn the_socket_of_a_killed_segment_is_replaced_and_that_of_a_running_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/ecat0.sock");
    std::fs::create_dir(folder.path().join("run")).unwrap();
    drop(UnixListener::bind(&path).unwrap());

    assert_eq!(
        send_command(&path, &SegmentCommand::Heal).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );
    let (control, commands) = ControlSocket::open(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ControlSocket::open(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let client = std::thread::spawn({
        let path = path.clone();
        move || send_command(&path, &SegmentCommand::Fault(fault("flip", None))).unwrap()
    });

    let mut link = Link::from_toml(FILE).unwrap();
    while !client.is_finished() {
        commands.execute_pending(&mut link, Instant::from_ns(9));
        std::thread::yield_now();
    }

    assert_eq!(client.join().unwrap(), SegmentReply::Done { faults: 2 });
    drop(control);
    assert!(!path.exists());
}
