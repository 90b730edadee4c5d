//! Switches away from a task, counted.
//!
//! Voluntary: the task went to sleep. Involuntary: it was preempted or yielded and stays runnable.
//! Switches away from the idle task are not counted: no task lost the CPU.

use crate::hooks::Hook;
use crate::signals::{ExportKind, Signal, SignalInfo, Storage};
use crate::subject::{Domain, SubjectKind};

pub(super) const INFO: SignalInfo = SignalInfo {
    signal: Signal::ContextSwitch,
    name: "context_switch",
    metric: "noised_context_switches_total",
    help: "Switches away from a task that went to sleep (voluntary) or stayed runnable (involuntary).",
    kind: ExportKind::Counter,
    labels: &["kind"],
    hooks: &[Hook::SchedSwitch],
    fields: &["TASK_PID"],
    storage: Storage::Switches,
    between: "switches away from tasks, counted",
    values: "`voluntary` (it went to sleep), `involuntary` (it stayed runnable)",
    domain: Domain::Cpu,
    subject: SubjectKind::Kinds(&["voluntary", "involuntary"]),
    ..SignalInfo::PLAIN
};
