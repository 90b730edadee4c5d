//! Time that the hypervisor took from each CPU, as `/proc/stat` has it: the guest kernel adds up the
//! paravirtual steal clock, and shows it in clock ticks.

use std::path::Path;

use noise_system::procfs::Reader;

/// Position of `steal` among the numbers of a CPU's line.
const STEAL_AT: usize = 7;

/// Stolen ticks of each CPU, from the text of `/proc/stat`.
fn parse(text: &str) -> impl Iterator<Item = (u32, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The line of all CPUs together has no number.
        let cpu = line.strip_prefix("cpu")?.starts_with(|first: char| first.is_ascii_digit());
        let cpu = if cpu { words.next()?.parse().ok()? } else { return None };
        Some((cpu, words.nth(STEAL_AT)?.parse().ok()?))
    })
}

/// Stolen time of each CPU since boot, ns; empty where the kernel does not say.
pub fn stolen(procfs: &Path, reader: &mut Reader) -> Vec<(u32, u64)> {
    // SAFETY: no preconditions.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let Ok(ticks_per_second) = u64::try_from(ticks_per_second) else { return Vec::new() };
    let tick_ns = 1_000_000_000 / ticks_per_second.max(1);
    let text = reader.read(&procfs.join("stat"));
    parse(&text).map(|(cpu, ticks)| (cpu, ticks.saturating_mul(tick_ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_number_of_each_cpu() {
        let text = "cpu  9 9 9 9 9 9 9 99 9 9\n\
                    cpu0 1 2 3 4 5 6 7 80 9 10\n\
                    cpu12 1 2 3 4 5 6 7 81 9 10\n\
                    intr 5\n";
        assert_eq!(parse(text).collect::<Vec<_>>(), [(0, 80), (12, 81)]);
    }

    #[test]
    fn a_kernel_that_does_not_say() {
        assert_eq!(parse("cpu0 1 2 3 4 5 6 7\ncpu1\ncpux 1\n").count(), 0);
        assert!(stolen("/nonexistent".as_ref(), &mut Reader::default()).is_empty());
    }
}
