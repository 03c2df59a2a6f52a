//! Logs open in programs that know nothing of onbeat, the Python packages `mcap` and `mcap_ros2`,
//! and in `onbeat.load` of Python and Octave; logs that those packages write open in `onbeat.load`.
#![allow(clippy::unwrap_used)]

use crate::equipment;
use crate::random_messages;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use equipment::{Octave, Python, done, onbeat, root, trial};
use libtest_mimic::Trial;
use onbeat_control::{Channel, RecordType, RingSettings, RingWriter};
use onbeat_gateway::{Compression, LogWriter, check_log};
use serde_json::{Value, json};

/// A message whose type has a number and an array.
const POINT: (&str, &str) = ("demo_msgs/msg/Point", "uint64 n\nfloat64[15] values\n");
/// Memory for a record or a chunk, in bytes.
const MOST_MEMORY: u64 = 1 << 28;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "logs_open_elsewhere::mcap_ros2_decodes_random_messages_and_encodes_the_same_bytes",
            Python::equip,
            peers_agree,
        ),
        trial(
            "logs_open_elsewhere::logs_of_others_open_whatever_their_compression",
            Python::equip,
            logs_of_others_open,
        ),
        trial(
            "logs_open_elsewhere::logs_of_every_kind_have_every_record",
            Python::equip,
            every_kind,
        ),
        trial(
            "logs_open_elsewhere::octave_finds_the_values_of_every_kind",
            python_and_octave,
            octave_agrees_on_every_kind,
        ),
        trial(
            "logs_open_elsewhere::the_logs_that_people_have_open_in_every_reader",
            python_and_octave,
            logs_of_people_open,
        ),
        trial(
            "logs_open_elsewhere::octave_finds_the_values_that_python_finds",
            python_and_octave,
            octave_agrees,
        ),
        trial(
            "logs_open_elsewhere::octave_counts_the_damage_of_a_bag_of_ros_1",
            octave_and_onbeat,
            octave_counts_damage,
        ),
        trial(
            "logs_open_elsewhere::a_recording_has_every_record_and_counts_every_loss",
            Python::equip,
            losses_are_counted,
        ),
        trial(
            "logs_open_elsewhere::a_killed_recorder_leaves_a_log_that_opens",
            Python::equip,
            killed_recorder,
        ),
        trial(
            "logs_open_elsewhere::a_gateway_whose_starter_was_killed_ends_its_log",
            Python::equip,
            killed_starter,
        ),
        trial(
            "logs_open_elsewhere::every_cycle_of_a_robot_is_in_its_log",
            python_and_onbeat,
            cycles_are_logged,
        ),
        trial(
            "logs_open_elsewhere::an_order_that_cannot_be_carried_out_leaves_no_file",
            || Ok(()),
            refused_orders,
        ),
    ];
    Vec::from(tests)
}

fn python_and_octave() -> Result<(Python, Octave), String> {
    // Zstd in Java is in a jar.
    equipment::jars()?;
    Ok((Python::equip()?, Octave::equip()?))
}

fn octave_and_onbeat() -> Result<(Octave, PathBuf), String> {
    Ok((Octave::equip()?, onbeat()?))
}

fn python_and_onbeat() -> Result<(Python, PathBuf), String> {
    Ok((Python::equip()?, onbeat()?))
}

fn answer_of(command: &mut Command) -> Value {
    serde_json::from_slice(&done(command).stdout).unwrap()
}

fn loaded(python: &Python, log: &Path) -> Value {
    answer_of(python.script("logs.py").arg("load").arg(log))
}

fn peers_agree(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    let types = random_messages::types();
    let path = folder.path().join("random.mcap");
    let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
    let mut wanted = Vec::new();
    let mut counts = serde_json::Map::new();
    for name in types.names() {
        let text = types.text(name).unwrap();
        let channel = log.add_channel(&format!("random/{name}"), name, &text, &[]).unwrap();
        for (n, message) in
            random_messages::encoded(&types, name, random_messages::count()).iter().enumerate()
        {
            log.write(channel, n as u64, n as u64, message).unwrap();
            wanted.extend((message.len() as u32).to_le_bytes());
            wanted.extend(message);
        }
        counts.insert(name.to_owned(), json!(random_messages::count()));
    }
    log.finish().unwrap();

    let bytes = folder.path().join("random.bin");
    std::fs::write(&bytes, wanted).unwrap();
    let found = answer_of(python.script("logs.py").arg("same").arg(&path).arg(&bytes));
    assert_eq!(found, Value::Object(counts));
}

fn logs_of_others_open(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    for how in ["none", "lz4", "zstd", "unchunked"] {
        let path = folder.path().join(how);
        done(python.script("logs.py").arg("write").arg(&path).arg(how));
        let rows = answer_of(python.script("logs.py").arg("agree").arg(&path));
        assert_eq!(rows, json!({ "/left": 1000, "/right": 1000 }), "{how}");
    }
}

/// A ring of a test, and messages for it.
struct Points {
    writer: RingWriter,
    channel: String,
    published: u64,
}

impl Points {
    fn new(topic: &str, records: usize) -> Self {
        let name = format!("interop-{}", std::process::id());
        let record_type =
            RecordType { name: POINT.0.to_owned(), hash: [7; 32], schema: POINT.1.to_owned() };
        let description = r#"{"joints": []}"#.to_owned();
        let settings = RingSettings { records, record_bytes: 132, record_type, description };
        let channel = Channel::new(&name, topic).unwrap();
        let writer = RingWriter::create(&channel, &settings).unwrap();
        Self { writer, channel: channel.to_string(), published: 0 }
    }

    fn publish(&mut self, count: u64) {
        for _ in 0..count {
            self.published += 1;
            self.writer.publish(1_000_000 * self.published, &point(self.published));
        }
    }
}

fn point(n: u64) -> Vec<u8> {
    let values = (0..15).flat_map(|place| (n as f64 + f64::from(place)).to_le_bytes());
    [0, 1, 0, 0].into_iter().chain(n.to_le_bytes()).chain(values).collect()
}

/// The gateway, recording.
struct Gateway {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Gateway {
    fn record(order: &Value) -> (Self, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat-gateway"));
        command.args(["record", &order.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut own = Self { child, answers };
        let first = own.answer();
        (own, first)
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn signal(&self, signal: &str) {
        done(Command::new("kill").args([signal, &self.child.id().to_string()]));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The recorder is stopped while the ring is overwritten, so that a loss is certain.
fn losses_are_counted(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.mcap");
    let mut points = Points::new("points", 1024);
    points.publish(100);
    let order = json!({ "channels": [points.channel], "out": path, "from": "oldest" });
    let (mut gateway, first) = Gateway::record(&order);
    assert_eq!(first, json!({ "recording": path }));

    gateway.signal("-STOP");
    points.publish(5000);
    gateway.signal("-CONT");
    let channel = points.channel.clone();
    let published = points.published;
    drop(points);
    let account = gateway.answer();
    let found = loaded(python, &path);

    let own = &account["channels"][0];
    let received = own["received"].as_u64().unwrap();
    let lost = own["lost"].as_u64().unwrap();
    assert_eq!(received + lost, published, "{account}");
    assert!(lost >= 5000 - 1024, "{account}");
    assert_eq!(account["bytes"], std::fs::metadata(&path).unwrap().len());
    let of = &found["channels"][&channel];
    assert_eq!(of["rows"], received);
    // What is missing before the first record of the file is lost too.
    let before = of["first"].as_u64().unwrap() - 1;
    assert_eq!(of["missing"].as_u64().unwrap() + before, lost, "{found}");
    assert_eq!(found["account"][&channel]["lost"], lost);
    let of_gaps = |gap: &Value| gap["lost"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(found["gaps"].as_array().unwrap().iter().map(of_gaps).sum::<u64>(), lost);
    assert_eq!(found["complete"], true);
}

fn killed_recorder(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.mcap");
    let mut points = Points::new("killed", 1024);
    points.publish(500);
    let order = json!({ "channels": [points.channel], "out": path, "from": "oldest" });
    let (gateway, _) = Gateway::record(&order);

    // It hands its chunk to the kernel every second; a part of one may be there before the rest.
    let began = Instant::now();
    while check_log(&std::fs::read(&path).unwrap(), MOST_MEMORY).messages < points.published {
        assert!(began.elapsed() < Duration::from_secs(60), "the records were not written");
        std::thread::sleep(Duration::from_millis(20));
    }
    gateway.signal("-KILL");
    drop(gateway);

    let found = loaded(python, &path);
    let of = &found["channels"][&points.channel];
    assert_eq!((&of["rows"], &of["missing"]), (&json!(500), &json!(0)));
    assert_eq!(found["complete"], false);
}

/// The ring lives on; without the starter, nobody would end the recording.
fn killed_starter(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orphan.mcap");
    let mut points = Points::new("orphan", 1024);
    points.publish(300);
    let order = json!({ "channels": [points.channel], "out": path, "from": "oldest" });
    let mut starter = Command::new("sh");
    starter.args(["-c", "\"$0\" record \"$1\" & wait", env!("CARGO_BIN_EXE_onbeat-gateway")]);
    let mut starter = starter.arg(order.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(starter.stdout.take().unwrap());
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    starter.kill().unwrap();
    starter.wait().unwrap();

    // Its account is the last thing it writes.
    line.clear();
    answers.read_line(&mut line).unwrap();
    let account: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(account["channels"][0]["received"], 300);
    let found = loaded(python, &path);
    assert_eq!(
        (&found["complete"], &found["channels"][&points.channel]["rows"]),
        (&json!(true), &json!(300))
    );
}

/// Random messages of all types of ROS 2 and ROS 1, by the official writers: MCAP, bags, LCM; whole, and with changed bytes.
///
/// The same in every run; with `ONBEAT_LONG=1` they are others each time.
fn every_kind(python: &Python) {
    let folder = tempfile::tempdir().unwrap();
    let is_long = std::env::var_os("ONBEAT_LONG").is_some();
    let seed = if is_long { fastrand::u64(..1 << 32) } else { 11 };
    let mut script = python.script("log_kinds.py");
    script.args([&seed.to_string(), "20"]).arg(folder.path());
    let found = answer_of(script.arg(env!("CARGO_BIN_EXE_onbeat-gateway")));
    for kind in ["mcap", "bag2", "bag1", "lcm"] {
        assert_eq!(found[kind], json!(20), "{found}");
    }
    assert!(found["types"].as_u64() > Some(150) && found["refused"].as_u64() > Some(0), "{found}");
}

/// Lists of any lengths and depths, texts, numbers: as many in Octave as in Python, with the same sums.
fn octave_agrees_on_every_kind((python, octave): &(Python, Octave)) {
    let folder = tempfile::tempdir().unwrap();
    let mut script = python.script("log_kinds.py");
    script.args(["11", "12"]).arg(folder.path()).arg(env!("CARGO_BIN_EXE_onbeat-gateway"));
    done(&mut script);
    let by_python = done(python.script("log_sums.py").arg(folder.path()).arg("12")).stdout;
    let script = root().join("tests/interop");
    let by_octave = octave.eval(&format!(
        "addpath ('{}'); log_sums ('{}', 12);",
        script.display(),
        folder.path().display()
    ));
    let by_python = String::from_utf8(by_python).unwrap();
    let mut compared = 0;
    for (ours, theirs) in by_octave.split("== ").zip(by_python.split("== ")) {
        assert_eq!(ours, theirs);
        compared += ours.lines().count();
    }
    assert!(compared > 300, "{compared} fields");
}

/// A kind of log each: other encodings, lists that grow, two writers of a topic, a changed byte, bags of every format.
fn logs_of_people_open((python, octave): &(Python, Octave)) {
    let folder = tempfile::tempdir().unwrap();
    let mut script = python.script("log_cases.py");
    script.arg(folder.path()).arg(env!("CARGO_BIN_EXE_onbeat-gateway"));
    let wanted = answer_of(&mut script);
    let logs = wanted.as_object().unwrap();
    let names: Vec<String> = logs.keys().map(|name| format!("'{name}'")).collect();
    let found = octave.eval(&format!(
        "warning ('off', 'onbeat:log:account');
         for name = {{{}}}
           log = onbeat.load (['{folder}/' name{{1}}], 'damaged', 'skip');
           for field = fieldnames (log).'
             printf ('%s %s %d\\n', name{{1}}, log.(field{{1}}).onbeat_channel, numel (log.(field{{1}}).number));
           end
         end
         log = onbeat.load ('{folder}/humble.db3', 'types', '{folder}/types');
         printf ('types %g\\n', sum (log.f.data));
         log = onbeat.load ('{folder}/wide_4.mcap');
         printf ('%s\\n', log.other.data{{1}});
         log = onbeat.load ('{folder}/tf.mcap');
         printf ('%d', cellfun (@numel, log.tf.transforms_child_frame_id));
         log = onbeat.load ('{folder}/service.mcap');
         printf (' %d', sum (log.other.info_sequence_number));
         try, onbeat.load ('{folder}/damaged.mcap'); catch why, printf (' %s', why.identifier); end
         try, onbeat.load ('{folder}/short.db3'); catch why, printf (' %s', why.identifier); end
         log = onbeat.load ('{folder}/versions.mcap');
         printf (' %g %g', sum (log.f.data), sum (log.f__2_.data));",
        names.join(", "),
        folder = folder.path().display(),
    ));
    let (lines, last) = found.split_at(found.find("types ").unwrap());
    let mut found: Vec<&str> = lines.lines().collect();
    let mut counts: Vec<String> = Vec::new();
    for (name, of) in logs {
        let of = of.as_object().unwrap();
        counts.extend(of.iter().map(|(topic, count)| format!("{name} {topic} {count}")));
    }
    found.sort_unstable();
    counts.sort_unstable();
    assert_eq!(found, counts);
    assert_eq!(last, "types 217.5\nhä🤖\n131313 50 onbeat:log onbeat:log 45 50");
}

fn part(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// A record of a bag of ROS 1.
fn bag_record(head: &[&[u8]], content: &[u8]) -> Vec<u8> {
    let head: Vec<u8> = head.iter().flat_map(|it| part(it)).collect();
    [part(&head), part(content)].concat()
}

/// The program `onbeat` makes an MCAP file of it, and says what is damaged; the name is none that a shell leaves alone.
fn octave_counts_damage((octave, onbeat): &(Octave, PathBuf)) {
    let message = |second: u8| {
        let time = [&b"time="[..], &[second, 0, 0, 0, 0, 0, 0, 0]].concat();
        let head: [&[u8]; 3] = [b"op=\x02", b"conn=\0\0\0\0", &time];
        bag_record(&head, &f64::from(second).to_le_bytes())
    };
    let about = [part(b"type=std_msgs/Float64"), part(b"message_definition=float64 data\n")];
    let damaged = bag_record(
        &[b"op=\x05", b"compression=bz2", b"size=\x09\0\0\0"],
        b"BZh9 and nothing of it",
    );
    let bag = [
        b"#ROSBAG V2.0\n".to_vec(),
        bag_record(&[b"op=\x07", b"conn=\0\0\0\0", b"topic=/f"], &about.concat()),
        message(1),
        damaged,
        message(2),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's $one.bag");
    std::fs::write(&path, bag.concat()).unwrap();
    let found = octave.eval(&format!(
        "setenv ('PATH', ['{}:' getenv('PATH')]);
         warning ('off', 'onbeat:log:account');
         file = '{}';
         try, onbeat.load (file); catch why, printf ('%s\\n', why.identifier); end
         [log, account] = onbeat.load (file, 'damaged', 'skip');
         printf ('%d %d %s', log.f.data, account.what);",
        onbeat.parent().unwrap().display(),
        path.display().to_string().replace('\'', "''"),
    ));
    assert_eq!(found, "onbeat:log\n1 2 damaged");
}

fn octave_agrees((python, octave): &(Python, Octave)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.mcap");
    let mut log = LogWriter::create(&path, Compression::Lz4).unwrap();
    let channel = log.add_channel("demo/points", POINT.0, POINT.1, &[]).unwrap();
    for n in 1..=20_000 {
        log.write(channel, n, n * 1_000_000, &point(n)).unwrap();
    }
    log.finish().unwrap();

    let mat = folder.path().join("points.mat");
    let script = format!(
        "log = onbeat.load ('{}'); p = log.demo_points; save ('-v7', '{}', '-struct', 'log');
         printf ('%d %d %.17g %.17g %d\\n', rows (p.values), columns (p.values), sum (p.n), sum (p.values(:)), p.number(end));
         printf ('%.17g\\n', p.at(end));
         try, onbeat.load ('/dev/null'); catch why, disp (why.identifier); end",
        path.display(),
        mat.display()
    );
    let printed = octave.eval(&script);
    let python_found = loaded(python, &path);
    let sums = &python_found["channels"]["demo/points"]["sums"];
    let sum = |name: &str| sums[name].as_f64().unwrap();
    let lines = [
        format!("20000 15 {} {} 20000", sum("n"), sum("values")),
        "20".to_owned(),
        "onbeat:log".to_owned(),
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), lines);
    // The MAT file is one that others read.
    let columns = answer_of(python.script("logs.py").arg("mat").arg(&mat).arg(&path));
    assert_eq!(columns, json!([20_000, 15]));
}

/// Whatever the robot does on a loaded machine, its log has what its ring had.
fn cycles_are_logged((python, onbeat): &(Python, PathBuf)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.mcap");
    let name = format!("interop-robot-{}", std::process::id());
    let mut command = Command::new(onbeat);
    command.args(["robot", "run", "humanoid", "--trajectory", "gait", "--name", &name]);
    command.args(["--for", "2s", "--priority", "0", "--no-causes", "--log"]).arg(&path);
    command.arg("--out").arg(folder.path()).env("ONBEAT_STATE_DIR", folder.path());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(&format!("of {name}/cycle, 0 lost")), "{errors}");

    let found = loaded(python, &path);
    let of = &found["channels"][&format!("{name}/cycle")];
    assert_eq!((&of["first"], &of["missing"]), (&json!(1), &json!(0)));
    assert_eq!(of["rows"], of["last"]);
    let rows = answer_of(python.script("logs.py").arg("agree").arg(&path));
    assert_eq!(rows[&format!("{name}/cycle")], of["rows"]);

    // A log is never overwritten.
    let again = command.output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists; name another file"));
}

fn refused_orders((): &()) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.mcap");
    for (order, why) in [
        (
            json!({ "channels": [], "out": path }),
            "no channel given; give at least one, as NAME/TOPIC",
        ),
        (json!({ "channels": ["no/such"], "out": path }), "channel no/such does not exist"),
        (json!({ "channels": ["no"], "out": path }), "no"),
        (json!({ "chanels": [] }), "the order is not valid"),
    ] {
        let (mut gateway, answer) = Gateway::record(&order);
        let said = answer["error"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
        assert_eq!(gateway.child.wait().unwrap().code(), Some(2));
        assert!(!path.exists());
    }
    std::fs::File::create(&path).unwrap().write_all(b"mine").unwrap();
    let points = Points::new("refused", 2);
    let (_gateway, answer) = Gateway::record(&json!({ "channels": [points.channel], "out": path }));
    assert!(answer["error"].as_str().unwrap().contains("exists"), "{answer}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}
