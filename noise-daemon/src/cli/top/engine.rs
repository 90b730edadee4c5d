//! `noised top` without a daemon: this process loads the programs, for as long as it runs.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use noise_analysis::Settings;
use noise_client::{FrameSource, Mailbox, News};
use noise_command::CommandError;
use noise_host::collect::Collector;
use noise_host::kernel::{Engine, KernelError, LoadOptions};
use noise_host::resolve::read_host;
use noise_model::{Host, Longest};
use noise_wire::Frame;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::cli::watching::Watching;
use crate::pipeline::{Beat, Occasion, Pipeline, SAMPLE_EVERY, Subscription};

/// Why this process cannot measure by itself.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl From<OpenError> for CommandError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Kernel(error) => error.into(),
            OpenError::Failed(error) => error.into(),
        }
    }
}

/// Frames of what this process measures. Dropping it detaches the programs.
#[derive(Debug)]
pub struct EngineSource {
    news: Arc<Mailbox>,
    /// Ends the thread when it is dropped.
    interval: Option<mpsc::UnboundedSender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl EngineSource {
    /// Loads and attaches the programs, and begins to measure.
    /// Errors: where this kernel or these privileges cannot do it. Nothing is left attached.
    pub fn start(interval: Duration) -> Result<Self, OpenError> {
        let news = Arc::new(Mailbox::default());
        let (sender, commands) = mpsc::unbounded_channel();
        let (started, starting) = std_mpsc::channel();
        let mailbox = Arc::clone(&news);
        let thread = thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || match attach() {
                Ok((collector, watching)) => {
                    let _ = started.send(Ok(()));
                    if let Err(error) = run(collector, watching, &mailbox, interval, commands) {
                        mailbox.put(News::Trouble(format!("measuring has ended: {error:#}")));
                    }
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            })
            .context("cannot start a thread")?;
        let source = Self { news, interval: Some(sender), thread: Some(thread) };
        starting.recv().context("the thread that measures ended early")??;
        Ok(source)
    }
}

fn attach() -> Result<(Collector, Watching), OpenError> {
    let mut engine = Engine::load(&LoadOptions::default())?;
    engine.attach()?;
    // What parsing the type information took.
    noise_system::memory::give_back();
    let collector = Collector::new(engine)?;
    Ok((collector, Watching::start(Settings::default(), None)?))
}

struct Measuring<'a> {
    pipeline: Pipeline,
    watching: Rc<Subscription<Watching>>,
    longest: Rc<Subscription<Longest>>,
    host: Arc<Host>,
    /// The time of the last frame's sample, ns.
    shown_ns: u64,
    news: &'a Mailbox,
}

/// A timer that ticks after one interval first.
fn timer(interval: Duration) -> Interval {
    let mut timer = tokio::time::interval_at(Instant::now() + interval, interval);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}

/// Measures until the other end of the commands is gone.
fn run(
    collector: Collector,
    watching: Watching,
    news: &Mailbox,
    interval: Duration,
    commands: mpsc::UnboundedReceiver<Duration>,
) -> anyhow::Result<()> {
    let runtime = noise_client::runtime().context("cannot start the runtime")?;
    runtime.block_on(async {
        let measuring = Measuring::new(collector, watching, news)?;
        measuring.measure(interval, commands).await
    })
}

impl<'a> Measuring<'a> {
    fn new(collector: Collector, watching: Watching, news: &'a Mailbox) -> anyhow::Result<Self> {
        let beat = Beat::every(SAMPLE_EVERY).context("cannot create the sampling timer")?;
        let mut pipeline = Pipeline::new(collector, beat)?;
        let watching = pipeline.subscribe(watching);
        let longest = pipeline.subscribe(Longest::default());
        let host = Arc::new(read_host(Path::new("/")));
        Ok(Self { pipeline, watching, longest, host, shown_ns: 0, news })
    }

    async fn measure(
        mut self,
        interval: Duration,
        mut commands: mpsc::UnboundedReceiver<Duration>,
    ) -> anyhow::Result<()> {
        let mut frames = timer(interval);
        self.show();
        loop {
            tokio::select! {
                published = self.pipeline.turn() => {
                    if published?.is_some() {
                        self.look();
                    }
                }
                _ = frames.tick() => self.show(),
                command = commands.recv() => match command {
                    Some(interval) => frames = timer(interval),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Looks at the host beside incidents, after each beat.
    fn look(&mut self) {
        self.watching.current().look(&mut |label| self.pipeline.cgroup_path(label));
    }

    fn show(&mut self) {
        self.longest.current().ask();
        let published = self.pipeline.sample(|_| {});
        if published.occasion == Occasion::Beat {
            self.look();
        }
        let sample = self.longest.current().raised(&published.sample, self.shown_ns);
        let overview = self.watching.current().overview();
        self.shown_ns = sample.at_ns;
        let (time, host) = (Timestamp::now(), Arc::clone(&self.host));
        self.news.put(News::Frame(Arc::new(Frame { time, host, sample, overview, trends: None })));
    }
}

impl FrameSource for EngineSource {
    fn name(&self) -> String {
        "no daemon found: measuring from now on".to_owned()
    }

    fn poll(&mut self, timeout: Duration) -> Option<News> {
        self.news.take(timeout)
    }

    fn set_interval(&mut self, interval: Duration) {
        if let Some(sender) = &self.interval {
            // A thread that has ended has reported why.
            let _ = sender.send(interval);
        }
    }
}

impl Drop for EngineSource {
    fn drop(&mut self) {
        self.interval = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has detached as well.
            let _ = thread.join();
        }
    }
}
