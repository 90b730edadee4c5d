//! The machine that the numbers were measured on.

use std::fs;

use serde::Serialize;

/// What decides how fast a machine is, as far as one line can tell.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: usize,
    /// Model of the first CPU.
    pub cpu_model: String,
    /// Whether it is a virtual machine, as far as the CPU tells.
    pub virtual_machine: bool,
}

impl Machine {
    /// This one. What cannot be read is `unknown`.
    pub fn this() -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim())
        };
        let known = |text: &str| {
            if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
        };
        Self {
            kernel: known(kernel.trim()),
            cpus: crate::task::cpus(),
            cpu_model: known(field("model name").unwrap_or_default()),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}
