//! Fixture trees of nodes.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const UID: &str = "c0ffee00-1234-5678-9abc-def012345678";
const POD: &str = "/kubepods.slice/kubepods-podc0ffee00_1234_5678_9abc_def012345678.slice";

struct Node {
    root: tempfile::TempDir,
    names: NodeNames,
    now: Instant,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let names = NodeNames::below(Some(root.path()));
        Self { root, names, now: Instant::now() }
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(inside(self.root.path(), path)).unwrap();
    }

    fn write(&self, path: &str, text: &str) {
        let path = inside(self.root.path(), path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A link to nowhere, as those of a container without its logs.
    fn link(&self, path: &str) {
        let path = inside(self.root.path(), path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink("/nonexistent/0.log", path).unwrap();
    }

    /// The label of a path after so many milliseconds; `None` while there is none.
    fn label(&mut self, path: &str, after_ms: u64) -> Option<String> {
        let path = PathBuf::from(path);
        let cgroup = Arc::new(Cgroup { identity: Identity::of(&path), path });
        match self.names.look(&cgroup, self.now + Duration::from_millis(after_ms)) {
            CgroupLook::Found(cgroup) => Some(cgroup.identity.label.clone()),
            CgroupLook::Waiting => None,
            CgroupLook::Absent => panic!("it was found"),
        }
    }
}

fn in_pod(id: &str) -> String {
    format!("{POD}/cri-containerd-{id}.scope")
}

#[test]
fn pods_and_their_containers_have_the_names_of_their_logs() {
    let mut node = Node::new();
    node.folder(&format!("/var/log/pods/shop_web-7d9f_{UID}/nginx"));
    node.link(&format!("/var/log/containers/web-7d9f_shop_nginx-{ID}.log"));
    assert_eq!(node.label(POD, 0).as_deref(), Some("pod:shop/web-7d9f"));
    assert_eq!(node.label(&in_pod(ID), 0).as_deref(), Some("pod:shop/web-7d9f/nginx"));
    let deeper = format!("{}/init", in_pod(ID));
    assert_eq!(node.label(&deeper, 0).as_deref(), Some("pod:shop/web-7d9f/nginx/init"));
    for path in
        [format!("/kubepods/pod{UID}/{ID}"), format!("/kubepods/burstable/pod{UID}/crio-{ID}")]
    {
        assert_eq!(node.label(&path, 0).as_deref(), Some("pod:shop/web-7d9f/nginx"), "{path}");
    }
    // A pod's own container has no log; the others of the pod keep their ids.
    assert_eq!(node.label(&in_pod(OTHER), 0), None);
    let expected = "pod:shop/web-7d9f/cri-containerd:fedcba987654";
    assert_eq!(node.label(&in_pod(OTHER), 3_000).as_deref(), Some(expected));
    // Where somebody asks for the path of a label.
    let path = node.names.path(|label| label == "pod:shop/web-7d9f/nginx/init");
    assert_eq!(path, Some(PathBuf::from(deeper)));
}

#[test]
fn a_name_that_comes_late_is_waited_for_and_one_that_comes_too_late_is_not_taken() {
    let mut node = Node::new();
    node.folder("/var/log/pods");
    node.folder("/var/log/containers");
    let path = in_pod(ID);
    assert_eq!(node.label(&path, 0), None);
    node.folder(&format!("/var/log/pods/shop_web_{UID}"));
    node.link(&format!("/var/log/containers/web_shop_nginx-{ID}.log"));
    // Folders are not looked at all the time.
    assert_eq!(node.label(&path, 400), None);
    assert_eq!(node.label(&path, 900).as_deref(), Some("pod:shop/web/nginx"));
    // What has a name keeps it, whatever becomes of the files.
    fs::remove_dir_all(inside(node.root.path(), "/var/log/pods")).unwrap();
    assert_eq!(node.label(&path, 60_000).as_deref(), Some("pod:shop/web/nginx"));
    let mut late = Node::new();
    late.folder("/var/log/pods");
    late.folder("/var/log/containers");
    assert_eq!(late.label(&path, 0), None);
    let plain = format!("pod:{UID}/cri-containerd:0123456789ab");
    assert_eq!(late.label(&path, 3_000).as_deref(), Some(&*plain));
    late.folder(&format!("/var/log/pods/shop_web_{UID}"));
    late.link(&format!("/var/log/containers/web_shop_nginx-{ID}.log"));
    assert_eq!(late.label(&path, 9_000).as_deref(), Some(&*plain), "a label does not change");
    // Nor does that of another cgroup of the same container.
    let deeper = late.label(&format!("{path}/init"), 9_000);
    assert_eq!(deeper, Some(format!("{plain}/init")));
}

#[test]
fn a_host_without_such_files_is_not_waited_for() {
    let mut node = Node::new();
    let plain = format!("pod:{UID}/cri-containerd:0123456789ab");
    assert_eq!(node.label(&in_pod(ID), 0), Some(plain));
    for (path, label) in [
        (format!("/system.slice/docker-{ID}.scope"), "docker:0123456789ab"),
        (format!("/machine.slice/libpod-{ID}.scope"), "podman:0123456789ab"),
        ("/system.slice/nginx.service".to_owned(), "nginx.service"),
        ("/lxc/web".to_owned(), "lxc:web"),
    ] {
        assert_eq!(node.label(&path, 0).as_deref(), Some(label));
    }
    let mut none = NodeNames::below(None);
    assert_eq!(none.identity(Path::new(&in_pod(ID)), node.now), Identity::of(in_pod(ID)));
}

#[test]
fn containers_of_docker_and_podman_have_their_engines_names() {
    let mut node = Node::new();
    let config =
        |name: &str| format!(r#"{{"ID":"{ID}","Name":"{name}","Config":{{"Env":["A=b"]}}}}"#);
    let file = |id: &str| format!("/var/lib/docker/containers/{id}/config.v2.json");
    node.write(&file(ID), &config("/web"));
    let list =
        format!(r#"[{{"id":"{ID}","names":["db"],"layer":"x"}},{{"id":"{OTHER}","names":null}}]"#);
    let podman = "/var/lib/containers/storage/overlay-containers/containers.json";
    node.write(podman, &list.replace(r#","names":null"#, ""));
    for (path, label) in [
        (format!("/system.slice/docker-{ID}.scope"), "docker:web"),
        (format!("/docker/{ID}/init"), "docker:web/init"),
        (format!("/machine.slice/libpod-{ID}.scope"), "podman:db"),
        (format!("/machine.slice/libpod-conmon-{ID}.scope"), "podman-monitor:0123456789ab"),
        (
            format!("/user.slice/user-7.slice/user@7.service/user.slice/libpod-{ID}.scope"),
            // A list of root's containers says nothing of what a user names.
            "user@7.service/podman:0123456789ab",
        ),
        // Inside a container others choose.
        (format!("/docker/{ID}/docker/{OTHER}"), "docker:web/docker:fedcba987654"),
    ] {
        assert_eq!(node.label(&path, 0).as_deref(), Some(label), "{path}");
        let identity = node.names.identity(Path::new(&path), node.now);
        assert_eq!(identity.label, label, "{path}");
    }
    let unnamed = format!("/machine.slice/libpod-{OTHER}.scope");
    assert_eq!(node.label(&unnamed, 0), None);
    assert_eq!(node.label(&unnamed, 3_000).as_deref(), Some("podman:fedcba987654"));
}

#[test]
fn hostile_files_name_nothing() {
    let docker = |content: &str, is_link: bool| {
        let mut node = Node::new();
        let file = format!("/var/lib/docker/containers/{ID}/config.v2.json");
        node.write("/secret", r#"{"Name":"/secret"}"#);
        match is_link {
            true => {
                node.folder(&format!("/var/lib/docker/containers/{ID}"));
                symlink(inside(node.root.path(), "/secret"), inside(node.root.path(), &file))
                    .unwrap();
            }
            false => node.write(&file, content),
        }
        node.label(&format!("/docker/{ID}"), 0)
    };
    let long = format!(r#"{{"Name":"/{}"}}"#, "x".repeat(300));
    let large = format!(r#"{{"Name":"/web","X":"{}"}}"#, "x".repeat(DOCKER_BYTES as usize));
    for content in [
        "",
        "{",
        "[]",
        "null",
        r#"{"Name":7}"#,
        r#"{"Name":"/"}"#,
        r#"{"Name":"/a b"}"#,
        r#"{"Name":"/a/../b"}"#,
        r#"{"Name":"/\u001b[2J"}"#,
        r#"{"Name":"/.."}"#,
        &long,
        &large,
    ] {
        assert_eq!(docker(content, false).as_deref(), Some("docker:0123456789ab"), "{content:.40}");
    }
    assert_eq!(docker("", true).as_deref(), Some("docker:0123456789ab"), "a link is not followed");
    for entry in
        ["", "_", "__", "a_b", "a_b_c_d", "a__c", "a b_c_d", "a\u{1b}_b_c", "~_b_c", "é_b_c"]
    {
        assert_eq!(pod(entry), None, "{entry}");
    }
    for entry in [
        "",
        ".log",
        "a_b_c.log",
        "a_b_c-d",
        "a_b_-d.log",
        "a_b_c-.log",
        "a_b_c-d_e.log",
        "a_b_c:x-d.log",
    ] {
        assert_eq!(container(entry), None, "{entry}");
    }
    let named = container("web_shop_my-app-0123.log");
    assert_eq!(named, Some(("0123".to_owned(), "my-app".to_owned())));
}

#[test]
fn many_ids_are_bounded() {
    let mut node = Node::new();
    node.folder("/var/log/pods");
    node.folder("/var/log/containers");
    for number in 0..20_000_u64 {
        node.label(&in_pod(&format!("{number:064x}")), number);
    }
    assert!(node.names.ids.len() <= CAPACITY && node.names.named.len() <= CAPACITY);
}
