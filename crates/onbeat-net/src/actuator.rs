//! A smart actuator: a joint with a local loop of its own, which a commander reaches by packets.
//!
//! Its loop is computed up to the present whenever a packet arrives, in steps of its own period, so
//! that the same packets at the same instants give the same motion. A command is valid for its
//! lifetime: an actuator whose commander is silent switches itself off and comes to rest.
//!
//! Absent on purpose: a clock, and a model of a real motor; what matters here is the protocol.

use super::packet::{ActuatorCommand, ActuatorFeedback, ActuatorMode, WireHeader};

/// Period of the local loop, in nanoseconds.
pub const LOOP_PERIOD_NS: u64 = 250_000;
/// Largest velocity, in rad/s.
pub const MOST_VELOCITY: f64 = 10.0;
/// Largest torque, in N·m.
pub const MOST_TORQUE: f64 = 20.0;
/// Of joint and load, in kg·m².
const INERTIA: f64 = 0.1;
/// Velocity wanted for each radian from the target, in 1/s.
const POSITION_GAIN: f64 = 50.0;
/// Torque for each rad/s from the wanted velocity, in N·m·s.
const VELOCITY_GAIN: f64 = 10.0;
/// Torque of the friction for each rad/s, in N·m·s.
const FRICTION: f64 = 1.0;
/// Steps that are computed for a packet; an actuator at rest needs no more.
const MOST_STEPS: u64 = 40_000;

/// Bits of [`ActuatorFeedback::state`].
const LIFETIME_OVER: u8 = 1;
const VELOCITY_LIMITED: u8 = 2;
const TORQUE_LIMITED: u8 = 4;

/// The state of an actuator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Actuator {
    command: ActuatorCommand,
    sequence: u64,
    /// Arrival of the command; `None` before the first.
    commanded_ns: Option<u64>,
    lifetime_us: u32,
    /// The loop is computed up to here.
    at_ns: u64,
    cycles: u64,
    position: f64,
    velocity: f64,
    torque: f64,
    state: u8,
}

impl Actuator {
    /// Takes a command that arrived at `now_ns`, by the device's clock.
    pub fn take(&mut self, header: &WireHeader, command: ActuatorCommand, now_ns: u64) {
        self.advance(now_ns);
        self.command = command;
        self.sequence = header.sequence;
        self.lifetime_us = header.lifetime_us;
        self.commanded_ns = Some(now_ns);
    }

    /// Returns what it measures at `now_ns`.
    pub fn feedback(&mut self, now_ns: u64) -> ActuatorFeedback {
        self.advance(now_ns);
        let age_us = self.commanded_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns) / 1000);
        ActuatorFeedback {
            mode: self.mode(now_ns),
            state: self.state,
            fault: 0,
            command_age_us: u32::try_from(age_us).unwrap_or(u32::MAX),
            command_sequence: self.sequence,
            position_rad: self.position,
            target_rad: self.command.position_rad,
            velocity_rad_s: self.velocity as f32,
            torque_nm: self.torque as f32,
            current_a: (self.torque / 2.0) as f32,
            supply_v: 48.0,
            temperatures_c: [30.0, 30.0],
            gyro_rad_s: [0.0, 0.0, self.velocity as f32],
            acceleration_m_s2: [0.0, 0.0, 9.81],
            loop_cycles: self.cycles,
            loop_period_ns: LOOP_PERIOD_NS as u32,
            loop_latency_ns: 0,
        }
    }

    /// What the loop controls at an instant: nothing once the lifetime of the command is over.
    fn mode(&self, now_ns: u64) -> ActuatorMode {
        let Some(since_ns) = self.commanded_ns else { return ActuatorMode::Off };
        let lifetime_ns = u64::from(self.lifetime_us) * 1000;
        let is_over = lifetime_ns > 0 && now_ns.saturating_sub(since_ns) >= lifetime_ns;
        if is_over { ActuatorMode::Off } else { self.command.mode }
    }

    fn advance(&mut self, now_ns: u64) {
        let due = now_ns.saturating_sub(self.at_ns) / LOOP_PERIOD_NS;
        // After a long silence it is at rest; the steps in between change nothing.
        let passed_over = due.saturating_sub(MOST_STEPS);
        self.at_ns += passed_over * LOOP_PERIOD_NS;
        self.cycles += due;
        for _ in passed_over..due {
            self.at_ns += LOOP_PERIOD_NS;
            self.step();
        }
    }

    fn step(&mut self) {
        let mode = self.mode(self.at_ns);
        let dt = LOOP_PERIOD_NS as f64 / 1e9;
        let limit = |wanted: f32, own: f64| {
            if wanted > 0.0 { f64::from(wanted).min(own) } else { own }
        };
        let most_velocity = limit(self.command.most_velocity_rad_s, MOST_VELOCITY);
        let most_torque = limit(self.command.most_torque_nm, MOST_TORQUE);

        let towards_target = (self.command.position_rad - self.position) * POSITION_GAIN;
        let wanted = match mode {
            ActuatorMode::Position => towards_target + f64::from(self.command.velocity_rad_s),
            _ => f64::from(self.command.velocity_rad_s),
        };
        let velocity = bounded(wanted, most_velocity);
        let torque = match mode {
            ActuatorMode::Off => 0.0,
            ActuatorMode::Torque => f64::from(self.command.torque_nm),
            ActuatorMode::Position | ActuatorMode::Velocity => {
                (velocity - self.velocity) * VELOCITY_GAIN + velocity * FRICTION
            }
        };
        self.torque = bounded(torque, most_torque);

        self.velocity += (self.torque - self.velocity * FRICTION) / INERTIA * dt;
        self.position += self.velocity * dt;
        let is_off = mode == ActuatorMode::Off && self.commanded_ns.is_some();
        let follows = matches!(mode, ActuatorMode::Position | ActuatorMode::Velocity);
        self.state = flag(is_off && self.command.mode != ActuatorMode::Off, LIFETIME_OVER)
            | flag(follows && velocity.to_bits() != wanted.to_bits(), VELOCITY_LIMITED)
            | flag(self.torque.to_bits() != torque.to_bits(), TORQUE_LIMITED);
    }
}

/// A value within ± `most`; 0 for one that is not a number, which a packet may hold.
fn bounded(value: f64, most: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(-most, most) }
}

const fn flag(condition: bool, bit: u8) -> u8 {
    if condition { bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::PacketKind;

    const MS: u64 = 1_000_000;

    fn header(sequence: u64, lifetime_us: u32) -> WireHeader {
        let kind = PacketKind::ActuatorCommand;
        WireHeader { kind, lifetime_us, ..WireHeader::echo(0, sequence, 1) }
    }

    fn towards(position_rad: f64) -> ActuatorCommand {
        ActuatorCommand { mode: ActuatorMode::Position, position_rad, ..ActuatorCommand::default() }
    }

    #[test]
    fn it_reaches_its_target_within_its_limits() {
        let mut actuator = Actuator::default();
        let mut fastest: f32 = 0.0;
        for ms in 0..2000 {
            actuator.take(&header(ms, 10_000), towards(3.0), ms * MS);
            fastest = fastest.max(actuator.feedback(ms * MS).velocity_rad_s);
        }
        let feedback = actuator.feedback(2000 * MS);
        assert!((feedback.position_rad - 3.0).abs() < 0.001, "{feedback:?}");
        assert!(f64::from(fastest) <= MOST_VELOCITY * 1.01, "{fastest}");
        assert_eq!((feedback.mode, feedback.command_sequence), (ActuatorMode::Position, 1999));
        assert_eq!(feedback.loop_cycles, 2000 * MS / LOOP_PERIOD_NS);
    }

    #[test]
    fn it_stops_when_its_commander_does() {
        let mut actuator = Actuator::default();
        actuator.take(&header(0, 10_000), towards(100.0), 0);
        let moving = actuator.feedback(9 * MS);
        assert_eq!((moving.mode, moving.state & LIFETIME_OVER), (ActuatorMode::Position, 0));
        assert!(moving.velocity_rad_s > 1.0, "{moving:?}");

        let off = actuator.feedback(11 * MS);
        assert_eq!((off.mode, off.state), (ActuatorMode::Off, LIFETIME_OVER));
        let rest = actuator.feedback(3000 * MS);
        assert!(rest.velocity_rad_s.abs() < 1e-6 && rest.command_age_us == 3_000_000, "{rest:?}");

        actuator.take(&header(1, 0), towards(rest.position_rad), 3000 * MS);
        let again = actuator.feedback(100_000 * MS);
        assert_eq!(again.mode, ActuatorMode::Position, "a lifetime of 0 does not end");
    }

    #[test]
    fn whatever_a_packet_holds_its_state_stays_a_number() {
        let mut actuator = Actuator::default();
        for (place, value) in [f64::NAN, f64::INFINITY, -1e300].into_iter().enumerate() {
            let command = ActuatorCommand {
                mode: ActuatorMode::Position,
                position_rad: value,
                velocity_rad_s: f32::NAN,
                torque_nm: f32::INFINITY,
                ..ActuatorCommand::default()
            };
            actuator.take(&header(0, 0), command, place as u64 * 10 * MS);
            let feedback = actuator.feedback(place as u64 * 10 * MS + 9 * MS);
            assert!(feedback.position_rad.is_finite() && feedback.velocity_rad_s.is_finite());
            assert!(f64::from(feedback.torque_nm.abs()) <= MOST_TORQUE);
        }
    }
}
