//! One joint: its drive's values in the process image, its power state, its set-point.

use super::file::JointSetting;
use super::limits::SetPoint;
use super::power::{DrivePower, JointState, PowerTarget};
use super::status::{DownReason, JointStatus};

/// Cyclic synchronous position (object 0x6060).
const CSP: u8 = 8;

/// What a joint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JointStage {
    /// Waits for its group.
    Idle,
    /// On its way to "operation enabled", until then.
    Enabling {
        until_ns: u64,
    },
    Enabled,
    /// On a quick stop, until then at the latest; down afterwards when there is a reason.
    Leaving {
        until_ns: u64,
        why: DownReason,
    },
    /// Without power, in order.
    Off,
    /// Without power until a reset.
    Down,
}

#[derive(Clone, Debug)]
pub(crate) struct JointDrive {
    setting: JointSetting,
    power: DrivePower,
    pub(crate) set_point: SetPoint,
    pub(crate) stage: JointStage,
    /// Where it stood when it was enabled, in rad.
    pub(crate) start: f64,
    /// How much of the trajectory it follows, 0 to 1 in time.
    pub(crate) ramp: f64,
    /// Beyond its following error for so long.
    beyond_ns: u64,
    /// As sent, in increments.
    target: i32,
    position: i32,
}

/// How long a quick stop may take, in ns, before the power is taken away all the same.
pub(crate) const QUICK_STOP_NS: u64 = 1_000_000_000;

impl JointDrive {
    pub(crate) fn new(setting: &JointSetting, period_s: f64) -> Self {
        Self {
            set_point: SetPoint::new(setting.limits, period_s),
            setting: setting.clone(),
            power: DrivePower::default(),
            stage: JointStage::Idle,
            start: 0.0,
            ramp: 0.0,
            beyond_ns: 0,
            target: 0,
            position: 0,
        }
    }

    /// Takes in what the drive says.
    pub(crate) fn read(&mut self, inputs: &[u8], status: &mut JointStatus) {
        let offsets = self.setting.offsets;
        self.position = i32::from_le_bytes(bytes(inputs, offsets.position));
        status.statusword = u16::from_le_bytes(bytes(inputs, offsets.statusword));
        status.state = JointState::from_statusword(status.statusword);
        status.actual_rad = self.radians(self.position);
        if let Some(at) = offsets.velocity {
            status.velocity_rad_s = f64::from(i32::from_le_bytes(bytes(inputs, at))) / self.setting.increments_per_rad;
        }

        if let Some(at) = offsets.torque {
            status.torque_permille = i16::from_le_bytes(bytes(inputs, at));
        }
    }

    /// Begins to be enabled.
    pub(crate) fn begin(&mut self, until_ns: u64) {
        self.power.begin();
        self.stage = JointStage::Enabling { until_ns };
    }

    /// What new inputs show to be wrong with it; `None` while all is well.
    pub(crate) fn look(
        &mut self,
        status: &JointStatus,
        now_ns: u64,
        (passed_ns, most_ns): (u64, u64),
    ) -> Option<DownReason> {
        match (self.stage, status.state) {
            (JointStage::Enabling { .. }, JointState::OperationEnabled) => {
                // The drive stands at what was sent last; from there the set-point begins.
                self.start = self.radians(self.target);
                self.set_point.start_at(self.start);
                (self.ramp, self.beyond_ns, self.stage) = (0.0, 0, JointStage::Enabled);
                None
            }
            (JointStage::Enabling { until_ns }, _) if now_ns > until_ns || self.power.gave_up() => {
                Some(DownReason::NotEnabled)
            }
            (JointStage::Enabled, JointState::OperationEnabled) => {
                let beyond = status.following_rad.abs() > self.setting.following_rad;
                self.beyond_ns = if beyond { self.beyond_ns + passed_ns } else { 0 };
                (self.beyond_ns > most_ns).then_some(DownReason::FollowingError)
            }
            (JointStage::Enabled, JointState::Fault | JointState::FaultReaction) => Some(DownReason::DriveFault),
            (JointStage::Enabled, _) => Some(DownReason::LeftOperation),
            _ => None,
        }
    }

    /// Follows a quick stop to its end, which only new inputs or time can tell.
    pub(crate) fn leave(&mut self, state: JointState, is_fresh: bool, now_ns: u64) {
        if let JointStage::Leaving { until_ns, why } = self.stage
            && ((is_fresh && !state.holds()) || now_ns > until_ns)
        {
            self.stage = if why == DownReason::None { JointStage::Off } else { JointStage::Down };
        }
    }

    /// Sends controlword and set-point.
    pub(crate) fn write(&mut self, outputs: &mut [u8], status: &mut JointStatus) {
        let aim = match self.stage {
            JointStage::Enabling { .. } | JointStage::Enabled => PowerTarget::Enabled,
            JointStage::Leaving { .. } => PowerTarget::QuickStop,
            JointStage::Idle | JointStage::Off | JointStage::Down => PowerTarget::Off,
        };

        self.target = match self.stage {
            JointStage::Enabled => self.increments(self.set_point.position()),
            JointStage::Leaving { .. } => self.target,
            _ => self.position,
        };

        let offsets = self.setting.offsets;
        put(outputs, offsets.controlword, self.power.controlword(status.state, aim).to_le_bytes());
        put(outputs, offsets.target, self.target.to_le_bytes());
        if let Some(at) = offsets.mode {
            put(outputs, at, [CSP]);
        }

        let is_enabled = self.stage == JointStage::Enabled;
        status.target_rad = if is_enabled { self.set_point.position() } else { self.radians(self.target) };
        status.following_rad = if is_enabled { status.target_rad - status.actual_rad } else { 0.0 };
        status.at = if is_enabled { self.set_point.at() } else { Default::default() };
    }

    fn radians(&self, increments: i32) -> f64 {
        f64::from(increments) / self.setting.increments_per_rad + self.setting.zero_rad
    }

    /// Rounded to the nearest.
    fn increments(&self, radians: f64) -> i32 {
        ((radians - self.setting.zero_rad) * self.setting.increments_per_rad).round() as i32
    }
}

/// Bytes of the image; zeros beyond its end.
fn bytes<const N: usize>(image: &[u8], at: usize) -> [u8; N] {
    image.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

fn put<const N: usize>(image: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = image.get_mut(at..at + N) {
        place.copy_from_slice(&value);
    }
}
