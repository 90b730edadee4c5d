"""What is in a file of trace packets, by Perfetto's own schema."""

import collections
import json
import sys
import zlib

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

with open(sys.argv[1], "rb") as file:
    packed = Trace.FromString(file.read())
written = b"".join(zlib.decompress(packet.compressed_packets) for packet in packed.packet)
trace = Trace.FromString(written)
events = collections.Counter()
runs, since = collections.Counter(), {}
for packet in trace.packet:
    cpu = packet.ftrace_events.cpu
    for event in packet.ftrace_events.event:
        kind = event.WhichOneof("event")
        events[event.generic.event_name if kind == "generic" else kind] += 1
        if kind == "sched_switch":
            switch = event.sched_switch
            tid, begin = since.get(cpu, (0, 0))
            if tid and tid == switch.prev_pid:
                runs[tid] += event.timestamp - begin
            since[cpu] = (switch.next_pid, event.timestamp)

tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet
          if packet.HasField("track_descriptor")}
waits, open_slices = [], {}


def topmost(track):
    while track.parent_uuid:
        track = tracks[track.parent_uuid]
    return track


for packet in trace.packet:
    event = packet.track_event
    track = tracks.get(event.track_uuid)
    if not track or topmost(track).name != "Waits for a CPU":
        continue
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        parts = sum(note.uint_value for note in event.debug_annotations
                    if note.name not in ("wait", "cpu"))
        open_slices[event.track_uuid] = (packet.timestamp, parts)
    elif event.type == TrackEvent.TYPE_SLICE_END:
        begin, parts = open_slices.pop(event.track_uuid)
        waits.append((packet.timestamp - begin, parts))

# A field that the schema does not have, or has as another type, is dropped here.
trace.DiscardUnknownFields()
print(json.dumps({
    "unknown_bytes": len(written) - len(trace.SerializeToString()),
    "events": events,
    "run_ns": sorted(runs.items()),
    "waits": [len(waits), sum(ns for ns, _ in waits)],
    "parts_ns": sum(parts for _, parts in waits),
}))
