//! What the tests of interoperation need: Python with the peers' packages, and the program `onbeat`.
#![allow(dead_code, clippy::unwrap_used)] // No test uses all of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use libtest_mimic::{Completion, Trial};

/// What the peers are imported as.
const PEERS: &str = "import numpy, lz4.frame, zstandard, mcap, mcap_ros2, scipy.io, lcm, zmq, rosbags, google.protobuf";

/// A test that needs equipment: without it, it is ignored for the reason that `equip` returns.
pub(crate) fn trial<T: 'static>(
    name: &str,
    equip: fn() -> Result<T, String>,
    body: fn(&T),
) -> Trial {
    Trial::ignorable_test(name, move || match equip() {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(equipped) => {
            body(&equipped);
            Ok(Completion::Completed)
        }
    })
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that must succeed.
pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {}\n{errors}{said}", output.status);
    output
}

/// Python with the packages of `requirements.txt`, installed below `target/` on the first run, which
/// needs the network then; and with the package of this repository.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    program: PathBuf,
}

impl Python {
    pub(crate) fn equip() -> Result<Self, String> {
        static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();
        PYTHON.get_or_init(Self::install).clone()
    }

    fn install() -> Result<Self, String> {
        let place = root().join("target/interop-venv");
        let program = place.join("bin/python");
        let works = || {
            let imports = Command::new(&program).args(["-c", PEERS]).output();
            imports.is_ok_and(|output| output.status.success())
        };
        if !works() {
            let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
            if !made.is_ok_and(|output| output.status.success()) {
                return Err("python3 with venv is not installed (package python3-venv)".to_owned());
            }
            let wanted = root().join("tests/interop/requirements.txt");
            let mut pip = Command::new(&program);
            let _ = pip.args(["-m", "pip", "install", "-q", "-r"]).arg(wanted).output();
        }
        if !works() {
            let why = "the peers' Python packages cannot be installed: no network, or not for this Python";
            return Err(why.to_owned());
        }
        Ok(Self { program })
    }

    /// Installs what only the test of ROS 2 needs.
    pub(crate) fn with_ros2(self) -> Result<Self, String> {
        let works = || {
            let imports = Command::new(&self.program).args(["-c", "import cyclonedds"]).output();
            imports.is_ok_and(|output| output.status.success())
        };
        if !works() {
            let wanted = root().join("tests/interop/requirements-ros2.txt");
            let mut pip = Command::new(&self.program);
            let _ = pip.args(["-m", "pip", "install", "-q", "-r"]).arg(wanted).output();
        }
        match works() {
            true => Ok(self),
            false => {
                Err("Python's cyclonedds cannot be installed: no network, or not for this Python"
                    .into())
            }
        }
    }

    /// A script beside this file.
    pub(crate) fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(root().join("tests/interop").join(name));
        command.env("PYTHONPATH", root().join("python/src"));
        command
    }
}

/// The program `onbeat`, which the build of all tests puts beside the gateway.
pub(crate) fn onbeat() -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_BIN_EXE_onbeat-gateway")).with_file_name("onbeat");
    match program.is_file() {
        true => Ok(program),
        false => Err("onbeat is not built; `cargo build -p onbeat-cli` builds it".to_owned()),
    }
}

/// The Java client of this repository, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Java {
    pub(crate) classes: PathBuf,
}

impl Java {
    pub(crate) fn equip() -> Result<Self, String> {
        static JAVA: OnceLock<Result<Java, String>> = OnceLock::new();
        JAVA.get_or_init(Self::compile).clone()
    }

    fn compile() -> Result<Self, String> {
        let classes = root().join("target/interop-java");
        let sources = std::fs::read_dir(root().join("java/src/main/java/onbeat")).unwrap();
        let mut compile = Command::new("javac");
        compile.args(["--release", "8", "-Xlint:all,-options", "-Werror", "-d"]).arg(&classes);
        let compiled = compile
            .args(sources.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()))
            .output();
        let compiled = compiled
            .map_err(|_| "javac is not installed (package default-jdk-headless)".to_owned())?;
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Ok(Self { classes })
    }
}

/// Libraries of the Java client: aircompressor, jeromq and its own. Maven fetches them below `target/` on the first run, which needs
/// the network then.
pub(crate) fn jars() -> Result<Vec<PathBuf>, String> {
    static JARS: OnceLock<Result<Vec<PathBuf>, String>> = OnceLock::new();
    let fetched = || {
        let folder = root().join("target/interop-jars");
        let found = || -> Vec<PathBuf> {
            let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            files
                .map(|file| file.path())
                .filter(|it| it.extension().is_some_and(|end| end == "jar"))
                .collect()
        };
        let is_whole = |jars: &[PathBuf]| {
            ["aircompressor-", "jeromq-"].iter().all(|name| {
                jars.iter().any(|jar| jar.file_name().unwrap().to_string_lossy().starts_with(name))
            })
        };
        if !is_whole(&found()) {
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "-f"]).arg(root().join("java/pom.xml"));
            maven.arg("dependency:copy-dependencies");
            maven.arg(format!("-DoutputDirectory={}", folder.display()));
            let _ = maven.output();
        }
        let jars = found();
        let absent = "libraries of Java are not there: mvn is not installed (package maven), or there is no network";
        if is_whole(&jars) { Ok(jars) } else { Err(absent.to_owned()) }
    };
    JARS.get_or_init(fetched).clone()
}

/// Octave with the functions and the Java client of this repository.
#[derive(Clone, Debug)]
pub(crate) struct Octave {
    java_home: PathBuf,
    classes: PathBuf,
}

impl Octave {
    pub(crate) fn equip() -> Result<Self, String> {
        static OCTAVE: OnceLock<Result<Octave, String>> = OnceLock::new();
        OCTAVE.get_or_init(Self::find).clone()
    }

    fn find() -> Result<Self, String> {
        let Java { classes } = Java::equip()?;
        let there = Command::new("octave").arg("--version").output();
        if !there.is_ok_and(|output| output.status.success()) {
            return Err("octave is not installed (package octave)".to_owned());
        }

        // Debian's Octave looks for Java where another package would put a link.
        let java = Command::new("sh").args(["-c", "readlink -f \"$(command -v java)\""]).output();
        let path = PathBuf::from(String::from_utf8(java.unwrap().stdout).unwrap().trim());
        Ok(Self { java_home: path.ancestors().nth(2).unwrap().to_owned(), classes })
    }

    /// Evaluates a script after the paths are set; returns what it printed.
    pub(crate) fn eval(&self, script: &str) -> String {
        let functions = root().join("octave");
        let mut paths = format!("addpath ('{}');", functions.display());
        let jars = jars().unwrap_or_default();
        let of_zstd = jars.iter().filter(|jar| jar.to_string_lossy().contains("aircompressor"));
        for path in of_zstd.chain([&self.classes]) {
            paths.push_str(&format!(" javaaddpath ('{}');", path.display()));
        }
        let mut octave = self.command();
        let output = done(octave.arg("--eval").arg(format!("{paths}\n{script}")));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Octave without paths; the name of a script follows, or an option.
    pub(crate) fn command(&self) -> Command {
        let mut octave = Command::new("octave");
        octave.args(["--quiet", "--no-window-system"]).env("JAVA_HOME", &self.java_home);
        octave
    }

    /// The folder of the compiled Java client.
    pub(crate) fn classes(&self) -> &Path {
        &self.classes
    }
}
