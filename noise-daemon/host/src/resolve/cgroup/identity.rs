//! PURE: unit, container and pod of a cgroup, and its label, from its path in its hierarchy.
//!
//! **Whose names count.** Who runs in a container or below `user@<uid>.service` may name
//! cgroups there as he likes. The fields therefore stop at the outermost container, which is what
//! this host's runtime made, and a label never leaves out a service, scope, container or pod. Below `user@<uid>.service`
//! there is no pod, and no id stands for what this host calls so.
//!
//! **Which cgroups may share a label.** A label leaves out only what a name is unique without: the
//! slices above a unit (a systemd manager has one unit of a name, and managers below the first are
//! services, which stay), the folders of runtimes and of kubelet above their ids, and the digits of
//! an id after the twelfth. Two cgroups share one if their names differ by systemd's escapes alone,
//! or if someone who may write outside of what is delegated (root) arranges it. A reader that needs
//! more has the id; what renders labels has to add up what bears the same one. So has a container that was started
//! again in its pod or under its name, where [`Naming`] names it: its label goes on.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use noise_model::CgroupInfo;
use noise_text::clean::printable;

use super::segment::{Container, Runtime, pod_of_folder, pod_of_slice, unit_name};

/// Longest label in bytes. Longer ones are cut and end in `~` and a hash of the whole.
pub const MAX_LABEL_BYTES: usize = 128;

/// Digits of the hash and the mark before it.
const HASH_BYTES: usize = 17;

/// What a cgroup is to people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The nearest systemd unit around it, slices included, on the host's side of a container.
    pub unit: Option<String>,
    /// The outermost container around it.
    pub container: Option<Container>,
    /// The uid of the Kubernetes pod around it, with dashes.
    pub pod: Option<String>,
    /// A short name that is the same whenever the path is: `nginx.service`,
    /// `docker:0123456789ab`, `pod:<uid>/cri-containerd:0123456789ab`, `/` for the root, and the
    /// path where it says nothing else. Deeper cgroups have the rest of their path behind it.
    /// With names: `docker:web`, `pod:shop/web-7d9f/nginx`.
    pub label: String,
    /// What the pod and the outermost container are called, as far as that is known.
    pub naming: Naming,
}

/// What the pod and the outermost container around a cgroup are called on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Naming {
    /// Namespace and name of the pod: `shop/web-7d9f`.
    pub pod: Option<String>,
    /// The container: `nginx`.
    pub container: Option<String>,
}

impl Identity {
    /// Reads a path that is relative to the mount point of its hierarchy.
    pub fn of(path: impl AsRef<Path>) -> Self {
        Self::named(path.as_ref(), &Naming::default())
    }

    /// The same with names in the label.
    pub fn named(path: &Path, naming: &Naming) -> Self {
        let mut reader = CgroupPathParser { naming: naming.clone(), ..CgroupPathParser::default() };
        let bytes = path.as_os_str().as_bytes();
        for segment in bytes.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()) {
            reader.segment(&printable(segment));
        }
        let label = reader.label();
        let CgroupPathParser { unit, container, pod, naming, .. } = reader;
        Self { unit, container, pod, label, naming }
    }

    /// What others call it.
    pub fn info(&self) -> CgroupInfo {
        let pod = self.naming.pod.as_deref().and_then(|name| name.split_once('/'));
        let (namespace, pod) = pod.unwrap_or_default();
        let is_scope = |unit: &&String| {
            self.container.as_ref().is_some_and(|container| unit.contains(&container.id))
        };
        let engine = self.container.as_ref().map(|container| container.runtime);
        // Its containers go by names.
        let own = self.container.as_ref().filter(|one| one.runtime == Runtime::Lxc && !one.monitor);
        let container = self.naming.container.as_ref().or(own.map(|container| &container.id));
        CgroupInfo {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.cloned().unwrap_or_default(),
            unit: self.unit.as_ref().filter(|unit| !is_scope(unit)).cloned().unwrap_or_default(),
            engine: engine
                .filter(|own| *own != Runtime::Unnamed)
                .map_or("", Runtime::name)
                .to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentKind {
    Folder,
    Slice,
    /// Unit, pod or container: stays in the label whatever follows.
    Owner,
}

#[derive(Debug, Default)]
struct CgroupPathParser {
    /// What the label is made of so far.
    parts: Vec<(SegmentKind, String)>,
    unit: Option<String>,
    container: Option<Container>,
    pod: Option<String>,
    naming: Naming,
    /// Whether a user names what follows.
    of_user: bool,
}

impl CgroupPathParser {
    fn segment(&mut self, segment: &str) {
        if let Some((slice, container)) = Container::in_slice(segment) {
            self.drop_slices();
            if let Some(uid) = pod_of_slice(slice) {
                self.pod(uid);
            }
            self.container(container);
        } else if let Some(uid) = pod_of_slice(segment) {
            self.drop_slices();
            self.unit(segment);
            self.pod(uid);
        } else if let Some(uid) = pod_of_folder(segment)
            && self.drop_kubepods()
        {
            self.pod(uid);
        } else if let Some(container) = self.container_of_folders(segment) {
            self.parts.pop();
            self.container(container);
        } else if let Some(container) = Container::named(segment) {
            self.drop_slices();
            self.unit(segment);
            self.container(container);
        } else if let Some(unit) = unit_name(segment) {
            self.unit(segment);
            if segment.ends_with(".slice") {
                self.slice(unit);
            } else {
                self.drop_slices();
                self.parts.push((SegmentKind::Owner, unit));
                if is_of_user(segment) && self.container.is_none() {
                    self.of_user = true;
                    self.naming = Naming::default();
                }
            }
        } else {
            self.parts.push((SegmentKind::Folder, segment.to_owned()));
        }
    }

    fn unit(&mut self, segment: &str) {
        if self.container.is_none()
            && let Some(unit) = unit_name(segment)
        {
            self.unit = Some(unit);
        }
    }

    fn pod(&mut self, uid: String) {
        let is_own = self.container.is_none() && self.pod.is_none() && !self.of_user;
        let name = self.naming.pod.as_ref().filter(|_| is_own).unwrap_or(&uid);
        self.parts.push((SegmentKind::Owner, format!("pod:{name}")));
        if is_own {
            self.pod = Some(uid);
        }
    }

    fn container(&mut self, container: Container) {
        let is_named = self.container.is_none() && !container.monitor;
        let label = match &self.naming.container {
            // Its pod says whose it is.
            Some(name) if is_named && self.pod.is_some() => name.clone(),
            Some(name) if is_named => format!("{}:{name}", container.runtime.name()),
            _ => container.label(),
        };
        self.parts.push((SegmentKind::Owner, label));
        self.container.get_or_insert(container);
    }

    /// The name of a slice repeats those of the slices that it is in.
    fn slice(&mut self, unit: String) {
        while let Some((SegmentKind::Slice, above)) = self.parts.last()
            && above.strip_suffix(".slice").is_some_and(|above| {
                unit.strip_prefix(above).is_some_and(|rest| rest.starts_with('-'))
            })
        {
            self.parts.pop();
        }
        self.parts.push((SegmentKind::Slice, unit));
    }

    fn drop_slices(&mut self) {
        while let Some((SegmentKind::Slice, _)) = self.parts.last() {
            self.parts.pop();
        }
    }

    /// Drops kubelet's folders above a pod, if they are there.
    fn drop_kubepods(&mut self) -> bool {
        let folder =
            |at: &(SegmentKind, String), name: &str| at.0 == SegmentKind::Folder && at.1 == name;
        let kept = match self.parts.as_slice() {
            [kept @ .., top, class]
                if folder(top, "kubepods")
                    && (folder(class, "burstable") || folder(class, "besteffort")) =>
            {
                kept.len()
            }
            [kept @ .., top] if folder(top, "kubepods") => kept.len(),
            _ => return false,
        };
        self.parts.truncate(kept);
        true
    }

    fn container_of_folders(&self, segment: &str) -> Option<Container> {
        let Some((SegmentKind::Folder, parent)) = self.parts.last() else { return None };
        Container::below(parent, segment).or_else(|| {
            (self.parts.len() == 1).then(|| Container::in_namespace(parent, segment)).flatten()
        })
    }

    fn label(&self) -> String {
        let mut label = String::new();
        if self.parts.first().is_none_or(|(kind, _)| *kind == SegmentKind::Folder) {
            label.push('/');
        }
        for (at, (_, text)) in self.parts.iter().enumerate() {
            if at > 0 {
                label.push('/');
            }
            label.push_str(text);
        }
        if label.len() > MAX_LABEL_BYTES {
            let hash = fnv1a(label.as_bytes());
            label.truncate(label.floor_char_boundary(MAX_LABEL_BYTES - HASH_BYTES));
            label.push_str(&format!("~{hash:016x}"));
        }
        label
    }
}

/// Whether a cgroup is that of a user's own systemd: that user chooses the names below.
pub fn is_of_user(segment: &str) -> bool {
    segment.starts_with("user@") && segment.ends_with(".service")
}

/// FNV-1a of 64 bits: the same in every build, which the standard library's hash does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
