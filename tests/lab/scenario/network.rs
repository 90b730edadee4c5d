//! A rate-limited download beside a bulk one, through one shaped interface.
//!
//! The two senders are in one network namespace, the receivers in another. Datagrams, not TCP: a
//! sender's own thread queues each, so that the kernel's trace shows whose it is.

use anyhow::Result;

use super::report::charged_rows;
use super::{Phase, Row, Section, Stage};
use crate::group::{Group, Hierarchy};
use crate::load::{Place, Worker};
use crate::namespace::{Cable, FAR, INTERFACE};
use crate::prom::LabelSet;

const RATE: &str = "20mbit";
/// The limited download: 500 bytes every 5 ms.
const LIMITED: [&str; 2] = ["500", "5000"];
/// The bulk one: as fast as its socket takes it.
const BULK: [&str; 2] = ["1400", "0"];
const PORTS: [u16; 2] = [6001, 6002];
/// What the daemon calls the interfaces of other namespaces than its own.
const FOLDED: &str = "~other";

/// The stage: two cgroups and two namespaces.
#[derive(Debug)]
pub struct NetworkStage {
    victim: Group,
    bulk: Group,
    // Dropped after the groups' processes have ended.
    cable: Cable,
}

impl NetworkStage {
    /// Makes the cgroups, the namespaces and the interface between them. Not before the daemon has
    /// started (see [`crate::group`]).
    pub fn prepare() -> Result<Self> {
        let cable = Cable::new()?;
        let near = &cable.near;
        near.tc(&[
            "qdisc", "add", "dev", INTERFACE, "root", "handle", "1:", "htb", "default", "1",
        ])?;
        let class = ["class", "add", "dev", INTERFACE, "parent", "1:", "classid", "1:1", "htb"];
        near.tc(&[&class[..], &["rate", RATE, "burst", "3000", "cburst", "3000"]].concat())?;
        let hierarchies = [Hierarchy::Cpu, Hierarchy::Sockets];
        Ok(Self {
            victim: Group::new("limited", &hierarchies)?,
            bulk: Group::new("bulk", &hierarchies)?,
            cable,
        })
    }

    fn start(&self, group: &Group, port: u16, [bytes, pause]: [&str; 2]) -> Result<Vec<Worker>> {
        let address = format!("{FAR}:{port}");
        let far = Place { group: Some(group), namespace: Some(&self.cable.far) };
        let near = Place { group: Some(group), namespace: Some(&self.cable.near) };
        Ok(vec![
            Worker::start_at(far, "sink", &[&address])?,
            Worker::start_at(near, "datagrams", &[&address, bytes, pause])?,
        ])
    }
}

impl Stage for NetworkStage {
    fn plot(&self) -> String {
        format!(
            "A download of {} bytes every {} us through an interface of {RATE}/s, alone and beside a bulk \
             one",
            LIMITED[0], LIMITED[1]
        )
    }

    fn groups(&self) -> [&Group; 2] {
        [&self.victim, &self.bulk]
    }

    fn resources(&self) -> &'static [&'static str] {
        &["net_tx", "net_rx"]
    }

    fn start_victims(&self) -> Result<Vec<Worker>> {
        self.start(&self.victim, PORTS[0], LIMITED)
    }

    fn start_culprits(&self) -> Result<Vec<Worker>> {
        self.start(&self.bulk, PORTS[1], BULK)
    }

    fn sections(&self, quiet: &Phase, noisy: &Phase) -> Result<Vec<Section>> {
        let folded = |labels: &LabelSet| {
            labels.get("interface").is_some_and(|interface| interface == FOLDED)
        };
        let received = |phase: &Phase| phase.done.get("received").copied().unwrap_or_default();
        let mut rows = vec![Row::new(
            "datagrams received by the limited download",
            "",
            received(quiet) as f64,
            received(noisy) as f64,
        )];
        for (name, metric) in [
            ("wait to be sent, both downloads", "noised_net_tx_wait_seconds"),
            ("wait to be received, both downloads", "noised_net_rx_wait_seconds"),
        ] {
            rows.extend(Row::delay(name, quiet.sum(metric, folded)?, noisy.sum(metric, folded)?));
        }
        rows.extend(charged_rows(self, quiet, noisy)?);
        Ok(vec![Section { title: "Packets of interfaces in other namespaces".to_owned(), rows }])
    }
}
