//! Who is asked about: a process or thread by its id, a systemd unit, a container or pod by the names that
//! cgroups bear, or a cgroup by its path.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use noise_host::resolve::cgroup::{Hierarchies, Identity, NodeNames, is_of_user};
use noise_measure::tenant::Subject;
use noise_system::procfs;
use noise_text::clean::clean;
use noise_trace::select::{Cgroup, Select, ThreadOrProcess};

use noise_command::CommandError;
use noise_record::cgroup_of;

/// Cgroups that are looked at for a name, and how deep.
const MOST_CGROUPS: usize = 100_000;
const DEEPEST: usize = 32;
/// Digits from which on the begin of a container's id names it.
const LEAST_DIGITS: usize = 4;
/// What can be asked about.
const ADVICE: &str = "give a unit as systemctl lists it, the id of a container as its runtime lists it, the path of \
                      a cgroup (/system.slice/nginx.service), or a process id";
/// Names and ids that a sentence lists.
const MOST_LISTED: usize = 8;

/// Whom a page is about.
#[derive(Clone, Debug)]
pub struct Target {
    /// `process`, `thread`, `service`, `container`, `pod` or `cgroup`.
    pub kind: &'static str,
    /// Its name, as the daemon's labels have it.
    pub name: String,
    /// Its id, where it is a process or thread.
    pub pid: Option<u32>,
    /// The path of its cgroup, from the root of its hierarchy.
    pub cgroup: Option<String>,
    pub select: Select,
    /// The labels of that cgroup and of all below it.
    pub labels: BTreeSet<String>,
}

/// A cgroup that has the name that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupMatch {
    kind: &'static str,
    /// From the root of its hierarchy.
    path: PathBuf,
}

impl Target {
    /// Whether it is the root cgroup: all that runs on this host.
    pub fn is_root(&self) -> bool {
        self.pid.is_none() && self.cgroup.as_deref() == Some("/")
    }

    /// Finds it on this host.
    /// Errors: where nothing has that name, or several have.
    pub fn find(text: &str) -> Result<Self, CommandError> {
        let roots: Vec<PathBuf> = Hierarchies::of_host().of_tasks().cloned().collect();
        if text.trim().is_empty() {
            return Err(CommandError::misused(format!("the name is empty: {ADVICE}")));
        }
        if let Ok(id) = text.parse::<u32>() {
            return Self::task(id, Path::new("/proc"));
        }
        if text.contains('/')
            && let Ok(target) = Self::path(Path::new(text), "cgroup")
        {
            return Ok(target);
        }
        let (found, is_cut) = named(text, &roots, &mut NodeNames::of_host());
        match found.as_slice() {
            [one] => Self::path(&one.path, one.kind),
            [] if is_cut => Err(CommandError::misused(format!(
                "none of the first {MOST_CGROUPS} cgroups is called {}, and there are more: name it by its path",
                clean(text)
            ))),
            [] => Err(unknown(text, Path::new("/proc"))),
            several => {
                let paths = several.iter().map(|found| clean_path(&found.path));
                Err(CommandError::misused(format!(
                    "{} is the name of {} cgroups: {}; name one of them by its path",
                    clean(text),
                    several.len(),
                    listed(paths)
                )))
            }
        }
    }

    fn task(id: u32, procfs: &Path) -> Result<Self, CommandError> {
        let folder = procfs.join(id.to_string());
        let status = procfs::text(folder.join("status")).map_err(|_| {
            CommandError::misused(format!(
                "there is no process or thread {id}: ps -e lists those that there are"
            ))
        })?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim().to_owned()).unwrap_or_default()
        };
        let is_thread = field("Tgid:") != id.to_string();
        let who = Some(ThreadOrProcess::Id(i32::try_from(id).unwrap_or(0)));
        let select = match is_thread {
            true => Select { thread: who, ..Select::default() },
            false => Select { process: who, ..Select::default() },
        };
        let path = cgroup_of(&folder);
        let labels = path.as_ref().map(|path| {
            let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
            let named = NodeNames::of_host().identity(&path, Instant::now());
            [named, Identity::of(path)].map(|identity| clean(&identity.label).into_owned())
        });
        Ok(Self {
            kind: if is_thread { "thread" } else { "process" },
            name: field("Name:"),
            pid: Some(id),
            cgroup: path.map(|path| String::from_utf8_lossy(&path).into_owned()),
            select,
            labels: labels.into_iter().flatten().collect(),
        })
    }

    /// A cgroup by its path.
    fn path(path: &Path, kind: &'static str) -> Result<Self, CommandError> {
        let subject = Subject::cgroup(path).map_err(CommandError::usage)?;
        let Subject::Cgroup { folder, root, .. } = &subject else {
            return Err(CommandError::misused(format!("{} is no cgroup", path.display())));
        };
        let inside = Path::new("/").join(folder.strip_prefix(root).unwrap_or(folder));
        let inside_text = inside.to_string_lossy().into_owned();
        let label = NodeNames::of_host().identity(&inside, Instant::now()).label;
        Ok(Self {
            kind,
            name: label,
            pid: None,
            select: Select { cgroup: Some(Cgroup::parse(&inside_text)), ..Select::default() },
            cgroup: Some(inside_text),
            labels: subject.labels(),
        })
    }

    pub fn title(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} {} {pid}", self.kind, clean(&self.name)),
            None => {
                let name = self.name.strip_prefix("pod:").filter(|_| self.kind == "pod");
                format!("{} {}", self.kind, clean(name.unwrap_or(&self.name)))
            }
        }
    }
}

fn clean_path(path: &Path) -> String {
    clean(&Path::new("/").join(path).display().to_string()).into_owned()
}

/// The first of several names.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let first = names.iter().take(MOST_LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// What to say where no cgroup has a name.
fn unknown(text: &str, procfs: &Path) -> CommandError {
    let name = text.as_bytes().get(..text.len().min(15)).unwrap_or_default();
    let entries = fs::read_dir(procfs).into_iter().flatten().flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let comm = procfs::bytes(procfs.join(format!("{pid}/comm"))).unwrap_or_default();
            comm.trim_ascii_end() == name
        })
        .collect();
    pids.sort_unstable();
    let text = clean(text);
    let sentence = match pids.is_empty() {
        false => format!(
            "no service, container or cgroup is called {text}, but processes are: {}; name one by its id",
            listed(pids.iter().map(u32::to_string))
        ),
        true => format!("no service, container or cgroup is called {text}: {ADVICE}"),
    };
    CommandError::misused(sentence)
}

/// Cgroups that have a name: the outermost ones, each once; and whether there were more cgroups than are looked at. Those
/// in containers and below `user@<uid>.service`, where users name them, count only where no other has the name.
fn named(text: &str, roots: &[PathBuf], nodes: &mut NodeNames) -> (Vec<CgroupMatch>, bool) {
    let mut search = Search { text, nodes, left: MOST_CGROUPS, found: Vec::new(), later: None };
    let mut later = Vec::new();
    for root in roots {
        search.later = Some(Vec::new());
        search.below(root, Path::new(""), DEEPEST);
        later.extend(search.later.take().into_iter().flatten().map(|path| (root, path)));
    }
    let is_found = !search.found.is_empty();
    for (root, path) in later.iter().filter(|_| !is_found) {
        search.below(root, path, DEEPEST);
    }
    let Search { mut found, left, .. } = search;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    (found, left == 0)
}

/// Looks for cgroups that have a name.
struct Search<'a> {
    text: &'a str,
    nodes: &'a mut NodeNames,
    /// Cgroups that may still be looked at.
    left: usize,
    found: Vec<CgroupMatch>,
    /// Where others than the host's root name what is below: looked at later, if there is a later.
    later: Option<Vec<PathBuf>>,
}

impl Search<'_> {
    fn below(&mut self, root: &Path, inside: &Path, deepest: usize) {
        if deepest == 0 {
            return;
        }
        let entries = fs::read_dir(root.join(inside)).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let path = inside.join(entry.file_name());
            let named = self.nodes.identity(&path, Instant::now()).label;
            match (bears(&path, &named, self.text), &mut self.later) {
                // What is below belongs to it.
                (Some(kind), _) => self.found.push(CgroupMatch { kind, path }),
                (None, Some(later)) if is_others(&path) => later.push(path),
                (None, _) => self.below(root, &path, deepest - 1),
            }
        }
    }
}

/// Whether others than the host's root name what is below.
fn is_others(path: &Path) -> bool {
    let last = path.file_name().and_then(OsStr::to_str);
    last.is_some_and(is_of_user) || Identity::of(path).container.is_some()
}

/// What a cgroup is by that name, if it bears it; `named` is its label with names of pods and containers.
fn bears(path: &Path, named: &str, text: &str) -> Option<&'static str> {
    let last = path.file_name()?.to_str()?;
    let parent = path.parent().map(Identity::of);
    let own = Identity::of(path);
    // A container, a pod and a unit are in all that is below them: it is the one that brings them in.
    let is_new = |parent_has: bool, has: bool| has && !parent_has;
    if let Some(container) = &own.container
        && is_new(parent.as_ref().is_some_and(|up| up.container.is_some()), true)
    {
        let label = own.label.rsplit_once('/').map_or(own.label.as_str(), |(_, last)| last);
        let id = container.id.rsplit('/').next().unwrap_or_default();
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_begin = text.len() >= LEAST_DIGITS && is_digits(text) && id.starts_with(text);
        let called = named.rsplit_once('/').map_or(named, |(_, last)| last);
        let engine = called.rsplit_once(':').filter(|_| own.pod.is_none());
        let is_called =
            named == text || called == text || engine.is_some_and(|(_, name)| name == text);
        let is_it =
            id == text || container.id == text || label == text || own.label == text || is_called;
        if !container.monitor && (is_it || is_begin) {
            return Some("container");
        }
    }
    if let Some(pod) = &own.pod
        && is_new(parent.is_some_and(|up| up.pod.is_some()), true)
        && (pod == text || text.strip_prefix("pod:") == Some(pod) || is_pod(named, text))
    {
        return Some("pod");
    }
    let is_unit = |name: &str| name == text || name.strip_suffix(".service") == Some(text);
    let unescaped = own.unit.as_deref().filter(|_| own.container.is_none());
    if last.contains('.') && (is_unit(last) || is_own_unit(last, unescaped, &is_unit)) {
        return Some(if last.ends_with(".service") { "service" } else { "cgroup" });
    }
    (own.label == text || last == text).then_some("cgroup")
}

/// Whether a pod's label has that name: `shop/web-7d9f`, with `pod:` or without the namespace.
fn is_pod(label: &str, text: &str) -> bool {
    let name = label.strip_prefix("pod:").unwrap_or(label);
    label == text || name == text || name.split_once('/').is_some_and(|(_, pod)| pod == text)
}

/// Whether a unit's name without systemd's escapes is meant, and the cgroup is that unit's own.
fn is_own_unit(last: &str, unit: Option<&str>, is_unit: &dyn Fn(&str) -> bool) -> bool {
    let escaped = last.contains("\\x");
    escaped && unit.is_some_and(is_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in paths {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        root
    }

    fn names(root: &tempfile::TempDir, text: &str) -> Vec<(&'static str, String)> {
        let roots = [root.path().to_owned(), root.path().to_owned()];
        let (found, is_cut) =
            named(text, &roots, &mut NodeNames::below(Some(&root.path().join("node"))));
        assert!(!is_cut);
        found.into_iter().map(|found| (found.kind, clean_path(&found.path))).collect()
    }

    #[test]
    fn units_containers_pods_and_cgroups_are_found_by_name() {
        let pod = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice";
        let root = tree(&[
            "system.slice/nginx.service/worker",
            "system.slice/my\\x2dapp.service",
            &format!("system.slice/docker-{ID}.scope/inner.service"),
            "lxc.payload.web/system.slice/nginx.service",
            "lxc.payload.web/system.slice/inner.service/worker",
            "user.slice/user-7.slice/user@7.service/nginx.service",
            "user.slice/user-7.slice/user@7.service/app.slice/own.service",
            &format!("user.slice/user-7.slice/user@7.service/docker-{ID}.scope"),
            &format!("{pod}/cri-containerd-{}.scope", ID.replace('0', "f")),
            "batch/job",
        ]);
        let nginx = [("service", "/system.slice/nginx.service".to_owned())];
        // Not those that a user or a container calls so.
        assert_eq!(names(&root, "nginx"), nginx);
        assert_eq!(names(&root, "nginx.service"), nginx);
        let own = "/user.slice/user-7.slice/user@7.service/app.slice/own.service".to_owned();
        assert_eq!(names(&root, "own"), [("service", own)]);
        let inner = format!("/system.slice/docker-{ID}.scope/inner.service");
        let inner = [inner, "/lxc.payload.web/system.slice/inner.service".to_owned()];
        let mut inner = inner.map(|path| ("service", path));
        inner.sort();
        assert_eq!(names(&root, "inner"), inner);
        let app = clean_path(Path::new("system.slice/my\\x2dapp.service"));
        assert_eq!(names(&root, "my-app"), [("service", app.clone())]);
        assert_eq!(names(&root, "my\\x2dapp.service"), [("service", app)]);
        let container = format!("/system.slice/docker-{ID}.scope");
        for text in [ID, &ID[..12], &ID[..4], "docker:0123456789ab"] {
            assert_eq!(names(&root, text), [("container", container.clone())], "{text}");
        }
        assert_eq!(names(&root, &ID[..3]), []);
        assert_eq!(names(&root, "web"), [("container", "/lxc.payload.web".to_owned())]);
        let uid = "11111111-2222-3333-4444-555555555555";
        assert_eq!(names(&root, uid), [("pod", format!("/{pod}"))]);
        assert_eq!(names(&root, &format!("pod:{uid}")), [("pod", format!("/{pod}"))]);
        assert_eq!(names(&root, "job"), [("cgroup", "/batch/job".to_owned())]);
        assert_eq!(names(&root, "system.slice"), [("cgroup", "/system.slice".to_owned())]);
        assert_eq!(names(&root, "ngin"), []);
    }

    #[test]
    fn pods_and_containers_are_found_by_what_they_are_called() {
        let uid = "11111111-2222-3333-4444-555555555555";
        let pod = format!("kubepods/pod{uid}");
        let root = tree(&[
            &format!("{pod}/{ID}"),
            &format!("docker/{ID}"),
            &format!("node/var/log/pods/shop_web-7d9f_{uid}"),
            &format!("node/var/log/containers/web-7d9f_shop_nginx-{ID}.log"),
        ]);
        let file = format!("node/var/lib/docker/containers/{ID}/config.v2.json");
        fs::create_dir_all(root.path().join(&file).parent().unwrap()).unwrap();
        fs::write(root.path().join(file), r#"{"Name":"/db"}"#).unwrap();
        for text in ["shop/web-7d9f", "web-7d9f", "pod:shop/web-7d9f", uid] {
            assert_eq!(names(&root, text), [("pod", format!("/{pod}"))], "{text}");
        }
        for text in ["nginx", "pod:shop/web-7d9f/nginx"] {
            assert_eq!(names(&root, text), [("container", format!("/{pod}/{ID}"))], "{text}");
        }
        for text in ["db", "docker:db", "docker:0123456789ab"] {
            assert_eq!(names(&root, text), [("container", format!("/docker/{ID}"))], "{text}");
        }
    }

    #[test]
    fn what_is_unknown_gets_advice() {
        let root = tree(&["12", "13", "x"]);
        for pid in ["12", "13"] {
            fs::write(root.path().join(pid).join("comm"), "a-rather-long-n\n").unwrap();
        }
        let sentence = unknown("a-rather-long-name", root.path());
        assert_eq!(
            sentence.to_string(),
            "no service, container or cgroup is called a-rather-long-name, but processes are: 12, 13; name one \
             by its id"
        );
        assert_eq!(sentence.exit, noise_command::Exit::Usage);
        let sentence = unknown("b\x1b[2J", root.path()).to_string();
        assert!(sentence.contains("give a unit as systemctl lists it"), "{sentence}");
        assert!(!sentence.contains('\x1b'), "{sentence:?}");
        let empty = Target::find(" ").unwrap_err();
        assert!(empty.to_string().starts_with("the name is empty: give a unit"), "{empty}");
        let error = Target::task(4_000_000_000, root.path()).unwrap_err();
        assert!(error.to_string().starts_with("there is no process or thread 4000000000"));
    }

    #[test]
    fn this_process_is_one() {
        let own = Target::find(&std::process::id().to_string()).unwrap();
        assert_eq!((own.kind, own.pid), ("process", Some(std::process::id())));
        assert!(own.select.process.is_some() && own.select.thread.is_none());
        assert!(own.title().starts_with("process "), "{}", own.title());
        let pod = Target { kind: "pod", name: "pod:shop/web".to_owned(), pid: None, ..own };
        assert_eq!(pod.title(), "pod shop/web");
    }

    #[test]
    fn many_names_are_cut() {
        let names = (0..10).map(|number| number.to_string());
        assert_eq!(listed(names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
