//! Ten threads reading ten files, beside three recursive greps.

use anyhow::Result;

use super::report::charged_rows;
use super::{Phase, Row, Section, Stage};
use crate::disk::ScratchTree;
use crate::group::{Group, Hierarchy};
use crate::load::{Place, Worker};
use crate::prom::LabelSet;

const READERS: usize = 10;
const GREPS: usize = 3;
const GREP_FILES: usize = 8;
/// Not to be found.
const WORD: &str = "needle";

/// The stage: two cgroups and the files that their processes read.
#[derive(Debug)]
pub struct DiskStage {
    victim: Group,
    greps: Group,
    files: ScratchTree,
    haystacks: Vec<ScratchTree>,
    disk: String,
}

impl DiskStage {
    /// Makes the cgroups and writes the files, each of so many MiB; `None` where the temporary
    /// directory is on no block device.
    pub fn prepare(mebibytes: usize) -> Result<Option<Self>> {
        let files = ScratchTree::new("files", READERS, mebibytes)?;
        let Some(disk) = files.disk()? else { return Ok(None) };
        let haystacks = (0..GREPS)
            .map(|number| ScratchTree::new(&format!("hay-{number}"), GREP_FILES, mebibytes))
            .collect::<Result<_>>()?;
        let hierarchies = [Hierarchy::Io, Hierarchy::Cpu];
        Ok(Some(Self {
            victim: Group::new("readers", &hierarchies)?,
            greps: Group::new("greps", &hierarchies)?,
            files,
            haystacks,
            disk,
        }))
    }

    /// The disk that all read from.
    pub fn disk(&self) -> &str {
        &self.disk
    }
}

impl Stage for DiskStage {
    fn plot(&self) -> String {
        format!(
            "{READERS} threads reading {READERS} files that are not in the page cache, on {}, alone and \
             beside {GREPS} recursive greps",
            self.disk
        )
    }

    fn groups(&self) -> [&Group; 2] {
        [&self.victim, &self.greps]
    }

    fn resources(&self) -> &'static [&'static str] {
        &["block_queue", "block_device"]
    }

    fn start_victims(&self) -> Result<Vec<Worker>> {
        let place = Place::group(&self.victim);
        Ok(vec![Worker::start_at(place, "file-readers", &[self.files.argument()?])?])
    }

    fn start_culprits(&self) -> Result<Vec<Worker>> {
        let place = Place::group(&self.greps);
        self.haystacks
            .iter()
            .map(|hay| Worker::start_at(place, "grep", &[hay.argument()?, WORD]))
            .collect()
    }

    fn sections(&self, quiet: &Phase, noisy: &Phase) -> Result<Vec<Section>> {
        let on_disk = |labels: &LabelSet| labels.get("device") == Some(&self.disk);
        let queue = |phase: &Phase| phase.sum("noised_block_queue_wait_seconds", on_disk);
        let device = |phase: &Phase| phase.sum("noised_block_device_wait_seconds", on_disk);
        let ((queue_quiet, queue_noisy), (quiet_device, noisy_device)) =
            ((queue(quiet)?, queue(noisy)?), (device(quiet)?, device(noisy)?));
        let mebibytes = |phase: &Phase| {
            phase.done.get("bytes").copied().unwrap_or_default() as f64
                / f64::from(1 << 20)
                / phase.seconds
        };
        let mut rows = vec![
            Row::new("read by the ten threads", "MiB/s", mebibytes(quiet), mebibytes(noisy)),
            Row::new("requests inserted and issued", "", queue_quiet.0, queue_noisy.0),
            Row::new("requests issued and completed", "", quiet_device.0, noisy_device.0),
        ];
        rows.extend(Row::delay("wait in the queue", queue_quiet, queue_noisy));
        rows.extend(Row::delay("wait for the device", quiet_device, noisy_device));
        rows.extend(charged_rows(self, quiet, noisy)?);
        Ok(vec![Section { title: format!("Requests to {}, all of the host's", self.disk), rows }])
    }

    fn unshown(&self) -> Vec<String> {
        vec!["the count of issues alone: noised counts waits, which end with an issue or a completion".to_owned()]
    }
}
