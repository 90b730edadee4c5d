//! Which source is shown.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use noise_client::FrameSource;
use noise_client::connect::{Connect, host_socket};
use noise_client::{Fault, over_http, over_socket, probe};
use noise_command::{CommandError, Exit, output};
use noise_host::kernel::{KernelError, Sight};
use noise_wire::WebClient;

use super::engine::{EngineSource, OpenError};

/// The daemon that the user named; else the one of this host; else the kernel itself, if allowed.
/// Errors: where there is neither.
pub fn open(
    connect: Option<&Connect>,
    client: Option<&Path>,
    interval: Duration,
) -> Result<Box<dyn FrameSource>, CommandError> {
    match connect {
        Some(Connect::Socket(path)) => local(path, interval),
        Some(Connect::Http(address)) => {
            let client = WebClient::read(client)?;
            let source = over_http(address, interval, client).context("cannot start a thread")?;
            Ok(Box::new(source))
        }
        None => choose(&host_socket(), interval, || {
            let source = EngineSource::start(interval)?;
            if let Some(trouble) = Sight::of(Path::new("/proc")).trouble() {
                output::complain(&format!("warning: {trouble}"));
            }
            Ok(Box::new(source))
        }),
    }
}

fn local(path: &Path, interval: Duration) -> Result<Box<dyn FrameSource>, CommandError> {
    let source = over_socket(path, interval).context("cannot start a thread")?;
    Ok(Box::new(source))
}

fn choose(
    path: &Path,
    interval: Duration,
    engine: impl FnOnce() -> Result<Box<dyn FrameSource>, OpenError>,
) -> Result<Box<dyn FrameSource>, CommandError> {
    let fault = match probe(path) {
        Err(fault @ (Fault::Absent { .. } | Fault::Denied { .. })) => fault,
        // A daemon is there, even if it hangs: to measure beside it would cost twice.
        _ => return local(path, interval),
    };
    match engine() {
        Err(OpenError::Kernel(
            error @ (KernelError::NotPermitted { .. } | KernelError::OwnUsers),
        )) => {
            let needed = match error {
                KernelError::NotPermitted { missing } => missing,
                _ => "CAP_BPF and CAP_PERFMON outside of this user namespace".to_owned(),
            };
            let sentence = match fault {
                Fault::Denied { .. } => fault.to_string(),
                _ => format!(
                    "no noised runs here (no answer at {}), and measuring without one needs \
                     {needed}: start one with `sudo noised run`, look with `sudo noised top`, or \
                     name one with --connect http://HOST:19435",
                    path.display()
                ),
            };
            Err(CommandError { exit: Exit::Unsupported, source: anyhow::Error::msg(sentence) })
        }
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use noise_client::fake::{Fake, Reply, as_unprivileged};
    use noise_wire::{CONTENT_TYPE, encode, sampled};

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(20);

    fn not_permitted() -> Result<Box<dyn FrameSource>, OpenError> {
        Err(KernelError::NotPermitted { missing: "CAP_BPF".to_owned() }.into())
    }

    fn no_source(path: &Path) -> String {
        match choose(path, INTERVAL, not_permitted) {
            Err(error) => {
                assert_eq!(error.exit, Exit::Unsupported);
                error.to_string()
            }
            Ok(source) => panic!("{}", source.name()),
        }
    }

    #[test]
    fn a_daemon_comes_before_measuring() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("noised.sock");
        let daemon = Fake::local(&path, Reply::frame(1));
        let chosen = || choose(&path, INTERVAL, || panic!("not asked for")).unwrap();
        assert_eq!(chosen().name(), daemon.name);
        let mut newer = encode(&sampled::small(2)).unwrap();
        newer[8] = 2;
        for reply in [Reply::of(200, CONTENT_TYPE, &newer), Reply::Silence] {
            daemon.answer(reply);
            assert_eq!(chosen().name(), daemon.name);
        }
    }

    #[test]
    fn without_a_daemon_privileges_are_needed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("noised.sock");
        let sentence = no_source(&path);
        for words in [path.to_str().unwrap(), "CAP_BPF", "noised run", "--connect"] {
            assert!(sentence.contains(words), "{sentence}");
        }
        // One that died.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(no_source(&path).contains("noised run"));
        let chosen = choose(&path, INTERVAL, || Err(KernelError::Lockdown.into()));
        let error = chosen.err().unwrap();
        assert!(matches!(error.source.downcast_ref(), Some(KernelError::Lockdown)));
        assert_eq!(error.exit, Exit::Unsupported);
    }

    #[test]
    fn who_may_not_use_the_socket_reads_so() {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        let path = root.path().join("noised.sock");
        let _daemon = Fake::local(&path, Reply::frame(1));
        std::fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        let sentence = as_unprivileged(move || no_source(&path));
        assert!(sentence.contains("not allowed to use"), "{sentence}");
    }
}
