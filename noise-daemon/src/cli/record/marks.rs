//! Marks of programs in a recording whose events are from programs of its own: they come to a socket in its folder.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use noise_serve::SocketOptions;
use noise_trace::capture::Capture;

use crate::cli::output;
use crate::marks::{Counts, Marks, marked};

/// The name of the socket.
const NAME: &str = "noised.marks";
/// It is its owner's, as the recording.
const MODE: u32 = 0o600;

/// A socket, and how far its marks were taken over.
pub struct Socket {
    marks: Marks,
    next: u64,
}

impl Socket {
    /// Makes it in the folder of a recording. Where that cannot be, it is said, and there are no marks.
    pub fn make(folder: &Path) -> Option<Self> {
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join(NAME);
        let options = SocketOptions { path, mode: MODE, group: String::new() };
        let made = Marks::bind(&options).inspect_err(|error| {
            let path = options.path.display();
            output::complain(&format!(
                "warning: this recording takes no marks of programs: cannot make the socket {path}: {error}"
            ));
        });
        Some(Self { marks: made.ok()?, next: 0 })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.marks.path()
    }

    /// Takes over what came since.
    pub fn drain(&mut self, capture: &mut Capture) {
        // A flood is left for the next turn.
        self.marks.drain();
        hand_on(&self.marks, &mut self.next, capture);
    }

    /// Waits so long, and takes over what comes meanwhile: few datagrams fit into a socket, and a program whose
    /// socket is full waits, or loses what it sends.
    pub fn wait(&mut self, length: Duration, capture: &mut Capture) {
        let begin = Instant::now();
        let Self { marks, next } = self;
        marks.wait(length, |marks| hand_on(marks, next, capture));
        // It ends earlier with a signal.
        thread::sleep(length.saturating_sub(begin.elapsed()));
    }

    /// What to say of datagrams that became nothing.
    pub fn left_out(&self) -> Option<String> {
        self.marks.counts().left_out(Counts::default())
    }
}

fn hand_on(marks: &Marks, next: &mut u64, capture: &mut Capture) {
    for mark in marks.from(*next) {
        *next = mark.number + 1;
        capture.mark(marked(mark));
    }
}
