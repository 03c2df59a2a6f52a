"""The test binaries of the workspace, and which of them may run at the same time.

Binaries whose time is virtual (PURE) run at the lowest priority, as many at once as there are CPUs, beside all others. Of these, one at a
time, those run first that load the machine, change it or measure it, that kill an onbeat, or that read all that one prints: the next onbeat to
start removes what a killed one has left, and says so. Then those that mostly wait (WAITING), two at a time.
"""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Longer than any binary takes beside stress-ng: a run that reaches it hangs.
LIMIT_S = 1200
# Most tests wait.
TEST_THREADS = "4"
# Binaries that read no clock and no setting of the machine, and share nothing but a temporary directory of their own. A name that
# no binary has is an error, here and below.
PURE = {
    "onbeat": "pure resume",
    "onbeat-ethercat": "onbeat_ethercat layout_spec",
    "onbeat-rt": "pure",
    "onbeat-segment": """sim_commands sim_determinism sim_devices sim_esi sim_faults sim_mailbox sim_registers
        sim_states sim_two_hundred""",
    "onbeat-tune": "catalogue explain lint tune_apply tune_apply_shield tune_shield",
    "onbeat-watch": "sequences",
}
# Binaries that mostly wait, for runs with a state directory of their own where they need one, without a shield and without figures that
# other work could spoil.
WAITING = {
    "onbeat": "net_boards net_log net_packet_elsewhere net_rtt_faults",
    "onbeat-c": "c_library",
    "onbeat-cli": """bus_alarms_live bus_queries completion exports_open_elsewhere help limits maindevices_reach_op output_is_not_lost
        robot_esi run_files_open_in_java run_findings spikes_open_in_perfetto tables tune_machines vm_commands""",
    "onbeat-gateway": """java_allocates_nothing jeromq_speaks_with_pyzmq lcm_types_match logs_open_elsewhere logs_play messages_arrive""",
    "onbeat-message": "messages_match",
    # ethercrab's time-outs of a bring-up are of real time, so that none of these may give way for a second.
    "onbeat-robot": """bus_bring_up bus_chain bus_faults bus_interface bus_places bus_rate_limits bus_setup bus_spec bus_tampering_search
        live_view robot_bus robot_goals robot_ladder robot_limits robot_memory robot_moves robot_resume robot_session robot_view""",
    "onbeat-segment": "sim_ethercrab",
}
# Of these, binaries that prepare one folder below target/, with packages of Python: one after the other.
ONE_FOLDER = [{"onbeat-gateway": WAITING["onbeat-gateway"]}]


class TestBinary:
    """A test binary: its name ("PACKAGE TARGET"), the directory of its package, its executable."""

    def __init__(self, name, package, executable):
        self.name = name
        self.package = package
        self.executable = executable

    def is_of(self, group):
        package, _, target = self.name.partition(" ")
        return target in group.get(package, "").split()

    def run(self, gives_way=True):
        """Exit status and output of one run, started as `cargo test` starts it, with the output of tests that pass: a skipped one has
        printed its reason there. A pure binary gives way to the others, unless it
        must not: beside stress-ng it would not end."""
        environment = dict(os.environ, CARGO_MANIFEST_DIR=self.package, RUST_TEST_THREADS=TEST_THREADS)
        run = start([self.executable, "--show-output"], self.package, environment, lowest=gives_way and self.is_of(PURE))
        try:
            output, _ = run.communicate(timeout=LIMIT_S)
            return run.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            output, _ = run.communicate()
            return None, f"{output}\nno end after {LIMIT_S} s\n"


def start(command, directory, environment=None, lowest=False):
    """Starts a command in a session of its own, out of reach of the terminal's Ctrl-C, with its output in a pipe."""
    words = ["sh", str(REPOSITORY / "scripts/give-way.sh")] if lowest else []
    return subprocess.Popen(
        words + command,
        cwd=directory,
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def built():
    """All test binaries, from cargo's own messages. Raises ValueError for a name above that no binary has."""
    command = ["cargo", "test", "--locked", "--workspace", "--no-run", "--message-format=json"]
    output = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        package = str(Path(message["manifest_path"]).parent)
        name = f"{Path(package).name} {message['target']['name']}" + (" (bin)" if "bin" in message["target"]["kind"] else "")
        found.append(TestBinary(name, package, message["executable"]))

    require_names(found)
    return found


def require_names(tests):
    """Raises ValueError for a name of a lane that no binary has."""
    names = {test.name for test in tests}
    listed = {f"{package} {target}" for group in (PURE, WAITING) for package, targets in group.items() for target in targets.split()}
    if absent := sorted(listed - names):
        raise ValueError(f"PURE or WAITING names what is not a test binary: {', '.join(absent)}")


def in_lanes(tests, take):
    """Calls `take` with each binary; ends when all calls have returned, and raises what one of them raised."""
    pure = [test for test in tests if test.is_of(PURE)]
    waiting = [test for test in tests if test.is_of(WAITING)]
    alone = [test for test in tests if test not in pure and test not in waiting]
    shared = [[test for test in waiting if test.is_of(group)] for group in ONE_FOLDER]
    queues = shared + [[test] for test in waiting if not any(test in queue for queue in shared)]

    def take_all(queue):
        for test in queue:
            take(test)

    with ThreadPoolExecutor(os.cpu_count()) as beside:
        computing = beside.map(take, pure)
        take_all(alone)
        with ThreadPoolExecutor(2) as two:
            list(two.map(take_all, queues))
        list(computing)
