//! What a test could leave behind on the machine, so that leaving it is a failure.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::ftrace;
use crate::group::own_groups;

/// Things on the machine, by description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings(BTreeSet<String>);

fn names(directory: &str) -> Result<Vec<String>> {
    fs::read_dir(directory)
        .with_context(|| format!("listing {directory}"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

impl Surroundings {
    /// Looks around.
    pub fn look() -> Result<Self> {
        let mut found = BTreeSet::new();
        for thread in names("/proc/self/task")? {
            let children = fs::read_to_string(format!("/proc/self/task/{thread}/children"))?;
            for child in children.split_whitespace() {
                let command =
                    fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
                found.insert(format!("process {child} {}", command.replace('\0', " ")));
            }
        }
        for disk in names("/sys/block")? {
            if Path::new(&format!("/sys/block/{disk}/loop/backing_file")).exists() {
                found.insert(format!("attached device {disk}"));
            }
        }
        for interface in names("/sys/class/net")? {
            found.insert(format!("network interface {interface}"));
        }
        for line in fs::read_to_string("/proc/self/mounts")?.lines() {
            found.insert(format!("mount {line}"));
        }
        let own = format!("noised-test-{}", std::process::id());
        for file in names(&std::env::temp_dir().to_string_lossy())? {
            if file.starts_with(&own) {
                found.insert(format!("temporary file {file}"));
            }
        }
        for group in own_groups()? {
            found.insert(format!("cgroup {}", group.display()));
        }
        for instance in ftrace::own_instances()? {
            found.insert(format!("trace instance {instance}"));
        }
        Ok(Self(found))
    }

    /// Compares with what there is now.
    ///
    /// # Errors
    /// If something is there that was not, or the other way round.
    pub fn ensure_unchanged(&self) -> Result<()> {
        let now = Self::look()?;
        let left: Vec<_> = now.0.difference(&self.0).collect();
        let gone: Vec<_> = self.0.difference(&now.0).collect();
        if left.is_empty() && gone.is_empty() {
            return Ok(());
        }
        bail!("the test left behind {left:?} and took away {gone:?}")
    }
}
