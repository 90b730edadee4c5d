//! What a fault took: what the daemon lost by its own account, and what it cost the daemon.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::daemon::Daemon;
use crate::ftrace::blind::hidden_threads;
use crate::prom::Scrape;
use crate::task::status_bytes;

/// A process at one moment, as the kernel accounts for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// CPU time so far, seconds.
    pub cpu_seconds: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// The most that it ever was, or since [`forget_peak`], bytes.
    pub peak_bytes: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

impl Footprint {
    /// Looks at a process.
    /// Errors: if there is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name may contain blanks and parentheses; utime is the twelfth field behind it.
        let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = ticks.sum::<Result<_, _>>()?;
        // SAFETY: no memory argument.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok(Self {
            cpu_seconds: ticks as f64 / per_second as f64,
            resident_bytes: status_bytes(&status, "VmRSS")?,
            peak_bytes: status_bytes(&status, "VmHWM")?,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            threads: threads.context("no Threads")?.trim().parse()?,
        })
    }
}

/// Lets a process' peak memory begin anew.
/// Errors: if there is no such process, or it is not ours to ask.
pub fn forget_peak(pid: u32) -> Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// What the daemon says that it could not count, or not attribute, by `where reason` or `folded
/// metric`.
fn losses(scrape: &Scrape) -> BTreeMap<String, f64> {
    let label = |labels: &BTreeMap<String, String>, name: &str| {
        labels.get(name).cloned().unwrap_or_default()
    };
    let dropped = scrape.series("noised_dropped_total").into_iter().map(|(labels, value)| {
        (format!("{} {}", label(&labels, "where"), label(&labels, "reason")), value)
    });
    let folded = scrape.series("noised_series_folded_total").into_iter();
    let folded =
        folded.map(|(labels, value)| (format!("folded {}", label(&labels, "metric")), value));
    dropped.chain(folded).collect()
}

/// How often the CPU was taken from threads in which this kernel calls no BPF program: the switch to
/// whoever came next was never offered to the daemon.
fn hidden_switches() -> Result<u64> {
    let mut switches = 0;
    for thread in hidden_threads()? {
        // One that ended does not count any more.
        let Ok(status) = fs::read_to_string(format!("/proc/1/task/{thread}/status")) else {
            continue;
        };
        let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
        switches += counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>();
    }
    Ok(switches)
}

/// The daemon before a fault.
#[derive(Debug)]
pub struct Toll {
    hidden: u64,
    pid: u32,
    before: Footprint,
    losses: BTreeMap<String, f64>,
    /// The page before.
    pub scrape: Scrape,
}

/// What a fault took.
#[derive(Clone, Debug)]
pub struct Bill {
    /// What was not counted, or not attributed, by `where reason`, without what is zero.
    pub lost: BTreeMap<String, f64>,
    /// Switches that this kernel offered to no BPF program, so that none could count them.
    pub hidden: u64,
    /// CPU time of the daemon, seconds.
    pub cpu_seconds: f64,
    /// Its resident memory before, at most, and after, bytes.
    pub resident_bytes: [u64; 3],
    /// Its descriptors before and after.
    pub descriptors: [usize; 2],
    /// The page after.
    pub scrape: Scrape,
}

impl Toll {
    /// Looks at a daemon before a fault. Scrapes it twice first, so that its buffers have the size
    /// that they need anyway.
    pub fn begin(daemon: &Daemon) -> Result<Self> {
        daemon.scrape()?;
        let scrape = daemon.scrape()?;
        let pid = daemon.process().pid();
        forget_peak(pid)?;
        let (before, losses) = (Footprint::of(pid)?, losses(&scrape));
        Ok(Self { hidden: hidden_switches()?, pid, before, losses, scrape })
    }

    /// Looks again, and prints what was lost and what it cost.
    /// Errors: if the daemon is not there or does not answer.
    pub fn end(&self, daemon: &Daemon) -> Result<Bill> {
        let scrape = daemon.scrape().context("a scrape after the fault")?;
        let pid = daemon.process().pid();
        ensure!(pid == self.pid, "this is another daemon");
        let after = Footprint::of(pid)?;
        let mut lost = losses(&scrape);
        for (what, count) in &mut lost {
            *count -= self.losses.get(what).copied().unwrap_or_default();
            ensure!(*count >= 0.0, "the counter of {what} ran backwards");
        }
        lost.retain(|_, count| *count > 0.0);
        let bill = Bill {
            lost,
            hidden: hidden_switches()?.saturating_sub(self.hidden),
            cpu_seconds: after.cpu_seconds - self.before.cpu_seconds,
            resident_bytes: [
                self.before.resident_bytes,
                after.peak_bytes.max(after.resident_bytes),
                after.resident_bytes,
            ],
            descriptors: [self.before.descriptors, after.descriptors],
            scrape,
        };
        println!("{bill}");
        Ok(bill)
    }
}

impl Bill {
    /// How often something was not counted for this reason, whatever it was about.
    pub fn dropped(&self, reason: &str) -> f64 {
        let of_reason = |what: &&String| what.split(' ').nth(1) == Some(reason);
        let found = self.lost.iter().filter(|(what, _)| of_reason(what));
        found.map(|(_, count)| count).sum()
    }

    /// Requires that the daemon's memory never grew by more than that.
    /// Errors: if it did.
    pub fn ensure_bounded(&self, growth_bytes: u64) -> Result<()> {
        let [before, peak, _] = self.resident_bytes;
        let grown = peak.saturating_sub(before);
        ensure!(grown <= growth_bytes, "resident memory grew by {grown} bytes");
        Ok(())
    }
}

impl fmt::Display for Bill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost: Vec<String> =
            self.lost.iter().map(|(what, count)| format!("{what} {count}")).collect();
        let lost = if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") };
        let [before, peak, after] = self.resident_bytes.map(|bytes| bytes as f64 / 1_048_576.0);
        let [first, last] = self.descriptors;
        write!(
            formatter,
            "lost: {lost} / cost: {:.2} s of CPU, RSS {before:.1} MiB before, {peak:.1} at most, \
             {after:.1} after, {first} descriptors before, {last} after",
            self.cpu_seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Bill, Footprint, losses};
    use crate::prom::Scrape;

    #[test]
    fn this_process_has_a_footprint() {
        let footprint = Footprint::of(std::process::id()).unwrap();
        assert!(footprint.resident_bytes > 0 && footprint.threads > 0);
        assert!(footprint.peak_bytes >= footprint.resident_bytes / 2);
        assert!(footprint.descriptors >= 3);
    }

    #[test]
    fn a_bill_says_what_was_lost_and_what_it_cost() {
        let page = "# TYPE noised_dropped_total counter\n\
            noised_dropped_total{where=\"net_tx_wait\",reason=\"map_full\"} 7\n\
            noised_dropped_total{where=\"nmi\",reason=\"map_full\"} 2\n\
            # TYPE noised_series_folded_total counter\n\
            noised_series_folded_total{metric=\"m\"} 3\n";
        let scrape = Scrape::parse(page).unwrap();
        let lost = losses(&scrape);
        let bill = Bill {
            lost,
            hidden: 0,
            cpu_seconds: 0.25,
            resident_bytes: [1 << 20, 3 << 20, 2 << 20],
            descriptors: [40, 41],
            scrape,
        };
        assert_eq!(
            bill.to_string(),
            "lost: folded m 3, net_tx_wait map_full 7, nmi map_full 2 / cost: 0.25 s of CPU, RSS \
             1.0 MiB before, 3.0 at most, 2.0 after, 40 descriptors before, 41 after"
        );
        assert!((bill.dropped("map_full") - 9.0).abs() < 1e-9);
        assert!(bill.ensure_bounded(2 << 20).is_ok() && bill.ensure_bounded(1 << 20).is_err());
    }
}
