//! Tables as plain text: what stands in a cell, and how it is laid out in a given width.
//!
//! No colours; the caller may add them by [`Mark`].

/// On which side a column's texts line up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// What a cell's text means beyond itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    #[default]
    Plain,
    /// Fewer than ten samples are above the figure; its text, or the name of its row, begins with
    /// `~`.
    Unsupported,
    /// The best of its column.
    Best,
    /// A limit that holds, or a thing that was granted.
    Good,
    /// A limit that is broken, or a thing that was not granted.
    Bad,
    /// A limit that the samples do not decide.
    Open,
}

/// What stands where there is no figure.
pub const NO_FIGURE: &str = "-";

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What stands there.
    pub text: String,
    /// What it means.
    pub mark: Mark,
}

impl Entry {
    /// A cell with a mark.
    #[must_use]
    pub fn marked(text: impl Into<String>, mark: Mark) -> Self {
        Self { text: text.into(), mark }
    }

    /// A figure, with its sign where few samples carry it.
    #[must_use]
    pub fn estimate(text: String, supported: bool) -> Self {
        match supported {
            true => Self::from(text),
            false => Self::marked(format!("~{text}"), Mark::Unsupported),
        }
    }
}

impl<T: Into<String>> From<T> for Entry {
    fn from(text: T) -> Self {
        Self { text: text.into(), mark: Mark::Plain }
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub header: String,
    /// On which side it lines up.
    pub align: Align,
}

impl Column {
    /// A column of words, which may be broken into several lines. Those before the first column of
    /// figures name the row.
    #[must_use]
    pub fn words(header: impl Into<String>) -> Self {
        Self { header: header.into(), align: Align::Left }
    }

    /// A column of figures, which are never broken.
    #[must_use]
    pub fn figures(header: impl Into<String>) -> Self {
        Self { header: header.into(), align: Align::Right }
    }

    /// Columns of words, and of figures behind them.
    #[must_use]
    pub fn all(words: &[&str], figures: &[&str]) -> Vec<Self> {
        let words = words.iter().map(|header| Self::words(*header));
        words.chain(figures.iter().map(|header| Self::figures(*header))).collect()
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// As many as there are columns.
    pub entries: Vec<Entry>,
    /// Whether a new group of rows begins with it.
    pub begins_group: bool,
}

impl Row {
    /// A row of these cells, in the group of the one before.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item: Into<Entry>>) -> Self {
        Self { entries: entries.into_iter().map(Into::into).collect(), begins_group: false }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows, with the unit.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What its signs mean, and what else is to be known.
    pub legend: Vec<String>,
}

/// Columns of words are not made narrower than this.
const NARROWEST: usize = 12;

impl Table {
    /// As text, no line wider than `width` as long as no single word of a column of words is: gaps become
    /// narrower first, then words are broken into lines, then columns of figures go on in a second
    /// table below. Names of rows take half of the width at most, where figures do not fit beside them.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        let mut text = wrapped(&self.title, width, "");
        for columns in self.parts(width) {
            text.push('\n');
            self.lay_out(&columns, width, &mut text);
        }

        for line in &self.legend {
            text.push_str(&wrapped(line, width, "  "));
        }

        text
    }

    /// As Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let escaped = |text: &str| text.replace('|', "\\|");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("**{}**\n\n", self.title);
        text.push_str(&line(self.columns.iter().map(|column| escaped(&column.header)).collect()));
        let rule =
            |column: &Column| if column.align == Align::Left { "---" } else { "---:" }.to_owned();
        text.push_str(&line(self.columns.iter().map(rule).collect()));

        for row in &self.rows {
            text.push_str(&line(row.entries.iter().map(|entry| escaped(&entry.text)).collect()));
        }

        for legend in &self.legend {
            text.push_str(&format!("\n{legend}\n"));
        }

        text
    }

    /// Says what `~` means, where a figure has it.
    pub fn explain_unsupported(&mut self) {
        let mut entries = self.rows.iter().flat_map(|row| &row.entries);
        if entries.any(|entry| entry.mark == Mark::Unsupported) {
            self.legend.push("~ fewer than 10 samples beyond this value".to_owned());
        }
    }

    /// Whether it can stand in `width` characters without going on in a second table.
    #[must_use]
    pub fn fits(&self, width: usize) -> bool {
        self.parts(width).len() == 1
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |i: usize| {
            self.rows.iter().map(|row| width_of(&row.entries[i].text)).max().unwrap_or(0)
        };
        self.columns
            .iter()
            .enumerate()
            .map(|(i, column)| widest(i).max(width_of(&column.header)))
            .collect()
    }

    /// Widths of the columns, those of names as far as a table of this width has room for them.
    fn widths_in(&self, width: usize) -> Vec<usize> {
        let mut widths = self.widths();
        let all: Vec<usize> = (0..widths.len()).collect();
        if self.has_figures() && total(&widths, &all, 1) > width {
            let most = (width / 2).max(NARROWEST);
            widths.iter_mut().take(self.labels()).for_each(|label| *label = (*label).min(most));
        }
        widths
    }

    fn has_figures(&self) -> bool {
        self.columns.iter().any(|column| column.align == Align::Right)
    }

    /// How many columns name a row.
    fn labels(&self) -> usize {
        self.columns.iter().take_while(|column| column.align == Align::Left).count()
    }

    /// Which columns stand beside each other, the labels in every part.
    fn parts(&self, width: usize) -> Vec<Vec<usize>> {
        let widths = self.widths_in(width);
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let labels = self.labels();
        if !self.has_figures() || total(&widths, &all, 1) <= width {
            return vec![all];
        }

        let mut parts: Vec<Vec<usize>> = vec![all[..labels].to_vec()];
        for &column in &all[labels..] {
            let last = parts.len() - 1;
            let mut with: Vec<usize> = parts[last].clone();
            with.push(column);
            if total(&widths, &with, 1) <= width || parts[last].len() == labels {
                parts[last] = with;
            } else {
                parts.push([&all[..labels], &[column]].concat());
            }
        }

        parts
    }

    /// The length of a column's longest word.
    fn longest_word(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.entries.get(column));
        let words = cells.flat_map(|entry| entry.text.split(' '));
        words.map(width_of).max().unwrap_or(0)
    }

    fn lay_out(&self, columns: &[usize], width: usize, text: &mut String) {
        let mut widths = self.widths_in(width);
        let gap = if total(&widths, columns, 2) <= width { 2 } else { 1 };
        let longest: Vec<usize> = (0..widths.len()).map(|i| self.longest_word(i)).collect();
        while total(&widths, columns, gap) > width {
            let words =
                || columns.iter().copied().filter(|&i| self.columns[i].align == Align::Left);
            // A column narrower than a word of it is as wide as that word: another one gives way first.
            let has_room = |&i: &usize| widths[i] > longest[i].max(NARROWEST);
            let widest = |all: &mut dyn Iterator<Item = usize>| all.max_by_key(|&i| widths[i]);
            let narrower = widest(&mut words().filter(has_room));
            match narrower.or_else(|| widest(&mut words())) {
                Some(widest) if widths[widest] > NARROWEST => widths[widest] -= 1,
                _ => break,
            }
        }

        let heads: Vec<String> = self.columns.iter().map(|column| column.header.clone()).collect();
        let names = if self.has_figures() { self.labels() } else { 0 };
        let lines = |i: usize, text: &str| -> Vec<String> {
            let lines = words_in(text, widths[i]);
            match i < names {
                true => lines.iter().flat_map(|line| cut(line, widths[i])).collect(),
                false => lines,
            }
        };
        let line = |texts: &[String], text: &mut String| {
            let cells: Vec<(Align, usize, Vec<String>)> = columns
                .iter()
                .map(|&i| (self.columns[i].align, widths[i], lines(i, &texts[i])))
                .collect();
            push_row(&cells, gap, text);
        };

        line(&heads, text);
        for (i, row) in self.rows.iter().enumerate() {
            if row.begins_group && i > 0 {
                text.push('\n');
            }
            line(&row.entries.iter().map(|entry| entry.text.clone()).collect::<Vec<_>>(), text);
        }
    }
}

/// Appends a row whose cells may have several lines.
fn push_row(cells: &[(Align, usize, Vec<String>)], gap: usize, text: &mut String) {
    let lines = cells.iter().map(|(_, _, lines)| lines.len()).max().unwrap_or(1).max(1);
    for i in 0..lines {
        let mut line = String::new();
        for (j, (align, width, lines)) in cells.iter().enumerate() {
            if j > 0 {
                line.push_str(&" ".repeat(gap));
            }

            let cell = lines.get(i).map_or("", String::as_str);
            let blank = " ".repeat(width.saturating_sub(width_of(cell)));
            match align {
                Align::Left => line.extend([cell, &blank]),
                Align::Right => line.extend([blank.as_str(), cell]),
            }
        }

        text.push_str(line.trim_end());
        text.push('\n');
    }
}

fn total(widths: &[usize], columns: &[usize], gap: usize) -> usize {
    columns.iter().map(|&i| widths[i]).sum::<usize>() + gap * columns.len().saturating_sub(1)
}

/// Columns that a text takes in a terminal.
///
/// ```
/// assert_eq!(onbeat_figures::table::width_of("µs 延迟"), 7);
/// ```
#[must_use]
pub fn width_of(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Two for characters of East Asian scripts and for pictures, none for marks on the one before, by Unicode's blocks.
const fn columns_of(character: char) -> usize {
    match character {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// A line in pieces of at most `width` columns.
fn cut(line: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in line.chars() {
        let last = pieces.len() - 1;
        if width_of(&pieces[last]) + columns_of(character) > width && !pieces[last].is_empty() {
            pieces.push(String::from(character));
        } else {
            pieces[last].push(character);
        }
    }

    pieces
}

/// A text broken at its spaces into lines of at most `width` columns; a longer word stays whole.
fn words_in(text: &str, width: usize) -> Vec<String> {
    if width_of(text) <= width {
        return vec![text.to_owned()];
    }

    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if width_of(&lines[last]) + 1 + width_of(word) <= width {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }

    lines
}

/// Lines of at most `width` columns, those after the first indented; a text that begins with
/// blanks keeps them in all of its lines.
fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let words = text.trim_start_matches(' ');
    let own = " ".repeat(text.len() - words.len());
    let mut lines = words_in(words, width.saturating_sub(own.len() + width_of(indent))).into_iter();
    let first = lines.next().unwrap_or_default();
    let rest: String = lines.map(|line| format!("{own}{indent}{line}\n")).collect();
    format!("{own}{first}\n{rest}")
}
