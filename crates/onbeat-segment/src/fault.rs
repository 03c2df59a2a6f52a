//! Faults of a segment and of frames.

use super::esc::change;
use super::firmware::SAFEOP;
use super::segment::Segment;

/// A fault. Devices are given by their position in the file.
///
/// ```
/// use onbeat_segment::{Fault, Segment};
///
/// let mut segment = Segment::from_toml(Segment::HUMANOID)?;
/// let device = segment.find("left knee").unwrap();
/// assert!(segment.begin(&Fault::PowerOff { device }));
/// assert!(!segment.status(device).unwrap().powered);
/// # Ok::<(), onbeat_segment::DescriptionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Frames are lost, at random before or after the devices.
    Lose,
    /// Frames return later.
    Late { by_ns: u64 },
    /// Frames return twice.
    Duplicate,
    /// A frame returns after the one sent after it.
    Reorder,
    /// Frames return truncated.
    Truncate,
    /// One bit of a frame after its Ethernet header is flipped.
    Flip,
    /// Frames are damaged on the cable to the device's port 0: that port counts them, the ports
    /// behind it count forwarded errors, and the frames are lost.
    Noise { device: usize },
    /// Working counters are wrong, for one device or for all.
    CounterOff {
        /// `None`: every datagram that at least one device processed.
        device: Option<usize>,
        /// Offset added to the working counter.
        by: i16,
    },
    /// The cable to the device's port 0 is cut.
    Cut { device: usize },
    /// Two devices are swapped on the cables, keeping power, state and station address. At the end
    /// they are swapped back.
    Swap {
        device: usize,
        /// The other one.
        with: usize,
    },
    /// The device is removed from the cable, which is reconnected without it. It keeps its power.
    /// The first device of an optional group stands for the group, which loses its power; at the end
    /// its devices restart in INIT.
    Unplug { device: usize },
    /// The device has no power; at the end of the fault it restarts in INIT.
    PowerOff { device: usize },
    /// The device falls back to SAFEOP with this AL status code.
    AlError {
        device: usize,
        /// AL status code.
        code: u16,
    },
    /// The device refuses changes to a state.
    RefuseState {
        device: usize,
        /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
        state: u8,
        /// AL status code.
        code: u16,
    },
    /// Changes of state take longer.
    SlowState { device: usize, by_ns: u64 },
    /// The EEPROM interface stays busy.
    SiiBusy { device: usize },
    /// The EEPROM's checksum is wrong.
    SiiChecksum { device: usize },
    /// The EEPROM reads as one that was never written.
    SiiBlank { device: usize },
    /// The device accepts mail and never replies.
    MailMute { device: usize },
    /// Replies come later.
    MailSlow { device: usize, by_ns: u64 },
    /// Replies are lost in the device.
    MailLost {
        device: usize,
        /// Number of mails.
        mails: u32,
    },
    /// Replies have a wrong counter.
    MailCounter {
        device: usize,
        /// Number of mails.
        mails: u32,
    },
    /// Replies are sent twice.
    MailRepeat {
        device: usize,
        /// Number of mails.
        mails: u32,
    },
    /// A module is missing in its slot: the list of detected modules (0xF050) has 0 for it.
    ModuleMissing {
        device: usize,
        /// Number of the slot, from 0.
        slot: u8,
    },
    /// The next SDO request is aborted.
    MailAbort {
        device: usize,
        /// Abort code.
        code: u32,
    },
    /// The device sends an emergency.
    Emergency {
        device: usize,
        /// Error code.
        code: u16,
    },
    /// The local clock is stepped.
    ClockStep { device: usize, by_ns: i64 },
    /// The rate of the quartz changes.
    ClockDrift {
        device: usize,
        /// In parts per billion.
        by_ppb: i64,
    },
    /// Inputs are not refreshed.
    Freeze { device: usize },
}

impl Fault {
    /// Returns the name of the fault in files and logs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Lose => "lose",
            Self::Late { .. } => "late",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Truncate => "truncate",
            Self::Flip => "flip",
            Self::Noise { .. } => "noise",
            Self::CounterOff { .. } => "counter-off",
            Self::Cut { .. } => "cut",
            Self::Swap { .. } => "swap",
            Self::Unplug { .. } => "unplug",
            Self::PowerOff { .. } => "power-off",
            Self::AlError { .. } => "al-error",
            Self::RefuseState { .. } => "refuse-state",
            Self::SlowState { .. } => "slow-state",
            Self::SiiBusy { .. } => "sii-busy",
            Self::SiiChecksum { .. } => "sii-checksum",
            Self::SiiBlank { .. } => "sii-blank",
            Self::MailMute { .. } => "mail-mute",
            Self::MailSlow { .. } => "mail-slow",
            Self::MailLost { .. } => "mail-lost",
            Self::MailCounter { .. } => "mail-counter",
            Self::MailRepeat { .. } => "mail-repeat",
            Self::ModuleMissing { .. } => "module-missing",
            Self::MailAbort { .. } => "mail-abort",
            Self::Emergency { .. } => "emergency",
            Self::ClockStep { .. } => "clock-step",
            Self::ClockDrift { .. } => "clock-drift",
            Self::Freeze { .. } => "freeze",
        }
    }

    /// Returns whether the fault affects frames, not the state of a device.
    #[must_use]
    pub fn is_of_frames(&self) -> bool {
        matches!(
            self,
            Self::Lose
                | Self::Late { .. }
                | Self::Duplicate
                | Self::Reorder
                | Self::Truncate
                | Self::Flip
                | Self::Noise { .. }
        )
    }

    /// Returns whether the fault ends as soon as it has happened.
    #[must_use]
    pub fn is_momentary(&self) -> bool {
        matches!(
            self,
            Self::AlError { .. }
                | Self::MailLost { .. }
                | Self::MailCounter { .. }
                | Self::MailRepeat { .. }
                | Self::ModuleMissing { .. }
                | Self::MailAbort { .. }
                | Self::Emergency { .. }
                | Self::ClockStep { .. }
        )
    }

    /// Returns the affected device.
    #[must_use]
    pub fn device(&self) -> Option<usize> {
        match *self {
            Self::CounterOff { device, .. } => device,
            Self::Noise { device }
            | Self::Cut { device }
            | Self::Swap { device, .. }
            | Self::Unplug { device }
            | Self::PowerOff { device }
            | Self::AlError { device, .. }
            | Self::RefuseState { device, .. }
            | Self::SlowState { device, .. }
            | Self::SiiBusy { device }
            | Self::SiiChecksum { device }
            | Self::SiiBlank { device }
            | Self::MailMute { device }
            | Self::MailSlow { device, .. }
            | Self::MailLost { device, .. }
            | Self::MailCounter { device, .. }
            | Self::MailRepeat { device, .. }
            | Self::ModuleMissing { device, .. }
            | Self::MailAbort { device, .. }
            | Self::Emergency { device, .. }
            | Self::ClockStep { device, .. }
            | Self::ClockDrift { device, .. }
            | Self::Freeze { device } => Some(device),
            _ => None,
        }
    }
}

impl Segment {
    /// Begins a fault of a device or of working counters at the current instant of the segment.
    ///
    /// Returns `false` when the device does not exist, when it cannot have the fault (a mailbox
    /// fault without a mailbox), or for a fault of frames, which [`super::Link`] handles.
    pub fn begin(&mut self, fault: &Fault) -> bool {
        self.apply(fault, true)
    }

    /// Ends a fault that [`Segment::begin`] began. Momentary faults have already ended.
    pub fn end(&mut self, fault: &Fault) -> bool {
        fault.is_momentary() || self.apply(fault, false)
    }

    fn apply(&mut self, fault: &Fault, begins: bool) -> bool {
        let now_ns = self.now_ns;
        if let Fault::CounterOff { device: None, by } = *fault {
            self.counter_offset = if begins { by } else { 0 };
            return true;
        }

        if let Some(is_possible) = self.apply_cable_fault(fault, begins) {
            return is_possible;
        }

        let Some(number) = fault.device() else { return false };
        let Some(device) = self.devices.get_mut(number) else { return false };
        let firmware = &mut device.firmware;
        let esc = &mut device.esc;
        match *fault {
            Fault::CounterOff { by, .. } => esc.counter_offset = if begins { by } else { 0 },
            Fault::PowerOff { .. } => {
                device.powered = !begins;
                if !begins {
                    firmware.power_on(esc, now_ns);
                }
            }
            Fault::AlError { code, .. } => firmware.fall_back(esc, SAFEOP, code),
            Fault::RefuseState { state, code, .. } => {
                firmware.faults.refuses = begins.then_some((state, code));
            }
            Fault::SlowState { by_ns, .. } => {
                firmware.faults.slower_ns = if begins { by_ns } else { 0 }
            }
            Fault::SiiBusy { .. } => esc.eeprom.stuck = begins,
            Fault::SiiBlank { .. } => esc.eeprom.blank = begins,
            Fault::SiiChecksum { .. } => esc.eeprom.toggle_checksum_error(),
            Fault::ClockStep { by_ns, .. } => esc.clock.step(by_ns, now_ns),
            Fault::ClockDrift { by_ppb, .. } => {
                esc.clock.change_drift(if begins { by_ppb as f64 } else { -by_ppb as f64 }, now_ns);
            }
            Fault::Freeze { .. } => firmware.faults.frozen = begins,
            Fault::Emergency { code, .. } => firmware.send_emergency(esc, code),
            Fault::ModuleMissing { slot, .. } => return firmware.unplug_module(slot),
            _ => {
                let Some(mailbox) = &mut firmware.mailbox else { return false };
                match *fault {
                    Fault::MailMute { .. } => mailbox.faults.mute = begins,
                    Fault::MailSlow { by_ns, .. } => {
                        mailbox.faults.slow_ns = if begins { by_ns } else { 0 };
                    }
                    Fault::MailLost { mails, .. } => mailbox.faults.lost_replies = mails,
                    Fault::MailCounter { mails, .. } => mailbox.faults.wrong_counters = mails,
                    Fault::MailRepeat { mails, .. } => mailbox.faults.repeated_replies = mails,
                    Fault::MailAbort { code, .. } => mailbox.server.abort_next = Some(code),
                    _ => return false,
                }
            }
        }

        self.wake(number);
        true
    }

    /// Applies a fault of cables; `None` for other faults.
    fn apply_cable_fault(&mut self, fault: &Fault, begins: bool) -> Option<bool> {
        if let Fault::Unplug { device } = *fault
            && let Some((_, group)) =
                self.groups.iter().find(|(_, group)| group.first() == Some(&device))
        {
            let group = group.clone();
            return Some(self.unplug_group(&group, begins));
        }

        let Self { topology, devices, .. } = self;
        let is_possible = match *fault {
            Fault::Cut { device } => topology.rearrange(|cables| cables.cut(device, !begins)),
            Fault::Unplug { device } => topology.rearrange(|cables| cables.unplug(device, begins)),
            Fault::Swap { device, with } => {
                let has_port = |device: usize, port| devices[device].esc.has_port(port);
                topology.rearrange(|cables| cables.swap([device, with], has_port))
            }
            _ => return None,
        };

        if is_possible {
            self.rebuild(change::PORTS);
        }

        Some(is_possible)
    }

    /// Unplugs a group, which loses its power, or plugs it in.
    fn unplug_group(&mut self, group: &[usize], begins: bool) -> bool {
        let now_ns = self.now_ns;
        for &number in group {
            let device = &mut self.devices[number];
            if device.powered == begins {
                device.powered = !begins;
                if !begins {
                    device.firmware.power_on(&mut device.esc, now_ns);
                }
            }
            self.wake(number);
        }

        let is_possible = group
            .first()
            .is_some_and(|&head| self.topology.rearrange(|cables| cables.cut(head, !begins)));
        self.rebuild(change::ADDRESS | change::MAPPING | change::PORTS);
        is_possible
    }
}
