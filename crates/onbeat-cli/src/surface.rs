//! What help shows: the commands and options that most users need. `--help-all` shows all of them
//! with details, as the man pages do; hidden ones work like any other.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::cli::Cli;

/// How much of the command line help shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What most users need.
    Common,
    /// Everything.
    All,
}

/// Commands that only `--help-all` lists.
const EXPERT_COMMANDS: &[&str] = &[
    "bus alias",
    "bus clocks",
    "bus events",
    "bus foe",
    "bus import",
    "bus pdos",
    "bus register",
    "bus registers",
    "bus rescan",
    "bus sdo",
    "bus sdos",
    "bus sii",
    "bus stats",
    "bus topology",
    "bus watch",
    "inject",
    "measure camera",
    "measure chain",
    "measure latency",
    "measure read-write",
    "measure sharing",
    "measure write",
    "message command",
    "message convert",
    "message generate",
    "message key",
    "message play",
    "message publish",
    "message receive",
    "message send",
    "message type",
    "net board",
    "net device",
    "net log",
    "segment heal",
    "segment status",
    "tune capture",
    "tune explain",
    "tune persist",
    "tune status",
    "vm build",
    "vm lab",
    "vm lint",
    "vm list",
    "vm pin",
    "vm replay",
    "vm trace",
    "vm xml",
];

/// Options that only `--help-all` lists, in every command.
const EXPERT_OPTIONS: &[&str] = &[
    "allowed-jitter",
    "beside",
    "busybox",
    "color",
    "deadline",
    "device-delay",
    "dma-latency",
    "limit-on",
    "load-dir",
    "load-sweep",
    "lockdown",
    "log-to",
    "no-lock-memory",
    "on-overrun",
    "one-clock",
    "onbeat",
    "order",
    "packages",
    "phase",
    "ptp",
    "screen",
    "seed",
    "spikes-over",
    "spin",
    "stacks",
    "stimulus",
    "until",
    "verbose",
    "wire",
];

/// Options that belong to one kind of `bench --with` or to `--command`, with their heading.
const OF_A_KIND: &[(&str, &str)] = &[
    ("to", "Options of --with rtt"),
    ("devices", "Options of --with rtt"),
    ("interface", "Options of --with bus and --with chain"),
    ("wire", "Options of --with bus and --with chain"),
    ("exchange", "Options of --with bus and --with chain"),
    ("trajectory", "Options of --with bus and --with chain"),
    ("device-delay", "Options of --with bus and --with chain"),
    ("thread", "Options of --command"),
];

/// Other tools, with the command that measures what they do.
const PEERS: &[(&str, &str)] = &[
    ("cyclictest", "measure timer"),
    ("rtla", "measure timer"),
    ("timerlat", "measure timer"),
    ("jhiccup", "measure hiccup"),
    ("hwlatdetect", "measure noise"),
    ("hwnoise", "measure noise"),
    ("oslat", "measure noise"),
    ("osnoise", "measure noise"),
];

/// Options as other programs call them, with onbeat's.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("--duration", "for"),
    ("--time", "for"),
    ("-d", "for"),
    ("--interval", "period"),
    ("--rate", "period"),
    ("--frequency", "period"),
    ("--threshold", "limit"),
    ("--percentile", "at"),
    ("--prio", "priority"),
    ("-p", "priority"),
    ("--format", "json"),
    ("--output", "out"),
    ("-o", "out"),
    ("-q", "quiet"),
    ("-v", "verbose"),
    ("-y", "yes"),
];

/// Among the options that belong to no group.
const NONE: Option<&str> = None;
/// Examples in the short help.
const EXAMPLES_SHOWN: usize = 3;
/// A closing section of more lines is shortened to its entries in the short help.
const SECTION_SHOWN: usize = 8;

/// The command line.
pub(crate) fn command(extent: Extent) -> Command {
    shaped(Cli::command(), "", extent)
}

fn shaped(command: Command, path: &str, extent: Extent) -> Command {
    let command = if path == "bench" { under_their_kind(command) } else { command };
    let command = if command.is_disable_help_flag_set() {
        command
    } else {
        with_short_texts(with_help_flags(with_expert_options(command, extent)))
    };

    let hides = |below: &str| extent == Extent::Common && EXPERT_COMMANDS.contains(&below);
    let has_more = command.get_subcommands().any(|one| hides(&joined(path, one.get_name())));
    let command = command.mut_subcommands(|one| {
        let below = joined(path, one.get_name());
        let is_hidden = hides(&below);
        let one = shaped(one, &below, extent);
        if is_hidden { one.hide(true) } else { one }
    });
    if !has_more {
        return command;
    }
    let all = joined("onbeat", &joined(path, "--help-all"));
    let text = match command.get_after_help() {
        Some(before) => format!("{}\n\nMore commands: {all}", before.ansi()),
        None => format!("More commands: {all}"),
    };
    command.after_help(text)
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path} {name}") }
}

fn ids_of(command: &Command, names: impl Fn(&str) -> bool) -> Vec<String> {
    let named = command.get_arguments().filter(|arg| arg.get_long().is_some_and(&names));
    named.map(|arg| arg.get_id().to_string()).collect()
}

fn under_their_kind(command: Command) -> Command {
    OF_A_KIND.iter().fold(command, |command, (name, heading)| {
        let ids = ids_of(&command, |long| long == *name);
        ids.into_iter().fold(command, |command, id| {
            command.mut_arg(id, |arg| arg.help_heading(Some(*heading)))
        })
    })
}

fn with_expert_options(command: Command, extent: Extent) -> Command {
    let ids = match extent {
        Extent::All => Vec::new(),
        Extent::Common => ids_of(&command, |long| EXPERT_OPTIONS.contains(&long)),
    };
    ids.into_iter()
        .fold(command, |command, id| command.mut_arg(id, |arg| arg.hide_short_help(true)))
}

/// `--help` fits two screens, `--help-all` has everything.
fn with_help_flags(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    command
        .disable_help_flag(true)
        .arg(help.help("Print help").help_heading(NONE).display_order(998))
        .arg(
            all.help("Print help with all options and their details")
                .help_heading(NONE)
                .display_order(999),
        )
}

/// The short help has fewer examples, and of long lists the entries alone.
fn with_short_texts(command: Command) -> Command {
    let text = |text: Option<&StyledStr>| text.map(|text| text.ansi().to_string());
    let before = text(command.get_before_help());
    let after = text(command.get_after_help());
    let command = before.into_iter().fold(command, |command, whole| {
        command.before_help(first_examples(&whole)).before_long_help(whole)
    });
    after
        .into_iter()
        .fold(command, |command, whole| command.after_help(in_brief(&whole)).after_long_help(whole))
}

/// The heading and the first examples; an example is a line indented by two spaces with deeper ones
/// below it. What follows the examples has a heading of its own.
fn first_examples(text: &str) -> String {
    let mut examples = 0;
    let kept = text.lines().take_while(|line| {
        examples += usize::from(is_entry(line));
        examples <= EXAMPLES_SHOWN && (examples == 0 || line.starts_with(' '))
    });
    kept.collect::<Vec<_>>().join("\n")
}

fn is_entry(line: &str) -> bool {
    line.starts_with("  ") && !line.starts_with("   ")
}

/// A closing text whose list is long, as one line of its entries.
fn in_brief(text: &str) -> String {
    if text.split("\n\n").all(|section| section.lines().count() <= SECTION_SHOWN) {
        return text.to_owned();
    }
    let heading = text.lines().next().unwrap_or_default();
    let entries: Vec<&str> = text.lines().filter(|line| is_entry(line)).map(str::trim).collect();
    format!("{heading}\n  {}", entries.join(", "))
}

/// What the words ask for, and the words as clap reads them: `onbeat help bench` is `onbeat bench
/// --help`.
pub(crate) fn asked(words: Vec<OsString>) -> (Extent, Vec<OsString>) {
    let mut own = words.iter().take_while(|word| *word != "--");
    let asks_all = own.any(|word| word == "--help-all");
    let extent = if asks_all { Extent::All } else { Extent::Common };
    let [first, help, path @ ..] = words.as_slice() else { return (extent, words) };
    if help != "help" {
        return (extent, words);
    }
    let is_flag =
        |word: &OsString| ["-h", "--help", "--help-all"].iter().any(|flag| *word == **flag);
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-") && !is_flag(word);
    if path.first().is_some_and(is_option) || is_of_another(path) {
        // clap's own help, which takes no options.
        return (extent, words.into_iter().filter(|word| !is_flag(word)).collect());
    }
    let asks = OsString::from("--help");
    (extent, [first].into_iter().chain(path).cloned().chain([asks]).collect())
}

/// Suggests the path of a command that was typed without the one above it, as `timer`, and the
/// command for the name of another tool.
pub(crate) fn with_paths(mut why: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(typed)) = why.get(ContextKind::InvalidSubcommand) else {
        return why;
    };
    let above = command.get_subcommands().filter(|one| one.find_subcommand(typed).is_some());
    let paths = above.map(|one| joined(one.get_name(), typed));
    let peers = PEERS.iter().filter(|(name, _)| name == typed).map(|(_, path)| (*path).to_owned());
    let meant: Vec<String> = paths.chain(peers).collect();
    if !meant.is_empty() {
        why.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
    }
    why
}

/// Suggests onbeat's option for the name that other programs have for it, in place of the one that
/// is spelled most alike.
pub(crate) fn with_own_names(mut why: clap::Error, command: &Command) -> clap::Error {
    let Some(ContextValue::String(typed)) = why.get(ContextKind::InvalidArg) else { return why };
    let usage = why.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let mut path = usage.split_whitespace().skip_while(|word| *word != "onbeat").skip(1);
    let (Ok(at) | Err(at)) = path.try_fold(command, |at, name| at.find_subcommand(name).ok_or(at));
    let has = |long: &str| at.get_arguments().any(|arg| arg.get_long() == Some(long));
    let meant = OTHER_NAMES.iter().find(|(other, own)| *other == typed.as_str() && has(own));
    if let Some((_, own)) = meant.filter(|_| why.kind() == ErrorKind::UnknownArgument) {
        why.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{own}")));
        // They belong to the other option.
        why.remove(ContextKind::Suggested);
        why.remove(ContextKind::Usage);
    }
    why
}

/// Whether these names lead to a command whose help is another program's, or to clap's `help`. For a
/// name of no command clap proposes one.
fn is_of_another(path: &[OsString]) -> bool {
    let mut below = Cli::command();
    for name in path {
        if name == "help" {
            return true;
        }
        let Some(next) = name.to_str().and_then(|name| below.find_subcommand(name)) else {
            return false;
        };
        if next.is_disable_help_flag_set() {
            return true;
        }
        below = next.clone();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_of(words: &[&str]) -> (Extent, Vec<String>) {
        let (extent, words) = asked(words.iter().map(OsString::from).collect());
        (extent, words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    fn leaves(command: &Command) -> usize {
        let visible: Vec<&Command> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
        if visible.is_empty() { 1 } else { visible.into_iter().map(leaves).sum() }
    }

    fn has_option(command: &Command, long: &str) -> bool {
        command.get_arguments().any(|arg| arg.get_long() == Some(long))
            || command.get_subcommands().any(|one| has_option(one, long))
    }

    #[test]
    fn at_most_forty_five_commands_are_listed_without_being_asked_for_all() {
        let common = leaves(&command(Extent::Common));
        assert!((20..=45).contains(&common), "{common}");
        assert!(leaves(&command(Extent::All)) > 80);
    }

    #[test]
    fn every_hidden_command_and_option_exists() {
        let whole = command(Extent::All);
        for path in EXPERT_COMMANDS {
            let found = path.split(' ').try_fold(&whole, |at, name| at.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
        for long in EXPERT_OPTIONS.iter().chain(OF_A_KIND.iter().map(|(long, _)| long)) {
            assert!(has_option(&whole, long), "{long}");
        }
    }

    #[test]
    fn a_command_typed_without_the_one_above_it_is_suggested_with_its_path() {
        let whole = command(Extent::All);
        let names = [("timer", "measure timer"), ("undo", "tune undo")];
        for (typed, path) in names.iter().chain(PEERS) {
            let why = whole.clone().try_get_matches_from(["onbeat", *typed]).unwrap_err();
            let said = with_paths(why, &whole).to_string();
            assert!(said.contains(&format!("exists: '{path}'")), "{said}");
            let found = path.split(' ').try_fold(&whole, |at, name| at.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
    }

    #[test]
    fn an_option_as_other_programs_call_it_is_suggested_by_its_own_name() {
        let whole = command(Extent::All);
        for (typed, own) in [
            ("bench --duration 10s", "similar argument exists: '--for'"),
            ("measure timer --frequency 1000", "similar argument exists: '--period'"),
            ("report onbeat-runs/latest --format json", "similar argument exists: '--json'"),
            ("tune apply plan.toml -y", "similar argument exists: '--yes'"),
            ("report -y", "to pass '-y' as a value"),
        ] {
            let words = ["onbeat"].into_iter().chain(typed.split(' '));
            let why = whole.clone().try_get_matches_from(words).unwrap_err();
            let said = with_own_names(why, &whole).to_string();
            assert!(said.contains(own), "{typed}: {said}");
        }
        for (_, own) in OTHER_NAMES {
            assert!(!own.starts_with('-') && has_option(&whole, own), "{own}");
        }
    }

    #[test]
    fn the_short_help_cuts_no_section_in_two() {
        let examples = "\x1b[1mExamples\x1b[0m\n  onbeat vm lab a.toml\n      runs it";
        let with_file =
            format!("{examples}\n\x1b[1mFile\x1b[0m\n  loads = [\"idle\"]\n  seeds = 10");
        assert_eq!(first_examples(&with_file), examples);

        let entries = |names: [&str; 5]| names.map(|name| format!("\n  {name}")).concat();
        let one = format!("Signals{}", entries(["a", "b", "c", "d", "e"]));
        assert_eq!(in_brief(&format!("{one}\n\n{one}")), format!("{one}\n\n{one}"));
        let long = format!("{one}{}", entries(["f", "g", "h", "i", "j"]));
        assert_eq!(in_brief(&long), "Signals\n  a, b, c, d, e, f, g, h, i, j");
    }

    #[test]
    fn help_of_a_command_is_its_help_flag() {
        assert_eq!(
            asked_of(&["onbeat", "help", "tune", "check"]),
            (Extent::Common, ["onbeat", "tune", "check", "--help"].map(str::to_owned).into())
        );
        assert_eq!(
            asked_of(&["onbeat", "help", "nosuch"]).1,
            ["onbeat", "nosuch", "--help"],
            "clap proposes another"
        );
        assert_eq!(asked_of(&["onbeat", "help", "help"]).1, ["onbeat", "help", "help"]);
        assert_eq!(asked_of(&["onbeat", "help"]).1, ["onbeat", "--help"], "the short one");
        assert_eq!(asked_of(&["onbeat", "help", "--help"]).1, ["onbeat", "--help", "--help"]);
        assert_eq!(asked_of(&["onbeat", "bench", "--help-all"]).0, Extent::All);
        let passed_on = asked_of(&["onbeat", "bus", "run", "--", "--help-all"]);
        assert_eq!(passed_on.0, Extent::Common, "it belongs to another command");
    }
}
