//! The daemon once it measures: drives the pipeline, answers requests, and reads its configuration
//! again on SIGHUP.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use noise_analysis::Stops;
use noise_host::kernel::Sizes;
use noise_measure::osnoise::Duty;
use noise_model::{Builder, Longest, Reload};
use noise_serve::victim::{Inquiry, VictimDocument};
use noise_serve::{Budget, Refused, ShownPages, Viewer, Web};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;

use super::logging::Log;
use super::service::Service;
use crate::cli::watching::{Watching, now_s};
use crate::config::{Config, Flags, applied, changes, load};
use crate::pipeline::{Occasion, Pipeline, Subscription};

/// Windows in one sample while the host is calm: fewer samples cost less CPU time. A disturbance is noticed up to a window later.
const WINDOWS_WHEN_CALM: u32 = 2;

pub struct ConfigSource {
    /// The file; `None` = the usual one, which was not there at the start.
    pub file: Option<PathBuf>,
    /// What comes before it.
    pub flags: Flags,
}

/// What came of a configuration that was applied.
struct Applied {
    /// It names another web file than the one in force.
    moves_web_file: bool,
}

/// Everything that measures, in one place.
pub struct Daemon {
    pub pipeline: Pipeline,
    /// The host's dimensions when maps were made.
    pub sizes: Sizes,
    pub metrics: Rc<Subscription<Builder>>,
    pub watching: Rc<Subscription<Watching>>,
    pub longest: Rc<Subscription<Longest>>,
    pub stops: Rc<Subscription<Stops>>,
    pub duty: Option<Duty>,
    pub web: Web,
    pub log: Log,
    pub service: Service,
    /// The addresses of the server.
    pub listening: Vec<IpAddr>,
    pub source: ConfigSource,
    pub config: Config,
    pub reload: Reload,
    /// Why the latest reload was refused.
    pub refused: Refused,
    /// Budget of CPU time from which samples for clients are paid.
    pub budget: Budget,
}

impl Daemon {
    /// Works until the future is dropped.
    /// Errors: those of [`Pipeline::turn`].
    pub async fn work(
        &mut self,
        mut asked: mpsc::Receiver<Viewer>,
        mut inquiries: mpsc::Receiver<Inquiry>,
        mut hangup: Signal,
    ) -> anyhow::Result<()> {
        self.service.ready(&self.status());
        loop {
            let mut waiting = Vec::new();
            tokio::select! {
                published = self.pipeline.turn() => {
                    if published?.is_some() {
                        self.after_beat();
                    }
                    continue;
                }
                _ = hangup.recv() => {
                    self.reload();
                    continue;
                }
                Some(inquiry) = inquiries.recv() => {
                    let mut waiting = vec![inquiry];
                    while let Ok(inquiry) = inquiries.try_recv() {
                        waiting.push(inquiry);
                    }
                    let budget = self.budget.clone();
                    budget.spend(|| self.inform(waiting));
                    continue;
                }
                Some(viewer) = asked.recv() => {
                    waiting.push(viewer);
                    while let Ok(viewer) = asked.try_recv() {
                        waiting.push(viewer);
                    }
                }
            }
            let budget = self.budget.clone();
            budget.spend(|| self.show(waiting));
        }
    }

    /// Publishes a sample for the waiting requests, and answers them.
    fn show(&mut self, waiting: Vec<Viewer>) {
        if waiting.iter().any(|viewer| viewer.since_ns.is_some()) {
            self.longest.current().ask();
        }
        self.sample();
        let model = self.metrics.current().model();
        let overview = self.watching.current().overview();
        let shown = Arc::new(ShownPages { model, overview });
        let longest = self.longest.current();
        for Viewer { reply, since_ns } in waiting {
            let mut shown = Arc::clone(&shown);
            if let Some(since_ns) = since_ns {
                let ShownPages { model, .. } = Arc::make_mut(&mut shown);
                model.sample = longest.raised(&model.sample, since_ns);
            }
            // A client that went away does not want its answer.
            let _ = reply.send(shown);
        }
    }

    fn sample(&mut self) {
        let next = self.config.recorder_after_restart(self.watching.current().busiest());
        let next_bytes = next.map_or(0, |size| self.sizes.store(size).bytes());
        let published = self.pipeline.sample(|sample| {
            sample.noise = self.duty.as_ref().map(Duty::noise).unwrap_or_default();
            sample.reload = self.reload;
            if let Some(recorder) = &mut sample.recorder {
                recorder.next_bytes = next_bytes;
            }
        });
        if published.occasion == Occasion::Beat {
            self.after_beat();
        }
    }

    /// What is done once for each beat.
    fn after_beat(&mut self) {
        let mut watching = self.watching.current();
        watching.look(&mut |label| self.pipeline.cgroup_path(label));
        let windows = if watching.is_calm() { WINDOWS_WHEN_CALM } else { 1 };
        drop(watching);
        self.pipeline.set_pace(windows);
        self.service.alive();
        self.web.remind();
    }

    /// Answers what is known of victims, up to now where their latest time is asked for.
    fn inform(&mut self, waiting: Vec<Inquiry>) {
        if waiting.iter().any(|inquiry| inquiry.since_ns.is_some()) {
            self.sample();
        }
        let (stops, watching) = (self.stops.current(), self.watching.current());
        for Inquiry { cgroups, since_ns, reply } in waiting {
            let stopped = since_ns.and_then(|since_ns| stops.since(&cgroups, since_ns));
            let pressure = since_ns.and_then(|since_ns| watching.pressure(&cgroups, since_ns));
            // A client that went away does not want its answer.
            let _ = reply.send(VictimDocument::new(watching.usual(&cgroups), stopped, pressure));
        }
    }

    /// What the service manager shows.
    fn status(&self) -> String {
        let hooks = self.pipeline.hooks();
        let attached = hooks.iter().filter(|status| status.is_attached()).count();
        let address = &self.config.web.listen_address;
        let reload = if self.reload.failed { "; the last reload failed, see the log" } else { "" };
        format!("{attached} of {} hooks attached, listening on {address}{reload}", hooks.len())
    }

    /// Reads the configuration again and applies what can be. One that is wrong changes nothing; nor
    /// does a web file that is wrong, whatever becomes of the rest.
    fn reload(&mut self) {
        self.service.reloading();
        let configured = load(self.source.file.as_deref(), &self.source.flags)
            .and_then(|configured| {
                if let Some(warning) = configured.warning() {
                    tracing::warn!("{warning}");
                }
                self.apply(configured.config)
            })
            .map_err(|error| {
                self.say_refused("reload failed; keeping the previous configuration", &error)
            });
        let guarded = match configured {
            // Another file is in force from the next start on; this one may be gone.
            Ok(Applied { moves_web_file: true }) => Ok(()),
            _ => self.read_web_file(),
        };
        let refused: Vec<String> = configured.err().into_iter().chain(guarded.err()).collect();
        self.reload = match refused.is_empty() {
            true => Reload { failed: false, read_at_s: now_s() },
            false => Reload { failed: true, ..self.reload },
        };
        self.refused.set((!refused.is_empty()).then(|| refused.join("; ")));
        self.service.ready(&self.status());
    }

    fn read_web_file(&self) -> Result<(), String> {
        let changed = self.web.reload().map_err(|error| {
            self.say_refused("reload of the web file failed; keeping the previous one", &error)
        })?;
        if changed {
            tracing::info!("the web file changed, applied");
        }
        Ok(())
    }

    /// Logs why a reload was refused, and returns it.
    fn say_refused(&self, what: &str, error: &anyhow::Error) -> String {
        let hint = self.hint(error);
        // Mistakes are lines; the log has one line for all.
        let error = format!("{error:#}").replace('\n', "; ");
        tracing::error!("{what}: {error}{hint}");
        format!("{error}{hint}")
    }

    /// What to do about it, where permissions are refused that may well be right.
    fn hint(&self, error: &anyhow::Error) -> &'static str {
        let is_refused = error.chain().any(|cause| {
            let cause = cause.downcast_ref::<io::Error>();
            cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
        });
        match is_refused && self.config.privileges.drop {
            true => {
                "; noised gave up all folders but those that its configuration named at the start: \
                     restart it if this is a new one"
            }
            false => "",
        }
    }

    fn apply(&mut self, config: Config) -> anyhow::Result<Applied> {
        // What may still refuse comes first. What was not applied is logged again with each reload,
        // as long as it differs from what runs.
        let running = applied(&self.config, &config)?;
        let changes = changes(&self.config, &config)?;
        let moves_web_file = config.web.config.file != self.config.web.config.file;
        self.watching.current().set(config.incidents.clone())?;
        self.pipeline.measure(config.measured());
        self.pipeline.describe_cgroups(config.names.labels);
        self.metrics.current().set_limits(config.limits.limits());
        // Where it listens does not change.
        let listens = &running.web;
        self.web.set_hosts(listens.hosts(&self.listening));
        self.log.set(config.log.level);
        let names = |live: bool| -> Vec<String> {
            changes.iter().filter(|key| key.is_live() == live).map(|key| key.path()).collect()
        };
        let (now, later) = (names(true), names(false));
        if changes.is_empty() {
            tracing::info!("configuration unchanged");
        }
        if !now.is_empty() {
            tracing::info!("changed: {}", now.join(", "));
        }
        if !later.is_empty() {
            tracing::warn!("restart required for: {}", later.join(", "));
        }
        self.config = running;
        Ok(Applied { moves_web_file })
    }
}
