//! Jobs: commands that a guest runs one after the other, and directories whose files it sends back.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::archive::gzipped;
use super::{GuestPlan, VmError};

/// Commands for a guest. Their standard output and error come back as the files `output` and
/// `errors`.
///
/// ```
/// use onbeat_lab::vm::Job;
///
/// let mut job = Job::new();
/// job.command(["uname", "-a"]);
/// job.command(["cp", "/proc/config.gz", "/out/"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    commands: Vec<Vec<String>>,
    collected: Vec<String>,
}

/// A run of `onbeat measure` in a guest.
///
/// The defaults suit virtual time: a loop of 1 kHz for two seconds, without recording causes, which
/// is heavy work in a guest that counts instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyTest {
    /// The probe, as `onbeat measure` names it: `latency`, `write`, `read-write`.
    pub probe: String,
    /// Measuring time, in the guest's time.
    pub duration: Duration,
    /// Period of the loop.
    pub period: Duration,
    /// Background load as `onbeat load` takes it, such as `idle` or `run:COMMAND`.
    pub load: String,
    /// Whether causes of spikes are recorded.
    pub causes: bool,
    /// Further options of `onbeat measure`, such as `--priority` and `0`.
    pub options: Vec<String>,
}

impl LatencyTest {
    /// A load that makes the kernel work in long stretches: it writes 16 MiB to a file in memory,
    /// over and over.
    pub const WRITER: &'static str =
        "run:while :; do dd if=/dev/zero of=/tmp/load bs=1M count=16; done";

    /// The words behind `onbeat`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let duration = format!("{}ns", self.duration.as_nanos());
        let period = format!("{}ns", self.period.as_nanos());
        let mut words = vec!["measure", &self.probe, "--for", &duration];
        words.extend(["--period", &period, "--load", &self.load]);
        words.extend(["--no-causes"].into_iter().filter(|_| !self.causes));
        words.extend(self.options.iter().map(String::as_str));
        words.into_iter().map(str::to_owned).collect()
    }
}

impl Default for LatencyTest {
    fn default() -> Self {
        Self {
            probe: "latency".to_owned(),
            duration: Duration::from_secs(2),
            period: Duration::from_millis(1),
            load: "idle".to_owned(),
            causes: false,
            options: Vec::new(),
        }
    }
}

/// Length of the file that carries the job. It is constant, because a guest that was restored from
/// a snapshot remembers it.
pub(super) const JOB_FILE_LENGTH: usize = 4096;
/// Where runs are recorded in the guest; the last part of it begins the paths of results.
const RUNS: &str = "/tmp/runs";

/// Where the second board of a guest takes edges up, as `--via` names it.
pub(crate) const SECOND_BOARD: &str = "udp:10.77.0.2:7471";
/// Starts it in a network namespace of its own, at the other end of a virtual cable, with the options
/// `$@`. Its output is the first line of the second GPIO chip.
const START_BOARD: &str = r#"export OPTIONS="$*"
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link add board1 type veth || exit
unshare --net sh -c '
    until ip link show veth0 > /dev/null 2>&1; do usleep 1000; done
    ip link set lo up
    ip address add 10.77.0.2/24 dev veth0
    ip link set veth0 up
    exec onbeat net board $OPTIONS --bind 10.77.0.2 --allow 10.77.0.0/24 --output gpio:gpiochip1/0' > /dev/null &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do usleep 1000; done
ip link set veth0 netns $! && ip address add 10.77.0.1/24 dev board1 && ip link set board1 up"#;

/// Applies the tuning `$1` with the options behind it; what `tune apply` has printed is sent.
const APPLY: &str = r#"sent="/out/tune-apply-$1.json"
onbeat tune apply "$@" --yes --json > "$sent" || exit
if grep -q '"journal":null' "$sent"; then
    because=$(onbeat tune plan "$@" --json | sed -n 's/.*"because":"\([^"]*\)".*/\1/p')
    echo "error: $1 changed nothing in the guest: ${because:-it has no step there}" >&2
    exit 1
fi"#;

impl Job {
    /// Creates a job without commands.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a command with its arguments. The first command that fails ends the job, with its exit
    /// status.
    pub fn command<W: Into<String>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.commands.push(words.into_iter().map(Into::into).collect());
    }

    /// Has the files below a directory of the guest sent to the host, also when a command has
    /// failed.
    pub fn collect(&mut self, directory: impl Into<String>) {
        self.collected.push(directory.into());
    }

    /// A job that runs `onbeat measure` and sends its summary (the file `output`, one JSON
    /// object) and its run file.
    #[must_use]
    pub fn measure_latency(test: &LatencyTest) -> Self {
        let mut job = Self::new();
        job.latency(test);
        job
    }

    /// Adds a run of `onbeat measure`, as [`Self::measure_latency`] does. It must be the
    /// only command that writes to standard output.
    pub fn latency(&mut self, test: &LatencyTest) {
        let mut words = test.words();
        words.splice(2..2, ["--json", "--out", RUNS].map(str::to_owned));
        self.command(std::iter::once("onbeat".to_owned()).chain(words));
        self.collect(RUNS);
    }

    /// Adds a planned measurement: its summary (the file `output`, one JSON object) and its run file are sent. It must be the only
    /// command that writes to standard output.
    pub fn measurement(&mut self, plan: &GuestPlan) {
        self.command(["onbeat", "agent", "measure", RUNS, &plan.to_word()]);
        self.collect(RUNS);
    }

    /// Applies a tuning of the catalogue in the guest, for a loop on CPU 0. The job fails where that
    /// changes nothing, with the reason: what follows would be measured without it.
    pub fn apply_tuning(&mut self, id: &str, options: &[String]) {
        let mut words = vec!["sh", "-c", APPLY, "apply", id, "--cpus", "0"];
        words.extend(options.iter().map(String::as_str));
        self.command(words);
    }

    /// Starts a second board for a measurement `--via` it, with the priority that is among the
    /// options of that measurement. The guest is wired for [`TwoBoards`](super::GuestWiring::TwoBoards).
    pub fn second_board(&mut self, options: &[String]) {
        let priority = options.windows(2).find(|pair| pair[0] == "--priority");
        let mut words = vec!["sh", "-c", START_BOARD, "board"];
        words.extend(priority.into_iter().flatten().map(String::as_str));
        self.command(words);
    }

    /// A job that runs `onbeat` with these words, a measurement or a bench, and sends its summary
    /// (the file `output`) and its run files.
    #[must_use]
    pub fn recorded<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        let before = ["onbeat"].map(str::to_owned).into_iter();
        let behind = ["--json", "--out", RUNS].map(str::to_owned);
        let mut job = Self::new();
        job.command(before.chain(words.into_iter().map(Into::into)).chain(behind));
        job.collect(RUNS);
        job
    }

    /// This measurement, behind the words `by` of a program that runs it, with the same command of `onbeat` before and after it.
    pub(crate) fn between(self, by: &[&str], around: &[&str]) -> Self {
        let command = || ["onbeat"].iter().chain(around).map(|word| (*word).to_owned());
        let mut job = self;
        job.commands[0].splice(0..0, by.iter().map(|word| (*word).to_owned()));
        job.commands.insert(0, command().collect());
        job.command(command());
        job
    }

    /// Has a command run before all others.
    pub(crate) fn prepare<W: Into<String>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.commands.insert(0, words.into_iter().map(Into::into).collect());
    }

    /// The shell script that `init.sh` runs.
    pub(super) fn script(&self) -> String {
        let mut script = "work() {\n".to_owned();
        for words in &self.commands {
            let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            script += &format!("{} || return\n", quoted.join(" "));
        }
        script += ":\n}\nwork\nstatus=$?\n";
        for directory in &self.collected {
            // A command that failed early has not created it, and its own message counts.
            script += &format!("[ ! -e {0} ] || cp -R {0} /out/\n", quoted(directory));
        }

        script + "exit $status\n"
    }

    /// The file of the `fw_cfg` device: the script, filled up with null bytes.
    pub(super) fn to_file(&self) -> Result<Vec<u8>, VmError> {
        Self::file_of(&self.script())
    }

    /// The same of any text.
    pub(super) fn file_of(text: &str) -> Result<Vec<u8>, VmError> {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.len() > JOB_FILE_LENGTH {
            return Err(VmError::JobTooLong { length: bytes.len(), limit: JOB_FILE_LENGTH });
        }

        bytes.resize(JOB_FILE_LENGTH, 0);
        Ok(bytes)
    }

    /// The word of the kernel command line, which has room for 2 KiB in all.
    pub(super) fn to_kernel_argument(&self) -> String {
        format!("onbeat.job={}", STANDARD.encode(gzipped(self.script().as_bytes())))
    }
}

/// A word that no shell changes.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs the commands of a job by this host's shell.
    fn run(job: &Job) -> (Option<i32>, String) {
        let output = Command::new("sh").args(["-c", &job.script()]).output().expect("sh");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn words_reach_the_command_unchanged() {
        let mut job = Job::new();
        job.command(["printf", "%s|", "a b", "it's", "$HOME", "`x`", "\\", "*", ""]);
        assert_eq!(run(&job), (Some(0), "a b|it's|$HOME|`x`|\\|*||".to_owned()));
    }

    #[test]
    fn the_first_failure_ends_the_job_with_its_status() {
        let mut job = Job::new();
        job.command(["echo", "first"]);
        job.command(["sh", "-c", "exit 7"]);
        job.command(["echo", "never"]);
        assert_eq!(run(&job), (Some(7), "first\n".to_owned()));
        assert_eq!(run(&Job::new()), (Some(0), String::new()));
    }

    #[test]
    fn a_job_has_the_same_length_whatever_it_does() {
        let short = Job::measure_latency(&LatencyTest::default()).to_file().expect("a file");
        let long = Job::recorded(["bench", "--for", "20s"]).to_file().expect("a file");
        assert_eq!(short.len(), long.len());

        let mut too_long = Job::new();
        too_long.command(["echo".to_owned(), "x".repeat(5000)]);
        let refused = too_long.to_file().expect_err("too long").to_string();
        assert_eq!(refused, "the job is 5061 bytes long as a script, at most 4096 reach a guest");
    }

    #[test]
    fn a_tuning_that_changes_nothing_in_the_guest_fails_the_job() {
        let mut job = Job::new();
        job.apply_tuning("mem.thp", &["--priority".to_owned(), "98".to_owned()]);
        let script = job.script();
        assert!(script.ends_with("exit $status\n"), "{script}");
        assert!(
            script.contains("'apply' 'mem.thp' '--cpus' '0' '--priority' '98' || return"),
            "{script}"
        );
    }

    #[test]
    fn latency_is_measured_with_the_test_s_own_times() {
        let test = LatencyTest { load: LatencyTest::WRITER.to_owned(), ..LatencyTest::default() };
        let script = Job::measure_latency(&test).script();
        assert!(
            script.contains("'--for' '2000000000ns' '--period' '1000000ns' '--load' 'run:while"),
            "{script}"
        );
        assert!(script.contains("|| cp -R '/tmp/runs' /out/"), "{script}");
    }
}
