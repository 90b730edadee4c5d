//! The daemon's side of incidents: samples in, log lines and state file out.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;

use crate::analysis::{Board, Clock, Event, Overview, Settings};
use crate::export::log_event;
use crate::kernel::monotonic_ns;
use crate::model::Sample;
use crate::state::{Document, Keeper};

/// Looks for incidents, and keeps them.
pub struct Watching {
    board: Board,
    keeper: Option<Keeper>,
}

/// The wall clock is read here alone.
fn clock() -> Clock {
    Clock { at_ns: monotonic_ns(), now: Timestamp::now() }
}

impl Watching {
    /// Begins with what an earlier daemon left in the directory; an empty path keeps nothing.
    ///
    /// # Errors
    /// Where the settings cannot work.
    pub fn start(settings: Settings, directory: &Path) -> anyhow::Result<Self> {
        let mut board = Board::new(settings).context("incidents")?;
        if directory.as_os_str().is_empty() {
            return Ok(Self { board, keeper: None });
        }
        let (keeper, Document { incidents, outliers, .. }) = Keeper::open(directory);
        let incidents = incidents.into_iter().map(Arc::unwrap_or_clone).collect();
        let outliers = outliers.into_iter().map(Arc::unwrap_or_clone).collect();
        board.restore(incidents, outliers);
        Ok(Self { board, keeper })
    }

    /// Takes the next of the samples that are a window apart.
    pub fn take(&mut self, sample: &Arc<Sample>) {
        let clock = clock();
        let events = self.board.analyse(sample, clock);
        events.iter().for_each(log_event);
        // What joins changes what is open, which a crash may lose.
        let lasting = |event: &Event| !matches!(event, Event::Joined(_));
        let changed = events.iter().any(lasting);
        let waited = self.board.keep_outliers(sample, clock);
        let Some(keeper) = &mut self.keeper else { return };
        if changed || waited {
            keeper.changed(changed);
        }
        let board = &mut self.board;
        keeper.tick(|| document(board.overview(clock)));
    }

    /// Takes a sample that somebody asked for, and answers what there is to see.
    pub fn look(&mut self, sample: &Sample) -> Overview {
        let clock = clock();
        let waited = self.board.keep_outliers(sample, clock);
        if waited && let Some(keeper) = &mut self.keeper {
            keeper.changed(false);
        }
        self.board.overview(clock)
    }

    /// Keeps what there is.
    pub async fn stop(mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.finish(document(self.board.overview(clock()))).await;
        }
    }
}

fn document(overview: Overview) -> Document {
    Document::new(overview.incidents, overview.outliers)
}
