//! `noised mark`: a begin or an end, for scripts.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use nix::unistd::getppid;
use noise_client::access_advice;
use noise_host::kernel::monotonic_ns;
use noise_wire::marks::Message;

use noise_command::{CommandError, Exit};
use noise_record::marks::{DEFAULT_MARKS, MARKS_VARIABLE, own_namespace};

/// How long a socket that is full is waited for. The kernel wakes those that wait one by one, in their order: who looks now and
/// then whether there is room finds it taken by them.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Arguments of `noised mark`.
#[derive(Debug, clap::Args)]
pub struct MarkArgs {
    /// What happens now.
    #[arg(value_enum)]
    action: EdgeAction,
    /// Of what: `noised trace critical-path --execution mark:NAME` shows what each of them waited for.
    #[arg(value_name = "NAME")]
    name: String,
    /// Of which one of several: a begin and an end with the same key belong together, whichever thread of the
    /// user sets them. Without a key those of one thread do.
    #[arg(long, short, value_name = "KEY", default_value = "", hide_default_value = true)]
    key: String,
    /// The thread that it is of [default: the process that runs this command, such as the shell].
    #[arg(long, value_name = "TID", value_parser = clap::value_parser!(i32).range(1..))]
    tid: Option<i32>,
    /// The mark socket [default: what NOISED_MARKS names, else /run/noised/noised.marks].
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EdgeAction {
    /// It begins.
    Begin,
    /// It ends.
    End,
}

pub fn run(args: &MarkArgs) -> Result<(), CommandError> {
    let message = Message {
        begins: args.action == EdgeAction::Begin,
        name: &args.name,
        key: &args.key,
        monotonic_ns: Some(monotonic_ns()),
        tid: Some(args.tid.unwrap_or_else(|| getppid().as_raw())).filter(|tid| *tid > 0),
        // When it is read, this process may have gone.
        namespace: own_namespace(),
    };
    message.check().map_err(CommandError::usage)?;
    let named = || std::env::var_os(MARKS_VARIABLE).map(PathBuf::from);
    let socket = args.socket.clone().or_else(named).unwrap_or_else(|| DEFAULT_MARKS.into());
    send(&socket, &message.to_string())
}

fn send(socket: &Path, text: &str) -> Result<(), CommandError> {
    let place = socket.display();
    let failed = |error| CommandError { exit: Exit::Failed, source: error };
    let sent = || -> std::io::Result<()> {
        let sender = UnixDatagram::unbound()?;
        sender.set_write_timeout(Some(SEND_TIMEOUT))?;
        sender.send_to(text.as_bytes(), socket).map(drop)
    };
    sent().map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => failed(anyhow!(
            "no noised takes marks at {place}: start the daemon, or run this below `noised record … -- COMMAND`"
        )),
        ErrorKind::PermissionDenied => CommandError {
            exit: Exit::Unsupported,
            source: anyhow!(
                "you are not allowed to use {place}: {}", access_advice(socket)
            ),
        },
        ErrorKind::WouldBlock => {
            failed(anyhow!("the socket {place} is full: more marks come than noised takes"))
        }
        _ => failed(anyhow!("cannot send to {place}: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use noise_command::fixtures::parsed;

    fn mark(words: &[&str], socket: &Path) -> Result<(), CommandError> {
        run(&parsed([&["--socket", socket.to_str().unwrap()], words].concat()).unwrap())
    }

    #[test]
    fn a_mark_is_of_the_process_that_runs_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        let error = mark(&["begin", "query"], &path).unwrap_err();
        assert!(error.to_string().starts_with("no noised takes marks at "), "{error}");
        let socket = UnixDatagram::bind(&path).unwrap();
        mark(&["begin", "query", "--key", "17"], &path).unwrap();
        mark(&["end", "query", "--tid", "5"], &path).unwrap();
        let parent = getppid().as_raw();
        for (begins, key, tid) in [(true, "17", parent), (false, "", 5)] {
            let mut bytes = [0; 200];
            let length = socket.recv(&mut bytes).unwrap();
            let message = Message::parse(&bytes[..length]).unwrap();
            let sent = (message.begins, message.name, message.key, message.tid);
            assert_eq!(sent, (begins, "query", key, Some(tid)));
            assert!(message.monotonic_ns.unwrap() <= monotonic_ns());
            assert_eq!(message.namespace, own_namespace());
        }
        let error = mark(&["begin", "a b"], &path).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        drop(socket);
        let error = mark(&["begin", "query"], &path).unwrap_err();
        assert_eq!(error.exit, Exit::Failed);
    }
    #[test]
    fn a_mark_has_its_turn_among_senders_that_keep_the_socket_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        let socket = UnixDatagram::bind(&path).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let sender = UnixDatagram::unbound().unwrap();
                    sender.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
                    while !is_over.load(Ordering::Relaxed) {
                        let _ = sender.send_to(b"begin flood", &path);
                    }
                });
            }
            scope.spawn(|| {
                socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let _ = socket.recv(&mut [0; 200]);
                    thread::sleep(Duration::from_millis(5));
                }
            });
            // Until it is full.
            thread::sleep(Duration::from_millis(100));
            let sent: Vec<_> = (0..20).map(|_| mark(&["begin", "query"], &path)).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        });
    }

    #[test]
    fn a_socket_that_stays_full_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        let _socket = UnixDatagram::bind(&path).unwrap();
        let flood = UnixDatagram::unbound().unwrap();
        flood.set_nonblocking(true).unwrap();
        while flood.send_to(b"begin flood", &path).is_ok() {}
        let error = mark(&["begin", "query"], &path).unwrap_err();
        assert!(
            error.to_string().ends_with("is full: more marks come than noised takes"),
            "{error}"
        );
    }
}
