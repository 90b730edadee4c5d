//! Threads that are made once, at the start: for work that blocks or takes long. One that is made when
//! there is work cannot be made at that moment on a host that has run out of threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;

/// What to do where there can be no further thread.
pub const REMEDY: &str = "raise the limit (pids.max of its cgroup, ulimit -u, or TasksMax= and \
                      LimitNPROC= of the unit)";

/// A thread that does one piece of work after the other; one more may wait.
#[derive(Debug)]
pub struct Worker<T> {
    work: SyncSender<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts it. Work that panics is over; the next one is done.
    /// Errors: where there can be no further thread.
    pub fn start(name: &str, mut each: impl FnMut(T) + Send + 'static) -> anyhow::Result<Self> {
        let (work, receiver) = sync_channel(1);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            for work in receiver {
                // The panic was printed; what the work left behind is dropped with it.
                let _ = catch_unwind(AssertUnwindSafe(|| each(work)));
            }
        });
        let thread = thread.with_context(|| format!("cannot start the thread {name}: {REMEDY}"))?;
        Ok(Self { work, thread })
    }

    /// Hands work over; gives it back where as much as there is room for waits already.
    /// Errors: the work that was not taken.
    pub fn give(&self, work: T) -> Result<(), T> {
        self.work.try_send(work).map_err(|error| match error {
            TrySendError::Full(work) | TrySendError::Disconnected(work) => work,
        })
    }

    /// Waits until all is done, and ends the thread.
    pub fn finish(self) {
        let Self { work, thread } = self;
        drop(work);
        // What panicked has said so.
        let _ = thread.join();
    }
}

/// Requires that this process can have so many more threads at once.
/// Errors: one sentence where it cannot.
pub fn ensure_threads(count: usize) -> anyhow::Result<()> {
    let make = |_| -> io::Result<(SyncSender<()>, JoinHandle<()>)> {
        let (end, ended) = sync_channel::<()>(0);
        let thread = thread::Builder::new().spawn(move || {
            // Ends when the sender is dropped.
            let _ = ended.recv();
        })?;
        Ok((end, thread))
    };
    let mut made = Vec::new();
    let mut failed = None;
    for thread in (0..count).map(make) {
        match thread {
            Ok(thread) => made.push(thread),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let had = made.len();
    for (end, thread) in made {
        drop(end);
        let _ = thread.join();
    }
    failed.map_or(Ok(()), |error| {
        Err(anyhow::anyhow!(
            "measuring needs {count} more threads, and this process may have {had} ({error}): {REMEDY}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_is_done_in_turn_and_bounded() {
        let (begun, begins) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let worker = Worker::start("test", move |number: u32| {
            begun.send(number).unwrap();
            let _ = gone.recv();
        });
        let worker = worker.unwrap();
        worker.give(1).unwrap();
        assert_eq!(begins.recv(), Ok(1));
        worker.give(2).unwrap();
        assert_eq!(worker.give(3), Err(3));
        drop(go);
        worker.finish();
        assert_eq!(begins.try_iter().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn work_that_panics_does_not_end_the_thread() {
        let (sender, done) = mpsc::channel();
        let worker = Worker::start("test", move |number: u32| {
            assert_ne!(number, 1, "planted");
            sender.send(number).unwrap();
        });
        let worker = worker.unwrap();
        for number in 1..3 {
            while worker.give(number).is_err() {
                thread::yield_now();
            }
        }
        assert_eq!(done.recv(), Ok(2));
        worker.finish();
    }

    #[test]
    fn threads_that_can_be_had_are_no_obstacle() {
        ensure_threads(3).unwrap();
    }
}
