//! `noised incidents`: what was unusual, by whom, and what can be done about it.

mod export;
mod page;
mod show;
pub mod since;
mod source;

use std::path::PathBuf;

use jiff::Timestamp;
use noise_serve::{IncidentsDocument, OutliersDocument};
use noise_wire::WebClient;

use self::show::ShowArgs;
use self::since::Since;
use self::source::{IncidentSource, Listing, Place};
use super::top::Connect;
use crate::cli::{CommandError, output};

/// Arguments of `noised incidents`.
#[derive(Debug, clap::Args)]
pub struct IncidentsArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Only what was not over by then: a duration that goes back from now (90s, 10m, 2h, 3d), or a
    /// time (2026-11-21T09:00:00Z; UTC where it names no offset).
    #[arg(long, value_name = "DURATION|TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// Show single long waits, with what they consist of, instead.
    #[arg(long)]
    outliers: bool,
    /// Query this daemon: its socket, or its address (http://HOST:PORT, https://…)
    /// [default: /run/noised/noised.sock; where none answers there, 127.0.0.1:19435, then the state
    /// directory].
    #[arg(long, global = true, value_name = "SOCKET|URL")]
    connect: Option<Connect>,
    /// Query the daemon at this address, with https:// in front of it over TLS.
    #[arg(long = "web.address", global = true, value_name = "HOST:PORT")]
    #[arg(value_parser = source::address, conflicts_with = "connect")]
    web_address: Option<String>,
    /// How to log in to a daemon: basic_auth and tls_config as in the file of
    /// `promtool --http.config.file` (YAML).
    #[arg(long = "http.config.file", global = true, value_name = "FILE")]
    http_config_file: Option<PathBuf>,
    /// Read what a daemon left in this directory [default: /var/lib/noised]; with --connect or
    /// --web.address, only where none answers.
    #[arg(long = "state.directory", global = true, value_name = "DIRECTORY")]
    state_directory: Option<PathBuf>,
}

/// What to do with one incident.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show one incident, and what was kept of the moment when it opened.
    Show(ShowArgs),
}

/// Runs the command.
///
/// # Errors
/// Where there is no daemon and no state, or neither can be understood.
pub fn run(args: &IncidentsArgs) -> Result<(), CommandError> {
    let client = WebClient::read(args.http_config_file.as_deref())?;
    let place = match (&args.connect, &args.web_address) {
        (Some(Connect::Socket(path)), _) => Some(Place::Socket(path.clone())),
        (Some(Connect::Http(address)), _) => Some(Place::Web(address.clone())),
        (None, Some(address)) => Some(Place::Web(address.clone())),
        (None, None) => None,
    };
    let source = IncidentSource::new(place, args.state_directory.clone(), client);
    match &args.command {
        Some(Command::Show(_)) if args.outliers || args.since.is_some() => {
            Err(CommandError::misused("--since and --outliers are about all incidents, not one"))
        }
        Some(Command::Show(show)) => show::run(show, args.json, &source),
        None => Ok(list(args, &source)?),
    }
}

fn list(args: &IncidentsArgs, source: &IncidentSource) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let from = args.since.as_ref().map(|since| since.from(now)).transpose()?;
    let is_shown = |end: Timestamp| from.is_none_or(|from| end >= from);
    if args.outliers {
        let mut outliers = source.outliers()?;
        outliers.retain(|outlier| is_shown(outlier.time));
        match args.json {
            true => output::print_json(&json(&OutliersDocument::new(outliers))?),
            false => output::print(&page::outliers(&outliers)),
        }
    } else {
        let Listing { mut incidents, mut traces } = source.incidents()?;
        incidents.retain(|report| report.open || is_shown(report.end()));
        traces.retain(|trace| incidents.iter().any(|report| report.id == trace.incident));
        match args.json {
            true => output::print_json(&json(&IncidentsDocument::new(incidents, traces))?),
            false => output::print(&page::incidents(&incidents, &traces)),
        }
    }
}

fn json(document: &impl serde::Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|text| text + "\n")
}

/// Writes a small recording of ours, for tests of what reads recordings.
#[cfg(test)]
pub fn exported(path: &std::path::Path) {
    export::export(&crate::kept::file::made::file(), path).unwrap();
}
