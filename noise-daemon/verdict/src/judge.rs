//! From accounts to a verdict: what was lost to whom, whether that is unusual, and what deserves a command.
//!
//! A sleep is a finding where it is known that there was work meanwhile: for a lock, for who was asked. What a program
//! sleeps on its own timers is a finding, but not a delay. The sentence names all other sleeps without a judgement.
//!
//! What is usual of sleeps is not known, so they are where the time goes, and not what is wrong: a service that asks another one
//! waits for it, every day. They stand behind what is unusual, and a verdict that begins with one has no command.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noise_common::charge::Cause;
use noise_common::remedy::{Remedy, against};
use noise_common::signals::Signal;
use noise_model::labels::ROOT;
use noise_model::setup::CgroupSetup;
use serde::Serialize;

use crate::account::{ACCOUNTS, Account, Accounts};
use crate::advice::{Advice, advise, argument};
use crate::case::{Case, CulpritLoss, Reply};
use crate::finding::{Culprit, CulpritKind, Evidence, Finding};
use crate::kind::Kind;
use crate::words;

/// Least share of what is lost, from which on it is worth a command where what is usual is not known.
const LEAST_SHARE: f64 = 0.05;
/// Least part of what is lost of a resource, of another cgroup that deserves a command: one of many that take a
/// little each is a bystander.
const LEAST_OF_RESOURCE: f64 = 0.25;
/// From so many times what is usual on, it is unusual.
const UNUSUAL_TIMES: f64 = 1.5;
/// Findings that are kept.
const MOST: usize = 16;
/// What to look at where no limit is what memory is short of.
pub(crate) const USES_MEMORY: &str =
    "see what uses the memory of this host: systemd-cgtop --order=memory";

/// What held a victim up, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub kind: Kind,
    pub sentence: String,
    /// The part of the threads' time of which it is known what it was spent on, 0 to 1.
    pub known_share: f64,
    /// Each loss: first those that are unusual and much of its work, and of these and the rest, what is most beyond the usual.
    pub findings: Vec<Finding>,
    /// What to look at next, a sentence, where there is no remedy.
    pub next: Option<String>,
    /// Whether it slept longer than anything held it up, and it is not known whether there was work meanwhile.
    #[serde(skip)]
    pub is_unclear: bool,
}

impl Verdict {
    /// The remedy that this host has commands for, of the first finding that has one.
    pub fn ready(&self) -> Option<&Advice> {
        let remedies = self.findings.iter().flat_map(|finding| &finding.remedies);
        remedies.into_iter().find(|advice| !advice.commands.is_empty())
    }

    /// All remedies, each once.
    pub fn remedies(&self) -> Vec<&Advice> {
        let mut all: Vec<&Advice> = Vec::new();
        for advice in self.findings.iter().flat_map(|finding| &finding.remedies) {
            match all.iter_mut().find(|one| one.remedy == advice.remedy) {
                Some(one) if one.commands.is_empty() => *one = advice,
                Some(_) => {}
                None => all.push(advice),
            }
        }
        all
    }
}

/// What helps against a loss of a resource to a culprit, the least costly first.
fn remedies(resource: Account, culprit: &Culprit) -> &'static [Remedy] {
    let cause = culprit.cause;
    match resource {
        Account::Memory if culprit.kind == CulpritKind::Limit => &[Remedy::MemoryLimits],
        Account::Cpu => Signal::CgroupRunqueueWait.remedies(cause),
        Account::Disk => Signal::BlockQueueWait.remedies(cause),
        Account::Quota | Account::Interrupt | Account::Hypervisor => against(cause),
        _ => &[],
    }
}

/// Whether more is lost of a resource than usual; `None` where its usual is not known.
fn unusual(case: &Case<'_>, resource: Account) -> Option<bool> {
    let (whole_ns, usual_ns) = case.against_usual(resource);
    let usual_ns = usual_ns?;
    let is_more = |ns: u64| ns as f64 >= UNUSUAL_TIMES * usual_ns as f64;
    // The usual is that of two resources: one that is less than that, and the smaller one, is not what grew.
    let is_part = matches!(
        resource,
        Account::Cpu | Account::Quota | Account::Interrupt | Account::Hypervisor
    );
    let own_ns = case.accounts.ns(resource);
    let has_grown = !is_part || is_more(own_ns) || own_ns > whole_ns / 2;
    let is_much = is_more(whole_ns) && has_grown;
    Some(is_much && whole_ns.saturating_sub(usual_ns) >= case.least_ns())
}

/// A loss with what it is ranked by.
struct RankedLoss<'c> {
    loss: &'c CulpritLoss,
    /// How much is usual of the whole resource, ns.
    usual_ns: Option<u64>,
    /// How much of the whole resource is beyond that, ns.
    whole_beyond_ns: u64,
    /// How much of it is beyond that, ns.
    beyond_ns: u64,
    /// Whether the whole resource is.
    unusual: Option<bool>,
    /// The part of the victim's work.
    share: f64,
}

impl<'c> RankedLoss<'c> {
    fn of(case: &Case<'_>, loss: &'c CulpritLoss) -> Self {
        let (whole_ns, usual_ns) = case.against_usual(loss.resource);
        let whole_beyond_ns = whole_ns.saturating_sub(usual_ns.unwrap_or(0));
        let beyond = whole_beyond_ns as f64 / whole_ns.max(1) as f64 * loss.ns as f64;
        Self {
            loss,
            usual_ns,
            whole_beyond_ns,
            beyond_ns: beyond as u64,
            unusual: unusual(case, loss.resource),
            share: loss.ns as f64 / case.work_ns.max(1) as f64,
        }
    }

    /// Whether it is unusual, and much of what the victim had to do: that is before all that may be as usual, however long
    /// it takes. Of a resource that many have a small part in, all parts together count, where nothing else took longer.
    /// What took longest stays there where nothing is known of its usual though that of others is: it was not lost before.
    fn is_grave(&self, case: &Case<'_>) -> bool {
        let is_much = |ns: u64| ns as f64 >= LEAST_SHARE * case.work_ns as f64;
        let lost = ACCOUNTS.into_iter().filter(|one| one.is_active() && *one != Account::Running);
        let longest_ns = lost.map(|one| case.accounts.ns(one)).max().unwrap_or(0);
        let is_longest = case.accounts.ns(self.loss.resource) == longest_ns;
        let beyond_ns = if is_longest { self.whole_beyond_ns } else { self.beyond_ns };
        let is_new = is_longest && !self.loss.resource.is_slept() && !case.usual_ns.is_empty();
        self.unusual.unwrap_or(is_new) && is_much(beyond_ns)
    }

    /// Whether its culprit is one of those that a resource is lost to, and no bystander.
    fn is_main(&self, case: &Case<'_>) -> bool {
        let whole_ns = case.accounts.ns(self.loss.resource);
        self.loss.ns as f64 >= LEAST_OF_RESOURCE * whole_ns as f64
    }

    /// As a finding, in a verdict that has commands or has none.
    fn finding(&self, case: &Case<'_>, has_commands: bool) -> Finding {
        let loss = self.loss;
        let is_other = matches!(loss.culprit.cause, Cause::Foreign | Cause::Writeback);
        // Counters do not say whether the victim waits for what another one does.
        let is_clear = (!is_other || loss.evidence != Evidence::Counters) && self.is_main(case);
        let deserves_command = self.unusual.unwrap_or(self.share >= LEAST_SHARE);
        let remedies = match is_other && loss.works_with_victim {
            true => Vec::new(),
            false => remedies_of(case, loss, has_commands && deserves_command && is_clear),
        };
        Finding {
            victim: None,
            resource: loss.resource,
            culprit: loss.culprit.clone(),
            ns: loss.ns,
            share: self.share.min(1.0),
            usual_ns: self.usual_ns,
            unusual: self.unusual,
            since_ns: None,
            evidence: loss.evidence,
            next: next(loss, &remedies),
            remedies,
        }
    }
}

/// The losses as far as the accounts have them: where events and counters together have more of a resource than was lost of
/// it, each culprit has the same part less.
fn fitted(losses: &[CulpritLoss], accounts: &Accounts) -> Vec<CulpritLoss> {
    let mut sums: BTreeMap<Account, u128> = BTreeMap::new();
    for loss in losses {
        *sums.entry(loss.resource).or_default() += u128::from(loss.ns);
    }
    let mut losses = losses.to_vec();
    for loss in &mut losses {
        let sum_ns = sums.get(&loss.resource).copied().unwrap_or(0);
        let whole_ns = u128::from(accounts.ns(loss.resource));
        if sum_ns > whole_ns {
            let part = |ns: u64| {
                u64::try_from(u128::from(ns) * whole_ns / sum_ns).map_or(ns, |part| part.min(ns))
            };
            loss.ns = part(loss.ns);
            loss.who = loss.who.take().map(|(who, ns)| (who, part(ns)));
        }
    }
    losses
}

/// The losses that are findings, the first of them first.
fn rank<'c>(
    case: &Case<'_>,
    losses: &'c [CulpritLoss],
    held: &[(Account, u64)],
) -> Vec<RankedLoss<'c>> {
    let least_ns = case.least_ns();
    let is_held = |loss: &&CulpritLoss| held.iter().any(|(account, _)| *account == loss.resource);
    let losses = losses.iter().filter(|loss| loss.ns >= least_ns);
    let mut ranked: Vec<RankedLoss<'_>> =
        losses.clone().filter(is_held).map(|loss| RankedLoss::of(case, loss)).collect();
    ranked.sort_by_key(|one| (!one.is_grave(case), Reverse(one.beyond_ns), Reverse(one.loss.ns)));
    others_first(case, &mut ranked);
    // What it sleeps by itself comes behind all that it lost to others.
    let timers = losses.filter(|loss| loss.resource == Account::Timer);
    ranked.extend(timers.map(|loss| RankedLoss::of(case, loss)));
    ranked.truncate(MOST);
    ranked
}

/// A victim that gets less CPU time than before has its own threads queue behind each other, and of a storm of short processes
/// it is not known who had the CPU all the time. Where one of the two is the longest part, but another cgroup had a good part
/// of the CPU too, that cgroup is named first. So is one that left the victim too few CPUs: its threads would not queue behind
/// each other on one if they had the others.
fn others_first(case: &Case<'_>, ranked: &mut [RankedLoss<'_>]) {
    let is = |one: &RankedLoss<'_>, cause| {
        one.loss.resource == Account::Cpu && one.loss.culprit.cause == cause
    };
    let is_other = |one: &RankedLoss<'_>| {
        // Where the victim has more work of its own, another one that has little of what it waited for is a bystander.
        let is_crowding = || {
            let whole_ns = case.accounts.ns(one.loss.resource) as f64;
            let is_much = one.loss.ns as f64 >= LEAST_SHARE * whole_ns;
            one.loss.crowding.is_some() && one.unusual == Some(true) && is_much
        };
        let had_much = one.is_main(case) || is_crowding();
        is(one, Cause::Foreign) && had_much && !one.loss.works_with_victim
    };
    let is_behind = |first: &RankedLoss<'_>| is(first, Cause::Own) || is(first, Cause::Untracked);
    if ranked.first().is_some_and(is_behind)
        && let Some(other) = ranked.iter().position(is_other)
        && let Some(before) = ranked.get_mut(..=other)
    {
        before.rotate_right(1);
    }
}

pub fn judge(case: &Case<'_>) -> Verdict {
    let least_ns = case.least_ns();
    let mut held: Vec<(Account, u64)> = ACCOUNTS
        .into_iter()
        .filter(|account| account.is_active() && *account != Account::Running)
        .map(|account| (account, case.accounts.ns(account)))
        .filter(|(_, ns)| *ns >= least_ns)
        .collect();
    let losses = fitted(&case.losses, &case.accounts);
    let ranked = rank(case, &losses, &held);
    // The sentence begins with what the first finding is about.
    let first = ranked.first().map(|one| one.loss.resource);
    held.sort_by_key(|(account, ns)| (Some(*account) != first, Reverse(*ns)));
    let total_ns = case.accounts.total_ns().max(1);
    let unknown_ns = case.accounts.ns(Account::Unknown);
    let comes = ranked.first().is_none_or(|one| one.loss.reply == Reply::Comes);
    let is_halted = case.standstill.is_whole();
    let kind = match held.first() {
        _ if is_halted => Kind::HeldUp,
        // Counters do not say what it slept for.
        None if unknown_ns >= least_ns
            || case.seen_ns.is_some()
            || case.uninterruptible_ns >= least_ns =>
        {
            Kind::Unknown
        }
        None => Kind::Nothing,
        Some((resource, _)) => match unusual(case, *resource) {
            Some(true) => Kind::HeldUp,
            Some(false) => Kind::AsUsual,
            // That an answer does not come, or is held back, is not usual.
            None if resource.is_slept() && comes => Kind::Unknown,
            None => Kind::HeldUp,
        },
    };
    // No command against others makes one go on that is stopped.
    let has_commands = kind == Kind::HeldUp && !is_halted;
    let finding = |one: &RankedLoss<'_>| one.finding(case, has_commands);
    let findings: Vec<Finding> = ranked.iter().map(finding).collect();
    let losses: Vec<&CulpritLoss> = ranked.iter().map(|one| one.loss).collect();
    let first_next = findings.first().and_then(|first| first.next.clone());
    let longest_held_ns = held.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    Verdict {
        kind,
        is_unclear: !case.unclear_beyond(longest_held_ns).is_empty(),
        sentence: words::sentence(case, &held, &losses, kind),
        next: match kind {
            _ if is_halted => case.standstill.next.clone(),
            Kind::HeldUp => first_next,
            Kind::Unknown => first_next.or_else(|| case.standstill.next.clone()).or_else(|| {
                let longest = case.unclear.iter().max_by_key(|unclear| unclear.ns);
                longest.and_then(|unclear| unclear.next.clone())
            }),
            Kind::AsUsual | Kind::Nothing => None,
        },
        known_share: match case.seen_ns {
            Some(_) if unknown_ns == 0 => 0.0,
            _ => 1.0 - unknown_ns as f64 / total_ns as f64,
        },
        findings,
    }
}

/// Puts remedies that need another kernel command line last: where there is nothing else to do first, they are left out.
pub(crate) fn in_order(advice: &mut Vec<Advice>) {
    let needs_boot = |one: &Advice| matches!(one.remedy, Remedy::IsolatedCpus);
    advice.sort_by_key(needs_boot);
    if advice.first().is_some_and(needs_boot) {
        advice.clear();
    }
}

/// The remedies against one loss, as they apply here.
fn remedies_of(case: &Case<'_>, loss: &CulpritLoss, deserves_command: bool) -> Vec<Advice> {
    let mut remedies = remedies(loss.resource, &loss.culprit).to_vec();
    remedies.retain(|remedy| remedy.is_against(&loss.culprit.name));
    // What is known of another culprit says nothing of this one.
    let mut setup = case.setup.clone();
    if !loss.is_set_up {
        // Of the root cgroup its name is enough.
        let root = (loss.culprit.name == ROOT).then(|| CgroupSetup::named(ROOT));
        (setup.culprit, setup.siblings) = (root, None);
    }
    setup.is_own = loss.culprit.cause == Cause::Own;
    if setup.interrupt.as_ref() != Some(&loss.culprit.name) {
        (setup.interrupt, setup.irqs) = (None, Vec::new());
    }
    let mut advice = advise(&remedies, &setup);
    if !deserves_command {
        for one in &mut advice {
            (one.commands, one.undo) = (Vec::new(), Vec::new());
        }
    }
    in_order(&mut advice);
    advice
}

/// Where nothing is to be done here: what to look at.
fn next(loss: &CulpritLoss, remedies: &[Advice]) -> Option<String> {
    if remedies.iter().any(|one| !one.commands.is_empty()) {
        return None;
    }
    let tid = loss.culprit.tid;
    match loss.resource {
        Account::Network if loss.reply == Reply::HeldBack => {
            return Some(
                "send each message in one write, or set TCP_NODELAY in the program that sends it in parts"
                    .to_owned(),
            );
        }
        Account::Tier if loss.reply == Reply::Never => {
            return Some(format!(
                "see which server has {} (ss -lunp), and what it waits for: noised why PID",
                loss.culprit.name
            ));
        }
        Account::Tier => return asked(loss),
        Account::Lock => {
            return tid.map(|tid| format!("see what thread {tid} does: noised why {tid}"));
        }
        Account::Network if loss.culprit.kind == CulpritKind::None => {
            return Some(format!(
                "see where {} leads: it may be translated to a process of this host (conntrack -L, iptables-save, nft list \
                 ruleset)",
                loss.culprit.name
            ));
        }
        Account::Network => {
            return Some(format!(
                "look at what {} did: it is seen on its host alone",
                loss.culprit.name
            ));
        }
        Account::Memory if loss.culprit.kind == CulpritKind::None => {
            return Some(USES_MEMORY.to_owned());
        }
        Account::Timer => return None,
        Account::Interrupt => {
            return Some(
                "see which device or program causes them: noised top --screen irq".to_owned(),
            );
        }
        Account::Hypervisor => {
            return Some(
                "ask who runs the host for CPU time that is guaranteed, or move to another host"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let Culprit { cause, name, .. } = &loss.culprit;
    if *cause == Cause::Kthread {
        // It frees memory for those that want some.
        let reclaims = name.starts_with("kswapd");
        let look = || Some(format!("see what {name} does: noised why {}", tid?));
        return if reclaims { Some(USES_MEMORY.to_owned()) } else { look() };
    }
    let (name, look) = match (cause, &loss.culprit.cgroup, loss.culprit.pid) {
        (Cause::Foreign | Cause::Writeback, Some(cgroup), _) => (cgroup, argument(cgroup)),
        (Cause::Foreign, None, Some(pid)) if pid > 0 => (name, pid.to_string()),
        _ => return None,
    };
    let look = format!("noised why {look}");
    Some(match loss.works_with_victim {
        true => {
            format!(
                "{name} and the victim wait for each other's work: to slow it down helps neither ({look})"
            )
        }
        false => format!("see what {name} does: {look}"),
    })
}

/// Whom to ask about a tier that was slow.
fn asked(loss: &CulpritLoss) -> Option<String> {
    let Culprit { cgroup, name, pid, tid, .. } = &loss.culprit;
    match (cgroup, pid.or(*tid)) {
        (Some(cgroup), _) => Some(format!("ask {cgroup}: noised why {}", argument(cgroup))),
        (None, Some(id)) => Some(format!("ask {name}: noised why {id}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
