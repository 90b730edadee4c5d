//! PURE but for [`Caller::of_process`]: what is missing, why, and what helps.

use std::fmt::Write as _;

use noise_host::kernel::{Capability, KernelError};

/// The process that runs the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub program: String,
    /// Whether it is root: then `sudo` gives nothing that is missing.
    pub is_root: bool,
}

impl Caller {
    pub fn of_process() -> Self {
        let program = std::env::current_exe().map(|path| path.display().to_string());
        Self {
            program: program.unwrap_or_else(|_| "/usr/bin/noised".to_owned()),
            is_root: nix::unistd::geteuid().is_root(),
        }
    }
}

/// Whether the privileges suffice, in a line.
pub fn privileges(missing: &[Capability], error: Option<&KernelError>) -> String {
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    match (error, names.as_slice()) {
        (Some(KernelError::OwnUsers), _) => {
            "missing: CAP_BPF and CAP_PERFMON of the host (those of this user namespace do not count)"
                .to_owned()
        }
        (Some(KernelError::Forbidden(_)), []) => {
            "CAP_BPF and CAP_PERFMON are there, and the kernel refuses bpf(2) nevertheless"
                .to_owned()
        }
        (_, []) => "sufficient".to_owned(),
        (_, names) => format!("missing: {}", names.join(" and ")),
    }
}

/// What it takes to work here; nothing where a sentence of the error says it all.
pub fn advice(error: &KernelError, caller: &Caller) -> String {
    match error {
        KernelError::NotPermitted { missing } => not_permitted(missing, caller),
        KernelError::OwnUsers => listed(
            "Capabilities count for BPF programs in the host's user namespace only.",
            &[
                ("outside of the namespace, as root", format!("sudo {} run", caller.program)),
                (
                    "in a container",
                    "run it rootful, with the host's users (--userns=host)".to_owned(),
                ),
                ("as a service", "PrivateUsers=no in its unit".to_owned()),
            ],
        ),
        _ => String::new(),
    }
}

fn not_permitted(missing: &str, caller: &Caller) -> String {
    let why = format!(
        "It needs {missing}: CAP_BPF creates maps and loads programs, CAP_PERFMON lets them read \
         kernel memory and attach to tracepoints."
    );
    let program = &caller.program;
    let container = "docker run --cap-add=BPF --cap-add=PERFMON --pid=host …".to_owned();
    let helps: &[(&str, String)] = if caller.is_root {
        &[
            ("in a container", container),
            (
                "in a unit of systemd",
                "CapabilityBoundingSet= and AmbientCapabilities= with CAP_BPF CAP_PERFMON"
                    .to_owned(),
            ),
        ]
    } else {
        &[
            ("by hand, as root", format!("sudo {program} run")),
            (
                "as a service, with no other privileges",
                "sudo systemctl enable --now noised".to_owned(),
            ),
            (
                "for every user who may run this file",
                format!("sudo setcap cap_bpf,cap_perfmon=ep {program}"),
            ),
            ("in a container", container),
        ]
    };
    listed(&why, helps)
}

fn listed(why: &str, helps: &[(&str, String)]) -> String {
    let mut text = format!("\n{why}\nOne of these helps:\n");
    let width = helps.iter().map(|(when, _)| when.len()).max().unwrap_or(0);
    for (when, what) in helps {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {when:width$}  {what}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(is_root: bool) -> Caller {
        Caller { program: "/opt/noised".to_owned(), is_root }
    }

    #[test]
    fn what_is_missing_is_said_with_why_and_what_helps() {
        let missing = [Capability::CAP_BPF, Capability::CAP_PERFMON];
        let error = KernelError::NotPermitted { missing: "CAP_BPF and CAP_PERFMON".to_owned() };
        assert_eq!(privileges(&missing, Some(&error)), "missing: CAP_BPF and CAP_PERFMON");
        let text = advice(&error, &caller(false));
        for words in [
            "CAP_BPF creates maps",
            "sudo /opt/noised run",
            "sudo setcap cap_bpf,cap_perfmon=ep /opt/noised",
            "systemctl enable --now noised",
        ] {
            assert!(text.contains(words), "{text}");
        }
        let text = advice(&error, &caller(true));
        assert!(text.contains("--cap-add=BPF") && !text.contains("sudo"), "{text}");
    }

    #[test]
    fn privileges_that_do_not_count_are_not_sufficient() {
        let both = [Capability::CAP_BPF, Capability::CAP_PERFMON];
        let own = Some(&KernelError::OwnUsers);
        assert!(privileges(&both, own).contains("do not count"));
        assert!(advice(&KernelError::OwnUsers, &caller(true)).contains("--userns=host"));
        let forbidden = KernelError::Forbidden("map".to_owned());
        assert!(privileges(&[], Some(&forbidden)).contains("refuses bpf(2)"));
        assert!(forbidden.is_unsupported() && KernelError::OwnUsers.is_unsupported());
        assert_eq!(privileges(&[], None), "sufficient");
        assert_eq!(advice(&KernelError::Lockdown, &caller(false)), "");
    }
}
