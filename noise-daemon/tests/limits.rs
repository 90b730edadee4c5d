//! Limits of the process that `noised` is started with.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use caps::{CapSet, Capability};
use nix::sys::resource::{Resource, setrlimit};

const KIB: u64 = 1024;

/// `noised` with so large a stack, and the capability to raise the limit or without.
fn started(stack_bytes: u64, may_raise: bool) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
    command.arg("--version");
    let limit = move || {
        if !may_raise
            && caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_RESOURCE).unwrap_or(false)
        {
            caps::drop(None, CapSet::Bounding, Capability::CAP_SYS_RESOURCE)
                .map_err(std::io::Error::other)?;
            caps::drop(None, CapSet::Effective, Capability::CAP_SYS_RESOURCE)
                .map_err(std::io::Error::other)?;
        }
        setrlimit(Resource::RLIMIT_STACK, stack_bytes, stack_bytes).map_err(Into::into)
    };
    // SAFETY: what runs in the child makes system calls alone.
    unsafe { command.pre_exec(limit) };
    command.output().unwrap()
}

#[test]
fn a_small_stack_is_raised_or_refused_in_a_sentence() {
    let is_root = caps::has_cap(None, CapSet::Effective, Capability::CAP_SYS_RESOURCE).unwrap();
    for stack_bytes in [64 * KIB, 128 * KIB, 256 * KIB, 1024 * KIB, 8192 * KIB, libc::RLIM_INFINITY]
    {
        for may_raise in [is_root, false] {
            let output = started(stack_bytes, may_raise);
            let (code, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
            if may_raise || stack_bytes >= 2048 * KIB {
                assert_eq!(code, Some(0), "{stack_bytes}: {said}");
                continue;
            }
            assert_eq!(code, Some(1), "{stack_bytes}: {said}");
            let words = format!("limited to {} KiB, and noised needs 2048", stack_bytes / KIB);
            assert!(said.contains(&words) && said.lines().count() == 1, "{said}");
        }
    }
}

#[test]
fn too_few_descriptors_are_said_in_a_sentence() {
    let asking: [&[&str]; 4] = [
        &["incidents", "--connect", "/nowhere.sock"],
        &["check", "--connect", "/nowhere.sock"],
        &["why", "1", "--connect", "/nowhere.sock"],
        &["record", "--connect", "/nowhere.sock", "--duration", "1s"],
    ];
    let root = tempfile::tempdir().unwrap();
    for (most, arguments) in (6..=9).flat_map(|most| asking.map(|one| (most, one))) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noised"));
        command.args(arguments).current_dir(root.path());
        let limit = move || setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(Into::into);
        // SAFETY: what runs in the child makes system calls alone.
        unsafe { command.pre_exec(limit) };
        let output = command.output().unwrap();
        let (code, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert_eq!(code, Some(1), "{arguments:?} {most}: {said}");
        let is_said = said.contains("file descriptors") && said.contains("ulimit -n");
        assert!(is_said && said.lines().count() == 1, "{arguments:?} {most}: {said}");
    }
}
