//! What `cargo xtask package` made, looked at and tried out without systemd.

use std::collections::BTreeMap;
use std::env;
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::ptr;

use anyhow::{Context as _, Result, ensure};
use noise_tests::daemon::{Daemon, STATE_DIRECTORY, free_address, run};
use noise_tests::needed::{is_there, needs};
use noise_tests::packages::{HEALTH_COMMAND, IMAGE, newest};
use noise_tests::scratch::Folder;
use serde_json::Value;

use crate::attacks::{Target, ensure_confined};
use crate::python::Environment;
use crate::{Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("debian_package", debian_package),
    ("rpm_package", rpm_package),
    ("rpm_scripts", rpm_scripts),
    ("container_image", container_image),
    ("kubernetes_schema", kubernetes_schema),
];

/// Kubernetes's schemas, and what reads them.
static KUBERNETES: Environment = Environment::new("kubernetes", "kubernetes-validate==1.37.0\n");
/// Holds a manifest against the newest of them, without fields that they do not have; prints the kinds in it.
const VALIDATE: &str = r#"
import json, sys, yaml, kubernetes_validate as judge
documents = [document for document in yaml.safe_load_all(open(sys.argv[1])) if document]
for document in documents:
    judge.validate(document, judge.latest_version(), strict=True)
print(json.dumps([document["kind"] for document in documents]))
"#;

/// The licences and notices of what is linked in.
const NOTICES: &str = "/usr/share/doc/noised/third-party.gz";
const NOTICES_OF_RUST: &str = "/usr/share/doc/noised/third-party-rust.html.gz";

/// What every package installs, with its permissions.
const FILES: [(&str, &str); 15] = [
    ("/etc/noised/noised.toml", "-rw-r--r--"),
    ("/usr/bin/noised", "-rwxr-xr-x"),
    ("/usr/lib/systemd/system/noised.service", "-rw-r--r--"),
    ("/usr/lib/sysusers.d/noised.conf", "-rw-r--r--"),
    ("/usr/share/bash-completion/completions/noised", "-rw-r--r--"),
    ("/usr/share/zsh/site-functions/_noised", "-rw-r--r--"),
    ("/usr/share/fish/vendor_completions.d/noised.fish", "-rw-r--r--"),
    ("/usr/share/man/man1/noised.1.gz", "-rw-r--r--"),
    ("/usr/share/man/man1/noised-run.1.gz", "-rw-r--r--"),
    ("/usr/share/doc/noised/docs/commands.md", "-rw-r--r--"),
    ("/usr/share/doc/noised/deploy/prometheus/alerts.rules.yml", "-rw-r--r--"),
    ("/usr/share/doc/noised/deploy/grafana/dashboards/noised-host.json", "-rw-r--r--"),
    ("/usr/share/doc/noised/deploy/grafana/provisioning/datasources/noised.yml", "-rw-r--r--"),
    (NOTICES, "-rw-r--r--"),
    (NOTICES_OF_RUST, "-rw-r--r--"),
];

/// What a command prints; it must succeed.
fn output_of(command: &str, arguments: &[&str]) -> Result<String> {
    let mut full = Command::new(command);
    full.args(arguments);
    let outcome = run(full)?;
    ensure!(outcome.code == 0, "{command} {arguments:?}: {}{}", outcome.stdout, outcome.stderr);
    Ok(outcome.stdout)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// Requires every file of a listing to be root's and those that matter to have their permissions.
/// `owner` is how the listing writes that, `lines` are permissions, owner and, last, the name.
fn ensure_listed(lines: &str, owner: &str) -> Result<()> {
    let mut modes = BTreeMap::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(mode), Some(name)) = (words.first(), words.last()) else { continue };
        ensure!(line.contains(owner), "not root's: {line}");
        ensure!(!mode[1..].contains('s') && mode.as_bytes().get(8) != Some(&b'w'), "open: {line}");
        modes.insert(format!("/{}", name.trim_start_matches(['.', '/'])), mode.to_string());
    }
    for (name, mode) in FILES {
        let found = modes.get(name).map(String::as_str);
        ensure!(found == Some(mode), "{name} is {found:?} in {lines}");
    }
    Ok(())
}

fn debian_package() -> Result<()> {
    let package = newest(".deb")?;
    let package = text(&package)?;
    ensure_listed(&output_of("dpkg-deb", &["--contents", package])?, " root/root ")?;
    let configuration = output_of("dpkg-deb", &["--info", package, "conffiles"])?;
    ensure!(configuration == "/etc/noised/noised.toml\n", "configuration: {configuration}");
    let folder = Folder::new("deb")?;
    output_of("dpkg-deb", &["--raw-extract", package, text(folder.path())?])?;
    let mut check = Command::new("md5sum");
    check.args(["--check", "--quiet", "DEBIAN/md5sums"]).current_dir(folder.path());
    let outcome = run(check)?;
    ensure!(outcome.code == 0, "checksums: {}{}", outcome.stdout, outcome.stderr);
    let copyright = fs::read_to_string(folder.path().join("usr/share/doc/noised/copyright"))?;
    ensure!(copyright.contains("Permission is hereby granted") && !copyright.contains('@'));
    ensure_notices(folder.path())?;
    if is_there("lintian") {
        // A package that is linked statically and has no bug number is no error of ours.
        let tags = ["--fail-on", "error", "--suppress-tags", "statically-linked-binary"];
        let outcome = output_of("lintian", &[&tags[..], &["--allow-root", package]].concat())?;
        println!("{outcome}");
    }
    starts_without_libraries(folder.path())?;
    Ok(())
}

fn rpm_package() -> Result<()> {
    let package = newest(".rpm")?;
    needs(&["rpm"])?;
    let package = text(&package)?;
    ensure_listed(&output_of("rpm", &["-qplv", "--nosignature", package])?, " root ")?;
    let configuration = output_of("rpm", &["-qpc", "--nosignature", package])?;
    ensure!(configuration == "/etc/noised/noised.toml\n", "configuration: {configuration}");
    let licences = output_of("rpm", &["-qp", "--licensefiles", "--nosignature", package])?;
    for file in ["/usr/share/licenses/noised/LICENSE", NOTICES, NOTICES_OF_RUST] {
        ensure!(licences.lines().any(|line| line == file), "licences: {licences}");
    }
    let needed = output_of("rpm", &["-qp", "--requires", "--nosignature", package])?;
    ensure!(needed.lines().any(|line| line == "/usr/sbin/groupadd"), "needs: {needed}");

    let folder = Folder::new("rpm")?;
    let root = text(folder.path())?;
    let common = ["--root", root, "--nodeps", "--noscripts"];
    output_of("rpm", &[&common[..], &["--nosignature", "-i", package]].concat())?;
    let verified = output_of("rpm", &["--root", root, "--nodeps", "--noscripts", "-V", "noised"])?;
    ensure!(verified.is_empty(), "installed otherwise than packed: {verified}");
    ensure_notices(folder.path())?;
    starts_without_libraries(folder.path())?;
    output_of("rpm", &[&common[..], &["-e", "noised"]].concat())?;
    for (name, _) in FILES {
        ensure!(!Path::new(root).join(&name[1..]).exists(), "{name} is left");
    }
    Ok(())
}

/// Requires whatever is listed as linked in to have its text, or to be named as having none.
fn ensure_notices(root: &Path) -> Result<()> {
    let unpacked = |path: &str| output_of("gzip", &["-dc", text(&root.join(&path[1..]))?]);
    let page = unpacked(NOTICES)?;
    let (list, rest) =
        page.split_once("\n\n").context("no head")?.1.split_once("\n\n").context("no list")?;
    for line in list.lines() {
        let name = line.split("  ").next().unwrap_or_default();
        let carries = format!("\n{name}: ");
        let has_none = format!("\n{name}  ");
        ensure!(rest.contains(&carries) || rest.contains(&has_none), "nothing on {name:?}");
    }
    // In Rust for the host, in C, for the kernel, and of the toolchain.
    for text in ["\ntokio ", "\nzstd-sys ", "\naya-ebpf ", "\nmusl, "] {
        ensure!(rest.contains(text), "nothing of {text:?}");
    }
    ensure!(unpacked(NOTICES_OF_RUST)?.contains("Rust Standard Library"));
    Ok(())
}

/// What rpm has scripts do when the package comes, is upgraded and goes; on a system that runs and in a
/// folder that only shall become one.
fn rpm_scripts() -> Result<()> {
    const UPGRADE: [&str; 3] = ["daemon-reload", "daemon-reload", "try-restart noised.service"];
    const GOES: &str = "--no-reload disable noised.service";
    const COMES: &str = "--no-reload preset noised.service";
    let package = newest(".rpm")?;
    needs(&["rpm", "busybox"])?;
    let package = text(&package)?;
    let running: [&[&str]; 3] =
        [&[COMES, "daemon-reload"], &UPGRADE, &[GOES, "stop noised.service", "daemon-reload"]];
    let resting: [&[&str]; 3] = [&[COMES], &[], &[GOES]];
    for (is_running, expected) in [(true, running), (false, resting)] {
        let folder = Folder::new("scripts")?;
        stand_ins(folder.path(), is_running)?;
        let root = text(folder.path())?;
        let common = ["--root", root, "--nodeps", "--nosignature"];
        let phases: [&[&str]; 3] =
            [&["-i", package], &["-U", "--force", package], &["-e", "noised"]];
        for (phase, expected) in phases.iter().zip(expected) {
            let log = folder.path().join("log");
            fs::write(&log, "")?;
            output_of("rpm", &[&common[..], phase].concat())?;
            let asked = fs::read_to_string(&log)?;
            let asked: Vec<&str> = asked.lines().collect();
            ensure!(asked == *expected, "{phase:?} asks {asked:?}, not {expected:?}");
            let groups = fs::read_to_string(folder.path().join("etc/group"))?;
            ensure!(groups == "noised:x:999:\n", "{phase:?}: groups are {groups:?}");
        }
    }
    Ok(())
}

/// What the scripts of packages call, below a root: the arguments of systemctl end up in /log.
fn stand_ins(root: &Path, is_running: bool) -> Result<()> {
    let shell = output_of("sh", &["-c", "command -v busybox"])?;
    for folder in ["bin", "dev", "etc", "usr/bin", "usr/sbin"] {
        fs::create_dir_all(root.join(folder))?;
    }
    if is_running {
        fs::create_dir_all(root.join("run/systemd/system"))?;
    }
    fs::copy(shell.trim(), root.join("bin/sh"))?;
    fs::write(root.join("etc/group"), "")?;
    for (path, script) in [
        ("usr/bin/systemctl", "echo \"$*\" >> /log"),
        (
            "usr/bin/getent",
            "while read -r line; do [ \"${line%%:*}\" != \"$2\" ] || exit 0; done < /etc/group; exit 2",
        ),
        ("usr/sbin/groupadd", "[ \"$*\" = '--system noised' ] && echo noised:x:999: >> /etc/group"),
    ] {
        let path = root.join(path);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Requires the program below a root with nothing else in use to run.
fn starts_without_libraries(root: &Path) -> Result<()> {
    let said = output_of("chroot", &[text(root)?, "/usr/bin/noised", "--version"])?;
    ensure!(said.starts_with("noised "), "noised --version: {said}");
    Ok(())
}

/// The image as Kubernetes runs it: nothing but the program and licences, no file that can be written, root with
/// two capabilities and no way to more.
fn container_image() -> Result<()> {
    let image = newest(".image.tar")?;
    let folder = Folder::new("image")?;
    let parts = folder.path().join("parts");
    let root = folder.path().join("root");
    fs::create_dir(&parts)?;
    fs::create_dir(&root)?;
    output_of("tar", &["--extract", "--file", text(&image)?, "--directory", text(&parts)?])?;
    let json =
        |name: &str| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(parts.join(name))?)?) };
    let manifest = json("manifest.json")?;
    ensure!(manifest[0]["RepoTags"] == serde_json::json!([IMAGE]), "{manifest}");
    let name = |value: &Value| value.as_str().map(str::to_owned).context("no name");
    let settings = json(&name(&manifest[0]["Config"])?)?;
    let config = &settings["config"];
    ensure!(config["Entrypoint"] == serde_json::json!(["/usr/bin/noised"]), "{config}");
    let health = [&["CMD"], &HEALTH_COMMAND[..]].concat();
    ensure!(config["Healthcheck"]["Test"] == serde_json::json!(health), "{config}");
    ensure!(config["Volumes"]["/run/noised"].is_object(), "{config}");
    // On the loopback until somebody says otherwise, and with the socket that the check needs.
    ensure!(config["Cmd"] == serde_json::json!(["run", STATE_DIRECTORY, ""]), "{config}");
    ensure!(config["ExposedPorts"]["19435/tcp"].is_object(), "{config}");
    let layers = manifest[0]["Layers"].as_array().context("no layers")?.clone();
    for layer in &layers {
        let layer = parts.join(name(layer)?);
        output_of("tar", &["--extract", "--file", text(&layer)?, "--directory", text(&root)?])?;
    }
    let files = output_of("find", &[text(&root)?, "-type", "f", "-printf", "/%P\\n"])?;
    let mut files: Vec<&str> = files.lines().collect();
    files.sort_unstable();
    let licence = "/usr/share/doc/noised/LICENSE";
    let expected = ["/usr/bin/noised", licence, NOTICES_OF_RUST, NOTICES];
    ensure!(files == expected, "the image has {files:?}");
    ensure_notices(&root)?;

    // Where the engine mounts the system's own, and the volume.
    for folder in ["sys", "proc", "run/noised"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let address = free_address()?;
    let mut command = Command::new("/usr/bin/noised");
    command
        .args(["run", STATE_DIRECTORY, "", "--web.listen-address", &address.to_string()])
        .env_clear()
        .current_dir("/");
    confine(&mut command, &root)?;
    let daemon = Daemon::start_command(command, address)?;
    let scraped = daemon.scrape()?;
    let attached = scraped.total("noised_probe_attached");
    ensure!(attached > 20.0, "{attached} hooks are attached");
    ensure!(scraped.total("noised_context_switches_total") > 0.0, "nothing is counted");
    // As the image's own check asks.
    let health = [&[text(&root)?], &HEALTH_COMMAND[..]].concat();
    let healthy = output_of("chroot", &health);
    ensure!(healthy.is_ok(), "the check of a healthy container: {healthy:?}");
    ensure_confined(&Target { pid: daemon.process().pid(), address, state: None })?;
    let (status, log) = daemon.stop(libc::SIGTERM)?;
    ensure!(status.success(), "ended with {status}: {log}");
    ensure!(output_of("chroot", &health).is_err(), "the check finds health where nothing runs");
    Ok(())
}

/// Lets a command run below `root`, which it cannot write to but for the volume, with the system's /proc
/// and /sys and the two capabilities.
fn confine(command: &mut Command, root: &Path) -> Result<()> {
    const CAPABILITIES: [i32; 2] = [38, 39];
    let place = |name: &str| CString::new(root.join(name).as_os_str().as_bytes());
    let mounts = [(c"/proc", place("proc")?), (c"/sys", place("sys")?)];
    let volume = place("run/noised")?;
    let root = CString::new(root.as_os_str().as_bytes())?;
    // SAFETY: only system calls, on strings that were made before the fork.
    unsafe {
        command.pre_exec(move || {
            let done = |result: i32| match result {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
            let none = ptr::null();
            let nothing = ptr::null();
            done(libc::unshare(libc::CLONE_NEWNS))?;
            let private = libc::MS_REC | libc::MS_PRIVATE;
            done(libc::mount(none, c"/".as_ptr(), none, private, nothing))?;
            done(libc::mount(root.as_ptr(), root.as_ptr(), none, libc::MS_BIND, nothing))?;
            let read_only = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
            done(libc::mount(none, root.as_ptr(), none, read_only, nothing))?;
            done(libc::mount(volume.as_ptr(), volume.as_ptr(), none, libc::MS_BIND, nothing))?;
            let writable = libc::MS_BIND | libc::MS_REMOUNT;
            done(libc::mount(none, volume.as_ptr(), none, writable, nothing))?;
            for (from, to) in &mounts {
                let bind = libc::MS_BIND | libc::MS_REC;
                done(libc::mount(from.as_ptr(), to.as_ptr(), none, bind, nothing))?;
            }
            done(libc::chroot(root.as_ptr()))?;
            done(libc::chdir(c"/".as_ptr()))?;
            for capability in (0..64).filter(|capability| !CAPABILITIES.contains(capability)) {
                // Those that this kernel does not know need not be dropped.
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        });
    }
    Ok(())
}

fn kubernetes_schema() -> Result<()> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes/noised.yaml");
    let kinds = KUBERNETES.run(VALIDATE, &[manifest]).map_err(Impossible)?;
    println!("{kinds}");
    let is_whole =
        kinds.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "DaemonSet"));
    ensure!(is_whole, "the validator read {kinds}");
    Ok(())
}
