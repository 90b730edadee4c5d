//! Keeps the flight recorder of the moment when an incident opens, away from the thread that samples: a
//! disk that stalls is one of the things being measured.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use noise_analysis::{Clock, KeptTrace, Report, Watched};
use noise_serve::{EventPieces, MOST_TRACES, PathSource, TraceSource};
use noise_system::output::explained;
use tokio::sync::mpsc;

use super::file::{About, KeptError, Seen, Who, write};
use super::path::{Found, find};
use super::shelf::{Kept, Shelf, open};
use crate::state::Folder;

/// Most incidents of an hour whose events are kept: what flaps does not replace all others.
const MOST_PER_HOUR: usize = 6;
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// Threads at once: the one that keeps, and those that read files for clients.
pub const THREADS_AT_ONCE: usize = 1 + MOST_TRACES;
/// Most incidents that wait for the thread.
const MOST_WAITING: usize = 4;
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

type Outcome = (u64, Result<Kept, String>);

/// What there is of all incidents, shared with those who ask.
type All = Arc<Mutex<BTreeMap<u64, Kept>>>;

fn lock(all: &All) -> MutexGuard<'_, BTreeMap<u64, Kept>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the oldest.
fn bound(without: &mut BTreeMap<u64, Arc<KeptTrace>>) {
    while without.len() > MOST_WITHOUT {
        without.pop_first();
    }
}

/// A thread at work, with the incidents that it works for.
struct Work {
    thread: JoinHandle<Vec<Outcome>>,
    incidents: Vec<(u64, Timestamp)>,
    /// Those that are forgotten meanwhile.
    gone: Vec<u64>,
}

/// Keeps what there is to keep.
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
    /// When incidents of the last hour opened whose events are kept.
    recent: VecDeque<Timestamp>,
    failing: bool,
}

impl Keeping {
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
        let recent = all.values().map(|kept| kept.trace.to).collect();
        let mut keeping = Self {
            shelf,
            latest,
            bounds,
            all: Arc::new(Mutex::new(all)),
            without,
            waiting: Vec::new(),
            gone: Vec::new(),
            work: None,
            recent,
            failing: false,
        };
        keeping.shorten();
        keeping
    }

    /// An incident opened.
    pub fn opened(&mut self, report: &Report, opened: Clock) {
        let latest = self.latest.clone().filter(|_| self.bounds.incidents > 0);
        let Some(latest) = latest else { return };
        let is_recent = |at: &Timestamp| opened.now.duration_since(*at).abs() < HOUR;
        self.recent.retain(is_recent);
        let why = if self.recent.len() >= MOST_PER_HOUR {
            format!("those of {MOST_PER_HOUR} other incidents of the last hour are")
        } else if self.waiting.len() >= MOST_WAITING {
            "too many incidents opened at once".to_owned()
        } else {
            self.recent.push_back(opened.now);
            self.waiting.push(Job {
                latest,
                incident: report.id,
                started: report.main.start,
                opened,
                signal: report.main.signal,
                subject: report.main.subject.to_string(),
            });
            return;
        };
        self.say_why(report.id, opened.now, &why);
    }

    fn say_why(&mut self, incident: u64, opened: Timestamp, why: &str) {
        self.without.insert(incident, Arc::new(KeptTrace::without(incident, opened, why)));
        bound(&mut self.without);
    }

    /// Incidents are over, or no more: what is kept of those that are not known goes.
    pub fn forget(&mut self, is_known: impl Fn(u64) -> bool) {
        self.without.retain(|id, _| is_known(*id));
        self.waiting.retain(|job| is_known(job.incident));
        if let Some(work) = &mut self.work {
            let gone = work.incidents.extract_if(.., |(id, _)| !is_known(*id));
            // Its files come after this.
            work.gone.extend(gone.map(|(id, _)| id));
        }
        let mut all = lock(&self.all);
        let gone: Vec<u64> = all.keys().copied().filter(|id| !is_known(*id)).collect();
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

    /// Ends what is under way.
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
                return None;
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
            thread::Builder::new().name("trace".to_owned()).spawn(send).ok()?;
            Some(receiver)
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
fn work(shelf: &Shelf, jobs: Vec<Job>, gone: &[u64]) -> Vec<Outcome> {
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
fn copy(shelf: &Shelf, job: &Job) -> Result<(Seen, u64), String> {
    let about = |seen: &Seen| About {
        incident: job.incident,
        started: job.started,
        opened: job.opened.now,
        signal: job.signal,
        subject: job.subject.clone(),
        who: Who::read(&seen.tids, &seen.irqs),
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
fn describe(shelf: &Shelf, job: &Job, seen: &Seen, bytes: u64) -> Result<Kept, String> {
    let file = || open(shelf.folder(), job.incident);
    let read = || file().map(|file| Box::new(BufReader::new(file)) as Box<dyn Read>);
    let found = find(&read).unwrap_or_else(|error| {
        tracing::warn!(id = job.incident, %error, "no path is found for an incident");
        Found::default()
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
    let kept = Kept { trace: Arc::new(trace), document: document.into() };
    shelf.write_path(&kept).map_err(unwritable)?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use noise_analysis::{Episode, Level, Rule, Time};
    use noise_common::signals::Signal;
    use noise_serve::{Peer, Turns};

    use super::*;
    use crate::kept::file::made;

    fn clock(second: i64) -> Clock {
        Clock { at_ns: 70_000_000, now: Timestamp::from_second(second).unwrap() }
    }

    fn report(id: u64) -> Report {
        let level = Level { p50_ns: None, p99_ns: None, mean_ns: None, rate: 0.0, lost: 0.0 };
        let main = Episode {
            signal: Signal::CgroupRunqueueWait.into(),
            subject: "no such.service".into(),
            start: Timestamp::UNIX_EPOCH,
            end: Timestamp::UNIX_EPOCH,
            seconds: 0.0,
            ending: None,
            rule: Rule::Mean,
            before: level,
            after: level,
            lost_seconds: 1.0,
            culprits: Vec::new(),
            others: Time::default(),
            untracked: Time::default(),
            remedies: Vec::new(),
        };
        Report::new(id, true, main, Vec::new())
    }

    const BOUNDS: Bounds = Bounds { incidents: 3, bytes: 1 << 20 };

    fn keeping(folder: &Path, bounds: Bounds, is_known: impl Fn(u64) -> bool) -> Keeping {
        let folder = Arc::new(Folder::take(folder).unwrap());
        Keeping::start(&folder, Some(Arc::new(|_| made::pieces())), bounds, is_known)
    }

    fn settle(keeping: &mut Keeping) {
        let begin = Instant::now();
        loop {
            keeping.tick();
            if keeping.work.is_none() && keeping.waiting.is_empty() && keeping.gone.is_empty() {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn ids(keeping: &Keeping) -> Vec<u64> {
        let list = keeping.list();
        list.iter().filter(|one| one.is_kept()).map(|one| one.incident).collect()
    }

    fn files(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count() - 1
    }

    #[test]
    fn what_opens_is_kept_and_found_by_the_next_daemon() {
        let root = tempfile::tempdir().unwrap();
        {
            let mut keeping = keeping(root.path(), BOUNDS, |_| true);
            keeping.opened(&report(7), clock(1_000));
            settle(&mut keeping);
            let [trace] = &keeping.list()[..] else { panic!("{:?}", keeping.list()) };
            assert!(trace.is_kept() && (trace.events, trace.missing) == (9, 2), "{trace:?}");
            assert!(trace.waits[0].contains("waited 30.0 ms: waiting_cpu 100 %"), "{trace:?}");
            let document = keeping.paths()(7).unwrap();
            assert!(document.contains("\"span_ns\":30000000"), "{document}");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let (runtime, turns) = (runtime.unwrap(), Turns::new(2));
            let turn = || runtime.block_on(turns.next(Peer::User(None))).unwrap();
            assert!(keeping.paths()(8).is_none() && keeping.traces()(8, turn()).is_none());
            let mut pieces = keeping.traces()(7, turn()).unwrap();
            let mut bytes = Vec::new();
            while let Some(piece) = pieces.blocking_recv() {
                bytes.extend(piece);
            }
            let (_, about) = crate::kept::file::read(bytes.as_slice(), |_, _| {}).unwrap();
            assert_eq!((about.incident, &*about.subject), (7, "no such.service"));
        }
        let again = keeping(root.path(), BOUNDS, |id| id == 7);
        assert_eq!(ids(&again), [7]);
        drop(again);
        // Without a recorder it stays, and nothing comes.
        let mut off = keeping(root.path(), BOUNDS, |_| true);
        off.latest = None;
        off.opened(&report(8), clock(1_000));
        settle(&mut off);
        assert_eq!((ids(&off), off.list().len()), (vec![7], 1));
        drop(off);
        // Without its incident it goes.
        let without = keeping(root.path(), BOUNDS, |_| false);
        assert_eq!((ids(&without), files(root.path())), (Vec::new(), 0));
    }

    #[test]
    fn the_oldest_go_and_those_of_incidents_that_are_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let mut keeping = keeping(root.path(), BOUNDS, |_| true);
        for id in 1..=5 {
            keeping.opened(&report(id), clock(1_000 + 3_600 * id as i64));
            settle(&mut keeping);
        }
        assert_eq!((ids(&keeping), files(root.path())), (vec![3, 4, 5], 6));
        keeping.forget(|id| id != 4);
        settle(&mut keeping);
        assert_eq!((ids(&keeping), files(root.path())), (vec![3, 5], 4));
        let none = Bounds { incidents: 0, ..BOUNDS };
        keeping.bounds = none;
        keeping.opened(&report(9), clock(100_000));
        assert!(keeping.waiting.is_empty());
        // The files of one are longer than that.
        keeping.bounds = Bounds { incidents: 2, bytes: 200 };
        keeping.shorten();
        settle(&mut keeping);
        assert_eq!((ids(&keeping), files(root.path())), (Vec::new(), 0));
    }

    #[test]
    fn what_is_forgotten_before_it_is_kept_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut keeping = keeping(root.path(), BOUNDS, |_| true);
        // One is forgotten before the thread has it, one meanwhile.
        keeping.opened(&report(1), clock(1_000));
        keeping.forget(|_| false);
        assert!(keeping.waiting.is_empty());
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        keeping.latest = Some(Arc::new(move |_| {
            gone.lock().unwrap().recv().unwrap();
            made::pieces()
        }));
        keeping.opened(&report(2), clock(1_000));
        keeping.opened(&report(3), clock(1_000));
        keeping.tick();
        keeping.forget(|id| id == 3);
        (0..2).for_each(|_| go.send(()).unwrap());
        settle(&mut keeping);
        assert_eq!((ids(&keeping), files(root.path())), (vec![3], 2));
    }

    #[test]
    fn what_an_earlier_daemon_left_damaged_is_said_at_the_incident() {
        let root = tempfile::tempdir().unwrap();
        {
            let mut keeping = keeping(root.path(), BOUNDS, |_| true);
            keeping.opened(&report(7), clock(1_000));
            settle(&mut keeping);
        }
        std::fs::write(root.path().join("incident-7.path"), "garbage").unwrap();
        let keeping = keeping(root.path(), BOUNDS, |id| id == 7);
        assert_eq!((ids(&keeping), files(root.path())), (Vec::new(), 0));
        let said = keeping.list()[0].sentence();
        assert!(said.contains("their file is damaged: it ends early"), "{said}");
    }

    #[test]
    fn a_storm_is_bounded_and_says_so_at_the_incident() {
        let root = tempfile::tempdir().unwrap();
        let bounds = Bounds { incidents: 100, ..BOUNDS };
        let mut keeping = keeping(root.path(), bounds, |_| true);
        for id in 1..=10 {
            keeping.opened(&report(id), clock(1_000));
        }
        settle(&mut keeping);
        assert_eq!(ids(&keeping), [1, 2, 3, 4]);
        for id in 11..=20 {
            keeping.opened(&report(id), clock(1_100 + id as i64));
            settle(&mut keeping);
        }
        assert_eq!(ids(&keeping), [1, 2, 3, 4, 11, 12]);
        let why = |id: u64| {
            let list = keeping.list();
            list.iter().find(|one| one.incident == id).unwrap().sentence()
        };
        assert!(why(5).contains("too many incidents opened at once"), "{}", why(5));
        assert!(why(13).contains("6 other incidents of the last hour"), "{}", why(13));
        for id in 21..=200 {
            keeping.opened(&report(id), clock(1_200));
        }
        assert_eq!(keeping.without.len(), MOST_WITHOUT);
        keeping.opened(&report(201), clock(1_200 + 3_600));
        settle(&mut keeping);
        assert!(ids(&keeping).contains(&201));
    }

    #[test]
    fn what_cannot_be_kept_is_said_at_the_incident() {
        let root = tempfile::tempdir().unwrap();
        let mut keeping = keeping(root.path(), BOUNDS, |_| true);
        std::fs::create_dir(root.path().join("incident-7.trace.new")).unwrap();
        keeping.opened(&report(7), clock(1_000));
        settle(&mut keeping);
        assert_eq!(ids(&keeping), [] as [u64; 0]);
        let said = keeping.list()[0].sentence();
        assert!(
            keeping.failing && said.contains("the state directory cannot be written"),
            "{said}"
        );
        keeping.latest = Some(Arc::new(|_| Box::new(made::pieces().take(1))));
        keeping.opened(&report(8), clock(1_000));
        settle(&mut keeping);
        assert_eq!((ids(&keeping).len(), files(root.path())), (0, 1));
        keeping.latest = Some(Arc::new(|_| made::pieces()));
        keeping.opened(&report(9), clock(1_000));
        settle(&mut keeping);
        assert_eq!((ids(&keeping), keeping.failing), (vec![9], false));
    }
}
