#!/usr/bin/env python3
"""Runs the firmware in QEMU (mps2-an385) behind its emulated card and a tap, and asks it everything it answers.

    sudo python3 firmware/test.py target/firmware/device.elf target/debug/onbeat [PACKETS | --missing]

`--missing` says what the test would lack here, and nothing if it can run.

In a network namespace without a name, which goes with this process; QEMU dies with it too. At most 32 packets are outstanding: that many
frames of this size fit the card's buffer, and a device whose CPU the host takes away for a moment must not lose more than the wire would.
Times are those of an emulator on this host: they say nothing about a board.
"""

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
import time

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


def missing(elf, onbeat):
    """Why nothing can be tested here, or None."""
    if os.geteuid() != 0:
        return "a tap needs root"
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun does not exist"
    for program, package in (("qemu-system-arm", "qemu-system-arm"), ("ip", "iproute2")):
        if not shutil.which(program):
            return f"{program} is not installed (package {package})"
    for path in (elf, onbeat):
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


def start(elf):
    """A network of its own with a tap, and the device on it; returns QEMU when the device has said that it runs."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        raise SystemExit(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    ip("link", "set", "lo", "up")
    ip("tuntap", "add", "dev", "tap0", "mode", "tap")
    ip("address", "add", f"{HERE}/24", "dev", "tap0")
    ip("link", "set", "tap0", "up")
    qemu = subprocess.Popen(
        ["qemu-system-arm", "-M", "mps2-an385", "-display", "none", "-monitor", "none", "-serial", "stdio", "-kernel", elf]
        + ["-nic", "tap,ifname=tap0,script=no,downscript=no,model=lan9118"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=ahead_and_die_with_parent,
    )
    said = qemu.stdout.readline().strip()
    assert said == f"onbeat device on mps2-an385: counter step {STEP_NS} ns", f"the device said `{said}`"
    print(said)
    return qemu


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
    cell = measured(onbeat, "chain", out, ["--via", f"udp:{DEVICE}:{PORT}", "--period", "10ms", "--count", str(count)])
    boards = cell["boards"]
    assert boards["sent"] > 0 and boards["sent"] == boards["returned"] + boards["lost"], boards
    assert boards["lost"] == boards["write_failures"] == boards["duplicates"] == 0, boards
    clock = boards["clock"]
    print(
        f"measure chain --via: {boards['sent']:,} edges, {boards['returned']:,} outputs reported, 0 lost; "
        f"the device's clock fitted {clock['fits']} times, to {clock['most_bound_ns'] / 1e3:.1f} us or better"
    )


def main():
    elf, onbeat = sys.argv[1], os.path.abspath(sys.argv[2])
    last = sys.argv[3] if len(sys.argv) > 3 else "10000"
    why = missing(elf, onbeat)
    if why:
        print(f"skipped: {why}")
    if why or last == "--missing":
        return
    packets = int(last)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    qemu = start(elf)
    try:
        with tempfile.TemporaryDirectory() as out:
            os.environ["ONBEAT_STATE_DIR"] = os.path.join(out, "state")
            echoes(packets)
            edges(packets // 10)
            refusals()
            round_trips(onbeat, out, packets)
            chain(onbeat, out, 1_000)
        assert qemu.poll() is None, "QEMU has ended"
    finally:
        qemu.kill()
        qemu.wait()
    print("firmware: all passed")


if __name__ == "__main__":
    main()
