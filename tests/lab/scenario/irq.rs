//! A download under an interrupt load: timers, calls from another CPU, a disk.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use super::{Phase, Row, Section, Stage};
use crate::disk::ScratchFile;
use crate::group::{Group, Hierarchy};
use crate::load::{Place, Worker};
use crate::prom::LabelSet;
use crate::task::cpus;

/// Sources that are shown.
const SHOWN: usize = 6;

/// What interrupts, and what the daemon is to call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Timers of one CPU that wake no task.
    Timers,
    /// These, and calls from another CPU, and the disk's interrupts.
    Everything,
}

/// The stage: two cgroups, on one CPU.
#[derive(Debug)]
pub struct IrqStage {
    victim: Group,
    storm: Group,
    load: Load,
    cpu: usize,
    file: Option<ScratchFile>,
    /// The disk's interrupt.
    irq: Option<String>,
}

/// The CPU that the disk of a file interrupts, and the interrupt's name, if that is the name of a
/// device and a queue.
fn disk_interrupt(file: &ScratchFile) -> Option<(usize, String)> {
    let disk = file.disk().ok()??;
    let device = fs::canonicalize(format!("/sys/block/{disk}/device")).ok()?;
    let bus_name = device.file_name()?.to_string_lossy().into_owned();
    let table = fs::read_to_string("/proc/interrupts").ok()?;
    let line = table.lines().rfind(|line| line.contains(&format!("{bus_name}-req")))?;
    let name = line.split_whitespace().last()?.to_owned();
    let irq = line.trim().split(':').next()?;
    let cpu = fs::read_to_string(format!("/proc/irq/{irq}/effective_affinity_list")).ok()?;
    Some((cpu.trim().parse().ok()?, name))
}

impl IrqStage {
    /// Makes the cgroups, and a file to read where the disk is to interrupt as well.
    pub fn prepare(load: Load) -> Result<Self> {
        let file = match load {
            Load::Timers => None,
            Load::Everything => Some(ScratchFile::new("irq", 16)?),
        };
        let interrupt = file.as_ref().and_then(disk_interrupt);
        let (cpu, irq) = interrupt.map_or((0, None), |(cpu, name)| (cpu, Some(name)));
        Ok(Self {
            victim: Group::new("download", &[Hierarchy::Cpu])?,
            storm: Group::new("storm", &[Hierarchy::Cpu])?,
            cpu,
            load,
            file,
            irq,
        })
    }

    fn other_cpu(&self) -> usize {
        (self.cpu + 1) % cpus()
    }
}

impl Stage for IrqStage {
    fn plot(&self) -> String {
        let load = match self.load {
            Load::Timers => "timers",
            Load::Everything => "timers, calls from another CPU and disk reads",
        };
        format!("A download on CPU {}, quiet and under {load} that interrupt it", self.cpu)
    }

    fn groups(&self) -> [&Group; 2] {
        [&self.victim, &self.storm]
    }

    fn planted(&self) -> Vec<String> {
        let mut planted = vec!["local_timer".to_owned()];
        if self.load == Load::Everything {
            planted.push("call_function_single".to_owned());
            // What the disk's interrupt leaves to be done after it.
            planted.push("block".to_owned());
            planted.extend(self.irq.clone());
        }
        planted
    }

    fn resources(&self) -> &'static [&'static str] {
        &["running"]
    }

    fn start_victims(&self) -> Result<Vec<Worker>> {
        let (cpu, other) = (self.cpu.to_string(), self.other_cpu().to_string());
        let arguments = [&*cpu, &*other, "16384", "2000", "50"];
        Ok(vec![Worker::start_at(Place::group(&self.victim), "download", &arguments)?])
    }

    fn start_culprits(&self) -> Result<Vec<Worker>> {
        let place = Place::group(&self.storm);
        let (cpu, other) = (self.cpu.to_string(), self.other_cpu().to_string());
        let mut workers = vec![Worker::start_at(place, "clock-storm", &[&cpu, "25000", "1"])?];
        if let Some(file) = &self.file {
            workers.push(Worker::start_at(place, "ipi-storm", &[&other, &cpu, "100"])?);
            let reads = [&*other, file.argument()?, "4096", "0", "0"];
            workers.push(Worker::start_at(place, "direct-reads", &reads)?);
        }
        Ok(workers)
    }

    fn sections(&self, quiet: &Phase, noisy: &Phase) -> Result<Vec<Section>> {
        let figure = |phase: &Phase, name| phase.done.get(name).copied().unwrap_or_default() as f64;
        let work = vec![
            Row::new("pieces", "", figure(quiet, "pieces"), figure(noisy, "pieces")),
            Row::new(
                "time to add up a piece",
                "us",
                figure(quiet, "ns-per-checksum") / 1e3,
                figure(noisy, "ns-per-checksum") / 1e3,
            ),
        ];
        let mut sections = vec![Section { title: "The download".to_owned(), rows: work }];
        for (title, metric) in [
            ("Interrupts of devices", "noised_hardirq_seconds"),
            ("Interrupts of the processors", "noised_vector_seconds"),
            ("Softirqs", "noised_softirq_seconds"),
        ] {
            let (before, after) = (quiet.histograms(metric)?, noisy.histograms(metric)?);
            let seconds = |labels: &LabelSet| {
                let sum = |histogram: &crate::prom::Histogram| histogram.sum_seconds;
                after.get(labels).map_or(0.0, sum) + before.get(labels).map_or(0.0, sum)
            };
            let keys: BTreeSet<&LabelSet> = before.keys().chain(after.keys()).collect();
            let mut keys: Vec<_> = keys.into_iter().filter(|key| seconds(key) > 0.0).collect();
            keys.sort_by(|one, other| seconds(other).total_cmp(&seconds(one)));
            let mut rows = Vec::new();
            for labels in keys.into_iter().take(SHOWN) {
                let name = labels.values().cloned().collect::<Vec<_>>().join(" ");
                let exactly = |found: &LabelSet| found == labels;
                rows.extend(Row::delay(
                    &name,
                    quiet.sum(metric, exactly)?,
                    noisy.sum(metric, exactly)?,
                ));
            }
            sections.push(Section { title: format!("{title}, of all CPUs"), rows });
        }
        Ok(sections)
    }
}
