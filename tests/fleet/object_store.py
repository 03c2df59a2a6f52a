"""Runs in an object store, and what users read when it fails. The store is moto's server: a mock that speaks S3 and keeps its objects in memory.

usage: object_store.py ONBEAT_FLEET RUN RUN...    ONBEAT_FLEET: the program, built with its feature s3
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import boto3

from onbeat.fleet import Fleet, FleetError

BUCKET = "robots"
TO = f"s3://{BUCKET}/fleet"
# Writers that are killed one after the other, each of which gets a little further.
KILLS = 12
NIGHT = Path(__file__).resolve().parents[2] / "packaging/fleet/onbeat-fleet-night"
WHO = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}


class Store:
    """The server, on a port that was free."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, bucket: str | None = BUCKET) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | WHO)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                break
            except OSError:
                time.sleep(0.1)
        if bucket:
            self.client("s3").create_bucket(Bucket=bucket)

    def stop(self) -> None:
        self.server.kill()
        self.server.wait()

    def client(self, service: str):
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing")


class Refusing(BaseHTTPRequestHandler):
    """A store that knows no key: moto checks none of a URL that is signed."""

    def do_GET(self) -> None:
        body = b"<Error><Code>InvalidAccessKeyId</Code></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def add(program: str, runs: list[str], to: str = TO, **who: str) -> subprocess.CompletedProcess:
    return subprocess.run([program, "add", *runs, "--to", to], capture_output=True, text=True, env=os.environ | who, check=False)


def is_refused(done: subprocess.CompletedProcess, words: str) -> None:
    said = done.stdout + done.stderr
    assert done.returncode == 2 and len(said.splitlines()) == 1 and re.search(words, said), (done.returncode, said)
    print(f"one sentence: {said.strip()}")


def whole_runs() -> int:
    """Runs of the data set, each of which is there once, with all its cells and samples."""
    fleet = Fleet(TO)
    rows = fleet.data.rows("""SELECT r.run, COUNT(*), (SELECT COUNT(*) FROM cells c WHERE c.run = r.run), (SELECT SUM(samples) FROM cells c WHERE c.run = r.run),
      (SELECT SUM(h.samples) FROM histograms h WHERE h.run = r.run AND h.series = 'release_latency') FROM runs r GROUP BY r.run""")
    assert all(times == 1 and cells == 18 and samples == in_buckets for _, times, cells, samples, in_buckets in rows), rows
    return len(rows)


def is_as_a_directory(program: str, runs: list[str], scratch: Path) -> None:
    """The same runs in a directory have the same answers."""
    directory = str(scratch / "fleet")
    assert add(program, runs, directory).returncode == 0
    for ask in (lambda fleet: fleet.worst().rows, lambda fleet: fleet.percentiles().rows, lambda fleet: fleet.gate(100_000).sentences, lambda fleet: fleet.causes("kernel").rows):
        assert ask(Fleet(TO)) == ask(Fleet(directory))
    refused = subprocess.run([program, "pack", TO], capture_output=True, text=True, check=False)
    is_refused(refused, "only a directory can be packed")


def is_killed(program: str, runs: list[str]) -> None:
    """Two writers at once, which are killed at any point, and one to the end."""
    partly = 0
    assert add(program, runs[:1]).returncode == 0
    for kill in range(KILLS):
        writers = [subprocess.Popen([program, "add", *order, "--to", TO], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for order in (runs, runs[::-1])]
        time.sleep(0.05 + 0.1 * kill)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        partly += 1 < whole_runs() < len(runs)
    assert partly, "no writer was killed half-way"
    assert add(program, runs).returncode == 0 and whole_runs() == len(runs)
    print(f"{KILLS} times two writers killed, {partly} times with some runs there: each run there whole and once")


def is_away(store: Store, program: str, runs: list[str], scratch: Path) -> None:
    """The store goes while runs are added, and comes back while the nightly script waits for it."""
    # Where none of the runs is yet.
    writer = subprocess.Popen([program, "add", *runs, "--to", f"s3://{BUCKET}/away"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.1)
    store.stop()
    said = writer.communicate()[1].splitlines()
    assert writer.returncode == 2 and said[-1].startswith("error: ") and "were not added" in said[-1], said
    is_refused(add(program, runs[:1]), "no answer from http://127.0.0.1:[0-9]+: connection refused")

    stub = scratch / "onbeat"
    stub.write_text(f'#!/bin/sh\nshift\nexec "{program}" "$@"\n', encoding="utf-8")
    stub.chmod(0o755)
    waiting = scratch / "state/runs"
    waiting.mkdir(parents=True)
    for run in runs:
        subprocess.run(["cp", "-r", run, waiting], check=True)
    settings = {"PATH": f"{scratch}:{os.environ['PATH']}", "ONBEAT_FLEET_TO": TO, "ONBEAT_FLEET_STATE": str(scratch / "state"), "ONBEAT_FLEET_PAUSE": "1"}
    given_up = subprocess.run(["sh", NIGHT, "add"], capture_output=True, text=True, env=os.environ | settings | {"ONBEAT_FLEET_TRIES": "2"}, check=False)
    assert given_up.returncode == 1 and f"{len(runs)} runs were not added to {TO} in 2 tries; they are kept" in given_up.stderr, given_up
    night = subprocess.Popen(["sh", NIGHT, "add"], stderr=subprocess.PIPE, text=True, env=os.environ | settings)
    time.sleep(1.5)
    store.start()
    night.communicate()
    assert night.returncode == 0 and not any(waiting.iterdir()) and whole_runs() == len(runs)
    print(f"the store was away: {len(runs)} runs waited, and were added when it was back")


def is_asked_wrongly(store: Store, program: str, runs: list[str]) -> None:
    is_refused(add(program, runs, "s3://nobody/fleet"), "has no bucket nobody; create it")
    with HTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{refusing.server_port}"
        is_refused(add(program, runs[:1], AWS_ENDPOINT_URL=url), "refuses it \\(InvalidAccessKeyId\\); AWS_ACCESS_KEY_ID")
        refusing.shutdown()
    for address, words in (("s3://robots/none", "is not a data set of onbeat fleet: it has no onbeat-fleet.json"), ("s3://nobody/fleet", "cannot read s3://nobody/fleet")):
        try:
            Fleet(address)
            raise AssertionError(f"{address} is open")
        except FleetError as why:
            assert words in str(why) and "\n" not in str(why), why
            print(f"one sentence: {why}")


def main(program: str, *runs: str) -> None:
    store = Store()
    os.environ |= WHO | {"AWS_ENDPOINT_URL": store.url}
    with tempfile.TemporaryDirectory() as scratch:
        store.start()
        try:
            is_asked_wrongly(store, program, list(runs))
            is_killed(program, list(runs))
            again = add(program, list(runs))
            assert f"{len(runs)} there already" in again.stdout, again
            is_as_a_directory(program, list(runs), Path(scratch))
            is_away(store, program, list(runs), Path(scratch))
        finally:
            store.stop()
    print("an object store (moto, a mock): as a directory")


main(*sys.argv[1:])
