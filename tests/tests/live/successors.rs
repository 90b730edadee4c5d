//! Two culprits of one victim, one after the other: each has an incident of its own, though the
//! first one's is still open, as it goes on elsewhere when the second begins.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::attribution::kept_by_others;
use noise_tests::daemon::{Daemon, QUICK_INCIDENTS, nameless};
use noise_tests::group::{Group, Hierarchy};
use noise_tests::http::get;
use noise_tests::load::{Place, Worker};
use noise_tests::prom::{Scrape, label_set};
use serde_json::Value;

use crate::incidents::{
    CPU, MOST_NOISE, OTHER_CPU, WEIGHTS, consistent, episodes, in_words, until,
};
use crate::kept::Keeping;
use crate::{INCONCLUSIVE, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("successive_culprits_are_two_incidents", successive_culprits_are_two_incidents)];

/// Warm-up, and the windows that are held against it.
const QUIET: Duration = Duration::from_secs(17);
/// How long a disturbance goes on after its incident has begun: longer than another's windows are
/// held against it.
const GOING_ON: Duration = Duration::from_secs(5);

/// What keeps an incident open when others take it, in seconds per second: half of what opens one.
const KEEPS_OPEN: f64 = 0.025;

/// The signal that shows them.
const WAIT: &str = "cgroup_runqueue_wait";

struct Stage {
    daemon: Daemon,
    keeping: Keeping,
    /// Disturbed by both, one after the other.
    victim: Group,
    /// Disturbed by the first all the time.
    third: Group,
    hog: Group,
    other: Group,
}

impl Stage {
    fn prepare() -> Result<Self> {
        let (_file, path) = nameless(QUICK_INCIDENTS)?;
        let keeping = Keeping::new()?;
        let mut options = keeping.options()?;
        options.extend(["--config.file".to_owned(), path]);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let daemon = Daemon::start_with(&options)?;
        let group = |name, weight| -> Result<Group> {
            let group = Group::new(name, &[Hierarchy::Cpu])?;
            group.weigh(weight)?;
            Ok(group)
        };
        let [quiet, loud] = WEIGHTS;
        Ok(Self {
            daemon,
            keeping,
            victim: group("victim", quiet)?,
            third: group("third", quiet)?,
            hog: group("hog", loud)?,
            other: group("other", loud)?,
        })
    }

    fn start_victims(&self) -> Result<Vec<Worker>> {
        let mut workers = Vec::new();
        for (group, cpu) in [(&self.victim, CPU), (&self.third, OTHER_CPU)] {
            let place = Place::group(group);
            workers.push(Worker::start_at(place, "sleep", &[cpu, "2000"])?);
            workers.push(Worker::start_at(place, "primes", &[cpu, "20000"])?);
        }
        Ok(workers)
    }

    fn is_own(&self, name: &str) -> bool {
        let all = [&self.victim, &self.third, &self.hog, &self.other];
        all.iter().any(|group| group.label() == name)
    }

    fn is_active(&self, group: &Group) -> Result<bool> {
        let labels = label_set(&[("signal", WAIT), ("subject", &group.label())]);
        Ok(self.daemon.scrape()?.value("noised_incident_active", &labels) == Some(1.0))
    }

    /// Whether waits go on that are mostly the other's doing. What others do on the machine is theirs.
    fn is_disturbed(&self, victim: &Group, culprit: &Group) -> Result<bool> {
        let incidents = self.incidents()?;
        let mut of_both = incidents.iter().flat_map(|one| episodes_of(one, victim, culprit));
        Ok(of_both.any(|episode| episode["active"] == true))
    }

    /// The part of time that others take from a victim.
    fn noise(&self, victim: &Group, first: &Scrape, time: Duration) -> Result<f64> {
        let scrapes = (first, &self.daemon.scrape()?);
        kept_by_others(scrapes, time, &victim.label(), |name| self.is_own(name))
    }

    fn incidents(&self) -> Result<Vec<Value>> {
        let answer = get(self.daemon.address, "/api/v1/incidents", &[])?;
        let document: Value = serde_json::from_slice(&answer.body)?;
        let incidents = document["incidents"].as_array().context("no list of incidents")?;
        incidents.iter().try_for_each(consistent)?;
        Ok(incidents.clone())
    }
}

fn burners(group: &Group, cpu: &str) -> Result<Vec<Worker>> {
    (0..3).map(|_| Worker::start_at(Place::group(group), "burn", &[cpu])).collect()
}

fn stop(workers: Vec<Worker>) -> Result<()> {
    workers.into_iter().try_for_each(|worker| worker.stop().map(drop))
}

/// Where one's waits are mostly the other's doing.
fn episodes_of<'a>(
    incident: &'a Value,
    victim: &Group,
    culprit: &Group,
) -> impl Iterator<Item = &'a Value> {
    let (victim, culprit) = (victim.label(), culprit.label());
    episodes(incident).filter(move |episode| {
        episode["signal"] == WAIT
            && episode["subject"] == *victim
            && episode["culprits"][0]["culprit"] == *culprit
    })
}

/// The incident that has such a part.
fn incident_of<'a>(incidents: &'a [Value], victim: &Group, culprit: &Group) -> Option<&'a Value> {
    incidents.iter().find(|incident| episodes_of(incident, victim, culprit).next().is_some())
}

/// The first culprit still takes a CPU from everything else, which so comes to the victim's: where that alone is enough to
/// keep an incident open, nothing is to be learnt of its end.
fn await_recovery(stage: &Stage) -> Result<()> {
    let Stage { victim, hog, .. } = stage;
    let (scrape, since) = (stage.daemon.scrape()?, Instant::now());
    let recovers = until(|| Ok(!stage.is_disturbed(victim, hog)?))?;
    let noise = stage.noise(victim, &scrape, since.elapsed())?;
    println!("  others take {noise:.3} of the victim's time after the first has left");
    if !recovers && noise >= KEEPS_OPEN {
        bail!("{INCONCLUSIVE}: others disturb the victim after the first culprit has left");
    }
    ensure!(recovers, "the victim does not recover");
    Ok(())
}

/// The number of the first culprit's incident, and the paths that were kept of its begin.
fn disturb(stage: &Stage) -> Result<(u64, Value)> {
    let Stage { victim, third, hog, other, .. } = stage;
    let here = burners(hog, CPU)?;
    let there = burners(hog, OTHER_CPU)?;
    let both = || Ok(stage.is_disturbed(victim, hog)? && stage.is_disturbed(third, hog)?);
    ensure!(until(both)?, "no incident of the first culprit");
    let incidents = stage.incidents()?;
    let first = incident_of(&incidents, victim, hog).context("no incident of the first")?;
    let id = first["id"].as_u64().context("an incident without a number")?;
    let hogs: Vec<i32> = here.iter().chain(&there).map(Worker::pid).collect();
    let kept = stage.keeping.ensure_kept(&stage.daemon, id, &hogs);
    thread::sleep(GOING_ON);
    stop(here)?;
    await_recovery(stage)?;
    let others = burners(other, CPU)?;
    let is_back = until(|| stage.is_disturbed(victim, other))?;
    thread::sleep(GOING_ON);
    let goes_on = stage.is_disturbed(third, hog)?;
    let during = stage.incidents()?;
    let shown = stage.is_active(victim)? && stage.is_active(third)?;
    stop(others)?;
    stop(there)?;
    let over =
        until(|| Ok(!stage.is_disturbed(victim, other)? && !stage.is_disturbed(third, hog)?))?;
    let after = stage.incidents()?;
    for (when, incidents) in [("during", &during), ("after", &after)] {
        incidents.iter().for_each(|incident| println!("  {when} {}", in_words(incident)));
    }
    ensure!(is_back, "no incident of the second culprit");
    ensure!(goes_on, "the third subject's incident does not go on");
    ensure!(shown, "noised_incident_active does not show both subjects");
    for incidents in [&during, &after] {
        let first = incident_of(incidents, &stage.victim, &stage.hog);
        let second = incident_of(incidents, &stage.victim, &stage.other);
        let (first, second) = first.zip(second).context("an incident of one of the culprits")?;
        ensure!(first["id"] != second["id"], "one incident of both: {}", in_words(first));
        ensure!(first["culprits"][0]["culprit"] == *stage.hog.label(), "{}", in_words(first));
        ensure!(second["culprits"][0]["culprit"] == *stage.other.label(), "{}", in_words(second));
    }
    ensure!(over, "the incidents go on after their causes are gone");
    Ok((id, kept?))
}

fn successive_culprits_are_two_incidents() -> Result<()> {
    let stage = Stage::prepare()?;
    let victims = stage.start_victims()?;
    let first = stage.daemon.scrape()?;
    thread::sleep(QUIET);
    let last = stage.daemon.scrape()?;
    for group in [&stage.victim, &stage.third] {
        let noise =
            kept_by_others((&first, &last), QUIET, &group.label(), |name| stage.is_own(name))?;
        println!("others take {noise:.3} of the time of {}", group.label());
        if noise > MOST_NOISE {
            bail!("{INCONCLUSIVE}: the machine is not quiet");
        }
    }
    let outcome = disturb(&stage);
    stop(victims)?;
    let (id, kept) = outcome?;
    stage.keeping.ensure_survives(stage.daemon, id, &kept)?;
    Ok(())
}
