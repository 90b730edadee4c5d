//! Paths as tests make them.

use crate::document::{Segment, Traced};

/// A part of a path in which that thread is in a state.
pub fn segment(
    (tid, comm): (i32, &str),
    state: &'static str,
    (from_ns, to_ns): (u64, u64),
) -> Segment {
    Segment { tid, comm: comm.to_owned(), state, from_ns, to_ns, ..Segment::default() }
}

/// An execution of that thread, the first of its process, with that path from its begin to its end.
pub fn traced(name: &str, (tid, comm): (i32, &str), path: Vec<Segment>) -> Traced {
    let from_ns = path.first().map_or(0, |first| first.from_ns);
    let to_ns = path.last().map_or(from_ns, |last| last.to_ns);
    Traced {
        name: name.to_owned(),
        pid: tid,
        tid,
        comm: comm.to_owned(),
        from_ns,
        to_ns,
        span_ns: to_ns - from_ns,
        has_begin: true,
        has_end: true,
        path,
        ..Traced::default()
    }
}
