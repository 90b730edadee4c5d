//! Executions: one run of what is asked about, of one thread.

use std::str::FromStr;

use noise_trace::select::Who as Asked;
use thiserror::Error;

use crate::graph::{Graph, Who, Worker, WorkerId};

/// What one execution is, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of a thread.
    Thread(i32),
    /// Each process of that name or id, from its creation, or from when it became that program, to its end.
    Process(Asked),
}

/// Why that is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WantedError {
    /// No word before a colon.
    #[error("`{0}` names no execution; write thread:TID or process:NAME")]
    Unnamed(String),
    /// Another word than those that are known.
    #[error("executions of the kind `{0}` are unknown; write thread:TID or process:NAME")]
    Unknown(String),
    /// Of a thread, no number.
    #[error("`{0}` is no id of a thread; write thread:TID")]
    NoId(String),
}

impl FromStr for Wanted {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let Some((kind, name)) = text.split_once(':').filter(|(_, name)| !name.is_empty()) else {
            return Err(WantedError::Unnamed(text.to_owned()));
        };
        match kind {
            "thread" => match name.parse() {
                Ok(tid) if tid > 0 => Ok(Self::Thread(tid)),
                _ => Err(WantedError::NoId(name.to_owned())),
            },
            "process" => Ok(Self::Process(Asked::parse(name))),
            other => Err(WantedError::Unknown(other.to_owned())),
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Of whom.
    pub worker: WorkerId,
    /// From then on, in nanoseconds.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// Whether the trace has its begin.
    pub has_begin: bool,
    /// Whether the trace has its end.
    pub has_end: bool,
}

/// The executions in a graph, in the order in which they are known. An id that was given again is another
/// thread.
pub fn find(graph: &Graph, wanted: &Wanted) -> Vec<Execution> {
    let of = |(id, worker): (WorkerId, &Worker)| {
        let (from_ns, to_ns) = worker.life()?;
        let has_end = worker.exit_ns.is_some();
        let begin_ns = match wanted {
            Wanted::Thread(_) => worker.created_ns,
            Wanted::Process(_) => worker.exec_ns.or(worker.created_ns),
        };
        let from_ns = begin_ns.map_or(from_ns, |begin_ns| begin_ns.max(from_ns));
        let to_ns = match wanted {
            Wanted::Thread(_) => to_ns,
            Wanted::Process(_) => worker.exit_ns.map_or(to_ns, |exit_ns| exit_ns.min(to_ns)),
        };
        let has_begin = begin_ns.is_some();
        (from_ns < to_ns).then_some(Execution { worker: id, from_ns, to_ns, has_begin, has_end })
    };
    graph.workers().filter(|(_, worker)| is_wanted(worker, wanted)).filter_map(of).collect()
}

fn is_wanted(worker: &Worker, wanted: &Wanted) -> bool {
    let Who::Thread { tid, .. } = worker.who else { return false };
    match wanted {
        Wanted::Thread(id) => tid == *id,
        // A process is its first thread.
        Wanted::Process(_) if worker.pid != 0 && worker.pid != tid => false,
        Wanted::Process(Asked::Id(id)) => tid == *id,
        Wanted::Process(Asked::Named(name)) => {
            let name = &name.as_bytes()[..name.len().min(15)];
            worker.comm.bytes() == name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_named_in_one_grammar() {
        assert_eq!("thread:7".parse(), Ok(Wanted::Thread(7)));
        let process = |who| Ok(Wanted::Process(who));
        assert_eq!("process:7".parse(), process(Asked::Id(7)));
        assert_eq!("process:a:b".parse(), process(Asked::Named("a:b".to_owned())));
        for (text, error) in [
            ("", "names no execution"),
            ("thread:", "names no execution"),
            ("7", "names no execution"),
            ("thread:x", "is no id"),
            ("thread:0", "is no id"),
            ("thread:-3", "is no id"),
            ("fork:x", "the kind `fork` are unknown"),
        ] {
            let found = text.parse::<Wanted>().unwrap_err().to_string();
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
