//! The web file and what it names, read again when they change: they are looked at when a request
//! comes, once a second at most. A file that cannot be used leaves the previous one in force. Neither
//! can one be used that would do away with passwords or certificates altogether: a file that is empty,
//! or half written, looks like that.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use axum::http::{HeaderMap, Uri};
use jiff::Timestamp;
use noise_system::files;

use super::auth::Auth;
use super::file::WebFile;
use super::hosts::Hosts;
use super::rate::Bucket;
use super::tls::{ServedTls, server_config};
use super::validity::{Reminder, Validity};

/// How often files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is in force.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) file: WebFile,
    pub(super) tls: Option<ServedTls>,
    /// What the files of TLS were when they were read.
    tls_stamps: Vec<(PathBuf, Stamp)>,
}

impl Rules {
    fn validity(&self) -> Option<Validity> {
        self.tls.as_ref().and_then(|tls| tls.validity)
    }
}

/// What a file was when it was read; `None` = it was not there.
type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    let modified = (found.mtime(), found.mtime_nsec());
    let changed = (found.ctime(), found.ctime_nsec());
    Some((found.dev(), found.ino(), found.size(), modified.0, modified.1, changed.0, changed.1))
}

struct WebRulesState {
    rules: Arc<Rules>,
    bucket: Option<Bucket>,
    /// What was read, or could not be.
    stamps: Vec<(PathBuf, Stamp)>,
    looked: Instant,
    /// Why what is there now is not in force.
    trouble: Option<String>,
    /// The hosts that requests may name where there is no authentication.
    hosts: Arc<Hosts>,
    reminder: Reminder,
}

impl WebRulesState {
    fn new(rules: Rules, stamps: Vec<(PathBuf, Stamp)>) -> Mutex<Self> {
        let looked = Instant::now();
        let bucket = rules.file.rate.map(|rate| Bucket::new(rate, looked));
        let (hosts, reminder) = (Arc::default(), Reminder::default());
        let rules = Arc::new(rules);
        Mutex::new(Self { rules, bucket, stamps, looked, trouble: None, hosts, reminder })
    }
}

/// Who has access, and over what: a web file, kept up to date.
#[derive(Clone)]
pub struct Web(Arc<WebFileState>);

struct WebFileState {
    /// `None` = there is no file: no authentication, unencrypted.
    path: Option<PathBuf>,
    state: Mutex<WebRulesState>,
    auth: Option<Arc<Auth>>,
}

impl Web {
    /// Reads a web file and the certificates and keys that it names; without a path, as
    /// [`Web::plain`].
    /// Errors: one sentence that names the file and what is wrong with it.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::plain()) };
        // What is relative must stay so if the working directory changes.
        let path = std::path::absolute(path)
            .with_context(|| format!("cannot find the web file {}", path.display()))?;
        let (stamps, rules) = load(&path, &Rules::default());
        let auth = Some(Arc::new(Auth::new()?));
        Ok(Self(Arc::new(WebFileState {
            path: Some(path),
            state: WebRulesState::new(rules?, stamps),
            auth,
        })))
    }

    /// No authentication, unencrypted: for what the file system or the network already guards.
    pub fn plain() -> Self {
        let state = WebRulesState::new(Rules::default(), Vec::new());
        Self(Arc::new(WebFileState { path: None, state, auth: None }))
    }

    /// Whether there may be passwords to verify, now or after the file changed.
    pub fn may_ask_for_passwords(&self) -> bool {
        self.0.auth.is_some()
    }

    /// Starts the thread that verifies passwords, where there may be any.
    /// Errors: where there can be no further thread.
    pub fn begin(&self) -> anyhow::Result<()> {
        self.auth().map_or(Ok(()), |auth| auth.begin())
    }

    /// The files that are read again when they change: the web file and what it names.
    pub fn files(&self) -> Vec<PathBuf> {
        let rules = Arc::clone(&self.state().rules);
        self.0.path.iter().chain(rules.file.paths()).cloned().collect()
    }

    /// Whether connections are encrypted. That does not change.
    pub fn is_tls(&self) -> bool {
        self.state().rules.tls.is_some()
    }

    /// Reads everything again, now; says whether something is another than before.
    /// Errors: one sentence; what was in force stays in force.
    pub fn reload(&self) -> anyhow::Result<bool> {
        let Some(path) = &self.0.path else { return Ok(false) };
        let mut state = self.state();
        let before = state.stamps.clone();
        self.read_again(path, &mut state)?;
        Ok(state.stamps != before)
    }

    /// What is in force now.
    pub(super) fn rules(&self) -> Arc<Rules> {
        let mut state = self.state();
        if let Some(path) = &self.0.path
            && state.looked.elapsed() >= LOOK_EVERY
        {
            state.looked = Instant::now();
            if state.stamps.iter().any(|(path, before)| stamp(path) != *before) {
                let before = state.trouble.clone();
                match self.read_again(path, &mut state) {
                    Ok(()) if before.is_some() => {
                        tracing::info!("the web file is valid again, applied");
                    }
                    Ok(()) => tracing::info!("the web file changed, applied"),
                    Err(_) if state.trouble == before => {}
                    Err(error) => tracing::error!(
                        "reload of the web file failed; keeping the previous one: {error:#}"
                    ),
                }
            }
        }
        Arc::clone(&state.rules)
    }

    /// Sets the hosts that requests may name where there is neither authentication nor TLS; any before.
    pub fn set_hosts(&self, hosts: Hosts) {
        self.state().hosts = Arc::new(hosts);
    }

    /// Whether a request is for this host, as far as that is looked at: who has to say who it is cannot be
    /// led here by a stranger's page, and a browser compares the name with the certificate.
    pub(super) fn is_for(&self, rules: &Rules, uri: &Uri, headers: &HeaderMap) -> bool {
        let is_open = rules.tls.is_none() && rules.file.users.is_empty();
        !is_open || Arc::clone(&self.state().hosts).allow(uri, headers)
    }

    /// When the first certificate of the server's chain expires, seconds since 1970.
    pub fn expiry_s(&self) -> Option<i64> {
        self.state().rules.validity().map(|validity| validity.until_s)
    }

    /// What an operator should know of what is in force.
    pub fn warnings(&self) -> Vec<String> {
        let rules = Arc::clone(&self.state().rules);
        let now_s = Timestamp::now().as_second();
        let certificate = rules.validity().and_then(|validity| validity.warning(now_s));
        rules.file.warnings().into_iter().chain(certificate).collect()
    }

    /// Logs these; called at the start.
    pub fn warn(&self) {
        let rules = Arc::clone(&self.state().rules);
        for warning in rules.file.warnings() {
            tracing::warn!("{warning}");
        }
        self.remind();
    }

    /// Warns of a certificate that has expired or soon will, once a day; to be called now and then.
    pub fn remind(&self) {
        let mut state = self.state();
        let Some(validity) = state.rules.validity() else { return };
        let now_s = Timestamp::now().as_second();
        let due = state.reminder.due(&validity, now_s, Instant::now());
        drop(state);
        if let Some(warning) = due {
            tracing::warn!("{warning}");
        }
    }

    /// Whether one more request may pass now.
    pub(super) fn passes(&self) -> bool {
        self.state().bucket.as_mut().is_none_or(|bucket| bucket.take(Instant::now()))
    }

    /// `None` where there is no authentication.
    pub(super) fn auth(&self) -> Option<&Arc<Auth>> {
        self.0.auth.as_ref()
    }

    fn state(&self) -> MutexGuard<'_, WebRulesState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_again(&self, path: &Path, state: &mut WebRulesState) -> anyhow::Result<()> {
        let (stamps, rules) = load(path, &state.rules);
        state.stamps = stamps;
        let rules = rules.and_then(|rules| match opened(&state.rules, &rules) {
            None => Ok(rules),
            Some(what) => {
                bail!("{}: {what} while noised runs: restart it for that", path.display())
            }
        });
        match rules {
            Ok(rules) => {
                state.trouble = None;
                if rules.file.rate != state.rules.file.rate {
                    let now = Instant::now();
                    state.bucket = rules.file.rate.map(|rate| Bucket::new(rate, now));
                }
                if let Some(auth) = self.auth() {
                    auth.retain(&rules.file.users);
                }
                for warning in rules.file.warnings() {
                    tracing::warn!("{warning}");
                }
                state.rules = Arc::new(rules);
                state.reminder = Reminder::default();
                Ok(())
            }
            Err(error) => {
                state.trouble = Some(format!("{error:#}"));
                Err(error)
            }
        }
    }
}

/// What must not change while noised runs, if it does.
fn opened(before: &Rules, after: &Rules) -> Option<&'static str> {
    if before.tls.is_some() != after.tls.is_some() {
        return Some("TLS cannot be turned on or off");
    }
    if !before.file.users.is_empty() && after.file.users.is_empty() {
        return Some("the last of `basic_auth_users` cannot be taken away");
    }
    let (before, after) = before.file.tls.as_ref().zip(after.file.tls.as_ref())?;
    let (was, is) = (before.client_auth, after.client_auth);
    if was.requires() && !(is.requires() && is.verifies() >= was.verifies()) {
        return Some("client certificates that `client_auth_type` requires cannot be given up");
    }
    if before.client_allowed_sans.is_some() && after.client_allowed_sans.is_none() {
        return Some("`client_allowed_sans` cannot be taken away");
    }
    None
}

/// What there is, and what the files were before they were read: one that changes meanwhile is seen to have changed. TLS
/// stays what it is where nothing of it changed, as connections last as long as what they agreed on.
fn load(path: &Path, before: &Rules) -> (Vec<(PathBuf, Stamp)>, anyhow::Result<Rules>) {
    let mut stamps = vec![(path.to_owned(), stamp(path))];
    let rules = read(path).and_then(|text| {
        let file = WebFile::parse(&text, path)?;
        let tls_stamps: Vec<_> = file.paths().map(|path| (path.clone(), stamp(path))).collect();
        stamps.extend(tls_stamps.iter().cloned());
        let is_same = (&file.tls, &tls_stamps) == (&before.file.tls, &before.tls_stamps);
        let tls = match &file.tls {
            Some(_) if is_same => before.tls.clone(),
            tls => tls
                .as_ref()
                .map(server_config)
                .transpose()
                .with_context(|| path.display().to_string())?,
        };
        Ok(Rules { file, tls, tls_stamps })
    });
    (stamps, rules)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = files::read_text(path, files::MAX_FILE_BYTES);
    text.with_context(|| format!("cannot read the web file {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "basic_auth_users:
  alice: $2y$04$JWTGL7/hng17We9nsaaOu.WyBHeCWUB5ULLYwPTLMOY5JPjmHiESa
";

    #[test]
    fn a_file_that_is_cut_off_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        fs::write(&path, USERS).unwrap();
        let web = Web::open(Some(&path)).unwrap();
        for bytes in 0..USERS.len() - 1 {
            fs::write(&path, &USERS[..bytes]).unwrap();
            let error = web.reload().unwrap_err().to_string();
            assert!(error.contains("web.yml"), "{bytes} bytes: {error}");
            assert_eq!(web.rules().file.users.len(), 1, "{bytes} bytes");
        }
        fs::write(&path, USERS.replace("alice", "bob")).unwrap();
        web.reload().unwrap();
        assert!(web.rules().file.users.contains_key("bob"));
    }

    /// Each file that may be named, at the start and when it is read again.
    #[test]
    fn what_may_block_or_has_no_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "tls_server_config:\n  cert_file: cert\n  key_file: key\n  client_ca_file: ca\n  \
                    client_auth_type: RequireAndVerifyClientCert\n";
        fs::write(path("plain.yml"), USERS).unwrap();
        let web = Web::open(Some(&path("plain.yml"))).unwrap();
        let place = |name: &str, how: usize| {
            let _ = fs::remove_file(path(name));
            match how {
                0 => nix::unistd::mkfifo(&path(name), nix::sys::stat::Mode::S_IRWXU).unwrap(),
                1 => fs::File::create(path(name)).unwrap().set_len(100 << 20).unwrap(),
                _ => std::os::unix::fs::symlink("/dev/zero", path(name)).unwrap(),
            }
        };
        let words = ["a FIFO, not a regular file", "longer than 1048576 bytes", "a device"];
        for (how, words) in words.into_iter().enumerate() {
            for name in ["cert", "key", "ca", "web.yml", "plain.yml"] {
                // Certificates are read in an order of their own: all are like that.
                ["cert", "key", "ca"].into_iter().for_each(|name| place(name, how));
                let _ = fs::remove_file(path("web.yml"));
                fs::write(path("web.yml"), text).unwrap();
                place(name, how);
                let error = match name {
                    "plain.yml" => web.reload().unwrap_err(),
                    _ => Web::open(Some(&path("web.yml"))).err().unwrap(),
                };
                let error = format!("{error:#}");
                assert!(error.contains("cannot read") && error.contains(words), "{name}: {error}");
            }
        }
        assert_eq!(web.rules().file.users.len(), 1);
    }

    /// What these settings are, of clients and their certificates.
    fn rules(more: &str) -> Rules {
        let text = format!("tls_server_config:\n  cert_file: a\n  key_file: b\n{more}");
        let file = WebFile::parse(&text, Path::new("/etc/noised/web.yml")).unwrap();
        Rules { file, ..Rules::default() }
    }

    #[test]
    fn what_keeps_clients_out_stays() {
        let none = "";
        let asked = "  client_auth_type: RequestClientCert\n";
        let any = "  client_auth_type: RequireAnyClientCert\n";
        let if_given = "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: c\n";
        let verified = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: c\n";
        let named = &format!("{verified}  client_allowed_sans: [x]\n");
        let renamed = &format!("{verified}  client_allowed_sans: [y, z]\n");
        for (before, after, is_refused) in [
            (none, any, false),
            (none, named, false),
            (asked, none, false),
            (if_given, none, false),
            (any, verified, false),
            (verified, named, false),
            (named, renamed, false),
            (any, none, true),
            (any, asked, true),
            (any, if_given, true),
            (verified, any, true),
            (verified, if_given, true),
            (verified, none, true),
            (named, verified, true),
        ] {
            let found = opened(&rules(before), &rules(after));
            assert_eq!(found.is_some(), is_refused, "{before} to {after}: {found:?}");
        }
    }
}
