//! IO: how threads are scheduled, and how idle CPUs are.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use noise_model::setup::TaskSetup;
use noise_system::procfs;
use noise_text::cpulist::CpuList;

/// Bytes of a list of processes that are read.
const MOST_BYTES: usize = 8192;
/// Cgroups below one that are looked at for processes.
const MOST_BELOW: usize = 64;
/// Threads of a cgroup that are looked at.
const MOST_THREADS: usize = 1024;

/// The processes of a cgroup.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// First its own, then those of the cgroups below: one that hands controllers down has none itself.
    pub pids: Vec<u32>,
    /// Whether these are all: there may be very many.
    are_all: bool,
}

impl Processes {
    /// By a cgroup's folder.
    pub fn below(folder: &Path) -> Self {
        let mut waiting = VecDeque::from([folder.to_owned()]);
        let mut found = Self { pids: Vec::new(), are_all: true };
        for _ in 0..MOST_BELOW {
            let Some(folder) = waiting.pop_front() else { break };
            let list = procfs::begin(folder.join("cgroup.procs"), MOST_BYTES as u64);
            found.are_all &= list.as_ref().is_ok_and(|list| list.len() < MOST_BYTES);
            let mut list = list.unwrap_or_default();
            // The last number may be cut off.
            list.truncate(list.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
            for pid in String::from_utf8_lossy(&list).split_ascii_whitespace() {
                // 0 is a process of another namespace.
                let pid = pid.parse().ok().filter(|pid: &u32| *pid > 0);
                found.are_all &= pid.is_some();
                found.pids.extend(pid);
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            waiting.extend(inner.take(MOST_BELOW).map(|entry| entry.path()));
        }
        found.are_all &= waiting.is_empty();
        found
    }

    /// Whether it is one process that is known to be alone.
    const fn is_one(&self) -> bool {
        self.are_all && self.pids.len() == 1
    }

    /// Whether all threads may run on these CPUs; of very many threads that is not looked at.
    fn may_run_on(&self, procfs: &Path, cpus: &CpuList) -> bool {
        let lists = self.pids.iter().map(|pid| procfs.join(format!("{pid}/task")));
        let threads = lists.filter_map(|list| fs::read_dir(list).ok()).flatten().flatten();
        let threads: Vec<_> = threads.take(MOST_THREADS + 1).collect();
        let is_alike = |thread: &fs::DirEntry| {
            let status = procfs::text(thread.path().join("status")).ok();
            status.and_then(|status| allowed(&status)).is_none_or(|one| one == *cpus)
        };
        let are_all = self.are_all && (1..=MOST_THREADS).contains(&threads.len());
        are_all && threads.iter().all(is_alike)
    }
}

/// Whether a thread is in a cgroup, by its folder in either version.
pub fn has_thread(folder: &Path, tid: u32) -> bool {
    let tid = tid.to_string();
    let lists = ["cgroup.threads", "tasks"].map(|file| procfs::text(folder.join(file)));
    lists.iter().flatten().any(|list| list.lines().any(|line| line == tid))
}

/// CPUs that a thread may run on, by its `status`.
fn allowed(status: &str) -> Option<CpuList> {
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(CpuList::of_kernel(cpus.trim()))
}

/// How a thread of a cgroup with these processes is scheduled; by a process' number, its first one.
pub fn task_setup(procfs: &Path, pid: u32, around: &Processes) -> Option<TaskSetup> {
    let folder = procfs.join(pid.to_string());
    let stat = procfs::bytes(folder.join("stat")).ok()?;
    let field = |index: usize| procfs::stat_fields(&stat)?.nth(index);
    let status = procfs::text(folder.join("status")).ok()?;
    let cpus = allowed(&status)?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    Some(TaskSetup {
        pid,
        process: process.and_then(|process| process.trim().parse().ok()).unwrap_or(pid),
        nice: field(16)?.parse().ok()?,
        priority: field(37)?.parse().ok()?,
        policy: field(38)?.parse().ok()?,
        is_kernel: procfs::is_kernel_thread(&stat)?,
        is_alike: around.may_run_on(procfs, &cpus),
        is_alone: around.is_one(),
        cpus,
    })
}

/// How much time each CPU spent so far, in ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes(Vec<(u32, u64, u64)>);

impl CpuTimes {
    /// By `stat` below a procfs root.
    pub fn read(procfs: &Path) -> Self {
        Self::parse(&procfs::text(procfs.join("stat")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let cpu = |line: &str| {
            let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
            let cpu = fields.next()?.parse().ok()?;
            // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of the first two.
            let times: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
            let idle = times.get(3)?.saturating_add(*times.get(4)?);
            Some((cpu, idle, times.iter().fold(0, |sum: u64, one| sum.saturating_add(*one))))
        };
        // The first line adds all CPUs up, and has no number.
        let lines = text.lines().take_while(|line| line.starts_with("cpu"));
        Self(lines.filter_map(|line| cpu(&line.replacen("cpu ", "cpu- ", 1))).collect())
    }

    /// The part of its time that each CPU was idle since an earlier reading.
    pub fn idle_since(&self, before: &Self) -> Vec<(u32, f64)> {
        let part = |(cpu, idle, all): &(u32, u64, u64)| {
            let (_, earlier_idle, earlier_all) = before.0.iter().find(|(one, ..)| one == cpu)?;
            let all = all.checked_sub(*earlier_all).filter(|all| *all > 0)?;
            // `iowait` may run backwards.
            let idle = idle.saturating_sub(*earlier_idle).min(all);
            Some((*cpu, idle as f64 / all as f64))
        };
        self.0.iter().filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_by_cpu() {
        let before = "cpu  99 0 0 0 0 0 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0 0 0\ncpu1 0 0 0 50 50 0 0 0 0 0\nintr 5\n";
        let after = "cpu  99 0 0 0 0 0 0 0 0 0\ncpu0 200 0 0 100 0 0 0 0 0 0\ncpu1 10 0 0 130 60 0 0 0 7 0\n";
        let [before, after] = [before, after].map(CpuTimes::parse);
        assert_eq!(after.idle_since(&before), [(0, 0.0), (1, 0.9)]);
        assert_eq!(after.idle_since(&after), []);
        assert_eq!(after.idle_since(&CpuTimes::default()), []);
        assert_eq!(CpuTimes::parse("cpu\ncpu0\ncpux 1\n"), CpuTimes::default());
    }

    #[test]
    fn this_process_is_scheduled_as_usual() {
        let own = Processes { pids: vec![std::process::id()], are_all: true };
        let task = task_setup(Path::new("/proc"), std::process::id(), &own).unwrap();
        assert_eq!((task.policy, task.priority, task.real_time()), (0, 0, None));
        assert!(!task.cpus.is_empty() && (-20..20).contains(&task.nice));
        assert!(!task.is_kernel && task.is_alike && task.is_alone);
        assert_eq!(task_setup(Path::new("/nonexistent"), 1, &own), None);
        let unknown = task_setup(Path::new("/proc"), std::process::id(), &Processes::default());
        assert!(unknown.is_some_and(|task| !task.is_alike && !task.is_alone));
    }

    #[test]
    fn the_processes_of_a_cgroup_are_those_of_its_lists() {
        let folder = tempfile::tempdir().unwrap();
        let list = |text: &str| {
            fs::write(folder.path().join("cgroup.procs"), text).unwrap();
            let found = Processes::below(folder.path());
            (found.pids, found.are_all)
        };
        for (text, expected) in [
            ("", (vec![], true)),
            ("0\n7\n", (vec![7], false)),
            ("4242\n7\n", (vec![4242, 7], true)),
            ("x\n", (vec![], false)),
        ] {
            assert_eq!(list(text), expected, "{text}");
        }
        let many: String = (100..9000).map(|pid| format!("{pid}\n")).collect();
        let (pids, are_all) = list(&many);
        assert!(pids.iter().copied().eq((100..).take(pids.len())) && !are_all);
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/cgroup.procs"), "9\n").unwrap();
        assert_eq!(list("8\n"), (vec![8, 9], true));
        fs::remove_file(folder.path().join("below/cgroup.procs")).unwrap();
        assert_eq!(list("8\n"), (vec![8], false), "it may have some");
        assert!(!has_thread(folder.path(), 42));
        for (file, tid) in [("tasks", 42), ("cgroup.threads", 43)] {
            fs::write(folder.path().join(file), format!("7\n{tid}\n")).unwrap();
            assert!(has_thread(folder.path(), tid) && !has_thread(folder.path(), 4));
        }
    }
}
