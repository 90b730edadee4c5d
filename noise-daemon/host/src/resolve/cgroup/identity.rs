//! PURE: unit, container and pod of a cgroup, and its label, from its path in its hierarchy.
//!
//! **Whose names count.** Who runs in a container or below `user@<uid>.service` may name
//! cgroups there as he likes. The fields therefore stop at the outermost container, which is what
//! this host's runtime made, and a label never leaves out a service, scope, container or pod.
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
        let is_own = self.container.is_none() && self.pod.is_none();
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

/// FNV-1a of 64 bits: the same in every build, which the standard library's hash does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_assert_ne, proptest};
    use proptest::sample::select;

    use super::{Identity, MAX_LABEL_BYTES, Naming};
    use crate::resolve::cgroup::{Container, Runtime};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "c0ffee00-1234-5678-9abc-def012345678";
    const UID_IN_SLICE: &str = "c0ffee00_1234_5678_9abc_def012345678";

    fn of(path: &str) -> Identity {
        Identity::of(path.replace("<id>", ID).replace("<u_d>", UID_IN_SLICE).replace("<uid>", UID))
    }

    fn container(runtime: Runtime, id: &str) -> Option<Container> {
        Some(Container { runtime, id: id.to_owned(), monitor: false })
    }

    #[test]
    fn containers_have_runtime_and_id() {
        for (path, runtime, label) in [
            ("/system.slice/docker-<id>.scope", Runtime::Docker, "docker:0123456789ab"),
            ("/docker/<id>", Runtime::Docker, "docker:0123456789ab"),
            ("/docker/<id>/init", Runtime::Docker, "docker:0123456789ab/init"),
            (
                "/system.slice/docker.service/system.slice:docker:<id>",
                Runtime::Docker,
                "docker.service/docker:0123456789ab",
            ),
            ("/machine.slice/libpod-<id>.scope", Runtime::Podman, "podman:0123456789ab"),
            (
                "/machine.slice/libpod-<id>.scope/container",
                Runtime::Podman,
                "podman:0123456789ab/container",
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-<id>.scope",
                Runtime::Podman,
                "user@1000.service/podman:0123456789ab",
            ),
            (
                "/system.slice/web.service/libpod-payload-<id>",
                Runtime::Podman,
                "web.service/podman:0123456789ab",
            ),
            ("/crio-<id>.scope", Runtime::CriO, "cri-o:0123456789ab"),
            ("/system.slice/nerdctl-<id>.scope", Runtime::Containerd, "containerd:0123456789ab"),
            ("/<id>", Runtime::Unnamed, "container:0123456789ab"),
            ("/batch/<id>", Runtime::Unnamed, "/batch/container:0123456789ab"),
        ] {
            let identity = of(path);
            assert_eq!(identity.container, container(runtime, ID), "{path}");
            assert_eq!((identity.label.as_str(), identity.pod), (label, None), "{path}");
        }
    }

    #[test]
    fn others_have_names_for_it() {
        let naming = |pod: &str, container: &str| Naming {
            pod: Some(pod.to_owned()).filter(|name| !name.is_empty()),
            container: Some(container.to_owned()).filter(|name| !name.is_empty()),
        };
        let pod = "/kubepods.slice/kubepods-pod<u_d>.slice";
        let unit = format!("kubepods-pod{UID_IN_SLICE}.slice");
        for (path, naming, expected) in [
            ("/system.slice/sshd.service/sub", naming("", ""), ["", "", "", "sshd.service", ""]),
            ("/", naming("", ""), [""; 5]),
            (pod, naming("shop/web-7d9f", ""), ["shop", "web-7d9f", "", &unit, ""]),
            // The scope of a container is new with each start.
            (
                &format!("{pod}/cri-containerd-<id>.scope/sub"),
                naming("shop/web-7d9f", "nginx"),
                ["shop", "web-7d9f", "nginx", "", "cri-containerd"],
            ),
            (
                "/kubepods/pod<uid>/<id>",
                naming("shop/web-7d9f", "nginx"),
                ["shop", "web-7d9f", "nginx", "", ""],
            ),
            // No name is known for it.
            (&format!("{pod}/crio-<id>.scope"), naming("", ""), ["", "", "", "", "cri-o"]),
            ("/system.slice/docker-<id>.scope", naming("", "web"), ["", "", "web", "", "docker"]),
            (
                "/system.slice/web.service/libpod-payload-<id>",
                naming("", "web"),
                ["", "", "web", "web.service", "podman"],
            ),
            ("/lxc.payload.web-1", naming("", ""), ["", "", "web-1", "", "lxc"]),
            ("/lxc.monitor.web-1", naming("", ""), ["", "", "", "", "lxc"]),
        ] {
            let path =
                path.replace("<id>", ID).replace("<u_d>", UID_IN_SLICE).replace("<uid>", UID);
            let info = Identity::named(Path::new(&path), &naming).info();
            let found = [info.namespace, info.pod, info.container, info.unit, info.engine];
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn containers_may_go_by_names() {
        for (path, runtime, id, label) in [
            ("/lxc/web", Runtime::Lxc, "web", "lxc:web"),
            (
                "/lxc/101/ns/system.slice/cron.service",
                Runtime::Lxc,
                "101",
                "lxc:101/ns/cron.service",
            ),
            ("/lxc.payload.web-1", Runtime::Lxc, "web-1", "lxc:web-1"),
            ("/lxc.payload/web", Runtime::Lxc, "web", "lxc:web"),
            ("/default/redis", Runtime::Containerd, "default/redis", "containerd:default/redis"),
            ("/k8s.io/redis/x", Runtime::Containerd, "k8s.io/redis", "containerd:k8s.io/redis/x"),
        ] {
            let identity = of(path);
            assert_eq!(identity.container, container(runtime, id), "{path}");
            assert_eq!(identity.label, label, "{path}");
        }
        assert_eq!(of("/default/<id>").label, "containerd:default/0123456789ab");
    }

    #[test]
    fn monitors_are_not_taken_for_their_containers() {
        for (path, runtime, label) in [
            ("/machine.slice/libpod-conmon-<id>.scope", "podman", "podman-monitor:0123456789ab"),
            ("/system.slice/crio-conmon-<id>.scope", "cri-o", "cri-o-monitor:0123456789ab"),
            ("/lxc.monitor.web", "lxc", "lxc-monitor:web"),
            ("/lxc.monitor/web", "lxc", "lxc-monitor:web"),
        ] {
            let identity = of(path);
            let container = identity.container.unwrap();
            assert!(container.monitor, "{path}");
            assert_eq!((container.runtime.name(), identity.label.as_str()), (runtime, label));
        }
    }

    #[test]
    fn pods_of_both_drivers_are_found() {
        for (path, runtime, end) in [
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<u_d>.slice/cri-containerd-<id>.scope",
                Some(Runtime::CriContainerd),
                "/cri-containerd:0123456789ab",
            ),
            (
                "/kubepods.slice/kubepods-pod<u_d>.slice/crio-<id>.scope/container",
                Some(Runtime::CriO),
                "/cri-o:0123456789ab/container",
            ),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod<u_d>.slice/docker-<id>.scope",
                Some(Runtime::Docker),
                "/docker:0123456789ab",
            ),
            ("/kubepods.slice/kubepods-pod<u_d>.slice", None, ""),
            (
                "/kubepods/besteffort/pod<uid>/<id>",
                Some(Runtime::Unnamed),
                "/container:0123456789ab",
            ),
            ("/kubepods/pod<uid>/<id>", Some(Runtime::Unnamed), "/container:0123456789ab"),
            ("/kubepods/burstable/pod<uid>/crio-<id>", Some(Runtime::CriO), "/cri-o:0123456789ab"),
            ("/kubepods/burstable/pod<uid>", None, ""),
            (
                "/kubepods-burstable-pod<u_d>.slice:cri-containerd:<id>",
                Some(Runtime::CriContainerd),
                "/cri-containerd:0123456789ab",
            ),
        ] {
            let identity = of(path);
            assert_eq!(identity.pod.as_deref(), Some(UID), "{path}");
            assert_eq!(identity.container, runtime.and_then(|name| container(name, ID)), "{path}");
            assert_eq!(identity.label, format!("pod:{UID}{end}"), "{path}");
        }
        let of_file = of("/kubepods/burstable/pod0123456789abcdef0123456789abcdef");
        assert_eq!(of_file.label, "pod:0123456789abcdef0123456789abcdef");
        assert_eq!(of("/other/pod<uid>").pod, None);
    }

    #[test]
    fn units_of_system_and_users_are_found() {
        for (path, unit, label) in [
            ("/", None, "/"),
            ("", None, "/"),
            ("/init.scope", Some("init.scope"), "init.scope"),
            ("/system.slice", Some("system.slice"), "system.slice"),
            ("/system.slice/nginx.service", Some("nginx.service"), "nginx.service"),
            (
                r"/system.slice/system-serial\x2dgetty.slice/serial-getty@ttyS0.service",
                Some("serial-getty@ttyS0.service"),
                "serial-getty@ttyS0.service",
            ),
            (
                r"/system.slice/system-serial\x2dgetty.slice",
                Some("system-serial-getty.slice"),
                "system-serial-getty.slice",
            ),
            (
                "/user.slice/user-1000.slice/session-3.scope",
                Some("session-3.scope"),
                "session-3.scope",
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-foo.scope",
                Some("app-foo.scope"),
                "user@1000.service/app-foo.scope",
            ),
            ("/user.slice/user-1000.slice", Some("user-1000.slice"), "user-1000.slice"),
            (
                "/system.slice/docker-<id>.scope/system.slice/nginx.service",
                Some(&format!("docker-{ID}.scope")),
                "docker:0123456789ab/nginx.service",
            ),
            ("/batch/jobs", None, "/batch/jobs"),
            ("/batch/nginx.service", Some("nginx.service"), "/batch/nginx.service"),
            ("/a.slice/b.slice", Some("b.slice"), "a.slice/b.slice"),
        ] {
            let identity = of(path);
            assert_eq!(identity.unit.as_deref(), unit, "{path}");
            assert_eq!(identity.label, label, "{path}");
        }
    }

    #[test]
    fn cgroups_that_differ_have_labels_that_differ() {
        let deep = "x".repeat(200);
        let paths = [
            "/system.slice/web.service",
            "/system.slice/web.service/a",
            "/system.slice/web.service/b",
            "/system.slice/web.service/a/b",
            "/web",
            "/user.slice/user-1.slice/user@1.service/app.slice/web.service",
            "/user.slice/user-2.slice/user@2.service/app.slice/web.service",
            "/user.slice/user-2.slice/user@2.service/docker-<id>.scope",
            "/docker/<id>",
            "/docker/<id>/docker/<id>",
            "/lxc/a/kubepods/pod<uid>/<id>",
            "/kubepods/pod<uid>/<id>",
            "/default/a",
            "/moby/a",
            &format!("/{deep}/a"),
            &format!("/{deep}/b"),
        ];
        let labels: BTreeSet<_> = paths.iter().map(|path| of(path).label).collect();
        assert_eq!(labels.len(), paths.len(), "{labels:#?}");
    }

    #[test]
    fn what_is_inside_a_container_does_not_speak_for_the_host() {
        let identity = of("/docker/<id>/kubepods.slice/kubepods-pod<u_d>.slice/crio-<id>.scope");
        assert_eq!(identity.container, container(Runtime::Docker, ID));
        assert_eq!((identity.pod, identity.unit), (None, None));
        let label = format!("docker:0123456789ab/pod:{UID}/cri-o:0123456789ab");
        assert_eq!(identity.label, label);
    }

    #[test]
    fn hostile_names_are_shown_harmlessly() {
        assert_eq!(of("//a///b/").label, "/a/b");
        assert_eq!(of("/../../a").label, "/../../a");
        assert_eq!(of("/a\n\x1b[2J").label, r"/a\x0a\x1b[2J");
        assert_eq!(of("/docker/not-an-id").label, "/docker/not-an-id");
        assert_eq!(Identity::of(OsStr::from_bytes(b"/\xff\xfe")).label, r"/\xff\xfe");
        let long = of(&"/é".repeat(2_000)).label;
        assert_eq!(long.len(), MAX_LABEL_BYTES);
        // Must never change: series are kept under it.
        assert!(long.ends_with("~b7e951a8e137f5d5"), "{long}");
    }

    const SEGMENTS: [&str; 24] = [
        "a",
        "",
        ".",
        "..",
        "docker",
        "lxc",
        "default",
        "kubepods",
        "burstable",
        "system.slice",
        "user.slice",
        "user-1.slice",
        "a-b.slice",
        "user@1.service",
        r"x\x2dy.service",
        "\\x",
        ":",
        "lxc.payload.",
        "pod<uid>",
        "kubepods-pod<u_d>.slice",
        "docker-<id>.scope",
        "<id>",
        "a.slice:docker:<id>",
        "é\n",
    ];

    #[test]
    fn names_stand_for_the_ids_of_the_host_alone() {
        let naming =
            Naming { pod: Some("shop/web".to_owned()), container: Some("nginx".to_owned()) };
        let named = |path: &str| {
            let path = path.replace("<id>", ID).replace("<uid>", UID);
            Identity::named(Path::new(&path), &naming)
        };
        let pod = named("/kubepods/pod<uid>/<id>/kubepods/pod<uid>/<id>");
        let inner = format!("pod:{UID}/container:0123456789ab");
        assert_eq!(pod.label, format!("pod:shop/web/nginx/{inner}"));
        // The ids themselves stay as they are.
        assert_eq!(
            (pod.pod.as_deref(), pod.container),
            (Some(UID), container(Runtime::Unnamed, ID))
        );
        assert_eq!(named("/docker/<id>").label, "docker:nginx");
        assert_eq!(named("/lxc.monitor.web").label, "lxc-monitor:web");
        assert_eq!(named("/system.slice/nginx.service").label, "nginx.service");
        assert_eq!(Identity::named(Path::new("/a"), &Naming::default()), Identity::of("/a"));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_sane_label(bytes in vec(any::<u8>(), 0..4_096)) {
            let label = Identity::of(Path::new(OsStr::from_bytes(&bytes))).label;
            prop_assert!(!label.is_empty() && label.len() <= MAX_LABEL_BYTES);
            prop_assert!(!label.chars().any(char::is_control));
        }

        #[test]
        fn any_mixture_has_a_stable_label_of_its_own(
            segments in vec(select(SEGMENTS.to_vec()), 0..12),
        ) {
            let path = format!("/{}", segments.join("/"));
            let identity = of(&path);
            prop_assert!(identity.label.len() <= MAX_LABEL_BYTES);
            prop_assert!(!identity.label.chars().any(char::is_control));
            prop_assert_eq!(&identity, &of(&format!("{path}/")));
            for child in SEGMENTS.iter().filter(|child| !child.is_empty()) {
                prop_assert_ne!(&identity.label, &of(&format!("{path}/{child}")).label);
            }
        }
    }
}
