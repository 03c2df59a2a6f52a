//! Puts a bench into the page: one HTML file that needs nothing else.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;

/// Where the template wants the bench.
pub const PLACE: &str = "@@DATA@@";

/// Bytes of events around spikes in a page, of all its files. They hardly get smaller by packing, and a
/// reader opens few of them: those of the worst spikes are in the page, all are in the run files.
pub const WINDOW_BYTES: usize = 384 * 1024;

/// The page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The template is not one.
    #[error("the page template has {PLACE} {found} times, expected once; rebuild the viewer")]
    Template {
        /// Number of placeholders found.
        found: usize,
    },
    /// The summary is not valid JSON.
    #[error("the summary is not valid JSON: {source}; print it with serde_json")]
    Summary {
        /// The parser's error.
        source: serde_json::Error,
    },
    /// It could not be packed.
    #[error("cannot pack {bytes} bytes for the page: {source}")]
    Pack {
        /// Number of bytes.
        bytes: usize,
        /// The packer's error.
        source: std::io::Error,
    },
}

/// The page of `template` with run files (name and text) and a summary inside, as `docs/format.md`
/// says under "The page's data". The same input gives the same bytes.
///
/// # Errors
/// [`PageError`].
pub fn page(
    template: &str,
    files: &[(&str, &str)],
    summary_json: &str,
) -> Result<String, PageError> {
    let found = template.matches(PLACE).count();
    if found != 1 {
        return Err(PageError::Template { found });
    }

    let text = text(files, summary_json)?;
    let packed =
        pack(text.as_bytes()).map_err(|source| PageError::Pack { bytes: text.len(), source })?;
    Ok(template.replacen(PLACE, &STANDARD.encode(packed), 1))
}

/// The text that the page carries, before it is packed: of a truncated file, the whole lines.
fn text(files: &[(&str, &str)], summary_json: &str) -> Result<String, PageError> {
    // A note is one line, however the summary was printed.
    let summary: serde_json::Value =
        serde_json::from_str(summary_json).map_err(|source| PageError::Summary { source })?;
    let mut text = String::new();
    let mut note = |kind: &str, value: &serde_json::Value, lines: &str| {
        text.push_str(&format!("#[onbeat: {{\"{kind}\":{value}}}]\n"));
        text.push_str(lines);
    };

    let least_ns = least_lateness_ns(files);
    for (name, lines) in files {
        let whole = lines.rfind('\n').map_or("", |last| &lines[..=last]);
        let kept: String = whole
            .split_inclusive('\n')
            .filter(|line| lateness_ns(line).is_none_or(|late| late >= least_ns))
            .collect();
        note("file", &serde_json::Value::from(*name), &kept);
    }

    note("summary", &summary, "");
    Ok(text)
}

/// The lateness from which on all events around spikes have room in the page, in ns.
fn least_lateness_ns(files: &[(&str, &str)]) -> u64 {
    let lines = files.iter().flat_map(|(_, lines)| lines.split_inclusive('\n'));
    let mut windows: Vec<(u64, usize)> =
        lines.filter_map(|line| Some((lateness_ns(line)?, line.len()))).collect();
    windows.sort_unstable_by_key(|(late, _)| std::cmp::Reverse(*late));
    let mut bytes = 0;
    // The worst spike keeps its events whatever they take.
    let mut fitting = windows.iter().enumerate().take_while(|(place, (_, length))| {
        bytes += length;
        *place == 0 || bytes <= WINDOW_BYTES
    });
    let last = fitting.by_ref().last().map_or(0, |(place, _)| place);
    if windows.len() <= last + 1 { 0 } else { windows[last].0 }
}

/// From the programmed expiry to the end of the cycle, where a line has the events around a spike.
fn lateness_ns(line: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Noted {
        window: Window,
    }
    #[derive(Deserialize)]
    struct Window {
        expiry_ns: u64,
        end_ns: u64,
    }
    let note = line.strip_prefix("#[onbeat: {\"window\"")?;
    let json = format!("{{\"window\"{}", note.trim_end().strip_suffix(']')?);
    let Noted { window } = serde_json::from_str(&json).ok()?;
    Some(window.end_ns.saturating_sub(window.expiry_ns))
}

fn pack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes)?;
    packer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(index: u64, late_ns: u64, bytes: usize) -> String {
        format!(
            "#[onbeat: {{\"window\":{{\"block\":0,\"index\":{index},\"expiry_ns\":1000,\"end_ns\":{},\"packed\":\"{}\"}}}}]\n",
            1000 + late_ns,
            "A".repeat(bytes)
        )
    }

    #[test]
    fn events_around_the_worst_spikes_of_all_files_are_in_the_page_and_others_have_no_room() {
        let big = WINDOW_BYTES / 3;
        let one = [window(1, 500, big), window(2, 90, big)].concat();
        let other =
            ["0.1,0.2,0.3,HIST\n".to_owned(), window(1, 400, big), window(2, 30, 10)].concat();
        let text = text(&[("one", &one), ("other", &other)], "{}").expect("valid");

        let is_in = |late: u64| text.contains(&format!("\"end_ns\":{}", 1000 + late));
        assert_eq!([500, 400, 90, 30].map(is_in), [true, true, false, false]);
        assert!(text.contains("0.1,0.2,0.3,HIST\n"), "everything else is there");
    }

    #[test]
    fn where_all_events_fit_none_is_left_out_and_a_single_one_always_is_in_it() {
        let few = [window(1, 0, 10), window(2, 7, 10)].concat();
        let large = window(1, 3, WINDOW_BYTES + 1);
        for lines in [few, large] {
            let text = text(&[("file", &lines)], "{}").expect("valid");
            assert!(text.contains(&lines));
        }
    }
}
