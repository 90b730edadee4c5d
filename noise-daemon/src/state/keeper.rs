//! Writes the state when it has changed: away from the thread that samples, because a disk that
//! stalls is one of the things being measured.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::document::Document;
use super::folder::Folder;

/// Long waits may come many a second; losing the last of them to a crash is no harm.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps the state of a running daemon.
#[derive(Debug)]
pub struct Keeper {
    folder: Arc<Folder>,
    writing: Option<JoinHandle<()>>,
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
        let failing = Arc::new(AtomicBool::new(false));
        (Some(Self { folder: Arc::new(folder), writing: None, due: None, failing }), document)
    }

    /// Says that the state changed: at once, or soon.
    pub fn changed(&mut self, at_once: bool) {
        let now = Instant::now();
        let due = if at_once { now } else { now + PATIENCE };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// Begins to write if something is due and nothing is being written.
    pub fn tick(&mut self, document: impl FnOnce() -> Document) {
        let busy = self.writing.as_ref().is_some_and(|writing| !writing.is_finished());
        if busy || self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.due = None;
        let (folder, failing, document) =
            (Arc::clone(&self.folder), Arc::clone(&self.failing), document());
        self.writing =
            Some(tokio::task::spawn_blocking(move || write(&folder, &document, &failing)));
    }

    /// Writes for the last time.
    pub async fn finish(mut self, document: Document) {
        if let Some(writing) = self.writing.take() {
            // One that failed has said so.
            let _ = writing.await;
        }
        write(&self.folder, &document, &self.failing);
    }
}

/// Writes, and tells the first failure of several.
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
