//! The table: what was measured on both sides, their ratio, the goal, and whether it was reached.

use onbeat_report::Letters;
use onbeat_report::table::{Column, Row, Table};
use onbeat_report::units::{ratio, time};

use crate::turns::Spread;

/// Characters in a line.
const WIDTH: usize = 118;

/// One part's findings.
pub(crate) struct Part {
    table: Table,
    has_peer: bool,
}

impl Part {
    pub(crate) fn new(title: impl Into<String>, peer: &str) -> Self {
        let figures = ["onbeat", peer, "ratio (lowest..highest)"].map(Column::figures);
        let columns = std::iter::once(Column::words(""))
            .chain(figures)
            .chain(["goal", "reached"].map(Column::figures));
        let table = Table { title: title.into(), columns: columns.collect(), ..Table::default() };
        Self { table, has_peer: true }
    }

    /// A part that is held against goals alone.
    pub(crate) fn alone(title: impl Into<String>) -> Self {
        let columns = ["measured", "goal", "reached"].map(Column::figures);
        let columns = std::iter::once(Column::words("")).chain(columns).collect();
        Self { table: Table { title: title.into(), columns, ..Table::default() }, has_peer: false }
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        let Finding { what, ours, theirs, ratio, goal, reached, begins_group } = finding;
        let word = match reached {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };

        let peer = if self.has_peer { vec![theirs, ratio] } else { Vec::new() };
        let entries = [what, ours].into_iter().chain(peer).chain([goal, word.to_owned()]);
        self.table.rows.push(Row { entries: entries.map(Into::into).collect(), begins_group });
    }

    /// What else is to be known.
    pub(crate) fn remark(&mut self, words: impl Into<String>) {
        self.table.legend.push(words.into());
    }

    pub(crate) fn to_text(&self) -> String {
        self.table.to_text(WIDTH)
    }
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finding {
    what: String,
    ours: String,
    theirs: String,
    ratio: String,
    goal: String,
    reached: Option<bool>,
    begins_group: bool,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, ours: impl Into<String>) -> Self {
        Self { what: what.into(), ours: ours.into(), ..Self::default() }
    }

    pub(crate) fn beside(mut self, theirs: impl Into<String>) -> Self {
        self.theirs = theirs.into();
        self
    }

    pub(crate) fn with_ratio(mut self, spread: Option<Spread>) -> Self {
        self.ratio = spread.map_or_else(String::new, |s| {
            format!("{} ({}..{})", formatted(s.median), formatted(s.low), formatted(s.high))
        });
        self
    }

    pub(crate) fn with_goal(mut self, goal: impl Into<String>, reached: bool) -> Self {
        self.goal = goal.into();
        self.reached = Some(reached);
        self
    }

    pub(crate) const fn that_begins_a_group(mut self) -> Self {
        self.begins_group = true;
        self
    }
}

fn formatted(value: f64) -> String {
    if value.is_finite() { ratio(value) } else { "beyond".to_owned() }
}

/// A time as people read it, from nanoseconds.
pub(crate) fn format_time(ns: f64) -> String {
    if ns.is_finite() { time(ns, Letters::Unicode) } else { "beyond".to_owned() }
}

/// The same with its range.
pub(crate) fn format_times(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "nothing".to_owned(), |s| format_time(s.median))
}
