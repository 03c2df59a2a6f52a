//! One joint: the values of its drive in the process image, its power state, its set-point.

use super::file::JointSetting;
use super::limits::SetPoint;
use super::power::{DrivePower, JointState, PowerTarget};
use super::status::{DownReason, JointStatus};

/// Cyclic synchronous position, 0x6060 of CiA 402: the drive interpolates to the target of the next
/// cycle.
pub(super) const CSP: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JointStage {
    /// Waiting for its group.
    Idle,
    /// On its way to "operation enabled", until this time.
    Enabling {
        until_ns: u64,
    },
    Enabled,
    /// In a quick stop, until this time at most; down afterwards if there is a reason.
    Leaving {
        until_ns: u64,
        why: DownReason,
    },
    /// Without power, after an orderly stop.
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
    /// Position when it was enabled, in rad.
    pub(crate) start: f64,
    /// Progress of the fade-in, 0 to 1.
    pub(crate) ramp: f64,
    /// Start position and fade-in are kept when the drive is enabled again.
    resumes: bool,
    has_started: bool,
    /// Duration of the excessive following error, in ns.
    beyond_ns: u64,
    /// Target position sent last, in increments.
    target: i32,
    position: i32,
    /// Position when the drive got power, in increments.
    powered_at: i32,
    /// Error code of the drive (object 0x603F), if it maps that; otherwise 0.
    error_code: u16,
    /// Mode of operation that the drive shows (object 0x6061), if it maps that.
    shown_mode: Option<u8>,
}

/// Distance of a joint from its target while its drive does not show its mode, as a part of its
/// maximum following error.
const MODE_SLACK: f64 = 0.25;

/// Time after which the power of a drive in quick stop is removed, in ns.
pub(crate) const QUICK_STOP_NS: u64 = 1_000_000_000;

impl JointDrive {
    pub(crate) fn new(setting: &JointSetting, period_s: f64) -> Self {
        Self {
            set_point: SetPoint::new(setting.limits, period_s),
            setting: setting.clone(),
            power: DrivePower::new(period_s),
            stage: JointStage::Idle,
            start: 0.0,
            ramp: 0.0,
            resumes: false,
            has_started: false,
            beyond_ns: 0,
            target: 0,
            position: 0,
            powered_at: 0,
            error_code: 0,
            shown_mode: None,
        }
    }

    /// Returns the error code of a drive with a fault; 0 if it has none, or does not map it.
    pub(crate) fn error_code(&self, state: JointState) -> u16 {
        // Without a fault it may still hold that of the last one.
        match state {
            JointState::Fault | JointState::FaultReaction => self.error_code,
            _ => 0,
        }
    }

    /// Reads the drive's values.
    pub(crate) fn read(&mut self, inputs: &[u8], status: &mut JointStatus) {
        let offsets = self.setting.offsets;
        self.position = i32::from_le_bytes(bytes(inputs, offsets.position));
        status.statusword = u16::from_le_bytes(bytes(inputs, offsets.statusword));
        status.state = JointState::from_statusword(status.statusword);
        status.actual_rad = self.radians(self.position);
        if let Some(at) = offsets.velocity {
            status.velocity_rad_s =
                f64::from(i32::from_le_bytes(bytes(inputs, at))) / self.setting.increments_per_rad;
        }

        if let Some(at) = offsets.error_code {
            self.error_code = u16::from_le_bytes(bytes(inputs, at));
        }

        self.shown_mode = offsets.shown_mode.map(|at| u8::from_le_bytes(bytes(inputs, at)));

        if let Some(at) = offsets.torque {
            status.torque_permille = i16::from_le_bytes(bytes(inputs, at));
        }
    }

    /// Waits to be enabled after a break; joints that `has_begun` to follow a trajectory keep start
    /// position and fade-in.
    pub(crate) fn resume(&mut self, has_begun: bool) {
        // A joint that was never enabled has no start position.
        self.resumes = has_begun && self.has_started;
        self.stage = JointStage::Idle;
    }

    /// Begins to enable the drive.
    pub(crate) fn begin(&mut self, until_ns: u64) {
        self.power.begin();
        // Also of a drive that has power already.
        (self.target, self.powered_at) = (self.position, self.position);
        self.stage = JointStage::Enabling { until_ns };
    }

    /// Extends the time in which its drive must be enabled by one in which no frame reached it, in ns.
    pub(crate) fn extend_enabling(&mut self, by_ns: u64) {
        if let JointStage::Enabling { until_ns } = &mut self.stage {
            *until_ns = until_ns.saturating_add(by_ns);
        }
    }

    /// Returns why the joint must go down, if new inputs show a reason.
    pub(crate) fn look(
        &mut self,
        status: &JointStatus,
        now_ns: u64,
        passed_ns: u64,
        most_ns: u64,
    ) -> Option<DownReason> {
        match (self.stage, status.state) {
            (JointStage::Enabling { .. }, JointState::OperationEnabled) if self.is_in_mode() => {
                // The drive is at the position sent last, where the set-point begins.
                // Not from the measured position: the drive follows the target it was given, and
                // the difference would be a jump.
                let stands = self.radians(self.target);
                self.set_point.start_at(stands);
                if !std::mem::take(&mut self.resumes) {
                    (self.start, self.ramp) = (stands, 0.0);
                }
                (self.beyond_ns, self.stage, self.has_started) = (0, JointStage::Enabled, true);
                None
            }
            (JointStage::Enabling { .. }, JointState::OperationEnabled) if self.has_drifted() => {
                Some(DownReason::OtherMode)
            }
            (JointStage::Enabling { until_ns }, _) if now_ns > until_ns || self.power.gave_up() => {
                let is_enabled = status.state == JointState::OperationEnabled;
                Some(if is_enabled { DownReason::OtherMode } else { DownReason::NotEnabled })
            }
            (JointStage::Enabled, JointState::OperationEnabled) if !self.is_in_mode() => {
                Some(DownReason::OtherMode)
            }
            (JointStage::Enabled, JointState::OperationEnabled) => {
                let beyond = status.following_rad.abs() > self.setting.following_rad;
                // Without a break: a peak while accelerating is not a joint that is held fast.
                self.beyond_ns = if beyond { self.beyond_ns + passed_ns } else { 0 };
                (self.beyond_ns > most_ns).then_some(DownReason::FollowingError)
            }
            (JointStage::Enabled, JointState::Fault | JointState::FaultReaction) => {
                Some(DownReason::DriveFault)
            }
            (JointStage::Enabled, _) => Some(DownReason::LeftOperation),
            _ => None,
        }
    }

    /// Returns whether the drive follows its target position, as far as it shows that.
    fn is_in_mode(&self) -> bool {
        self.shown_mode.is_none_or(|mode| mode == CSP)
    }

    /// Returns whether the joint has moved farther since power came than a following error may be.
    fn has_drifted(&self) -> bool {
        let off_rad = self.radians(self.position) - self.radians(self.powered_at);
        off_rad.abs() > self.setting.following_rad
    }

    /// Returns the target of a drive with power and without its mode. One that moved with the
    /// position would let a load sink; one far from it is a jump when the drive takes its mode.
    fn held(&self) -> i32 {
        let JointSetting { following_rad, increments_per_rad, .. } = self.setting;
        let slack = (MODE_SLACK * following_rad * increments_per_rad.abs()) as i32;
        let [low, high] =
            [self.position.saturating_sub(slack), self.position.saturating_add(slack)];
        self.target.clamp(low, high)
    }

    /// Ends a quick stop when new inputs show it, or after its maximum time.
    pub(crate) fn leave(&mut self, state: JointState, is_fresh: bool, now_ns: u64) {
        if let JointStage::Leaving { until_ns, why } = self.stage
            // A drive that never reports its state is given up after the time, and its power is off
            // from then on.
            && ((is_fresh && !state.holds()) || now_ns > until_ns)
        {
            self.stage = if why == DownReason::None { JointStage::Off } else { JointStage::Down };
        }
    }

    /// Writes the outputs that keep their start-up values.
    pub(crate) fn keep(&self, outputs: &mut [u8]) {
        for kept in &self.setting.kept {
            if let Some(place) = outputs.get_mut(kept.at..kept.at + kept.bytes.len()) {
                place.copy_from_slice(&kept.bytes);
            }
        }
    }

    /// Writes controlword and set-point.
    pub(crate) fn write(&mut self, outputs: &mut [u8], status: &mut JointStatus) {
        let aim = match self.stage {
            JointStage::Enabling { .. } | JointStage::Enabled => PowerTarget::Enabled,
            JointStage::Leaving { .. } => PowerTarget::QuickStop,
            JointStage::Idle | JointStage::Off | JointStage::Down => PowerTarget::Off,
        };

        self.target = match self.stage {
            JointStage::Enabled => self.increments(self.set_point.position()),
            // A drive that brakes by itself must find the last target, not the position it has now:
            // it would brake around a moving point.
            JointStage::Leaving { .. } => self.target,
            JointStage::Enabling { .. } if status.state == JointState::OperationEnabled => {
                self.held()
            }
            // Target = position while there is no power. When it is switched on, the first target
            // is where it stands.
            _ => self.position,
        };
        if status.state != JointState::OperationEnabled {
            self.powered_at = self.position;
        }

        let offsets = self.setting.offsets;
        put(outputs, offsets.controlword, self.power.controlword(status.state, aim).to_le_bytes());
        put(outputs, offsets.target, self.target.to_le_bytes());
        if let Some(at) = offsets.mode {
            put(outputs, at, [CSP]);
        }

        let is_enabled = self.stage == JointStage::Enabled;
        status.target_rad =
            if is_enabled { self.set_point.position() } else { self.radians(self.target) };
        status.following_rad = if is_enabled { status.target_rad - status.actual_rad } else { 0.0 };
        status.at = if is_enabled { self.set_point.at() } else { Default::default() };
    }

    fn radians(&self, increments: i32) -> f64 {
        f64::from(increments) / self.setting.increments_per_rad + self.setting.zero_rad
    }

    /// Converts to increments, rounded to the nearest.
    fn increments(&self, radians: f64) -> i32 {
        ((radians - self.setting.zero_rad) * self.setting.increments_per_rad).round() as i32
    }
}

/// Reads bytes of the image; zeros beyond its end.
fn bytes<const N: usize>(image: &[u8], at: usize) -> [u8; N] {
    // An offset beyond the image is a layout of another file; it reads as zero and writes nothing,
    // and does not panic in a cycle.
    image.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

fn put<const N: usize>(image: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = image.get_mut(at..at + N) {
        place.copy_from_slice(&value);
    }
}
