//! The places that the configuration names: where the state is kept, and where the sockets are. What cannot be used is refused
//! before anything is loaded, by `--config.check` as well.

use std::path::PathBuf;

use anyhow::Context as _;
use noise_client::connect::DEFAULT_SOCKET;
use noise_keep::state::ensure_own;
use noise_serve::{ensure_own_folder, ensure_place};
use noise_system::output::ensure_own_way;

use crate::config::Config;
use crate::confine::{folder_of, is_root};

/// Refuses places that cannot be used, or that others have in their hands.
/// Errors: in a sentence with the key.
pub fn ensure_usable(config: &Config) -> anyhow::Result<()> {
    ensure_confinable(config)?;
    ensure_own_folders(config)?;
    ensure_sockets(config)
}

/// Refuses paths at which there can be no socket, whatever the host permits.
fn ensure_sockets(config: &Config) -> anyhow::Result<()> {
    if let Some(socket) = config.socket.options() {
        ensure_place(&socket.path).context("socket.path cannot be used")?;
    }
    let marks = config.socket.marks().filter(|_| config.recorder.enabled);
    marks.map_or(Ok(()), |marks| {
        ensure_place(&marks.path).context(
            "the socket of marks beside socket.path cannot be made (`socket.marks = false` is without it)",
        )
    })
}

/// Where the state is; `None` where none is kept.
pub fn state_folder(config: &Config) -> Option<PathBuf> {
    let folder = &config.state.directory;
    (!folder.as_os_str().is_empty()).then(|| folder.clone())
}

/// Where the sockets are; `None` where there are none.
pub fn socket_folder(config: &Config) -> Option<PathBuf> {
    config.socket.options().and_then(|socket| folder_of(&socket.path))
}

/// Refuses folders that other users have in their hands.
fn ensure_own_folders(config: &Config) -> anyhow::Result<()> {
    if let Some(folder) = state_folder(config) {
        ensure_own(&folder).context("state.directory cannot be used")?;
    }
    if let Some(folder) = socket_folder(config) {
        let own = ensure_own_way(&folder).and_then(|()| ensure_own_folder(&folder));
        own.context("socket.path cannot be used")?;
    }
    Ok(())
}

/// What stays writable stays so with everything below it.
fn ensure_confinable(config: &Config) -> anyhow::Result<()> {
    if !config.privileges.drop {
        return Ok(());
    }
    anyhow::ensure!(
        !state_folder(config).is_some_and(|folder| is_root(&folder)),
        "state.directory: {} is the root folder, and noised would keep the right to write every file; choose a \
         folder of its own, such as {}",
        config.state.directory.display(),
        noise_keep::state::DEFAULT_DIRECTORY,
    );
    anyhow::ensure!(
        !socket_folder(config).is_some_and(|folder| is_root(&folder)),
        "socket.path: {} lies in the root folder, and noised would keep the right to remove every file; choose a \
         folder of its own, such as that of {DEFAULT_SOCKET}",
        config.socket.path.display(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

    /// Why a socket there is refused.
    fn refusal(path: &Path, marks: bool) -> Option<String> {
        let mut config = Config::default();
        config.state.directory = PathBuf::new();
        config.socket.path = path.to_owned();
        config.socket.marks = marks;
        ensure_usable(&config).err().map(|error| format!("{error:#}"))
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let of = |length: usize| {
            let start = folder.path().as_os_str().len() + "/.sock".len();
            folder.path().join(format!("{}.sock", "x".repeat(length - start)))
        };
        let error = refusal(&of(100), false).unwrap();
        let words = "socket.path cannot be used: its path has 100 bytes, and that of a socket may have 99: choose a ";
        assert!(error.starts_with(words), "{error}");
        assert_eq!(refusal(&of(99), false), None);
        // The name of the other socket is longer.
        let error = refusal(&of(99), true).unwrap();
        assert!(error.starts_with("the socket of marks beside socket.path"), "{error}");
        assert_eq!(refusal(&of(98), true), None);
    }

    #[test]
    fn what_is_no_socket_is_not_replaced_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("noised.sock");
        assert_eq!(refusal(&path, true), None);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(refusal(&path, true), None);
        fs::write(folder.path().join("noised.marks"), "").unwrap();
        let error = refusal(&path, true).unwrap();
        assert!(error.contains("noised.marks is a file, and noised"), "{error}");
        assert_eq!(refusal(&path, false), None);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "kept").unwrap();
        let error = refusal(&path, false).unwrap();
        assert!(error.ends_with("remove it, or choose another path"), "{error}");
        let of_folder = refusal(folder.path(), false).unwrap();
        assert!(of_folder.contains("is a folder, and"), "{of_folder}");
    }
}
