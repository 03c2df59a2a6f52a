//! A robot in a terminal: pure functions from a view to lines.

use onbeat_ethercat::al;
use onbeat_ethercat::event::Event;
use onbeat_ethercat::event_words::{PHASES, RUNGS, stop_reason};
use onbeat_report::units::{Letters, count, percent, time_ns};
use onbeat_robot::motion::{
    DeviceView, DownReason as Reason, JointState, JointView, RobotPhase as Phase, RobotView, Rung,
    SafeStopReason as StopReason,
};

use super::Tone;

/// Width of the label at the start of a line, in columns.
const LABEL_WIDTH: usize = 10;
/// Width of a joint's name, in columns.
const NAME_WIDTH: usize = 20;

const fn phase(phase: Phase) -> &'static str {
    PHASES[phase as usize]
}

const fn rung(rung: Rung) -> &'static str {
    RUNGS[rung as usize]
}

/// A joint's state in words. The reason for a joint being down takes precedence over the drive's
/// state.
const fn state(joint: &JointView) -> &'static str {
    match (joint.reason, joint.state) {
        (Reason::DriveFault, _) => "down: fault",
        (Reason::LeftOperation, _) => "down: disabled",
        (Reason::FollowingError, _) => "down: following",
        (Reason::NotEnabled, _) => "not enabled",
        (Reason::OtherMode, _) => "down: mode",
        (Reason::None, JointState::NotReady) => "not ready",
        (Reason::None, JointState::SwitchOnDisabled) => "off",
        (Reason::None, JointState::ReadyToSwitchOn) => "ready",
        (Reason::None, JointState::SwitchedOn) => "switched on",
        (Reason::None, JointState::OperationEnabled) => "enabled",
        (Reason::None, JointState::QuickStopActive) => "quick stop",
        (Reason::None, JointState::FaultReaction) => "fault reaction",
        (Reason::None, JointState::Fault) => "fault",
    }
}

/// The state of a joint while its device is in OP, else that of the device.
fn shown(device: &DeviceView, joint: &JointView) -> String {
    let is_in_op = device.al_state == Some(8) && device.al_status_code == 0;
    if is_in_op { state(joint).to_owned() } else { al_state(device) }
}

fn al_state(device: &DeviceView) -> String {
    let Some(state) = device.al_state else { return "does not answer".to_owned() };
    let Some(word) = al::name(state.into()) else { return format!("AL state {state}") };
    if device.al_status_code == 0 {
        word.to_owned()
    } else {
        format!("{word} {:#06x}", device.al_status_code)
    }
}

/// Sort key that puts the worst device first: its class from 0, then its following error, largest
/// first.
fn severity(device: &DeviceView) -> (u8, f64) {
    let joint = device.joint.as_ref();
    let class = match (device.al_state, joint) {
        (None, _) => 0,
        (Some(state), _) if state != 8 || device.al_status_code != 0 => 1,
        (_, Some(joint)) if joint.reason != Reason::None => 2,
        (_, Some(joint)) if joint.state != JointState::OperationEnabled => 3,
        (_, Some(_)) => 4,
        (_, None) => 5,
    };

    (class, -joint.map_or(0.0, |joint| joint.following_share))
}

fn worst_first(view: &RobotView) -> Vec<&DeviceView> {
    let mut devices: Vec<&DeviceView> = view.devices.iter().collect();
    devices
        .sort_by(|a, b| severity(a).partial_cmp(&severity(b)).unwrap_or(std::cmp::Ordering::Equal));
    devices
}

fn tone(view: &RobotView) -> Tone {
    match view.rung {
        Rung::SafeStop => Tone::Bad,
        Rung::Hold | Rung::Degrade => Tone::Careful,
        Rung::Run => Tone::Head,
    }
}

/// The full view, at most 80 columns wide: state, bus, loop, the worst `rows` devices, the others
/// in groups, spikes.
pub(crate) fn table(view: &RobotView, rows: usize, letters: Letters) -> Vec<(Tone, String)> {
    let mut lines = head(view, letters);
    let devices = worst_first(view);
    let (listed, left) =
        devices.split_at(rows.min(devices.iter().filter(|device| severity(device).0 < 5).count()));
    let title = format!(
        "{:NAME_WIDTH$}{:16}{:>8}{:>8}{:>16}{:>7}",
        "joint, rad", "state", "target", "actual", "following error", "torque"
    );
    lines.push((Tone::Faint, title));
    lines.extend(listed.iter().map(|device| row(device)));
    lines.extend(groups(left).into_iter().map(|line| (Tone::Plain, line)));

    for spike in &view.spikes {
        let late = time_ns(spike.late_ns, letters);
        lines.push((
            Tone::Careful,
            cut(&format!("{:LABEL_WIDTH$}{:.3} s: {late} late, {}", "spike", spike.t, spike.cause)),
        ));
    }

    lines
}

fn head(view: &RobotView, letters: Letters) -> Vec<(Tone, String)> {
    let bus = &view.bus;
    let of_loop = &view.of_loop;

    let first = format!(
        "{}: {}, {}   {:.3} s at {}   misses {} of {}",
        view.name,
        phase(view.phase),
        rung(view.rung),
        view.time_ns as f64 / 1e9,
        percent(view.speed),
        view.misses[0],
        view.misses[1],
    );

    let answers = match no_answer(view) {
        Some(words) => words,
        None => format!(
            "{} of {} in OP   working counter {} of {}",
            bus.in_op,
            view.devices.len(),
            bus.working_counter,
            bus.expected
        ),
    };
    let second = format!(
        "{:LABEL_WIDTH$}{answers}   cycles {}   lost {}",
        "bus",
        count(bus.cycle),
        count(bus.lost)
    );

    let mean_ns = bus.round_trips.sum_ns.checked_div(bus.round_trips.count).unwrap_or_default();
    let third = format!(
        "{:LABEL_WIDTH$}period {}   round trip {}, longest {}",
        "",
        time_ns(bus.period_ns, letters),
        time_ns(mean_ns, letters),
        time_ns(u64::from(bus.round_trips.most_ns), letters),
    );

    let fourth = format!(
        "{:LABEL_WIDTH$}worst wake-up {}   deadline misses {}   skipped {}   spikes {}",
        "loop",
        time_ns(of_loop.worst_ns, letters),
        count(of_loop.deadline_misses),
        count(of_loop.skipped),
        count(of_loop.spikes),
    );

    let mut lines = vec![(tone(view), cut(&first))];
    if view.stopped_by != StopReason::None {
        let joint = view.stopped_joint.as_deref().unwrap_or_default();
        let why = stop_reason(view.stopped_by as u16, joint, 0);
        lines.push((Tone::Bad, cut(&format!("{:LABEL_WIDTH$}{why}", "stopped"))));
    }

    lines.extend([second, third, fourth].iter().map(|line| (Tone::Plain, cut(line))));
    if let Some(totals) = totals(view) {
        let line = format!("{:LABEL_WIDTH$}{totals}", "so far");
        lines.push((Tone::Careful, cut(&line)));
    }

    lines
}

/// What has happened so far that concerns the operator, with its numbers.
fn totals(view: &RobotView) -> Option<String> {
    let counts = &view.counts;
    let totals = [
        ("safe stops", counts.safe_stops),
        ("joints down", counts.joints_down),
        ("goals refused", counts.goals_refused),
    ];
    let totals: Vec<String> =
        totals.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}")).collect();

    (!totals.is_empty()).then(|| totals.join("   "))
}

/// How long the bus has had no answer. States of devices are unknown then, and not shown.
fn no_answer(view: &RobotView) -> Option<String> {
    let ns = view.bus.no_answer_ns;
    (ns > 0).then(|| format!("no answer for {:.1} s", ns as f64 / 1e9))
}

fn row(device: &DeviceView) -> (Tone, String) {
    let tone = match severity(device).0 {
        0..=2 => Tone::Bad,
        3 => Tone::Careful,
        _ => Tone::Plain,
    };

    let name: String = device.name.chars().take(NAME_WIDTH - 1).collect();
    // Of a drive that does not answer, the numbers received last are not those of now.
    let Some(joint) = device.joint.as_ref().filter(|_| device.al_state.is_some()) else {
        return (tone, format!("{name:NAME_WIDTH$}{}", al_state(device)));
    };
    let shown = shown(device, joint);
    let at = [(joint.at.position, 'P'), (joint.at.velocity, 'V'), (joint.at.acceleration, 'A')];
    let at: String = at.iter().filter(|(at, _)| *at).map(|(_, letter)| *letter).collect();
    let line = format!(
        "{name:NAME_WIDTH$}{shown:16}{:>8.3}{:>8.3}{:>11.4}{:>4.0}%{:>6.0}% {at}",
        rounded(joint.target_rad, 1e3),
        rounded(joint.actual_rad, 1e3),
        rounded(joint.following_rad, 1e4),
        rounded(joint.following_share * 100.0, 1.0),
        rounded(f64::from(joint.torque_permille) / 10.0, 1.0),
    );

    (tone, line.trim_end().to_owned())
}

/// Rounds to multiples of 1 / `parts`. Adding 0 removes the sign of a negative zero.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts + 0.0
}

/// Summary lines for devices that are not listed: number of joints per state, number of other
/// devices.
fn groups(left: &[&DeviceView]) -> Vec<String> {
    let mut lines = Vec::new();
    let joints = left.iter().filter_map(|device| Some((device, device.joint.as_ref()?)));
    let mut states: Vec<(String, usize, f64)> = Vec::new();
    for (device, joint) in joints {
        let following = joint.following_rad.abs();
        let shown = shown(device, joint);
        match states.iter_mut().find(|(word, ..)| *word == shown) {
            Some((_, number, most)) => (*number, *most) = (*number + 1, most.max(following)),
            None => states.push((shown, 1, following)),
        }
    }

    for (word, number, most) in states {
        let name = format!("{number} more");
        lines.push(format!("{name:NAME_WIDTH$}{word:16}{:>16}{most:>11.4}", "at most"));
    }

    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for device in left.iter().filter(|device| device.joint.is_none() && device.al_state == Some(8))
    {
        match kinds.iter_mut().find(|(kind, _)| *kind == device.kind) {
            Some((_, number)) => *number += 1,
            None => kinds.push((device.kind, 1)),
        }
    }

    let kinds: Vec<String> =
        kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    let others =
        left.iter().filter(|device| device.joint.is_none() && device.al_state != Some(8)).count();
    let others = (others > 0).then(|| format!("{others} not in OP"));
    if !kinds.is_empty() || others.is_some() {
        let counted: Vec<String> = kinds.into_iter().chain(others).collect();
        lines.push(cut(&format!("{:NAME_WIDTH$}{}", "other devices", counted.join(", "))));
    }

    lines
}

/// One line for logs.
pub(crate) fn line(view: &RobotView, letters: Letters) -> String {
    let worst =
        worst_first(view).into_iter().find_map(|device| Some((device, device.joint.as_ref()?)));
    let following = worst.map_or(String::new(), |(device, joint)| {
        format!("  following {:.4} rad {}", joint.following_rad, device.name)
    });

    let bus = &view.bus;
    let answers = no_answer(view).unwrap_or_else(|| {
        format!(
            "{}/{} OP  WC {}/{}",
            bus.in_op,
            view.devices.len(),
            bus.working_counter,
            bus.expected
        )
    });

    format!(
        "{:.1} s  {}  {}  {answers}  misses {}  skipped {}  worst {}{following}",
        view.time_ns as f64 / 1e9,
        phase(view.phase),
        rung(view.rung),
        view.misses[0],
        view.counts.skipped,
        time_ns(view.of_loop.worst_ns, letters),
    )
}

/// One line for an event of a robot or its bus; `device` names the joint or device, empty for none.
pub(crate) fn event(event: &Event, device: &str) -> String {
    format!("cycle {}: {}", event.cycle, event.sentence(device))
}

/// The first 80 columns.
fn cut(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::layout::Layout;
    use onbeat_robot::motion::{Robot, RobotSnapshot, SpikeView};
    use onbeat_segment::Segment;

    use super::*;

    fn humanoid() -> RobotView {
        let layout = Layout::from_toml(Segment::HUMANOID).unwrap();
        let robot = Robot::from_toml(Segment::HUMANOID, &layout, 1_000_000).unwrap();
        let mut seen = RobotSnapshot::default();
        seen.al_status[..59].fill((8, 0));
        (seen.cycle.in_op, seen.cycle.devices, seen.cycle.cycle) = (59, 59, 12_345);
        (seen.cycle.working_counter, seen.cycle.expected) = (171, 171);
        (seen.bus.cycles, seen.bus.answered) = (12_345, 12_344);
        (seen.round_trips.count, seen.round_trips.sum_ns, seen.round_trips.most_ns) =
            (100, 1_230_000, 45_600);
        (seen.status.count, seen.status.phase, seen.status.time_ns) =
            (48, Phase::Running, 12_000_000_000);

        for (number, joint) in seen.status.all[..48].iter_mut().enumerate() {
            joint.state = JointState::OperationEnabled;
            (joint.target_rad, joint.actual_rad) = (0.5, 0.499);
            joint.following_rad = 0.000_1 * number as f64;
            joint.torque_permille = -123;
        }

        RobotView::new(&robot, &layout, &seen)
    }

    fn text(view: &RobotView, rows: usize) -> String {
        let lines = table(view, rows, Letters::Ascii);
        assert!(lines.iter().all(|(_, line)| line.chars().count() <= 80), "{lines:#?}");
        lines.into_iter().map(|(_, line)| line + "\n").collect()
    }

    #[test]
    fn a_healthy_robot_takes_few_lines() {
        let mut view = humanoid();
        view.of_loop.worst_ns = 23_400;
        assert_eq!(
            text(&view, 2),
            "\
humanoid: running, run   12.000 s at 100 %   misses 0 of 10
bus       59 of 59 in OP   working counter 171 of 171   cycles 12,345   lost 0
          period 1 ms   round trip 12.3 us, longest 45.6 us
loop      worst wake-up 23.4 us   deadline misses 0   skipped 0   spikes 0
joint, rad          state             target  actual following error torque
right toe           enabled            0.500   0.499     0.0047   2%   -12%
right ankle roll    enabled            0.500   0.499     0.0046   2%   -12%
46 more             enabled                  at most     0.0045
other devices       8 digital, 3 imu
"
        );
    }

    #[test]
    fn failures_come_first_with_their_reason() {
        let mut view = humanoid();
        (view.rung, view.phase, view.misses[0]) = (Rung::SafeStop, Phase::AtRest, 10);
        (view.stopped_by, view.counts.safe_stops, view.counts.joints_down) =
            (StopReason::Misses, 1, 2);
        let place = |view: &RobotView, name: &str| {
            view.devices.iter().position(|device| device.name == name).unwrap()
        };
        let imu = place(&view, "head imu");
        let knee = place(&view, "left knee");
        let jaw = place(&view, "jaw");
        view.devices[imu].al_state = None;
        (view.devices[jaw].al_state, view.devices[jaw].al_status_code) = (Some(4), 0x1b);
        let joint = view.devices[knee].joint.as_mut().unwrap();
        (joint.reason, joint.state, joint.at.position) =
            (Reason::FollowingError, JointState::SwitchOnDisabled, true);
        view.spikes.push(SpikeView {
            t: 3.21,
            late_ns: 345_678,
            cause: "softirq NET_RX".to_owned(),
        });

        assert_eq!(
            text(&view, 3),
            "\
humanoid: at rest, safe stop   12.000 s at 100 %   misses 10 of 10
stopped   missed cycles
bus       59 of 59 in OP   working counter 171 of 171   cycles 12,345   lost 0
          period 1 ms   round trip 12.3 us, longest 45.6 us
loop      worst wake-up 0 ns   deadline misses 0   skipped 0   spikes 0
so far    safe stops 1   joints down 2
joint, rad          state             target  actual following error torque
head imu            does not answer
jaw                 SAFEOP 0x001b      0.500   0.499     0.0032   2%   -12%
left knee           down: following    0.500   0.499     0.0037   2%   -12% P
46 more             enabled                  at most     0.0047
other devices       8 digital, 2 imu
spike     3.210 s: 346 us late, softirq NET_RX
"
        );
    }

    #[test]
    fn without_answers_no_device_state_is_shown() {
        let mut view = humanoid();
        (view.bus.no_answer_ns, view.bus.in_op) = (1_234_000_000, 0);
        view.devices.iter_mut().for_each(|device| device.al_state = None);
        let table = text(&view, 2);
        let line = line(&view, Letters::Ascii);
        assert!(table.contains("does not answer") && !table.contains("enabled"), "{table}");
        assert!(
            table.contains("bus       no answer for 1.2 s   cycles 12,345   lost 0\n"),
            "{table}"
        );
        assert!(line.contains("  no answer for 1.2 s  misses") && !line.contains("OP"), "{line}");
    }

    #[test]
    fn a_log_gets_one_line() {
        assert_eq!(
            line(&humanoid(), Letters::Ascii),
            "12.0 s  running  run  59/59 OP  WC 171/171  misses 0  skipped 0  worst 0 ns  following 0.0047 rad right toe"
        );
    }
}
