//! Writes the state when it has changed: away from the thread that samples, because a disk that
//! stalls is one of the things being measured. The thread that writes ends with its work: the
//! allocator of musl takes locks for as long as a process has a second thread, 6 % of each scrape.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::document::Document;
use super::folder::{Folder, StatePlace};

/// Long waits may come many a second. Losing the last of them to a crash is no harm, and writing
/// more often would be noise of our own.
const WRITE_DELAY: Duration = Duration::from_secs(300);

/// A document on its way to the disk.
struct Writing {
    folder: Arc<Folder>,
    /// Whether the last attempt failed.
    failing: Arc<AtomicBool>,
    document: Document,
}

impl Writing {
    /// Writes, and logs the first failure of several.
    fn write(&self) {
        let result = self.folder.write(&self.document);
        let failed_before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Err(error) if !failed_before => {
                tracing::warn!(%error, "cannot write the state file; the next change tries again");
            }
            Ok(()) if failed_before => tracing::info!("the state file is written again"),
            _ => {}
        }
    }
}

/// Keeps the state of a running daemon.
#[derive(Debug)]
pub struct Keeper {
    folder: Arc<Folder>,
    /// The thread that writes, or has written.
    writer: Option<JoinHandle<()>>,
    /// When what changed is to be written.
    due: Option<Instant>,
    failing: Arc<AtomicBool>,
}

/// Says that nothing is kept, and why.
fn warn_of(path: &Path, error: &io::Error) {
    tracing::warn!(
        directory = %path.display(), %error,
        "incidents will not survive a restart: the state directory cannot be used; choose another with \
         --state.directory"
    );
}

impl Keeper {
    /// Holds the folder for it. Where that is not possible there is a warning.
    pub fn hold(path: &Path) -> Option<StatePlace> {
        StatePlace::hold(path).inspect_err(|error| warn_of(path, error)).ok()
    }

    /// Takes the folder, and what an earlier daemon left there. Where that is not possible there
    /// is a warning, and no keeper.
    pub fn open(place: StatePlace) -> (Option<Self>, Document) {
        let path = place.shown().to_owned();
        let Ok(folder) = Folder::at(place).inspect_err(|error| warn_of(&path, error)) else {
            return (None, Document::default());
        };
        let (document, warning) = match folder.restore() {
            Ok(restored) => restored,
            Err(sentence) => {
                tracing::warn!("incidents will not survive a restart: {sentence}");
                return (None, Document::default());
            }
        };
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let keeper =
            Self { folder: Arc::new(folder), writer: None, due: None, failing: Arc::default() };
        (Some(keeper), document)
    }

    pub fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Says that the state changed: at once, or soon.
    pub fn changed(&mut self, at_once: bool) {
        let now = Instant::now();
        let due = if at_once { now } else { now + WRITE_DELAY };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Begins to write if something is due and nothing is being written. Where the host has run out of
    /// threads, it writes before it returns.
    pub fn tick(&mut self, document: impl FnOnce() -> Document) {
        let busy = self.writer.as_ref().is_some_and(|writer| !writer.is_finished());
        if busy || self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.due = None;
        let writing = Arc::new(Writing {
            folder: Arc::clone(&self.folder),
            failing: Arc::clone(&self.failing),
            document: document(),
        });
        let work = Arc::clone(&writing);
        match thread::Builder::new().name("state".to_owned()).spawn(move || work.write()) {
            Ok(writer) => self.writer = Some(writer),
            Err(_) => writing.write(),
        }
    }

    /// Writes for the last time.
    pub fn finish(mut self, document: Document) {
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was printed.
            let _ = writer.join();
        }
        Writing { folder: self.folder, failing: self.failing, document }.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::names;
    use crate::state::read;

    fn wait_until(is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_idle(keeper: &Keeper) -> bool {
        keeper.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    #[test]
    fn what_changed_is_written_by_a_thread_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let (keeper, _) = Keeper::open(StatePlace::hold(root.path()).unwrap());
        let mut keeper = keeper.unwrap();
        keeper.tick(|| unreachable!("nothing changed"));
        for _ in 0..3 {
            keeper.changed(true);
            keeper.tick(Document::default);
            wait_until(|| is_idle(&keeper));
            assert_eq!(read(root.path()).unwrap(), Some(Document::default()));
            std::fs::remove_file(root.path().join("incidents.json")).unwrap();
        }
        keeper.tick(|| unreachable!("nothing changed"));
        keeper.finish(Document::default());
        assert_eq!(read(root.path()).unwrap(), Some(Document::default()));
    }

    #[test]
    fn what_takes_the_name_of_a_held_folder_is_not_the_state() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let place = Keeper::hold(&path("state")).unwrap();
        std::fs::create_dir(path("elsewhere")).unwrap();
        std::fs::rename(path("state"), path("moved")).unwrap();
        std::os::unix::fs::symlink(path("elsewhere"), path("state")).unwrap();
        let (keeper, _) = Keeper::open(place.clone());
        let keeper = keeper.unwrap();
        assert_eq!(keeper.folder().path(), place.path());
        keeper.finish(Document::default());
        assert_eq!(names(&path("elsewhere")), [""; 0]);
        assert_eq!(read(&path("moved")).unwrap(), Some(Document::default()));
    }

    #[test]
    fn one_write_at_a_time_and_a_panic_of_the_writer_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        let (keeper, _) = Keeper::open(StatePlace::hold(root.path()).unwrap());
        let mut keeper = keeper.unwrap();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        keeper.writer = Some(thread::spawn(move || ended.recv().unwrap()));
        keeper.changed(true);
        keeper.tick(|| unreachable!("it is busy"));
        drop(end);
        wait_until(|| is_idle(&keeper));
        keeper.tick(Document::default);
        wait_until(|| is_idle(&keeper));
        assert_eq!(read(root.path()).unwrap(), Some(Document::default()));
    }
}
