//! The one table of what can be configured.

use toml::{Table, Value};

use Applies::{AtStart, Live};

/// How a value is written as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    Text,
    /// Without a decimal point.
    Integer,
    /// With or without a decimal point.
    Number,
    Switch,
    /// Names with commas between; empty = none.
    List,
}

/// What a reload does with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    Live,
    /// It needs a restart.
    AtStart,
}

/// One thing that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub section: &'static str,
    /// The key in it; behind a dot, one in a table of the section.
    pub name: &'static str,
    /// How it is written as a flag.
    pub kind: FlagKind,
    /// What stands for the value in the help.
    pub value: &'static str,
    /// What a reload does with it.
    pub applies: Applies,
    /// What it is, as in the help and the sample.
    pub help: &'static str,
}

impl Key {
    /// Its path in the file, and its flag.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Whether a reload applies it.
    pub fn is_live(&self) -> bool {
        self.applies == Live
    }

    /// The tables and the key that lead to it.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.section).chain(self.name.split('.'))
    }
}

const fn key(
    section: &'static str,
    name: &'static str,
    (kind, value): (FlagKind, &'static str),
    applies: Applies,
    help: &'static str,
) -> Key {
    Key { section, name, kind, value, applies, help }
}

const MILLISECONDS: (FlagKind, &str) = (FlagKind::Integer, "MS");
const MICROSECONDS: (FlagKind, &str) = (FlagKind::Integer, "US");
const COUNT: (FlagKind, &str) = (FlagKind::Integer, "N");
const NUMBER: (FlagKind, &str) = (FlagKind::Number, "X");

/// Everything that can be configured, in order.
pub const KEYS: &[Key] = &[
    key(
        "web",
        "listen-address",
        (FlagKind::Text, "ADDRESS:PORT"),
        AtStart,
        "Address, or name, and port of metrics and status page; :PORT = all addresses",
    ),
    key(
        "web",
        "config.file",
        (FlagKind::Text, "FILE"),
        AtStart,
        "File of TLS, users and headers, as Prometheus' exporters take it; empty = none of them. What is \
         in the file is read again whenever it changes",
    ),
    key(
        "web",
        "allowed-hosts",
        (FlagKind::List, "NAMES"),
        Live,
        "Host names that requests may name (in `Host`), besides addresses and localhost, where the daemon \
         listens on loopback without users or TLS",
    ),
    key(
        "socket",
        "path",
        (FlagKind::Text, "PATH"),
        AtStart,
        "Path of the local query socket; empty = none",
    ),
    key(
        "socket",
        "mode",
        (FlagKind::Text, "MODE"),
        AtStart,
        "Who may use the socket, as chmod takes it",
    ),
    key(
        "socket",
        "group",
        (FlagKind::Text, "GROUP"),
        AtStart,
        "Group of the socket; where there is no such group, the daemon's own",
    ),
    key(
        "socket",
        "marks",
        (FlagKind::Switch, "BOOL"),
        AtStart,
        "Take marks of programs (noised mark) at a socket beside that one, with the same mode and group: \
         noised.marks beside noised.sock. The flight recorder keeps them",
    ),
    key(
        "log",
        "level",
        (FlagKind::Text, "LEVEL"),
        Live,
        "Least severe level that is logged: error, warn, info, debug or trace; RUST_LOG overrides it. The \
         BPF programs log what they could not count if the daemon starts with debug or trace",
    ),
    key(
        "signals",
        "off",
        (FlagKind::List, "SIGNALS"),
        Live,
        "Signals that are not measured, by the names that `noised check` shows; empty = all are",
    ),
    key(
        "outliers",
        "threshold-microseconds",
        MICROSECONDS,
        Live,
        "Waits for a CPU from this length on are reported individually",
    ),
    key(
        "limits",
        "interference",
        COUNT,
        Live,
        "Victims with their culprits that have a series of their own in \
         noised_interference_seconds_total; the rest is summed as ~other",
    ),
    key("limits", "preemptions", COUNT, Live, "The same for noised_preemptions_total"),
    key(
        "limits",
        "cgroups",
        COUNT,
        Live,
        "Cgroups that have a histogram of their own in each metric by cgroup, such as \
         noised_cgroup_runqueue_wait_seconds; the rest is summed as ~other",
    ),
    key(
        "names",
        "labels",
        (FlagKind::Switch, "BOOL"),
        Live,
        "Give series of a pod's cgroup the labels namespace, pod and container beside cgroup, and export \
         noised_cgroup_info, which says so, and the systemd unit and container engine, of each victim and culprit",
    ),
    key(
        "osnoise",
        "cpus",
        (FlagKind::Text, "LIST"),
        AtStart,
        "CPUs on which a thread measures the noise from the inside (0-3,8); empty = none",
    ),
    key(
        "osnoise",
        "period-milliseconds",
        MILLISECONDS,
        AtStart,
        "Period: each of these CPUs is measured once in it",
    ),
    key("osnoise", "runtime-milliseconds", MILLISECONDS, AtStart, "Run time per period"),
    key(
        "osnoise",
        "threshold-microseconds",
        MICROSECONDS,
        AtStart,
        "A gap of this length is noise",
    ),
    key(
        "recorder",
        "enabled",
        (FlagKind::Switch, "BOOL"),
        AtStart,
        "Keep the latest kernel events of each CPU in memory (the flight recorder)",
    ),
    key(
        "recorder",
        "seconds",
        COUNT,
        AtStart,
        "How far back it shall go on every CPU: its memory is fixed at the start, by the busiest 10 s of the last \
         day, and is 1024 KiB for each CPU at least. Where nothing is remembered of that, the first 2 s are measured",
    ),
    key(
        "recorder",
        "kibibytes-per-cpu",
        (FlagKind::Integer, "KIB"),
        AtStart,
        "Its memory for each possible CPU, rounded down to a power of two, whatever the seconds; 1024 hold 32,768 \
         events; 0 = what the seconds need",
    ),
    key(
        "recorder",
        "kibibytes-in-all",
        (FlagKind::Integer, "KIB"),
        AtStart,
        "Its memory for all CPUs together, at most",
    ),
    key(
        "recorder",
        "classes",
        (FlagKind::List, "CLASSES"),
        Live,
        "What it keeps: sched (scheduler and interrupts), io (block devices and network); empty = nothing",
    ),
    key(
        "state",
        "directory",
        (FlagKind::Text, "DIRECTORY"),
        AtStart,
        "Where past incidents are kept, so that they survive a restart; empty = nowhere",
    ),
    key(
        "state",
        "traces",
        COUNT,
        AtStart,
        "Most incidents whose kernel events are kept there, at most 6 an hour; the oldest go; 0 = none",
    ),
    key(
        "state",
        "trace-kibibytes",
        (FlagKind::Integer, "KIB"),
        AtStart,
        "Events that are kept of one, the latest, as the flight recorder has them; files are smaller",
    ),
    key(
        "privileges",
        "drop",
        (FlagKind::Switch, "BOOL"),
        AtStart,
        "Give up every privilege once the programs are attached: capabilities, other files, other system \
         calls",
    ),
    key("incidents", "enabled", (FlagKind::Switch, "BOOL"), Live, "Look for incidents"),
    key("incidents", "watch", (FlagKind::List, "SIGNALS"), Live, "What they are looked for in"),
    key(
        "incidents",
        "minimum-lost",
        NUMBER,
        Live,
        "Excess delay, in seconds per second, below which nothing is an incident",
    ),
    key(
        "incidents",
        "minimum-taken",
        NUMBER,
        Live,
        "The same for interruption; a CPU must lose as large a part of its time",
    ),
    key(
        "incidents",
        "recent-windows",
        COUNT,
        Live,
        "Latest windows (half a second each, a second on a calm host) that are held against the baseline",
    ),
    key(
        "incidents",
        "closing-windows",
        COUNT,
        Live,
        "An incident closes after so many normal windows",
    ),
    key(
        "incidents",
        "warmup-windows",
        COUNT,
        Live,
        "Calm windows from which a baseline is learnt first",
    ),
    key("incidents", "subjects", COUNT, Live, "Most signals of subjects with a baseline"),
];

/// Keys of earlier versions that are constants now. A configuration that has them still works: they are ignored, and
/// named in a warning.
pub const REMOVED: &[&str] = &[
    "incidents.deviations",
    "incidents.share-factor",
    "incidents.chance",
    "incidents.closing-fraction",
    "incidents.half-life-windows",
    "incidents.adopt-seconds",
    "incidents.forget-seconds",
    "incidents.past-outliers",
    "incidents.culprits",
    "incidents.past-incidents",
];

/// Puts a value where its key belongs.
pub(super) fn put(table: &mut Table, key: &Key, value: Value) {
    let mut table = table;
    let mut parts = key.parts().peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            table.insert(part.to_owned(), value);
            return;
        }
        let inner = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else { return };
        table = inner;
    }
}

/// What a table has for a key.
pub(super) fn get<'a>(table: &'a Table, key: &Key) -> Option<&'a Value> {
    let mut parts = key.parts();
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.as_table()?.get(part)?;
    }
    Some(value)
}
