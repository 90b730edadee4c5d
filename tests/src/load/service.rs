//! A service that answers requests by TCP, and its client.
//!
//! What a service does for a request is a list of steps, and a step may depend on a file: so it changes while the service
//! runs, as by a release or a bad setting. Its client logs how long each answer took: what it felt is the measure of
//! whether the service was disturbed.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};

use super::disk::{BLOCK_BYTES, Scatter};
use super::{Arguments, Session, report};
use crate::task::{monotonic_ns, set_name, thread_cpu_ns};

/// Length of a request, and of an answer, bytes.
pub const MESSAGE: usize = 64;
/// How long a name server is waited for.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a client waits for an answer before it gives up: behind a storm of processes, one came after more than 20 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a load looks whether it is still wanted.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Something that a service does for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// Takes so much CPU time.
    Compute(Duration),
    /// Sleeps.
    Nap(Duration),
    /// Does something that one thread of the service does at a time.
    Alone(Box<Work>),
    /// Asks another service.
    Ask(SocketAddr),
    /// The same in two small packets, of which the second waits for the first one's acknowledgement.
    AskInParts(SocketAddr),
    /// Asks a name server, and goes on without an answer after a second.
    Resolve(SocketAddr),
    /// Writes a block of a file and has it written to the disk.
    Sync(PathBuf),
    /// Writes so many KiB of a file to the page cache.
    Write(PathBuf, usize),
    /// Reads so many scattered blocks of a file through the page cache.
    Read(PathBuf, u64),
    /// Changes so many scattered pages of its own memory, of so many MiB.
    Touch(usize, u64),
}

/// Work, and when it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// A file, and whether it has to be there.
    condition: Option<(PathBuf, bool)>,
    work: Work,
}

impl Work {
    fn parse(text: &str) -> Result<Self> {
        let (kind, value) = text.split_once('=').with_context(|| format!("{text:?} is no work"))?;
        let number = |text: &str| text.parse().with_context(|| format!("{text:?} is no number"));
        let time = || Ok::<_, anyhow::Error>(Duration::from_micros(number(value)?));
        let pair = || value.split_once(',').with_context(|| format!("{text:?} lacks a number"));
        Ok(match kind {
            "compute" => Self::Compute(time()?),
            "nap" => Self::Nap(time()?),
            "alone" => Self::Alone(Box::new(Self::parse(value)?)),
            "ask" => Self::Ask(value.parse()?),
            "ask-in-parts" => Self::AskInParts(value.parse()?),
            "resolve" => Self::Resolve(value.parse()?),
            "sync" => Self::Sync(value.into()),
            "write" => Self::Write(pair()?.0.into(), usize::try_from(number(pair()?.1)?)?),
            "read" => Self::Read(pair()?.0.into(), number(pair()?.1)?),
            "touch" => Self::Touch(usize::try_from(number(pair()?.0)?)?, number(pair()?.1)?),
            _ => bail!("a service has no work {kind:?}"),
        })
    }
}

impl Step {
    /// `WORK`, `if:FILE:WORK` or `unless:FILE:WORK`.
    fn parse(text: &str) -> Result<Self> {
        let conditional = |rest: &str, is_there| {
            let (file, work) = rest.split_once(':').context("a condition without work")?;
            Ok(Self { condition: Some((file.into(), is_there)), work: Work::parse(work)? })
        };
        match (text.strip_prefix("if:"), text.strip_prefix("unless:")) {
            (Some(rest), _) => conditional(rest, true),
            (_, Some(rest)) => conditional(rest, false),
            _ => Ok(Self { condition: None, work: Work::parse(text)? }),
        }
    }

    fn applies(&self) -> bool {
        self.condition.as_ref().is_none_or(|(file, is_there)| file.exists() == *is_there)
    }
}

/// What all threads of a service share.
#[derive(Default)]
struct Shared {
    /// Held by who works alone.
    turn: Mutex<()>,
    /// Its own memory.
    memory: Mutex<Vec<u8>>,
}

/// What a thread of a service has for itself.
struct Server {
    shared: Arc<Shared>,
    scatter: Scatter,
    streams: Vec<(SocketAddr, TcpStream)>,
    files: Vec<(PathBuf, File)>,
}

/// Takes so much CPU time, however long that lasts.
pub(super) fn compute(length: Duration) -> Result<()> {
    let end_ns = thread_cpu_ns()? + u64::try_from(length.as_nanos())?;
    while thread_cpu_ns()? < end_ns {
        (0..500).for_each(|_| std::hint::spin_loop());
    }
    Ok(())
}

impl Server {
    fn stream(&mut self, address: SocketAddr, at_once: bool) -> Result<&mut TcpStream> {
        let place = match self.streams.iter().position(|(known, _)| *known == address) {
            Some(place) => place,
            None => {
                self.streams.push((address, TcpStream::connect(address)?));
                self.streams.len() - 1
            }
        };
        let (_, stream) = self.streams.get_mut(place).context("no stream")?;
        stream.set_nodelay(at_once)?;
        Ok(stream)
    }

    fn file(&mut self, path: &PathBuf) -> Result<(&File, &mut Scatter)> {
        let place = match self.files.iter().position(|(known, _)| known == path) {
            Some(place) => place,
            None => {
                let file = OpenOptions::new().read(true).write(true).open(path);
                let file = file.with_context(|| format!("opening {}", path.display()))?;
                self.files.push((path.clone(), file));
                self.files.len() - 1
            }
        };
        let (_, file) = self.files.get(place).context("no file")?;
        Ok((file, &mut self.scatter))
    }

    fn ask(&mut self, address: SocketAddr, parts: usize) -> Result<()> {
        let stream = self.stream(address, parts == 1)?;
        for part in [0; MESSAGE].chunks(MESSAGE / parts) {
            stream.write_all(part)?;
        }
        Ok(stream.read_exact(&mut [0; MESSAGE])?)
    }

    fn work(&mut self, work: &Work) -> Result<()> {
        let block = [0x5a; BLOCK_BYTES as usize];
        match work {
            Work::Compute(length) => compute(*length)?,
            Work::Nap(length) => thread::sleep(*length),
            Work::Alone(work) => {
                let shared = Arc::clone(&self.shared);
                let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
                self.work(work)?;
            }
            Work::Ask(address) => self.ask(*address, 1)?,
            Work::AskInParts(address) => self.ask(*address, 2)?,
            Work::Resolve(address) => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                socket.set_read_timeout(Some(RESOLVE_TIMEOUT))?;
                socket.connect(address)?;
                socket.send(&[0; MESSAGE])?;
                // Without an answer it goes on.
                let _ = socket.recv(&mut [0; MESSAGE]);
            }
            Work::Sync(path) => {
                let (file, scatter) = self.file(path)?;
                let places = file.metadata()?.len() / BLOCK_BYTES;
                file.write_all_at(&block, scatter.below(places) * BLOCK_BYTES)?;
                file.sync_data()?;
            }
            Work::Write(path, kibibytes) => {
                let (file, scatter) = self.file(path)?;
                let data = vec![0x5a; kibibytes << 10];
                let places = file.metadata()?.len() / data.len() as u64;
                file.write_all_at(&data, scatter.below(places) * data.len() as u64)?;
            }
            Work::Read(path, blocks) => {
                let (file, scatter) = self.file(path)?;
                let places = file.metadata()?.len() / BLOCK_BYTES;
                let mut block = block;
                for _ in 0..*blocks {
                    file.read_exact_at(&mut block, scatter.below(places) * BLOCK_BYTES)?;
                }
            }
            Work::Touch(mebibytes, pages) => {
                let mut memory = self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
                if memory.len() != mebibytes << 20 {
                    *memory = vec![1; mebibytes << 20];
                }
                let length = memory.len() as u64;
                for _ in 0..*pages {
                    let place = usize::try_from(self.scatter.below(length))?;
                    if let Some(byte) = memory.get_mut(place) {
                        *byte = byte.wrapping_add(1);
                    }
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, mut client: TcpStream, steps: &[Step]) -> Result<()> {
        client.set_nodelay(true)?;
        let mut message = [0; MESSAGE];
        while client.read_exact(&mut message).is_ok() {
            for step in steps.iter().filter(|step| step.applies()) {
                self.work(&step.work)?;
            }
            client.write_all(&message)?;
        }
        Ok(())
    }
}

/// `service <name> <address> <step>...`: answers requests, each connection by a thread of its own.
pub(super) fn service(arguments: &mut Arguments) -> Result<()> {
    set_name(&arguments.text()?)?;
    let listener = TcpListener::bind(arguments.number::<SocketAddr>()?).context("binding")?;
    let mut steps = Vec::new();
    while let Ok(step) = arguments.text() {
        steps.push(Step::parse(&step)?);
    }
    let (steps, shared): (Arc<[Step]>, _) = (steps.into(), Arc::new(Shared::default()));
    thread::spawn(move || {
        for (number, client) in (1..).zip(listener.incoming()) {
            let Ok(client) = client else { continue };
            let (steps, shared) = (Arc::clone(&steps), Arc::clone(&shared));
            thread::spawn(move || {
                let (streams, files) = (Vec::new(), Vec::new());
                let scatter = Scatter::new(number);
                let mut server = Server { shared, scatter, streams, files };
                if let Err(error) = server.answer(client, &steps) {
                    eprintln!("service: {error:#}");
                }
            });
        }
    });
    let session = Session::begin()?;
    while session.going() {
        thread::sleep(LOOK_UP);
    }
    Ok(())
}

/// `names <address> <file>`: answers datagrams as a name server does, but while there is that file.
pub(super) fn names(arguments: &mut Arguments) -> Result<()> {
    set_name("names")?;
    let socket = UdpSocket::bind(arguments.number::<SocketAddr>()?).context("binding")?;
    let silent = PathBuf::from(arguments.text()?);
    socket.set_read_timeout(Some(LOOK_UP))?;
    let session = Session::begin()?;
    let (mut answered, mut message) = (0_u64, [0; MESSAGE]);
    while session.going() {
        if let Ok((length, from)) = socket.recv_from(&mut message)
            && !silent.exists()
        {
            socket.send_to(message.get(..length).unwrap_or_default(), from)?;
            answered += 1;
        }
    }
    report(&format!("answered {answered}"))
}

/// A request as its client felt it: when it was sent (`CLOCK_MONOTONIC`), and how long its answer took, ns.
type Felt = (u64, u64);

/// Asks until the session ends.
fn ask(address: SocketAddr, pause: Duration, session: &Session) -> Result<Vec<Felt>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let (mut felt, mut message) = (Vec::new(), [0; MESSAGE]);
    while session.going() {
        let begin_ns = monotonic_ns()?;
        stream.write_all(&message)?;
        stream.read_exact(&mut message).context("waiting for an answer")?;
        felt.push((begin_ns, monotonic_ns()? - begin_ns));
        thread::sleep(pause);
    }
    Ok(felt)
}

/// `client <address> <log> <connections> <pause us>`: asks a service, and writes a line for each answer: when it asked and how
/// long that took.
pub(super) fn client(arguments: &mut Arguments) -> Result<()> {
    set_name("client")?;
    let address: SocketAddr = arguments.number()?;
    let log = PathBuf::from(arguments.text()?);
    let connections: u64 = arguments.number()?;
    let pause = Duration::from_micros(arguments.number()?);
    let session = Session::begin()?;
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let session = session.clone();
            thread::spawn(move || ask(address, pause, &session))
        })
        .collect();
    let mut lines = String::new();
    let mut answers = 0_u64;
    for client in clients {
        for (begin_ns, length_ns) in client.join().map_err(|_| anyhow!("a client panicked"))?? {
            lines.push_str(&format!("{begin_ns} {length_ns}\n"));
            answers += 1;
        }
    }
    fs::write(&log, lines).with_context(|| format!("writing {}", log.display()))?;
    report(&format!("answers {answers}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_service() {
        let compute = Work::Compute(Duration::from_micros(300));
        let parse = |text: &str| Step::parse(text).unwrap();
        assert_eq!(parse("compute=300"), Step { condition: None, work: compute.clone() });
        assert_eq!(
            parse("unless:/a/b:alone=compute=300"),
            Step { condition: Some(("/a/b".into(), false)), work: Work::Alone(Box::new(compute)) }
        );
        assert_eq!(parse("read=/a,4").work, Work::Read("/a".into(), 4));
        for wrong in ["compute", "compute=x", "sing=1", "if:/a", "read=/a", "ask=nowhere"] {
            assert!(Step::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!parse("if:/nowhere/at/all:nap=1").applies());
        assert!(parse("unless:/nowhere/at/all:nap=1").applies());
    }
}
