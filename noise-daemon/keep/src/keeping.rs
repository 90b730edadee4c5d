//! Keeps the flight recorder of the moment when an incident opens, away from the thread that samples: a
//! disk that stalls is one of the things being measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use jiff::Timestamp;
use noise_analysis::{Clock, KeptTrace, Report, Watched};
use noise_serve::{EventPieces, MOST_TRACES, PathSource, TraceSource};
use noise_system::output::explained;
use noise_system::worker::REMEDY;
use tokio::sync::mpsc;

use super::file::{About, KeptError, KeptNumbers, SeenEvents, pieces, read, write};
use super::hour::{BY_WORSE, Hour};
use super::path::{PathsFound, find};
use super::shelf::{self, Kept, Shelf, open};
use crate::state::Folder;

/// Threads at once: the one that keeps, and those that read files for clients.
pub const THREADS_AT_ONCE: usize = 1 + MOST_TRACES;
/// Most incidents that wait for the thread.
const MOST_WAITING: usize = 4;
/// Why nothing is kept of an incident beyond those.
const AT_ONCE: &str = "too many incidents opened at once";
/// Why nothing is kept of one that is less than those that have all the room.
const NO_ROOM: &str = "the room for those of other incidents (state.traces) is used by worse ones";
const DAY_S: f64 = 86_400.0;
/// Most incidents of which it is said why nothing is kept.
const MOST_WITHOUT: usize = 64;
/// Bytes that are sent at once of a file.
const PIECE_BYTES: usize = 64 << 10;

/// The newest events up to a time, ns on CLOCK_MONOTONIC, as the flight recorder answers.
pub type Latest = Arc<dyn Fn(u64) -> EventPieces + Send + Sync>;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of so many incidents at most.
    pub incidents: usize,
    /// Bytes of the events of each, as the recorder has them.
    pub bytes: u64,
}

/// What an incident is about: whose waits are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Victim {
    started: Timestamp,
    signal: Watched,
    subject: String,
}

impl Victim {
    fn of(report: &Report) -> Self {
        let main = &report.main;
        Self { started: main.start, signal: main.signal, subject: main.subject.to_string() }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.signal, &self.subject) == (other.signal, &other.subject)
    }
}

/// An incident whose events are to be kept, or that turned out to be about another victim than those that are kept.
struct Job {
    /// What has the events; `None`: what is kept of it.
    latest: Option<Latest>,
    incident: u64,
    opened: Clock,
    victim: Victim,
}

type SaveResult = (u64, Result<Kept, String>);

/// What there is of all incidents, shared with those who ask.
type All = Arc<Mutex<BTreeMap<u64, Kept>>>;

fn lock(all: &All) -> MutexGuard<'_, BTreeMap<u64, Kept>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bound(without: &mut BTreeMap<u64, Arc<KeptTrace>>) {
    while without.len() > MOST_WITHOUT {
        without.pop_first();
    }
}

/// A thread at work, with the incidents that it works for.
struct Work {
    thread: JoinHandle<Vec<SaveResult>>,
    /// With when they opened, and whether events of them were kept before.
    incidents: Vec<(u64, Timestamp, bool)>,
    /// Those that are forgotten meanwhile.
    gone: Vec<u64>,
}

pub struct Keeping {
    shelf: Shelf,
    /// `None` without a flight recorder.
    latest: Option<Latest>,
    bounds: Bounds,
    all: All,
    /// Why there is nothing, by incident.
    without: BTreeMap<u64, Arc<KeptTrace>>,
    waiting: Vec<Job>,
    /// Whose files are to be removed.
    gone: Vec<u64>,
    work: Option<Work>,
    /// Of which incidents of the last hour events are kept.
    hour: Hour,
    /// What incidents are about whose events are kept since this start, or about to be, with when they opened; and once they
    /// are about another victim, that one.
    victims: BTreeMap<u64, (Clock, Victim, Option<Victim>)>,
    /// How bad those of which events are kept, or about to be, are as far as is known.
    gravities: BTreeMap<u64, f64>,
    failing: bool,
}

impl Keeping {
    /// The highest number of an incident of which there are files, where the state that knew them was set aside.
    pub fn highest_unknown(folder: &Folder) -> Option<u64> {
        folder.began_anew().then(|| shelf::highest(folder.path())).flatten()
    }

    /// Goes on with what an earlier daemon kept in the folder of the state, of the incidents that are known, by number with
    /// how bad each is or was.
    pub fn start(
        folder: &Arc<Folder>,
        latest: Option<Latest>,
        bounds: Bounds,
        known: BTreeMap<u64, f64>,
    ) -> Self {
        let shelf = Shelf::new(Arc::clone(folder));
        let (mut all, mut without) = (BTreeMap::new(), BTreeMap::new());
        for kept in shelf.restore(|id| known.contains_key(&id)) {
            match kept {
                Ok(kept) => drop(all.insert(kept.trace.incident, kept)),
                Err(unusable) => {
                    let (id, why) = (unusable.incident, unusable.sentence());
                    without.insert(id, KeptTrace::without(id, unusable.written, &why).into());
                }
            }
        }
        bound(&mut without);
        let hour = Hour::after(all.values().map(|kept| (kept.trace.to, kept.trace.incident)));
        let mut keeping = Self {
            shelf,
            latest,
            bounds,
            all: Arc::new(Mutex::new(all)),
            without,
            waiting: Vec::new(),
            gone: Vec::new(),
            work: None,
            hour,
            victims: BTreeMap::new(),
            gravities: known,
            failing: false,
        };
        keeping.shorten();
        keeping
    }

    /// An incident opened; `gravity` says how bad each is as far as it is known now. A worse one takes the place of the
    /// least.
    pub fn opened(&mut self, report: &Report, opened: Clock, gravity: impl Fn(u64) -> f64) {
        let latest = self.latest.clone().filter(|_| self.bounds.incidents > 0);
        let Some(latest) = latest else { return };
        let kept: Vec<u64> = lock(&self.all).keys().copied().collect();
        let all = kept.into_iter().chain(self.pending()).chain([report.id]);
        self.gravities = all.map(|id| (id, gravity(id))).collect();
        let yields = match self.yields(report.id, &gravity) {
            Ok(yields) => yields,
            Err(why) => return self.say_why(report.id, opened.now, why),
        };
        let mut hour = self.hour.clone();
        if let Some(least) = yields {
            hour.withdraw(least);
        }
        match hour.admit(opened.now, report.id, &gravity) {
            Err(why) => return self.say_why(report.id, opened.now, why),
            Ok(None) if self.is_least(report.id, opened.now) => {
                return self.say_why(report.id, opened.now, NO_ROOM);
            }
            Ok(None) => {}
            Ok(Some(least)) => {
                self.remove(|id| id == least);
                self.say_why(least, opened.now, BY_WORSE);
            }
        }
        self.hour = hour;
        if let Some(least) = yields {
            self.waiting.retain(|job| job.incident != least);
            self.say_why(least, opened.now, AT_ONCE);
        }
        let victim = Victim::of(report);
        self.victims.insert(report.id, (opened, victim.clone(), None));
        self.waiting.push(Job { latest: Some(latest), incident: report.id, opened, victim });
    }

    /// An incident may be about another victim than the one that opened it: then waits of that one are looked for, once.
    pub fn follow(&mut self, report: &Report) {
        let Some((_, victim, other)) = self.victims.get_mut(&report.id) else { return };
        let now = Victim::of(report);
        if other.is_none() && !victim.is_same(&now) {
            *other = Some(now);
        }
    }

    /// Has those looked at again that are about another victim by now.
    fn look_again(&mut self) {
        let all = lock(&self.all);
        let is_kept = |id: &u64| all.contains_key(id);
        let changed = self.victims.iter_mut().filter(|(id, _)| is_kept(id));
        let jobs = changed.filter_map(|(id, (opened, victim, other))| {
            let now = other.clone().filter(|now| !victim.is_same(now))?;
            *victim = now.clone();
            Some(Job { latest: None, incident: *id, opened: *opened, victim: now })
        });
        self.waiting.extend(jobs);
    }

    /// Which of those that wait gives way to another one, if one has to: the least, and of equal ones the last.
    /// Errors: why none does.
    fn yields(&self, id: u64, gravity: impl Fn(u64) -> f64) -> Result<Option<u64>, &'static str> {
        if self.waiting.len() < MOST_WAITING {
            return Ok(None);
        }
        let waiting = self.waiting.iter().rev().map(|job| job.incident);
        let least = waiting.min_by(|one, other| gravity(*one).total_cmp(&gravity(*other)));
        least.filter(|least| gravity(*least) < gravity(id)).map(Some).ok_or(AT_ONCE)
    }

    /// Incidents whose events are about to be kept: what is looked at again is kept already.
    fn pending(&self) -> impl Iterator<Item = u64> {
        let working = self.work.iter().flat_map(|work| &work.incidents);
        let working = working.filter(|(.., is_kept)| !is_kept).map(|(id, ..)| *id);
        self.waiting.iter().map(|job| job.incident).chain(working)
    }

    /// Whether there is no room but for worse ones.
    fn is_least(&self, id: u64, now: Timestamp) -> bool {
        let all = lock(&self.all);
        let kept = all.values().map(|kept| self.weight(kept.trace.incident, kept.trace.to, now));
        let all: Vec<f64> =
            kept.chain(self.pending().map(|id| self.weight(id, now, now))).collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        all.len() >= self.bounds.incidents && least > self.weight(id, now, now)
    }

    /// How much what is kept of an incident since that time is worth: how bad that is, and half as much for each day.
    fn weight(&self, id: u64, since: Timestamp, now: Timestamp) -> f64 {
        let days = now.duration_since(since).as_secs_f64() / DAY_S;
        self.gravities.get(&id).copied().unwrap_or(0.0) * (-days.max(0.0)).exp2()
    }

    fn say_why(&mut self, incident: u64, opened: Timestamp, why: &str) {
        self.without.insert(incident, Arc::new(KeptTrace::without(incident, opened, why)));
        bound(&mut self.without);
    }

    /// Incidents are over, or no more: what is kept of those that are not known goes.
    pub fn forget(&mut self, is_known: impl Fn(u64) -> bool) {
        self.without.retain(|id, _| is_known(*id));
        let waiting = self.waiting.iter().map(|job| job.incident);
        waiting.filter(|id| !is_known(*id)).for_each(|id| self.hour.withdraw(id));
        self.hour.forget(|id| !is_known(id));
        self.remove(|id| !is_known(id));
    }

    /// Removes what is kept, or about to be, of some incidents.
    fn remove(&mut self, is_gone: impl Fn(u64) -> bool) {
        self.waiting.retain(|job| !is_gone(job.incident));
        if let Some(work) = &mut self.work {
            let gone = work.incidents.extract_if(.., |(id, ..)| is_gone(*id));
            // Its files come after this.
            work.gone.extend(gone.map(|(id, ..)| id));
        }
        self.victims.retain(|id, _| !is_gone(*id));
        let mut all = lock(&self.all);
        let gone: Vec<u64> = all.keys().copied().filter(|id| is_gone(*id)).collect();
        gone.iter().for_each(|id| drop(all.remove(id)));
        self.gone.extend(gone);
    }

    /// Removes the least where there are too many, or their files are too long together, and of equal ones the oldest.
    fn shorten(&mut self) {
        let mut all = lock(&self.all);
        let now = all.values().map(|kept| kept.trace.to).max().unwrap_or_default();
        let most_bytes = (self.bounds.incidents as u64).saturating_mul(self.bounds.bytes);
        let bytes = |all: &BTreeMap<u64, Kept>| -> u64 {
            all.values().fold(0, |sum, kept| sum.saturating_add(kept.trace.bytes))
        };
        while all.len() > self.bounds.incidents || bytes(&all) > most_bytes {
            let weights = all.iter().map(|(id, kept)| (*id, self.weight(*id, kept.trace.to, now)));
            let Some((id, _)) = weights.min_by(|one, other| one.1.total_cmp(&other.1)) else {
                break;
            };
            all.remove(&id);
            self.gone.push(id);
        }
    }

    /// Takes over what the thread has done, and hands on to another one what is to be done.
    pub fn tick(&mut self) {
        if self.work.as_ref().is_some_and(|work| !work.thread.is_finished()) {
            return;
        }
        self.collect();
        self.look_again();
        if self.waiting.is_empty() && self.gone.is_empty() {
            return;
        }
        let (jobs, gone) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.gone));
        let incident = |job: &Job| (job.incident, job.opened.now, job.latest.is_none());
        let incidents: Vec<_> = jobs.iter().map(incident).collect();
        let (shelf, removed) = (self.shelf.clone(), gone.clone());
        let work = move || work(&shelf, jobs, &removed);
        match thread::Builder::new().name("traces".to_owned()).spawn(work) {
            Ok(thread) => self.work = Some(Work { thread, incidents, gone: Vec::new() }),
            Err(error) => {
                self.gone = gone;
                let why = format!("no thread can be started ({error})");
                let first = incidents.iter().filter(|(.., is_kept)| !is_kept);
                first.for_each(|(id, opened, _)| self.failed(*id, *opened, &why));
            }
        }
    }

    fn collect(&mut self) {
        let Some(Work { thread, incidents, gone }) = self.work.take() else { return };
        self.gone.extend(gone);
        // A panic was printed.
        let mut outcomes: BTreeMap<u64, Result<Kept, String>> =
            thread.join().unwrap_or_default().into_iter().collect();
        for (id, opened, is_kept) in incidents {
            let outcome = outcomes.remove(&id).unwrap_or_else(|| Err("noised failed".to_owned()));
            match outcome {
                Err(why) if is_kept && open(self.shelf.folder(), id).is_ok() => {
                    tracing::debug!(
                        id,
                        why,
                        "the paths of an incident are those of what opened it"
                    );
                }
                Ok(kept) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!("kernel events of incidents are kept again");
                    }
                    let waited = kept.trace.waits.first().map(|wait| wait.to_string());
                    tracing::info!(id, waited, "the kernel events before the incident are kept");
                    lock(&self.all).insert(id, kept);
                    self.shorten();
                }
                Err(why) => {
                    lock(&self.all).remove(&id);
                    self.failed(id, opened, &why);
                }
            }
        }
    }

    fn failed(&mut self, id: u64, opened: Timestamp, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(id, "cannot keep the kernel events of an incident: {why}");
        }
        self.hour.forget(|failed| failed == id);
        self.say_why(id, opened, why);
    }

    /// What there is of each incident, in the order of their numbers.
    pub fn list(&self) -> Vec<Arc<KeptTrace>> {
        let mut list: Vec<_> =
            lock(&self.all).values().map(|kept| Arc::clone(&kept.trace)).collect();
        list.extend(self.without.values().cloned());
        list.sort_by_key(|trace| trace.incident);
        list
    }

    /// Whether a cgroup may work with the victim of an incident: true unless the kept events show that it does not.
    pub fn may_work_with(&self, id: u64, victim: &str, other: &str) -> bool {
        let all = lock(&self.all);
        let ties = all.get(&id).and_then(|kept| kept.ties.as_ref());
        ties.is_none_or(|ties| *ties.of != *victim || ties.with.contains(other))
    }

    pub fn finish(&mut self) {
        if let Some(work) = self.work.take() {
            // What was written is found by the next daemon.
            let _ = work.thread.join();
        }
    }

    /// What answers requests for paths.
    pub fn paths(&self) -> PathSource {
        let all = Arc::clone(&self.all);
        Arc::new(move |id| lock(&all).get(&id).map(|kept| Arc::clone(&kept.document)))
    }

    /// What answers requests for events. A thread reads each file, which ends when it is sent.
    pub fn traces(&self) -> TraceSource {
        let (all, shelf) = (Arc::clone(&self.all), self.shelf.clone());
        Arc::new(move |id, turn| {
            if !lock(&all).contains_key(&id) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let (sender, receiver) = mpsc::channel(2);
            let shelf = shelf.clone();
            let send = move || {
                match open(shelf.folder(), id).and_then(|file| send(file, &sender)) {
                    Ok(()) => {}
                    // The answer is cut off, which its reader sees.
                    Err(error) => {
                        tracing::warn!(id, %error, "cannot read the kernel events of an incident")
                    }
                }
                drop(turn);
            };
            thread::Builder::new().name("trace".to_owned()).spawn(send).inspect_err(|error| {
                tracing::warn!(id, %error, "no thread can be started to send the kernel events of an incident: {REMEDY}");
            })?;
            Ok(receiver)
        })
    }
}

/// Sends a file, or as much of it as its receiver takes.
fn send(mut file: File, to: &mpsc::Sender<Vec<u8>>) -> io::Result<()> {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let length = file.read(&mut piece)?;
        piece.truncate(length);
        if length == 0 || to.blocking_send(piece).is_err() {
            return Ok(());
        }
    }
}

/// All copies come first: the recorder is overwritten meanwhile.
fn work(shelf: &Shelf, jobs: Vec<Job>, gone: &[u64]) -> Vec<SaveResult> {
    let begin = Instant::now();
    let copy = |job: Job| {
        let copied = copy(shelf, &job);
        (job, copied)
    };
    let copied: Vec<_> = jobs.into_iter().map(copy).collect();
    let copy_time = begin.elapsed();
    gone.iter().for_each(|id| shelf.remove(*id));
    let outcomes = copied.into_iter().map(|(job, copied)| {
        let kept = copied.and_then(|(seen, bytes)| {
            describe(shelf, &job, &seen, bytes).inspect_err(|_| shelf.remove(job.incident))
        });
        (job.incident, kept)
    });
    let outcomes: Vec<_> = outcomes.collect();
    let (count, path_time) = (outcomes.len(), begin.elapsed() - copy_time);
    tracing::debug!(count, ?copy_time, ?path_time, "kept kernel events");
    noise_system::memory::give_back_program();
    outcomes
}

fn unwritable(error: io::Error) -> String {
    format!("the state directory cannot be written: {}", explained(error))
}

/// Copies the recorder to a file, with who is who; or the file to another one, that is about another victim.
fn copy(shelf: &Shelf, job: &Job) -> Result<(SeenEvents, u64), String> {
    let Victim { started, signal, subject } = job.victim.clone();
    let written = match &job.latest {
        Some(latest) => {
            let about = |seen: &SeenEvents| About {
                incident: job.incident,
                started,
                opened: job.opened.now,
                signal,
                who: KeptNumbers::read(&seen.tids, &seen.irqs, &subject),
                subject,
            };
            let pieces = latest(job.opened.at_ns);
            shelf.write_trace(job.incident, |file| write(file, pieces, about))
        }
        None => shelf.write_trace(job.incident, |file| {
            let kept = || open(shelf.folder(), job.incident);
            let (_, before) = read(kept()?, |_, _| {})?;
            write(file, pieces(kept()?)?, |_| About { started, signal, subject, ..before })
        }),
    };
    let ((seen, _), bytes) = written.map_err(|error| match error {
        KeptError::File(error) => unwritable(error),
        error => format!("the flight recorder cannot be read: {error}"),
    })?;
    if seen.events == 0 {
        shelf.remove(job.incident);
        return Err("the flight recorder has none".to_owned());
    }
    Ok((seen, bytes))
}

/// Finds the paths, and notes them.
fn describe(shelf: &Shelf, job: &Job, seen: &SeenEvents, bytes: u64) -> Result<Kept, String> {
    let file = || open(shelf.folder(), job.incident);
    let read = || file().map(|file| Box::new(BufReader::new(file)) as Box<dyn Read>);
    let found = find(&read).unwrap_or_else(|error| {
        tracing::warn!(id = job.incident, %error, "no path is found for an incident");
        PathsFound::default()
    });
    let mut document = serde_json::to_string(&found.document).map_err(|error| error.to_string())?;
    document.push('\n');
    let from_ns = seen.span_ns.map_or(job.opened.at_ns, |(from_ns, _)| from_ns);
    let trace = KeptTrace {
        incident: job.incident,
        from: job.opened.wall(from_ns),
        to: job.opened.now,
        events: seen.events,
        missing: seen.missing,
        bytes: bytes.saturating_add(document.len() as u64),
        waits: found.sentences,
        trouble: None,
    };
    let kept = Kept { trace: Arc::new(trace), document: document.into(), ties: found.ties };
    shelf.write_path(&kept).map_err(unwritable)?;
    Ok(kept)
}

#[cfg(test)]
mod tests;
