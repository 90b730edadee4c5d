//! The verdict of an incident: what a victim lacks, by how much more than usual, and who is charged with it.
//!
//! It is made of counters, which say how long was waited and for whom, but not what a victim does with those whom it
//! waits for. So no finding says that a remedy will help; it says whom it is about.

use std::cmp::Reverse;

use noise_common::charge::{Cause, Resource};
use noise_common::remedy::{Remedy, against};
use noise_common::signals::Signal;
use noise_common::subject::Domain;
use noise_model::labels::{GONE, OTHER, ROOT, UNKNOWN_LABEL, is_one, spoken};

use crate::account::{Account, completes_requests};
use crate::advice::{Advice, Target, argument, target};
use crate::finding::{Culprit, CulpritKind, Evidence, Finding};
use crate::judge::{USES_MEMORY, Verdict, in_order};
use crate::kind::Kind;
use crate::memory::Shortage;

mod words;

/// Least part in a disturbance of a culprit that is a finding, and of one whose finding has remedies.
const LEAST_PART: f64 = 0.01;
const LEAST_REMEDIED: f64 = 0.1;
/// The same of one that is named although of so much of the disturbance it is not known who did it.
const LEAST_LEADING: f64 = 0.1;
const MOST_UNKNOWN: f64 = 0.5;
/// Findings that are kept.
const MOST: usize = 5;
/// Those of other victims among them.
const MOST_OF_OTHERS: usize = 2;
/// Least part in what another victim suffers from of a culprit that is said.
const MOSTLY: f64 = 0.5;

/// What a culprit is called of whom nothing is known.
const NOT_KNOWN: &str = "not known";

/// A thread of a victim or a culprit, or several together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'a> {
    /// Its name; of several together, what they are.
    pub name: &'a str,
    /// Its number; 0 of several together.
    pub tid: u32,
    /// That of its process; `None` where it is not known.
    pub pid: Option<u32>,
}

impl Thread<'_> {
    /// `gzip 777`.
    fn words(&self) -> String {
        match self.tid {
            0 => self.name.to_owned(),
            tid => format!("{} {tid}", self.name),
        }
    }
}

/// One who is charged with a part of a disturbance.
#[derive(Clone, Debug, PartialEq)]
pub struct ChargedCulprit<'a> {
    pub name: &'a str,
    pub cause: Cause,
    /// How long was waited for it, ns.
    pub ns: u64,
    /// How much of that is beyond what is usual for it, ns.
    pub beyond_ns: u64,
    /// Its part in the disturbance, 0 to 1.
    pub part: f64,
    /// Its threads in single long waits, the one that had most first; none where they are not known.
    pub threads: Vec<Thread<'a>>,
}

/// Whether somebody with so large a part of a disturbance, 0 to 1, and so much time, ns, is a finding.
pub fn is_worth(part: f64, ns: u64) -> bool {
    part >= LEAST_PART && ns > 0
}

/// Whether the first of them did it, by the parts of the disturbance that all who are named have: where of most it is not
/// known who did, one with little of the rest is a bystander.
pub fn leads(part: f64, named: impl Iterator<Item = f64>) -> bool {
    part >= LEAST_LEADING || 1.0 - named.sum::<f64>() < MOST_UNKNOWN
}

/// Whether a culprit is a disk's way to say that it is done: who kept the disk busy is not known by it.
pub fn only_completes(signal: Option<Signal>, cause: Cause, name: &str) -> bool {
    signal == Some(Signal::UninterruptibleWait) && completes_requests(cause, name)
}

/// Of which culprit, and of which interrupt, the settings were read that commands rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advised<'a> {
    pub culprit: Option<&'a str>,
    pub interrupt: Option<&'a str>,
}

/// A signal of a victim that left what is usual for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Disturbed<'a> {
    /// Whose: a cgroup, a device and operation, an interface, the host.
    pub victim: &'a str,
    /// Its threads in single long waits, the one that waited longest first; none where they are not known.
    pub threads: Vec<Thread<'a>>,
    /// Which signal; `None` of the time that interrupts take from running work.
    pub signal: Option<Signal>,
    /// Whether that is over.
    pub is_over: bool,
    /// What rose, as the sentence has it; `None` where no figure did.
    pub rose: Option<String>,
    /// Since when, or for how long, as the sentence has it.
    pub when: String,
    /// When it began, ns since 1970.
    pub since_ns: u64,
    /// How long it was disturbed, ns.
    pub span_ns: u64,
    /// Delay beyond what is usual, ns.
    pub lost_ns: u64,
    /// Delay that is usual in so long a time, ns.
    pub usual_ns: u64,
    /// Who is charged, who did most beyond the usual first.
    pub charged: Vec<ChargedCulprit<'a>>,
    /// The part of the delays of which a culprit is known, 0 to 1.
    pub known_share: f64,
    /// What the victim's cgroup stalled for meanwhile, where that is known; see [`stalled_for`](crate::stalled_for).
    pub stalled: Option<Account>,
    /// Of what memory was short meanwhile, where that is what it slept for.
    pub short: Option<Shortage>,
    /// What the CPU quota is called that stopped it meanwhile, where that is known.
    pub quota: Option<String>,
    /// The remedies that apply to this host.
    pub advice: &'a [Advice],
    /// Whose settings they rest on.
    pub advised: Advised<'a>,
}

/// What helps against a signal that is a cause itself: its delays are what takes time from others.
fn inherent(signal: Option<Signal>) -> &'static [Remedy] {
    match signal {
        Some(signal) => signal.info().inherent,
        None => &[],
    }
}

/// What a remedy gives more of.
const fn gives(remedy: Remedy) -> &'static [Account] {
    match remedy {
        Remedy::CpuAffinity
        | Remedy::CpuWeight
        | Remedy::SchedulingPolicy
        | Remedy::CpuQuota
        | Remedy::WorkqueueCpus => &[Account::Cpu],
        Remedy::HugePages => &[Account::Cpu, Account::Memory],
        Remedy::IdleStates => &[Account::Cpu],
        Remedy::RaiseQuota => &[Account::Quota],
        Remedy::FewerThreads => &[Account::Cpu, Account::Quota, Account::Unknown],
        Remedy::IsolatedCpus => &[Account::Cpu, Account::Interrupt],
        Remedy::IrqAffinity
        | Remedy::InterruptCoalescing
        | Remedy::PacketSteering
        | Remedy::NmiSources => &[Account::Interrupt, Account::Network],
        Remedy::DedicatedHost => &[Account::Hypervisor],
        Remedy::IoWeight | Remedy::IoMax | Remedy::IoScheduler | Remedy::FasterDevice => {
            &[Account::Disk]
        }
        Remedy::MemoryLimits | Remedy::EarlierReclaim | Remedy::ProactiveCompaction => {
            &[Account::Memory]
        }
        Remedy::TrafficShaping => &[Account::Network],
    }
}

/// What is lacking where delays of a signal are charged to a culprit; without a signal, time that is taken from running
/// work. `stalled` is what the victim's cgroup stalled for meanwhile, where that is known.
pub fn lacking(
    signal: Option<Signal>,
    stalled: Option<Account>,
    cause: Cause,
    culprit: &str,
) -> Account {
    let Some(signal) = signal else {
        return Account::of_charge(Resource::Running, cause, culprit);
    };
    let info = signal.info();
    if signal == Signal::UninterruptibleWait && stalled == Some(Account::Memory) {
        // What was thrown out for want of memory comes back by a disk.
        return Account::Memory;
    }
    match (info.resource, info.domain) {
        (Some(resource), _) => match Account::of_charge(resource, cause, culprit) {
            Account::Unknown => stalled.unwrap_or(Account::Unknown),
            known => known,
        },
        (None, Domain::Cpu) => Account::Cpu,
        (None, Domain::Interrupts) => Account::Interrupt,
        (None, Domain::Disk) => Account::Disk,
        (None, Domain::Network) => Account::Network,
        (None, Domain::Memory) => Account::Memory,
    }
}

impl Disturbed<'_> {
    fn resource(&self, cause: Cause, culprit: &str) -> Account {
        lacking(self.signal, self.stalled, cause, culprit)
    }

    /// What it waits for memory for. Who ends such sleeps, as who completes requests of a disk, is not to blame.
    fn of_memory(&self) -> Option<Finding> {
        let short = self.short.as_ref()?;
        let raises = |advice: &&Advice| {
            advice.remedy == Remedy::MemoryLimits && short.limit().is_some() && is_one(self.victim)
        };
        Some(Finding {
            culprit: short.culprit(),
            remedies: self.advice.iter().filter(raises).cloned().collect(),
            next: short.limit().is_none().then(|| USES_MEMORY.to_owned()),
            ..self.unnamed(Account::Memory)
        })
    }

    /// The findings, the one that the sentence is about first; never none.
    fn findings(&self) -> Vec<ChargedFinding<'_>> {
        if let Some(finding) = self.of_memory() {
            return vec![ChargedFinding { beyond_ns: self.lost_ns, charged: None, finding }];
        }
        let none_beyond = self.charged.iter().all(|one| one.beyond_ns == 0);
        let is_worth = |one: &&ChargedCulprit<'_>| is_worth(one.part, one.ns);
        let parts = || self.charged.iter().map(|one| one.part);
        let is_led = self.charged.iter().find(is_worth).is_some_and(|one| leads(one.part, parts()));
        let charged = self.charged.iter().filter(is_worth).filter(|_| is_led);
        let findings = charged.map(|one| {
            let unusual = none_beyond || one.beyond_ns > 0;
            let resource = self.resource(one.cause, one.name);
            let remedies = match unusual && one.part >= LEAST_REMEDIED {
                true => self.advice(one, resource),
                false => Vec::new(),
            };
            let has_command = remedies.iter().any(|one| !one.commands.is_empty());
            let finding = Finding {
                culprit: self.culprit(one),
                ns: one.ns,
                unusual: Some(unusual),
                next: next(one, self.victim).filter(|_| unusual && !has_command),
                remedies,
                ..self.unnamed(resource)
            };
            let beyond_ns = if none_beyond { one.ns } else { one.beyond_ns };
            let finding = Finding { share: self.share(finding.ns), ..finding };
            ChargedFinding { beyond_ns, charged: Some(one), finding }
        });
        let mut findings: Vec<ChargedFinding<'_>> = findings.collect();
        if findings.is_empty() {
            let resource = self.resource(Cause::Untracked, "");
            let own = inherent(self.signal);
            let is_own = |advice: &&Advice| own.contains(&advice.remedy);
            let remedies = self.advice.iter().filter(is_own).cloned().collect();
            let finding = Finding { remedies, ..self.unnamed(resource) };
            findings.push(ChargedFinding { beyond_ns: self.lost_ns, charged: None, finding });
        }
        findings
    }

    fn culprit(&self, one: &ChargedCulprit<'_>) -> Culprit {
        match (&self.quota, only_completes(self.signal, one.cause, one.name)) {
            (_, true) => Culprit { cause: one.cause, ..unknown() },
            (Some(quota), false) if one.cause == Cause::Throttle => {
                Culprit { name: quota.clone(), ..culprit(one) }
            }
            (_, false) => culprit(one),
        }
    }

    /// What is lacking, without a culprit.
    fn unnamed(&self, resource: Account) -> Finding {
        let ns = self.lost_ns.saturating_add(self.usual_ns);
        Finding {
            victim: None,
            resource,
            culprit: unknown(),
            ns,
            share: self.share(ns),
            usual_ns: Some(self.usual_ns),
            unusual: Some(true),
            since_ns: Some(self.since_ns),
            evidence: Evidence::Counters,
            remedies: Vec::new(),
            next: None,
        }
    }

    /// Of the time that it was disturbed.
    fn share(&self, ns: u64) -> f64 {
        (ns as f64 / self.span_ns.max(1) as f64).min(1.0)
    }

    /// The remedies against one culprit that give more of what is lacking, with commands if its settings are known.
    fn advice(&self, one: &ChargedCulprit<'_>, resource: Account) -> Vec<Advice> {
        let helps = self.signal.map_or(against(one.cause), |signal| signal.remedies(one.cause));
        let is_harmful = |remedy: Remedy| one.name == ROOT && target(remedy) == Target::Culprit;
        let belongs = |advice: &&Advice| {
            let remedy = advice.remedy;
            // The policy is that of one culprit's thread.
            let is_known = remedy != Remedy::SchedulingPolicy || self.rests_on(remedy, one);
            let helps = helps.contains(&remedy) && remedy.is_against(one.name) && is_known;
            helps && gives(remedy).contains(&resource) && !is_harmful(remedy)
        };
        let mut advice: Vec<Advice> = self.advice.iter().filter(belongs).cloned().collect();
        for own in advice.iter_mut().filter(|own| !self.rests_on(own.remedy, one)) {
            *own = Advice::plain(own.remedy);
        }
        in_order(&mut advice);
        advice
    }

    /// Whether the commands of a remedy are about this culprit.
    fn rests_on(&self, remedy: Remedy, one: &ChargedCulprit<'_>) -> bool {
        if one.cause.is_of_cgroup() && !is_one(one.name) {
            return false;
        }
        match target(remedy) {
            Target::Culprit => {
                let is_other = is_other(one, self.victim);
                is_other && self.advised.culprit == Some(one.name)
            }
            Target::Victim => is_one(self.victim),
            Target::Host if remedy == Remedy::IrqAffinity => {
                one.cause == Cause::Hardirq && self.advised.interrupt == Some(one.name)
            }
            Target::Host => true,
        }
    }
}

/// A finding, with who is charged.
struct ChargedFinding<'d> {
    /// How much of it is beyond what is usual, ns.
    beyond_ns: u64,
    charged: Option<&'d ChargedCulprit<'d>>,
    finding: Finding,
}

/// What a culprit is called, where the ledger calls it so.
pub fn called(cause: Cause, name: &str) -> &str {
    match (cause, name) {
        (Cause::Throttle, _) => "its own CPU quota",
        (Cause::Steal, _) => "the hypervisor",
        (Cause::Iowait, _) => "I/O",
        (Cause::Idle, _) => "no thread: the CPU was idle",
        (Cause::Untracked, _) => NOT_KNOWN,
        (Cause::Kthread, GONE) => "kernel threads that have ended",
        (Cause::Kthread, UNKNOWN_LABEL) => "a kernel thread that the kernel did not name",
        (Cause::Hardirq | Cause::Softirq | Cause::Nmi, UNKNOWN_LABEL) => {
            "an interrupt that the kernel did not name"
        }
        (_, own @ OTHER) => spoken(own),
        (of_cgroup, own) if of_cgroup.is_of_cgroup() => spoken(own),
        (_, own) => own,
    }
}

fn unknown() -> Culprit {
    Culprit::named(CulpritKind::None, NOT_KNOWN, Cause::Untracked)
}

/// What is in no cgroup is named by its processes, as far as they are known.
fn by_process(threads: &[Thread<'_>]) -> Option<String> {
    match threads {
        [] => None,
        [one] => Some(format!("{} of the root cgroup", one.words())),
        [first, ..] => Some(format!("{} and others of the root cgroup", first.words())),
    }
}

fn culprit(one: &ChargedCulprit<'_>) -> Culprit {
    let first = one.threads.first();
    let is_cgroup = one.cause.is_of_cgroup();
    let by_process = by_process(&one.threads).filter(|_| is_cgroup && one.name == ROOT);
    let kind = match one.cause {
        Cause::Foreign | Cause::Own | Cause::Writeback => match &by_process {
            _ if one.name.starts_with('~') => CulpritKind::None,
            Some(_) => CulpritKind::Process,
            None => CulpritKind::Cgroup,
        },
        Cause::Kthread => CulpritKind::Thread,
        Cause::Hardirq | Cause::Softirq | Cause::Nmi => CulpritKind::Device,
        Cause::Throttle => CulpritKind::Limit,
        Cause::Steal | Cause::Idle | Cause::Iowait | Cause::Untracked => CulpritKind::None,
    };
    let number = |number: u32| i32::try_from(number).ok().filter(|number| *number > 0);
    Culprit {
        kind,
        name: by_process.unwrap_or_else(|| called(one.cause, one.name).to_owned()),
        cgroup: (is_cgroup && kind != CulpritKind::None).then(|| one.name.to_owned()),
        pid: first.and_then(|thread| number(thread.pid?)),
        tid: first.and_then(|thread| number(thread.tid)),
        cause: one.cause,
    }
}

/// Whether it is another cgroup than the victim.
fn is_other(one: &ChargedCulprit<'_>, victim: &str) -> bool {
    matches!(one.cause, Cause::Foreign | Cause::Writeback) && one.name != victim
}

/// Where there is no command: what to look at.
fn next(one: &ChargedCulprit<'_>, victim: &str) -> Option<String> {
    let is_cgroup = is_other(one, victim) && is_one(one.name);
    is_cgroup.then(|| format!("see what {} does: noised why {}", one.name, argument(one.name)))
}

/// What another victim of an incident suffers from, if more than half of that was done by another cgroup than the one that the
/// incident is about. The thread that ends an uninterruptible sleep is not the reason for it; who wrote pages is.
fn by_another<'d>(
    other: &'d Disturbed<'d>,
    leading: Option<&ChargedCulprit<'_>>,
) -> Option<ChargedFinding<'d>> {
    let mut first = other.findings().into_iter().next()?;
    let is_another = first.charged.is_some_and(|one| {
        let is_reason = match other.signal {
            Some(Signal::UninterruptibleWait) => one.cause == Cause::Writeback,
            _ => true,
        };
        is_reason
            && is_other(one, other.victim)
            && one.part > MOSTLY
            && leading.is_none_or(|leading| leading.name != one.name)
    });
    first.finding.victim = Some(other.victim.to_owned());
    (is_another && first.finding.culprit.kind == CulpritKind::Cgroup).then_some(first)
}

/// The verdict of an incident: of what cost its victim most, of what else that suffers from, and of what cost each of the
/// other victims most, the worst first.
pub fn judge_incident(
    first: &Disturbed<'_>,
    more: &[Disturbed<'_>],
    others: &[Disturbed<'_>],
) -> Verdict {
    let mut own = first.findings().into_iter();
    // What the sentence is about comes first.
    let leading = own.next();
    let charged = leading.as_ref().and_then(|leading| leading.charged);
    let mut rest: Vec<ChargedFinding<'_>> = own.collect();
    rest.extend(more.iter().flat_map(Disturbed::findings));
    let by_another: Vec<_> = others.iter().map(|one| by_another(one, charged)).collect();
    let named: Vec<String> = others
        .iter()
        .zip(&by_another)
        .map(|(other, by)| words::also(other.victim, by.as_ref().map(|by| &by.finding)))
        .collect();
    // Most are the victim's own.
    rest.extend(by_another.into_iter().flatten().take(MOST_OF_OTHERS));
    rest.sort_by_key(|found| (Reverse(found.beyond_ns), Reverse(found.finding.ns)));
    let all = leading.into_iter().chain(rest).take(MOST);
    let findings: Vec<Finding> = all.map(|found| found.finding).collect();
    Verdict {
        kind: Kind::HeldUp,
        sentence: words::sentence(first, findings.first(), charged, &named),
        known_share: first.known_share.clamp(0.0, 1.0),
        is_unclear: false,
        next: findings.first().and_then(|first| first.next.clone()),
        findings,
    }
}

/// What held a victim up in a time of so many ns, by counters alone: whom it waited for, the longest first. Whether that
/// is more than usual is not known.
pub fn held_up<'a>(
    charged: impl IntoIterator<Item = (Resource, ChargedCulprit<'a>)>,
    span_ns: u64,
) -> Vec<Finding> {
    let finding = |(resource, one): (Resource, ChargedCulprit<'_>)| Finding {
        victim: None,
        resource: Account::of_charge(resource, one.cause, one.name),
        culprit: culprit(&one),
        ns: one.ns,
        share: (one.ns as f64 / span_ns.max(1) as f64).min(1.0),
        usual_ns: None,
        unusual: None,
        since_ns: None,
        evidence: Evidence::Counters,
        remedies: Vec::new(),
        next: None,
    };
    let mut findings: Vec<Finding> = charged.into_iter().map(finding).collect();
    findings.sort_by_key(|one| Reverse(one.ns));
    findings.truncate(MOST);
    findings
}

#[cfg(test)]
mod tests;
