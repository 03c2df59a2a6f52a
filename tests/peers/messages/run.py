"""Messages into Octave, Java and Python, and what they cost the loop that writes them: a line of JSON for each finding.

    run.py FLOOD GATEWAY [--quick]     the example ring_flood of onbeat-control, and the program onbeat-gateway

`make peers ARGS=messages` runs it and prints the table. Nothing is asserted about times; an account that does not add up ends it
with status 1.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
FLOOD, GATEWAY = sys.argv[1:3]
QUICK = "--quick" in sys.argv
VENV = ROOT / "target/interop-venv/bin/python"
PYTHON = str(VENV) if VENV.exists() else sys.executable
CHANNEL = f"flood-{os.getpid()}/state"
CLASSES = tempfile.TemporaryDirectory()
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "python/src")}


def finding(what, measured, goal="", reached=None):
    print(json.dumps({"what": what, "measured": measured, "goal": goal, "reached": reached}), flush=True)


def started(command, **options):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, **options)


def line(process):
    text = process.stdout.readline().strip()
    if not text:
        sys.exit(f"{process.args[0]} ended without an answer")
    return text


@contextmanager
def flood(rate, seconds, step_us=1000, real_time=False):
    """The writer, which begins at `go(writer)`."""
    first = ["chrt", "-f", "80"] if real_time and os.geteuid() == 0 else []
    writer = started([*first, FLOOD, CHANNEL, str(rate), str(seconds), str(step_us)])
    assert line(writer) == "ready"
    try:
        yield writer
    finally:
        writer.communicate()


def go(writer):
    writer.stdin.write("go\n")
    writer.stdin.flush()


def compiled():
    sources = sorted((ROOT / "java/src/main/java/onbeat").glob("*.java")) + [HERE / "Age.java"]
    subprocess.run(["javac", "-Xlint:none", "-d", CLASSES.name, *sources], check=True)
    java = Path(subprocess.run(["sh", "-c", 'readlink -f "$(command -v java)"'], stdout=subprocess.PIPE, text=True).stdout.strip())
    ENVIRONMENT["JAVA_HOME"] = str(java.parents[1])


def octave(body):
    script = f"""
    warning ('off', 'all'); javaaddpath ('{CLASSES.name}'); addpath ('{ROOT}/octave');
    cycles = onbeat.open ('{CHANNEL}');
    {body}
    """
    return started(["octave", "--quiet", "--no-window-system", "--eval", script])


DRAIN = """
    onbeat.drain (cycles, {{'n'}}, 0);
    printf ("ready\\n"); fflush (stdout);
    received = 0; newest = 0; first = 0;
    while newest < {last}
      v = onbeat.drain (cycles, {{'n', 'joints'}}, 250);
      if ~isempty (v)
        if first == 0; first = v(1, 1); t = tic; end
        received += rows (v); newest = v(end, 1);
      end
    end
    printf ('{{"received": %d, "lost": %d, "first": %d, "newest": %d, "took_s": %.3f}}\\n', received, cycles.lost (), first, newest, toc (t));
    fflush (stdout);
"""

ONE_BY_ONE = """
    rows = onbeat.rows (cycles, {{'n', 'joints'}});
    printf ("ready\\n"); fflush (stdout);
    onbeat.await (cycles, 5000);
    received = 0; newest = 0; t = tic;
    while newest < {last}
      row = rows.next (int32 (0));
      if ~isempty (row); newest = row(1); received += 1; end
    end
    printf ('{{"received": %d, "lost": %d, "first": 1, "newest": %d, "took_s": %.3f}}\\n', received, cycles.lost (), newest, toc (t));
    fflush (stdout);
"""


def flooded(rate, seconds, reader_of):
    """Runs a reader beside the writer; returns both accounts, which must add up."""
    with flood(rate, seconds) as writer:
        reader = reader_of(rate * seconds)
        assert line(reader) == "ready"
        go(writer)
        read = json.loads(line(reader))
        wrote = json.loads(line(writer))
        reader.communicate()
    if read["received"] + read["lost"] != read["newest"] or read["newest"] != wrote["published"]:
        sys.exit(f"the accounts differ: {read} {wrote}")
    return read, wrote


def throughput():
    seconds = 5 if QUICK else 60
    read, _ = flooded(200_000, seconds, lambda last: octave(DRAIN.format(last=last)))
    finding(
        f"Octave, 200,000/s of 128 bytes offered for {seconds} s, drained",
        f"{read['received']:,} received, {read['lost']:,} lost",
        "0 lost",
        read["lost"] == 0,
    )
    seconds = 3 if QUICK else 10
    read, wrote = flooded(1_000_000, seconds, lambda last: octave(DRAIN.format(last=last)))
    rate = wrote["published"] / (wrote["took_ns"] / 1e9)
    finding(
        f"Octave, 1,000,000/s offered ({rate:,.0f}/s published), drained",
        f"{read['received']:,} received, {read['lost']:,} lost: all {wrote['published']:,}",
        "sum exact",
        True,
    )
    read, _ = flooded(100_000, seconds, lambda last: octave(ONE_BY_ONE.format(last=last)))
    each = read["received"] / read["took_s"]
    finding("Octave, rows.next one by one", f"{each:,.0f}/s", "≥ 30,000/s", each >= 30_000)

    python = lambda last: started([PYTHON, str(HERE / "read.py"), CHANNEL, str(last)])  # noqa: E731
    read, _ = flooded(1_000_000, seconds, python)
    each = read["received"] / read["took_s"]
    finding("Python, 1,000,000/s offered, in batches", f"{each:,.0f}/s, {read['lost']:,} lost", "≥ 1,000,000/s", each >= 999_000)


def ages():
    count = 3_000 if QUICK else 20_000
    with flood(1_000, count // 1_000) as writer:
        reader = started(["java", "-cp", CLASSES.name, "Age", CHANNEL, str(count)])
        assert line(reader) == "ready"
        go(writer)
        whole, behind, lost = json.loads(line(reader))
        reader.communicate()
    times = lambda pair: f"p50 {pair[0] / 1e3:.1f} µs, p99 {pair[1] / 1e3:.1f} µs"  # noqa: E731
    finding(f"age at read, Java, 1 kHz, {count:,} messages, {lost} lost", times(whole))
    reached = behind[0] <= 50_000 and behind[1] <= 300_000
    finding("of it behind the reader's wake-up", times(behind), "≤ 50 µs, ≤ 300 µs", reached)


def readers():
    """The loop with and without readers, in turns."""
    turns, seconds = (3, 2) if QUICK else (8, 4)
    found = {0: [], 8: []}
    for turn in range(2 * turns):
        count = (0, 8)[turn % 2]
        with flood(1_000, seconds, real_time=True) as writer:
            beside = [started([PYTHON, str(HERE / "read.py"), CHANNEL, str(seconds * 1000)]) for _ in range(count)]
            assert all(line(reader) == "ready" for reader in beside)
            go(writer)
            found[count].append(json.loads(line(writer)))
            for reader in beside:
                line(reader)
                reader.communicate()
    for key, what in (("wakeup_ns", "wake-up latency"), ("publish_ns", "publishing")):
        pairs = [(a[key][2], b[key][2]) for a, b in zip(found[0], found[8])]
        low, high = interval([b - a for a, b in pairs])
        without, with_ = (statistics.median(side) / 1e3 for side in zip(*pairs))
        finding(
            f"{what} of the writer, p99.9, {turns} turns with 0 and with 8 readers",
            f"{without:.2f} µs, {with_:.2f} µs; difference {low / 1e3:+.2f}..{high / 1e3:+.2f} µs",
            "0 within" if key == "wakeup_ns" else "≤ 1 µs",
            low <= 0 <= high if key == "wakeup_ns" else with_ <= 1.0,
        )


def interval(differences):
    """95 % of the median, by resampling turns."""
    random_ = random.Random(1)
    medians = sorted(statistics.median(random_.choices(differences, k=len(differences))) for _ in range(2_000))
    return medians[50], medians[1949]


def lcm():
    seconds, url = 3 if QUICK else 20, "udpm://239.255.76.67:7667?ttl=0"
    channel = {"remote": "FLOOD", "channel": f"flood-{os.getpid()}/lcm", "type_name": "", "schema": "", "hash": "", "most_bytes": 1024}
    order = json.dumps({"from": url, "channels": [channel]})
    script = f"""ip link set lo up multicast on && ip route add 224.0.0.0/4 dev lo
        '{GATEWAY}' receive '{order}' & gateway=$!
        sleep 1; '{PYTHON}' '{HERE}/send_lcm.py' '{url}' FLOOD 20000 {seconds}; kill -TERM $gateway; wait"""
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    if done.returncode != 0:
        finding("LCM from Python, 20,000/s", "not measured: needs root, unshare, ip and the package lcm")
        return
    _, sent, account = done.stdout.strip().splitlines()
    sent, account = int(sent.split()[0]), json.loads(account)
    if account["received"] + account["lost"] != sent:
        sys.exit(f"the accounts differ: {sent} sent, {account}")
    rate = sent / seconds
    finding(
        f"LCM from Python, 256 bytes, {rate:,.0f}/s for {seconds} s",
        f"{account['received']:,} received, {account['lost']:,} lost: all {sent:,}",
        "sum exact",
        True,
    )


compiled()
throughput()
ages()
readers()
lcm()
