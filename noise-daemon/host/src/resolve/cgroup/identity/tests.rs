use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, prop_assert_ne, proptest};
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
        let path = path.replace("<id>", ID).replace("<u_d>", UID_IN_SLICE).replace("<uid>", UID);
        let info = Identity::named(Path::new(&path), &naming).info();
        let found = [info.namespace, info.pod, info.container, info.unit, info.engine];
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn containers_may_go_by_names() {
    for (path, runtime, id, label) in [
        ("/lxc/web", Runtime::Lxc, "web", "lxc:web"),
        ("/lxc/101/ns/system.slice/cron.service", Runtime::Lxc, "101", "lxc:101/ns/cron.service"),
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
        ("/kubepods/besteffort/pod<uid>/<id>", Some(Runtime::Unnamed), "/container:0123456789ab"),
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
        ("/user.slice/user-1000.slice/session-3.scope", Some("session-3.scope"), "session-3.scope"),
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

#[test]
fn what_a_user_names_has_no_name_of_the_host() {
    let naming = Naming { pod: Some("shop/web".to_owned()), container: Some("nginx".to_owned()) };
    let user = "/user.slice/user-7.slice/user@7.service";
    for (below, label) in [
        ("docker-<id>.scope", "docker:0123456789ab"),
        (
            "kubepods-pod<u_d>.slice/cri-containerd-<id>.scope",
            "pod:c0ffee00-1234-5678-9abc-def012345678/cri-containerd:0123456789ab",
        ),
        (
            "kubepods/pod<uid>/<id>",
            "pod:c0ffee00-1234-5678-9abc-def012345678/container:0123456789ab",
        ),
    ] {
        let path = format!("{user}/{below}");
        let path = path.replace("<id>", ID).replace("<u_d>", UID_IN_SLICE).replace("<uid>", UID);
        let identity = Identity::named(Path::new(&path), &naming);
        assert_eq!((identity.label, identity.pod), (format!("user@7.service/{label}"), None));
        assert_eq!(identity.naming, Naming::default(), "{path}");
    }
    // What is in a container is the container's.
    let path = format!("/docker/{ID}{user}/a");
    assert_eq!(Identity::named(Path::new(&path), &naming).naming, naming);
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
    let naming = Naming { pod: Some("shop/web".to_owned()), container: Some("nginx".to_owned()) };
    let named = |path: &str| {
        let path = path.replace("<id>", ID).replace("<uid>", UID);
        Identity::named(Path::new(&path), &naming)
    };
    let pod = named("/kubepods/pod<uid>/<id>/kubepods/pod<uid>/<id>");
    let inner = format!("pod:{UID}/container:0123456789ab");
    assert_eq!(pod.label, format!("pod:shop/web/nginx/{inner}"));
    // The ids themselves stay as they are.
    assert_eq!((pod.pod.as_deref(), pod.container), (Some(UID), container(Runtime::Unnamed, ID)));
    assert_eq!(named("/docker/<id>").label, "docker:nginx");
    assert_eq!(named("/lxc.monitor.web").label, "lxc-monitor:web");
    assert_eq!(named("/system.slice/nginx.service").label, "nginx.service");
    assert_eq!(Identity::named(Path::new("/a"), &Naming::default()), Identity::of("/a"));
}

proptest! {
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
