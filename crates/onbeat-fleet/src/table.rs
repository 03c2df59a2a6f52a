//! The tables of a data set, and rows of them in memory, column by column.

use std::collections::HashMap;

/// What a column holds. Nothing is null: 0 and the empty text stand for "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// UTF-8.
    Text,
    /// A whole number of 64 bits with sign, as all engines have it.
    Whole,
    /// True or false.
    Flag,
    /// A number of 64 bits with a point; in no table that questions read, because engines add them in different orders.
    Real,
}

/// Name and columns of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Its folder.
    pub name: &'static str,
    /// Names and types, in the order of the file.
    pub columns: &'static [(&'static str, ColumnType)],
    /// The columns that rows are sorted by.
    pub sorted_by: &'static [&'static str],
}

use ColumnType::{Flag, Text, Whole};

/// One row per run. It is written last: a run without it does not exist.
pub static RUNS: TableShape = TableShape {
    name: "runs",
    columns: &[
        ("run", Whole),
        ("id", Text),
        ("host", Text),
        ("started_us", Whole),
        ("schema", Whole),
        ("version", Text),
        ("complete", Flag),
        ("revision", Whole),
        ("kernel", Text),
        ("bios", Text),
        ("board", Text),
        ("processor", Text),
        ("image", Text),
        ("command", Text),
    ],
    sorted_by: &["host", "run"],
};

/// One row per run, tuning and load: figures of its main series. A loop on one of several CPUs has the tuning `PMC CPU 2`.
pub static CELLS: TableShape = TableShape {
    name: "cells",
    columns: &[
        ("run", Whole),
        ("host", Text),
        ("started_us", Whole),
        ("tuning", Text),
        ("load", Text),
        ("series", Text),
        ("slots", Whole),
        ("cycles", Whole),
        ("skipped", Whole),
        ("lost", Whole),
        ("excluded", Whole),
        ("misses", Whole),
        ("spikes", Whole),
        ("samples", Whole),
        ("min_ns", Whole),
        ("max_ns", Whole),
        ("mean_ns", Whole),
        ("sd_ns", Whole),
        ("p50_ns", Whole),
        ("p90_ns", Whole),
        ("p99_ns", Whole),
        ("p999_ns", Whole),
        ("p9999_ns", Whole),
        ("p999_ln", Whole),
        ("limit_ns", Whole),
        ("beyond", Whole),
        ("verdict", Text),
        ("valid", Flag),
        ("invalid_why", Text),
    ],
    sorted_by: &["tuning", "load", "host", "run"],
};

/// One row per run, series, cell and bucket with samples.
pub static HISTOGRAMS: TableShape = TableShape {
    name: "histograms",
    columns: &[
        ("run", Whole),
        ("series", Text),
        ("tuning", Text),
        ("load", Text),
        ("host", Text),
        ("low_ns", Whole),
        ("high_ns", Whole),
        ("samples", Whole),
    ],
    sorted_by: &["series", "tuning", "load", "host", "low_ns", "run"],
};

/// One row per interval with releases over the first limit that the run watched.
pub static OUTAGES: TableShape = TableShape {
    name: "outages",
    columns: &[
        ("run", Whole),
        ("host", Text),
        ("tuning", Text),
        ("load", Text),
        ("series", Text),
        ("limit_ns", Whole),
        ("t_us", Whole),
        ("length_us", Whole),
        ("outages", Whole),
        ("late", Whole),
        ("largest", Whole),
    ],
    sorted_by: &["tuning", "load", "host", "run", "t_us"],
};

/// One row per run, cell, kind of cause and culprit; the empty culprit has the spikes of all others.
pub static CAUSES: TableShape = TableShape {
    name: "causes",
    columns: &[
        ("run", Whole),
        ("host", Text),
        ("tuning", Text),
        ("load", Text),
        ("kind", Text),
        ("culprit", Text),
        ("spikes", Whole),
        ("worst_ns", Whole),
    ],
    sorted_by: &["kind", "culprit", "host", "run"],
};

/// One row per run and fact of its machine.
pub static FACTS: TableShape = TableShape {
    name: "facts",
    columns: &[("run", Whole), ("host", Text), ("name", Text), ("value", Text)],
    sorted_by: &["name", "value", "host", "run"],
};

/// One row per run and setting that was not as the catalogue of tunings wants it.
pub static SETTINGS: TableShape = TableShape {
    name: "settings",
    columns: &[("run", Whole), ("host", Text), ("name", Text), ("value", Text), ("wanted", Text)],
    sorted_by: &["name", "value", "host", "run"],
};

/// One row per run and program or firmware with a version.
pub static VERSIONS: TableShape = TableShape {
    name: "versions",
    columns: &[("run", Whole), ("host", Text), ("name", Text), ("value", Text)],
    sorted_by: &["name", "value", "host", "run"],
};

/// All tables, `runs` last: in this order they are written.
pub static TABLES: [&TableShape; 8] =
    [&CELLS, &HISTOGRAMS, &OUTAGES, &CAUSES, &FACTS, &SETTINGS, &VERSIONS, &RUNS];

/// A text column: each word once, and their places.
#[derive(Clone, Debug, Default)]
pub struct Words {
    known: Vec<String>,
    numbers: HashMap<String, u32>,
    places: Vec<u32>,
}

impl Words {
    pub(crate) fn push(&mut self, word: &str) {
        let number = self.number(word);
        self.places.push(number);
    }

    fn number(&mut self, word: &str) -> u32 {
        // Tables are sorted, so that the word before is mostly the word again.
        if let Some(&last) = self.places.last()
            && self.known[last as usize] == word
        {
            return last;
        }
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.known.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        number
    }

    fn append(&mut self, more: &Self) {
        let numbers: Vec<u32> = more.known.iter().map(|word| self.number(word)).collect();
        self.places.extend(more.places.iter().map(|&place| numbers[place as usize]));
    }

    /// Returns the word of a row.
    #[must_use]
    pub fn get(&self, row: usize) -> &str {
        self.places.get(row).map_or("", |&place| &self.known[place as usize])
    }

    /// Returns each word once; [`Self::places`] are places in it.
    #[must_use]
    pub fn known(&self) -> &[String] {
        &self.known
    }

    /// Returns the places of all rows.
    #[must_use]
    pub fn places(&self) -> &[u32] {
        &self.places
    }
}

/// One column of some rows.
#[derive(Clone, Debug)]
pub enum Column {
    Text(Words),
    /// Whole numbers.
    Whole(Vec<i64>),
    Flag(Vec<bool>),
    /// Numbers with a point.
    Real(Vec<f64>),
}

impl Column {
    fn new(holds: ColumnType) -> Self {
        match holds {
            ColumnType::Text => Self::Text(Words::default()),
            ColumnType::Whole => Self::Whole(Vec::new()),
            ColumnType::Flag => Self::Flag(Vec::new()),
            ColumnType::Real => Self::Real(Vec::new()),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Text(words), Value::Text(word)) => words.push(word),
            (Self::Whole(all), Value::Whole(number)) => all.push(number),
            (Self::Flag(all), Value::Flag(flag)) => all.push(flag),
            (Self::Real(all), Value::Real(number)) => all.push(number),
            // A row of another shape is a mistake of this crate, which its tests find.
            (column, value) => debug_assert!(false, "{value:?} does not fit {column:?}"),
        }
    }

    /// Returns the value of a row as text.
    #[must_use]
    pub fn text(&self, row: usize) -> String {
        match self.value(row) {
            Value::Text(text) => text.to_owned(),
            Value::Whole(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Real(number) => number.to_string(),
        }
    }

    fn value(&self, row: usize) -> Value<'_> {
        match self {
            Self::Text(words) => Value::Text(words.get(row)),
            Self::Whole(all) => Value::Whole(all[row]),
            Self::Flag(all) => Value::Flag(all[row]),
            Self::Real(all) => Value::Real(all[row]),
        }
    }
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Value<'v> {
    /// Of a text column.
    Text(&'v str),
    /// Of a column of whole numbers.
    Whole(i64),
    /// Of a column of flags.
    Flag(bool),
    /// Of a column of numbers with a point.
    Real(f64),
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        // Notes hold at most 2^53, sums of a run's notes less than 2^63.
        Self::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// Rows of one table.
#[derive(Clone, Debug)]
pub struct Table {
    shape: &'static TableShape,
    columns: Vec<Column>,
    rows: usize,
}

impl Table {
    /// Makes a table without rows.
    #[must_use]
    pub fn new(shape: &'static TableShape) -> Self {
        let columns = shape.columns.iter().map(|(_, holds)| Column::new(*holds)).collect();
        Self { shape, columns, rows: 0 }
    }

    /// Returns name and columns.
    #[must_use]
    pub const fn shape(&self) -> &'static TableShape {
        self.shape
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns, in the order of the shape.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Appends a row: a value for each column.
    pub fn push<const N: usize>(&mut self, row: [Value<'_>; N]) {
        debug_assert_eq!(N, self.columns.len(), "a row of {}", self.shape.name);
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        self.rows += 1;
    }

    /// Appends a row of another table with the same shape.
    pub fn push_row_of(&mut self, other: &Self, row: usize) {
        for (column, from) in self.columns.iter_mut().zip(&other.columns) {
            column.push(from.value(row));
        }
        self.rows += 1;
    }

    /// Appends columns that were read, in the order of the shape.
    pub(crate) fn append_columns(&mut self, columns: Vec<Column>, rows: usize) {
        for (all, more) in self.columns.iter_mut().zip(columns) {
            match (all, more) {
                (Column::Text(all), Column::Text(more)) => all.append(&more),
                (Column::Whole(all), Column::Whole(more)) => all.extend(more),
                (Column::Flag(all), Column::Flag(more)) => all.extend(more),
                (Column::Real(all), Column::Real(more)) => all.extend(more),
                (all, more) => debug_assert!(false, "{more:?} does not fit {all:?}"),
            }
        }
        self.rows += rows;
    }

    /// Returns a column by name, if it is one of texts.
    #[must_use]
    pub fn texts(&self, name: &str) -> Option<&Words> {
        match self.column(name)? {
            Column::Text(words) => Some(words),
            _ => None,
        }
    }

    /// Returns a column by name, if it is one of whole numbers.
    #[must_use]
    pub fn numbers(&self, name: &str) -> Option<&[i64]> {
        match self.column(name)? {
            Column::Whole(numbers) => Some(numbers),
            _ => None,
        }
    }

    fn column(&self, name: &str) -> Option<&Column> {
        let place = self.shape.columns.iter().position(|(known, _)| *known == name)?;
        self.columns.get(place)
    }

    /// Returns the rows in the order of [`TableShape::sorted_by`].
    #[must_use]
    pub fn sorted(&self) -> Self {
        let columns = self.shape.sorted_by.iter().filter_map(|name| self.column(name));
        let keys: Vec<SortKey<'_>> = columns.map(SortKey::new).collect();
        let mut order: Vec<usize> = (0..self.rows).collect();
        order.sort_by(|&a, &b| {
            let unequal = keys.iter().map(|key| key.compare(a, b)).find(|order| order.is_ne());
            unequal.unwrap_or(std::cmp::Ordering::Equal)
        });
        let columns = self.columns.iter().map(|column| in_order(column, &order)).collect();
        Self { shape: self.shape, columns, rows: self.rows }
    }

    /// Returns whether two rows have the same cell: their row group may be the same.
    #[must_use]
    pub fn is_same_cell(&self, a: usize, b: usize) -> bool {
        ["series", "tuning", "load"].iter().all(|name| {
            self.texts(name).is_none_or(|words| words.places.get(a) == words.places.get(b))
        })
    }
}

/// A column to sort by; words by their rank, so that millions of rows compare numbers.
enum SortKey<'t> {
    Whole(&'t [i64]),
    Ranked(&'t [u32], Vec<u32>),
}

impl<'t> SortKey<'t> {
    fn new(column: &'t Column) -> Self {
        match column {
            Column::Text(words) => {
                let mut order: Vec<u32> = (0..).take(words.known.len()).collect();
                order.sort_by_key(|&number| &words.known[number as usize]);
                let mut ranks = vec![0; order.len()];
                for (rank, number) in (0..).zip(order) {
                    ranks[number as usize] = rank;
                }
                Self::Ranked(&words.places, ranks)
            }
            Column::Whole(numbers) => Self::Whole(numbers),
            Column::Flag(_) | Column::Real(_) => Self::Whole(&[]),
        }
    }

    fn compare(&self, a: usize, b: usize) -> std::cmp::Ordering {
        match self {
            Self::Whole(numbers) => numbers.get(a).cmp(&numbers.get(b)),
            Self::Ranked(places, ranks) => {
                ranks[places[a] as usize].cmp(&ranks[places[b] as usize])
            }
        }
    }
}

fn in_order(column: &Column, order: &[usize]) -> Column {
    match column {
        Column::Text(words) => Column::Text(Words {
            known: words.known.clone(),
            numbers: words.numbers.clone(),
            places: order.iter().map(|&row| words.places[row]).collect(),
        }),
        Column::Whole(all) => Column::Whole(order.iter().map(|&row| all[row]).collect()),
        Column::Flag(all) => Column::Flag(order.iter().map(|&row| all[row]).collect()),
        Column::Real(all) => Column::Real(order.iter().map(|&row| all[row]).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_words_and_then_by_numbers() {
        let mut facts = Table::new(&FACTS);
        for (run, host, value) in [(3_i64, "b", "x"), (2, "a", "y"), (1, "b", "x"), (9, "a", "x")] {
            facts.push([run.into(), host.into(), "kernel".into(), value.into()]);
        }
        let sorted = facts.sorted();
        assert_eq!(sorted.numbers("run").unwrap(), [9, 1, 3, 2]);
        assert_eq!(sorted.texts("host").unwrap().get(3), "a");
    }

    #[test]
    fn the_row_of_a_run_is_written_last() {
        assert_eq!(TABLES[TABLES.len() - 1].name, "runs");
    }
}
