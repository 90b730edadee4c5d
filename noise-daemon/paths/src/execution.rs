//! Executions: one run of what is asked about, of one thread.
//!
//! Those of whole threads and processes are in the [graph](find); those between two delimiters are found while
//! the events pass: see [`Finder`].

mod delimited;
mod finder;
mod grammar;
mod server;
mod sockets;

use std::str::FromStr;

use noise_trace::select::ThreadOrProcess;
use thiserror::Error;

pub use self::delimited::{Delimited, DelimiterTally};
pub use self::finder::Finder;
pub use self::grammar::{Condition, Pattern};
use crate::graph::{Graph, Who, Worker, WorkerId};

/// What one execution is, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of a thread.
    Thread(i32),
    /// Each process of that name or id, from its creation, or from when it became that program, to its end.
    Process(ThreadOrProcess),
    /// From a begin to an end that a program stated itself.
    Mark {
        /// The name that it gave.
        name: String,
        /// With this key alone.
        key: Option<String>,
    },
    /// Of each thread from one event to another.
    Events(Box<(Pattern, Pattern)>),
    /// From the arrival of a request at this port to the answer, of the thread that sends that.
    Request(u16),
    /// From the begin of a connection to this port to its end, of the thread that closes it.
    Connection(u16),
}

/// The kinds of executions, for messages.
const KINDS: &str =
    "thread:TID, process:NAME, mark:NAME, event:BEGIN..END, request:PORT or connection:PORT";

/// Why that is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WantedError {
    /// No word before a colon.
    #[error("`{0}` names no execution; write {KINDS}")]
    Unnamed(String),
    /// Another word than those that are known.
    #[error("executions of the kind `{0}` are unknown; write {KINDS}")]
    Unknown(String),
    /// Of a thread, no number.
    #[error("`{0}` is no id of a thread; write thread:TID")]
    NoId(String),
    /// Of a port, neither a number nor a known name.
    #[error(
        "`{0}` is no port; write a number between 1 and 65535, or the name of its service, such as http"
    )]
    NoPort(String),
    #[error(
        "event:BEGIN..END cannot be understood from {0} on; each event is a NAME, or NAME/FIELD=VALUE,FIELD>VALUE/, of which \
         process and port take = and != alone, and port takes a number or the name of a service"
    )]
    NoEvents(String),
}

/// The port of a service of some name; `None` where that is not known.
pub type PortNames = fn(&str) -> Option<u16>;

impl Wanted {
    /// Reads what is asked for; the host says which service has which port.
    /// Errors: in a sentence that says what to write.
    pub fn parse(text: &str, names: PortNames) -> Result<Self, WantedError> {
        let Some((kind, name)) = text.split_once(':').filter(|(_, name)| !name.is_empty()) else {
            return Err(WantedError::Unnamed(text.to_owned()));
        };
        match kind {
            "thread" => match name.parse() {
                Ok(tid) if tid > 0 => Ok(Self::Thread(tid)),
                _ => Err(WantedError::NoId(name.to_owned())),
            },
            "process" => Ok(Self::Process(ThreadOrProcess::parse(name))),
            "mark" => {
                let (name, key) = match name.split_once('=') {
                    Some((name, key)) => (name, Some(key.to_owned())),
                    None => (name, None),
                };
                Ok(Self::Mark { name: name.to_owned(), key })
            }
            "event" => match grammar::events(name, names) {
                Ok(events) => Ok(Self::Events(Box::new(events))),
                Err(rest) if rest.is_empty() => Err(WantedError::NoEvents("its end".to_owned())),
                Err(rest) => Err(WantedError::NoEvents(format!("`{rest}`"))),
            },
            "request" => port(name, names).map(Self::Request),
            "connection" => port(name, names).map(Self::Connection),
            other => Err(WantedError::Unknown(other.to_owned())),
        }
    }
}

/// Reads it where no service is named.
impl FromStr for Wanted {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        Self::parse(text, |_| None)
    }
}

fn port(text: &str, names: PortNames) -> Result<u16, WantedError> {
    let port = text.parse().ok().or_else(|| names(text)).filter(|port| *port > 0);
    port.ok_or_else(|| WantedError::NoPort(text.to_owned()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    pub worker: WorkerId,
    /// From then on, in nanoseconds.
    pub from_ns: u64,
    pub to_ns: u64,
    pub has_begin: bool,
    pub has_end: bool,
}

/// The executions in a graph, in the order in which they are known: those of threads and processes. An id that
/// was given again is another thread. Of one that has begun, and has no event since, the end is not behind the begin.
pub fn find(graph: &Graph, wanted: &Wanted) -> Vec<Execution> {
    let of = |(id, worker): (WorkerId, &Worker)| {
        let (from_ns, to_ns) = worker.life()?;
        let has_end = worker.exit_ns.is_some();
        let begin_ns = match wanted {
            Wanted::Process(_) => worker.exec_ns.or(worker.created_ns),
            _ => worker.created_ns,
        };
        let from_ns = begin_ns.map_or(from_ns, |begin_ns| begin_ns.max(from_ns));
        let to_ns = match wanted {
            Wanted::Process(_) => worker.exit_ns.map_or(to_ns, |exit_ns| exit_ns.min(to_ns)),
            _ => to_ns,
        };
        let has_begin = begin_ns.is_some();
        Some(Execution { worker: id, from_ns, to_ns, has_begin, has_end })
    };
    graph.workers().filter(|(_, worker)| is_wanted(worker, wanted)).filter_map(of).collect()
}

fn is_wanted(worker: &Worker, wanted: &Wanted) -> bool {
    let Who::Thread { tid, .. } = worker.who else { return false };
    match wanted {
        Wanted::Thread(id) => tid == *id,
        // A process is its first thread.
        Wanted::Process(_) if worker.pid != 0 && worker.pid != tid => false,
        Wanted::Process(ThreadOrProcess::Id(id)) => tid == *id,
        Wanted::Process(ThreadOrProcess::Named(name)) => {
            let name = &name.as_bytes()[..name.len().min(15)];
            worker.comm.bytes() == name
        }
        Wanted::Mark { .. } | Wanted::Events(_) | Wanted::Request(_) | Wanted::Connection(_) => {
            false
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
        assert_eq!("process:7".parse(), process(ThreadOrProcess::Id(7)));
        assert_eq!("process:a:b".parse(), process(ThreadOrProcess::Named("a:b".to_owned())));
        let mark = |name: &str, key: Option<&str>| {
            Ok(Wanted::Mark { name: name.to_owned(), key: key.map(str::to_owned) })
        };
        assert_eq!("mark:query".parse(), mark("query", None));
        assert_eq!("mark:query=7=8".parse(), mark("query", Some("7=8")));
        assert!(matches!("event:a..b/c=1/".parse(), Ok(Wanted::Events(_))));
        assert_eq!("request:80".parse(), Ok(Wanted::Request(80)));
        assert_eq!("connection:443".parse(), Ok(Wanted::Connection(443)));
        let names: PortNames = |name| (name == "http").then_some(80);
        let named = |text: &str| Wanted::parse(text, names);
        assert_eq!(named("request:http"), Ok(Wanted::Request(80)));
        assert_eq!(named("connection:http"), Ok(Wanted::Connection(80)));
        assert_eq!(named("event:a/port=http/..b"), "event:a/port=80/..b".parse());
        for wrong in ["request:other", "event:a/port=other/..b", "event:a/port>http/..b"] {
            assert!(named(wrong).unwrap_err().to_string().contains("name"), "{wrong}");
        }
        for (text, error) in [
            ("request:0", "`0` is no port"),
            ("connection:http", "`http` is no port"),
            ("event:a", "cannot be understood from its end on"),
            ("event:a../", "cannot be understood from `/` on"),
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
