//! What an attacker who has taken over the daemon would try: each call is made by the running daemon itself, has to be
//! refused, and has to have had no effect. `docs/privileges.md` says what is still possible.

#[cfg(target_arch = "x86_64")]
mod attempts;
#[cfg(target_arch = "x86_64")]
mod table;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use noise_tests::scratch::argument;

use crate::Impossible;

/// A running daemon that is attacked.
pub(crate) struct Target {
    /// Its process, as this host counts.
    pub(crate) pid: u32,
    /// Where it listens, in its network.
    pub(crate) address: SocketAddr,
    /// Its state directory, as this host and as the daemon name it.
    pub(crate) state: Option<(PathBuf, String)>,
}

/// Requires whatever the running daemon is made to try to be refused, and to have no effect.
/// Returns why nothing could be tried, where that is so.
pub(crate) fn ensure_confined(target: &Target) -> Result<Option<Impossible>> {
    #[cfg(target_arch = "x86_64")]
    return attempts::ensure_refused(target).map(|()| None);
    #[cfg(not(target_arch = "x86_64"))]
    return Ok(Some(Impossible(format!(
        "calls can be made by another process ({}) on x86-64 only",
        target.pid
    ))));
}

/// The state directory of a daemon whose files are where this host has them.
pub(crate) fn state_here(folder: &Path) -> Result<Option<(PathBuf, String)>> {
    Ok(Some((folder.to_owned(), argument(folder)?.to_owned())))
}
