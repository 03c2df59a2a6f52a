//! The tracked files for the checks: their paths, and Rust code separated from comments and
//! strings.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One file of the repository.
pub(crate) struct Source {
    /// From the repository's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// A file that does not exist, to test a check.
    pub(crate) fn planted(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// `path:line: what`.
    pub(crate) fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// All tracked text files. Without git, or where git refuses, all files but those that `.gitignore`
/// names.
pub(crate) fn tracked() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Command::new("git").arg("-C").arg(&root).args(["ls-files", "-z"]).output();
    let paths: Vec<PathBuf> = match listed {
        Ok(listed) if listed.status.success() && !listed.stdout.is_empty() => {
            String::from_utf8_lossy(&listed.stdout).split('\0').map(PathBuf::from).collect()
        }
        _ => walked(&root),
    };

    let read = |path: PathBuf| {
        // Binary files and files that are deleted but not yet committed have no text.
        let text = std::fs::read_to_string(root.join(&path)).ok()?;
        Some(Source { path: path.to_string_lossy().replace('\\', "/"), text })
    };

    paths.into_iter().filter_map(read).collect()
}

fn walked(root: &Path) -> Vec<PathBuf> {
    let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let ignored: Vec<PathBuf> =
        ignored.lines().filter_map(|line| Some(root.join(line.strip_prefix('/')?))).collect();
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if ignored.contains(&path) || path.ends_with(".git") {
                continue;
            }

            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) if kind.is_file() => {
                    found.extend(path.strip_prefix(root).ok().map(Path::to_owned));
                }
                _ => {}
            }
        }
    }

    found
}

/// Rust text with comments, strings and characters replaced by blanks; lines stay.
pub(crate) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end =
            at + length_of_non_code(&bytes[at..], at.checked_sub(1).map(|before| bytes[before]));
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }

        at = end.max(at + 1);
    }

    String::from_utf8_lossy(&code).into_owned()
}

fn length_of_non_code(rest: &[u8], before: Option<u8>) -> usize {
    let until = |end: &[u8], from: usize| {
        rest[from..]
            .windows(end.len())
            .position(|window| window == end)
            .map_or(rest.len(), |place| from + place)
    };
    match rest {
        [b'/', b'/', ..] => until(b"\n", 0),
        [b'/', b'*', ..] => length_of_block_comment(rest),
        [b'"', ..] => length_of_quoted(rest, b'"'),
        [b'r', b'"' | b'#', ..] if !before.is_some_and(is_of_word) => {
            let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
            if rest.get(1 + hashes) != Some(&b'"') {
                return 0;
            }
            let end = [b"\"".as_slice(), &rest[1..=hashes]].concat();
            (until(&end, 2 + hashes) + end.len()).min(rest.len())
        }
        [b'\'', b'\\', ..] => length_of_quoted(rest, b'\''),
        // A lifetime has no second quote after its first letter.
        [b'\'', first, ..] => {
            let width = match first {
                0x00..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xff => 4,
            };
            if rest.get(1 + width) == Some(&b'\'') { 2 + width } else { 0 }
        }
        _ => 0,
    }
}

fn length_of_quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn length_of_block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }

    rest.len()
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// [`code`] without modules that are compiled for tests only.
pub(crate) fn code_without_tests(text: &str) -> String {
    let mut code = code(text);
    let mut from = 0;
    while let Some(start) = code[from..].find("#[cfg(").map(|place| from + place) {
        from = start + 1;
        let Some(condition) = code[start..].find(")]").map(|end| &code[start..start + end]) else {
            break;
        };
        if words(condition, "test").next().is_none() || condition.contains("not(test") {
            continue;
        }

        let rest = &code[start..];
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(open), semicolon) if semicolon.is_none_or(|place| open < place) => {
                start + open + block(&rest[open..])
            }
            (_, Some(semicolon)) => start + semicolon + 1,
            _ => code.len(),
        };

        let blank: String =
            code[start..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }

    code
}

/// Length of the block at the start of `text`.
pub(crate) fn block(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return at + 1;
        }
    }

    text.len()
}

/// Places of `word` as a whole word.
pub(crate) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
    text.match_indices(word).map(|(start, found)| start..start + found.len()).filter(|place| {
        let before = place.start.checked_sub(1).map(|at| text.as_bytes()[at]);
        let after = text.as_bytes().get(place.end).copied();
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

/// The number of the line at a place.
pub(crate) fn line_of(text: &str, place: usize) -> usize {
    1 + text[..place].matches('\n').count()
}

/// Every path in Rust code that begins with `root::`, with its line; groups in braces are expanded.
pub(crate) fn paths(code: &str, root: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for place in words(code, root) {
        if let Some(rest) = code[place.end..].strip_prefix("::") {
            let mut expanded = Vec::new();
            expand(root, rest, &mut expanded);
            let line = line_of(code, place.start);
            found.extend(expanded.into_iter().map(|path| (line, path)));
        }
    }

    found
}

/// Collects the paths in `rest`, the text after `prefix::`. Returns the number of bytes read.
fn expand(prefix: &str, rest: &str, into: &mut Vec<String>) -> usize {
    let name =
        rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    if name > 0 {
        let path = format!("{prefix}::{}", &rest[..name]);
        return match rest[name..].strip_prefix("::") {
            Some(deeper) => name + 2 + expand(&path, deeper, into),
            None => {
                into.push(path);
                name
            }
        };
    }

    if !rest.starts_with('{') {
        into.push(prefix.to_owned());
        return 0;
    }

    let end = block(rest);
    let mut at = 1;
    while at + 1 < end {
        let skipped = rest[at..end].find(|c: char| c.is_alphanumeric() || c == '_').unwrap_or(end);
        if at + skipped + 1 >= end {
            break;
        }

        at += skipped;
        at += expand(prefix, &rest[at..end - 1], into).max(1);
        // An alias (`as Name`) is not a path.
        at += rest[at..end].find([',', '}']).unwrap_or(0);
    }

    end
}
