//! PURE: what a victim waited for memory, as a verdict is made of it: by the pressure of its cgroup, and the limits that
//! were hit meanwhile.

use noise_model::pressure::Pressure;
use noise_verdict::{Account, Accounts, CulpritLoss, Evidence, Shortage};

use super::counted::Counted;
use super::findings::Findings;

/// The pressure of a cgroup that belongs to a victim, as the victim has it: a limit is its own where it is that of
/// the cgroup with this label.
pub fn of_victim(mut pressure: Pressure, label: &str) -> Pressure {
    for limit in pressure.limits.iter_mut().flatten() {
        limit.is_own = limit.of == label;
    }
    pressure
}

impl Findings {
    /// Of what memory was short; `None` where it was not, or that is not known.
    pub fn short(&self) -> Option<Shortage> {
        self.pressure.as_ref().and_then(Shortage::of)
    }

    /// Where memory was short, what it waited for disks was for that, and so was what its threads did to get memory.
    pub fn take_memory(&self, accounts: &mut Accounts) {
        if self.short().is_some() {
            accounts.take(Account::Disk, Account::Memory, accounts.ns(Account::Disk));
            let worked_ns = self.worked_for_memory_ns(accounts, self.span_ns);
            accounts.take(Account::Running, Account::Memory, worked_ns);
        }
    }

    /// How long its threads freed memory or brought it back while they ran, ns: what the cgroup stalled for memory (PSI)
    /// beyond what they slept for that, where that is most of it. Swap in memory (zram) takes time of a CPU and no sleep. The
    /// kernel counts a time once in which several threads stall, so it may be more. Of a process, it counts nothing.
    fn worked_for_memory_ns(&self, accounts: &Accounts, span_ns: u64) -> u64 {
        let stalled_ns = self.stalled_for_memory_ns(span_ns).unwrap_or(0);
        let worked_ns = stalled_ns.saturating_sub(accounts.ns(Account::Memory));
        if worked_ns > stalled_ns / 2 && self.target.pid.is_none() { worked_ns } else { 0 }
    }

    /// How long its cgroup stalled for memory, ns in such a time; `None` where the kernel does not say.
    fn stalled_for_memory_ns(&self, span_ns: u64) -> Option<u64> {
        let pressure = self.pressure.as_ref()?;
        let stalled_ms = pressure.memory.as_ref()?.some.stalled_ms?;
        let read_ns = pressure.span_ns?.max(span_ns).max(1);
        Some((stalled_ms * 1e6 * (span_ns as f64 / read_ns as f64)) as u64)
    }

    /// The same by counters. The kernel slows down by sleeps whose end no disk has a part in, so that where memory was short
    /// all that was slept uninterruptibly was for that, as incidents have it.
    pub fn take_counted_memory(&self, counted: &Counted, accounts: &mut Accounts) {
        self.take_memory(accounts);
        if self.short().is_some() {
            let rest_ns = counted.uninterruptible_ns().saturating_sub(accounts.ns(Account::Memory));
            accounts.take(Account::Unknown, Account::Memory, rest_ns);
            // Running is part of what is unknown here.
            let worked_ns = self.worked_for_memory_ns(accounts, counted.span_ns);
            accounts.take(Account::Unknown, Account::Memory, worked_ns);
        }
    }

    /// Without PSI, no file says how long threads freed memory and brought it back from swap while they ran.
    fn what_is_not_known(&self, short: &Shortage) -> &'static str {
        let swaps = short.limit().is_none_or(|limit| limit.swapped_in != Some(0));
        match self.stalled_for_memory_ns(self.span_ns) {
            None if swaps => " (how long it worked for memory while it ran is not known)",
            _ => "",
        }
    }

    /// What it lost to that.
    pub fn of_memory(&self, accounts: &Accounts) -> Option<CulpritLoss> {
        let (short, ns) = (self.short()?, accounts.ns(Account::Memory));
        let span_ns = self.pressure.as_ref().and_then(|pressure| pressure.span_ns);
        // What was read of a part of the time says nothing of the rest.
        let is_whole = span_ns.is_some_and(|span_ns| span_ns >= self.span_ns);
        (ns > 0).then(|| {
            let who = format!("{}{}", short.words(), self.what_is_not_known(&short));
            let evidence = if is_whole { self.evidence() } else { Evidence::Part };
            CulpritLoss::new(Account::Memory, short.culprit(), ns, Some(who), evidence)
        })
    }
}

#[cfg(test)]
mod tests {
    use noise_model::memory::{LimitHits, LimitKind};
    use noise_model::pressure::{ResourcePressure, Stalled};
    use noise_verdict::{Kind, Verdict};

    use super::*;
    use crate::made::{MS, asleep, setup};

    /// A service that ran 1.5 s of 2 s and slept for no disk, while it stalled for memory so long and hit a limit.
    fn swapping(stalled_ms: Option<f64>) -> Verdict {
        let mut found = asleep(0, 0);
        found.totals_ns = [("running", 1_500 * MS), ("timer", 500 * MS)].into();
        let memory = stalled_ms.map(|ms| ResourcePressure {
            some: Stalled { avg10_percent: 50.0, stalled_ms: Some(ms) },
            full: None,
        });
        let hit = LimitHits {
            of: "nginx.service".to_owned(),
            is_own: true,
            kind: LimitKind::Max,
            bytes: 64 << 20,
            hits: 400,
            refaulted: Some(9_000),
            swapped_in: Some(9_000),
            gone: Some(9_100),
        };
        let (span_ns, limits) = (Some(2_000 * MS), Some(vec![hit]));
        found.pressure = Some(Pressure { span_ns, memory, limits, ..Pressure::default() });
        found.judge("nginx.service", &setup());
        assert_eq!(found.accounts_ns.total_ns(), 2_000 * MS);
        found.verdict.unwrap()
    }

    #[test]
    fn swap_in_memory_takes_cpu_time_that_is_lost_to_memory() {
        let verdict = swapping(Some(1_200.0));
        let expected = "nginx.service waited 1.20 s for memory, because of its own memory limit of 64 MiB, which put pages \
                        into swap that it needed again";
        assert_eq!((verdict.kind, &*verdict.sentence), (Kind::HeldUp, expected));
        let first = &verdict.findings[0];
        assert_eq!((first.resource, first.ns, first.unusual), (Account::Memory, 1_200 * MS, None));
        // It stalled too little for memory to be short.
        assert_eq!(swapping(Some(5.0)).kind, Kind::Nothing);
    }

    #[test]
    fn without_psi_it_is_not_known_what_swap_took_while_it_ran() {
        let mut found = asleep(0, 0);
        found.pressure = Some(Pressure::default());
        assert!(found.what_is_not_known(&Shortage::Unknown).contains("is not known"));
        assert_eq!(found.worked_for_memory_ns(&Accounts::default(), found.span_ns), 0);
    }
}
