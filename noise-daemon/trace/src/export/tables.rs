//! Tables, as CSV: a line of names, then a line for each row. What has a comma or a quotation mark in it
//! stands in quotation marks; characters that would end a line are escaped, and no text begins as a formula.
//!
//! | table | a row for each | sums |
//! |---|---|---|
//! | `events` | event | |
//! | `states` | stretch of a thread in one state | of `running`: the `run_ns` of `trace delays` |
//! | `delays` | wait, interrupt, request, packet | by `signal`: the sums of `trace delays` |
//! | `charges` | part of a wait for a CPU | by `list` and thread: the lists of `trace delays` |

use std::collections::HashMap;
use std::fmt::Write as _;

use noise_text::clean::{as_text, clean_json};
use noise_text::csv::harmless;

use crate::delays::watch::{Delay, Run, RunQueueWait};
use crate::event::{Event, TraceKind};
use crate::follow::{
    Begin, PassedStretch, ThreadSight, ThreadState, ThreadStep, ThreadStretch, steps,
};
use crate::json;
use crate::record::{Record, Stored};
use crate::state::Left;
use crate::threads::{MAX_TID, Threads};

/// A table: its name, the names of its columns, and the rows that are ready to be written.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: &'static str,
    pub rows: String,
}

impl Table {
    fn new(name: &'static str, columns: &str) -> Self {
        Self { name, rows: format!("{columns}\n") }
    }

    fn row<const N: usize>(&mut self, cells: [ColumnValue<'_>; N]) {
        for (place, cell) in cells.into_iter().enumerate() {
            if place > 0 {
                self.rows.push(',');
            }
            cell.write(&mut self.rows);
        }
        self.rows.push('\n');
    }
}

enum ColumnValue<'a> {
    Nothing,
    Number(u64),
    Signed(i32),
    Text(&'a str),
    /// A document; its strings stay what they are, in other escapes.
    Json(&'a str),
}

impl ColumnValue<'_> {
    fn write(self, row: &mut String) {
        // Writing into a text cannot fail.
        let _ = match self {
            Self::Nothing => return,
            Self::Number(number) => write!(row, "{number}"),
            Self::Signed(number) => write!(row, "{number}"),
            Self::Text(text) => {
                quote(&harmless(text), row);
                return;
            }
            Self::Json(text) => {
                quote(&clean_json(text), row);
                return;
            }
        };
    }
}

impl From<u64> for ColumnValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for ColumnValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<i32> for ColumnValue<'_> {
    fn from(number: i32) -> Self {
        Self::Signed(number)
    }
}

impl<'a> From<&'a str> for ColumnValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<T> From<Option<T>> for ColumnValue<'_>
where
    Self: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Self::from)
    }
}

/// A text, in quotation marks where it could be taken for something else.
fn quote(text: &str, row: &mut String) {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@+".contains(c);
    // One that could be a number is none.
    let begins_plain = text.chars().next().is_some_and(char::is_alphabetic);
    if begins_plain && text.chars().all(is_plain) {
        row.push_str(text);
        return;
    }
    row.push('"');
    for (place, part) in text.split('"').enumerate() {
        if place > 0 {
            row.push_str("\"\"");
        }
        row.push_str(part);
    }
    row.push('"');
}

/// What the table calls that which a thread does; `None` if it has no row.
const fn named(state: ThreadState) -> Option<&'static str> {
    Some(match state {
        ThreadState::Running => "running",
        ThreadState::Woken => "wakeup",
        ThreadState::Off(left_in) => match left_in.left() {
            Left::Runnable => "preempt",
            Left::Asleep => "blocked",
            Left::Unknown => "unknown",
        },
        ThreadState::Unseen | ThreadState::Gone => return None,
    })
}

#[derive(Debug)]
pub struct Tables {
    events: Table,
    states: Table,
    delays: Table,
    charges: Table,
    threads: Threads,
    open: HashMap<i32, ThreadStretch>,
    sight: ThreadSight,
    rows: u64,
    time_ns: u64,
    begin: Begin,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            events: Table::new("events", "time_ns,cpu,name,tid,comm,fields,context"),
            states: Table::new("states", "tid,comm,state,cpu,from_ns,to_ns,ns,ended"),
            delays: Table::new(
                "delays",
                "delay,signal,tid,comm,number,subject,cpu,from_ns,to_ns,ns,net_ns",
            ),
            charges: Table::new("charges", "delay,tid,list,cause,by_tid,by_comm,source,ns"),
            threads: Threads::default(),
            open: HashMap::new(),
            sight: ThreadSight::default(),
            rows: 0,
            time_ns: 0,
            begin: Begin::default(),
        }
    }
}

impl Tables {
    /// The same, with waits of threads that are woken from that event on.
    pub(super) fn with(self, begin: Begin) -> Self {
        Self { begin, ..self }
    }

    /// All tables; their rows are taken away by who writes them.
    pub fn all(&mut self) -> [&mut Table; 4] {
        [&mut self.events, &mut self.states, &mut self.delays, &mut self.charges]
    }

    /// Takes an event that is wanted. All events come to [`Tables::follow`] behind it.
    pub fn event<'t>(&mut self, record: &Record<impl Stored<'t>>, event: &Event<'t>) {
        let current = match &event.kind {
            TraceKind::SchedSwitch { prev, .. } => Some(prev.tid),
            _ => self.threads.current(event.cpu),
        };
        let comm = current.map(|tid| match &event.kind {
            TraceKind::SchedSwitch { prev, .. } => as_text(prev.comm.bytes()).into_owned(),
            _ => self.comm(tid),
        });
        let (mut fields, mut context) = (String::new(), String::new());
        json::fields(record, &mut fields);
        json::context(record, "", &mut context);
        self.events.row([
            event.time_ns.into(),
            event.cpu.into(),
            record.name().into(),
            current.into(),
            comm.as_deref().into(),
            ColumnValue::Json(&fields),
            if context.is_empty() { ColumnValue::Nothing } else { ColumnValue::Json(&context) },
        ]);
    }

    fn comm(&self, tid: i32) -> String {
        match self.threads.get(tid) {
            Some(thread) => as_text(thread.comm.bytes()).into_owned(),
            None if tid == 0 => "idle".to_owned(),
            None => String::new(),
        }
    }

    /// Follows what threads do, as the waits of `trace delays` do; rows are of wanted threads.
    pub fn follow(&mut self, event: &Event<'_>, wants: impl Fn(i32) -> bool) {
        self.time_ns = event.time_ns;
        self.threads.follow(event);
        if let Some(open) = self.sight.follow(event).and_then(|tid| self.open.get_mut(&tid)) {
            // A run whose end is not in the recording ends without a row.
            ThreadSight::lose_run(open, event);
        }
        for (task, step, cpu) in steps(event, self.begin) {
            let tid = task.tid;
            if !(1..MAX_TID).contains(&tid) {
                continue;
            }
            let open = self.open.entry(tid).or_default();
            let passed = self.sight.step(open, (step, cpu), event.time_ns);
            // Those that run, or wait for a CPU, have their rows as delays. A thread that sleeps still when it gets a CPU was
            // woken by an event that the recording lacks.
            let is_row = |passed: &PassedStretch| {
                passed.state.awaits_wakeup()
                    && !passed.is_lost
                    && !matches!(step, ThreadStep::Leaves(_))
                    && wants(tid)
            };
            if let Some(passed) = passed.filter(is_row) {
                self.passed(tid, passed, true);
            }
        }
        match &event.kind {
            // After an exec, a thread has the id of its process's first thread.
            TraceKind::SchedProcessExec { tid, old_tid, .. } if old_tid != tid => {
                if let Some(mut open) = self.open.remove(old_tid)
                    && (1..MAX_TID).contains(tid)
                {
                    open.since_ns = event.time_ns;
                    self.open.insert(*tid, open);
                }
            }
            TraceKind::SchedProcessFree(task) => {
                self.open.remove(&task.tid);
            }
            _ => {}
        }
    }

    /// A thread has ended.
    pub(super) fn forget(&mut self, tid: i32) {
        self.open.remove(&tid);
    }

    fn passed(&mut self, tid: i32, passed: PassedStretch, ended: bool) {
        let PassedStretch { state, cpu, from_ns, to_ns, .. } = passed;
        if let Some(name) = named(state) {
            self.state(tid, name, cpu, [from_ns, to_ns], ended);
        }
    }

    fn state(&mut self, tid: i32, state: &str, cpu: u32, times: [u64; 2], ended: bool) {
        let comm = self.comm(tid);
        let [from_ns, to_ns] = times;
        self.states.row([
            tid.into(),
            comm.as_str().into(),
            state.into(),
            cpu.into(),
            from_ns.into(),
            to_ns.into(),
            to_ns.saturating_sub(from_ns).into(),
            if ended { "true" } else { "false" }.into(),
        ]);
    }

    pub fn ran(&mut self, run: &Run) {
        self.state(run.tid, "running", run.cpu, [run.from_ns, run.to_ns], true);
    }

    pub fn waited(&mut self, wait: &RunQueueWait<'_>) {
        let (times, number) = ([wait.from_ns, wait.to_ns], self.number());
        self.state(wait.tid, wait.signal, wait.cpu, times, true);
        let comm = as_text(wait.comm.bytes()).into_owned();
        self.delays.row([
            number.into(),
            wait.signal.into(),
            wait.tid.into(),
            comm.as_str().into(),
            ColumnValue::Nothing,
            ColumnValue::Nothing,
            wait.cpu.into(),
            wait.from_ns.into(),
            wait.to_ns.into(),
            wait.to_ns.saturating_sub(wait.from_ns).into(),
            ColumnValue::Nothing,
        ]);
        for (list, part) in wait.parts() {
            self.charges.row([
                number.into(),
                wait.tid.into(),
                list.into(),
                part.cause.into(),
                part.tid.into(),
                part.tid.map_or(ColumnValue::Nothing, |_| ColumnValue::Text(&part.comm)),
                part.source.as_deref().into(),
                part.ns.into(),
            ]);
        }
    }

    /// An interrupt, a request or a packet ended.
    pub fn delayed(&mut self, delay: &Delay<'_>) {
        let (number, subject) = (self.number(), delay.subject.to_string());
        self.delays.row([
            number.into(),
            delay.signal.info().name.into(),
            ColumnValue::Nothing,
            ColumnValue::Nothing,
            delay.subject.number().into(),
            subject.as_str().into(),
            delay.cpu.into(),
            delay.from_ns.into(),
            delay.to_ns.into(),
            delay.to_ns.saturating_sub(delay.from_ns).into(),
            delay.net_ns.into(),
        ]);
    }

    fn number(&mut self) -> u64 {
        self.rows += 1;
        self.rows
    }

    /// Takes what threads do at the end of the recording.
    pub fn finish(&mut self, wants: impl Fn(i32) -> bool) {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut open: Vec<_> = open.filter(|(tid, _)| wants(*tid)).collect();
        open.sort_by_key(|(tid, open)| (open.since_ns, *tid));
        for (tid, open) in open {
            let passed = self.sight.until(&open, self.time_ns);
            if !passed.is_lost {
                self.passed(tid, passed, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Export;
    use super::*;
    use crate::ftrace::FtraceReader;
    use crate::record::Source as _;
    use crate::select::{Select, ThreadOrProcess};

    /// A thread waits twice for a CPU, another one once; a third one is never seen to begin.
    const TEXT: &str = "\
 x-10 [001] d.... 10.000000: sched_switch: prev_comm=x prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] d.... 10.000010: sched_wakeup: comm=a\u{202e} pid=11 prio=120 target_cpu=001
 b-12 [001] d.... 10.000030: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=a\u{202e} next_pid=11 next_prio=120
 a-11 [001] d.h.. 10.000035: irq_handler_entry: irq=36 name=disk
 a-11 [001] d.h.. 10.000036: irq_handler_exit: irq=36 ret=handled
 a-11 [001] d.... 10.000040: sched_process_exit: comm=a\u{202e} pid=11 prio=120
 a-11 [001] d.... 10.000050: sched_switch: prev_comm=a\u{202e} prev_pid=11 prev_prio=120 prev_state=X ==> next_comm=b next_pid=12 next_prio=120
";

    fn exported(text: &str, select: Select, begin: Begin) -> Tables {
        let mut export = Export::new(select, begin, None, Some(Tables::default()), false);
        let mut reader = FtraceReader::new(text.as_bytes());
        while let Some(record) = reader.read() {
            export.add(&record).unwrap();
        }
        export.finish();
        export.tables.unwrap()
    }

    fn tables(select: Select) -> Tables {
        exported(TEXT, select, Begin::default())
    }

    fn rows(table: &Table) -> Vec<&str> {
        table.rows.lines().skip(1).collect()
    }

    #[test]
    fn a_sleep_does_not_last_over_what_was_overwritten() {
        let text = |begin: &str| {
            format!(
                " x-10 [000] d.... 10.000000: sched_switch: prev_comm=x prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120\n\
                 {begin} b-13 [001] d.... 10.000060: sched_wakeup: comm=x pid=10 prio=120 target_cpu=001\n"
            )
        };
        let sleeps = |text: String| {
            let mut tables = Tables::default();
            let mut reader = FtraceReader::new(text.as_bytes());
            while let Some(record) = reader.read() {
                tables.follow(&record.event(), |_| true);
            }
            rows(&tables.states).iter().filter(|row| row.contains("blocked")).count()
        };
        assert_eq!(sleeps(text("")), 1);
        // Meanwhile it may have run and slept on CPU 1.
        assert_eq!(sleeps(text("##### CPU 1 buffer started ####\n")), 0);
    }

    #[test]
    fn after_an_exec_a_thread_goes_on_under_its_processs_id() {
        let text = TEXT.replace(
            " a-11 [001] d.... 10.000040: sched_process_exit: comm=a\u{202e} pid=11 prio=120",
            " a-11 [001] d.... 10.000040: sched_process_exec: filename=/bin/x pid=9 old_pid=11",
        );
        let text =
            text.replace("pid=11 prev_prio=120 prev_state=X", "pid=9 prev_prio=120 prev_state=S");
        let tables = exported(&text, Select::default(), Begin::default());
        let of = |tid: &str| {
            let own = rows(&tables.states).into_iter().filter(|row| row.starts_with(tid));
            own.map(|row| row.split(',').skip(2).collect::<Vec<_>>().join(",")).collect::<Vec<_>>()
        };
        let expected = [
            "wakeup,1,10000010000,10000030000,20000,true",
            "running,1,10000030000,10000040000,10000,true",
        ];
        assert_eq!(of("11,"), expected);
        let expected = [
            "running,1,10000040000,10000050000,10000,true",
            "blocked,1,10000050000,10000050000,0,false",
        ];
        assert_eq!(of("9,"), expected);
    }

    #[test]
    fn threads_go_from_state_to_state() {
        let tables = tables(Select::default());
        let expected = [
            "12,b,running,1,10000000000,10000030000,30000,true",
            r#"11,"a\u{202e}",wakeup,1,10000010000,10000030000,20000,true"#,
            r#"11,"a\u{202e}",running,1,10000030000,10000050000,20000,true"#,
            "12,b,preempt,1,10000030000,10000050000,20000,true",
            "10,x,blocked,1,10000000000,10000050000,50000,false",
            "12,b,running,1,10000050000,10000050000,0,false",
        ];
        assert_eq!(rows(&tables.states), expected);
        let expected = [
            r#"1,wakeup,11,"a\u{202e}",,,1,10000010000,10000030000,20000,"#,
            "2,hardirq,,,36,disk,1,10000035000,10000036000,1000,1000",
            "3,preempt,12,b,,,1,10000030000,10000050000,20000,",
        ];
        assert_eq!(rows(&tables.delays), expected);
        let live: Vec<_> =
            rows(&tables.charges).into_iter().filter(|row| row.contains(",charges,")).collect();
        let expected = [
            "1,11,charges,thread,12,b,,20000",
            r#"3,12,charges,thread,11,"a\u{202e}",,19000"#,
            r#"3,12,charges,hardirq,,,"36",1000"#,
        ];
        assert_eq!(live, expected);
        assert_eq!(rows(&tables.events).len(), 7);
        assert!(tables.events.rows.contains(r#"""next_comm"":""a\u202e"""#));
    }

    #[test]
    fn waits_begin_with_wakings_where_there_is_nothing_else() {
        let text = TEXT.replace("sched_wakeup", "sched_waking");
        let waits = |begin| {
            let tables = exported(&text, Select::default(), begin);
            [tables.states, tables.delays].map(|table| table.rows.matches("wakeup").count())
        };
        assert_eq!(waits(Begin::Waking), [1, 1]);
        assert_eq!(waits(Begin::Wakeup), [0, 0]);
    }

    #[test]
    fn rows_are_of_wanted_threads_and_times() {
        let thread = Some(ThreadOrProcess::Id(12));
        let found = tables(Select { thread, ..Select::default() });
        assert_eq!(rows(&found.states).len(), 3);
        assert!(rows(&found.states).iter().all(|row| row.starts_with("12,b,")));
        assert_eq!(rows(&found.delays), ["1,preempt,12,b,,,1,10000030000,10000050000,20000,"]);
        assert_eq!(rows(&found.events).len(), 4);
        let span = Select {
            from_ns: Some(10_000_036_000),
            to_ns: Some(10_000_040_000),
            ..Select::default()
        };
        let found = tables(span);
        assert_eq!(
            rows(&found.delays),
            ["1,hardirq,,,36,disk,1,10000035000,10000036000,1000,1000"]
        );
        assert_eq!(rows(&found.events).len(), 2);
    }

    #[test]
    fn cells_are_quoted_where_they_need_it() {
        let mut table = Table::new("t", "a");
        table.row([
            ColumnValue::from("sda"),
            "7".into(),
            "".into(),
            "a,\"b".into(),
            ColumnValue::Nothing,
        ]);
        table.row([
            ColumnValue::from(7_u64),
            ColumnValue::from(-7_i32),
            "kworker/u16:0".into(),
            "a\nb".into(),
        ]);
        let expected = "a\nsda,\"7\",\"\",\"a,\"\"b\",\n7,-7,kworker/u16:0,\"a\\x0ab\"\n";
        assert_eq!(table.rows, expected);
    }

    #[test]
    fn names_of_threads_are_no_formulas() {
        let text = TEXT.replace("=b ", "=@1+2 ").replace(" b-", " @1+2-");
        for table in exported(&text, Select::default(), Begin::default()).all() {
            assert!(table.rows.contains("'@1+2"), "{table:?}");
            assert!(!table.rows.contains(",@") && !table.rows.contains(",\"@"), "{table:?}");
        }
    }
}
