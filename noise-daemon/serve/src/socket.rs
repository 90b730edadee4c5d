//! The local socket: where those who may use it see what is measured without being root.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown,
};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, getsockopt};
use nix::sys::stat::Mode;
use nix::unistd::{Group, geteuid};
use noise_system::procfs;
use tokio::net::{UnixListener, UnixStream};

/// How long a daemon that may have the socket is waited for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest path of a socket, bytes. The kernel takes 108, and one of them is its end; while a socket is made, the number of
/// its process stands behind its name.
const MOST_PATH_BYTES: usize = 108 - 1 - ".4194304".len();

/// Where the socket is, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    pub path: PathBuf,
    /// Permissions, as chmod takes them.
    pub mode: u32,
    /// Name of the group it belongs to; our own where there is no such group.
    pub group: String,
}

/// A socket that is ours; its file is removed when this is dropped.
#[derive(Debug)]
pub struct LocalSocket {
    path: PathBuf,
    /// Device and inode: another daemon's file is not ours to remove.
    identity: (u64, u64),
}

impl LocalSocket {
    /// Makes the socket, in a folder that is made if it is missing. That of a dead daemon is replaced.
    /// Errors: where it cannot be made, or what is there must not be replaced.
    pub async fn bind(options: &SocketOptions) -> io::Result<(Self, UnixListener)> {
        let path = options.path.as_path();
        if is_taken(path)? {
            let answer = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await;
            ensure_gone(answer.ok().map(|answer| answer.map(drop)))?;
        }
        Self::make(options, |path| UnixListener::bind(path))
    }

    /// The same for datagrams.
    /// Errors: those of [`LocalSocket::bind`].
    pub fn bind_datagrams(options: &SocketOptions) -> io::Result<(Self, UnixDatagram)> {
        if is_taken(&options.path)? {
            // At once: a connection of datagrams waits for no one to accept it.
            ensure_gone(Some(UnixDatagram::unbound()?.connect(&options.path)))?;
        }
        Self::make(options, |path| UnixDatagram::bind(path))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn make<S>(
        options: &SocketOptions,
        bind: impl FnOnce(&Path) -> io::Result<S>,
    ) -> io::Result<(Self, S)> {
        let path = options.path.as_path();
        if let Some(folder) = path.parent() {
            // Whatever the umask, others do not get to replace the socket.
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        // Under another name until only those may use it who should.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = bind(&temporary)?;
        let placed = place(&temporary, options);
        if placed.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        Ok((Self { path: path.to_owned(), identity: placed? }, socket))
    }
}

fn place(temporary: &Path, options: &SocketOptions) -> io::Result<(u64, u64)> {
    // By a descriptor from here on: the owner of the folder may have put something else under the name.
    // Not by `OpenOptions`: where O_ACCMODE has O_PATH in it (musl), that takes it away.
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened = File::from(open(temporary, flags, Mode::empty())?);
    let metadata = opened.metadata()?;
    let is_own = metadata.uid() == geteuid().as_raw() && metadata.nlink() == 1;
    if !metadata.file_type().is_socket() || !is_own {
        return Err(io::Error::other("another user replaced the socket while it was made"));
    }
    let by_descriptor = format!("/proc/self/fd/{}", opened.as_raw_fd());
    fs::set_permissions(&by_descriptor, Permissions::from_mode(options.mode & !0o077))?;
    if let Some(group) = group(&options.group)? {
        chown(&by_descriptor, None, Some(group.gid.as_raw()))?;
    }
    fs::set_permissions(&by_descriptor, Permissions::from_mode(options.mode))?;
    fs::rename(temporary, &options.path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The local sockets of a process of this host, by the paths at which [`LocalSocket::bind`] placed them. The kernel lists
/// each by the name of before, which ends with the process id, and says which process made the socket at a path.
pub fn local_sockets_of(pid: u32) -> Vec<PathBuf> {
    let end = format!(".{pid}");
    let listed = procfs::text("/proc/net/unix").unwrap_or_default();
    let named = listed.lines().filter_map(listed_name).filter_map(|name| name.strip_suffix(&end));
    named.filter(|path| listener(path) == Some(pid)).map(PathBuf::from).collect()
}

/// The name of a socket, after seven columns.
fn listed_name(line: &str) -> Option<&str> {
    (0..7).try_fold(line, |rest, _| Some(rest.trim_start().split_once(' ')?.1))
}

/// The process that listens at a path.
fn listener(path: &str) -> Option<u32> {
    let (kind, flags) = (SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC);
    let connected = socket::socket(AddressFamily::Unix, kind, flags, None).ok()?;
    // Another user's socket may bear such a name, and take no one: that is not waited for.
    socket::connect(connected.as_raw_fd(), &UnixAddr::new(path).ok()?).ok()?;
    getsockopt(&connected, PeerCredentials).ok()?.pid().try_into().ok()
}

/// Refuses a path at which a socket can never be made, or that something else has.
/// Errors: in a sentence that says what to do.
pub fn ensure_place(path: &Path) -> io::Result<()> {
    let length = path.as_os_str().len();
    if length > MOST_PATH_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "its path has {length} bytes, and that of a socket may have {MOST_PATH_BYTES}: choose a shorter one"
            ),
        ));
    }
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        // It may be checked by another user than runs it, and before its folder is there.
        Err(_) => return Ok(()),
    };
    let what = match found {
        found if found.is_socket() => return Ok(()),
        found if found.is_dir() => "a folder",
        found if found.is_symlink() => "a symbolic link",
        found if found.is_file() => "a file",
        _ => "no socket",
    };
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!(
            "{} is {what}, and noised puts no socket in its place: remove it, or choose another path",
            path.display()
        ),
    ))
}

/// Refuses a folder in which others may replace the socket.
/// Errors: in a sentence that says what to do.
pub fn ensure_own_folder(folder: &Path) -> io::Result<()> {
    // What is missing is made.
    let Ok(found) = fs::metadata(folder) else { return Ok(()) };
    if found.mode() & 0o022 == 0 || found.mode() & libc::S_ISVTX != 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "other users may write to {} (mode {:o}) and could replace the socket: take that right away \
             (`chmod go-w` or `chmod +t` on it), or name a folder of noised's own",
            folder.display(),
            found.mode() & 0o7777
        ),
    ))
}

/// The group of that name. A system that keeps no list of groups, as a container image with one file in
/// it, has none (getgrnam(3) names the errors that say so).
fn group(name: &str) -> io::Result<Option<Group>> {
    match Group::from_name(name) {
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        found => Ok(found?),
    }
}

/// Whether there is a socket. Fails where there is something else.
fn is_taken(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there is no socket"))
        }
        Ok(_) => Ok(true),
    }
}

/// Fails unless what answered a connection to a socket says that its process is gone.
fn ensure_gone(answer: Option<io::Result<()>>) -> io::Result<()> {
    match answer {
        Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves there")),
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net;

    use nix::sys::socket::Backlog;

    use super::*;

    fn options(path: &Path) -> SocketOptions {
        SocketOptions { path: path.to_owned(), mode: 0o640, group: "no such group".to_owned() }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_lives_as_long_as_its_daemon() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run/noised/noised.sock");
        let (socket, listener) = LocalSocket::bind(&options(&path)).await.unwrap();
        assert_eq!(mode(&path), 0o640);
        UnixStream::connect(&path).await.unwrap();
        listener.accept().await.unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_file_of_a_dead_daemon_is_replaced_and_that_of_a_live_one_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("noised.sock");
        let dead = net::UnixListener::bind(&path).unwrap();
        drop(dead);
        let (socket, listener) = LocalSocket::bind(&options(&path)).await.unwrap();
        let error = LocalSocket::bind(&options(&path)).await.unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        UnixStream::connect(&path).await.unwrap();
        // One that another process put there meanwhile is not ours.
        fs::remove_file(&path).unwrap();
        let other = net::UnixListener::bind(&path).unwrap();
        drop((socket, listener));
        assert!(path.exists());
        drop(other);
    }

    #[test]
    fn a_socket_of_datagrams_is_replaced_by_the_same_rules() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("noised.marks");
        drop(UnixDatagram::bind(&path).unwrap());
        let (socket, _own) = LocalSocket::bind_datagrams(&options(&path)).unwrap();
        assert_eq!(mode(&path), 0o640);
        let error = LocalSocket::bind_datagrams(&options(&path)).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(socket);
        assert!(!path.exists());
        let listener = net::UnixListener::bind(&path).unwrap();
        assert!(LocalSocket::bind_datagrams(&options(&path)).is_err());
        drop(listener);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(LocalSocket::bind_datagrams(&options(&path)).is_err());
    }

    #[test]
    fn what_takes_the_name_of_a_socket_meanwhile_is_not_touched() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("noised.sock");
        let precious = root.path().join("precious");
        fs::write(&precious, "").unwrap();
        fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
        let other = root.path().join("other");
        let _other = UnixDatagram::bind(&other).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        type Swap = fn(&Path, &Path) -> io::Result<()>;
        let swaps: [(&Path, Swap); 3] = [
            (&precious, |precious, name| std::os::unix::fs::symlink(precious, name)),
            (&precious, |precious, name| fs::hard_link(precious, name)),
            (&other, |other, name| fs::hard_link(other, name)),
        ];
        for (target, swap) in swaps {
            let swapped = |name: &Path| {
                let socket = UnixDatagram::bind(name)?;
                fs::remove_file(name)?;
                swap(target, name)?;
                Ok(socket)
            };
            let error = LocalSocket::make(&options(&path), swapped).unwrap_err();
            assert!(error.to_string().contains("replaced"), "{error}");
            assert_eq!(mode(target), 0o600);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_folder_where_others_can_replace_the_socket_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for (mode, is_refused) in
            [(0o755, false), (0o1777, false), (0o777, true), (0o770, true), (0o2750, false)]
        {
            fs::set_permissions(root.path(), Permissions::from_mode(mode)).unwrap();
            let refused = ensure_own_folder(root.path());
            assert_eq!(refused.is_err(), is_refused, "{mode:o} {refused:?}");
        }
        ensure_own_folder(&root.path().join("missing")).unwrap();
    }

    #[tokio::test]
    async fn what_is_no_socket_is_not_touched() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("noised.sock");
        fs::write(&path, "precious").unwrap();
        assert!(LocalSocket::bind(&options(&path)).await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert!(LocalSocket::bind(&options(&path.join("below"))).await.is_err());
        let long = root.path().join("x".repeat(200));
        assert!(LocalSocket::bind(&options(&long)).await.is_err());
    }

    #[tokio::test]
    async fn the_sockets_of_a_process_are_found_where_they_were_placed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a folder/noised.sock");
        let (placed, _listener) = LocalSocket::bind(&options(&path)).await.unwrap();
        let own = std::process::id();
        assert!(local_sockets_of(own).contains(&path));
        // One that another process pretends to have.
        let pretended = root.path().join("other.sock");
        let bound = root.path().join("other.sock.1");
        let _pretender = net::UnixListener::bind(&bound).unwrap();
        fs::rename(&bound, &pretended).unwrap();
        assert!(!local_sockets_of(1).contains(&pretended));
        // One that takes no one is not waited for.
        let full = root.path().join("full.sock");
        let (kind, flags) = (SockType::Stream, SockFlag::SOCK_NONBLOCK);
        let make = || socket::socket(AddressFamily::Unix, kind, flags, None).unwrap();
        let address = UnixAddr::new(&full).unwrap();
        let deaf = make();
        socket::bind(deaf.as_raw_fd(), &address).unwrap();
        socket::listen(&deaf, Backlog::new(0).unwrap()).unwrap();
        let waiting = [make(), make()].map(|one| {
            let is_taken = socket::connect(one.as_raw_fd(), &address);
            (one, is_taken.is_ok())
        });
        assert!(!waiting[1].1, "there was room");
        assert_eq!(listener(full.to_str().unwrap()), None);
        drop(placed);
        assert!(!local_sockets_of(own).contains(&path));
    }
}
