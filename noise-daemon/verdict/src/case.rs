//! What a verdict is made of.

use std::collections::BTreeMap;

use noise_model::setup::Setup;

use crate::account::{Account, Accounts};
use crate::finding::{Culprit, Evidence};

/// Least part of the time that is worth a word.
const LEAST_PART: f64 = 0.01;
/// The part of the time from which on a thread that runs is at the limit of one CPU.
const ALL_THE_TIME: f64 = 0.95;

/// What is known of an answer that was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// It comes; that it takes long may be as usual.
    #[default]
    Comes,
    Never,
    /// TCP held back packets between the two until one was acknowledged, which came late: by a timer.
    HeldBack,
}

/// What was lost to one culprit.
#[derive(Clone, Debug, PartialEq)]
pub struct CulpritLoss {
    pub resource: Account,
    pub culprit: Culprit,
    /// For how long, ns.
    pub ns: u64,
    /// What had most of that, as the sentence names it, and for how long, ns; of memory, why it was short. `None`
    /// where the sentence names nothing.
    pub who: Option<(String, u64)>,
    /// Of a lock: which one, as the sentence goes on (`at the futex table_lock`), where that is known.
    pub at: Option<String>,
    /// What the time rests on.
    pub evidence: Evidence,
    /// Whether the victim waits for what the culprit does, or the culprit for the victim: one of them is the other's
    /// client, and to slow it down helps neither.
    pub works_with_victim: bool,
    /// Whether the culprit of [`Case::setup`] is this one.
    pub is_set_up: bool,
    /// Of a culprit that the victim's threads wait for a CPU behind: the part of all CPU time that it had, 0 to 1, if next to no
    /// CPU was idle, and it had more than the victim. `None` otherwise.
    pub crowding: Option<f64>,
    /// Of a culprit that was asked: what became of the answer.
    pub reply: Reply,
}

impl CulpritLoss {
    /// One to a culprit that does not work with the victim, and is not that of [`Case::setup`]; `who` had all of it.
    pub fn new(
        resource: Account,
        culprit: Culprit,
        ns: u64,
        who: Option<String>,
        evidence: Evidence,
    ) -> Self {
        Self {
            resource,
            culprit,
            ns,
            who: who.map(|who| (who, ns)),
            at: None,
            evidence,
            works_with_victim: false,
            is_set_up: false,
            crowding: None,
            reply: Reply::Comes,
        }
    }
}

/// Sleeps of which it is not known whether there was work meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// What ended them, as the sentence goes on: `until packets arrived`.
    pub until: String,
    /// For how long, ns: part of [`Account::Unknown`].
    pub ns: u64,
    /// What to look at, a sentence; `None` where that is not known either.
    pub next: Option<String>,
}

/// Threads of the victim that nothing has woken yet, as they are when the verdict is made. Of a time that is long over nothing is
/// known of it, and nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standstill {
    /// Its threads that are there.
    pub threads: usize,
    /// Those that a signal or a debugger has stopped.
    pub stopped: usize,
    /// Those whose cgroup is frozen.
    pub frozen: usize,
    /// Where those sleep that slept uninterruptibly all the time: each place with how many threads, as far as known.
    pub uninterruptible_at: Vec<(String, usize)>,
    /// Where its threads sleep, where all of them slept all the time: each place with how many, as far as known.
    /// `None` where one did something.
    pub asleep_at: Option<Vec<(String, usize)>>,
    /// What to look at, a sentence; `None` where there is nothing.
    pub next: Option<String>,
}

impl Standstill {
    /// Whether none of its threads goes on before somebody lets it.
    pub(crate) const fn is_whole(&self) -> bool {
        self.threads > 0 && self.stopped.saturating_add(self.frozen) >= self.threads
    }
}

/// What is known of a resource beside how much of it is usually lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsualNote {
    /// For how long that has been usual, ns, where it was a disturbance before it was adopted.
    pub adopted_for_ns: Option<u64>,
    /// For how long it has been more than usual, ns, where that is known.
    pub disturbed_for_ns: Option<u64>,
    /// Whether there were more delays than usual.
    pub is_more_often: bool,
}

/// All that a verdict is made of.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The victim's name, as the sentence begins.
    pub victim: &'a str,
    /// The time that is looked at, ns.
    pub span_ns: u64,
    /// What its threads' time was spent on.
    pub accounts: Accounts,
    /// The time that shares are of, ns: that in which the victim had something to do; of counters, which do not say how long it
    /// ran, the time that is looked at.
    pub work_ns: u64,
    /// Of how much of the time there are events, ns, where all else is what counters say; else `None`. Sleeps are
    /// those of this part.
    pub seen_ns: Option<u64>,
    /// Uninterruptible sleeps, whatever ended them, ns.
    pub uninterruptible_ns: u64,
    /// What of these is in the account of locks, ns.
    pub locked_in_kernel_ns: u64,
    /// Who had what was lacking.
    pub losses: Vec<CulpritLoss>,
    /// What it slept for, where it is not known whether there was work for it.
    pub unclear: Vec<Unclear>,
    /// Threads that nothing has woken yet.
    pub standstill: Standstill,
    /// Its thread that ran longest, with how long, ns; `None` where events do not say it.
    pub busiest: Option<(String, u64)>,
    /// What is usually lost in such a time, ns, by resource; none where that is not known. That of [`Account::Cpu`] is
    /// what waits for a CPU take, whatever they are for, quotas included; that of [`Account::Interrupt`] has in it what
    /// the hypervisor takes, and that of [`Account::Disk`] is what uninterruptible sleeps take, those for memory included.
    /// That of [`Account::Memory`] is the same for what memory that is short does: it is not longer sleeps, but more of them.
    pub usual_ns: BTreeMap<Account, u64>,
    /// The same with what is known beside that.
    pub usual_notes: BTreeMap<Account, UsualNote>,
    /// How victim and main culprit are set up.
    pub setup: &'a Setup,
}

impl Case<'_> {
    /// What was lost of a resource as the usual figure has it, and that figure, ns.
    pub(crate) fn against_usual(&self, resource: Account) -> (u64, Option<u64>) {
        let of = |account| self.accounts.ns(account);
        let whole_ns = match resource {
            Account::Cpu | Account::Quota => of(Account::Cpu).saturating_add(of(Account::Quota)),
            Account::Interrupt | Account::Hypervisor => {
                of(Account::Interrupt).saturating_add(of(Account::Hypervisor))
            }
            // What was thrown out for want of memory is waited for as a disk is.
            Account::Disk | Account::Memory => {
                let both_ns = of(Account::Disk).saturating_add(of(Account::Memory));
                // What is mostly slept for something else, as for a server of files, says nothing of them.
                let is_most = both_ns >= self.uninterruptible_ns / 2;
                if is_most { both_ns.max(self.uninterruptible_ns) } else { both_ns }
            }
            other => of(other),
        };
        (whole_ns, self.usual_ns.get(&self.as_what(resource)).copied())
    }

    /// What is known of a resource beside how much of it is usually lost.
    pub(crate) fn usual_note(&self, resource: Account) -> UsualNote {
        self.usual_notes.get(&self.as_what(resource)).copied().unwrap_or_default()
    }

    /// The account that has the usual figure of a resource.
    fn as_what(&self, resource: Account) -> Account {
        match resource {
            Account::Quota => Account::Cpu,
            Account::Hypervisor => Account::Interrupt,
            other => other,
        }
    }

    /// The sleeps of which it is not known whether there was work meanwhile, the longest first, as far as they were longer
    /// than all that held the victim up, ns: where an answer or a lock is what it waits for, it is in here.
    pub(crate) fn unclear_beyond(&self, longest_held_ns: u64) -> Vec<&Unclear> {
        let least_ns = self.least_ns();
        let is_longer = |unclear: &&Unclear| unclear.ns > longest_held_ns && unclear.ns >= least_ns;
        let mut longer: Vec<_> = self.unclear.iter().filter(is_longer).collect();
        longer.sort_by_key(|unclear| std::cmp::Reverse(unclear.ns));
        longer
    }

    /// Its thread that needed a CPU of its own for all of the time.
    pub(crate) fn at_its_limit(&self) -> Option<&(String, u64)> {
        self.busiest.as_ref().filter(|(_, ns)| *ns as f64 >= ALL_THE_TIME * self.span_ns as f64)
    }

    /// The least time that is worth a word, ns.
    pub(crate) fn least_ns(&self) -> u64 {
        ((self.span_ns as f64 * LEAST_PART) as u64).max(1)
    }
}
