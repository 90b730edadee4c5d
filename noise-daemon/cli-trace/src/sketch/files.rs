//! Sketches as files for other programs: tables, and trace packets of Perfetto.

use std::collections::BTreeMap;
use std::path::Path;

use noise_command::output;
use noise_sketches::document::SketchesDocument;
use noise_sketches::follow::NamedOwner;
use noise_sketches::slices::{Edge, NONE, Slice, SliceId};
use noise_sketches::tallies::UNKNOWN;
use noise_system::output::FILE_MODE;
use noise_text::csv::cell;
use noise_trace::clock::TraceClock;
use noise_trace::export::perfetto::{Perfetto, SketchSlice, packed};

use crate::export::{PACKED_BYTES, refuse_inside};
use crate::recording::Recording;
use crate::tables::{TableFile, or_nothing, write as write_tables};

const SLICES: &str = "slice,sketch,cause,recording,pid,process,tid,comm,marker,ended,key,from_ns,to_ns,ns,true_latency_ns,\
                      idle_count,idle_ns,idle_variance,cluster";
const CALLS: &str = "slice,call,count";
const EDGES: &str = "from_slice,to_slice,rule,key,sent_ns,received_ns,bytes,opens,woke,joins";
const SKETCHES: &str =
    "sketch,marker,slices,from_ns,to_ns,ns,idle_count,idle_ns,idle_variance,cluster";

/// A number, unless it stands for none.
fn some(id: u32) -> Option<u32> {
    (id != NONE).then_some(id)
}

/// The slices that are shown, each with its number.
fn shown<'d>(document: &SketchesDocument<'d>) -> impl Iterator<Item = (SliceId, &'d Slice)> {
    let system = document.system;
    document.shown.iter().filter_map(|id| Some((*id, system.slice(*id)?)))
}

/// Writes slices, their system calls, what causes what, and sketches as tables into a folder.
/// Errors: where they cannot be written.
pub fn write(
    recording: &Path,
    folder: &Path,
    document: &SketchesDocument<'_>,
) -> anyhow::Result<()> {
    let tables = [("slices", SLICES), ("calls", CALLS), ("edges", EDGES), ("sketches", SKETCHES)];
    write_tables(recording, folder, tables, |[slices, calls, edges_file, sketches]| {
        let system = document.system;
        shown(document).try_for_each(|(id, slice)| {
            slice_row(slices, document, id, slice)?;
            let known = (slice.profile != UNKNOWN).then(|| system.profiles.calls(slice.profile));
            known.into_iter().flatten().try_for_each(|(call, count)| {
                calls.row(format_args!("{id},{},{count}", cell(call)))
            })
        })?;
        document.edges().try_for_each(|edge| {
            let Edge { from, to, sent_ns, received_ns, bytes, opens, woke, joins, .. } = *edge;
            let key = system.keys.get(edge.key as usize).map(ToString::to_string);
            let (key, rule) = (cell(&key.unwrap_or_default()), edge.rule.name());
            edges_file.row(format_args!(
                "{from},{to},{rule},{key},{sent_ns},{received_ns},{bytes},{opens},{woke},{joins}"
            ))
        })?;
        document.sketches().into_iter().try_for_each(|sketch| {
            let marker = system.marker_of(sketch).map_or("", |marker| marker.name());
            sketches.row(format_args!(
                "{},{marker},{},{},{},{},{},{},{},{}",
                sketch.first,
                sketch.slices,
                sketch.from_ns,
                sketch.to_ns,
                sketch.latency_ns(),
                sketch.idle_count,
                sketch.idle_ns,
                sketch.idle_variance,
                or_nothing(some(sketch.cluster)),
            ))
        })
    })
}

fn slice_row(
    slices: &mut TableFile,
    document: &SketchesDocument<'_>,
    id: SliceId,
    slice: &Slice,
) -> anyhow::Result<()> {
    let system = document.system;
    let thread = system.thread(slice).copied();
    let (machine, pid, tid) =
        thread.map_or((0, 0, 0), |thread| (thread.machine, thread.pid, thread.tid));
    let [process, comm] = [thread.map(|thread| thread.process), thread.map(|thread| thread.comm)]
        .map(|name| cell(&or_nothing(name)));
    let Slice { from_ns, to_ns, true_latency_ns, idle_count, idle_ns, idle_variance, .. } = *slice;
    let ended = slice.ended.name();
    slices.row(format_args!(
        "{id},{},{},{machine},{pid},{process},{tid},{comm},{},{ended},{},{from_ns},{to_ns},{},{true_latency_ns},\
         {idle_count},{idle_ns},{idle_variance},{}",
        or_nothing(system.sketches.get(id as usize)),
        or_nothing(some(slice.cause)),
        slice.marker.name(),
        cell(&system.key(slice).to_string()),
        slice.latency_ns(),
        or_nothing(some(slice.cluster)),
    ))
}

/// Writes the slices for Perfetto.
/// Errors: where they cannot be written; an older file of that name is as it was then.
pub fn draw(
    path: &Path,
    to: &Path,
    recording: &Recording,
    document: &SketchesDocument<'_>,
) -> anyhow::Result<()> {
    let place = output::place(to)?;
    refuse_inside(path, &place, to.parent().unwrap_or(to))?;
    let mut perfetto = match recording {
        Recording::Ctf(ctf) => {
            let clock = ctf.layout.clocks.first().cloned().unwrap_or_else(TraceClock::epoch);
            Perfetto::new(&clock, &ctf.layout.env)
        }
        Recording::Text(_) => Perfetto::new(&TraceClock::trace(), &BTreeMap::new()),
    };
    let mut target = place.begin(FILE_MODE)?;
    let mut write = |perfetto: &mut Perfetto, least_bytes: usize| -> anyhow::Result<()> {
        let packets = perfetto.packets();
        if packets.bytes().len() >= least_bytes {
            target.write(&packed(packets)?)?;
            packets.clear();
        }
        Ok(())
    };
    let arrows = Arrows::of(document);
    let mut order: Vec<(SliceId, &Slice)> = shown(document).collect();
    order.sort_by_key(|(id, slice)| (slice.from_ns, *id));
    for (id, slice) in order {
        let drawn = drawn(document, &arrows, id, slice);
        perfetto.sketch_slice(&drawn);
        write(&mut perfetto, PACKED_BYTES)?;
    }
    perfetto.finish();
    write(&mut perfetto, 1)?;
    Ok(target.keep()?)
}

/// From which slices arrows go, and to which: each by its number.
struct Arrows {
    from: Vec<(SliceId, u64)>,
    to: Vec<(SliceId, u64)>,
}

impl Arrows {
    fn of(document: &SketchesDocument<'_>) -> Self {
        let opening = || (1..).zip(document.edges().filter(|edge| edge.opens));
        let mut from: Vec<_> = opening().map(|(number, edge)| (edge.from, number)).collect();
        let mut to: Vec<_> = opening().map(|(number, edge)| (edge.to, number)).collect();
        from.sort_unstable();
        to.sort_unstable();
        Self { from, to }
    }

    fn numbers(all: &[(SliceId, u64)], id: SliceId) -> Vec<u64> {
        let begin = all.partition_point(|(own, _)| *own < id);
        let own = all.iter().skip(begin).take_while(|(own, _)| *own == id);
        own.map(|(_, number)| *number).collect()
    }
}

fn drawn(
    document: &SketchesDocument<'_>,
    arrows: &Arrows,
    id: SliceId,
    slice: &Slice,
) -> SketchSlice {
    let system = document.system;
    let machine = |thread: &NamedOwner| match thread.machine {
        0 => String::new(),
        machine => format!(" of recording {machine}"),
    };
    let thread = system.thread(slice);
    let process = |thread: &NamedOwner| {
        let pid = if thread.pid == 0 { thread.tid } else { thread.pid };
        format!("{} {pid}{}", thread.process, machine(thread))
    };
    let own = |thread: &NamedOwner| format!("{} {}{}", thread.comm, thread.tid, machine(thread));
    let cluster = some(slice.cluster).map(|cluster| ("cluster", u64::from(cluster)));
    let sketch = system.sketches.get(id as usize).map(|sketch| ("sketch", u64::from(*sketch)));
    let numbers = [("slice", u64::from(id)), ("true_latency_ns", slice.true_latency_ns)];
    SketchSlice {
        process: thread.map_or_else(String::new, process),
        thread: thread.map_or_else(String::new, own),
        marker: slice.marker.name(),
        key: system.key(slice).to_string(),
        from_ns: slice.from_ns,
        to_ns: slice.to_ns,
        numbers: numbers.into_iter().chain(sketch).chain(cluster).collect(),
        causes: Arrows::numbers(&arrows.from, id),
        caused_by: Arrows::numbers(&arrows.to, id),
    }
}

#[cfg(test)]
mod tests;
