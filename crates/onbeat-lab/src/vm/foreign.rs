//! A measurement by a program of the guest's own: its output, in another tool's format, becomes run
//! files, as by `onbeat import`.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};

use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, Format, SourceOptions};
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat::record::{Cell, RunFile, Series};

use super::VmError;
use super::frame::GuestFile;
use super::job::Job;

/// Where the first process of a user's guest has its root, as the agent sees it.
const ROOT: &str = "/proc/1/root";
/// Where programs of a user's guest are looked for; the last is Xenomai's own.
const PATH: &str =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/xenomai/bin";
/// Runs the load `$1` beside the words behind it. The agent knows no other words for a load; it ends
/// with its input.
const BESIDE_LOAD: &str = r#"sleep 1000000 | onbeat load --supervised "$1" > /dev/null 2>&1 & load=$!
shift; "$@"; status=$?
kill $load; exit $status"#;

/// The series that a run is about; of an imported one, which does not say it, the first with samples.
#[must_use]
pub fn main_series(run: &RunFile) -> Series {
    let measured = || Series::ALL.into_iter().find(|series| run.moments(*series).n > 0);
    run.header.series.first().copied().or_else(measured).unwrap_or(Series::ReleaseLatency)
}

/// A program that measures, and the format of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignProbe {
    /// Its words.
    pub words: Vec<String>,
    /// How its output is read.
    pub format: Format,
}

impl ForeignProbe {
    /// Returns the probe of a line for the shell.
    #[must_use]
    pub fn from_line(line: &str, format: Format) -> Self {
        Self { words: ["sh", "-c", line].map(str::to_owned).to_vec(), format }
    }

    /// Whether this machine has its program too: the first word of the shell's line.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        let line = self.words.last().map_or("", String::as_str);
        let word = line.split_whitespace().next().unwrap_or_default();
        let looked = Command::new("sh")
            .args(["-c", "command -v \"$1\"", "sh", word])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        looked.is_ok_and(|status| status.success())
    }

    /// Adds it to a job, beside a load. It must be the only command that writes to standard output. In
    /// a user's guest it is a program of that guest, not of the agent.
    pub(crate) fn add_to(&self, job: &mut Job, load: Option<&str>, is_in_own_guest: bool) {
        let beside = load.map(|load| ["sh", "-c", BESIDE_LOAD, "load", load]);
        let inside = is_in_own_guest.then_some(["env", PATH, "chroot", ROOT]);
        let around = beside.into_iter().flatten().chain(inside.into_iter().flatten());
        job.command(around.map(str::to_owned).chain(self.words.iter().cloned()));
    }

    /// A job that runs it.
    #[must_use]
    pub fn job(&self, is_in_own_guest: bool) -> Job {
        let mut job = Job::new();
        self.add_to(&mut job, None, is_in_own_guest);
        job
    }

    /// Reads its output into run files, one for each of its streams. `scratch` is a directory for files
    /// that are gone afterwards.
    ///
    /// # Errors
    /// When the output is not of the format.
    pub fn run_files(&self, output: &[u8], scratch: &Path) -> Result<Vec<GuestFile>, VmError> {
        let foreign = |reason: String| VmError::Foreign {
            program: self.words.join(" "),
            format: self.format.word(),
            reason,
        };
        let asked = SourceOptions { format: Some(self.format), ..SourceOptions::default() };
        let streams = import::read(&mut Cursor::new(output), &asked)
            .map_err(|error| foreign(error.to_string()))?;

        let path = scratch.join("imported.part");
        let mut files = Vec::new();
        for (nth, stream) in streams.iter().enumerate() {
            let label = if stream.label.is_empty() { "all" } else { &stream.label };
            let cell = Cell::new(label, "unknown");
            let labels =
                ImportLabels { command: self.words.clone(), file: "output".to_owned(), cell };
            import::write(stream, &labels, &path).map_err(|error| foreign(error.to_string()))?;
            let content = fs::read(&path).map_err(VmError::reading(&path))?;
            fs::remove_file(&path).map_err(VmError::writing(&path))?;
            let path = format!("runs/{}-{nth}{RUN_FILE_ENDING}", self.format.word());
            files.push(GuestFile { path, content });
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Xenomai's `latency -H`, by its documentation.
    const XENOMAI: &str = "\
== Sampling period: 100 us
== Test mode: periodic user-mode task
== All results in microseconds
warming up...
RTT|  00:00:01  (periodic user-mode task, 100 us period, priority 99)
RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst
RTD|     -0.513|      0.351|      3.720|       0|     0|     -0.513|      3.720
RTD|     -0.489|      0.330|      5.101|       0|     0|     -0.513|      5.101
---|--param|--samples-|--average--|---stddev--
HSS|    min|         2|      0.000|      0.000
HSD|  avg| 0 - 1 |  9953
HSD|  avg| 1 - 2 |    40
HSD|  avg| 5 - 6 |     7
HSS|    avg|     10000|      0.006|      0.079
---|-----------|-----------|-----------|--------|------|-------------------------
RTS|     -0.513|      0.340|      5.101|       0|     0|    00:00:02/00:00:02
";

    fn latency() -> ForeignProbe {
        ForeignProbe::from_line("latency -p 100 -T 2 -H 10", Format::Xenomai)
    }

    #[test]
    fn the_output_of_xenomais_latency_becomes_a_run_file() {
        let scratch = tempfile::tempdir().expect("a directory");
        let files = latency().run_files(XENOMAI.as_bytes(), scratch.path()).expect("run files");
        let [file] = files.as_slice() else { panic!("{files:?}") };
        assert_eq!(file.path, "runs/xenomai-0.onbeat.hlog");

        let run = RunFile::parse(Path::new(&file.path), &file.content).expect("a run file");
        let series = main_series(&run);
        let moments = run.moments(series);
        assert_eq!((moments.n, moments.max_ns), (10_000, 5_101), "{series:?}");
        assert!(scratch.path().read_dir().expect("a directory").next().is_none());
    }

    #[test]
    fn output_of_another_tool_is_refused_with_the_program() {
        let scratch = tempfile::tempdir().expect("a directory");
        let refused = latency().run_files(b"sh: latency: not found\n", scratch.path());
        let message = refused.expect_err("no output of latency").to_string();
        assert!(
            message.contains("latency -p 100 -T 2 -H 10") && message.contains("xenomai"),
            "{message}"
        );
    }

    #[test]
    fn in_a_users_guest_it_is_that_guests_program_beside_the_agents_load() {
        let mut job = Job::new();
        latency().add_to(&mut job, Some("cpu=50%"), true);
        let script = job.script();
        assert!(script.contains("'load' 'cpu=50%' 'env' 'PATH="), "{script}");
        assert!(script.contains("'chroot' '/proc/1/root' 'sh' '-c' 'latency -p 100"), "{script}");
        let of = |line| ForeignProbe::from_line(line, Format::Xenomai).is_on_this_machine();
        assert_eq!((of("sh -c true"), of("no-such-program -p 100")), (true, false));
        assert!(!latency().job(false).script().contains("chroot"));
    }
}
