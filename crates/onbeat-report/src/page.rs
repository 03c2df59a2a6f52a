//! Puts a bench into the page: one HTML file that needs nothing else.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Where the template wants the bench.
pub const PLACE: &str = "@@DATA@@";

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

    for (name, lines) in files {
        let whole = lines.rfind('\n').map_or("", |last| &lines[..=last]);
        note("file", &serde_json::Value::from(*name), whole);
    }

    note("summary", &summary, "");
    Ok(text)
}

fn pack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes)?;
    packer.finish()
}
