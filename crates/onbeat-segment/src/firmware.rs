//! What runs on a device: AL state machine, mailbox, and the model at its cycle.

pub(crate) use onbeat_ethercat::al::{BOOT, INIT, OP, PREOP, SAFEOP};
use onbeat_ethercat::al::{ERROR, STATE};

use super::coe::Dictionary;
use super::controller::{Controller, event};
use super::device::{Model, Step};
use super::mailbox::Mailbox;
use super::process_data::{Mapped, Rules};

/// AL status codes (ETG.1020).
pub(crate) mod code {
    pub(crate) const INVALID_CHANGE: u16 = 0x0011;
    pub(crate) const UNKNOWN_STATE: u16 = 0x0012;
    pub(crate) const NO_BOOTSTRAP: u16 = 0x0013;
    pub(crate) const MAILBOX_SETUP: u16 = 0x0016;
    pub(crate) const NO_OUTPUTS: u16 = 0x0019;
    pub(crate) const WATCHDOG: u16 = 0x001b;
    pub(crate) const OUTPUT_SETUP: u16 = 0x001d;
    pub(crate) const INPUT_SETUP: u16 = 0x001e;
    pub(crate) const NO_SYNC: u16 = 0x002d;
    pub(crate) const CLOCK_SETUP: u16 = 0x0030;
}

/// A device that nothing drives lives on in steps of this length, its process data open or not.
const FREE_RUN_OPEN_NS: u64 = 5_000_000;
const FREE_RUN_NS: u64 = 1_000_000;
/// Of a longer pause, only the end is lived through.
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

/// Where mail goes: start and length of each mailbox, on the first two SyncManagers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mailboxes {
    pub(crate) to_device: (u16, u16),
    pub(crate) to_main: (u16, u16),
    /// What the device can do with CoE, see [`super::coe::details`].
    pub(crate) coe: u8,
}

/// Where process data of one direction stand.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    /// `None`: the device has no SyncManager for this direction.
    pub(crate) channel: Option<usize>,
    pub(crate) start: u16,
    /// The object that lists the PDOs.
    pub(crate) assignment: u16,
    pub(crate) rules: Rules,
}

/// What firmware is made with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) mailboxes: Option<Mailboxes>,
    pub(crate) outputs: Area,
    pub(crate) inputs: Area,
    /// How long a change of state takes.
    pub(crate) state_ns: u64,
    /// From a frame's passing to the cycle of the model that it asks for.
    pub(crate) delay_ns: u64,
    /// OP is refused before outputs came.
    pub(crate) needs_outputs: bool,
}

/// What is wrong with the firmware.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirmwareFaults {
    /// Changes to this state are refused, with this AL status code.
    pub(crate) refuses: Option<(u8, u16)>,
    /// Changes of state take so much longer.
    pub(crate) slower_ns: u64,
    /// Inputs are not refreshed any more.
    pub(crate) frozen: bool,
}

/// State, objects and model of a device. What each of its cycles touches comes first, in few lines of the cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Firmware {
    pending: Option<(u8, u64)>,
    stepped_ns: u64,
    /// When the cycle that process data asked for is due; `u64::MAX` for none.
    cycle_due_ns: u64,
    state: u8,
    error: bool,
    fresh_outputs: bool,
    outputs_seen: bool,
    pub(crate) faults: FirmwareFaults,
    pub(crate) outputs: Mapped,
    pub(crate) inputs: Mapped,
    pub(crate) objects: Dictionary,
    pub(crate) model: Model,
    pub(crate) setup: Setup,
    pub(crate) mailbox: Option<Mailbox>,
    as_new: Dictionary,
}

impl Firmware {
    pub(crate) fn new(setup: Setup, objects: Dictionary, model: Model) -> Self {
        let mut firmware = Self {
            mailbox: setup
                .mailboxes
                .map(|boxes| Mailbox::new(usize::from(boxes.to_main.1), boxes.coe, objects.objects.len())),
            setup,
            as_new: objects.clone(),
            objects,
            outputs: Mapped::new(),
            inputs: Mapped::new(),
            model,
            faults: FirmwareFaults::default(),
            state: INIT,
            error: false,
            pending: None,
            stepped_ns: 0,
            cycle_due_ns: u64::MAX,
            fresh_outputs: false,
            outputs_seen: false,
        };

        firmware.remap();
        firmware
    }

    /// Power off and on. Objects forget what was written to them.
    pub(crate) fn power_on(&mut self, controller: &mut Controller, now_ns: u64) {
        controller.power_on(now_ns);
        self.hold(controller, INIT);
        self.objects.clone_values_from(&self.as_new);
        self.remap();
        if let Some(mailbox) = &mut self.mailbox {
            mailbox.reset();
        }

        self.model.power_on(&mut self.objects);
        (self.state, self.error, self.pending) = (INIT, false, None);
        (self.fresh_outputs, self.outputs_seen) = (false, false);
        (self.stepped_ns, self.cycle_due_ns) = (now_ns, u64::MAX);
    }

    fn remap(&mut self) {
        // What cannot be mapped leaves an empty mapping, which SAFEOP then refuses.
        let Setup { outputs, inputs, .. } = &self.setup;
        let _ = self.outputs.compile(&self.objects, outputs.assignment, &outputs.rules);
        let _ = self.inputs.compile(&self.objects, inputs.assignment, &inputs.rules);
    }

    pub(crate) fn state(&self) -> u8 {
        self.state
    }

    /// Does what is due at `now_ns`. The instant of the next thing to do.
    pub(crate) fn run(&mut self, controller: &mut Controller, now_ns: u64) -> u64 {
        let events = controller.events;
        if events & event::RESET != 0 {
            self.power_on(controller, now_ns);
        }
        if events & event::STATE != 0 {
            self.request(controller, now_ns);
        }

        if let Some((target, due_ns)) = self.pending.filter(|&(_, due_ns)| due_ns <= now_ns) {
            self.pending = None;
            self.enter(controller, target, due_ns);
        }

        if self.state == OP && controller.watchdog_until_ns <= now_ns {
            controller.watchdog_bites();
            self.fall_back(controller, SAFEOP, code::WATCHDOG);
        }

        if events & (event::MAIL_ARRIVED | event::MAIL_TAKEN | event::REPEAT) != 0 {
            self.serve_mail(controller);
        }

        self.fresh_outputs |= events & event::OUTPUTS != 0;
        controller.events = 0;
        self.live(controller, events, now_ns);
        self.next_due(controller, now_ns)
    }

    fn serve_mail(&mut self, controller: &mut Controller) {
        let Some(mailbox) = self.mailbox.as_mut().filter(|_| self.state >= PREOP) else { return };
        if let Some(index) = mailbox.run(controller, &mut self.objects, self.state) {
            if (0x1600..0x1800).contains(&index) || (0x1a00..0x1e00).contains(&index) {
                self.remap();
            }
            self.model.written(&self.objects, index);
        }
    }

    // ---- the cycle of the model

    /// Steps the model if now is its time: at a pulse, when process data came, or when nothing did for long.
    fn live(&mut self, controller: &mut Controller, events: u8, now_ns: u64) {
        let open = self.state >= SAFEOP;
        if let Some(pulse) = controller.sync0.filter(|_| open) {
            let system_ns = controller.clock.system(now_ns);
            if system_ns >= pulse.next_ns {
                controller.sync0 = pulse.caught_up(system_ns, LONGEST_PAUSE_NS).following();
                self.step(controller, now_ns);
            }
            return;
        }

        let driven = if self.outputs.bytes() > 0 { event::OUTPUTS } else { event::INPUTS };
        let late = now_ns >= self.stepped_ns + if open { FREE_RUN_OPEN_NS } else { FREE_RUN_NS };
        let is_driven = open && events & driven != 0 && now_ns > self.stepped_ns;
        // What comes before the processor is through belongs to the same cycle.
        if is_driven && self.cycle_due_ns == u64::MAX {
            self.cycle_due_ns = now_ns.saturating_add(self.setup.delay_ns);
        }

        if late || self.cycle_due_ns <= now_ns {
            self.cycle_due_ns = u64::MAX;
            self.step(controller, now_ns);
        }
    }

    fn step(&mut self, controller: &mut Controller, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.stepped_ns).min(LONGEST_PAUSE_NS);
        self.stepped_ns = now_ns;
        if self.state == OP && std::mem::take(&mut self.fresh_outputs) {
            let area = controller.area(self.setup.outputs.start, self.outputs.bytes() as u16);
            self.outputs.scatter(area, &mut self.objects);
            self.outputs_seen = true;
        }

        let step = Step { elapsed_ns, outputs_valid: self.state == OP && self.outputs_seen };
        if let Some(emergency) = self.model.step(&mut self.objects, step)
            && let Some(mailbox) = self.mailbox.as_mut().filter(|_| self.state >= PREOP)
        {
            mailbox.emergency(emergency.code, emergency.register, [0; 5]);
            mailbox.run(controller, &mut self.objects, self.state);
        }

        self.show_inputs(controller);
    }

    fn show_inputs(&self, controller: &mut Controller) {
        if self.state >= SAFEOP && !self.faults.frozen {
            let area = controller.area_mut(self.setup.inputs.start, self.inputs.bytes() as u16);
            self.inputs.gather(&self.objects, area);
        }
    }

    /// Something changed at the pins. Devices without a mailbox have no processor that would look at them once per cycle: their inputs
    /// are the pins.
    pub(crate) fn pins_changed(&self, controller: &mut Controller) {
        if self.mailbox.is_none() && controller.sync0.is_none() && self.setup.delay_ns == 0 {
            self.show_inputs(controller);
        }
    }

    fn next_due(&self, controller: &Controller, now_ns: u64) -> u64 {
        let open = self.state >= SAFEOP;
        let step = match controller.sync0.filter(|_| open) {
            Some(pulse) => controller.clock.when(pulse.next_ns, now_ns).max(now_ns + 1),
            None => self.cycle_due_ns.min(self.stepped_ns + if open { FREE_RUN_OPEN_NS } else { FREE_RUN_NS }),
        };

        let pending = self.pending.map_or(u64::MAX, |(_, due_ns)| due_ns);
        let watchdog = if self.state == OP { controller.watchdog_until_ns } else { u64::MAX };
        step.min(pending).min(watchdog)
    }

    /// Sends an emergency that nobody asked for: a fault.
    pub(crate) fn send_emergency(&mut self, controller: &mut Controller, error_code: u16) {
        if let Some(mailbox) = self.mailbox.as_mut().filter(|_| self.state >= PREOP) {
            mailbox.emergency(error_code, 0x81, *b"fault");
            mailbox.run(controller, &mut self.objects, self.state);
        }
    }

    // ---- the AL state machine

    fn request(&mut self, controller: &mut Controller, now_ns: u64) {
        let request = controller.state_request();
        let target = request & STATE;
        if request & ERROR != 0 {
            self.error = false;
            controller.set_state(self.state, 0);
        } else if self.error && target > self.state {
            // An error that was not acknowledged keeps the device from rising.
            return;
        }

        let refusal = match (self.state, target) {
            (_, INIT) | (PREOP.., PREOP) | (INIT, PREOP) | (PREOP.., SAFEOP) | (SAFEOP.., OP) => None,
            (_, BOOT) => Some(code::NO_BOOTSTRAP),
            (_, PREOP | SAFEOP | OP) => Some(code::INVALID_CHANGE),
            _ => Some(code::UNKNOWN_STATE),
        };

        let told = self.faults.refuses.filter(|&(state, _)| state == target && target != self.state);
        if let Some(code) = refusal.or(told.map(|(_, code)| code)) {
            self.pending = None;
            return self.fail(controller, code);
        }

        let takes_ns = if target == self.state { 0 } else { self.setup.state_ns.saturating_add(self.faults.slower_ns) };
        self.pending = Some((target, now_ns.saturating_add(takes_ns)));
    }

    /// Enters a state that may be entered, if the configuration permits it.
    fn enter(&mut self, controller: &mut Controller, target: u8, now_ns: u64) {
        let rises = target > self.state;
        let refusal = match target {
            PREOP if rises && !self.mailbox_is_set_up(controller) => Some(code::MAILBOX_SETUP),
            SAFEOP if rises => self.process_data_refusal(controller),
            OP if rises && controller.sync_activation() & 3 == 3 && controller.sync0.is_none() => Some(code::NO_SYNC),
            OP if rises && self.setup.needs_outputs && !self.fresh_outputs => Some(code::NO_OUTPUTS),
            _ => None,
        };

        if let Some(code) = refusal {
            return self.fail(controller, code);
        }
        if rises
            && target == PREOP
            && let Some(mailbox) = &mut self.mailbox
        {
            mailbox.reset();
        }

        if rises && target == SAFEOP {
            self.fresh_outputs = false;
            let area = controller.area_mut(self.setup.inputs.start, self.inputs.bytes() as u16);
            self.inputs.gather(&self.objects, area);
        }

        self.settle(controller, target);
        controller.set_state(target, 0);
        self.stepped_ns = self.stepped_ns.max(now_ns.saturating_sub(FREE_RUN_NS));
    }

    /// What goes with being in a state, however it was entered.
    fn settle(&mut self, controller: &mut Controller, target: u8) {
        if self.state == OP && target != OP {
            self.outputs_seen = false;
            controller.watchdog_until_ns = u64::MAX;
            self.model.outputs_lost(&mut self.objects);
        }

        self.hold(controller, target);
        self.state = target;
    }

    /// Opens to the MainDevice what is open in a state.
    fn hold(&self, controller: &mut Controller, state: u8) {
        let mailboxes = if self.setup.mailboxes.is_some() { 2 } else { 0 };
        controller.hold(mailboxes, (state < PREOP, state < SAFEOP));
    }

    /// Falls to a lower state by itself, with a reason.
    pub(crate) fn fall_back(&mut self, controller: &mut Controller, target: u8, code: u16) {
        self.pending = None;
        let target = target.min(self.state);
        self.settle(controller, target);
        self.fail(controller, code);
    }

    fn fail(&mut self, controller: &mut Controller, code: u16) {
        self.error = true;
        controller.set_state(self.state | ERROR, code);
    }

    fn mailbox_is_set_up(&self, controller: &Controller) -> bool {
        let Some(boxes) = self.setup.mailboxes else { return true };
        let [to_device, to_main, ..] = &controller.sync_managers;
        let fits = |channel: &super::sync_channel::SyncChannel, (start, length): (u16, u16)| {
            channel.enabled
                && channel.start == start
                && channel.length == length
                && channel.mode == super::sync_channel::Mode::Mailbox
        };

        fits(to_device, boxes.to_device) && fits(to_main, boxes.to_main)
    }

    fn process_data_refusal(&self, controller: &Controller) -> Option<u16> {
        let fits = |area: &Area, bytes: usize| {
            let Some(channel) = area.channel.and_then(|channel| controller.sync_managers.get(channel)) else {
                return bytes == 0;
            };
            if bytes == 0 {
                !channel.enabled
            } else {
                channel.enabled && channel.start == area.start && usize::from(channel.length) == bytes
            }
        };

        if !fits(&self.setup.outputs, self.outputs.bytes()) {
            return Some(code::OUTPUT_SETUP);
        }
        if !fits(&self.setup.inputs, self.inputs.bytes()) {
            return Some(code::INPUT_SETUP);
        }

        let pulses = controller.sync_activation() & 3 == 3;
        (pulses && controller.sync_cycle_ns() == 0).then_some(code::CLOCK_SETUP)
    }
}
