"""The test modules of the workspace, and which of them may run at the same time.

A program of several modules (`tests/it/main.rs`) is run once for each of them, so that each has a process of its own; any other test binary is
a module by itself. Modules whose time is virtual (PURE) run at the lowest priority, as many at once as there are CPUs, beside all others. Of these, one at a
time, those run first that load the machine, change it or measure it, that compare two readings of its threads, that kill an onbeat, or that
read all that one prints: the next onbeat to start removes what a killed one has left, and says so. Then those that mostly wait (WAITING),
three at a time.
"""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# Test programs of several modules, by the name of their target. The first has a harness that knows no RUST_TEST_THREADS.
OF_MODULES = {"elsewhere", "it"}
# Modules of "elsewhere" whose tests share what is installed for them, and the CPUs.
SERIAL = {"onbeat-cli": "maindevices_reach_op remote_robot"}
# Longer than any module takes beside stress-ng: a run that reaches it hangs.
LIMIT_S = 1200
# Most tests wait.
TEST_THREADS = "4"
# Properties are tried with the same inputs in every run, so that an input that few runs draw fails no change that it has nothing to do
# with. Others: `make test-long`, or another number here.
SEEDS = {"PROPTEST_RNG_SEED": "43"}
# Modules that read no clock and no setting of the machine, and share nothing but a temporary directory of their own. A name that
# no module has is an error, here and below.
PURE = {
    "onbeat": "pure resume",
    "onbeat-fleet": "examples questions",
    "onbeat-message": "messages_match",
    "onbeat-net": "net_packet net_plan",
    "onbeat-ethercat": "onbeat_ethercat layout_spec",
    "onbeat-rt": "cycle_spec edge_loop_spec frame_spec relative_spec",
    "onbeat-segment": """sim_commands sim_determinism sim_devices sim_esi sim_faults sim_mailbox sim_registers
        sim_states sim_two_hundred""",
    "onbeat-tune": "catalogue explain lint lint_files tune_apply tune_apply_shield tune_shield",
}
# Modules that mostly wait, for runs with a state directory of their own where they need one, without a shield and without figures that
# other work could spoil.
WAITING = {
    "onbeat": "import_memory import_posted",
    "onbeat-camera": "camera pictures",
    "onbeat-net": "net_boards net_log net_packet_elsewhere net_rtt_faults",
    "onbeat-c": "c_library",
    "onbeat-cli": """spec bus_alarms_live bus_queries camera_interrupted ci_summary clients_read_cycles commands_shown completion exit_status exports_open_elsewhere
        firmware_in_qemu foreign_objects gate_watch_live help hiccup_meter late_cpu limits maindevices_reach_op net_boards_live octave_interrupted output_is_not_lost pictures_in_a_page robot_esi run_files_open_in_java spikes_open_in_perfetto tables tune_machines
        two_instances_follow_a_marker view_live vm_commands""",
    "onbeat-fleet": "added_once addresses faults night what_leaves_a_machine",
    "onbeat-gateway": """onbeat_gateway java_allocates_nothing jeromq_speaks_with_pyzmq lcm_types_match logs_open_elsewhere logs_play messages_arrive""",
    # ethercrab's time-outs of a bring-up are of real time, so that none of these may give way for a second.
    "onbeat-robot": """bus_bring_up bus_chain bus_faults bus_interface bus_places bus_rate_limits bus_setup bus_spec bus_tampering_search
        live_view live_view_abused robot_bus robot_goals robot_ladder robot_limits robot_memory robot_moves robot_resume robot_session robot_view""",
    "onbeat-segment": "sim_ethercrab",
}
# Of these, modules that prepare one folder below target/, with packages of Python: one after the other.
ONE_FOLDER = [{"onbeat-gateway": WAITING["onbeat-gateway"]}]


class TestModule:
    """A test module: its name ("PACKAGE MODULE"), the directory of its package, its executable, and its arguments where the
    executable has other modules as well."""

    def __init__(self, name, package, executable, arguments=()):
        self.name = name
        self.package = package
        self.executable = executable
        self.arguments = arguments

    def is_of(self, group):
        package, _, module = self.name.partition(" ")
        return module in group.get(package, "").split()

    def run(self, gives_way=True):
        """Exit status and output of one run, started as `cargo test` starts it, with the output of tests that pass: a skipped one has
        printed its reason there. A pure module gives way to the others, unless it
        must not: beside stress-ng it would not end."""
        environment = dict(SEEDS, **os.environ, CARGO_MANIFEST_DIR=self.package, RUST_TEST_THREADS=TEST_THREADS)
        run = start([self.executable, "--show-output", *self.arguments], self.package, environment, lowest=gives_way and self.is_of(PURE))
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
    """All test modules, from cargo's own messages. Raises ValueError for a name above that no module has."""
    command = ["cargo", "test", "--locked", "--workspace", "--no-run", "--message-format=json"]
    output = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        found += modules(message["target"], Path(message["manifest_path"]).parent, message["executable"])

    require_names(found)
    return found


def modules(target, package, executable):
    """The modules of a test binary; itself, if it is none of several modules."""
    if target["name"] not in OF_MODULES:
        name = target["name"] + (" (bin)" if "bin" in target["kind"] else "")
        return [TestModule(f"{package.name} {name}", str(package), executable)]

    listed = subprocess.run([executable, "--list"], cwd=package, check=True, stdout=subprocess.PIPE, text=True).stdout
    tests = {}
    for line in listed.splitlines():
        if line.endswith(": test"):
            # A mimicked harness writes the kind of a test before its name.
            test = line.removesuffix(": test").rpartition("] ")[2]
            tests.setdefault(test.partition("::")[0], []).append(test)
    found = []
    for module, names in tests.items():
        one = TestModule(f"{package.name} {module}", str(package), executable, ["--exact", *names])
        if target["name"] == "elsewhere":
            # Its harness takes one filter.
            one.arguments = [f"{module}::", "--test-threads", "1" if one.is_of(SERIAL) else str(os.cpu_count())]
        found.append(one)
    return found


def require_names(tests):
    """Raises ValueError for a name of a lane that no module has."""
    names = {test.name for test in tests}
    listed = {f"{package} {module}" for group in (PURE, WAITING) for package, modules in group.items() for module in modules.split()}
    if absent := sorted(listed - names):
        raise ValueError(f"PURE or WAITING names what is not a test module: {', '.join(absent)}")


def in_lanes(tests, take):
    """Calls `take` with each module; ends when all calls have returned, and raises what one of them raised."""
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
        with ThreadPoolExecutor(3) as three:
            list(three.map(take_all, queues))
        list(computing)
