//! The calls that events are about, by the names that tracers give to these events.

use noise_common::store::calls::CallInfo;

/// The call whose begin (`true`) or end an event of this name is, by the names that LTTng and ftrace give to these events. The
/// call's name is empty where older ones of LTTng and `raw_syscalls` leave it out, at ends. `sys_exit` counts as such a one,
/// though in LTTng 2.0 it is the begin of exit(2).
pub fn call_name(name: &str) -> Option<(&str, bool)> {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let begins = |prefix| name.strip_prefix(prefix).map(|call| (call, true));
    let ends = |prefix| name.strip_prefix(prefix).map(|call| (call, false));
    match name {
        "exit_syscall" | "sys_exit" => Some(("", false)),
        // LTTng 2.0 has it for the begin of that call, which has no end.
        "sys_exit_group" => begins("sys_"),
        _ => begins("syscall_entry_")
            .or_else(|| ends("syscall_exit_"))
            .or_else(|| begins("sys_enter_"))
            .or_else(|| ends("sys_exit_"))
            .or_else(|| begins("sys_")),
    }
}

/// The call that an event of this name begins (`true`) or ends, if it is one of those that are followed. `sys_exit` begins
/// exit(2), unless its fields say otherwise.
pub fn edge(name: &str) -> Option<(&'static CallInfo, bool)> {
    let is_exit = matches!(name, "sys_exit" | "compat_sys_exit");
    let (call, begins) = if is_exit { ("exit", true) } else { call_name(name)? };
    Some((CallInfo::named(call)?, begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_and_ends_are_known_by_the_names_of_all_tracers() {
        let found = |name: &str| edge(name).map(|(info, begins)| (info.name, begins));
        for (name, expected) in [
            ("syscall_entry_recvfrom", Some(("recvfrom", true))),
            ("syscall_exit_futex", Some(("futex", false))),
            ("compat_syscall_entry_read", Some(("read", true))),
            ("sys_enter_read", Some(("read", true))),
            ("sys_exit_read", Some(("read", false))),
            ("sys_read", Some(("read", true))),
            ("sys_exit_group", Some(("exit_group", true))),
            ("sys_exit_exit_group", Some(("exit_group", false))),
            ("exit_syscall", None),
            ("sys_exit", Some(("exit", true))),
            ("syscall_entry_openat", None),
            ("sched_switch", None),
        ] {
            assert_eq!(found(name), expected, "{name}");
        }
        assert_eq!(call_name("syscall_entry_openat"), Some(("openat", true)));
        assert_eq!(call_name("exit_syscall"), Some(("", false)));
        assert_eq!(call_name("sys_exit"), Some(("", false)));
        assert_eq!(call_name("sched_switch"), None);
    }
}
