//! PURE: causes and culprits in words for people.

use noise_common::charge::{CHARGE_CAUSES, Cause};

use crate::labels::{GONE, OTHER, UNKNOWN_LABEL, spoken_briefly};

/// A cause as people say it.
pub fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::Foreign => "another cgroup",
        Cause::Own => "its own work",
        Cause::Kthread => "kernel thread",
        Cause::Hardirq => "interrupt",
        Cause::Softirq => "softirq",
        Cause::Nmi => "NMI",
        Cause::Throttle => "its CPU quota",
        Cause::Steal => "hypervisor",
        Cause::Idle => "idle CPU",
        Cause::Iowait => "I/O wait",
        Cause::Writeback => "dirty pages",
        Cause::Untracked => "not known",
    }
}

/// The same in fewer columns, beside a name.
pub fn why_briefly(cause: Cause) -> &'static str {
    match cause {
        Cause::Own => "self",
        other => why(other),
    }
}

/// A culprit in few columns: what stands for several, or has no name, in words.
pub fn culprit_briefly(cause: Cause, name: &str) -> &str {
    match (cause, name) {
        (of_cgroup, own) if of_cgroup.is_of_cgroup() => spoken_briefly(own),
        (Cause::Kthread, GONE) => "ended threads",
        (Cause::Kthread, UNKNOWN_LABEL) => "unnamed thread",
        (Cause::Hardirq | Cause::Softirq | Cause::Nmi, UNKNOWN_LABEL) => "unnamed source",
        (_, OTHER) => "small others",
        (_, own) => own,
    }
}

/// A cause as people say it, by its name in metrics and documents.
pub fn why_named(name: &str) -> &str {
    CHARGE_CAUSES.into_iter().find(|cause| cause.name() == name).map_or(name, |cause| why(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_of_its_own_is_said_in_words() {
        assert_eq!(culprit_briefly(Cause::Foreign, "/"), "root cgroup");
        assert_eq!(culprit_briefly(Cause::Own, "web"), "web");
        for cause in CHARGE_CAUSES {
            for name in ["~gone", "~unknown", "~other"] {
                let words = culprit_briefly(cause, name);
                let is_said = matches!(
                    cause,
                    Cause::Throttle | Cause::Steal | Cause::Idle | Cause::Iowait | Cause::Untracked
                );
                assert!(is_said || name == "~gone" || !words.contains('~'), "{cause:?} {words}");
            }
        }
    }
}
