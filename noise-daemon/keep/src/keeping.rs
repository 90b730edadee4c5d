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

use super::file::{About, KeptError, KeptNumbers, SeenEvents, write};
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

/// An incident that opened.
struct Job {
    latest: Latest,
    incident: u64,
    started: Timestamp,
    opened: Clock,
    signal: Watched,
    subject: String,
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
    incidents: Vec<(u64, Timestamp)>,
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
    failing: bool,
}

impl Keeping {
    /// The highest number of an incident of which there are files, where the state that knew them was set aside.
    pub fn highest_unknown(folder: &Folder) -> Option<u64> {
        folder.began_anew().then(|| shelf::highest(folder.path())).flatten()
    }

    /// Goes on with what an earlier daemon kept in the folder of the state, of the incidents that are known.
    pub fn start(
        folder: &Arc<Folder>,
        latest: Option<Latest>,
        bounds: Bounds,
        is_known: impl Fn(u64) -> bool,
    ) -> Self {
        let shelf = Shelf::new(Arc::clone(folder));
        let (mut all, mut without) = (BTreeMap::new(), BTreeMap::new());
        for kept in shelf.restore(is_known) {
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
            failing: false,
        };
        keeping.shorten();
        keeping
    }

    /// An incident opened; `severity` is that of each as it is known now, 0 to 1. A worse one takes the place of the
    /// least.
    pub fn opened(&mut self, report: &Report, opened: Clock, severity: impl Fn(u64) -> f64) {
        let latest = self.latest.clone().filter(|_| self.bounds.incidents > 0);
        let Some(latest) = latest else { return };
        let yields = match self.yields(report.id, &severity) {
            Ok(yields) => yields,
            Err(why) => return self.say_why(report.id, opened.now, why),
        };
        let mut hour = self.hour.clone();
        if let Some(least) = yields {
            hour.withdraw(least);
        }
        match hour.admit(opened.now, report.id, severity) {
            Err(why) => return self.say_why(report.id, opened.now, why),
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
        self.waiting.push(Job {
            latest,
            incident: report.id,
            started: report.main.start,
            opened,
            signal: report.main.signal,
            subject: report.main.subject.to_string(),
        });
    }

    /// Which of those that wait gives way to another one, if one has to: the least, and of equal ones the last.
    /// Errors: why none does.
    fn yields(&self, id: u64, severity: impl Fn(u64) -> f64) -> Result<Option<u64>, &'static str> {
        if self.waiting.len() < MOST_WAITING {
            return Ok(None);
        }
        let waiting = self.waiting.iter().rev().map(|job| job.incident);
        let least = waiting.min_by(|one, other| severity(*one).total_cmp(&severity(*other)));
        least.filter(|least| severity(*least) < severity(id)).map(Some).ok_or(AT_ONCE)
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
            let gone = work.incidents.extract_if(.., |(id, _)| is_gone(*id));
            // Its files come after this.
            work.gone.extend(gone.map(|(id, _)| id));
        }
        let mut all = lock(&self.all);
        let gone: Vec<u64> = all.keys().copied().filter(|id| is_gone(*id)).collect();
        gone.iter().for_each(|id| drop(all.remove(id)));
        self.gone.extend(gone);
    }

    /// Removes the oldest where there are too many, or their files are too long together.
    fn shorten(&mut self) {
        let mut all = lock(&self.all);
        let most_bytes = (self.bounds.incidents as u64).saturating_mul(self.bounds.bytes);
        let bytes = |all: &BTreeMap<u64, Kept>| -> u64 {
            all.values().fold(0, |sum, kept| sum.saturating_add(kept.trace.bytes))
        };
        while all.len() > self.bounds.incidents || bytes(&all) > most_bytes {
            let Some((id, _)) = all.pop_first() else { break };
            self.gone.push(id);
        }
    }

    /// Takes over what the thread has done, and hands on to another one what is to be done.
    pub fn tick(&mut self) {
        if self.work.as_ref().is_some_and(|work| !work.thread.is_finished()) {
            return;
        }
        self.collect();
        if self.waiting.is_empty() && self.gone.is_empty() {
            return;
        }
        let (jobs, gone) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.gone));
        let incidents: Vec<_> = jobs.iter().map(|job| (job.incident, job.opened.now)).collect();
        let (shelf, removed) = (self.shelf.clone(), gone.clone());
        let work = move || work(&shelf, jobs, &removed);
        match thread::Builder::new().name("traces".to_owned()).spawn(work) {
            Ok(thread) => self.work = Some(Work { thread, incidents, gone: Vec::new() }),
            Err(error) => {
                self.gone = gone;
                let why = format!("no thread can be started ({error})");
                incidents.iter().for_each(|(id, opened)| self.failed(*id, *opened, &why));
            }
        }
    }

    fn collect(&mut self) {
        let Some(Work { thread, incidents, gone }) = self.work.take() else { return };
        self.gone.extend(gone);
        // A panic was printed.
        let mut outcomes: BTreeMap<u64, Result<Kept, String>> =
            thread.join().unwrap_or_default().into_iter().collect();
        for (id, opened) in incidents {
            match outcomes.remove(&id) {
                Some(Ok(kept)) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!("kernel events of incidents are kept again");
                    }
                    let waited = kept.trace.waits.first().map(|wait| wait.to_string());
                    tracing::info!(id, waited, "the kernel events before the incident are kept");
                    lock(&self.all).insert(id, kept);
                    self.shorten();
                }
                Some(Err(why)) => self.failed(id, opened, &why),
                None => self.failed(id, opened, "noised failed"),
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

/// Copies the recorder to a file, with who is who.
fn copy(shelf: &Shelf, job: &Job) -> Result<(SeenEvents, u64), String> {
    let about = |seen: &SeenEvents| About {
        incident: job.incident,
        started: job.started,
        opened: job.opened.now,
        signal: job.signal,
        subject: job.subject.clone(),
        who: KeptNumbers::read(&seen.tids, &seen.irqs, &job.subject),
    };
    let written =
        shelf.write_trace(job.incident, |file| write(file, (job.latest)(job.opened.at_ns), about));
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
