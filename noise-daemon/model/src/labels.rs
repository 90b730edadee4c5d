//! PURE: label values that are no names of their own. All begin with `~`, as no name does.

/// Of what is folded together.
pub const OTHER: &str = "~other";
/// Of a cgroup or kernel thread that was gone before its name was looked up.
pub const GONE: &str = "~gone";
/// Of what the programs could not identify.
pub const UNKNOWN_LABEL: &str = "~unknown";
/// Of a process that is watched apart from the others of its cgroup.
pub const WATCHED_LABEL: &str = "~task";
