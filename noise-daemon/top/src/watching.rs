//! IO: a thread that watches services as long as someone looks at them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use super::services::{Services, Watched};

/// Watches services until the flag is set, and says again and again what was seen. It ends with the reason where it cannot.
pub type Watch =
    Arc<dyn Fn(&AtomicBool, &mut dyn FnMut(Watched)) -> Result<(), String> + Send + Sync>;

/// What to say where services cannot be watched from here.
pub const ELSEWHERE: &str = "Services are watched on their host itself: `sudo noised top` there.";

/// A thread that watches services; it ends with this.
pub struct Watching {
    is_over: Arc<AtomicBool>,
    seen: mpsc::Receiver<Services>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watching {
    /// Errors: where there is no thread for it.
    pub fn start(watch: Watch) -> std::io::Result<Self> {
        let (sender, seen) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&is_over);
        let watching = move || {
            // Where the screen is left, no one reads it.
            let mut tell = |watched| drop(sender.send(Services::Watched(watched)));
            if let Err(why) = watch(&stops, &mut tell) {
                let _ = sender.send(Services::Impossible(why));
            }
        };
        let thread = thread::Builder::new().name("services".to_owned()).spawn(watching)?;
        Ok(Self { is_over, seen, thread: Some(thread) })
    }

    /// What was seen since this was asked before.
    pub fn latest(&self) -> Option<Services> {
        self.seen.try_iter().last()
    }
}

impl Drop for Watching {
    /// Waits until all is detached, which takes some hundredths of a second.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it panicked with was said.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_watched_until_it_is_dropped() {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&has_ended);
        let watch: Watch = Arc::new(move |is_over, tell| {
            tell(Watched { seconds: 2.0, ..Watched::default() });
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            ends.store(true, Ordering::Relaxed);
            Ok(())
        });
        let watching = Watching::start(watch).unwrap();
        let seen = loop {
            if let Some(seen) = watching.latest() {
                break seen;
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert!(matches!(seen, Services::Watched(watched) if watched.seconds == 2.0));
        assert!(!has_ended.load(Ordering::Relaxed));
        drop(watching);
        assert!(has_ended.load(Ordering::Relaxed));
    }

    #[test]
    fn why_it_cannot_is_said() {
        let watching = Watching::start(Arc::new(|_, _| Err("needs root".to_owned()))).unwrap();
        let seen = loop {
            if let Some(seen) = watching.latest() {
                break seen;
            }
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(seen, Services::Impossible("needs root".to_owned()));
    }
}
