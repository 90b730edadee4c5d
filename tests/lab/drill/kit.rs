//! What drills are made of: cgroups, services, their clients, and what is planted. All of it is gone when dropped.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result};

use super::truth::{Cause, Truth};
use super::{Felt, Prepared};
use crate::daemon::free_address;
use crate::group::{Group, Hierarchy};
use crate::load::{Place, Worker};
use crate::namespace::Namespace;
use crate::scratch::{Folder, argument};

/// As many groups as a service counts for, and a hog, so that what others do on the machine disturbs them little.
const WEIGHTS: [u32; 2] = [8, 24];
/// The same for who looks, and for noised, which its unit gives ten times as much. They disturb services little.
const LOOKERS: [u32; 2] = [8, 80];
/// What who looks may have as real-time threads, per cent of a CPU: only kernels that share that out among cgroups ask.
const REALTIME: u32 = 16;
/// Connections of a client, and how long each rests between its requests, us.
pub(super) const CONNECTIONS: u32 = 4;
/// See there.
pub(super) const PAUSE_US: u32 = 10_000;

/// What happens when the time has come.
pub(super) type Planting = Box<dyn FnOnce(&mut Kit) -> Result<()>>;

/// Everything that has to stay as long as a drill is played.
pub(super) struct Kit {
    // Processes go before the cgroups that they are in, and those that ask before those that they ask.
    client: Option<Worker>,
    workers: Vec<Worker>,
    groups: Vec<Rc<Group>>,
    guards: Vec<Box<dyn Any>>,
    folder: Folder,
}

impl Kit {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            client: None,
            workers: Vec::new(),
            groups: Vec::new(),
            guards: Vec::new(),
            folder: Folder::new("drill")?,
        })
    }

    fn group(&mut self, name: &str, hierarchies: &[Hierarchy], weight: u32) -> Result<Rc<Group>> {
        let group = Group::new(name, hierarchies)?;
        group.weigh(weight)?;
        let group = Rc::new(group);
        self.groups.push(Rc::clone(&group));
        Ok(group)
    }

    /// A cgroup of a service.
    pub(super) fn service_group(&mut self, name: &str, more: &[Hierarchy]) -> Result<Rc<Group>> {
        self.group(name, &[&[Hierarchy::Cpu], more].concat(), WEIGHTS[0])
    }

    /// A cgroup of somebody who takes much.
    pub(super) fn hog_group(&mut self, name: &str, more: &[Hierarchy]) -> Result<Rc<Group>> {
        self.group(name, &[&[Hierarchy::Cpu], more].concat(), WEIGHTS[1])
    }

    /// A cgroup of a container, inside another one.
    pub(super) fn container(&mut self, engine: &Group, id: &str) -> Result<Rc<Group>> {
        let group = Rc::new(engine.inner(&format!("docker-{}.scope", id.repeat(16)))?);
        group.weigh(WEIGHTS[0])?;
        // Before the one that it lies in.
        self.groups.insert(0, Rc::clone(&group));
        Ok(group)
    }

    /// Starts a load in a cgroup.
    pub(super) fn load(&mut self, group: &Group, name: &str, arguments: &[&str]) -> Result<()> {
        self.workers.push(Worker::start_at(Place::group(group), name, arguments)?);
        Ok(())
    }

    /// Starts a load in a cgroup and a network namespace.
    pub(super) fn load_at(
        &mut self,
        group: &Group,
        namespace: &Namespace,
        name: &str,
        arguments: &[&str],
    ) -> Result<()> {
        let place = Place { group: Some(group), namespace: Some(namespace) };
        self.workers.push(Worker::start_at(place, name, arguments)?);
        Ok(())
    }

    /// Starts a service in a cgroup, which does these steps for each request; where it answers.
    pub(super) fn serve(
        &mut self,
        group: &Group,
        name: &str,
        steps: &[&str],
    ) -> Result<SocketAddr> {
        let address = free_address()?;
        self.load(group, "service", &[&[name, &address.to_string()], steps].concat())?;
        Ok(address)
    }

    /// Starts a client, which logs what it feels, in a cgroup of its own.
    pub(super) fn ask(
        &mut self,
        address: SocketAddr,
        connections: u32,
        pause_us: u32,
    ) -> Result<()> {
        let group = self.service_group("client", &[])?;
        let log = self.path("felt");
        let [address, connections, pause] =
            [address.to_string(), connections.to_string(), pause_us.to_string()];
        let arguments = [address.as_str(), argument(&log)?, &connections, &pause];
        self.client = Some(Worker::start_at(Place::group(&group), "client", &arguments)?);
        Ok(())
    }

    /// Starts a client whose log is not judged, with one connection, in the cgroup of its service.
    pub(super) fn ask_unlogged(
        &mut self,
        group: &Group,
        address: SocketAddr,
        pause_us: u32,
    ) -> Result<()> {
        let arguments = [&address.to_string(), "/dev/null", "1", &pause_us.to_string()];
        self.load(group, "client", &arguments)
    }

    /// A file in its folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Keeps something until the end, when all processes are gone.
    pub(super) fn keep(&mut self, guard: impl Any) {
        self.guards.push(Box::new(guard));
    }

    /// Ends the client; what it felt.
    fn felt(&mut self, planted_ns: u64) -> Result<Option<Felt>> {
        let Some(client) = self.client.take() else { return Ok(None) };
        client.stop().context("the client")?;
        Ok(Some(Felt::read(&fs::read_to_string(self.path("felt"))?, planted_ns)?))
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        drop(self.client.take());
        while let Some(worker) = self.workers.pop() {
            drop(worker);
        }
    }
}

/// The cgroups of who looks for the cause, and of noised. What they cost is no part of a drill.
pub(super) struct Lookers {
    pub(super) operator: Group,
    noised: Group,
}

impl Lookers {
    /// With a daemon that runs.
    pub(super) fn new(noised: u32) -> Result<Self> {
        let [operator_weight, noised_weight] = LOOKERS;
        let groups = ["operator", "monitor"].map(|name| Group::new(name, &[Hierarchy::Cpu]));
        let [operator, group] = groups;
        let lookers = Self { operator: operator?, noised: group? };
        lookers.operator.weigh(operator_weight)?;
        lookers.operator.allow_realtime(REALTIME)?;
        lookers.noised.weigh(noised_weight)?;
        lookers.noised.adopt(noised)?;
        Ok(lookers)
    }

    pub(super) fn groups(&self) -> [&Group; 2] {
        [&self.operator, &self.noised]
    }
}

/// A drill, ready to be played: services run and are asked, and nothing is planted.
pub(super) struct Stage {
    victim: Rc<Group>,
    truth: Truth,
    planting: Option<Planting>,
    // The last that has the cgroups, so that they go in its order.
    kit: Kit,
}

impl Stage {
    /// One that nothing is planted on.
    pub(super) fn quiet(kit: Kit, victim: Rc<Group>) -> Prepared {
        let truth = Truth::default();
        Prepared::Ready(Box::new(Self { kit, victim, truth, planting: None }))
    }

    /// One that something is planted on.
    pub(super) fn planted(
        kit: Kit,
        victim: Rc<Group>,
        truth: Truth,
        planting: impl FnOnce(&mut Kit) -> Result<()> + 'static,
    ) -> Prepared {
        let planting: Option<Planting> = Some(Box::new(planting));
        Prepared::Ready(Box::new(Self { kit, victim, truth, planting }))
    }

    /// What noised calls the victim.
    pub(super) fn victim(&self) -> String {
        let label = self.victim.label();
        match (container_id(&self.victim), label.rsplit_once("docker-")) {
            (Some(id), Some((around, _))) => format!("{around}docker:{id}"),
            _ => label,
        }
    }

    pub(super) const fn truth(&self) -> &Truth {
        &self.truth
    }

    /// Plants.
    pub(super) fn plant(&mut self) -> Result<()> {
        self.planting.take().map_or(Ok(()), |planting| planting(&mut self.kit))
    }

    /// Threads and processes of which a right command may change something, those of who looks included.
    pub(super) fn members(&self, lookers: &Lookers) -> Result<BTreeSet<i32>> {
        let groups = self.truth.groups.iter().map(Rc::as_ref).chain(lookers.groups());
        let all = groups.map(Group::threads);
        Ok(all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    pub(super) fn felt(&mut self, planted_ns: u64) -> Result<Option<Felt>> {
        self.kit.felt(planted_ns)
    }
}

/// The begin of the id of a container's cgroup, by which engines know it.
fn container_id(group: &Group) -> Option<String> {
    group.label().rsplit_once("docker-").and_then(|(_, id)| id.get(..12)).map(str::to_owned)
}

/// The truth of a hog.
pub(super) fn taken_by(hog: &Rc<Group>, resources: &'static [&'static str]) -> Truth {
    let id: Vec<String> = container_id(hog).into_iter().collect();
    let cause = Cause { resources, names: [&id[..], &[hog.label()]].concat() };
    Truth { causes: vec![cause], groups: vec![Rc::clone(hog)], settings: id }
}

/// The truth of a cause that has no cgroup that could be changed.
pub(super) fn caused_by(resources: &'static [&'static str], names: &[&str]) -> Truth {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    Truth { causes: vec![Cause { resources, names }], ..Truth::default() }
}

/// The step `work` of a service, once this file is there.
pub(super) fn once(file: &Path, work: &str) -> Result<String> {
    Ok(format!("if:{}:{work}", argument(file)?))
}
