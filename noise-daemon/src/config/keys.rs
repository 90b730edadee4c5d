//! The one table of what can be configured.

use toml::{Table, Value};

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
        self.applies == Applies::Live
    }

    /// The tables and the key that lead to it.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.section).chain(self.name.split('.'))
    }
}

macro_rules! keys {
    ($($section:literal { $($name:literal $kind:ident $value:literal $applies:ident $help:literal;)* })*) => {
        /// Everything that can be configured, in order.
        pub const KEYS: &[Key] = &[$($(Key {
            section: $section,
            name: $name,
            kind: FlagKind::$kind,
            value: $value,
            applies: Applies::$applies,
            help: $help,
        },)*)*];
    };
}

keys! {
    "web" {
        "listen-address" Text "ADDRESS:PORT" AtStart
            "Address, or name, and port of metrics and status page; :PORT = all addresses";
        "config.file" Text "FILE" AtStart
            "File of TLS, users and headers, as Prometheus' exporters take it; empty = none of them. What is in the \
             file is read again whenever it changes";
        "allowed-hosts" List "NAMES" Live
            "Host names that requests may name (in `Host`), besides addresses and localhost, where the daemon listens \
             on loopback without users or TLS";
    }
    "socket" {
        "path" Text "PATH" AtStart "Path of the local query socket; empty = none";
        "mode" Text "MODE" AtStart "Who may use the socket, as chmod takes it";
        "group" Text "GROUP" AtStart
            "Group of the socket; where there is no such group, the daemon's own";
        "marks" Switch "BOOL" AtStart
            "Take marks of programs (noised mark) at a socket beside that one, with the same mode and group: \
             noised.marks beside noised.sock. The flight recorder keeps them";
    }
    "log" {
        "level" Text "LEVEL" Live
            "Least severe level that is logged: error, warn, info, debug or trace; RUST_LOG overrides it. The BPF \
             programs log what they could not count if the daemon starts with debug or trace";
    }
    "signals" {
        "off" List "SIGNALS" Live
            "Signals that are not measured, by the names that `noised check` shows; empty = all are";
    }
    "outliers" {
        "threshold-microseconds" Integer "US" Live
            "Waits for a CPU from this length on are reported individually";
    }
    "limits" {
        "interference" Integer "N" Live
            "Victims with their culprits that have a series of their own in noised_interference_seconds_total; the \
             rest is summed as ~other";
        "preemptions" Integer "N" Live "The same for noised_preemptions_total";
        "cgroups" Integer "N" Live
            "Cgroups that have a histogram of their own in each metric by cgroup, such as \
             noised_cgroup_runqueue_wait_seconds; the rest is summed as ~other";
    }
    "names" {
        "labels" Switch "BOOL" Live
            "Give series of a pod's cgroup the labels namespace, pod and container beside cgroup, and export \
             noised_cgroup_info, which says so, and the systemd unit and container engine, of each victim and culprit";
    }
    "osnoise" {
        "cpus" Text "LIST" AtStart
            "CPUs on which a thread measures the noise from the inside (0-3,8); empty = none";
        "period-milliseconds" Integer "MS" AtStart
            "Period: each of these CPUs is measured once in it";
        "runtime-milliseconds" Integer "MS" AtStart "Run time per period";
        "threshold-microseconds" Integer "US" AtStart "A gap of this length is noise";
    }
    "recorder" {
        "enabled" Switch "BOOL" AtStart
            "Keep the latest kernel events of each CPU in memory (the flight recorder)";
        "seconds" Integer "N" AtStart
            "How far back it shall go on every CPU: its memory is fixed at the start, by the busiest 10 s of the last \
             days, and is 1024 KiB for each CPU at least. Where less than a week is remembered, it is 8192 KiB at least; \
             where nothing is, the first 2 s are measured";
        "kibibytes-per-cpu" Integer "KIB" AtStart
            "Its memory for each possible CPU, rounded down to a power of two, whatever the seconds; 1024 hold 32,768 \
             events; 0 = what the seconds need";
        "kibibytes-in-all" Integer "KIB" AtStart "Its memory for all CPUs together, at most";
        "classes" List "CLASSES" Live
            "What it keeps: sched (scheduler and interrupts), io (block devices and network); empty = nothing";
    }
    "state" {
        "directory" Text "DIRECTORY" AtStart
            "Where past incidents are kept, so that they survive a restart; empty = nowhere";
        "traces" Integer "N" AtStart
            "Most incidents whose kernel events are kept there, at most 6 an hour; the least severe go; 0 = none";
        "trace-kibibytes" Integer "KIB" AtStart
            "Events that are kept of one, the latest, as the flight recorder has them; files are smaller";
    }
    "privileges" {
        "drop" Switch "BOOL" AtStart
            "Give up every privilege once the programs are attached: capabilities, other files, other system calls";
    }
    "incidents" {
        "enabled" Switch "BOOL" Live "Look for incidents";
        "watch" List "SIGNALS" Live "What they are looked for in";
        "minimum-lost" Number "X" Live
            "Excess delay, in seconds per second, below which nothing is an incident";
        "minimum-taken" Number "X" Live
            "The same for interruption; a CPU must lose as large a part of its time";
        "recent-windows" Integer "N" Live
            "Latest windows (half a second each, a second on a calm host) that are held against the baseline";
        "closing-windows" Integer "N" Live "An incident closes after so many normal windows";
        "warmup-windows" Integer "N" Live "Calm windows from which a baseline is learnt first";
        "subjects" Integer "N" Live "Most signals of subjects with a baseline";
    }
}

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
