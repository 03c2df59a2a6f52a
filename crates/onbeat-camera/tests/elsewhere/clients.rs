//! Python, C and Octave read the pictures of a running camera: every one whole, in order, as painted.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use libtest_mimic::Trial;
use onbeat_control::frames::FrameReader;

const PYTHON: &str = r"
import sys, onbeat.camera
wave = lambda p: 2 * (p % 256) if p % 256 < 128 else 511 - 2 * (p % 256)
with onbeat.camera.open(sys.argv[1]) as camera:
    assert camera.shape == (120, 200, 3), camera.shape
    last, checked = 0, 0
    while checked < 50:
        frame = camera.newest(timeout=60.0)
        copied, is_whole = frame.copy()
        assert frame.number > last
        last = frame.number
        if not is_whole:
            continue
        number = 0
        for column in range(32):
            number = 2 * number + int(copied[2, 4 * column + 2, 0] > 127)
        for x, y in [(150, 10), (3, 119), (199, 64)]:
            right = [wave(x + number), wave(2 * (y // 16 * 16) + number), wave(x // 2 + 64 + number)]
            assert list(copied[y, x]) == right, (x, y, number, list(copied[y, x]), right)
        checked += 1
    times = [frame.capture_ns, frame.received_ns, frame.decoded_ns, frame.published_ns]
    assert times == sorted(times)
    assert camera.description['source'] == 'test:200x120@100', camera.description
try:
    onbeat.camera.open('nobody-' + sys.argv[1])
except onbeat.camera.NoCamera as why:
    print(why)
";

const C: &str = r#"
#include <stdio.h>
#include <time.h>
#include "onbeat_frames.h"
int main(int count, char **arguments) {
    struct onbeat_frames frames;
    if (count < 2 || onbeat_frames_open(&frames, arguments[1])) return puts(frames.why), 1;
    int checked = 0;
    uint64_t last = 0;
    for (long turn = 0; turn < 100000 && checked < 50; turn++) {
        const struct timespec pause = {0, 500000};
        const uint8_t *pixels = onbeat_frames_newest(&frames);
        if (!pixels) { nanosleep(&pause, NULL); continue; }
        if (frames.number <= last) return puts("out of order"), 1;
        last = frames.number;
        uint32_t number = 0;
        for (int column = 0; column < 32; column++) number = 2 * number + (pixels[(4 * column + 2) * 120 + 2] > 127);
        const unsigned phase = (150 + number) & 255;
        const uint8_t level = pixels[150 * 120 + 60], right = phase < 128 ? 2 * phase : 511 - 2 * phase;
        if (!onbeat_frames_is_valid(&frames)) continue;
        if (level != right) return printf("picture %u: %d, not %d\n", number, level, right), 1;
        checked++;
    }
    if (onbeat_frames_check(&frames) != ONBEAT_RING_OK) return puts("the camera is not alive"), 1;
    onbeat_frames_close(&frames);
    if (onbeat_frames_open(&frames, "nobody") == 0) return 1;
    /* A ring without frames in which another process has stored a number. */
    static uint64_t words[ONBEAT_FRAMES_STAMPS_AT / 8 + 4 * ONBEAT_FRAMES_STAMP_BYTES / 8];
    words[320 / 8] = UINT64_C(1) << 63;
    frames.base = (const uint8_t *)words;
    frames.slots = 4;
    if (onbeat_frames_newest(&frames)) return puts("a picture that was never written"), 1;
    if (onbeat_frames_check(&frames) != ONBEAT_RING_DIED) return puts("a camera without a process"), 1;
    return printf("%d pictures, %s\n", checked, frames.why), checked < 50;
}
"#;

const OCTAVE: &str = r"
words = argv ();
wave = @(p) (mod (p, 256) < 128) .* 2 .* mod (p, 256) + (mod (p, 256) >= 128) .* (511 - 2 * mod (p, 256));
cam = onbeat.camera (words{end});
last = 0;
for k = 1:50
  [img, n, t, times] = onbeat.frame (cam, 60000);
  assert (class (img), 'uint8'); assert (size (img), [120 200 3]); assert (n > last); assert (issorted (times)); assert (t > 0);
  last = n;
  bits = double (img(3, 3:4:127, 1) > 127);
  number = sum (bits .* 2 .^ (31:-1:0));
  x = 150; y = 60;
  right = [wave(x + number), wave(2 * (floor (y / 16) * 16) + number), wave(floor (x / 2) + 64 + number)];
  assert (squeeze (double (img(y + 1, x + 1, :)))', right);
end
[img, n, t] = onbeat.each (cam, 60000);
assert (n > last);
assert (cam.await (int32 (60000)));
cam.view ();
times = double (cam.times ());
assert (cam.number () > n && times(1) > t);
try
  onbeat.camera (['nobody-' words{end}]);
  error ('opened');
catch why
  assert (why.identifier, 'onbeat:camera:no_camera');
  disp (why.message);
end
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A camera for one trial; killed on drop.
struct Camera(Child, String);

impl Camera {
    fn start(of: &str) -> Self {
        let name = format!("{of}-{}", std::process::id());
        let child = Command::new(env!("CARGO_BIN_EXE_onbeat-camera"))
            .args(["run", "test:200x120@100", "--name", &name])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !FrameReader::open(&name).is_ok_and(|it| it.newest() > 0) {
            sleep(Duration::from_millis(5));
        }
        Self(child, name)
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = onbeat_control::frames::remove_leftovers();
    }
}

fn check(output: &Output) -> Result<(), libtest_mimic::Failed> {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() && text.contains("is not running; start it with") {
        Ok(())
    } else {
        Err(text.into())
    }
}

/// A trial that prints why it is skipped.
fn trial(
    name: &'static str,
    equipped: Result<impl FnOnce(&str) -> Output + Send + 'static, String>,
) -> Trial {
    match equipped {
        Ok(run) => Trial::test(format!("clients::{name}"), move || {
            let camera = Camera::start(name);
            check(&run(&camera.1))
        }),
        Err(why) => Trial::test(format!("clients::{name} (skipped: {why})"), || Ok(()))
            .with_ignored_flag(true),
    }
}

/// Python with numpy: that of `ONBEAT_PYTHON`, of the other tests of clients, or of the system.
fn python_program() -> Result<String, String> {
    let named = std::env::var("ONBEAT_PYTHON").unwrap_or_default();
    let own = root().join("target/clients-python/bin/python").display().to_string();
    let has_numpy = |program: &String| {
        let tried =
            Command::new(program).args(["-c", "import numpy"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|it| it.success())
    };
    let program = [named, own, "python3".to_owned()].into_iter().find(has_numpy);
    program.ok_or("no Python with numpy (package python3-numpy)".to_owned())
}

fn python() -> Result<impl FnOnce(&str) -> Output + Send + 'static, String> {
    let program = python_program()?;
    Ok(move |name: &str| {
        let mut command = Command::new(program);
        command.env("PYTHONPATH", root().join("python/src")).args(["-c", PYTHON, name]);
        command.output().unwrap()
    })
}

fn c() -> Result<impl FnOnce(&str) -> Output + Send + 'static, String> {
    Command::new("cc").arg("--version").output().map_err(|_| "no C compiler (package gcc)")?;
    Ok(|name: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("reader.c"), folder.path().join("reader"));
        std::fs::write(&source, C).unwrap();
        let mut command = Command::new("cc");
        command.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I"]);
        command.arg(root().join("include")).arg(&source).arg("-o").arg(&program);
        let built = command.output().unwrap();
        if built.status.success() {
            Command::new(program).arg(name).output().unwrap()
        } else {
            built
        }
    })
}

fn octave() -> Result<impl FnOnce(&str) -> Output + Send + 'static, String> {
    let jar = root().join("java/target/onbeat.jar");
    let found = Command::new("octave-cli").arg("--version").output();
    found.map_err(|_| "octave-cli is not installed (package octave)")?;
    if !jar.is_file() {
        return Err("java/target/onbeat.jar is not built (mvn package in java/)".to_owned());
    }
    let java =
        std::fs::canonicalize("/usr/bin/java").map_err(|_| "no Java (package default-jre)")?;
    let home = java.ancestors().nth(2).unwrap().to_owned();
    Ok(move |name: &str| {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("reader.m");
        let paths = format!(
            "javaaddpath ('{}'); addpath ('{}');",
            jar.display(),
            root().join("octave").display()
        );
        std::fs::write(&script, format!("{paths}\n{OCTAVE}")).unwrap();
        let mut command = Command::new("octave-cli");
        command.env("JAVA_HOME", home).args(["-q", "-W"]).arg(&script).arg(name);
        command.output().unwrap()
    })
}

/// `bench --from python` has a row for each way of the article and each size, measured by Python itself.
fn bench_of_python() -> Trial {
    const NAME: &str = "clients::a_bench_measures_each_way_of_python";
    let program = match python_program() {
        Ok(program) => program,
        Err(why) => return Trial::test(format!("{NAME} (skipped: {why})"), || Ok(())),
    };
    Trial::test(NAME, move || {
        let own = Path::new(&program).parent().unwrap().display().to_string();
        let path = format!("{own}:{}", std::env::var("PATH").unwrap());
        let output = Command::new(env!("CARGO_BIN_EXE_onbeat-camera"))
            .args(["bench", "--from", "python", "--rounds", "2", "--json"])
            .current_dir(root())
            .env("PATH", path)
            .output()
            .unwrap();
        check(&output)?;
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        let measured = |way: &str| {
            let is_row = |row: &&serde_json::Value| row["client"] == "Python" && row["way"] == way;
            rows.iter().filter(is_row).filter(|row| row["p50_ms"].as_f64() > Some(0.0)).count()
        };
        for way in ["default array of arrays", "rows, one array", "shared memory"] {
            assert!(measured(way) > 0, "{way} is not measured: {rows:?}");
        }
        Ok(())
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("python", python()), trial("c", c()), trial("octave", octave()), bench_of_python()]
}
