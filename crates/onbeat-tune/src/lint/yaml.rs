//! The values of a YAML file, each with its path and its place in the text.
//!
//! ```text
//! services:                       path                                   value
//!   ctl: {cap_add: [SYS_NICE]}    services ctl cap_add -0                SYS_NICE
//!   log:                          services log cpuset                    0-1
//!     cpuset: "0-1"
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Aliases repeat what they stand for; a file that would grow beyond this is refused.
const MOST_VALUES: usize = 100_000;

/// A value, with the keys above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlValue {
    /// Keys from the outermost one to its own; `-N` stands for item N of a list, and the first is the
    /// document's number. What `<<` merges stands below that key.
    pub path: Vec<String>,
    pub value: String,
    /// From its key on, where it has one.
    pub bytes: Range<usize>,
    /// Without quotes.
    pub value_bytes: Range<usize>,
}

impl YamlValue {
    /// Its keys alone, without items of lists and merges.
    pub(super) fn keys(&self) -> Vec<&str> {
        let is_key = |key: &&str| !key.starts_with('-') && *key != "<<";
        self.path.iter().map(String::as_str).filter(is_key).collect()
    }
}

/// Reads all values of a file, in order; the error is what is wrong, and where.
pub(super) fn values(text: &str) -> Result<Vec<YamlValue>, String> {
    let mut reader = Reader::new(text);
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|why| format!("line {}: {}", why.marker().line(), why.info()))?;
        reader.event(event, span)?;
    }
    Ok(reader.values)
}

/// A collection that is being read.
enum Level {
    /// With the key whose value comes next, and where it begins.
    Map(Option<(String, usize)>),
    /// With the number of the next item.
    List(usize),
}

struct Reader<'t> {
    text: &'t str,
    /// Where each character begins: places are counted in characters.
    places: Vec<usize>,
    levels: Vec<Level>,
    documents: usize,
    values: Vec<YamlValue>,
    /// Of each anchor: its values and the length of their common path. Absent while it is read.
    anchors: BTreeMap<usize, (Range<usize>, usize)>,
    /// Anchors of the collections in `levels`, with their first value.
    open: Vec<(usize, usize)>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let places = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        Self {
            text,
            places,
            levels: Vec::new(),
            documents: 0,
            values: Vec::new(),
            anchors: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        let strange = |what: &str| Err(format!("line {} has {what}", span.start.line()));
        match event {
            Event::DocumentStart(_) => self.levels = vec![Level::List(self.documents)],
            Event::DocumentEnd => self.documents += 1,
            Event::Scalar(value, style, anchor, _) => {
                let bytes = self.bytes(span);
                if let Some(Level::Map(key @ None)) = self.levels.last_mut() {
                    *key = Some((value.into_owned(), bytes.start));
                    return Ok(());
                }
                let first = self.values.len();
                self.scalar(value.into_owned(), style, bytes);
                self.anchors.insert(anchor, (first..self.values.len(), self.path().len()));
                self.next();
            }
            Event::MappingStart(..) | Event::SequenceStart(..) if self.awaits_key() => {
                return strange("a key that is not a word");
            }
            Event::MappingStart(anchor, _) => self.enter(Level::Map(None), anchor),
            Event::SequenceStart(anchor, _) => self.enter(Level::List(0), anchor),
            Event::MappingEnd | Event::SequenceEnd => {
                self.levels.pop();
                if let Some((anchor, first)) = self.open.pop() {
                    self.anchors.insert(anchor, (first..self.values.len(), self.path().len()));
                }
                self.next();
            }
            Event::Alias(_) if self.awaits_key() => return strange("an alias in place of a key"),
            Event::Alias(anchor) => {
                if !self.repeat(anchor) {
                    return strange("an alias that refers to itself or expands too far");
                }
                self.next();
            }
            Event::StreamStart | Event::StreamEnd | Event::Nothing => {}
        }
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.levels.last(), Some(Level::Map(None)))
    }

    fn enter(&mut self, level: Level, anchor: usize) {
        // While it is read, an alias of it would stand for itself.
        self.anchors.remove(&anchor);
        self.open.push((anchor, self.values.len()));
        self.levels.push(level);
    }

    /// After a value: the next key, or the next item.
    fn next(&mut self) {
        match self.levels.last_mut() {
            Some(Level::Map(key)) => *key = None,
            Some(Level::List(number)) => *number += 1,
            None => {}
        }
    }

    fn path(&self) -> Vec<String> {
        let key = |level: &Level| match level {
            Level::Map(Some((key, _))) => Some(key.clone()),
            Level::Map(None) => None,
            Level::List(number) => Some(format!("-{number}")),
        };
        self.levels.iter().filter_map(key).collect()
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        let place = |at: usize| self.places.get(at).copied().unwrap_or(self.text.len());
        place(span.start.index())..place(span.end.index())
    }

    fn scalar(&mut self, value: String, style: ScalarStyle, bytes: Range<usize>) {
        let (value_bytes, end) = self.place(&value, style, bytes.clone());
        let start = match self.levels.last() {
            Some(Level::Map(Some((_, start)))) => *start,
            _ => bytes.start,
        };
        let is_null = style == ScalarStyle::Plain && matches!(value.as_str(), "~" | "null");
        let value = if is_null { String::new() } else { value };
        self.values.push(YamlValue {
            path: self.path(),
            value,
            bytes: start.min(bytes.start)..end,
            value_bytes,
        });
    }

    /// Where a value stands without its quotes, and where it ends with them: the parser's own end may lie
    /// behind blanks and a comment.
    fn place(&self, value: &str, style: ScalarStyle, of: Range<usize>) -> (Range<usize>, usize) {
        let text = &self.text[of.clone()];
        let quote = match style {
            ScalarStyle::SingleQuoted => '\'',
            ScalarStyle::DoubleQuoted => '"',
            _ => {
                let length =
                    if text.starts_with(value) { value.len() } else { text.trim_end().len() };
                return (of.start..of.start + length, of.start + length);
            }
        };
        let inner = of.start + 1;
        let mut characters = text.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            if character == '\\' && quote == '"' {
                characters.next();
            } else if character == quote {
                // Two of them stand for one.
                if quote == '\'' && characters.next_if(|(_, next)| *next == quote).is_some() {
                    continue;
                }
                return (inner..of.start + at, of.start + at + 1);
            }
        }
        (of.clone(), of.end)
    }

    /// Repeats what an anchor stands for below the present key; `false` if that cannot be.
    fn repeat(&mut self, anchor: usize) -> bool {
        let Some((range, above)) = self.anchors.get(&anchor).cloned() else { return false };
        if self.values.len() + range.len() > MOST_VALUES {
            return false;
        }
        let path = self.path();
        let repeated: Vec<YamlValue> = self.values[range]
            .iter()
            .map(|of| YamlValue {
                path: path.iter().chain(&of.path[above..]).cloned().collect(),
                ..of.clone()
            })
            .collect();
        self.values.extend(repeated);
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let line = |of: &YamlValue| {
            assert!(of.bytes.start <= of.value_bytes.start && of.value_bytes.end <= of.bytes.end);
            format!("{}={}", of.path[1..].join("."), of.value)
        };
        values(text).unwrap().iter().map(line).collect()
    }

    #[test]
    fn blocks_and_brackets_are_the_same_file() {
        let block = "a:\n  b:\n    - x\n    - 'y: #1'\n  c: {d: 1}\n";
        assert_eq!(read(block), ["a.b.-0=x", "a.b.-1=y: #1", "a.c.d=1"]);
        assert_eq!(read("{a: {b: [x, 'y: #1'], c: {d: 1}}}"), read(block));
    }

    #[test]
    fn places_are_those_of_the_text_without_quotes() {
        let text = "é: \"ü 1\" # x\nb: [2,\"3\"]\n";
        let found = values(text).unwrap();
        let places: Vec<&str> = found.iter().map(|of| &text[of.value_bytes.clone()]).collect();
        assert_eq!(places, ["ü 1", "2", "3"]);
        assert_eq!(&text[found[0].bytes.clone()], "é: \"ü 1\"");

        let text = "a: 'it''s' # it's\nb: \"say \\\"x\\\"\" # \"\nc: plain # and \"more\"\n";
        let found = values(text).unwrap();
        let places: Vec<&str> = found.iter().map(|of| &text[of.bytes.clone()]).collect();
        assert_eq!(places, ["a: 'it''s'", "b: \"say \\\"x\\\"\"", "c: plain"]);
        assert_eq!((&*found[0].value, &*found[1].value), ("it's", "say \"x\""));
    }

    #[test]
    fn an_alias_stands_for_what_its_anchor_holds() {
        let text = "x: &rt\n  cpuset: '2'\n  caps: &caps [A, B]\ns:\n  <<: *rt\n  more: *caps\n";
        assert_eq!(
            read(text),
            [
                "x.cpuset=2",
                "x.caps.-0=A",
                "x.caps.-1=B",
                "s.<<.cpuset=2",
                "s.<<.caps.-0=A",
                "s.<<.caps.-1=B",
                "s.more.-0=A",
                "s.more.-1=B"
            ]
        );
    }

    #[test]
    fn an_alias_of_itself_and_one_that_explodes_are_refused_with_their_line() {
        assert!(values("a: &a\n  b: *a\n").unwrap_err().starts_with("line 2"));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let of = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![of; 10].join(", "));
        }
        assert!(values(&bomb).unwrap_err().contains("expands too far"));
    }

    #[test]
    fn documents_are_counted_and_what_is_no_yaml_is_refused_with_its_line() {
        let paths: Vec<_> =
            values("a: 1\n---\na: 2\n").unwrap().into_iter().map(|of| of.path).collect();
        assert_eq!(paths, [["-0", "a"], ["-1", "a"]]);
        assert!(values("a: [1, 2\nb: 3\n").unwrap_err().starts_with("line "));
        assert!(values("? [a]\n: 1\n").unwrap_err().contains("a key that is not a word"));
    }
}
