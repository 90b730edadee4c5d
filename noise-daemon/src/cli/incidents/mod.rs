//! `noised incidents`: what was unusual, by whom, and what can be done about it.

mod page;
pub mod since;
mod source;

use std::path::PathBuf;

use jiff::Timestamp;
use noise_serve::{IncidentsDocument, OutliersDocument};
use noise_wire::WebClient;

use self::since::Since;
use self::source::{IncidentSource, Place};
use super::top::Connect;
use crate::cli::output;

/// Arguments of `noised incidents`.
#[derive(Debug, clap::Args)]
pub struct IncidentsArgs {
    /// Print JSON.
    #[arg(long)]
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
    #[arg(long, value_name = "SOCKET|URL")]
    connect: Option<Connect>,
    /// Query the daemon at this address, with https:// in front of it over TLS.
    #[arg(long = "web.address", value_name = "HOST:PORT", value_parser = source::address)]
    #[arg(conflicts_with = "connect")]
    web_address: Option<String>,
    /// How to log in to a daemon: basic_auth and tls_config as in the file of
    /// `promtool --http.config.file` (YAML).
    #[arg(long = "http.config.file", value_name = "FILE")]
    http_config_file: Option<PathBuf>,
    /// Read what a daemon left in this directory [default: /var/lib/noised]; with --connect or
    /// --web.address, only where none answers.
    #[arg(long = "state.directory", value_name = "DIRECTORY")]
    state_directory: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Where there is no daemon and no state, or neither can be understood.
pub fn run(args: &IncidentsArgs) -> anyhow::Result<()> {
    let client = WebClient::read(args.http_config_file.as_deref())?;
    let place = match (&args.connect, &args.web_address) {
        (Some(Connect::Socket(path)), _) => Some(Place::Socket(path.clone())),
        (Some(Connect::Http(address)), _) => Some(Place::Web(address.clone())),
        (None, Some(address)) => Some(Place::Web(address.clone())),
        (None, None) => None,
    };
    let source = IncidentSource::new(place, args.state_directory.clone(), client);
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
        let mut incidents = source.incidents()?;
        incidents.retain(|report| report.open || is_shown(report.end()));
        match args.json {
            true => output::print_json(&json(&IncidentsDocument::new(incidents))?),
            false => output::print(&page::incidents(&incidents)),
        }
    }
}

fn json(document: &impl serde::Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|text| text + "\n")
}
