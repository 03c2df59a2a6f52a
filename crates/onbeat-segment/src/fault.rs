//! What can be wrong with a segment, and with frames on their way.

use super::controller::touched;
use super::firmware::SAFEOP;
use super::segment::Segment;

/// One thing that is wrong. Devices are meant by their place in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Frames are lost, by a throw of the dice before or behind the devices.
    Lose,
    /// Frames come back so much later.
    Late {
        /// In ns.
        by_ns: u64,
    },
    /// Frames come back twice.
    Duplicate,
    /// A frame comes back behind the one sent after it.
    Reorder,
    /// Frames come back without their end.
    Truncate,
    /// One bit of a frame behind its Ethernet header is turned around.
    Flip,
    /// Working counters are off, of one device's part or of the whole.
    CounterOff {
        /// `None`: of every datagram that some device answered.
        device: Option<usize>,
        /// What is added.
        by: i16,
    },
    /// The cable to the device's port 0 is cut.
    Cut {
        /// The device.
        device: usize,
    },
    /// Two devices change places on the cables, with all that they are: power, state, stations. When it ends, they change back.
    Swap {
        /// The device.
        device: usize,
        /// The other one.
        with: usize,
    },
    /// The device is taken off the cable, which goes past it. It keeps its power.
    Unplug {
        /// The device.
        device: usize,
    },
    /// The device has no power; when it ends, it begins anew in INIT.
    PowerOff {
        /// The device.
        device: usize,
    },
    /// The device falls back to SAFEOP with this AL status code.
    AlError {
        /// The device.
        device: usize,
        /// AL status code.
        code: u16,
    },
    /// The device refuses changes to a state.
    RefuseState {
        /// The device.
        device: usize,
        /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
        state: u8,
        /// AL status code.
        code: u16,
    },
    /// Changes of state take longer.
    SlowState {
        /// The device.
        device: usize,
        /// In ns.
        by_ns: u64,
    },
    /// The EEPROM interface stays busy.
    SiiBusy {
        /// The device.
        device: usize,
    },
    /// The EEPROM's checksum is wrong.
    SiiChecksum {
        /// The device.
        device: usize,
    },
    /// The EEPROM reads as one that was never written.
    SiiBlank {
        /// The device.
        device: usize,
    },
    /// The device takes mail and never answers.
    MailMute {
        /// The device.
        device: usize,
    },
    /// Replies get lost in the device.
    MailLost {
        /// The device.
        device: usize,
        /// How many.
        mails: u32,
    },
    /// Mails carry a counter that is not theirs.
    MailCounter {
        /// The device.
        device: usize,
        /// How many.
        mails: u32,
    },
    /// The next SDO request is aborted.
    MailAbort {
        /// The device.
        device: usize,
        /// Abort code.
        code: u32,
    },
    /// The device sends an emergency that nobody asked for.
    Emergency {
        /// The device.
        device: usize,
        /// Error code.
        code: u16,
    },
    /// The local clock jumps.
    ClockStep {
        /// The device.
        device: usize,
        /// In ns.
        by_ns: i64,
    },
    /// The quartz runs faster or slower than before.
    ClockDrift {
        /// The device.
        device: usize,
        /// In parts per billion.
        by_ppb: i64,
    },
    /// Inputs are not refreshed.
    Freeze {
        /// The device.
        device: usize,
    },
}

impl Fault {
    /// The word for it in files and logs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Lose => "lose",
            Self::Late { .. } => "late",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Truncate => "truncate",
            Self::Flip => "flip",
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
            Self::MailLost { .. } => "mail-lost",
            Self::MailCounter { .. } => "mail-counter",
            Self::MailAbort { .. } => "mail-abort",
            Self::Emergency { .. } => "emergency",
            Self::ClockStep { .. } => "clock-step",
            Self::ClockDrift { .. } => "clock-drift",
            Self::Freeze { .. } => "freeze",
        }
    }

    /// Whether it befalls frames on their way, and not a device.
    #[must_use]
    pub fn is_of_frames(&self) -> bool {
        matches!(self, Self::Lose | Self::Late { .. } | Self::Duplicate | Self::Reorder | Self::Truncate | Self::Flip)
    }

    /// Whether it is over as soon as it has happened.
    #[must_use]
    pub fn is_momentary(&self) -> bool {
        matches!(
            self,
            Self::AlError { .. }
                | Self::MailLost { .. }
                | Self::MailCounter { .. }
                | Self::MailAbort { .. }
                | Self::Emergency { .. }
                | Self::ClockStep { .. }
        )
    }

    /// The device it is of.
    #[must_use]
    pub fn device(&self) -> Option<usize> {
        match *self {
            Self::CounterOff { device, .. } => device,
            Self::Cut { device }
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
            | Self::MailLost { device, .. }
            | Self::MailCounter { device, .. }
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
    /// Begins a fault of a device or of working counters at the segment's present instant.
    ///
    /// `false` when there is no such device, the device cannot have it (a mailbox fault without a mailbox), or it is a fault of
    /// frames, which belongs to [`super::Link`].
    pub fn begin(&mut self, fault: &Fault) -> bool {
        self.apply(fault, true)
    }

    /// Ends a fault that [`Segment::begin`] began. Momentary ones are over already.
    pub fn end(&mut self, fault: &Fault) -> bool {
        fault.is_momentary() || self.apply(fault, false)
    }

    fn apply(&mut self, fault: &Fault, begins: bool) -> bool {
        let now_ns = self.now_ns;
        if let Fault::CounterOff { device: None, by } = *fault {
            self.counter_offset = if begins { by } else { 0 };
            return true;
        }

        if let Some(is_possible) = self.lay_cables(fault, begins) {
            return is_possible;
        }

        let Some(number) = fault.device() else { return false };
        let Some(device) = self.devices.get_mut(number) else { return false };
        let firmware = &mut device.firmware;
        let controller = &mut device.controller;
        match *fault {
            Fault::CounterOff { by, .. } => controller.counter_offset = if begins { by } else { 0 },
            Fault::PowerOff { .. } => {
                device.powered = !begins;
                if !begins {
                    firmware.power_on(controller, now_ns);
                }
            }
            Fault::AlError { code, .. } => firmware.fall_back(controller, SAFEOP, code),
            Fault::RefuseState { state, code, .. } => firmware.faults.refuses = begins.then_some((state, code)),
            Fault::SlowState { by_ns, .. } => firmware.faults.slower_ns = if begins { by_ns } else { 0 },
            Fault::SiiBusy { .. } => controller.eeprom.stuck = begins,
            Fault::SiiBlank { .. } => controller.eeprom.blank = begins,
            Fault::SiiChecksum { .. } => controller.eeprom.spoil_checksum(),
            Fault::ClockStep { by_ns, .. } => controller.clock.step(by_ns, now_ns),
            Fault::ClockDrift { by_ppb, .. } => {
                controller.clock.bend(if begins { by_ppb as f64 } else { -by_ppb as f64 }, now_ns);
            }
            Fault::Freeze { .. } => firmware.faults.frozen = begins,
            Fault::Emergency { code, .. } => firmware.send_emergency(controller, code),
            _ => {
                let Some(mailbox) = &mut firmware.mailbox else { return false };
                match *fault {
                    Fault::MailMute { .. } => mailbox.faults.mute = begins,
                    Fault::MailLost { mails, .. } => mailbox.faults.lost_replies = mails,
                    Fault::MailCounter { mails, .. } => mailbox.faults.wrong_counters = mails,
                    Fault::MailAbort { code, .. } => mailbox.server.abort_next = Some(code),
                    _ => return false,
                }
            }
        }

        self.wake(number);
        true
    }

    /// What is a matter of cables; `None` for all other faults.
    fn lay_cables(&mut self, fault: &Fault, begins: bool) -> Option<bool> {
        let Self { topology, devices, .. } = self;
        let is_possible = match *fault {
            Fault::Cut { device } => topology.cut(device, !begins),
            Fault::Unplug { device } => topology.unplug(device, begins),
            Fault::Swap { device, with } => {
                let has_port = |device: usize, port| devices[device].controller.has_port(port);
                topology.swap([device, with], has_port)
            }
            _ => return None,
        };

        if is_possible {
            self.settle(touched::PORTS);
        }

        Some(is_possible)
    }
}
