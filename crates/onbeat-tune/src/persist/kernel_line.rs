//! Files with one kernel command line: onbeat's parameters stand between markers, and replace those
//! of the same names.
//!
//! The markers look like a module's parameters: the kernel ignores those of a module that does not
//! exist.

use crate::catalogue::survey::name_of;

const BEGIN: &str = "onbeat.begin";
const END: &str = "onbeat.end";

/// A merged text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MergedLine {
    /// The whole file.
    pub(super) text: String,
    /// Parameters that onbeat's replace.
    pub(super) displaced: Vec<String>,
}

/// Merges parameters into the first line that is not a comment; `None` where there is none. Where all
/// lines are joined, others lose those of the same names.
pub(super) fn merge(text: &str, ours: &[String], is_joined: bool) -> Option<MergedLine> {
    let is_ours = |piece: &&str| ours.iter().any(|own| name_of(own) == name_of(piece));
    let mut merged = MergedLine { text: String::new(), displaced: Vec::new() };
    let mut is_first = true;
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches(['\n', '\r']);
        // What follows belongs to init.
        let (kernel, init) = split_init(line);
        let (displaced, mut words): (Vec<&str>, Vec<&str>) =
            kernel.split_whitespace().partition(is_ours);
        let is_changed = is_first || is_joined && !displaced.is_empty();
        if !is_changed || !is_command_line(line) {
            merged.text.push_str(whole);
            continue;
        }
        if std::mem::take(&mut is_first) {
            words.push(BEGIN);
            words.extend(ours.iter().map(String::as_str));
            words.push(END);
        }
        words.extend(init.split_whitespace());
        merged.text.push_str(&words.join(" "));
        merged.text.push_str(&whole[line.len()..]);
        merged.displaced.extend(displaced.into_iter().map(str::to_owned));
    }
    (!is_first).then_some(merged)
}

/// Takes out what stands between the markers and puts back what was displaced; `None` without both
/// markers.
pub(super) fn without_ours(text: &str, displaced: &[String]) -> Option<String> {
    let line = command_line(text)?;
    let (kernel, init) = split_init(line);
    let pieces: Vec<&str> = kernel.split_whitespace().collect();
    let begin = pieces.iter().position(|piece| *piece == BEGIN)?;
    let end = pieces.iter().position(|piece| *piece == END).filter(|end| *end > begin)?;

    let mut rest: Vec<&str> = pieces[..begin].to_vec();
    rest.extend(&pieces[end + 1..]);
    // One that a person has set since counts.
    let is_set = |own: &&String| rest.iter().any(|piece| name_of(piece) == name_of(own));
    let back: Vec<&String> = displaced.iter().filter(|own| !is_set(own)).collect();
    rest.extend(back.into_iter().map(String::as_str));
    rest.extend(init.split_whitespace());
    Some(text.replacen(line, &rest.join(" "), 1))
}

fn command_line(text: &str) -> Option<&str> {
    text.lines().find(|line| is_command_line(line))
}

fn is_command_line(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

/// A line up to `--`, and from there on.
fn split_init(line: &str) -> (&str, &str) {
    let mut at = 0;
    for piece in line.split(' ') {
        if piece == "--" {
            return line.split_at(at);
        }
        at += piece.len() + 1;
    }
    (line, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(parameters: &[&str]) -> Vec<String> {
        parameters.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn parameters_are_merged_by_name_in_front_of_those_of_init() {
        let merged = merge(
            "# boot\nroot=x isolcpus=1 rcu-nocbs=1 quiet -- 3\n",
            &ours(&["isolcpus=3", "rcu_nocbs=3"]),
            false,
        );
        let merged = merged.unwrap();
        let expected = "# boot\nroot=x quiet onbeat.begin isolcpus=3 rcu_nocbs=3 onbeat.end -- 3\n";
        assert_eq!(merged.text, expected);
        assert_eq!(merged.displaced, ["isolcpus=1", "rcu-nocbs=1"]);
    }

    /// kernel-install joins all lines of its file, where the last value of a name counts.
    #[test]
    fn other_lines_that_are_joined_lose_parameters_of_the_same_names() {
        let text = "root=x rw\n# tuned\nquiet audit=1 skew_tick=0\nnosmt\n";
        let merged = merge(text, &ours(&["audit=0"]), true).unwrap();
        let expected =
            "root=x rw onbeat.begin audit=0 onbeat.end\n# tuned\nquiet skew_tick=0\nnosmt\n";
        assert_eq!((merged.text.as_str(), merged.displaced), (expected, ours(&["audit=1"])));
        // The firmware of a Raspberry Pi reads no other line.
        let alone = merge(text, &ours(&["audit=0"]), false).unwrap();
        assert!(alone.text.ends_with("quiet audit=1 skew_tick=0\nnosmt\n"), "{}", alone.text);
    }

    #[test]
    fn a_line_that_others_changed_loses_only_what_is_between_the_markers() {
        let merged = merge("root=x isolcpus=1\n", &ours(&["isolcpus=3"]), false).unwrap();
        let edited = merged.text.replace("root=x", "root=y nosmt");
        let rest = without_ours(&edited, &merged.displaced).unwrap();
        assert_eq!(rest, "root=y nosmt isolcpus=1\n");
        assert_eq!(without_ours("root=x\n", &[]), None);
    }

    #[test]
    fn a_file_without_a_line_is_not_merged() {
        assert_eq!(merge("# nothing\n\n", &ours(&["nosmt"]), false), None);
    }
}
