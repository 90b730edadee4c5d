//! PURE: culprits by name and cause.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use noise_common::charge::Cause;
use noise_text::clean::clean;

use super::culprits::Blamed;

/// How long a thread was in the way, ns, and its id.
type Took = (u64, i32);

/// Culprits of one name, cgroup and cause.
pub struct Grouped {
    pub who: String,
    /// Why they were in the way, in the words of the ledger.
    pub cause: &'static str,
    /// How long they were in the way.
    pub ns: u64,
    /// Of several threads, the one that has more than half of that.
    mostly: Option<i32>,
}

impl Grouped {
    /// Who they are, with the thread that had most where several are meant.
    pub fn words(&self) -> String {
        let mostly = self.mostly.map_or_else(String::new, |tid| format!(", mostly thread {tid}"));
        format!("{}{mostly}", self.who)
    }
}

/// Culprits by name and cause, with their time: threads of one name in one cgroup are one.
pub fn grouped(culprits: &[Blamed], state: &str) -> Vec<Grouped> {
    let mut groups: BTreeMap<(String, String, &'static str), Vec<Took>> = BTreeMap::new();
    for culprit in culprits.iter().filter(|culprit| culprit.state == state) {
        let Blamed { comm, cgroup, cause, ns, tid, .. } = culprit;
        let key = (comm.clone(), cgroup.clone().unwrap_or_default(), *cause);
        groups.entry(key).or_default().push((*ns, *tid));
    }
    let row = |((comm, cgroup, cause), threads): ((String, String, _), Vec<Took>)| {
        let ns = threads.iter().fold(0_u64, |sum, (ns, _)| sum.saturating_add(*ns));
        let mut who = match (cause, comm.is_empty()) {
            ("idle", _) => "no thread: the CPU was idle".to_owned(),
            ("untracked", _) => "not known".to_owned(),
            ("throttle", _) => "no one: a CPU quota".to_owned(),
            // Of a whole cgroup, by counters.
            ("foreign", true) if threads.iter().all(|(_, tid)| *tid < 0) => "processes".to_owned(),
            (other, true) => other.to_owned(),
            (_, false) => clean(&comm).into_owned(),
        };
        if let [(_, tid)] = threads.as_slice()
            && *tid > 0
        {
            let _ = write!(who, " {tid}");
        }
        if cause == Cause::Own.name() {
            // Those that ended are one.
            let is_one = matches!(threads.as_slice(), [(_, tid)] if *tid > 0);
            let many = if is_one { "" } else { "s" };
            who = format!("its own thread{many} {who}");
        } else if !cgroup.is_empty() && cgroup != "/" {
            let _ = write!(who, " of {}", clean(&cgroup));
        }
        let most = threads.iter().max().filter(|(most_ns, tid)| *most_ns > ns / 2 && *tid > 0);
        let mostly = most.filter(|_| threads.len() > 1).map(|(_, tid)| *tid);
        Grouped { who, cause, ns, mostly }
    };
    let mut rows: Vec<_> = groups.into_iter().map(row).collect();
    rows.sort_by(|one, other| other.ns.cmp(&one.ns).then_with(|| one.who.cmp(&other.who)));
    rows
}
