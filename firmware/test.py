#!/usr/bin/env python3
"""Runs the firmware in QEMU (mps2-an385): behind its emulated card and a tap, and two boards in lockstep.

    make -C firmware test PACKETS=10000
    sudo python3 firmware/test.py target/firmware target/debug/onbeat [PACKETS | --missing]

`--missing` says what the test would lack here, and nothing if it can run.

In a network namespace without a name, which goes with this process; QEMU dies with it too. At most 32 packets are outstanding: that many
frames of this size fit the card's buffer, and a device whose CPU the host takes away for a moment must not lose more than the wire would.
Times are those of an emulator on this host: they say nothing about a board.
"""

import base64
import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

HERE = "192.168.7.1"
DEVICE = "192.168.7.2"
PORT = 7470
WINDOW = 32
GIVE_UP_S = 30
STEP_NS = 40
NEW_NETWORK = 0x40000000
DIE_WITH_PARENT = 1
# struct onbeat_packet, onbeat_edge_command and onbeat_edge_report of include/onbeat_net.h.
HEADER = struct.Struct("<IBBHQQQQIIH6x")
EDGE = struct.Struct("<QQI4x")
REPORT = struct.Struct("<QQIIQQ8x")
MAGIC, VERSION = 0x54424E4F, 1
ECHO, ECHOED, EDGE_COMMAND, EDGE_REPORT = 1, 2, 7, 8
# A stall of the emulator as long as this lets more packets of `measure rtt` pile up than the card holds.
STALL_NS = 60_000_000


INPUT_DELAY_S = 200e-6
PLAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/plans/two-boards.toml")


def missing(built, onbeat):
    """Why nothing can be tested here, or None."""
    if os.geteuid() != 0:
        return "a tap needs root"
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun does not exist"
    for program, package in (("qemu-system-arm", "qemu-system-arm"), ("ip", "iproute2")):
        if not shutil.which(program):
            return f"{program} is not installed (package {package})"
    for path in (f"{built}/device.elf", f"{built}/lockstep-sender/sender.elf", onbeat):
        if not os.path.exists(path):
            return f"{path} is not built"
    return None


def die_with_parent():
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def ahead_and_die_with_parent():
    """What else runs on this computer shall not stop the emulated CPU for long."""
    die_with_parent()
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
    except PermissionError:
        os.nice(-15)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def open_network():
    """A network of its own, which ends with this process, with a tap."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        raise SystemExit(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    ip("link", "set", "lo", "up")
    ip("tuntap", "add", "dev", "tap0", "mode", "tap")
    ip("address", "add", f"{HERE}/24", "dev", "tap0")
    ip("link", "set", "tap0", "up")


class Board:
    """QEMU with firmware at the tap; its UART is the input and the output of the board."""

    def __init__(self, elf):
        self.qemu = subprocess.Popen(
            ["qemu-system-arm", "-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "stdio", "-kernel", elf]
            + ["-nic", "tap,ifname=tap0,script=no,downscript=no,model=lan9118"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            preexec_fn=ahead_and_die_with_parent,
        )
        said = self.qemu.stdout.readline().decode().strip()
        assert said == f"onbeat device on mps2-an385: counter step {STEP_NS} ns", f"the board said `{said}`"
        print(said)
        self.outputs = []
        threading.Thread(target=self.read_outputs, daemon=True).start()

    def read_outputs(self):
        """Each character is an output; none may stay in the pipe, or the board waits for it."""
        while levels := self.qemu.stdout.read(4096):
            now = time.monotonic()
            self.outputs += [(now, chr(level)) for level in levels]

    def end(self):
        ended = self.qemu.poll()
        self.qemu.kill()
        self.qemu.wait()
        assert ended is None, f"QEMU has ended with {ended}"


def request(kind, sequence, body, device=0):
    return HEADER.pack(MAGIC, VERSION, kind, device, sequence, time.monotonic_ns(), 0, 0, 7, 0, HEADER.size + len(body)) + body


def exchange(sender, requests, window=WINDOW):
    """Sends requests, at most `window` outstanding; returns the answers and how long each took, in the order of arrival."""
    answers, took_ns, sent_at, sent = [], [], [], 0
    while len(answers) < len(requests):
        while sent < len(requests) and sent - len(answers) < window:
            sent_at.append(time.monotonic_ns())
            sender.send(requests[sent])
            sent += 1
        try:
            answers.append(sender.recv(2048))
        except socket.timeout:
            raise AssertionError(f"no answer for {GIVE_UP_S} s: {sent} sent, {len(answers)} answered, {sent - len(answers)} lost") from None
        took_ns.append(time.monotonic_ns() - sent_at[len(answers) - 1])
    return answers, took_ns


def connected(port=PORT):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((DEVICE, port))
    sender.settimeout(GIVE_UP_S)
    return sender


def said_of(name, took_ns):
    late = sum(ns > 10_000_000 for ns in took_ns)
    took = sorted(took_ns)
    return (
        f"{name}: {len(took):,} sent, {len(took):,} answered, 0 lost, in order, at most {WINDOW} outstanding; "
        f"{took[len(took) // 2] / 1e6:.2f} ms in the middle, {took[-1] / 1e6:.1f} ms the latest, {late:,} later than 10 ms"
    )


def echoes(packets):
    """Every answer is its request, but for its kind and two stamps; none is lost, and the order is kept."""
    sender = connected()
    bodies = [bytes((sequence + at) & 0xFF for at in range(144 if sequence % 3 else sequence % 1400)) for sequence in range(256)]
    requests = [request(ECHO, sequence, bodies[sequence % 256], device=sequence & 0xFFFF) for sequence in range(packets)]
    answers, took_ns = exchange(sender, requests)
    before = 0
    for sent, answered in zip(requests, answers):
        had, got = HEADER.unpack_from(sent), HEADER.unpack_from(answered)
        assert got[2] == ECHOED and got[:2] + got[3:6] + got[8:] == had[:2] + had[3:6] + had[8:], f"{had} was answered by {got}"
        assert answered[HEADER.size :] == sent[HEADER.size :], f"the payload of packet {had[4]} differs"
        received_ns, answered_ns = got[6:8]
        assert before <= received_ns <= answered_ns, f"packet {had[4]}: the device's clock went back"
        assert received_ns % STEP_NS == 0 and answered_ns % STEP_NS == 0, "a stamp between two steps of the counter"
        before = answered_ns
    print(said_of("echo", took_ns))


def edges(packets):
    """Every edge is reported in order, and its output was not set before the end of its delay."""
    sender = connected(PORT + 1)
    delays = [(0, 200_000, 1_000_000)[sequence % 3] for sequence in range(packets)]
    requests = [request(EDGE_COMMAND, at, EDGE.pack(1000 + at, 2000 + at, delay)) for at, delay in enumerate(delays)]
    answers, took_ns = exchange(sender, requests)
    for sequence, (delay, answered) in enumerate(zip(delays, answers)):
        got, report = HEADER.unpack_from(answered), REPORT.unpack_from(answered, HEADER.size)
        assert (got[2], got[4], got[10], len(answered)) == (EDGE_REPORT, sequence, HEADER.size + REPORT.size, HEADER.size + REPORT.size)
        assert report[:4] == (1000 + sequence, 2000 + sequence, delay, 0), f"edge {sequence} came back as {report}"
        taken_ns, written_ns = report[4:6]
        assert written_ns - taken_ns >= delay, f"edge {sequence}: written {written_ns - taken_ns} ns after it was taken, not {delay}"
    print(said_of("edges", took_ns))


def refusals():
    """What is no request of this version has no answer, and the device goes on."""
    good = request(ECHO, 1, b"x" * 20)
    odd = [good[:55], b"", good[:4] + b"\x02" + good[5:], b"\0" + good[1:], good + b"y", good[:5] + b"\x09" + good[6:], request(ECHOED, 1, b"")]
    odd += [request(EDGE_COMMAND, 1, EDGE.pack(0, 0, 100_000_001)), request(EDGE_COMMAND, 1, b"short"), request(3, 1, b"\0" * 32), b"\xff" * 1472]
    sender = connected()
    for message in odd:
        sender.send(message)
    sender.settimeout(1)
    try:
        raise AssertionError(f"an odd packet was answered: {sender.recv(2048)!r}")
    except socket.timeout:
        pass
    sender.settimeout(GIVE_UP_S)
    exchange(sender, [request(ECHO, 2, b"after")])
    # The longest packet that fits a frame; six of them fit the card.
    longest = [request(ECHO, sequence, bytes(1472 - HEADER.size)) for sequence in range(200)]
    answers, _ = exchange(sender, longest, window=6)
    assert [len(answer) for answer in answers] == [1472] * 200
    print(f"refused: {len(odd)} odd packets had no answer, the next 201 requests had one, 200 of them the longest that fit a frame")


def measured(onbeat, probe, out, options):
    command = [onbeat, "measure", probe, "--no-causes", "--json", "--out", out, *options]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    assert ran.returncode in (0, 1, 3), f"{' '.join(command)}: status {ran.returncode}\n{ran.stderr}"
    return json.loads(ran.stdout)["cells"][0]


def round_trips(onbeat, out, packets):
    """`measure rtt` counts every packet; it loses one only where the host took the emulator's CPU away."""
    cell = measured(onbeat, "rtt", out, ["--to", f"{DEVICE}:{PORT}", "--devices", "4", "--period", "10ms", "--for", f"{packets // 400 + 1}s"])
    devices = cell["packets"]["devices"]
    total = {what: sum(of[what] for of in devices) for what in ("scheduled", "answered", "late", "lost", "unsent", "reordered", "duplicates", "strays")}
    assert total["scheduled"] >= packets and len(devices) == 4, total
    assert total["scheduled"] == total["answered"] + total["late"] + total["lost"] + total["unsent"], total
    assert total["reordered"] == total["duplicates"] == total["strays"] == 0, total
    stall_ns = cell["series"]["network_time"]["max_ns"]
    assert total["lost"] == 0 or stall_ns > STALL_NS, f"{total['lost']} lost, and no packet waited longer than {stall_ns} ns"
    stalled = f", in a stall of {stall_ns / 1e6:.0f} ms" if total["lost"] else ""
    print(
        f"measure rtt: {total['scheduled']:,} packets, {total['answered']:,} answered, {total['late']:,} late, {total['lost']:,} lost{stalled}, "
        f"{total['unsent']:,} not sent, all in order"
    )


def chain(onbeat, out, count):
    """`measure chain --via`: each edge of this host becomes an output of the device."""
    cell = measured(onbeat, "chain", out, ["--via", f"udp:{DEVICE}:{PORT}", "--period", "2ms", "--count", str(count)])
    boards = cell["boards"]
    assert boards["sent"] > 0 and boards["sent"] == boards["returned"] + boards["lost"], boards
    assert boards["lost"] == boards["write_failures"] == boards["duplicates"] == 0, boards
    clock = boards["clock"]
    print(
        f"measure chain --via: {boards['sent']:,} edges, {boards['returned']:,} outputs reported, 0 lost; "
        f"the device's clock fitted {clock['fits']} times, to {clock['most_bound_ns'] / 1e3:.1f} us or better"
    )


def input_edges(board, count):
    """Each edge at the input becomes an output of its level, in order, not before the end of its delay."""
    took = []
    for first in range(0, count, 8):
        edges = [(first + at) % 2 for at in range(8)]
        board.outputs.clear()
        sent = time.monotonic()
        board.qemu.stdin.write("".join(str(1 - level) for level in edges).encode())
        while len(board.outputs) < len(edges):
            assert time.monotonic() < sent + GIVE_UP_S, f"{len(edges)} edges, {len(board.outputs)} outputs in {GIVE_UP_S} s"
            time.sleep(100e-6)
        levels = [level for _, level in board.outputs]
        assert levels == [str(1 - level) for level in edges], f"the edges {edges} became {levels}"
        took += [at - sent for at, _ in board.outputs]
    assert min(took) >= INPUT_DELAY_S, f"an output {min(took) * 1e6:.0f} us after its edge"
    print(f"input: {len(took):,} edges, {len(took):,} outputs in order, none before its delay of {INPUT_DELAY_S * 1e6:.0f} us")


def sender(onbeat, elf, out):
    """The board as the clock of the test: its requests are answered here, and its run file arrives whole."""
    serve = ["--bind", HERE, "--allow", f"{DEVICE}/32"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "preexec_fn": die_with_parent}
    device = subprocess.Popen([onbeat, "net", "device", *serve], **quiet)
    log = subprocess.Popen([onbeat, "net", "log", *serve, "--out", out], **quiet)
    time.sleep(0.5)
    board = Board(elf)
    path, until, text = os.path.join(out, "sender-00000001", "round_trip.onbeat.hlog"), time.monotonic() + GIVE_UP_S, ""
    while "1000 sent" not in text:
        assert time.monotonic() < until, f"the run file of the sender: {text!r}"
        time.sleep(0.1)
        text = open(path).read() if os.path.exists(path) else ""
    board.end()
    for server in (log, device):
        server.send_signal(signal.SIGINT)
        server.wait()
    last = [line for line in text.splitlines() if line.startswith("#[sender")][-1]
    answered = int(last.split(" answered")[0].split()[-1])
    assert answered == logged(path) > 0 and " 0 out of order" in last, last
    print(f"sender: 1,000 sent by the board's clock, {answered:,} answered, {1000 - answered:,} without answer, in order; its run file came to onbeat net log")


def logged(path):
    """The samples of an interval log, whose payload is not compressed: counts and runs of zeros, as zigzag LEB128."""
    samples = 0
    for line in open(path):
        if not line.startswith("Tag="):
            continue
        payload = zlib.decompress(base64.b64decode(line.strip().split(",")[4])[8:])
        shift = number = 0
        for byte in payload[40:]:
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                samples += 0 if number & 1 else number >> 1
                shift = number = 0
    return samples


def in_lockstep(onbeat, images, seconds, options=()):
    """A run of two boards in virtual time; its account, and the bytes that the sender logged."""
    with tempfile.TemporaryDirectory() as out:
        command = [onbeat, "net", "lab", PLAN, "--firmware", ",".join(images), "--for", f"{seconds}s", "--json", "--out", out, *options]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        assert ran.returncode == 0, ran.stderr
        path = os.path.join(out, "sender.onbeat.hlog")
        return json.loads(ran.stdout), open(path, "rb").read() if os.path.exists(path) else b"", logged(path) if os.path.exists(path) else 0


def lockstep(onbeat, built, packets):
    """Two boards and a switch: every packet is counted, and two runs are the same bytes."""
    images = [f"{built}/lockstep-sender/sender.elf", f"{built}/lockstep/device.elf"]
    runs = [in_lockstep(onbeat, images, packets / 1000 + 0.1) for _ in range(2)]
    account, log, samples = runs[0]
    every = {"sent": packets, "arrived": packets, "out_of_order": 0}
    assert account["requests"] == account["answers"] == every and account["has_whole_log"] and samples == packets, account
    assert runs[1] == runs[0], f"two runs differ: {runs[0][0]} and {runs[1][0]}"
    trip = account["round_trip"]
    print(
        f"lockstep: {packets:,} requests, {packets:,} answers, {samples:,} logged by the sender, 0 lost, in order; twice {account['sha256'][:16]} "
        f"and {len(log):,} bytes of log; {trip['min_ns'] / 1e3:.2f} to {trip['max_ns'] / 1e3:.2f} us of virtual time"
    )
    images[0] = f"{built}/lockstep-input/device.elf"
    runs = [in_lockstep(onbeat, images, packets / 10_000 + 0.12, ["--edges-every", "1ms"]) for _ in range(2)]
    account = runs[0][0]
    edges = packets // 10
    assert account["inputs"] == account["outputs"] == account["edge_reports"]["arrived"] == account["edge_commands"]["arrived"] == edges, account
    assert runs[1] == runs[0], f"two runs differ: {runs[0][0]} and {runs[1][0]}"
    took = account["reaction"]
    print(
        f"lockstep, edges: {edges:,} at the first board, {edges:,} outputs at the second, twice {account['sha256'][:16]}; "
        f"{took['min_ns'] / 1e3:.2f} to {took['max_ns'] / 1e3:.2f} us with two delays of 200 us"
    )


def main():
    built, onbeat = sys.argv[1], os.path.abspath(sys.argv[2])
    last = sys.argv[3] if len(sys.argv) > 3 else "10000"
    why = missing(built, onbeat)
    if why:
        print(f"skipped: {why}")
    if why or last == "--missing":
        return
    packets = int(last)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    open_network()
    with tempfile.TemporaryDirectory() as out:
        os.environ["ONBEAT_STATE_DIR"] = os.path.join(out, "state")
        board = Board(f"{built}/device.elf")
        input_edges(board, 1_000)
        echoes(packets)
        edges(packets // 10)
        refusals()
        round_trips(onbeat, out, packets)
        chain(onbeat, out, packets)
        board.end()
        sender(onbeat, f"{built}/sender/sender.elf", os.path.join(out, "logged"))
        lockstep(onbeat, built, packets)
    print("firmware: all passed")


if __name__ == "__main__":
    main()
