//! PURE: what a victim slept for, as a verdict is made of it: who held its locks, whom it had asked, its own timers, and what
//! is not known.

use std::collections::{BTreeMap, BTreeSet};

use noise_common::charge::Cause;
use noise_text::clean::clean;
use noise_verdict::{Account, Accounts, Culprit, CulpritKind, CulpritLoss, Reply, Unclear};

use super::awaited::Silent;
use super::culprits::Blamed;
use super::findings::{Ender, Findings, Whose};
use super::peers::{PeerLink, Role};

/// Who had less than one so many-th of what was waited for is no main culprit.
const MAIN_PART: u64 = 10;

/// Least part of the time that a sleep is looked at for.
const LEAST_PART: f64 = 0.01;

impl Silent {
    /// What is waited for it counts as.
    pub const fn account(&self) -> Account {
        if self.is_here { Account::Tier } else { Account::Network }
    }
}

impl Ender {
    /// What the sleeps that it ended count as, before it is known who asked whom.
    pub const fn account(&self) -> Account {
        if self.is_packet { Account::Network } else { Account::Unknown }
    }

    /// Who it is, for people.
    fn who(&self) -> String {
        let of = self.cgroup.as_deref().filter(|name| *name != "/");
        let of = of.map_or_else(String::new, |name| format!(" of {}", clean(name)));
        let id = if self.pid > 0 { self.pid } else { self.tid };
        format!("{} {id}{of}", clean(&self.comm))
    }
}

/// Threads of another program that ended sleeps, as one: of its cgroup, or where that says nothing, of its process.
struct WakerGroup<'e> {
    /// The one that ended most.
    first: &'e Ender,
    threads: usize,
    ns: u64,
    /// What of that was waiting for packets that were held back, ns.
    held_back_ns: u64,
}

/// What a holder did, as the sentence goes on.
fn meanwhile(state: &str) -> &'static str {
    match state {
        "running" => "which ran meanwhile",
        "waiting_cpu" => "which waited for a CPU meanwhile",
        "disk" => "which waited for a disk meanwhile",
        _ => "which slept on a timer meanwhile",
    }
}

impl Findings {
    /// From how long on sleeps are looked at, ns.
    pub fn least_sleep_ns(&self) -> u64 {
        ((self.span_ns as f64 * LEAST_PART) as u64).max(1)
    }

    /// Processes of others that ended its sleeps of so long.
    pub fn others(&self, least_ns: u64) -> BTreeSet<i32> {
        let mut sums: BTreeMap<i32, u64> = BTreeMap::new();
        for ender in self.enders.iter().filter(|ender| ender.whose == Whose::Other) {
            let sum = sums.entry(ender.pid).or_default();
            *sum = sum.saturating_add(ender.ns);
        }
        sums.into_iter().filter(|(_, ns)| *ns >= least_ns).map(|(pid, _)| pid).collect()
    }

    /// The main processes of others that had the CPUs that it waited for: the victim may ask them.
    pub fn had_the_cpu(&self, least_ns: u64) -> impl Iterator<Item = i32> {
        let least_ns = least_ns.max(self.waits.sum_ns / MAIN_PART);
        let is_main = move |one: &&Blamed| {
            one.state == "waiting_cpu" && one.cause == Cause::Foreign.name() && one.ns >= least_ns
        };
        self.culprits.iter().filter(is_main).filter_map(|one| one.pid)
    }

    /// Whose part it was to ask; `None` where that is not known.
    fn role(&self, ender: &Ender) -> Option<Role> {
        self.peers.processes.get(&ender.pid)?.role
    }

    /// Who it is, for people, with what links it to the victim.
    fn who_by(&self, ender: &Ender) -> String {
        let link = self.peers.processes.get(&ender.pid);
        let link = link.map_or_else(String::new, |peer| format!(" ({})", peer.link));
        format!("{}{link}", ender.who())
    }

    /// What the sleeps that somebody ended are accounted to. Those that its own threads ended are looked at apart.
    pub fn account_of_ender(&self, ender: &Ender) -> Account {
        match (ender.whose, self.role(ender)) {
            (Whose::Kernel, _) if ender.is_journal() => Account::Disk,
            (Whose::Kernel, _) => ender.account(),
            (Whose::Other, Some(Role::Asks)) => Account::Tier,
            (Whose::Other, Some(Role::Serves)) => Account::Idle,
            (Whose::Own, _) | (Whose::Other, None) => Account::Unknown,
        }
    }

    /// What of the sleeps that one ended ended with something that the victim had not asked for, ns. Only of TCP it is known
    /// what was sent: over other links a request leaves no trace where the other one is awake.
    pub fn pushed_by(&self, ender: &Ender) -> u64 {
        let peer = self.peers.processes.get(&ender.pid);
        let is_asked = peer.is_some_and(|peer| {
            peer.role == Some(Role::Asks) && matches!(peer.link, PeerLink::Tcp(_))
        });
        let is_known = is_asked && ender.is_packet && ender.whose == Whose::Other;
        let pushed = self.pushed.by.get(&ender.tid).filter(|_| is_known);
        pushed.map_or(0, |ns| (*ns).min(ender.ns))
    }

    /// The same of other hosts that it asks, ns.
    pub fn pushed_by_hosts_ns(&self) -> u64 {
        let asks = self.peers.hosts.as_ref().is_some_and(|hosts| hosts.role == Role::Asks);
        if asks { self.pushed.of_hosts_ns.min(self.of_hosts_ns()) } else { 0 }
    }

    /// How long it slept until one that it had asked ended that, ns.
    fn asked_ns(&self, ender: &Ender) -> u64 {
        match self.role(ender) {
            Some(Role::Asks) => ender.ns - self.pushed_by(ender),
            _ => 0,
        }
    }

    /// How long it slept until one ended that, where it is not known whether it had asked, ns.
    fn unclear_ns(&self, ender: &Ender) -> u64 {
        match self.role(ender) {
            Some(Role::Asks) => self.pushed_by(ender),
            Some(Role::Serves) => 0,
            None => ender.ns,
        }
    }

    /// Sleeps until packets of unknown sender, ns.
    pub fn of_hosts_ns(&self) -> u64 {
        let known = self.enders.iter().filter(|one| one.is_packet && one.whose != Whose::Kernel);
        let known_ns = known.fold(0_u64, |sum, ender| sum.saturating_add(ender.ns));
        self.ns("network").saturating_sub(known_ns).saturating_sub(self.delayed.own)
    }

    /// What of the sleeps that one ended was waiting for packets that were held back, ns.
    fn held_back_by(&self, ender: &Ender) -> u64 {
        let delayed = self.delayed.by.get(&ender.tid).filter(|_| ender.is_packet);
        delayed.map_or(0, |ns| (*ns).min(ender.ns - self.pushed_by(ender)))
    }

    /// What it waited for packets that were held back, ns: its own, and those of whom it had asked.
    pub fn packets_held_back_ns(&self) -> u64 {
        let asked =
            self.enders.iter().filter(|ender| self.account_of_ender(ender) == Account::Tier);
        asked.fold(self.delayed.own, |sum, ender| sum.saturating_add(self.held_back_by(ender)))
    }

    fn other<'e>(&self, threads: Vec<(&'e Ender, u64)>) -> Option<WakerGroup<'e>> {
        let (first, _) = threads.iter().copied().max_by_key(|(_, ns)| *ns)?;
        let tids: BTreeSet<i32> = threads.iter().map(|(ender, _)| ender.tid).collect();
        let sum = |of: &dyn Fn(&Ender, u64) -> u64| {
            threads.iter().fold(0_u64, |sum, (ender, ns)| sum.saturating_add(of(ender, *ns)))
        };
        Some(WakerGroup {
            first,
            threads: tids.len(),
            ns: sum(&|_, ns| ns),
            held_back_ns: sum(&|ender, _| self.held_back_by(ender)),
        })
    }

    /// Others that ended its sleeps, by how much of what one ended counts, ns.
    fn ended_by(&self, counts: impl Fn(&Ender) -> u64) -> Vec<WakerGroup<'_>> {
        // A process may ask another one of its own cgroup.
        let is_task = self.target.pid.is_some();
        let mut others: BTreeMap<_, Vec<(&Ender, u64)>> = BTreeMap::new();
        for ender in self.enders.iter().filter(|ender| ender.whose == Whose::Other) {
            let ns = counts(ender);
            if ns > 0 {
                let cgroup = ender.cgroup.as_deref().filter(|name| *name != "/" && !is_task);
                let key = (cgroup, if cgroup.is_some() { 0 } else { ender.pid });
                others.entry(key).or_default().push((ender, ns));
            }
        }
        let mut others: Vec<_> =
            others.into_values().filter_map(|threads| self.other(threads)).collect();
        others.sort_by_key(|other| (std::cmp::Reverse(other.ns), other.first.tid));
        others
    }

    fn loss(
        &self,
        resource: Account,
        culprit: Culprit,
        ns: u64,
        who: Option<String>,
    ) -> CulpritLoss {
        let loss = CulpritLoss::new(resource, culprit, ns, who, self.evidence());
        CulpritLoss { works_with_victim: true, ..loss }
    }

    /// What it lost while it slept, and its own timers.
    pub fn of_sleeps(&self, accounts: &Accounts) -> Vec<CulpritLoss> {
        let mut losses: Vec<CulpritLoss> = self.of_locks().into_iter().collect();
        losses.extend(self.of_kept_lock());
        let asked = self.ended_by(|ender| self.asked_ns(ender));
        losses.extend(asked.iter().flat_map(|other| self.of_tier(other)));
        let no_cgroup = |name: &str| Culprit::named(CulpritKind::None, name, Cause::Untracked);
        if let Some(hosts) = self.peers.hosts.as_ref().filter(|hosts| hosts.role == Role::Asks) {
            let (kind, who) = match hosts.is_certain {
                true => (CulpritKind::Tier, hosts.name.clone()),
                false => {
                    (CulpritKind::None, format!("{} (where that leads is not known)", hosts.name))
                }
            };
            let culprit = Culprit { kind, ..no_cgroup(&hosts.name) };
            let known_ns =
                self.silent_ns(Account::Network).saturating_add(self.packets_held_back_ns());
            let ns = accounts.ns(Account::Network).saturating_sub(known_ns);
            losses.push(self.loss(Account::Network, culprit, ns, Some(who)));
        }
        for silent in &self.silent {
            let name = silent.address.to_string();
            let culprit = Culprit { kind: CulpritKind::Tier, ..no_cgroup(&name) };
            let loss = self.loss(silent.account(), culprit, silent.waited.ns(), Some(name));
            losses.push(CulpritLoss { reply: Reply::Never, ..loss });
        }
        let loss = self.loss(
            Account::Network,
            no_cgroup("an acknowledgement that came late"),
            self.delayed.own,
            Some("to it".to_owned()),
        );
        losses.push(CulpritLoss { reply: Reply::HeldBack, ..loss });
        let ns = accounts.ns(Account::Timer);
        losses.push(self.loss(Account::Timer, no_cgroup("its own timers"), ns, None));
        losses.retain(|loss| loss.ns > 0);
        losses
    }

    /// What it waited for servers that do not answer, ns, as far as an account has it.
    fn silent_ns(&self, account: Account) -> u64 {
        let of = self.silent.iter().filter(|silent| silent.account() == account);
        of.fold(0, |sum, silent| sum.saturating_add(silent.waited.ns()))
    }

    /// The thread of its own that held most of its locks; all of them, where none held half.
    fn of_locks(&self) -> Option<CulpritLoss> {
        let locks = self.kernel_locks_alone().and(&self.locks);
        let (tid, ns, state) = locks.longest()?;
        let name = self.thread(tid);
        let (did, all_ns) = (meanwhile(state), locks.ns);
        let (who, name) = match ns > all_ns / 2 {
            true => (format!("by {name}, {did}"), name),
            false => (
                format!("one after the other, longest by {name}, {did}"),
                "its own threads, one after the other".to_owned(),
            ),
        };
        let culprit = Culprit {
            kind: CulpritKind::Thread,
            name,
            cgroup: None,
            pid: self.threads.iter().find(|one| one.tid == tid).map(|one| one.pid),
            tid: Some(tid),
            cause: Cause::Own,
        };
        // Locks of the kernel have no name.
        let at = self.locks.words.clone().filter(|_| self.locks.ns > all_ns / 2);
        Some(CulpritLoss { at, ..self.loss(Account::Lock, culprit, all_ns, Some(who)) })
    }

    /// A thread of its own, as a person reads it.
    fn thread(&self, tid: i32) -> String {
        let comm = self.threads.iter().find(|one| one.tid == tid).map(|one| one.comm.as_str());
        format!("thread {tid} ({})", clean(comm.unwrap_or_default()))
    }

    /// How long it slept until threads of its own woke it, where that is no lock for certain: a thread that never waits
    /// for the lock hands out work, or was quicker than those that wait each time.
    fn until_own(&self) -> Unclear {
        let rest = self.locks.rest(&self.held);
        let until = "until threads of its own woke them";
        match rest.longest().filter(|(_, ns, _)| *ns > rest.ns / 2) {
            Some((tid, _, state)) => Unclear {
                until: format!("{until}, mostly {}, {}", self.thread(tid), meanwhile(state)),
                ns: rest.ns,
                next: Some(format!("see what thread {tid} does: noised why {tid}")),
            },
            None => Unclear { until: until.to_owned(), ns: rest.ns, next: None },
        }
    }

    /// Another process that it had asked: what that took, and what packets between the two took.
    fn of_tier(&self, other: &WakerGroup<'_>) -> [CulpritLoss; 2] {
        let cgroup = other.first.cgroup.as_deref().filter(|name| *name != "/");
        let is_task = self.target.pid.is_some();
        let name = match (cgroup.filter(|_| !is_task), other.threads) {
            (Some(cgroup), _) => clean(cgroup).into_owned(),
            (None, _) => format!("{} {}", clean(&other.first.comm), other.first.pid),
        };
        let who = match other.threads {
            1 => self.who_by(other.first),
            _ => match cgroup {
                Some(cgroup) => format!("{} of {}", clean(&other.first.comm), clean(cgroup)),
                None => name.clone(),
            },
        };
        let culprit = Culprit {
            kind: CulpritKind::Tier,
            name,
            cgroup: cgroup.filter(|_| !is_task).map(str::to_owned),
            pid: Some(other.first.pid).filter(|pid| *pid > 0),
            tid: Some(other.first.tid).filter(|tid| *tid > 0),
            cause: Cause::Foreign,
        };
        let between = format!("between it and {who}");
        let held_back =
            self.loss(Account::Network, culprit.clone(), other.held_back_ns, Some(between));
        let ns = other.ns.saturating_sub(other.held_back_ns);
        [
            self.loss(Account::Tier, culprit, ns, Some(who)),
            CulpritLoss { reply: Reply::HeldBack, ..held_back },
        ]
    }

    /// What it slept for, where it is not known whether there was work for it.
    pub fn unclear(&self) -> Vec<Unclear> {
        let mut unclear = vec![self.until_own()];
        let others = self.ended_by(|ender| self.unclear_ns(ender));
        if let Some(most) = others.first() {
            let tid = most.first.tid;
            let is_one = others.len() == 1 && most.threads == 1;
            let and_others = if is_one { "" } else { " and others" };
            let who = self.who_by(most.first);
            unclear.push(Unclear {
                until: format!("until {who}{and_others} woke them or sent them packets"),
                ns: others.iter().fold(0_u64, |sum, other| sum.saturating_add(other.ns)),
                next: Some(format!("see what it waits for: noised why {tid}")),
            });
        }
        let (until, ns) = match &self.peers.hosts {
            None => ("until packets arrived".to_owned(), self.of_hosts_ns()),
            Some(hosts) => {
                (format!("until packets of {} arrived", hosts.name), self.pushed_by_hosts_ns())
            }
        };
        unclear.push(Unclear { until, ns, next: None });
        unclear
    }
}

#[cfg(test)]
mod tests {
    use noise_verdict::{Kind, Verdict};

    use super::*;
    use crate::made::{MS, asleep, ender, peer, setup};
    use crate::peers::{Hosts, Peers};

    fn judged(mut found: Findings) -> Verdict {
        found.judge("worker", &setup());
        let all_ns: u64 = found.totals_ns.values().sum();
        assert_eq!(found.accounts_ns.total_ns(), all_ns);
        found.verdict.unwrap()
    }

    /// A worker that has connected to a queue, which sent it something that it had not asked for after so long, ms.
    fn worker(pushed_ms: u64, link: PeerLink) -> Verdict {
        let mut found = asleep(0, 1_980);
        found.enders = vec![ender(9, "redis-server", "redis.service", true, 1_980)];
        let processes = [(9, peer(Role::Asks, link))].into();
        found.peers = Peers { processes, hosts: None };
        found.pushed.by = [(9, pushed_ms * MS)].into();
        judged(found)
    }

    #[test]
    fn who_waits_for_what_it_has_not_asked_for_waits_for_no_answer() {
        let verdict = worker(1_980, PeerLink::Tcp(6379));
        let expected = "worker: no CPU, quota, interrupt or disk held it up. Its threads slept 1.98 s until redis-server 9 of \
                        redis.service (port 6379) woke them or sent them packets; whether there was work for them is not known";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
        assert!(verdict.findings.is_empty() && verdict.is_unclear, "{verdict:?}");
        // What it had asked for stays.
        let verdict = worker(900, PeerLink::Tcp(6379));
        let expected = "worker waited 1.08 s for redis-server 9 of redis.service (port 6379) to answer; whether that is usual \
                        is not known";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
        assert_eq!(verdict.findings[0].ns, 1_080 * MS);
        // What is sent over a unix socket is no packet.
        let verdict = worker(1_980, PeerLink::Unix("/run/redis.sock".to_owned()));
        let first = &verdict.findings[0];
        assert_eq!((first.resource, first.ns), (Account::Tier, 1_980 * MS));
    }

    #[test]
    fn what_another_host_sends_unasked_is_no_answer() {
        let mut found = asleep(0, 1_700);
        found.peers.hosts =
            Some(Hosts { role: Role::Asks, name: "192.0.2.7:5672".to_owned(), is_certain: true });
        found.pushed.of_hosts_ns = 1_700 * MS;
        let verdict = judged(found);
        let expected = "worker: no CPU, quota, interrupt or disk held it up. Its threads slept 1.70 s until packets of \
                        192.0.2.7:5672 arrived; whether there was work for them is not known";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::Unknown, expected));
        assert!(verdict.findings.is_empty(), "{verdict:?}");
    }
}
