//! A prime search beside nine burners.

use anyhow::Result;

use super::{Phase, Row, Section, Stage};
use crate::group::{Group, Hierarchy};
use crate::load::{Place, Worker};

const BURNERS: u32 = 9;
/// The paper's search takes seconds; this one is repeated.
const PRIMES: &str = "20000";
/// No CPU in particular.
const ANYWHERE: &str = "any";

/// The stage: two cgroups.
#[derive(Debug)]
pub struct CpuStage {
    victim: Group,
    burners: Group,
}

impl CpuStage {
    /// Makes the cgroups.
    pub fn prepare() -> Result<Self> {
        let burners = Group::new("burners", &[Hierarchy::Cpu])?;
        // So that each of them counts as much as the search, as it would without cgroups.
        burners.weigh(BURNERS)?;
        Ok(Self { victim: Group::new("primes", &[Hierarchy::Cpu])?, burners })
    }
}

impl Stage for CpuStage {
    fn plot(&self) -> String {
        format!("A search of the first {PRIMES} primes, alone and beside {BURNERS} CPU burners")
    }

    fn groups(&self) -> [&Group; 2] {
        [&self.victim, &self.burners]
    }

    fn resources(&self) -> &'static [&'static str] {
        &["cpu"]
    }

    fn start_victims(&self) -> Result<Vec<Worker>> {
        let place = Place::group(&self.victim);
        Ok(vec![Worker::start_at(place, "primes", &[ANYWHERE, PRIMES])?])
    }

    fn start_culprits(&self) -> Result<Vec<Worker>> {
        let place = Place::group(&self.burners);
        (0..BURNERS).map(|_| Worker::start_at(place, "burn", &[ANYWHERE])).collect()
    }

    fn sections(&self, quiet: &Phase, noisy: &Phase) -> Result<Vec<Section>> {
        let figure = |phase: &Phase, name: &str| phase.done.get(name).map(|&number| number as f64);
        let mut rows = vec![Row {
            name: "context switches per 500 ms, mean".to_owned(),
            unit: "",
            quiet: quiet.switches_per_window(),
            noisy: noisy.switches_per_window(),
        }];
        for (name, unit, of) in [
            ("searches", "", "searches"),
            ("time of a search", "ms", "us-per-search"),
            ("switches of the search itself, voluntary", "", "voluntary-switches"),
            ("switches of the search itself, involuntary", "", "involuntary-switches"),
        ] {
            let scale = if unit == "ms" { 1e-3 } else { 1.0 };
            let value = |phase| figure(phase, of).map(|number| number * scale);
            let (quiet, noisy) = (value(quiet), value(noisy));
            rows.push(Row { name: name.to_owned(), unit, quiet, noisy });
        }
        let own = self.victim.label();
        let of_victim = |phase: &Phase| {
            phase.sum("noised_cgroup_runqueue_wait_seconds", |labels| {
                labels.get("cgroup") == Some(&own)
            })
        };
        let of_host = |phase: &Phase| phase.sum("noised_runqueue_wait_seconds", |_| true);
        rows.extend(Row::delay(
            "run-queue wait of the search",
            of_victim(quiet)?,
            of_victim(noisy)?,
        ));
        rows.extend(Row::delay("run-queue wait of the host", of_host(quiet)?, of_host(noisy)?));
        Ok(vec![Section { title: "Waiting for a CPU".to_owned(), rows }])
    }
}
