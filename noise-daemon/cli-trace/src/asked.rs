//! Executions as they are asked for on the command line, by all commands that look for their paths.

use std::collections::BTreeMap;

use jiff::Zoned;
use noise_paths::execution::Wanted;
use noise_system::ports::of_service;
use noise_text::times::Moment;
use noise_trace::select::Select;

use super::part::RecordingOptions;

/// Options of commands that look for critical paths.
#[derive(Debug, clap::Args)]
pub struct Asking {
    /// What one execution is: thread:TID, or a part of that thread's time as thread:TID@FROM..TO (each a time as
    /// --from has it, or empty); process:NAME or process:PID for each process from its creation or exec to its
    /// exit; mark:NAME or mark:NAME=KEY between marks that programs set (noised mark); event:BEGIN..END from one
    /// event of a thread to another, each a name with conditions between slashes if need be
    /// (event:syscall_entry_read/fd=3,process=nginx,port=80/..syscall_exit_read); request:PORT and connection:PORT of a
    /// server (a number, or a name such as http), where the recording has system calls (noised record --own --events sched,io,ipc) or headers of packets
    /// (LTTng's). May be given several times.
    #[arg(long = "execution", value_name = "EXECUTION", required = true, value_parser = AskedExecution::parse)]
    executions: Vec<AskedExecution>,
    /// What wake-ups of threads on their way to sleep, and LTTng's state dump, mean: what the events say, or what Trace
    /// Compass makes of them, so that paths agree with its own to the nanosecond (see /usr/share/doc/noised/docs/traces.md) [default:
    /// trace-compass for LTTng's traces, else events]
    #[arg(long, value_name = "READING")]
    pub reading: Option<Reading>,
    #[command(flatten)]
    part: RecordingOptions,
}

/// How moments are read of which Trace Compass makes something else than what the events say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reading {
    /// By the events.
    Events,
    /// As Trace Compass does.
    TraceCompass,
}

impl Reading {
    /// The usual one, by the environment of a recording.
    pub fn of(env: &BTreeMap<String, String>) -> Self {
        // Recordings of noised name LTTng's tracer too, for the tools that read nothing else.
        let is_by_lttng = env.get("tracer_name").is_some_and(|name| name.starts_with("lttng"));
        match is_by_lttng && !env.contains_key("recorded_by") {
            true => Self::TraceCompass,
            false => Self::Events,
        }
    }
}

/// An execution as it is asked for.
#[derive(Clone, Debug)]
pub struct AskedExecution {
    text: String,
    wanted: Wanted,
    from: Option<Moment>,
    to: Option<Moment>,
}

impl AskedExecution {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, span) = match text.rsplit_once('@') {
            Some((name, span)) if text.starts_with("thread:") => (name, Some(span)),
            _ => (text, None),
        };
        let wanted = Wanted::parse(name, of_service).map_err(|error| error.to_string())?;
        let (from, to) = match span {
            None => (None, None),
            Some(span) => {
                let (from, to) = span
                    .split_once("..")
                    .ok_or_else(|| format!("`{span}` is no span of time; write FROM..TO"))?;
                let moment =
                    |text: &str| (!text.is_empty()).then(|| Moment::of_recording(text)).transpose();
                (moment(from)?, moment(to)?)
            }
        };
        if let (Some(from), Some(to)) = (&from, &to)
            && !from.may_precede(to)
        {
            return Err("the time ends before it begins; write FROM..TO".to_owned());
        }
        Ok(Self { text: text.to_owned(), wanted, from, to })
    }

    fn needs_begin(&self) -> bool {
        [&self.from, &self.to].into_iter().flatten().any(Moment::needs_begin)
    }
}

/// An execution with the time that is asked for, nanoseconds since the epoch.
pub struct Sought<'a> {
    /// As it is asked for.
    pub name: &'a str,
    pub wanted: &'a Wanted,
    pub from_ns: Option<u64>,
    pub to_ns: Option<u64>,
}

impl Asking {
    /// Executions by their names, in all of a recording.
    /// Errors say of which name nothing can be understood.
    pub fn of<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self, String> {
        let executions = names.map(AskedExecution::parse).collect::<Result<_, _>>()?;
        Ok(Self { executions, reading: None, part: RecordingOptions::default() })
    }

    /// The part of a recording that is asked for; see [`sought`](Self::sought).
    pub fn select(&self, begin_ns: impl FnOnce() -> u64) -> Select {
        self.part.select(begin_ns)
    }

    /// What is sought in a recording whose first event is at the time that `begin_ns` finds out.
    pub fn sought<'a>(
        &'a self,
        select: &Select,
        begin_ns: impl FnOnce() -> u64,
    ) -> Vec<Sought<'a>> {
        let needs_begin = self.executions.iter().any(AskedExecution::needs_begin);
        let begin_ns = if needs_begin { begin_ns() } else { 0 };
        let now = Zoned::now();
        let time_ns =
            |moment: &Option<Moment>| moment.as_ref().map(|it| it.in_recording(begin_ns, &now));
        let one = |asked: &'a AskedExecution| Sought {
            name: &asked.text,
            wanted: &asked.wanted,
            from_ns: time_ns(&asked.from).max(select.from_ns),
            to_ns: [time_ns(&asked.to), select.to_ns].into_iter().flatten().min(),
        };
        self.executions.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_with_their_time() {
        let asked = |text: &str| AskedExecution::parse(text).unwrap();
        assert_eq!(asked("thread:7").wanted, Wanted::Thread(7));
        let part = asked("thread:7@+1s..+2.5s");
        assert_eq!(part.wanted, Wanted::Thread(7));
        let time_ns =
            |moment: Option<Moment>| moment.map(|moment| moment.in_recording(7, &Zoned::default()));
        assert_eq!(time_ns(part.from), Some(1_000_000_007));
        assert_eq!(time_ns(part.to), Some(2_500_000_007));
        let open = asked("thread:7@..20");
        assert_eq!((time_ns(open.from), time_ns(open.to)), (None, Some(20)));
        assert_eq!(time_ns(asked("thread:7@00:00:01.5..00:00:02").from), Some(1_500_000_000));
        for (named, numbered) in [
            ("request:http", "request:80"),
            ("connection:https", "connection:443"),
            ("event:a/port=ssh/..b", "event:a/port=22/..b"),
        ] {
            assert_eq!(asked(named).wanted, asked(numbered).wanted, "{named}");
        }
        // A name may have the sign.
        assert!(matches!(asked("process:a@b").wanted, Wanted::Process(_)));
        for (text, error) in [
            ("thread:7@", "no span of time"),
            ("thread:7@x..", "expected a distance"),
            ("thread:7@+2s..+1s", "ends before it begins"),
            ("thread:7@20..20", "ends before it begins"),
            ("thread", "names no execution"),
        ] {
            let found = AskedExecution::parse(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
    }
}
