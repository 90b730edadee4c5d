//! A quiet host has no incident; each planted disturbance is one, which names who was planted, and
//! ends when that leaves.
//!
//! Others use the machine too. An incident counts where planted work is its subject or did a good
//! part of it; what the hypervisor took is the machine's own, and so is what timer interrupts take
//! while no storm of them is planted: a hypervisor makes them slow.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use noise_tests::attribution::kept_by_others;
use noise_tests::daemon::{Daemon, QUICK_INCIDENTS, nameless};
use noise_tests::disk::ScratchFile;
use noise_tests::group::{Group, Hierarchy};
use noise_tests::http::get;
use noise_tests::load::{Place, Worker};
use noise_tests::namespace::{VethPair, configure};
use noise_tests::prom::{LabelSet, Scrape};
use serde_json::Value;

use crate::kept::Keeping;
use crate::{INCONCLUSIVE, Impossible, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("each_disturbance_is_one_incident", each_disturbance_is_one_incident)];

/// Warm-up, what is held against it, and some rest to find nothing in.
const QUIET: Duration = Duration::from_secs(24);
/// How long a disturbance goes on after its incident has begun.
const GOING_ON: Duration = Duration::from_secs(4);
/// Time in which an incident must open, and in which it must end once its cause is gone.
const TIMEOUT: Duration = Duration::from_secs(20);
/// After the end of one, for what comes late.
const REST: Duration = Duration::from_secs(2);
/// From which part in it on a culprit is what an incident is about.
const MAIN_SHARE: f64 = 0.25;

/// What the daemon calls the interrupt of the storm.
const TIMER: &str = "local_timer";
/// How much of the quiet work's time others may take: what is learnt beside more noise hides what is
/// planted.
pub(crate) const MOST_NOISE: f64 = 0.15;
/// As many groups as the quiet work counts for, so that others on the machine disturb it little, and
/// as many as the hog does.
pub(crate) const WEIGHTS: [u32; 2] = [4, 24];

const RATE: &str = "20mbit";
pub(crate) const CPU: &str = "0";
pub(crate) const OTHER_CPU: &str = "1";

/// Everything that is disturbed and that disturbs.
struct Stage {
    daemon: Daemon,
    keeping: Keeping,
    victim: Group,
    hog: Group,
    readers: Group,
    sender: Group,
    storm: Group,
    haystack: ScratchFile,
    disk: String,
    wire: VethPair,
    /// Whether the storm of timer interrupts is planted.
    is_storming: Cell<bool>,
}

/// What is planted.
struct Plant {
    name: &'static str,
    /// What the first culprit of its incident is to be called.
    planter: String,
    start: fn(&Stage) -> Result<Vec<Worker>>,
}

impl Stage {
    /// Whether that is planted to disturb.
    fn disturbs(&self, name: &str) -> bool {
        [&self.hog, &self.readers, &self.sender].iter().any(|group| group.label() == name)
    }

    /// Whether that is planted, be it to disturb or to be disturbed.
    fn is_own(&self, name: &str) -> bool {
        let others = [self.victim.label(), self.storm.label()];
        let is_storm = name == TIMER && self.is_storming.get();
        self.disturbs(name) || is_storm || others.iter().any(|own| own == name)
    }

    /// Whether an episode is of planted work, or where that is at work.
    fn is_disturbed(&self, episode: &Value) -> bool {
        episode["subject"].as_str().is_some_and(|subject| {
            let device = subject.split(' ').next();
            self.is_own(subject) || subject == self.wire.near || device == Some(&*self.disk)
        })
    }

    /// The part of time for which others kept the quiet work from a CPU, or the hypervisor did.
    fn noise(&self, first: &Scrape, time: Duration) -> Result<f64> {
        let scrapes = (first, &self.daemon.scrape()?);
        kept_by_others(scrapes, time, &self.victim.label(), |name| self.is_own(name))
    }

    /// `None` where the temporary directory is on no block device.
    fn prepare() -> Result<Option<Self>> {
        let haystack = ScratchFile::new("haystack", 64)?;
        let Some(disk) = haystack.disk()? else { return Ok(None) };
        let (_file, path) = nameless(QUICK_INCIDENTS)?;
        let keeping = Keeping::new()?;
        let mut options = keeping.options()?;
        options.extend(["--config.file".to_owned(), path]);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let daemon = Daemon::start_with(&options)?;
        let wire = VethPair::new()?;
        let queue = ["qdisc", "add", "dev", &wire.near, "root", "tbf", "rate", RATE];
        configure("tc", &[&queue[..], &["burst", "3000", "limit", "100000"]].concat())?;
        let group = |name, hierarchy| Group::new(name, &[hierarchy, Hierarchy::Cpu]);
        let victim = Group::new("victim", &[Hierarchy::Cpu, Hierarchy::Io, Hierarchy::Sockets])?;
        let hog = Group::new("hog", &[Hierarchy::Cpu])?;
        for (group, weight) in [&victim, &hog].into_iter().zip(WEIGHTS) {
            group.weigh(weight)?;
        }
        Ok(Some(Self {
            daemon,
            keeping,
            victim,
            hog,
            readers: group("readers", Hierarchy::Io)?,
            sender: group("sender", Hierarchy::Sockets)?,
            storm: group("storm", Hierarchy::Cpu)?,
            haystack,
            disk,
            wire,
            is_storming: Cell::new(false),
        }))
    }

    fn start_victims(&self) -> Result<Vec<Worker>> {
        let place = Place::group(&self.victim);
        let reads = [OTHER_CPU, self.haystack.argument()?, "4096", "4000", "0"];
        Ok(vec![
            Worker::start_at(place, "sleep", &[CPU, "2000"])?,
            Worker::start_at(place, "primes", &[CPU, "20000"])?,
            Worker::start_at(place, "direct-reads", &reads)?,
            Worker::start_at(place, "frames", &[OTHER_CPU, &self.wire.near, "500", "1", "4000"])?,
        ])
    }

    fn plants(&self) -> [Plant; 4] {
        [
            Plant { name: "CPU hog", planter: self.hog.label(), start: burners },
            Plant { name: "disk readers", planter: self.readers.label(), start: disk_readers },
            Plant { name: "bulk sender", planter: self.sender.label(), start: bulk_sender },
            Plant { name: "interrupt storm", planter: TIMER.to_owned(), start: timers },
        ]
    }
}

fn burners(stage: &Stage) -> Result<Vec<Worker>> {
    (0..3).map(|_| Worker::start_at(Place::group(&stage.hog), "burn", &[CPU])).collect()
}

fn disk_readers(stage: &Stage) -> Result<Vec<Worker>> {
    let reads = [OTHER_CPU, stage.haystack.argument()?, "1048576", "0", "0"];
    (0..4).map(|_| Worker::start_at(Place::group(&stage.readers), "direct-reads", &reads)).collect()
}

fn bulk_sender(stage: &Stage) -> Result<Vec<Worker>> {
    let frames = [OTHER_CPU, &stage.wire.near, "1400", "16", "1000"];
    Ok(vec![Worker::start_at(Place::group(&stage.sender), "frames", &frames)?])
}

fn timers(stage: &Stage) -> Result<Vec<Worker>> {
    // One takes less than the tenth of a fast CPU that an incident needs.
    let storm = [CPU, "20000", "3"];
    Ok(vec![Worker::start_at(Place::group(&stage.storm), "clock-storm", &storm)?])
}

/// What opened it and what joined.
pub(crate) fn episodes(incident: &Value) -> impl Iterator<Item = &Value> {
    let also = incident["also"].as_array().into_iter().flatten();
    [incident].into_iter().chain(also)
}

/// Who did a good part of it, beyond the usual.
fn main_culprits(episode: &Value) -> impl Iterator<Item = &str> {
    let culprits = episode["culprits"].as_array().into_iter().flatten();
    let main = culprits.filter(|culprit| {
        culprit["beyond"]["share"].as_f64().is_some_and(|share| share >= MAIN_SHARE)
    });
    main.filter_map(|culprit| culprit["culprit"].as_str())
}

/// Whether planted work is disturbed in it, or disturbs. What others do to it, or it to them, is
/// the machine's own, and so is what the hypervisor takes, and a device that is slow by itself: with
/// requests of the quiet work alone, whose culprit that is then.
fn is_planted(incident: &Value, stage: &Stage) -> bool {
    let victim = stage.victim.label();
    episodes(incident).any(|episode| {
        let mut culprits = main_culprits(episode).peekable();
        let by_own = culprits.peek().is_some() && culprits.all(|name| stage.is_own(name));
        let is_slow_device = episode["signal"] == "block_device_wait"
            && main_culprits(episode).all(|name| name == victim);
        main_culprits(episode).any(|name| stage.disturbs(name))
            || stage.is_disturbed(episode) && by_own && !is_slow_device
    })
}

/// Whether it names a culprit as one that did a good part of it.
fn names(incident: &Value, culprit: &str) -> bool {
    episodes(incident).any(|episode| main_culprits(episode).any(|name| name == culprit))
}

/// Whether an incident is written as agreed: what goes on has no end, and nothing is listed twice.
pub(crate) fn consistent(incident: &Value) -> Result<()> {
    let (mut keys, mut active) = (BTreeSet::new(), false);
    for episode in episodes(incident) {
        let key = (episode["signal"].as_str(), episode["subject"].as_str());
        ensure!(keys.insert(key), "{key:?} is listed twice: {incident}");
        let goes_on = episode["active"] == true;
        active |= goes_on;
        let is_ended = !episode["end"].is_null() && !episode["ending"].is_null();
        let is_open = goes_on || episode == incident && incident["open"] == true;
        ensure!(is_ended != is_open, "{key:?} has an end, or none: {incident}");
    }
    ensure!(incident["open"] == active, "{active}: {incident}");
    let seconds = |key: &str| incident[key].as_f64().with_context(|| format!("{key}: {incident}"));
    let (lasted, disturbed) = (seconds("lasted_seconds")?, seconds("seconds")?);
    ensure!(lasted > 0.0 && disturbed <= lasted + 1e-3, "{disturbed} s of {lasted} s: {incident}");
    Ok(())
}

/// The part of an incident that is not over.
fn open_episodes(incident: &Value) -> impl Iterator<Item = &Value> {
    episodes(incident).filter(|episode| episode["active"] == true)
}

/// Whether what a culprit does is not over. It may have joined what others do for longer.
fn goes_on(incident: &Value, planter: &str) -> bool {
    open_episodes(incident).any(|episode| main_culprits(episode).any(|name| name == planter))
}

/// One line of an incident.
pub(crate) fn in_words(incident: &Value) -> String {
    let episode = |episode: &Value| {
        let first = &episode["culprits"][0];
        format!(
            "{} of {} by {} ({}, {} of what is beyond), {} s in {} s",
            episode["signal"],
            episode["subject"],
            first["culprit"],
            first["cause"],
            first["beyond"]["share"],
            episode["lost_seconds"],
            episode["seconds"],
        )
    };
    let all: Vec<String> = episodes(incident).map(episode).collect();
    format!("#{}: {}", incident["id"], all.join("; also "))
}

/// The incidents of planted work after that one; and the others, the machine's own.
fn incidents(stage: &Stage, after: u64) -> Result<(Vec<Value>, Vec<Value>)> {
    let answer = get(stage.daemon.address, "/api/v1/incidents", &[])?;
    let document: Value = serde_json::from_slice(&answer.body)?;
    let all = document["incidents"].as_array().context("no list of incidents")?;
    all.iter().try_for_each(consistent)?;
    let is_new = |incident: &&Value| incident["id"].as_u64().is_some_and(|id| id > after);
    let new = all.iter().filter(is_new).cloned();
    Ok(new.partition(|incident| is_planted(incident, stage)))
}

/// Asks until the answer is as wanted, or that takes too long.
pub(crate) fn until(wanted: impl Fn() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if wanted()? {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(250));
    }
    wanted()
}

/// The newest incident's number.
fn newest(stage: &Stage) -> Result<u64> {
    let (planted, others) = incidents(stage, 0)?;
    let ids = planted.iter().chain(&others).filter_map(|incident| incident["id"].as_u64());
    Ok(ids.max().unwrap_or(0))
}

/// Whether metrics say that this culprit did a good part of what is disturbed now. No metric has culprits of
/// anything else, or more than three.
fn is_exported(stage: &Stage, planter: &str) -> Result<bool> {
    let scrape = stage.daemon.scrape()?;
    let active = scrape.series("noised_incident_active");
    let mut places: BTreeMap<LabelSet, usize> = BTreeMap::new();
    let mut is_named = false;
    for (mut labels, share) in scrape.series("noised_incident_culprit_share") {
        let culprit = labels.remove("culprit").context("no culprit")?;
        labels.remove("cause").context("no cause")?;
        is_named |= culprit == planter && share >= MAIN_SHARE;
        let is_fair = active.contains_key(&labels) && 0.0 < share && share <= 1.0;
        ensure!(is_fair, "{culprit} has {share} of {labels:?}; disturbed are {active:?}");
        let place = places.entry(labels).or_default();
        *place += 1;
        ensure!(*place <= 3, "too many culprits: {places:?}");
    }
    Ok(is_named)
}

/// What a disturbance does must not be charged to one that is there already.
fn wait_for_calm(stage: &Stage) -> Result<()> {
    let is_calm = || {
        let (planted, others) = incidents(stage, 0)?;
        let concerns = |one: &Value| open_episodes(one).any(|episode| stage.is_disturbed(episode));
        Ok(!planted.iter().chain(&others).any(concerns))
    };
    if until(is_calm)? { Ok(()) } else { bail!("{INCONCLUSIVE}: the machine is not calm") }
}

fn disturb(stage: &Stage, plant: &Plant) -> Result<()> {
    wait_for_calm(stage)?;
    let before = newest(stage)?;
    println!("{}:", plant.name);
    stage.is_storming.set(plant.planter == TIMER);
    let workers = (plant.start)(stage)?;
    let opened = until(|| Ok(!incidents(stage, before)?.0.is_empty()))?;
    let named = until(|| is_exported(stage, &plant.planter))?;
    thread::sleep(GOING_ON);
    if plant.planter == stage.hog.label() {
        // Commands come when it is certain whose doing it is; that they came is held against what is reported at the end.
        until(|| {
            Ok(incidents(stage, before)?.0.iter().any(|one| has_commands(one, &plant.planter)))
        })?;
    }
    for worker in workers {
        worker.stop()?;
    }
    let goes_on = |incident: &Value| goes_on(incident, &plant.planter);
    let closed = until(|| Ok(!incidents(stage, before)?.0.iter().any(goes_on)))?;
    let gone = until(|| Ok(!is_exported(stage, &plant.planter)?))?;
    thread::sleep(REST);
    let (found, others) = incidents(stage, before)?;
    for (kind, list) in [("found", &found), ("the machine's own", &others)] {
        list.iter().for_each(|incident| println!("  {kind} {}", in_words(incident)));
    }
    // That of an earlier planter would be the daemon's mistake.
    let of_others = |incident: &Value| {
        let named: Vec<_> =
            stage.plants().into_iter().filter(|one| names(incident, &one.planter)).collect();
        matches!(&*named, [one] if one.planter == plant.planter)
    };
    if found.is_empty() && incidents(stage, 0)?.0.iter().any(of_others) {
        bail!("{INCONCLUSIVE}: it became a part of what others had begun");
    }
    ensure!(opened, "{}: no incident within {TIMEOUT:?}", plant.name);
    let [incident] = found.as_slice() else {
        bail!("{}: {} incidents, not one", plant.name, found.len())
    };
    let first = &incident["culprits"][0];
    // What planted work takes from others on its CPU is of no plant, either.
    let is_other = !stage.is_own(first["culprit"].as_str().unwrap_or_default())
        || !stage.is_disturbed(incident);
    if is_other && names(incident, &plant.planter) {
        bail!("{INCONCLUSIVE}: {first} disturbed more than what was planted");
    }
    ensure!(first["culprit"] == *plant.planter, "{}: the first culprit is {first}", plant.name);
    ensure!(named, "{}: the metrics do not name the culprit", plant.name);
    ensure!(gone, "{}: the metrics name a culprit of the past", plant.name);
    ensure!(closed, "{}: the incident goes on after its cause is gone", plant.name);
    let remedies = incident["remedies"].as_array();
    ensure!(remedies.is_some_and(|remedies| !remedies.is_empty()), "{}: no remedy", plant.name);
    if plant.planter == stage.hog.label() && incident["subject"] == *stage.victim.label() {
        ensure_host_side(stage, incident)?;
    }
    let signal = incident["signal"].as_str().unwrap_or_default();
    if ["block_queue_wait", "block_device_wait"].contains(&signal) {
        stage.keeping.ensure_disk_paths(&stage.daemon, incident)?;
    }
    Ok(())
}

/// Whether some command of an incident is about a cgroup.
fn has_commands(incident: &Value, of: &str) -> bool {
    let advice = incident["advice"].as_array().into_iter().flatten();
    let mut commands = advice.flat_map(|one| one["commands"].as_array().into_iter().flatten());
    commands.any(|one| one.as_str().is_some_and(|one| one.contains(of.trim_start_matches('/'))))
}

/// What the confined daemon read of the cgroups that an incident is about: pressure of the victim's, which grew while
/// it was open, and remedies with what is set and a command. A host without PSI is said to be so, and has no 0.
fn ensure_host_side(stage: &Stage, incident: &Value) -> Result<()> {
    let pressure = &incident["pressure"];
    println!("  pressure {pressure}\n  advice {}", incident["advice"]);
    let some = &pressure["latest"]["cpu"]["some"];
    if Path::new("/proc/pressure/cpu").exists() {
        let stalled_ms = some["stalled_ms"].as_f64().unwrap_or_default();
        ensure!(stalled_ms > 100.0, "stalled for {stalled_ms} ms beside a hog: {pressure}");
        ensure!(pressure["opening"]["cpu"]["some"]["avg10_percent"].is_f64(), "{pressure}");
    } else {
        let why = pressure["opening"]["unavailable"].as_array();
        ensure!(some.is_null() && why.is_some_and(|why| !why.is_empty()), "{pressure}");
    }
    let hog = stage.hog.label();
    let advice = incident["advice"].as_array().context("no advice")?;
    ensure!(has_commands(incident, &hog), "no command is about {hog}: {advice:?}");
    let is_said = |one: &Value| one["now"].as_str().is_some_and(|now| now.contains(&hog));
    ensure!(advice.iter().any(is_said), "nothing says how {hog} is set up: {advice:?}");
    Ok(())
}

fn each_disturbance_is_one_incident() -> Result<()> {
    let stage = Stage::prepare()?
        .ok_or_else(|| Impossible("the temporary directory is on no block device".into()))?;
    let victims = stage.start_victims()?;
    let first = stage.daemon.scrape()?;
    thread::sleep(QUIET);
    let noise = stage.noise(&first, QUIET)?;
    println!("others take {noise:.3} of the quiet work's time");
    if noise > MOST_NOISE {
        bail!("{INCONCLUSIVE}: the machine is not quiet");
    }
    let (found, others) = incidents(&stage, 0)?;
    println!("quiet: {} incidents, {} of the machine's own", found.len(), others.len());
    ensure!(found.is_empty(), "an incident of quiet work: {}", in_words(&found[0]));
    // All are planted, whatever becomes of one: their failures are reported together.
    let (mut failed, mut doubtful) = (Vec::new(), None);
    for plant in stage.plants() {
        let (first, begin) = (stage.daemon.scrape()?, Instant::now());
        let outcome = disturb(&stage, &plant);
        let noise = stage.noise(&first, begin.elapsed())?;
        println!("  others took {noise:.3} of the quiet work's time meanwhile");
        match outcome {
            Err(error) if error.to_string().starts_with(INCONCLUSIVE) => doubtful = Some(error),
            Err(error) => failed.push(format!("{error:#}")),
            Ok(()) => {}
        }
    }
    for victim in victims {
        victim.stop()?;
    }
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    doubtful.map_or(Ok(()), Err)
}
