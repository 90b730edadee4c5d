//! The facts that the programs take from the running kernel, and what they mean for each signal.

use std::collections::BTreeMap;
use std::path::Path;

use noise_common::hooks::{HOOKS, Hook};
use noise_common::offsets::{CALL_FIELDS, FIELDS, MISSING};
use noise_common::signals::SignalInfo;

use crate::resolve::OWN_REASON_BITS;
use crate::resolve::cgroup::Hierarchies;

use super::{HookStatus, KernelBtf, KernelError};

/// Values of the object's read-only globals, and the tracepoints that this kernel has.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Global and value; [`MISSING`] where the kernel has no such field.
    pub globals: Vec<(&'static str, u32)>,
    /// Number of arguments of each hook's tracepoint; absent hooks are not listed.
    pub arguments: BTreeMap<Hook, usize>,
    /// Kernel names of the reasons for dropping packets, and of the subsystems that have their own: at the first of
    /// those, which has none.
    pub drop_reasons: BTreeMap<u32, String>,
    /// The hierarchies that the programs take ids of cgroups from.
    pub hierarchies: Hierarchies,
}

impl Facts {
    /// Learns the facts from BTF.
    /// Errors: [`KernelError::TooOld`] where the kernel has no BPF ring buffer.
    pub fn learn(btf: &KernelBtf) -> Result<Self, KernelError> {
        if !btf.enumerators("bpf_map_type").iter().any(|(_, name)| name == "BPF_MAP_TYPE_RINGBUF") {
            return Err(KernelError::TooOld { missing: "BPF ring buffer" });
        }
        let arguments: BTreeMap<Hook, usize> = HOOKS
            .iter()
            .filter_map(|hook| Some((*hook, btf.tracepoint_arguments(hook.tracepoint())?)))
            .filter(|(hook, count)| *hook != Hook::DirtyBalance || dirtied(*count) != MISSING)
            .collect();
        let count = |hook: Hook| arguments.get(&hook).copied().unwrap_or(0);
        let mut globals: Vec<_> = FIELDS
            .iter()
            .map(|field| (field.global, btf.offset(field.container, field.path).unwrap_or(MISSING)))
            .collect();
        let hierarchies = Hierarchies::of_host();
        let has = |present: bool, index: u32| if present { index } else { MISSING };
        globals.extend([
            ("ARG_PREV_STATE", has(count(Hook::SchedSwitch) > 3, 3)),
            ("ARG_REQUEST", u32::from(count(Hook::BlockIssue) == 2)),
            ("ARG_DROP_REASON", has(count(Hook::FreeSkb) > 2, 2)),
            ("ARG_RETRANSMIT_ERROR", has(count(Hook::TcpRetransmit) > 2, 2)),
            ("ARG_DIRTIED", dirtied(count(Hook::DirtyBalance))),
            // With it a spinlock is a mutex.
            ("PREEMPT_RT", has(btf.offset("spinlock", "lock").is_some(), 1)),
            ("TASK_IN_IOWAIT", btf.bit("task_struct", "in_iowait").unwrap_or(MISSING)),
            ("CPU_CSS", hierarchies.by_cpu.then(|| cpu_css(btf)).flatten().unwrap_or(MISSING)),
            ("BOTH_TREES", has(hierarchies.unified_tasks.is_some(), 1)),
            ("HOST_NETNS", host_netns()),
        ]);
        Ok(Self { globals, arguments, drop_reasons: drop_reasons(btf), hierarchies })
    }

    /// What events of system calls lack on this kernel.
    pub fn missing_of_calls(&self) -> Vec<&'static str> {
        let is_missing = |global: &&str| self.globals.contains(&(*global, MISSING));
        let lacking = CALL_FIELDS.iter().filter(|(fields, _)| fields.iter().any(is_missing));
        lacking.map(|(_, what)| *what).collect()
    }

    /// Fields of a signal that this kernel does not have. Of two spellings of one field, either will do.
    pub fn missing_fields(&self, info: &SignalInfo) -> Vec<&'static str> {
        info.fields
            .iter()
            .filter(|field| self.globals.contains(&(**field, MISSING)))
            .filter_map(|field| FIELDS.iter().find(|known| known.global == *field))
            .map(|field| field.path)
            .collect()
    }
}

/// Index of the argument of `balance_dirty_pages` that counts the pages: three more follow. One of another form than these two
/// is not used.
fn dirtied(arguments: usize) -> u32 {
    match arguments {
        8 => 4,
        12 => 8,
        _ => MISSING,
    }
}

/// Offset in `css_set` of the `cpu` controller's state.
fn cpu_css(btf: &KernelBtf) -> Option<u32> {
    let subsystems = btf.enumerators("cgroup_subsys_id");
    let (index, _) = subsystems.iter().find(|(_, name)| name == "cpu_cgrp_id")?;
    Some(btf.offset("css_set", "subsys")? + index * size_of::<u64>() as u32)
}

/// Inode number of the network namespace that counts as the host's: that of process 1 where it
/// can be read, else this process' own.
fn host_netns() -> u32 {
    let inode = |path: &str| -> Option<u32> {
        let link = std::fs::read_link(Path::new(path)).ok()?;
        link.to_str()?.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
    };
    inode("/proc/1/ns/net").or_else(|| inode("/proc/self/ns/net")).unwrap_or(0)
}

/// Names of reasons, and of the subsystems that have reasons of their own, which those count in the lower
/// [`OWN_REASON_BITS`].
fn drop_reasons(btf: &KernelBtf) -> BTreeMap<u32, String> {
    let reasons = btf.enumerators("skb_drop_reason").into_iter().map(|(value, name)| {
        let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(&name);
        (value, name.strip_prefix("SKB_").unwrap_or(name).to_lowercase())
    });
    let subsystems = btf.enumerators("skb_drop_reason_subsys").into_iter();
    let subsystems = subsystems.filter(|(value, _)| *value != 0).map(|(value, name)| {
        let name = name.strip_prefix("SKB_DROP_REASON_SUBSYS_").unwrap_or(&name);
        (value << OWN_REASON_BITS, name.to_lowercase())
    });
    subsystems.chain(reasons).collect()
}

/// Whether a signal is measured on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalState {
    /// All that it needs is attached.
    Active,
    /// It cannot be measured; why.
    Absent(String),
}

/// Whether a signal can be measured with these hooks attached.
pub fn signal_state(info: &SignalInfo, facts: &Facts, hooks: &[HookStatus]) -> SignalState {
    let missing = facts.missing_fields(info);
    if !missing.is_empty() {
        return SignalState::Absent(format!("this kernel has no {}", missing.join(", ")));
    }
    let detached: Vec<&str> = info
        .hooks
        .iter()
        .filter(|hook| !hooks.iter().any(|known| known.hook == **hook && known.is_attached()))
        .map(|hook| hook.tracepoint())
        .collect();
    if detached.is_empty() {
        SignalState::Active
    } else {
        SignalState::Absent(format!("not attached: {}", detached.join(", ")))
    }
}
