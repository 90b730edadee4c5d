//! What commands write, where another user may interfere, and beyond a limit on the size of files.

#![expect(clippy::unwrap_used, reason = "helpers of tests outside of test functions")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use noise_wire::Recorder;
use noise_wire::sampled::{host, small};
use tempfile::TempDir;

/// A user that is not the one who tests.
const OTHER: u32 = 65_534;

const TEXT: &str = "\
# tracer: nop
 a-11 [001] d.... 10.000000: sched_switch: prev_comm=a prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=b next_pid=12 next_prio=120
 b-12 [001] d.... 10.000030: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=a next_pid=11 next_prio=120
";

/// A folder with a trace, and a file and a folder that nothing is to be written to.
fn root() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("trace"), TEXT).unwrap();
    fs::create_dir(root.path().join("precious")).unwrap();
    fs::write(root.path().join("precious/file"), "old").unwrap();
    root
}

fn ensure_untouched(root: &TempDir) {
    let precious = root.path().join("precious");
    assert_eq!(fs::read(precious.join("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(precious).unwrap().count(), 1);
}

/// Runs noised in that folder, behind a shell's words.
fn noised(root: &TempDir, before: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before} exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_noised"));
    let Output { status, stderr, .. } =
        command.args(arguments).current_dir(root.path()).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Makes a link of another user; `None` where only root could.
fn theirs(link: &Path, target: &str) -> Option<()> {
    symlink(target, link).unwrap();
    lchown(link, Some(OTHER), Some(OTHER)).ok().or_else(|| {
        eprintln!("skipped: giving links to another user needs root");
        None
    })
}

#[test]
fn links_of_another_user_lead_nowhere() {
    let root = root();
    let path = |name: &str| root.path().join(name);
    for (link, target) in [("file", "precious/file"), ("new", "precious/new"), ("way", "precious")]
    {
        if theirs(&path(link), target).is_none() {
            return;
        }
    }
    fs::create_dir(path("pages")).unwrap();
    theirs(&path("pages/noised.1"), "../precious/file").unwrap();
    for name in ["file", "new", "way/file", "way/new"] {
        for arguments in [
            &["trace", "export", "trace", "--perfetto", name][..],
            &["trace", "export", "trace", "--json-lines", name],
            &["trace", "critical-path", "trace", "--execution", "thread:11", "--perfetto", name],
            &["bench", "detour", "--duration", "10ms", "--svg", name],
        ] {
            let (code, said) = noised(&root, "", arguments);
            assert!([Some(1), Some(2)].contains(&code), "{arguments:?}: {code:?} {said}");
            assert!(said.contains("a link of another user (uid 65534)"), "{arguments:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    for arguments in [
        &["trace", "export", "trace", "--csv", "way"][..],
        &["trace", "export", "trace", "--csv", "way/tables"],
        &["record", "--own", "--duration", "1ms", "-o", "way"],
        &["record", "--own", "--duration", "1ms", "-o", "way/recording"],
        &["incidents", "show", "1", "--export", "way/recording"],
        &["man", "--directory", "pages"],
    ] {
        let (code, said) = noised(&root, "", arguments);
        assert!([Some(1), Some(2)].contains(&code), "{arguments:?}: {code:?} {said}");
        assert!(said.contains("link"), "{arguments:?}: {said}");
    }
    ensure_untouched(&root);
}

#[test]
fn manual_pages_are_written_all_or_none() {
    let root = root();
    let pages = root.path().join("pages");
    // A page that comes late: those before it must not be written.
    for taken in ["noised.1", "noised-why.1", "noised-bench-detour.1"] {
        fs::create_dir_all(pages.join(taken)).unwrap();
        let (code, said) = noised(&root, "", &["man", "--directory", "pages"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(taken), "{said}");
        assert_eq!(fs::read_dir(&pages).unwrap().count(), 1, "{taken}");
        fs::remove_dir(pages.join(taken)).unwrap();
    }
    let (code, said) = noised(&root, "", &["man", "--directory", "pages"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read_dir(&pages).unwrap().count() > 20);
}

#[test]
fn a_folder_that_only_its_group_may_write_to_is_refused_with_the_way_out() {
    let root = root();
    let path = root.path().join("ours");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).unwrap();
    for arguments in [
        &["trace", "export", "trace", "--csv", "ours"][..],
        &["record", "--own", "--duration", "1ms", "-o", "ours"],
    ] {
        let (code, said) = noised(&root, "", arguments);
        assert!([Some(1), Some(2)].contains(&code), "{arguments:?}: {code:?} {said}");
        assert!(said.contains("its group may write to it (mode 775)"), "{said}");
        assert!(said.contains("`chmod g-w`") && said.lines().count() == 1, "{said}");
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn a_state_directory_that_others_share_is_refused() {
    let root = root();
    let path = root.path().join("shared");
    fs::create_dir(&path).unwrap();
    let checked = |mode: u32| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let words = ["run", "--config.file", "", "--config.check", "--state.directory", "shared"];
        let (code, said) = noised(&root, "", &words);
        let is_refused =
            said.contains("state.directory") && said.contains("name a directory of noised's own");
        assert_eq!(is_refused, code == Some(2), "{code:?} {said}");
        assert!(is_refused || code == Some(0), "{code:?} {said}");
        is_refused
    };
    // One that is empty, or noised's alone, is closed to others when it is taken.
    assert!(!checked(0o1777));
    fs::write(path.join("incidents.json"), "").unwrap();
    assert!(!checked(0o777));
    fs::write(path.join("other"), "").unwrap();
    assert!(checked(0o1777) && checked(0o770));
    assert!(!checked(0o755));
}

#[test]
fn a_socket_that_others_could_replace_is_refused() {
    let root = root();
    let path = root.path().join("shared");
    fs::create_dir(&path).unwrap();
    for (mode, expected) in [(0o755, 0), (0o777, 2), (0o1777, 0)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let words = ["run", "--config.file", "", "--config.check", "--socket.path", "shared/s"];
        let (code, said) = noised(&root, "", &words);
        assert_eq!(code, Some(expected), "{said}");
        assert_eq!(said.contains("could replace the socket"), expected == 2, "{said}");
    }
}

#[test]
fn a_socket_that_cannot_be_made_is_refused_before_anything_is_loaded() {
    let root = root();
    fs::write(root.path().join("taken"), "kept").unwrap();
    let long = "x".repeat(108);
    for (path, words) in [("taken", "taken is a file"), (long.as_str(), "may have 99")] {
        let (code, said) = noised(
            &root,
            "",
            &["run", "--config.file", "", "--config.check", "--socket.path", path],
        );
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("socket.path cannot be used") && said.contains(words), "{said}");
    }
    assert_eq!(fs::read(root.path().join("taken")).unwrap(), b"kept");
}

#[test]
fn a_screen_that_cannot_be_written_is_an_error() {
    let root = root();
    let mut recorder = Recorder::open(&root.path().join("frames"), &host()).unwrap();
    (1..3).for_each(|second| recorder.append(&small(second)).unwrap());
    drop(recorder);
    let words = ["top", "--once", "--json", "--replay", "frames"];
    let (code, said) = noised(&root, "exec > /dev/full;", &words);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot write the result"), "{said}");
    assert_eq!(noised(&root, "exec > /dev/null;", &words).0, Some(0));
}

#[test]
fn what_of_a_recording_cannot_be_shown_is_said() {
    let root = root();
    let path = root.path().join("frames");
    let mut recorder = Recorder::open(&path, &host()).unwrap();
    let ends = [1, 2, 3].map(|second| {
        recorder.append(&small(second)).unwrap();
        fs::metadata(&path).unwrap().len() as usize
    });
    drop(recorder);
    let whole = fs::read(&path).unwrap();
    let shown = |bytes: &[u8], words: &[&str]| {
        fs::write(&path, bytes).unwrap();
        noised(&root, "", &[&["top", "--replay", "frames"], words].concat())
    };
    let (once, batch) = (["--once", "--json"], ["--batch", "--interval", "100ms"]);
    for words in [&once[..], &batch] {
        assert_eq!(shown(&whole, words), (Some(0), String::new()));
        let (code, said) = shown(&whole[..whole.len() - 1], words);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(said, "noised: frames was cut off: it is shown up to frame 2\n");
    }
    // A wrong bit in every frame, and at the end half of one.
    let mut damaged = whole[..whole.len() - 1].to_vec();
    ends[..2].iter().for_each(|end| damaged[end - 1] ^= 1);
    let wrong = |frame: u8| {
        format!("noised: frame {frame} of frames: the frame is damaged (its check sum is wrong)\n")
    };
    assert_eq!(shown(&damaged, &once), (Some(1), wrong(2)));
    let (code, said) = shown(&damaged, &batch);
    assert_eq!(code, Some(1), "{said}");
    let cut_off = "noised: frames was cut off: it is shown up to frame 2\n";
    let nothing = "noised: no frame of frames can be read\n";
    assert_eq!(said, wrong(1) + &wrong(2) + cut_off + nothing);
    // Of a recording, there is nothing to watch.
    let (code, said) = shown(&whole, &["--once", "--screen", "services"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("on their host itself"), "{said}");
}

#[test]
fn a_state_directory_and_a_socket_behind_the_link_of_another_user_are_refused() {
    let root = root();
    fs::create_dir(root.path().join("target")).unwrap();
    let link = root.path().join("link");
    symlink("target", &link).unwrap();
    let checked = |option: &str, path: &str| {
        noised(&root, "", &["run", "--config.file", "", "--config.check", option, path])
    };
    let cases = [("--state.directory", "link/state"), ("--socket.path", "link/noised.sock")];
    for (option, path) in cases {
        assert_eq!(checked(option, path).0, Some(0));
    }
    if lchown(&link, Some(OTHER), Some(OTHER)).is_err() {
        return eprintln!("skipped: giving links to another user needs root");
    }
    for (option, path) in cases {
        let (code, said) = checked(option, path);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("link, a link of another user (uid 65534)"), "{said}");
        assert!(said.contains(option.trim_start_matches('-')), "{said}");
    }
    // What its user cannot reach is no reason: it may be checked by another user than runs it.
    fs::write(root.path().join("file"), "").unwrap();
    for (option, path) in
        [("--state.directory", "file/state"), ("--socket.path", "file/noised.sock")]
    {
        assert_eq!(checked(option, path).0, Some(0));
    }
    assert_eq!(fs::read_dir(root.path().join("target")).unwrap().count(), 0);
}

#[test]
fn a_state_directory_of_another_user_is_refused_unless_root_gave_it() {
    let root = root();
    let home = root.path().join("home");
    fs::create_dir_all(home.join("state")).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["run", "--config.file", "", "--config.check", "--state.directory", "home/state"];
    if chown(home.join("state"), Some(OTHER), Some(OTHER)).is_err() {
        return eprintln!("skipped: giving folders to another user needs root");
    }
    let (code, said) = noised(&root, "", &words);
    assert_eq!(code, Some(0), "{said}");
    chown(&home, Some(OTHER), Some(OTHER)).unwrap();
    let (code, said) = noised(&root, "", &words);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("state.directory cannot be used"), "{said}");
    assert!(said.contains("it belongs to another user (uid 65534)"), "{said}");
}

#[test]
fn folders_of_another_user_are_refused_for_several_files() {
    let root = root();
    let path = root.path().join("theirs");
    fs::create_dir(&path).unwrap();
    if chown(&path, Some(OTHER), Some(OTHER)).is_err() {
        return eprintln!("skipped: giving folders to another user needs root");
    }
    for arguments in [
        &["trace", "export", "trace", "--csv", "theirs"][..],
        &["record", "--own", "--duration", "1ms", "-o", "theirs"],
        &["incidents", "show", "1", "--export", "theirs"],
    ] {
        let (code, said) = noised(&root, "", arguments);
        assert!([Some(1), Some(2)].contains(&code), "{arguments:?}: {code:?} {said}");
        assert!(said.contains("belongs to another user (uid 65534)"), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    // A single file may go there, and a folder may be made.
    let (code, said) = noised(&root, "", &["trace", "export", "trace", "--perfetto", "theirs/a"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = noised(&root, "", &["trace", "export", "trace", "--csv", "theirs/tables"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn what_a_process_was_given_is_written_to() {
    let root = root();
    let arguments = ["bench", "detour", "--duration", "10ms", "--csv", "--svg", "/dev/stdout"];
    let (code, said) = noised(&root, "exec > printed;", &arguments);
    assert_eq!(code, Some(0), "{said}");
    let printed = fs::read_to_string(root.path().join("printed")).unwrap();
    let (picture, table) = printed.split_once("</svg>").unwrap();
    assert!(picture.contains("<svg") && table.lines().count() > 1, "{table}");
    let (code, said) =
        noised(&root, "", &["bench", "detour", "--duration", "10ms", "--svg", "/dev/null"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let root = root();
    fs::write(root.path().join("lines"), "old").unwrap();
    for arguments in [
        &["trace", "export", "trace", "--json-lines", "lines"][..],
        &["trace", "export", "trace", "--csv", "lines.d"],
        &["bench", "detour", "--duration", "10ms", "--svg", "lines"],
    ] {
        let (code, said) = noised(&root, "ulimit -f 0;", arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("may write files of at most 0 bytes"), "{arguments:?}: {said}");
        assert!(said.contains("ulimit -f"), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read(root.path().join("lines")).unwrap(), b"old");
    let names = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["lines", "precious", "trace"]);
}
