//! Firmware of a device: AL state machine, mailbox, and the cycle of the model.

pub(crate) use onbeat_ethercat::al::{BOOT, INIT, OP, PREOP, SAFEOP};
use onbeat_ethercat::al::{DEVICE_ID, ERROR, STATE};

use onbeat_ethercat::emergency_codes::is_end;
use onbeat_ethercat::esi::DcMode;
use onbeat_ethercat::setup::Sync0;

use super::coe::Dictionary;
use super::device::{Model, ModelStep};
use super::esc::{Esc, event};
use super::mailbox::DeviceMailbox;
use super::process_data::{AssignedArea, AssignmentRules, ProcessDataMap};

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
    pub(crate) const NO_SYNC_MODES: u16 = 0x0028;
    pub(crate) const CLOCK_SETUP: u16 = 0x0030;
    pub(crate) const SYNC0_CYCLE: u16 = 0x0036;
    pub(crate) const SYNC1_CYCLE: u16 = 0x0037;
    pub(crate) const BOOT_MAILBOX_SETUP: u16 = 0x0015;
    pub(crate) const EEPROM_ACCESS: u16 = 0x0050;
}

const OF_MAILBOX: u8 = event::MAIL_ARRIVED | event::MAIL_TAKEN | event::REPEAT;
/// Cycle of a device that neither SYNC0 nor process data trigger, from SAFEOP on and below.
const FREE_RUN_OPEN_NS: u64 = 5_000_000;
const FREE_RUN_NS: u64 = 1_000_000;
/// Longest simulated pause; of a longer one, only the end is simulated.
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

/// Start and length of each mailbox, on the first two SyncManagers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mailboxes {
    pub(crate) to_device: (u16, u16),
    pub(crate) to_main: (u16, u16),
    /// CoE details, see [`super::coe::details`].
    pub(crate) coe: u8,
    /// Whether files are served (FoE).
    pub(crate) foe: bool,
    /// Mailboxes in BOOT, to the device first; lengths 0 for none.
    pub(crate) bootstrap: [(u16, u16); 2],
}

/// Process data of one direction.
#[derive(Clone, Debug)]
pub(crate) struct ProcessDataArea {
    /// Areas of its SyncManagers; empty if the device has none for this direction.
    pub(crate) areas: Vec<AssignedArea>,
    pub(crate) rules: AssignmentRules,
    /// Most values that can be mapped.
    pub(crate) most_values: usize,
}

/// Settings of the firmware.
#[derive(Clone, Debug)]
pub(crate) struct FirmwareSetup {
    pub(crate) mailboxes: Option<Mailboxes>,
    pub(crate) outputs: ProcessDataArea,
    pub(crate) inputs: ProcessDataArea,
    /// Duration of a state change, in ns.
    pub(crate) state_ns: u64,
    /// Time from a frame to the cycle of the model that it triggers, in ns.
    pub(crate) delay_ns: u64,
    /// Whether OP is refused until outputs were received.
    pub(crate) needs_outputs: bool,
    /// Whether PREOP is refused until the EEPROM is assigned to the device.
    pub(crate) needs_eeprom: bool,
    /// Explicit device ID, as of a switch, 0 for none.
    pub(crate) device_id: u16,
    /// Operation modes of its distributed clock.
    pub(crate) clock_modes: Vec<DcMode>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirmwareFaults {
    /// State whose requests are refused, and the AL status code.
    pub(crate) refuses: Option<(u8, u16)>,
    /// Additional duration of state changes, in ns.
    pub(crate) slower_ns: u64,
    /// Whether inputs are frozen.
    pub(crate) frozen: bool,
}

/// State, objects and model of a device. Fields used in each cycle come first, in few cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Firmware {
    /// Earliest due time of a state change or a delayed mail; `u64::MAX` for none.
    deadline_ns: u64,
    stepped_ns: u64,
    /// Due time of the cycle triggered by process data; `u64::MAX` for none.
    cycle_due_ns: u64,
    state: u8,
    error: bool,
    fresh_outputs: bool,
    outputs_seen: bool,
    pub(crate) faults: FirmwareFaults,
    pub(crate) outputs: ProcessDataMap,
    pub(crate) inputs: ProcessDataMap,
    pub(crate) objects: Dictionary,
    pub(crate) model: Model,
    pub(crate) setup: FirmwareSetup,
    pub(crate) mailbox: Option<DeviceMailbox>,
    /// State change in progress, and its due time.
    pending: Option<(u8, u64)>,
    /// Time at which a delayed mail is sent; `u64::MAX` for none.
    mail_due_ns: u64,
    initial_objects: Dictionary,
}

impl Firmware {
    pub(crate) fn new(setup: FirmwareSetup, mut objects: Dictionary, model: Model) -> Self {
        for area in [&setup.outputs, &setup.inputs] {
            objects.without_value.extend_from_slice(&area.rules.without_value);
        }
        let outputs = ProcessDataMap::new(setup.outputs.most_values);
        let inputs = ProcessDataMap::new(setup.inputs.most_values);
        let mut firmware = Self {
            mailbox: setup.mailboxes.map(|boxes| DeviceMailbox::new(&boxes, objects.objects.len())),
            setup,
            initial_objects: objects.clone(),
            objects,
            outputs,
            inputs,
            model,
            faults: FirmwareFaults::default(),
            state: INIT,
            error: false,
            pending: None,
            deadline_ns: u64::MAX,
            stepped_ns: 0,
            cycle_due_ns: u64::MAX,
            mail_due_ns: u64::MAX,
            fresh_outputs: false,
            outputs_seen: false,
        };

        firmware.remap();
        firmware
    }

    /// Power cycle: resets controller, objects and model.
    pub(crate) fn power_on(&mut self, esc: &mut Esc, now_ns: u64) {
        esc.power_on(now_ns);
        self.activate_sync_managers(esc, INIT);
        self.objects.clone_values_from(&self.initial_objects);
        self.remap();
        if let Some(mailbox) = &mut self.mailbox {
            mailbox.reset(esc);
        }

        self.model.power_on();
        self.state = INIT;
        self.error = false;
        self.fresh_outputs = false;
        self.outputs_seen = false;
        self.stepped_ns = now_ns;
        self.cycle_due_ns = u64::MAX;
        self.mail_due_ns = u64::MAX;
        self.set_pending(None);
    }

    /// Sets the state change in progress.
    fn set_pending(&mut self, pending: Option<(u8, u64)>) {
        self.pending = pending;
        let change_ns = pending.map_or(u64::MAX, |(_, due_ns)| due_ns);
        self.deadline_ns = change_ns.min(self.mail_due_ns);
    }

    fn remap(&mut self) {
        // An invalid mapping leaves an empty one, with which SAFEOP is refused.
        let FirmwareSetup { outputs, inputs, .. } = &self.setup;
        let _ = self.outputs.compile(&self.objects, &outputs.areas, &outputs.rules);
        let _ = self.inputs.compile(&self.objects, &inputs.areas, &inputs.rules);
    }

    pub(crate) fn state(&self) -> u8 {
        self.state
    }

    /// Runs what is due at `now_ns`. Returns the time at which it must run next, in ns.
    pub(crate) fn run(&mut self, esc: &mut Esc, now_ns: u64) -> u64 {
        let events = esc.events;
        if events & event::RESET_WRITTEN != 0 {
            self.power_on(esc, now_ns);
        }
        if events & event::STATE != 0 {
            self.request(esc, now_ns);
        }

        if self.deadline_ns <= now_ns {
            self.meet_deadline(esc, now_ns);
        }

        if self.state == OP && esc.watchdog_until_ns <= now_ns {
            esc.expire_watchdog();
            self.fall_back(esc, SAFEOP, code::WATCHDOG);
        }

        if events & OF_MAILBOX != 0 {
            self.serve_mail(esc, now_ns);
        }

        self.fresh_outputs |= events & event::OUTPUTS != 0;
        esc.events = 0;
        self.run_model(esc, events, now_ns);
        self.next_due(esc, now_ns)
    }

    /// Completes a state change, or sends a mail, that is due.
    #[cold]
    fn meet_deadline(&mut self, esc: &mut Esc, now_ns: u64) {
        if let Some((target, due_ns)) = self.pending.filter(|&(_, due_ns)| due_ns <= now_ns) {
            self.set_pending(None);
            self.enter(esc, target, due_ns);
        }
        // An access to the mailbox sends what is due, after this.
        if self.mail_due_ns <= now_ns && esc.events & OF_MAILBOX == 0 {
            self.serve_mail(esc, now_ns);
        }
    }

    fn serve_mail(&mut self, esc: &mut Esc, now_ns: u64) {
        let is_active = self.state >= PREOP;
        let mailbox = self.mailbox.as_mut().filter(|_| is_active);
        let written = mailbox.and_then(|mailbox| {
            let written = mailbox.run(esc, &mut self.objects, self.state, now_ns);
            self.mail_due_ns = mailbox.due_ns();
            written
        });
        if !is_active {
            self.mail_due_ns = u64::MAX;
        }
        self.set_pending(self.pending);
        if let Some(index) = written {
            if (0x1600..0x1800).contains(&index) || (0x1a00..0x1e00).contains(&index) {
                self.remap();
            }
            self.model.written(index);
        }
    }

    // ---- the cycle of the model

    /// Steps the model if it is due: at a SYNC0 pulse, after process data, or in free run.
    fn run_model(&mut self, esc: &mut Esc, events: u8, now_ns: u64) {
        let open = self.state >= SAFEOP;
        if let Some(pulse) = esc.application_pulses().filter(|_| open) {
            let system_ns = esc.clock.system(now_ns);
            if system_ns >= pulse.next_ns {
                esc.pulse_passed(system_ns, LONGEST_PAUSE_NS);
                self.step(esc, now_ns);
            }
            return;
        }

        let driven = if self.outputs.bytes() > 0 { event::OUTPUTS } else { event::INPUTS };
        let late = now_ns >= self.stepped_ns + if open { FREE_RUN_OPEN_NS } else { FREE_RUN_NS };
        let is_driven = open && events & driven != 0 && now_ns > self.stepped_ns;
        // Process data that arrive before the cycle runs belong to the same cycle.
        if is_driven && self.cycle_due_ns == u64::MAX {
            self.cycle_due_ns = now_ns.saturating_add(self.setup.delay_ns);
        }

        if late || self.cycle_due_ns <= now_ns {
            self.cycle_due_ns = u64::MAX;
            self.step(esc, now_ns);
        }
    }

    fn step(&mut self, esc: &mut Esc, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.stepped_ns).min(LONGEST_PAUSE_NS);
        self.stepped_ns = now_ns;
        if self.state == OP && std::mem::take(&mut self.fresh_outputs) {
            self.outputs.scatter(esc.process_memory(), &mut self.objects);
            self.outputs_seen = true;
        }

        let step = ModelStep { elapsed_ns, outputs_valid: self.state == OP && self.outputs_seen };
        if let Some(emergency) = self.model.step(&mut self.objects, step)
            && let Some(mailbox) = self.mailbox.as_mut().filter(|_| self.state >= PREOP)
        {
            mailbox.emergency(emergency.code, emergency.register, [0; 5]);
            mailbox.run(esc, &mut self.objects, self.state, now_ns);
        }

        self.update_inputs(esc);
    }

    fn update_inputs(&self, esc: &mut Esc) {
        if self.state >= SAFEOP && !self.faults.frozen {
            self.inputs.gather(&self.objects, esc.process_memory_mut());
        }
    }

    /// Handles a change at the pins. Devices without a mailbox have no processor that samples them
    /// once per cycle: their inputs are the pins.
    pub(crate) fn pins_changed(&self, esc: &mut Esc) {
        if self.mailbox.is_none() && esc.sync0.is_none() && self.setup.delay_ns == 0 {
            self.update_inputs(esc);
        }
    }

    fn next_due(&self, esc: &Esc, now_ns: u64) -> u64 {
        let open = self.state >= SAFEOP;
        let step = match esc.application_pulses().filter(|_| open) {
            Some(pulse) => esc.clock.when(pulse.next_ns, now_ns).max(now_ns + 1),
            None => self
                .cycle_due_ns
                .min(self.stepped_ns + if open { FREE_RUN_OPEN_NS } else { FREE_RUN_NS }),
        };

        let watchdog = if self.state == OP { esc.watchdog_until_ns } else { u64::MAX };
        step.min(self.deadline_ns).min(watchdog)
    }

    /// Injects a fault: sends an emergency.
    pub(crate) fn send_emergency(&mut self, esc: &mut Esc, error_code: u16) {
        if let Some(mailbox) = self.mailbox.as_mut().filter(|_| self.state >= PREOP) {
            // One that reports the end of an error leaves none in the register.
            let register = if is_end(error_code.into()) { 0 } else { 0x81 };
            mailbox.emergency(error_code, register, *b"fault");
            let now_ns = self.stepped_ns;
            mailbox.run(esc, &mut self.objects, self.state, now_ns);
        }
    }

    /// Injects a fault: the module of a slot is not detected. Returns whether there is one.
    pub(crate) fn unplug_module(&mut self, slot: u8) -> bool {
        let entry = self.objects.lookup(0xf050, slot.saturating_add(1)).map(|entry| entry.slot);
        if let Ok(slot) = entry {
            self.objects.put(slot, [0; 4]);
        }
        entry.is_ok()
    }

    // ---- the AL state machine

    fn request(&mut self, esc: &mut Esc, now_ns: u64) {
        let request = esc.state_request();
        let target = request & STATE;
        if request & ERROR != 0 {
            self.error = false;
            self.report_state(esc);
        } else if self.error && target >= self.state && target != INIT {
            // The error must be acknowledged before the same or a higher state; INIT ends it.
            return;
        }

        let has_boot = self
            .setup
            .mailboxes
            .is_some_and(|boxes| boxes.foe && boxes.bootstrap.iter().all(|(_, bytes)| *bytes > 0));
        let refusal = match (self.state, target) {
            (INIT | BOOT, BOOT) if has_boot => None,
            (BOOT, PREOP | SAFEOP | OP) => Some(code::INVALID_CHANGE),
            (PREOP.., BOOT) if has_boot => Some(code::INVALID_CHANGE),
            (_, INIT) | (PREOP.., PREOP) | (INIT, PREOP) | (PREOP.., SAFEOP) | (SAFEOP.., OP) => {
                None
            }
            (_, BOOT) => Some(code::NO_BOOTSTRAP),
            (_, PREOP | SAFEOP | OP) => Some(code::INVALID_CHANGE),
            _ => Some(code::UNKNOWN_STATE),
        };

        let injected =
            self.faults.refuses.filter(|&(state, _)| state == target && target != self.state);
        if let Some(code) = refusal.or(injected.map(|(_, code)| code)) {
            self.set_pending(None);
            return self.fail(esc, code);
        }

        let duration_ns = if target == self.state {
            0
        } else {
            self.setup.state_ns.saturating_add(self.faults.slower_ns)
        };
        self.set_pending(Some((target, now_ns.saturating_add(duration_ns))));
    }

    /// Enters a state if the configuration permits it.
    fn enter(&mut self, esc: &mut Esc, target: u8, now_ns: u64) {
        let rises = target > self.state;
        let refusal = match target {
            PREOP if rises && !self.mailbox_is_set_up(esc, target) => Some(code::MAILBOX_SETUP),
            BOOT if rises && !self.mailbox_is_set_up(esc, target) => Some(code::BOOT_MAILBOX_SETUP),
            PREOP if rises && self.setup.needs_eeprom && !esc.is_eeprom_of_device() => {
                Some(code::EEPROM_ACCESS)
            }
            SAFEOP if rises => self.process_data_refusal(esc),
            OP if rises && esc.sync_activation() & 3 == 3 && esc.sync0.is_none() => {
                Some(code::NO_SYNC)
            }
            OP if rises && self.setup.needs_outputs && !self.fresh_outputs => {
                Some(code::NO_OUTPUTS)
            }
            _ => None,
        };

        if let Some(code) = refusal {
            return self.fail(esc, code);
        }
        if rises
            && matches!(target, PREOP | BOOT)
            && let Some(mailbox) = &mut self.mailbox
        {
            mailbox.reset(esc);
        }

        if rises && target == SAFEOP {
            self.fresh_outputs = false;
            self.inputs.gather(&self.objects, esc.process_memory_mut());
        }

        self.error = false;
        self.change_state(esc, target);
        self.report_state(esc);
        self.stepped_ns = self.stepped_ns.max(now_ns.saturating_sub(FREE_RUN_NS));
    }

    /// Writes the state to AL status, with the device ID while it is requested (ETG.1020, explicit
    /// device identification).
    fn report_state(&self, esc: &mut Esc) {
        let is_requested = esc.state_request() & DEVICE_ID != 0 && self.setup.device_id != 0;
        if is_requested {
            esc.set_state(self.state | DEVICE_ID, self.setup.device_id);
        } else {
            esc.set_state(self.state, 0);
        }
    }

    /// Applies the effects of a state, however it was entered.
    fn change_state(&mut self, esc: &mut Esc, target: u8) {
        if self.state == OP && target != OP {
            self.outputs_seen = false;
            esc.watchdog_until_ns = u64::MAX;
            self.model.outputs_lost(&mut self.objects);
        }

        self.activate_sync_managers(esc, target);
        self.state = target;
    }

    /// Activates the SyncManagers that are active in a state.
    fn activate_sync_managers(&self, esc: &mut Esc, state: u8) {
        let mailboxes = if self.setup.mailboxes.is_some() { 2 } else { 0 };
        esc.set_deactivated(mailboxes, state < PREOP, state < SAFEOP);
    }

    /// Falls back to a lower state with an AL status code.
    pub(crate) fn fall_back(&mut self, esc: &mut Esc, target: u8, code: u16) {
        self.set_pending(None);
        let target = target.min(self.state);
        self.change_state(esc, target);
        self.fail(esc, code);
    }

    fn fail(&mut self, esc: &mut Esc, code: u16) {
        self.error = true;
        esc.set_state(self.state | ERROR, code);
    }

    fn mailbox_is_set_up(&self, esc: &Esc, state: u8) -> bool {
        let Some(boxes) = self.setup.mailboxes else { return true };
        let [to, from] =
            if state == BOOT { boxes.bootstrap } else { [boxes.to_device, boxes.to_main] };
        let [to_device, to_main, ..] = &esc.sync_managers;
        let fits = |channel: &super::sync_manager::SyncManager, (start, length): (u16, u16)| {
            channel.enabled
                && channel.start == start
                && channel.length == length
                && channel.mode == super::sync_manager::SyncManagerMode::DeviceMailbox
        };

        fits(to_device, to) && fits(to_main, from)
    }

    fn process_data_refusal(&self, esc: &Esc) -> Option<u16> {
        let fits = |area: &AssignedArea, bytes: u16| {
            let Some(channel) = esc.sync_managers.get(area.channel) else { return bytes == 0 };
            if bytes == 0 {
                !channel.enabled
            } else {
                channel.enabled && channel.start == area.start && channel.length == bytes
            }
        };
        let all_fit = |data: &ProcessDataArea, map: &ProcessDataMap| {
            // A mapping that cannot be compiled has no areas, and none of them may be enabled.
            let lengths = map.area_bytes().chain(std::iter::repeat(0));
            data.areas.iter().zip(lengths).all(|(area, bytes)| fits(area, bytes))
        };

        if !all_fit(&self.setup.outputs, &self.outputs) {
            return Some(code::OUTPUT_SETUP);
        }
        if !all_fit(&self.setup.inputs, &self.inputs) {
            return Some(code::INPUT_SETUP);
        }

        self.clock_refusal(esc)
    }

    /// Checks the SYNC pulses against the operation modes of the clock.
    fn clock_refusal(&self, esc: &Esc) -> Option<u16> {
        const CYCLIC: u8 = 1;
        const BOTH: u8 = 6;
        let activation = esc.sync_activation();
        if activation & CYCLIC == 0 || activation & BOTH == 0 {
            return None;
        }
        let sync0_ns = esc.sync_cycle_ns();
        if activation & 2 == 0 || sync0_ns == 0 {
            return Some(code::CLOCK_SETUP);
        }

        let modes = &self.setup.clock_modes;
        let with_pulses = modes.iter().any(|mode| mode.sync0().is_some());
        if !modes.is_empty() && !with_pulses {
            return Some(code::NO_SYNC_MODES);
        }
        let mut same = modes.iter().map(|mode| mode.pulses).collect::<Vec<Sync0>>();
        same.retain(|pulses| pulses.activation == esc.sync_assignment());
        if with_pulses && same.is_empty() {
            return Some(code::CLOCK_SETUP);
        }

        let fits_sync0 = |pulses: &Sync0| pulses.period_ns.is_none_or(|ns| ns == sync0_ns);
        let fits_sync1 = |pulses: &Sync0| {
            pulses.activation & Sync0::WITH_SYNC1 == 0
                // By the bus's period, which a device does not know.
                || matches!((pulses.sync1.period_ns, pulses.sync1.factor), (0, ..=0))
                || pulses.sync1.shift_factor != 0
                || pulses.sync1.delay_ns(sync0_ns, 0) == esc.sync1_delay_ns()
        };
        match same.iter().find(|pulses| fits_sync0(pulses)) {
            _ if same.is_empty() => None,
            None => Some(code::SYNC0_CYCLE),
            Some(_) if same.iter().any(|one| fits_sync0(one) && fits_sync1(one)) => None,
            Some(_) => Some(code::SYNC1_CYCLE),
        }
    }
}
