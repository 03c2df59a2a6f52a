//! Man pages: names, options and commands by clap_mangen, the sections around them from the texts
//! before and after the help of a command.

use std::fmt::Write as _;
use std::io;

use clap::Command;
use clap_mangen::Man;

use crate::cli::STATUSES;

/// Variables that every command reads.
const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "ONBEAT_STATE_DIR",
        "Directory of the journal, in which each change of the machine is written before it is made. Default: \
         /var/lib/onbeat for root, otherwise onbeat below XDG_STATE_HOME or ~/.local/state.",
    ),
    (
        "ONBEAT_RUNTIME_DIR",
        "Directory of rings, images and sockets of running robots and buses. Default: /run/onbeat for root, otherwise \
         onbeat below XDG_RUNTIME_DIR, otherwise /dev/shm/onbeat-UID.",
    ),
    ("NO_COLOR, CLICOLOR_FORCE", "No colours; colours also where the output is not a terminal."),
    ("COLUMNS", "Width of tables and help, where the output is not a terminal."),
];

const FILES: &[(&str, &str)] = &[
    ("onbeat-runs/", "Directories of runs, each named after its start; --out chooses another."),
    ("onbeat-runs/latest", "Link to the latest run."),
    (
        "RUN/*.onbeat.hlog",
        "Figures of a run, complete up to the last line at any time: a valid HdrHistogram log.",
    ),
    ("RUN/report.html", "The report, one file without references to others."),
    ("/var/lib/onbeat/journal/", "Changes that are not undone; `onbeat repair` undoes them."),
];

/// A section of a page: its heading and its text, a line indented by two spaces being an entry.
struct Section {
    heading: String,
    lines: Vec<String>,
}

/// The page of each command, with its file name.
pub(super) fn pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, None, &mut pages)?;
    Ok(pages)
}

fn add(
    command: &Command,
    above: Option<&Command>,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    let below = || command.get_subcommands().filter(|one| !one.is_hide_set());
    let man = Man::new(command.clone())
        .title(page_name(command))
        .source(concat!("onbeat ", env!("CARGO_PKG_VERSION")))
        .manual("onbeat manual");

    let mut page = Vec::new();
    man.render_title(&mut page)?;
    add_rendered(&mut page, |text| man.render_name_section(text))?;
    add_rendered(&mut page, |text| man.render_synopsis_section(text))?;
    add_rendered(&mut page, |text| man.render_description_section(text))?;
    let text = |text: Option<&clap::builder::StyledStr>| {
        text.map_or_else(Vec::new, |text| sections(&text.ansi().to_string()))
    };
    let before = text(command.get_before_long_help().or(command.get_before_help()));
    let after = text(command.get_after_long_help().or(command.get_after_help()));
    let (statuses, after): (Vec<_>, Vec<_>) =
        after.into_iter().partition(|section| section.heading == "EXIT STATUS");

    before.iter().for_each(|section| write_section(&mut page, section));
    add_rendered(&mut page, |text| man.render_options_section(text))?;
    if below().next().is_some() {
        add_rendered(&mut page, |text| man.render_subcommands_section(text))?;
    }
    after.iter().for_each(|section| write_section(&mut page, section));
    let statuses = if statuses.is_empty() { sections(STATUSES) } else { statuses };
    statuses.iter().for_each(|section| write_section(&mut page, section));
    write_pairs(&mut page, "ENVIRONMENT", ENVIRONMENT);
    write_pairs(&mut page, "FILES", FILES);
    write_see_also(&mut page, command, above);

    pages.push((man.get_filename(), page));
    below().try_for_each(|one| add(one, Some(command), pages))
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Adds a part that clap_mangen renders, without the definitions that it repeats in each part.
fn add_rendered(
    page: &mut Vec<u8>,
    render: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut part = Vec::new();
    render(&mut part)?;
    let text = String::from_utf8_lossy(&part);
    let own = text.lines().filter(|line| !line.contains(".ds Aq"));
    own.for_each(|line| page.extend_from_slice(format!("{line}\n").as_bytes()));
    Ok(())
}

/// The sections of a text: a heading is a bold line without indentation.
fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("\x1b[1m").and_then(|rest| rest.strip_suffix("\x1b[0m")) {
            Some(heading) => {
                sections.push(Section { heading: heading.to_uppercase(), lines: Vec::new() });
            }
            None => match sections.last_mut() {
                Some(section) => section.lines.push(line.to_owned()),
                None => debug_assert!(line.is_empty(), "in no section of the page: {line}"),
            },
        }
    }
    sections
}

fn write_section(page: &mut Vec<u8>, section: &Section) {
    let lines: String = section.lines.iter().map(|line| escaped(line) + "\n").collect();
    let text = format!(".SH {}\n.nf\n{lines}.fi\n", quoted(&section.heading));
    page.extend_from_slice(text.as_bytes());
}

fn write_pairs(page: &mut Vec<u8>, heading: &str, pairs: &[(&str, &str)]) {
    let mut text = format!(".SH {heading}\n");
    for (name, words) in pairs {
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(words));
    }
    page.extend_from_slice(text.as_bytes());
}

fn write_see_also(page: &mut Vec<u8>, command: &Command, above: Option<&Command>) {
    let beside = above.into_iter().flat_map(Command::get_subcommands);
    let below = command.get_subcommands();
    let mut names: Vec<String> = above.map(page_name).into_iter().collect();
    names.extend(below.chain(beside).filter(|one| !one.is_hide_set()).map(page_name));
    names.retain(|name| *name != page_name(command));

    let listed = names.iter().map(|name| format!("\\fB{}\\fR(1)", escaped(name)));
    let text = format!(".SH SEE ALSO\n{}\n", listed.collect::<Vec<_>>().join(", "));
    page.extend_from_slice(text.as_bytes());
}

fn quoted(heading: &str) -> String {
    if heading.contains(' ') { format!("\"{heading}\"") } else { heading.to_owned() }
}

/// A line of text as roff reads it.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::{self, Extent};

    #[test]
    fn every_page_has_the_sections_of_a_man_page() {
        let pages = pages(surface::command(Extent::All)).unwrap();
        assert!(pages.len() > 90, "{}", pages.len());
        for (name, page) in pages {
            let page = String::from_utf8(page).unwrap();
            for section in
                ["NAME", "SYNOPSIS", "ENVIRONMENT", "FILES", "\"EXIT STATUS\"", "SEE ALSO"]
            {
                let times = page.matches(&format!("\n.SH {section}\n")).count();
                assert_eq!(times, 1, "{name}: {section}");
            }
        }
    }

    #[test]
    fn text_is_not_taken_for_a_request() {
        assert_eq!(escaped(".TH a-b 'c' \\d"), "\\&.TH a\\-b \\(aqc\\(aq \\ed");
    }
}
