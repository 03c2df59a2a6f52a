//! What the tests of clients need: languages, and robots of simulated devices.
//!
//! Python's packages are installed below `target/` on the first run, which needs the network then.
#![allow(dead_code, clippy::unwrap_used)] // No test uses all of it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Trial};
use onbeat_control::{Reading, RingReader, Start};
use onbeat_ethercat::description::Description;
use serde_json::Value;

/// A test that needs a language: without it, it is ignored for the reason that `equip` returns.
pub(crate) fn trial<T: 'static>(
    name: &str,
    equip: fn() -> Result<T, String>,
    body: fn(T),
) -> Trial {
    Trial::ignorable_test(name, move || match equip() {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(equipped) => {
            body(equipped);
            Ok(Completion::Completed)
        }
    })
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Python with numpy, and the package of this repository.
pub(crate) fn python() -> Result<Command, String> {
    let place = root().join("target/clients-venv");
    let program = place.join("bin/python");
    // Tests run at the same time: what one installs must not be replaced below another's program.
    // Unlocked at the end of this function.
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let lock = File::create(place.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let works = || {
        let imports = Command::new(&program).args(["-c", "import numpy"]).output();
        imports.is_ok_and(|output| output.status.success())
    };
    if !works() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }
        let _ = Command::new(&program).args(["-m", "pip", "install", "-q", "numpy"]).output();
    }
    if !works() {
        return Err("numpy cannot be installed: no network, or not for this Python".to_owned());
    }

    let mut command = Command::new(program);
    command.arg(root().join("tests/clients/cycles.py"));
    command.env("PYTHONPATH", root().join("python/src"));
    Ok(command)
}

/// Runs a command that must succeed.
pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

/// The codec of a cycle in a language.
pub(crate) fn generated_cycle(language: &str) -> Vec<u8> {
    let mut generate = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    generate.args(["message", "generate", language, "onbeat_msgs/msg/Cycle"]);
    done(&mut generate).stdout
}

/// Waits until a robot has published this number of cycles.
pub(crate) fn has_published(robot: &Robot, cycles: u64) {
    let channel = robot.channel().parse().unwrap();
    let began = Instant::now();
    let mut seen = 0;
    let mut ring = RingReader::open(&channel, Start::Oldest).unwrap();
    while seen < cycles {
        match ring.next() {
            Reading::Record { .. } => seen += 1,
            Reading::Lost(records) => seen += records,
            Reading::Nothing => {
                assert!(began.elapsed() < Duration::from_secs(60), "{seen} of {cycles} cycles");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The folder into which cargo has built these tests, and the profile's name.
pub(crate) fn built() -> (PathBuf, &'static str) {
    let folder = Path::new(env!("CARGO_BIN_EXE_onbeat")).parent().unwrap().to_owned();
    let profile = if folder.ends_with("release") { "release" } else { "test" };
    (folder, profile)
}

/// The program of cameras, beside this one; built if the build of all tests has not made it.
pub(crate) fn camera_program() -> PathBuf {
    let (folder, profile) = built();
    let program = folder.join("onbeat-camera");
    if !program.is_file() {
        let mut build = Command::new(env!("CARGO"));
        build.current_dir(root()).args(["build", "--locked", "--profile", profile]);
        build.args(["-p", "onbeat-camera", "--target-dir"]);
        done(build.arg(folder.parent().unwrap()));
    }
    program
}

/// Whether a file was made after all of these. The build of all tests makes libraries and examples
/// too; the build of one test does not.
pub(crate) fn is_newer(made: &Path, than: &[&str]) -> bool {
    let at = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let of_sources = than.iter().map(|source| at(&root().join(source)));
    at(made).is_some_and(|made| of_sources.flatten().all(|source| source < made))
}

/// Installs the C library, its headers and its pkg-config file below `target/`; returns the prefix.
pub(crate) fn installed_library() -> PathBuf {
    let prefix = root().canonicalize().unwrap().join("target/clients-library");
    let (folder, profile) = built();
    let mut install = Command::new("sh");
    install.arg(root().join("scripts/install.sh")).arg("library");
    install.env("PREFIX", &prefix).env("PROFILE", profile).env("CARGO", env!("CARGO"));
    let sources =
        ["last_error", "ring", "run_loop"].map(|file| format!("crates/onbeat-c/src/{file}.rs"));
    let library = folder.join("deps/libonbeat_c.so");
    if is_newer(&library, &sources.each_ref().map(String::as_str)) {
        install.env("BUILT", folder.join("deps"));
    }
    done(&mut install);
    prefix
}

/// A program from the header of this repository and a generated one, as a new user would build it;
/// as C++ too.
pub(crate) fn c() -> Result<Command, String> {
    let folder = root().join("target/clients-c");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cycle.h"), generated_cycle("c")).unwrap();

    for (compiler, language) in [("c++", ["-std=c++17", "-xc++"]), ("cc", ["-std=c11", "-xc"])] {
        let mut compile = Command::new(compiler);
        compile.args(language).args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
        compile.arg(root().join("include")).arg("-I").arg(&folder);
        compile.arg(root().join("tests/clients/cycles.c"));
        match compile.arg("-o").arg(folder.join("cycles")).output() {
            Err(_) => return Err(format!("{compiler} is not installed (package g++)")),
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{errors}");
            }
        }
    }
    Ok(Command::new(folder.join("cycles")))
}

/// The Java client, compiled for Java 8, as its jar is.
pub(crate) fn java() -> Result<Command, String> {
    static COMPILED: OnceLock<Result<(), String>> = OnceLock::new();
    COMPILED.get_or_init(compile_java).clone()?;
    let mut command = Command::new("java");
    command.arg("-cp").arg(root().join("target/clients-java")).arg("Cycles");
    Ok(command)
}

fn compile_java() -> Result<(), String> {
    let sources = std::fs::read_dir(root().join("java/src/main/java/onbeat")).unwrap();
    let mut compile = Command::new("javac");
    compile.args(["--release", "8", "-Xlint:all,-options", "-Werror", "-d"]);
    compile.arg(root().join("target/clients-java"));
    compile.args(sources.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    compile.arg(root().join("tests/clients/Cycles.java"));
    let output = compile
        .output()
        .map_err(|_| "javac is not installed (package default-jdk-headless)".to_owned())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Octave with the functions of this repository over the Java client.
pub(crate) fn octave() -> Result<Command, String> {
    java()?;
    let is_there = Command::new("octave").arg("--version").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return Err("octave is not installed (package octave)".to_owned());
    }

    // Debian's Octave looks for Java where another package would put a link.
    let java = Command::new("sh").args(["-c", "readlink -f \"$(command -v java)\""]).output();
    let path = PathBuf::from(String::from_utf8(java.unwrap().stdout).unwrap().trim());
    let home = path.ancestors().nth(2).unwrap().to_owned();
    let mut command = Command::new("octave");
    command.env("JAVA_HOME", home).args(["--quiet", "--no-window-system"]);
    command.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    Ok(command)
}

pub(crate) fn commands() -> Result<Command, String> {
    let python = python()?;
    let mut command = Command::new(python.get_program());
    command.arg(root().join("tests/clients/commands.py"));
    command.env("PYTHONPATH", root().join("python/src"));
    command.env("ONBEAT", env!("CARGO_BIN_EXE_onbeat"));
    Ok(command)
}

/// A robot of simulated devices; killed on drop.
pub(crate) struct Robot {
    pub(crate) child: Child,
    pub(crate) name: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Robot {
    pub(crate) fn start(duration: &str) -> Self {
        Self::new("humanoid", &["--trajectory", "gait", "--for", duration])
    }

    /// A robot of two joints at 1 kHz that is moved by commands; ends after four minutes.
    pub(crate) fn commanded() -> Self {
        let file = root().join("tests/clients/two_joints.toml");
        let options = ["--trajectory", "commander", "--period", "1ms", "--for", "240s"];
        Self::new(file.to_str().unwrap(), &options)
    }

    /// The humanoid at this period and priority, moved by commands. No late cycle stops it, neither by its ladder nor by the
    /// watchdogs of its drives; only the loss of its commander does.
    pub(crate) fn humanoid(period: &str, priority: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("humanoid.toml");
        let ladder = "[robot.ladder]\ndegrade_at = 1000000\nstop_at = 1000000\n";
        let patient = [("[segment]", "watchdog_ms = 6000"), ("[robot]", "following_ms = 60000")];
        let text =
            patient.iter().fold(Description::HUMANOID.to_owned(), |text, (table, setting)| {
                assert!(text.contains(&format!("{table}\n")), "{table}");
                text.replacen(&format!("{table}\n"), &format!("{table}\n{setting}\n"), 1)
            });
        let text = format!("{text}\n{ladder}[robot.goal]\nlost_ms = 4000\n");
        std::fs::write(&file, text).unwrap();
        let options = ["--trajectory", "commander", "--period", period, "--for", "10m"];
        let options = [&options[..], &["--priority", priority]].concat();
        let own = Self::new(file.to_str().unwrap(), &options);
        own.wait_until_published();
        own.wait_until_running();
        own
    }

    /// Waits until its drives, which are enabled in groups, follow targets.
    fn wait_until_running(&self) {
        const RUNNING: u8 = 2;
        let began = Instant::now();
        let client = onbeat_control::Client::open(&self.name).unwrap();
        while client.state().robot.is_none_or(|robot| robot.phase != RUNNING) {
            assert!(began.elapsed() < Duration::from_secs(60), "not enabled: {}", self.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the robot publishes its cycles.
    pub(crate) fn wait_until_published(&self) {
        let channel = self.channel().parse().unwrap();
        let began = Instant::now();
        loop {
            let ring = onbeat_control::RingReader::open(&channel, onbeat_control::Start::Oldest);
            if ring.is_ok_and(|ring| ring.newest() > 0) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no cycle: {}", self.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn new(file: &str, options: &[&str]) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let place = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("clients-{}-{place}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(["robot", "run", file, "--name", &name]).args(options);
        if !options.contains(&"--priority") {
            command.args(["--priority", "0"]);
        }
        command.args(["--no-causes", "--json"]);
        command.arg("--out").arg(folder.path()).env("ONBEAT_STATE_DIR", folder.path());
        let errors = std::fs::File::create(folder.path().join("errors")).unwrap();
        let child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        Self { child, name, folder }
    }

    /// What it has reported so far.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    pub(crate) fn channel(&self) -> String {
        format!("{}/cycle", self.name)
    }

    /// Waits for its end; returns its summary.
    pub(crate) fn summary(mut self) -> Value {
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}"))
    }
}

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Another robot that starts removes it too.
        let _ = onbeat_control::remove_leftovers();
    }
}
