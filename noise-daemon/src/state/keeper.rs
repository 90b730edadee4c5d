//! Writes the state when it has changed: away from the thread that samples, because a disk that
//! stalls is one of the things being measured.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::document::Document;
use super::folder::Folder;
use crate::worker::Worker;

/// Long waits may come many a second. Losing the last of them to a crash is no harm, and writing
/// more often would be noise of our own.
const WRITE_DELAY: Duration = Duration::from_secs(300);

/// What is to be written, and the mark that it is: gone when it was written, or could not be.
#[derive(Debug)]
struct Writing {
    document: Document,
    busy: Arc<AtomicBool>,
}

impl Writing {
    fn new(document: Document, busy: &Arc<AtomicBool>) -> Self {
        busy.store(true, Ordering::Release);
        Self { document, busy: Arc::clone(busy) }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Release);
    }
}

/// Keeps the state of a running daemon.
#[derive(Debug)]
pub struct Keeper {
    folder: Arc<Folder>,
    /// Writes; not there before [`Keeper::begin`].
    writer: Option<Worker<Writing>>,
    /// Something is handed to the writer that it has not done with.
    busy: Arc<AtomicBool>,
    /// When what changed is to be written.
    due: Option<Instant>,
    failing: Arc<AtomicBool>,
}

impl Keeper {
    /// Takes the folder, and what an earlier daemon left there. Where that is not possible there
    /// is a warning, and no keeper.
    pub fn open(path: &Path) -> (Option<Self>, Document) {
        let folder = match Folder::take(path) {
            Ok(folder) => folder,
            Err(error) => {
                tracing::warn!(
                    directory = %path.display(), %error,
                    "incidents will not survive a restart: the state directory cannot be used; \
                     choose another with --state.directory"
                );
                return (None, Document::default());
            }
        };
        let (document, warning) = folder.restore();
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let (busy, failing) = (Arc::default(), Arc::default());
        let keeper = Self { folder: Arc::new(folder), writer: None, busy, due: None, failing };
        (Some(keeper), document)
    }

    /// Starts the thread that writes: it has the privileges of the caller.
    ///
    /// # Errors
    /// Where there can be no further thread.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        let (folder, failing) = (Arc::clone(&self.folder), Arc::clone(&self.failing));
        let each = move |writing: Writing| write(&folder, &writing.document, &failing);
        self.writer = Some(Worker::start("state", each)?);
        Ok(())
    }

    /// Says that the state changed: at once, or soon.
    pub fn changed(&mut self, at_once: bool) {
        let now = Instant::now();
        let due = if at_once { now } else { now + WRITE_DELAY };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Begins to write if something is due and nothing is being written.
    pub fn tick(&mut self, document: impl FnOnce() -> Document) {
        let Some(writer) = &self.writer else { return };
        let busy = self.busy.load(Ordering::Acquire);
        if busy || self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        if writer.give(Writing::new(document(), &self.busy)).is_ok() {
            self.due = None;
        }
    }

    /// Writes for the last time.
    pub fn finish(mut self, document: Document) {
        if let Some(writer) = self.writer.take() {
            writer.finish();
        }
        write(&self.folder, &document, &self.failing);
    }
}

/// Writes, and logs the first failure of several.
fn write(folder: &Folder, document: &Document, failing: &AtomicBool) {
    let result = folder.write(document);
    let failed_before = failing.swap(result.is_err(), Ordering::Relaxed);
    match result {
        Err(error) if !failed_before => {
            tracing::warn!(%error, "cannot write the state file; the next change tries again");
        }
        Ok(()) if failed_before => tracing::info!("the state file is written again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::read;

    fn wait_until(is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_changed_is_written_by_the_thread_that_was_made_once() {
        let root = tempfile::tempdir().unwrap();
        let (keeper, _) = Keeper::open(root.path());
        let mut keeper = keeper.unwrap();
        keeper.changed(true);
        // There is no writer yet: it stays due.
        keeper.tick(|| unreachable!("no writer"));
        keeper.begin().unwrap();
        for _ in 0..3 {
            keeper.changed(true);
            keeper.tick(Document::default);
            wait_until(|| !keeper.busy.load(Ordering::Acquire));
            assert_eq!(read(root.path()).unwrap(), Some(Document::default()));
            std::fs::remove_file(root.path().join("incidents.json")).unwrap();
        }
        keeper.tick(|| unreachable!("nothing changed"));
        keeper.finish(Document::default());
        assert_eq!(read(root.path()).unwrap(), Some(Document::default()));
    }

    #[test]
    fn what_the_writer_is_busy_with_is_not_written_twice_and_the_mark_goes() {
        let root = tempfile::tempdir().unwrap();
        let (keeper, _) = Keeper::open(root.path());
        let mut keeper = keeper.unwrap();
        keeper.begin().unwrap();
        let handed = Writing::new(Document::default(), &keeper.busy);
        keeper.changed(true);
        keeper.tick(|| unreachable!("it is busy"));
        // However it ends.
        drop(handed);
        keeper.tick(Document::default);
        wait_until(|| !keeper.busy.load(Ordering::Acquire));
        assert_eq!(read(root.path()).unwrap(), Some(Document::default()));
    }
}
