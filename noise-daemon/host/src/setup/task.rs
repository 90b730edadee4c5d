//! IO: how threads are scheduled, and how idle CPUs are.

use std::fs;
use std::path::Path;

use noise_model::setup::TaskSetup;
use noise_system::procfs;
use noise_text::cpulist::CpuList;

/// Bytes of `cgroup.procs` that hold its first line.
const FIRST_LINE: u64 = 32;
/// Threads of a process that are looked at.
const MOST_THREADS: usize = 1024;

/// The first process of a cgroup, by the begin of its file: that may list very many.
pub fn first_process(folder: &Path) -> Option<u32> {
    let begin = procfs::begin(folder.join("cgroup.procs"), FIRST_LINE).ok()?;
    let line = begin.split(|byte| *byte == b'\n').next()?;
    // 0 is a process of another namespace.
    std::str::from_utf8(line).ok()?.parse().ok().filter(|pid| *pid > 0)
}

/// Whether a thread is in a cgroup, by its folder in either version.
pub fn has_thread(folder: &Path, tid: u32) -> bool {
    let tid = tid.to_string();
    let lists = ["cgroup.threads", "tasks"].map(|file| procfs::text(folder.join(file)));
    lists.iter().flatten().any(|list| list.lines().any(|line| line == tid))
}

/// CPUs that a thread may run on, by its folder below a procfs root.
fn allowed(folder: &Path) -> Option<CpuList> {
    let status = procfs::text(folder.join("status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(CpuList::of_kernel(cpus.trim()))
}

/// Whether all threads of a process may run on these CPUs; of very many threads that is not looked at.
fn are_alike(folder: &Path, cpus: &CpuList) -> bool {
    let Ok(threads) = fs::read_dir(folder.join("task")) else { return false };
    let threads: Vec<_> = threads.flatten().take(MOST_THREADS + 1).collect();
    let is_alike = |thread: &fs::DirEntry| allowed(&thread.path()).is_none_or(|one| one == *cpus);
    threads.len() <= MOST_THREADS && threads.iter().all(is_alike)
}

/// How a process' first thread is scheduled.
pub fn task_setup(procfs: &Path, pid: u32) -> Option<TaskSetup> {
    let folder = procfs.join(pid.to_string());
    let stat = procfs::bytes(folder.join("stat")).ok()?;
    let field = |index: usize| procfs::stat_fields(&stat)?.nth(index);
    let cpus = allowed(&folder)?;
    Some(TaskSetup {
        pid,
        nice: field(16)?.parse().ok()?,
        priority: field(37)?.parse().ok()?,
        policy: field(38)?.parse().ok()?,
        is_kernel: procfs::is_kernel_thread(&stat)?,
        is_alike: are_alike(&folder, &cpus),
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
        let own = task_setup(Path::new("/proc"), std::process::id()).unwrap();
        assert_eq!((own.policy, own.priority, own.real_time()), (0, 0, None));
        assert!(!own.cpus.is_empty() && (-20..20).contains(&own.nice));
        assert!(!own.is_kernel && own.is_alike);
        assert_eq!(task_setup(Path::new("/nonexistent"), 1), None);
    }

    #[test]
    fn the_processes_of_a_cgroup_are_those_of_its_lists() {
        let folder = tempfile::tempdir().unwrap();
        for (text, first) in
            [("", None), ("0\n7\n", None), ("4242\n7\n", Some(4242)), ("x\n", None)]
        {
            fs::write(folder.path().join("cgroup.procs"), text).unwrap();
            assert_eq!(first_process(folder.path()), first, "{text}");
        }
        assert!(!has_thread(folder.path(), 42));
        for (file, tid) in [("tasks", 42), ("cgroup.threads", 43)] {
            fs::write(folder.path().join(file), format!("7\n{tid}\n")).unwrap();
            assert!(has_thread(folder.path(), tid) && !has_thread(folder.path(), 4));
        }
        let many: String = (1000..9000).map(|pid| format!("{pid}\n")).collect();
        fs::write(folder.path().join("cgroup.procs"), many).unwrap();
        assert_eq!(first_process(folder.path()), Some(1000));
    }
}
