//! Where kernel command lines stand in the files that hold them.
//!
//! | file | where |
//! |---|---|
//! | `/proc/cmdline`, `cmdline.txt` | the first line |
//! | `/etc/kernel/cmdline` | all lines as one |
//! | `/etc/default/grub`, Yocto, `CONFIG_CMDLINE`, U-Boot, Limine | the values of certain variables |
//! | `extlinux.conf` | each line `APPEND`, for itself |
//! | entries of systemd-boot | the lines `options`, as one |
//! | `grub.cfg` | each line `linux`, for itself |
//! | `refind_linux.conf` | the second quoted text of each line, for itself |
//! | NixOS, bootc | the quoted words of `boot.kernelParams = [ ... ]` and `kargs = [ ... ]` |
//!
//! Only what is found here is judged and replaced; every other byte stays.

use std::ops::Range;

use super::{LintSubject, settings};

/// A stretch of a command line.
#[derive(Clone, Debug)]
pub(super) struct LineStretch {
    pub(super) bytes: Range<usize>,
    /// What goes where all words of it go: a word of NixOS with its quotes.
    pub(super) whole: Range<usize>,
}

impl LineStretch {
    fn plain(bytes: Range<usize>) -> Self {
        Self { whole: bytes.clone(), bytes }
    }
}

/// Where a parameter may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddedAt {
    /// As a word behind this byte.
    Word(usize),
    /// As a quoted word behind this byte.
    QuotedWord(usize),
    /// Nowhere: other places have words of the same line, and nothing is missing of a part.
    Elsewhere,
}

/// What one boot of a kernel gets.
#[derive(Clone, Debug)]
pub(super) struct KernelLine {
    pub(super) stretches: Vec<LineStretch>,
    pub(super) added_at: AddedAt,
}

/// All lines of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelText {
    pub(super) lines: Vec<KernelLine>,
    /// Values without quotes: they get some where a word is added.
    pub(super) unquoted: Vec<Range<usize>>,
    /// Values that a later assignment replaces.
    pub(super) replaced: Vec<Range<usize>>,
    /// Lines of the file that are read by nobody.
    pub(super) unread: Vec<Range<usize>>,
    /// Words behind a value that a shell has ended.
    pub(super) behind: Vec<Range<usize>>,
    /// Names that a shell takes for commands, because blanks are beside their sign.
    pub(super) commands: Vec<Range<usize>>,
    /// Where a quote opens that nothing closes.
    pub(super) open_quote: Option<usize>,
    /// Other lines of the file, which are not judged.
    pub(super) others: usize,
    /// Why nothing is corrected.
    pub(super) refusal: Option<String>,
}

/// Finds the lines of a text of this subject.
pub(super) fn lines_of(text: &str, subject: LintSubject) -> KernelText {
    match subject {
        LintSubject::GrubFile => assigned(text, is_grub_variable, Joined::AllTogether),
        LintSubject::BuildVariables => {
            let mut found = assigned(text, is_build_variable, Joined::EachAlone);
            if text.starts_with(GRUB_ENVIRONMENT) {
                let why = "a GRUB environment block has a fixed length: grub-editenv changes it";
                found.refusal = Some(why.to_owned());
            }
            found
        }
        LintSubject::Extlinux => {
            let found = after_keyword(text, &["append"], Joined::EachAlone);
            if found.lines.is_empty() { quoted_pairs(text) } else { found }
        }
        LintSubject::SystemdBootEntry => after_keyword(text, &["options"], Joined::AllTogether),
        LintSubject::GrubMenu => grub_menu(text),
        LintSubject::NixOptions => listed_words(text),
        LintSubject::KernelLines => joined_lines(text),
        _ => first_line(text),
    }
}

/// Whether several places of a file make one command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    AllTogether,
    EachAlone,
}

/// Each line with the byte at which it begins, without its end.
pub(super) fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.trim_end_matches(['\n', '\r']))
    })
}

fn trimmed(at: usize, line: &str) -> Range<usize> {
    let start = at + line.len() - line.trim_start().len();
    start..start + line.trim().len()
}

fn line_of(bytes: Range<usize>) -> KernelLine {
    let added_at = AddedAt::Word(bytes.end);
    KernelLine { stretches: vec![LineStretch::plain(bytes)], added_at }
}

/// A command line is one line: the firmware of a Raspberry Pi reads no other.
fn first_line(text: &str) -> KernelText {
    let mut found = KernelText::default();
    for (at, line) in numbered_lines(text) {
        let bytes = trimmed(at, line);
        if bytes.is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match found.lines.is_empty() {
            true => found.lines.push(line_of(bytes)),
            false => found.unread.push(bytes),
        }
    }
    if !found.unread.is_empty() {
        let why = "a kernel command line is one line and this text has several; which of them is meant is not known";
        found.refusal = Some(why.to_owned());
    }
    found
}

fn joined_lines(text: &str) -> KernelText {
    let lines = numbered_lines(text).map(|(at, line)| trimmed(at, line));
    let is_read = |bytes: &Range<usize>| !bytes.is_empty() && !text[bytes.clone()].starts_with('#');
    let stretches: Vec<_> = lines.filter(is_read).map(LineStretch::plain).collect();
    // A file of /etc/cmdline.d is one of several.
    let is_whole = text.split_ascii_whitespace().any(|word| word.starts_with("root="));
    let last = stretches.last().filter(|_| is_whole);
    let added_at = last.map_or(AddedAt::Elsewhere, |last| AddedAt::Word(last.bytes.end));
    KernelText { lines: vec![KernelLine { stretches, added_at }], ..KernelText::default() }
}

/// Lines that begin with a keyword, as in `extlinux.conf` and the entries of systemd-boot.
fn after_keyword(text: &str, keywords: &[&str], joined: Joined) -> KernelText {
    let mut found = KernelText::default();
    for (at, line) in numbered_lines(text) {
        let word = line.split_whitespace().next().unwrap_or_default();
        if !keywords.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) {
            continue;
        }
        let after = at + line.find(word).unwrap_or(0) + word.len();
        let bytes = trimmed(after, &text[after..at + line.len()]);
        match found.lines.last_mut().filter(|_| joined == Joined::AllTogether) {
            Some(line) => {
                line.added_at = AddedAt::Word(bytes.end);
                line.stretches.push(LineStretch::plain(bytes));
            }
            None => found.lines.push(line_of(bytes)),
        }
    }
    found
}

/// What the file begins with in which GRUB keeps variables.
const GRUB_ENVIRONMENT: &str = "# GRUB Environment Block";

/// A name and a command line of rEFInd, each in quotes.
pub(super) fn quoted_pair(line: &str) -> Option<Range<usize>> {
    match quoted(line)[..] {
        [_, (start, end)] if line.trim_start().starts_with('"') => Some(start + 1..end - 1),
        _ => None,
    }
}

fn quoted_pairs(text: &str) -> KernelText {
    let pairs = numbered_lines(text).filter_map(|(at, line)| {
        quoted_pair(line).map(|bytes| line_of(at + bytes.start..at + bytes.end))
    });
    KernelText { lines: pairs.collect(), ..KernelText::default() }
}

/// The words behind the kernel's name, or the options of rEFInd. A generated file is not corrected.
fn grub_menu(text: &str) -> KernelText {
    let why = "grub.cfg is generated: change /etc/default/grub and run update-grub";
    let refusal = text.contains("DO NOT EDIT THIS FILE").then(|| why.to_owned());
    let mut found = KernelText { refusal, ..KernelText::default() };
    for (at, line) in numbered_lines(text) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("linux" | "linuxefi" | "linux16") => {}
            Some("options" | "add_options") => {
                let words = quoted(line).first().map(|(start, end)| at + start + 1..at + end - 1);
                found.lines.extend(words.map(line_of));
                continue;
            }
            _ => continue,
        }
        let Some(kernel) = words.next() else { continue };
        let after = at + line.find(kernel).unwrap_or(0) + kernel.len();
        found.lines.push(line_of(trimmed(after, &text[after..at + line.len()])));
    }
    found
}

fn is_grub_variable(name: &str) -> bool {
    name.starts_with("GRUB_CMDLINE_LINUX")
}

/// Variables of Yocto, of the kernel's configuration, and of U-Boot.
pub(super) fn is_build_variable(name: &str) -> bool {
    let base = name.split([':', '[']).next().unwrap_or(name);
    let base = base.split("_append").next().unwrap_or(base);
    let base = base.split("_prepend").next().unwrap_or(base);
    // What Yocto takes out of a line is no part of it.
    settings::is_listed("build_variable", base) && !name.contains(":remove")
}

/// Whether an assignment, of which this is all before the value, adds to what others assign: to the
/// options of an entry, those of TuneD.
fn is_added(head: &str) -> bool {
    let of_others = ["append", "prepend", "tuned_", "TUNED_"];
    head.contains(['+', '.']) || of_others.iter().any(|word| head.contains(word))
}

/// An assignment: its name, and where the value begins.
pub(super) fn assignment(line: &str) -> Option<(&str, usize)> {
    let start = line.len() - line.trim_start().len();
    let rest = &line[start..];
    let rest = ["export ", "setenv ", "set "].iter().find_map(|word| rest.strip_prefix(word));
    let rest = rest.unwrap_or(&line[start..]).trim_start();
    let at = line.len() - rest.len();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_:-[]".contains(c);
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let name = rest[..length].trim_end_matches(':');
    let after = &rest[name.len()..];
    let is_begun = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let operator = ["??=", "?=", "+=", ".=", "=.", "=+", ":=", "="]
        .iter()
        .find(|operator| after.trim_start().starts_with(**operator));
    match operator {
        Some(operator) if is_begun => {
            let blanks = after.len() - after.trim_start().len();
            let value = at + name.len() + blanks + operator.len();
            Some((name, value + line[value..].len() - line[value..].trim_start().len()))
        }
        // `setenv bootargs ...` has no operator, and Limine writes `cmdline: ...`.
        None if name == "bootargs" && line.trim_start().starts_with("setenv ")
            || matches!(name, "cmdline" | "kernel_cmdline") && after.starts_with(": ") =>
        {
            let value = at + name.len() + usize::from(after.starts_with(':'));
            Some((name, value + line[value..].len() - line[value..].trim_start().len()))
        }
        _ => None,
    }
}

/// The values of variables, without their quotes.
fn assigned(text: &str, is_meant: fn(&str) -> bool, joined: Joined) -> KernelText {
    let mut found = KernelText::default();
    let mut values: Vec<(&str, Range<usize>)> = Vec::new();
    let mut until = 0;
    let mut is_part = false;
    for (at, line) in numbered_lines(text) {
        if at < until || line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let Some((name, value_at)) = assignment(line) else {
            // Each entry of Limine has a variable of its own.
            if joined == Joined::EachAlone && line.starts_with([':', '/']) {
                values.clear();
            }
            found.others += 1;
            continue;
        };
        if !is_meant(name) {
            found.others += usize::from(joined == Joined::EachAlone);
            continue;
        }
        let from = at + value_at;
        let (bytes, is_quoted) = value_of(text, from..at + line.len(), joined);
        until = bytes.end;
        let value = &text[bytes.clone()];
        // The quote of the next variable seems to close one that is open.
        let is_next = |line: &str| assignment(line).is_some_and(|(name, _)| is_meant(name));
        let is_open = bytes.start == from || value.lines().skip(1).any(is_next);
        if is_quoted && is_open {
            found.open_quote.get_or_insert(from);
        } else if joined == Joined::AllTogether {
            found.look_as_a_shell(text, at..from, &bytes, is_quoted);
        }
        if let Some(why) = not_understood(value, is_quoted) {
            found.refusal.get_or_insert(why);
        }
        let is_added = is_added(&line[..value_at]);
        is_part |= is_added && values.iter().all(|(known, _)| *known != name);
        // An indented line may be one of two branches.
        let is_new = !line.starts_with([' ', '\t']) && !is_added && !value.contains(name);
        // Of other operators of Yocto the first value may count, and of setenv either.
        let is_plain = line[..value_at].replace([' ', '\t'], "") == format!("{name}=");
        if is_new && (is_plain || joined == Joined::AllTogether) {
            let earlier = values.extract_if(.., |(known, _)| *known == name);
            let earlier: Vec<_> = earlier.map(|(_, bytes)| bytes).collect();
            found.lines.retain(|line| !earlier.contains(&line.stretches[0].bytes));
            found.replaced.extend(earlier);
        }
        values.push((name, bytes.clone()));
        if !is_quoted && !value.is_empty() && joined == Joined::AllTogether {
            found.unquoted.push(bytes.clone());
        }
        if joined == Joined::EachAlone {
            let line = line_of(bytes);
            let added_at = if is_added { AddedAt::Elsewhere } else { line.added_at };
            found.lines.push(KernelLine { added_at, ..line });
        }
    }
    if joined == Joined::AllTogether {
        found.lines = grub_lines(&values);
        for line in found.lines.iter_mut().filter(|_| is_part) {
            line.added_at = AddedAt::Elsewhere;
        }
    }
    found
}

/// The lines of the values that count: `GRUB_CMDLINE_LINUX` comes first in an entry, and variables of
/// other names, such as that of the recovery entry, are for other entries.
fn grub_lines(values: &[(&str, Range<usize>)]) -> Vec<KernelLine> {
    fn place(name: &str) -> Option<usize> {
        let normal = ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"];
        normal.iter().position(|normal| *normal == name)
    }
    let mut normal: Vec<_> = values.iter().filter(|(name, _)| place(name).is_some()).collect();
    normal.sort_by_key(|(name, _)| place(name));
    let stretches: Vec<_> =
        normal.into_iter().map(|(_, bytes)| LineStretch::plain(bytes.clone())).collect();
    let is_filled = |stretch: &&LineStretch| !stretch.bytes.is_empty();
    let last = stretches.iter().rfind(is_filled).or(stretches.last());
    let added_at = last.map_or(AddedAt::Elsewhere, |last| AddedAt::Word(last.bytes.end));

    let mut lines = vec![KernelLine { stretches, added_at }];
    let others = values.iter().filter(|(name, _)| place(name).is_none());
    lines.extend(others.map(|(_, bytes)| line_of(bytes.clone())));
    lines
}

/// The value in the rest of a line: in quotes perhaps on several lines; else a shell ends it at a
/// blank, and U-Boot and make at the line's end.
fn value_of(text: &str, on_line: Range<usize>, joined: Joined) -> (Range<usize>, bool) {
    let from = on_line.start;
    let rest = &text[from..];
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let value = &text[on_line];
        let end = match joined {
            Joined::AllTogether => value.find(char::is_whitespace).unwrap_or(value.len()),
            Joined::EachAlone => value.split(" #").next().unwrap_or(value).trim_end().len(),
        };
        return (from..from + end, false);
    };

    let mut is_escaped = false;
    for (at, c) in rest[1..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            _ if c == quote => return (from + 1..from + 1 + at, true),
            _ => {}
        }
    }
    // A quote that stays open: nothing is known of the rest.
    (from..from, true)
}

impl KernelText {
    /// What a shell makes of an assignment whose name and sign, and whose value, are at these bytes.
    fn look_as_a_shell(
        &mut self,
        text: &str,
        head: Range<usize>,
        value: &Range<usize>,
        is_quoted: bool,
    ) {
        let name = trimmed(head.start, &text[head.clone()]);
        let written = text[name.clone()].trim_start_matches("export ").trim_start();
        // An empty value, perhaps with a comment behind it, may have a blank in front.
        let is_empty = !is_quoted && (value.is_empty() || text[value.clone()].starts_with('#'));
        let is_apart = text[head].ends_with(char::is_whitespace) && !is_empty;
        if is_apart || written.contains([' ', '\t']) {
            self.commands.push(name);
        }
        let end = value.end + usize::from(is_quoted);
        let rest = text[end..].lines().next().unwrap_or_default();
        let words = trimmed(end, rest);
        // A blank in other quotes, behind a backslash or in a command ends nothing.
        let written = &text[value.clone()];
        let is_plain = !written.contains(['"', '\'', '\\', '`']) && !written.contains("$(");
        // Another command, or another variable.
        let next = &text[words.clone()];
        let is_other = next.starts_with(['#', ';', '\\', '&', '|']) || next.starts_with("GRUB_");
        let is_cut = rest.starts_with([' ', '\t']) && is_plain && !is_other;
        if is_cut && !is_empty && !words.is_empty() {
            self.behind.push(words);
        }
    }
}

/// What makes a value of a shell more than its words.
fn not_understood(value: &str, is_quoted: bool) -> Option<String> {
    let computed = ["$(", "`"].iter().find(|sign| value.contains(**sign));
    match computed {
        None if value.contains(['“', '”', '„', '‘', '’']) => {
            Some("a value has typographic quotes, which a shell does not read".to_owned())
        }
        Some(sign) => Some(format!("a value is computed by a shell ({sign}...)")),
        None if value.replace("\\\n", "").contains('\\') => {
            Some("a value has characters after a backslash".to_owned())
        }
        None if !is_quoted && value.contains(['"', '\'']) => {
            Some("a value has quotes in its middle".to_owned())
        }
        None => None,
    }
}

/// The words between the brackets of `boot.kernelParams` and of `kargs`.
fn listed_words(text: &str) -> KernelText {
    let name = if text.contains("kernelParams") { "kernelParams" } else { "kargs" };
    let mut found = KernelText::default();
    // bootc adds up the words of all files.
    let mut line = KernelLine { stretches: Vec::new(), added_at: AddedAt::Elsewhere };
    let mut outside = 0..0;
    while let Some((open, close)) = next_brackets(text, name, outside.end, &mut found.refusal) {
        found.others += other_lines(&text[outside.end..open], name);
        for (start, end) in quoted(&text[open..close]) {
            let bytes = open + start + 1..open + end - 1;
            if text[bytes.clone()].contains(['$', '\\']) {
                let why = "a word is computed by Nix (${...} or a backslash)";
                found.refusal.get_or_insert_with(|| why.to_owned());
            }
            // In TOML a word goes with the comma behind it.
            let has_comma = text[bytes.end + 1..].starts_with(',');
            let whole = bytes.start - 1..bytes.end + 1 + usize::from(has_comma);
            if name != "kargs" {
                line.added_at = AddedAt::QuotedWord(whole.end);
            }
            line.stretches.push(LineStretch { bytes, whole });
        }
        outside = 0..close + 1;
    }
    found.others += other_lines(&text[outside.end..], name);
    found.lines.push(line);
    found
}

/// Lines with more than what ends the list or names it.
fn other_lines(text: &str, name: &str) -> usize {
    let is_other = |line: &&str| {
        let line = line.trim();
        let is_name = line.contains(name);
        !(is_name
            || line.starts_with('#')
            || line.trim_matches([']', ';', '{', '}', ' ']).is_empty())
    };
    text.lines().filter(is_other).count()
}

fn next_brackets(
    text: &str,
    name: &str,
    from: usize,
    refusal: &mut Option<String>,
) -> Option<(usize, usize)> {
    // More lists behind the first one, up to the end of the statement: `[ ... ] ++ [ ... ];`.
    let statement = text[from..].split_once(';').map_or("", |(statement, _)| statement);
    let again = statement.find('[').filter(|_| from > 0);
    let at = again.map_or_else(|| text[from..].find(name).map(|at| from + at), |_| Some(from))?;
    let open = at + text[at..].find('[')?;
    let between = text[at..open].trim_start_matches(name).trim();
    if between != "=" {
        refusal.get_or_insert(format!("{name} is more than a list (\"{between}\" precedes it)"));
    }
    let length = closing_bracket(&text[open..])?;
    Some((open, open + length))
}

/// Where the list ends, outside of quotes and comments.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut in_quotes = false;
    let mut in_comment = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => in_comment = false,
            _ if in_comment => {}
            '"' => in_quotes = !in_quotes,
            '#' if !in_quotes => in_comment = true,
            ']' if !in_quotes => return Some(at),
            _ => {}
        }
    }
    None
}

/// Quoted words with their quotes, outside of comments.
fn quoted(text: &str) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut opened = None;
    let mut in_comment = false;
    for (at, c) in text.char_indices() {
        match (c, opened) {
            ('\n', None) => in_comment = false,
            ('#', None) => in_comment = true,
            ('"' | '\'', None) if !in_comment => opened = Some((at, c)),
            (_, Some((start, quote))) if c == quote => {
                words.push((start, at + 1));
                opened = None;
            }
            _ => {}
        }
    }
    words
}
