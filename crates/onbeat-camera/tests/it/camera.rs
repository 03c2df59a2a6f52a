//! The program as its users run it: sources, faults, deaths. Readers are in this process.
#![allow(clippy::print_stderr)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use onbeat_camera::source::{painted, test_picture};
use onbeat_control::frames::{FrameError, FrameFormat, FrameReader, PixelLayout, Want, cameras};

/// Deaths of the writer; `ONBEAT_CAMERA_KILLS` asks for more.
const KILLS: u32 = 60;
const PATIENCE: Duration = Duration::from_secs(30);

/// A camera's name of this test binary alone.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn camera(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat-camera"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command
}

fn started(source: &str, name: &str) -> Child {
    camera(&["run", source, "--name", &self::name(name)]).stderr(Stdio::null()).spawn().unwrap()
}

fn opened(name: &str) -> FrameReader {
    let began = Instant::now();
    loop {
        match FrameReader::open(&self::name(name)) {
            Ok(reader) if reader.check_alive().is_ok() => return reader,
            _ if began.elapsed() > PATIENCE => panic!("camera {name} does not start"),
            _ => sleep(Duration::from_millis(2)),
        }
    }
}

fn waited(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Checks every pixel of a test picture against the number painted on it; returns the number.
fn checked(pixels: &[u8], format: FrameFormat) -> u64 {
    let (width, height) = (format.width as usize, format.height as usize);
    let at = |x: usize, y: usize, channel: usize| pixels[(channel * width + x) * height + y];
    let painted = painted::read(width, height, |x, y| at(x, y, 0)).expect("a stamp");
    let side = painted::cell_side(width, height).unwrap();
    for x in 0..width {
        for y in 0..height {
            if y < 3 * side && x < 32 * side {
                continue;
            }
            let right = test_picture::level_at(x, y, painted.number.into());
            let found = [at(x, y, 0), at(x, y, 1), at(x, y, 2)];
            assert_eq!(found, right, "pixel {x}, {y} of picture {}", painted.number);
        }
    }
    painted.number.into()
}

#[test]
fn every_picture_is_whole_in_order_and_its_number_is_the_one_painted_on_it() {
    let child = started("test:200x120@100", "whole");
    let mut reader = opened("whole");
    let (mut last, mut lag) = (0, None);
    while reader.received() < 100 {
        let format = reader.format();
        let Some(frame) = reader.take(Want::Each) else {
            sleep(Duration::from_millis(1));
            continue;
        };
        assert!(frame.number > last);
        last = frame.number;
        let times = frame.times;
        let order = [times.capture_ns, times.received_ns, times.decoded_ns, times.published_ns];
        assert!(order.is_sorted(), "{order:?}");
        let painted = checked(frame.pixels, format);
        // Pictures that were not painted in time have numbers too.
        assert!(painted >= lag.unwrap_or(0) + frame.number, "{painted} {}", frame.number);
        lag = Some(painted - frame.number);
    }
    interrupt(&child);
    let output = waited(child);
    assert!(output.status.success());
    assert!(matches!(reader.check_alive(), Err(FrameError::Ended { .. })));
    assert!(
        matches!(FrameReader::open(&name("whole")), Err(FrameError::NoCamera { .. })),
        "nothing is left"
    );
}

#[test]
fn a_killed_camera_leaves_a_whole_newest_picture_and_the_next_one_takes_its_name() {
    let kills: u32 =
        std::env::var("ONBEAT_CAMERA_KILLS").map_or(KILLS, |it| it.parse().expect("a number"));
    let mut random = fastrand::Rng::with_seed(5);
    let mut before: Option<FrameReader> = None;
    let (mut read, mut left) = (0_u32, 0_u32);
    for _ in 0..kills {
        let mut child = started("test:200x120@500", "killed");
        let mut reader = opened("killed");
        let format = reader.format();
        // Its number begins again where another camera's start has removed what the killed one left.
        let is_continued = before.as_ref().is_some_and(|before| before.check_alive().is_ok());
        assert!(!is_continued, "a ring is never continued");
        let until = Instant::now() + Duration::from_micros(random.u64(1_000..40_000));
        while Instant::now() < until {
            if let Some(frame) = reader.take(Want::Newest) {
                checked(frame.pixels, format);
                read += 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(reader.check_alive(), Err(FrameError::WriterDied { .. })));
        match FrameReader::open(&name("killed")) {
            Ok(mut late) => {
                if let Some(frame) = late.take(Want::Newest) {
                    checked(frame.pixels, format);
                    read += 1;
                }
                left += 1;
            }
            // Another camera has started since, and removed it.
            Err(error) => assert!(matches!(error, FrameError::NoCamera { .. }), "{error}"),
        }
        before = Some(reader);
    }
    println!("{kills} kills, {read} pictures checked, 0 torn");
    assert!(read >= kills && left > 0);
    let _ = onbeat_control::frames::remove_leftovers();
    assert!(matches!(FrameReader::open(&name("killed")), Err(FrameError::NoCamera { .. })));
}

#[test]
fn readers_that_are_killed_at_any_instant_leave_nothing_and_tear_nothing() {
    let kills: u32 =
        std::env::var("ONBEAT_CAMERA_KILLS").map_or(KILLS, |it| it.parse().expect("a number"));
    let child = started("test:200x120@500", "killers");
    let mut reader = opened("killers");
    let format = reader.format();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
    let (before, files) = (descriptors(), files_of_cameras("killers"));
    let mut random = fastrand::Rng::with_seed(9);
    let mut checks = 0_u32;
    for _ in 0..kills {
        let mut watcher = camera(&["watch", &name("killers"), "--for", "1h"]).spawn().unwrap();
        let until = Instant::now() + Duration::from_micros(random.u64(500..30_000));
        while Instant::now() < until {
            if let Some(frame) = reader.take(Want::Newest) {
                checked(frame.pixels, format);
                checks += 1;
            }
        }
        watcher.kill().unwrap();
        watcher.wait().unwrap();
    }
    println!("{kills} kills, {checks} pictures checked, 0 torn");
    assert!(checks >= kills);
    assert_eq!((descriptors(), files_of_cameras("killers")), (before, files), "nothing is left");
    interrupt(&child);
    assert!(waited(child).status.success());
}

/// Files of a camera in all directories in which there may be some.
fn files_of_cameras(of: &str) -> usize {
    let user = format!("/run/user/{}/onbeat", rustix::process::getuid().as_raw());
    let named = std::env::var("ONBEAT_RUNTIME_DIR").unwrap_or_default();
    let folders = [named.as_str(), "/run/onbeat", &user];
    let entries = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
    entries.filter(|it| it.file_name().to_string_lossy().starts_with(&name(of))).count()
}

#[test]
fn killed_and_stopped_readers_do_not_hold_up_the_camera() {
    let child = started("test:200x120@200", "readers");
    let mut reader = opened("readers");
    let mut watchers: Vec<Child> = (0..6)
        .map(|_| camera(&["watch", &name("readers"), "--for", "1h"]).spawn().unwrap())
        .collect();
    sleep(Duration::from_millis(100));
    for (place, watcher) in watchers.iter_mut().enumerate() {
        if place % 2 == 0 {
            watcher.kill().unwrap();
        } else {
            let pid = rustix::process::Pid::from_raw(watcher.id().cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        }
    }
    let before = reader.newest();
    let began = Instant::now();
    while reader.newest() < before + 50 {
        assert!(began.elapsed() < PATIENCE, "the camera waits for its readers");
        sleep(Duration::from_millis(5));
    }
    let format = reader.format();
    checked(reader.take(Want::Newest).unwrap().pixels, format);
    watchers.iter_mut().for_each(|it| it.kill().unwrap());
    watchers.into_iter().for_each(|it| drop(waited(it)));
    interrupt(&child);
    assert!(waited(child).status.success());
}

#[test]
fn what_cannot_run_ends_with_one_sentence_and_status_2() {
    let running = started("test:200x120@30", "taken");
    drop(opened("taken"));
    for (arguments, why) in [
        (&["run", "test:200x120@30", "--name", &name("taken")][..], "end it, or use another name"),
        (&["run", "test:100000x100000@30"], "a side has 1 to 16384 pixels, not 100000"),
        (&["run", "test:16384x16384@30"], "at most 1536 MiB"),
        (&["run", "test:64x64@30", "--slots", "3"], "a ring 4 to 64 pictures"),
        (&["run", "test:64x64@30", "--name", "../x"], "is not a valid name of a camera"),
        (&["run", "ftp://h/x"], "ftp:// is not read"),
        (&["run", "a\x1b[2J\nb.mp4"], "a?[2J?b.mp4 cannot be used: there is no such file"),
        (&["run", "/dev/video99"], "cannot open /dev/video99: No such file"),
        (&["run", "/dev/null"], "it is not a video device"),
        (&["run", "10.0.0.5"], "no such file; a camera of the network is rtsp://HOST/PATH"),
        (&["run", "/no-such-file.mp4"], "cannot open /no-such-file.mp4: No such file"),
        (&["run", "Cargo.toml"], "ffmpeg, which decodes Cargo.toml, has ended"),
        (&["watch", "nobody"], "camera nobody is not running; start it with"),
    ] {
        let output = waited(camera(arguments).spawn().unwrap());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(why) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
    interrupt(&running);
    assert!(waited(running).status.success());
}

#[test]
fn an_account_that_cannot_be_written_is_status_2() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let arguments = ["run", "test:64x48@100", "--name", &name("full"), "--frames", "2"];
    let output = waited(camera(&arguments).stdout(full).spawn().unwrap());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cannot write to standard output: No space left"), "{text}");
}

// ---- MJPEG over HTTP, by a server of this process

/// A gray JPEG picture of 16 x 16 pixels, baseline, made by hand: one DC value a block.
const JPEG: &[u8] = include_bytes!("../gray16.jpg");

fn part(bytes: &[u8]) -> Vec<u8> {
    let head =
        format!("--b\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n", bytes.len());
    [head.as_bytes(), bytes, b"\r\n"].concat()
}

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=b\r\n\r\n";

/// Serves each connection by a function of its number.
fn server(serve: impl Fn(u32, TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://user:secret@{}/stream", listener.local_addr().unwrap());
    spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            serve(number, stream);
        }
    });
    address
}

#[test]
fn a_stream_that_is_lost_again_and_again_is_opened_again_and_the_numbers_go_on() {
    let address = server(|_, mut stream| {
        let _ = stream.write_all(HEAD);
        for _ in 0..5 {
            let _ = stream.write_all(&part(JPEG));
            sleep(Duration::from_millis(20));
        }
    });
    let child = camera(&["run", &address, "--name", &name("lost"), "--frames", "15", "--json"])
        .spawn()
        .unwrap();
    let output = waited(child);
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(account["published"], 15, "{account}");
    assert!(account["reconnections"].as_u64().unwrap() >= 2, "{account}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("has ended the connection") && text.contains("pictures again after"),
        "{text}"
    );
    assert!(!text.contains("secret"), "a password is never shown: {text}");
}

#[test]
fn a_camera_of_few_pictures_is_not_lost() {
    let address = server(|_, mut stream| {
        spawn(move || {
            let _ = stream.write_all(HEAD);
            while stream.write_all(&part(JPEG)).is_ok() {
                sleep(Duration::from_millis(3_500));
            }
        });
    });
    let arguments = ["run", &address, "--name", &name("slow"), "--frames", "3", "--json"];
    let output = waited(camera(&arguments).spawn().unwrap());
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(account["published"], 3, "{account}");
    // Its rate is known from the second picture on.
    assert!(account["reconnections"].as_u64().unwrap() <= 1, "{account}");
}

#[test]
fn damaged_pictures_are_counted_and_the_next_whole_one_is_shown() {
    let address = server(|_, mut stream| {
        let _ = stream.write_all(HEAD);
        loop {
            let cut = &JPEG[..JPEG.len() / 2];
            let parts = [part(JPEG), part(cut), part(b"garbage")];
            for part in parts {
                if stream.write_all(&part).is_err() {
                    return;
                }
                sleep(Duration::from_millis(15));
            }
        }
    });
    let child = camera(&["run", &address, "--name", &name("damaged"), "--frames", "5", "--json"])
        .spawn()
        .unwrap();
    let output = waited(child);
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(account["published"], 5, "{account}");
    // Where the machine stops this server for seconds, its silence is a reason to connect again,
    // and is said; damaged pictures are none.
    let silences = said.lines().filter(|line| line.contains("no picture from")).count() as u64;
    let reconnections = account["reconnections"].as_u64().unwrap();
    assert!(reconnections <= silences, "{account}: {said}");
    // Those before the next whole one end with their connection.
    let dropped = account["dropped"].as_u64().unwrap();
    assert!(dropped + 2 * reconnections >= 8, "two of three: {account}");
}

#[test]
fn of_several_ways_to_give_a_password_one_that_is_known_is_used() {
    let address = server(|number, mut stream| {
        // The second request has a password; the head of its answer is in two lines.
        let answer: &[u8] = match number {
            0 => b"HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: Digest realm=\"c\", qop=\"auth\", nonce=\"n\"\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace;\r\n boundary=b\r\n\r\n",
        };
        let _ = stream.write_all(answer);
        while number > 0 && stream.write_all(&part(JPEG)).is_ok() {
            sleep(Duration::from_millis(15));
        }
    });
    let arguments = ["run", &address, "--name", &name("ways"), "--frames", "3", "--json"];
    let output = waited(camera(&arguments).spawn().unwrap());
    let text = String::from_utf8(output.stderr).unwrap();
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&text);
    assert_eq!(account["published"], 3, "{account}");
}

#[test]
fn a_password_is_in_no_list_of_processes() {
    let words =
        "-v error -f lavfi -i testsrc2=size=160x120:rate=25 -t 2 -c:v mpeg2video -f mpegts -";
    let made = Command::new("ffmpeg").args(words.split(' ')).output();
    let Some(stream) = made.ok().filter(|it| it.status.success()).map(|it| it.stdout) else {
        println!("skipped: ffmpeg is not installed");
        return;
    };
    let address = server(move |_, mut connection| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n\r\n";
        let all = [&head[..], &stream].concat();
        spawn(move || {
            let _ = connection.write_all(&all);
            sleep(PATIENCE);
        });
    });
    let arguments = ["run", "-", "--name", &name("list")];
    let mut child = camera(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(format!("{address}\n").as_bytes()).unwrap();
    drop(opened("list"));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        assert!(!line.contains(&address), "{line}");
    }
    interrupt(&child);
    let output = waited(child);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("video/mp2t, decoded by ffmpeg") && !text.contains("secret"), "{text}");
}

#[test]
fn answers_that_are_not_streams_end_with_their_reason() {
    for (answer, why) in [
        (&b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"[..], "refuses the user name or password"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "its answer has status 404"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", "use http://elsewhere/"),
        (b"HTTP/1.1 307 No\r\nLocation: /b?pwd=secret\r\n\r\n", "/b?pwd=…"),
        (b"HTTP/1.1 301 No\r\nLocation: https://h/\r\n\r\n", "https://h/ needs TLS"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "its answer is text/html"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n\r\n", "is one picture, image/jpeg"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "its answer is not HTTP"),
    ] {
        let address = server(move |_, mut stream| {
            let _ = stream.write_all(answer);
        });
        let output =
            waited(camera(&["run", &address, "--name", &name("answers")]).spawn().unwrap());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(why) && text.lines().count() == 1, "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn a_recording_gives_all_its_pictures() {
    let folder = tempfile::tempdir().unwrap();
    // The ninth byte of this format is a `q`, the key that ends ffmpeg.
    let file = folder.path().join("recording.mov");
    let words =
        "-v error -y -f lavfi -i testsrc2=size=160x120:rate=50 -t 3 -c:v ffv1 -pix_fmt yuv420p";
    let made = Command::new("ffmpeg").args(words.split(' ')).arg(&file).status();
    if !made.is_ok_and(|it| it.success()) {
        println!("skipped: ffmpeg is not installed");
        return;
    }
    let path = file.to_str().unwrap();
    let raw = Command::new("ffmpeg")
        .args(["-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"])
        .output()
        .unwrap()
        .stdout;
    let arguments =
        ["run", path, "--name", &name("file"), "--layout", "decoded", "--slots", "8", "--json"];
    let child = camera(&arguments).spawn().unwrap();
    let mut reader = opened("file");
    assert_eq!(reader.format().layout, PixelLayout::Yuv420);
    let mut found = Vec::new();
    while reader.check_alive().is_ok() || reader.has_new() {
        if let Some(frame) = reader.take(Want::Each) {
            found.push((frame.number, frame.pixels.to_vec()));
        }
        sleep(Duration::from_millis(1));
    }
    let output = waited(child);
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&account["published"], &account["dropped"]), (&150.into(), &0.into()), "{account}");
    let frames: Vec<&[u8]> = raw.chunks(160 * 120 * 3 / 2).collect();
    assert!(!found.is_empty(), "none read");
    for (number, pixels) in found {
        assert!(
            frames[number as usize - 1] == pixels,
            "picture {number} is that of ffmpeg, bit by bit"
        );
    }
}

#[test]
fn a_recording_whose_stamps_jump_by_an_hour_is_played_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("joined.ts");
    let mut joined = Vec::new();
    for offset in ["0", "3600"] {
        let words = "-v error -f lavfi -i testsrc2=size=64x48:rate=25 -t 1 -c:v mpeg2video";
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(words.split(' ')).args(["-output_ts_offset", offset, "-f", "mpegts", "-"]);
        let Some(part) = ffmpeg.output().ok().filter(|it| it.status.success()) else {
            println!("skipped: ffmpeg is not installed");
            return;
        };
        joined.extend(part.stdout);
    }
    std::fs::write(&file, joined).unwrap();
    let arguments = ["run", file.to_str().unwrap(), "--name", &name("joined"), "--json"];
    let output = waited(camera(&arguments).spawn().unwrap());
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The decoder may not finish the picture at the joint.
    assert!(account["published"].as_u64() >= Some(48), "{account}");
    assert_eq!(account["reconnections"], 0, "{account}");
}

#[test]
fn cameras_are_listed_with_their_sizes() {
    let child = started("test:64x48@30", "listed");
    drop(opened("listed"));
    let found = cameras().unwrap().0.into_iter().find(|it| it.name == name("listed")).unwrap();
    assert_eq!((found.format.width, found.format.height, found.is_alive), (64, 48, true));
    let output = waited(camera(&["list"]).spawn().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("listed") && text.contains("64 x 48 colour"), "{text}");
    interrupt(&child);
    assert!(waited(child).status.success());
}
