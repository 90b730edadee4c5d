//! A drill from its begin to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::judge::{Ending, Outcome, judge, seconds};
use super::kit::{Lookers, Stage};
use super::look::{Look, Surfaces, concerns, incidents};
use super::{Drill, Prepared};
use crate::daemon::{QUICK_INCIDENTS, STATE_DIRECTORY, Socketed, nameless};
use crate::scratch::Folder;
use crate::task::{GoesFirst, monotonic_ns};

/// From one look to the next.
const EVERY: Duration = Duration::from_secs(2);

/// How long it is waited for the end of what others did to a service.
const CALM: Duration = Duration::from_secs(40);

/// How long a drill takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Before something is planted: what is usual is learnt meanwhile.
    pub learn: Duration,
    /// After it.
    pub watch: Duration,
    /// The same where nothing is planted.
    pub quiet: Duration,
    /// Whether noised opens incidents as it does where it is not told otherwise, and so learns for 75 s.
    pub as_shipped: bool,
}

/// Starts the daemon of a drill.
fn start(plan: &Plan, state: &str) -> Result<Socketed> {
    let keeps = [STATE_DIRECTORY, state];
    if plan.as_shipped {
        return Socketed::start(&keeps);
    }
    let (_file, path) = nameless(QUICK_INCIDENTS)?;
    Socketed::start(&[&["--config.file", &path], &keeps[..]].concat())
}

/// Waits until no incident of the victim is open: what others do on the machine is no part of a drill. All incidents by
/// then, or why it is not calm.
fn calm(noised: &Socketed, victim: &str) -> Result<Result<Vec<Value>, String>> {
    let begun = Instant::now();
    loop {
        let all = incidents(noised)?;
        let Some(early) = all.iter().find(|one| one["open"] == true && concerns(one, victim))
        else {
            return Ok(Ok(all));
        };
        if begun.elapsed() > CALM {
            let headline = early["headline"].as_str().unwrap_or_default();
            return Ok(Err(format!("something else disturbed its service before: {headline}")));
        }
        thread::sleep(EVERY);
    }
}

/// Looks at all surfaces again and again; where nothing is planted, only at the end, because to look is work as well.
fn watch(
    surfaces: &Surfaces<'_>,
    length: Duration,
    mut each: impl FnMut(&Look) -> Result<()>,
) -> Result<Vec<Look>> {
    let mut looks = Vec::new();
    // Who times it waits for no CPU: the commands do.
    let _first = GoesFirst::now()?;
    if !surfaces.truth.is_planted() {
        thread::sleep(length);
    }
    // The last look begins when the time is over, so that there is one of all of it.
    loop {
        let (begun, is_last) = (Instant::now(), surfaces.planted.elapsed() >= length);
        let look = surfaces.look()?;
        each(&look)?;
        looks.push(look);
        if is_last {
            return Ok(looks);
        }
        let left = length.saturating_sub(surfaces.planted.elapsed());
        thread::sleep(EVERY.saturating_sub(begun.elapsed()).min(left));
    }
}

/// The process that a command changes, where it names one.
fn process_of(command: &str) -> Option<u32> {
    command.rsplit(' ').next()?.parse().ok()
}

/// Commands of some looks.
#[derive(Default)]
struct Commands {
    /// Those of the last look that are right.
    right: BTreeSet<String>,
    /// Those of all looks that would do harm, each with where it was seen.
    harm: BTreeMap<String, String>,
}

impl Commands {
    /// Judges those of a look, while the processes are there that they name.
    fn judge(&mut self, stage: &Stage, lookers: &Lookers, look: &Look) -> Result<()> {
        let members = stage.members(lookers)?;
        self.right.clear();
        for (surface, shown) in [("why", &look.why), ("incident", &look.incident)] {
            for commands in &shown.remedies {
                let line = commands.join("; ");
                let process = process_of(&line).map(|pid| format!("/proc/{pid}/comm"));
                let name = process.map(fs::read_to_string);
                // What was done against who looks, or names a process that is gone, does no harm.
                let is_of_look = lookers.groups().iter().any(|group| line.contains(&group.label()));
                if is_of_look || matches!(name, Some(Err(_))) {
                    continue;
                }
                if stage.truth().allows(commands, &members) {
                    self.right.insert(line);
                } else {
                    let whom = name.and_then(Result::ok).unwrap_or_default();
                    let whom = format!("{} in {surface}", whom.trim());
                    let seen = format!("{line}: {} after {:.1} s", whom.trim(), shown.seconds);
                    self.harm.entry(line).or_insert(seen);
                }
            }
        }
        Ok(())
    }
}

/// Plays a drill. What it made is gone when this returns.
/// Errors: if noised or something of the stage does not start, or does not answer.
pub fn play(drill: &Drill, plan: &Plan) -> Result<Outcome> {
    let state = Folder::new("state")?;
    // Its processes have to go before its cgroups.
    let lookers;
    let noised = start(plan, state.argument()?)?;
    lookers = Lookers::new(noised.daemon.process().pid())?;
    let mut stage = match (drill.prepare)().context("preparing")? {
        Prepared::Ready(stage) => stage,
        Prepared::Impossible(reason) => {
            return Ok(Outcome::without(drill.name, Ending::Skipped { reason }));
        }
    };
    thread::sleep(plan.learn);
    let victim = stage.victim();
    let before = match calm(&noised, &victim)? {
        Ok(before) => before,
        Err(reason) => {
            return Ok(Outcome::without(drill.name, Ending::Inconclusive { reason }));
        }
    };
    let known = before.iter().filter_map(|one| one["id"].as_u64()).collect();
    let planted_ns = monotonic_ns()?;
    stage.plant().context("planting")?;
    // The first processes of a storm keep the last ones from beginning for half a minute.
    let planted = Instant::now();
    let length = if stage.truth().is_planted() { plan.watch } else { plan.quiet };
    let truth = stage.truth();
    let (noised, lookers, victim, known) = (&noised, &lookers, victim.as_str(), &known);
    let surfaces = Surfaces { noised, lookers, victim, truth, planted, known };
    let mut commands = Commands::default();
    let looks = watch(&surfaces, length, |look| commands.judge(&stage, lookers, look))?;
    let remedies: Vec<String> = commands.right.into_iter().collect();
    let harm: Vec<String> = commands.harm.into_values().collect();
    let is_planted = stage.truth().is_planted();
    let felt = stage.felt(planted_ns)?;
    let has_command = !harm.is_empty() || !remedies.is_empty();
    Ok(Outcome {
        drill: drill.name,
        ending: judge(is_planted, felt.as_ref(), &looks, !harm.is_empty(), has_command),
        felt,
        seconds: seconds(&looks),
        last: looks.last().cloned(),
        harm,
        remedies,
    })
}
