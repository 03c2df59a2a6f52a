//! Notes of run files for what happens to a load.

use crate::load::{Load, LoadNotice, LoadNoticeKind, LoadReport};
use onbeat_record::{LoadEvent, LoadEventKind, Note};

/// Returns the note of an event, `t` seconds after the file's start.
pub(super) fn of_event(event: &LoadNotice, t: f64) -> LoadEvent {
    let kind = match event.what {
        LoadNoticeKind::Started { .. } => LoadEventKind::Started,
        LoadNoticeKind::PartDied { .. } => LoadEventKind::PartDied,
        LoadNoticeKind::PartSubstituted { .. } => LoadEventKind::PartSubstituted,
        LoadNoticeKind::Stopped { .. } => LoadEventKind::Stopped,
    };
    LoadEvent { t, load: event.load.clone(), event: kind, detail: event.to_string() }
}

/// Returns the note of what the parts of a load did, after its end.
pub(super) fn of_report(load: &Load, report: &LoadReport, t: f64) -> Note {
    let parts: Vec<String> = report.parts.iter().map(ToString::to_string).collect();
    Note::Load(LoadEvent {
        t,
        load: load.to_string(),
        event: LoadEventKind::Report,
        detail: parts.join("; "),
    })
}
