//! Judges kernel command lines, scripts that start QEMU, and libvirt definitions, from their text
//! alone.
//!
//! | file | contents |
//! |---|---|
//! | `kernel_parameters.toml` | the kernel parameters that are judged, and how they depend on each other |
//! | `kernel_parameter_names.txt` | the names of all others, to recognise misspelt ones |
//! | `dictionary` | the reader of both |
//! | [`finding`] | [`LintFinding`], [`LintVerdict`], [`LintReport`] |
//! | `correction` | replacements in the text, and the corrected text |
//! | `kernel_line` | kernel command lines, also inside `/etc/default/grub` |
//! | `shell_words` | words of a shell script with their positions |
//! | `qemu`, `qemu_command`, `qemu_memory` | command lines of QEMU |
//! | `libvirt`, `libvirt_cpus` | domain definitions of libvirt |
//!
//! The corrected text keeps what the author wrote as far as it has an effect. What does nothing is
//! removed, what is misspelt or removed from the programs is replaced, and what is missing is
//! added. A setting that works and is only discouraged stays, with its finding; so does what
//! depends on facts that the text does not hold.
//!
//! ```
//! use onbeat_tune::lint::{LintSubject, LintVerdict, lint};
//!
//! let report = lint("isolcpus=managed_irq,domain,4 rcu_nocbs=4 nohz_full=4", LintSubject::KernelLine)?;
//! let redundant = report.with_verdict(LintVerdict::Redundant).next().expect("a finding");
//! assert_eq!((redundant.text.as_str(), redundant.column), ("rcu_nocbs=4", 31));
//! assert_eq!(report.corrected, "isolcpus=managed_irq,domain,4 nohz_full=4");
//! # Ok::<(), onbeat_tune::lint::LintError>(())
//! ```
//!
//! Absent on purpose: reading files, running anything, and any judgement that the text does not
//! prove.

mod correction;
mod dictionary;
pub mod finding;
mod kernel_line;
mod libvirt;
mod libvirt_cpus;
mod qemu;
mod qemu_command;
mod qemu_memory;
mod shell_words;

pub use finding::{LintFinding, LintReport, LintVerdict};

use correction::Draft;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LintSubject {
    /// A kernel command line, or a file with lines of `GRUB_CMDLINE_LINUX`.
    KernelLine,
    /// A shell script with a command that starts QEMU.
    QemuScript,
    /// Arguments of QEMU alone: on any number of lines, or separated by NUL as in
    /// `/proc/PID/cmdline`.
    QemuArguments,
    /// A domain definition of libvirt.
    LibvirtXml,
}

impl LintSubject {
    /// Returns what a text is, judged by its beginning and by the commands in it.
    #[must_use]
    pub fn guess(text: &str) -> Self {
        let start = text.trim_start();
        let is_script = start.starts_with("#!") || qemu_command::find(text).is_some();
        match start {
            _ if start.starts_with('<') => Self::LibvirtXml,
            _ if text.contains('\0') || start.starts_with('-') => Self::QemuArguments,
            _ if is_script && !kernel_line::is_grub_file(text) => Self::QemuScript,
            _ => Self::KernelLine,
        }
    }
}

/// Why a text cannot be judged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LintError {
    /// There is nothing in it.
    #[error(
        "the text is empty. Give a kernel command line, a script that starts QEMU, or a libvirt definition"
    )]
    Empty,
    /// It is larger than anything that a person writes.
    #[error("the text has {bytes} bytes; at most {most} are judged")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A script without a command that starts QEMU.
    #[error(
        "no command in the {lines} lines starts QEMU. A command is recognised by a name such as qemu-system-x86_64"
    )]
    NoQemu {
        /// Lines of the script.
        lines: usize,
    },
    /// A quote that is not closed.
    #[error("line {line}, column {column}: the quote {quote} is not closed")]
    OpenQuote {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The quote.
        quote: char,
    },
    /// Not XML.
    #[error("not valid XML: {0}")]
    Xml(String),
    /// XML of another kind.
    #[error("the root element is <{found}>; a libvirt definition begins with <domain>")]
    NoDomain {
        /// The root element's name.
        found: String,
    },
}

/// The longest text that is judged, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// Judges a text and corrects it.
///
/// # Errors
/// [`LintError`] for a text that is not what `subject` says.
///
/// ```
/// use onbeat_tune::lint::{LintSubject, lint};
///
/// let report = lint("isolcpus=2-3 nohz_ful=2-3", LintSubject::KernelLine)?;
/// let misspelt = report.findings.iter().find(|finding| finding.text == "nohz_ful=2-3");
/// assert!(misspelt.is_some());
/// # Ok::<(), onbeat_tune::lint::LintError>(())
/// ```
pub fn lint(text: &str, subject: LintSubject) -> Result<LintReport, LintError> {
    if text.trim().is_empty() {
        return Err(LintError::Empty);
    }
    if text.len() > MOST_BYTES {
        return Err(LintError::TooLong { bytes: text.len(), most: MOST_BYTES });
    }

    let mut draft = Draft::new(text);
    match subject {
        LintSubject::KernelLine => kernel_line::judge(&mut draft),
        LintSubject::QemuScript => qemu::judge_script(&mut draft)?,
        LintSubject::QemuArguments => qemu::judge_arguments(&mut draft)?,
        LintSubject::LibvirtXml => libvirt::judge(&mut draft)?,
    }

    Ok(draft.into_report(subject))
}
