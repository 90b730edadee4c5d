//! What a guest's kernel complains of: in its log, and on its console, where last words are.

/// Complaints by how they begin that are mistakes: of the kernel, or of what it was made to do.
const FAULTS: [&str; 5] =
    ["BUG: ", "Oops", "kernel BUG at ", "general protection fault", "Kernel panic"];

/// How a check of the kernel's begins that found something odd; it goes on then. An emulated processor is
/// odd by itself. Others warn in the middle of a line, of processors that leak and the like.
const WARNING: &str = "WARNING: ";

/// Complaints, by a part of them, that something took too long: on an emulated processor many things do.
const SLOW: [&str; 5] = [
    "BUG: soft lockup",
    "BUG: workqueue lockup",
    "detected stall",
    "detected expedited stall",
    "blocked for more than",
];

/// What a kernel complained of, each line once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Complaints {
    /// Mistakes.
    pub faults: Vec<String>,
    /// What took too long, or looks odd.
    pub remarks: Vec<String>,
}

impl Complaints {
    /// Reads logs.
    pub fn among(logs: &[&str]) -> Self {
        let mut found = Self::default();
        for line in logs.iter().flat_map(|log| log.lines()) {
            let words = message(line);
            let is_slow = SLOW.iter().any(|part| words.contains(part));
            let list = if is_slow || words.starts_with(WARNING) {
                &mut found.remarks
            } else if FAULTS.iter().any(|begin| words.starts_with(begin)) {
                &mut found.faults
            } else {
                continue;
            };
            // The console repeats what is in the log.
            if !list.iter().any(|known| known == line.trim()) {
                list.push(line.trim().to_owned());
            }
        }
        found
    }
}

/// A line without the time, and without the thread, that the kernel puts before it.
fn message(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((_, behind)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        rest = behind.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::Complaints;

    fn lines(words: &[&str]) -> Complaints {
        let log: String = words.iter().map(|words| format!("[   12.345678] {words}\n")).collect();
        // Both have them.
        Complaints::among(&[&log, &log])
    }

    #[test]
    fn mistakes_are_faults() {
        let words = [
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "Oops: 0000 [#1] PREEMPT SMP NOPTI",
            "kernel BUG at mm/slub.c:1!",
            "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100",
        ];
        let found = lines(&words);
        assert_eq!(found.faults.len(), words.len(), "{found:?}");
        assert!(found.remarks.is_empty(), "{found:?}");
        let threaded =
            Complaints::among(&["[    1.000000][   T55] BUG: sleeping function called\n"]);
        assert_eq!(threaded.faults.len(), 1);
    }

    #[test]
    fn what_took_too_long_or_looks_odd_is_a_remark() {
        let words = [
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [live:77]",
            "WARNING: CPU: 1 PID: 77 at kernel/trace/x.c:1 f+0x1/0x2 [loop]",
            "INFO: task live:77 blocked for more than 120 seconds.",
        ];
        let found = lines(&words);
        assert_eq!((found.faults.len(), found.remarks.len()), (0, words.len()), "{found:?}");
    }

    #[test]
    fn warnings_about_processors_are_neither() {
        let found = lines(&[
            "Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on",
            "[Firmware Bug]: TSC doesn't count with P0 frequency!",
            "virtio_blk virtio0: [vda] 1048576 512-byte logical blocks",
            "noised-vm: exit 0",
        ]);
        assert_eq!(found, Complaints::default());
    }
}
