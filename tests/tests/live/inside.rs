//! What no figure of the daemon shows by itself, asked of its own code on this kernel.

use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use noise_host::collect::live;
use noise_host::kernel::KernelBtf;

use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "members_are_found_through_anonymous_and_named_ones",
        members_are_found_through_anonymous_and_named_ones,
    ),
    ("a_subject_stays_where_its_window_is_open", a_subject_stays_where_its_window_is_open),
    ("every_entry_is_read_once", every_entry_is_read_once),
];

fn members_are_found_through_anonymous_and_named_ones() -> Result<()> {
    let path = Path::new(KernelBtf::PATH);
    ensure!(path.exists(), Impossible(format!("this kernel has no {}", path.display())));
    let btf = KernelBtf::read(path)?;
    ensure!(btf.offset("task_struct", "pid").is_some(), "no pid");
    // Inside an anonymous union of an anonymous struct, and inside a typedef'd struct.
    ensure!(btf.offset("sk_buff", "dev").is_some(), "no dev");
    ensure!(btf.offset("net_device", "nd_net.net").is_some(), "no nd_net.net");
    ensure!(btf.offset("task_struct", "no_such_member").is_none(), "a member that is not there");
    ensure!(btf.offset("no_such_struct", "pid").is_none(), "a struct that is not there");
    let count = btf.tracepoint_arguments("sched_switch").context("no sched_switch")?;
    ensure!(count >= 3, "sched_switch has {count} arguments");
    let none = btf.tracepoint_arguments("no_such_tracepoint");
    ensure!(none.is_none(), "a tracepoint that is not there");
    let kinds = btf.enumerators("bpf_map_type");
    ensure!(kinds.iter().any(|(_, name)| name.contains("RINGBUF")), "no ring buffers: {kinds:?}");
    Ok(())
}

/// In a thread of its own, which it binds to a CPU.
fn a_subject_stays_where_its_window_is_open() -> Result<()> {
    match thread::spawn(live::a_subject_stays_where_its_window_is_open).join() {
        Ok(outcome) => outcome,
        Err(_) => bail!("it panicked"),
    }
}

fn every_entry_is_read_once() -> Result<()> {
    live::every_entry_is_read_once()?;
    Ok(())
}
