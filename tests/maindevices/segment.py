"""Runs simulated devices for a MainDevice, on a pair of interfaces."""

import contextlib
import json
import os
import signal
import subprocess
import sys

INTERFACE, FAR_END = "ecat0", "ecat0b"


def result_alone():
    """Reserves standard output for the result, a line of JSON; returns the function that writes it.

    Output of C libraries goes to standard error. Their buffers are flushed at any time until the process ends: on a shared stream, in the
    middle of the result or after it.
    """
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(result):
        print(json.dumps(result), file=stream, flush=True)

    return write


@contextlib.contextmanager
def running(onbeat, file):
    """Runs a segment; yields a function that ends it and returns its output."""
    command = [onbeat, "segment", "run", file, "--veth", INTERFACE]
    segment = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end():
        segment.send_signal(signal.SIGINT)
        return segment.communicate(timeout=60)[0].strip()

    try:
        for line in segment.stderr:
            if "answer on" in line:
                break
            print(line, end="", file=sys.stderr)
        else:
            sys.exit("the segment does not start")
        yield end
    finally:
        if segment.poll() is None:
            end()
