//! Drills about disks and memory.

use std::fs;
use std::rc::Rc;

use anyhow::{Context as _, Result};

use super::Prepared;
use super::kit::{CONNECTIONS, Kit, PAUSE_US, Stage, caused_by, taken_by};
use super::truth::Truth;
use crate::disk::ScratchFile;
use crate::group::{Group, Hierarchy};
use crate::load::files::open_dropped;
use crate::slow_disk::SlowDisk;

/// Why drills of disks are left out.
pub(super) const NO_DISK: &str = "the temporary directory is on no block device; set TMPDIR";
/// Why those of memory are.
const NO_LIMIT: &str = "this host limits the memory of no group";
/// Processes that write, and how much each writes before it has that written to the disk, MiB.
const WRITERS: usize = 4;
/// See there.
const WRITER_MIB: usize = 48;

/// The files that they write.
pub(super) fn writer_files() -> Result<Vec<ScratchFile>> {
    (0..WRITERS).map(|number| ScratchFile::new(&format!("w{number}"), WRITER_MIB)).collect()
}

/// Starts processes that write through a disk, one for each of these files.
pub(super) fn write_streams(kit: &mut Kit, group: &Group, files: Vec<ScratchFile>) -> Result<()> {
    for (number, file) in files.iter().enumerate() {
        let cpu = (number % crate::task::cpus()).to_string();
        kit.load(group, "stream", &[&cpu, file.argument()?, &WRITER_MIB.to_string(), "0"])?;
    }
    kit.keep(files);
    Ok(())
}

/// A service that has each request written to a disk, beside others that write much.
pub(super) fn fsync() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let own = ScratchFile::new("own", 16)?;
    let Some(disk) = own.disk()? else {
        return Ok(Prepared::Impossible(NO_DISK.to_owned()));
    };
    let io = &[Hierarchy::Io];
    let (shop, writer) = (kit.service_group("shop", io)?, kit.service_group("writer", io)?);
    let files = writer_files()?;
    let address =
        kit.serve(&shop, "shop", &["compute=300", &format!("sync={}", own.argument()?)])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let mut truth = taken_by(&writer, &["disk"]);
    truth.settings.push(format!("/sys/block/{disk}/queue/scheduler"));
    kit.keep(own);
    Ok(Stage::planted(kit, shop, truth, move |kit| write_streams(kit, &writer, files)))
}

/// The truth of a limit of the victim's own memory.
fn own_limit(group: &Group) -> Truth {
    let mut truth = caused_by(&["memory"], &["limit", "memory", &group.label()]);
    let own = |file: &str| format!("{}/{file}", group.label());
    truth.settings = ["memory.max", "memory.high", "memory.limit_in_bytes"].map(own).into();
    truth
}

/// A limit of memory into which the files do not fit that a service reads.
pub(super) fn memory() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[Hierarchy::Memory])?;
    if !shop.limit_memory(256)? {
        return Ok(Prepared::Impossible(NO_LIMIT.to_owned()));
    }
    let file = ScratchFile::new("pages", 32)?;
    if file.disk()?.is_none() {
        return Ok(Prepared::Impossible(NO_DISK.to_owned()));
    }
    // What is in the page cache counts for who read it first.
    open_dropped(file.path())?;
    let address =
        kit.serve(&shop, "shop", &["compute=300", &format!("read={},32", file.argument()?)])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    kit.keep(file);
    let (truth, limited) = (own_limit(&shop), Rc::clone(&shop));
    Ok(Stage::planted(kit, shop, truth, move |_| limited.limit_memory(8).map(drop)))
}

/// A limit of memory into which a service's own memory does not fit, on a host with swap.
pub(super) fn swap() -> Result<Prepared> {
    if fs::read_to_string("/proc/swaps").unwrap_or_default().lines().count() < 2 {
        return Ok(Prepared::Impossible("this host has no swap".to_owned()));
    }
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[Hierarchy::Memory])?;
    if !shop.limit_memory(256)? {
        return Ok(Prepared::Impossible(NO_LIMIT.to_owned()));
    }
    let address = kit.serve(&shop, "shop", &["compute=300", "touch=64,100"])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let (truth, limited) = (own_limit(&shop), Rc::clone(&shop));
    Ok(Stage::planted(kit, shop, truth, move |_| limited.limit_memory(32).map(drop)))
}

/// A service that writes to the page cache, beside others that have filled what may be dirty.
pub(super) fn writeback() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let disk = match SlowDisk::new(kit.path("disk")) {
        Ok(disk) => disk,
        Err(error) => return Ok(Prepared::Impossible(format!("no disk of its own: {error:#}"))),
    };
    let io = &[Hierarchy::Io];
    let (shop, writer) = (kit.service_group("shop", io)?, kit.service_group("writer", io)?);
    let own = disk.folder().join("own");
    fs::write(&own, vec![0; 4 << 20])?;
    let path = own.to_str().context("no text")?;
    let address = kit.serve(&shop, "shop", &["compute=300", &format!("write={path},16")])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let folder = disk.folder().to_string_lossy().into_owned();
    kit.keep(disk);
    let truth = taken_by(&writer, &["disk"]);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        (0..2).try_for_each(|cpu: u32| {
            let cpu = (cpu as usize % crate::task::cpus()).to_string();
            kit.load(&writer, "new-pages", &[&cpu, &folder, "64"])
        })
    }))
}
