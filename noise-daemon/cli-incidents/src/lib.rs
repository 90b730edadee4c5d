//! `noised incidents`: what was unusual, by whom, and what can be done about it.
//! Its arguments, where incidents are read from, and following them.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]

mod follow;
mod show;
mod source;
mod subjects;

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use noise_client::connect::Connect;
use noise_command::{CommandError, output};
use noise_pages::incidents::list::list;
use noise_pages::incidents::outliers;
use noise_pages::width::columns;
use noise_text::times::Moment;
use noise_why::target::Target;
use noise_wire::WebClient;

use self::show::ShowArgs;
use self::source::{DaemonPlace, IncidentSource};
use self::subjects::Subjects;
use noise_command::durations::bound;

/// Arguments of `noised incidents`.
#[derive(Debug, clap::Args)]
pub struct IncidentsArgs {
    #[command(subcommand)]
    command: Option<IncidentsCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Only what was not over by then: how long ago (90s, 10m, 2h, 3d), or a time (14:03,
    /// 2026-11-21 09:00:00, 2026-11-21T09:00:00Z; local where it names no zone).
    #[arg(long, value_name = "DURATION|TIME", value_parser = Moment::of_past)]
    since: Option<Moment>,
    /// Only what began by then, as --since has it.
    #[arg(long, value_name = "DURATION|TIME", value_parser = Moment::of_past)]
    until: Option<Moment>,
    /// Show single long waits, with what they consist of, instead.
    #[arg(long)]
    outliers: bool,
    /// Only those of this name (web.service, web, `vda read`), whether an incident is about it or it joined; may be given
    /// several times.
    #[arg(long, value_name = "NAME", value_parser = subjects::parse)]
    subject: Vec<String>,
    /// Print incidents as they open, change and close, until an interrupt.
    #[arg(long, conflicts_with_all = ["since", "until", "outliers", "state_directory"])]
    pub follow: bool,
    /// Run this command through `/bin/sh -c` with each incident that opens or closes as JSON on its standard input,
    /// one at a time.
    #[arg(long, value_name = "COMMAND", requires = "follow", value_parser = follow::command)]
    exec: Option<String>,
    /// How long the command may take (500ms, 10s, 2m), before it is ended with all that it started.
    #[arg(long, value_name = "DURATION", requires = "exec", default_value = "10s")]
    #[arg(value_parser = follow::timeout)]
    exec_timeout: Duration,
    /// Query this daemon: its socket, or its address (http://HOST:PORT, https://…)
    /// [default: /run/noised/noised.sock; where none answers there, the state directory is read].
    #[arg(long, global = true, value_name = "SOCKET|URL")]
    connect: Option<Connect>,
    /// Query the daemon at this address, with https:// in front of it over TLS.
    #[arg(long = "web.address", global = true, value_name = "HOST:PORT")]
    #[arg(value_parser = source::address, conflicts_with = "connect")]
    web_address: Option<String>,
    /// How to log in to a daemon: basic_auth and tls_config as in the file of `promtool --http.config.file` (YAML).
    #[arg(long = "http.config.file", global = true, value_name = "FILE")]
    http_config_file: Option<PathBuf>,
    /// Read what a daemon left in this directory [default: /var/lib/noised]; with --connect or
    /// --web.address, only where none answers.
    #[arg(long = "state.directory", global = true, value_name = "DIRECTORY")]
    state_directory: Option<PathBuf>,
}

/// What to do with one incident.
#[derive(Debug, clap::Subcommand)]
enum IncidentsCommand {
    /// Show one incident, and what was kept of the moment when it opened.
    Show(ShowArgs),
}

/// Errors: where there is no daemon and no state, or neither can be understood.
pub fn run(args: &IncidentsArgs) -> Result<(), CommandError> {
    let client = WebClient::read(args.http_config_file.as_deref())?;
    let place = match (&args.connect, &args.web_address) {
        (Some(Connect::Socket(path)), _) => Some(DaemonPlace::Socket(path.clone())),
        (Some(Connect::Http(address)), _) => Some(DaemonPlace::Web(address.clone())),
        (None, Some(address)) => Some(DaemonPlace::Web(address.clone())),
        (None, None) => None,
    };
    let source = IncidentSource::new(place, args.state_directory.clone(), client);
    match &args.command {
        Some(IncidentsCommand::Show(_)) if args.is_about_all() => Err(CommandError::misused(
            "--since, --until, --outliers, --subject and --follow are about all incidents, not one",
        )),
        Some(IncidentsCommand::Show(show)) => show::run(show, args.json, &source),
        None if args.follow => Ok(follow::follow(args.following(), &source)?),
        None => list_all(args, &source),
    }
}

impl IncidentsArgs {
    fn is_about_all(&self) -> bool {
        self.outliers
            || self.since.is_some()
            || self.until.is_some()
            || self.follow
            || !self.subject.is_empty()
    }

    fn subjects(&self) -> Subjects {
        Subjects(self.subject.clone())
    }

    fn following(&self) -> follow::Options {
        let exec = self.exec.clone().map(|command| (command, self.exec_timeout));
        follow::Options { subjects: self.subjects(), is_json: self.json, exec }
    }
}

fn list_all(args: &IncidentsArgs, source: &IncidentSource) -> Result<(), CommandError> {
    let now = Zoned::now();
    let from = args.since.as_ref().map(|since| bound("--since", since, &now)).transpose()?;
    let to = args.until.as_ref().map(|until| bound("--until", until, &now)).transpose()?;
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(CommandError::misused("--until lies before --since: give a later time"));
    }
    let is_shown = |start: Timestamp, end: Timestamp| {
        from.is_none_or(|from| end >= from) && to.is_none_or(|to| start <= to)
    };
    let subjects = args.subjects();
    if args.outliers {
        let mut document = source.outliers()?;
        let known = document.outliers.iter().map(|outlier| &*outlier.wait.victim);
        let known: Vec<&str> = known.collect();
        subjects.ensure_known("long wait", &known, is_on_this_host).map_err(anyhow::Error::from)?;
        document.outliers.retain(|outlier| {
            is_shown(outlier.time, outlier.time) && subjects.include(&outlier.wait.victim)
        });
        match args.json {
            true => output::print_document(&document)?,
            false => output::print(&outliers(&document, &TimeZone::system()))?,
        }
    } else {
        let mut listing = source.incidents()?;
        let episodes = listing.incidents.iter().flat_map(|report| report.episodes());
        let known: Vec<&str> = episodes.map(|episode| &*episode.subject).collect();
        subjects.ensure_known("incident", &known, is_on_this_host).map_err(anyhow::Error::from)?;
        listing.retain(|report| {
            let end = if report.open { Timestamp::MAX } else { report.end() };
            is_shown(report.start(), end) && subjects.have(report)
        });
        match args.json {
            true => output::print_document(&listing.document())?,
            false => {
                let incidents = listing.incidents.iter().map(|report| &**report);
                let zone = TimeZone::system();
                output::print(&list(incidents, now.timestamp(), &zone, columns()))?;
            }
        }
    }
    Ok(())
}

/// Whether this host has a cgroup, disk or interface of that name.
fn is_on_this_host(name: &str) -> bool {
    let device = name.split(' ').next().unwrap_or_default();
    let is_device = !device.is_empty() && !device.contains('/') && device != "." && device != "..";
    let classes = ["/sys/class/block", "/sys/class/net"];
    is_device && classes.iter().any(|class| Path::new(class).join(device).exists())
        || Target::find(name).is_ok()
}
