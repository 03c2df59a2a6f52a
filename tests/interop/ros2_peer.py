"""A node of Python's `cyclonedds` with ROS 2's names, and its classes for `.msg` files. It knows nothing of onbeat."""

import dataclasses
import functools
import os
import re
import types
from pathlib import Path

#: The loopback interface alone, whatever else the machine has.
ON_LOOPBACK = """<CycloneDDS><Domain Id="any"><General><Interfaces>
<NetworkInterface name="lo" multicast="true"/></Interfaces></General></Domain></CycloneDDS>"""
os.environ.setdefault("CYCLONEDDS_URI", ON_LOOPBACK)

from cyclonedds.core import Policy, Qos, ReadCondition, ViewState, InstanceState, SampleState, WaitSet  # noqa: E402
from cyclonedds.domain import DomainParticipant  # noqa: E402
from cyclonedds.idl import IdlStruct  # noqa: E402
from cyclonedds.idl import types as idl  # noqa: E402
from cyclonedds.pub import DataWriter  # noqa: E402
from cyclonedds.sub import DataReader  # noqa: E402
from cyclonedds.topic import Topic  # noqa: E402
from cyclonedds.util import duration  # noqa: E402

REPOSITORY = Path(__file__).parents[2]
NUMBERS = {
    "bool": bool,
    "byte": idl.uint8,
    "char": idl.uint8,
    "float32": idl.float32,
    "float64": idl.float64,
} | {f"{sign}int{bits}": getattr(idl, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
#: What ROS 2 puts into a message without fields: IDL has no empty structure.
EMPTY = {"structure_needs_at_least_one_member": idl.uint8}
FIELD = re.compile(r"([\w/]+)(?:<=(\d+))?(?:\[(<=)?(\d*)\])?\s+([a-z]\w*)\b(?!\s*=)")


def definition(name):
    """Returns the text of a type: one of onbeat, or one of the tests."""
    package, message = name.split("/")[0], name.split("/")[-1]
    folders = [REPOSITORY / "crates/onbeat-message/msg", REPOSITORY / "tests/messages/msg" / package / "msg"]
    return folders[package != "onbeat_msgs"].joinpath(f"{message}.msg").read_text()


@functools.cache
def message_class(name):
    """Returns the class of a type, PACKAGE/msg/Name, as cyclonedds' own generator would write it."""
    package, message = name.split("/")[0], name.split("/")[-1]
    fields = {}
    for line in definition(name).splitlines():
        match = FIELD.match(line.split("#")[0].strip())
        if match:
            word, most, at_most, count, field = match.groups()
            fields[field] = field_type(package, word, most, at_most, count)
    made = types.new_class(
        message,
        (IdlStruct,),
        {"typename": f"{package}::msg::dds_::{message}_"},
        lambda space: space.update(__annotations__=fields or EMPTY),
    )
    return dataclasses.dataclass(made)


def field_type(package, word, most, at_most, count):
    """Returns the type of a field; `count` is None for a single value, empty for a sequence."""
    if word == "string":
        element = idl.bounded_str[int(most)] if most else str
    else:
        element = NUMBERS.get(word) or message_class(word if "/" in word else f"{package}/msg/{word}")
    if count is None:
        return element
    if count == "":
        return idl.sequence[element]
    return idl.sequence[element, int(count)] if at_most else idl.array[element, int(count)]


class Node:
    """Reader of one topic and writer of another, of the same type."""

    def __init__(self, domain, reliability, type_name, from_topic, to_topic):
        reliable = Policy.Reliability.Reliable(duration(seconds=10))
        policies = Qos(
            reliable if reliability == "reliable" else Policy.Reliability.BestEffort,
            Policy.Durability.Volatile,
            Policy.History.KeepAll,
            # CDR version 1, as ROS 2 has it.
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )
        of = message_class(type_name)
        self.participant = DomainParticipant(domain)
        self.reader = DataReader(self.participant, Topic(self.participant, f"rt/{from_topic}", of, policies), policies)
        self.writer = DataWriter(self.participant, Topic(self.participant, f"rt/{to_topic}", of, policies), policies)
        self.waiting = WaitSet(self.participant)
        self.waiting.attach(
            ReadCondition(self.reader, SampleState.NotRead | ViewState.Any | InstanceState.Any)
        )

    def wait(self, seconds):
        """Waits for messages, at most this time."""
        self.waiting.wait(duration(milliseconds=int(seconds * 1000)))
