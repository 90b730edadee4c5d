//! What the live tests ask of the collector's inside: they run as root and say why they cannot, which a unit test does not.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use anyhow::{Context as _, bail, ensure};
use aya::maps::{Map, MapData, PerCpuHashMap, PerCpuValues, loaded_maps};
use nix::libc::RLIM_INFINITY;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::Pid;
use noise_common::event::{Cell, CellKey};
use noise_common::header::Header;
use noise_common::record::RecordKind;
use noise_common::signals::{Signal, keyed_slot};
use noise_model::Series;

use super::hashed::Hashed;
use super::sources::Collector;
use crate::kernel::{Engine, LoadOptions};

/// The loopback interface, as it is numbered in every namespace.
const LOOPBACK: u64 = 1;
const SIGNAL: Signal = Signal::NetTxWait;

/// Packets that the collector has counted on the loopback interface.
fn sent(collector: &mut Collector) -> u64 {
    let series = collector.sample().series.into_iter();
    let own = |one: &Series| one.signal == SIGNAL && *one.labels == ["lo"];
    series.filter(own).map(|one| one.totals.count()).sum()
}

/// Gives the cell of the loopback interface to another subject; the key of that one.
fn occupy(collector: &Collector) -> anyhow::Result<CellKey> {
    let occupant = (2..).find(|other| keyed_slot(*other) == keyed_slot(LOOPBACK));
    let occupant = occupant.context("nothing else has that cell")?;
    let slot = SIGNAL.first_cell() + keyed_slot(LOOPBACK);
    let header = Header::new(RecordKind::Window, SIGNAL as u32, 0);
    let cell = Cell { header, subject: occupant, closes_ns: 1, ..Cell::EMPTY };
    for cpu in 0..collector.states.len() {
        collector.states.write_cell(cpu, slot, cell);
    }
    Ok(CellKey { signal: SIGNAL as u32, padding: 0, subject: occupant })
}

/// That a subject stays where its window is open. Binds the calling thread to the first CPU.
/// Errors: if it does not, or the programs cannot be loaded.
pub fn a_subject_stays_where_its_window_is_open() -> anyhow::Result<()> {
    let mut here = CpuSet::new();
    here.set(0)?;
    sched_setaffinity(Pid::from_raw(0), &here)?;
    let mut collector = Collector::new(Engine::load(&LoadOptions::default())?)?;
    let key = occupy(&collector)?;
    collector.engine_mut().attach()?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let send = |count: u64| -> anyhow::Result<()> {
        (0..count).try_for_each(|_| Ok(socket.send_to(&[0], address).map(drop)?))
    };
    send(100)?;
    let before = sent(&mut collector);
    ensure!(before >= 100, "{before} packets of 100");
    collector.states.free_cells(SIGNAL, key);
    send(10)?;
    let after = sent(&mut collector);
    ensure!(after >= before + 10, "{after} packets after {before} and 10 more");
    Ok(())
}

/// A hash as a test writes it.
type WrittenHash = PerCpuHashMap<MapData, u64, u64>;

/// A hash of our own, with what the kernel knows it as.
fn create(entries: u32, cpus: usize) -> anyhow::Result<(WrittenHash, Hashed<u64, u64>)> {
    let known =
        || -> anyhow::Result<Vec<u32>> { loaded_maps().map(|info| Ok(info?.id())).collect() };
    let before = known()?;
    let own = WrittenHash::create(entries, 0)?;
    for id in known()?.into_iter().filter(|id| !before.contains(id)) {
        let map = Map::PerCpuHashMap(MapData::from_id(id)?);
        if let Ok(hashed) = Hashed::new(map, cpus) {
            return Ok((own, hashed));
        }
    }
    bail!("the kernel does not know the map")
}

/// That every entry of a hash is read once.
/// Errors: if it is not, or a map cannot be made.
pub fn every_entry_is_read_once() -> anyhow::Result<()> {
    // Kernels before 5.11 charge maps to that limit.
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    let cpus = aya::util::nr_cpus().map_err(|(path, error)| anyhow::anyhow!("{path}: {error}"))?;
    let (mut own, mut hashed) = create(10_000, cpus)?;
    let read = |hashed: &mut Hashed<u64, u64>| -> anyhow::Result<_> {
        let (mut all, mut again) = (BTreeMap::new(), 0);
        hashed.read(|key, of| again += usize::from(all.insert(key, of.to_vec()).is_some()))?;
        ensure!(again == 0, "{again} entries are read more than once");
        Ok(all)
    };
    ensure!(read(&mut hashed)?.is_empty(), "entries of a new map");
    let mut expected = BTreeMap::new();
    for key in 0..9_000 {
        let by_cpu: Vec<u64> = (0..cpus as u64).map(|cpu| key + cpu).collect();
        own.insert(key, PerCpuValues::try_from(by_cpu.clone())?, 0)?;
        expected.insert(key, by_cpu);
    }
    let found = read(&mut hashed)?;
    ensure!(found == expected, "{} entries are read, or others than were made", found.len());
    let one = hashed.get(&7).map(|values| values.to_vec());
    ensure!(one.as_ref() == expected.get(&7), "asked for by its key, one is {one:?}");
    for key in 0..9_000 {
        hashed.remove(&key);
    }
    ensure!(read(&mut hashed)?.is_empty() && hashed.get(&7).is_none(), "entries are left");
    Ok(())
}
