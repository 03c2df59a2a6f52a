//! The cause of a slice of time, with the culprit and a remark for the evidence.

use onbeat_rt::Instant;

use crate::event::Thread;
use crate::kind::{CauseKind, Culprit};
use crate::syscalls;

/// A slice of time without an event inside, with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) cpu: Option<u32>,
    pub(crate) attribution: Attribution,
    pub(crate) culprit: Option<Culprit>,
    /// Remark for the evidence.
    pub(crate) remark: Option<String>,
}

/// A cause, or time whose cause is determined later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribution {
    Cause(CauseKind),
    /// The loop's own work in a cycle.
    OwnWork,
}

impl Piece {
    pub(crate) const fn ns(&self) -> u64 {
        self.to.ns_since(self.from)
    }
}

/// The cause of a slice of time, with the culprit and a remark for the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    attribution: Attribution,
    pub(super) culprit: Option<Culprit>,
    pub(crate) remark: Option<String>,
}

impl Judgement {
    /// A cause without a culprit and without a remark.
    pub(crate) const fn new(kind: CauseKind) -> Self {
        Self { attribution: Attribution::Cause(kind), culprit: None, remark: None }
    }

    /// The loop's own work, which gets its cause later ([`crate::settle`]).
    pub(super) const fn own_work() -> Self {
        Self { attribution: Attribution::OwnWork, culprit: None, remark: None }
    }

    pub(crate) fn by(self, culprit: impl Into<Option<Culprit>>) -> Self {
        Self { culprit: culprit.into(), ..self }
    }

    pub(crate) fn because(self, remark: impl Into<String>) -> Self {
        self.with_remark(Some(remark.into()))
    }

    pub(crate) fn with_remark(self, remark: Option<String>) -> Self {
        Self { remark, ..self }
    }

    /// Returns the piece of the time between two instants that it is about.
    pub(super) fn of(self, from: Instant, to: Instant, cpu: Option<u32>) -> Piece {
        let Self { attribution, culprit, remark } = self;
        Piece { from, to, cpu, attribution, culprit, remark }
    }
}

pub(crate) fn frozen(why: &str) -> Judgement {
    Judgement::new(CauseKind::CgroupFreezer).because(why)
}

pub(crate) fn named(name: &str) -> Culprit {
    Culprit { name: name.to_owned(), ..Culprit::default() }
}

pub(crate) fn syscall_name(number: i64) -> String {
    syscalls::name(number).map_or_else(|| format!("system call {number}"), str::to_owned)
}

pub(crate) fn thread_culprit(thread: &Thread, syscall: Option<i64>) -> Culprit {
    Culprit {
        name: thread.name.text().into_owned(),
        tid: Some(thread.tid),
        prio: Some(thread.prio),
        system_call: syscall.map(syscall_name),
        woken_in: None,
        work: None,
    }
}
