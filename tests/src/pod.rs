//! A container of a pod as kubelet and a runtime leave it on a node: cgroups, and the names of its logs, which only the
//! daemon sees that [`Pod::start_daemon`] starts.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::daemon::Daemon;
use crate::group::{Group, Hierarchy};
use crate::scratch::Folder;

/// Its namespace, name and the name of its container.
pub const POD: [&str; 3] = ["shop", "front-7d9f", "nginx"];
const UID: &str = "c0ffee00-1234-5678-9abc-def012345678";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The pod, gone when dropped. Its processes have to end before.
#[derive(Debug)]
pub struct Pod {
    container: Group,
    // Inner ones go before outer ones.
    _outer: [Group; 3],
    logs: Folder,
}

impl Pod {
    /// Makes one. Nothing runs in it.
    /// Errors: if this host does not let us make cgroups.
    pub fn new() -> Result<Self> {
        let logs = Folder::new("logs")?;
        let [namespace, pod, container] = POD;
        let entries = [
            format!("pods/{namespace}_{pod}_{UID}"),
            format!("containers/{pod}_{namespace}_{container}-{ID}.log"),
        ];
        for entry in entries {
            fs::create_dir_all(logs.path().join(entry))?;
        }
        let root = Group::new("node", &[Hierarchy::Cpu])?;
        let kubepods = root.inner("kubepods")?;
        let pod = kubepods.inner(&format!("pod{UID}"))?;
        let container = pod.inner(ID)?;
        Ok(Self { container, _outer: [pod, kubepods, root], logs })
    }

    /// The cgroup of its container.
    pub fn group(&self) -> &Group {
        &self.container
    }

    /// A daemon that sees the names of its logs, with further options.
    /// Errors: if it does not start.
    pub fn start_daemon(&self, options: &[&str]) -> Result<Daemon> {
        let (daemon, address) = Daemon::command(options)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.args([r#"mount --bind "$0" /var/log && exec "$@""#, self.logs.argument()?]);
        command.arg(daemon.get_program()).args(daemon.get_args());
        Daemon::start_command(command, address)
    }
}
