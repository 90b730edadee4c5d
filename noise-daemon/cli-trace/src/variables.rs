//! The variables at which paths wait: looked up in processes of a recording that still run on this host.

use std::collections::BTreeMap;

use noise_paths::document::Traced;
use noise_paths::document::name_variables;
use noise_system::procfs;
use noise_system::variables::Variables;

/// Units of `starttime` in `/proc/PID/stat` (`USER_HZ`), ns.
const TICK_NS: u64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Names the variables in paths of a recording with that environment.
pub fn name(executions: &mut [Traced], environment: &BTreeMap<String, String>) {
    let own = procfs::text("/proc/sys/kernel/hostname").unwrap_or_default();
    if environment.get("hostname").is_none_or(|host| host != own.trim_end()) {
        return;
    }
    let Some(boot_ns) = procfs::text("/proc/stat").ok().and_then(|stat| boot_ns(&stat)) else {
        return;
    };
    let mut variables = Variables::default();
    name_variables(executions, |pid, address, at_ns| {
        let begun = || since_boot_ns(&procfs::bytes(format!("/proc/{pid}/stat")).ok()?);
        let begin_ns = begun()?;
        // One that began later has the id of a process that is gone. When the host booted is known to a second.
        if boot_ns.saturating_add(begin_ns) > at_ns.saturating_sub(SECOND_NS) {
            return None;
        }
        variables.at(pid, address).filter(|_| begun() == Some(begin_ns))
    });
}

/// When the host booted, nanoseconds since 1970.
fn boot_ns(stat: &str) -> Option<u64> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    seconds.trim().parse::<u64>().ok()?.checked_mul(1_000_000_000)
}

/// When a process began.
fn since_boot_ns(stat: &[u8]) -> Option<u64> {
    procfs::stat_fields(stat)?.nth(19)?.parse::<u64>().ok()?.checked_mul(TICK_NS)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use noise_paths::document::Segment;
    use noise_paths::link::ThreadLink;
    use noise_paths::via::ViaKind;

    use super::*;

    static TABLE_LOCK: AtomicU32 = AtomicU32::new(1);

    /// The name of that lock in a recording of that host, in which it was waited for from then on.
    fn named(host: &str, from_ns: u64) -> Option<String> {
        let address = std::ptr::from_ref(&TABLE_LOCK).addr();
        let link = ThreadLink {
            kind: ViaKind::Futex,
            process: Some(std::process::id().cast_signed()),
            address: Some(format!("{address:#x}")),
            ..ThreadLink::default()
        };
        let part = Segment { via: Some(Arc::new(link)), from_ns, ..Segment::default() };
        let mut executions = [Traced { path: vec![part], ..Traced::default() }];
        name(&mut executions, &[("hostname".to_owned(), host.to_owned())].into());
        executions[0].path[0].via.as_ref().unwrap().symbol.clone()
    }

    #[test]
    fn variables_are_those_of_processes_that_were_there() {
        let own = procfs::text("/proc/sys/kernel/hostname").unwrap();
        let found = named(own.trim_end(), u64::MAX).unwrap();
        assert!(found.contains("TABLE_LOCK"), "{found}");
        assert_eq!(named("another host", u64::MAX), None);
        // This process was not there yet.
        assert_eq!(named(own.trim_end(), 1), None);
    }
}
