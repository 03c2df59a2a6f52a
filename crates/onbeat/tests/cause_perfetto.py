"""Reads a trace with Perfetto's own schema (PyPI: perfetto, protobuf), and with its trace processor where that is installed.

Exit status 77: the packages are not there. Otherwise the last line says how far it was tested.
"""
import shutil
import sys

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
except ImportError as why:
    print(f"skipped: {why}")
    sys.exit(77)

path = sys.argv[1]
trace = schema.Trace()
with open(path, "rb") as file:
    trace.ParseFromString(file.read())

tracks = {p.track_descriptor.uuid: p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
depth, slices = {}, []
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    if not packet.HasField("track_event"):
        continue
    event = packet.track_event
    stack = depth.setdefault(event.track_uuid, [])
    assert event.track_uuid in tracks, "an event on a track that is not described"
    if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
        stack.append((event.name, packet.timestamp, {a.name: a.string_value for a in event.debug_annotations}))
    elif event.type == schema.TrackEvent.TYPE_SLICE_END:
        name, begun, notes = stack.pop()
        assert packet.timestamp >= begun
        slices.append((tracks[event.track_uuid], name, begun, packet.timestamp - begun, notes))
assert not any(depth.values()), "every slice ends"

named = {(track, name): (begun, length, notes) for track, name, begun, length, notes in slices}
begun, length, _ = named[("onbeat: the loop", "wake-up")]
assert (begun, length) == (1_000_000, 908_000), (begun, length)
(why,) = [s for s in slices if s[0] == "onbeat: why it was late"]
assert why[1] == "908.0 us late: kernel section in dd/write", why
assert "the kernel worked for dd [7] in write" in why[4]["kernel section in dd/write"]
culprit = [s for s in slices if s[0] == "onbeat: the culprit"]
assert sum(s[3] for s in culprit) == 901_000, culprit
assert ("CPU 1: interrupts", "local_timer") in named and ("CPU 1: interrupts", "hrtimer_wakeup") in named

switches = [e for p in trace.packet for e in p.ftrace_events.event if e.HasField("sched_switch")]
assert [(e.sched_switch.prev_comm, e.sched_switch.next_comm) for e in switches] == [("onbeat-loop", "dd"), ("dd", "onbeat-loop")]
assert switches[0].sched_switch.prev_state == 1 and switches[1].timestamp == 1_906_000
assert [p.ftrace_events.cpu for p in trace.packet if p.HasField("ftrace_events")] == [0, 1]

shell = shutil.which("trace_processor_shell")
if shell is None:
    print("tested against Perfetto's schema; no trace_processor_shell in PATH, so no query")
    sys.exit(0)
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=shell)) as processor:
    rows = list(processor.query("select slice.name, dur from slice join track on track.id = track_id where track.name = 'onbeat: the loop' and dur > 0"))
    assert ("wake-up", 908_000) in [(row.name, row.dur) for row in rows], rows
    ran = list(processor.query("select thread.name as name, sum(dur) as dur from sched join thread using (utid) where ts >= 101000 and ts < 1906000 group by 1"))
    assert "dd" in [row.name for row in ran], ran
print("tested against Perfetto's schema and its trace processor")
