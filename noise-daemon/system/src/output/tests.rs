//! What is written where others interfere.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;

/// A user that is not the one who tests.
const OTHER: u32 = 65_534;

/// Whether this process may give files to others; a test that needs it ends where it may not.
fn may_give(root: &TempDir) -> bool {
    let path = root.path().join("probe");
    File::create(&path).unwrap();
    let given = chown(&path, Some(OTHER), None).is_ok();
    fs::remove_file(path).unwrap();
    if !given {
        eprintln!("skipped: giving files to another user needs root");
    }
    given
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut target = OutputPlace::find(path)?.begin(FILE_MODE)?;
    target.write(text.as_bytes())?;
    target.keep()
}

fn refusal<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_file_bears_its_name_once_it_is_whole() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    fs::write(&path, "old").unwrap();
    let mut target = OutputPlace::find(&path).unwrap().begin(FILE_MODE).unwrap();
    target.write(b"half").unwrap();
    drop(target);
    assert_eq!(
        (fs::read(&path).unwrap(), names(root.path())),
        (b"old".to_vec(), vec!["a".to_owned()])
    );
    write(&path, "new").unwrap();
    assert_eq!(
        (fs::read(&path).unwrap(), names(root.path())),
        (b"new".to_vec(), vec!["a".to_owned()])
    );
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, FILE_MODE);
    // However long its name is.
    write(&root.path().join("n".repeat(255)), "long").unwrap();
}

#[test]
fn what_is_no_regular_file_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
    symlink("fifo", path("link")).unwrap();
    for (name, what) in [
        ("fifo", "it is a FIFO"),
        ("link", "it is a FIFO"),
        ("", "it is a directory"),
        ("/dev/null", "it is a device"),
        ("none/a", "No such file"),
        ("..", "it names no file"),
    ] {
        let said = refusal(OutputPlace::find(&path(name)));
        assert!(said.starts_with(what), "{name}: {said}");
    }
    assert_eq!(names(root.path()), ["fifo", "link"]);
}

#[test]
fn a_link_of_the_callers_own_is_followed() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("in")).unwrap();
    for (link, target) in
        [("first", "in/second"), ("in/second", "../b"), ("way", "in"), ("loop", "loop")]
    {
        symlink(target, path(link)).unwrap();
    }
    fs::write(path("b"), "old").unwrap();
    write(&path("first"), "new").unwrap();
    write(&path("way/../c"), "beside").unwrap();
    write(&path("way/d"), "below").unwrap();
    assert_eq!(fs::read(path("b")).unwrap(), b"new");
    assert_eq!(fs::read(path("c")).unwrap(), b"beside");
    assert_eq!(fs::read(path("in/d")).unwrap(), b"below");
    assert!(fs::symlink_metadata(path("in/second")).unwrap().is_symlink());
    for name in ["loop", "loop/a"] {
        let error = OutputPlace::find(&path(name)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{name}: {error}");
    }
    // Another user may have given it this name.
    fs::hard_link(path("first"), path("also")).unwrap();
    assert!(refusal(OutputPlace::find(&path("first"))).contains("other names"));
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    if !may_give(&root) {
        return;
    }
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("precious")).unwrap();
    fs::write(path("precious/file"), "old").unwrap();
    for (link, target) in [("file", "precious/file"), ("new", "precious/new"), ("way", "precious")]
    {
        symlink(target, path(link)).unwrap();
        lchown(path(link), Some(OTHER), Some(OTHER)).unwrap();
    }
    for name in ["file", "new", "way/file", "way/new"] {
        let said = refusal(write(&path(name), "ours"));
        assert!(said.contains("a link of another user (uid 65534)"), "{name}: {said}");
    }
    for name in ["way/a", "way"] {
        assert!(refusal(Spot::find(&path(name))).contains("a link"), "{name}");
    }
    // A link of ours that leads through theirs.
    symlink("way/file", path("ours")).unwrap();
    assert!(refusal(write(&path("ours"), "ours")).contains("goes through"));
    assert_eq!(names(&path("precious")), ["file"]);
    assert_eq!(fs::read(path("precious/file")).unwrap(), b"old");
}

#[test]
fn a_link_on_the_way_has_one_name_where_others_may_make_names() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("precious")).unwrap();
    symlink("precious", path("link")).unwrap();
    fs::hard_link(path("link"), path("way")).unwrap();
    // Only root and the caller can write to its folder, so one of them made the link.
    write(&path("way/a"), "ours").unwrap();
    for mode in [0o770, 0o1777] {
        fs::set_permissions(root.path(), Permissions::from_mode(mode)).unwrap();
        for said in [refusal(write(&path("way/b"), "ours")), refusal(Spot::find(&path("way/b")))] {
            assert!(said.contains("other names") && said.contains("leads to"), "{said}");
        }
    }
    assert_eq!(names(&path("precious")), ["a"]);
    fs::remove_file(path("link")).unwrap();
    write(&path("way/b"), "ours").unwrap();
}

#[test]
fn a_file_goes_where_its_folder_went() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::create_dir(path("precious")).unwrap();
    fs::write(path("precious/a"), "old").unwrap();
    let mut target = OutputPlace::find(&path("folder/a")).unwrap().begin(FILE_MODE).unwrap();
    target.write(b"new").unwrap();
    fs::rename(path("folder"), path("moved")).unwrap();
    symlink("precious", path("folder")).unwrap();
    // What takes the name of the file meanwhile is replaced, not followed.
    symlink("../precious/a", path("moved/a")).unwrap();
    target.keep().unwrap();
    assert_eq!(fs::read(path("precious/a")).unwrap(), b"old");
    assert_eq!(fs::read(path("moved/a")).unwrap(), b"new");
    assert!(fs::symlink_metadata(path("moved/a")).unwrap().is_file());
}

#[test]
fn names_of_what_is_not_whole_cannot_be_guessed() {
    let root = tempfile::tempdir().unwrap();
    let begun =
        |name: &str| OutputPlace::find(&root.path().join(name)).unwrap().begin(FILE_MODE).unwrap();
    let targets = [begun("a"), begun("a")];
    let names = names(root.path());
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.len() > 36 && name.ends_with(".new")), "{names:?}");
    drop(targets);
}

#[test]
fn a_folder_is_the_callers_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("own")).unwrap();
    for (mode, is_own) in
        [(0o700, true), (0o755, true), (0o775, false), (0o757, false), (0o1777, false)]
    {
        fs::set_permissions(path("own"), Permissions::from_mode(mode)).unwrap();
        match Spot::find(&path("own")) {
            Ok(_) => assert!(is_own, "{mode:o}"),
            Err(error) => {
                let who = match mode {
                    0o775 => {
                        "its group may write to it (mode 775), which `chmod g-w` on it takes away"
                    }
                    _ => &format!("other users may write to it (mode {mode:o})"),
                };
                assert_eq!((error.to_string().as_str(), is_own), (who, false));
            }
        }
    }
    symlink("own", path("link")).unwrap();
    assert_eq!(refusal(Spot::find(&path("link"))), "it is a link");
    fs::write(path("file"), "").unwrap();
    let error = Spot::find(&path("file")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    if may_give(&root) {
        fs::set_permissions(path("own"), Permissions::from_mode(0o700)).unwrap();
        chown(path("own"), Some(OTHER), None).unwrap();
        assert_eq!(refusal(Spot::find(&path("own"))), "it belongs to another user (uid 65534)");
    }
}

#[test]
fn folders_are_made_when_they_are_needed() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b/c");
    let spot = Spot::find(&path).unwrap();
    assert!(spot.found().is_none() && names(root.path()).is_empty());
    let folder = spot.make().unwrap();
    assert!(folder.is_empty().unwrap());
    folder.create("x").unwrap();
    assert!(!folder.is_empty().unwrap());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
    folder.remove("x").unwrap();
    folder.discard().unwrap();
    assert_eq!(names(root.path()), [""; 0]);
    // One that was there stays, and so does what others have put something into.
    fs::create_dir_all(root.path().join("a/b")).unwrap();
    Spot::find(&root.path().join("a/b")).unwrap().make().unwrap().discard().unwrap();
    let folder = Spot::find(&root.path().join("a/b/c/d")).unwrap().make().unwrap();
    fs::write(root.path().join("a/b/c/x"), "").unwrap();
    assert!(folder.discard().is_err());
    assert_eq!(names(&root.path().join("a/b/c")), ["x"]);
}

#[test]
fn folders_that_lead_to_none_do_not_stay() {
    let root = tempfile::tempdir().unwrap();
    let name = "x".repeat(300);
    let spot = Spot::find(&root.path().join("a/b").join(name)).unwrap();
    assert!(spot.make().is_err());
    assert_eq!(names(root.path()), [""; 0]);
}

#[test]
fn nothing_is_gone_back_from_that_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/../b/c");
    for said in
        [refusal(Spot::find(&path)), refusal(write(&path, "ours")), refusal(ensure_own_way(&path))]
    {
        assert!(said.contains("goes through a and back (..)"), "{said}");
    }
    assert_eq!(names(root.path()), [""; 0]);
    fs::create_dir(root.path().join("a")).unwrap();
    Spot::find(&path).unwrap().make().unwrap();
    assert_eq!(names(root.path()), ["a", "b"]);
}

#[test]
fn what_takes_the_name_of_a_folder_meanwhile_is_not_written_to() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let spot = Spot::find(&path("new")).unwrap();
    symlink("/", path("new")).unwrap();
    assert_eq!(spot.make().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    fs::remove_file(path("new")).unwrap();
    let spot = Spot::find(&path("new/below")).unwrap();
    fs::create_dir(path("precious")).unwrap();
    symlink("precious", path("new")).unwrap();
    assert!(spot.make().is_err());
    assert_eq!(names(&path("precious")), [""; 0]);
}

#[test]
fn a_folder_that_is_swapped_gets_nothing() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let folder = Spot::find(&path("folder")).unwrap().make().unwrap();
    let inner = folder.make("kernel").unwrap();
    inner.create("metadata").unwrap();
    fs::create_dir(path("precious")).unwrap();
    for name in ["metadata", "new"] {
        fs::write(path("precious").join(name), "old").unwrap();
    }
    fs::rename(path("folder"), path("moved")).unwrap();
    symlink("precious", path("folder")).unwrap();
    fs::rename(path("moved/kernel"), path("moved/other")).unwrap();
    symlink("../precious", path("moved/kernel")).unwrap();
    inner.create("channel0_0").unwrap();
    inner.create("new").unwrap();
    inner.rename("new", "metadata").unwrap();
    inner.open_file("channel0_0").unwrap().sync_data().unwrap();
    folder.place("table").unwrap().begin(FILE_MODE).unwrap().keep().unwrap();
    assert_eq!(names(&path("precious")), ["metadata", "new"]);
    assert_eq!(fs::read(path("precious/metadata")).unwrap(), b"old");
    assert_eq!(names(&path("moved/other")), ["channel0_0", "metadata"]);
    inner.remove("metadata").unwrap();
    assert_eq!(fs::read(path("precious/metadata")).unwrap(), b"old");
    assert_eq!(names(&path("moved")), ["kernel", "other", "table"]);
}

#[test]
fn only_a_file_of_the_callers_own_is_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let extend = |name: &str| OutputPlace::find(&path(name)).and_then(OutputPlace::extend);
    extend("new").unwrap();
    assert_eq!(fs::metadata(path("new")).unwrap().mode() & 0o7777, FILE_MODE);
    fs::write(path("new"), "text").unwrap();
    let mut text = String::new();
    extend("new").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    fs::hard_link(path("new"), path("same")).unwrap();
    assert!(refusal(extend("new")).contains("other names"));
    fs::remove_file(path("same")).unwrap();
    fs::set_permissions(path("new"), Permissions::from_mode(0o666)).unwrap();
    assert!(refusal(extend("new")).contains("other users may write"));
    if may_give(&root) {
        chown(path("new"), Some(OTHER), None).unwrap();
        assert!(refusal(extend("new")).contains("belongs to another user"));
    }
}

#[test]
fn names_are_drawn_where_others_may_take_them() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(suffix_in(root.path()).unwrap(), "");
    fs::set_permissions(root.path(), Permissions::from_mode(0o1777)).unwrap();
    let [one, other] = [0; 2].map(|_| suffix_in(root.path()).unwrap());
    assert!(one.len() == 9 && one.starts_with('-') && one != other, "{one} {other}");
    assert_eq!(suffix_in(Path::new("/nonexistent")).unwrap(), "");
}
