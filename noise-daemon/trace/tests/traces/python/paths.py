"""Tracks, slices and arrows of critical paths in a file of trace packets, by Perfetto's own schema."""

import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

with open(sys.argv[1], "rb") as file:
    written = file.read()
trace = Trace.FromString(written)
tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet
          if packet.HasField("track_descriptor")}
slices, arrows, marks, open_slices, tails = [], [], [], {}, {}
for packet in trace.packet:
    event = packet.track_event
    track = tracks.get(event.track_uuid)
    if not track:
        continue
    if event.type == TrackEvent.TYPE_INSTANT:
        notes = {note.name: note.string_value or note.uint_value for note in event.debug_annotations}
        marks.append([track.name, event.name, packet.timestamp, notes])
    elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
        open_slices[event.track_uuid] = (len(slices), event)
        notes = {note.name: note.string_value or note.uint_value for note in event.debug_annotations}
        slices.append([tracks[track.parent_uuid].name, track.name, event.name, packet.timestamp, 0, notes])
        for flow in event.terminating_flow_ids:
            arrows.append([tails.pop(flow), len(slices) - 1])
        for flow in event.flow_ids:
            tails[flow] = len(slices) - 1
    elif event.type == TrackEvent.TYPE_SLICE_END:
        slices[open_slices.pop(event.track_uuid)[0]][4] = packet.timestamp

# A field that the schema does not have, or has as another type, is dropped here.
trace.DiscardUnknownFields()
print(json.dumps({
    "unknown_bytes": len(written) - len(trace.SerializeToString()),
    "slices": slices,
    "arrows": arrows,
    "marks": marks,
    "open": len(open_slices) + len(tails),
}))
