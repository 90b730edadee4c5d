//! IO: from a cgroup's id to its path, by walking the hierarchy.
//!
//! The id that the kernel gives a cgroup is the inode number of its folder, and kernfs does not use
//! one twice. A folder's entries come with their inode numbers, so a walk opens each folder once
//! and looks at no file. Cgroups come and go meanwhile; one that has gone is passed over.
//!
//! An id is unknown as long as no walk has looked for it, and known to be absent for
//! [`ABSENT_FOR`] after one has; that happens to cgroups that were gone before they were looked up.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;

use super::identity::Identity;

/// Cgroups that a [`Tree`] remembers, ids that it knows to be absent, and ids that wait for a walk.
pub const CAPACITY: usize = 8_192;

/// Shortest time from one walk to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// What each folder of a walk adds to the pause after it. Reading one takes 10 to 30 µs, so this
/// keeps walks of large trees within a few percent of one CPU.
const PAUSE_PER_FOLDER: Duration = Duration::from_micros(500);
/// How long an id that a walk did not find is not looked for again.
const ABSENT_FOR: Duration = Duration::from_secs(60);
/// How long a cgroup that is gone keeps its name after it was last looked up: what it did last may
/// still have to be reported.
const GONE_FOR: Duration = Duration::from_secs(60);
/// Folders that a walk opens at most, the shallow ones first.
const MAX_FOLDERS: usize = 65_536;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Path in its hierarchy, from `/`.
    pub path: PathBuf,
    pub identity: Identity,
}

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CgroupLook {
    Found(Arc<Cgroup>),
    /// Nothing yet; the next walk may find it.
    Waiting,
    /// The last walk did not come across it. It is looked for again from time to time.
    Absent,
}

/// A hierarchy of cgroups, with what is known of it.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    known: LruCache<u64, CgroupEntry>,
    absent: LruCache<u64, Instant>,
    waiting: HashSet<u64>,
    next_walk: Option<Instant>,
    walks: u64,
}

#[derive(Debug)]
struct CgroupEntry {
    cgroup: Arc<Cgroup>,
    /// When it was last looked up; a cgroup that a walk came across in passing counts as looked up.
    asked: Instant,
    /// The last walk that came across it.
    walk: u64,
}

impl Tree {
    /// The hierarchy that is mounted at `root`, of which nothing is known yet.
    pub fn new(root: &Path) -> Self {
        Self::with_capacity(root, CAPACITY)
    }

    fn with_capacity(root: &Path, capacity: usize) -> Self {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        Self {
            root: root.to_owned(),
            known: LruCache::sparse(capacity),
            absent: LruCache::sparse(capacity),
            waiting: HashSet::new(),
            next_walk: None,
            walks: 0,
        }
    }

    /// The cgroup of an id. `now` must not run backwards.
    ///
    /// An id that is not known makes the tree be walked, at most once per second. Ids that come in
    /// between wait for the next walk, which answers all of them.
    pub fn look(&mut self, id: u64, now: Instant) -> CgroupLook {
        if let Some(known) = self.known.get_mut(&id) {
            known.asked = now;
            return CgroupLook::Found(Arc::clone(&known.cgroup));
        }
        if self.absent.get(&id).is_some_and(|until| now < *until) {
            return CgroupLook::Absent;
        }
        if self.waiting.len() < CAPACITY {
            self.waiting.insert(id);
        }
        if self.next_walk.is_some_and(|next| now < next) {
            return CgroupLook::Waiting;
        }
        self.walk(now);
        self.known
            .get(&id)
            .map_or(CgroupLook::Absent, |known| CgroupLook::Found(Arc::clone(&known.cgroup)))
    }

    /// Whether the folder of an id is no longer there; also where its path is not known any more.
    pub fn is_gone(&mut self, id: u64) -> bool {
        let Some(known) = self.known.peek(&id) else { return true };
        let path = &known.cgroup.path;
        let path = self.root.join(path.strip_prefix("/").unwrap_or(path));
        !path.metadata().is_ok_and(|metadata| metadata.ino() == id)
    }

    /// The path of a cgroup that is known by a label, and there.
    pub fn path(&mut self, is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
        let known = self.known.iter();
        let named = known.filter(|(_, known)| is_it(&known.cgroup.identity.label));
        let named: Vec<u64> = named.map(|(id, _)| *id).collect();
        let there = named.into_iter().find(|id| !self.is_gone(*id))?;
        self.known.peek(&there).map(|known| known.cgroup.path.clone())
    }

    /// How often the hierarchy was walked.
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// Number of cgroups that are known.
    pub fn known(&self) -> usize {
        self.known.len()
    }

    fn walk(&mut self, now: Instant) {
        self.walks += 1;
        let walk = self.walks;
        let Self { known, waiting, .. } = self;
        let walked = visit(&self.root, |id, path| {
            let wanted = waiting.remove(&id);
            if let Some(old) = known.peek_mut(&id) {
                old.walk = walk;
                // Version 1 lets cgroups be renamed.
                if old.cgroup.path == path {
                    return;
                }
            } else if !wanted && known.len() == known.cap().get() {
                // In a tree that is larger than the memory, only what was looked up gets in.
                return;
            }
            let cgroup = Cgroup { path: path.to_owned(), identity: Identity::of(path) };
            known.put(id, CgroupEntry { cgroup: Arc::new(cgroup), asked: now, walk });
        });
        if walked.complete {
            known.retain(|_, known| known.walk == walk || now < known.asked + GONE_FOR);
        }
        for id in waiting.drain() {
            self.absent.put(id, now + ABSENT_FOR);
        }
        let folders = u32::try_from(walked.folders).unwrap_or(u32::MAX);
        self.next_walk = Some(now + PAUSE + PAUSE_PER_FOLDER * folders);
    }
}

struct Walked {
    /// Folders that were opened.
    folders: usize,
    /// Whether every folder that is not gone was read.
    complete: bool,
}

/// Shows each folder's inode number and path below `root`, those nearer to it first. Symbolic links are not followed.
fn visit(root: &Path, mut show: impl FnMut(u64, &Path)) -> Walked {
    let mut walked = Walked { folders: 0, complete: true };
    let top = PathBuf::from("/");
    match root.metadata() {
        Ok(metadata) => show(metadata.ino(), &top),
        Err(_) => walked.complete = false,
    }
    let mut queue = VecDeque::from([top]);
    while let Some(folder) = queue.pop_front() {
        if walked.folders == MAX_FOLDERS {
            walked.complete = false;
            break;
        }
        walked.folders += 1;
        let inside = folder.strip_prefix("/").unwrap_or(&folder);
        let read = std::fs::read_dir(root.join(inside)).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    let path = folder.join(entry.file_name());
                    show(entry.ino(), &path);
                    if walked.folders + queue.len() < MAX_FOLDERS {
                        queue.push_back(path);
                    } else {
                        walked.complete = false;
                    }
                }
            }
            Ok(())
        });
        if read.is_err_and(|error| !is_gone(&error)) {
            walked.complete = false;
        }
    }
    walked
}

/// Whether a folder is no longer there. Kernfs says `ENODEV` for one that is gone while open.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use super::{ABSENT_FOR, CAPACITY, Cgroup, CgroupLook, GONE_FOR, PAUSE, Tree, visit};

    impl Tree {
        fn find(&mut self, id: u64, now: Instant) -> Option<Arc<Cgroup>> {
            match self.look(id, now) {
                CgroupLook::Found(cgroup) => Some(cgroup),
                CgroupLook::Waiting | CgroupLook::Absent => None,
            }
        }
    }

    const SECOND: Duration = Duration::from_secs(1);
    /// An inode number that no file has.
    const UNUSED: u64 = u64::MAX;

    fn fixture(folders: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in folders {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        root
    }

    fn id(root: &TempDir, folder: &str) -> u64 {
        root.path().join(folder).metadata().unwrap().ino()
    }

    fn path(tree: &mut Tree, id: u64, now: Instant) -> Option<String> {
        Some(tree.find(id, now)?.path.to_str().unwrap().to_owned())
    }

    #[test]
    fn ids_are_found_with_what_they_stand_for() {
        let root = fixture(&["system.slice/nginx.service/worker", "init.scope"]);
        fs::write(root.path().join("cgroup.procs"), "1\n").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("loop")).unwrap();
        let (mut tree, now) = (Tree::new(root.path()), Instant::now());
        let worker = tree.find(id(&root, "system.slice/nginx.service/worker"), now).unwrap();
        assert_eq!(worker.path, Path::new("/system.slice/nginx.service/worker"));
        assert_eq!(worker.identity.label, "nginx.service/worker");
        assert_eq!(path(&mut tree, id(&root, ""), now).as_deref(), Some("/"));
        assert_eq!(path(&mut tree, id(&root, "init.scope"), now).as_deref(), Some("/init.scope"));
        assert_eq!(path(&mut tree, id(&root, "cgroup.procs"), now), None);
        assert_eq!((tree.known(), tree.walks()), (5, 1));
    }

    #[test]
    fn walks_are_rare_and_answer_all_that_wait() {
        let root = fixture(&["a"]);
        let (mut tree, start) = (Tree::new(root.path()), Instant::now());
        assert!(tree.find(UNUSED, start).is_none());
        fs::create_dir(root.path().join("b")).unwrap();
        let new = id(&root, "b");
        for step in 0..9 {
            let now = start + SECOND * step / 10;
            assert!(tree.find(new, now).is_none());
            assert!(tree.find(UNUSED - 1 - u64::from(step), now).is_none());
        }
        assert_eq!(tree.walks(), 1);
        assert_eq!(tree.look(new, start), CgroupLook::Waiting);
        assert_eq!(tree.look(UNUSED, start), CgroupLook::Absent);
        let later = start + SECOND * 2;
        assert_eq!(path(&mut tree, new, later).as_deref(), Some("/b"));
        assert_eq!(tree.walks(), 2);
        // All of these were looked for by the two walks.
        for step in 0..=9 {
            assert!(tree.find(UNUSED - step, start + SECOND * 50).is_none());
        }
        assert_eq!(tree.walks(), 2);
        assert!(tree.find(UNUSED, start + ABSENT_FOR).is_none());
        assert_eq!(tree.walks(), 3);
    }

    #[test]
    fn a_cgroup_that_vanishes_during_the_walk_is_passed_over() {
        let root = fixture(&["a/inner", "b/inner"]);
        let mut seen = Vec::new();
        let walked = visit(root.path(), |_, path| {
            if path == Path::new("/a") {
                fs::remove_dir_all(root.path().join("a")).unwrap();
            }
            seen.push(path.to_str().unwrap().to_owned());
        });
        seen.sort();
        assert_eq!(seen, ["/", "/a", "/b", "/b/inner"]);
        assert!(walked.complete);
    }

    #[test]
    fn a_tree_that_is_not_there_has_no_cgroups() {
        let root = fixture(&[]);
        let (mut tree, now) = (Tree::new(&root.path().join("absent")), Instant::now());
        assert!(tree.find(1, now).is_none());
        assert_eq!((tree.known(), tree.walks()), (0, 1));
    }

    #[test]
    fn a_cgroup_that_is_gone_keeps_its_name_for_a_while() {
        let root = fixture(&["a"]);
        let (mut tree, start) = (Tree::new(root.path()), Instant::now());
        let a = id(&root, "a");
        assert_eq!(path(&mut tree, a, start).as_deref(), Some("/a"));
        assert!(!tree.is_gone(a));
        fs::remove_dir(root.path().join("a")).unwrap();
        assert!(tree.is_gone(a) && tree.is_gone(UNUSED));
        let asked = start + SECOND * 10;
        assert!(tree.find(UNUSED, asked).is_none());
        assert_eq!(path(&mut tree, a, asked).as_deref(), Some("/a"));
        assert!(tree.find(UNUSED - 1, asked + GONE_FOR).is_none());
        assert_eq!((tree.known(), path(&mut tree, a, asked + GONE_FOR)), (1, None));
    }

    #[test]
    fn a_renamed_cgroup_has_its_new_name_after_the_next_walk() {
        let root = fixture(&["a"]);
        let (mut tree, start) = (Tree::new(root.path()), Instant::now());
        let a = id(&root, "a");
        assert_eq!(path(&mut tree, a, start).as_deref(), Some("/a"));
        fs::rename(root.path().join("a"), root.path().join("b")).unwrap();
        assert!(tree.find(UNUSED, start + SECOND * 2).is_none());
        assert_eq!(path(&mut tree, a, start + SECOND * 2).as_deref(), Some("/b"));
    }

    #[test]
    fn in_a_large_tree_what_is_asked_for_stays() {
        let names: Vec<_> = (0..20).map(|n| format!("c{n}")).collect();
        let root = fixture(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut tree = Tree::with_capacity(root.path(), 4);
        let mut now = Instant::now();
        for name in &names {
            now += SECOND * 2;
            assert_eq!(path(&mut tree, id(&root, name), now), Some(format!("/{name}")));
            assert!(tree.known() <= 4);
        }
        let walks = tree.walks();
        for name in &names[16..] {
            assert!(tree.find(id(&root, name), now).is_some());
        }
        assert_eq!(tree.walks(), walks);
    }

    #[test]
    fn ten_thousand_short_lives_leave_nothing_behind() {
        let root = fixture(&["lasting"]);
        let lasting = id(&root, "lasting");
        let (mut tree, mut now) = (Tree::new(root.path()), Instant::now());
        for cycle in 0..10_000 {
            let name = format!("c{cycle}");
            let folder = root.path().join(&name);
            fs::create_dir(&folder).unwrap();
            // Unlike kernfs, other file systems use inode numbers again, so the name may be an
            // older one until the next walk.
            tree.find(folder.metadata().unwrap().ino(), now);
            tree.find(UNUSED - cycle, now);
            fs::remove_dir(&folder).unwrap();
            assert!(tree.known() <= 200 && tree.waiting.len() <= 2, "{}", tree.known());
            assert_eq!(path(&mut tree, lasting, now).as_deref(), Some("/lasting"));
            now += PAUSE + SECOND / 2;
        }
        assert_eq!(tree.absent.len(), CAPACITY);
        now += GONE_FOR;
        assert!(tree.find(UNUSED, now).is_none());
        assert_eq!(tree.known(), 2);
    }

    #[test]
    fn a_flood_of_ids_is_bounded_even_without_walks() {
        let root = fixture(&[]);
        let (mut tree, start) = (Tree::new(root.path()), Instant::now());
        for id in 0..100_000 {
            tree.find(UNUSED - id, start);
        }
        assert_eq!((tree.walks(), tree.waiting.len()), (1, CAPACITY));
        tree.find(UNUSED, start + SECOND * 2);
        tree.find(UNUSED - 1_000_000, start + SECOND * 2);
        assert!(tree.waiting.len() <= 1);
        assert_eq!(tree.absent.len(), CAPACITY);
    }
}
