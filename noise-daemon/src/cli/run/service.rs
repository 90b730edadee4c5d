//! The service manager: readiness, status and watchdog, where it wants them (systemd's
//! `Type=notify`; without NOTIFY_SOCKET nothing is sent).

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// How long a service manager that does not listen may hold the daemon up.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Notifications to the service manager.
pub struct Service {
    /// Connected at the start: later the daemon connects to nothing any more.
    socket: Option<UnixDatagram>,
    /// How often it wants to hear of us.
    watchdog: Option<Duration>,
    /// When the watchdog was last notified.
    last: Option<Instant>,
}

impl Service {
    /// As the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`) demands.
    pub fn of_environment() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let refused = |error: &io::Error| tracing::warn!(?name, %error, "no service manager");
            connect(&name).inspect_err(refused).ok()
        });
        // Twice as often as must be.
        Self { socket, watchdog: sd_notify::watchdog_enabled().map(|limit| limit / 2), last: None }
    }

    /// The daemon works, and this is how.
    pub fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The configuration is being read again.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!(%error, "no clock for the service manager"),
        }
    }

    pub fn stopping(&self) {
        self.send(&[NotifyState::Stopping]);
    }

    /// Called for every sample; notifies the watchdog as often as it demands.
    pub fn alive(&mut self) {
        let Some(every) = self.watchdog else { return };
        let now = Instant::now();
        if self.last.is_none_or(|last| now.duration_since(last) >= every) {
            self.last = Some(now);
            self.send(&[NotifyState::Watchdog]);
        }
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        let Some(socket) = &self.socket else { return };
        let mut text = String::new();
        for state in states {
            let _ = writeln!(text, "{state}");
        }
        if let Err(error) = socket.send(text.as_bytes()) {
            tracing::debug!(%error, "the service manager does not listen");
        }
    }
}

/// A path, or with an `@` in its place the first byte of an abstract name (sd_notify(3)).
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut text = [0; 256];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    fn service(name: &OsStr, watchdog: Option<Duration>) -> Service {
        Service { socket: Some(connect(name).unwrap()), watchdog, last: None }
    }

    #[test]
    fn each_state_is_one_message_by_path_or_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("noised-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let managers = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into()),
        ];
        for (manager, name) in managers {
            let mut service = service(&name, Some(Duration::from_secs(3600)));
            service.ready("1 of 2 hooks");
            assert_eq!(heard(&manager), "READY=1\nSTATUS=1 of 2 hooks\n");
            service.reloading();
            let text = heard(&manager);
            let time = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().trim_end();
            assert!(time.parse::<u64>().unwrap() > 0);
            for _ in 0..2 {
                service.alive();
            }
            service.stopping();
            assert_eq!(heard(&manager), "WATCHDOG=1\n");
            assert_eq!(heard(&manager), "STOPPING=1\n");
        }
    }

    #[test]
    fn without_a_service_manager_nothing_is_sent() {
        assert!(connect(OsStr::new("/nonexistent/notify")).is_err());
        let mut service = Service { socket: None, watchdog: None, last: None };
        service.ready("");
        service.alive();
        assert!(service.last.is_none());
    }
}
