//! PURE: the accounts of a victim, and who had what it lacked, as a verdict is made of them.

use std::collections::BTreeMap;

use noise_analysis::Watched;
use noise_common::charge::{CHARGE_CAUSES, Cause};
use noise_common::signals::Signal;
use noise_model::labels::ROOT;
use noise_model::pressure::Throttled;
use noise_model::setup::Setup;
use noise_text::clean::clean;
use noise_verdict::{
    ACCOUNTS, Account, Accounts, Advice, Case, Culprit, CulpritKind, CulpritLoss, Evidence, Reply,
    Standstill, UsualNote, judge,
};

use super::counted::Counted;
use super::culprits::Blamed;
use super::findings::{Advised, Ender, Findings, Whose};
use super::grouped::grouped;
use super::peers::Role;
use super::stretch::is_little;

/// CPUs that are idle for more of the time, on average, leave room for the victim.
const MOST_IDLE: f64 = 0.1;
/// The least part of all CPU time of which it is known who had it.
const LEAST_KNOWN: f64 = 0.9;
/// The least part of all CPU time of one that leaves a victim too few CPUs.
const LEAST_CROWDING: f64 = 0.25;
/// From so many times the usual number on, delays came more often than usual.
const MORE_OFTEN: f64 = 1.5;

/// The state that a victim was in, why, and who had what it waited for.
type WaitGroup<'a> = (&'a str, Cause, Option<String>);

pub fn cause_of(name: &str) -> Cause {
    CHARGE_CAUSES.into_iter().find(|cause| cause.name() == name).unwrap_or(Cause::Untracked)
}

/// What the time of a victim's threads in a state is accounted to, until it is known who ended its sleeps.
fn account_of_state(state: &str) -> Account {
    match state {
        "running" => Account::Running,
        "waiting_cpu" => Account::Cpu,
        "disk" => Account::Disk,
        "network" => Account::Network,
        "timer" => Account::Timer,
        "asleep" => Account::Idle,
        _ => Account::Unknown,
    }
}

impl Findings {
    /// Judges: what held it up, and what can be done about it as the host is set up.
    pub fn judge(&mut self, victim: &str, setup: &Setup) {
        self.name_by_ledger();
        let case = match self.counted() {
            Some(counted) => self.case_of_counters(counted, victim, setup),
            None => self.case_of_events(victim, setup),
        };
        let (verdict, accounts) = (judge(&case), case.accounts);
        let advised = |advice: &Advice| {
            let words = advice.remedy.advice();
            let advice = advice.clone();
            Advised { setting: words.setting, effect: words.effect, cost: words.cost, advice }
        };
        self.remedies = verdict.remedies().into_iter().map(advised).collect();
        (self.accounts_ns, self.verdict) = (accounts, Some(verdict));
    }

    fn case_of_events<'a>(&self, victim: &'a str, setup: &'a Setup) -> Case<'a> {
        let accounts = self.accounts();
        let (mut usual_ns, usual_notes) = self.usual(self.span_ns, |watched| self.count(watched));
        // What is usual of memory is what was slept for it.
        if accounts.ns(Account::Memory) / 2 > self.uninterruptible.sum_ns {
            usual_ns.remove(&Account::Memory);
        }
        let mut losses = self.losses(&accounts);
        self.mark_crowding(&mut losses, setup);
        Case {
            victim,
            span_ns: self.span_ns,
            work_ns: accounts.active_ns(),
            seen_ns: None,
            uninterruptible_ns: self.uninterruptible.sum_ns,
            locked_in_kernel_ns: self.kernel_locks_alone().ns,
            losses,
            unclear: self.unclear(),
            standstill: self.standstill(),
            busiest: self.busiest(),
            usual_ns,
            usual_notes,
            accounts,
            setup,
        }
    }

    /// What the daemon counted, with the sleeps of the part of which there are events: no counter says what they were for.
    fn case_of_counters<'a>(
        &self,
        counted: &Counted,
        victim: &'a str,
        setup: &'a Setup,
    ) -> Case<'a> {
        let of_part = self.accounts();
        let mut accounts = counted.accounts(self.threads.len());
        for account in ACCOUNTS.into_iter().filter(|account| account.is_slept()) {
            accounts.take(Account::Unknown, account, of_part.ns(account));
        }
        self.take_counted_memory(counted, &mut accounts);
        let own = &self.around.labels;
        let mut losses = counted.losses(&self.target.name, own);
        for loss in losses.iter_mut().filter(|loss| loss.resource == Account::Quota) {
            loss.culprit.name = self.quota_name();
        }
        let slept = self.of_sleeps(&of_part).into_iter();
        losses.extend(slept.map(|loss| CulpritLoss { evidence: Evidence::Part, ..loss }));
        let of_memory = self.of_memory(&accounts);
        losses.extend(of_memory.map(|loss| CulpritLoss { evidence: Evidence::Counters, ..loss }));
        let (usual_ns, usual_notes) = self.usual(counted.span_ns, |watched| counted.count(watched));
        Case {
            victim,
            span_ns: counted.span_ns,
            work_ns: counted.span_ns,
            seen_ns: Some(self.span_ns),
            uninterruptible_ns: counted.uninterruptible_ns(),
            locked_in_kernel_ns: self.kernel_locks_alone().ns,
            losses,
            unclear: Vec::new(),
            busiest: None,
            // What threads did all the time is known of the part alone.
            standstill: Standstill { asleep_at: None, ..self.standstill() },
            usual_ns,
            usual_notes,
            accounts,
            setup,
        }
    }

    /// Its thread that ran longest; of a whole host, that says nothing.
    fn busiest(&self) -> Option<(String, u64)> {
        let is_host = self.target.pid.is_none() && self.target.cgroup.as_deref() == Some("/");
        let threads = self.threads.iter().filter(|_| !is_host);
        let busiest = threads.max_by_key(|one| one.ns("running"))?;
        Some((format!("{} {}", clean(&busiest.comm), busiest.tid), busiest.ns("running")))
    }

    /// All time of its threads, by what it was spent on.
    fn accounts(&self) -> Accounts {
        let mut accounts = Accounts::default();
        for (state, ns) in &self.totals_ns {
            accounts.add(account_of_state(state), *ns);
        }
        for (cause, ns) in self.waits_by_cause() {
            accounts.take(Account::Cpu, Account::of_cpu_wait(cause), ns);
        }
        accounts.take(Account::Running, Account::Interrupt, self.interrupted_ns());
        // The time that it took counted as running; only what is more than that was waited.
        let stolen_ns = self.stolen_ns();
        let of_running_ns = stolen_ns.min(accounts.ns(Account::Running));
        accounts.take(Account::Running, Account::Hypervisor, of_running_ns);
        accounts.take(Account::Cpu, Account::Hypervisor, stolen_ns - of_running_ns);
        for ender in &self.enders {
            let pushed_ns = self.pushed_by(ender);
            accounts.take(ender.account(), Account::Unknown, pushed_ns);
            accounts.take(ender.account(), self.account_of_ender(ender), ender.ns - pushed_ns);
        }
        accounts.take(Account::Unknown, Account::Lock, self.locks.ns);
        let of_hosts = match self.peers.hosts.as_ref().map(|hosts| hosts.role) {
            Some(Role::Asks) => Account::Network,
            Some(Role::Serves) => Account::Idle,
            None => Account::Unknown,
        };
        let pushed_ns = self.pushed_by_hosts_ns();
        accounts.take(Account::Network, Account::Unknown, pushed_ns);
        accounts.take(Account::Network, of_hosts, self.of_hosts_ns() - pushed_ns);
        let held_back_ns = self.packets_held_back_ns().saturating_sub(self.delayed.own);
        accounts.take(Account::Tier, Account::Network, held_back_ns);
        self.take_held_back(&mut accounts);
        self.take_memory(&mut accounts);
        for silent in &self.silent {
            accounts.take(Account::Timer, silent.account(), silent.waited.over_ns);
            accounts.take(Account::Idle, silent.account(), silent.waited.open_ns);
        }
        self.take_unwoken(&mut accounts);
        accounts
    }

    /// Waits for a CPU by cause. What the daemon counted for the quota stands for what events do not say.
    fn waits_by_cause(&self) -> BTreeMap<Cause, u64> {
        let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
        for one in self.culprits.iter().filter(|one| one.state == "waiting_cpu") {
            let sum = sums.entry(cause_of(one.cause)).or_default();
            *sum = sum.saturating_add(one.ns);
        }
        sums.insert(Cause::Throttle, self.throttled_ns());
        sums
    }

    /// Who had what it lacked.
    fn losses(&self, accounts: &Accounts) -> Vec<CulpritLoss> {
        let mut losses = self.of_waits();
        losses.extend(self.of_cpus_that_were_stopped(accounts));
        losses.extend(self.of_interrupts());
        losses.extend(self.of_storage(accounts));
        losses.extend(self.of_memory(accounts));
        losses.extend(self.of_sleeps(accounts));
        losses
    }

    pub(super) fn evidence(&self) -> Evidence {
        let is_whole = self.discarded == 0 && self.notes.is_empty() && !self.is_short();
        if is_whole { Evidence::Whole } else { Evidence::Part }
    }

    /// For whom it waited: for CPUs, and for disks.
    fn of_waits(&self) -> Vec<CulpritLoss> {
        // A command is not worth it for what some milliseconds show.
        let met = self.foreign().filter(|_| !is_little(self.span_ns, self.asked_ns));
        let met = met.and_then(|one| one.path.clone());
        let mut groups: BTreeMap<WaitGroup<'_>, Vec<Blamed>> = BTreeMap::new();
        for one in &self.culprits {
            let cause = cause_of(one.cause);
            let is_cpu = one.state == "waiting_cpu" && Account::of_cpu_wait(cause) == Account::Cpu;
            if is_cpu || one.state == "disk" {
                groups.entry((one.state, cause, self.name_of(one))).or_default().push(one.clone());
            }
        }
        // Where events do not say for which waits the quota stood, those who had the CPUs are not to blame for all.
        let names_any = !self.is_throttled();
        let loss = |((state, cause, name), members): (WaitGroup<'_>, Vec<Blamed>)| {
            let sum_ns = members.iter().fold(0_u64, |sum, one| sum.saturating_add(one.ns));
            let first = members.first()?;
            let cgroup = first.cgroup.clone().filter(|name| !self.is_by_process(name));
            let kind = match (cause, &cgroup) {
                (Cause::Foreign, Some(_)) => CulpritKind::Cgroup,
                (Cause::Foreign, None) if first.pid.is_some() => CulpritKind::Process,
                (Cause::Foreign, None) if first.tid < 0 => CulpritKind::None,
                (Cause::Foreign | Cause::Kthread, _) => CulpritKind::Thread,
                _ => CulpritKind::None,
            };
            let resource = if state == "disk" { Account::Disk } else { Account::Cpu };
            let is_cpu = resource == Account::Cpu;
            let names = (names_any || !is_cpu) && !matches!(cause, Cause::Idle | Cause::Untracked);
            let who = grouped(&members, state).into_iter().next().filter(|_| names);
            let who = who.map(|group| (group.words(), group.ns));
            let counted = members.iter().filter(|one| one.by_counters);
            let counted_ns = counted.fold(0_u64, |sum, one| sum.saturating_add(one.ns));
            // Where most of it is counted, it is of the cgroup as a whole.
            let is_counted = counted_ns > sum_ns / 2;
            let whole = cgroup.clone().filter(|_| is_counted && names);
            let whole = whole.map(|name| (clean(&name).into_owned(), sum_ns));
            Some(CulpritLoss {
                resource,
                culprit: Culprit {
                    kind,
                    name: match cause {
                        Cause::Own => self.target.name.clone(),
                        Cause::Idle => "no thread: the CPU was idle".to_owned(),
                        Cause::Untracked => "not known".to_owned(),
                        _ => clean(name.as_deref().unwrap_or_default()).into_owned(),
                    },
                    cgroup: cgroup.clone().filter(|_| cause == Cause::Foreign),
                    pid: first.pid,
                    tid: Some(first.tid).filter(|tid| *tid > 0),
                    cause,
                },
                ns: sum_ns,
                who: whole.or(who),
                at: None,
                evidence: match counted_ns {
                    _ if is_cpu && !names_any => Evidence::Part,
                    0 => self.evidence(),
                    _ if is_counted => Evidence::Counters,
                    _ => Evidence::Part,
                },
                works_with_victim: self.works_with(cgroup.as_deref(), &members),
                crowding: None,
                is_set_up: is_cpu && names_any && met.is_some() && first.path == met,
                reply: Reply::Comes,
            })
        };
        groups.into_iter().filter_map(loss).collect()
    }

    /// What a culprit is called: a cgroup, or else a process; a kernel thread, each for itself.
    fn name_of(&self, one: &Blamed) -> Option<String> {
        let whole = one.cgroup.clone().filter(|name| !self.is_by_process(name));
        match cause_of(one.cause) {
            Cause::Foreign => whole.or_else(|| {
                Some(match one.pid.unwrap_or(one.tid) {
                    id if id > 0 => format!("{} {id}", one.program),
                    _ => format!("processes called {}", one.comm),
                })
            }),
            Cause::Kthread => Some(format!("{} {}", one.comm, one.tid)),
            _ => None,
        }
    }

    /// Marks the loss to who left the victim too few CPUs, with the part of all CPU time that it had. Nothing is marked where
    /// something is not known of a CPU, or where the victim may not use all of them or is stopped by its quota.
    fn mark_crowding(&self, losses: &mut [CulpritLoss], setup: &Setup) {
        let cpus = setup.online.len();
        let its = setup.victim.as_ref().and_then(|victim| victim.may_run_on());
        let is_pinned = its.is_some_and(|its| !setup.online.without(its).is_empty());
        if cpus == 0 || is_pinned || self.is_short() || self.is_throttled() {
            return;
        }
        let Some((name, part)) = self.crowding(cpus) else { return };
        let is_its = |loss: &&mut CulpritLoss| {
            let culprit = &loss.culprit;
            loss.resource == Account::Cpu && culprit.cause == Cause::Foreign && culprit.name == name
        };
        if let Some(loss) = losses.iter_mut().find(is_its) {
            loss.crowding = Some(part);
        }
    }

    /// Who had more CPU time than the victim while next to no CPU was idle, and the part of all CPU time that it had.
    fn crowding(&self, cpus: usize) -> Option<(String, f64)> {
        let whole_ns = self.span_ns as f64 * cpus as f64;
        let idle_ns: f64 = self.idle.iter().map(|(_, part)| part * self.span_ns as f64).sum();
        let (mut own_ns, mut ran_ns) = (0_u64, 0_u64);
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        for one in &self.occupants {
            ran_ns = ran_ns.saturating_add(one.ns);
            match (cause_of(one.cause), self.name_of(one)) {
                (Cause::Own, _) => own_ns = own_ns.saturating_add(one.ns),
                (Cause::Foreign, Some(name)) => *others.entry(name).or_default() += one.ns,
                _ => {}
            }
        }
        let is_known = idle_ns + ran_ns as f64 >= LEAST_KNOWN * whole_ns;
        if !is_known || idle_ns > MOST_IDLE * whole_ns {
            return None;
        }
        let (name, ns) = others.into_iter().max_by_key(|(_, ns)| *ns)?;
        let part = ns as f64 / whole_ns.max(1.0);
        (part >= LEAST_CROWDING && ns > own_ns).then(|| (clean(&name).into_owned(), part))
    }

    /// Whether what runs in that cgroup is named by process: the root cgroup is no answer, and of a process its own cgroup is none.
    fn is_by_process(&self, cgroup: &str) -> bool {
        cgroup == ROOT || (self.target.pid.is_some() && self.around.labels.contains(cgroup))
    }

    /// The CPU quota that stops it, as far as the files of its cgroup say so.
    pub(super) fn stopping_quota(&self) -> Option<&Throttled> {
        self.pressure.as_ref()?.quota.as_ref()
    }

    fn quota_name(&self) -> String {
        let quota = self.stopping_quota().map(Throttled::name);
        quota.unwrap_or_else(|| "a CPU quota (it is not known whose)".to_owned())
    }

    /// What a quota and the hypervisor took.
    fn of_cpus_that_were_stopped(&self, accounts: &Accounts) -> Vec<CulpritLoss> {
        let by_counters = self.culprits.iter().all(|one| one.cause != Cause::Throttle.name());
        let quota = Culprit::named(CulpritKind::Limit, self.quota_name(), Cause::Throttle);
        let hypervisor = Culprit::named(CulpritKind::None, "the hypervisor", Cause::Steal);
        let loss = |resource, culprit, evidence| {
            CulpritLoss::new(resource, culprit, accounts.ns(resource), None, evidence)
        };
        let counted = if by_counters { Evidence::Counters } else { self.evidence() };
        vec![
            loss(Account::Quota, quota, counted),
            loss(Account::Hypervisor, hypervisor, Evidence::Counters),
        ]
    }

    /// What interrupts took while it ran, and while it waited.
    fn of_interrupts(&self) -> Vec<CulpritLoss> {
        let taken = self
            .interrupted
            .iter()
            .map(|one| (cause_of(one.cause), one.source.as_str(), one.taken.sum_ns));
        let waited = self
            .culprits
            .iter()
            .filter(|one| one.state == "waiting_cpu")
            .map(|one| (cause_of(one.cause), one.comm.as_str(), one.ns))
            .filter(|(cause, ..)| Account::of_cpu_wait(*cause) == Account::Interrupt);
        let mut sums: BTreeMap<(Cause, &str), u64> = BTreeMap::new();
        for (cause, source, ns) in taken.chain(waited) {
            let sum = sums.entry((cause, source)).or_default();
            *sum = sum.saturating_add(ns);
        }
        let loss = |((cause, source), ns): ((Cause, &str), u64)| {
            let name = clean(if source.is_empty() { cause.name() } else { source });
            let culprit = Culprit::named(CulpritKind::Device, name, cause);
            CulpritLoss::new(Account::Interrupt, culprit, ns, None, self.evidence())
        };
        sums.into_iter().map(loss).collect()
    }

    /// Whether one that had what the victim lacked works with it: one of them asks the other, or its threads end sleeps of
    /// the victim that are worth a word. Processes of no cgroup are each for itself.
    fn works_with(&self, cgroup: Option<&str>, members: &[Blamed]) -> bool {
        // The victim may need what it asks without waiting for it, as a log.
        let is_asked =
            |pid| self.peers.processes.get(&pid).is_some_and(|peer| peer.role == Some(Role::Asks));
        if members.iter().filter_map(|one| one.pid).any(is_asked) {
            return true;
        }
        let is_its = |ender: &&Ender| match cgroup {
            Some(cgroup) => ender.cgroup.as_deref() == Some(cgroup),
            None => members.iter().any(|one| one.tid == ender.tid || one.pid == Some(ender.pid)),
        };
        let mut its_ns = 0_u64;
        for ender in self.enders.iter().filter(|ender| ender.whose == Whose::Other).filter(is_its) {
            its_ns = its_ns.saturating_add(ender.ns);
            if self.peers.processes.contains_key(&ender.pid) {
                return true;
            }
        }
        its_ns >= self.least_sleep_ns()
    }

    /// How many delays there are in the events.
    fn count(&self, watched: Watched) -> Option<u64> {
        match watched {
            Watched::Signal(Signal::CgroupRunqueueWait) => Some(self.waits.count),
            Watched::Signal(Signal::UninterruptibleWait) => Some(self.uninterruptible.count),
            // Its baseline is of time that was taken, not of interrupts.
            Watched::Interruption | Watched::Signal(_) => None,
        }
    }

    /// Whether most of its waits for a CPU were for others than those that it works with.
    fn waits_for_others(&self) -> bool {
        let waits = || self.culprits.iter().filter(|one| one.state == "waiting_cpu");
        let is_others = |one: &&Blamed| {
            let cgroup = one.cgroup.as_deref().filter(|name| !self.is_by_process(name));
            let others = [Cause::Foreign.name(), Cause::Kthread.name()];
            others.contains(&one.cause) && !self.works_with(cgroup, &[Blamed::clone(one)])
        };
        let sum = |ns: u64, one: &Blamed| ns.saturating_add(one.ns);
        waits().filter(is_others).fold(0, sum) > waits().fold(0, sum) / 2
    }

    /// What is usually lost by as many delays as there were, which are the victim's own doing: one that has more work waits
    /// more often, each time as long as usual. Interrupts that come more often take more, memory that is short makes more
    /// sleeps and not longer ones, and others who take the CPU make more waits: of these, what is usual in this time counts
    /// where that is less. The daemon knows that of whole cgroups; of one of their processes, how long each wait and sleep
    /// usually is, and not what interrupts usually take from it. Without a baseline, nothing is known to be usual.
    fn usual(
        &self,
        span_ns: u64,
        count: impl Fn(Watched) -> Option<u64>,
    ) -> (BTreeMap<Account, u64>, BTreeMap<Account, UsualNote>) {
        let waits = Watched::from(Signal::CgroupRunqueueWait);
        let sleeps = Watched::from(Signal::UninterruptibleWait);
        let kinds = [
            (Account::Cpu, waits, !self.waits_for_others()),
            (Account::Interrupt, Watched::Interruption, false),
            (Account::Disk, sleeps, true),
            (Account::Memory, sleeps, false),
        ];
        let usual = |(account, watched, is_own_doing): (Account, Watched, bool)| {
            let usual = self.around.usual_of(watched)?;
            // Since the daemon's start alone, the disturbance itself may be most of what there was.
            let lost = usual.lost?;
            let in_time_ns = self.target.pid.is_none().then_some(lost * span_ns as f64);
            // How long each usually is says nothing where there are more of them.
            if account == Account::Memory && in_time_ns.is_none() {
                return None;
            }
            let of_as_many_ns =
                usual.mean_ns.zip(count(watched)).map(|(mean_ns, count)| mean_ns * count as f64);
            let ns = match (of_as_many_ns, in_time_ns) {
                (Some(ns), Some(in_time_ns)) if !is_own_doing => in_time_ns.min(ns),
                (of_as_many_ns, in_time_ns) => of_as_many_ns.or(in_time_ns)?,
            };
            let note = UsualNote {
                adopted_for_ns: usual.adopted_for_ns,
                disturbed_for_ns: self.around.disturbed_for_ns(watched),
                is_more_often: in_time_ns.is_some_and(|in_time_ns| ns >= MORE_OFTEN * in_time_ns),
            };
            Some(((account, ns as u64), (account, note)))
        };
        kinds.into_iter().filter_map(usual).unzip()
    }
}

#[cfg(test)]
mod tests;
