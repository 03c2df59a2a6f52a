//! Pictures over a network are those that FFmpeg decodes from the same bytes: bit by bit, or as near as two decoders of JPEG are.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use onbeat_control::frames::{FrameReader, Want};

const SIZE: (usize, usize) = (320, 240);
const PATIENCE: Duration = Duration::from_secs(60);
/// Two decoders of JPEG differ by the rounding of their inverse transforms.
const LEAST_DB: f64 = 45.0;
/// Pictures that a stream must have given.
const ENOUGH: usize = 20;

/// Processes that end with the test.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = onbeat_control::frames::remove_leftovers();
    }
}

fn ffmpeg(words: &str, file: &Path) {
    let words = words.replace("FILE", file.to_str().unwrap());
    let made =
        Command::new("ffmpeg").args(["-v", "error", "-y"]).args(words.split(' ')).output().unwrap();
    assert!(made.status.success(), "{words}: {}", String::from_utf8_lossy(&made.stderr));
}

/// What FFmpeg decodes, picture by picture.
fn decoded(file: &Path, format: &str, bytes: usize) -> Vec<Vec<u8>> {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(file)
        .args(["-f", "rawvideo", "-vsync", "0", "-pix_fmt", format, "-"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout.chunks_exact(bytes).map(<[u8]>::to_vec).collect()
}

/// Runs a camera until it has given enough pictures, or its source has ended; returns them.
fn pictures(source: &str, name: &str, layout: &str) -> Vec<Vec<u8>> {
    let name = format!("{name}-{}", std::process::id());
    let camera = Command::new(env!("CARGO_BIN_EXE_onbeat-camera"))
        .args(["run", source, "--name", &name, "--layout", layout, "--slots", "64"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut running = Running(vec![camera]);
    let began = Instant::now();
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut reader = None;
    while found.len() < ENOUGH {
        assert!(began.elapsed() < PATIENCE, "{source}: {} pictures", found.len());
        assert!(
            running.0[0].try_wait().unwrap().is_none() || !found.is_empty(),
            "{source}: no picture"
        );
        if reader.is_none() {
            reader = FrameReader::open(&name).ok();
        }
        match reader.as_mut().and_then(|it: &mut FrameReader| it.take(Want::Each)) {
            Some(frame) => {
                assert_eq!(frame.passed_over, 0);
                found.push(frame.pixels.to_vec());
            }
            None => sleep(Duration::from_millis(2)),
        }
    }
    found
}

fn decibels(one: &[u8], other: &[u8]) -> f64 {
    assert_eq!(one.len(), other.len());
    let sum: u64 = one.iter().zip(other).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2)).sum();
    10.0 * (255.0 * 255.0 * one.len() as f64 / sum.max(1) as f64).log10()
}

/// Checks that each picture found is one of the right ones, in order, by `is_same`.
fn check_order(found: &[Vec<u8>], right: &[Vec<u8>], is_same: impl Fn(&[u8], &[u8]) -> bool) {
    let mut next = 0;
    for (place, picture) in found.iter().enumerate() {
        let at = (next..right.len()).find(|at| is_same(picture, &right[*at]));
        let nearest = || {
            let all = right.iter().map(|it| decibels(picture, it));
            all.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
        };
        next = 1 + at
            .unwrap_or_else(|| panic!("picture {place}, after {next}: nearest {:?}", nearest()));
    }
}

/// Pictures that differ from each other in all parts.
const PATTERN: &str = "-f lavfi -i testsrc2=size=320x240:rate=25:duration=8";

fn mjpeg_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("left.mkv");
    ffmpeg(&format!("{PATTERN} -c:v mjpeg -pix_fmt yuvj444p -q:v 2 FILE"), &file);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("http://127.0.0.1:{port}/left");
    let server = Command::new("ffmpeg")
        .args(["-v", "error", "-re", "-i"])
        .arg(&file)
        .args(["-c", "copy", "-f", "mpjpeg", "-listen", "1", &address])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Running(vec![server]);
    await_port(port);
    let (width, height) = SIZE;
    let found = pictures(&address, "http", "rows");
    let right = decoded(&file, "rgb24", 3 * width * height);
    check_order(&found, &right, |one, other| decibels(one, other) >= LEAST_DB);
}

/// Waits until the port listens; a connection would be taken as the one client.
fn await_port(port: u16) {
    let began = Instant::now();
    let listens = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        table.lines().any(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A")))
    };
    while !listens() {
        assert!(began.elapsed() < PATIENCE, "nobody listens on port {port}");
        sleep(Duration::from_millis(10));
    }
}

/// A server of gst-rtsp-server with a recording; returns its address.
fn rtsp(python: &Path, file: &Path, coding: &str) -> (Running, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rtsp_server.py");
    let mut server = Command::new(python)
        .arg(script)
        .arg(file)
        .arg(coding)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (Running(vec![server]), address.trim().to_owned())
}

fn h264_over_rtsp(python: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("left.mkv");
    ffmpeg(
        &format!("{PATTERN} -c:v libx264 -pix_fmt yuv420p -preset ultrafast -g 25 -bf 0 FILE"),
        &file,
    );
    let (_server, address) = rtsp(python, &file, "h264");
    let (width, height) = SIZE;
    let found = pictures(&address, "h264", "decoded");
    let right = decoded(&file, "yuv420p", width * height * 3 / 2);
    check_order(&found, &right, |one, other| one == other);
}

fn mjpeg_over_rtsp(python: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("left.mkv");
    ffmpeg(&format!("{PATTERN} -c:v mjpeg -huffman 0 -pix_fmt yuvj420p -q:v 2 FILE"), &file);
    let (_server, address) = rtsp(python, &file, "jpeg");
    let (width, height) = SIZE;
    // Luma: the decoders enlarge chroma by different filters.
    let right = decoded(&file, "gray", width * height);
    let found = pictures_gray(&address);
    check_order(&found, &right, |one, other| decibels(one, other) >= LEAST_DB);
}

fn pictures_gray(address: &str) -> Vec<Vec<u8>> {
    let (width, height) = SIZE;
    let colour = pictures(address, "jpeg", "rows");
    let gray = |pixel: &[u8; 3]| {
        let [red, green, blue] = pixel.map(f64::from);
        (0.299 * red + 0.587 * green + 0.114 * blue).round() as u8
    };
    colour
        .iter()
        .map(|picture| {
            assert_eq!(picture.len(), 3 * width * height);
            picture.as_chunks::<3>().0.iter().map(gray).collect()
        })
        .collect()
}

/// A decoder that keeps pictures back has each one late by a whole period, however long that is.
fn no_picture_waits_for_the_next_one(python: &Path) {
    const PERIOD_NS: u64 = 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slow.mkv");
    let slow = "-f lavfi -i testsrc2=size=320x240:rate=1:duration=12";
    ffmpeg(
        &format!("{slow} -c:v libx264 -pix_fmt yuv420p -preset ultrafast -g 1 -bf 0 FILE"),
        &file,
    );
    let (_server, address) = rtsp(python, &file, "h264");
    let name = format!("slow-{}", std::process::id());
    let camera = Command::new(env!("CARGO_BIN_EXE_onbeat-camera"))
        .args(["run", &address, "--name", &name, "--slots", "16"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _camera = Running(vec![camera]);
    let began = Instant::now();
    let mut waited_ns = Vec::new();
    let mut reader = None;
    while waited_ns.len() < 5 {
        assert!(began.elapsed() < PATIENCE, "{} pictures", waited_ns.len());
        reader = reader.or_else(|| FrameReader::open(&name).ok());
        match reader.as_mut().and_then(|it: &mut FrameReader| it.take(Want::Each)) {
            Some(frame) => waited_ns.push(frame.times.decoded_ns - frame.times.received_ns),
            None => sleep(Duration::from_millis(5)),
        }
    }
    let least = waited_ns.iter().min().unwrap();
    assert!(*least < PERIOD_NS * 9 / 10, "from reception to decoding, ns: {waited_ns:?}");
}

/// Python with the bindings of gst-rtsp-server.
fn with_gst() -> Result<PathBuf, String> {
    let tried = |python: &str| {
        let program = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer";
        Command::new(python).args(["-c", program]).stderr(Stdio::null()).status()
    };
    let found = ["/usr/bin/python3", "python3"]
        .into_iter()
        .find(|python| tried(python).is_ok_and(|it| it.success()));
    found
        .map(PathBuf::from)
        .ok_or("no gst-rtsp-server (packages gir1.2-gst-rtsp-server-1.0 and python3-gi)".to_owned())
}

pub(crate) fn trials() -> Vec<Trial> {
    let has_ffmpeg = Command::new("ffmpeg").arg("-version").output().is_ok();
    let skipped = |name: &str, why: &str| {
        Trial::test(format!("pictures::{name} (skipped: {why})"), || Ok(())).with_ignored_flag(true)
    };
    let mut trials = Vec::new();
    type Test = (&'static str, fn(&Path));
    let all: [Test; 3] = [
        ("h264_over_rtsp", h264_over_rtsp),
        ("mjpeg_over_rtsp", mjpeg_over_rtsp),
        ("no_picture_waits_for_the_next_one", no_picture_waits_for_the_next_one),
    ];
    for (name, run) in all {
        trials.push(match with_gst() {
            Ok(python) if has_ffmpeg => Trial::test(format!("pictures::{name}"), move || {
                run(&python);
                Ok(())
            }),
            Ok(_) => skipped(name, "ffmpeg is not installed"),
            Err(why) => skipped(name, &why),
        });
    }
    trials.push(if has_ffmpeg {
        Trial::test("pictures::mjpeg_over_http", || {
            mjpeg_over_http();
            Ok(())
        })
    } else {
        skipped("mjpeg_over_http", "ffmpeg is not installed")
    });
    trials
}
