//! Events that are known by their names alone.

/// Whether an event is the begin or end of a system call, by LTTng's names of all versions.
pub fn is_system_call(name: &str) -> bool {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    ["syscall_", "sys_", "exit_syscall"].iter().any(|begin| name.starts_with(begin))
}

/// Whether it is the begin of the one that locks are made with.
pub fn is_entry_of_futex(name: &str) -> bool {
    name.ends_with("_futex") && !name.contains("exit")
}

/// LTTng's events around the function that hands packets up, whatever version: its name began with `netif` or
/// `net_if` over the years.
pub fn is_reception(name: &str) -> bool {
    let rest =
        name.strip_prefix("netif_receive_skb").or_else(|| name.strip_prefix("net_if_receive_skb"));
    rest.is_some_and(|rest| ["_entry", "_exit", "_return"].iter().any(|edge| rest.ends_with(edge)))
}
