//! Marks of programs in a recording whose events are from programs of its own: they come to a socket in its folder.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use noise_command::output;
use noise_serve::SocketOptions;
use noise_system::output::OwnFolder;
use noise_trace::capture::Capture;

use crate::marks::{DatagramCounts, Marks, marked};

/// The name of the socket.
const NAME: &str = "noised.marks";
/// It is its owner's, as the recording.
const MODE: u32 = 0o600;

/// A socket, and how far its marks were taken over.
pub struct Socket {
    marks: Marks,
    next: u64,
    path: PathBuf,
    // Behind the marks, whose file is removed by its descriptor.
    _folder: OwnFolder,
}

impl Socket {
    /// Makes it in the folder of a recording. Where that cannot be, it is said, and there are no marks.
    pub fn make(folder: &OwnFolder) -> Option<Self> {
        let path = folder.path().join(NAME);
        let path = std::path::absolute(&path).unwrap_or(path);
        let make = || -> io::Result<Self> {
            // Programs come by this name.
            SocketAddr::from_pathname(&path)?;
            let folder = folder.try_clone()?;
            let options = SocketOptions {
                path: folder.by_descriptor().join(NAME),
                mode: MODE,
                group: String::new(),
            };
            let marks = Marks::bind(&options)?;
            Ok(Self { marks, next: 0, path: path.clone(), _folder: folder })
        };
        let made = make().inspect_err(|error| {
            let path = path.display();
            output::complain(&format!(
                "warning: this recording takes no marks of programs: cannot make the socket {path}: {error}"
            ));
        });
        made.ok()
    }

    pub fn path(&self) -> &Path {
        &self.path
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
        let Self { marks, next, .. } = self;
        marks.wait(length, |marks| hand_on(marks, next, capture));
        // It ends earlier with a signal.
        thread::sleep(length.saturating_sub(begin.elapsed()));
    }

    /// What to say of datagrams that became nothing.
    pub fn left_out(&self) -> Option<String> {
        self.marks.counts().left_out(DatagramCounts::default())
    }
}

fn hand_on(marks: &Marks, next: &mut u64, capture: &mut Capture) {
    for mark in marks.from(*next) {
        *next = mark.number + 1;
        capture.mark(marked(mark));
    }
}
