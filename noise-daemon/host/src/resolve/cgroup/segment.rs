//! PURE: what the segments of a cgroup's path say by themselves or together with their parent.

use noise_text::clean::is_printable;

noise_common::named! {
    /// Who made a container.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Runtime {
        Docker = "docker",
        /// containerd, on behalf of Kubernetes' kubelet.
        CriContainerd = "cri-containerd",
        /// containerd, on behalf of its own clients.
        Containerd = "containerd",
        CriO = "cri-o",
        Podman = "podman",
        /// LXC, LXD or Incus.
        Lxc = "lxc",
        /// A container for certain, whose path does not name the runtime: several runtimes with the
        /// `cgroupfs` driver use the bare id.
        Unnamed = "container",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Container {
    pub runtime: Runtime,
    /// The whole id, or the name where the runtime goes by names.
    pub id: String,
    /// Whether the cgroup is not the container's but that of the runtime's process beside it, which
    /// watches it (`conmon`, `lxc-start`).
    pub monitor: bool,
}

/// What stands before the id, with a dash between: `docker-<id>.scope`.
const PREFIXES: [(&str, Runtime, bool); 8] = [
    ("docker", Runtime::Docker, false),
    ("cri-containerd", Runtime::CriContainerd, false),
    ("nerdctl", Runtime::Containerd, false),
    ("crio", Runtime::CriO, false),
    ("crio-conmon", Runtime::CriO, true),
    ("libpod", Runtime::Podman, false),
    ("libpod-payload", Runtime::Podman, false),
    ("libpod-conmon", Runtime::Podman, true),
];

/// Namespaces of containerd that its well-known clients use; ids in them may be any name.
const NAMESPACES: [&str; 4] = ["default", "k8s.io", "moby", "buildkit"];

/// Digits of an id in a label, as the runtimes' own listings show it.
const SHORT_ID: usize = 12;
/// Digits of an id that runtimes make up.
const FULL_ID: usize = 64;

impl Container {
    fn new(runtime: Runtime, id: &str, monitor: bool) -> Self {
        Self { runtime, id: id.to_owned(), monitor }
    }

    /// The container that a segment names by itself: `docker-<id>.scope`, `lxc.payload.<name>`.
    pub(super) fn named(segment: &str) -> Option<Self> {
        if let Some(name) = segment.strip_prefix("lxc.payload.").filter(|name| !name.is_empty()) {
            return Some(Self::new(Runtime::Lxc, name, false));
        }
        if let Some(name) = segment.strip_prefix("lxc.monitor.").filter(|name| !name.is_empty()) {
            return Some(Self::new(Runtime::Lxc, name, true));
        }
        if is_id(segment, FULL_ID) {
            return Some(Self::new(Runtime::Unnamed, segment, false));
        }
        let (prefix, id) = segment.strip_suffix(".scope").unwrap_or(segment).rsplit_once('-')?;
        Self::prefixed(prefix, id)
    }

    /// The container of `<slice>:<prefix>:<id>`, with the slice: what runtimes make of a path meant
    /// for systemd when they drive cgroupfs themselves.
    pub(super) fn in_slice(segment: &str) -> Option<(&str, Self)> {
        let (slice, container) = segment.split_once(':')?;
        let (prefix, id) = container.split_once(':')?;
        Some((slice, Self::prefixed(prefix, id)?))
    }

    /// The container that a segment names by standing directly below `parent`.
    pub(super) fn below(parent: &str, segment: &str) -> Option<Self> {
        match parent {
            "docker" => {
                is_id(segment, SHORT_ID).then(|| Self::new(Runtime::Docker, segment, false))
            }
            "lxc" | "lxc.payload" => Some(Self::new(Runtime::Lxc, segment, false)),
            "lxc.monitor" => Some(Self::new(Runtime::Lxc, segment, true)),
            _ => None,
        }
    }

    /// The container of containerd's `/<namespace>/<id>`. The id is unique in its namespace only,
    /// which is why it is part of what is returned.
    pub(super) fn in_namespace(namespace: &str, segment: &str) -> Option<Self> {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        (NAMESPACES.contains(&namespace) && segment.chars().all(allowed))
            .then(|| Self::new(Runtime::Containerd, &format!("{namespace}/{segment}"), false))
    }

    fn prefixed(prefix: &str, id: &str) -> Option<Self> {
        let (_, runtime, monitor) = PREFIXES.iter().find(|(known, ..)| *known == prefix)?;
        is_id(id, SHORT_ID).then(|| Self::new(*runtime, id, *monitor))
    }

    /// How labels name it. Ids are cut, names are not.
    pub(super) fn label(&self) -> String {
        let runtime = self.runtime.name();
        let monitor = if self.monitor { "-monitor" } else { "" };
        let (namespace, id) = match self.id.split_once('/') {
            Some((namespace, id)) if self.runtime == Runtime::Containerd => {
                (format!("{namespace}/"), id)
            }
            _ => (String::new(), self.id.as_str()),
        };
        let id = if is_id(id, FULL_ID) { id.get(..SHORT_ID).unwrap_or(id) } else { id };
        format!("{runtime}{monitor}:{namespace}{id}")
    }
}

/// Whether a text is hexadecimal, of at least that many digits and at most a full id's.
fn is_id(text: &str, at_least: usize) -> bool {
    (at_least..=FULL_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The uid of the pod that a slice of kubelet's `systemd` driver stands for.
pub fn pod_of_slice(segment: &str) -> Option<String> {
    let (parent, uid) = segment.strip_suffix(".slice")?.rsplit_once("-pod")?;
    let parent = ["-burstable", "-besteffort"]
        .iter()
        .find_map(|class| parent.strip_suffix(class))
        .unwrap_or(parent);
    // With kubelet's `--cgroup-root` the name begins with that root's.
    if parent != "kubepods" && !parent.ends_with("-kubepods") {
        return None;
    }
    // A dash would be a level of slices, so kubelet writes underscores.
    pod_uid(&uid.replace('_', "-"))
}

/// The uid of the pod that a folder of kubelet's `cgroupfs` driver stands for.
pub fn pod_of_folder(segment: &str) -> Option<String> {
    pod_uid(segment.strip_prefix("pod")?)
}

/// A UUID, or for pods of files on the node 32 digits.
fn pod_uid(text: &str) -> Option<String> {
    let digit_at = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let uuid = text.len() == 36 && text.bytes().enumerate().all(digit_at);
    let hash = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (uuid || hash).then(|| text.to_owned())
}

/// The types of systemd's units that have cgroups.
const UNIT_TYPES: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];
/// Longest name of a unit in bytes.
const MAX_UNIT: usize = 255;

/// The name of the systemd unit that a segment stands for, with `\x2d` and the like unescaped.
/// Invalid escapes, and those of what has no place in a label, stay as they are.
pub fn unit_name(segment: &str) -> Option<String> {
    let (stem, kind) = segment.rsplit_once('.')?;
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    if stem.is_empty()
        || segment.len() > MAX_UNIT
        || !UNIT_TYPES.contains(&kind)
        || !segment.chars().all(allowed)
    {
        return None;
    }
    // systemd puts an underscore before names that would clash with files such as `cpu.stat`.
    let name = segment.strip_prefix('_').unwrap_or(segment);
    Some(unescape(name).unwrap_or_else(|| name.to_owned()))
}

fn unescape(name: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let [b'x', high, low, tail @ ..] = tail else { return None };
        bytes.push(digit(*high)? * 16 + digit(*low)?);
        rest = tail;
    }
    let fits = |letter: char| is_printable(letter) && letter != '/' && letter != '\\';
    String::from_utf8(bytes).ok().filter(|name| name.chars().all(fits))
}

#[cfg(test)]
mod tests {
    use super::{Container, pod_of_slice, unit_name};

    #[test]
    fn units_are_unescaped() {
        for (segment, unit) in [
            (r"system-serial\x2dgetty.slice", Some("system-serial-getty.slice")),
            ("serial-getty@ttyS0.service", Some("serial-getty@ttyS0.service")),
            (r"Hall\xc3\xb6chen\x20x.service", Some("Hallöchen x.service")),
            ("_cpu.service", Some("cpu.service")),
            ("dev-sda1.swap", Some("dev-sda1.swap")),
            // Not to be decoded: half escapes, controls, separators, what is no UTF-8.
            (r"a\x2.service", Some(r"a\x2.service")),
            (r"a\n.service", Some(r"a\n.service")),
            (r"a\x0a.service", Some(r"a\x0a.service")),
            (r"a\x2fb.service", Some(r"a\x2fb.service")),
            (r"a\x5cx2d.service", Some(r"a\x5cx2d.service")),
            (r"a\xff.service", Some(r"a\xff.service")),
            (".service", None),
            ("service", None),
            ("a b.service", None),
            ("cgroup.procs", None),
        ] {
            assert_eq!(unit_name(segment).as_deref(), unit, "{segment}");
        }
        assert_eq!(unit_name(&format!("{}.service", "a".repeat(248))), None);
    }

    #[test]
    fn what_only_looks_like_a_container_is_none() {
        for segment in [
            "docker-cleanup.scope",
            "docker-0123456789a.scope",
            "docker-.scope",
            "docker.service",
            "lxc.payload.",
            "lxc.pivot",
            "crio-0123456789abcdeg.scope",
            "other-0123456789abcdef.scope",
            "0123456789abcdef",
            "",
        ] {
            assert_eq!(Container::named(segment), None, "{segment}");
        }
        let too_long = format!("docker-{}.scope", "0".repeat(65));
        assert_eq!(Container::named(&too_long), None);
        assert_eq!(Container::below("docker", "buildx"), None);
        assert_eq!(Container::in_slice("system.slice:docker:x"), None);
    }

    #[test]
    fn what_only_looks_like_a_pod_is_none() {
        for segment in [
            "kubepods.slice",
            "kubepods-burstable.slice",
            "kubepods-pod.slice",
            "kubepods-podx.slice",
            "mykubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice",
            "kubepods-pod01234567_89ab_cdef_0123_456789abcde.slice",
        ] {
            assert_eq!(pod_of_slice(segment), None, "{segment}");
        }
    }
}
