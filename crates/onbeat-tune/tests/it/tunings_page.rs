//! The catalogue as a page for people: `docs/tunings.md` is this text.

use std::collections::BTreeMap;
use std::fmt::Write;

use onbeat_tune::catalogue::{Catalogue, TuningRecord, TuningSource, load};
use onbeat_tune::plan::recipes::appliable;

const HEAD: &str = "# The catalogue of tunings

What on a machine can delay a periodic loop, and what sets it. This page is generated from the records in
`crates/onbeat-tune/src/catalogue/records`; change those, then run `ONBEAT_BLESS=1 cargo test -p onbeat-tune --test it catalogue::`.

*Effect* is the expected effect on the tail of a 1 kHz loop: 3 up to milliseconds, 2 tens to hundreds of microseconds, 1 some
microseconds or rare, 0 hygiene. *Read by* is the kind of probe; `watch`, `review` and `tool` cannot be judged from files at one
instant, and are reported as unknown with the reason; where a record names counters, `onbeat tune check --evidence 10s` judges by them.
*Set by* is the value to write, the kernel parameter, or what a person does. *Apply* states whether onbeat applies and undoes it by
itself; `tune_apply_live` applies and undoes everything that a machine has, and compares its whole state.

*Tests*: the verdicts on the ten captured machines of `tests/machines` (virtual, container, server, board, rt_pc, laptop, guest, pi,
no_nohz, service), which
`capture` compares with a table made by hand: g good, b bad, n not applicable, u unknown. `check` where `tests/it/check.rs` takes the
record through its values on changed files.
";

/// Returns the page. `tests` names the tests of each record by its id.
pub(crate) fn page(catalogue: &Catalogue, tests: &BTreeMap<&str, String>) -> String {
    let mut text = HEAD.to_owned();
    let records = || catalogue.records.iter();
    let _ = writeln!(
        text,
        "\n{} records and {} aliases: {} are probed, {} can be judged from files alone, {} can be applied and undone, {} are only checked.",
        catalogue.records.len(),
        catalogue.aliases.len(),
        records().filter(|record| is_probed(record)).count(),
        records().filter(|record| is_readable(record)).count(),
        appliable().len(),
        records().filter(|record| record.is_check_only()).count(),
    );

    for (section, _) in load::SECTIONS {
        let records: Vec<_> =
            catalogue.records.iter().filter(|record| record.section == section).collect();
        if !records.is_empty() {
            section_table(&mut text, section, &records, tests);
        }
    }

    alias_table(&mut text, catalogue);
    profile_table(&mut text, catalogue);
    published_table(&mut text, catalogue);
    source_table(&mut text, &catalogue.sources);
    text
}

/// Whether a probe of the record reads something that can be judged.
fn is_readable(record: &TuningRecord) -> bool {
    record.probe.iter().any(|spec| spec.probe().wanted().is_some() && spec.kind() != "qemu")
}

/// Whether the program reads something of the machine for the record, by one reading or by two.
pub(crate) fn is_probed(record: &TuningRecord) -> bool {
    let reads = |kind: &str| match kind {
        "review" | "tool" | "qemu" => false,
        "watch" => !record.evidence.is_empty(),
        _ => true,
    };
    record.probe.iter().any(|spec| reads(spec.kind()))
}

const COLUMNS: [&str; 11] = [
    "id",
    "what it does and why",
    "effect",
    "read by",
    "set by",
    "apply",
    "profile",
    "takes effect",
    "risk",
    "mends",
    "tests",
];

fn section_table(
    text: &mut String,
    section: &str,
    records: &[&TuningRecord],
    tests: &BTreeMap<&str, String>,
) {
    let _ = writeln!(text, "\n## {}\n", section.replace('_', " "));
    let _ = writeln!(text, "| {} |", COLUMNS.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(COLUMNS.len()));

    let applied = appliable();
    for record in records {
        let mut kinds: Vec<&str> = Vec::new();
        for spec in &record.probe {
            if !kinds.contains(&spec.kind()) {
                kinds.push(spec.kind());
            }
        }

        let ways = record.ways_to_set();
        let takes: Vec<_> = record.takes_effect.iter().map(ToString::to_string).collect();
        let risk = record
            .risk
            .as_ref()
            .map_or("–".to_owned(), |risk| format!("{}: {}", risk.level, risk.text));
        let cells = [
            format!("`{}`", record.id),
            format!("**{}.** {} {}", record.title, record.what, record.why),
            record.effect.to_string(),
            kinds.join(", "),
            if ways.is_empty() { "–".to_owned() } else { ways.join("; ") },
            if applied.contains(&record.id.as_str()) { "yes" } else { "no" }.to_owned(),
            record.profiles.join(", "),
            takes.join(", "),
            risk,
            record.mends.join(", "),
            tests.get(record.id.as_str()).cloned().unwrap_or_default(),
        ];
        row(text, &cells);
    }
}

fn row(text: &mut String, cells: &[String]) {
    let escaped: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", escaped.join(" | "));
}

fn alias_table(text: &mut String, catalogue: &Catalogue) {
    text.push_str("\n## aliases\n\n| id | stands for | why |\n|---|---|---|\n");
    for alias in &catalogue.aliases {
        row(text, &[format!("`{}`", alias.id), alias.stands_for.join(", "), alias.reason.clone()]);
    }
}

fn profile_table(text: &mut String, catalogue: &Catalogue) {
    text.push_str("\n## profiles\n\n| profile | for | includes | records |\n|---|---|---|---|\n");
    for profile in &catalogue.profiles {
        let (name, includes) = (format!("`{}`", profile.name), profile.includes.join(", "));
        let number = catalogue.profile(&profile.name).len().to_string();
        row(text, &[name, profile.title.clone(), includes, number]);
    }
}

fn published_table(text: &mut String, catalogue: &Catalogue) {
    text.push_str(
        "\n## the settings of four documents\n\nEvery setting that the documents of the sources below name, and the ids that it corresponds to, or why there is none.\n\n\
         | document | as written | here | remark |\n|---|---|---|---|\n",
    );
    for parameter in &catalogue.published {
        let remark = parameter.remark.clone().unwrap_or_default();
        let (written, ids) = (format!("`{}`", parameter.text), parameter.ids.join(", "));
        row(text, &[parameter.source.clone(), written, ids, remark]);
    }
}

fn source_table(text: &mut String, sources: &[TuningSource]) {
    text.push_str("\n## sources\n\n| tag | title |\n|---|---|\n");
    for source in sources {
        row(text, &[source.tag.clone(), source.title.clone()]);
    }
}
