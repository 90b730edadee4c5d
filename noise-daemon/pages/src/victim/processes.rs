//! PURE: the root cgroup by process.

use noise_text::clean::clean;
use noise_text::columns::shorten;
use noise_text::table::Columns;
use noise_why::findings::Findings;
use noise_why::processes::Process;

use super::{BESIDE_NAMES, LEAST_NAME, indented, time};

/// A table of the processes of the root cgroup; nothing of another victim.
pub fn processes(found: &Findings, width: usize) -> String {
    let mut text = String::new();
    if found.processes.is_empty() {
        return text;
    }
    let most = width.saturating_sub(BESIDE_NAMES).max(LEAST_NAME);
    let headings = ["by process", "ran", "waited for a CPU", "uninterruptible"];
    let mut table = Columns::new(1, &headings);
    for one in &found.processes {
        let Process { name, pid, threads, running_ns, waiting_cpu_ns, uninterruptible_ns } = one;
        let name = clean(name);
        let name = match pid {
            Some(_) => name.into_owned(),
            None => format!("{name} ({threads})"),
        };
        table.push(&[
            shorten(&name, most),
            time(*running_ns),
            time(*waiting_cpu_ns),
            time(*uninterruptible_ns),
        ]);
    }
    indented(&mut text, &table);
    text
}
