//! Files of communication that processes have open, and sockets of the internet, when a recording of system calls begins.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use noise_common::store::calls::ObjectKind;
use noise_system::files::known;
use noise_system::procfs;
use noise_system::unix_sockets::UnixSocket;
use noise_trace::capture::{Dump, OpenFile};
use noise_trace::ipc::{Connection, Object};

/// Files, and sockets, that are noted.
const MOST: usize = 65_536;
/// Tables of sockets, and their protocols.
const TABLES: [(&str, u32); 4] = [("tcp", 6), ("tcp6", 6), ("udp", 17), ("udp6", 17)];

/// A number in brackets behind a word, as the kernel names a file without any.
fn bracketed(name: &[u8], word: &str) -> Option<u64> {
    let number = name.strip_prefix(word.as_bytes())?.strip_prefix(b":[")?.strip_suffix(b"]")?;
    str::from_utf8(number).ok()?.parse().ok()
}

/// A line of a file below `fdinfo`.
fn info<'i>(text: &'i str, word: &str) -> Option<&'i str> {
    text.lines().find_map(|line| line.strip_prefix(word)).map(str::trim)
}

/// What a file is; `None` of one that is none of communication. Of unix sockets some are known to be bound.
fn object(name: &[u8], path: &Path, bound: &BTreeSet<u64>) -> Option<Object> {
    let found = |kind, id: u64, peer| Some(Object { kind, id, peer, position: 0 });
    if let Some(inode) = bracketed(name, "socket") {
        let is_bound = bound.contains(&inode);
        return found(if is_bound { ObjectKind::Unix } else { ObjectKind::Socket }, inode, 0);
    }
    if bracketed(name, "pipe").is_some() || name.starts_with(b"/") {
        let file = known(path).ok()?;
        let is_fifo = u32::from(file.stx_mode) & libc::S_IFMT == libc::S_IFIFO;
        // As the kernel numbers a device.
        let device = file.stx_dev_major << 20 | file.stx_dev_minor;
        return found(ObjectKind::Pipe, file.stx_ino & 0xffff_ffff, device).filter(|_| is_fifo);
    }
    match name {
        b"anon_inode:[eventfd]" => found(ObjectKind::Eventfd, 0, 0),
        b"anon_inode:[eventpoll]" => found(ObjectKind::Epoll, 0, 0),
        b"anon_inode:[signalfd]" => found(ObjectKind::Signalfd, 0, 0),
        _ => None,
    }
}

/// An address and a port, as `/proc/net/tcp` and its like have them: words as they lie in memory.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok();
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (place, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                place.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            let six = Ipv6Addr::from(bytes);
            if six.is_unspecified() { Ipv4Addr::UNSPECIFIED.into() } else { six.to_canonical() }
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// A socket from its line.
fn socket(line: &str, protocol: u32, namespace: u32) -> Option<Connection> {
    let mut words = line.split_ascii_whitespace();
    let (local, remote) = (end(words.nth(1)?)?, end(words.next()?)?);
    let inode = words.nth(6)?.parse().ok()?;
    Some(Connection { inode, protocol, local, remote, namespace })
}

/// Adds the files of communication that processes have open, and the sockets of their network namespaces, of which these
/// unix sockets; what to know of it, if not all of them are in it.
pub fn add(
    procfs: &Path,
    pids: &BTreeSet<i32>,
    unix: &[UnixSocket],
    dump: &mut Dump,
) -> Option<String> {
    let mut is_cut = add_sockets(procfs, pids, &mut dump.sockets);
    // Those that listen at a path or a name, and those that accepted a connection there.
    let bound = unix.iter().filter(|socket| !socket.name.is_empty());
    let bound: BTreeSet<u64> = bound.map(|socket| socket.inode.into()).collect();
    for &pid in pids {
        let folder = procfs.join(pid.to_string());
        // What ends meanwhile is not there.
        for entry in fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let (Some(fd), Ok(name)) = (number, fs::read_link(entry.path())) else { continue };
            let name = OsStr::as_bytes(name.as_os_str());
            let Some(mut object) = object(name, &entry.path(), &bound) else { continue };
            if dump.files.len() >= MOST {
                is_cut = true;
                break;
            }
            // That of one that watches others has a line for each of them, which is as much as its user likes.
            let text = match object.kind {
                ObjectKind::Epoll => String::new(),
                _ => procfs::text(folder.join(format!("fdinfo/{fd}"))).unwrap_or_default(),
            };
            if object.kind == ObjectKind::Eventfd {
                let id = info(&text, "eventfd-id:").and_then(|id| id.parse().ok());
                object.id = id.unwrap_or(0);
            }
            let flags = info(&text, "flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
            let (flags, filename) = (flags.unwrap_or(0), name.to_vec());
            dump.files.push(OpenFile { pid, fd, flags, filename, object });
        }
    }
    is_cut.then(|| {
        format!(
            "of the open files and sockets at the begin, {MOST} each are in it: there were more"
        )
    })
}

/// Inodes of the files of a kind that a process has open, `socket` or `pipe`, as far as they may be read.
pub fn inodes(procfs: &Path, pid: i32, kind: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(procfs.join(format!("{pid}/fd"))).into_iter().flatten().flatten();
    let inode = |entry: fs::DirEntry| {
        let name = fs::read_link(entry.path()).ok()?;
        let inode = bracketed(OsStr::as_bytes(name.as_os_str()), kind)?;
        u32::try_from(inode).ok()
    };
    entries.take(MOST).filter_map(inode).collect()
}

/// Adds the sockets of the network namespaces that processes are in; whether there were more.
pub fn add_sockets(procfs: &Path, pids: &BTreeSet<i32>, sockets: &mut Vec<Connection>) -> bool {
    let mut is_cut = false;
    for (namespace, folder) in namespaces(procfs, pids) {
        is_cut |= add_namespace(&folder, namespace as u16, sockets);
    }
    is_cut
}

/// The network namespaces of processes, each with the folder of one of these.
pub fn namespaces(procfs: &Path, pids: &BTreeSet<i32>) -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    for &pid in pids {
        let folder = procfs.join(pid.to_string());
        if let Ok(namespace) = fs::metadata(folder.join("ns/net")) {
            found.entry(namespace.ino()).or_insert(folder);
        }
    }
    found
}

fn add_namespace(process: &Path, namespace: u16, sockets: &mut Vec<Connection>) -> bool {
    for (table, protocol) in TABLES {
        let text = procfs::text(process.join("net").join(table)).unwrap_or_default();
        for line in text.lines().skip(1) {
            let Some(socket) = socket(line, protocol, namespace.into()) else { continue };
            if sockets.len() >= MOST {
                return true;
            }
            sockets.push(socket);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn files_and_sockets_are_found_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("7/fdinfo/3", "pos:\t0\nflags:\t02000002\n");
        write("7/fdinfo/4", "pos:\t0\nflags:\t02\neventfd-count: 0\neventfd-id: 9\n");
        write("7/fdinfo/5", "flags:\t0\n");
        write("7/fdinfo/9", "flags:\t02\n");
        write("7/ns/net", "");
        write("8/ns/net", "");
        write(
            "7/net/tcp",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1F90 0200007F:ABCD 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n",
        );
        write(
            "7/net/tcp6",
            "head\n   0: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A \
             00000000:00000000 00:00000000 00000000     0        0 12 1 0\n   1: cut off\n",
        );
        fs::create_dir_all(root.path().join("7/fd")).unwrap();
        let fifo = root.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let named = fs::metadata(&fifo).unwrap();
        let fifo = fifo.to_str().unwrap().to_owned();
        for (fd, name) in [
            (3, "socket:[4711]"),
            (4, "anon_inode:[eventfd]"),
            (5, "/etc/hosts"),
            (6, "socket:[20]"),
            (7, "socket:[21]"),
            (8, "pipe:[22]"),
            (9, "anon_inode:[eventpoll]"),
            (10, &fifo),
        ] {
            symlink(name, root.path().join(format!("7/fd/{fd}"))).unwrap();
        }
        let unix = [(20, ""), (21, "/run/x.sock")].map(|(inode, name)| UnixSocket {
            inode,
            peer: 0,
            name: name.to_owned(),
            is_listening: false,
            is_datagram: false,
        });
        let mut dump = Dump::default();
        assert_eq!(add(root.path(), &[7, 8, 9].into(), &unix, &mut dump), None);
        dump.files.sort_by_key(|file| file.fd);
        let file = |fd, flags, filename: &str, kind, id| {
            let object = Object { kind, id, ..Object::default() };
            OpenFile { pid: 7, fd, flags, filename: filename.into(), object }
        };
        let mut pipe = file(10, 0, &fifo, ObjectKind::Pipe, named.ino() & 0xffff_ffff);
        pipe.object.peer = libc::major(named.dev()) << 20 | libc::minor(named.dev());
        assert_eq!(inodes(root.path(), 7, "socket"), [20, 21, 4711].into());
        assert_eq!(inodes(root.path(), 7, "pipe"), [22].into());
        assert_eq!(inodes(root.path(), 8, "socket"), BTreeSet::new());
        let expected = [
            file(3, 0o2_000_002, "socket:[4711]", ObjectKind::Socket, 4711),
            file(4, 2, "anon_inode:[eventfd]", ObjectKind::Eventfd, 9),
            file(6, 0, "socket:[20]", ObjectKind::Socket, 20),
            file(7, 0, "socket:[21]", ObjectKind::Unix, 21),
            // What it watches is not read.
            file(9, 0, "anon_inode:[eventpoll]", ObjectKind::Epoll, 0),
            pipe,
        ];
        assert_eq!(dump.files, expected);
        let ends = |connection: &Connection| {
            format!("{} {} {}", connection.inode, connection.local, connection.remote)
        };
        let sockets: Vec<_> = dump.sockets.iter().map(ends).collect();
        assert_eq!(sockets, ["4711 127.0.0.1:8080 127.0.0.2:43981", "12 127.0.0.1:80 0.0.0.0:0"]);
    }
}
