//! IO: what a node's own files call its pods and containers, by their ids. Rooted at a path, so that tests use fixture
//! trees; read only, bounded, and no server is asked.
//!
//! | of | from |
//! |---|---|
//! | a pod | names of folders: `/var/log/pods/<namespace>_<pod>_<uid>` |
//! | its containers | names of links, which are not followed: `/var/log/containers/<pod>_<namespace>_<container>-<id>.log` |
//! | docker's containers | `/var/lib/docker/containers/<id>/config.v2.json` |
//! | podman's, run by root | `/var/lib/containers/storage/overlay-containers/containers.json` |
//!
//! A runtime makes the cgroup first and these names a moment later. What has none is looked for again for [`RETRY`];
//! what is decided then stays: a label does not change while its cgroup lives.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use noise_system::files;
use serde::Deserialize;

use super::identity::{Identity, Naming};
use super::segment::{Container, Runtime};
use super::tree::{CAPACITY, Cgroup, CgroupLook};

/// How long a name is looked for after its cgroup was first seen.
pub const RETRY: Duration = Duration::from_secs(3);
/// Shortest time between two looks at the same folders.
const PAUSE: Duration = Duration::from_millis(500);
/// Entries of a folder, or of a list, that are looked at.
const MOST_ENTRIES: usize = 16_384;
/// Bytes of a file of docker's; and of podman's, which has all containers.
const DOCKER_BYTES: u64 = 1 << 20;
const PODMAN_BYTES: u64 = 8 << 20;
/// Longest name of a namespace, pod or container: that of Kubernetes' objects.
const MOST_NAME_BYTES: usize = 253;

/// Folders whose entries have names, for who restricts what can be read.
pub const LISTED: [&str; 2] = ["/var/log/pods", "/var/log/containers"];
/// Folders of files that have names.
pub const READ: [&str; 2] =
    ["/var/lib/docker/containers", "/var/lib/containers/storage/overlay-containers"];

/// What is known of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NameLookup {
    Named(String),
    NotYet,
    /// Nothing here has names of that kind, or they may not be read.
    Never,
}

/// An id that was asked for.
#[derive(Clone, Debug)]
enum LookupState {
    /// Looked for since then.
    Sought(Instant),
    Decided(Option<String>),
}

/// Names of pods and containers.
#[derive(Debug)]
pub struct NodeNames {
    root: Option<PathBuf>,
    /// Of a container's monitor other things are known than of the container.
    ids: LruCache<(NameSource, String), LookupState>,
    /// Cgroups with their labels, by their paths.
    named: LruCache<PathBuf, Arc<Cgroup>>,
    listing: PodListing,
    listed: Option<Instant>,
}

/// What the folders held when they were looked at last; `None` where there is no such folder.
#[derive(Debug, Default)]
struct PodListing {
    /// Namespace and name, by the pod's uid.
    pods: Option<BTreeMap<String, String>>,
    /// Names of containers in pods, by id.
    containers: Option<BTreeMap<String, String>>,
    /// Names of podman's, by id.
    podman: Option<BTreeMap<String, String>>,
}

impl NodeNames {
    /// Those below a root; without one, nothing has a name.
    pub fn below(root: Option<&Path>) -> Self {
        let capacity = NonZeroUsize::new(CAPACITY).unwrap_or(NonZeroUsize::MIN);
        Self {
            root: root.map(Path::to_owned),
            ids: LruCache::sparse(capacity),
            named: LruCache::sparse(capacity),
            listing: PodListing::default(),
            listed: None,
        }
    }

    pub fn of_host() -> Self {
        Self::below(Some(Path::new("/")))
    }

    /// A cgroup with the label that it has for as long as it lives; or that it has none yet.
    pub fn look(&mut self, cgroup: &Arc<Cgroup>, now: Instant) -> CgroupLook {
        let Identity { pod, container, .. } = &cgroup.identity;
        if self.root.is_none() || (pod.is_none() && container.is_none()) {
            return CgroupLook::Found(Arc::clone(cgroup));
        }
        if let Some(named) = self.named.get(&cgroup.path) {
            return CgroupLook::Found(Arc::clone(named));
        }
        let pod_name = pod.as_ref().map(|uid| self.decided(uid, now, NameSource::Pod));
        let of = NameSource::of(pod.is_some());
        let container_name = container.as_ref().map(|one| self.decided(&one.id, now, of(one)));
        if [&pod_name, &container_name].into_iter().flatten().any(Option::is_none) {
            return CgroupLook::Waiting;
        }
        let identity = Identity::named(
            &cgroup.path,
            &Naming {
                pod: pod_name.flatten().flatten(),
                container: container_name.flatten().flatten(),
            },
        );
        let named = Arc::new(Cgroup { path: cgroup.path.clone(), identity });
        self.named.put(cgroup.path.clone(), Arc::clone(&named));
        CgroupLook::Found(named)
    }

    /// What a path is to people, by the names that there are now.
    pub fn identity(&mut self, path: &Path, now: Instant) -> Identity {
        let plain = Identity::of(path);
        if self.root.is_none() || (plain.pod.is_none() && plain.container.is_none()) {
            return plain;
        }
        let mut name = |id: Option<&String>, of: NameSource| match self.answer(id?, now, of) {
            NameLookup::Named(name) => Some(name),
            NameLookup::NotYet | NameLookup::Never => None,
        };
        let container = plain.container.as_ref();
        let of = NameSource::of(plain.pod.is_some());
        let naming = Naming {
            pod: name(plain.pod.as_ref(), NameSource::Pod),
            container: container.and_then(|one| name(Some(&one.id), of(one))),
        };
        Identity::named(path, &naming)
    }

    /// The path of a cgroup by the label that it was given.
    pub fn path(&self, is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let mut named = self.named.iter();
        named.find(|(_, cgroup)| is_it(&cgroup.identity.label)).map(|(path, _)| path.clone())
    }

    /// What an id is called for good; `None` while that is not decided.
    fn decided(&mut self, id: &str, now: Instant, of: NameSource) -> Option<Option<String>> {
        let key = (of, id.to_owned());
        let since = match self.ids.get(&key) {
            Some(LookupState::Decided(name)) => return Some(name.clone()),
            Some(LookupState::Sought(since)) => *since,
            None => now,
        };
        let name = match self.answer(id, now, of) {
            NameLookup::Named(name) => Some(name),
            NameLookup::NotYet if now < since + RETRY => {
                self.ids.put(key, LookupState::Sought(since));
                return None;
            }
            NameLookup::NotYet | NameLookup::Never => None,
        };
        self.ids.put(key, LookupState::Decided(name.clone()));
        Some(name)
    }

    fn answer(&mut self, id: &str, now: Instant, of: NameSource) -> NameLookup {
        let Some(root) = self.root.clone() else { return NameLookup::Never };
        if of == NameSource::Docker {
            return docker(&root, id);
        }
        if of == NameSource::Nothing {
            return NameLookup::Never;
        }
        if self.listed.is_none_or(|listed| now >= listed + PAUSE) {
            self.listing = PodListing::read(&root);
            self.listed = Some(now);
        }
        let names = match of {
            NameSource::Pod => &self.listing.pods,
            NameSource::InPod => &self.listing.containers,
            _ => &self.listing.podman,
        };
        match names.as_ref().map(|names| names.get(id)) {
            Some(Some(name)) => NameLookup::Named(name.clone()),
            Some(None) => NameLookup::NotYet,
            None => NameLookup::Never,
        }
    }
}

/// Where a name is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NameSource {
    Pod,
    InPod,
    Docker,
    Podman,
    Nothing,
}

impl NameSource {
    fn of(is_in_pod: bool) -> impl Fn(&Container) -> Self {
        move |container| match (container.runtime, is_in_pod) {
            _ if container.monitor => Self::Nothing,
            (_, true) => Self::InPod,
            (Runtime::Docker, false) => Self::Docker,
            (Runtime::Podman, false) => Self::Podman,
            _ => Self::Nothing,
        }
    }
}

/// Whether a text can be a name: nothing else gets into labels, whatever a file holds.
fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=MOST_NAME_BYTES).contains(&text.len())
        && text.bytes().all(is_allowed)
        && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

impl PodListing {
    fn read(root: &Path) -> Self {
        let [pods, containers] = LISTED;
        Self {
            pods: listed(root, pods, pod),
            containers: listed(root, containers, container),
            podman: podman(root),
        }
    }
}

fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// What the names of a folder's entries say: ids, and what is called so. Nothing is opened or followed.
fn listed(
    root: &Path,
    folder: &str,
    read: fn(&str) -> Option<(String, String)>,
) -> Option<BTreeMap<String, String>> {
    let entries = std::fs::read_dir(inside(root, folder)).ok()?;
    let names = entries.flatten().take(MOST_ENTRIES);
    Some(names.filter_map(|entry| read(entry.file_name().to_str()?)).collect())
}

/// `<namespace>_<pod>_<uid>`: none of them has an underscore.
fn pod(entry: &str) -> Option<(String, String)> {
    let mut parts = entry.split('_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && [namespace, pod, uid].into_iter().all(is_name);
    is_whole.then(|| (uid.to_owned(), format!("{namespace}/{pod}")))
}

/// `<pod>_<namespace>_<container>-<id>.log`.
fn container(entry: &str) -> Option<(String, String)> {
    let mut parts = entry.strip_suffix(".log")?.split('_');
    let (name, id) = parts.nth(2)?.rsplit_once('-')?;
    let is_whole = parts.next().is_none() && is_name(name) && is_name(id);
    is_whole.then(|| (id.to_owned(), name.to_owned()))
}

/// What docker calls a container.
fn docker(root: &Path, id: &str) -> NameLookup {
    #[derive(Deserialize)]
    struct Config {
        #[serde(rename = "Name")]
        name: String,
    }
    let [folder, _] = READ;
    let folder = inside(root, folder);
    if !is_name(id) {
        return NameLookup::Never;
    }
    match read(&folder.join(id).join("config.v2.json"), DOCKER_BYTES) {
        Ok(bytes) => {
            let config = serde_json::from_slice::<Config>(&bytes).ok();
            let name = config.map(|config| config.name.trim_start_matches('/').to_owned());
            name.filter(|name| is_name(name)).map_or(NameLookup::Never, NameLookup::Named)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder.is_dir() => {
            NameLookup::NotYet
        }
        Err(_) => NameLookup::Never,
    }
}

/// What podman calls its containers.
fn podman(root: &Path) -> Option<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Listed {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let [_, folder] = READ;
    let bytes = read(&inside(root, folder).join("containers.json"), PODMAN_BYTES).ok()?;
    let all: Vec<Listed> = serde_json::from_slice(&bytes).ok()?;
    let named = |one: Listed| Some((one.id, one.names.into_iter().find(|name| is_name(name))?));
    Some(all.into_iter().take(MOST_ENTRIES).filter_map(named).collect())
}

/// The bytes of a regular file that is no link.
fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = files::open_regular(OpenOptions::new().read(true), path, libc::O_NOFOLLOW)?;
    files::rest(file, most_bytes)
}

#[cfg(test)]
mod tests;
