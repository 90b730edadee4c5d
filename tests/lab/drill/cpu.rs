//! Drills about CPU time.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;

use super::Prepared;
use super::kit::{CONNECTIONS, Kit, PAUSE_US, Stage, caused_by, taken_by};
use super::storage::{NO_DISK, write_streams, writer_files};
use crate::disk::ScratchFile;
use crate::group::Hierarchy;
use crate::namespace::{Cable, FAR, INTERFACE};
use crate::task::cpus;

/// CPU time of a request.
const WORK: &str = "compute=2000";
/// CPU time of a request to one of many services.
const SMALL_WORK: &str = "compute=2000";
/// How many there are.
const VICTIMS: u32 = 5;
/// The CPU of a service that has one alone, and that of who floods it.
const CPU: &str = "0";
/// See there.
const OTHER_CPU: &str = "1";
const PERIOD: Duration = Duration::from_millis(100);
/// A quota that a service does not reach.
const AMPLE: Duration = Duration::from_millis(180);
/// One that it uses up.
const SCARCE: Duration = Duration::from_millis(25);

/// A hog of another cgroup.
pub(super) fn hog() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, hog) = (kit.service_group("shop", &[])?, kit.hog_group("hog", &[])?);
    let address = kit.serve(&shop, "shop", &[WORK])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let truth = taken_by(&hog, &["cpu"]);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        (0..2 * cpus()).try_for_each(|_| kit.load(&hog, "burn", &["any"]))
    }))
}

/// Processes that begin and end without end.
pub(super) fn forks() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, storm) = (kit.service_group("shop", &[])?, kit.hog_group("storm", &[])?);
    let address = kit.serve(&shop, "shop", &[WORK])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let truth = taken_by(&storm, &["cpu"]);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        (0..2 * cpus()).try_for_each(|_| kit.load(&storm, "forks", &["any", "1000000000"]))
    }))
}

/// A real-time thread on the only CPU of a service.
pub(super) fn realtime() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[Hierarchy::Cpuset])?;
    let hog = kit.service_group("hog", &[])?;
    if !shop.allow_cpus(CPU)? {
        return Ok(Prepared::Impossible("this host keeps no group to CPUs".to_owned()));
    }
    hog.allow_realtime(78)?;
    let address = kit.serve(&shop, "shop", &[WORK])?;
    kit.ask(address, 2, PAUSE_US)?;
    let truth = taken_by(&hog, &["cpu"]);
    // Below what the kernel lets real-time threads have.
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        kit.load(&hog, "bursts", &[CPU, "30", "10", "1000000"])
    }))
}

/// A container beside another one.
pub(super) fn neighbour() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let engine = kit.service_group("engine", &[])?;
    let shop = kit.container(&engine, "5a09")?;
    let hog = kit.container(&engine, "40b1")?;
    let address = kit.serve(&shop, "shop", &[WORK])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let truth = taken_by(&hog, &["cpu"]);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        (0..4 * cpus()).try_for_each(|_| kit.load(&hog, "burn", &["any"]))
    }))
}

/// Many small services beside one hog.
pub(super) fn crowd() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let hog = kit.hog_group("hog", &[])?;
    let shop = kit.service_group("shop", &[])?;
    let address = kit.serve(&shop, "shop", &[SMALL_WORK])?;
    kit.ask(address, 1, PAUSE_US)?;
    for number in 1..VICTIMS {
        let name = format!("small{number}");
        let group = kit.service_group(&name, &[])?;
        let address = kit.serve(&group, &name, &[SMALL_WORK])?;
        kit.ask_unlogged(&group, address, PAUSE_US)?;
    }
    let truth = taken_by(&hog, &["cpu"]);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        (0..2 * cpus()).try_for_each(|_| kit.load(&hog, "burn", &["any"]))
    }))
}

/// Packets of which the receiving interrupts the only CPU of a service.
pub(super) fn packets() -> Result<Prepared> {
    if cpus() < 2 {
        return Ok(Prepared::Impossible("this drill needs two CPUs".to_owned()));
    }
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[Hierarchy::Cpuset])?;
    let flood = kit.service_group("flood", &[Hierarchy::Cpuset])?;
    if !shop.allow_cpus(CPU)? || !flood.allow_cpus(OTHER_CPU)? {
        return Ok(Prepared::Impossible("this host keeps no group to CPUs".to_owned()));
    }
    let address = kit.serve(&shop, "shop", &[WORK])?;
    kit.ask(address, 2, PAUSE_US)?;
    let cable = Cable::new()?;
    cable.far.receive_on(INTERFACE, 0)?;
    let names = ["net_rx", "softirq", "ksoftirqd", &flood.label()];
    let truth = caused_by(&["interrupt", "cpu"], &names);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        let to = format!("{FAR}:9");
        kit.load_at(&flood, &cable.near, "datagrams", &[&to, "64", "0"])?;
        kit.keep(cable);
        Ok(())
    }))
}

/// A hog of CPUs and one of the disk.
pub(super) fn both() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let own = ScratchFile::new("own", 16)?;
    if own.disk()?.is_none() {
        return Ok(Prepared::Impossible(NO_DISK.to_owned()));
    }
    let io = &[Hierarchy::Io];
    let (shop, hog) = (kit.service_group("shop", io)?, kit.hog_group("hog", &[])?);
    let writer = kit.service_group("writer", io)?;
    let files = writer_files()?;
    let address = kit.serve(&shop, "shop", &[WORK, &format!("sync={}", own.argument()?)])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let (mut truth, disk) = (taken_by(&hog, &["cpu"]), taken_by(&writer, &["disk"]));
    truth.causes.extend(disk.causes);
    truth.groups.extend(disk.groups);
    kit.keep(own);
    Ok(Stage::planted(kit, shop, truth, move |kit| {
        write_streams(kit, &writer, files)?;
        (0..2 * cpus()).try_for_each(|_| kit.load(&hog, "burn", &["any"]))
    }))
}

/// Its own quota.
pub(super) fn quota() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[])?;
    if !shop.limit_cpu(AMPLE, PERIOD)? {
        return Ok(Prepared::Impossible("this host limits the CPU time of no group".to_owned()));
    }
    let address = kit.serve(&shop, "shop", &[WORK])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let mut truth = caused_by(&["quota"], &["quota", "limit", "throttle"]);
    let own = |file: &str| format!("{}/{file}", shop.label());
    truth.settings = ["cpu.max", "cpu.cfs_quota_us", "cpu.cfs_burst_us"].map(own).into();
    let limited = Rc::clone(&shop);
    Ok(Stage::planted(kit, shop, truth, move |_| limited.limit_cpu(SCARCE, PERIOD).map(drop)))
}
