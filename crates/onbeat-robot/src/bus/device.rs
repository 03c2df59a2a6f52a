//! One device as the bus knows it: what it was told, how it is, and what became of it.

use onbeat_rt::frame::word;

use super::memory::{Line, SYNC_MANAGER};
use super::notes::Notes;
use super::recovery::{Known, OP, Recovery};
use super::sdo::Transfer;
use super::visit::{Visit, Why};
use onbeat_ethercat::event::EventKind;

/// No mailbox for SDOs is shorter, in bytes.
const SHORTEST_MAIL: usize = 24;

/// How a device is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    InOp,
    /// Does not answer at its station.
    Silent,
    OnItsWay(Recovery),
    /// Refused or wrong, until this cycle.
    LeftAlone(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) known: Known,
    pub(super) stage: Stage,
    /// Cycle in which it was lost.
    pub(super) lost: Option<u64>,
    /// It was found again, and not yet in OP.
    pub(super) found: bool,
    /// Why it was left out, as it was reported last: each reason is one event.
    pub(super) dismissed: Option<Why>,
    pub(super) unanswered: u8,
    pub(super) al_status: u8,
    pub(super) al_code: u16,
    /// AL status of its last answer.
    pub(super) said: u8,
    pub(super) was_apart: bool,
    /// AL state it fell back to without being lost.
    pub(super) fell: Option<u8>,
    pub(super) mailbox: Option<Mailbox>,
    pub(super) has_mail: bool,
    /// Counter of the last mail that was sent, 1 to 7.
    pub(super) mail_counter: u8,
}

/// Where a device's mails are put and fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mailbox {
    pub(super) to: u16,
    pub(super) to_bytes: u16,
    pub(super) from: u16,
    pub(super) bytes: u16,
}

impl Mailbox {
    /// The first two SyncManagers, when they are for mails (ETG.1000.4: mode 2 of three, directions "write" and "read").
    pub(super) fn in_script(script: &[Line]) -> Option<Self> {
        let channel = |register: u16, direction: u8| {
            let lines = script.iter().rev().filter_map(Line::written);
            let line = lines.into_iter().find(|line| line.register == register && line.bytes.len() >= 8)?;
            let (at, bytes, control) = (word(&line.bytes, 0), word(&line.bytes, 2), line.bytes[4]);
            (control & 0x0f == 0x02 | direction && usize::from(bytes) >= SHORTEST_MAIL).then_some((at, bytes))
        };

        let ((to, to_bytes), (from, bytes)) = (channel(SYNC_MANAGER, 0x04)?, channel(SYNC_MANAGER + 8, 0)?);
        Some(Self { to, to_bytes, from, bytes })
    }
}

impl Device {
    /// In SAFEOP, on its way to OP.
    pub(super) fn of(known: Known) -> Self {
        Self {
            stage: Stage::OnItsWay(Recovery::in_safeop(0)),
            lost: None,
            found: false,
            dismissed: None,
            unanswered: 0,
            al_status: 4,
            al_code: 0,
            said: 4,
            was_apart: false,
            fell: None,
            mailbox: Mailbox::in_script(&known.script),
            has_mail: false,
            mail_counter: known.last_mail,
            known,
        }
    }

    /// The value of an object that is written on its way, if that is its turn.
    pub(super) fn own_transfer(&mut self) -> Option<&mut Transfer> {
        let Stage::OnItsWay(way) = &self.stage else { return None };
        way.transfer(&mut self.known)
    }

    /// Its visit, while it is being asked who it is.
    pub(super) fn visit(&mut self) -> Option<&mut Visit> {
        let Stage::OnItsWay(way) = &mut self.stage else { return None };
        way.visit()
    }

    pub(super) fn lose(&mut self, place: usize, notes: &mut Notes<'_>) {
        self.stage = Stage::Silent;
        self.found = false;
        if self.lost.is_none() {
            notes.note(EventKind::DeviceLost, Some(place), (u16::from(self.al_status), 0), 0);
        }

        self.lost.get_or_insert(notes.cycle);
        self.fell = None;
        self.al_status = 0;
    }

    pub(super) fn find(&mut self, place: usize, notes: &mut Notes<'_>) {
        if !self.found && self.lost.is_some() {
            notes.note(EventKind::DeviceFound, Some(place), (0, 0), 0);
        }
        self.found = true;
        self.unanswered = 0;
    }

    /// The station by which it is asked who it is.
    pub(super) fn visiting(&self) -> Option<u16> {
        if let Stage::OnItsWay(way) = &self.stage { way.visiting() } else { None }
    }

    /// It is another one, or may be; `missing` are the devices like it that are not in OP, itself included.
    pub(super) fn dismiss(&mut self, place: usize, why: Why, missing: usize, notes: &mut Notes<'_>) {
        if self.dismissed.replace(why) == Some(why) {
            return;
        }
        match why {
            Why::Other(what, value) => notes.note(EventKind::WrongDevice, Some(place), (0, what), value),
            Why::InDoubt => notes.note(EventKind::PlaceInDoubt, Some(place), (0, 0), missing as u32),
        }
    }

    pub(super) fn arrive(&mut self, place: usize, notes: &mut Notes<'_>) {
        self.found = false;
        self.dismissed = None;
        if let Some(fell_to) = self.fell.take() {
            notes.note(EventKind::StateChanged, Some(place), (u16::from(fell_to), u16::from(OP)), 0);
        }

        if let Some(lost) = self.lost.take() {
            let gone_us = (notes.cycle - lost) * notes.period_ns / 1_000;
            notes.note(
                EventKind::DeviceBack,
                Some(place),
                (0, u16::from(OP)),
                u32::try_from(gone_us).unwrap_or(u32::MAX),
            );
        }
    }

    /// It is not asked for its state.
    pub(super) fn has_its_way(&self) -> bool {
        matches!(self.stage, Stage::OnItsWay(_) | Stage::LeftAlone(_))
    }

    /// One that was left alone is looked at again after a while.
    pub(super) fn come_back(&mut self, cycle: u64) {
        if matches!(self.stage, Stage::LeftAlone(until) if cycle >= until) {
            self.stage = Stage::Silent;
            self.unanswered = 0;
        }
    }
}
